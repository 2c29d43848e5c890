/* schedule.h - learning rate and weight decay as functions of what has been consumed. Pure.
 * Megatron's rules (OptimizerParamScheduler): steps are samples, so that a schedule does not move when the batch size
 * changes; warm-up and decay can be counted in tokens instead. The styles and their formulas are in kinds/schedules.h.
 */
#ifndef TX_OPTIM_SCHEDULE_H
#define TX_OPTIM_SCHEDULE_H

#include "config/config.h"

typedef struct tx_schedule {
    enum tx_lr_decay_style lr_style;
    enum tx_wsd_decay_style wsd_style;
    enum tx_wd_incr_style wd_style;
    double init_lr, max_lr, min_lr, start_wd, end_wd;
    double warmup, decay, wsd_decay, wd_incr; /* samples */
    double warmup_tokens, decay_tokens;       /* 0: counted in samples */
    bool decoupled; /* the word embedding and the output layer have a highest and lowest rate of their own */
    double decoupled_lr, decoupled_min_lr;
} tx_schedule;

/* Where a schedule stands: what all updates so far have consumed. */
typedef struct tx_schedule_place {
    int64_t samples;
    int64_t tokens; /* consumed before the last update, as upstream counts them: one batch less than the samples */
    int64_t warmup_tokens; /* the value of `tokens` when a warm-up in samples ended; where a decay in tokens begins */
} tx_schedule_place;

/* From complete options (train_iters, global_batch_size, ... resolved). */
tx_schedule tx_schedule_from_config(const tx_config *cfg);

double tx_schedule_lr(const tx_schedule *s, const tx_schedule_place *at);
/* Of the word embedding and the output layer, if it is `decoupled`; else negative. */
double tx_schedule_decoupled_lr(const tx_schedule *s, const tx_schedule_place *at);

double tx_schedule_wd(const tx_schedule *s, const tx_schedule_place *at);

/* After an update of so many samples, before which the run had consumed so many tokens. */
void tx_schedule_advance(const tx_schedule *s, tx_schedule_place *at, int64_t samples, int64_t tokens);

/* ---- in checkpoints: schedule_state.c ---- */

/* An object with the names of upstream's state: "max_lr", "lr_decay_steps", ... Caller json_decref()s *out. */
tx_status tx_schedule_to_json(const tx_schedule *s, json_t **out);

/* And of such an object a schedule; TX_ERR_FORMAT: a value is missing or cannot be. */
tx_status tx_schedule_from_json(tx_schedule *s, const json_t *saved);

/* What a resumed run does where the saved schedule differs from its own: nothing silently. TX_SCHEDULE_SAME: all that
 * differs is one error of one line (TX_ERR_ARG) that says how to choose. OWN: keeps its own; SAVED: takes the saved;
 * both log each difference in upstream's words. A value that cannot be is TX_ERR_FORMAT. *s is unchanged on failure. */
typedef enum tx_schedule_choice { TX_SCHEDULE_SAME, TX_SCHEDULE_OWN, TX_SCHEDULE_SAVED } tx_schedule_choice;
tx_status tx_schedule_resume(tx_schedule *s, const json_t *saved, tx_schedule_choice choice);

#endif
