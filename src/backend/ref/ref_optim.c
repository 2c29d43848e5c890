/* ref_optim.c - AdamW (arXiv:1711.05101) and SGD. */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_adam(tx_ctx *c, const tx_adam_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double correct1 = 1 - pow(a->beta1, (double)a->t), correct2 = 1 - pow(a->beta2, (double)a->t);
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double g = tx__ref_load(a->g, i) * a->grad_scale, p = tx__ref_load(a->p, i);
        double m = a->beta1 * tx__ref_load(a->m, i) + (1 - a->beta1) * g;
        double v = a->beta2 * tx__ref_load(a->v, i) + (1 - a->beta2) * g * g;
        p -= a->lr * (m / correct1 / (sqrt(v / correct2) + a->eps) + a->weight_decay * p);
        tx__ref_store(a->m, i, m);
        tx__ref_store(a->v, i, v);
        tx__ref_store(a->p, i, p);
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}

tx_status tx__ref_sgd(tx_ctx *c, const tx_sgd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->p); i < n; i++) {
        double p = tx__ref_load(a->p, i), g = tx__ref_load(a->g, i) * a->grad_scale + a->weight_decay * p;
        double m = a->momentum * tx__ref_load(a->m, i) + g;
        tx__ref_store(a->m, i, m);
        tx__ref_store(a->p, i, p - a->lr * m);
        if (a->low.data) tx__ref_store(a->low, i, tx__ref_load(a->p, i));
    }
    return TX_OK;
}
