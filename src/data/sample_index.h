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

#include "data/npy.h"

/* Below which part of an epoch the last one is kept apart. All else is equal in the two families. */
typedef enum tx_epoch_rule {
    TX_EPOCH_MICROSOFT, /* 80 %: Megatron-LM, microsoft/Megatron-DeepSpeed */
    TX_EPOCH_BIGSCIENCE /* 95 %: bigscience-workshop/Megatron-DeepSpeed */
} tx_epoch_rule;

/* Arrays are as narrow as their numbers allow: 4 bytes a place, 8 a cut and 4 a visit below 2^32 - 2 places and
 * samples, so 10^8 samples take 1.2 GB and what their documents take; twice as much per cut and visit beyond. */
typedef struct tx_sample_index {
    int64_t n_epochs, tokens_per_epoch;
    int64_t n_samples; /* at least as many as asked for: those of whole epochs */
    bool last_epoch_apart;
    tx_ints doc_idx;     /* items of the dataset; n_epochs times the number of documents */
    tx_ints sample_idx;  /* [2 (n_samples + 1)] pairs: sample k begins at token 2k + 1 of the document in place 2k */
    tx_ints shuffle_idx; /* [n_samples] */
    void *own[3];        /* their memory, where it was built here */
    tx_npy file[3];      /* the files they lie in otherwise */
} tx_sample_index;

typedef struct tx_sample_index_opts {
    tx_ints sizes; /* tokens of the documents first_doc, first_doc + 1, ...: at most 2^31 - 1 of them */
    int64_t first_doc;
    int64_t n_samples; /* wanted; 0 means one epoch */
    int64_t seq_length;
    uint32_t seed;
    tx_epoch_rule rule;
    int64_t exact_epochs; /* --train-data-exact-num-epochs; 0: as many as the samples need */
} tx_sample_index_opts;

/* Builds all three. Logs Megatron's lines. Errors: TX_ERR_ARG for documents without a token, counts beyond 64 bits and
 * exact epochs that the samples do not end in, TX_ERR_NOMEM. */
tx_status tx_sample_index_build(tx_sample_index *out, const tx_sample_index_opts *o);

/* Opens the three files that Megatron keeps them in: path[3] in the order above. Nothing of what they hold is believed:
 * every document must be one of the split's, every cut where documents and sizes put it, every visit a sample.
 * Errors: those of tx_npy_open; TX_ERR_FORMAT names the file, the entry and what it had to be; TX_ERR_ARG for fewer
 * samples than wanted. */
tx_status tx_sample_index_open(tx_sample_index *out, const tx_sample_index_opts *o, const char *const *path);
void tx_sample_index_free(tx_sample_index *x); /* a zeroed one is fine */

#endif
