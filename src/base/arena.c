/* arena.c - stack memory, counted first and taken once. */
#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/shared.h"

#define ALIGN ((size_t)64)

void tx_arena_init(tx_arena *a, const char *name)
{
    *a = (tx_arena){ .counting = true, .name = name };
}

tx_status tx_arena_reserve(tx_arena *a, size_t bytes)
{
    TX_ASSERT(a->counting);
    unsigned char *base;
    TX_TRY(a->shared ? tx_shared_alloc(&base, bytes, a->name) : tx_alloc(&base, bytes, 1, a->name));
    *a = (tx_arena){ .base = base, .cap = bytes, .name = a->name, .shared = a->shared };
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

void tx_arena_deinit(tx_arena *a)
{
    tx_shared_free(a->base); /* either kind's */
    *a = (tx_arena){ .counting = true, .name = a->name, .shared = a->shared };
}
