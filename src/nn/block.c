/* block.c - forward and backward of one transformer layer. */
#include "nn/block.h"

#include "parallel/tp.h"

#define F(member) offsetof(tx_block, member)

enum {
    BIAS = TX_WITH_BIAS,
    DENSE = TX_WITH_MLP,
    DENSE_BIAS = DENSE | BIAS,
    PRE = TX_WITH_PRE_NORM,
    POST = TX_WITH_POST_NORM,
    PRE_BETA = PRE | TX_WITH_BETA,
    POST_BETA = POST | TX_WITH_BETA,
    QKV_BIAS = TX_WITH_QKV_BIAS,
    QK = TX_WITH_QK_NORM,
    QK_WHOLE = TX_WITH_QK_WHOLE,
    QK_BETA = QK | TX_WITH_BETA
};

/* For tx_at_part: parts that have no parameters of these names, and norms. With post_norm ln1 has ln2's name: it is
 * behind the attention. */
#define LN1       "input_layernorm"
#define LN2       "post_attention_layernorm"
#define POST_LN2  "post_mlp_layernorm"
#define ATTENTION "self_attention.bias_dropout_add"
#define MLP       "mlp.bias_dropout_add"

/* Names and order are Megatron's. Projections that end a residual branch start smaller: GPT-2 §2.3. */
/* clang-format off */
const tx_param_decl tx_block_params[] = {
    { "input_layernorm.weight",                "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln1.gamma),     PRE },
    { "input_layernorm.bias",                  "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln1.beta),      PRE_BETA },
    { "self_attention.query_key_value.weight", "q/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(attn.qkv.w),    0 },
    { "self_attention.query_key_value.bias",   "q/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.qkv.b),    QKV_BIAS },
    { "self_attention.q_layernorm.weight",     "d*",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.q_norm.gamma), QK },
    { "self_attention.q_layernorm.weight",     "a/t",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.q_norm.gamma), QK_WHOLE },
    { "self_attention.q_layernorm.bias",       "d*",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.q_norm.beta),  QK_BETA },
    { "self_attention.k_layernorm.weight",     "d*",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.k_norm.gamma), QK },
    { "self_attention.k_layernorm.weight",     "k/t",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.k_norm.gamma), QK_WHOLE },
    { "self_attention.k_layernorm.bias",       "d*",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.k_norm.beta),  QK_BETA },
    { "self_attention.core_attention.softmax_offset", "n/t", TX_INIT_NORMAL, TX_NO_DECAY, TX_ADDS, F(attn.sink), TX_WITH_SINK },
    { "self_attention.dense.weight",           "h,a/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, F(attn.proj.w),   0 },
    { "self_attention.dense.bias",             "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.proj.b),   BIAS },
    { "post_attention_layernorm.weight",       "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln1.gamma),     POST },
    { "post_attention_layernorm.bias",         "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln1.beta),      POST_BETA },
    { "post_attention_layernorm.weight",       "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln2.gamma),     PRE },
    { "post_attention_layernorm.bias",         "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln2.beta),      PRE_BETA },
    { "mlp.dense_h_to_4h.weight",              "u/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(mlp.h_to_4h.w), DENSE },
    { "mlp.dense_h_to_4h.bias",                "u/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(mlp.h_to_4h.b), DENSE_BIAS },
    { "mlp.dense_4h_to_h.weight",              "h,f/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, F(mlp.to_h.w),    DENSE },
    { "mlp.dense_4h_to_h.bias",                "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(mlp.to_h.b),    DENSE_BIAS },
    { "post_mlp_layernorm.weight",             "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln2.gamma),     POST },
    { "post_mlp_layernorm.bias",               "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln2.beta),      POST_BETA },
};
/* clang-format on */
const int tx_block_n_params = sizeof tx_block_params / sizeof tx_block_params[0];

/* A norm's output, which has the rows of x, in the shape of x. */
static tx_tensor shaped(const tx_norm_saved *a, tx_tensor x)
{
    return tx_tensor3(a->y.data, a->y.dtype, x.dim[0], x.dim[1], x.dim[2]);
}

/* Room for all positions of x, which is one of the layer's: x itself where it has them all. */
static tx_tensor whole_of(const tx_block_call *k, tx_tensor x)
{
    tx_tensor whole = k->lent->whole;
    if (!whole.data) return x;
    return x.n_dims == 2 ? tx_as_rows(whole) : whole;
}

static bool is_scaled(const tx_block_call *k)
{
    return k->branch_scale > 0 && k->branch_scale != 1;
}

static tx_status scale_branch(tx_ctx *c, const tx_block_call *k, tx_tensor z)
{
    if (is_scaled(k)) TX_RUN(c, blend, .y = z, .x = z, .alpha = k->branch_scale);
    return TX_OK;
}

static tx_dropout mask_of(const tx_block *w, const tx_block_call *k, tx_dropout_site site)
{
    return tx_dropout_at(k->dropout, w->p_drop, w->layer, site);
}

/* z = g(attn(f(in))): a branch between its norm and its dropout. */
static tx_status attention_branch(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k, tx_tensor z,
                                  tx_tensor in)
{
    const tx_attention_call attn = { .x = whole_of(k, in),
                                     .y = whole_of(k, z),
                                     .seen = k->seen,
                                     .position = k->position,
                                     .max_logits = k->max_logits,
                                     .dropout = k->dropout,
                                     .kv = k->kv };
    TX_TRY(tx_tp_gather(c, attn.x, in));
    TX_TRY(tx_attention_layer_fwd(c, &w->attn, &a->attn, &attn));
    TX_TRY(tx_tp_sum(c, z, attn.y));
    tx_at_part(c, ATTENTION);
    return scale_branch(c, k, z);
}

/* z = g(mlp(f(in))), likewise.   @in [s b, h] */
static tx_status mlp_branch(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k, tx_tensor z,
                            tx_tensor in)
{
    tx_tensor x = whole_of(k, in), y = tx_as_rows(whole_of(k, z));
    TX_TRY(tx_tp_gather(c, x, in));
    a->mlp.dropout = k->dropout;
    if (w->moe)
        TX_TRY(
            tx_moe_fwd(c, w->moe, &a->moe, &(tx_moe_call){ .x = x, .y = y, .pass = &k->pass, .random = k->dropout }));
    else
        TX_TRY(tx_mlp_fwd(c, &w->mlp, &a->mlp, y, x));
    TX_TRY(tx_tp_sum(c, z, whole_of(k, z)));
    tx_at_part(c, MLP);
    return scale_branch(c, k, z);
}

static tx_status pre_norm_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k)
{
    tx_tensor x = k->x, room = k->lent->branch;
    bool own = x.dtype == w->ln1.gamma.value.dtype; /* then a branch ends where its half's output will be */
    tx_tensor z1 = own ? a->x1 : room, z2 = own ? k->y : room;

    /* 1  ln1 = norm(x)   2  z1 = g(attn(f(ln1)))   3  x1 = x + drop(z1) */
    tx_at_part(c, LN1);
    TX_TRY(tx_norm_fwd(c, &w->ln1, &a->ln1, k->lent->norm, x));
    tx_tensor normed = shaped(&a->ln1, x);
    TX_TRY(attention_branch(c, w, a, k, z1, normed));
    TX_RUN(c, dropout_add_fwd, .y = a->x1, .x = z1, .residual = w->residual_post_norm ? normed : x,
           .mask = mask_of(w, k, TX_DROP_ATTENTION_OUT));
    /* 4  ln2 = norm(x1)   5  z2 = g(mlp(f(ln2)))   6  y = x1 + drop(z2) */
    tx_at_part(c, LN2);
    TX_TRY(tx_norm_fwd(c, &w->ln2, &a->ln2, k->lent->norm, a->x1));
    TX_TRY(mlp_branch(c, w, a, k, z2, a->ln2.y));
    TX_RUN(c, dropout_add_fwd, .y = k->y, .x = z2, .residual = w->residual_post_norm ? shaped(&a->ln2, x) : a->x1,
           .mask = mask_of(w, k, TX_DROP_MLP_OUT));
    return TX_OK;
}

static tx_status post_norm_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k)
{
    tx_tensor x = k->x;
    TX_ASSERT(x.dtype == w->ln1.gamma.value.dtype && !w->residual_post_norm);
    a->x2 = tx_push3(&c->acts, x.dtype, x.dim[0], x.dim[1], x.dim[2]);

    /* 1  x1 = g(attn(f(x)))   2  x1 = x + drop(x1)   3  ln1 = norm(x1) */
    TX_TRY(attention_branch(c, w, a, k, a->x1, x));
    TX_RUN(c, dropout_add_fwd, .y = a->x1, .x = a->x1, .residual = x, .mask = mask_of(w, k, TX_DROP_ATTENTION_OUT));
    tx_at_part(c, LN2);
    TX_TRY(tx_norm_fwd(c, &w->ln1, &a->ln1, k->lent->norm, a->x1));
    /* 4  x2 = g(mlp(f(ln1)))   5  x2 = ln1 + drop(x2)   6  y = norm(x2) */
    TX_TRY(mlp_branch(c, w, a, k, a->x2, a->ln1.y));
    TX_RUN(c, dropout_add_fwd, .y = a->x2, .x = a->x2, .residual = shaped(&a->ln1, x),
           .mask = mask_of(w, k, TX_DROP_MLP_OUT));
    tx_at_part(c, POST_LN2);
    return tx_norm_fwd(c, &w->ln2, &a->ln2, tx_as_rows(k->y), a->x2);
}

tx_status tx_block_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k)
{
    tx_tensor x = k->x;
    a->x1 = tx_push3(&c->acts, x.dtype, x.dim[0], x.dim[1], x.dim[2]);
    tx_at_layer(c, w->layer);
    TX_TRY((w->post_norm ? post_norm_fwd : pre_norm_fwd)(c, w, a, k));
    tx_at_layer(c, 0);
    return TX_OK;
}

/* Room that both branches' backward uses in turn: what is dropped, and the gradient of what went in. */
typedef struct branch_rooms {
    tx_tensor dropped, dn; /* [s, b, h] */
} branch_rooms;

/* The gradient that enters a branch after its dropout: d itself when nothing is dropped and the stream's dtype is the
 * branch's. */
static tx_status branch_gradient(tx_ctx *c, tx_tensor *out, tx_tensor scratch, const tx_block_call *k, tx_dropout mask)
{
    tx_tensor d = k->d;
    bool other = mask.drop || scratch.dtype != d.dtype || is_scaled(k);
    *out = other ? scratch : d;
    if (mask.drop) {
        TX_RUN(c, dropout_add_bwd, .dx = scratch, .dy = d, .mask = mask);
        return scale_branch(c, k, scratch);
    }
    if (is_scaled(k))
        TX_RUN(c, blend, .y = scratch, .x = d, .alpha = k->branch_scale);
    else if (other)
        TX_RUN(c, cast, .y = scratch, .x = d);
    return TX_OK;
}

/* What a branch's backward takes: the whole of db, and the whole of the branch's input once more; where sequence
 * parallelism splits them, dn, what it gives, is the whole of db's memory. */
static tx_status enter_bwd(tx_ctx *c, const tx_block_call *k, tx_tensor db, tx_tensor normed, tx_tensor *whole_normed)
{
    *whole_normed = tx_tp_room(c, &c->acts, normed);
    TX_TRY(tx_tp_gather(c, whole_of(k, db), db));
    return tx_tp_gather(c, *whole_normed, normed);
}

/* Half a layer in backward: its norm, and the norm's input x. */
typedef struct half {
    const tx_norm *norm;
    const tx_norm_saved *saved;
    tx_tensor x;
} half;

/* From the gradient d of a half's output and dn, of what went into its branch, to d of the half's input: the residual
 * joins after the norm's backward, or before it where the residual is the norm's output. */
static tx_status join(tx_ctx *c, const tx_block *w, half of, tx_tensor d, tx_tensor dn)
{
    tx_norm_gradient g = { .d = d, .dy = dn, .dres = d };
    if (w->residual_post_norm) {
        TX_RUN(c, add, .y = dn, .a = dn, .b = d);
        g.dres = (tx_tensor){ 0 };
    }
    return tx_norm_bwd(c, of.norm, of.saved, g, of.x);
}

/* dn = f'(mlp'(g'(drop'(d))))   @in what the forward's branch took */
static tx_status mlp_branch_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k,
                                const branch_rooms *r, tx_tensor in)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor db, x, dx = tx_as_rows(whole_of(k, r->dn));
    tx_at_part(c, MLP);
    TX_TRY(branch_gradient(c, &db, r->dropped, k, mask_of(w, k, TX_DROP_MLP_OUT)));
    TX_TRY(enter_bwd(c, k, db, in, &x));
    tx_tensor dy = tx_as_rows(whole_of(k, db));
    if (w->moe)
        TX_TRY(tx_moe_bwd(c, w->moe, &a->moe,
                          &(tx_moe_call){ .x = x, .dx = dx, .dy = dy, .pass = &k->pass, .random = k->dropout }));
    else {
        tx_mlp_saved mlp = a->mlp;
        mlp.dropout = k->dropout; /* forward's may be gone */
        TX_TRY(tx_mlp_bwd(c, &w->mlp, &mlp, dx, dy, x));
    }
    TX_TRY(tx_tp_sum(c, r->dn, whole_of(k, r->dn)));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* dn = f'(attn'(g'(drop'(d)))) */
static tx_status attention_branch_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k,
                                      const branch_rooms *r, tx_tensor in)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor db;
    tx_attention_call attn = {
        .dx = whole_of(k, r->dn), .seen = k->seen, .position = k->position, .dropout = k->dropout
    };
    tx_at_part(c, ATTENTION);
    TX_TRY(branch_gradient(c, &db, r->dropped, k, mask_of(w, k, TX_DROP_ATTENTION_OUT)));
    TX_TRY(enter_bwd(c, k, db, in, &attn.x));
    attn.dy = whole_of(k, db);
    TX_TRY(tx_attention_layer_bwd(c, &w->attn, &a->attn, &attn));
    TX_TRY(tx_tp_sum(c, r->dn, attn.dx));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

static tx_status pre_norm_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k,
                              const branch_rooms *r)
{
    bool again = k->lent->norm.data; /* both norms wrote there, and other layers since */
    half first = { &w->ln1, &a->ln1, k->x }, second = { &w->ln2, &a->ln2, a->x1 };
    /* 6, 5  dn   4  d += norm'(dn) */
    tx_at_part(c, LN2);
    if (again) TX_TRY(tx_norm_again(c, &w->ln2, &a->ln2, a->x1));
    TX_TRY(mlp_branch_bwd(c, w, a, k, r, a->ln2.y));
    tx_at_part(c, LN2);
    TX_TRY(join(c, w, second, k->d, r->dn));
    /* 3, 2  dn   1  d += norm'(dn) */
    if (again) TX_TRY(tx_norm_again(c, &w->ln1, &a->ln1, k->x));
    TX_TRY(attention_branch_bwd(c, w, a, k, r, shaped(&a->ln1, k->d)));
    tx_at_part(c, LN1);
    return join(c, w, first, k->d, r->dn);
}

static tx_status post_norm_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k,
                               const branch_rooms *r)
{
    tx_tensor d = k->d;
    const tx_norm_gradient in_place = { .d = d, .dy = d };
    /* 6  d = norm'(d)   5, 4  d += dn */
    tx_at_part(c, POST_LN2);
    TX_TRY(tx_norm_bwd(c, &w->ln2, &a->ln2, in_place, a->x2));
    tx_at_part(c, LN2);
    if (k->lent->norm.data) TX_TRY(tx_norm_again(c, &w->ln1, &a->ln1, a->x1));
    TX_TRY(mlp_branch_bwd(c, w, a, k, r, a->ln1.y));
    TX_RUN(c, add, .y = d, .a = r->dn, .b = d);
    /* 3  d = norm'(d)   2, 1  d += dn */
    tx_at_part(c, LN2);
    TX_TRY(tx_norm_bwd(c, &w->ln1, &a->ln1, in_place, a->x1));
    TX_TRY(attention_branch_bwd(c, w, a, k, r, k->x));
    TX_RUN(c, add, .y = d, .a = r->dn, .b = d);
    return TX_OK;
}

tx_status tx_block_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k)
{
    int64_t s = k->d.dim[0], b = k->d.dim[1], h = k->d.dim[2];
    tx_dtype t = w->ln1.gamma.value.dtype;
    size_t mark = tx_arena_mark(&c->acts);
    const branch_rooms r = { .dropped = tx_push3(&c->acts, t, s, b, h), .dn = tx_push3(&c->acts, t, s, b, h) };
    tx_at_layer(c, w->layer);
    TX_TRY((w->post_norm ? post_norm_bwd : pre_norm_bwd)(c, w, a, k, &r));
    tx_at_layer(c, 0);
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
