/* pool.c - buffers that are found in a dry run, taken once, and used by one bucket after the other. */
#include "zero/pool.h"

#include "base/aio.h"
#include "base/alloc.h"

int tx__pool_find(const tx_pool *t, int kind)
{
    for (int i = 0; i < t->n; i++)
        if (t->buffer[i].kind == kind && t->buffer[i].bucket < 0) return i;
    return -1;
}

void tx__pool_release(tx_pool *t, int *buffer)
{
    if (*buffer >= 0) t->buffer[*buffer].bucket = -1;
    *buffer = -1;
}

tx_status tx__pool_add(tx_pool *t, int kind, int64_t numel, int *out)
{
    TX_TRY(tx_realloc(&t->buffer, (size_t)t->n + 1, sizeof *t->buffer, "the buckets"));
    t->buffer[t->n] = (tx_pool_buffer){ .kind = kind, .bucket = -1, .numel = numel, .data = TX_DRY_ADDRESS };
    *out = t->n++;
    return TX_OK;
}

tx_status tx__take_aligned(tx_device *d, void **base, void **data, size_t bytes, const char *what)
{
    TX_TRY(tx_device_take(d, base, bytes + TX_AIO_ALIGN, true, what));
    *data = (char *)*base + (TX_AIO_ALIGN - (uintptr_t)*base % TX_AIO_ALIGN) % TX_AIO_ALIGN;
    return TX_OK;
}

tx_status tx__pool_take(tx_pool *t, tx_device *d, const char *what)
{
    for (int i = 0; i < t->n; i++) {
        tx_pool_buffer *b = &t->buffer[i];
        TX_TRY(tx__take_aligned(d, &b->base, &b->data, (size_t)b->numel * t->size, what));
    }
    return TX_OK;
}

void tx__pool_close(tx_pool *t, tx_device *d)
{
    for (int i = 0; i < t->n; i++) tx_device_give(d, t->buffer[i].base);
    tx_free(t->buffer);
    *t = (tx_pool){ 0 };
}

size_t tx__pool_bytes(const tx_pool *t)
{
    size_t bytes = 0;
    for (int i = 0; i < t->n; i++) bytes += (size_t)t->buffer[i].numel * t->size;
    return bytes;
}
