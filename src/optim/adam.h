/* adam.h - AdamW over flat buffers, with Megatron's two groups (matrices decay, biases and norms do not) and the norm
 * of the gradient for clipping.
 *
 *  The norm is summed in fp64 over fixed blocks of each tensor and then in table order, so it depends neither on
 *  threads nor on how tensors are cut over ranks. */
#ifndef TX_OPTIM_ADAM_H
#define TX_OPTIM_ADAM_H

#include "backend/ops.h"

/* One tensor's place in the flat buffers. */
typedef struct tx_optim_range {
    int64_t offset, numel;
    bool decay;
    const char *name; /* borrowed; for messages */
} tx_optim_range;

typedef struct tx_adam {
    tx_optim_range *range; /* owned */
    int n_ranges;
    float *value, *grad; /* borrowed, [numel] */
    float *m, *v;        /* owned, [numel], start at zero */
    double *block_sums;  /* owned; scratch of the norm */
    int64_t numel;
    int64_t t; /* updates so far */
    double beta1, beta2, eps;
} tx_adam;

/* Copies `range`. value and grad are the caller's and outlive the optimizer. TX_ERR_NOMEM. */
tx_status tx_adam_init(tx_adam *o, const tx_optim_range *range, int n_ranges, float *value, float *grad, int64_t numel,
                       double beta1, double beta2, double eps);
void tx_adam_deinit(tx_adam *o);

tx_status tx_adam_zero_grad(tx_ctx *c, tx_adam *o);

/* L2 norm of all gradients. If it is not finite, *bad names the first tensor whose gradient is not; else NULL. */
tx_status tx_adam_grad_norm(tx_ctx *c, tx_adam *o, double *norm, const char **bad);

/* The same sum over the parameters' values. */
tx_status tx_adam_value_norm(tx_ctx *c, tx_adam *o, double *norm);

/* One update of every tensor with gradients times grad_scale; weight decay on the decaying group only. */
tx_status tx_adam_step(tx_ctx *c, tx_adam *o, double lr, double weight_decay, double grad_scale);

#endif
