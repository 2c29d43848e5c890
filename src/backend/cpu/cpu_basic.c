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

static bool is_value(tx_dtype t)
{
    return t == TX_F32 || t == TX_BF16 || t == TX_F16;
}

/* y = x, of one dtype or of two among fp32, bf16 and fp16. */
static void move(const tx_ctx *c, tx_tensor y, tx_tensor x)
{
    bool flat = tx_is_contiguous(x) && tx_is_contiguous(y);
    int64_t n = tx_numel(x), width = x.dim[x.n_dims - 1], rows = width ? n / width : 0;
    int parts = tx__cpu_parts(c, n, 1);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(flat ? n : rows, flat ? LINE : 1, parts, t);
        if (flat) tx__cpu_move(c, y, r.lo, x, r.lo, r.hi - r.lo);
        for (int64_t i = r.lo; i < r.hi && !flat; i++)
            tx__cpu_move(c, y, tx_row_offset(y, i), x, tx_row_offset(x, i), width);
    }
}

/* Copies and conversions among fp32, bf16 and fp16; the other pairs are rare (they happen at a checkpoint) and go ref's
 * way. */
tx_status tx__cpu_cast(tx_ctx *c, const tx_cast_args *a, void *scratch)
{
    tx_dtype to = a->y.dtype, from = a->x.dtype;
    if (to != from && !(is_value(to) && is_value(from))) return tx__ref_cast(c, a, scratch);
    move(c, a->y, a->x);
    return TX_OK;
}

tx_status tx__cpu_copy(tx_ctx *c, const tx_copy_args *a, void *scratch)
{
    (void)scratch;
    move(c, a->y, a->x);
    return TX_OK;
}

tx_status tx__cpu_add(tx_ctx *c, const tx_add_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("add", a->y));
    int64_t n = tx_numel(a->y);
    int parts = tx__cpu_parts(c, n, 2);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        const tx__dropout_add sum = { .y = tx__cpu_at(a->y, r.lo),
                                      .x = tx__cpu_at(a->a, r.lo),
                                      .residual = tx__cpu_at(a->b, r.lo),
                                      .y_type = a->y.dtype,
                                      .x_type = a->a.dtype,
                                      .residual_type = a->b.dtype };
        tx__cpu_k(c)->dropout_add(&sum, r.hi - r.lo, 0, NULL);
    }
    return TX_OK;
}

tx_status tx__cpu_activation_fwd(tx_ctx *c, const tx_activation_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("activation_fwd", a->x));
    int64_t n = tx_numel(a->x);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        tx__cpu_k(c)->activation_fwd(tx__cpu_at(a->y, r.lo), tx__cpu_at(a->x, r.lo), a->x.dtype, r.hi - r.lo, a->kind);
    }
    return TX_OK;
}

tx_status tx__cpu_activation_bwd(tx_ctx *c, const tx_activation_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("activation_bwd", a->x));
    int64_t n = tx_numel(a->x);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        tx__cpu_k(c)->activation_bwd(tx__cpu_at(a->dx, r.lo), tx__cpu_at(a->dy, r.lo), tx__cpu_at(a->x, r.lo),
                                     a->x.dtype, r.hi - r.lo, a->kind);
    }
    return TX_OK;
}

/* By TX_SUMSQ_BLOCK: a block's sum is one thread's, whichever. */
tx_status tx__cpu_sumsq(tx_ctx *c, const tx_sumsq_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("sumsq", a->x));
    int64_t n = tx_numel(a->x), blocks = a->out.dim[0];
    int parts = tx__cpu_parts(c, blocks, TX_SUMSQ_BLOCK);
    double *out = a->out.data;
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, TX_SUMSQ_BLOCK, parts, t);
        float x[TX__CPU_STRETCH]; /* whole blocks */
        int64_t step = tx__cpu_stretch(a->x.dtype, r.hi - r.lo);
        for (int64_t j = r.lo; j < r.hi; j += step) {
            int64_t some = tx__cpu_min(r.hi - j, step);
            tx__cpu_k(c)->sumsq(out + j / TX_SUMSQ_BLOCK, tx__cpu_get(c, a->x, j, some, x), some);
        }
    }
    return TX_OK;
}

tx_status tx__cpu_magnitudes(tx_ctx *c, const tx_magnitudes_args *a, void *scratch)
{
    if (a->x.dtype != TX_F32) return tx__ref_magnitudes(c, a, scratch); /* masters and moments are fp32 */
    int64_t n = tx_numel(a->x), blocks = a->out.dim[0];
    int parts = tx__cpu_parts(c, blocks, TX_SUMSQ_BLOCK);
    const float *x = a->x.data;
    double *out = a->out.data;
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int64_t i = 0; i < blocks; i++) {
        int64_t first = i * TX_SUMSQ_BLOCK, left = n - first;
        tx__cpu_k(c)->magnitudes(out + 4 * i, x + first, left < TX_SUMSQ_BLOCK ? left : TX_SUMSQ_BLOCK);
    }
    return TX_OK;
}

/* The optimizers' own tensors p, m, v; g is any value, and so is low, perhaps absent. */
static tx_status need_master(const char *op, tx_tensor p, tx_tensor g, tx_tensor low)
{
    TX_TRY(tx__cpu_need_float(op, p));
    TX_TRY(tx__cpu_need_float(op, g));
    return low.data ? tx__cpu_need_float(op, low) : TX_OK;
}

/* Elements of an update at a time: as many as are converted at once, where g or low are. */
static int64_t update_stretch(tx_tensor g, tx_tensor low, int64_t n)
{
    return tx__cpu_stretch(g.dtype == TX_F32 ? low.dtype : g.dtype, n);
}

tx_status tx__cpu_adam(tx_ctx *c, const tx_adam_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(need_master("adam", a->p, a->g, a->low));
    double correct1 = 1 - pow(a->beta1, (double)a->t), correct2 = 1 - pow(a->beta2, (double)a->t);
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    const tx__adam_step step = { .scale = (float)grad_scale,
                                 .beta1 = (float)a->beta1,
                                 .beta2 = (float)a->beta2,
                                 .one_minus_beta1 = (float)(1 - a->beta1),
                                 .one_minus_beta2 = (float)(1 - a->beta2),
                                 .rate = (float)(a->lr / correct1),
                                 .root = (float)(1 / sqrt(correct2)),
                                 .eps = (float)a->eps,
                                 .decay = a->coupled ? 0 : (float)(a->lr * a->weight_decay),
                                 .l2 = a->coupled ? (float)a->weight_decay : 0 };
    float *p = a->p.data, *m = a->m.data, *v = a->v.data;
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        int64_t stretch = update_stretch(a->g, a->low, r.hi - r.lo);
        float g[TX__CPU_STRETCH];
        for (int64_t i = r.lo; i < r.hi; i += stretch) {
            int64_t some = tx__cpu_min(r.hi - i, stretch);
            tx__cpu_k(c)->adam(p + i, m + i, v + i, tx__cpu_get(c, a->g, i, some, g), some, &step);
            if (a->low.data) tx__cpu_move(c, a->low, i, a->p, i, some);
        }
    }
    return TX_OK;
}

/* ---- updates with one array of state ---- */

typedef struct one_state {
    tx_tensor p, state, g, low;
} one_state;

/* n elements, by the kernel that knows what step is. */
typedef void one_state_fn(const tx_ctx *c, float *p, float *state, const float *g, int64_t n, const void *step);

static void update_one_state(const tx_ctx *c, const one_state *a, one_state_fn *update, const void *step)
{
    float *p = a->p.data, *state = a->state.data;
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 2);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        int64_t stretch = update_stretch(a->g, a->low, r.hi - r.lo);
        float g[TX__CPU_STRETCH];
        for (int64_t i = r.lo; i < r.hi; i += stretch) {
            int64_t some = tx__cpu_min(r.hi - i, stretch);
            update(c, p + i, state + i, tx__cpu_get(c, a->g, i, some, g), some, step);
            if (a->low.data) tx__cpu_move(c, a->low, i, a->p, i, some);
        }
    }
}

static void sgd_some(const tx_ctx *c, float *p, float *state, const float *g, int64_t n, const void *step)
{
    tx__cpu_k(c)->sgd(p, state, g, n, step);
}

tx_status tx__cpu_sgd(tx_ctx *c, const tx_sgd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(need_master("sgd", a->p, a->g, a->low));
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    const tx__sgd_step step = { .scale = (float)grad_scale,
                                .momentum = (float)a->momentum,
                                .decay = (float)a->weight_decay,
                                .keep = (float)(1 - a->dampening),
                                .of_grad = a->nesterov ? (float)a->lr : 0,
                                .of_momentum = (float)(a->nesterov ? a->lr * a->momentum : a->lr) };
    const one_state on = { a->p, a->m, a->g, a->low };
    update_one_state(c, &on, sgd_some, &step);
    return TX_OK;
}

static void lion_some(const tx_ctx *c, float *p, float *state, const float *g, int64_t n, const void *step)
{
    tx__cpu_k(c)->lion(p, state, g, n, step);
}

tx_status tx__cpu_lion(tx_ctx *c, const tx_lion_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(need_master("lion", a->p, a->g, a->low));
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    const tx__lion_step step = { .scale = (float)grad_scale,
                                 .beta1 = (float)a->beta1,
                                 .beta2 = (float)a->beta2,
                                 .one_minus_beta1 = (float)(1 - a->beta1),
                                 .one_minus_beta2 = (float)(1 - a->beta2),
                                 .rate = (float)a->lr,
                                 .decay = (float)(a->lr * a->weight_decay) };
    const one_state on = { a->p, a->m, a->g, a->low };
    update_one_state(c, &on, lion_some, &step);
    return TX_OK;
}

static void adagrad_some(const tx_ctx *c, float *p, float *state, const float *g, int64_t n, const void *step)
{
    tx__cpu_k(c)->adagrad(p, state, g, n, step);
}

tx_status tx__cpu_adagrad(tx_ctx *c, const tx_adagrad_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(need_master("adagrad", a->p, a->g, a->low));
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    const tx__adagrad_step step = {
        .scale = (float)grad_scale, .rate = (float)a->lr, .eps = (float)a->eps, .decay = (float)a->weight_decay
    };
    const one_state on = { a->p, a->v, a->g, a->low };
    update_one_state(c, &on, adagrad_some, &step);
    return TX_OK;
}

/* To elements [i, i + n) of a square matrix, at y: what its diagonal gets. */
static void add_diagonal(const tx_blend_args *a, float *y, int64_t i, int64_t n)
{
    const int64_t apart = a->y.dim[1] + 1;
    for (int64_t at = (i + apart - 1) / apart * apart; at < i + n; at += apart) y[at - i] += (float)a->diagonal;
}

tx_status tx__cpu_blend(tx_ctx *c, const tx_blend_args *a, void *scratch)
{
    (void)scratch;
    double alpha;
    bool converts = a->low.data != NULL; /* which is copied while y is in the cache */
    const tx_tensor *of[] = { &a->y, &a->x, &a->z, &a->low };
    for (int i = 0; i < 4; i++) {
        if (!of[i]->data) continue;
        TX_TRY(tx__cpu_need_float("blend", *of[i]));
        converts = converts || of[i]->dtype != TX_F32;
    }
    if (!tx__blend_alpha(a, &alpha)) return TX_OK;
    const tx__blend_step by = { .alpha = (float)alpha, .beta = (float)a->beta };
    int64_t n = tx_numel(a->y);
    int parts = tx__cpu_parts(c, n, 2);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        int64_t stretch = tx__cpu_stretch(converts ? TX_BF16 : TX_F32, r.hi - r.lo);
        float x[TX__CPU_STRETCH], y[TX__CPU_STRETCH], z[TX__CPU_STRETCH];
        for (int64_t i = r.lo; i < r.hi; i += stretch) {
            int64_t some = tx__cpu_min(r.hi - i, stretch);
            float *out = tx__cpu_dst(a->y, i, y);
            tx__cpu_k(c)->blend(out, tx__cpu_get(c, a->x, i, some, x), tx__cpu_get(c, a->z, i, some, z), some, &by);
            if (a->diagonal != 0) add_diagonal(a, out, i, some);
            tx__cpu_put(c, a->y, i, some, y);
            if (a->low.data) tx__cpu_move(c, a->low, i, a->y, i, some);
        }
    }
    return TX_OK;
}
