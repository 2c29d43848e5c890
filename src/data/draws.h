/* draws.h - batches that are drawn from the samples that are easy enough: DeepSpeed's DeepSpeedDataSampler.
 *
 *      iteration     1 ............... 40 ............... 55 ......
 *      difficulty    100               110                120            of each metric, config/curriculum_metrics.h
 *      clusters      A                 A  B               A  B  C        of new samples, each shuffled
 *      a batch       A A A A           A B A A            C A A B        in shares of the clusters' sizes
 *
 *  With one metric a new cluster is of the samples whose value, or percentile, is above the last difficulty and not
 * above the new one; with several, of those that are not above any metric's, less what other clusters have. A batch
 * asks each of its places for a cluster, takes that many of the cluster's next samples, and is shuffled. A cluster that
 * comes to its end is shuffled and begins again. All draws are NumPy's (numpy_generator.h), one stream in DeepSpeed's
 * order, so that batches are DeepSpeed's, too. A batch is a function of the options and its iteration: what came before
 * is drawn again when a run is resumed.
 *
 *  Not as upstream: a cluster that is smaller than what one batch takes of it begins as often as it must, where
 * upstream's batch becomes shorter; and a metric without a sample that is easy enough leaves none, where upstream fails
 * or takes no notice of it. Source: DeepSpeed, runtime/data_pipeline/data_sampling/data_sampler.py. */
#ifndef TX_DATA_DRAWS_H
#define TX_DATA_DRAWS_H

#include "config/config.h"

typedef struct tx_draws tx_draws;

/* @n_samples of the dataset   @name the dataset's, for messages
 * Opens the metrics' files. Errors: those of tx_metric_index_open; TX_ERR_ARG when one is of other samples, or the run
 * is longer than --data-sampling-num-epochs; TX_ERR_UNSUPPORTED beyond 2^32 - 1 samples; TX_ERR_NOMEM. */
tx_status tx_draws_open(tx_draws **out, const tx_config *cfg, int64_t n_samples, const char *name);
void tx_draws_close(tx_draws *d); /* NULL allowed */

/* *batch [--global-batch-size] = the samples of an iteration, from 1; borrowed until the next call. Errors: TX_ERR_ARG:
 * none is easy enough; TX_ERR_IO, TX_ERR_NOMEM for a new cluster. */
tx_status tx_draws_batch(tx_draws *d, const uint32_t **batch, int64_t iteration);

/* for tests: the clusters of the last batch. */
int tx_draws_clusters(const tx_draws *d);

/* for tests: the samples in one of them. */
int64_t tx_draws_cluster_size(const tx_draws *d, int cluster);

#endif
