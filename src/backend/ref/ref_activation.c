/* ref_activation.c - non-linearities: GELU (arXiv:1606.08415), squared ReLU (arXiv:2109.08668), gates
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
    if (kind == TX_RELU) {
        *dy = x > 0 ? 1 : 0;
        return x < 0 ? 0 : x; /* NaN stays */
    }
    if (kind == TX_GELU_ERF) {
        double cdf = 0.5 * erfc(-x * 0.70710678118654752440);
        *dy = cdf + x * ONE_OVER_SQRT_2PI * exp(-0.5 * x * x);
        return x * cdf;
    }
    if (kind == TX_TANH) {
        double sech = 1 / cosh(x);
        *dy = sech * sech; /* 1 - tanh², without cancellation */
        return tanh(x);
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

/* y = g(z) of a gate, and its derivative into *dy. */
static double open_gate(double z, tx_glu kind, double *dy)
{
    if (kind == TX_GLU_GELU) return activate(z, TX_GELU_ERF, dy);
    if (kind == TX_GLU_GELU_TANH) return activate(z, TX_GELU_TANH, dy);
    if (kind == TX_GLU_SILU) {
        double s = 1 / (1 + exp(-z));
        *dy = s * (1 + z * (1 - s));
        return z * s;
    }
    bool shut = kind == TX_GLU_RELU && z < 0; /* NaN stays */
    *dy = shut ? 0 : 1;
    return shut ? 0 : z;
}

tx_status tx__ref_glu_fwd(tx_ctx *c, const tx_glu_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->y.dim[0], f = a->y.dim[1], gate = a->gate_second ? f : 0, up = f - gate;
    double unused;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < f; j++) {
            int64_t at = i * 2 * f + j;
            double opened = open_gate(tx__ref_load(a->x, at + gate), a->kind, &unused);
            tx__ref_store(a->y, i * f + j, opened * tx__ref_load(a->x, at + up));
        }
    return TX_OK;
}

tx_status tx__ref_glu_bwd(tx_ctx *c, const tx_glu_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->dy.dim[0], f = a->dy.dim[1], gate = a->gate_second ? f : 0, up = f - gate;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < f; j++) {
            int64_t at = i * 2 * f + j;
            double slope, dy = tx__ref_load(a->dy, i * f + j), through = tx__ref_load(a->x, at + up);
            double opened = open_gate(tx__ref_load(a->x, at + gate), a->kind, &slope);
            tx__ref_store(a->dx, at + gate, dy * through * slope);
            tx__ref_store(a->dx, at + up, dy * opened);
        }
    return TX_OK;
}
