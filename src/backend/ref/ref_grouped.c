/* ref_grouped.c - products of packed rows with each group's matrix. */
#include "backend/ref/ref.h"

tx_status tx__ref_grouped_gemm(tx_ctx *c, const tx_grouped_gemm_args *a, void *scratch)
{
    const int32_t *count = a->count.data;
    TX_TRY(tx__check_groups("grouped_gemm", a->count, a->a.dim[0]));
    for (int64_t g = 0, first = 0; g < a->count.dim[0]; first += count[g], g++) {
        const tx_gemm_args one = { .c = tx_slice_rows(a->c, first, count[g]),
                                   .a = tx_slice_rows(a->a, first, count[g]),
                                   .b = *tx_nth_tensor(a->b, g),
                                   .bias = a->bias.first ? *tx_nth_tensor(a->bias, g) : (tx_tensor){ 0 },
                                   .trans_b = a->trans_b };
        TX_TRY(tx__ref_gemm(c, &one, scratch));
    }
    return TX_OK;
}

tx_status tx__ref_grouped_dw(tx_ctx *c, const tx_grouped_dw_args *a, void *scratch)
{
    const int32_t *count = a->count.data;
    TX_TRY(tx__check_groups("grouped_dw", a->count, a->dy.dim[0]));
    for (int64_t g = 0, first = 0; g < a->count.dim[0]; first += count[g], g++) {
        tx_tensor dy = tx_slice_rows(a->dy, first, count[g]), x = tx_slice_rows(a->x, first, count[g]);
        const tx_gemm_args one = {
            .c = *tx_nth_tensor(a->dw, g), .a = dy, .b = x, .trans_a = true, .accumulate = a->accumulate
        };
        TX_TRY(tx__ref_gemm(c, &one, scratch)); /* a sum over no rows is 0 */
        if (a->dbias.first)
            TX_TRY(tx__ref_col_sum(c, &(tx_col_sum_args){ .y = *tx_nth_tensor(a->dbias, g), .x = dy }, scratch));
    }
    return TX_OK;
}
