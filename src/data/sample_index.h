/* sample_index.h - which tokens make up training sample i: Megatron's three index arrays.
 *
 *  A split's documents are laid end to end, once an epoch, each time in another order; the tape so made is cut every
 *  seq_length tokens, a sample being the seq_length + 1 tokens from a cut on (the last token of one sample is the first
 *  of the next); and the samples are visited in shuffled order.
 *
 *      doc_idx     [ 7 | 2 | 9 |  epoch 0  | 2 | 9 | 7 |  epoch 1 ...       documents in tape order
 *      sample_idx  ^     ^      ^     ^      ^                              cuts: (place in doc_idx, token in it)
 *      shuffle_idx 4 0 2 ...                                                order of the visits
 *
 *  With several epochs the last one is shuffled by itself if only a small part of it is needed, so that the documents
 * it repeats do not come early. Source: Megatron-LM megatron/data/gpt_dataset.py, _build_index_mappings. */
#ifndef TX_DATA_SAMPLE_INDEX_H
#define TX_DATA_SAMPLE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Below which part of an epoch the last one is kept apart. All else is equal in the two families. */
typedef enum tx_epoch_rule {
    TX_EPOCH_MICROSOFT, /* 80 %: Megatron-LM, microsoft/Megatron-DeepSpeed */
    TX_EPOCH_BIGSCIENCE /* 95 %: bigscience-workshop/Megatron-DeepSpeed */
} tx_epoch_rule;

typedef struct tx_sample_cut {
    int64_t place; /* in doc_idx */
    int64_t token; /* in that document */
} tx_sample_cut;

typedef struct tx_sample_index {
    int64_t n_epochs, tokens_per_epoch;
    int64_t n_places;  /* length of doc_idx: n_epochs times the number of documents */
    int64_t n_samples; /* at least as many as asked for: all that the epochs give */
    bool last_epoch_apart;
    int32_t *doc_idx;          /* [n_places] items of the dataset */
    tx_sample_cut *sample_idx; /* [n_samples + 1] sample k runs from cut k to cut k + 1, inclusive */
    int64_t *shuffle_idx;      /* [n_samples] */
} tx_sample_index;

typedef struct tx_sample_index_opts {
    const int32_t *sizes; /* tokens of the documents first_doc .. first_doc + n_docs - 1 */
    int32_t first_doc, n_docs;
    int64_t n_samples; /* wanted; 0 means one epoch */
    int64_t seq_length;
    uint32_t seed;
    tx_epoch_rule rule;
} tx_sample_index_opts;

/* Builds all three. Logs Megatron's lines. Errors: TX_ERR_ARG for documents without a token or counts beyond 64 bits,
 * TX_ERR_NOMEM. */
tx_status tx_sample_index_build(tx_sample_index *out, const tx_sample_index_opts *o);
void tx_sample_index_free(tx_sample_index *x); /* a zeroed one is fine */

#endif
