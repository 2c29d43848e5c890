/* ref_gelu.c - x Φ(x), exact or by the tanh form. arXiv:1606.08415 */
#include <math.h>

#include "backend/ref/ref.h"

#define SQRT_2_OVER_PI    0.79788456080286535588
#define ONE_OVER_SQRT_2PI 0.39894228040143267794

/* y = gelu(x), and its derivative into *dy. */
static double gelu(double x, tx_gelu_kind kind, double *dy)
{
    if (kind == TX_GELU_ERF) {
        double cdf = 0.5 * erfc(-x * 0.70710678118654752440);
        *dy = cdf + x * ONE_OVER_SQRT_2PI * exp(-0.5 * x * x);
        return x * cdf;
    }
    double t = tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
    *dy = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

tx_status tx__ref_gelu_fwd(tx_ctx *c, const tx_gelu_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double unused;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++)
        tx__ref_store(a->y, i, gelu(tx__ref_load(a->x, i), a->kind, &unused));
    return TX_OK;
}

tx_status tx__ref_gelu_bwd(tx_ctx *c, const tx_gelu_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) {
        double slope;
        gelu(tx__ref_load(a->x, i), a->kind, &slope);
        tx__ref_store(a->dx, i, tx__ref_load(a->dy, i) * slope);
    }
    return TX_OK;
}
