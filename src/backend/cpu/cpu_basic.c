/* cpu_basic.c - element-wise ops, cut into one run of elements per thread. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

/* Runs of elements begin on cache lines. */
enum { LINE = 16 };

tx_status tx__cpu_fill(tx_ctx *c, const tx_fill_args *a, void *scratch)
{
    if (a->x.dtype != TX_F32 && !(a->value == 0 && !signbit(a->value))) return tx__ref_fill(c, a, scratch);
    int64_t n = tx_numel(a->x);
    size_t size = tx_dtype_size(a->x.dtype);
    int parts = tx__cpu_parts(c, n, 1);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        if (a->x.dtype == TX_F32)
            tx__cpu_k(c)->fill((float *)a->x.data + r.lo, r.hi - r.lo, (float)a->value);
        else
            memset((char *)a->x.data + (size_t)r.lo * size, 0, (size_t)(r.hi - r.lo) * size);
    }
    return TX_OK;
}

/* n elements from x + from to y + to. */
static void cast_run(const tx__cpu_kernels *k, tx_tensor y, int64_t to, tx_tensor x, int64_t from, int64_t n)
{
    size_t out = tx_dtype_size(y.dtype), in = tx_dtype_size(x.dtype);
    void *dst = (char *)y.data + (size_t)to * out;
    const void *src = (const char *)x.data + (size_t)from * in;
    if (x.dtype == y.dtype)
        memmove(dst, src, (size_t)n * out);
    else if (y.dtype == TX_BF16)
        k->to_bf16(dst, src, n);
    else
        k->of_bf16(dst, src, n);
}

/* Copies and fp32 to and from bf16; the other pairs are rare (they happen at a checkpoint) and go ref's way. */
tx_status tx__cpu_cast(tx_ctx *c, const tx_cast_args *a, void *scratch)
{
    const tx__cpu_kernels *k = tx__cpu_k(c);
    tx_dtype to = a->y.dtype, from = a->x.dtype;
    bool down = from == TX_F32 && to == TX_BF16, up = from == TX_BF16 && to == TX_F32;
    if (to != from && !down && !up) return tx__ref_cast(c, a, scratch);
    bool flat = tx_is_contiguous(a->x) && tx_is_contiguous(a->y);
    int64_t n = tx_numel(a->x), width = a->x.dim[a->x.n_dims - 1], rows = width ? n / width : 0;
    int parts = tx__cpu_parts(c, n, 1);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(flat ? n : rows, flat ? LINE : 1, parts, t);
        if (flat) cast_run(k, a->y, r.lo, a->x, r.lo, r.hi - r.lo);
        for (int64_t i = r.lo; i < r.hi && !flat; i++)
            cast_run(k, a->y, tx_row_offset(a->y, i), a->x, tx_row_offset(a->x, i), width);
    }
    return TX_OK;
}

tx_status tx__cpu_activation_fwd(tx_ctx *c, const tx_activation_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("activation_fwd", a->x));
    int64_t n = tx_numel(a->x);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        tx__cpu_k(c)->activation_fwd((float *)a->y.data + r.lo, (const float *)a->x.data + r.lo, r.hi - r.lo, a->kind);
    }
    return TX_OK;
}

tx_status tx__cpu_activation_bwd(tx_ctx *c, const tx_activation_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("activation_bwd", a->x));
    int64_t n = tx_numel(a->x);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        tx__cpu_k(c)->activation_bwd((float *)a->dx.data + r.lo, (const float *)a->dy.data + r.lo,
                                     (const float *)a->x.data + r.lo, r.hi - r.lo, a->kind);
    }
    return TX_OK;
}

/* By TX_SUMSQ_BLOCK: a block's sum is one thread's, whichever. */
tx_status tx__cpu_sumsq(tx_ctx *c, const tx_sumsq_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("sumsq", a->x));
    int64_t n = tx_numel(a->x), blocks = a->out.dim[0];
    int parts = tx__cpu_parts(c, blocks, TX_SUMSQ_BLOCK);
    const float *x = a->x.data;
    double *out = a->out.data;
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first = i * TX_SUMSQ_BLOCK, left = n - first;
        out[i] = tx__cpu_k(c)->sumsq(x + first, left < TX_SUMSQ_BLOCK ? left : TX_SUMSQ_BLOCK);
    }
    return TX_OK;
}

tx_status tx__cpu_adam(tx_ctx *c, const tx_adam_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("adam", a->p));
    double correct1 = 1 - pow(a->beta1, (double)a->t), correct2 = 1 - pow(a->beta2, (double)a->t);
    const tx__adam_step step = { .scale = (float)a->grad_scale,
                                 .beta1 = (float)a->beta1,
                                 .beta2 = (float)a->beta2,
                                 .one_minus_beta1 = (float)(1 - a->beta1),
                                 .one_minus_beta2 = (float)(1 - a->beta2),
                                 .rate = (float)(a->lr / correct1),
                                 .root = (float)(1 / sqrt(correct2)),
                                 .eps = (float)a->eps,
                                 .decay = (float)(a->lr * a->weight_decay) };
    float *p = a->p.data, *m = a->m.data, *v = a->v.data;
    const float *g = a->g.data;
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        tx__cpu_k(c)->adam(p + r.lo, m + r.lo, v + r.lo, g + r.lo, r.hi - r.lo, &step);
    }
    return TX_OK;
}

tx_status tx__cpu_sgd(tx_ctx *c, const tx_sgd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("sgd", a->p));
    const tx__sgd_step step = { .scale = (float)a->grad_scale,
                                .momentum = (float)a->momentum,
                                .rate = (float)a->lr,
                                .decay = (float)a->weight_decay };
    float *p = a->p.data, *m = a->m.data;
    const float *g = a->g.data;
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 2);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        tx__cpu_k(c)->sgd(p + r.lo, m + r.lo, g + r.lo, r.hi - r.lo, &step);
    }
    return TX_OK;
}
