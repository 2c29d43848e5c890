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
        if (a->z_loss.data) tx__ref_store(a->z_loss, i, y[i] < 0 ? 0 : a->z_weight * lse * lse);
        if (!a->weight.data) continue;
        double weight = y[i] < 0 ? 0 : tx__ref_load(a->weight, i), slope = tx_z_slope(a->z_weight, lse);
        for (int64_t j = 0; j < v; j++) {
            bool live = y[i] >= 0 && j < a->n_valid;
            double softmax = live ? exp(tx__ref_load(a->z, at + j) - lse) : 0;
            tx__ref_store(dz, i * dz.stride[0] + j,
                          live ? weight * (slope * softmax - (1 - even) * (j == y[i]) - each) : 0);
        }
    }
    return TX_OK;
}

/* ---- what becomes of products before that ---- */

tx_status tx__ref_softcap_fwd(tx_ctx *c, const tx_softcap_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double scale = tx__scale_or_1(a->form.scale), cap = a->form.cap;
    for (int64_t i = 0; i < a->x.dim[0]; i++)
        for (int64_t j = 0; j < a->x.dim[1]; j++) {
            double x = scale * tx__ref_load(a->x, i * a->x.stride[0] + j);
            tx__ref_store(a->y, i * a->y.stride[0] + j, cap > 0 ? cap * tanh(x / cap) : x);
        }
    return TX_OK;
}

tx_status tx__ref_softcap_bwd(tx_ctx *c, const tx_softcap_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    double scale = tx__scale_or_1(a->form.scale), cap = a->form.cap;
    for (int64_t i = 0, n = tx_numel(a->dy); i < n; i++) {
        double t = cap > 0 ? tx__ref_load(a->y, i) / cap : 0;
        tx__ref_store(a->dx, i, tx__ref_load(a->dy, i) * scale * (1 - t * t));
    }
    return TX_OK;
}

/* ---- classes split over ranks ---- */

tx_status tx__ref_cross_entropy_part(tx_ctx *c, const tx_cross_entropy_part_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1], n = a->classes.n_here;
    const int32_t *y = a->y.data;
    TX_TRY(tx__check_index("cross_entropy_part", "y", a->y, -1, a->classes.n_valid));
    for (int64_t i = 0; i < rows; i++) {
        double max = -INFINITY, sum = 0, total = 0;
        int64_t label = y[i] - a->classes.first;
        for (int64_t j = 0; j < n; j++) max = fmax(max, tx__ref_load(a->z, i * v + j));
        double z_y = y[i] >= 0 && label >= 0 && label < n ? tx__ref_load(a->z, i * v + label) : 0;
        for (int64_t j = 0; j < n; j++) {
            double z = tx__ref_load(a->z, i * v + j);
            total += z;
            sum += exp(z - max);
            if (a->keep) tx__ref_store(a->z, i * v + j, exp(z - max));
        }
        const double stat[4] = { max, sum, z_y, total };
        for (int k = 0; k < 4; k++) tx__ref_store(a->stats, 4 * i + k, stat[k]);
    }
    return TX_OK;
}

tx_status tx__ref_cross_entropy_join(tx_ctx *c, const tx_cross_entropy_join_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->loss.dim[0], v = a->z.dim[1], parts = a->stats.dim[0];
    tx_tensor dz = a->dz.data ? a->dz : a->z;
    const int32_t *y = a->y.data;
    double even = tx_even_smoothing(a->smoothing, a->classes.n_valid), each = even / (double)a->classes.n_valid;
    TX_TRY(tx__check_index("cross_entropy_join", "y", a->y, -1, a->classes.n_valid));
    for (int64_t i = 0; i < rows; i++) {
        double max = -INFINITY, sum = 0, z_y = 0, total = 0;
        for (int64_t p = 0; p < parts; p++) max = fmax(max, tx__ref_load(a->stats, 4 * (p * rows + i)));
        for (int64_t p = 0; p < parts; p++) {
            int64_t at = 4 * (p * rows + i);
            double part = tx__ref_load(a->stats, at + 1);
            if (part > 0) sum += part * exp(tx__ref_load(a->stats, at) - max);
            z_y += tx__ref_load(a->stats, at + 2);
            total += tx__ref_load(a->stats, at + 3);
        }
        double lse = max + log(sum);
        tx__ref_store(a->loss, i, y[i] < 0 ? 0 : lse - (1 - even) * z_y - each * total);
        if (a->z_loss.data) tx__ref_store(a->z_loss, i, y[i] < 0 ? 0 : a->z_weight * lse * lse);
        if (!a->weight.data) continue;
        double share = exp(tx__ref_load(a->stats, 4 * (a->part * rows + i)) - max) / sum * tx_z_slope(a->z_weight, lse);
        double weight = y[i] < 0 ? 0 : tx__ref_load(a->weight, i);
        for (int64_t j = 0; j < v; j++) {
            bool here = j < a->classes.n_here, label = here && y[i] - a->classes.first == j;
            double softmax = here ? tx__ref_load(a->z, i * v + j) * share : 0;
            tx__ref_store(dz, i * v + j, here ? weight * (softmax - (1 - even) * label - each) : 0);
        }
    }
    return TX_OK;
}
