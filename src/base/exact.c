/* exact.c - a sum in fixed point. */
#include "base/exact.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define LOWEST (-320) /* exponent of limb[0]'s unit */

void tx_exact_add(tx_exact *a, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 2047);
    int at = exponent - 1075 - LOWEST; /* of the lowest of the 53 bits */
    if (at >= 32 * (TX_EXACT_LIMBS - 2)) {
        a->beyond += x;
        return;
    }
    uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    if (at <= -53) return; /* zero, the only multiple of the unit that is so small */
    if (at < 0) {
        m >>= -at; /* these bits are zeros */
        at = 0;
    }
    int k = at / 32, shift = at % 32;
    uint64_t low = m << shift, high = shift ? m >> (64 - shift) : 0;
    a->limb[k] += low & UINT32_MAX;
    a->limb[k + 1] += low >> 32;
    a->limb[k + 2] += high;
}

void tx_exact_merge(tx_exact *a, const tx_exact *b)
{
    for (int k = 0; k < TX_EXACT_LIMBS; k++) a->limb[k] += b->limb[k];
    a->beyond += b->beyond;
}

double tx_exact_value(const tx_exact *a)
{
    uint32_t digit[TX_EXACT_LIMBS + 2] = { 0 };
    uint64_t carry = 0;
    int top = 0;
    if (a->beyond != 0) return a->beyond;
    for (int k = 0; k < TX_EXACT_LIMBS + 2; k++) {
        uint64_t limb = k < TX_EXACT_LIMBS ? a->limb[k] : 0, sum = (limb & UINT32_MAX) + (carry & UINT32_MAX);
        digit[k] = (uint32_t)sum;
        carry = (limb >> 32) + (carry >> 32) + (sum >> 32);
        if (digit[k]) top = k;
    }
    /* The highest bits as one number of at least 62 bits; that there are more below it rounds as one bit does. */
    if (top < 2) top = 2;
    uint64_t head = (uint64_t)digit[top] << 32 | digit[top - 1], rest = digit[top - 2];
    int shift = head ? __builtin_clzll(head) : 32;
    if (shift > 32) shift = 32;
    head = head << shift | (shift ? rest << 32 >> (64 - shift) : 0);
    bool below = shift < 32 && (uint32_t)(rest << shift);
    for (int k = 0; k < top - 2; k++) below = below || digit[k];
    return ldexp((double)(head | below), 32 * (top - 1) + LOWEST - shift);
}
