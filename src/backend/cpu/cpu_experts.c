/* cpu_experts.c - rows that go to experts and come back, a run of tokens or rows per thread. */
#include <string.h>

#include "backend/cpu/cpu.h"

/* One pass over the pairs counts, and a second one puts them into their places. */
tx_status tx__cpu_expert_order(tx_ctx *c, const tx_expert_order_args *a, void *scratch)
{
    (void)c, (void)scratch;
    const int32_t *choice = a->choice.data;
    int64_t pairs = tx_numel(a->choice), room = a->source.dim[0], experts = a->count.dim[0], n = 0;
    int32_t *row = a->row.data, *source = a->source.data, *count = a->count.data;
    memset(count, 0, (size_t)experts * sizeof *count);
    for (int64_t i = 0; i < pairs; i++)
        if (choice[i] >= 0) count[choice[i]]++;
    for (int64_t e = 0; e < experts; e++) { /* where the next row of e is */
        int32_t has = count[e];
        count[e] = (int32_t)n;
        n += has;
    }
    if (n > room) return TX_FAIL(TX_ERR_SHAPE, "expert_order: more than %lld pairs are not dropped", (long long)room);
    for (int64_t i = 0; i < pairs; i++) {
        row[i] = choice[i] < 0 ? -1 : count[choice[i]]++;
        if (row[i] >= 0) source[row[i]] = (int32_t)i;
    }
    for (int64_t i = n; i < room; i++) source[i] = -1;
    for (int64_t e = experts - 1; e > 0; e--) count[e] -= count[e - 1];
    return TX_OK;
}

tx_status tx__cpu_gather_rows(tx_ctx *c, const tx_gather_rows_args *a, void *scratch)
{
    (void)scratch;
    const int32_t *index = a->index.data;
    int64_t n = a->y.dim[0], h = a->y.dim[1];
    size_t bytes = (size_t)h * tx_dtype_size(a->y.dtype);
    int parts = tx__cpu_parts(c, n, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            if (index[i] < 0)
                memset(tx__cpu_at(a->y, i * h), 0, bytes);
            else
                memcpy(tx__cpu_at(a->y, i * h), tx__cpu_at(a->x, index[i] / a->div * h), bytes);
    }
    return TX_OK;
}

/* Elements [first, first + n) of y[t]. */
static void combine(const tx_ctx *c, const tx_combine_fwd_args *a, int64_t t, int64_t first, int64_t n)
{
    float sum[TX__CPU_STRETCH], room[TX__CPU_STRETCH];
    int64_t h = a->y.dim[1], k = a->row.dim[0] / a->y.dim[0];
    const int32_t *row = (const int32_t *)a->row.data + t * k;
    const float *weight = a->weight.data ? (const float *)a->weight.data + t * k : NULL;
    memset(sum, 0, (size_t)n * sizeof *sum);
    if (a->accumulate) memcpy(sum, tx__cpu_get(c, a->y, t * h + first, n, room), (size_t)n * sizeof *sum);
    for (int64_t j = 0; j < k; j++) {
        if (row[j] < 0) continue;
        const float *z = tx__cpu_get(c, a->z, row[j] * h + first, n, room);
        float w = weight ? weight[j] : 1;
        for (int64_t i = 0; i < n; i++) sum[i] += w * z[i];
    }
    memcpy(tx__cpu_dst(a->y, t * h + first, room), sum, (size_t)n * sizeof *sum);
    tx__cpu_put(c, a->y, t * h + first, n, room);
}

tx_status tx__cpu_combine_fwd(tx_ctx *c, const tx_combine_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("combine_fwd", a->y));
    int64_t rows = a->y.dim[0], h = a->y.dim[1];
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            for (int64_t at = 0; at < h; at += TX__CPU_STRETCH)
                combine(c, a, i, at, tx__cpu_min(h - at, TX__CPU_STRETCH));
    }
    return TX_OK;
}

/* Elements [first, first + n) of pair p's row of dz; adds to its weight's gradient. */
static double spread(const tx_ctx *c, const tx_combine_bwd_args *a, int64_t p, int64_t first, int64_t n)
{
    float dy_room[TX__CPU_STRETCH], z_room[TX__CPU_STRETCH], sum[8] = { 0 }, all = 0;
    int64_t h = a->dy.dim[1], k = a->row.dim[0] / a->dy.dim[0];
    int64_t at = ((const int32_t *)a->row.data)[p] * h + first;
    float w = ((const float *)a->weight.data)[p];
    const float *dy = tx__cpu_get(c, a->dy, p / k * h + first, n, dy_room), *z = tx__cpu_get(c, a->z, at, n, z_room);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) sum[l] += dy[i + l] * z[i + l];
    for (; i < n; i++) sum[0] += dy[i] * z[i];
    for (int l = 0; l < 8; l++) all += sum[l];
    float *dz = tx__cpu_dst(a->dz, at, z_room);
    for (i = 0; i < n; i++) dz[i] = w * dy[i];
    tx__cpu_put(c, a->dz, at, n, z_room);
    return (double)all;
}

tx_status tx__cpu_combine_bwd(tx_ctx *c, const tx_combine_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("combine_bwd", a->dy));
    int64_t pairs = a->row.dim[0], h = a->dy.dim[1];
    const int32_t *row = a->row.data;
    float *dweight = a->dweight.data;
    int parts = tx__cpu_parts(c, pairs, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(pairs, 1, parts, t);
        for (int64_t p = r.lo; p < r.hi; p++) {
            double sum = 0;
            for (int64_t at = 0; at < h && row[p] >= 0; at += TX__CPU_STRETCH)
                sum += spread(c, a, p, at, tx__cpu_min(h - at, TX__CPU_STRETCH));
            dweight[p] = (float)sum;
        }
    }
    return TX_OK;
}
