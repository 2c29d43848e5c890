/* gemm_emulated.cu - matrix products where there is no library for them: loops of the host's, in the stream. */
#include "backend/gpu/gpu.h"

tx_status tx__gpu_gemm_open(tx__gpu *g)
{
    (void)g;
    return TX_OK;
}

void tx__gpu_gemm_close(tx__gpu *g)
{
    (void)g;
}

static float get(const tx_tensor *x, int64_t i)
{
    if (x->dtype == TX_F32) return ((const float *)x->data)[i];
    return x->dtype == TX_BF16 ? f32(((const bf16 *)x->data)[i]) : f32(((const fp16 *)x->data)[i]);
}

static void put(const tx_tensor *x, int64_t i, float v)
{
    if (x->dtype == TX_F32)
        ((float *)x->data)[i] = v;
    else if (x->dtype == TX_BF16)
        ((bf16 *)x->data)[i] = to<bf16>(v);
    else
        ((fp16 *)x->data)[i] = to<fp16>(v);
}

/* op(X)'s rows one behind the other, in fp32. */
static float *rows_of(tx_tensor x, bool trans, int64_t rows, int64_t cols)
{
    float *y = (float *)malloc((size_t)(rows * cols) * sizeof *y + 1);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) y[i * cols + j] = get(&x, trans ? j * x.stride[0] + i : i * x.stride[0] + j);
    return y;
}

static void multiply(tx_gemm_args a)
{
    int64_t m = a.c.dim[0], n = a.c.dim[1], k = a.a.dim[a.trans_a ? 0 : 1];
    float *x = rows_of(a.a, a.trans_a, m, k), *y = rows_of(a.b, a.trans_b, k, n),
          *sum = (float *)malloc((size_t)n * 4 + 1);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            sum[j] = a.accumulate ? get(&a.c, i * a.c.stride[0] + j) : 0;
            if (a.bias.data) sum[j] += get(&a.bias, j);
        }
        for (int64_t p = 0; p < k; p++)
            for (int64_t j = 0; j < n; j++) sum[j] += x[i * k + p] * y[p * n + j];
        for (int64_t j = 0; j < n; j++) put(&a.c, i * a.c.stride[0] + j, sum[j]);
    }
    free(x);
    free(y);
    free(sum);
}

/* As much as the vendors' libraries want, in small: so that it is asked for wherever theirs is. */
enum { SCRATCH = 1 << 16 };

TX_GPU_ROW tx_status tx__gpu_gemm(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("gemm", a->a));
    tx_gemm_args copy = *a;
    emulate_host(tx__gpu_compute(c), [copy]() { multiply(copy); });
    return tx__gpu_launched(c, "gemm");
}

TX_GPU_ROW size_t tx__gpu_gemm_scratch(const tx_ctx *c, const tx_gemm_args *a)
{
    (void)c, (void)a;
    return SCRATCH;
}

/* There is one way only. */
TX_GPU_ROW int tx__gpu_gemm_n_open(const tx_ctx *c)
{
    (void)c;
    return 0;
}

TX_GPU_ROW tx_status tx__gpu_gemm_choose(tx_ctx *c)
{
    (void)c;
    return TX_OK;
}

/* Lines of those who have a choice mean nothing. */
TX_GPU_ROW tx_status tx__gpu_gemm_load(tx_ctx *c, const char *text, int *n_used, int *n_other)
{
    (void)c;
    *n_used = *n_other = 0;
    for (; *text; text++) *n_other += *text == '\n';
    return TX_OK;
}

TX_GPU_ROW tx_status tx__gpu_gemm_save(const tx_ctx *c, char **out)
{
    (void)c;
    return tx_alloc(out, 1, 1, "the list of matrix products");
}

TX_GPU_ROW void tx__gpu_libraries(tx_gpu_library *out, int *n)
{
    (void)out;
    *n = 0;
}
