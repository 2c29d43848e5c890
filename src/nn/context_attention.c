/* context_attention.c - attention on one rank, and who does it where several divide the positions. */
#include "nn/context_attention.h"

#include "nn/wgrad_store.h"
#include "parallel/grid.h"

/* ---- one rank ---- */

static int64_t heads_of(const tx_core_attention *k)
{
    return k->q.dim[2] * k->q.dim[3];
}

static tx_dropout mask_of(const tx_core_attention *k)
{
    const tx_attention *w = k->w;
    tx_dropout mask = tx_dropout_at(k->call->dropout, w->p_drop, w->layer, TX_DROP_ATTENTION);
    mask.n_heads = w->n_heads_whole;
    mask.first_head = w->first_head + k->first_head;
    return mask;
}

static tx_alibi biases_of(const tx_core_attention *k)
{
    if (!k->w->alibi) return (tx_alibi){ 0 };
    return (tx_alibi){ .n_heads = k->w->n_heads_whole, .first_head = k->w->first_head + k->first_head };
}

/* Numbers of one a head. */
static tx_tensor of_heads(const tx_core_attention *k, tx_tensor x)
{
    return x.data ? tx_slice1(x, k->first_head, heads_of(k)) : x;
}

static tx_attention_kind kind_of(const tx_core_attention *k)
{
    tx_attention_kind kind = k->w->kind;
    kind.sink = of_heads(k, k->w->sink.value);
    if (k->part.without_sink) kind.sink.data = NULL, kind.off_by_one = false;
    return kind;
}

/* Of its queries. */
static tx_tensor first_keys_of(const tx_core_attention *k)
{
    tx_tensor first = k->call->seen.first;
    return first.data && k->part.is ? tx_slice_rows(first, k->part.q_at, k->q.dim[0]) : first;
}

static tx_max_logits_args scores_of(const tx_core_attention *k)
{
    const tx_attention *w = k->w;
    tx_tensor all = k->call->max_logits;
    return (tx_max_logits_args){ .max =
                                     tx_tensor2((float *)all.data + k->first_head, all.dtype, k->q.dim[2], k->q.dim[3]),
                                 .q = k->q,
                                 .k = k->k,
                                 .scale = w->scale,
                                 .causal = w->causal,
                                 .first_key = first_keys_of(k),
                                 .n_keys = k->call->seen.n,
                                 .window = w->kind.window,
                                 .q_at = k->part.q_at,
                                 .k_at = k->part.k_at,
                                 .part = k->part.is };
}

tx_status tx_core_attention_fwd(tx_ctx *c, const tx_core_attention *k)
{
    const tx_attention *w = k->w;
    const tx_kv_cache *kv = k->call->kv;
    bool looks = k->call->max_logits.data;
    const tx_max_logits_args scores = looks ? scores_of(k) : (tx_max_logits_args){ .scale = 0 };
    const tx_attention_fwd_args args = { .o = k->o,
                                         .lse = k->lse,
                                         .q = k->q,
                                         .k = k->k,
                                         .v = k->v,
                                         .scale = w->scale,
                                         .causal = w->causal,
                                         .mask = mask_of(k),
                                         .first_key = first_keys_of(k),
                                         .n_keys = k->call->seen.n,
                                         .past = kv ? kv->past : (tx_past){ .n = { 0 } },
                                         .alibi = biases_of(k),
                                         .kind = kind_of(k),
                                         .q_at = k->part.q_at,
                                         .k_at = k->part.k_at,
                                         .part = k->part.is };
    if (k->call->chunks) return tx_chunked_attention_fwd(c, k->call->chunks, &args, looks ? &scores : NULL);
    if (looks) TX_TRY(tx_op_max_logits(c, &scores));
    return tx_op_attention_fwd(c, &args);
}

tx_status tx_core_attention_bwd(tx_ctx *c, const tx_core_attention *k)
{
    const tx_attention *w = k->w;
    tx_tensor dsink = { 0 };
    if (!k->part.without_sink) TX_TRY(tx_wgrad_vector(c, &w->sink, &dsink));
    const tx_attention_bwd_args args = { .dq = k->dq,
                                         .dk = k->dk,
                                         .dv = k->dv,
                                         .do_ = k->d_o,
                                         .o = k->o,
                                         .lse = k->lse,
                                         .q = k->q,
                                         .k = k->k,
                                         .v = k->v,
                                         .scale = w->scale,
                                         .causal = w->causal,
                                         .mask = mask_of(k),
                                         .first_key = first_keys_of(k),
                                         .n_keys = k->call->seen.n,
                                         .alibi = biases_of(k),
                                         .kind = kind_of(k),
                                         .dsink = of_heads(k, dsink),
                                         .q_at = k->part.q_at,
                                         .k_at = k->part.k_at,
                                         .part = k->part.is };
    return k->call->chunks ? tx_chunked_attention_bwd(c, k->call->chunks, &args) : tx_op_attention_bwd(c, &args);
}

/* ---- several ---- */

bool tx_context_is_divided(const tx_ctx *c)
{
    return tx_grid_size(tx_grid_of(c), TX_AXIS_CONTEXT) > 1;
}

bool tx_context_by_heads(const tx_ctx *c, const tx_attention *w)
{
    return tx_context_is_divided(c) && (w->context == TX_CP_COMM_A2A || w->context == TX_CP_COMM_A2A_P2P);
}

tx_status tx_context_attention_fwd(tx_ctx *c, const tx_core_attention *k, tx_context_saved *a)
{
    if (k->call->kv) return tx__ulysses_generate(c, k);
    switch (k->w->context) {
    case TX_CP_COMM_P2P:
        return tx__ring_fwd(c, k);
    case TX_CP_COMM_ALLGATHER:
        return tx__gathered_fwd(c, k);
    case TX_CP_COMM_A2A:
    case TX_CP_COMM_A2A_P2P:
        break;
    }
    return tx__ulysses_fwd(c, k, a);
}

tx_status tx_context_attention_bwd(tx_ctx *c, const tx_core_attention *k, const tx_context_saved *a)
{
    switch (k->w->context) {
    case TX_CP_COMM_P2P:
        return tx__ring_bwd(c, k);
    case TX_CP_COMM_ALLGATHER:
        return tx__gathered_bwd(c, k);
    case TX_CP_COMM_A2A:
    case TX_CP_COMM_A2A_P2P:
        break;
    }
    return tx__ulysses_bwd(c, k, a);
}
