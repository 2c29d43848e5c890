/* sentencepiece.h - a SentencePiece model that encodes and decodes, with the ids and texts of the sentencepiece
 * library:
 *
 *      text - sp_normalize -> words, where pieces end at blanks -> sp_cut, or the cache of words -> ids
 *
 *  The types of tokenizers on top are in tokenizer_sentencepiece.c. */
#ifndef TX_TOKEN_SENTENCEPIECE_H
#define TX_TOKEN_SENTENCEPIECE_H

#include "token/piece_cache.h"
#include "token/sp_cut.h"
#include "token/sp_normalize.h"
#include "triax/token.h"

/* Zeroed before tx__sp_open. */
typedef struct tx__sp {
    tx__sp_model model;
    tx__sp_cutter cut;
    tx__sp_normalizer normal, denormal;
    tx__piece_caches *caches;
    struct tx__sp_works *works; /* memory that encoding texts leaves for the next */
} tx__sp;

/* Errors: those of tx__sp_model_read; TX_ERR_FORMAT: a sample of the model's self_test_data gives other pieces. */
tx_status tx__sp_open(tx__sp *t, const char *file);
void tx__sp_close(tx__sp *t);

/* Appends the ids of text[0..n). After a failure *out may hold some of them. Errors: TX_ERR_NOMEM. */
tx_status tx__sp_encode(const tx__sp *t, const unsigned char *text, size_t n, tx_ids *out);

/* Appends the text of one id as it goes on after others: with its blank, a byte as it is. Errors: TX_ERR_NOMEM. */
tx_status tx__sp_decode_next(const tx__sp *t, int32_t id, tx_bytes *out);

/* Appends the text of ids, which are all below the number of pieces. Errors: TX_ERR_NOMEM. */
tx_status tx__sp_decode(const tx__sp *t, const int32_t *ids, size_t n, tx_bytes *out);

#endif
