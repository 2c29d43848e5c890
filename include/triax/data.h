/* data.h - token files: making them from text, and reading them.
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
 *      tx_dataset_close(ds); */
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

/* ---- jobs: the sub-commands of the same names, with their options ---- */

/* preprocess-data: tokenizes --input and writes <output-prefix>_<key>_document.bin/.idx (_sentence with
 * --split-sentences) for each of --json-keys, byte for byte the files that Megatron writes. As in Megatron, documents
 * without text are skipped; a warning has their number. Documents are in the order of the input or, with --partitions,
 * in Megatron's order for partitions. The result does not depend on --workers. On failure no file is created. While
 * the job runs, SIGINT, SIGTERM and SIGHUP make it fail, unless they are ignored; a second one has its usual effect.
 * Errors: TX_ERR_ARG, TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED, TX_ERR_NOMEM. */
TX_API tx_status tx_preprocess_data(const tx_config *cfg);

/* train-tokenizer: learns a vocabulary from --input (triax/token.h) and writes its files into --output-dir. The result
 * does not depend on --workers. Memory use is that of the distinct words and one document.
 * Errors: TX_ERR_ARG, TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_train_tokenizer(const tx_config *cfg);

/* merge-datasets: concatenates the datasets of the folder --input, sorted by name, or those of --datasets in the given
 * order, into <output-prefix>.bin/.idx, byte for byte as Megatron's tool does. Either both complete files appear or
 * none. Memory use does not grow with the datasets.
 * Errors: TX_ERR_ARG (types that differ, a foreign file in the folder, an output that is also an input),
 * TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT. */
TX_API tx_status tx_merge_datasets(const tx_config *cfg);

/* tokenize: reads JSON lines with a member "text", or plain lines, from standard input, and writes one JSON array of
 * ids per line to standard output. Each result is written before the next line is read. */
TX_API tx_status tx_tokenize_stream(const tx_config *cfg);

/* detokenize: reads one JSON array of ids per line from standard input, and writes the bytes that the ids stand for,
 * followed by a newline. */
TX_API tx_status tx_detokenize_stream(const tx_config *cfg);

/* ---- the datasets of a run ---- */

/* Checks that the files of all datasets that a run's options name exist (else TX_ERR_NOTFOUND). It is cheap, so that a
 * missing file is found before anything large is built. */
TX_API tx_status tx_train_data_exists(const tx_config *cfg);

/* Like tx_train_data_exists, for options that may also name text (--train-data, --finetune-data): finds the dataset
 * beside the first file that was made from the same bytes with the same tokenizer, or makes it, and sets it in cfg as
 * --data-path (with --valid-data and --test-data, as --train-data-path and its kin). Of --finetune-data it also turns
 * --finetune-epochs into --train-iters. Every rank must call it, at any time: if there is no such dataset yet, one rank
 * makes it and the others wait.
 * Errors: those of tx_preprocess_data; TX_ERR_NOTFOUND: the text does not exist. */
TX_API tx_status tx_train_data_prepare(tx_config *cfg);

/* ---- reading a token file ---- */

typedef struct tx_dataset tx_dataset;

/* Opens <prefix>.bin/.idx, and checks the whole index and that the two files fit together. Any number of threads may
 * read at the same time.
 * Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT, TX_ERR_UNSUPPORTED. */
TX_API tx_status tx_dataset_open(tx_dataset **out, const char *prefix);
TX_API void tx_dataset_close(tx_dataset *ds); /* NULL allowed */

TX_API int64_t tx_dataset_documents(const tx_dataset *ds); /* number of documents */
TX_API int64_t tx_dataset_tokens(const tx_dataset *ds);    /* number of tokens in all of them */

/* Appends the ids of document `document`, counted from 0, to *out. Errors: TX_ERR_ARG, TX_ERR_FORMAT, TX_ERR_NOMEM. */
TX_API tx_status tx_dataset_read(const tx_dataset *ds, int64_t document, tx_ids *out);

/* ---- user-defined training data, for the engine ---- */

/* Training data: samples 0 .. n_samples - 1. The engine distributes them over the data-parallel ranks, epoch by epoch.
 * A batch that the end of an epoch does not fill is completed from the next epoch. A resumed run continues with the
 * samples that it has not seen. */
typedef struct tx_training_data {
    size_t size; /* sizeof(tx_training_data) */
    int64_t n_samples;
    bool in_order; /* else each epoch is shuffled, with --seed */
    /* Writes n samples into the inputs of a micro-batch, in host memory. A user-defined model has the inputs that it
     * declares. GPT and BERT have one, [n, row] of i32, in the form that tx_engine_forward takes. */
    tx_status (*collate)(void *user, const int64_t *sample, int64_t n, const tx_tensor *input);
    void *user;
} tx_training_data;

#ifdef __cplusplus
}
#endif
#endif
