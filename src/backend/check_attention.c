/* check_attention.c - the shape rules of attention and of what works on its tensors. */
#include "backend/check.h"

static bool lse_fits(tx_tensor lse, tx_tensor q)
{
    return dense(lse, tx_wide(q.dtype), 4) && lse.dim[0] == q.dim[1] && lse.dim[1] == q.dim[2] &&
           lse.dim[2] == q.dim[3] && lse.dim[3] == q.dim[0];
}

/* q [sq,b,groups,r,d] with k and v [sk,b,groups,d] and, if there, lse [b,groups,r,sq].
 * @last the queries are the last of the positions that k has */
static bool attention_fits(tx_tensor q, tx_tensor k, tx_tensor v, tx_tensor lse, bool last)
{
    tx_dtype t = q.dtype;
    if (!is_float(t) || !view(q, t, 5) || !view(k, t, 4) || !view(v, t, 4) || !tx_same_shape(k, v)) return false;
    if (k.dim[1] != q.dim[1] || k.dim[2] != q.dim[2] || k.dim[3] != q.dim[4]) return false;
    if (last && k.dim[0] < q.dim[0]) return false;
    return !lse.data || lse_fits(lse, q);
}

/* Of q's b samples in a cache like k. */
static bool past_fits(tx_past past, int64_t b)
{
    return vec(past.n, TX_I32, b) && vec(past.slot, TX_I32, b);
}

/* What attention takes its scores from: [sk,b,groups,d], of a cache what one sample sees at most. */
static tx_tensor keys_of(tx_tensor k, tx_past past, int64_t b)
{
    if (past.n.data) k.dim[1] = b;
    return k;
}

static bool first_key_fits(tx_tensor first_key, tx_tensor q)
{
    return !first_key.data || mat(first_key, TX_I32, q.dim[0], q.dim[1]);
}

/* Keys that pad are of all queries, so no position may matter. */
static tx_status check_padding(const char *op, tx_tensor n_keys, tx_tensor q, bool causal, tx_past past)
{
    if (!n_keys.data || (vec(n_keys, TX_I32, q.dim[1]) && !causal && !past.n.data)) return TX_OK;
    return refuse(op, "n_keys [b] int32, and neither causal nor a past",
                  (named[]){ { "q", q }, { "n_keys", n_keys }, { "past.n", past.n } }, 3);
}

static tx_status check_part(const char *op, tx__seq_part part, tx_tensor q, bool causal, tx_past past)
{
    if (!part.is) return TX_OK;
    if (past.n.data) return TX_FAIL(TX_ERR_ARG, "%s: a part of a sequence has no past", op);
    if (part.q_at < 0 || part.k_at < 0 || (causal && part.k_at >= part.q_at + q.dim[0]))
        return TX_FAIL(TX_ERR_ARG,
                       "%s: a part's queries begin at %lld and its keys at %lld: both are at least 0, and with causal "
                       "attention the first key is not after the last query",
                       op, (long long)part.q_at, (long long)part.k_at);
    return TX_OK;
}

static tx_status check_attention_mask(const char *op, const tx_dropout *m, tx_tensor q, tx_tensor k, tx__seq_part part)
{
    if (m->drop == 0) return TX_OK;
    if (m->drop > 65535) return TX_FAIL(TX_ERR_ARG, "%s: drop %u is not in 0..65535", op, m->drop);
    int64_t heads = q.dim[2] * q.dim[3];
    if (m->s_global < part.k_at + k.dim[0] || m->s_global < part.q_at + q.dim[0])
        return TX_FAIL(TX_ERR_SHAPE, "%s: %lld keys do not lie in the mask's sequence length %lld", op,
                       (long long)(part.k_at + k.dim[0]), (long long)m->s_global);
    if (m->first_head < 0 || m->n_heads - heads < m->first_head)
        return TX_FAIL(TX_ERR_SHAPE, "%s: heads %lld + %lld do not lie in the mask's %lld", op,
                       (long long)m->first_head, (long long)heads, (long long)m->n_heads);
    return TX_OK;
}

static tx_status check_alibi(const char *op, const tx_alibi *a, tx_tensor q, bool causal)
{
    int64_t heads = q.dim[2] * q.dim[3];
    if (!a->n_heads) return TX_OK;
    if (!causal) return TX_FAIL(TX_ERR_ARG, "%s: linear biases of positions need causal attention", op);
    if (a->first_head < 0 || a->n_heads - heads < a->first_head)
        return TX_FAIL(TX_ERR_SHAPE, "%s: heads %lld + %lld do not lie in the biases' %lld", op,
                       (long long)a->first_head, (long long)heads, (long long)a->n_heads);
    return TX_OK;
}

/* @dsink absent in forward */
static tx_status check_kind(const char *op, const tx_attention_kind *k, tx_tensor q, bool causal, tx_tensor dsink)
{
    int64_t heads = q.dim[2] * q.dim[3];
    if (k->window < 0 || (k->window && !causal))
        return TX_FAIL(TX_ERR_ARG, "%s: a window of %lld tokens: it is at least 0, and needs causal attention", op,
                       (long long)k->window);
    if (!(k->softcap >= 0)) return TX_FAIL(TX_ERR_ARG, "%s: a softcap of %g is not at least 0", op, k->softcap);
    if (k->off_by_one && k->sink.data) return TX_FAIL(TX_ERR_ARG, "%s: sinks and off_by_one: give one of them", op);
    bool fits = !k->sink.data || vec(k->sink, q.dtype, heads);
    if (fits && (!dsink.data || (k->sink.data && vec(dsink, tx_wide(q.dtype), heads)))) return TX_OK;
    return refuse(op, "sink [groups r] of q's dtype, and with it dsink [groups r] fp32",
                  (named[]){ { "q", q }, { "kind.sink", k->sink }, { "dsink", dsink } }, 3);
}

tx_status tx__check_attention_fwd(const tx_attention_fwd_args *a)
{
    int64_t b = a->q.dim[1];
    tx__seq_part part = TX__SEQ_PART_OF(a);
    tx_tensor k = keys_of(a->k, a->past, b), v = keys_of(a->v, a->past, b);
    if (!attention_fits(a->q, k, v, a->lse, a->causal && !part.is) || !tx_same_shape(a->k, a->v) ||
        !view(a->o, a->q.dtype, 5) || !tx_same_shape(a->o, a->q) || !first_key_fits(a->first_key, a->q))
        return REFUSE(
            "attention_fwd",
            "o and q [sq,b,groups,r,d], k and v [sk,b,groups,d], lse [b,groups,r,sq], sk >= sq if causal, of one "
            "float dtype, lse fp32, last stride 1; first_key [sq,b] int32",
            T(o), T(lse), T(q), T(k), T(v), T(first_key));
    if (a->past.n.data && (!a->causal || !past_fits(a->past, b)))
        return REFUSE("attention_fwd", "past.n and past.slot [b] int32, and causal", T(q), T(past.n), T(past.slot));
    TX_TRY(check_padding("attention_fwd", a->n_keys, a->q, a->causal, a->past));
    TX_TRY(check_alibi("attention_fwd", &a->alibi, a->q, a->causal));
    TX_TRY(check_kind("attention_fwd", &a->kind, a->q, a->causal, (tx_tensor){ 0 }));
    TX_TRY(check_part("attention_fwd", part, a->q, a->causal, a->past));
    return check_attention_mask("attention_fwd", &a->mask, a->q, a->k, part);
}

tx_status tx__check_attention_bwd(const tx_attention_bwd_args *a)
{
    tx_dtype t = a->q.dtype;
    tx__seq_part part = TX__SEQ_PART_OF(a);
    bool ok = attention_fits(a->q, a->k, a->v, a->lse, false) && a->lse.data;
    ok = ok && (part.is || a->q.dim[0] == a->k.dim[0]);
    ok = ok && view(a->dq, t, 5) && tx_same_shape(a->dq, a->q) && view(a->do_, t, 5) && tx_same_shape(a->do_, a->q);
    ok = ok && view(a->o, t, 5) && tx_same_shape(a->o, a->q) && view(a->dk, t, 4) && tx_same_shape(a->dk, a->k);
    if (!ok || !view(a->dv, t, 4) || !tx_same_shape(a->dv, a->v) || !first_key_fits(a->first_key, a->q))
        return REFUSE(
            "attention_bwd",
            "dq, do, o, q [s,b,groups,r,d], dk, dv, k, v [s,b,groups,d], lse [b,groups,r,s] fp32, of one float dtype, "
            "last stride 1; first_key [s,b] int32",
            T(dq), T(dk), T(dv), T(do_), T(o), T(lse), T(q), T(k), T(v), T(first_key));
    TX_TRY(check_padding("attention_bwd", a->n_keys, a->q, a->causal, (tx_past){ .n = { 0 } }));
    TX_TRY(check_alibi("attention_bwd", &a->alibi, a->q, a->causal));
    TX_TRY(check_kind("attention_bwd", &a->kind, a->q, a->causal, a->dsink));
    TX_TRY(check_part("attention_bwd", part, a->q, a->causal, (tx_past){ .n = { 0 } }));
    return check_attention_mask("attention_bwd", &a->mask, a->q, a->k, part);
}

tx_status tx__check_max_logits(const tx_max_logits_args *a)
{
    tx__seq_part part = TX__SEQ_PART_OF(a);
    if (!attention_fits(a->q, a->k, a->k, (tx_tensor){ 0 }, false) || (!part.is && a->q.dim[0] != a->k.dim[0]) ||
        !mat(a->max, TX_F32, a->q.dim[2], a->q.dim[3]) || !first_key_fits(a->first_key, a->q))
        return REFUSE("max_logits", "max [groups,r] fp32, q and k as attention_fwd's, sq == sk; first_key [s,b] int32",
                      T(max), T(q), T(k), T(first_key));
    TX_TRY(check_kind("max_logits", &(tx_attention_kind){ .window = a->window }, a->q, a->causal, (tx_tensor){ 0 }));
    TX_TRY(check_part("max_logits", part, a->q, a->causal, (tx_past){ .n = { 0 } }));
    return check_padding("max_logits", a->n_keys, a->q, a->causal, (tx_past){ .n = { 0 } });
}

tx_status tx__check_attention_join(const tx_attention_join_args *a)
{
    tx_dtype t = a->o.dtype, p = a->part.dtype;
    if (is_float(t) && is_float(p) && tx_wide(t) == tx_wide(p) && view(a->o, t, 5) && view(a->part, p, 5) &&
        tx_same_shape(a->o, a->part) && lse_fits(a->lse, a->o) && lse_fits(a->part_lse, a->o))
        return TX_OK;
    return REFUSE("attention_join",
                  "o and part [sq,b,groups,r,d], last stride 1, lse and part_lse [b,groups,r,sq] fp32", T(o), T(lse),
                  T(part), T(part_lse));
}

tx_status tx__check_cache_append(const tx_cache_append_args *a)
{
    tx_dtype t = a->k.dtype;
    bool ok = is_float(t) && view(a->k, t, 4) && view(a->v, t, 4) && view(a->k_cache, t, 4) && view(a->v_cache, t, 4) &&
              tx_same_shape(a->k, a->v) && tx_same_shape(a->k_cache, a->v_cache) && past_fits(a->past, a->k.dim[1]);
    for (int i = 0; ok && i < 4; i++)
        ok = i == 1 || (i ? a->k_cache.dim[i] == a->k.dim[i] : a->k_cache.dim[0] >= a->k.dim[0]);
    if (ok) return TX_OK;
    return REFUSE("cache_append",
                  "k and v [s,b,groups,d], k_cache and v_cache [positions,slots,groups,d] of one float dtype, last "
                  "stride 1; past.n and past.slot [b] int32",
                  T(k_cache), T(v_cache), T(k), T(v), T(past.n), T(past.slot));
}
