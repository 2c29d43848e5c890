/* piece_cache.h - the ids of pieces of text that were encoded before. Text repeats its words, and a word found here
 * costs one cache line instead of merges.
 *
 *      row   | piece of up to 15 bytes, its length | number of ids, ids |  | the same, older |      64 bytes
 *
 *  A piece of more bytes, or of more ids than an entry has room for, keeps its ids (and if it is long its bytes, which
 * a hash stands for in the entry) in a pool. A piece's row follows from its hash; in a row the one used last comes
 * first, and a new one replaces the second. Rows and pool grow as pieces are added, up to 32 and 64 MiB. After that old
 * pieces are dropped, and when the pool is full, all of them. A hit always has the same bytes. For one thread at a
 * time. */
#ifndef TX_TOKEN_PIECE_CACHE_H
#define TX_TOKEN_PIECE_CACHE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xxhash.h>

#include "base/status.h"

enum {
    TX__PIECE_SHORT = 15, /* bytes that fit into a key */
    TX__PIECE_MAX = 255,  /* longer pieces are not kept */
    TX__PIECE_INLINE = 3  /* ids that fit into an entry */
};

/* Short pieces: their bytes, zeroes, and the length as last byte; others: a hash, the length, and 0xFF as last byte. */
typedef struct tx__piece_key {
    uint64_t lo, hi;
} tx__piece_key;

typedef struct tx__piece_entry {
    tx__piece_key key; /* zero: free, for no piece is empty */
    uint32_t n_ids;
    int32_t id[TX__PIECE_INLINE]; /* of a long piece, or with more ids: id[0] is a place in the pool */
} tx__piece_entry;

typedef struct tx__piece_cache {
    tx__piece_entry (*row)[2];
    int shift;     /* 64 - log2(rows) */
    int32_t *pool; /* of a long piece its bytes, then the ids */
    size_t n_pool, cap_pool;
    size_t n_added; /* since the rows grew */
} tx__piece_cache;

/* The caches of one tokenizer, one for every thread that encodes at the same time. */
typedef struct tx__piece_caches tx__piece_caches;

tx_status tx__piece_caches_create(tx__piece_caches **out);
void tx__piece_caches_destroy(tx__piece_caches *all); /* NULL allowed; none may be taken */

/* A cache for this thread alone, if possible the one that it had before. Returned with _give. Thread-safe. */
tx_status tx__piece_caches_take(tx__piece_caches *all, tx__piece_cache **out);
void tx__piece_caches_give(tx__piece_caches *all, tx__piece_cache *cache);

/* Remembers the ids of a piece of 1 to TX__PIECE_MAX bytes. Without memory to grow it stays as large as it is. */
void tx__piece_cache_add(tx__piece_cache *c, tx__piece_key key, const unsigned char *piece, size_t n, const int32_t *id,
                         size_t n_ids);

/* The ids of an entry that keeps them in the pool; NULL if the entry turns out to be another piece's. */
const int32_t *tx__piece_cache_pooled(const tx__piece_cache *c, const tx__piece_entry *e, const unsigned char *piece,
                                      size_t n);

/* Key of a piece of 1 to TX__PIECE_MAX bytes, of which `room` >= n bytes can be read. */
static inline tx__piece_key tx__piece_key_of(const unsigned char *piece, size_t n, size_t room)
{
    static const unsigned char keep[32] = { 255, 255, 255, 255, 255, 255, 255, 255,
                                            255, 255, 255, 255, 255, 255, 255, 255 };
    tx__piece_key k = { 0, 0 }, mask;
    if (n > TX__PIECE_SHORT) {
        XXH128_hash_t h = XXH3_128bits(piece, n);
        return (tx__piece_key){ h.low64, h.high64 >> 16 | (uint64_t)n << 48 | (uint64_t)0xFF << 56 };
    }
    memcpy(&k, piece, room < sizeof k ? n : sizeof k);
    memcpy(&mask, keep + sizeof k - n, sizeof mask);
    return (tx__piece_key){ k.lo & mask.lo, (k.hi & mask.hi) | (uint64_t)n << 56 };
}

static inline tx__piece_entry *tx__piece_row(const tx__piece_cache *c, tx__piece_key k)
{
    uint64_t h = (k.lo ^ (k.hi * 0x9E3779B97F4A7C15u >> 29)) * 0xD6E8FEB86659FD93u;
    return c->row[(h ^ k.hi * 0x9E3779B97F4A7C15u) >> c->shift];
}

/* Writes the piece's ids to id, which has room for one per byte and TX__PIECE_INLINE more. Returns their
 * number; 0: the piece is not in the cache. */
static inline size_t tx__piece_cache_find(tx__piece_cache *c, tx__piece_key k, const unsigned char *piece, size_t n,
                                          int32_t *id)
{
    tx__piece_entry *e = tx__piece_row(c, k);
    if (e->key.lo != k.lo || e->key.hi != k.hi) {
        tx__piece_entry other = e[1];
        if (other.key.lo != k.lo || other.key.hi != k.hi) return 0;
        e[1] = e[0];
        e[0] = other;
    }
    if (e->n_ids <= TX__PIECE_INLINE && n <= TX__PIECE_SHORT) {
        memcpy(id, e->id, sizeof e->id);
        return e->n_ids;
    }
    const int32_t *pooled = tx__piece_cache_pooled(c, e, piece, n);
    if (!pooled) return 0;
    for (size_t i = 0; i < e->n_ids; i += 4) memcpy(id + i, pooled + i, 4 * sizeof *id); /* without a call */
    return e->n_ids;
}

#endif
