/* metrics.h - what a training run reports: counts and times its steps, writes Megatron's log lines, shows a live line
 * on a terminal, and hands each record on to whoever watches (TensorBoard's files, the metrics file). */
#ifndef TX_TRAIN_METRICS_H
#define TX_TRAIN_METRICS_H

#include "base/step_record.h"
#include "train/trainer.h"

enum { TX_MAX_WATCHERS = 4 };

typedef struct tx_metrics { /* zeroed, then watched, then started */
    struct {
        tx_record_fn *fn;
        void *user;
    } watcher[TX_MAX_WATCHERS];
    int n_watchers;
    double interval_start; /* clock of the last log line */
    double run_start;
    bool closing;                          /* training is over: evaluations are the final ones */
    double peak_flops;                     /* of this rank's device; 0: unknown */
    int64_t first_iteration, first_tokens; /* before it */
    /* Times of this process since its last log line. The sums of losses and the counts of that line belong to the
     * trainer (tx_interval): after a resume they include iterations before this process, so do not divide these times
     * by those counts. */
    int64_t n_timed;                 /* iterations */
    double timer[TX_N_TIMERS];       /* seconds */
    double groups[TX_N_GROUP_TIMES]; /* the stack's group_seconds at the last log line */
    double last_progress;
} tx_metrics;

/* From now on fn(user, record) sees every step, interval and evaluation. */
void tx_metrics_watch(tx_metrics *m, tx_record_fn *fn, void *user);

/* Finds the device's peak FLOPS for the run's dtype (--peak-tflops, by name for a GPU, by measurement for a CPU) and
 * logs it. Then begins the first interval. */
void tx_metrics_start(tx_metrics *m, const tx_trainer *t);

/* Adds the time since `since` to a timer; returns the clock. Evaluation and saving are no training: their time is
 * taken out of the interval. */
double tx_metrics_time(tx_metrics *m, tx_timer timer, double since);

/* Excludes the time since `since` from the interval, because it was not training. */
void tx_metrics_pause(tx_metrics *m, double since);

/* After every step: counts it, reports it, shows the live line, and logs when the iteration is divisible by
 * --log-interval. After the first step the memory used stands beside the memory predicted. */
void tx_metrics_step(tx_metrics *m, const tx_trainer *t);

/* After a task was scored: reports its loss and other numbers. */
void tx_metrics_scored(tx_metrics *m, const tx_trainer *t, const char *name, double loss, const tx_named_number *more,
                       int n_more);

/* After the evaluation of a group of a split.
 * @name of the group; NULL: that of `split`, "validation" or "test"
 * @loss one for each loss of the model */
void tx_metrics_evaluated(tx_metrics *m, const tx_trainer *t, const char *split, const char *name, const double *loss);

/* "[<text>] datetime: YYYY-mm-dd HH:MM:SS ": Megatron's mark between the phases of a run. */
void tx_metrics_phase(const char *text);

/* ---- log_line.c: the wording ---- */

/* Logs an interval's line in the --log-dialect, and the timers of --timing-log-level. */
void tx_log_interval(const tx_config *cfg, const tx_step_record *r);

/* Logs what --profile-backward asks for. @seconds of n iterations */
void tx_log_group_times(const tx_config *cfg, const double seconds[TX_N_GROUP_TIMES], double n);

/* Logs Megatron's list of timers: a heading and one line each; timers of 0 are omitted. */
void tx_log_timers(const tx_config *cfg, int n, const char *const *name, const double *ms);

/* Megatron's boxed line: " <name> loss at <where> | lm loss value: ... | lm loss PPL: ... | ", and so on for every loss
 * of the model, and what share of their tokens experts had no room for, where they have limits.
 * @t that has evaluated   @name of the data's group, NULL: "validation"   @loss [n_losses of the model] */
void tx_metrics_evaluation(const tx_trainer *t, const char *name, const char *where, const double *loss);

/* Whether experts have such limits, so that t->expert_means.dropped tells something. */
static inline bool tx_evaluation_drops(const tx_trainer *t)
{
    return t->expert && t->model->experts.eval_factor > 0;
}

/* The line alone; and any line in Megatron's box, between two rules.   @line NULL: log it */
void tx_evaluation_line(char *buf, size_t cap, const tx_trainer *t, const char *name, const char *where,
                        const double *loss);
void tx_boxed_lines(const char *text, void (*line)(void *user, const char *text), void *user);

/* The table of memory use by purpose: a heading and one line each.
 * @line NULL: log it, with Megatron's marks */
void tx_memory_table(const tx_memory *m, const tx_zero_formula *f, void (*line)(void *user, const char *text),
                     void *user);

#endif
