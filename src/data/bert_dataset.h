/* bert_dataset.h - BERT training samples: a token file of sentences cut, paired and masked as Megatron does it.
 *
 *      tx_bert_data *data;
 *      TX_TRY(tx_bert_data_open(&data, &opts));
 *      const tx_bert_dataset *train = tx_bert_data_split(data, TX_SPLIT_TRAIN); // NULL: --split gives it no document
 *      TX_TRY(tx_bert_dataset_get_row(train, scratch, row, i));                 // scratch and row: one a thread
 *
 *      tokens   [CLS] a a [MASK] a [SEP] b b b [SEP] [PAD] [PAD]
 *      types      0   0 0   0    0   0   1 1 1   1   [PAD] [PAD]      as upstream, and [PAD] is 0 in BERT's vocabulary
 *      labels    -1  -1 -1  a   -1  -1  -1 b -1 -1    -1    -1        what was there before masking
 *
 *  Sample i of a seed is the same as in Megatron. Reading is const and safe from any number of threads. */
#ifndef TX_DATA_BERT_DATASET_H
#define TX_DATA_BERT_DATASET_H

#include "data/bert_mapping.h"
#include "data/split.h"
#include "triax/token.h"

enum { TX_BERT_MAX_NGRAMS = 10 };

typedef struct tx_bert_data_opts {
    const char *path;               /* prefix without .bin/.idx */
    const char *split;              /* --split, of documents; NULL: the documents of `range`, all for one split */
    const char *range;              /* "START:END", see tx_split_range */
    tx_split range_for;             /* that split */
    int64_t n_samples[TX_N_SPLITS]; /* wanted of each; 0: one epoch */
    int64_t seq_length;
    int64_t seed;            /* 0 .. 2^31 - 1 */
    const tx_tokenizer *tok; /* WordPiece; needed while opening only */
    int64_t vocab_size;      /* the model's, if it has fewer tokens; 0: the tokenizer's */
    const char *index_path;  /* training's mapping, see tx_bert_mapping_open; NULL: built */
    double mask_prob;        /* part of the tokens to predict */
    int max_ngrams;     /* words in a row that are masked together, at most: 1 .. TX_BERT_MAX_NGRAMS; Megatron's 3 */
    bool always_masked; /* a token to predict becomes [MASK], as for a T5; else 80 % do, 10 % stay, 10 % are random */
    double short_seq_prob; /* how often a sample is cut shorter */
    bool binary_head;      /* samples are pairs of segments, swapped in every second one */
} tx_bert_data_opts;

typedef struct tx_bert_data tx_bert_data;       /* the token file and its three splits */
typedef struct tx_bert_dataset tx_bert_dataset; /* one split; borrowed from the data */

/* Errors: those of tx_indexed_open, tx_bert_mapping_build (for a split without a sample of which samples are wanted);
 * TX_ERR_ARG for values out of range and a tokenizer that is not BERT's. */
tx_status tx_bert_data_open(tx_bert_data **out, const tx_bert_data_opts *opts);
void tx_bert_data_close(tx_bert_data *data); /* NULL allowed */

/* NULL when the split has no document, or no sample and none was wanted. */
const tx_bert_dataset *tx_bert_data_split(const tx_bert_data *data, tx_split split);

/* Of the whole file. */
int64_t tx_bert_data_documents(const tx_bert_data *data);

/* Number of samples, at least as many as were wanted. */
int64_t tx_bert_dataset_len(const tx_bert_dataset *ds);

typedef struct tx_bert_sample {
    int32_t *tokens, *types, *labels; /* [seq_length]; labels are -1 where nothing is predicted */
    int32_t n_tokens;                 /* before padding */
    bool is_random;                   /* the second segment comes first */
    bool truncated;
    int32_t *scratch; /* [3 * seq_length] */
} tx_bert_sample;

/* Sample i, 0 <= i < len, into s, whose memory is the caller's. Errors: TX_ERR_FORMAT (an id outside the
 * vocabulary, an empty first segment). */
tx_status tx_bert_dataset_get(const tx_bert_dataset *ds, tx_bert_sample *s, int64_t i);

/* A sample in one row of numbers, as models and files take it: [tokens s][types s][labels s][n_tokens][is_random]. */
typedef struct tx_bert_ids {
    int32_t *tokens, *types, *labels; /* [s] */
    int32_t *n_tokens, *is_random;
} tx_bert_ids;
static inline int64_t tx_bert_row_len(int64_t s)
{
    return 3 * s + 2;
}
static inline tx_bert_ids tx_bert_ids_of(int32_t *row, int64_t s)
{
    return (tx_bert_ids){ row, row + s, row + 2 * s, row + 3 * s, row + 3 * s + 1 };
}

/* Sample i as such a row.   @scratch [3 * seq_length]   @row [tx_bert_row_len] */
tx_status tx_bert_dataset_get_row(const tx_bert_dataset *ds, int32_t *scratch, int32_t *row, int64_t i);

/* The sentences that sample i is made of. */
tx_bert_row tx_bert_dataset_row(const tx_bert_dataset *ds, int64_t i);

/* The token file of a split. */
const tx_indexed *tx_bert_dataset_file(const tx_bert_dataset *ds);

#endif
