/* piece_cache.c - making a cache and adding to it; what is looked up in the inner loop is in the header. */
#include "token/piece_cache.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"

enum { ROWS = 1 << 12, ROWS_MAX = 1 << 19, POOL_MAX = 1 << 24 }; /* ids are 4 bytes, rows 64 */
enum { POOLED = 1 << 16 };                                       /* added to the number of ids that are in the pool */

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

static bool is_free(const tx__piece_entry *e)
{
    return !(e->lo | e->hi);
}

/* The entry that is next in the search from e on: of the same row or the next one. */
static tx__piece_entry *after(const tx__piece_cache *c, tx__piece_entry *e)
{
    return ++e == c->row[n_rows(c)] ? c->row[0] : e;
}

static void put(tx__piece_cache *c, const tx__piece_entry *e)
{
    tx__piece_entry *to = tx__piece_row(c, tx__piece_key_hashed(e->lo, e->hi));
    for (; !is_free(to); to = after(c, to))
        if (to->lo == e->lo && to->hi == e->hi) return;
    *to = *e;
    c->n_entries++;
}

static void grow_rows(tx__piece_cache *c)
{
    tx__piece_cache twice = *c;
    twice.shift--;
    twice.n_entries = 0;
    if (tx_alloc(&twice.row, n_rows(&twice), sizeof *c->row, "a cache of words")) return;
    for (size_t i = 0; i < 2 * n_rows(c); i++)
        if (!is_free(&c->row[i / 2][i % 2])) put(&twice, &c->row[i / 2][i % 2]);
    tx_free(c->row);
    *c = twice;
}

static void drop_all(tx__piece_cache *c)
{
    memset(c->row, 0, n_rows(c) * sizeof *c->row);
    c->n_entries = 0;
    c->n_pool = 0;
}

/* Place for n more ids in the pool, or -1. */
static int64_t pool_place(tx__piece_cache *c, size_t n)
{
    if (c->n_pool + n > POOL_MAX) drop_all(c);
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
    tx__piece_entry e = { .lo = key.lo, .hi = key.hi, .id = { [TX__PIECE_INLINE] = (int32_t)n_ids } };
    size_t n_text = text_ids(n);
    /* half of the entries at most; where there is no memory for that, three quarters */
    if (c->n_entries >= n_rows(c) && n_rows(c) < ROWS_MAX) grow_rows(c);
    if (c->n_entries >= n_rows(c) / 2 * 3) drop_all(c);
    if (n_ids <= TX__PIECE_INLINE && !n_text) {
        memcpy(e.id, id, n_ids * sizeof *id);
    } else {
        int64_t place = pool_place(c, n_text + n_ids);
        if (place < 0) return;
        e.id[0] = (int32_t)place;
        e.id[TX__PIECE_INLINE] += POOLED;
        memcpy(c->pool + place, piece, n_text ? n : 0);
        memcpy(c->pool + place + n_text, id, n_ids * sizeof *id);
    }
    put(c, &e);
}

size_t tx__piece_cache_search(const tx__piece_cache *c, tx__piece_key k, const unsigned char *piece, size_t n,
                              int32_t *id)
{
    for (tx__piece_entry *e = tx__piece_row(c, k); !is_free(e); e = after(c, e)) {
        if (!tx__piece_is(e, k)) continue;
        size_t n_ids = (size_t)e->id[TX__PIECE_INLINE], n_text = text_ids(n);
        if (n_ids <= TX__PIECE_INLINE) {
            memcpy(id, e->id, sizeof e->id);
            return n_ids;
        }
        const int32_t *pooled = c->pool + e->id[0];
        if (n_text && memcmp(pooled, piece, n) != 0) continue;
        n_ids -= POOLED;
        for (size_t i = 0; i < n_ids; i += 4) memcpy(id + i, pooled + n_text + i, 4 * sizeof *id); /* without a call */
        return n_ids;
    }
    return 0;
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
