/* run_sinks.h - what a run writes for others to look at, besides its log: TensorBoard's event files, the metrics file.
 */
#ifndef TX_API_RUN_SINKS_H
#define TX_API_RUN_SINKS_H

#include "report/csv_monitor.h"
#include "report/metrics_file.h"
#include "report/tensorboard.h"
#include "train/metrics.h"

typedef struct tx__run_sinks {
    tx_tensorboard tensorboard;
    tx_metrics_file metrics_file;
    tx_csv_monitor csv;
    int64_t tensorboard_from, metrics_from, csv_from; /* iteration since which records cannot be written; 0: they can */
} tx__run_sinks;

/* Rank 0 opens what the options ask for and lets it watch. Collective. That a file cannot be written to later does not
 * end the run, and need not last: a warning says so, and a line when records come again. */
tx_status tx__run_sinks_open(tx__run_sinks *s, tx_metrics *m, const tx_trainer *t);
void tx__run_sinks_close(tx__run_sinks *s); /* a zeroed one is fine */

#endif
