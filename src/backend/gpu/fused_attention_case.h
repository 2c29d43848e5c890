/* fused_attention_case.h - what cuDNN would be asked for, of the arguments of attention. */
#ifndef TX_BACKEND_GPU_FUSED_ATTENTION_CASE_H
#define TX_BACKEND_GPU_FUSED_ATTENTION_CASE_H

#include "backend/backend.h"
#include "backend/gpu/cudnn_sdpa.h"

#include <string.h>

/* The arguments of both directions. */
typedef struct ask {
    tx_tensor x[TX__SDPA_N_VALUES]; /* by role; forward has the first four */
    tx_tensor lse, first_key, n_keys;
    bool backward, causal, past, dropout, alibi, kind;
} ask;

static inline ask ask_fwd(const tx_attention_fwd_args *a)
{
    ask k = {};
    k.x[TX__SDPA_Q] = a->q;
    k.x[TX__SDPA_K] = a->k;
    k.x[TX__SDPA_V] = a->v;
    k.x[TX__SDPA_O] = a->o;
    k.lse = a->lse;
    k.first_key = a->first_key;
    k.n_keys = a->n_keys;
    k.causal = a->causal;
    k.past = a->past.n.data != NULL || TX__SEQ_PART_OF(a).is;
    k.dropout = a->mask.drop > 0;
    k.alibi = a->alibi.n_heads > 0;
    k.kind = a->kind.window || a->kind.softcap > 0 || tx_has_sink(&a->kind);
    return k;
}

static inline ask ask_bwd(const tx_attention_bwd_args *a)
{
    ask k = {};
    k.x[TX__SDPA_Q] = a->q;
    k.x[TX__SDPA_K] = a->k;
    k.x[TX__SDPA_V] = a->v;
    k.x[TX__SDPA_O] = a->o;
    k.x[TX__SDPA_DO] = a->do_;
    k.x[TX__SDPA_DQ] = a->dq;
    k.x[TX__SDPA_DK] = a->dk;
    k.x[TX__SDPA_DV] = a->dv;
    k.lse = a->lse;
    k.first_key = a->first_key;
    k.n_keys = a->n_keys;
    k.backward = true;
    k.past = TX__SEQ_PART_OF(a).is;
    k.causal = a->causal;
    k.dropout = a->mask.drop > 0;
    k.alibi = a->alibi.n_heads > 0;
    k.kind = a->kind.window || a->kind.softcap > 0 || tx_has_sink(&a->kind);
    return k;
}

static inline int n_values(const ask *k)
{
    return k->backward ? TX__SDPA_N_VALUES : TX__SDPA_O + 1;
}

static inline bool aligned(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* cuDNN has one stride over all heads, and ours lie in groups of r queries' heads, in [s, b, groups, r + 2, d] with two
 * of keys and values between them. Either r is 1, or a group becomes a sample: that has one stride if samples follow
 * each other as their groups do. */
static inline bool set_strides(tx__sdpa *c, int role, const tx_tensor *x, int64_t groups, int64_t r)
{
    const int64_t *s = x->stride;
    int64_t *out = c->stride[role];
    out[0] = r == 1 || groups == 1 ? s[1] : s[2];
    out[1] = r == 1 ? s[2] : x->n_dims == 5 ? s[3] : c->d; /* of one head there is no stride */
    out[2] = s[0];
    if (r > 1 && groups > 1 && x->dim[1] > 1 && s[1] != groups * s[2]) return false;
    for (int i = 0; i < 3; i++)
        if (out[i] < 8 || out[i] % 8) return false;
    return aligned(x->data);
}

/* False: it is not among those that fused_attention.h lists. Of addresses only the alignment is read. */
static inline bool make_case(const ask *k, bool nondeterministic, tx__sdpa *c)
{
    const tx_tensor *q = &k->x[TX__SDPA_Q], *key = &k->x[TX__SDPA_K];
    int64_t s = q->dim[0], b = q->dim[1], groups = q->dim[2], r = q->dim[3], d = q->dim[4];
    if (k->past || k->dropout || k->alibi || k->kind || k->first_key.data || !k->lse.data || k->lse.dtype != TX_F32)
        return false;
    if (key->dim[0] != s || s < 128 || d % 8 || d < 8 || d > 128 || !b || !groups || !r) return false;
    if (q->dtype != TX_BF16 && q->dtype != TX_F16) return false;

    memset(c, 0, sizeof *c);
    c->backward = k->backward;
    c->bf16 = q->dtype == TX_BF16;
    c->causal = k->causal;
    /* cuDNN's backward had NaNs where the last tile of keys is not full and nothing masks what follows them. */
    c->padded = k->n_keys.data || s % 128;
    c->deterministic = k->backward && !nondeterministic;
    c->b = r == 1 ? b : b * groups;
    c->heads = r == 1 ? groups : r;
    c->key_heads = r == 1 ? groups : 1;
    c->s = s;
    c->d = d;
    c->most_workspace = (int64_t)4 << 30;
    for (int i = 0; i < n_values(k); i++)
        if (k->x[i].dtype != q->dtype || !set_strides(c, i, &k->x[i], groups, r)) return false;
    return aligned(k->lse.data);
}

#endif
