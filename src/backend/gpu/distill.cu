/* distill.cu - what a head learns from a teacher's logits: a block per row, twice over both rows of logits. */
#include "backend/gpu/gpu.h"

/* ---- distill_part: z, t and stats are fp32 ---- */

struct part_sizes {
    int64_t rows, v, n_here;
    float cold; /* 1 / temperature */
};

__global__ void distill_part_kernel(float *stats, float *t, const float *z, part_sizes n)
{
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        float *teacher = t + row * n.v, z_max = -INFINITY, t_max = -INFINITY, z_sum = 0, t_sum = 0, apart = 0;
        const float *student = z + row * n.v;
        for (int64_t j = threadIdx.x; j < n.n_here; j += blockDim.x) {
            z_max = fmaxf(z_max, student[j]);
            t_max = fmaxf(t_max, teacher[j]);
        }
        z_max = block_max(z_max);
        t_max = block_max(t_max);
        for (int64_t j = threadIdx.x; j < n.n_here; j += blockDim.x) {
            float zj = student[j], tj = teacher[j], e = expf((tj - t_max) * n.cold);
            z_sum += expf((zj - z_max) * n.cold);
            t_sum += e;
            apart += e * ((tj - zj) * n.cold);
            teacher[j] = e;
        }
        block_sum2(&z_sum, &t_sum);
        apart = block_sum(apart);
        if (threadIdx.x) continue;
        const float stat[5] = { z_max, z_sum, t_max, t_sum, apart };
        for (int k = 0; k < 5; k++) stats[5 * row + k] = stat[k];
    }
}

static tx_status need_fp32(const char *op, tx_tensor z)
{
    if (z.dtype == TX_F32) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: backend gpu takes fp32, not %s", op, tx_dtype_name(z.dtype));
}

TX_GPU_ROW tx_status tx__gpu_distill_part(tx_ctx *c, const tx_distill_part_args *a, void *scratch)
{
    (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    TX_TRY(need_fp32("distill_part", a->z));
    if (!rows) return TX_OK;
    const part_sizes n = { rows, v, a->n_here, (float)(1 / a->temperature) };
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)rows, tx__gpu_threads(v / 16 + 1), 0, distill_part_kernel,
               (float *)a->stats.data, (float *)a->t.data, (const float *)a->z.data, n);
    return tx__gpu_launched(c, "distill_part");
}

/* ---- distill_join ---- */

struct join_sizes {
    int64_t rows, v, n_here, parts, part;
    float cold, factor, scale; /* factor: of the loss; scale: of softmaxes in the gradient */
};

__global__ void distill_join_kernel(float *loss, float *t, const float *z, const float *stats, join_sizes n)
{
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        float z_max = -INFINITY, t_max = -INFINITY, z_sum = 0, t_sum = 0, apart = 0;
        for (int64_t p = 0; p < n.parts; p++) {
            const float *s = stats + 5 * (p * n.rows + row);
            z_max = fmaxf(z_max, s[0]);
            t_max = fmaxf(t_max, s[2]);
        }
        for (int64_t p = 0; p < n.parts; p++) {
            const float *s = stats + 5 * (p * n.rows + row);
            if (s[1] == 0) continue; /* it has no class; NaN is passed on */
            const float of_t = expf((s[2] - t_max) * n.cold);
            z_sum += s[1] * expf((s[0] - z_max) * n.cold);
            t_sum += s[3] * of_t;
            apart += s[4] * of_t;
        }
        const float lse = z_max * n.cold + logf(z_sum), lse_t = t_max * n.cold + logf(t_sum);
        const float own = stats[5 * (n.part * n.rows + row) + 2];
        const float share = n.n_here ? n.scale * expf((own - t_max) * n.cold) / t_sum : 0;
        if (threadIdx.x == 0) loss[row] = n.factor * (apart / t_sum - lse_t + lse);
        for (int64_t j = threadIdx.x; j < n.v; j += blockDim.x) {
            const int64_t at = row * n.v + j;
            t[at] = j < n.n_here ? n.scale * expf(z[at] * n.cold - lse) - share * t[at] : 0;
        }
    }
}

TX_GPU_ROW tx_status tx__gpu_distill_join(tx_ctx *c, const tx_distill_join_args *a, void *scratch)
{
    (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    const double T = a->temperature;
    TX_TRY(need_fp32("distill_join", a->z));
    if (!rows) return TX_OK;
    const join_sizes n = { rows,
                           v,
                           a->n_here,
                           a->stats.dim[0],
                           a->part,
                           (float)(1 / T),
                           (float)(a->factor * T * T),
                           (float)(a->scale * a->factor * T) };
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)rows, tx__gpu_threads(v / 16 + 1), 0, distill_join_kernel,
               (float *)a->loss.data, (float *)a->t.data, (const float *)a->z.data, (const float *)a->stats.data, n);
    return tx__gpu_launched(c, "distill_join");
}
