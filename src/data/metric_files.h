/* metric_files.h - all files of a metric that has one value a sample, as DeepSpeed's DataAnalyzer writes them:
 * sample_to_metric, index_to_metric, index_to_sample and index_to_sample_percentile_merged (metric_index.h). */
#ifndef TX_DATA_METRIC_FILES_H
#define TX_DATA_METRIC_FILES_H

#include <stdint.h>

#include "base/status.h"

typedef struct tx_metric_values {
    int64_t n; /* samples */
    int64_t (*value)(const void *user, int64_t i);
    const void *user;
} tx_metric_values;

/* Writes <prefix>_sample_to_metric.bin and so on, and logs the twentieths of the samples as upstream does. Memory: 16
 * bytes a sample. Errors: those of tx_metric_index_write. */
tx_status tx_metric_files_write(const char *prefix, const tx_metric_values *values);

#endif
