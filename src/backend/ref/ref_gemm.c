/* ref_gemm.c - matrix product, one dot product after another. */
#include "backend/ref/ref.h"

tx_status tx__ref_gemm(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t m = a->c.dim[0], n = a->c.dim[1], k = a->a.dim[a->trans_a ? 0 : 1];
    /* op(A)[i,p] lies at i a_i + p a_p, op(B)[p,j] at p b_p + j b_j */
    int64_t a_i = a->trans_a ? 1 : a->a.stride[0], a_p = a->trans_a ? a->a.stride[0] : 1;
    int64_t b_p = a->trans_b ? 1 : a->b.stride[0], b_j = a->trans_b ? a->b.stride[0] : 1;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = i * a->c.stride[0] + j;
            double sum = a->accumulate ? tx__ref_load(a->c, at) : 0;
            if (a->bias.data) sum += tx__ref_load(a->bias, j);
            for (int64_t p = 0; p < k; p++)
                sum += tx__ref_load(a->a, i * a_i + p * a_p) * tx__ref_load(a->b, p * b_p + j * b_j);
            tx__ref_store(a->c, at, sum);
        }
    return TX_OK;
}
