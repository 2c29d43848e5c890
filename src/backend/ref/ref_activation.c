/* ref_activation.c - the MLP's non-linearities: GELU (arXiv:1606.08415), squared ReLU (arXiv:2109.08668), SwiGLU
 * (arXiv:2002.05202). */
#include <math.h>

#include "backend/ref/ref.h"

#define SQRT_2_OVER_PI    0.79788456080286535588
#define ONE_OVER_SQRT_2PI 0.39894228040143267794

/* y = f(x), and its derivative into *dy. */
static double activate(double x, tx_activation kind, double *dy)
{
    if (kind == TX_SQUARED_RELU) {
        double r = x < 0 ? 0 : x; /* NaN stays */
        *dy = 2 * r;
        return r * r;
    }
    if (kind == TX_GELU_ERF) {
        double cdf = 0.5 * erfc(-x * 0.70710678118654752440);
        *dy = cdf + x * ONE_OVER_SQRT_2PI * exp(-0.5 * x * x);
        return x * cdf;
    }
    double t = tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
    *dy = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

tx_status tx__ref_activation_fwd(tx_ctx *c, const tx_activation_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double unused;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++)
        tx__ref_store(a->y, i, activate(tx__ref_load(a->x, i), a->kind, &unused));
    return TX_OK;
}

tx_status tx__ref_activation_bwd(tx_ctx *c, const tx_activation_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) {
        double slope;
        activate(tx__ref_load(a->x, i), a->kind, &slope);
        tx__ref_store(a->dx, i, tx__ref_load(a->dy, i) * slope);
    }
    return TX_OK;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

tx_status tx__ref_swiglu_fwd(tx_ctx *c, const tx_swiglu_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->y.dim[0], f = a->y.dim[1];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < f; j++) {
            double gate = tx__ref_load(a->x, i * 2 * f + j), up = tx__ref_load(a->x, i * 2 * f + f + j);
            tx__ref_store(a->y, i * f + j, gate * sigmoid(gate) * up);
        }
    return TX_OK;
}

tx_status tx__ref_swiglu_bwd(tx_ctx *c, const tx_swiglu_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->dy.dim[0], f = a->dy.dim[1];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < f; j++) {
            int64_t at = i * 2 * f + j;
            double gate = tx__ref_load(a->x, at), up = tx__ref_load(a->x, at + f), dy = tx__ref_load(a->dy, i * f + j);
            double s = sigmoid(gate);
            tx__ref_store(a->dx, at, dy * up * s * (1 + gate * (1 - s)));
            tx__ref_store(a->dx, at + f, dy * gate * s);
        }
    return TX_OK;
}
