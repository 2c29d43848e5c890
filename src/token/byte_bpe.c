/* byte_bpe.c - pieces to ids. */
#include "token/byte_bpe.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "token/piece_cache.h"
#include "token/tokenizer.h"

#define BATCH 32 /* pieces */

/* ---- a cache for each thread that encodes ---- */

enum { N_CACHES = 64 };

struct tx__caches {
    _Atomic(tx__piece_cache *) idle[N_CACHES]; /* NULL: none yet, or in use */
};

/* A cache that nobody uses, at best the one that this thread had last. */
static tx_status take_cache(struct tx__caches *caches, tx__piece_cache **out)
{
    size_t home = (size_t)pthread_self() >> 12;
    for (size_t i = 0; i < N_CACHES; i++) {
        _Atomic(tx__piece_cache *) *place = &caches->idle[(home + i) % N_CACHES];
        if (!atomic_load_explicit(place, memory_order_relaxed)) continue;
        if ((*out = atomic_exchange(place, NULL))) return TX_OK;
    }
    return tx__piece_cache_create(out);
}

static void give_cache(struct tx__caches *caches, tx__piece_cache *cache)
{
    size_t home = (size_t)pthread_self() >> 12;
    for (size_t i = 0; i < N_CACHES; i++) {
        tx__piece_cache *none = NULL;
        if (atomic_compare_exchange_strong(&caches->idle[(home + i) % N_CACHES], &none, cache)) return;
    }
    tx__piece_cache_destroy(cache);
}

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

tx_status tx__byte_bpe_encode(const tx__byte_bpe *b, const unsigned char *text, size_t n, tx_ids *out)
{
    tx__bpe_scratch scratch = { 0 };
    tx__piece_cache *cache;
    tx_status st = TX_OK;
    cut cuts[BATCH];
    TX_TRY(take_cache(b->caches, &cache));
    for (size_t at = 0, n_bytes, n_ids; at < n; at += n_bytes) {
        size_t n_cuts = cut_pieces(b, cache, cuts, text + at, n - at, &n_bytes);
        TX_GOTO(tx__ids_reserve(out, n_bytes + TX__PIECE_INLINE));
        for (size_t k = 0; k < n_cuts; k++) {
            TX_GOTO(encode_cut(b, cache, &scratch, &cuts[k], out->id + out->n, &n_ids));
            out->n += n_ids;
        }
    }
out:
    give_cache(b->caches, cache);
    tx__bpe_scratch_free(&scratch);
    return st;
}

/* ---- life ---- */

tx_status tx__byte_bpe_prepare(tx__byte_bpe *b)
{
    TX_TRY(tx_alloc(&b->caches, 1, sizeof *b->caches, "a tokenizer"));
    return tx__merges_build(&b->merges, &b->vocab);
}

void tx__byte_bpe_free(tx__byte_bpe *b)
{
    for (size_t i = 0; b->caches && i < N_CACHES; i++) tx__piece_cache_destroy(atomic_load(&b->caches->idle[i]));
    tx_free(b->caches);
    tx__merges_free(&b->merges);
    tx__vocab_free(&b->vocab);
}
