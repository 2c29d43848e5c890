/* keyed_order.h - a shuffled order that is computed, not stored: sample i of n in epoch e, for any n and e at once.
 *
 *  A Feistel network over the smallest even number of bits that n fits into, its rounds keyed by base/rng.h with (seed,
 *  epoch), walked until it lands below n: a permutation of 0 .. n-1 by construction, in O(1) time and without memory.
 *  Source: Black, Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002. */
#ifndef TX_DATA_KEYED_ORDER_H
#define TX_DATA_KEYED_ORDER_H

#include <stdint.h>

/* Where i goes, 0 <= i < n <= 2^62. */
int64_t tx_keyed_order(uint64_t seed, uint32_t epoch, int64_t n, int64_t i);

#endif
