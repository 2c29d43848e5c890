/* cpu_signs.c - signs in place of numbers, 32 in a word. */
#include "backend/cpu/cpu.h"

enum { WORD = 32, LINE = 16 * WORD }; /* elements of a word, and of a cache line of words */

tx_status tx__cpu_sign_pack(tx_ctx *c, const tx_sign_pack_args *a, void *scratch)
{
    (void)scratch;
    float *x = a->x.data, scale = (float)*(const double *)a->scale.data;
    uint32_t *word = a->bits.data;
    int64_t n = tx_numel(a->x);
    int parts = tx__cpu_parts(c, n, 1);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, LINE, parts, t);
        for (int64_t i = r.lo; i < r.hi; i += WORD) {
            uint32_t bits = 0;
            for (int64_t k = 0, some = tx__cpu_min(r.hi - i, WORD); k < some; k++) {
                uint32_t bit = x[i + k] >= 0;
                bits |= bit << k;
                x[i + k] += bit ? -scale : scale;
            }
            word[i / WORD] = bits;
        }
    }
    return TX_OK;
}

tx_status tx__cpu_sign_sum(tx_ctx *c, const tx_sign_sum_args *a, void *scratch)
{
    (void)scratch;
    float *y = a->y.data;
    const float *mask = a->mask.data;
    const uint32_t *word = a->bits.data;
    const double *scale = a->scale.data;
    int64_t n = tx_numel(a->y), rows = a->bits.dim[0], next = a->bits.stride[0], next_scale = a->scale.stride[0];
    int parts = tx__cpu_parts(c, n, 1);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range part = tx__cpu_part(n, LINE, parts, t);
        for (int64_t i = part.lo; i < part.hi; i += WORD) {
            double sum[WORD] = { 0 };
            int64_t some = tx__cpu_min(part.hi - i, WORD);
            for (int64_t r = 0; r < rows; r++) {
                uint32_t bits = word[r * next + i / WORD];
                double one = scale[r * next_scale];
                for (int k = 0; k < WORD; k++) sum[k] += bits >> k & 1 ? one : -one;
            }
            for (int64_t k = 0; k < some; k++)
                y[i + k] =
                    mask && mask[i + k] == 0 ? 0 : (float)(a->factor * sum[k] + (a->accumulate ? (double)y[i + k] : 0));
        }
    }
    return TX_OK;
}
