/* schedule.h - learning rate and weight decay as functions of the samples consumed. Pure.
 * Megatron-LM's rules (OptimizerParamScheduler): steps are samples, so that a schedule does not move when the batch
 * size changes; the state is one number, n = samples of all updates so far. */
#ifndef TX_OPTIM_SCHEDULE_H
#define TX_OPTIM_SCHEDULE_H

#include "config/config.h"

typedef enum tx_decay_style {
    TX_DECAY_CONSTANT,
    TX_DECAY_LINEAR,
    TX_DECAY_COSINE,
    TX_DECAY_INVERSE_SQRT
} tx_decay_style;

typedef struct tx_schedule {
    tx_decay_style lr_style, wd_style;
    double max_lr, min_lr, start_wd, end_wd;
    double warmup, decay, wd_incr; /* samples */
} tx_schedule;

/* From complete options (train_iters, global_batch_size, ... resolved). */
tx_schedule tx_schedule_from_config(const tx_config *cfg);

double tx_schedule_lr(const tx_schedule *s, double n);
double tx_schedule_wd(const tx_schedule *s, double n);

#endif
