/* half.h - bfloat16 and IEEE binary16 to float and back, round to nearest even. Plain C; fast versions are the
 * backends'. */
#ifndef TX_BASE_HALF_H
#define TX_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tx_f32_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t tx_bits_of_f32(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float tx_bf16_to_f32(uint16_t h)
{
    return tx_f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t tx_f32_to_bf16(float f)
{
    uint32_t u = tx_bits_of_f32(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* NaN stays a quiet NaN */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float tx_f16_to_f32(uint16_t h);
uint16_t tx_f32_to_f16(float f);

#endif
