/* deepspeed_schedule.h - DeepSpeed's learning-rate schedules: the JSON's `scheduler`, or --lr-schedule. Pure functions
 * of how often the schedule was stepped, once after every update that was taken.
 *
 *  Source: DeepSpeed 0.19, deepspeed/runtime/lr_schedules.py, whose names these are. */
#ifndef TX_OPTIM_DEEPSPEED_SCHEDULE_H
#define TX_OPTIM_DEEPSPEED_SCHEDULE_H

#include "config/config.h"

/* What is of another kind is 0. */
typedef struct tx_ds_schedule {
    enum tx_ds_schedule_kind kind;                 /* kinds/schedules.h; 0: the schedule is none of them */
    double log_warmup, staircase, cycles_momentum; /* 0 or 1 */
    /* WarmupLR, WarmupDecayLR, WarmupCosineLR; total_steps of the last two */
    double min_lr, max_lr, warmup_steps, total_steps;
    double base_lr, min_ratio, cos_min_ratio; /* WarmupCosineLR: factors of base_lr, which is --lr */
    double step_rate, step_size;              /* LRRangeTest, of min_lr */
    /* OneCycle, between min_lr and max_lr */
    double first_steps, second_steps, first_stairs, second_stairs, decay_steps, decay_lr_rate;
    double min_mom, max_mom, decay_mom_rate;
} tx_ds_schedule;

/* Of complete options; kind 0 where they name none. */
tx_ds_schedule tx_ds_schedule_from_config(const tx_config *cfg);

/* The learning rate of the update after `steps` steps. */
double tx_ds_schedule_lr(const tx_ds_schedule *s, int64_t steps);

/* OneCycle's momentum of that update, as Adam's betas; false: they are the options'. Its second beta is always 0.99. */
bool tx_ds_schedule_betas(const tx_ds_schedule *s, int64_t steps, double betas[2]);

/* ---- in checkpoints ---- */

/* An object: "type", DeepSpeed's "last_batch_iteration", which is steps - 1, and the numbers above. Caller
 * json_decref()s *out. */
tx_status tx_ds_schedule_to_json(const tx_ds_schedule *s, int64_t steps, json_t **out);

/* And of such an object a schedule; kind 0: it is the client's, or does not say. TX_ERR_FORMAT: a number cannot be. */
tx_status tx_ds_schedule_from_json(tx_ds_schedule *s, const json_t *saved);

/* The steps of such an object. TX_ERR_FORMAT: it has none. */
tx_status tx_ds_schedule_steps(const json_t *saved, int64_t *steps);

/* What a resumed run does where the saved schedule (NULL: it is none of DeepSpeed's) differs from its own, as
 * tx_schedule_resume: with `own` it stays, with `theirs` the saved one is taken, else that is TX_ERR_ARG; never
 * silently. One of DeepSpeed's own checkpoints says only where it stands: the run's goes on from there. TX_ERR_FORMAT:
 * a saved number cannot be. *s is unchanged on failure. */
tx_status tx_ds_schedule_resume(tx_ds_schedule *s, const json_t *saved, bool own, bool theirs);

#endif
