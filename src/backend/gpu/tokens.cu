/* tokens.cu - some tokens of each sample taken out of all, and put back. */
#include "backend/gpu/gpu.h"

enum { THREADS = 256 };

/* n rows of h columns each, b in a position; all have s positions from `first` on. */
struct token_rows {
    const int32_t *position;
    int64_t n, b, s, h, first;
};

/* N columns a thread. */
template <int N, class T> __global__ void gather_tokens_kernel(T *y, const T *x, token_rows r)
{
    const int64_t each = r.h / N;
    for (int64_t t = grid_thread(); t < r.n * each; t += grid_threads()) {
        int64_t i = t / each, j = (t - i * each) * N, at = r.position[i] - r.first;
        pack<T, N> v;
        memset(&v, 0, sizeof v);
        if (at >= 0 && at < r.s) v = load_pack<T, N>(x + (at * r.b + i % r.b) * r.h + j);
        store_pack<T, N>(y + i * r.h + j, v);
    }
}

template <int N, class T> __global__ void scatter_tokens_kernel(T *y, const T *x, token_rows r)
{
    const int64_t each = r.h / N;
    for (int64_t t = grid_thread(); t < r.n * each; t += grid_threads()) {
        int64_t i = t / each, j = (t - i * each) * N, at = r.position[i] - r.first;
        if (at >= 0 && at < r.s) store_pack<T, N>(y + (at * r.b + i % r.b) * r.h + j, load_pack<T, N>(x + i * r.h + j));
    }
}

static token_rows rows_of(tx_tensor some, tx_tensor all, tx_tensor position, int64_t first)
{
    token_rows r = {
        (const int32_t *)position.data, some.dim[0] * some.dim[1], some.dim[1], all.dim[0], some.dim[2], first
    };
    return r;
}

/* Whether rows can be read and written in packs of 16 bytes. */
static bool in_packs(int64_t h, tx_tensor a, tx_tensor b)
{
    return h * (int64_t)tx_dtype_size(a.dtype) % 16 == 0 && aligned16(a.data) && aligned16(b.data);
}

template <class T> static void gather_tokens(const tx_ctx *c, tx_tensor y, tx_tensor x, token_rows r)
{
    const int N = pack_of<T>::n;
    gpuStream_t s = tx__gpu_compute(c);
    if (in_packs(r.h, y, x))
        GPU_LAUNCH(s, tx__gpu_blocks(c, r.n * r.h / N, THREADS), THREADS, 0, (gather_tokens_kernel<pack_of<T>::n, T>),
                   (T *)y.data, (const T *)x.data, r);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, r.n * r.h, THREADS), THREADS, 0, (gather_tokens_kernel<1, T>), (T *)y.data,
                   (const T *)x.data, r);
}

template <class T> static void scatter_tokens(const tx_ctx *c, tx_tensor y, tx_tensor x, token_rows r)
{
    const int N = pack_of<T>::n;
    gpuStream_t s = tx__gpu_compute(c);
    if (in_packs(r.h, y, x))
        GPU_LAUNCH(s, tx__gpu_blocks(c, r.n * r.h / N, THREADS), THREADS, 0, (scatter_tokens_kernel<pack_of<T>::n, T>),
                   (T *)y.data, (const T *)x.data, r);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, r.n * r.h, THREADS), THREADS, 0, (scatter_tokens_kernel<1, T>), (T *)y.data,
                   (const T *)x.data, r);
}

TX_GPU_ROW tx_status tx__gpu_gather_tokens(tx_ctx *c, const tx_gather_tokens_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("gather_tokens", a->y));
    GPU_FLOAT(a->y.dtype, T, gather_tokens<T>(c, a->y, a->x, rows_of(a->y, a->x, a->position, a->first)));
    return tx__gpu_launched(c, "gather_tokens");
}

TX_GPU_ROW tx_status tx__gpu_scatter_tokens(tx_ctx *c, const tx_scatter_tokens_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("scatter_tokens", a->y));
    GPU_FLOAT(a->y.dtype, T, scatter_tokens<T>(c, a->y, a->x, rows_of(a->x, a->y, a->position, a->first)));
    return tx__gpu_launched(c, "scatter_tokens");
}
