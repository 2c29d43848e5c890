/* isa_lamb.c - the two halves of LAMB. */
#include "backend/cpu/isa/vmath.h"

/* m / correct1 / (sqrt(v / correct2 + eps) or sqrt(v / correct2) + eps) + decay p */
#define DIRECTION(s, p, m, v) ((s).first * (m) / (sqrtf((v) * (s).second + (s).inside) + (s).outside) + (s).decay * (p))

/* One block: its sums are those of all its elements, in an order that its length alone decides. */
TX__INLINE void one_block(const tx__lamb_arrays *a, int64_t at, int64_t n, const tx__lamb_step s, double sum[2])
{
    const float *p = a->p + at, *g = a->g + at;
    float *m = a->m + at, *v = a->v + at;
    double of_p = 0, of_u = 0;
#pragma omp simd reduction(+ : of_p, of_u)
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * s.scale, pi = p[i];
        float mi = s.beta1 * m[i] + s.one_minus_beta1 * gi;
        float vi = s.beta2 * v[i] + s.one_minus_beta2 * gi * gi;
        float ui = DIRECTION(s, pi, mi, vi);
        m[i] = mi;
        v[i] = vi;
        of_p += (double)pi * (double)pi;
        of_u += (double)ui * (double)ui;
    }
    sum[0] = of_p, sum[1] = of_u;
}

void tx__k(lamb_moments)(const tx__lamb_arrays *a, int64_t n, const tx__lamb_step *step)
{
    for (int64_t i = 0, k = 0; i < n; i += TX_SUMSQ_BLOCK, k++) {
        double sum[2];
        one_block(a, i, n - i < TX_SUMSQ_BLOCK ? n - i : TX_SUMSQ_BLOCK, *step, sum);
        a->of_p[k] = sum[0], a->of_u[k] = sum[1];
    }
}

void tx__k(lamb_update)(float *p, const float *m, const float *v, int64_t n, const tx__lamb_step *step)
{
    const tx__lamb_step s = *step;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) p[i] = p[i] - s.rate * DIRECTION(s, p[i], m[i], v[i]);
}
