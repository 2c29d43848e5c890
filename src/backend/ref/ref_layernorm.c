/* ref_layernorm.c - layer normalisation. arXiv:1607.06450 */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        double mu = 0, var = 0;
        for (int64_t j = 0; j < h; j++) mu += tx__ref_load(a->x, i * h + j);
        mu /= (double)h;
        for (int64_t j = 0; j < h; j++) {
            double d = tx__ref_load(a->x, i * h + j) - mu;
            var += d * d;
        }
        double rs = 1 / sqrt(var / (double)h + a->eps);
        for (int64_t j = 0; j < h; j++) {
            double xhat = (tx__ref_load(a->x, i * h + j) - mu) * rs;
            tx__ref_store(a->y, i * h + j,
                          xhat * tx__ref_load(a->gamma, j) + (a->beta.data ? tx__ref_load(a->beta, j) : 0));
        }
        tx__ref_store(a->mu, i, mu);
        tx__ref_store(a->rs, i, rs);
    }
    return TX_OK;
}

static double xhat(const tx_layernorm_bwd_args *a, int64_t i, int64_t j)
{
    return (tx__ref_load(a->x, i * a->x.dim[1] + j) - tx__ref_load(a->mu, i)) * tx__ref_load(a->rs, i);
}

tx_status tx__ref_layernorm_bwd(tx_ctx *c, const tx_layernorm_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    /* the parameters first, because dx may lie on dy */
    for (int64_t j = 0; j < h; j++) {
        double dgamma = tx__ref_load(a->dgamma, j), dbeta = a->dbeta.data ? tx__ref_load(a->dbeta, j) : 0;
        for (int64_t i = 0; i < rows; i++) {
            double dy = tx__ref_load(a->dy, i * h + j);
            dgamma += dy * xhat(a, i, j);
            dbeta += dy;
        }
        tx__ref_store(a->dgamma, j, dgamma);
        if (a->dbeta.data) tx__ref_store(a->dbeta, j, dbeta);
    }
    for (int64_t i = 0; i < rows; i++) {
        double mean_g = 0, mean_gx = 0, rs = tx__ref_load(a->rs, i);
        for (int64_t j = 0; j < h; j++) {
            double g = tx__ref_load(a->dy, i * h + j) * tx__ref_load(a->gamma, j);
            mean_g += g / (double)h;
            mean_gx += g * xhat(a, i, j) / (double)h;
        }
        for (int64_t j = 0; j < h; j++) {
            double g = tx__ref_load(a->dy, i * h + j) * tx__ref_load(a->gamma, j);
            double dres = a->dres.data ? tx__ref_load(a->dres, i * h + j) : 0;
            tx__ref_store(a->dx, i * h + j, dres + rs * (g - mean_g - xhat(a, i, j) * mean_gx));
        }
    }
    return TX_OK;
}
