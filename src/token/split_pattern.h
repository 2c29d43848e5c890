/* split_pattern.h - the splitters that a tokenizer.json names, by a regular expression or by a word.
 *
 *  Each returns the length in bytes of the first piece of text[0..n), n > 0: a match, or the text before the next
 *  match. A byte that is not part of UTF-8 is neither letter, mark, number, white space nor symbol.
 *  Thread-safe. */
#ifndef TX_TOKEN_SPLIT_PATTERN_H
#define TX_TOKEN_SPLIT_PATTERN_H

#include <stdbool.h>

#include "kinds/tiktoken_patterns.h"
#include "token/byte_bpe.h"

typedef struct tx__split_pattern {
    const char *name, *regex;
    tx__split_fn *split;
    bool everywhere; /* the matches cover every text */
} tx__split_pattern;

extern const tx__split_pattern tx__split_patterns[]; /* ends with a NULL regex */

/* The pattern with exactly this text; NULL: there is none. */
const tx__split_pattern *tx__split_pattern_find(const char *regex);

/* The function of a pattern; of none, v2's. */
tx__split_fn *tx__split_of_tiktoken(enum tx_tiktoken_pattern pattern);

/* Each number character (\p{N}) is a piece; each run of them is; the whole text is. */
tx__split_fn tx__split_digits, tx__split_digit_runs, tx__split_nothing;

#endif
