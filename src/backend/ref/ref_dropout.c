/* ref_dropout.c - dropout with masks from global coordinates, and the residual addition behind it. */
#include "backend/ref/ref.h"

/* y = residual + keep x over [s, b, h]; residual may be absent. */
static void dropout(tx_tensor y, tx_tensor x, tx_tensor residual, const tx_dropout *mask)
{
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    for (int64_t i_s = 0; i_s < s; i_s++)
        for (int64_t i_b = 0; i_b < b; i_b++) {
            uint64_t e = tx_dropout_row(mask, i_s, i_b, h);
            for (int64_t j = 0; j < h; j++) {
                int64_t at = (i_s * b + i_b) * h + j;
                double r = residual.data ? tx__ref_load(residual, at) : 0;
                tx__ref_store(y, at, r + tx__ref_keep(mask, e + (uint64_t)j) * tx__ref_load(x, at));
            }
        }
}

tx_status tx__ref_dropout_add_fwd(tx_ctx *c, const tx_dropout_add_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    dropout(a->y, a->x, a->residual, &a->mask);
    return TX_OK;
}

tx_status tx__ref_dropout_add_bwd(tx_ctx *c, const tx_dropout_add_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    dropout(a->dx, a->dy, (tx_tensor){ 0 }, &a->mask);
    return TX_OK;
}
