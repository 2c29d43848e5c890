/* basic.cu - fill. */
#include "backend/gpu/gpu.h"

template <class T> __global__ void fill_kernel(T *x, T value, int64_t n)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) x[i] = value;
}

template <class T> static void fill(const tx_ctx *c, tx_tensor x, T value)
{
    int64_t n = tx_numel(x);
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 256), 256, 0, fill_kernel<T>, (T *)x.data, value, n);
}

TX_GPU_ROW tx_status tx__gpu_fill(tx_ctx *c, const tx_fill_args *a, void *scratch)
{
    (void)scratch;
    if (a->x.dtype == TX_I32)
        fill<int32_t>(c, a->x, (int32_t)a->value);
    else if (a->x.dtype == TX_F64)
        fill<double>(c, a->x, a->value);
    else {
        TX_TRY(tx__gpu_need_float("fill", a->x));
        GPU_FLOAT(a->x.dtype, T, fill<T>(c, a->x, to<T>((float)a->value)));
    }
    return tx__gpu_launched(c, "fill");
}
