/* ref_optim.c - the updates of weights, and what they take of the gradients. */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_exact_add(tx_ctx *c, const tx_exact_add_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const double *x = a->x.data;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) tx_exact_add(a->sum.data, x[i]);
    return TX_OK;
}

tx_status tx__ref_clip(tx_ctx *c, const tx_clip_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double *out = a->out.data, norm = sqrt(tx_exact_value(a->sum.data)) / a->loss_scale;
    double keep = a->max_norm > 0 ? a->max_norm / (norm + 1e-6) : 1;
    out[0] = norm;
    out[1] = (keep < 1 ? keep : 1) / a->loss_scale;
    out[2] = isfinite(norm);
    return TX_OK;
}

bool tx__update_gate(tx_tensor gate, double *grad_scale)
{
    const double *of = gate.data;
    if (!of) return true;
    *grad_scale *= of[1];
    return of[2] != 0;
}

tx_status tx__ref_adam(tx_ctx *c, const tx_adam_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double correct1 = 1 - pow(a->beta1, (double)a->t), correct2 = 1 - pow(a->beta2, (double)a->t);
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double p = tx__ref_load(a->p, i);
        double g = tx__ref_load(a->g, i) * grad_scale + (a->coupled ? a->weight_decay * p : 0);
        double m = a->beta1 * tx__ref_load(a->m, i) + (1 - a->beta1) * g;
        double v = a->beta2 * tx__ref_load(a->v, i) + (1 - a->beta2) * g * g;
        p -= a->lr * (m / correct1 / (sqrt(v / correct2) + a->eps) + (a->coupled ? 0 : a->weight_decay * p));
        tx__ref_store(a->m, i, m);
        tx__ref_store(a->v, i, v);
        tx__ref_store(a->p, i, p);
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}

bool tx__blend_alpha(const tx_blend_args *a, double *alpha)
{
    double factor = 1, squares = 0;
    const double *norm = a->norm.data;
    bool open = tx__update_gate(a->gate, &factor);
    *alpha = a->only_go ? a->alpha : a->alpha * factor;
    for (int64_t i = 0; norm && i < tx_numel(a->norm); i++) squares += norm[i] * norm[i];
    if (norm) *alpha /= fmax(sqrt(squares), TX_BLEND_LEAST);
    return open;
}

tx_status tx__ref_blend(tx_ctx *c, const tx_blend_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double alpha;
    if (!tx__blend_alpha(a, &alpha)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->y); i < n; i++) {
        double z = a->z.data ? a->beta * tx__ref_load(a->z, i) : 0;
        if (a->diagonal != 0 && i % (a->y.dim[1] + 1) == 0) z += a->diagonal;
        tx__ref_store(a->y, i, alpha * tx__ref_load(a->x, i) + z);
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->y, i));
    }
    return TX_OK;
}

tx_status tx__ref_sgd(tx_ctx *c, const tx_sgd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double p = tx__ref_load(a->p, i), g = tx__ref_load(a->g, i) * grad_scale + a->weight_decay * p;
        double m = a->momentum * tx__ref_load(a->m, i) + (1 - a->dampening) * g;
        tx__ref_store(a->m, i, m);
        tx__ref_store(a->p, i, p - a->lr * (a->nesterov ? g + a->momentum * m : m));
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}

tx_status tx__ref_lion(tx_ctx *c, const tx_lion_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double g = tx__ref_load(a->g, i) * grad_scale, p = tx__ref_load(a->p, i), m = tx__ref_load(a->m, i);
        double mean = a->beta1 * m + (1 - a->beta1) * g;
        tx__ref_store(a->m, i, a->beta2 * m + (1 - a->beta2) * g);
        tx__ref_store(a->p, i, p - a->lr * ((mean > 0) - (mean < 0) + a->weight_decay * p));
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}

tx_status tx__ref_adagrad(tx_ctx *c, const tx_adagrad_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double grad_scale = a->grad_scale;
    if (!tx__update_gate(a->gate, &grad_scale)) return TX_OK;
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double p = tx__ref_load(a->p, i), g = tx__ref_load(a->g, i) * grad_scale + a->weight_decay * p;
        double v = tx__ref_load(a->v, i) + g * g;
        tx__ref_store(a->v, i, v);
        tx__ref_store(a->p, i, p - a->lr * g / (sqrt(v) + a->eps));
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}
