/* dropout.cu - dropout with masks from global coordinates, and the residual addition behind it. One counter of the
 * generator is eight elements of its stream: a thread takes eight that lie side by side where rows begin at such. */
#include "backend/gpu/gpu.h"

/* The row's first element in the mask's stream, row being i_s b + i_b. */
__device__ static inline uint64_t first_of(const tx_dropout &mask, int64_t row, int64_t b, int64_t h)
{
    return tx_dropout_row(&mask, row / b, row % b, h);
}

/* Sizes of [s, b, h], rows being s*b. */
struct sizes {
    int64_t rows, b, h;
};

template <class Y, class X, class R>
__global__ void dropout_kernel(Y *y, const X *x, const R *residual, tx_dropout mask, sizes n)
{
    const int64_t rows = n.rows, b = n.b, h = n.h;
    float scale = (float)tx_dropout_scale(&mask);
    for (int64_t i = grid_thread(); i < rows * h; i += grid_threads()) {
        int64_t row = i / h, j = i - row * h;
        float v = f32(x[i]);
        if (mask.drop) v = tx_rng_u16(&mask.rng, first_of(mask, row, b, h) + (uint64_t)j) >= mask.drop ? v * scale : 0;
        y[i] = to<Y>(residual ? f32(residual[i]) + v : v);
    }
}

/* h is a multiple of 8, so rows begin at a counter; and all addresses are of 16 bytes. */
template <class Y, class X, class R>
__global__ void dropout_packs_kernel(Y *y, const X *x, const R *residual, tx_dropout mask, sizes n)
{
    const int64_t rows = n.rows, b = n.b, h = n.h, each = h / 8;
    float scale = (float)tx_dropout_scale(&mask);
    for (int64_t i = grid_thread(); i < rows * each; i += grid_threads()) {
        int64_t row = i / each, j = i - row * each;
        float v[8], r[8];
        load_floats<8>(x + 8 * i, v);
        if (mask.drop) {
            uint32_t w[4];
            tx_rng_u32x4(&mask.rng, (first_of(mask, row, b, h) >> 3) + (uint64_t)j, w);
            for (int k = 0; k < 8; k++) v[k] = (w[k >> 1] >> (k & 1) * 16 & 0xffffu) >= mask.drop ? v[k] * scale : 0;
        }
        if (residual) {
            load_floats<8>(residual + 8 * i, r);
            for (int k = 0; k < 8; k++) v[k] += r[k];
        }
        store_floats<8>(y + 8 * i, v);
    }
}

template <class Y, class X, class R>
static void launch(const tx_ctx *c, tx_tensor y, tx_tensor x, tx_tensor residual, const tx_dropout *mask)
{
    const sizes size = { x.dim[0] * x.dim[1], x.dim[1], x.dim[2] };
    bool starts = mask->columns % 8 == 0 && mask->first_column % 8 == 0; /* rows begin at a counter */
    bool packs = size.h % 8 == 0 && starts && aligned16(y.data) && aligned16(x.data) && aligned16(residual.data);
    int64_t n = packs ? size.rows * size.h / 8 : size.rows * size.h;
    gpuStream_t s = tx__gpu_compute(c);
    if (packs)
        GPU_LAUNCH(s, tx__gpu_blocks(c, n, 256), 256, 0, (dropout_packs_kernel<Y, X, R>), (Y *)y.data,
                   (const X *)x.data, (const R *)residual.data, *mask, size);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, n, 256), 256, 0, (dropout_kernel<Y, X, R>), (Y *)y.data, (const X *)x.data,
                   (const R *)residual.data, *mask, size);
}

TX_GPU_ROW tx_status tx__gpu_dropout_add_fwd(tx_ctx *c, const tx_dropout_add_fwd_args *a, void *scratch)
{
    (void)scratch;
    tx_dtype r = a->residual.data ? a->residual.dtype : a->y.dtype;
    TX_TRY(tx__gpu_need_float("dropout_add_fwd", a->x));
    TX_TRY(tx__gpu_need_float("dropout_add_fwd", a->y));
    TX_TRY(tx__gpu_need_float("dropout_add_fwd", a->residual));
    if (!tx_numel(a->x)) return TX_OK;
    GPU_FLOAT(a->y.dtype, Y,
              GPU_FLOAT(a->x.dtype, X, GPU_FLOAT(r, R, launch<Y, X, R>(c, a->y, a->x, a->residual, &a->mask))));
    return tx__gpu_launched(c, "dropout_add_fwd");
}

TX_GPU_ROW tx_status tx__gpu_dropout_add_bwd(tx_ctx *c, const tx_dropout_add_bwd_args *a, void *scratch)
{
    (void)scratch;
    tx_tensor none;
    memset(&none, 0, sizeof none);
    TX_TRY(tx__gpu_need_float("dropout_add_bwd", a->dx));
    TX_TRY(tx__gpu_need_float("dropout_add_bwd", a->dy));
    if (!tx_numel(a->dy)) return TX_OK;
    GPU_FLOAT(a->dx.dtype, Y, GPU_FLOAT(a->dy.dtype, X, launch<Y, X, float>(c, a->dx, a->dy, none, &a->mask)));
    return tx__gpu_launched(c, "dropout_add_bwd");
}
