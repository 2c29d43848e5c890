/* numpy_rng.c - MT19937 and the legacy distributions of NumPy's RandomState. */
#include "data/numpy_rng.h"

enum { N = 624, M = 397 };

void tx_np_rng_seed(tx_np_rng *r, uint32_t seed)
{
    r->mt[0] = seed;
    for (uint32_t i = 1; i < N; i++) r->mt[i] = 1812433253u * (r->mt[i - 1] ^ (r->mt[i - 1] >> 30)) + i;
    r->used = N;
}

static void refill(tx_np_rng *r)
{
    uint32_t *mt = r->mt;
    for (int i = 0; i < N; i++) {
        uint32_t y = (mt[i] & 0x80000000u) | (mt[(i + 1) % N] & 0x7fffffffu);
        mt[i] = mt[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    r->used = 0;
}

uint32_t tx_np_rng_u32(tx_np_rng *r)
{
    if (r->used == N) refill(r);
    uint32_t y = r->mt[r->used++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t tx_np_rng_interval(tx_np_rng *r, uint64_t max)
{
    if (!max) return 0;
    uint64_t mask = UINT64_MAX >> __builtin_clzll(max), value;
    do {
        if (max <= UINT32_MAX) {
            value = tx_np_rng_u32(r) & mask;
        } else {
            uint64_t high = tx_np_rng_u32(r); /* the first draw is the high word */
            value = (high << 32 | tx_np_rng_u32(r)) & mask;
        }
    } while (value > max);
    return value;
}

int64_t tx_np_rng_randint(tx_np_rng *r, int64_t lo, int64_t hi)
{
    return (int64_t)((uint64_t)lo + tx_np_rng_interval(r, (uint64_t)hi - (uint64_t)lo - 1));
}

double tx_np_rng_random(tx_np_rng *r)
{
    uint32_t a = tx_np_rng_u32(r) >> 5, b = tx_np_rng_u32(r) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

void tx_np_rng_shuffle_i32(tx_np_rng *r, int32_t *x, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t j = tx_np_rng_interval(r, (uint64_t)i);
        int32_t t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

void tx_np_rng_shuffle_i64(tx_np_rng *r, int64_t *x, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        uint64_t j = tx_np_rng_interval(r, (uint64_t)i);
        int64_t t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}
