/* gpt_dataset.h - GPT training samples: a token file cut and shuffled into training, validation and test samples.
 *
 *      tx_gpt_data *data;
 *      TX_TRY(tx_gpt_data_open(&data, &opts));
 *      const tx_gpt_dataset *train = tx_gpt_data_split(data, TX_SPLIT_TRAIN);   // NULL: --split gives it no document
 *      TX_TRY(tx_gpt_dataset_get(train, tokens, i));                            // seq_length + 1 ids
 *      tx_gpt_data_close(data);
 *
 *  Sample i of a seed holds the same tokens as in Megatron. Reading is const and safe from any number of threads.
 *
 *  Keyed order needs no index and no more memory for more samples. The split's documents are one stream in the order of
 *  the file, cut every seq_length tokens as above; with n = (tokens - 1) / seq_length cuts, sample i is number
 *  tx_keyed_order(seed, i / n, n, i % n) of them: every sample once an epoch, in another order each. */
#ifndef TX_DATA_GPT_DATASET_H
#define TX_DATA_GPT_DATASET_H

#include "data/fim.h"
#include "data/sample_index.h"
#include "data/samples.h"

typedef struct tx_gpt_data_opts {
    const char *path; /* prefix without .bin/.idx */
    bool mock;        /* no files: the documents of --mock-data, of vocab_size and eod */
    int32_t eod;
    const char *split;              /* --split; NULL: the documents of `range`, all for one split */
    const char *range;              /* "START:END", see tx_split_range */
    tx_split range_for;             /* that split */
    int64_t n_samples[TX_N_SPLITS]; /* wanted of each; 0: none wanted, the split is built as Megatron builds it */
    int64_t seq_length;
    int64_t seed; /* 0 .. 2^32 - 1 */
    tx_epoch_rule rule;
    bool keyed;                    /* no index: see above; the four options around this one are ignored then */
    int64_t exact_epochs;          /* of training; 0: as many as the samples need */
    const char *const *index_path; /* training's three index files, see tx_sample_index_open; NULL: built */
    int64_t vocab_size;            /* every id read is checked against it; 0: not checked */
    const tx_config *fim;          /* --fim-data: its options; NULL: samples are running text */
    const tx_tokenizer *tok;       /* for fim, as long as the data are open */
} tx_gpt_data_opts;

typedef struct tx_gpt_data tx_gpt_data;       /* the token file and its three splits */
typedef struct tx_gpt_dataset tx_gpt_dataset; /* one split; borrowed from the data */

/* Opens the files and builds the indices of the splits that have documents. Logs Megatron's lines.
 * A split with fewer than seq_length + 1 tokens of which samples are wanted repeats them, as Megatron's does, with a
 * warning; keyed order refuses it. Errors: those of tx_indexed_open and tx_sample_index_open; TX_ERR_ARG. */
tx_status tx_gpt_data_open(tx_gpt_data **out, const tx_gpt_data_opts *opts);
void tx_gpt_data_close(tx_gpt_data *data); /* NULL allowed */

/* NULL when the split has no document, or no sample and none was wanted. */
const tx_gpt_dataset *tx_gpt_data_split(const tx_gpt_data *data, tx_split split);

/* Of the whole file. */
int64_t tx_gpt_data_documents(const tx_gpt_data *data);

/* Number of samples, at least as many as were wanted. */
int64_t tx_gpt_dataset_len(const tx_gpt_dataset *ds);

/* The token file of a split. Borrowed. */
const tx_indexed *tx_gpt_dataset_file(const tx_gpt_dataset *ds);

/* A number by which a split of keyed order is known again wherever its files lie: two that differ in documents, seed or
 * seq_length differ in it, unless their files differ only in what lies between 65536 evenly spaced documents. */
uint64_t tx_gpt_dataset_id(const tx_gpt_dataset *ds);

/* tokens[0 .. seq_length] = sample i, 0 <= i < len (keyed: 0 <= i). Errors: TX_ERR_FORMAT (an id outside the
 * vocabulary). */
tx_status tx_gpt_dataset_get(const tx_gpt_dataset *ds, int32_t *tokens, int64_t i);

/* The pieces of sample i in order, none of them empty: the first `cap` of them into pieces. Returns how many there are.
 */
int64_t tx_gpt_dataset_pieces(const tx_gpt_dataset *ds, tx_sample_piece *pieces, int64_t cap, int64_t i);

#endif
