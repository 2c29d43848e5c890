/* byte_bpe.c - pieces to ids. */
#include "token/byte_bpe.h"

#include "base/alloc.h"
#include "token/tokenizer.h"

#define BATCH 32 /* pieces */

/* ---- text to ids ---- */

static tx_status encode_piece(const tx__byte_bpe *b, tx__bpe_scratch *scratch, const unsigned char *piece, size_t n,
                              int32_t *id, size_t *n_ids)
{
    int64_t whole = b->ignore_merges ? tx__strings_find(&b->vocab.token, piece, n) : -1;
    if (whole < 0) {
        *n_ids = n;
        return tx__bpe_merge(&b->merges, scratch, piece, id, n_ids);
    }
    *id = (int32_t)whole;
    *n_ids = 1;
    return TX_OK;
}

/* A piece between being cut off and becoming ids: by then its row of the cache has come closer. */
typedef struct cut {
    const unsigned char *piece;
    size_t n;
    tx__piece_key key; /* unless n > TX__PIECE_MAX */
} cut;

static size_t cut_pieces(const tx__byte_bpe *b, const tx__piece_cache *cache, cut *cuts, const unsigned char *text,
                         size_t n, size_t *n_bytes)
{
    size_t k = 0, at = 0;
    for (; k < BATCH && at < n; k++) {
        cut *c = &cuts[k];
        *c = (cut){ .piece = text + at, .n = b->split(text + at, n - at) };
        if (c->n <= TX__PIECE_MAX) {
            c->key = tx__piece_key_of(c->piece, c->n, n - at);
            __builtin_prefetch(tx__piece_row(cache, c->key));
        }
        at += c->n;
    }
    *n_bytes = at;
    return k;
}

static tx_status encode_cut(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch, const cut *c,
                            int32_t *id, size_t *n_ids)
{
    if (c->n > TX__PIECE_MAX) return encode_piece(b, scratch, c->piece, c->n, id, n_ids);
    *n_ids = tx__piece_cache_find(cache, c->key, c->piece, c->n, id);
    if (*n_ids) return TX_OK;
    TX_TRY(encode_piece(b, scratch, c->piece, c->n, id, n_ids));
    tx__piece_cache_add(cache, c->key, c->piece, c->n, id, *n_ids);
    return TX_OK;
}

tx_status tx__byte_bpe_encode_with(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch,
                                   const unsigned char *text, size_t n, tx_ids *out)
{
    cut cuts[BATCH];
    for (size_t at = 0, n_bytes, n_ids; at < n; at += n_bytes) {
        size_t n_cuts = cut_pieces(b, cache, cuts, text + at, n - at, &n_bytes);
        TX_TRY(tx__ids_reserve(out, n_bytes + TX__PIECE_INLINE));
        for (size_t k = 0; k < n_cuts; k++) {
            TX_TRY(encode_cut(b, cache, scratch, &cuts[k], out->id + out->n, &n_ids));
            out->n += n_ids;
        }
    }
    return TX_OK;
}

tx_status tx__byte_bpe_encode(const tx__byte_bpe *b, const unsigned char *text, size_t n, tx_ids *out)
{
    tx__bpe_scratch scratch = { 0 };
    tx__piece_cache *cache;
    TX_TRY(tx__piece_caches_take(b->caches, &cache));
    tx_status st = tx__byte_bpe_encode_with(b, cache, &scratch, text, n, out);
    tx__piece_caches_give(b->caches, cache);
    tx__bpe_scratch_free(&scratch);
    return st;
}

/* ---- life ---- */

tx_status tx__byte_bpe_prepare(tx__byte_bpe *b)
{
    TX_TRY(tx__piece_caches_create(&b->caches));
    return tx__merges_build(&b->merges, &b->vocab);
}

void tx__byte_bpe_free(tx__byte_bpe *b)
{
    tx__piece_caches_destroy(b->caches);
    tx__merges_free(&b->merges);
    tx__vocab_free(&b->vocab);
}
