/* optimizer.h - user-defined optimizers, learning-rate schedules, parameter groups and objectives.
 *
 * Each replaces what the options would choose; the objective replaces the mean of the model's losses. */
#ifndef TRIAX_OPTIMIZER_H
#define TRIAX_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A parameter group: parameters whose name matches the pattern (fnmatch) get these factors on the learning rate and on
 * weight decay. If several groups match, the first one applies. If none does, both factors are 1. lr_scale 0 freezes
 * the parameters.
 * TX_ERR_ARG: a scale is negative or not finite, or a pattern matches no parameter of the whole model. */
typedef struct tx_param_group {
    const char *pattern; /* "*.bias", "encoder.layers.0.*" */
    double lr_scale, weight_decay_scale;
} tx_param_group;

/* A fragment of a parameter that this rank updates. All arrays are in host memory. */
typedef struct tx_optimizer_update {
    const char *name;     /* the parameter's */
    int64_t first, numel; /* elements [first, first + numel) of this rank's shard of the parameter */
    float *value;         /* [numel], master weights: in and out */
    const float *grad;    /* [numel]; the gradient is grad_scale times this */
    float *state[2];      /* [numel] each, initially 0, saved in checkpoints */
    double grad_scale;    /* combines loss scale and clipping */
    double lr, weight_decay;
    int64_t step; /* 1 for the first */
} tx_optimizer_update;

/* A user-defined optimizer, in place of --optimizer. It updates each element independently of the others, so that ZeRO
 * can partition them. It is called from one thread, once per fragment, and not at all if gradients are not finite. It
 * runs on CPUs, or with the optimizer offloaded to the CPU (else TX_ERR_UNSUPPORTED). */
typedef struct tx_client_optimizer {
    size_t size;               /* sizeof(tx_client_optimizer) */
    const char *name;          /* in checkpoints */
    int n_state;               /* 0, 1 or 2 */
    const char *state_name[2]; /* in checkpoints: "momentum_buffer" */
    tx_status (*step)(void *user, const tx_optimizer_update *u);
    void *user;
} tx_client_optimizer;

/* A user-defined schedule, in place of --lr-decay-style and --lr-schedule: returns the learning rate of the update
 * that follows n_updates finished ones (skipped ones are not counted). It must be a pure function, since a resumed run
 * calls it again. */
typedef double tx_lr_fn(void *user, int64_t n_updates);

/* A user-defined objective in place of the mean of the losses, for user-defined models. It is called after each
 * training forward, before backward, on the ranks of the last pipeline stage. Tensor-parallel ranks all get the same
 * losses and must return the same gradients.
 * @loss [n] as the last layer's forward wrote them, n = micro_batch_size x losses_per_sample, in host memory
 * @dloss [n] in: the gradient of the mean, 1 / n each; out: the gradient of the user-defined objective by each loss */
typedef tx_status tx_loss_gradient_fn(void *user, int64_t micro, const float *loss, int64_t n, float *dloss);

#ifdef __cplusplus
}
#endif
#endif
