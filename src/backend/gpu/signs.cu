/* signs.cu - signs in place of numbers, 32 in a word. */
#include "backend/gpu/gpu.h"

enum { WORD = 32 };

struct sign_arrays {
    float *x;
    uint32_t *word;
    const double *scale;
    const float *mask;
    int64_t n, words, rows, next, next_scale;
    double factor;
    bool accumulate;
};

/* A thread makes a word. */
__global__ void sign_pack_kernel(sign_arrays a)
{
    float scale = (float)*a.scale;
    for (int64_t w = grid_thread(); w < a.words; w += grid_threads()) {
        uint32_t bits = 0;
        for (int64_t i = w * WORD; i < a.n && i < (w + 1) * WORD; i++) {
            uint32_t bit = a.x[i] >= 0;
            bits |= bit << (i % WORD);
            a.x[i] += bit ? -scale : scale;
        }
        a.word[w] = bits;
    }
}

__global__ void sign_sum_kernel(sign_arrays a)
{
    for (int64_t i = grid_thread(); i < a.n; i += grid_threads()) {
        double sum = 0;
        for (int64_t r = 0; r < a.rows; r++) {
            double one = a.scale[r * a.next_scale];
            sum += a.word[r * a.next + i / WORD] >> (i % WORD) & 1 ? one : -one;
        }
        sum = a.factor * sum + (a.accumulate ? (double)a.x[i] : 0);
        a.x[i] = a.mask && a.mask[i] == 0 ? 0.0f : (float)sum;
    }
}

TX_GPU_ROW tx_status tx__gpu_sign_pack(tx_ctx *c, const tx_sign_pack_args *a, void *scratch)
{
    (void)scratch;
    sign_arrays x = {};
    x.x = (float *)a->x.data;
    x.word = (uint32_t *)a->bits.data;
    x.scale = (const double *)a->scale.data;
    x.n = tx_numel(a->x);
    x.words = tx_numel(a->bits);
    if (x.n) GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, x.words, 256), 256, 0, sign_pack_kernel, x);
    return tx__gpu_launched(c, "sign_pack");
}

TX_GPU_ROW tx_status tx__gpu_sign_sum(tx_ctx *c, const tx_sign_sum_args *a, void *scratch)
{
    (void)scratch;
    sign_arrays x = {};
    x.x = (float *)a->y.data;
    x.word = (uint32_t *)a->bits.data;
    x.scale = (const double *)a->scale.data;
    x.mask = (const float *)a->mask.data;
    x.n = tx_numel(a->y);
    x.rows = a->bits.dim[0];
    x.next = a->bits.stride[0];
    x.next_scale = a->scale.stride[0];
    x.factor = a->factor;
    x.accumulate = a->accumulate;
    if (x.n) GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, x.n, 256), 256, 0, sign_sum_kernel, x);
    return tx__gpu_launched(c, "sign_sum");
}
