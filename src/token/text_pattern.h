/* text_pattern.h - what a step of a tokenizer.json looks for in a text: a string, or a regular expression of Oniguruma,
 * the library that Hugging Face's tokenizers uses too. */
#ifndef TX_TOKEN_TEXT_PATTERN_H
#define TX_TOKEN_TEXT_PATTERN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/str.h"

/* Zeroed = empty. After it is made, any number of threads may search with it. */
typedef struct tx__text_pattern {
    tx_str literal;                  /* to be found as it is; not empty unless regex */
    struct re_pattern_buffer *regex; /* Oniguruma's; NULL: the literal */
} tx__text_pattern;

/* Reads object["pattern"]: {"String": "..."} or {"Regex": "..."}. `place` is the object's in messages. */
tx_status tx__text_pattern_read(tx__text_pattern *out, json_t *object, const char *file, const char *place);
void tx__text_pattern_free(tx__text_pattern *p);

/* The matches in a text, from left to right, as onig's find_iter: an empty one right after another match is passed
 * over. A match has no bytes that are not UTF-8: a text with such bytes is searched between them. */
typedef struct tx__matches {
    const tx__text_pattern *pattern;
    const unsigned char *text;
    size_t n, begin, end; /* the text; the stretch of UTF-8 that is searched */
    size_t at, last_end;  /* where to go on; the end of the last match */
    bool any;             /* last_end is one */
} tx__matches;

void tx__matches_begin(tx__matches *m, const tx__text_pattern *pattern, const unsigned char *text, size_t n);

/* *found is false after the last match. TX_ERR_ARG: the expression takes too long on this text. */
tx_status tx__matches_next(tx__matches *m, size_t *start, size_t *stop, bool *found);

#endif
