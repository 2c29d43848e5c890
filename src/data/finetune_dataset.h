/* finetune_dataset.h - conversations as a dataset: rows of tokens that the loss is of or not.
 *
 *      JSON lines  ->  conversations (conversation.h)  ->  rows (pack_rows.h)  ->  <prefix>.bin, .idx  ->  samples
 *
 *  The files are those of indexed.h: a document is a row, an item a conversation, and its numbers are 2 x id, + 1 where
 *  the loss is of the token. Samples are rows in keyed order (keyed_order.h): every row once an epoch, in another order
 *  each. */
#ifndef TX_DATA_FINETUNE_DATASET_H
#define TX_DATA_FINETUNE_DATASET_H

#include "config/config.h"
#include "data/samples.h"

/* A position of a row. Rows of a batch are [s] of these. */
typedef struct tx_finetune_place {
    int32_t id;       /* of the token; the end-of-document token behind the last conversation */
    int32_t label;    /* that is to follow; -1: the loss is not of it */
    int32_t position; /* in its conversation, at whose beginning attention ends */
} tx_finetune_place;

/* Makes <prefix>.bin/.idx of the files with the tokenizer of cfg. Logs what it found.
 * Errors: TX_ERR_FORMAT, naming file and line, for a line that is no conversation or, without --finetune-truncate,
 * longer than --seq-length; TX_ERR_ARG, TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_NOMEM. */
tx_status tx_finetune_make(const char *prefix, const char *const *file, int n_files, const tx_config *cfg);

/* Number of rows of such a dataset. */
tx_status tx_finetune_rows(const char *prefix, int64_t *n_rows);

#endif
