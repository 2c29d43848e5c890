/* compose.c - ops that are made of other ops. Their rows run in a dry run too, so that the parts count their scratch.
 */
#include "backend/backend.h"

/* Logits that exist at a time, in bytes, and the fewest rows worth a matrix product. W is read and dW read and written
 * once for each chunk, so fewer rows cost bandwidth and more cost memory. bench/op_bench.c, v = 50304, h = 768, two
 * cores: 16 MiB 287, 32 MiB 345, 64 MiB 367, all at once 390 GFLOP/s. */
#define HEAD_BYTES    ((int64_t)64 << 20)
#define HEAD_MIN_ROWS 32

static int64_t head_chunk(const tx_head_loss_args *a)
{
    int64_t rows = a->x.dim[0], fit = HEAD_BYTES / (a->w.dim[0] * (int64_t)tx_dtype_size(tx_wide(a->x.dtype)));
    if (fit < HEAD_MIN_ROWS) fit = HEAD_MIN_ROWS;
    int64_t n_chunks = (rows + fit - 1) / fit;
    return (rows + n_chunks - 1) / n_chunks; /* even: the last is hardly shorter than the others */
}

static size_t head_loss_scratch(const tx_ctx *c, const tx_head_loss_args *a)
{
    (void)c;
    tx_dtype t = a->x.dtype, wide = tx_wide(t);
    size_t rounded = a->weight.data && t != wide ? tx_dtype_size(t) : 0;
    return (size_t)(head_chunk(a) * a->w.dim[0]) * (tx_dtype_size(wide) + rounded);
}

static tx_status head_loss(tx_ctx *c, const tx_head_loss_args *a, void *scratch)
{
    int64_t rows = a->x.dim[0], v = a->w.dim[0], chunk = head_chunk(a);
    tx_dtype t = a->x.dtype, wide = tx_wide(t);
    bool grad = a->weight.data != NULL;
    for (int64_t first = 0; first < rows; first += chunk) {
        int64_t n = rows - first < chunk ? rows - first : chunk;
        tx_tensor z = tx_tensor2(scratch, wide, n, v), rounded = { 0 }, x = tx_slice_rows(a->x, first, n);
        if (grad && t != wide)
            rounded = tx_tensor2((char *)scratch + (size_t)(chunk * v) * tx_dtype_size(wide), t, n, v);
        tx_tensor dz = rounded.data ? rounded : z;
        tx_at_rows(c, first, n);
        /* 1  z = x Wᵀ */
        TX_RUN(c, gemm, .c = z, .a = x, .b = a->w, .trans_b = true);
        /* 2  loss, dz */
        TX_RUN(c, cross_entropy, .loss = tx_slice1(a->loss, first, n), .z = z, .dz = rounded,
               .y = tx_slice1(a->y, first, n), .weight = grad ? tx_slice1(a->weight, first, n) : (tx_tensor){ 0 },
               .n_valid = a->n_valid, .smoothing = a->smoothing);
        if (!grad) continue;
        tx_at_backward(c, true);
        /* 3  dx = dz W */
        TX_RUN(c, gemm, .c = tx_slice_rows(a->dx, first, n), .a = dz, .b = a->w);
        /* 4  dW += dzᵀ x, or = for the first rows */
        TX_RUN(c, gemm, .c = a->dw, .a = dz, .b = x, .trans_a = true, .accumulate = a->accumulate || first > 0);
        tx_at_backward(c, false);
    }
    tx_at_rows(c, 0, 0);
    return TX_OK;
}

void tx__compose_ops(tx_ops *ops)
{
    ops->head_loss = (tx_head_loss_row){ .run = head_loss, .scratch = head_loss_scratch, .composed = true };
}
