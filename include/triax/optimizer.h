/* optimizer.h - what a program may put in place of the options' optimizer, schedule and parameter groups, and of the
 * mean of its model's losses. */
#ifndef TRIAX_OPTIMIZER_H
#define TRIAX_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters by name: those that the pattern (fnmatch's) matches have these factors of the learning rate and of weight
 * decay; of several groups the first that matches counts, without any both are 1. lr_scale 0: frozen.
 * TX_ERR_ARG: a scale is negative or not finite, or a pattern matches no parameter of the whole model. */
typedef struct tx_param_group {
    const char *pattern; /* "*.bias", "encoder.layers.0.*" */
    double lr_scale, weight_decay_scale;
} tx_param_group;

/* A stretch of a parameter that this rank updates, in the host's memory. */
typedef struct tx_optimizer_update {
    const char *name;     /* the parameter's */
    int64_t first, numel; /* elements [first, first + numel) of this rank's part of it */
    float *value;         /* [numel], master weights: in and out */
    const float *grad;    /* [numel]; the gradient is grad_scale times this */
    float *state[2];      /* [numel] each, at first 0, kept in checkpoints */
    double grad_scale;    /* loss scale and clipping */
    double lr, weight_decay;
    int64_t step; /* 1 for the first */
} tx_optimizer_update;

/* A user-defined optimizer, in place of --optimizer: elements are updated one by one, so that ZeRO can divide
 * them. Called from one thread, stretch by stretch; not at all where gradients are not finite. On CPUs, or with the
 * optimizer offloaded to one (else TX_ERR_UNSUPPORTED). */
typedef struct tx_client_optimizer {
    size_t size;               /* sizeof(tx_client_optimizer) */
    const char *name;          /* in checkpoints */
    int n_state;               /* 0, 1 or 2 */
    const char *state_name[2]; /* in checkpoints: "momentum_buffer" */
    tx_status (*step)(void *user, const tx_optimizer_update *u);
    void *user;
} tx_client_optimizer;

/* A user-defined schedule, in place of --lr-decay-style and --lr-schedule: the learning rate of the update
 * after so many finished ones (skipped ones not counted). A pure function: a run that is resumed asks it again. */
typedef double tx_lr_fn(void *user, int64_t n_updates);

/* The objective of a micro-batch by a user-defined model's losses, where it is not their mean: called after each
 * training forward on the ranks of the last pipeline stage, between forward and backward; tensor-parallel ranks all get
 * the same losses and have to answer alike.
 * @loss [n] as the last layer's forward has written them, n = micro_batch_size x losses_per_sample, in the host's
 * memory
 * @dloss [n] in: the mean's gradient, 1 / n each; out: the gradient of the user-defined objective by each loss */
typedef tx_status tx_loss_gradient_fn(void *user, int64_t micro, const float *loss, int64_t n, float *dloss);

#ifdef __cplusplus
}
#endif
#endif
