/* data.h - from text to token files, and reading those.
 *
 *      tx_config *cfg;
 *      if (tx_config_parse_string(&cfg, "preprocess-data", "--input a.jsonl --output-prefix a --append-eod "
 *                                 "--vocab-file vocab.json --merge-file merges.txt") ||
 *          tx_preprocess_data(cfg)) return failed();  // yours: shows tx_last_error()
 *      tx_config_free(cfg);
 *
 *      tx_dataset *ds;
 *      tx_ids ids = { 0 };
 *      if (tx_dataset_open(&ds, "a_text_document") || tx_dataset_read(ds, 0, &ids)) return failed();
 *      ...                                             // ids.id[0..ids.n) is the first document
 *      tx_ids_free(&ids);
 *      tx_dataset_close(ds);                                                                                       */
#ifndef TRIAX_DATA_H
#define TRIAX_DATA_H

#include <stdint.h>

#include "triax/config.h"
#include "triax/status.h"
#include "triax/tensor.h"
#include "triax/token.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- jobs: what the sub-commands of the same names do, with their options ---- */

/* preprocess-data: tokenizes --input and writes <output-prefix>_<key>_document.bin/.idx (with --split-sentences
 * _sentence) for every one of --json-keys, byte for byte the files that Megatron writes. Documents without text are
 * left out (and counted in a warning), as in Megatron. The order is the input's, or with --partitions Megatron's, and
 * the result the same for any --workers. On failure no file appears. While it runs SIGINT, SIGTERM and SIGHUP, where
 * not ignored, make it fail (a second one is as before). Errors: TX_ERR_ARG, TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT,
 * TX_ERR_UNSUPPORTED, TX_ERR_NOMEM. */
TX_API tx_status tx_preprocess_data(const tx_config *cfg);

/* train-tokenizer: learns a vocabulary from --input (triax/token.h) and writes its files into --output-dir. The result
 * is the same for any --workers; memory is that of the distinct words and one document.
 * Errors: TX_ERR_ARG, TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_train_tokenizer(const tx_config *cfg);

/* merge-datasets: joins the datasets of the folder --input, sorted by name, or those of --datasets in their order, into
 * <output-prefix>.bin/.idx, byte for byte as Megatron's tool. Both files appear whole or not at all; memory does not
 * grow with the datasets. Errors: TX_ERR_ARG (types that differ, a foreign file in the folder, an output among the
 * inputs), TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT. */
TX_API tx_status tx_merge_datasets(const tx_config *cfg);

/* tokenize: standard input, JSON lines with a member "text" or plain lines, to one JSON array of ids per line on
 * standard output. Each line is written before the next is read. */
TX_API tx_status tx_tokenize_stream(const tx_config *cfg);

/* detokenize: standard input, one JSON array of ids per line, to the bytes they stand for and a newline, each. */
TX_API tx_status tx_detokenize_stream(const tx_config *cfg);

/* ---- the datasets of a run ---- */

/* Whether the files of every dataset that the options of a run name are there (TX_ERR_NOTFOUND), to be known before
 * anything large is built. */
TX_API tx_status tx_train_data_exists(const tx_config *cfg);

/* The same of a run that may be given text, --train-data: makes a dataset of it beside the first file, or finds the one
 * that was made of the same bytes with the same tokenizer, and names it in cfg as --data-path (with --valid-data and
 * --test-data as --train-data-path and its kin). Every rank calls it, when it likes; of those that find none one makes
 * it, and the others wait. Errors: those of tx_preprocess_data; TX_ERR_NOTFOUND: no such text. */
TX_API tx_status tx_train_data_prepare(tx_config *cfg);

/* ---- reading a token file ---- */

typedef struct tx_dataset tx_dataset;

/* Opens <prefix>.bin/.idx and checks both from end to end of the index. Any number of threads may read.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED. */
TX_API tx_status tx_dataset_open(tx_dataset **out, const char *prefix);
TX_API void tx_dataset_close(tx_dataset *ds); /* NULL allowed */

TX_API int64_t tx_dataset_documents(const tx_dataset *ds); /* number of documents */
TX_API int64_t tx_dataset_tokens(const tx_dataset *ds);    /* number of tokens in all of them */

/* Appends the ids of document `document`, counted from 0, to *out. Errors: TX_ERR_ARG, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_dataset_read(const tx_dataset *ds, int64_t document, tx_ids *out);

/* ---- user-defined training data, for the engine ---- */

/* Training data: samples 0 .. n_samples - 1, which the engine deals to the data-parallel ranks, epoch by epoch; a batch
 * that an epoch does not fill continues with the next one. A resumed run continues with what it has not seen. */
typedef struct tx_training_data {
    size_t size; /* sizeof(tx_training_data) */
    int64_t n_samples;
    bool in_order; /* else each epoch is shuffled, by --seed */
    /* Puts n samples into a micro-batch's inputs, in the host's memory: of a user-defined model as it declares them, of
     * GPT and BERT one [n, row] of i32, as tx_engine_forward takes it. */
    tx_status (*collate)(void *user, const int64_t *sample, int64_t n, const tx_tensor *input);
    void *user;
} tx_training_data;

#ifdef __cplusplus
}
#endif
#endif
