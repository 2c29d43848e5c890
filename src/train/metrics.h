/* metrics.h - what a training run tells: Megatron's log lines, and a live line for a terminal. */
#ifndef TX_TRAIN_METRICS_H
#define TX_TRAIN_METRICS_H

#include "train/trainer.h"

typedef struct tx_metrics {
    double interval_start; /* clock of the last log line */
    double run_start;
    int64_t first_iteration;
    int64_t advanced, skipped, nan; /* iterations since the last log line */
    double loss_sum;                /* over the advanced ones */
    double last_progress;
} tx_metrics;

void tx_metrics_start(tx_metrics *m, const tx_trainer *t);

/* After every step: counts it, shows the live line, and logs when the iteration is divisible by --log-interval. */
void tx_metrics_step(tx_metrics *m, const tx_trainer *t);

/* Takes the time since `since` out of the interval: evaluation and saving are not training. */
void tx_metrics_exclude(tx_metrics *m, double since);

/* "[<text>] datetime: YYYY-mm-dd HH:MM:SS ": Megatron's mark between the phases of a run. */
void tx_metrics_phase(const char *text);

/* Megatron's boxed line: " <name> loss at <where> | lm loss value: ... | lm loss PPL: ... | ". @name of the data's
 * group, NULL: "validation". */
void tx_metrics_evaluation(const char *name, const char *where, double loss);

#endif
