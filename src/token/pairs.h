/* pairs.h - a table from pairs of ids to numbers: a pair's rank when encoding, its record when training. */
#ifndef TX_TOKEN_PAIRS_H
#define TX_TOKEN_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TX__NO_PAIR UINT32_MAX

typedef struct tx__pair_slot {
    uint64_t key; /* pair + 1; 0: free */
    uint32_t value;
} tx__pair_slot;

/* Zeroed = empty. Open addressing, linear probing, at most half full. */
typedef struct tx__pairs {
    tx__pair_slot *slot;
    size_t n, mask; /* mask + 1 slots */
    int shift;      /* 64 - log2(slots) */
} tx__pairs;

/* Ordered as pairs are: by left, then right. Ids are not negative. */
static inline uint64_t tx__pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* The pair's slot, or the free one that it would take. p->slot is not NULL. */
static inline tx__pair_slot *tx__pairs_slot(const tx__pairs *p, uint64_t pair)
{
    for (size_t i = (pair * 0x9E3779B97F4A7C15u) >> p->shift;; i = (i + 1) & p->mask)
        if (p->slot[i].key == pair + 1 || !p->slot[i].key) return &p->slot[i];
}

/* The pair's number, or TX__NO_PAIR. */
static inline uint32_t tx__pairs_find(const tx__pairs *p, uint64_t pair)
{
    if (!p->slot) return TX__NO_PAIR;
    const tx__pair_slot *s = tx__pairs_slot(p, pair);
    return s->key ? s->value : TX__NO_PAIR;
}

/* Points *value at the pair's number, which is TX__NO_PAIR if the pair is new: the caller sets it at once. Valid until
 * the next call. */
tx_status tx__pairs_at(tx__pairs *p, uint64_t pair, uint32_t **value);

void tx__pairs_free(tx__pairs *p);

#endif
