/* numpy_generator.h - NumPy's numpy.random.default_rng(seed), bit for bit: DeepSpeed draws its batches from it.
 *
 *  PCG64 (O'Neill 2014: 128 bits, XSL-RR), seeded through NumPy's SeedSequence. Every function names the NumPy call
 *  whose value and whose number of draws it reproduces. Source: numpy/random, _generator.pyx, bit_generator.pyx,
 *  src/pcg64, src/distributions (random_interval). */
#ifndef TX_DATA_NUMPY_GENERATOR_H
#define TX_DATA_NUMPY_GENERATOR_H

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 tx_u128;

typedef struct tx_np_generator {
    tx_u128 state, increment;
    bool has_half; /* 32 bits are drawn as halves of 64: the upper one waits here */
    uint32_t half;
} tx_np_generator;

/* default_rng(seed), 0 <= seed < 2^64 */
void tx_np_generator_seed(tx_np_generator *g, uint64_t seed);

/* random(): uniform in [0,1), 53 bits */
double tx_np_generator_random(tx_np_generator *g);

/* integers(n) of at most 32 bits: uniform in 0..n-1, 1 < n, as Lemire, arXiv:1805.10941, has it. */
uint32_t tx_np_generator_below(tx_np_generator *g, uint32_t n);

/* One draw of shuffle(): uniform in 0..max, by rejection under the smallest mask of ones. max 0 draws nothing. */
uint32_t tx_np_generator_interval(tx_np_generator *g, uint32_t max);

/* shuffle(x) of an array or list of n < 2^32. */
void tx_np_generator_shuffle(tx_np_generator *g, uint32_t *x, int64_t n);

#endif
