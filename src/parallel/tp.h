/* tp.h - tensor parallelism's communication: f and g of Megatron-LM (arXiv:1909.08053 §3), and with sequence
 * parallelism their counterparts (arXiv:2205.05198 §4.2.2), around what is split over the tensor ranks:
 *
 *      x --f--> [ column-parallel, ..., row-parallel ] --g--> y
 *
 *                                 without sequence parallelism     with it: x, y have s/t of the positions
 *      f   forward  tx_tp_gather  x is whole already               all-gather
 *          backward tx_tp_sum     all-reduce                       reduce-scatter
 *      g   forward  tx_tp_sum     all-reduce                       reduce-scatter
 *          backward tx_tp_gather  dy is whole already              all-gather
 *
 *  So a caller needs room for the whole sequence, which is x's own memory where x is whole: it asks tx_tp_is_whole, or
 *  simply passes x for both. With one tensor rank nothing happens. Tensors are contiguous, positions first. */
#ifndef TX_PARALLEL_TP_H
#define TX_PARALLEL_TP_H

#include "parallel/grid.h"

/* Whether a rank's activations between layers have all positions; and how many of s they have. */
bool tx_tp_is_whole(const tx_ctx *c);
int64_t tx_tp_positions(const tx_ctx *c, int64_t s);
int64_t tx_tp_first_position(const tx_ctx *c, int64_t s);

/* Room for what x is a part of, pushed on an arena; x itself where that is whole. */
tx_tensor tx_tp_room(tx_ctx *c, tx_arena *a, tx_tensor x);

/* whole = all ranks' x, one after the other; nothing where both are the same. Collective over the tensor group. */
tx_status tx_tp_gather(tx_ctx *c, tx_tensor whole, tx_tensor x);

/* x = this rank's positions of Σ over the ranks of whole, which is used up; all positions where both are the same. */
tx_status tx_tp_sum(tx_ctx *c, tx_tensor x, tx_tensor whole);

/* A tx_exchange_fn (backend/ops.h). */
tx_status tx_tp_exchange(tx_ctx *c, tx_tensor all, tx_tensor mine);

#endif
