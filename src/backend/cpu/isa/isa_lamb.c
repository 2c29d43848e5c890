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

/* As one_block. */
TX__INLINE void one_fresh_block(const tx__lamb_fresh *a, int64_t at, int64_t n, const tx__lamb_step s, double sum[2])
{
    const float *x = a->x + at, *v = a->v + at, *p = a->p + at;
    float *m = a->m + at, *fresh = a->fresh + at, most = 0;
    const float part = 1 / s.one_minus_beta1;
    double of_w = 0, of_u = 0;
#pragma omp simd reduction(+ : of_w, of_u) reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        float xi = x[i], g = (xi - s.beta1 * m[i]) * part, root = sqrtf(v[i]) + s.outside;
        float fi = s.beta2 * fresh[i] + s.one_minus_beta2 * g * g;
        float wi = xi / root, ui = wi + s.decay * p[i], quotient = root / (sqrtf(fi) + s.outside);
        m[i] = xi;
        fresh[i] = fi;
        of_w += (double)wi * (double)wi;
        of_u += (double)ui * (double)ui;
        most = quotient > most ? quotient : most;
    }
    sum[0] = of_w, sum[1] = of_u;
    if ((double)most > *a->most) *a->most = (double)most;
}

void tx__k(lamb_fresh)(const tx__lamb_fresh *a, int64_t n, const tx__lamb_step *step)
{
    for (int64_t i = 0, k = 0; i < n; i += TX_SUMSQ_BLOCK, k++) {
        double sum[2];
        one_fresh_block(a, i, n - i < TX_SUMSQ_BLOCK ? n - i : TX_SUMSQ_BLOCK, *step, sum);
        a->of_w[k] = sum[0], a->of_u[k] = sum[1];
    }
}

void tx__k(lamb_update)(float *p, const float *m, const float *v, int64_t n, const tx__lamb_step *step)
{
    const tx__lamb_step s = *step;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) p[i] = p[i] - s.rate * DIRECTION(s, p[i], m[i], v[i]);
}
