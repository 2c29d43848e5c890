/* tokenizer.h - what a kind of tokenizer provides; tokenizer.c adds the checks that all kinds share. */
#ifndef TX_TOKEN_TOKENIZER_H
#define TX_TOKEN_TOKENIZER_H

#include <xxhash.h>

#include "base/status.h"
#include "triax/token.h"

typedef struct tx__tokenizer_kind {
    /* Appends; may leave a part behind on failure, the caller cuts it off. */
    tx_status (*encode)(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out);
    tx_status (*decode)(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out); /* ids are in range */
    int32_t (*special)(const tx_tokenizer *t, const char *name); /* id of a special token, -1: none of that name */
    void (*hash)(const tx_tokenizer *t, XXH3_state_t *s);        /* feeds it what makes ids of a text */
    void (*close)(tx_tokenizer *t);                              /* frees t too */
} tx__tokenizer_kind;

/* First member of every kind's own struct. */
struct tx_tokenizer {
    const tx__tokenizer_kind *kind;
    int32_t vocab_size, eod;
};

/* Room for `more` ids after the ones that are there. */
tx_status tx__ids_reserve(tx_ids *ids, size_t more);
tx_status tx__bytes_append(tx_bytes *bytes, const void *p, size_t n);

/* A token's length and bytes: no two lists of tokens feed the same. */
void tx__hash_token(XXH3_state_t *s, const char *token, size_t n);

#endif
