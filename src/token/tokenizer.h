/* tokenizer.h - what a kind of tokenizer provides; tokenizer.c adds the checks that all kinds share. Shared inside this
 * room. */
#ifndef TX_TOKEN_TOKENIZER_H
#define TX_TOKEN_TOKENIZER_H

#include <xxhash.h>

#include "base/status.h"
#include "kinds/tokenizers.h"
#include "token/tokenizer_files.h"
#include "token/vocab_trainer.h"
#include "triax/token.h"

/* A kind of tokenizer: defined in tokenizer_<name>.c, and named by its rows in kinds/tokenizers.h. */
typedef struct tx_tokenizer_kind {
    tx_status (*open)(tx_tokenizer **out, const tx_tokenizer_files *from); /* its files are all given */
    const tx__vocab_learner *learner; /* how train-tokenizer makes its files; NULL: it does not */
    /* Appends. On failure the caller removes what has been appended. */
    tx_status (*encode)(const tx_tokenizer *t, const unsigned char *text, size_t n, tx_ids *out);
    void (*ends)(const tx_tokenizer *t, size_t *n_before, size_t *n_after); /* NULL: encode adds none */
    tx_status (*decode)(const tx_tokenizer *t, const int32_t *ids, size_t n, tx_bytes *out); /* ids are in range */
    tx_status (*next)(const tx_tokenizer *t, int32_t id,
                      tx_bytes *out);                            /* NULL: what decode adds to the token before */
    int32_t (*special)(const tx_tokenizer *t, const char *name); /* id of a special token, -1: none of that name */
    void (*hash)(const tx_tokenizer *t, XXH3_state_t *s);        /* updates it with everything that ids depend on */
    void (*close)(tx_tokenizer *t);                              /* frees t too */
} tx_tokenizer_kind;

#define TX__KIND(constant, word, kind, ...) extern const tx_tokenizer_kind tx__tokenizer_##kind;
TX_TOKENIZERS(TX__KIND)
#undef TX__KIND

/* First member of every kind's own struct. */
struct tx_tokenizer {
    const tx_tokenizer_kind *kind;
    int32_t vocab_size, eod;
};

/* Makes room for `more` ids after the first ids->n. */
tx_status tx__ids_reserve(tx_ids *ids, size_t more);
tx_status tx__bytes_append(tx_bytes *bytes, const void *p, size_t n);

/* Hashes a token's length and bytes, so that two different lists of tokens never hash the same bytes. */
void tx__hash_token(XXH3_state_t *s, const char *token, size_t n);

#endif
