/* bert_mapping.h - which sentences make up BERT's training sample i: Megatron's build_mapping.
 *
 *  Documents in their order, epoch after epoch; sentences of one document are gathered until they reach the target
 *  length, then a sample ends, and the rest of a document is its last sample; at the end all samples are shuffled.
 *
 *      document 7   | s s s s s | s s s s | s s s s |       target max_tokens, now and then (short_seq_prob) a random
 *                     sample 0    1         2               shorter one
 *
 *  Source: Megatron-LM megatron/data/helpers.cpp, build_mapping. */
#ifndef TX_DATA_BERT_MAPPING_H
#define TX_DATA_BERT_MAPPING_H

#include "data/indexed.h"

typedef struct tx_bert_row {
    int64_t first;       /* item of the dataset */
    int32_t n_sentences; /* from there on, all of one document */
    int32_t target;      /* tokens that they are cut down to */
} tx_bert_row;

typedef struct tx_bert_mapping {
    int64_t n_samples; /* at least as many as wanted: those of whole epochs */
    tx_bert_row *row;  /* [n_samples] */
} tx_bert_mapping;

typedef struct tx_bert_mapping_opts {
    const tx_indexed *ix;
    int64_t first_doc, end_doc; /* documents of the split, first_doc < end_doc */
    int64_t n_samples;          /* wanted; 0 means one epoch */
    int32_t max_tokens;         /* of a sample without [CLS] and [SEP]; at least 2 */
    int32_t min_sentences;      /* 2 for pairs, else 1 */
    double short_seq_prob;      /* 0 to 1 */
    int32_t seed;
} tx_bert_mapping_opts;

/* Errors: TX_ERR_ARG when the documents make no sample at all (names the dataset); TX_ERR_UNSUPPORTED for more than
 * 2^32 samples, or 2^31 sentences in a document; TX_ERR_NOMEM. 16 bytes a sample. */
tx_status tx_bert_mapping_build(tx_bert_mapping *out, const tx_bert_mapping_opts *o);
/* Reads the mapping that Megatron keeps in a file, rows of first sentence, end and target in a .npy of uint32 or
 * uint64. Nothing in it is believed: every row must be sentences of one document of the split, and a target that the
 * options allow. Errors: those of tx_npy_open; TX_ERR_FORMAT names the file and the row; TX_ERR_ARG for fewer samples
 * than wanted. */
tx_status tx_bert_mapping_open(tx_bert_mapping *out, const tx_bert_mapping_opts *o, const char *path);
void tx_bert_mapping_free(tx_bert_mapping *m); /* a zeroed one is fine */

#endif
