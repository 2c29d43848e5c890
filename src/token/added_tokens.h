/* added_tokens.h - the tokens of tokenizer.json that are found in a text before it is cut into words. */
#ifndef TX_TOKEN_ADDED_TOKENS_H
#define TX_TOKEN_ADDED_TOKENS_H

#include <stdbool.h>

#include "token/strings.h"
#include "triax/token.h"

typedef struct tx__added_token {
    int32_t id;
    bool special, lstrip, rstrip, single_word, normalized;
} tx__added_token;

/* Spellings to look for. Zeroed = none. */
typedef struct tx__added_set {
    tx__strings spelling;
    tx__added_token *token;    /* [spelling's number] */
    size_t *length, n_lengths; /* the distinct lengths of spellings, longest first */
    uint64_t begins[1024];     /* bit of the first two bytes, of a single byte: with any second one */
} tx__added_set;

/* *fresh is 0 if the spelling has been added before; then nothing changes. n > 0. */
tx_status tx__added_set_add(tx__added_set *s, const void *spelling, size_t n, const tx__added_token *token, int *fresh);
void tx__added_set_free(tx__added_set *s);

/* Appends the ids of the tokens found in text[0..n) to *out and calls each() for the text between, in order, as Hugging
 * Face's AddedVocabulary:
 *   - leftmost first, of several at one place the longest;
 *   - a single_word token with a word character (\w) on either side is skipped, with whatever begins inside it;
 *   - lstrip takes the white space before the token that no token before it has, rstrip the white space after it. */
typedef tx_status tx__added_each(void *user, const unsigned char *text, size_t n);
tx_status tx__added_split(const tx__added_set *s, const unsigned char *text, size_t n, tx_ids *out,
                          tx__added_each *each, void *user);

#endif
