/* ref_basic.c - fill, cast, copy, add, col_sum, sumsq, count_zeros, magnitudes. */
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

tx_status tx__ref_fill(tx_ctx *c, const tx_fill_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) tx__ref_store(a->x, i, a->value);
    return TX_OK;
}

tx_status tx__ref_cast(tx_ctx *c, const tx_cast_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t n = a->x.dim[a->x.n_dims - 1], rows = n ? tx_numel(a->x) / n : 0;
    for (int64_t r = 0; r < rows; r++) {
        int64_t to = tx_row_offset(a->y, r), from = tx_row_offset(a->x, r);
        for (int64_t i = 0; i < n; i++) tx__ref_store(a->y, to + i, tx__ref_load(a->x, from + i));
    }
    return TX_OK;
}

tx_status tx__ref_copy(tx_ctx *c, const tx_copy_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t n = a->x.dim[a->x.n_dims - 1], rows = n ? tx_numel(a->x) / n : 0;
    size_t size = tx_dtype_size(a->x.dtype);
    for (int64_t r = 0; r < rows; r++) {
        char *to = (char *)a->y.data + (size_t)tx_row_offset(a->y, r) * size;
        memmove(to, (const char *)a->x.data + (size_t)tx_row_offset(a->x, r) * size, (size_t)n * size);
    }
    return TX_OK;
}

tx_status tx__ref_add(tx_ctx *c, const tx_add_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->y); i < n; i++)
        tx__ref_store(a->y, i, tx__ref_load(a->a, i) + tx__ref_load(a->b, i));
    return TX_OK;
}

tx_status tx__ref_col_sum(tx_ctx *c, const tx_col_sum_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->x.dim[0], n = a->x.dim[1];
    for (int64_t j = 0; j < n; j++) {
        double sum = tx__ref_load(a->y, j);
        for (int64_t i = 0; i < rows; i++) sum += tx__ref_load(a->x, i * n + j);
        tx__ref_store(a->y, j, sum);
    }
    return TX_OK;
}

tx_status tx__ref_sumsq(tx_ctx *c, const tx_sumsq_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t n = tx_numel(a->x);
    for (int64_t first = 0; first < n; first += TX_SUMSQ_BLOCK) {
        double sum = 0;
        for (int64_t i = first; i < n && i < first + TX_SUMSQ_BLOCK; i++) {
            double x = tx__ref_load(a->x, i);
            sum += x * x;
        }
        tx__ref_store(a->out, first / TX_SUMSQ_BLOCK, sum);
    }
    return TX_OK;
}

tx_status tx__ref_magnitudes(tx_ctx *c, const tx_magnitudes_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t n = tx_numel(a->x);
    for (int64_t first = 0; first < n; first += TX_SUMSQ_BLOCK) {
        double sum[4] = { 0 };
        for (int64_t i = first; i < n && i < first + TX_SUMSQ_BLOCK; i++) {
            double x = fabs(tx__ref_load(a->x, i));
            sum[0] += x;
            sum[1] += x * x;
            sum[2] += sqrt(x);
            sum[3] = fmax(sum[3], x);
        }
        for (int j = 0; j < 4; j++) tx__ref_store(a->out, 4 * (first / TX_SUMSQ_BLOCK) + j, sum[j]);
    }
    return TX_OK;
}

tx_status tx__ref_count_zeros(tx_ctx *c, const tx_count_zeros_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t zeros = 0;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) zeros += tx__ref_load(a->x, i) == 0;
    tx__ref_store(a->out, 0, (double)zeros);
    return TX_OK;
}
