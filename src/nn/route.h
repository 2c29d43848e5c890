/* route.h - tokens of a micro-batch choose experts, where c ranks divide the positions of its samples
 * (TX_AXIS_CONTEXT). Each has the logits of its own tokens, and what follows is that of one rank that has all:
 *
 *      nothing is dropped    each token chooses alone; how many chose an expert is summed over the ranks
 *      experts have room     who is dropped depends on all tokens: each rank gets all logits, in the order of
 *        for some tokens     positions, chooses for all, and keeps its own tokens' rows
 *
 *  So the capacity, the auxiliary loss and the load are those of the micro-batch, as in Megatron Core
 * (megatron/core/transformer/moe/router.py, whose loss is of the tensor and context ranks together). */
#ifndef TX_NN_ROUTE_H
#define TX_NN_ROUTE_H

#include "backend/ops.h"

/* How many of them a token's micro-batch is divided among. */
int tx_route_parts(const tx_ctx *c);

/* As the op, collective over TX_GROUP_CONTEXT; alone it is the op. `chosen` counts the tokens of all ranks; `stats` are
 * such that those of all ranks together have the sum over all tokens.
 *  @a of this rank's tokens; the router's capacity, that of all */
tx_status tx_route_fwd(tx_ctx *c, const tx_route_fwd_args *a);

#endif
