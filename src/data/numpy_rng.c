/* numpy_rng.c - MT19937 and the legacy distributions of NumPy's RandomState. */
#include "data/numpy_rng.h"

#include <stddef.h>
#include <string.h>

enum { N = 624, M = 397 };

void tx_np_rng_seed(tx_np_rng *r, uint32_t seed)
{
    r->mt[0] = seed;
    for (uint32_t i = 1; i < N; i++) r->mt[i] = 1812433253u * (r->mt[i - 1] ^ (r->mt[i - 1] >> 30)) + i;
    r->used = N;
}

static uint32_t twist(uint32_t high, uint32_t low, uint32_t far)
{
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ (y >> 1) ^ (0x9908b0dfu & (0u - (y & 1)));
}

static void refill(tx_np_rng *r)
{
    uint32_t *mt = r->mt;
    for (int i = 0; i < N - M; i++) mt[i] = twist(mt[i], mt[i + 1], mt[i + M]);
    for (int i = N - M; i < N - 1; i++) mt[i] = twist(mt[i], mt[i + 1], mt[i + M - N]);
    mt[N - 1] = twist(mt[N - 1], mt[0], mt[M - 1]);
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

int tx_np_rng_choice(tx_np_rng *r, const double *p, int n)
{
    double u = tx_np_rng_random(r), all = 0, part = 0;
    for (int i = 0; i < n; i++) all += p[i];
    for (int i = 0; i < n - 1; i++)
        if ((part += p[i]) / all > u) return i;
    return n - 1;
}

/* The partners of elements top, top - 1, ...: up to `cap` of them, at least one; their number. They do not depend on
 * what is shuffled, so a shuffle knows where it will reach before it does. */
static int draw_partners(tx_np_rng *r, int64_t top, uint64_t *partner, int cap)
{
    int n = 0;
    if (top > UINT32_MAX) {
        for (; n < cap && top > UINT32_MAX; top--) partner[n++] = tx_np_rng_interval(r, (uint64_t)top);
        return n;
    }
    uint64_t mask = UINT64_MAX >> __builtin_clzll((uint64_t)top);
    for (int64_t last = (int64_t)(mask >> 1); n < cap && top > last;) { /* as long as the mask stays the same */
        partner[n] = tx_np_rng_u32(r) & mask;
        int taken = partner[n] <= (uint64_t)top; /* no branch: it would be guessed wrong every third time */
        n += taken;
        top -= taken;
    }
    return n;
}

enum { AHEAD = 128 }; /* partners drawn before they are used: the memory has time to fetch them */

/* An array larger than the caches is a wait at every swap, unless what is swapped was asked for long before. */
static inline __attribute__((always_inline)) void shuffle(tx_np_rng *r, unsigned char *x, int64_t n, const size_t size)
{
    uint64_t partner[2][AHEAD];
    int now = 0, n_now = n > 1 ? draw_partners(r, n - 1, partner[0], AHEAD) : 0;
    for (int64_t i = n - 1; i > 0; now = !now) {
        int64_t rest = i - n_now;
        int n_next = rest > 0 ? draw_partners(r, rest, partner[!now], AHEAD) : 0;
        for (int k = 0; k < n_next; k++) __builtin_prefetch(x + partner[!now][k] * size, 1);
        for (int k = 0; k < n_now; k++) {
            unsigned char a[8], b[8], *p = x + (size_t)(i - k) * size, *q = x + partner[now][k] * size;
            memcpy(a, p, size);
            memcpy(b, q, size);
            memcpy(p, b, size);
            memcpy(q, a, size);
        }
        i = rest;
        n_now = n_next;
    }
}

void tx_np_rng_shuffle_i32(tx_np_rng *r, int32_t *x, int64_t n)
{
    shuffle(r, (unsigned char *)x, n, sizeof *x);
}

void tx_np_rng_shuffle_i64(tx_np_rng *r, int64_t *x, int64_t n)
{
    shuffle(r, (unsigned char *)x, n, sizeof *x);
}

/* Eight running sums, halves beyond 128. */
double tx_numpy_sum(const double *x, int n)
{
    if (n > 128) {
        int half = n / 2 - n / 2 % 8;
        return tx_numpy_sum(x, half) + tx_numpy_sum(x + half, n - half);
    }
    double r[8] = { 0 }, sum = 0;
    int i = 0;
    if (n >= 8) {
        for (; i < n - n % 8; i++) r[i % 8] += x[i];
        sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    }
    for (; i < n; i++) sum += x[i];
    return sum;
}
