/* hash_table.c - open addressing, at most half full. */
#include "base/hash_table.h"

#include <pthread.h>
#include <sys/random.h>
#include <xxhash.h>

#include "base/alloc.h"

static uint64_t seed;

/* Without the system's chance the seed stays 0: slower on a file made for that, else the same. */
static void take_seed(void)
{
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) seed = 0;
}

uint64_t tx_hash(const void *bytes, size_t n, uint64_t more)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, take_seed);
    return XXH3_64bits_withSeed(bytes, n, seed ^ more * 0x9E3779B97F4A7C15u);
}

static void place(tx_hash_table *t, uint64_t hash, uint32_t index)
{
    size_t i = hash & (t->cap - 1);
    while (t->slot[i].index) i = (i + 1) & (t->cap - 1);
    t->slot[i] = (struct tx_hash_slot){ hash, index };
}

tx_status tx_hash_add(tx_hash_table *t, uint64_t hash, size_t index)
{
    if (index >= UINT32_MAX) return TX_FAIL(TX_ERR_UNSUPPORTED, "more than 4 billion things in a table");
    if (2 * (t->n + 1) > t->cap) {
        tx_hash_table more = { .n = t->n, .cap = t->cap ? 2 * t->cap : 64 };
        TX_TRY(tx_alloc(&more.slot, more.cap, sizeof *more.slot, "a table of names"));
        for (size_t i = 0; i < t->cap; i++)
            if (t->slot[i].index) place(&more, t->slot[i].hash, t->slot[i].index);
        tx_free(t->slot);
        *t = more;
    }
    place(t, hash, (uint32_t)index + 1);
    t->n++;
    return TX_OK;
}

bool tx_hash_next(const tx_hash_table *t, uint64_t hash, size_t *at, size_t *index)
{
    for (size_t step = *at; step < t->cap; step++) {
        const struct tx_hash_slot *s = &t->slot[(hash + step) & (t->cap - 1)];
        if (!s->index) return false;
        if (s->hash != hash) continue;
        *index = s->index - 1;
        *at = step + 1;
        return true;
    }
    return false;
}

void tx_hash_free(tx_hash_table *t)
{
    tx_free(t->slot);
    *t = (tx_hash_table){ 0 };
}
