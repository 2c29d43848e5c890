/* bert_words.h - text to the words that BERT's WordPiece cuts further: Megatron's BasicTokenizer. */
#ifndef TX_TOKEN_BERT_WORDS_H
#define TX_TOKEN_BERT_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TX__WORD_MAX 200 /* characters; a longer word is unknown, so no more of it is kept */

typedef struct tx__word {
    size_t n;                 /* characters of the word, at least 1 */
    uint32_t c[TX__WORD_MAX]; /* the first of them */
} tx__word;

typedef tx_status (*tx__word_fn)(void *user, const tx__word *word);

/* Calls fn for each word, in order. Stops at the first failure of fn and returns it; nothing else can fail. */
tx_status tx__bert_words(const unsigned char *text, size_t n, bool lower_case, tx__word_fn fn, void *user);

/* Whether a character is white space to Python's str.split() and str.strip(). */
bool tx__python_space(uint32_t c);

#endif
