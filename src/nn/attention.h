/* attention.h - self-attention, causal or not, with one fused q,k,v projection.
 *
 *  Query heads come in groups that share a key and a value head (as many groups as heads: plain attention). Rows of the
 *  fused projection follow Megatron's checkpoint_version 3: per group its r = heads / groups queries, then its key,
 * then its value, d rows each: | q0 .. q(r-1) | k | v | q0 .. q(r-1) | k | v | ...                      [(heads + 2
 * groups) d, h] so q, k and v of all heads are strided views into one tensor and are never copied apart. Attention:
 * arXiv:1706.03762 §3.2; groups: arXiv:2305.13245; fused layout: Megatron-LM arXiv:1909.08053 §3. */
#ifndef TX_NN_ATTENTION_H
#define TX_NN_ATTENTION_H

#include "nn/attention_types.h"

/* Pushes a's tensors. */
tx_status tx_attention_layer_fwd(tx_ctx *c, const tx_attention *w, tx_attention_saved *a, const tx_attention_call *k);
tx_status tx_attention_layer_bwd(tx_ctx *c, const tx_attention *w, const tx_attention_saved *a,
                                 const tx_attention_call *k);

#endif
