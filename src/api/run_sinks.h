/* run_sinks.h - what a run writes for others to look at, besides its log: TensorBoard's event files, the metrics file.
 */
#ifndef TX_API_RUN_SINKS_H
#define TX_API_RUN_SINKS_H

#include "report/metrics_file.h"
#include "report/tensorboard.h"
#include "train/metrics.h"

typedef struct tx__run_sinks {
    tx_tensorboard tensorboard;
    tx_metrics_file metrics_file;
} tx__run_sinks;

/* Opens what the options ask for and lets it watch. A file that cannot be written to later is told once and then left:
 * it does not end the run. */
tx_status tx__run_sinks_open(tx__run_sinks *s, tx_metrics *m, const tx_trainer *t);
void tx__run_sinks_close(tx__run_sinks *s); /* a zeroed one is fine */

#endif
