/* isa_basic.c - element by element: activations, dropout, adam, conversions, sums. */
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "backend/cpu/isa/isa.h"
#include "backend/cpu/isa/vmath.h"

void tx__k(fill)(float *x, int64_t n, float value)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) x[i] = value;
}

void tx__k(add)(float *y, const float *a, const float *b, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void tx__k(to_bf16)(uint16_t *y, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = tx_bits_of_f32(x[i]), nan = (u >> 16) | 0x40u, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        y[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
    }
}

void tx__k(of_bf16)(float *y, const uint16_t *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = tx_f32_of_bits((uint32_t)x[i] << 16);
}

/* Compilers do not make vectors of conversions to and from fp16; these have its instructions where the set has them. */
void tx__k(to_f16)(uint16_t *y, const float *x, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i_u *)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i_u *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) y[i] = tx_f32_to_f16(x[i]);
}

void tx__k(of_f16)(float *y, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(x + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(x + i))));
#endif
    for (; i < n; i++) y[i] = tx_f16_to_f32(x[i]);
}

double tx__k(sumsq)(const float *x, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

void tx__k(magnitudes)(double out[4], const float *x, int64_t n)
{
    double sum = 0, squares = 0, roots = 0;
    float most = 0;
#pragma omp simd reduction(+ : sum, squares, roots)
    for (int64_t i = 0; i < n; i++) {
        float a = fabsf(x[i]);
        sum += (double)a;
        squares += (double)a * (double)a;
        roots += (double)sqrtf(a);
    }
    for (int64_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    out[0] = sum, out[1] = squares, out[2] = roots, out[3] = (double)most;
}

void tx__k(adam)(float *p, float *m, float *v, const float *g, int64_t n, const tx__adam_step *step)
{
    const tx__adam_step s = *step;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * s.scale;
        float mi = s.beta1 * m[i] + s.one_minus_beta1 * gi;
        float vi = s.beta2 * v[i] + s.one_minus_beta2 * gi * gi;
        m[i] = mi;
        v[i] = vi;
        p[i] = p[i] - (s.rate * mi / (sqrtf(vi) * s.root + s.eps) + s.decay * p[i]);
    }
}

void tx__k(sgd)(float *p, float *m, const float *g, int64_t n, const tx__sgd_step *step)
{
    const tx__sgd_step s = *step;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float mi = s.momentum * m[i] + (g[i] * s.scale + s.decay * p[i]);
        m[i] = mi;
        p[i] = p[i] - s.rate * mi;
    }
}

/* By blocks of columns whose sums stay in the first-level cache. */
void tx__k(col_sum)(float *y, const float *x, int64_t rows, int64_t n, int64_t ld)
{
    enum { BLOCK = 256 };
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t width = n - first < BLOCK ? n - first : BLOCK;
        float sum[BLOCK] = { 0 };
        for (int64_t i = 0; i < rows; i++) {
            const float *row = x + i * ld + first;
#pragma omp simd
            for (int64_t j = 0; j < width; j++) sum[j] += row[j];
        }
        for (int64_t j = 0; j < width; j++) y[first + j] += sum[j];
    }
}

/* The tanh form without a tanh: 0.5 (1 + tanh u) = 1/(1 + exp(-2u)). The exponent is capped so that exp stays finite.
 */
static inline float exp_minus_2u(float x)
{
    float in = -2.0f * 0.797884561f * (x + 0.044715f * x * x * x);
    return tx__expf(in > 80.0f ? 80.0f : in);
}

void tx__k(activation_fwd)(float *y, const float *x, int64_t n, tx_activation kind)
{
    if (kind == TX_GELU_ERF) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float e;
            y[i] = x[i] * tx__normal_cdf(x[i], &e);
        }
    } else if (kind == TX_SQUARED_RELU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i] * x[i]; /* NaN stays */
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + exp_minus_2u(x[i]));
    }
}

void tx__k(activation_bwd)(float *dx, const float *dy, const float *x, int64_t n, tx_activation kind)
{
    if (kind == TX_GELU_ERF) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float e, cdf = tx__normal_cdf(x[i], &e);
            dx[i] = dy[i] * (cdf + x[i] * e * 0.398942280f);
        }
    } else if (kind == TX_SQUARED_RELU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (x[i] < 0.0f ? 0.0f : 2.0f * x[i]);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float e = exp_minus_2u(x[i]), s = 1.0f / (1.0f + e);
            float slope = 2.0f * 0.797884561f * (1.0f + 3.0f * 0.044715f * x[i] * x[i]); /* of 2u */
            dx[i] = dy[i] * (s + x[i] * slope * (s * (e * s))); /* 1 - s = e s, without cancellation */
        }
    }
}

/* exp(-x), finite. */
static inline float exp_minus(float x)
{
    return tx__expf(-x > 80.0f ? 80.0f : -x);
}

void tx__k(glu_fwd)(float *y, const float *gate, const float *up, int64_t n, tx_glu kind)
{
    if (kind == TX_GLU_SILU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = gate[i] / (1.0f + exp_minus(gate[i])) * up[i];
    } else if (kind == TX_GLU_GELU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float e;
            y[i] = gate[i] * tx__normal_cdf(gate[i], &e) * up[i];
        }
    } else if (kind == TX_GLU_RELU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = (gate[i] < 0.0f ? 0.0f : gate[i]) * up[i]; /* NaN stays */
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = gate[i] * up[i];
    }
}

void tx__k(glu_bwd)(float *dgate, float *dup, const float *dy, const float *gate, const float *up, int64_t n,
                    tx_glu kind)
{
    if (kind == TX_GLU_SILU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], e = exp_minus(g), s = 1.0f / (1.0f + e), d = dy[i];
            dgate[i] = d * up[i] * (s * (1.0f + g * (e * s))); /* 1 - s = e s, without cancellation */
            dup[i] = d * (g * s);
        }
    } else if (kind == TX_GLU_GELU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], d = dy[i], e, cdf = tx__normal_cdf(g, &e);
            dgate[i] = d * up[i] * (cdf + g * e * 0.398942280f);
            dup[i] = d * (g * cdf);
        }
    } else if (kind == TX_GLU_RELU) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], d = dy[i];
            dgate[i] = d * (g < 0.0f ? 0.0f : up[i]);
            dup[i] = d * (g < 0.0f ? 0.0f : g);
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float g = gate[i], d = dy[i];
            dgate[i] = d * up[i];
            dup[i] = d * g;
        }
    }
}

void tx__k(rope)(float *x, const float *cosine, const float *sine, int64_t half)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[half + i];
        x[i] = a * cosine[i] - b * sine[i];
        x[half + i] = b * cosine[i] + a * sine[i];
    }
}

/* A counter gives eight 16-bit numbers, that is the mask of eight elements. Counters are drawn a block at a time, in
 * lanes. */
enum { COUNTERS = 64, PER_COUNTER = 8 };

/* tx_rng_u32x4 of many counters at once, round by round because only innermost loops become vectors. c[0] and c[1] hold
 * the counters' halves; the eight numbers of each end up behind one another in `words`, two in a word. */
static void philox_block(uint32_t c[4][COUNTERS], const tx_rng *rng, uint32_t words[COUNTERS * 4])
{
    uint32_t k0 = (uint32_t)rng->seed, k1 = (uint32_t)(rng->seed >> 32);
    const uint32_t step = rng->step, stream = rng->stream;
#pragma omp simd
    for (int i = 0; i < COUNTERS; i++) {
        c[2][i] = step;
        c[3][i] = stream;
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < COUNTERS; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c[0][i], p1 = (uint64_t)0xCD9E8D57u * c[2][i];
            c[0][i] = (uint32_t)(p1 >> 32) ^ c[1][i] ^ k0;
            c[1][i] = (uint32_t)p1;
            c[2][i] = (uint32_t)(p0 >> 32) ^ c[3][i] ^ k1;
            c[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
#pragma omp simd
    for (int i = 0; i < COUNTERS; i++) {
        words[4 * i] = c[0][i];
        words[4 * i + 1] = c[1][i];
        words[4 * i + 2] = c[2][i];
        words[4 * i + 3] = c[3][i];
    }
}

/* Rows of at most ROW elements, as many at a time as their counters fit a block. */
enum { ROW = (COUNTERS - 1) * PER_COUNTER };

static void mask_rows(float *z, int64_t ldz, int64_t rows, int64_t n, uint64_t e, uint64_t e_row, const tx__drop *drop)
{
    uint32_t c[4][COUNTERS] = { { 0 } }, words[COUNTERS * 4];
    float mask[COUNTERS * PER_COUNTER];
    const uint32_t threshold = drop->drop;
    const float scale = drop->scale;
    const int64_t each = (n + PER_COUNTER - 1) / PER_COUNTER + 1; /* a row may begin inside a counter */
    for (int64_t first = 0; first < rows; first += COUNTERS / each) {
        int64_t some = rows - first < COUNTERS / each ? rows - first : COUNTERS / each;
        for (int64_t i = 0; i < some; i++) {
            uint64_t counter = (e + (uint64_t)(first + i) * e_row) / PER_COUNTER;
            for (int64_t j = 0; j < each; j++, counter++) {
                c[0][i * each + j] = (uint32_t)counter;
                c[1][i * each + j] = (uint32_t)(counter >> 32);
            }
        }
        philox_block(c, &drop->rng, words);
#pragma omp simd
        for (int i = 0; i < COUNTERS * 4; i++) {
            mask[2 * i] = (words[i] & 0xffffu) >= threshold ? scale : 0.0f;
            mask[2 * i + 1] = (words[i] >> 16) >= threshold ? scale : 0.0f;
        }
        for (int64_t i = 0; i < some; i++) {
            const float *from = mask + i * each * PER_COUNTER + (e + (uint64_t)(first + i) * e_row) % PER_COUNTER;
            float *to = z + (first + i) * ldz;
#pragma omp simd
            for (int64_t j = 0; j < n; j++) to[j] = from[j];
        }
    }
}

void tx__k(dropout_mask)(float *z, int64_t ldz, int64_t rows, int64_t n, uint64_t e, uint64_t e_row,
                         const tx__drop *drop)
{
    for (int64_t at = 0; at < n; at += ROW)
        mask_rows(z + at, ldz, rows, n - at < ROW ? n - at : ROW, e + (uint64_t)at, e_row, drop);
}

void tx__k(dropout_add)(float *y, const float *x, const float *residual, int64_t n, uint64_t e, const tx__drop *drop)
{
    enum { BLOCK = 4 * ROW };
    float z[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t width = n - at < BLOCK ? n - at : BLOCK;
        if (drop)
            tx__k(dropout_mask)(z, 0, 1, width, e + (uint64_t)at, 0, drop);
        else
            tx__k(fill)(z, width, 1.0f);
        if (residual) {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) y[at + i] = residual[at + i] + z[i] * x[at + i];
        } else {
#pragma omp simd
            for (int64_t i = 0; i < width; i++) y[at + i] = z[i] * x[at + i];
        }
    }
}
