/* engine_monitor.h - what a user's own loop around the engine reports of its steps, as DeepSpeed's engine does: lines
 * every steps_per_print, timers (wall_clock_breakdown), and events to TensorBoard and CSV files. A run of tx_run_train
 * reports by train/metrics.h instead. */
#ifndef TX_API_ENGINE_MONITOR_H
#define TX_API_ENGINE_MONITOR_H

#include "report/csv_monitor.h"
#include "report/tensorboard.h"
#include "train/trainer.h"

enum { TX_MONITOR_FORWARD, TX_MONITOR_BACKWARD, TX_MONITOR_REDUCE, TX_MONITOR_STEP, TX_MONITOR_TIMERS };

typedef struct tx__engine_monitor {
    bool begun;          /* what it reports is known, and files are open */
    bool prints, breaks; /* rank 0's: lines, and timers */
    tx_tensorboard tensorboard;
    tx_csv_monitor csv;
    int64_t failed_from;               /* iteration since which events could not be written; 0: they can */
    double seconds[TX_MONITOR_TIMERS]; /* of the current iteration */
    double since_print[TX_MONITOR_TIMERS], since_second;
    int64_t n_since_print, n_since_second; /* iterations: of the next line; from the third on, as DeepSpeed's speeds */
    int64_t n;
    tx_str line;
} tx__engine_monitor;

/* In front of a forward: the first one opens what the options ask for. Collective then; errors are those of files. */
tx_status tx__engine_monitor_begin(tx__engine_monitor *m, const tx_trainer *t);

/* The time since `since` was that. */
void tx__engine_monitor_time(tx__engine_monitor *m, int timer, double since);

/* Behind an iteration, done by hand or as a whole. An event that cannot be written is a warning. */
void tx__engine_monitor_step(tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps);
void tx__engine_monitor_batch(tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps);

void tx__engine_monitor_close(tx__engine_monitor *m); /* a zeroed one is fine */

#endif
