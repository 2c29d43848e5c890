/* block.c - forward and backward of one transformer layer. A half is data, the norms that it has, so that one function
 * runs all of them; what is in front is how a layer puts its two halves together. */
#include "nn/block.h"

#include "nn/wgrad_store.h"
#include "parallel/tp.h"

#define F(member) offsetof(tx_block, member)

enum {
    DENSE = TX_WITH_MLP,
    DENSE_BIAS = DENSE | TX_WITH_BIAS,
    ATTENTION_BIAS = TX_WITH_DENSE_BIAS,
    BETA = TX_WITH_BETA,
    PRE = TX_WITH_PRE_NORM,
    MLP_PRE = TX_WITH_MLP_NORM,
    POST = TX_WITH_POST_NORM,
    OUT = TX_WITH_OUT_NORMS,
    QKV_BIAS = TX_WITH_QKV_BIAS,
    QK = TX_WITH_QK_NORM,
    QK_WHOLE = TX_WITH_QK_WHOLE
};

/* For tx_at_part: parts that have no parameters of these names, and norms. With post_norm ln1 has ln2's name: it is
 * behind the attention. */
#define LN1       "input_layernorm"
#define LN2       "post_attention_layernorm"
#define POST_LN2  "post_mlp_layernorm"
#define OUT1      "attention_output_layernorm"
#define OUT2      "mlp_output_layernorm"
#define ATTENTION "self_attention.bias_dropout_add"
#define MLP       "mlp.bias_dropout_add"

/* Names and order are Megatron's, but for norms of outputs. Projections that end a residual branch start smaller:
 * GPT-2 §2.3. */
/* clang-format off */
const tx_param_decl tx_block_params[] = {
    { "input_layernorm.weight",                "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln1.gamma),     PRE },
    { "input_layernorm.bias",                  "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln1.beta),      PRE | BETA },
    { "self_attention.query_key_value.weight", "q/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(attn.qkv.w),    0 },
    { "self_attention.query_key_value.bias",   "q/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.qkv.b),    QKV_BIAS },
    { "self_attention.q_layernorm.weight",     "d*",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.q_norm.gamma), QK },
    { "self_attention.q_layernorm.weight",     "a/t",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.q_norm.gamma), QK_WHOLE },
    { "self_attention.q_layernorm.bias",       "d*",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.q_norm.beta),  QK | BETA },
    { "self_attention.k_layernorm.weight",     "d*",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.k_norm.gamma), QK },
    { "self_attention.k_layernorm.weight",     "k/t",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(attn.k_norm.gamma), QK_WHOLE },
    { "self_attention.k_layernorm.bias",       "d*",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.k_norm.beta),  QK | BETA },
    { "self_attention.core_attention.softmax_offset", "n/t", TX_INIT_NORMAL, TX_NO_DECAY, TX_ADDS, F(attn.sink), TX_WITH_SINK },
    { "self_attention.dense.weight",           "h,a/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, F(attn.proj.w),   0 },
    { "self_attention.dense.bias",             "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.proj.b),   ATTENTION_BIAS },
    { "attention_output_layernorm.weight",     "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(out1.gamma),    OUT },
    { "attention_output_layernorm.bias",       "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(out1.beta),     OUT | BETA },
    { "post_attention_layernorm.weight",       "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln1.gamma),     POST },
    { "post_attention_layernorm.bias",         "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln1.beta),      POST | BETA },
    { "post_attention_layernorm.weight",       "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln2.gamma),     MLP_PRE },
    { "post_attention_layernorm.bias",         "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln2.beta),      MLP_PRE | BETA },
    { "mlp.dense_h_to_4h.weight",              "u/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(mlp.h_to_4h.w), DENSE },
    { "mlp.dense_h_to_4h.bias",                "u/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(mlp.h_to_4h.b), DENSE_BIAS },
    { "mlp.dense_4h_to_h.weight",              "h,f/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, F(mlp.to_h.w),    DENSE },
    { "mlp.dense_4h_to_h.bias",                "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(mlp.to_h.b),    DENSE_BIAS },
    { "mlp_output_layernorm.weight",           "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(out2.gamma),    OUT },
    { "mlp_output_layernorm.bias",             "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(out2.beta),     OUT | BETA },
    { "post_mlp_layernorm.weight",             "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln2.gamma),     POST },
    { "post_mlp_layernorm.bias",               "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln2.beta),      POST | BETA },
};
/* clang-format on */
const int tx_block_n_params = sizeof tx_block_params / sizeof tx_block_params[0];

/* Rows as they lie, in the shape of x. */
static tx_tensor shaped(tx_tensor rows, tx_tensor x)
{
    return tx_tensor3(rows.data, rows.dtype, x.dim[0], x.dim[1], x.dim[2]);
}

/* Room for all positions of x, which is one of the layer's: x itself where it has them all. */
static tx_tensor whole_of(const tx_block_call *k, tx_tensor x)
{
    return k->lent->whole.data ? k->lent->whole : x;
}

static tx_dtype value_type(const tx_block *w)
{
    return w->attn.qkv.w.value.dtype;
}

/* ---- a half as data ---- */

typedef struct half {
    const tx_block *w;
    const tx_block_call *k;
    const tx_norm *in;   /* of what goes into the branch; NULL: there is none */
    const tx_norm *out;  /* of what it makes */
    const tx_norm *last; /* of the sum */
    const char *norm_part, *out_part, *part;
    tx_dropout mask; /* of what is added */
    double scale;    /* likewise */
    bool mlp;        /* the branch */
    bool apart;      /* it adds to its own output: the branch is made elsewhere */
} half;

static double scale_of(const tx_block *w, const tx_block_call *k)
{
    return tx__scale_or_1(k->branch_scale) * tx__scale_or_1(w->residual_scale);
}

static half attention_half(const tx_block *w, const tx_block_call *k)
{
    return (half){ .w = w,
                   .k = k,
                   .in = w->norms_in ? &w->ln1 : NULL,
                   .out = w->norms_out ? &w->out1 : NULL,
                   .last = w->post_norm ? &w->ln1 : NULL,
                   .norm_part = w->post_norm ? LN2 : LN1,
                   .out_part = OUT1,
                   .part = ATTENTION,
                   .mask = tx_dropout_at(k->dropout, w->p_drop, w->layer, TX_DROP_ATTENTION_OUT),
                   .scale = scale_of(w, k) };
}

static half mlp_half(const tx_block *w, const tx_block_call *k)
{
    return (half){ .w = w,
                   .k = k,
                   .in = w->norms_in && w->halves != TX_PARALLEL_ONE_NORM ? &w->ln2 : NULL,
                   .out = w->norms_out ? &w->out2 : NULL,
                   .last = w->post_norm ? &w->ln2 : NULL,
                   .norm_part = w->post_norm ? POST_LN2 : LN2,
                   .out_part = OUT2,
                   .part = MLP,
                   .mask = tx_dropout_at(k->dropout, w->p_drop, w->layer, TX_DROP_MLP_OUT),
                   .scale = scale_of(w, k),
                   .mlp = true,
                   .apart = w->halves != TX_IN_TURN };
}

static const tx_half_saved *saved_of(const half *h, const tx_block_saved *a)
{
    return h->mlp ? &a->second : &a->first;
}

/* ---- forward ---- */

/* y = attn(x), a rank's part of a sum.   @x, @y [s, b, h] of all positions */
static tx_status attention_fwd(tx_ctx *c, const half *h, tx_block_saved *a, tx_tensor y, tx_tensor x)
{
    const tx_block_call *k = h->k;
    const tx_attention_call attn = { .x = x,
                                     .y = y,
                                     .seen = k->seen,
                                     .position = k->position,
                                     .max_logits = k->max_logits,
                                     .dropout = k->dropout,
                                     .kv = k->kv,
                                     .chunks = k->chunks };
    return tx_attention_layer_fwd(c, &h->w->attn, &a->attn, &attn);
}

/* y = mlp(x), likewise. */
static tx_status mlp_fwd(tx_ctx *c, const half *h, tx_block_saved *a, tx_tensor y, tx_tensor x)
{
    const tx_block_call *k = h->k;
    const tx_moe_call moe = { .x = tx_as_rows(x), .y = tx_as_rows(y), .pass = &k->pass, .random = k->dropout };
    a->mlp.dropout = k->dropout;
    return h->w->moe ? tx_moe_fwd(c, h->w->moe, &a->moe, &moe) : tx_mlp_fwd(c, &h->w->mlp, &a->mlp, moe.y, moe.x);
}

/* z = g(branch(f(n))) */
static tx_status branch_fwd(tx_ctx *c, const half *h, tx_block_saved *a, tx_tensor z, tx_tensor n)
{
    tx_tensor x = whole_of(h->k, n), y = whole_of(h->k, z);
    TX_TRY(tx_tp_gather(c, x, n));
    TX_TRY((h->mlp ? mlp_fwd : attention_fwd)(c, h, a, y, x));
    TX_TRY(tx_tp_sum(c, z, y));
    tx_at_part(c, h->part);
    return TX_OK;
}

/* y = residual + drop(branch(x)), with the norms that there are; x may be normed already. */
static tx_status half_fwd(tx_ctx *c, const half *h, tx_block_saved *a, tx_tensor y, tx_tensor residual, tx_tensor x)
{
    const tx_block_rooms *lent = h->k->lent;
    tx_half_saved *saved = h->mlp ? &a->second : &a->first;
    tx_tensor n = x, sum = y;

    /* 1  n = norm(x) */
    if (h->in) {
        tx_at_part(c, h->norm_part);
        TX_TRY(tx_norm_fwd(c, h->in, &saved->norm, lent->norm, x));
        n = shaped(saved->norm.y, x);
        if (h->w->residual_post_norm) residual = n;
    }
    if (h->last) sum = saved->sum = tx_push3(&c->acts, y.dtype, y.dim[0], y.dim[1], y.dim[2]);
    /* 2  z = g(branch(f(n))), where the sum will be if that has its type */
    TX_ASSERT(n.dtype == value_type(h->w));
    tx_tensor z = sum.dtype == n.dtype && !h->apart ? sum : lent->branch, made = z;
    if (h->out) made = saved->branch = tx_push3(&c->acts, n.dtype, n.dim[0], n.dim[1], n.dim[2]);
    TX_TRY(branch_fwd(c, h, a, made, n));
    /* 3  z = norm(z) */
    if (h->out) {
        tx_at_part(c, h->out_part);
        TX_TRY(tx_norm_fwd(c, h->out, &saved->out, tx_as_rows(z), made));
        tx_at_part(c, h->part);
    }
    /* 4  sum = residual + drop(scale z) */
    if (h->scale != 1) TX_RUN(c, blend, .y = z, .x = z, .alpha = h->scale);
    TX_RUN(c, dropout_add_fwd, .y = sum, .x = z, .residual = residual, .mask = h->mask);
    /* 5  y = norm(sum) */
    if (!h->last) return TX_OK;
    tx_at_part(c, h->norm_part);
    return tx_norm_fwd(c, h->last, &saved->norm, tx_as_rows(y), sum);
}

/* What the first half gives the second in turn: with post_norm a norm's output, which need not be kept. */
static tx_tensor room_between(tx_ctx *c, const tx_block *w, const tx_block_call *k)
{
    tx_tensor x = k->x, norm = k->lent->norm;
    if (w->post_norm && norm.data) return shaped(norm, x);
    return tx_push3(&c->acts, x.dtype, x.dim[0], x.dim[1], x.dim[2]);
}

tx_status tx_block_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k)
{
    const half attention = attention_half(w, k), mlp = mlp_half(w, k);
    tx_tensor x = k->x, y = k->y;
    tx_at_layer(c, w->layer);
    switch (w->halves) {
    case TX_IN_TURN:
        a->x1 = room_between(c, w, k);
        TX_TRY(half_fwd(c, &attention, a, a->x1, x, x));
        TX_TRY(half_fwd(c, &mlp, a, y, a->x1, a->x1));
        break;
    case TX_PARALLEL_TWO_NORMS:
        TX_TRY(half_fwd(c, &attention, a, y, x, x));
        TX_TRY(half_fwd(c, &mlp, a, y, y, x));
        break;
    case TX_PARALLEL_ONE_NORM:
        TX_TRY(half_fwd(c, &attention, a, y, x, x));
        TX_TRY(half_fwd(c, &mlp, a, y, y, shaped(a->first.norm.y, x)));
        break;
    }
    tx_at_layer(c, 0);
    return TX_OK;
}

/* ---- backward ---- */

/* What the branch read, of x. Norms that are not kept wrote where other layers have written since. */
static tx_status read_again(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor *n, tx_tensor x)
{
    const tx_half_saved *saved = saved_of(h, a);
    *n = h->in ? shaped(saved->norm.y, x) : x;
    tx_at_part(c, h->norm_part);
    return h->in && h->k->lent->norm.data ? tx_norm_again(c, h->in, &saved->norm, x) : TX_OK;
}

/* 4, 3  The gradient of what the branch made, by d of the sum: d itself where nothing is between, else in a room that
 * is pushed in any case, since a layer's scale changes from step to step (--progressive-layer-drop). */
static tx_status made_gradient(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor *out, tx_tensor n)
{
    const tx_half_saved *saved = saved_of(h, a);
    tx_tensor d = h->k->d, from = d;
    bool scaled = h->scale != 1;
    *out = tx_push3(&c->acts, n.dtype, n.dim[0], n.dim[1], n.dim[2]);
    if (!h->mask.drop && !scaled && !h->out && n.dtype == d.dtype) {
        *out = d;
        return TX_OK;
    }
    tx_at_part(c, h->part);
    if (h->mask.drop) {
        TX_RUN(c, dropout_add_bwd, .dx = *out, .dy = d, .mask = h->mask);
        from = *out;
    }
    if (scaled) {
        TX_RUN(c, blend, .y = *out, .x = from, .alpha = h->scale);
        from = *out;
    }
    if (from.dtype != n.dtype) {
        TX_RUN(c, cast, .y = *out, .x = from);
        from = *out;
    }
    if (!h->out) return TX_OK;
    tx_at_part(c, h->out_part);
    return tx_norm_bwd(c, h->out, &saved->out, (tx_norm_gradient){ .d = *out, .dy = from }, saved->branch);
}

/* dx = attn'(dy), a rank's part of a sum.   @dx, @dy, @x [s, b, h] of all positions */
static tx_status attention_bwd(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor dx, tx_tensor dy,
                               tx_tensor x)
{
    const tx_block_call *k = h->k;
    const tx_attention_call attn = {
        .x = x, .dx = dx, .dy = dy, .seen = k->seen, .position = k->position, .dropout = k->dropout, .chunks = k->chunks
    };
    return tx_attention_layer_bwd(c, &h->w->attn, &a->attn, &attn);
}

/* dx = mlp'(dy), likewise. */
static tx_status mlp_bwd(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    const tx_block_call *k = h->k;
    const tx_moe_call moe = {
        .x = tx_as_rows(x), .dx = tx_as_rows(dx), .dy = tx_as_rows(dy), .pass = &k->pass, .random = k->dropout
    };
    tx_mlp_saved mlp = a->mlp;
    mlp.dropout = k->dropout; /* forward's may be gone */
    return h->w->moe ? tx_moe_bwd(c, h->w->moe, &a->moe, &moe) : tx_mlp_bwd(c, &h->w->mlp, &mlp, moe.dx, moe.dy, moe.x);
}

/* Whether backward of the branch needs what it read for gradients of its first matrix alone. Adapters multiply it by
 * their own, and layers with experts choose by it. */
static bool reads_for_weights(const half *h)
{
    const tx_block *w = h->w;
    return h->mlp ? !w->moe && !w->mlp.h_to_4h_lora.n : !w->attn.qkv_lora.n;
}

/* 4, 3, 2  dn = f'(branch'(g'(norm'(drop'(d))))). Where sequence parallelism splits them, the whole of dn takes the
 * memory of the whole gradient that goes in. */
static tx_status branch_bwd(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor dn, tx_tensor n)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor d;
    TX_TRY(made_gradient(c, h, a, &d, n));
    tx_at_part(c, h->part);
    bool later = tx_wgrad_is_put_off(c) && reads_for_weights(h);
    tx_tensor x = later ? n : tx_tp_room(c, &c->acts, n), dy = whole_of(h->k, d), dx = whole_of(h->k, dn);
    TX_TRY(tx_tp_gather(c, dy, d));
    if (!later) TX_TRY(tx_tp_gather(c, x, n));
    TX_TRY((h->mlp ? mlp_bwd : attention_bwd)(c, h, a, dx, dy, x));
    TX_TRY(tx_tp_sum(c, dn, dx));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* 1  From the gradient d of a half's sum, and dn of what went into its branch, to d of its x: the residual joins after
 * the norm's backward, or before it where the residual is the norm's output. */
static tx_status join(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor dn, tx_tensor x)
{
    const tx_half_saved *saved = saved_of(h, a);
    tx_tensor d = h->k->d;
    tx_norm_gradient g = { .d = d, .dy = dn, .dres = d };
    if (!h->in) {
        TX_RUN(c, add, .y = d, .a = dn, .b = d);
        return TX_OK;
    }
    tx_at_part(c, h->norm_part);
    if (h->w->residual_post_norm) {
        TX_RUN(c, add, .y = dn, .a = dn, .b = d);
        g.dres = (tx_tensor){ 0 };
    }
    return tx_norm_bwd(c, h->in, &saved->norm, g, x);
}

/* d = the gradient of x by d of the half's output, x being the residual as well.   @dn room */
static tx_status half_bwd(tx_ctx *c, const half *h, const tx_block_saved *a, tx_tensor dn, tx_tensor x)
{
    const tx_half_saved *saved = saved_of(h, a);
    const tx_norm_gradient in_place = { .d = h->k->d, .dy = h->k->d };
    tx_tensor n;
    /* 5  d = norm'(d) */
    tx_at_part(c, h->norm_part);
    if (h->last) TX_TRY(tx_norm_bwd(c, h->last, &saved->norm, in_place, saved->sum));
    /* 4, 3, 2  dn   1  d += norm'(dn) */
    TX_TRY(read_again(c, h, a, &n, x));
    TX_TRY(branch_bwd(c, h, a, dn, n));
    return join(c, h, a, dn, x);
}

/* Both branches get d before what they give is added to it. */
static tx_status parallel_bwd(tx_ctx *c, const half *attention, const half *mlp, const tx_block_saved *a, tx_tensor dn)
{
    tx_tensor x = attention->k->x, n, more = tx_push3(&c->acts, dn.dtype, dn.dim[0], dn.dim[1], dn.dim[2]);
    TX_TRY(read_again(c, mlp->in ? mlp : attention, a, &n, x));
    TX_TRY(branch_bwd(c, mlp, a, more, n));
    if (mlp->in) TX_TRY(read_again(c, attention, a, &n, x));
    TX_TRY(branch_bwd(c, attention, a, dn, n));
    if (mlp->in)
        TX_TRY(join(c, mlp, a, more, x));
    else
        TX_RUN(c, add, .y = dn, .a = dn, .b = more);
    return join(c, attention, a, dn, x);
}

tx_status tx_block_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k)
{
    const half attention = attention_half(w, k), mlp = mlp_half(w, k);
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor d = k->d, dn = tx_push3(&c->acts, value_type(w), d.dim[0], d.dim[1], d.dim[2]);
    tx_at_layer(c, w->layer);
    if (w->halves != TX_IN_TURN) {
        TX_TRY(parallel_bwd(c, &attention, &mlp, a, dn));
    } else {
        if (w->post_norm && k->lent->norm.data)
            TX_TRY(tx_norm_again(c, &w->ln1, &a->first.norm, a->first.sum)); /* x1 */
        TX_TRY(half_bwd(c, &mlp, a, dn, a->x1));
        TX_TRY(half_bwd(c, &attention, a, dn, k->x));
    }
    tx_at_layer(c, 0);
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
