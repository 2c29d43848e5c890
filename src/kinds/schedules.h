/* schedules.h - how learning rate and weight decay go: one row a style, with its formula.
 *
 *  Megatron's three options:                  DeepSpeed's schedules:
 *      --lr-decay-style                            --lr-schedule
 *      --lr-wsd-decay-style
 *      --weight-decay-incr-style
 *
 *  A formula is an expression. optim/schedule.c evaluates it, and has the names that it may use:
 *
 *      r            how far the decay or the rise has come, 0 to 1
 *      FALLS(part)  the learning rate when `part` of max_lr - min_lr is left; min_lr once the decay is over
 *      s, p         the schedule (optim/schedule.h), and where it stands; for styles that no FALLS describes
 *
 *  A style more is a row more, and touches no other file where its formula is an expression. One that needs statements
 *  names a function in optim/schedule.c. Source: Megatron-LM, megatron/core/optimizer_param_scheduler.py. */
#ifndef TX_KINDS_SCHEDULES_H
#define TX_KINDS_SCHEDULES_H

#include "kinds/kind.h"

/* The learning rate after the warm-up. X(constant, word, learning rate) */
#define TX_LR_DECAY_STYLES(X)                                                 \
    X(TX_LR_DECAY_CONSTANT, "constant", s->max_lr)                            \
    X(TX_LR_DECAY_LINEAR, "linear", FALLS(1 - r))                             \
    X(TX_LR_DECAY_COSINE, "cosine", FALLS(0.5 * (cos(PI * r) + 1)))           \
    X(TX_LR_DECAY_INVERSE_SQRT, "inverse-square-root", inverse_sqrt_lr(s, p)) \
    X(TX_LR_DECAY_WSD, "WSD", wsd_lr(s, p)) /* max_lr, and falls in the last wsd_decay steps */

/* How it falls at the end of WSD. X(constant, word, part of max_lr - min_lr that is left) */
#define TX_WSD_DECAY_STYLES(X)                                      \
    X(TX_WSD_DECAY_EXPONENTIAL, "exponential", 2 * pow(0.5, r) - 1) \
    X(TX_WSD_DECAY_LINEAR, "linear", 1 - r)                         \
    X(TX_WSD_DECAY_COSINE, "cosine", 0.5 * (cos(PI * r) + 1))       \
    X(TX_WSD_DECAY_MINUS_SQRT, "minus_sqrt", 1 - sqrt(r))

/* Weight decay from start_wd to end_wd. X(constant, word, part of the way that is done) */
#define TX_WD_INCR_STYLES(X)              \
    X(TX_WD_INCR_CONSTANT, "constant", 1) \
    X(TX_WD_INCR_LINEAR, "linear", r)     \
    X(TX_WD_INCR_COSINE, "cosine", 0.5 * (cos(PI * (1 - r)) + 1))

/* DeepSpeed's, in optim/deepspeed_schedule.c: the learning rate when it was stepped `last` + 1 times.
 * X(constant, word, learning rate) */
#define TX_DS_SCHEDULES(X)                                     \
    X(TX_DS_RANGE_TEST, "LRRangeTest", range_test_lr(s, last)) \
    X(TX_DS_ONE_CYCLE, "OneCycle", one_cycle_lr(s, last))      \
    X(TX_DS_WARMUP, "WarmupLR", warmup_lr(s, last))            \
    X(TX_DS_WARMUP_DECAY, "WarmupDecayLR", warmup_lr(s, last)) \
    X(TX_DS_WARMUP_COSINE, "WarmupCosineLR", warmup_cosine_lr(s, last))

TX_KIND(lr_decay_style, TX_LR_DECAY_STYLES)
TX_KIND(wsd_decay_style, TX_WSD_DECAY_STYLES)
TX_KIND(wd_incr_style, TX_WD_INCR_STYLES)
TX_KIND(ds_schedule_kind, TX_DS_SCHEDULES)

#endif
