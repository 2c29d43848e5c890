/* merge_learner.h - the most frequent pair of neighbours in weighted words becomes a symbol, again and again: the part
 * that learning byte-level BPE and learning WordPiece share. Source: Sennrich et al., arXiv:1508.07909. */
#ifndef TX_TOKEN_MERGE_LEARNER_H
#define TX_TOKEN_MERGE_LEARNER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* One symbol of a word. The symbols of one word follow each other; words of one symbol may be left out. */
typedef struct tx__word_place {
    int32_t symbol;
    uint32_t word;
} tx__word_place;

typedef struct tx__learn_opts {
    const int64_t *count;  /* [word] how often, at least 1; their sum fits */
    int32_t n_symbols;     /* symbols are 0..n_symbols-1, merge i makes symbol n_symbols + i */
    int32_t max_merges;    /* fewer where no pair is left */
    int64_t min_frequency; /* of a pair that becomes a symbol; below 1 counts as 1 */
} tx__learn_opts;

/* Returns the pairs (tx__pair of pairs.h) in the order learned; the caller frees *merges with tx_free. Of equally
 * frequent pairs the smaller one comes first, so the result depends neither on the order of the words nor on their
 * numbers. Changes place[0..n). Logs its progress. Errors: TX_ERR_NOMEM. */
tx_status tx__learn_merges(tx__word_place *place, size_t n, const tx__learn_opts *o, uint64_t **merges,
                           size_t *n_merges);

#endif
