/* vec.h - vectors of floats from and to memory of any value type, for loops whose vectors are written out: what is
 * converted stays in registers. A loop is written once, over a type that is a constant where it is inlined, and its
 * last vector may be a part. */
#ifndef TX_BACKEND_CPU_ISA_VEC_H
#define TX_BACKEND_CPU_ISA_VEC_H

#if defined(__F16C__)
#include <immintrin.h>
#endif
#include <string.h>

#include "backend/cpu/isa/isa.h"
#include "base/half.h"

#define TX__INLINE static inline __attribute__((always_inline))

typedef int32_t tx__ints __attribute__((vector_size(TX__VEC * 4), aligned(4), may_alias));
typedef uint32_t tx__words __attribute__((vector_size(TX__VEC * 4), aligned(4), may_alias));
typedef uint16_t tx__halves __attribute__((vector_size(TX__VEC * 2), aligned(2), may_alias));

TX__INLINE tx__vec tx__all(float x)
{
    return (tx__vec){ 0 } + x;
}

/* x where the condition holds, else y */
TX__INLINE tx__vec tx__choose(tx__ints condition, tx__vec x, tx__vec y)
{
    return (tx__vec)((condition & (tx__ints)x) | (~condition & (tx__ints)y));
}

/* The smaller and the larger; NaN if x is. */
TX__INLINE tx__vec tx__at_most(tx__vec x, tx__vec limit)
{
#if defined(__AVX512F__)
    return (tx__vec)_mm512_min_ps((__m512)limit, (__m512)x);
#elif defined(__AVX2__)
    return (tx__vec)_mm256_min_ps((__m256)limit, (__m256)x);
#else
    return tx__choose(x > limit, limit, x);
#endif
}

TX__INLINE tx__vec tx__at_least(tx__vec x, tx__vec limit)
{
#if defined(__AVX512F__)
    return (tx__vec)_mm512_max_ps((__m512)limit, (__m512)x);
#elif defined(__AVX2__)
    return (tx__vec)_mm256_max_ps((__m256)limit, (__m256)x);
#else
    return tx__choose(x < limit, limit, x);
#endif
}

/* ---- bf16 and fp16: compilers do not find the instructions for these ---- */

TX__INLINE tx__words tx__widen(tx__halves x)
{
#if defined(__AVX512F__)
    return (tx__words)_mm512_cvtepu16_epi32((__m256i)x);
#elif defined(__AVX2__)
    return (tx__words)_mm256_cvtepu16_epi32((__m128i)x);
#else
    return __builtin_convertvector(x, tx__words);
#endif
}

/* x is below 2^16. */
TX__INLINE tx__halves tx__narrow(tx__words x)
{
#if defined(__AVX512F__)
    return (tx__halves)_mm512_cvtepi32_epi16((__m512i)x);
#elif defined(__AVX2__)
    return (tx__halves)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
#else
    return __builtin_convertvector(x, tx__halves);
#endif
}

TX__INLINE tx__vec tx__of_halves(tx__halves x, tx_dtype t)
{
#if defined(__AVX512BW__)
    if (t == TX_BF16) { /* to the upper halves at once */
        const __m512i to = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4,
                                            0, 3, 0, 2, 0, 1, 0, 0, 0);
        return (tx__vec)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, to, _mm512_castsi256_si512((__m256i)x));
    }
#endif
    if (t == TX_BF16) return (tx__vec)(tx__widen(x) << 16);
#if defined(__AVX512F__)
    return (tx__vec)_mm512_cvtph_ps((__m256i)x);
#elif defined(__F16C__)
    return (tx__vec)_mm256_cvtph_ps((__m128i)x);
#else
    tx__vec y = { 0 };
    for (int i = 0; i < TX__VEC; i++) y[i] = tx_f16_to_f32(x[i]);
    return y;
#endif
}

TX__INLINE tx__halves tx__to_halves(tx__vec x, tx_dtype t)
{
    if (t == TX_BF16) {
        tx__words u = (tx__words)x, rounded = u + 0x7fffu + ((u >> 16) & 1u);
#if defined(__AVX512F__)
        __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
        u = (tx__words)_mm512_mask_or_epi32((__m512i)rounded, nan, (__m512i)u, _mm512_set1_epi32(0x400000));
#else
        u = (tx__words)tx__choose(x == x, (tx__vec)rounded, (tx__vec)(u | 0x400000u));
#endif
        return tx__narrow(u >> 16);
    }
#if defined(__AVX512F__)
    return (tx__halves)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT);
#elif defined(__F16C__)
    return (tx__halves)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT);
#else
    tx__halves y = { 0 };
    for (int i = 0; i < TX__VEC; i++) y[i] = tx_f32_to_f16(x[i]);
    return y;
#endif
}

/* Elements i, i + 1, ... of x. */
TX__INLINE tx__vec tx__load(const void *x, tx_dtype t, int64_t i)
{
    if (t == TX_F32) return *(const tx__vec *)((const float *)x + i);
    return tx__of_halves(*(const tx__halves *)((const uint16_t *)x + i), t);
}

TX__INLINE void tx__store(void *y, tx_dtype t, int64_t i, tx__vec v)
{
    if (t == TX_F32)
        *(tx__vec *)((float *)y + i) = v;
    else
        *(tx__halves *)((uint16_t *)y + i) = tx__to_halves(v, t);
}

/* ---- the same where only n of the elements may be there; the others are read as 0 ---- */

#if defined(__AVX512BW__)
static inline uint16_t tx__lanes_of(int64_t n)
{
    return (uint16_t)_bzhi_u32(0xffff, n < TX__VEC ? (uint32_t)n : TX__VEC);
}

TX__INLINE tx__vec tx__load_n(const void *x, tx_dtype t, int64_t i, int64_t n)
{
    if (t == TX_F32) return (tx__vec)_mm512_maskz_loadu_ps(tx__lanes_of(n), (const float *)x + i);
    return tx__of_halves((tx__halves)_mm256_maskz_loadu_epi16(tx__lanes_of(n), (const uint16_t *)x + i), t);
}

TX__INLINE void tx__store_n(void *y, tx_dtype t, int64_t i, int64_t n, tx__vec v)
{
    if (t == TX_F32)
        _mm512_mask_storeu_ps((float *)y + i, tx__lanes_of(n), (__m512)v);
    else if (__builtin_expect(n >= TX__VEC, 1)) /* narrowing into a masked store is slow */
        tx__store(y, t, i, v);
    else
        _mm256_mask_storeu_epi16((uint16_t *)y + i, tx__lanes_of(n), (__m256i)tx__to_halves(v, t));
}

/* x in its first n elements, then 0. */
TX__INLINE tx__vec tx__first_n(tx__vec x, int64_t n)
{
    return (tx__vec)_mm512_maskz_mov_ps(tx__lanes_of(n), (__m512)x);
}
#else
TX__INLINE tx__vec tx__load_n(const void *x, tx_dtype t, int64_t i, int64_t n)
{
    if (__builtin_expect(n >= TX__VEC, 1)) return tx__load(x, t, i);
    size_t size = t == TX_F32 ? 4 : 2;
    tx__vec part = { 0 };
    memcpy(&part, (const char *)x + (size_t)i * size, (size_t)n * size);
    return tx__load(&part, t, 0);
}

TX__INLINE void tx__store_n(void *y, tx_dtype t, int64_t i, int64_t n, tx__vec v)
{
    if (__builtin_expect(n >= TX__VEC, 1)) {
        tx__store(y, t, i, v);
        return;
    }
    size_t size = t == TX_F32 ? 4 : 2;
    tx__vec part;
    tx__store(&part, t, 0, v);
    memcpy((char *)y + (size_t)i * size, &part, (size_t)n * size);
}

TX__INLINE tx__vec tx__first_n(tx__vec x, int64_t n)
{
    if (__builtin_expect(n >= TX__VEC, 1)) return x;
    tx__vec kept = { 0 };
    memcpy(&kept, &x, (size_t)n * sizeof(float));
    return kept;
}
#endif

/* A square of numbers, its rows in registers, becomes its transpose: each round deals the rows of the upper and the
 * lower half alternately, number by number, which moves the lowest bit of (row, column) to the top. */
TX__INLINE void tx__transpose(tx__vec row[TX__VEC])
{
#pragma GCC unroll 4
    for (int round = 1; round < TX__VEC; round *= 2) {
        tx__vec dealt[TX__VEC];
#pragma GCC unroll 8
        for (int i = 0; i < TX__VEC / 2; i++) {
            dealt[2 * i] = tx__zip_low(row[i], row[i + TX__VEC / 2]);
            dealt[2 * i + 1] = tx__zip_high(row[i], row[i + TX__VEC / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < TX__VEC; i++) row[i] = dealt[i];
    }
}

/* Every round adds the upper half to the lower and doubles each number. */
TX__INLINE float tx__total(tx__vec x)
{
#pragma GCC unroll 4
    for (int round = 1; round < TX__VEC; round *= 2) x = tx__zip_low(x, x) + tx__zip_high(x, x);
    return x[0];
}

#endif
