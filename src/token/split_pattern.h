/* split_pattern.h - the splitters that tokenizer.json asks for by a regular expression or by name.
 *
 *  Each cuts off the first piece of text[0..n), n > 0, and gives its length in bytes: a match, or what stands before
 *  the next match. What is not UTF-8 is none of letter, mark, number, white space or symbol, byte by byte.
 *  Thread-safe. */
#ifndef TX_TOKEN_SPLIT_PATTERN_H
#define TX_TOKEN_SPLIT_PATTERN_H

#include <stdbool.h>

#include "token/byte_bpe.h"

typedef struct tx__split_pattern {
    const char *name, *regex;
    tx__split_fn *split;
    bool everywhere; /* every text is matches only */
} tx__split_pattern;

extern const tx__split_pattern tx__split_patterns[]; /* ends with a NULL regex */

/* The pattern of that very text, NULL: not known. */
const tx__split_pattern *tx__split_pattern_find(const char *regex);

/* Each number (\p{N}) apart; runs of numbers apart; all in one piece. */
tx__split_fn tx__split_digits, tx__split_digit_runs, tx__split_nothing;

#endif
