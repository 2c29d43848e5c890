/* attention.c - forward and backward of self-attention over a fused q,k,v projection. */
#include "nn/attention.h"

#include <math.h>

/* Part 0, 1, 2 = q, k, v of a fused [s, b, n, 3, d] tensor, as [s, b, n, d]. */
static tx_tensor part(tx_tensor qkv, int64_t n, int which)
{
    int64_t d = qkv.dim[2] / (3 * n);
    return (tx_tensor){
        .data = (char *)qkv.data + (size_t)(which * d) * tx_dtype_size(qkv.dtype),
        .dtype = qkv.dtype,
        .n_dims = 4,
        .dim = { qkv.dim[0], qkv.dim[1], n, d },
        .stride = { qkv.stride[0], qkv.stride[1], 3 * d, 1 },
    };
}

/* [s, b, n, d] seen as n groups of one head each: [s, b, n, 1, d]. */
static tx_tensor one_head_groups(tx_tensor x)
{
    x.n_dims = 5;
    x.dim[4] = x.dim[3];
    x.stride[4] = 1;
    x.dim[3] = 1;
    x.stride[3] = x.dim[4];
    return x;
}

/* A contiguous [s, b, h] as [s, b, n, 1, d]. */
static tx_tensor heads(tx_tensor x, int64_t n)
{
    int64_t d = x.dim[2] / n;
    x.n_dims = 4;
    x.dim[2] = n;
    x.dim[3] = d;
    x.stride[2] = d;
    x.stride[3] = 1;
    return one_head_groups(x);
}

static tx_dropout attention_mask(const tx_attention *w, const tx_dropout_key *key)
{
    tx_dropout mask = tx_dropout_at(key, w->p_drop, w->layer, TX_DROP_ATTENTION);
    mask.n_heads = w->n_heads;
    return mask;
}

tx_status tx_attention_layer_fwd(tx_ctx *c, const tx_attention *w, tx_attention_saved *a, tx_kv_cache *kv,
                                 tx_tensor first_key, const tx_dropout_key *key, tx_tensor y, tx_tensor x)
{
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2], n = w->n_heads;
    tx_dtype t = x.dtype;
    a->qkv = tx_push3(&c->acts, t, s, b, 3 * h);
    a->o = tx_push3(&c->acts, t, s, b, h);
    a->lse = tx_push1(&c->acts, t, b * n * s);
    a->first_key = first_key;

    /* 1  q, k, v = x W_qkvᵀ + b_qkv   [s, b, n, 3, d] */
    TX_TRY(tx_linear_fwd(c, &w->qkv, tx_as_rows(a->qkv), tx_as_rows(x)));
    tx_tensor k = part(a->qkv, n, 1), v = part(a->qkv, n, 2);
    if (kv) {
        TX_RUN(c, cast, .y = tx_slice_rows(kv->k, kv->n_past, s), .x = k);
        TX_RUN(c, cast, .y = tx_slice_rows(kv->v, kv->n_past, s), .x = v);
        k = tx_slice_rows(kv->k, 0, kv->n_past + s);
        v = tx_slice_rows(kv->v, 0, kv->n_past + s);
    }
    /* 2  o = drop(softmax(q kᵀ / √d + causal)) v   [s, b, h] */
    a->lse = (tx_tensor){
        .data = a->lse.data, .dtype = t, .n_dims = 4, .dim = { b, n, 1, s }, .stride = { n * s, s, s, 1 }
    };
    TX_RUN(c, attention_fwd, .o = heads(a->o, n), .lse = a->lse, .q = one_head_groups(part(a->qkv, n, 0)), .k = k,
           .v = v, .scale = 1.0 / sqrt((double)(h / n)), .causal = true, .mask = attention_mask(w, key),
           .first_key = first_key);
    /* 3  y = o W_projᵀ + b_proj */
    return tx_linear_fwd(c, &w->proj, tx_as_rows(y), tx_as_rows(a->o));
}

tx_status tx_attention_layer_bwd(tx_ctx *c, const tx_attention *w, const tx_attention_saved *a,
                                 const tx_dropout_key *key, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2], n = w->n_heads;
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor d_o = tx_push3(&c->acts, x.dtype, s, b, h), dqkv = tx_push3(&c->acts, x.dtype, s, b, 3 * h);

    /* 3  do = dy W_proj */
    TX_TRY(tx_linear_bwd(c, &w->proj, tx_as_rows(d_o), tx_as_rows(dy), tx_as_rows(a->o)));
    /* 2  dq, dk, dv, side by side as the forward's fused tensor */
    TX_RUN(c, attention_bwd, .dq = one_head_groups(part(dqkv, n, 0)), .dk = part(dqkv, n, 1), .dv = part(dqkv, n, 2),
           .do_ = heads(d_o, n), .o = heads(a->o, n), .lse = a->lse, .q = one_head_groups(part(a->qkv, n, 0)),
           .k = part(a->qkv, n, 1), .v = part(a->qkv, n, 2), .scale = 1.0 / sqrt((double)(h / n)), .causal = true,
           .mask = attention_mask(w, key), .first_key = a->first_key);
    /* 1  dx = dqkv W_qkv */
    TX_TRY(tx_linear_bwd(c, &w->qkv, tx_as_rows(dx), tx_as_rows(dqkv), tx_as_rows(x)));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
