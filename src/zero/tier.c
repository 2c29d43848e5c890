/* tier.c - numbers that are kept in host memory or in a file. */
#include "zero/tier.h"

#include <string.h>

#include "base/alloc.h"

#define COPY_PART ((size_t)1 << 18) /* bytes that are worth a thread */

struct tx_tier {
    tx_tier_config c;
    unsigned char *memory; /* TX_TIER_CPU */
    tx_aio *aio;           /* TX_TIER_NVME */
    uint64_t fetched, stored;
};

int64_t tx_tier_padded(int64_t numel)
{
    return (numel + TX_TIER_BLOCK - 1) / TX_TIER_BLOCK * TX_TIER_BLOCK;
}

uint64_t tx_tier_bytes(const tx_tier_config *c)
{
    return (uint64_t)c->n_arrays * (uint64_t)tx_tier_padded(c->numel) * tx_dtype_size(c->dtype);
}

tx_status tx_tier_open(tx_tier **out, const tx_tier_config *c)
{
    tx_tier *t;
    tx_status st;
    TX_ASSERT(c->n_arrays > 0 && c->numel > 0);
    TX_TRY(tx_alloc(&t, 1, sizeof *t, c->what));
    t->c = *c;
    if (c->kind == TX_TIER_CPU)
        st = tx_alloc(&t->memory, tx_tier_bytes(c), 1, c->what);
    else
        st = tx_aio_open(&t->aio, c->dir, c->name, tx_tier_bytes(c), &c->aio);
    if (st)
        tx_tier_close(t);
    else
        *out = t;
    return st;
}

void tx_tier_close(tx_tier *t)
{
    if (!t) return;
    tx_aio_close(t->aio);
    tx_free(t->memory);
    tx_free(t);
}

/* Bytes from the store's beginning. */
static uint64_t place(const tx_tier *t, int array, int64_t at)
{
    int64_t padded = tx_tier_padded(t->c.numel);
    TX_ASSERT(array >= 0 && array < t->c.n_arrays && at >= 0 && at <= padded && at % TX_TIER_BLOCK == 0);
    return (uint64_t)(array * padded + at) * tx_dtype_size(t->c.dtype);
}

/* Bytes of a range. */
static size_t extent(const tx_tier *t, int64_t at, int64_t n)
{
    TX_ASSERT(n >= 0 && n % TX_TIER_BLOCK == 0 && n <= tx_tier_padded(t->c.numel) - at);
    return (size_t)n * tx_dtype_size(t->c.dtype);
}

/* One thread does not use all that memory can give. */
static void copy(unsigned char *to, const unsigned char *from, size_t bytes)
{
    size_t n_parts = (bytes + COPY_PART - 1) / COPY_PART;
#pragma omp parallel for if (n_parts > 1)
    for (size_t i = 0; i < n_parts; i++) {
        size_t lo = i * COPY_PART;
        memcpy(to + lo, from + lo, bytes - lo < COPY_PART ? bytes - lo : COPY_PART);
    }
}

void tx_tier_fetch_start(tx_tier *t, int array, int64_t at, int64_t n, void *buf, tx_tier_request *r)
{
    uint64_t from = place(t, array, at);
    size_t bytes = extent(t, at, n);
    TX_ASSERT(!r->tier);
    r->tier = t;
    t->fetched += bytes;
    if (t->aio)
        tx_aio_read_start(t->aio, buf, from, bytes, &r->aio);
    else
        copy(buf, t->memory + from, bytes);
}

void tx_tier_store_start(tx_tier *t, int array, int64_t at, int64_t n, const void *buf, tx_tier_request *r)
{
    uint64_t to = place(t, array, at);
    size_t bytes = extent(t, at, n);
    TX_ASSERT(!r->tier);
    r->tier = t;
    t->stored += bytes;
    if (t->aio)
        tx_aio_write_start(t->aio, buf, to, bytes, &r->aio);
    else
        copy(t->memory + to, buf, bytes);
}

tx_status tx_tier_wait(tx_tier_request *r)
{
    tx_tier *t = r->tier;
    if (!t) return TX_OK;
    r->tier = NULL;
    return tx_aio_wait(&r->aio);
}

void tx_tier_moved(const tx_tier *t, uint64_t *fetched, uint64_t *stored)
{
    *fetched = t->fetched;
    *stored = t->stored;
}

void *tx_tier_direct(tx_tier *t, int array, int64_t at)
{
    uint64_t from = place(t, array, at);
    return t->memory ? t->memory + from : NULL;
}
