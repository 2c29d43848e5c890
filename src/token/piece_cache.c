/* piece_cache.c - making a cache and adding to it; what is looked up in the inner loop is in the header. */
#include "token/piece_cache.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"

enum { ROWS = 1 << 12, ROWS_MAX = 1 << 19, POOL_MAX = 1 << 24 }; /* ids are 4 bytes, rows 64 */

static size_t n_rows(const tx__piece_cache *c)
{
    return (size_t)1 << (64 - c->shift);
}

static void destroy(tx__piece_cache *c)
{
    if (!c) return;
    tx_free(c->row);
    tx_free(c->pool);
    tx_free(c);
}

static tx_status create(tx__piece_cache **out)
{
    tx__piece_cache *c;
    tx_status st;
    TX_TRY(tx_alloc(&c, 1, sizeof *c, "a cache of words"));
    c->shift = 64 - 12;
    TX_GOTO(tx_alloc(&c->row, ROWS, sizeof *c->row, "a cache of words"));
    *out = c;
    return TX_OK;
out:
    destroy(c);
    return st;
}

/* Elements of the pool that a long piece's bytes take. */
static size_t text_ids(size_t n)
{
    return n > TX__PIECE_SHORT ? (n + sizeof(int32_t) - 1) / sizeof(int32_t) : 0;
}

static void put(tx__piece_cache *c, const tx__piece_entry *e)
{
    tx__piece_entry *row = tx__piece_row(c, e->key);
    row[1] = row[0];
    row[0] = *e;
}

/* Twice the rows. Each row's entries go to one of two, in the order in which they were used. */
static void grow_rows(tx__piece_cache *c)
{
    tx__piece_cache twice = *c;
    c->n_added = 0;
    if (tx_alloc(&twice.row, 2 * n_rows(c), sizeof *c->row, "a cache of words")) return;
    twice.shift--;
    for (size_t i = 0; i < n_rows(c); i++)
        for (int k = 1; k >= 0; k--)
            if (c->row[i][k].n_ids) put(&twice, &c->row[i][k]);
    tx_free(c->row);
    c->row = twice.row;
    c->shift = twice.shift;
}

/* Place for n more ids in the pool, or -1. */
static int64_t pool_place(tx__piece_cache *c, size_t n)
{
    if (c->n_pool + n > POOL_MAX) {
        memset(c->row, 0, n_rows(c) * sizeof *c->row);
        c->n_pool = 0;
    }
    if (c->n_pool + n > c->cap_pool) {
        size_t cap = 2 * c->cap_pool + 4096; /* and three more, for readers take four at a time */
        if (tx_realloc(&c->pool, cap + 3, sizeof *c->pool, "a cache of words")) return -1;
        c->cap_pool = cap;
    }
    c->n_pool += n;
    return (int64_t)(c->n_pool - n);
}

void tx__piece_cache_add(tx__piece_cache *c, tx__piece_key key, const unsigned char *piece, size_t n, const int32_t *id,
                         size_t n_ids)
{
    tx__piece_entry e = { .key = key, .n_ids = (uint32_t)n_ids };
    size_t n_text = text_ids(n);
    if (n_ids <= TX__PIECE_INLINE && !n_text) {
        memcpy(e.id, id, n_ids * sizeof *id);
    } else {
        int64_t place = pool_place(c, n_text + n_ids);
        if (place < 0) return;
        e.id[0] = (int32_t)place;
        memcpy(c->pool + place, piece, n_text ? n : 0);
        memcpy(c->pool + place + n_text, id, n_ids * sizeof *id);
    }
    if (++c->n_added > n_rows(c) / 2 && n_rows(c) < ROWS_MAX) grow_rows(c);
    put(c, &e);
}

const int32_t *tx__piece_cache_pooled(const tx__piece_cache *c, const tx__piece_entry *e, const unsigned char *piece,
                                      size_t n)
{
    const int32_t *at = c->pool + e->id[0];
    size_t n_text = text_ids(n);
    return n_text && memcmp(at, piece, n) != 0 ? NULL : at + n_text;
}

/* ---- one for every thread ---- */

enum { N_IDLE = 64 };

struct tx__piece_caches {
    _Atomic(tx__piece_cache *) idle[N_IDLE]; /* NULL: none yet, or in use */
};

tx_status tx__piece_caches_create(tx__piece_caches **out)
{
    return tx_alloc(out, 1, sizeof **out, "a tokenizer");
}

void tx__piece_caches_destroy(tx__piece_caches *all)
{
    if (!all) return;
    for (size_t i = 0; i < N_IDLE; i++) destroy(atomic_load(&all->idle[i]));
    tx_free(all);
}

/* Where a thread looks first: threads differ in their stacks, which are pages apart. */
static size_t home(void)
{
    return (size_t)pthread_self() >> 12;
}

tx_status tx__piece_caches_take(tx__piece_caches *all, tx__piece_cache **out)
{
    for (size_t i = 0; i < N_IDLE; i++) {
        _Atomic(tx__piece_cache *) *place = &all->idle[(home() + i) % N_IDLE];
        if (!atomic_load_explicit(place, memory_order_relaxed)) continue;
        if ((*out = atomic_exchange(place, NULL))) return TX_OK;
    }
    return create(out);
}

void tx__piece_caches_give(tx__piece_caches *all, tx__piece_cache *cache)
{
    for (size_t i = 0; i < N_IDLE; i++) {
        tx__piece_cache *none = NULL;
        if (atomic_compare_exchange_strong(&all->idle[(home() + i) % N_IDLE], &none, cache)) return;
    }
    destroy(cache);
}
