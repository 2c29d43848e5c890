/* experts.h - the feed-forward halves of several experts, each of which has some of the rows: packed by expert, without
 * padding. To each it is what tx_mlp is to all rows. */
#ifndef TX_NN_EXPERTS_H
#define TX_NN_EXPERTS_H

#include "nn/mlp.h"

typedef struct tx_experts {
    tx_mlp *mlp; /* [n], alike but for their weights: of equal shapes and options, fresh together. The caller's */
    int64_t n;   /* experts of this rank */
} tx_experts;

typedef struct tx_experts_saved {
    tx_mlp_saved mlp; /* of all rows */
    tx_tensor count;
    int64_t room; /* the most rows that there may be, for which memory is pushed; set by the caller before forward */
} tx_experts_saved;

/* Expert e computes the count[e] rows behind those of the experts before it, as tx_mlp_fwd does.
 * @y, @x [rows, h]; rows may be 0, and are at most a->room   @count [n] i32: sums to rows, in the host's memory. Pushes
 * a's tensors. */
tx_status tx_experts_fwd(tx_ctx *c, const tx_experts *w, tx_experts_saved *a, tx_tensor y, tx_tensor x,
                         tx_tensor count);

/* @dx [rows, h], written; may be dy's memory   @dy [rows, h]   @x as in forward.
 * Accumulates the weights' gradients; those of an expert without rows that are fresh become 0. */
tx_status tx_experts_bwd(tx_ctx *c, const tx_experts *w, const tx_experts_saved *a, tx_tensor dx, tx_tensor dy,
                         tx_tensor x);

#endif
