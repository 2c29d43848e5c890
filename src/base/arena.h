/* arena.h - memory that is planned before it is allocated.
 *
 *      base                 used              peak          cap
 *       |#### pushed ########|..... free ......:..............|
 *                            ^ push moves it right, pop back to a mark
 *
 *  An arena first runs in counting mode: pushes return addresses that must not be touched, and `peak` is what the
 *  same code will need. tx_arena_reserve() then takes exactly that much, once. Overflow afterwards is a bug in the
 * plan. */
#ifndef TX_BASE_ARENA_H
#define TX_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/device.h"
#include "base/mapped_file.h"
#include "base/status.h"

/* Stands for memory in a dry run: an address for arithmetic, never to be read or written. */
#define TX_DRY_ADDRESS ((void *)64)

typedef struct tx_arena {
    unsigned char *base;
    size_t used, peak, cap; /* bytes */
    bool counting;
    bool shared;       /* its memory is tx_shared_alloc's: other ranks read and write it in place */
    bool in_host;      /* of a device's rank: in the host's memory, allocated by tx_device_take_host */
    tx_device *device; /* borrowed, set before memory is taken; NULL: the host */
    const char *name;  /* for messages; static */
    const char *dir;   /* borrowed, set before memory is taken: its memory is a file in this folder; NULL: it is not */
    tx_mapped_file file;
} tx_arena;

/* An empty arena in counting mode. */
void tx_arena_init(tx_arena *a, const char *name);

/* Leaves counting mode and allocates `bytes` (usually the peak). Drops everything pushed. TX_ERR_NOMEM. */
tx_status tx_arena_reserve(tx_arena *a, size_t bytes);

/* Pushes `bytes` of memory, 64-byte aligned, not zeroed. Never NULL. */
void *tx_arena_push(tx_arena *a, size_t bytes);

static inline size_t tx_arena_mark(const tx_arena *a)
{
    return a->used;
}

/* Frees everything pushed since the mark. */
void tx_arena_pop(tx_arena *a, size_t mark);

/* [p, p + bytes) of it is not read or written for a while: in a file it takes no memory meanwhile. */
void tx_arena_settle(const tx_arena *a, const void *p, size_t bytes);

/* It is read soon: from a file while the caller computes. */
void tx_arena_expect(const tx_arena *a, const void *p, size_t bytes);

void tx_arena_deinit(tx_arena *a);

#endif
