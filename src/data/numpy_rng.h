/* numpy_rng.h - NumPy's legacy random numbers (RandomState), bit for bit: Megatron orders its samples by them.
 *
 *  MT19937 (Matsumoto, Nishimura 1998) seeded as RandomState(int) does. Every function names the NumPy call whose value
 *  and whose number of draws it reproduces. */
#ifndef TX_DATA_NUMPY_RNG_H
#define TX_DATA_NUMPY_RNG_H

#include <stdint.h>

typedef struct tx_np_rng {
    uint32_t mt[624];
    int used; /* words of mt handed out; 624: all */
} tx_np_rng;

/* RandomState(seed) */
void tx_np_rng_seed(tx_np_rng *r, uint32_t seed);

/* The generator's next 32-bit word. */
uint32_t tx_np_rng_u32(tx_np_rng *r);

/* Uniform in 0..max, by rejection under the smallest mask of ones: NumPy's random_interval. max 0 draws nothing. */
uint64_t tx_np_rng_interval(tx_np_rng *r, uint64_t max);

/* randint(lo, hi): uniform in lo..hi-1; lo < hi. */
int64_t tx_np_rng_randint(tx_np_rng *r, int64_t lo, int64_t hi);

/* random_sample(): uniform in [0,1), 53 bits. */
double tx_np_rng_random(tx_np_rng *r);

/* choice(n, p=p): i with probability p[i]; the p[0..n) sum to about 1. */
int tx_np_rng_choice(tx_np_rng *r, const double *p, int n);

/* shuffle(x) of an array or list of n. */
void tx_np_rng_shuffle_i32(tx_np_rng *r, int32_t *x, int64_t n);
void tx_np_rng_shuffle_i64(tx_np_rng *r, int64_t *x, int64_t n);

/* numpy.sum(x[0..n)), whose order of additions decides about the last bit. */
double tx_numpy_sum(const double *x, int n);

#endif
