/* sp_normalize.h - SentencePiece's normalizer: replaces sequences of characters, and white space by U+2581. */
#ifndef TX_TOKEN_SP_NORMALIZE_H
#define TX_TOKEN_SP_NORMALIZE_H

#include "token/byte_trie.h"
#include "token/charsmap.h"
#include "token/sp_model.h"

#define TX__SP_BLANK "\xE2\x96\x81" /* U+2581, which stands for a blank in pieces */

/* Zeroed before tx__sp_normalizer_open. */
typedef struct tx__sp_normalizer {
    tx__charsmap map;
    const tx__byte_trie *keep; /* user-defined symbols, which stay as they are; NULL: none */
    bool add_dummy_prefix, remove_extra, escape, suffix;
    uint64_t plain[128][2]; /* bit b of [a]: ASCII a before ASCII b stays as it is */
} tx__sp_normalizer;

/* @where begins errors about the charsmap: the file and the field.   @suffix the dummy blank comes last */
tx_status tx__sp_normalizer_open(tx__sp_normalizer *z, const tx__sp_rules *rules, bool suffix,
                                 const tx__byte_trie *keep, const char *where);
void tx__sp_normalizer_close(tx__sp_normalizer *z);

/* Replaces *out by text[0..n), normalized. Bytes that are no UTF-8 become one U+FFFD each. Errors: TX_ERR_NOMEM. */
tx_status tx__sp_normalize(const tx__sp_normalizer *z, const unsigned char *text, size_t n, tx_str *out);

/* Length of the longest string of the trie that text[0..n) begins with, 0: none. */
static inline size_t tx__trie_longest(const tx__byte_trie *t, const unsigned char *text, size_t n, int32_t *value)
{
    size_t longest = 0;
    uint32_t at = 0;
    for (size_t i = 0; i < n && (at = tx__trie_step(t, at, text[i]));)
        if (i++, tx__trie_value(t, at) >= 0) *value = tx__trie_value(t, at), longest = i;
    return longest;
}

#endif
