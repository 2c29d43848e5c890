/* isa_peak.c - loops that do nothing but keep the multipliers or the memory busy: cpu_peak.c times them. */
#include "backend/cpu/isa/isa.h"

/* A multiply-add waits 4 to 5 cycles for the one before it and two or more begin in a cycle: that many chains must run
 * side by side, and their sums fit the registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { CHAINS = 16 };
#else
enum { CHAINS = 12 };
#endif
_Static_assert((int)CHAINS <= (int)TX__PEAK_CHAINS, "room for the sums");

double tx__k(fma_chains)(float *sums, int64_t rounds)
{
    tx__vec *at = (tx__vec *)sums, s[CHAINS];
    const tx__vec half = (tx__vec){ 0 } + 0.5f;
    for (int i = 0; i < CHAINS; i++) s[i] = at[i];
    for (int64_t r = 0; r < rounds; r++)
#pragma GCC unroll 16
        for (int i = 0; i < CHAINS; i++) s[i] = s[i] * half + half;
    for (int i = 0; i < CHAINS; i++) at[i] = s[i];
    return 2.0 * CHAINS * TX__VEC * (double)rounds;
}

float tx__k(sum)(const float *x, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

void tx__k(triad)(float *y, const float *a, const float *b, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + 0.5f * b[i];
}
