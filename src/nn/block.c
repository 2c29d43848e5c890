/* block.c - forward and backward of one transformer layer. */
#include "nn/block.h"

#include "parallel/tp.h"

#define F(member) offsetof(tx_block, member)

/* For tx_at_part: parts that have no parameters of these names, and two norms. */
#define LN1       "input_layernorm"
#define LN2       "post_attention_layernorm"
#define ATTENTION "self_attention.bias_dropout_add"
#define MLP       "mlp.bias_dropout_add"

/* Names and order are Megatron's. Projections that end a residual branch start smaller: GPT-2 §2.3. */
/* clang-format off */
const tx_param_decl tx_block_params[] = {
    { "input_layernorm.weight",                "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln1.gamma),     0 },
    { "input_layernorm.bias",                  "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln1.beta),      TX_WITH_BETA },
    { "self_attention.query_key_value.weight", "q/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(attn.qkv.w),    0 },
    { "self_attention.query_key_value.bias",   "q/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.qkv.b),    TX_WITH_BIAS },
    { "self_attention.dense.weight",           "h,a/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, F(attn.proj.w),   0 },
    { "self_attention.dense.bias",             "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(attn.proj.b),   TX_WITH_BIAS },
    { "post_attention_layernorm.weight",       "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(ln2.gamma),     0 },
    { "post_attention_layernorm.bias",         "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(ln2.beta),      TX_WITH_BETA },
    { "mlp.dense_h_to_4h.weight",              "u/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(mlp.h_to_4h.w), 0 },
    { "mlp.dense_h_to_4h.bias",                "u/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(mlp.h_to_4h.b), TX_WITH_BIAS },
    { "mlp.dense_4h_to_h.weight",              "h,f/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, F(mlp.to_h.w),    0 },
    { "mlp.dense_4h_to_h.bias",                "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(mlp.to_h.b),    TX_WITH_BIAS },
};
/* clang-format on */
const int tx_block_n_params = sizeof tx_block_params / sizeof tx_block_params[0];

/* A norm's output, which has the rows of x, in the shape of x. */
static tx_tensor shaped(const tx_norm_saved *a, tx_tensor x)
{
    return tx_tensor3(a->y.data, a->y.dtype, x.dim[0], x.dim[1], x.dim[2]);
}

/* Room for all positions of x, which is one of the layer's: x itself where it has them all. */
static tx_tensor whole_of(const tx_block_saved *a, tx_tensor x)
{
    if (!a->whole.data) return x;
    tx_tensor w = a->whole;
    return x.n_dims == 2 ? tx_as_rows(w) : w;
}

tx_status tx_block_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, tx_kv_cache *kv, tx_tensor first_key,
                       const tx_dropout_key *key, tx_tensor y, tx_tensor x)
{
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    a->x = x;
    a->mark = tx_arena_mark(&c->acts);
    a->x1 = tx_push3(&c->acts, x.dtype, s, b, h);
    bool own = x.dtype == w->ln1.gamma.value.dtype; /* then a branch ends where its half's output will be */
    tx_tensor z1 = own ? a->x1 : a->branch, z2 = own ? y : a->branch;

    /* 1  ln1 = norm(x)   2  z1 = g(attn(f(ln1)))   3  x1 = x + drop(z1) */
    tx_at_layer(c, w->layer);
    tx_at_part(c, LN1);
    TX_TRY(tx_norm_fwd(c, &w->ln1, &a->ln1, a->norm, x));
    tx_tensor normed = shaped(&a->ln1, x);
    TX_TRY(tx_tp_gather(c, whole_of(a, normed), normed));
    TX_TRY(tx_attention_layer_fwd(c, &w->attn, &a->attn, kv, first_key, key, whole_of(a, z1), whole_of(a, normed)));
    TX_TRY(tx_tp_sum(c, z1, whole_of(a, z1)));
    tx_at_part(c, ATTENTION);
    TX_RUN(c, dropout_add_fwd, .y = a->x1, .x = z1, .residual = w->residual_post_norm ? normed : x,
           .mask = tx_dropout_at(key, w->p_drop, w->layer, TX_DROP_ATTENTION_OUT));
    /* 4  ln2 = norm(x1)   5  z2 = g(mlp(f(ln2)))   6  y = x1 + drop(z2) */
    tx_at_part(c, LN2);
    TX_TRY(tx_norm_fwd(c, &w->ln2, &a->ln2, a->norm, a->x1));
    TX_TRY(tx_tp_gather(c, whole_of(a, a->ln2.y), a->ln2.y));
    TX_TRY(tx_mlp_fwd(c, &w->mlp, &a->mlp, tx_as_rows(whole_of(a, z2)), whole_of(a, a->ln2.y)));
    TX_TRY(tx_tp_sum(c, z2, whole_of(a, z2)));
    tx_at_part(c, MLP);
    TX_RUN(c, dropout_add_fwd, .y = y, .x = z2, .residual = w->residual_post_norm ? shaped(&a->ln2, x) : a->x1,
           .mask = tx_dropout_at(key, w->p_drop, w->layer, TX_DROP_MLP_OUT));
    tx_at_layer(c, 0);
    return TX_OK;
}

/* The gradient that enters a branch behind its dropout: d itself when nothing is dropped and the stream's dtype is the
 * branch's. */
static tx_status branch_gradient(tx_ctx *c, tx_tensor *out, tx_tensor scratch, tx_tensor d, tx_dropout mask)
{
    bool other = mask.drop || scratch.dtype != d.dtype;
    *out = other ? scratch : d;
    if (other) TX_RUN(c, dropout_add_bwd, .dx = scratch, .dy = d, .mask = mask);
    return TX_OK;
}

/* What a branch's backward takes: the whole of db, and the whole of the branch's input once more; where sequence
 * parallelism splits them, dn, what it gives, is the whole of db's memory. */
static tx_status enter_bwd(tx_ctx *c, const tx_block_saved *a, tx_tensor db, tx_tensor normed, tx_tensor *whole_normed)
{
    *whole_normed = tx_tp_room(c, &c->acts, normed);
    TX_TRY(tx_tp_gather(c, whole_of(a, db), db));
    return tx_tp_gather(c, *whole_normed, normed);
}

/* From the gradient d of a half's output and dn, of what went into its branch, to d of the half's input x: the residual
 * joins behind the norm's backward, or before it where the residual is the norm's output. */
static tx_status join(tx_ctx *c, const tx_block *w, const tx_norm *norm, const tx_norm_saved *a, tx_tensor d,
                      tx_tensor dn, tx_tensor x)
{
    if (!w->residual_post_norm) return tx_norm_bwd(c, norm, a, d, dn, d, x);
    TX_RUN(c, dropout_add_fwd, .y = dn, .x = dn, .residual = d); /* without a mask: dn += d */
    return tx_norm_bwd(c, norm, a, d, dn, (tx_tensor){ 0 }, x);
}

tx_status tx_block_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_dropout_key *key, tx_tensor d)
{
    int64_t s = d.dim[0], b = d.dim[1], h = d.dim[2];
    tx_dtype t = w->ln1.gamma.value.dtype;
    bool again = a->norm.data; /* both norms wrote there, and other layers since */
    tx_tensor db, xn, dropped = tx_push3(&c->acts, t, s, b, h), dn = tx_push3(&c->acts, t, s, b, h);
    size_t mark = tx_arena_mark(&c->acts);

    /* 6, 5  dn = f'(mlp'(g'(drop'(d))))   4  d += norm'(dn) */
    tx_at_layer(c, w->layer);
    tx_at_part(c, LN2);
    if (again) TX_TRY(tx_norm_again(c, &w->ln2, &a->ln2, a->x1));
    tx_at_part(c, MLP);
    TX_TRY(branch_gradient(c, &db, dropped, d, tx_dropout_at(key, w->p_drop, w->layer, TX_DROP_MLP_OUT)));
    TX_TRY(enter_bwd(c, a, db, a->ln2.y, &xn));
    TX_TRY(tx_mlp_bwd(c, &w->mlp, &a->mlp, tx_as_rows(whole_of(a, dn)), tx_as_rows(whole_of(a, db)), xn));
    TX_TRY(tx_tp_sum(c, dn, whole_of(a, dn)));
    tx_arena_pop(&c->acts, mark);
    tx_at_part(c, LN2);
    TX_TRY(join(c, w, &w->ln2, &a->ln2, d, dn, a->x1));
    /* 3, 2  dn = f'(attn'(g'(drop'(d))))   1  d += norm'(dn) */
    if (again) TX_TRY(tx_norm_again(c, &w->ln1, &a->ln1, a->x));
    tx_at_part(c, ATTENTION);
    TX_TRY(branch_gradient(c, &db, dropped, d, tx_dropout_at(key, w->p_drop, w->layer, TX_DROP_ATTENTION_OUT)));
    TX_TRY(enter_bwd(c, a, db, shaped(&a->ln1, d), &xn));
    TX_TRY(tx_attention_layer_bwd(c, &w->attn, &a->attn, key, whole_of(a, dn), whole_of(a, db), xn));
    TX_TRY(tx_tp_sum(c, dn, whole_of(a, dn)));
    tx_at_part(c, LN1);
    TX_TRY(join(c, w, &w->ln1, &a->ln1, d, dn, a->x));
    tx_at_layer(c, 0);
    tx_arena_pop(&c->acts, a->mark);
    return TX_OK;
}
