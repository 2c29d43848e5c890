/* piece_cache.h - the ids of pieces of text that were encoded before. Text repeats its words, and a word found here
 * costs one cache line instead of merges.
 *
 *      row   | piece of up to 15 bytes, its length | ids, their number |  | the same |      64 bytes
 *
 *  A piece of more bytes, or of more ids than an entry has room for, keeps its ids (and if it is long its bytes, which
 * a hash stands for in the entry) in a pool. A piece's row follows from its hash; if it is full, the next row with room
 * is taken. Rows and pool grow as pieces are added, up to 32 and 64 MiB; when either is full, all pieces are dropped. A
 * hit always has the same bytes. For one thread at a time. */
#ifndef TX_TOKEN_PIECE_CACHE_H
#define TX_TOKEN_PIECE_CACHE_H

#include <stdbool.h>
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
    uint64_t lo, hi; /* not both zero, for no piece is empty */
    uint64_t hash;   /* of the two */
} tx__piece_key;

typedef struct tx__piece_entry {
    uint64_t lo, hi; /* of the key; zero: free */
    int32_t
        id[TX__PIECE_INLINE + 1]; /* ids, and at the end their number; beyond that, the place in the pool is id[0] */
} tx__piece_entry;

typedef struct tx__piece_cache {
    tx__piece_entry (*row)[2];
    int shift;     /* 64 - log2(rows) */
    int32_t *pool; /* of a long piece its bytes, then the ids */
    size_t n_pool, cap_pool;
    size_t n_entries;
} tx__piece_cache;

/* The caches of one tokenizer, one for every thread that encodes at the same time. */
typedef struct tx__piece_caches tx__piece_caches;

tx_status tx__piece_caches_create(tx__piece_caches **out);
void tx__piece_caches_destroy(tx__piece_caches *all); /* NULL allowed; none may be taken */

/* A cache for this thread alone, if possible the one that it had before. Returned with _give. Thread-safe. */
tx_status tx__piece_caches_take(tx__piece_caches *all, tx__piece_cache **out);
void tx__piece_caches_give(tx__piece_caches *all, tx__piece_cache *cache);

/* Remembers the ids of a piece of 1 to TX__PIECE_MAX bytes, unless it has them. Without memory to grow it stays as
 * large as it is. */
void tx__piece_cache_add(tx__piece_cache *c, tx__piece_key key, const unsigned char *piece, size_t n, const int32_t *id,
                         size_t n_ids);

/* tx__piece_cache_find, of all pieces: those whose ids are in the pool or that are in another row than their own. */
size_t tx__piece_cache_search(const tx__piece_cache *c, tx__piece_key k, const unsigned char *piece, size_t n,
                              int32_t *id);

static inline tx__piece_key tx__piece_key_hashed(uint64_t lo, uint64_t hi)
{
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)(lo ^ 0x9E3779B97F4A7C15u) * (hi ^ 0xD6E8FEB86659FD93u);
    return (tx__piece_key){ lo, hi, (uint64_t)(product >> 64) ^ (uint64_t)product };
}

/* Key of a piece of 1 to TX__PIECE_MAX bytes, of which `room` >= n bytes can be read. */
static inline tx__piece_key tx__piece_key_of(const unsigned char *piece, size_t n, size_t room)
{
    static const unsigned char keep[32] = { 255, 255, 255, 255, 255, 255, 255, 255,
                                            255, 255, 255, 255, 255, 255, 255, 255 };
    uint64_t k[2] = { 0, 0 }, mask[2];
    if (n > TX__PIECE_SHORT) {
        XXH128_hash_t h = XXH3_128bits(piece, n);
        return tx__piece_key_hashed(h.low64, h.high64 >> 16 | (uint64_t)n << 48 | (uint64_t)0xFF << 56);
    }
    memcpy(k, piece, room < sizeof k ? n : sizeof k);
    memcpy(mask, keep + sizeof k - n, sizeof mask);
    return tx__piece_key_hashed(k[0] & mask[0], (k[1] & mask[1]) | (uint64_t)n << 56);
}

static inline tx__piece_entry *tx__piece_row(const tx__piece_cache *c, tx__piece_key k)
{
    return c->row[k.hash >> c->shift];
}

static inline bool tx__piece_is(const tx__piece_entry *e, tx__piece_key k)
{
    return !((e->lo ^ k.lo) | (e->hi ^ k.hi));
}

/* Writes the piece's ids to id, which has room for one per byte and TX__PIECE_INLINE more. Returns their
 * number; 0: the piece is not in the cache. Which of a row's two entries it is cannot be guessed, so nothing branches
 * on that. */
static inline size_t tx__piece_cache_find(const tx__piece_cache *c, tx__piece_key k, const unsigned char *piece,
                                          size_t n, int32_t *id)
{
    const tx__piece_entry *row = tx__piece_row(c, k), *e = row + tx__piece_is(row + 1, k);
    if (!tx__piece_is(e, k) || e->id[TX__PIECE_INLINE] > TX__PIECE_INLINE)
        return tx__piece_cache_search(c, k, piece, n, id);
    memcpy(id, e->id, sizeof e->id);
    return (size_t)e->id[TX__PIECE_INLINE];
}

#endif
