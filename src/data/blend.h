/* blend.h - several datasets as one, by weight: sample i comes from the dataset that is furthest behind its share.
 *
 *      weights 0.3 0.7     i        0 1 2 3 4 5 6 ...
 *                          dataset  1 0 1 1 0 1 1 ...
 *                          sample   0 0 1 2 1 3 4 ...      each dataset's own samples in their order
 *
 *  Which one that is follows from weights and i alone, so a longer blend begins with the shorter one.
 * Source: Megatron-LM megatron/data/blendable_dataset.py, dataset_utils.py, helpers.cpp (build_blending_indices). */
#ifndef TX_DATA_BLEND_H
#define TX_DATA_BLEND_H

#include "data/samples.h"

/* Which dataset each of n samples comes from, and which of that dataset's samples it is, in little more than a byte a
 * sample: the datasets are kept, and how often each came before every TX_BLEND_BLOCK-th sample. */
enum { TX_BLEND_BLOCK = 1024 };
typedef struct tx_blend_order {
    int64_t n;
    int n_sets;
    uint8_t *set;    /* [n] */
    int64_t *before; /* [(n - 1) / TX_BLEND_BLOCK + 2][n_sets]; the last row counts all */
} tx_blend_order;

/* @weight [n_sets], normalized. TX_ERR_NOMEM */
tx_status tx_blend_order_build(tx_blend_order *out, int64_t n, const double *weight, int n_sets);
void tx_blend_order_free(tx_blend_order *o); /* a zeroed one is fine */

/* The dataset that sample i comes from, 0 <= i < n; *sample is its number there. */
int tx_blend_order_at(const tx_blend_order *o, int64_t i, int64_t *sample);

/* How many of the first i samples, 0 <= i <= n, are from that dataset. */
int64_t tx_blend_order_before(const tx_blend_order *o, int64_t i, int set);

/* The samples of one split. With one dataset and an empty order they are that dataset's own. A blend of keyed
 * datasets has no end: its order is TX_BLEND_PERIOD samples long and comes again and again, each dataset's
 * samples going on. A share is met to a sample in a period. From sample `from` on it begins anew, with sample[d] of
 * dataset d (blend_phase.h). */
enum { TX_BLEND_PERIOD = 1 << 20 };
typedef struct tx_blend {
    tx_sample_set *dataset; /* [n_datasets], of one kind */
    double *weight;         /* [n_datasets], of sum 1 */
    int n_datasets;
    int64_t n_samples; /* what a sampler takes for its length */
    tx_blend_order order;
    bool keyed;
    int64_t from, *sample; /* [n_datasets] */
} tx_blend;

/* weight[0..n) to a sum of 1, in upstream's order of additions. Errors: TX_ERR_ARG unless all are finite and not
 * negative and their sum is above 0. */
tx_status tx_blend_normalize(double *weight, int n);

/* How many samples are asked of a dataset of that (normalized) weight for n of the blend: 0.5 % more than its share.
 * Errors: TX_ERR_ARG beyond what can be counted. */
tx_status tx_blend_request(int64_t *out, int64_t n, double weight);

/* Blends n datasets; weight is normalized once more, as upstream does. Logs Megatron's lines.
 * Errors: TX_ERR_ARG when a dataset has too few samples, TX_ERR_NOMEM. */
tx_status tx_blend_build(tx_blend *out, const tx_sample_set *dataset, const double *weight, int n, int64_t n_samples,
                         bool keyed);

/* A dataset as it is. */
tx_status tx_blend_of_one(tx_blend *out, tx_sample_set dataset, bool keyed);
void tx_blend_free(tx_blend *b); /* a zeroed one is fine */

/* The dataset that sample i comes from, 0 <= i < n_samples (keyed: from <= i); *sample is its number there. */
int tx_blend_find(const tx_blend *b, int64_t i, int64_t *sample);

/* Sample i as a row.   @scratch, @row and errors as tx_samples.get has them */
tx_status tx_blend_get(const tx_blend *b, int32_t *scratch, int32_t *row, int64_t i);

/* The path of a dataset, without .bin and .idx. Borrowed. */
const char *tx_blend_path(const tx_blend *b, int dataset);

#endif
