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

/* mu NULL: without a mean. */
template <class Y, class X>
__global__ void norm_fwd_own_kernel(Y *y, float *mu, float *rs, const X *x, const Y *gamma, const Y *beta, float eps,
                                    int64_t rows, int h)
{
    int j = OWN * (int)threadIdx.x;
    bool in = j < h;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float v[OWN] = { 0 }, w[OWN], sum = 0, mean = 0;
        if (in) load_floats<OWN>(x + row * h + j, v);
        for (int k = 0; k < OWN; k++) sum += v[k];
        if (mu) mean = block_sum(sum) / (float)h;
        sum = 0;
        for (int k = 0; k < OWN && in; k++) {
            v[k] -= mean;
            sum += v[k] * v[k];
        }
        float r = 1 / sqrtf(block_sum(sum) / (float)h + eps);
        if (threadIdx.x == 0) {
            if (mu) mu[row] = mean;
            rs[row] = r;
        }
        if (!in) continue;
        load_floats<OWN>(gamma + j, w);
        for (int k = 0; k < OWN; k++) v[k] *= r * w[k];
        if (beta) {
            load_floats<OWN>(beta + j, w);
            for (int k = 0; k < OWN; k++) v[k] += w[k];
        }
        store_floats<OWN>(y + row * h + j, v);
    }
}

template <class Y, class X>
__global__ void norm_fwd_kernel(Y *y, float *mu, float *rs, const X *x, const Y *gamma, const Y *beta, float eps,
                                int64_t rows, int64_t h)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const X *from = x + row * h;
        float sum = 0, mean = 0;
        for (int64_t j = threadIdx.x; j < h && mu; j += blockDim.x) sum += f32(from[j]);
        if (mu) mean = block_sum(sum) / (float)h;
        sum = 0;
        for (int64_t j = threadIdx.x; j < h; j += blockDim.x) {
            float d = f32(from[j]) - mean;
            sum += d * d;
        }
        float r = 1 / sqrtf(block_sum(sum) / (float)h + eps);
        if (threadIdx.x == 0) {
            if (mu) mu[row] = mean;
            rs[row] = r;
        }
        for (int64_t j = threadIdx.x; j < h; j += blockDim.x)
            y[row * h + j] = to<Y>((f32(from[j]) - mean) * r * f32(gamma[j]) + (beta ? f32(beta[j]) : 0));
    }
}

template <class Y, class X>
static void norm_fwd(const tx_ctx *c, tx_tensor y, tx_tensor mu, tx_tensor rs, tx_tensor x, tx_tensor gamma,
                     tx_tensor beta, double eps)
{
    const tx_tensor all[] = { y, x, gamma, beta };
    int64_t rows = x.dim[0], h = x.dim[1], most = (int64_t)tx__gpu_of(c)->n_sm * 32;
    unsigned blocks = (unsigned)(rows < most ? rows : most);
    if (owned(h, all, 4))
        GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(h / OWN), 0, (norm_fwd_own_kernel<Y, X>), (Y *)y.data,
                   (float *)mu.data, (float *)rs.data, (const X *)x.data, (const Y *)gamma.data, (const Y *)beta.data,
                   (float)eps, rows, (int)h);
    else
        GPU_LAUNCH(tx__gpu_compute(c), blocks, tx__gpu_threads(h / 4 + 1), 0, (norm_fwd_kernel<Y, X>), (Y *)y.data,
                   (float *)mu.data, (float *)rs.data, (const X *)x.data, (const Y *)gamma.data, (const Y *)beta.data,
                   (float)eps, rows, h);
}

static tx_tensor none(void)
{
    tx_tensor x;
    memset(&x, 0, sizeof x);
    return x;
}

TX_GPU_ROW tx_status tx__gpu_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("layernorm_fwd", a->x));
    GPU_FLOAT(a->y.dtype, Y,
              GPU_FLOAT(a->x.dtype, X, norm_fwd<Y, X>(c, a->y, a->mu, a->rs, a->x, a->gamma, a->beta, a->eps)));
    return tx__gpu_launched(c, "layernorm_fwd");
}

TX_GPU_ROW tx_status tx__gpu_rmsnorm_fwd(tx_ctx *c, const tx_rmsnorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("rmsnorm_fwd", a->x));
    GPU_FLOAT(a->y.dtype, Y,
              GPU_FLOAT(a->x.dtype, X, norm_fwd<Y, X>(c, a->y, none(), a->rs, a->x, a->gamma, none(), a->eps)));
    return tx__gpu_launched(c, "rmsnorm_fwd");
}

/* ---- backward ---- */

/* One of the two gradients' part, behind the other: part [parts, 2, h] without mu [parts, h]. */
template <class T, class X>
__global__ void norm_bwd_own_kernel(X *dx, float *part, const T *dy, const X *x, const X *dres, const T *gamma,
                                    const float *mu, const float *rs, int64_t rows, int h)
{
    int j = OWN * (int)threadIdx.x;
    bool in = j < h;
    float w[OWN] = { 0 }, dgamma[OWN] = { 0 }, dbeta[OWN] = { 0 };
    if (in) load_floats<OWN>(gamma + j, w);
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float d[OWN] = { 0 }, v[OWN] = { 0 }, r = rs[row], mean = mu ? mu[row] : 0, sum_g = 0, sum_gx = 0;
        if (in) {
            load_floats<OWN>(dy + row * h + j, d);
            load_floats<OWN>(x + row * h + j, v);
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
        float mean_g = mu ? sum_g / (float)h : 0, mean_gx = sum_gx / (float)h, more[OWN];
        for (int k = 0; k < OWN; k++) d[k] = r * (d[k] - mean_g - v[k] * mean_gx);
        if (dres) {
            load_floats<OWN>(dres + row * h + j, more);
            for (int k = 0; k < OWN; k++) d[k] += more[k];
        }
        store_floats<OWN>(dx + row * h + j, d);
    }
    if (!in) return;
    float *mine = part + (int64_t)blockIdx.x * h;
    store_floats<OWN>(mine + j, dgamma);
    if (mu) store_floats<OWN>(mine + (int64_t)gridDim.x * h + j, dbeta);
}

/* dx alone; parameters before it, because dx may lie on dy. */
template <class T, class X>
__global__ void norm_bwd_kernel(X *dx, const T *dy, const X *x, const X *dres, const T *gamma, const float *mu,
                                const float *rs, int64_t rows, int64_t h)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float r = rs[row], mean = mu ? mu[row] : 0, sum_g = 0, sum_gx = 0;
        for (int64_t j = threadIdx.x; j < h; j += blockDim.x) {
            float g = f32(dy[row * h + j]) * f32(gamma[j]);
            sum_g += g;
            sum_gx += g * ((f32(x[row * h + j]) - mean) * r);
        }
        block_sum2(&sum_g, &sum_gx);
        float mean_g = mu ? sum_g / (float)h : 0, mean_gx = sum_gx / (float)h;
        for (int64_t j = threadIdx.x; j < h; j += blockDim.x) {
            float g = f32(dy[row * h + j]) * f32(gamma[j]), xhat = (f32(x[row * h + j]) - mean) * r;
            float more = dres ? f32(dres[row * h + j]) : 0;
            dx[row * h + j] = to<X>(more + r * (g - mean_g - xhat * mean_gx));
        }
    }
}

template <class T, class X>
__global__ void norm_params_kernel(float *part, const T *dy, const X *x, const float *mu, const float *rs, int64_t rows,
                                   int64_t h, int64_t parts)
{
    int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float dgamma = 0, dbeta = 0;
    if (j >= h) return;
    for (int64_t row = blockIdx.y; row < rows; row += parts) {
        float d = f32(dy[row * h + j]), mean = mu ? mu[row] : 0;
        dgamma += d * ((f32(x[row * h + j]) - mean) * rs[row]);
        dbeta += d;
    }
    part[(int64_t)blockIdx.y * h + j] = dgamma;
    if (mu) part[(parts + (int64_t)blockIdx.y) * h + j] = dbeta;
}

template <class T, class X>
static void norm_bwd(const tx_ctx *c, float *part, tx_tensor dx, tx_tensor dgamma, tx_tensor dbeta, tx_tensor dy,
                     tx_tensor x, tx_tensor dres, tx_tensor gamma, tx_tensor mu, tx_tensor rs)
{
    const tx_tensor all[] = { dx, dy, x, dres, gamma };
    int64_t rows = x.dim[0], h = x.dim[1], parts = parts_of(rows);
    gpuStream_t s = tx__gpu_compute(c);
    const float *mean = (const float *)mu.data, *r = (const float *)rs.data;
    if (owned(h, all, 5)) {
        GPU_LAUNCH(s, (unsigned)parts, tx__gpu_threads(h / OWN), 0, (norm_bwd_own_kernel<T, X>), (X *)dx.data, part,
                   (const T *)dy.data, (const X *)x.data, (const X *)dres.data, (const T *)gamma.data, mean, r, rows,
                   (int)h);
    } else {
        int64_t most = (int64_t)tx__gpu_of(c)->n_sm * 32;
        GPU_LAUNCH(s, dim3((unsigned)((h + 127) / 128), (unsigned)parts), 128, 0, (norm_params_kernel<T, X>), part,
                   (const T *)dy.data, (const X *)x.data, mean, r, rows, h, parts);
        GPU_LAUNCH(s, (unsigned)(rows < most ? rows : most), tx__gpu_threads(h / 4 + 1), 0, (norm_bwd_kernel<T, X>),
                   (X *)dx.data, (const T *)dy.data, (const X *)x.data, (const X *)dres.data, (const T *)gamma.data,
                   mean, r, rows, h);
    }
    tx__gpu_add_parts(c, (float *)dgamma.data, part, parts, h);
    if (dbeta.data) tx__gpu_add_parts(c, (float *)dbeta.data, part + parts * h, parts, h);
}

TX_GPU_ROW size_t tx__gpu_layernorm_bwd_scratch(const tx_ctx *c, const tx_layernorm_bwd_args *a)
{
    (void)c;
    return (size_t)(2 * parts_of(a->x.dim[0]) * a->x.dim[1]) * sizeof(float);
}

TX_GPU_ROW tx_status tx__gpu_layernorm_bwd(tx_ctx *c, const tx_layernorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__gpu_need_float("layernorm_bwd", a->x));
    GPU_FLOAT(a->dy.dtype, T,
              GPU_FLOAT(a->x.dtype, X,
                        norm_bwd<T, X>(c, (float *)scratch, a->dx, a->dgamma, a->dbeta, a->dy, a->x, a->dres, a->gamma,
                                       a->mu, a->rs)));
    return tx__gpu_launched(c, "layernorm_bwd");
}

TX_GPU_ROW size_t tx__gpu_rmsnorm_bwd_scratch(const tx_ctx *c, const tx_rmsnorm_bwd_args *a)
{
    (void)c;
    return (size_t)(parts_of(a->x.dim[0]) * a->x.dim[1]) * sizeof(float);
}

TX_GPU_ROW tx_status tx__gpu_rmsnorm_bwd(tx_ctx *c, const tx_rmsnorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__gpu_need_float("rmsnorm_bwd", a->x));
    GPU_FLOAT(a->dy.dtype, T,
              GPU_FLOAT(a->x.dtype, X,
                        norm_bwd<T, X>(c, (float *)scratch, a->dx, a->dgamma, none(), a->dy, a->x, a->dres, a->gamma,
                                       none(), a->rs)));
    return tx__gpu_launched(c, "rmsnorm_bwd");
}
