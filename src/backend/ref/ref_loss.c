/* ref_loss.c - softmax cross-entropy and its gradient. */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_cross_entropy(tx_ctx *c, const tx_cross_entropy_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    tx_tensor dz = a->dz.data ? a->dz : a->z;
    const int32_t *y = a->y.data;
    double even = tx_even_smoothing(a->smoothing, a->n_valid), each = even / (double)a->n_valid;
    TX_TRY(tx__check_index("cross_entropy", "y", a->y, -1, a->n_valid));
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = i * a->z.stride[0];
        double max = -INFINITY, sum = 0, total = 0;
        for (int64_t j = 0; j < a->n_valid; j++) max = fmax(max, tx__ref_load(a->z, at + j));
        for (int64_t j = 0; j < a->n_valid; j++) sum += exp(tx__ref_load(a->z, at + j) - max);
        for (int64_t j = 0; j < a->n_valid && even > 0; j++) total += tx__ref_load(a->z, at + j);
        double lse = max + log(sum);
        tx__ref_store(a->loss, i, y[i] < 0 ? 0 : lse - (1 - even) * tx__ref_load(a->z, at + y[i]) - each * total);
        if (!a->weight.data) continue;
        double weight = y[i] < 0 ? 0 : tx__ref_load(a->weight, i);
        for (int64_t j = 0; j < v; j++) {
            bool live = y[i] >= 0 && j < a->n_valid;
            double softmax = live ? exp(tx__ref_load(a->z, at + j) - lse) : 0;
            tx__ref_store(dz, i * dz.stride[0] + j, live ? weight * (softmax - (1 - even) * (j == y[i]) - each) : 0);
        }
    }
    return TX_OK;
}
