/* kept_input.h - what is kept of the input x of layers that backward computes again (DeepSpeed's activation
 * checkpointing). Mostly that is x, where forward has it, on the activation stack. It moves away
 *
 *      divided (--partition-activations)   without sequence parallelism all t tensor ranks have the same x: each keeps
 *                                          its t-th of the elements and gathers x again for backward
 *      in_host (--checkpoint-in-cpu)       to the host's memory, c->host, and back for backward
 *
 *      or both: then a t-th lies there. The numbers stay the same, to the bit. */
#ifndef TX_NN_KEPT_INPUT_H
#define TX_NN_KEPT_INPUT_H

#include "config/config.h"
#include "parallel/tp.h"

/* Whether inputs move: then the memory of x is free as soon as its layers have read it. */
bool tx_inputs_move(const tx_recompute *how);

/* Forward: pushes *kept, which is x itself where inputs do not move.   @x contiguous */
tx_status tx_keep_input(tx_ctx *c, const tx_recompute *how, tx_tensor *kept, tx_tensor x);

/* Backward, where inputs move: x again.   @x room of its shape. Collective over the tensor group. */
tx_status tx_fetch_input(tx_ctx *c, const tx_recompute *how, tx_tensor x, tx_tensor kept);

#endif
