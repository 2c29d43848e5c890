/* ref_quantized.c - numbers as integers of a few bits, with one scale for a block of them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/ref/ref.h"

static float scale_of(tx_tensor x, int64_t from, int64_t to, float limit)
{
    float most = 0;
    for (int64_t i = from; i < to; i++) {
        float v = fabsf((float)tx__ref_load(x, i));
        if (!(v <= FLT_MAX)) return NAN;
        if (v > most) most = v;
    }
    float scale = most / limit;
    return scale >= FLT_MIN ? scale : 0;
}

static int32_t integer_of(float x, float scale, float limit)
{
    if (!(scale > 0)) return 0;
    float q = rintf(x * (1 / scale));
    return (int32_t)fminf(fmaxf(q, -limit), limit);
}

tx_status tx__ref_quantize(tx_ctx *c, const tx_quantize_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t n = tx_numel(a->x), per_word = 32 / a->bits;
    float limit = (float)((1 << (a->bits - 1)) - 1);
    uint32_t *word = a->words.data, mask = (1u << a->bits) - 1;
    for (int64_t at = 0; at < n; at += TX_QUANTIZED_BLOCK) {
        int64_t end = at + TX_QUANTIZED_BLOCK < n ? at + TX_QUANTIZED_BLOCK : n;
        float scale = scale_of(a->x, at, end, limit);
        memcpy(word++, &scale, sizeof scale);
        for (int64_t i = at; i < at + TX_QUANTIZED_BLOCK; i++) {
            int64_t k = (i - at) % per_word;
            int32_t q = i < end ? integer_of((float)tx__ref_load(a->x, i), scale, limit) : 0;
            if (k == 0) *word = 0;
            *word |= ((uint32_t)q & mask) << a->bits * k;
            if (k == per_word - 1) word++;
        }
    }
    return TX_OK;
}

/* Element i of what a row's words stand for. */
static double number_of(tx_tensor words, int64_t row, int64_t i, int bits)
{
    int64_t in = i % TX_QUANTIZED_BLOCK, per_word = 32 / bits;
    const uint32_t *word = (const uint32_t *)words.data + row * words.stride[0] + tx_quantized_words(i - in, bits);
    float scale;
    memcpy(&scale, word, sizeof scale);
    uint32_t q = word[1 + in / per_word] >> bits * (in % per_word) & ((1u << bits) - 1);
    int32_t value = (int32_t)q - (q >> (bits - 1) ? 1 << bits : 0);
    return (double)scale * value;
}

tx_status tx__ref_dequantize_sum(tx_ctx *c, const tx_dequantize_sum_args *a, void *scratch)
{
    (void)c, (void)scratch;
    for (int64_t i = 0, n = tx_numel(a->y); i < n; i++) {
        double sum = 0;
        for (int64_t r = 0; r < a->words.dim[0]; r++) sum += number_of(a->words, r, i, a->bits);
        tx__ref_store(a->y, i, a->accumulate ? tx__ref_load(a->y, i) + sum : sum);
    }
    return TX_OK;
}
