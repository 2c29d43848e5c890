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

#include "data/gpt_dataset.h"

enum { TX_BLEND_MAX = 254 }; /* datasets in a blend, as upstream */

/* The samples of one split. With one dataset and no index they are that dataset's own. */
typedef struct tx_blend {
    const tx_gpt_dataset **dataset; /* [n_datasets], borrowed */
    int n_datasets;
    int64_t n_samples;
    uint8_t *dataset_index; /* [n_samples] */
    int64_t *sample_index;  /* [n_samples] in that dataset */
} tx_blend;

/* weight[0..n) to a sum of 1, in upstream's order of additions. Errors: TX_ERR_ARG unless all are finite and not
 * negative and their sum is above 0. */
tx_status tx_blend_normalize(double *weight, int n);

/* How many samples are asked of a dataset of that (normalized) weight for n of the blend: 0.5 % more than its share.
 * Errors: TX_ERR_ARG beyond what can be counted. */
tx_status tx_blend_request(int64_t *out, int64_t n, double weight);

/* The two index arrays alone, n_samples entries each. @weight [n], normalized; count [n] scratch, left at how many
 * samples each dataset gives */
void tx_blend_index(uint8_t *dataset, int64_t *sample, int64_t n_samples, const double *weight, int n, int64_t *count);

/* Blends n datasets (borrowed); weight is normalized once more, as upstream does. Logs Megatron's lines.
 * Errors: TX_ERR_ARG when a dataset has too few samples, TX_ERR_NOMEM. */
tx_status tx_blend_build(tx_blend *out, const tx_gpt_dataset *const *dataset, const double *weight, int n,
                         int64_t n_samples);

/* A dataset as it is. */
tx_status tx_blend_of_one(tx_blend *out, const tx_gpt_dataset *dataset);
void tx_blend_free(tx_blend *b); /* a zeroed one is fine */

/* tokens[0 .. seq_length] = sample i, 0 <= i < n_samples. Errors: those of tx_gpt_dataset_get. */
tx_status tx_blend_get(const tx_blend *b, int32_t *tokens, int64_t i);

#endif
