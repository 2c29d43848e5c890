/* ref_rmsnorm.c - normalisation by the root mean square. arXiv:1910.07467 */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_rmsnorm_fwd(tx_ctx *c, const tx_rmsnorm_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0, n = (double)h;
        for (int64_t j = 0; j < h; j++) sum += tx__ref_load(a->x, i * h + j) * tx__ref_load(a->x, i * h + j);
        if (a->squares.data) sum = tx__ref_load(a->squares, i), n = (double)a->columns;
        double rs = 1 / sqrt(sum / n + a->eps);
        for (int64_t j = 0; j < h; j++)
            tx__ref_store(a->y, i * h + j, tx__ref_load(a->x, i * h + j) * rs * tx__ref_load(a->gamma, j));
        tx__ref_store(a->rs, i, rs);
    }
    return TX_OK;
}

tx_status tx__ref_rmsnorm_bwd(tx_ctx *c, const tx_rmsnorm_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    /* the parameter first, because dx may lie on dy */
    for (int64_t j = 0; j < h; j++) {
        double dgamma = tx__ref_load(a->dgamma, j);
        for (int64_t i = 0; i < rows; i++)
            dgamma += tx__ref_load(a->dy, i * h + j) * tx__ref_load(a->x, i * h + j) * tx__ref_load(a->rs, i);
        tx__ref_store(a->dgamma, j, dgamma);
    }
    for (int64_t i = 0; i < rows; i++) {
        double mean_gx = 0, rs = tx__ref_load(a->rs, i);
        for (int64_t j = 0; j < h; j++)
            mean_gx += tx__ref_load(a->dy, i * h + j) * tx__ref_load(a->gamma, j) * tx__ref_load(a->x, i * h + j) * rs /
                       (double)h;
        if (a->dots.data) mean_gx = rs * tx__ref_load(a->dots, i) / (double)a->columns;
        for (int64_t j = 0; j < h; j++) {
            double g = tx__ref_load(a->dy, i * h + j) * tx__ref_load(a->gamma, j);
            double dres = a->dres.data ? tx__ref_load(a->dres, i * h + j) : 0;
            tx__ref_store(a->dx, i * h + j, dres + rs * (g - tx__ref_load(a->x, i * h + j) * rs * mean_gx));
        }
    }
    return TX_OK;
}

tx_status tx__ref_row_dots(tx_ctx *c, const tx_row_dots_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->a.dim[0], h = a->a.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < h; j++)
            sum += tx__ref_load(a->a, i * h + j) * tx__ref_load(a->b, i * h + j) *
                   (a->gamma.data ? tx__ref_load(a->gamma, j) : 1);
        tx__ref_store(a->y, i, sum);
    }
    return TX_OK;
}
