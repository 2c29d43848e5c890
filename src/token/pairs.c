/* pairs.c - the part of the pair table that changes it. */
#include "token/pairs.h"

#include "base/alloc.h"

static tx_status grow(tx__pairs *p)
{
    tx__pairs big = { .n = p->n, .mask = p->slot ? p->mask * 2 + 1 : 1023, .shift = p->slot ? p->shift - 1 : 54 };
    TX_TRY(tx_alloc(&big.slot, big.mask + 1, sizeof *big.slot, "a table of pairs"));
    for (size_t i = 0; p->slot && i <= p->mask; i++)
        if (p->slot[i].key) *tx__pairs_slot(&big, p->slot[i].key - 1) = p->slot[i];
    tx_free(p->slot);
    *p = big;
    return TX_OK;
}

tx_status tx__pairs_at(tx__pairs *p, uint64_t pair, uint32_t **value)
{
    if (!p->slot || p->n >= p->mask / 2) TX_TRY(grow(p));
    tx__pair_slot *s = tx__pairs_slot(p, pair);
    if (!s->key) {
        *s = (tx__pair_slot){ .key = pair + 1, .value = TX__NO_PAIR };
        p->n++;
    }
    *value = &s->value;
    return TX_OK;
}

void tx__pairs_free(tx__pairs *p)
{
    tx_free(p->slot);
    *p = (tx__pairs){ 0 };
}
