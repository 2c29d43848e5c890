/* cpu_distill.c - what a head learns from a teacher's logits: rows shared among threads. */
#include <math.h>

#include "backend/cpu/cpu.h"

tx_status tx__cpu_distill_part(tx_ctx *c, const tx_distill_part_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("distill_part", a->z));
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    float *t = a->t.data, *stats = a->stats.data;
    const float *z = a->z.data, cold = (float)(1 / a->temperature);
    int parts = tx__cpu_parts(c, rows, 8 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int k = 0; k < parts; k++) {
        tx__range r = tx__cpu_part(rows, 1, parts, k);
        for (int64_t i = r.lo; i < r.hi; i++)
            tx__cpu_k(c)->distill_part(stats + 5 * i, t + i * v, z + i * v, a->n_here, cold);
    }
    return TX_OK;
}

/* Row i of all parts: its loss without a factor, log Σ exp(z / T), and what exponentials of this part's t are
 * multiplied with to be the teacher's softmax. */
typedef struct joined {
    double loss, lse, share;
} joined;

static joined join(const tx_distill_join_args *a, int64_t i)
{
    const int64_t rows = a->z.dim[0], n = a->stats.dim[0];
    const double cold = 1 / a->temperature;
    const float *stats = a->stats.data;
    double max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0 }, apart = 0;
    for (int64_t p = 0; p < n; p++)
        for (int k = 0; k < 2; k++) max[k] = fmax(max[k], (double)stats[5 * (p * rows + i) + 2 * k]);
    for (int64_t p = 0; p < n; p++) {
        const float *s = stats + 5 * (p * rows + i);
        if (s[1] == 0) continue; /* it has no class */
        for (int k = 0; k < 2; k++) sum[k] += (double)s[2 * k + 1] * exp(((double)s[2 * k] - max[k]) * cold);
        apart += (double)s[4] * exp(((double)s[2] - max[1]) * cold);
    }
    const double lse = max[0] * cold + log(sum[0]), lse_t = max[1] * cold + log(sum[1]);
    const double own = (double)stats[5 * (a->part * rows + i) + 2];
    return (joined){ apart / sum[1] - lse_t + lse, lse, a->n_here ? exp((own - max[1]) * cold) / sum[1] : 0 };
}

tx_status tx__cpu_distill_join(tx_ctx *c, const tx_distill_join_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("distill_join", a->z));
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    float *t = a->t.data, *loss = a->loss.data;
    const float *z = a->z.data;
    const double T = a->temperature, each = a->scale * a->factor * T;
    int parts = tx__cpu_parts(c, rows, 4 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int k = 0; k < parts; k++) {
        tx__range r = tx__cpu_part(rows, 1, parts, k);
        for (int64_t i = r.lo; i < r.hi; i++) {
            const joined row = join(a, i);
            const tx__taught taught = { (float)(1 / T), (float)row.lse, (float)each, (float)(each * row.share) };
            loss[i] = (float)(a->factor * T * T * row.loss);
            tx__cpu_k(c)->distill_join(t + i * v, z + i * v, a->n_here, v, &taught);
        }
    }
    return TX_OK;
}
