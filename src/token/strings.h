/* strings.h - distinct byte strings, numbered 0, 1, 2, ... in the order in which they are added, and found by their
 * bytes. */
#ifndef TX_TOKEN_STRINGS_H
#define TX_TOKEN_STRINGS_H

#include <stdint.h>

#include "base/str.h"

/* Zeroed = empty. String i is pool.data[start[i] .. start[i+1]). A slot is 0 (free) or hash << 32 | (i + 1), at the
 * hash's place or the next free one after it (linear probing, at most half full). */
typedef struct tx__strings {
    tx_str pool;
    uint32_t *start; /* n + 1 offsets */
    uint64_t *slot;
    uint32_t n, cap, mask; /* mask + 1 slots */
} tx__strings;

/* The string's number, or -1. */
int64_t tx__strings_find(const tx__strings *s, const void *bytes, size_t n);

/* The number of the string, which is added if it is new; *fresh is whether it was. Needs more than 4 GiB of distinct
 * bytes or 2^31 strings: TX_ERR_NOMEM. */
tx_status tx__strings_add(tx__strings *s, const void *bytes, size_t n, uint32_t *number, int *fresh);

/* Adds a string that tx__strings_find does not find; it gets the next number. */
tx_status tx__strings_add_hidden(tx__strings *s, const void *bytes, size_t n);

static inline const char *tx__strings_at(const tx__strings *s, uint32_t i, size_t *n)
{
    *n = s->start[i + 1] - s->start[i];
    return s->pool.data + s->start[i];
}

void tx__strings_free(tx__strings *s);

#endif
