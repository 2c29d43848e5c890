/* isa_basic.c - element by element: activations, adam, conversions, sums. */
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

TX__INLINE void to_halves(uint16_t *y, const float *x, tx_dtype t, int64_t n)
{
    for (int64_t i = 0; i < n; i += TX__VEC) tx__store_n(y, t, i, n - i, tx__load_n(x, TX_F32, i, n - i));
}

TX__INLINE void of_halves(float *y, const uint16_t *x, tx_dtype t, int64_t n)
{
    for (int64_t i = 0; i < n; i += TX__VEC) tx__store_n(y, TX_F32, i, n - i, tx__load_n(x, t, i, n - i));
}

void tx__k(to_bf16)(uint16_t *y, const float *x, int64_t n)
{
    to_halves(y, x, TX_BF16, n);
}

void tx__k(of_bf16)(float *y, const uint16_t *x, int64_t n)
{
    of_halves(y, x, TX_BF16, n);
}

void tx__k(to_f16)(uint16_t *y, const float *x, int64_t n)
{
    to_halves(y, x, TX_F16, n);
}

void tx__k(of_f16)(float *y, const uint16_t *x, int64_t n)
{
    of_halves(y, x, TX_F16, n);
}

/* Of each block, as LANES sums that do not wait for each other. */
void tx__k(sumsq)(double *out, const float *x, int64_t n)
{
    enum { LANES = 32 };
    for (; n > 0; x += TX_SUMSQ_BLOCK, n -= TX_SUMSQ_BLOCK) {
        float rest[TX_SUMSQ_BLOCK] = { 0 };
        double sum[LANES] = { 0 };
        const float *block = x;
        if (n < TX_SUMSQ_BLOCK) block = memcpy(rest, x, (size_t)n * sizeof *x);
        for (int i = 0; i < TX_SUMSQ_BLOCK; i += LANES)
#pragma omp simd
            for (int j = 0; j < LANES; j++) sum[j] += (double)block[i + j] * (double)block[i + j];
        double all = 0;
#pragma omp simd reduction(+ : all)
        for (int j = 0; j < LANES / 4; j++) all += sum[j] + sum[j + 8] + (sum[j + 16] + sum[j + 24]);
        *out++ = all;
    }
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
        float gi = g[i] * s.scale + s.l2 * p[i];
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
        float gi = g[i] * s.scale + s.decay * p[i];
        float mi = s.momentum * m[i] + s.keep * gi;
        m[i] = mi;
        p[i] = p[i] - (s.of_momentum * mi + s.of_grad * gi);
    }
}

void tx__k(lion)(float *p, float *m, const float *g, int64_t n, const tx__lion_step *step)
{
    const tx__lion_step s = *step;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * s.scale;
        float mean = s.beta1 * m[i] + s.one_minus_beta1 * gi;
        float up = mean > 0 ? s.rate : 0, down = mean < 0 ? s.rate : 0;
        m[i] = s.beta2 * m[i] + s.one_minus_beta2 * gi;
        p[i] = p[i] - (up - down + s.decay * p[i]);
    }
}

void tx__k(adagrad)(float *p, float *v, const float *g, int64_t n, const tx__adagrad_step *step)
{
    const tx__adagrad_step s = *step;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * s.scale + s.decay * p[i];
        float vi = v[i] + gi * gi;
        v[i] = vi;
        p[i] = p[i] - s.rate * gi / (sqrtf(vi) + s.eps);
    }
}

void tx__k(blend)(float *y, const float *x, const float *z, int64_t n, const tx__blend_step *by)
{
    const tx__blend_step s = *by;
    if (!z) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = s.alpha * x[i];
        return;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = s.alpha * x[i] + s.beta * z[i];
}

/* Adds R rows; R is a constant. */
TX__INLINE void add_rows(int r, float *y, const void *x, tx_dtype t, int64_t at, int64_t n, int64_t ld)
{
    for (int64_t j = 0; j < n; j += TX__VEC) {
        tx__vec sum = { 0 };
#pragma GCC unroll 8
        for (int i = 0; i < r; i++) sum += tx__load_n(x, t, at + i * ld + j, n - j);
        tx__store_n(y, TX_F32, j, n - j, tx__load_n(y, TX_F32, j, n - j) + sum);
    }
}

TX__INLINE void col_sum(float *y, const void *x, tx_dtype t, int64_t rows, int64_t n, int64_t ld)
{
    enum { AT_ONCE = 8 };
    int64_t i = 0;
    for (; i + AT_ONCE <= rows; i += AT_ONCE) add_rows(AT_ONCE, y, x, t, i * ld, n, ld);
    for (; i < rows; i++) add_rows(1, y, x, t, i * ld, n, ld);
}

void tx__k(col_sum)(float *y, const void *x, tx_dtype t, int64_t rows, int64_t n, int64_t ld)
{
    if (t == TX_F32)
        col_sum(y, x, TX_F32, rows, n, ld);
    else if (t == TX_BF16)
        col_sum(y, x, TX_BF16, rows, n, ld);
    else
        col_sum(y, x, TX_F16, rows, n, ld);
}

/* ---- functions of one and of two numbers, from one type to the same ---- */

typedef tx__vec (*function)(tx__vec);
typedef tx__vec (*function2)(tx__vec, tx__vec);

/* Several vectors side by side: each is a chain of a hundred cycles, more than the processor looks ahead. */
enum { CHAINS = 4 };

TX__INLINE void map_of(tx_dtype t, void *y, const void *x, int64_t n, function f)
{
    int64_t i = 0;
    for (; i + CHAINS * TX__VEC <= n; i += CHAINS * TX__VEC) {
        tx__vec v[CHAINS];
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) v[k] = tx__load(x, t, i + k * TX__VEC);
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) v[k] = f(v[k]);
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) tx__store(y, t, i + k * TX__VEC, v[k]);
    }
    for (; i < n; i += TX__VEC) tx__store_n(y, t, i, n - i, f(tx__load_n(x, t, i, n - i)));
}

TX__INLINE void map2_of(tx_dtype t, void *y, const void *a, const void *b, int64_t n, function2 f)
{
    int64_t i = 0;
    for (; i + CHAINS * TX__VEC <= n; i += CHAINS * TX__VEC) {
        tx__vec u[CHAINS], v[CHAINS];
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) {
            u[k] = tx__load(a, t, i + k * TX__VEC);
            v[k] = tx__load(b, t, i + k * TX__VEC);
        }
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) v[k] = f(u[k], v[k]);
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) tx__store(y, t, i + k * TX__VEC, v[k]);
    }
    for (; i < n; i += TX__VEC) tx__store_n(y, t, i, n - i, f(tx__load_n(a, t, i, n - i), tx__load_n(b, t, i, n - i)));
}

TX__INLINE void map(tx_dtype t, void *y, const void *x, int64_t n, function f)
{
    if (t == TX_F32)
        map_of(TX_F32, y, x, n, f);
    else if (t == TX_BF16)
        map_of(TX_BF16, y, x, n, f);
    else
        map_of(TX_F16, y, x, n, f);
}

TX__INLINE void map2(tx_dtype t, void *y, const void *a, const void *b, int64_t n, function2 f)
{
    if (t == TX_F32)
        map2_of(TX_F32, y, a, b, n, f);
    else if (t == TX_BF16)
        map2_of(TX_BF16, y, a, b, n, f);
    else
        map2_of(TX_F16, y, a, b, n, f);
}

/* max(x, 0); NaN stays. */
TX__INLINE tx__vec relu(tx__vec x)
{
    return tx__choose(x < 0.0f, tx__all(0), x);
}

/* ---- activations ---- */

/* The tanh form without a tanh: 0.5 (1 + tanh u) = 1/(1 + exp(-2u)), and exp(-2u) = 2^(x (A + B x²)). */
static const float A = -2.30220820f, B = -0.102943240f;

TX__INLINE tx__vec gelu_tanh(tx__vec x)
{
    return x * tx__inverse(1.0f + tx__vexp2(x * (A + B * (x * x))));
}

TX__INLINE tx__vec gelu_tanh_bwd(tx__vec dy, tx__vec x)
{
    tx__vec xx = x * x, e = tx__vexp2(x * (A + B * xx)), s = tx__inverse(1.0f + e);
    tx__vec slope = 1.59576912f + 0.214064488f * xx; /* of 2u */
    return dy * (s + x * slope * (s * (e * s)));     /* 1 - s = e s, without cancellation */
}

TX__INLINE tx__vec gelu_erf(tx__vec x)
{
    tx__vec e;
    return x * tx__normal_cdf(x, &e);
}

TX__INLINE tx__vec gelu_erf_bwd(tx__vec dy, tx__vec x)
{
    tx__vec e, cdf = tx__normal_cdf(x, &e);
    return dy * (cdf + x * e * 0.398942280f);
}

TX__INLINE tx__vec squared_relu(tx__vec x)
{
    return relu(x) * relu(x);
}

TX__INLINE tx__vec squared_relu_bwd(tx__vec dy, tx__vec x)
{
    return dy * (2.0f * relu(x));
}

TX__INLINE tx__vec relu_bwd(tx__vec dy, tx__vec x)
{
    return tx__choose(x > 0.0f, dy, tx__all(0));
}

TX__INLINE tx__vec tanh_bwd(tx__vec dy, tx__vec x)
{
    return dy * tx__vtanh_slope(x);
}

void tx__k(activation_fwd)(void *y, const void *x, tx_dtype t, int64_t n, tx_activation kind)
{
    if (kind == TX_GELU_ERF)
        map(t, y, x, n, gelu_erf);
    else if (kind == TX_SQUARED_RELU)
        map(t, y, x, n, squared_relu);
    else if (kind == TX_TANH)
        map(t, y, x, n, tx__vtanh);
    else if (kind == TX_RELU)
        map(t, y, x, n, relu);
    else
        map(t, y, x, n, gelu_tanh);
}

void tx__k(activation_bwd)(void *dx, const void *dy, const void *x, tx_dtype t, int64_t n, tx_activation kind)
{
    if (kind == TX_GELU_ERF)
        map2(t, dx, dy, x, n, gelu_erf_bwd);
    else if (kind == TX_SQUARED_RELU)
        map2(t, dx, dy, x, n, squared_relu_bwd);
    else if (kind == TX_TANH)
        map2(t, dx, dy, x, n, tanh_bwd);
    else if (kind == TX_RELU)
        map2(t, dx, dy, x, n, relu_bwd);
    else
        map2(t, dx, dy, x, n, gelu_tanh_bwd);
}

/* ---- gated units: g(gate) up, and the derivative g'(gate) ---- */

TX__INLINE tx__vec silu(tx__vec x)
{
    return x * tx__inverse(1.0f + tx__vexp2(x * -1.44269504f));
}

TX__INLINE tx__vec silu_slope(tx__vec x)
{
    tx__vec e = tx__vexp2(x * -1.44269504f), s = tx__inverse(1.0f + e);
    return s * (1.0f + x * (e * s)); /* 1 - s = e s, without cancellation */
}

TX__INLINE tx__vec gelu_erf_slope(tx__vec x)
{
    return gelu_erf_bwd(tx__all(1), x);
}

TX__INLINE tx__vec gelu_tanh_slope(tx__vec x)
{
    return gelu_tanh_bwd(tx__all(1), x);
}

TX__INLINE tx__vec relu_slope(tx__vec x)
{
    return tx__choose(x < 0.0f, tx__all(0), tx__all(1));
}

TX__INLINE tx__vec linear(tx__vec x)
{
    return x;
}

TX__INLINE tx__vec linear_slope(tx__vec x)
{
    (void)x;
    return tx__all(1);
}

TX__INLINE tx__vec swiglu(tx__vec gate, tx__vec up)
{
    return silu(gate) * up;
}

TX__INLINE tx__vec geglu(tx__vec gate, tx__vec up)
{
    return gelu_erf(gate) * up;
}

TX__INLINE tx__vec geglu_tanh(tx__vec gate, tx__vec up)
{
    return gelu_tanh(gate) * up;
}

TX__INLINE tx__vec reglu(tx__vec gate, tx__vec up)
{
    return relu(gate) * up;
}

TX__INLINE tx__vec bilinear(tx__vec gate, tx__vec up)
{
    return gate * up;
}

void tx__k(glu_fwd)(void *y, const void *gate, const void *up, tx_dtype t, int64_t n, tx_glu kind)
{
    if (kind == TX_GLU_SILU)
        map2(t, y, gate, up, n, swiglu);
    else if (kind == TX_GLU_GELU)
        map2(t, y, gate, up, n, geglu);
    else if (kind == TX_GLU_GELU_TANH)
        map2(t, y, gate, up, n, geglu_tanh);
    else if (kind == TX_GLU_RELU)
        map2(t, y, gate, up, n, reglu);
    else
        map2(t, y, gate, up, n, bilinear);
}

TX__INLINE void glu_bwd_of(tx_dtype t, const tx__glu_bwd *row, int64_t n, function g, function slope)
{
    void *const dgate = row->dgate, *const dup = row->dup;
    const void *const dy = row->dy, *const gate = row->gate, *const up = row->up;
    int64_t i = 0;
    for (; i + 2 * TX__VEC <= n; i += 2 * TX__VEC) {
        tx__vec a[2], b[2];
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            tx__vec x = tx__load(gate, t, i + k * TX__VEC), d = tx__load(dy, t, i + k * TX__VEC);
            a[k] = d * tx__load(up, t, i + k * TX__VEC) * slope(x);
            b[k] = d * g(x);
        }
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            tx__store(dgate, t, i + k * TX__VEC, a[k]);
            tx__store(dup, t, i + k * TX__VEC, b[k]);
        }
    }
    for (; i < n; i += TX__VEC) {
        tx__vec x = tx__load_n(gate, t, i, n - i), d = tx__load_n(dy, t, i, n - i);
        tx__vec a = d * tx__load_n(up, t, i, n - i) * slope(x);
        tx__store_n(dgate, t, i, n - i, a);
        tx__store_n(dup, t, i, n - i, d * g(x));
    }
}

TX__INLINE void glu_bwd(const tx__glu_bwd *row, int64_t n, function g, function slope)
{
    if (row->t == TX_F32)
        glu_bwd_of(TX_F32, row, n, g, slope);
    else if (row->t == TX_BF16)
        glu_bwd_of(TX_BF16, row, n, g, slope);
    else
        glu_bwd_of(TX_F16, row, n, g, slope);
}

void tx__k(glu_bwd)(const tx__glu_bwd *a, int64_t n, tx_glu kind)
{
    if (kind == TX_GLU_SILU)
        glu_bwd(a, n, silu, silu_slope);
    else if (kind == TX_GLU_GELU)
        glu_bwd(a, n, gelu_erf, gelu_erf_slope);
    else if (kind == TX_GLU_GELU_TANH)
        glu_bwd(a, n, gelu_tanh, gelu_tanh_slope);
    else if (kind == TX_GLU_RELU)
        glu_bwd(a, n, relu, relu_slope);
    else
        glu_bwd(a, n, linear, linear_slope);
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

void tx__k(rope_pairs)(float *x, const float *cosine, const float *sine, int64_t half)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}
