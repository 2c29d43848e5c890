/* norm.cu - layer normalisation and its variant without a mean. A block has a row at a time. Where rows allow it a
 * thread has eight columns of every row, which it reads once; its sums for gamma and beta stay in registers, because
 * these columns are its own. Else threads go through the columns by strides. */
#include "backend/gpu/gpu.h"

enum { OWN = 8, MOST = OWN * 1024 };

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
};

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
        float r = 1 / sqrtf(block_sum(sum) / (float)h + a.eps);
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
        float r = 1 / sqrtf(block_sum(sum) / (float)a.h + a.eps);
        if (threadIdx.x == 0) {
            if (a.mu) a.mu[row] = mean;
            a.rs[row] = r;
        }
        for (int64_t j = threadIdx.x; j < a.h; j += blockDim.x)
            a.y[row * a.h + j] = to<Y>((f32(from[j]) - mean) * r * f32(a.gamma[j]) + (a.beta ? f32(a.beta[j]) : 0));
    }
}

template <class Y, class X> static void norm_fwd(const tx_ctx *c, const tx_layernorm_fwd_args *t)
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
                              t->x.dim[1] };
    int64_t most = (int64_t)tx__gpu_of(c)->n_sm * 32;
    unsigned blocks = (unsigned)(a.rows < most ? a.rows : most);
    if (owned(a.h, all, 4))
        GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(a.h / OWN), 0, (norm_fwd_own_kernel<Y, X>), a);
    else
        GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(a.h / 4 + 1), 0, (norm_fwd_kernel<Y, X>), a);
}

TX_GPU_ROW tx_status tx__gpu_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("layernorm_fwd", a->x));
    GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->x.dtype, X, norm_fwd<Y, X>(c, a)));
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
    GPU_FLOAT(a->y.dtype, Y, GPU_FLOAT(a->x.dtype, X, norm_fwd<Y, X>(c, &t)));
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
};

template <class T, class X> __global__ void norm_bwd_own_kernel(backward<T, X> a)
{
    int j = OWN * (int)threadIdx.x, h = (int)a.h;
    bool in = j < h;
    float w[OWN] = { 0 }, dgamma[OWN] = { 0 }, dbeta[OWN] = { 0 };
    if (in) load_floats<OWN>(a.gamma + j, w);
    for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
        float d[OWN] = { 0 }, v[OWN] = { 0 }, r = a.rs[row], mean = a.mu ? a.mu[row] : 0, sum_g = 0, sum_gx = 0;
        if (in) {
            load_floats<OWN>(a.dy + row * h + j, d);
            load_floats<OWN>(a.x + row * h + j, v);
        }
        for (int k = 0; k < OWN; k++) {
            float xhat = in ? (v[k] - mean) * r : 0, g = d[k] * w[k];
            dgamma[k] += d[k] * xhat;
            dbeta[k] += d[k];
            sum_g += g;
            sum_gx += g * xhat;
            v[k] = xhat;
            d[k] = g;
        }
        block_sum2(&sum_g, &sum_gx);
        if (!in) continue;
        float mean_g = a.mu ? sum_g / (float)h : 0, mean_gx = sum_gx / (float)h, more[OWN];
        for (int k = 0; k < OWN; k++) d[k] = r * (d[k] - mean_g - v[k] * mean_gx);
        if (a.dres) {
            load_floats<OWN>(a.dres + row * h + j, more);
            for (int k = 0; k < OWN; k++) d[k] += more[k];
        }
        store_floats<OWN>(a.dx + row * h + j, d);
    }
    if (!in) return;
    float *mine = a.part + (int64_t)blockIdx.x * h;
    store_floats<OWN>(mine + j, dgamma);
    if (a.mu) store_floats<OWN>(mine + (int64_t)gridDim.x * h + j, dbeta);
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
        float mean_g = a.mu ? sum_g / (float)a.h : 0, mean_gx = sum_gx / (float)a.h;
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

template <class T, class X> static void norm_bwd(const tx_ctx *c, const tx_layernorm_bwd_args *t, float *part)
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
                               parts };
    gpuStream_t s = tx__gpu_compute(c);
    if (owned(h, all, 5)) {
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
    GPU_FLOAT(a->dy.dtype, T, GPU_FLOAT(a->x.dtype, X, norm_bwd<T, X>(c, a, (float *)scratch)));
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
    GPU_FLOAT(a->dy.dtype, T, GPU_FLOAT(a->x.dtype, X, norm_bwd<T, X>(c, &t, (float *)scratch)));
    return tx__gpu_launched(c, "rmsnorm_bwd");
}
