/* attention.h - causal self-attention with one fused q,k,v projection.
 *
 *  Rows of the fused projection follow Megatron's checkpoint_version 3: per head its q, then its k, then its v,
 *  d rows each:
 *        | q0 | k0 | v0 | q1 | k1 | v1 | ...                      [3h, h]
 *  so q, k and v of all heads are strided views into one tensor and are never copied apart.
 *  Attention: arXiv:1706.03762 §3.2; fused layout: Megatron-LM arXiv:1909.08053 §3. */
#ifndef TX_NN_ATTENTION_H
#define TX_NN_ATTENTION_H

#include "nn/dropout.h"
#include "nn/linear.h"

typedef struct tx_attention {
    tx_linear qkv;  /* [3h, h] */
    tx_linear proj; /* [h, h] */
    int64_t n_heads;
    double p_drop; /* of the probabilities */
    int layer;     /* from 1; names the random stream */
} tx_attention;

/* What backward needs; tensors lie on the activation stack. */
typedef struct tx_attention_saved {
    tx_tensor qkv;       /* [s, b, 3h] */
    tx_tensor o;         /* [s, b, h], heads side by side, before the projection */
    tx_tensor lse;       /* [b, n, 1, s] */
    tx_tensor first_key; /* the caller's */
} tx_attention_saved;

/* Keys and values of the positions already seen, for generation: k, v [max positions, b, n, d]. */
typedef struct tx_kv_cache {
    tx_tensor k, v;
    int64_t n_past; /* positions filled; the caller moves it on after all layers have run */
} tx_kv_cache;

/* @y [s, b, h], written   @x [s, b, h].  Pushes a's tensors. kv NULL: training and scoring; else the s new positions
 * are appended to the cache and look at all of it.   @first_key [s, b] i32 or absent, as in ops.h */
tx_status tx_attention_layer_fwd(tx_ctx *c, const tx_attention *w, tx_attention_saved *a, tx_kv_cache *kv,
                                 tx_tensor first_key, const tx_dropout_key *key, tx_tensor y, tx_tensor x);

/* @dx [s, b, h], written   @dy [s, b, h]   @x as in forward */
tx_status tx_attention_layer_bwd(tx_ctx *c, const tx_attention *w, const tx_attention_saved *a,
                                 const tx_dropout_key *key, tx_tensor dx, tx_tensor dy, tx_tensor x);

#endif
