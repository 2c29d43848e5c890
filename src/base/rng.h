/* rng.h - the random words from which triax/random.h's numbers are made: Philox4x32-10 (Salmon et al., SC 2011). */
#ifndef TX_BASE_RNG_H
#define TX_BASE_RNG_H

#include <stdint.h>

#include "triax/random.h"

/* Marks a function that kernels call as well (defined in backend/gpu/port.h). */
#ifndef TX_DEVICE_CODE
#define TX_DEVICE_CODE
#endif

/* Four 32-bit words for counter `index`. */
TX_DEVICE_CODE static inline void tx_rng_u32x4(const tx_rng *r, uint64_t index, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = r->step, c3 = r->stream;
    uint32_t k0 = (uint32_t)r->seed, k1 = (uint32_t)(r->seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Element i of the stream's 16-bit numbers: eight of them per counter. Dropout keeps where this < threshold. */
TX_DEVICE_CODE static inline uint32_t tx_rng_u16(const tx_rng *r, uint64_t i)
{
    uint32_t w[4];
    tx_rng_u32x4(r, i >> 3, w);
    return (w[(i >> 1) & 3] >> ((i & 1) * 16)) & 0xffffu;
}

/* What tx_rng_uniform (triax/random.h) gives, and of two words the number in [0, 1). */
TX_DEVICE_CODE static inline double tx_rng_u53(uint32_t hi, uint32_t lo)
{
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}
TX_DEVICE_CODE static inline double tx_rng_uniform_at(const tx_rng *r, uint64_t i)
{
    uint32_t w[4];
    tx_rng_u32x4(r, i >> 1, w);
    return i & 1 ? tx_rng_u53(w[2], w[3]) : tx_rng_u53(w[0], w[1]);
}

/* Elements 2k and 2k + 1 of the normals, at half the cost. */
void tx_rng_normal_pair(const tx_rng *r, uint64_t k, double out[2]);

#endif
