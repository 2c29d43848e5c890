/* cpu_quantized.c - numbers as integers of a few bits, with one scale for a block of them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { BLOCK = TX_QUANTIZED_BLOCK };

/* As ref's: a sum of what is not finite is neither, and a maximum of finite numbers no matter of order. */
static float scale_of(const float *x, int64_t n, float limit)
{
    float most = 0, bad = 0;
    for (int64_t i = 0; i < n; i++) {
        float v = fabsf(x[i]);
        most = v > most ? v : most;
        bad += x[i] * 0;
    }
    float scale = most / limit;
    if (bad != 0) return NAN; /* NaN is not 0 either */
    return scale >= FLT_MIN ? scale : 0;
}

/* The low bits of x / scale, rounded: of its sum with 1.5 2^23, whose last bit is worth 1. |x| / scale is at most the
 * limit and a half of the last bit, which rounds to the limit. */
static void integers_of(uint32_t *q, const float *x, float scale, int64_t n)
{
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int64_t i = 0; i < n; i++) {
        float sum = x[i] * inverse + 0x1.8p23F;
        memcpy(q + i, &sum, sizeof sum);
    }
    memset(q + n, 0, (size_t)(BLOCK - n) * sizeof *q);
}

static void pack(uint32_t *word, const uint32_t *q, int bits)
{
    if (bits == 8)
        for (int i = 0; i < BLOCK / 4; i++, q += 4)
            word[i] = (q[0] & 255) | (q[1] & 255) << 8 | (q[2] & 255) << 16 | q[3] << 24;
    else
        for (int i = 0; i < BLOCK / 8; i++, q += 8) {
            uint32_t w = 0;
            for (int k = 0; k < 8; k++) w |= (q[k] & 15) << 4 * k;
            word[i] = w;
        }
}

tx_status tx__cpu_quantize(tx_ctx *c, const tx_quantize_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("quantize", a->x));
    int64_t n = tx_numel(a->x), each = tx_quantized_words(BLOCK, a->bits);
    float limit = a->bits == 8 ? 127 : 7;
    int parts = tx__cpu_parts(c, n, 1);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, BLOCK, parts, t);
        float room[BLOCK];
        uint32_t q[BLOCK], *word = (uint32_t *)a->words.data + r.lo / BLOCK * each;
        for (int64_t i = r.lo; i < r.hi; i += BLOCK, word += each) {
            int64_t some = tx__cpu_min(r.hi - i, BLOCK);
            const float *x = tx__cpu_get(c, a->x, i, some, room);
            float scale = scale_of(x, some, limit);
            memcpy(word, &scale, sizeof scale);
            integers_of(q, x, scale, some);
            if (!(scale > 0)) memset(q, 0, sizeof q);
            pack(word + 1, q, a->bits);
        }
    }
    return TX_OK;
}

static void unpack(int32_t *q, const uint32_t *word, int bits)
{
    if (bits == 8)
        for (int i = 0; i < BLOCK; i++) q[i] = ((const int8_t *)word)[i];
    else
        for (int i = 0; i < BLOCK / 8; i++)
            for (int k = 0; k < 8; k++) q[8 * i + k] = (int32_t)(word[i] << (28 - 4 * k)) >> 28;
}

tx_status tx__cpu_dequantize_sum(tx_ctx *c, const tx_dequantize_sum_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("dequantize_sum", a->y));
    int64_t n = tx_numel(a->y), rows = a->words.dim[0], each = tx_quantized_words(BLOCK, a->bits);
    int parts = tx__cpu_parts(c, n, rows);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range part = tx__cpu_part(n, BLOCK, parts, t);
        float room[BLOCK];
        int32_t q[BLOCK];
        for (int64_t i = part.lo; i < part.hi; i += BLOCK) {
            int64_t some = tx__cpu_min(part.hi - i, BLOCK);
            double sum[BLOCK] = { 0 };
            const float *before = a->accumulate ? tx__cpu_get(c, a->y, i, some, room) : NULL;
            for (int64_t r = 0; r < rows; r++) {
                const uint32_t *word = (const uint32_t *)a->words.data + r * a->words.stride[0] + i / BLOCK * each;
                float scale;
                memcpy(&scale, word, sizeof scale);
                unpack(q, word + 1, a->bits);
                for (int k = 0; k < BLOCK; k++) sum[k] += (double)scale * q[k];
            }
            float *y = tx__cpu_dst(a->y, i, room);
            for (int64_t k = 0; k < some; k++) y[k] = (float)(before ? (double)before[k] + sum[k] : sum[k]);
            tx__cpu_put(c, a->y, i, some, room);
        }
    }
    return TX_OK;
}
