/* quantized.cu - numbers as integers of a few bits, with one scale for a block of them. */
#include "backend/gpu/gpu.h"

#include <float.h>

enum { BLOCK = TX_QUANTIZED_BLOCK, THREADS = BLOCK / 8 };

/* A block of threads makes a block of words; a thread eight elements, which are two words of 8 bits, or one of 4. */
template <class T, int BITS> __global__ void quantize_kernel(uint32_t *words, const T *x, int64_t n)
{
    const int per_word = 32 / BITS, each = 1 + BLOCK * BITS / 32;
    const float limit = BITS == 8 ? 127 : 7;
    int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x * 8;
    uint32_t *word = words + (int64_t)blockIdx.x * each;
    float v[8], most = 0, bad = 0;
    for (int k = 0; k < 8; k++) {
        v[k] = at + k < n ? f32(x[at + k]) : 0;
        if (!(fabsf(v[k]) <= FLT_MAX))
            bad = 1;
        else
            most = fmaxf(most, fabsf(v[k]));
    }
    most = block_max(most);
    bad = block_max(bad);
    float scale = most / limit;
    if (!(scale >= FLT_MIN) || bad > 0) scale = 0;
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int w = 0; w < 8 / per_word; w++) {
        uint32_t bits = 0;
        for (int k = 0; k < per_word; k++) {
            float q = scale > 0 ? fminf(fmaxf(rintf(v[w * per_word + k] * inverse), -limit), limit) : 0;
            bits |= ((uint32_t)(int32_t)q & ((1u << BITS) - 1)) << (BITS * k);
        }
        word[1 + (int)threadIdx.x * (8 / per_word) + w] = bits;
    }
    if (threadIdx.x == 0) *(float *)word = bad > 0 ? NAN : scale;
}

template <class T> __global__ void dequantize_kernel(T *y, tx_dequantize_sum_args a, int64_t n)
{
    const int per_word = 32 / a.bits, each = 1 + BLOCK * a.bits / 32;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        const uint32_t *word = (const uint32_t *)a.words.data + i / BLOCK * each;
        int in = (int)(i % BLOCK), shift = 32 - a.bits * (in % per_word + 1);
        double sum = 0;
        for (int64_t r = 0; r < a.words.dim[0]; r++, word += a.words.stride[0]) {
            int32_t q = (int32_t)(word[1 + in / per_word] << shift) >> (32 - a.bits);
            sum += (double)*(const float *)word * q;
        }
        y[i] = to<T>((float)(a.accumulate ? (double)f32(y[i]) + sum : sum));
    }
}

template <class T> static void quantize(gpuStream_t stream, const tx_quantize_args *a, int64_t n)
{
    unsigned blocks = (unsigned)((n + BLOCK - 1) / BLOCK);
    uint32_t *words = (uint32_t *)a->words.data;
    const T *x = (const T *)a->x.data;
    if (a->bits == 8)
        GPU_LAUNCH(stream, blocks, THREADS, 0, (quantize_kernel<T, 8>), words, x, n);
    else
        GPU_LAUNCH(stream, blocks, THREADS, 0, (quantize_kernel<T, 4>), words, x, n);
}

TX_GPU_ROW tx_status tx__gpu_quantize(tx_ctx *c, const tx_quantize_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x);
    TX_TRY(tx__gpu_need_float("quantize", a->x));
    if (n) GPU_FLOAT(a->x.dtype, T, quantize<T>(tx__gpu_compute(c), a, n));
    return tx__gpu_launched(c, "quantize");
}

TX_GPU_ROW tx_status tx__gpu_dequantize_sum(tx_ctx *c, const tx_dequantize_sum_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->y);
    TX_TRY(tx__gpu_need_float("dequantize_sum", a->y));
    if (n)
        GPU_FLOAT(a->y.dtype, T,
                  GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 256), 256, 0, dequantize_kernel<T>,
                             (T *)a->y.data, *a, n));
    return tx__gpu_launched(c, "dequantize_sum");
}
