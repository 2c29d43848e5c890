/* update.h - what the files of updates (optim.cu, lamb.cu) share. */
#ifndef TX_BACKEND_GPU_UPDATE_H
#define TX_BACKEND_GPU_UPDATE_H

#include "backend/gpu/gpu.h"

typedef unsigned long long word;

__device__ static inline int leading_zeros(word x)
{
    int n = 0;
    for (; n < 64 && !(x >> 63); n++) x <<= 1;
    return n;
}

/* tx_exact_value (base/exact.c). */
__device__ static inline double exact_value(const word *limb, double beyond)
{
    uint32_t digit[TX_EXACT_LIMBS + 2];
    word carry = 0;
    int top = 0;
    if (beyond != 0) return beyond;
    for (int k = 0; k < TX_EXACT_LIMBS + 2; k++) {
        word x = k < TX_EXACT_LIMBS ? limb[k] : 0, sum = (x & 0xffffffffull) + (carry & 0xffffffffull);
        digit[k] = (uint32_t)sum;
        carry = (x >> 32) + (carry >> 32) + (sum >> 32);
        if (digit[k]) top = k;
    }
    if (top < 2) top = 2;
    word head = (word)digit[top] << 32 | digit[top - 1], rest = digit[top - 2];
    int shift = head ? leading_zeros(head) : 32;
    if (shift > 32) shift = 32;
    head = head << shift | (shift ? rest << 32 >> (64 - shift) : 0);
    bool below = shift < 32 && (uint32_t)(rest << shift);
    for (int k = 0; k < top - 2; k++) below = below || digit[k];
    return ldexp((double)(head | (word)below), 32 * (top - 1) - 320 - shift);
}

/* What an update multiplies gradients with; false: nothing is to be changed. */
__device__ static inline bool is_open(const double *gate, double grad_scale, float *scale)
{
    *scale = (float)(gate ? grad_scale * gate[1] : grad_scale);
    return !gate || gate[2] != 0;
}

static inline tx_status need_fp32(const char *op, tx_tensor p)
{
    if (p.dtype == TX_F32) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: backend gpu updates fp32, not %s", op, tx_dtype_name(p.dtype));
}

/* Of what 16-byte accesses do; gradients and low ones take 4 elements of 2 bytes or more. */
static inline int64_t packs_of(const void *const *address, int n_addresses, int64_t n)
{
    for (int i = 0; i < n_addresses; i++)
        if (!aligned16(address[i])) return 0;
    return n / 4;
}

#endif
