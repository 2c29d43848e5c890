/* vmath.h - exp, tanh and the normal distribution, of vectors and, for loops under `omp simd`, of numbers: straight
 * lines without calls or branches. NaN in, NaN out. */
#ifndef TX_BACKEND_CPU_ISA_VMATH_H
#define TX_BACKEND_CPU_ISA_VMATH_H

#include <math.h>

#include "backend/cpu/isa/vec.h"

/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2, e^r by a minimax polynomial of degree 6 (error 2e-9).
 * Relative error below 1.3e-7; below -87.33 it is 0, above 88.37 infinity. */
static inline float tx__expf(float x)
{
    const float shift = 0x1.8p23f; /* adding it leaves the rounded integer in the low bits */
    float in = x > 89.0f ? 89.0f : x;
    float shifted = in * 1.44269504f + shift, n = shifted - shift;
    float r = in - n * 0x1.62e4p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    float p = 0.00139421598f;
    p = p * r + 0.00837596823f;
    p = p * r + 0.0416663401f;
    p = p * r + 0.166664053f;
    p = p * r + 0.5f;
    p = p * r + 1.00000004f;
    p = p * r + 1.0f;
    float scale = tx_f32_of_bits((tx_bits_of_f32(shifted) + 127u) << 23);
    return x < -87.33f ? 0.0f : p * scale;
}

/* The same of a vector. */
TX__INLINE tx__vec tx__vexp(tx__vec x)
{
    const tx__vec shift = tx__all(0x1.8p23f);
    tx__vec in = tx__at_most(x, tx__all(89.0f));
    tx__vec shifted = in * 1.44269504f + shift, n = shifted - shift;
    tx__vec r = in - n * 0x1.62e4p-1f;
    r = r - n * 0x1.7f7d1cp-20f;
    tx__vec p = r * 0.00139421598f + 0.00837596823f;
    p = p * r + 0.0416663401f;
    p = p * r + 0.166664053f;
    p = p * r + 0.5f;
    p = p * r + 1.00000004f;
    p = p * r + 1.0f;
    tx__vec scale = (tx__vec)(((tx__words)shifted + 127u) << 23);
    return tx__choose(x < -87.33f, tx__all(0), p * scale);
}

/* 2^x for |x| <= 126; what lies outside counts as the nearest that does not. 2^n 2^r, n = round(x), 2^r by a minimax
 * polynomial of degree 5. Relative error below 1.7e-7. Of NaN something: the caller multiplies by what was NaN. */
TX__INLINE tx__vec tx__vexp2(tx__vec x)
{
    const tx__vec shift = tx__all(0x1.8p23f), most = tx__all(126.0f);
    x = tx__at_least(tx__at_most(x, most), -most);
    tx__vec shifted = x + shift, r = x - (shifted - shift);
    tx__vec p = r * 0.0013276472f + 0.009675541f;
    p = p * r + 0.05550713f;
    p = p * r + 0.2402212f;
    p = p * r + 0.69314694f;
    p = p * r + 1.0000001f;
    return (tx__vec)((tx__words)p +
                     ((tx__words)shifted << 23)); /* n, the low bits of shifted, is added to the exponent */
}

/* 1/x for 1 <= x <= 2^127, within two units of the last place. */
TX__INLINE tx__vec tx__inverse(tx__vec x)
{
#if defined(__AVX512F__)
    tx__vec y = (tx__vec)_mm512_rcp14_ps((__m512)x); /* 14 digits, and a step of Newton's */
    return y * (2.0f - x * y);
#else
    return 1.0f / x;
#endif
}

/* tanh x: up to 0.625 x + x³ P(x²), P minimax of degree 4 (relative error 5e-9), from there on 1 - 2e/(1 + e) with
 * e = exp(-2 |x|). */
TX__INLINE tx__vec tx__vtanh(tx__vec x)
{
    tx__vec a = (tx__vec)((tx__ints)x & 0x7fffffff), xx = x * x;
    tx__vec p = xx * -0.00570498693f + 0.0206390872f;
    p = p * xx - 0.053739715f;
    p = p * xx + 0.133314422f;
    p = p * xx - 0.333332819f;
    tx__vec e = tx__vexp2(-2.88539008f * a);
    tx__vec large = 1.0f - 2.0f * (e * tx__inverse(1.0f + e));
    large = (tx__vec)((tx__ints)large | ((tx__ints)x ^ (tx__ints)a)); /* x's sign */
    return tx__choose(a > 0.625f, large, x + x * (xx * p));
}

/* Its slope, 4e / (1 + e)². */
TX__INLINE tx__vec tx__vtanh_slope(tx__vec x)
{
    tx__vec a = (tx__vec)((tx__ints)x & 0x7fffffff);
    tx__vec e = tx__vexp2(-2.88539008f * a), s = tx__inverse(1.0f + e);
    return tx__choose(x == x, 4.0f * (s * (e * s)), x);
}

/* Φ(x) and, through *e, exp(-x²/2). With a = |x| and t = 1/(1 + 0.28 a) the tail is Φ(-a) = e^(-a²/2) t P(t), P minimax
 * of degree 8 on a <= 13.5 (relative error 2e-8), so that small tails keep their digits. Absolute error below 2.2e-7.
 * From 12.5 on, where the tail is 4e-36, it is constant. */
TX__INLINE tx__vec tx__normal_cdf(tx__vec x, tx__vec *e)
{
    tx__vec a = tx__at_most((tx__vec)((tx__ints)x & 0x7fffffff), tx__all(12.5f));
    tx__vec t = tx__inverse(1.0f + 0.28f * a);
    tx__vec p = t * 0.02139121119f - 0.07669454129f;
    p = p * t + 0.05630323932f;
    p = p * t + 0.03587995965f;
    p = p * t + 0.04315158431f;
    p = p * t + 0.09626092399f;
    p = p * t + 0.09989259266f;
    p = p * t + 0.1121358017f;
    p = p * t + 0.1116792449f;
    *e = tx__vexp2(-0.721347520f * (a * a));
    tx__vec tail = *e * t * p;
    return tx__choose(x < 0.0f, tail, 1.0f - tail);
}

#endif
