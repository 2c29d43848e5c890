/* json_model.h - the model of a tokenizer.json: words to ids.
 *
 *  Byte-level BPE whose last step before it makes symbols of bytes is kept in bytes and needs no symbols
 * (TX__M_BYTE_BPE, byte_bpe.h). Every other model sees the words that the steps before it make, and its tokens are what
 * the file spells. */
#ifndef TX_TOKEN_JSON_MODEL_H
#define TX_TOKEN_JSON_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <xxhash.h>

#include "token/byte_bpe.h"
#include "token/unigram.h"

typedef enum { TX__M_BYTE_BPE, TX__M_BPE, TX__M_UNIGRAM, TX__M_WORDPIECE, TX__M_WORD_LEVEL } tx__model_kind;

/* Zeroed = empty. Const after tx__model_prepare. */
typedef struct tx__json_model {
    tx__model_kind kind;
    tx__byte_bpe bpe;      /* vocab.token: the tokens of all kinds; merges: BPE's; caches: all kinds' */
    tx_str prefix, suffix; /* of what goes on inside a word, and of what ends it */
    int32_t unk;           /* -1: none */
    bool fuse_unk, byte_fallback;
    int32_t byte_token[256]; /* ids of <0x00> to <0xFF>, -1: none */
    size_t longest;          /* bytes of the longest token, WordPiece */
    size_t max_chars;        /* of a word that WordPiece cuts */
    bool by_marks; /* BPE: no merge joins anything to a U+2581 behind it, so that is where a word can be cut */
    tx__unigram unigram;
} tx__json_model;

/* What a call of encode keeps. */
typedef struct tx__model_scratch {
    tx__piece_cache *cache;
    tx__bpe_scratch bpe;
    tx__unigram_scratch unigram;
    tx_str word;
} tx__model_scratch;

/* Reads `model`, which `file` names in messages.   @bytes the steps around it are those of TX__M_BYTE_BPE, which it
 * becomes if it has all byte symbols */
tx_status tx__model_read(tx__json_model *m, json_t *model, bool bytes, const char *file);
tx_status tx__model_prepare(tx__json_model *m);
void tx__model_free(tx__json_model *m);

tx_status tx__model_begin(const tx__json_model *m, tx__model_scratch *s);
void tx__model_end(const tx__json_model *m, tx__model_scratch *s);

/* Appends the ids of a word (of a text, for TX__M_BYTE_BPE). Errors: TX_ERR_NOMEM; TX_ERR_ARG for a word that has no
 * ids. */
tx_status tx__model_encode(const tx__json_model *m, tx__model_scratch *s, const unsigned char *word, size_t n,
                           tx_ids *out);

/* Number of ids of the model, with holes. */
static inline uint32_t tx__model_size(const tx__json_model *m)
{
    return m->bpe.vocab.token.n;
}

/* Hashes what ids depend on beside the tokens. */
void tx__model_hash(const tx__json_model *m, XXH3_state_t *s);

#endif
