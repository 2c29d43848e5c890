/* chunked_block.h - a layer (block.h) that computes its positions in chunks (FPDT, arXiv:2408.16978): each chunk goes
 * through all of the layer before the next one begins, so what is pushed for one is free for the next. Of all positions
 * there are the layer's input, its output or their gradient, and what attention keeps (chunked_attention.h). With
 *  how.inputs backward does not read k->x, whose memory may be free: the layer keeps a copy where attention keeps what
 * it keeps. Backward computes the rest of a chunk again: all of forward but attention.
 *
 *  Masks depend on positions alone, so the numbers are those of a layer that computes all at once, but for the order in
 *  which attention's sums and weights' gradients are added up. */
#ifndef TX_NN_CHUNKED_BLOCK_H
#define TX_NN_CHUNKED_BLOCK_H

#include "nn/block.h"

/* Pushes a's tensors, on c->acts or c->host. @k for all positions, as tx_block_fwd and tx_block_bwd have it; what is
 * lent is for a chunk's.
 * @unit  of the parameter table, the layer's: its weights' gradients begin with the last chunk's */
tx_status tx_chunked_block_fwd(tx_ctx *c, const tx_block *w, tx_chunks *a, tx_chunking how, const tx_block_call *k);
tx_status tx_chunked_block_bwd(tx_ctx *c, const tx_block *w, tx_chunks *a, const tx_block_call *k,
                               const tx_params *params, int unit);

#endif
