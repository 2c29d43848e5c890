/* ref_distill.c - what a head learns from a teacher's logits. */
#include <math.h>

#include "backend/ref/ref.h"

tx_status tx__ref_distill_part(tx_ctx *c, const tx_distill_part_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        double z_max = -INFINITY, z_sum = 0, t_max = -INFINITY, t_sum = 0, apart = 0;
        for (int64_t j = i * v; j < i * v + a->n_here; j++) {
            z_max = fmax(z_max, tx__ref_load(a->z, j));
            t_max = fmax(t_max, tx__ref_load(a->t, j));
        }
        for (int64_t j = i * v; j < i * v + a->n_here; j++) {
            double z = tx__ref_load(a->z, j), t = tx__ref_load(a->t, j), e = exp((t - t_max) / a->temperature);
            z_sum += exp((z - z_max) / a->temperature);
            t_sum += e;
            apart += e * (t - z) / a->temperature;
            tx__ref_store(a->t, j, e);
        }
        const double stat[5] = { z_max, z_sum, t_max, t_sum, apart };
        for (int k = 0; k < 5; k++) tx__ref_store(a->stats, 5 * i + k, stat[k]);
    }
    return TX_OK;
}

tx_status tx__ref_distill_join(tx_ctx *c, const tx_distill_join_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1], parts = a->stats.dim[0];
    const double T = a->temperature;
    for (int64_t i = 0; i < rows; i++) {
        double max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0 }, apart = 0; /* of z and of t */
        for (int64_t p = 0; p < parts; p++)
            for (int k = 0; k < 2; k++) max[k] = fmax(max[k], tx__ref_load(a->stats, 5 * (p * rows + i) + 2 * k));
        for (int64_t p = 0; p < parts; p++) {
            int64_t at = 5 * (p * rows + i);
            if (tx__ref_load(a->stats, at + 1) == 0) continue; /* it has no class */
            for (int k = 0; k < 2; k++)
                sum[k] +=
                    tx__ref_load(a->stats, at + 2 * k + 1) * exp((tx__ref_load(a->stats, at + 2 * k) - max[k]) / T);
            apart += tx__ref_load(a->stats, at + 4) * exp((tx__ref_load(a->stats, at + 2) - max[1]) / T);
        }
        double lse_z = max[0] / T + log(sum[0]), lse_t = max[1] / T + log(sum[1]);
        tx__ref_store(a->loss, i, a->factor * T * T * (apart / sum[1] - lse_t + lse_z));
        double own = tx__ref_load(a->stats, 5 * (a->part * rows + i) + 2);
        double share = a->n_here ? exp((own - max[1]) / T) / sum[1] : 0, each = a->scale * a->factor * T;
        for (int64_t j = 0; j < v; j++) {
            int64_t at = i * v + j;
            double q = j < a->n_here ? exp(tx__ref_load(a->z, at) / T - lse_z) : 0;
            tx__ref_store(a->t, at, j < a->n_here ? each * (q - share * tx__ref_load(a->t, at)) : 0);
        }
    }
    return TX_OK;
}
