/* ref_signs.c - signs in place of numbers, 32 in a word. */
#include "backend/ref/ref.h"

static bool bit_of(tx_tensor bits, int64_t row, int64_t i)
{
    const uint32_t *word = bits.data;
    return word[row * bits.stride[0] + i / 32] >> i % 32 & 1;
}

tx_status tx__ref_sign_pack(tx_ctx *c, const tx_sign_pack_args *a, void *scratch)
{
    (void)c, (void)scratch;
    uint32_t *word = a->bits.data;
    double scale = (double)(float)*(const double *)a->scale.data;
    for (int64_t i = 0, n = tx_numel(a->x); i < n; i++) {
        double x = tx__ref_load(a->x, i);
        if (i % 32 == 0) word[i / 32] = 0;
        if (x >= 0) word[i / 32] |= (uint32_t)1 << i % 32;
        tx__ref_store(a->x, i, x >= 0 ? x - scale : x + scale);
    }
    return TX_OK;
}

tx_status tx__ref_sign_sum(tx_ctx *c, const tx_sign_sum_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const double *scale = a->scale.data;
    for (int64_t i = 0, n = tx_numel(a->y); i < n; i++) {
        double sum = 0;
        for (int64_t r = 0; r < a->bits.dim[0]; r++)
            sum += bit_of(a->bits, r, i) ? scale[r * a->scale.stride[0]] : -scale[r * a->scale.stride[0]];
        if (a->mask.data && tx__ref_load(a->mask, i) == 0)
            tx__ref_store(a->y, i, 0);
        else
            tx__ref_store(a->y, i, a->factor * sum + (a->accumulate ? tx__ref_load(a->y, i) : 0));
    }
    return TX_OK;
}
