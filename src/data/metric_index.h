/* metric_index.h - the files that DeepSpeed's DataAnalyzer writes of a metric: <prefix>.bin and <prefix>.idx.
 *
 *      sample_to_metric     row i: the value of sample i
 *      index_to_metric      row j: the j-th value, rising          both of the narrowest type that holds all values
 *      index_to_sample      row j: the samples that have it, rising
 *      ..._percentile_merged        the same with neighbouring rows joined, so that there are about 100
 *      metric_value         one row: a value that is summed over all samples
 *
 *  The format is that of token files (indexed.h), but for the codes of the types: DeepSpeed's are
 *  1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 uint16, 7 uint32, 8 uint64.
 *  Source: DeepSpeed, runtime/data_pipeline/data_sampling/{indexed_dataset,data_analyzer,utils}.py. */
#ifndef TX_DATA_METRIC_INDEX_H
#define TX_DATA_METRIC_INDEX_H

#include <stdint.h>

#include "base/file.h"

typedef struct tx_metric_index {
    char *prefix; /* owned */
    tx_map idx, bin;
    int dtype;
    int64_t n_rows, n_values; /* of all rows */
} tx_metric_index;

/* Opens and checks the pair. Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT (names file and remedy). */
tx_status tx_metric_index_open(tx_metric_index *out, const char *prefix);
void tx_metric_index_close(tx_metric_index *ix); /* a zeroed one is fine */

/* Number of values in row i. Rows lie one after the other, so that value k of all is that of a row. */
int64_t tx_metric_index_row(const tx_metric_index *ix, int64_t i);
int64_t tx_metric_index_at(const tx_metric_index *ix, int64_t k);

/* The code of the narrowest type from lo to hi. */
int tx_metric_index_type(int64_t lo, int64_t hi);

/* What is written. */
typedef struct tx_metric_rows {
    int dtype;
    int64_t n_rows;
    int64_t (*row)(const void *user, int64_t i); /* values in row i; NULL: one in each */
    int64_t (*value)(const void *user, int64_t k);
    const void *user;
    bool merged; /* ends twice, as what DataAnalyzer merges from parts does */
} tx_metric_rows;

/* Publishes the pair. Errors: TX_ERR_IO, TX_ERR_NOMEM, TX_ERR_UNSUPPORTED: a row of more values than the format holds.
 */
tx_status tx_metric_index_write(const char *prefix, const tx_metric_rows *rows);

#endif
