/* arena.c - stack memory, counted first and taken once. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#define ALIGN ((size_t)64)

void tx_arena_init(tx_arena *a, const char *name)
{
    *a = (tx_arena){ .counting = true, .name = name };
}

tx_status tx_arena_reserve(tx_arena *a, size_t bytes)
{
    TX_ASSERT(a->counting);
    tx_arena taken = {
        .cap = bytes, .name = a->name, .shared = a->shared, .in_host = a->in_host, .device = a->device, .dir = a->dir
    };
    if (a->dir) {
        TX_TRY(tx_mapped_file_open(&taken.file, a->dir, bytes));
        taken.base = taken.file.base;
        *a = taken;
        return TX_OK;
    }
    TX_TRY(a->in_host ? tx_device_take_host(a->device, &taken.base, bytes, a->name)
                      : tx_device_take(a->device, &taken.base, bytes, a->shared, a->name));
    *a = taken;
    return TX_OK;
}

void *tx_arena_push(tx_arena *a, size_t bytes)
{
    size_t at = a->used;
    a->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (a->used > a->peak) a->peak = a->used;
    if (a->counting) return (void *)(uintptr_t)(ALIGN + at); /* an address to compute with, never to touch */
    TX_ASSERT(a->used <= a->cap);
    return a->base + at;
}

void tx_arena_pop(tx_arena *a, size_t mark)
{
    TX_ASSERT(mark <= a->used);
    a->used = mark;
}

void tx_arena_settle(const tx_arena *a, const void *p, size_t bytes)
{
    tx_mapped_file_settle(&a->file, p, bytes);
}

void tx_arena_expect(const tx_arena *a, const void *p, size_t bytes)
{
    tx_mapped_file_expect(&a->file, p, bytes);
}

void tx_arena_deinit(tx_arena *a)
{
    if (a->dir)
        tx_mapped_file_close(&a->file);
    else if (a->in_host)
        tx_device_give_host(a->device, a->base);
    else
        tx_device_give(a->device, a->base);
    *a = (tx_arena){ .counting = true,
                     .name = a->name,
                     .shared = a->shared,
                     .in_host = a->in_host,
                     .device = a->device,
                     .dir = a->dir };
}
