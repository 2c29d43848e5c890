/* half.c - IEEE binary16 conversions, to the bit what processors do: a NaN keeps its payload and becomes quiet. */
#include "base/half.h"

float tx_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
    if (exponent == 31) return tx_f32_of_bits(sign | (mantissa ? 0x7fc00000u : 0x7f800000u) | (mantissa << 13));
    if (exponent == 0) { /* zero or subnormal: mantissa × 2^-24 */
        float m = (float)mantissa * 0x1p-24f;
        return sign ? -m : m;
    }
    return tx_f32_of_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t tx_f32_to_f16(float f)
{
    uint32_t u = tx_bits_of_f32(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to 65536 or more: infinity */
    if (a < 0x38800000u) {                                   /* below 2^-14: subnormal; adding 0.5 rounds to 2^-24 */
        float r = tx_f32_of_bits(a) + 0.5f;
        return (uint16_t)(sign | (tx_bits_of_f32(r) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13));
}
