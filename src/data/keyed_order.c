/* keyed_order.c - a permutation of 0 .. n-1 by a keyed Feistel network. */
#include "data/keyed_order.h"

#include "base/rng.h"
#include "base/status.h"

enum { ROUNDS = 6 };

int64_t tx_keyed_order(uint64_t seed, uint32_t epoch, int64_t n, int64_t i)
{
    TX_ASSERT(i >= 0 && i < n && n <= INT64_C(1) << 62);
    tx_rng rng = { .seed = seed, .stream = tx_rng_stream("data-order keyed"), .step = epoch };
    int half = 1; /* bits */
    while (half < 31 && INT64_C(1) << (2 * half) < n) half++;
    uint64_t mask = (UINT64_C(1) << half) - 1, x = (uint64_t)i;
    do { /* at most four times too many values: less than four walks on average */
        uint64_t left = x >> half, right = x & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint32_t word[4];
            tx_rng_u32x4(&rng, round << 32 | right, word);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}
