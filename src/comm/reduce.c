/* reduce.c - sums, largest and smallest of several buffers, a stretch that stays in the first cache at a time. */
#include "comm/reduce.h"

#include <string.h>

#include "base/half.h"

enum { STRETCH = 1024 };

typedef union stretch {
    float f[STRETCH];
    double d[STRETCH];
    int64_t i[STRETCH];
} stretch;

/* ---- two fp32 buffers, the most frequent case, in one pass ---- */

static void sum_two_plain(float *restrict a, float *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] = b[i] = a[i] + b[i];
}

#if defined(__x86_64__)
typedef float line __attribute__((vector_size(64), aligned(4), may_alias));

/* Whole lines: memory takes them sooner than the same in parts. */
__attribute__((target("avx512f"))) static void sum_two_lines(float *restrict a, float *restrict b, int64_t n)
{
    int64_t i = 0;
    for (; i < n && (uintptr_t)(a + i) % sizeof(line); i++) a[i] = b[i] = a[i] + b[i];
    for (; i + 16 <= n; i += 16) *(line *)(a + i) = *(line *)(b + i) = *(line *)(a + i) + *(line *)(b + i);
    for (; i < n; i++) a[i] = b[i] = a[i] + b[i];
}
#endif

static void sum_two(float *a, float *b, int64_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        sum_two_lines(a, b, n);
        return;
    }
#endif
    sum_two_plain(a, b, n);
}

/* ---- into the type that is added in ---- */

/* fp16 as its bits: exact, and without a branch, so that compilers make vectors of it. */
static float of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13;
    float f = tx_f32_of_bits(rest) * 0x1p112f;             /* the exponent's other bias; small ones become normal */
    uint32_t top = rest >= 0x0f800000u ? 0x7f800000u : 0u; /* infinity and NaN */
    return tx_f32_of_bits(tx_bits_of_f32(f) | top | sign);
}

static void widen(stretch *restrict out, const void *restrict x, int64_t n, tx_dtype t)
{
    switch (t) {
    case TX_BF16:
        for (int64_t i = 0; i < n; i++) out->f[i] = tx_bf16_to_f32(((const uint16_t *)x)[i]);
        break;
    case TX_F16:
        for (int64_t i = 0; i < n; i++) out->f[i] = of_f16(((const uint16_t *)x)[i]);
        break;
    case TX_I32:
        for (int64_t i = 0; i < n; i++) out->i[i] = ((const int32_t *)x)[i];
        break;
    default:
        memcpy(out, x, (size_t)n * tx_dtype_size(t));
    }
}

static void narrow(void *restrict y, const stretch *restrict a, int64_t n, tx_dtype t)
{
    switch (t) {
    case TX_BF16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)y)[i] = tx_f32_to_bf16(a->f[i]);
        break;
    case TX_F16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)y)[i] = tx_f32_to_f16(a->f[i]);
        break;
    case TX_I32:
        for (int64_t i = 0; i < n; i++) ((int32_t *)y)[i] = (int32_t)(uint32_t)(uint64_t)a->i[i];
        break;
    default:
        memcpy(y, a, (size_t)n * tx_dtype_size(t));
    }
}

/* ---- combining; a NaN is handed on by all three ---- */

static void combine_f32(float *restrict a, const float *restrict x, int64_t n, tx_reduce op)
{
    if (op == TX_SUM)
        for (int64_t i = 0; i < n; i++) a[i] += x[i];
    else if (op == TX_MAX)
        for (int64_t i = 0; i < n; i++) a[i] = a[i] >= x[i] || a[i] != a[i] ? a[i] : x[i];
    else
        for (int64_t i = 0; i < n; i++) a[i] = a[i] <= x[i] || a[i] != a[i] ? a[i] : x[i];
}

static void combine_f64(double *restrict a, const double *restrict x, int64_t n, tx_reduce op)
{
    if (op == TX_SUM)
        for (int64_t i = 0; i < n; i++) a[i] += x[i];
    else if (op == TX_MAX)
        for (int64_t i = 0; i < n; i++) a[i] = a[i] >= x[i] || a[i] != a[i] ? a[i] : x[i];
    else
        for (int64_t i = 0; i < n; i++) a[i] = a[i] <= x[i] || a[i] != a[i] ? a[i] : x[i];
}

static void combine_i64(int64_t *restrict a, const int64_t *restrict x, int64_t n, tx_reduce op)
{
    if (op == TX_SUM) /* wraps around, as the result does in any order */
        for (int64_t i = 0; i < n; i++) a[i] = (int64_t)((uint64_t)a[i] + (uint64_t)x[i]);
    else if (op == TX_MAX)
        for (int64_t i = 0; i < n; i++) a[i] = a[i] > x[i] ? a[i] : x[i];
    else
        for (int64_t i = 0; i < n; i++) a[i] = a[i] < x[i] ? a[i] : x[i];
}

static void combine(stretch *a, const void *x, int64_t n, tx_dtype t, tx_reduce op)
{
    stretch wide;
    if (t != TX_F32 && t != TX_F64 && t != TX_I64) {
        widen(&wide, x, n, t);
        x = &wide;
    }
    if (t == TX_F64)
        combine_f64(a->d, x, n, op);
    else if (t == TX_I32 || t == TX_I64)
        combine_i64(a->i, x, n, op);
    else
        combine_f32(a->f, x, n, op);
}

tx_dtype tx__sum_dtype(tx_dtype t)
{
    return t == TX_BF16 || t == TX_F16 ? TX_F32 : t;
}

void tx__reduce(const tx__reduction *r, int64_t lo, int64_t n)
{
    stretch a;
    tx_dtype first = r->carries ? tx__sum_dtype(r->dtype) : r->dtype,
             last = r->leaves ? tx__sum_dtype(r->dtype) : r->dtype;
    size_t size = tx_dtype_size(r->dtype);
    if (r->dtype == TX_F32 && r->op == TX_SUM && r->n_from == 2 && r->n_to == 2 && r->to[0] == r->from[0] &&
        r->to[1] == r->from[1]) {
        sum_two((float *)r->to[0] + lo, (float *)r->to[1] + lo, n);
        return;
    }
    for (int64_t i = lo; i < lo + n; i += STRETCH) {
        int64_t len = lo + n - i < STRETCH ? lo + n - i : STRETCH;
        size_t at = (size_t)i * size;
        widen(&a, (const unsigned char *)r->from[0] + (size_t)i * tx_dtype_size(first), len, first);
        for (int k = 1; k < r->n_from; k++) combine(&a, (const unsigned char *)r->from[k] + at, len, r->dtype, r->op);
        for (int k = 0; k < r->n_to; k++)
            narrow((unsigned char *)r->to[k] + (size_t)i * tx_dtype_size(last), &a, len, last);
    }
}
