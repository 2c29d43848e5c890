/* cpu_lamb.c - the two halves of LAMB. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"

static tx__lamb_step step_of(const tx_lamb_rule *r)
{
    return (tx__lamb_step){ .beta1 = (float)r->beta1,
                            .beta2 = (float)r->beta2,
                            .one_minus_beta1 = (float)(1 - r->beta1),
                            .one_minus_beta2 = (float)(1 - r->beta2),
                            .first = (float)(1 / r->correct1),
                            .second = (float)(1 / r->correct2),
                            .inside = r->eps_inside ? (float)r->eps : 0,
                            .outside = r->eps_inside ? 0 : (float)r->eps,
                            .decay = (float)r->weight_decay };
}

/* By TX_SUMSQ_BLOCK: a block's sums are one thread's, whichever. */
tx_status tx__cpu_lamb_moments(tx_ctx *c, const tx_lamb_moments_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("lamb_moments", a->p));
    TX_TRY(tx__cpu_need_float("lamb_moments", a->g));
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return tx__ref_lamb_moments(c, a, scratch);
    tx__lamb_step step = step_of(&a->rule);
    step.scale = (float)grad_scale;
    float *m = a->m.data, *v = a->v.data;
    const float *p = a->p.data;
    double *of_p = a->sums.data, *of_u = of_p + a->sums.dim[1];
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 4);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, TX_SUMSQ_BLOCK, parts, t);
        int64_t stretch = tx__cpu_stretch(a->g.dtype, r.hi - r.lo); /* whole blocks, but for the last one */
        float g[TX__CPU_STRETCH];
        for (int64_t i = r.lo; i < r.hi; i += stretch) {
            int64_t some = tx__cpu_min(r.hi - i, stretch), block = i / TX_SUMSQ_BLOCK;
            const tx__lamb_arrays at = { .m = m + i,
                                         .v = v + i,
                                         .p = p + i,
                                         .g = tx__cpu_get(c, a->g, i, some, g),
                                         .of_p = of_p + block,
                                         .of_u = of_u + block };
            tx__cpu_k(c)->lamb_moments(&at, some, &step);
        }
    }
    return TX_OK;
}

tx_status tx__cpu_lamb_fresh(tx_ctx *c, const tx_lamb_fresh_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("lamb_fresh", a->p));
    double none = 1, largest = *(double *)a->most.data;
    if (!tx__update_gate(a->gate, &none)) return tx__ref_lamb_fresh(c, a, scratch);
    const tx__lamb_step step = step_of(&a->rule);
    const tx__lamb_fresh all = { .m = a->m.data,
                                 .fresh = a->fresh.data,
                                 .x = a->x.data,
                                 .v = a->v.data,
                                 .p = a->p.data,
                                 .of_w = a->sums.data,
                                 .of_u = (double *)a->sums.data + a->sums.dim[1] };
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 5);
#pragma omp parallel for schedule(static) num_threads(parts) reduction(max : largest)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, TX_SUMSQ_BLOCK, parts, t);
        int64_t block = r.lo / TX_SUMSQ_BLOCK;
        double most = largest;
        const tx__lamb_fresh at = { all.m + r.lo, all.fresh + r.lo, all.x + r.lo,     all.v + r.lo,
                                    all.p + r.lo, all.of_w + block, all.of_u + block, &most };
        if (r.hi > r.lo) tx__cpu_k(c)->lamb_fresh(&at, r.hi - r.lo, &step);
        largest = most > largest ? most : largest;
    }
    *(double *)a->most.data = largest;
    return TX_OK;
}

enum { LINE = 16 }; /* floats of a cache line */

tx_status tx__cpu_lamb_update(tx_ctx *c, const tx_lamb_update_args *a, void *scratch)
{
    (void)scratch;
    double none = 1;
    TX_TRY(tx__cpu_need_float("lamb_update", a->p));
    if (a->low.data) TX_TRY(tx__cpu_need_float("lamb_update", a->low));
    if (!tx__update_gate(a->gate, &none)) return TX_OK;
    tx__lamb_step step = step_of(&a->rule);
    step.rate = (float)(a->lr * (a->ratio.data ? *(const double *)a->ratio.data : 1));
    float *p = a->p.data;
    const float *m = a->m.data, *v = a->v.data;
    int64_t n = tx_numel(a->p);
    int parts = tx__cpu_parts(c, n, 3);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        int64_t stretch = tx__cpu_stretch(a->low.data ? a->low.dtype : TX_F32, r.hi - r.lo);
        for (int64_t i = r.lo; i < r.hi; i += stretch) {
            int64_t some = tx__cpu_min(r.hi - i, stretch);
            tx__cpu_k(c)->lamb_update(p + i, m + i, v + i, some, &step);
            if (a->low.data) tx__cpu_move(c, a->low, i, a->p, i, some);
        }
    }
    return TX_OK;
}

tx_status tx__cpu_root_mul(tx_ctx *c, const tx_root_mul_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("root_mul", a->y));
    float *y = a->y.data, eps = (float)a->eps;
    const float *x = a->x.data, *v = a->v.data;
    int64_t n = tx_numel(a->y);
    int parts = tx__cpu_parts(c, n, 3);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) y[i] = x[i] * (sqrtf(v[i]) + eps);
    }
    return TX_OK;
}
