/* loss.cu - softmax cross-entropy and its gradient: a block per row, which goes over the row twice: once for the
 * largest logit and the sum together, once for the gradient. To keep a row in shared memory between is slower: a
 * multiprocessor then has one block, which waits for memory and computes in turns. */
#include "backend/gpu/gpu.h"

/* exp(x - max) summed: of two such sums the one for the larger maximum. */
struct softmax_sum {
    float max, sum;
};

__device__ static inline softmax_sum join(softmax_sum a, softmax_sum b)
{
    softmax_sum out;
    out.max = fmaxf(a.max, b.max);
    if (out.max == -INFINITY) {
        out.sum = 0;
        return out;
    }
    out.sum = a.sum * expf(a.max - out.max) + b.sum * expf(b.max - out.max);
    return out;
}

/* Of all threads, in all of them, in the order of threads whatever the width of a warp. */
__device__ static inline softmax_sum block_join(softmax_sum mine)
{
    float max = block_max(mine.max);
    softmax_sum out;
    out.max = max;
    out.sum = block_sum(mine.max == -INFINITY ? 0.0f : mine.sum * expf(mine.max - max));
    if (isnan(mine.sum) || isnan(out.sum)) out.sum = out.sum; /* NaN is passed on by the sum */
    return out;
}

/* Numbers that a thread takes at a time where rows allow it. */
enum { AT_ONCE = 4 };

static bool at_once(const void *x, int64_t stride)
{
    return aligned16(x) && stride % 8 == 0;
}

/* fmaxf drops NaN; the sum has it. */
template <int N> __device__ static inline void take(softmax_sum *s, float *total, const float *v)
{
    float most = s->max;
    for (int k = 0; k < N; k++) most = fmaxf(most, v[k]);
    if (most > s->max) {
        s->sum *= expf(s->max - most);
        s->max = most;
    }
    for (int k = 0; k < N; k++) {
        *total += v[k];
        s->sum += expf(v[k] - most);
    }
}

/* A thread's share of z[0 .. n), of which the first n_packs packs are taken at once. */
template <class Z> __device__ static inline softmax_sum own_share(const Z *z, int64_t n, int64_t n_packs, float *total)
{
    softmax_sum s = { -INFINITY, 0 };
    for (int64_t i = threadIdx.x; i < n_packs; i += blockDim.x) {
        float v[AT_ONCE];
        load_floats<AT_ONCE>(z + AT_ONCE * i, v);
        take<AT_ONCE>(&s, total, v);
    }
    for (int64_t j = AT_ONCE * n_packs + threadIdx.x; j < n; j += blockDim.x) {
        float v = f32(z[j]);
        take<1>(&s, total, &v);
    }
    return s;
}

/* Whether the row has a label; one that is none is a fault, and counts as none. */
__device__ static inline bool has_label(const int32_t *y, int64_t row, int64_t n_valid, tx__fault *fault)
{
    if (y[row] >= -1 && y[row] < n_valid) return y[row] >= 0;
    if (threadIdx.x == 0) tx__gpu_fault(fault, TX__FAULT_LABEL, row, y[row], n_valid);
    return false;
}

/* ---- cross_entropy ---- */

struct loss_rows {
    float *loss;
    const int32_t *y;
    const float *weight; /* NULL: no gradient */
    tx__fault *fault;
    int64_t rows, v, n_valid, z_stride, dz_stride;
    bool packed; /* rows allow packs */
    float even, each, z_weight;
    float *z_loss; /* NULL: not asked for */
};

/* What a row's gradients depend on. */
struct row_loss {
    float lse, weight, even, each, z_slope;
    int64_t label, n_valid; /* none: -1, 0 */
};

__device__ static inline float slope(const row_loss &r, int64_t j, float z)
{
    return j < r.n_valid ? r.weight * (r.z_slope * expf(z - r.lse) - (j == r.label ? 1 - r.even : 0) - r.each) : 0;
}

template <class Z, class D> __global__ void cross_entropy_kernel(Z *z, D *dz, loss_rows n)
{
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        Z *from = z + row * n.z_stride;
        D *grad = dz + row * n.dz_stride;
        bool live = has_label(n.y, row, n.n_valid, n.fault);
        int64_t label = live ? n.y[row] : 0;
        float total = 0, at_label = f32(from[label]);
        int64_t packs = n.packed ? n.n_valid / AT_ONCE : 0;
        softmax_sum s = block_join(own_share(from, n.n_valid, packs, &total));
        if (n.even > 0) total = block_sum(total);
        float lse = s.max + logf(s.sum);
        __syncthreads(); /* everybody has read the label's logit */
        if (threadIdx.x == 0) n.loss[row] = live ? lse - (1 - n.even) * at_label - n.each * total : 0;
        if (threadIdx.x == 0 && n.z_loss) n.z_loss[row] = live ? n.z_weight * lse * lse : 0;
        if (!n.weight) continue;
        const float z_slope = (float)tx_z_slope(n.z_weight, lse);
        const row_loss r = { lse, live ? n.weight[row] : 0, n.even, n.each, z_slope, label, live ? n.n_valid : 0 };
        for (int64_t i = threadIdx.x; i < packs; i += blockDim.x) {
            float g[AT_ONCE];
            load_floats<AT_ONCE>(from + AT_ONCE * i, g);
            for (int k = 0; k < AT_ONCE; k++) g[k] = slope(r, AT_ONCE * i + k, g[k]);
            store_floats<AT_ONCE>(grad + AT_ONCE * i, g);
        }
        for (int64_t j = AT_ONCE * packs + threadIdx.x; j < n.v; j += blockDim.x)
            grad[j] = to<D>(slope(r, j, f32(from[j])));
    }
}

template <class Z, class D> static void cross_entropy(const tx_ctx *c, const tx_cross_entropy_args *a, tx_tensor dz)
{
    double even = tx_even_smoothing(a->smoothing, a->n_valid);
    bool packed = at_once(a->z.data, a->z.stride[0]) && at_once(dz.data, dz.stride[0]);
    loss_rows n = { (float *)a->loss.data,
                    (const int32_t *)a->y.data,
                    (const float *)a->weight.data,
                    tx__gpu_of(c)->fault,
                    a->z.dim[0],
                    a->z.dim[1],
                    a->n_valid,
                    a->z.stride[0],
                    dz.stride[0],
                    packed,
                    (float)even,
                    (float)(even / (double)a->n_valid),
                    (float)a->z_weight,
                    (float *)a->z_loss.data };
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)n.rows, tx__gpu_threads(n.v / 16 + 1), 0, (cross_entropy_kernel<Z, D>),
               (Z *)a->z.data, (D *)dz.data, n);
}

TX_GPU_ROW tx_status tx__gpu_cross_entropy(tx_ctx *c, const tx_cross_entropy_args *a, void *scratch)
{
    (void)scratch;
    tx_tensor dz = a->dz.data ? a->dz : a->z;
    TX_TRY(tx__gpu_need_float("cross_entropy", a->z));
    TX_TRY(tx__gpu_need_float("cross_entropy", dz));
    if (!a->z.dim[0]) return TX_OK;
    GPU_FLOAT(a->z.dtype, Z, GPU_FLOAT(dz.dtype, D, cross_entropy<Z, D>(c, a, dz)));
    return tx__gpu_launched(c, "cross_entropy");
}

/* ---- classes split over ranks: z and stats are fp32 ---- */

struct part_rows {
    const int32_t *y;
    tx__fault *fault;
    int64_t rows, v;
    tx_classes classes;
    bool keep;
};

__global__ void cross_entropy_part_kernel(float *stats, float *z, part_rows n)
{
    const tx_classes classes = n.classes;
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        float *from = z + row * n.v, total = 0;
        bool live = has_label(n.y, row, classes.n_valid, n.fault);
        int64_t label = live ? n.y[row] - classes.first : -1;
        float at_label = label >= 0 && label < classes.n_here ? from[label] : 0;
        softmax_sum s = block_join(own_share(from, classes.n_here, 0, &total));
        total = block_sum(total);
        if (threadIdx.x == 0) {
            const float stat[4] = { s.max, s.sum, at_label, total };
            for (int k = 0; k < 4; k++) stats[4 * row + k] = stat[k];
        }
        for (int64_t j = threadIdx.x; n.keep && j < classes.n_here; j += blockDim.x) from[j] = expf(from[j] - s.max);
    }
}

TX_GPU_ROW tx_status tx__gpu_cross_entropy_part(tx_ctx *c, const tx_cross_entropy_part_args *a, void *scratch)
{
    (void)scratch;
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    if (a->z.dtype != TX_F32)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "cross_entropy_part: backend gpu takes fp32, not %s",
                       tx_dtype_name(a->z.dtype));
    const part_rows n = { (const int32_t *)a->y.data, tx__gpu_of(c)->fault, rows, v, a->classes, a->keep };
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)rows, tx__gpu_threads(v / 16 + 1), 0, cross_entropy_part_kernel,
               (float *)a->stats.data, (float *)a->z.data, n);
    return tx__gpu_launched(c, "cross_entropy_part");
}

struct join_rows {
    float *loss;
    const int32_t *y;
    const float *weight; /* NULL: no gradient */
    tx__fault *fault;
    int64_t rows, v, parts, part;
    tx_classes classes;
    float even, each, z_weight;
    float *z_loss; /* NULL: not asked for */
};

template <class D> __global__ void cross_entropy_join_kernel(const float *z, D *dz, const float *stats, join_rows n)
{
    const tx_classes classes = n.classes;
    for (int64_t row = blockIdx.x; row < n.rows; row += gridDim.x) {
        bool live = has_label(n.y, row, classes.n_valid, n.fault);
        softmax_sum all = { -INFINITY, 0 };
        float at_label = 0, total = 0;
        for (int64_t p = 0; p < n.parts; p++) {
            const float *stat = stats + 4 * (p * n.rows + row);
            softmax_sum one = { stat[0], stat[1] };
            all = join(all, one);
            at_label += stat[2];
            total += stat[3];
        }
        float lse = all.max + logf(all.sum);
        if (threadIdx.x == 0) n.loss[row] = live ? lse - (1 - n.even) * at_label - n.each * total : 0;
        if (threadIdx.x == 0 && n.z_loss) n.z_loss[row] = live ? n.z_weight * lse * lse : 0;
        if (!n.weight) continue;
        float share = expf(stats[4 * (n.part * n.rows + row)] - all.max) / all.sum, w = live ? n.weight[row] : 0;
        share *= (float)tx_z_slope(n.z_weight, lse);
        for (int64_t j = threadIdx.x; j < n.v; j += blockDim.x) {
            bool here = j < classes.n_here, label = here && n.y[row] - classes.first == j;
            float g = here && live ? w * (z[row * n.v + j] * share - (label ? 1 - n.even : 0) - n.each) : 0;
            dz[row * n.v + j] = to<D>(g);
        }
    }
}

TX_GPU_ROW tx_status tx__gpu_cross_entropy_join(tx_ctx *c, const tx_cross_entropy_join_args *a, void *scratch)
{
    (void)scratch;
    tx_tensor dz = a->dz.data ? a->dz : a->z;
    int64_t rows = a->loss.dim[0], v = a->z.data ? a->z.dim[1] : 1;
    double even = tx_even_smoothing(a->smoothing, a->classes.n_valid);
    if (a->loss.dtype != TX_F32)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "cross_entropy_join: backend gpu takes fp32, not %s",
                       tx_dtype_name(a->loss.dtype));
    tx_dtype type = dz.data ? dz.dtype : TX_F32;
    const join_rows n = { (float *)a->loss.data,
                          (const int32_t *)a->y.data,
                          (const float *)a->weight.data,
                          tx__gpu_of(c)->fault,
                          rows,
                          v,
                          a->stats.dim[0],
                          a->part,
                          a->classes,
                          (float)even,
                          (float)(even / (double)a->classes.n_valid),
                          (float)a->z_weight,
                          (float *)a->z_loss.data };
    GPU_FLOAT(type, D,
              GPU_LAUNCH(tx__gpu_compute(c), (unsigned)rows, tx__gpu_threads(v / 16 + 1), 0,
                         cross_entropy_join_kernel<D>, (const float *)a->z.data, (D *)dz.data,
                         (const float *)a->stats.data, n));
    return tx__gpu_launched(c, "cross_entropy_join");
}

/* ---- what becomes of products before that ---- */

struct softcap_sizes {
    int64_t rows, v, y_stride, x_stride;
    float scale, cap; /* cap 0: there is none */
};

__global__ void softcap_fwd_kernel(float *y, const float *x, softcap_sizes n)
{
    for (int64_t i = grid_thread(); i < n.rows * n.v; i += grid_threads()) {
        int64_t row = i / n.v, j = i - row * n.v;
        float z = n.scale * x[row * n.x_stride + j];
        y[row * n.y_stride + j] = n.cap > 0 ? n.cap * tanhf(z / n.cap) : z;
    }
}

template <class D> __global__ void softcap_bwd_kernel(D *dx, const float *dy, const float *y, softcap_sizes n)
{
    for (int64_t i = grid_thread(); i < n.rows * n.v; i += grid_threads()) {
        float t = n.cap > 0 ? y[i] / n.cap : 0;
        dx[i] = to<D>(dy[i] * n.scale * (1 - t * t));
    }
}

TX_GPU_ROW tx_status tx__gpu_softcap_fwd(tx_ctx *c, const tx_softcap_fwd_args *a, void *scratch)
{
    (void)scratch;
    const softcap_sizes n = {
        a->x.dim[0],       a->x.dim[1], a->y.stride[0], a->x.stride[0], (float)tx__scale_or_1(a->form.scale),
        (float)a->form.cap
    };
    if (a->x.dtype != TX_F32)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "softcap_fwd: backend gpu takes fp32, not %s", tx_dtype_name(a->x.dtype));
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n.rows * n.v, 256), 256, 0, softcap_fwd_kernel, (float *)a->y.data,
               (const float *)a->x.data, n);
    return tx__gpu_launched(c, "softcap_fwd");
}

TX_GPU_ROW tx_status tx__gpu_softcap_bwd(tx_ctx *c, const tx_softcap_bwd_args *a, void *scratch)
{
    (void)scratch;
    const softcap_sizes n = {
        a->dy.dim[0], a->dy.dim[1], 0, 0, (float)tx__scale_or_1(a->form.scale), (float)a->form.cap
    };
    if (a->dy.dtype != TX_F32)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "softcap_bwd: backend gpu takes fp32, not %s", tx_dtype_name(a->dy.dtype));
    GPU_FLOAT(a->dx.dtype, D,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n.rows * n.v, 256), 256, 0, softcap_bwd_kernel<D>,
                         (D *)a->dx.data, (const float *)a->dy.data, (const float *)a->y.data, n));
    return tx__gpu_launched(c, "softcap_bwd");
}
