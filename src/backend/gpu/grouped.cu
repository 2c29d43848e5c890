/* grouped.cu - products of packed rows with each group's matrix, group by group.
 *
 *  A library's algorithm is chosen for a shape, and how many rows a group has is known when the step runs. So a group's
 * rows are cut into pieces of few sizes, 2^i and 3 2^i, the largest first. A dry run shows each of them. */
#include "backend/gpu/gpu.h"

/* The first piece of n rows, which are some. */
static int64_t piece_of(int64_t n)
{
    int64_t size = 1;
    while (2 * size <= n) size *= 2;
    return size > 1 && size / 2 * 3 <= n ? size / 2 * 3 : size;
}

static tx_tensor member(tx_tensors x, int64_t i)
{
    tx_tensor none;
    memset(&none, 0, sizeof none);
    return x.first ? *tx_nth_tensor(x, i) : none;
}

/* ---- c = a op(b_g) + bias_g ---- */

static tx_gemm_args forward_of(const tx_grouped_gemm_args *a, int64_t g, int64_t first, int64_t n)
{
    tx_gemm_args one;
    memset(&one, 0, sizeof one);
    one.c = tx_slice_rows(a->c, first, n);
    one.a = tx_slice_rows(a->a, first, n);
    one.b = member(a->b, g);
    one.bias = member(a->bias, g);
    one.trans_b = a->trans_b;
    return one;
}

TX_GPU_ROW size_t tx__gpu_grouped_gemm_scratch(const tx_ctx *c, const tx_grouped_gemm_args *a)
{
    size_t most = 0;
    for (int64_t n = a->a.dim[0]; n > 0; n--) {
        n = piece_of(n);
        const tx_gemm_args one = forward_of(a, 0, 0, n);
        size_t bytes = tx__gpu_gemm_scratch(c, &one);
        if (bytes > most) most = bytes;
    }
    return most;
}

TX_GPU_ROW tx_status tx__gpu_grouped_gemm(tx_ctx *c, const tx_grouped_gemm_args *a, void *scratch)
{
    const int32_t *count = (const int32_t *)a->count.data;
    TX_TRY(tx__check_groups("grouped_gemm", a->count, a->a.dim[0]));
    for (int64_t g = 0, at = 0; g < a->count.dim[0]; g++)
        for (int64_t n = count[g], size; n > 0; at += size, n -= size) {
            size = piece_of(n);
            const tx_gemm_args one = forward_of(a, g, at, size);
            TX_TRY(tx__gpu_gemm(c, &one, scratch));
        }
    return TX_OK;
}

/* ---- dw_g, dbias_g ---- */

/* @adds to what dw_g has */
static tx_gemm_args gradient_of(const tx_grouped_dw_args *a, int64_t g, int64_t first, int64_t n, bool adds)
{
    tx_gemm_args one;
    memset(&one, 0, sizeof one);
    one.c = member(a->dw, g);
    one.a = tx_slice_rows(a->dy, first, n);
    one.b = tx_slice_rows(a->x, first, n);
    one.trans_a = true;
    one.accumulate = adds;
    return one;
}

static tx_col_sum_args bias_gradient_of(const tx_grouped_dw_args *a, int64_t g, int64_t first, int64_t n)
{
    tx_col_sum_args sum;
    memset(&sum, 0, sizeof sum);
    sum.y = member(a->dbias, g);
    sum.x = tx_slice_rows(a->dy, first, n);
    return sum;
}

/* Of any number of rows, since a run may have more than a dry run. All pieces but the first one add, that one if all
 * do. */
TX_GPU_ROW size_t tx__gpu_grouped_dw_scratch(const tx_ctx *c, const tx_grouped_dw_args *a)
{
    int64_t columns = a->dy.dim[1];
    size_t most = a->dbias.first ? (size_t)(tx__gpu_row_parts(INT32_MAX, columns) * columns) * sizeof(float) : 0;
    for (int64_t n = a->dy.dim[0]; n > 0; n--) {
        n = piece_of(n);
        const tx_gemm_args first = gradient_of(a, 0, 0, n, a->accumulate), behind = gradient_of(a, 0, 0, n, true);
        size_t bytes = tx__gpu_gemm_scratch(c, &first), more = tx__gpu_gemm_scratch(c, &behind);
        if (bytes > most) most = bytes;
        if (more > most) most = more;
    }
    return most;
}

/* Rows of group g. */
static tx_status add_group(tx_ctx *c, const tx_grouped_dw_args *a, int64_t g, int64_t first, void *scratch)
{
    int64_t rows = ((const int32_t *)a->count.data)[g];
    tx_tensor dw = member(a->dw, g);
    if (!rows && !a->accumulate)
        GPU_TRY(gpuMemsetAsync(dw.data, 0, (size_t)tx_numel(dw) * tx_dtype_size(dw.dtype), tx__gpu_compute(c)));
    for (int64_t n = rows, at = first, size; n > 0; at += size, n -= size) {
        size = piece_of(n);
        const tx_gemm_args one = gradient_of(a, g, at, size, a->accumulate || at > first);
        TX_TRY(tx__gpu_gemm(c, &one, scratch));
    }
    const tx_col_sum_args sum = bias_gradient_of(a, g, first, rows);
    return rows && a->dbias.first ? tx__gpu_col_sum(c, &sum, scratch) : TX_OK;
}

TX_GPU_ROW tx_status tx__gpu_grouped_dw(tx_ctx *c, const tx_grouped_dw_args *a, void *scratch)
{
    const int32_t *count = (const int32_t *)a->count.data;
    TX_TRY(tx__check_groups("grouped_dw", a->count, a->dy.dim[0]));
    for (int64_t g = 0, first = 0; g < a->count.dim[0]; first += count[g], g++)
        TX_TRY(add_group(c, a, g, first, scratch));
    return tx__gpu_launched(c, "grouped_dw");
}
