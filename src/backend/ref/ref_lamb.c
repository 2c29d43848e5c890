/* ref_lamb.c - LAMB (arXiv:1904.00962), in two halves with the ratio of norms between them. */
#include <math.h>

#include "backend/ref/ref.h"

/* u of element i, whose moments are m and v. */
static double direction(const tx_lamb_rule *r, double p, double m, double v)
{
    double size = v / r->correct2, root = r->eps_inside ? sqrt(size + r->eps) : sqrt(size) + r->eps;
    return m / r->correct1 / root + r->weight_decay * p;
}

tx_status tx__ref_lamb_moments(tx_ctx *c, const tx_lamb_moments_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const tx_lamb_rule *r = &a->rule;
    int64_t blocks = a->sums.dim[1];
    double *of_p = a->sums.data, *of_u = of_p + blocks, grad_scale = a->grad_scale;
    bool open = tx__update_gate(a->gate, &grad_scale);
    for (int64_t k = 0; k < blocks; k++) of_p[k] = of_u[k] = 0;
    for (int64_t i = 0, n = tx_numel(a->p); i < n && open; i++) {
        double g = tx__ref_load(a->g, i) * grad_scale, p = tx__ref_load(a->p, i);
        tx__ref_store(a->m, i, r->beta1 * tx__ref_load(a->m, i) + (1 - r->beta1) * g);
        tx__ref_store(a->v, i, r->beta2 * tx__ref_load(a->v, i) + (1 - r->beta2) * g * g);
        double u = direction(r, p, tx__ref_load(a->m, i), tx__ref_load(a->v, i));
        if (a->p.dtype == TX_F32) u = (double)(float)u; /* its square has to be one that an exact sum holds */
        of_p[i / TX_SUMSQ_BLOCK] += p * p;
        of_u[i / TX_SUMSQ_BLOCK] += u * u;
    }
    return TX_OK;
}

tx_status tx__ref_lamb_ratio(tx_ctx *c, const tx_lamb_ratio_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double *out = a->out.data;
    const tx_exact *sum = a->sums.data;
    for (int64_t i = 0, n = tx_numel(a->out); i < n; i++, sum += 2) {
        double p = sqrt(tx_exact_value(&sum[0])), u = sqrt(tx_exact_value(&sum[1])), ratio = p / u;
        if (sum[0].beyond != 0 || sum[1].beyond != 0)
            out[i] = NAN;
        else if (p == 0 || u == 0)
            out[i] = 1;
        else
            out[i] = ratio > a->most ? a->most : ratio < a->least ? a->least : ratio;
    }
    return TX_OK;
}

tx_status tx__ref_lamb_update(tx_ctx *c, const tx_lamb_update_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double none = 1, rate = a->lr * (a->ratio.data ? *(const double *)a->ratio.data : 1);
    if (!tx__update_gate(a->gate, &none)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double p = tx__ref_load(a->p, i);
        p -= rate * direction(&a->rule, p, tx__ref_load(a->m, i), tx__ref_load(a->v, i));
        tx__ref_store(a->p, i, p);
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}

tx_status tx__ref_lamb_fresh(tx_ctx *c, const tx_lamb_fresh_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const tx_lamb_rule *r = &a->rule;
    int64_t blocks = a->sums.dim[1];
    double *of_w = a->sums.data, *of_u = of_w + blocks, *most = a->most.data, none = 1;
    bool open = tx__update_gate(a->gate, &none);
    for (int64_t k = 0; k < blocks; k++) of_w[k] = of_u[k] = 0;
    for (int64_t i = 0, n = tx_numel(a->p); i < n && open; i++) {
        double x = tx__ref_load(a->x, i), g = (x - r->beta1 * tx__ref_load(a->m, i)) / (1 - r->beta1);
        double root = sqrt(tx__ref_load(a->v, i)) + r->eps;
        tx__ref_store(a->m, i, x);
        tx__ref_store(a->fresh, i, r->beta2 * tx__ref_load(a->fresh, i) + (1 - r->beta2) * g * g);
        double w = x / root, u = w + r->weight_decay * tx__ref_load(a->p, i);
        double quotient = root / (sqrt(tx__ref_load(a->fresh, i)) + r->eps);
        if (a->p.dtype == TX_F32) w = (double)(float)w, u = (double)(float)u; /* as lamb_moments' */
        of_w[i / TX_SUMSQ_BLOCK] += w * w;
        of_u[i / TX_SUMSQ_BLOCK] += u * u;
        if (quotient > *most) *most = quotient;
    }
    return TX_OK;
}

tx_status tx__ref_lamb_coeff(tx_ctx *c, const tx_lamb_coeff_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double *ratio = a->ratio.data, none = 1;
    const double *most = a->most.data;
    float *average = a->average.data, *last = a->last.data;
    if (!tx__update_gate(a->gate, &none)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->ratio); i < n; i++) {
        if (most) {
            double f =
                tx_lamb_factor(most[i] * ratio[i] + 1 - ratio[i], (double)last[i], a->least, a->largest, a->threshold);
            last[i] = (float)f;
            ratio[i] = (double)average[i] * f;
        } else if (ratio[i] != 1)
            average[i] = (float)(a->beta * (double)average[i] + (1 - a->beta) * ratio[i]);
    }
    return TX_OK;
}

tx_status tx__ref_root_mul(tx_ctx *c, const tx_root_mul_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->y); i < n; i++)
        tx__ref_store(a->y, i, tx__ref_load(a->x, i) * (sqrt(tx__ref_load(a->v, i)) + a->eps));
    return TX_OK;
}
