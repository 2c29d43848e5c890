/* norm.cu - layer normalisation and its variant without a mean. Where rows allow it a thread has eight columns of every
 * row of its block, which it reads once; its sums for gamma and beta stay in registers, because these columns are its
 * own. Else threads go through the columns by strides. Forward, short rows have a warp each, of which a lane has packs
 * of eight columns, so that no thread waits for another warp. Backward, those of heads have a part of a warp each. */
#include "backend/gpu/gpu.h"

enum { OWN = 8, MOST = OWN * 1024, WARP_BLOCK = 128, SHORT_BLOCK = 256 };

/* Packs of a lane where a warp has a row of h; 0: there are too many for registers. */
static int packs_of(const tx_ctx *c, int64_t h)
{
    int64_t columns = (int64_t)OWN * tx__gpu_of(c)->warp, n = (h + columns - 1) / columns;
    return n <= 8 ? (int)n : 0;
}

/* Runs the rest with N as a constant, at least n. */
#define WITH_PACKS(number, N, ...) \
    case number: {                 \
        const int N = number;      \
        __VA_ARGS__;               \
    } break
#define EACH_PACKS(n, N, ...)          \
    switch (n) {                       \
        WITH_PACKS(1, N, __VA_ARGS__); \
        WITH_PACKS(2, N, __VA_ARGS__); \
        WITH_PACKS(3, N, __VA_ARGS__); \
        WITH_PACKS(4, N, __VA_ARGS__); \
    case 5:                            \
        WITH_PACKS(6, N, __VA_ARGS__); \
    case 7:                            \
        WITH_PACKS(8, N, __VA_ARGS__); \
    }

/* What a block does one row after the other of, so that gradients of parameters are few sums; by shapes alone. */
static int64_t parts_of(int64_t rows)
{
    return rows < 1024 ? rows : 1024;
}

static bool owned(int64_t h, const tx_tensor *x, int n)
{
    if (h % OWN || h > MOST) return false;
    for (int i = 0; i < n; i++)
        if (!aligned16(x[i].data)) return false;
    return true;
}

/* ---- forward ---- */

/* mu and beta NULL: without a mean. */
template <class Y, class X> struct forward {
    Y *y;
    float *mu, *rs;
    const X *x;
    const Y *gamma, *beta;
    float eps;
    int64_t rows, h;
    const float *squares; /* of whole rows of so many columns; NULL: they are these */
    float columns;
};

template <class Y, class X> __device__ float inverse_root(const forward<Y, X> &a, int64_t row, float sum)
{
    return 1 / sqrtf((a.squares ? a.squares[row] / a.columns : sum / (float)a.h) + a.eps);
}

template <class Y, class X> __global__ void norm_fwd_own_kernel(forward<Y, X> a)
{
    int j = OWN * (int)threadIdx.x, h = (int)a.h;
    bool in = j < h;
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float v[OWN] = { 0 }, w[OWN], sum = 0, mean = 0;
        if (in) load_floats<OWN>(a.x + row * h + j, v);
        for (int k = 0; k < OWN; k++) sum += v[k];
        if (a.mu) mean = block_sum(sum) / (float)h;
        sum = 0;
        for (int k = 0; k < OWN && in; k++) {
            v[k] -= mean;
            sum += v[k] * v[k];
        }
        float r = inverse_root(a, row, block_sum(sum));
        if (threadIdx.x == 0) {
            if (a.mu) a.mu[row] = mean;
            a.rs[row] = r;
        }
        if (!in) continue;
        load_floats<OWN>(a.gamma + j, w);
        for (int k = 0; k < OWN; k++) v[k] *= r * w[k];
        if (a.beta) {
            load_floats<OWN>(a.beta + j, w);
            for (int k = 0; k < OWN; k++) v[k] += w[k];
        }
        store_floats<OWN>(a.y + row * h + j, v);
    }
}

template <int N, class Y, class X> __global__ void norm_fwd_warp_kernel(forward<Y, X> a)
{
    const int lane = (int)threadIdx.x % WARP, h = (int)a.h;
    for (int64_t row = grid_warp(); row < a.rows; row += grid_warps()) {
        float v[N][OWN], w[OWN], sum = 0, mean = 0;
        for (int p = 0; p < N; p++) {
            int j = OWN * (lane + p * WARP);
            for (int k = 0; k < OWN; k++) v[p][k] = 0;
            if (j < h) load_floats<OWN>(a.x + row * h + j, v[p]);
            for (int k = 0; k < OWN; k++) sum += v[p][k];
        }
        if (a.mu) mean = warp_sum(sum) / (float)h;
        sum = 0;
        for (int p = 0; p < N; p++)
            for (int k = 0; k < OWN && OWN * (lane + p * WARP) < h; k++) {
                v[p][k] -= mean;
                sum += v[p][k] * v[p][k];
            }
        float r = inverse_root(a, row, warp_sum(sum));
        if (lane == 0) {
            if (a.mu) a.mu[row] = mean;
            a.rs[row] = r;
        }
        for (int p = 0; p < N; p++) {
            int j = OWN * (lane + p * WARP);
            if (j >= h) continue;
            load_floats<OWN>(a.gamma + j, w);
            for (int k = 0; k < OWN; k++) v[p][k] *= r * w[k];
            if (a.beta) {
                load_floats<OWN>(a.beta + j, w);
                for (int k = 0; k < OWN; k++) v[p][k] += w[k];
            }
            store_floats<OWN>(a.y + row * h + j, v[p]);
        }
    }
}

template <class Y, class X> __global__ void norm_fwd_kernel(forward<Y, X> a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        const X *from = a.x + row * a.h;
        float sum = 0, mean = 0;
        for (int64_t j = threadIdx.x; j < a.h && a.mu; j += blockDim.x) sum += f32(from[j]);
        if (a.mu) mean = block_sum(sum) / (float)a.h;
        sum = 0;
        for (int64_t j = threadIdx.x; j < a.h; j += blockDim.x) {
            float d = f32(from[j]) - mean;
            sum += d * d;
        }
        float r = inverse_root(a, row, block_sum(sum));
        if (threadIdx.x == 0) {
            if (a.mu) a.mu[row] = mean;
            a.rs[row] = r;
        }
        for (int64_t j = threadIdx.x; j < a.h; j += blockDim.x)
            a.y[row * a.h + j] = to<Y>((f32(from[j]) - mean) * r * f32(a.gamma[j]) + (a.beta ? f32(a.beta[j]) : 0));
    }
}

/* Sums of whole rows, of which a call has some columns. */
struct whole_rows {
    const float *sums; /* [rows]; NULL: its rows are whole */
    int64_t columns;
};

template <class Y, class X> static void norm_fwd(const tx_ctx *c, const tx_layernorm_fwd_args *t, whole_rows whole)
{
    const tx_tensor all[] = { t->y, t->x, t->gamma, t->beta };
    const forward<Y, X> a = { (Y *)t->y.data,
                              (float *)t->mu.data,
                              (float *)t->rs.data,
                              (const X *)t->x.data,
                              (const Y *)t->gamma.data,
                              (const Y *)t->beta.data,
                              (float)t->eps,
                              t->x.dim[0],
                              t->x.dim[1],
                              whole.sums,
                              (float)whole.columns };
    int64_t most = (int64_t)tx__gpu_of(c)->n_sm * 32;
    unsigned blocks = (unsigned)(a.rows < most ? a.rows : most);
    int packs = packs_of(c, a.h);
    if (owned(a.h, all, 4) && packs)
        EACH_PACKS(packs, N,
                   GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_warp_blocks(c, a.rows, WARP_BLOCK), WARP_BLOCK, 0,
                              (norm_fwd_warp_kernel<N, Y, X>), a))
    else if (owned(a.h, all, 4))
        GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(a.h / OWN), 0, (norm_fwd_own_kernel<Y, X>), a);
    else
        GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(a.h / 4 + 1), 0, (norm_fwd_kernel<Y, X>), a);
}

TX_GPU_ROW tx_status tx__gpu_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("layernorm_fwd", a->x));
    GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->x.dtype, X, norm_fwd<Y, X>(c, a, whole_rows{ NULL, 0 })));
    return tx__gpu_launched(c, "layernorm_fwd");
}

/* As layernorm's, without mu and beta. */
TX_GPU_ROW tx_status tx__gpu_rmsnorm_fwd(tx_ctx *c, const tx_rmsnorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    tx_layernorm_fwd_args t;
    memset(&t, 0, sizeof t);
    t.y = a->y, t.rs = a->rs, t.x = a->x, t.gamma = a->gamma, t.eps = a->eps;
    TX_TRY(tx__gpu_need_float("rmsnorm_fwd", a->x));
    const whole_rows whole = { (const float *)a->squares.data, a->columns };
    GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->x.dtype, X, norm_fwd<Y, X>(c, &t, whole)));
    return tx__gpu_launched(c, "rmsnorm_fwd");
}

/* ---- backward ---- */

/* One of the two gradients' part, behind the other: part [parts, 2, h] without mu [parts, h]. */
template <class T, class X> struct backward {
    X *dx;
    float *part;
    const T *dy;
    const X *x, *dres;
    const T *gamma;
    const float *mu, *rs;
    int64_t rows, h, parts;
    const float *dots; /* of whole rows of so many columns; NULL: they are these */
    float columns;
};

/* sum: Σ g xhat of these columns */
template <class T, class X> __device__ float mean_of(const backward<T, X> &a, int64_t row, float rs, float sum)
{
    return a.dots ? rs * a.dots[row] / a.columns : sum / (float)a.h;
}

/* A thread's values of a row as they are in memory: two bf16 or fp16 take one register. */
template <class T> struct row_words {
    uint32_t word[OWN * sizeof(T) / 4];
};

template <class T> __device__ static inline void read_words(row_words<T> *r, const T *x)
{
    for (int k = 0; k < (int)(OWN * sizeof(T) / 4); k += 4) {
        const pack<uint32_t, 4> p = load_pack<uint32_t, 4>((const uint32_t *)x + k);
        for (int i = 0; i < 4; i++) r->word[k + i] = p.v[i];
    }
}

__device__ static inline float value_of(const row_words<float> &r, int k)
{
    return of_bits(r.word[k]);
}
template <class T> __device__ static inline float value_of(const row_words<T> &r, int k)
{
    T half;
    half.bits = (uint16_t)(r.word[k / 2] >> 16 * (k % 2));
    return f32(half);
}

/* What is read of a row. */
template <class T, class X> struct row_values {
    row_words<T> dy;
    row_words<X> x;
    float mean, rs;
};

template <class T, class X>
__device__ static inline void read_row(const backward<T, X> &a, int64_t row, int j, row_values<T, X> *r)
{
    if (row >= a.rows || j >= (int)a.h) return;
    read_words(&r->dy, a.dy + row * a.h + j);
    read_words(&r->x, a.x + row * a.h + j);
    r->mean = a.mu ? a.mu[row] : 0;
    r->rs = a.rs[row];
}

/* A thread's columns of a row on the way to dx: g = dy gamma, xhat, and its shares of Σ g and Σ g xhat. */
struct row_terms {
    float g[OWN], xhat[OWN], sum_g, sum_gx, rs;
};

/* Its sums for gamma and beta, all rows'. */
struct column_sums {
    float dgamma[OWN], dbeta[OWN];
};

template <class T, class X>
__device__ static inline void add_row(const row_values<T, X> &r, const float *gamma, row_terms *t, column_sums *sums)
{
    for (int k = 0; k < OWN; k++) {
        float dy = value_of(r.dy, k), xhat = (value_of(r.x, k) - r.mean) * r.rs, g = dy * gamma[k];
        sums->dgamma[k] += dy * xhat;
        sums->dbeta[k] += dy;
        t->sum_g += g;
        t->sum_gx += g * xhat;
        t->xhat[k] = xhat;
        t->g[k] = g;
    }
    t->rs = r.rs;
}

/* With the whole row's sums in t.   @dres read where there is one */
template <class T, class X>
__device__ static inline void write_row(const backward<T, X> &a, int64_t row, int j, const row_terms &t,
                                        const row_words<X> &dres)
{
    float d[OWN], mean_g = a.mu ? t.sum_g / (float)a.h : 0, mean_gx = mean_of(a, row, t.rs, t.sum_gx);
    for (int k = 0; k < OWN; k++) d[k] = t.rs * (t.g[k] - mean_g - t.xhat[k] * mean_gx);
    for (int k = 0; k < OWN && a.dres; k++) d[k] += value_of(dres, k);
    store_floats<OWN>(a.dx + row * a.h + j, d);
}

/* The next row is read before the block waits for this one's sums, if its values are small enough for registers. */
template <class T, class X> __global__ void GPU_BLOCK_MOST(1024) norm_bwd_own_kernel(backward<T, X> a)
{
    int j = OWN * (int)threadIdx.x, h = (int)a.h;
    bool in = j < h;
    column_sums sums = {};
    const bool ahead = sizeof(T) == 2 && sizeof(X) == 2;
    row_values<T, X> next;
    if (ahead) read_row(a, blockIdx.x, j, &next);
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        if (!ahead) read_row(a, row, j, &next);
        const row_values<T, X> now = next;
        row_terms t = {};
        float w[OWN];
        row_words<X> dres;
        if (ahead && in && a.dres) read_words(&dres, a.dres + row * h + j);
        if (ahead) read_row(a, row + gridDim.x, j, &next);
        if (in) load_floats<OWN>(a.gamma + j, w);
        if (in) add_row(now, w, &t, &sums);
        block_sum2(&t.sum_g, &t.sum_gx);
        if (!in) continue;
        if (!ahead && a.dres) read_words(&dres, a.dres + row * h + j);
        write_row(a, row, j, t, dres);
    }
    if (!in) return;
    float *mine = a.part + (int64_t)blockIdx.x * h;
    store_floats<OWN>(mine + j, sums.dgamma);
    if (a.mu) store_floats<OWN>(mine + (int64_t)gridDim.x * h + j, sums.dbeta);
}

/* Lanes that have a short row, of heads for example; 0: it is none. No warp has fewer. */
static int lanes_of(int64_t h)
{
    int lanes = 1;
    while (lanes * OWN < h) lanes *= 2;
    return lanes <= 16 ? lanes : 0;
}

/* part[j] = Σ over the groups of lanes, in their order.   @own this thread's columns */
__device__ static inline void add_groups(float *part, const float *own, int lanes, int h)
{
    __shared__ float all[SHORT_BLOCK * OWN];
    __syncthreads(); /* of the use before this one */
    for (int k = 0; k < OWN; k++) all[OWN * (int)threadIdx.x + k] = own[k];
    __syncthreads();
    for (int j = (int)threadIdx.x; j < h; j += SHORT_BLOCK) {
        float sum = 0;
        for (int i = j; i < SHORT_BLOCK * OWN; i += lanes * OWN) sum += all[i];
        part[j] = sum;
    }
}

/* A block has as many rows at a time as groups of lanes. */
template <class T, class X> __global__ void norm_bwd_short_kernel(backward<T, X> a, int lanes)
{
    const int j = OWN * ((int)threadIdx.x % lanes), h = (int)a.h, n = SHORT_BLOCK / lanes;
    float w[OWN];
    column_sums sums = {};
    if (j < h) load_floats<OWN>(a.gamma + j, w);
    for (int64_t first = (int64_t)blockIdx.x * n; first < a.rows; first += (int64_t)gridDim.x * n) {
        int64_t row = first + (int)threadIdx.x / lanes;
        bool in = row < a.rows && j < h;
        row_values<T, X> now;
        row_terms t = {};
        row_words<X> dres;
        read_row(a, row, j, &now);
        if (in && a.dres) read_words(&dres, a.dres + row * h + j);
        if (in) add_row(now, w, &t, &sums);
        for (int m = lanes / 2; m; m /= 2) {
            t.sum_g += shfl_xor(t.sum_g, m);
            t.sum_gx += shfl_xor(t.sum_gx, m);
        }
        if (in) write_row(a, row, j, t, dres);
    }
    float *mine = a.part + (int64_t)blockIdx.x * h;
    add_groups(mine, sums.dgamma, lanes, h);
    if (a.mu) add_groups(mine + (int64_t)gridDim.x * h, sums.dbeta, lanes, h);
}

/* dx alone; parameters before it, because dx may lie on dy. */
template <class T, class X> __global__ void norm_bwd_kernel(backward<T, X> a)
{
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float r = a.rs[row], mean = a.mu ? a.mu[row] : 0, sum_g = 0, sum_gx = 0;
        for (int64_t j = threadIdx.x; j < a.h; j += blockDim.x) {
            float g = f32(a.dy[row * a.h + j]) * f32(a.gamma[j]);
            sum_g += g;
            sum_gx += g * ((f32(a.x[row * a.h + j]) - mean) * r);
        }
        block_sum2(&sum_g, &sum_gx);
        float mean_g = a.mu ? sum_g / (float)a.h : 0, mean_gx = mean_of(a, row, r, sum_gx);
        for (int64_t j = threadIdx.x; j < a.h; j += blockDim.x) {
            float g = f32(a.dy[row * a.h + j]) * f32(a.gamma[j]), xhat = (f32(a.x[row * a.h + j]) - mean) * r;
            float more = a.dres ? f32(a.dres[row * a.h + j]) : 0;
            a.dx[row * a.h + j] = to<X>(more + r * (g - mean_g - xhat * mean_gx));
        }
    }
}

template <class T, class X> __global__ void norm_params_kernel(backward<T, X> a)
{
    int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float dgamma = 0, dbeta = 0;
    if (j >= a.h) return;
    for (int64_t row = blockIdx.y; row < a.rows; row += a.parts) {
        float d = f32(a.dy[row * a.h + j]), mean = a.mu ? a.mu[row] : 0;
        dgamma += d * ((f32(a.x[row * a.h + j]) - mean) * a.rs[row]);
        dbeta += d;
    }
    a.part[(int64_t)blockIdx.y * a.h + j] = dgamma;
    if (a.mu) a.part[(a.parts + (int64_t)blockIdx.y) * a.h + j] = dbeta;
}

template <class T, class X>
static void norm_bwd(const tx_ctx *c, const tx_layernorm_bwd_args *t, float *part, whole_rows whole)
{
    const tx_tensor all[] = { t->dx, t->dy, t->x, t->dres, t->gamma };
    const int64_t rows = t->x.dim[0], h = t->x.dim[1], parts = parts_of(rows);
    const backward<T, X> a = { (X *)t->dx.data,
                               part,
                               (const T *)t->dy.data,
                               (const X *)t->x.data,
                               (const X *)t->dres.data,
                               (const T *)t->gamma.data,
                               (const float *)t->mu.data,
                               (const float *)t->rs.data,
                               rows,
                               h,
                               parts,
                               whole.sums,
                               (float)whole.columns };
    gpuStream_t s = tx__gpu_compute(c);
    int lanes = lanes_of(h);
    if (owned(h, all, 5) && lanes) {
        GPU_LAUNCH(s, (unsigned)parts, SHORT_BLOCK, 0, (norm_bwd_short_kernel<T, X>), a, lanes);
    } else if (owned(h, all, 5)) {
        GPU_LAUNCH(s, (unsigned)parts, tx__gpu_threads(h / OWN), 0, (norm_bwd_own_kernel<T, X>), a);
    } else {
        int64_t most = (int64_t)tx__gpu_of(c)->n_sm * 32;
        GPU_LAUNCH(s, dim3((unsigned)((h + 127) / 128), (unsigned)parts), 128, 0, (norm_params_kernel<T, X>), a);
        GPU_LAUNCH(s, (unsigned)(rows < most ? rows : most), tx__gpu_threads(h / 4 + 1), 0, (norm_bwd_kernel<T, X>), a);
    }
    tx__gpu_add_parts(c, (float *)t->dgamma.data, part, parts, h);
    if (t->dbeta.data) tx__gpu_add_parts(c, (float *)t->dbeta.data, part + parts * h, parts, h);
}

TX_GPU_ROW size_t tx__gpu_layernorm_bwd_scratch(const tx_ctx *c, const tx_layernorm_bwd_args *a)
{
    (void)c;
    return (size_t)(2 * parts_of(a->x.dim[0]) * a->x.dim[1]) * sizeof(float);
}

TX_GPU_ROW tx_status tx__gpu_layernorm_bwd(tx_ctx *c, const tx_layernorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__gpu_need_float("layernorm_bwd", a->x));
    GPU_FLOAT(a->dy.dtype, T, GPU_FLOAT(a->x.dtype, X, norm_bwd<T, X>(c, a, (float *)scratch, whole_rows{ NULL, 0 })));
    return tx__gpu_launched(c, "layernorm_bwd");
}

TX_GPU_ROW size_t tx__gpu_rmsnorm_bwd_scratch(const tx_ctx *c, const tx_rmsnorm_bwd_args *a)
{
    (void)c;
    return (size_t)(parts_of(a->x.dim[0]) * a->x.dim[1]) * sizeof(float);
}

/* As layernorm's, without mu and dbeta. */
TX_GPU_ROW tx_status tx__gpu_rmsnorm_bwd(tx_ctx *c, const tx_rmsnorm_bwd_args *a, void *scratch)
{
    tx_layernorm_bwd_args t;
    memset(&t, 0, sizeof t);
    t.dx = a->dx, t.dgamma = a->dgamma, t.dy = a->dy, t.x = a->x, t.dres = a->dres, t.gamma = a->gamma, t.rs = a->rs;
    TX_TRY(tx__gpu_need_float("rmsnorm_bwd", a->x));
    const whole_rows whole = { (const float *)a->dots.data, a->columns };
    GPU_FLOAT(a->dy.dtype, T, GPU_FLOAT(a->x.dtype, X, norm_bwd<T, X>(c, &t, (float *)scratch, whole)));
    return tx__gpu_launched(c, "rmsnorm_bwd");
}

/* ---- row_dots ---- */

template <class T>
__global__ void row_dots_kernel(float *y, const T *a, const T *b, const T *gamma, int64_t rows, int64_t h)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float sum = 0;
        for (int64_t j = threadIdx.x; j < h; j += blockDim.x)
            sum += f32(a[row * h + j]) * f32(b[row * h + j]) * (gamma ? f32(gamma[j]) : 1);
        sum = block_sum(sum);
        if (threadIdx.x == 0) y[row] = sum;
    }
}

TX_GPU_ROW tx_status tx__gpu_row_dots(tx_ctx *c, const tx_row_dots_args *a, void *scratch)
{
    (void)scratch;
    int64_t rows = a->a.dim[0], h = a->a.dim[1], most = (int64_t)tx__gpu_of(c)->n_sm * 32;
    unsigned blocks = (unsigned)(rows < most ? rows : most);
    TX_TRY(tx__gpu_need_float("row_dots", a->a));
    GPU_FLOAT(a->a.dtype, T,
              GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(h / 4 + 1), 0, row_dots_kernel<T>,
                         (float *)a->y.data, (const T *)a->a.data, (const T *)a->b.data, (const T *)a->gamma.data, rows,
                         h));
    return tx__gpu_launched(c, "row_dots");
}
