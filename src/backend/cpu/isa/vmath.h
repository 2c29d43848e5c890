/* vmath.h - exp and the normal distribution for loops under `omp simd`: straight lines without calls or branches. NaN
 * in, NaN out. */
#ifndef TX_BACKEND_CPU_ISA_VMATH_H
#define TX_BACKEND_CPU_ISA_VMATH_H

#include <math.h>

#include "base/half.h"

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

/* Φ(x) and, through *e, exp(-x²/2). With a = |x| and t = 1/(1 + 0.28 a) the tail is Φ(-a) = e^(-a²/2) t P(t), P minimax
 * of degree 8 on a <= 13.5 (relative error 2e-8), so that small tails keep their digits. Absolute error below 2.2e-7.
 */
static inline float tx__normal_cdf(float x, float *e)
{
    float a = fabsf(x), t = 1.0f / (1.0f + 0.28f * a);
    float p = 0.02139121119f;
    p = p * t - 0.07669454129f;
    p = p * t + 0.05630323932f;
    p = p * t + 0.03587995965f;
    p = p * t + 0.04315158431f;
    p = p * t + 0.09626092399f;
    p = p * t + 0.09989259266f;
    p = p * t + 0.1121358017f;
    p = p * t + 0.1116792449f;
    *e = tx__expf(-0.5f * a * a);
    float tail = *e * t * p, body = 1.0f - tail;
    return x < 0.0f ? tail : body;
}

#endif
