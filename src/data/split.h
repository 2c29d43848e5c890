/* split.h - --split: how a dataset's documents are divided into training, validation and test.
 *
 *      "949,50,1" of 1000 documents:   |0 ....... train ....... 949|.. valid .. 999| test 1000|
 *
 *  Megatron's rules to the letter: weights separated by commas, or else by slashes, padded with zeros to three,
 * anything after the third dropped, then normalised; each share is rounded half to even and the rounding error is taken
 * off every bound. A small corpus can so leave validation or test without a document. */
#ifndef TX_DATA_SPLIT_H
#define TX_DATA_SPLIT_H

#include <stdint.h>

#include "base/status.h"

typedef enum tx_split { TX_SPLIT_TRAIN, TX_SPLIT_VALID, TX_SPLIT_TEST, TX_N_SPLITS } tx_split;

/* "train", "valid", "test" as Megatron names them in files and logs. */
const char *tx_split_name(tx_split split);

/* Split k of n documents is [bound[k], bound[k+1]). Errors: TX_ERR_ARG for text that is not such a list. */
tx_status tx_split_bounds(int64_t bound[TX_N_SPLITS + 1], const char *text, int64_t n);

/* bound[0], bound[1] = the documents of "START:END", fractions of the n documents, each bound rounded half to even:
 * bigscience's weighted splits. Errors: TX_ERR_ARG unless 0 <= START < END <= 1. */
tx_status tx_split_range(int64_t bound[2], const char *text, int64_t n);

/* Which documents each split has: [first[k], end[k]). */
typedef struct tx_split_docs {
    int64_t first[TX_N_SPLITS], end[TX_N_SPLITS];
} tx_split_docs;

/* All of n documents by --split, or, with split NULL, those of `range` for one split and none for the others. */
tx_status tx_split_documents(tx_split_docs *out, const char *split, const char *range, tx_split range_for, int64_t n);

#endif
