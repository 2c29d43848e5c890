/* numpy_generator.c - PCG64 and what NumPy's Generator makes of it. */
#include "data/numpy_generator.h"

#include <stddef.h>

/* ---- the seed ---- */

enum { POOL = 4, SEEDED = 8 }; /* words of the pool, and those that PCG64 is seeded with */

typedef struct hash {
    uint32_t constant, times;
} hash;

static uint32_t hashed(hash *h, uint32_t value)
{
    value ^= h->constant;
    h->constant *= h->times;
    value *= h->constant;
    return value ^ value >> 16;
}

static uint32_t mixed(uint32_t x, uint32_t y)
{
    uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;
    return r ^ r >> 16;
}

/* SeedSequence(seed).generate_state(SEEDED) */
static void seed_words(uint32_t *word, uint64_t seed)
{
    hash in = { 0x43b0d7e5u, 0x931e8875u }, out = { 0x8b51f9ddu, 0x58f38dedu };
    const uint32_t entropy[POOL] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t pool[POOL];
    for (int i = 0; i < POOL; i++) pool[i] = hashed(&in, entropy[i]);
    for (int from = 0; from < POOL; from++)
        for (int to = 0; to < POOL; to++)
            if (from != to) pool[to] = mixed(pool[to], hashed(&in, pool[from]));
    for (int i = 0; i < SEEDED; i++) word[i] = hashed(&out, pool[i % POOL]);
}

/* ---- PCG64 ---- */

static void step(tx_np_generator *g)
{
    const tx_u128 multiplier = (tx_u128)2549297995355413924u << 64 | 4865540595714422341u;
    g->state = g->state * multiplier + g->increment;
}

static uint64_t next64(tx_np_generator *g)
{
    step(g);
    uint64_t x = (uint64_t)(g->state >> 64) ^ (uint64_t)g->state;
    unsigned turn = (unsigned)(g->state >> 122);
    return x >> turn | x << (-turn & 63);
}

static uint32_t next32(tx_np_generator *g)
{
    if (g->has_half) {
        g->has_half = false;
        return g->half;
    }
    uint64_t both = next64(g);
    g->has_half = true;
    g->half = (uint32_t)(both >> 32);
    return (uint32_t)both;
}

void tx_np_generator_seed(tx_np_generator *g, uint64_t seed)
{
    uint32_t w[SEEDED];
    tx_u128 half[2]; /* initial state, initial sequence */
    seed_words(w, seed);
    for (int i = 0; i < 2; i++) {
        const uint32_t *p = w + i * 4;
        half[i] = (tx_u128)((uint64_t)p[1] << 32 | p[0]) << 64 | ((uint64_t)p[3] << 32 | p[2]);
    }
    *g = (tx_np_generator){ .increment = half[1] << 1 | 1 };
    step(g);
    g->state += half[0];
    step(g);
}

double tx_np_generator_random(tx_np_generator *g)
{
    return (double)(next64(g) >> 11) * (1.0 / 9007199254740992.0);
}

uint32_t tx_np_generator_below(tx_np_generator *g, uint32_t n)
{
    uint64_t m = (uint64_t)next32(g) * n;
    if ((uint32_t)m < n)
        for (uint32_t least = -n % n; (uint32_t)m < least;) m = (uint64_t)next32(g) * n;
    return (uint32_t)(m >> 32);
}

uint32_t tx_np_generator_interval(tx_np_generator *g, uint32_t max)
{
    if (!max) return 0;
    uint32_t mask = UINT32_MAX >> __builtin_clz(max), value;
    do value = next32(g) & mask;
    while (value > max);
    return value;
}

void tx_np_generator_shuffle(tx_np_generator *g, uint32_t *x, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        uint32_t j = tx_np_generator_interval(g, (uint32_t)i), t = x[j];
        x[j] = x[i];
        x[i] = t;
    }
}
