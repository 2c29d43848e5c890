/* attention.c - forward and backward of self-attention over a fused q,k,v projection. */
#include "nn/attention.h"

#include "nn/context_attention.h"
#include "parallel/cp.h"

#define QKV    "self_attention.query_key_value"
#define CORE   "self_attention.core_attention"
#define DENSE  "self_attention.dense"
#define Q_NORM "self_attention.q_layernorm"
#define K_NORM "self_attention.k_layernorm"

/* A [s, b, groups * per_group * d] cut into heads: n of each group's, from `first` on, as [s, b, groups, n, d]. */
static tx_tensor heads(const tx_attention *w, tx_tensor x, int64_t per_group, int64_t first, int64_t n)
{
    int64_t d = w->d;
    return (tx_tensor){
        .data = (char *)x.data + (size_t)(first * d) * tx_dtype_size(x.dtype),
        .dtype = x.dtype,
        .n_dims = 5,
        .dim = { x.dim[0], x.dim[1], w->n_groups, n, d },
        .stride = { x.stride[0], x.stride[1], per_group * d, d, 1 },
    };
}

/* q, k and v of a fused [s, b, groups, r + 2, d]; q and k together, which rotary positions turn. */
typedef struct parts {
    tx_tensor q, k, v, qk; /* [s, b, groups, r, d], twice [s, b, groups, d], [s, b, groups, r + 1, d] */
} parts;

static parts cut(const tx_attention *w, tx_tensor qkv)
{
    int64_t r = w->n_heads / w->n_groups;
    return (parts){ .q = heads(w, qkv, r + 2, 0, r),
                    .k = tx_one_a_group(heads(w, qkv, r + 2, r, 1)),
                    .v = tx_one_a_group(heads(w, qkv, r + 2, r + 1, 1)),
                    .qk = heads(w, qkv, r + 2, 0, r + 1) };
}

/* A contiguous [s, b, n d] as [s, b, groups, r, d]. */
static tx_tensor all_heads(const tx_attention *w, tx_tensor x)
{
    int64_t r = w->n_heads / w->n_groups;
    return heads(w, x, r, 0, r);
}

/* q and k by their positions, or back again. */
static tx_status turn(tx_ctx *c, const tx_attention *w, tx_tensor qk, const tx_attention_call *k, bool back)
{
    const tx_grid *g = tx_grid_of(c);
    int64_t n = qk.dim[0], all = k->chunks ? k->chunks->s : n * tx_grid_size(g, TX_AXIS_CONTEXT);
    const tx_position_runs whole = tx_cp_positions(g, all),
                           at = tx_positions_from(&whole, k->chunks ? k->chunks->first / k->chunks->n_ranks : 0);
    tx_rope_args how = { .n_rot = w->n_rot,
                         .theta = w->rope_theta,
                         .frequency = w->rope_frequency,
                         .scale = w->rope_scale,
                         .grows_by = w->rope_grows_by,
                         .grows_from = w->rope_grows_from,
                         .interleaved = w->rope_interleaved,
                         .position = k->position,
                         .inverse = back };
    if (!w->n_rot) return TX_OK;
    if (all > n) how.length = all;
    if (k->kv) {
        how.past = k->kv->past;
        if (k->kv->own_from.data) how.past.n = k->kv->own_from;
        how.x = qk;
        return tx_op_rope(c, &how);
    }
    for (int64_t i = 0, run; i < n; i += run) {
        run = tx_positions_next(&at, i, n);
        how.x = tx_slice_rows(qk, i, run);
        how.first = tx_position_of(&at, i);
        if (k->position.data) how.position = tx_slice_rows(k->position, how.first, run);
        TX_TRY(tx_op_rope(c, &how));
    }
    return TX_OK;
}

/* Heads that lie one after the other, as rows [s b n, d] in `room`, which may be larger; with a norm of the whole as
 * [s b, n d]. */
static tx_tensor rows_in(const tx_attention *w, tx_tensor room, tx_tensor x)
{
    int64_t all = tx_numel(x), n = w->qk_norm_whole ? x.dim[0] * x.dim[1] : all / x.dim[x.n_dims - 1];
    return tx_tensor2(room.data, room.dtype, n, all / n);
}

/* The same in the shape of x. */
static tx_tensor shaped_as(tx_tensor rows, tx_tensor x)
{
    int64_t stride = 1;
    for (int i = x.n_dims; i-- > 0; stride *= x.dim[i]) x.stride[i] = stride;
    x.data = rows.data;
    return x;
}

/* x = norm(x), heads of the fused tensor; what they were is kept in `was`.   @normed room for their rows */
static tx_status norm_heads(tx_ctx *c, const tx_norm *w, tx_norm_saved *a, tx_tensor *was, tx_tensor x,
                            tx_tensor normed)
{
    *was = tx_push2(&c->acts, x.dtype, normed.dim[0], normed.dim[1]);
    TX_RUN(c, copy, .y = shaped_as(*was, x), .x = x);
    TX_TRY(tx_norm_fwd(c, w, a, normed, *was));
    TX_RUN(c, copy, .y = x, .x = shaped_as(normed, x));
    return TX_OK;
}

/* dx = norm'(dx), likewise. */
static tx_status norm_heads_bwd(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_tensor was, tx_tensor dx,
                                tx_tensor d)
{
    TX_RUN(c, copy, .y = shaped_as(d, dx), .x = dx);
    TX_TRY(tx_norm_bwd(c, w, a, (tx_norm_gradient){ .d = d, .dy = d }, was));
    TX_RUN(c, copy, .y = dx, .x = shaped_as(d, dx));
    return TX_OK;
}

/* 1b  q = norm(q), k = norm(k), in the fused tensor */
static tx_status norm_parts(tx_ctx *c, const tx_attention *w, tx_attention_saved *a, parts p)
{
    if (!w->qk_norm && !w->qk_norm_whole) return TX_OK;
    tx_at_part(c, Q_NORM);
    TX_TRY(norm_heads(c, &w->q_norm, &a->q_norm, &a->q, p.q, rows_in(w, a->o, p.q)));
    tx_at_part(c, K_NORM);
    return norm_heads(c, &w->k_norm, &a->k_norm, &a->k, p.k, rows_in(w, a->o, p.k));
}

static tx_status norm_parts_bwd(tx_ctx *c, const tx_attention *w, const tx_attention_saved *a, parts d, tx_tensor room)
{
    if (!w->qk_norm && !w->qk_norm_whole) return TX_OK;
    tx_at_part(c, K_NORM);
    TX_TRY(norm_heads_bwd(c, &w->k_norm, &a->k_norm, a->k, d.k, rows_in(w, room, d.k)));
    tx_at_part(c, Q_NORM);
    return norm_heads_bwd(c, &w->q_norm, &a->q_norm, a->q, d.q, rows_in(w, room, d.q));
}

/* The middle of the layer, as forward has it. */
static tx_core_attention core_of(const tx_attention *w, const tx_attention_saved *a, const tx_attention_call *k,
                                 parts p)
{
    return (
        tx_core_attention){ .w = w, .call = k, .q = p.q, .k = p.k, .v = p.v, .o = all_heads(w, a->o), .lse = a->lse };
}

tx_status tx_attention_layer_fwd(tx_ctx *c, const tx_attention *w, tx_attention_saved *a, const tx_attention_call *k)
{
    int64_t s = k->x.dim[0], b = k->x.dim[1], n = w->n_heads, g = w->n_groups;
    tx_dtype t = k->x.dtype;
    const tx_kv_cache *kv = k->kv;
    size_t mark = tx_arena_mark(&c->scratch);
    bool by_heads = tx_context_by_heads(c, w);
    a->qkv = tx_push3(by_heads ? &c->scratch : &c->acts, t, s, b, (n + 2 * g) * w->d);
    a->o = tx_push3(&c->acts, t, s, b, n * w->d);
    a->lse = kv || by_heads ? (tx_tensor){ 0 } : tx_push1(&c->acts, tx_wide(t), b * n * s);

    /* 1  q, k, v = x W_qkvᵀ + b_qkv   [s, b, groups, r + 2, d] */
    tx_at_part(c, QKV);
    TX_TRY(tx_linear_fwd(c, &w->qkv, tx_as_rows(a->qkv), tx_as_rows(k->x)));
    TX_TRY(tx_lora_fwd(c, w->qkv_lora, tx_as_rows(a->qkv), tx_as_rows(k->x), k->dropout));
    /* 2  q, k normalised and turned by their positions, in place */
    parts p = cut(w, a->qkv);
    TX_TRY(norm_parts(c, w, a, p));
    tx_at_part(c, CORE);
    TX_TRY(turn(c, w, p.qk, k, false));
    if (kv && !tx_context_is_divided(c)) {
        TX_RUN(c, cache_append, .k_cache = kv->k, .v_cache = kv->v, .k = p.k, .v = p.v, .past = kv->past);
        p.k = kv->k;
        p.v = kv->v;
    }
    /* 3  o = drop(softmax(scale q kᵀ + biases + mask)) v   [s, b, n d] */
    a->lse = (tx_tensor){ .data = a->lse.data,
                          .dtype = a->lse.dtype,
                          .n_dims = 4,
                          .dim = { b, g, n / g, s },
                          .stride = { n * s, n / g * s, s, 1 } };
    const tx_core_attention core = core_of(w, a, k, p);
    TX_TRY(tx_context_is_divided(c) ? tx_context_attention_fwd(c, &core, &a->context)
                                    : tx_core_attention_fwd(c, &core));
    /* 4  y = o W_projᵀ + b_proj */
    tx_at_part(c, DENSE);
    TX_TRY(tx_linear_fwd(c, &w->proj, tx_as_rows(k->y), tx_as_rows(a->o)));
    TX_TRY(tx_lora_fwd(c, w->proj_lora, tx_as_rows(k->y), tx_as_rows(a->o), k->dropout));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx_attention_layer_bwd(tx_ctx *c, const tx_attention *w, const tx_attention_saved *a,
                                 const tx_attention_call *k)
{
    tx_tensor x = k->x; /* of a tensor rank's positions where gradients of weights are put off (wgrad_store.h) */
    int64_t s = k->dy.dim[0], b = k->dy.dim[1];
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor d_o = tx_push3(&c->acts, x.dtype, s, b, a->o.dim[2]),
              dqkv = tx_push3(&c->acts, x.dtype, s, b, a->qkv.dim[2]);
    parts p = cut(w, a->qkv), d = cut(w, dqkv);

    /* 4  do = dy W_proj */
    tx_at_part(c, DENSE);
    TX_TRY(tx_linear_bwd(c, &w->proj, tx_as_rows(d_o), tx_as_rows(k->dy), tx_as_rows(a->o)));
    TX_TRY(tx_lora_bwd(c, w->proj_lora, tx_as_rows(d_o), tx_as_rows(k->dy), tx_as_rows(a->o), k->dropout));
    /* 3  dq, dk, dv, side by side as the forward's fused tensor */
    tx_at_part(c, CORE);
    tx_core_attention core = core_of(w, a, k, p);
    core.d_o = all_heads(w, d_o);
    core.dq = d.q;
    core.dk = d.k;
    core.dv = d.v;
    TX_TRY(tx_context_is_divided(c) ? tx_context_attention_bwd(c, &core, &a->context)
                                    : tx_core_attention_bwd(c, &core));
    /* 2  dq, dk turned back, and those of what was normalised; do is needed no more */
    TX_TRY(turn(c, w, d.qk, k, true));
    TX_TRY(norm_parts_bwd(c, w, a, d, d_o));
    /* 1  dx = dqkv W_qkv */
    tx_at_part(c, QKV);
    TX_TRY(tx_linear_bwd(c, &w->qkv, tx_as_rows(k->dx), tx_as_rows(dqkv), tx_as_rows(x)));
    TX_TRY(tx_lora_bwd(c, w->qkv_lora, tx_as_rows(k->dx), tx_as_rows(dqkv), tx_as_rows(x), k->dropout));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
