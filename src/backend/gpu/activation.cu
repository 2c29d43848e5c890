/* activation.cu - non-linearities, element by element, and gates. */
#include "backend/gpu/gpu.h"

#define SQRT_2_OVER_PI    0.79788456080286535588f
#define ONE_OVER_SQRT_2PI 0.39894228040143267794f
#define SQRT_HALF         0.70710678118654752440f

/* 1 / cosh² without the cancellation of 1 - tanh². */
__device__ static inline float sech2(float x)
{
    float e = expf(-2 * fabsf(x)), one = 1 + e;
    return 4 * e / (one * one);
}

/* 1 / (1 + e^-z), and 1 less it, neither of a difference where it is small. */
template <class T> __device__ static inline float logistic(float z, float *rest)
{
    float e = exp_for<T>(-z), s = quotient_for<T>(1, 1 + e);
    *rest = z > 0 ? e * s : 1 - s;
    return s;
}

/* f(x), and its derivative into *dy, for values of type T. */
template <int KIND, class T> __device__ static inline float activate(float x, float *dy)
{
    if (KIND == TX_SQUARED_RELU) {
        float r = x < 0 ? 0 : x; /* NaN stays */
        *dy = 2 * r;
        return r * r;
    }
    if (KIND == TX_RELU) {
        *dy = x > 0 ? 1 : 0;
        return x < 0 ? 0 : x; /* NaN stays */
    }
    if (KIND == TX_GELU_ERF) {
        float cdf = 0.5f * erfcf(-x * SQRT_HALF);
        *dy = cdf + x * ONE_OVER_SQRT_2PI * expf(-0.5f * x * x);
        return x * cdf;
    }
    if (KIND == TX_TANH) {
        *dy = sech2(x);
        return tanhf(x);
    }
    /* half the sum of 1 and tanh u is the logistic function of 2 u; 1 - tanh² u is 4 half (1 - half) */
    float u = SQRT_2_OVER_PI * (x + 0.044715f * x * x * x), rest, half = logistic<T>(2 * u, &rest);
    *dy = half + 2 * x * half * rest * SQRT_2_OVER_PI * (1 + 3 * 0.044715f * x * x);
    return x * half;
}

/* g(z) of a gate, and its derivative into *dy, likewise. */
template <int KIND, class T> __device__ static inline float open_gate(float z, float *dy)
{
    if (KIND == TX_GLU_GELU) return activate<TX_GELU_ERF, T>(z, dy);
    if (KIND == TX_GLU_GELU_TANH) return activate<TX_GELU_TANH, T>(z, dy);
    if (KIND == TX_GLU_SILU) {
        float rest, s = logistic<T>(z, &rest);
        *dy = s * (1 + z * rest);
        return z * s;
    }
    bool shut = KIND == TX_GLU_RELU && z < 0; /* NaN stays */
    *dy = shut ? 0 : 1;
    return shut ? 0 : z;
}

/* ---- activation ---- */

template <int KIND, class T> __global__ void activation_fwd_kernel(T *y, const T *x, int64_t n, int64_t n_packs)
{
    for (int64_t i = grid_thread(); i < n_packs; i += grid_threads()) {
        float v[8], unused;
        load_floats<8>(x + 8 * i, v);
        for (int k = 0; k < 8; k++) v[k] = activate<KIND, T>(v[k], &unused);
        store_floats<8>(y + 8 * i, v);
    }
    for (int64_t i = 8 * n_packs + grid_thread(); i < n; i += grid_threads()) {
        float unused;
        y[i] = to<T>(activate<KIND, T>(f32(x[i]), &unused));
    }
}

template <int KIND, class T>
__global__ void activation_bwd_kernel(T *dx, const T *dy, const T *x, int64_t n, int64_t n_packs)
{
    for (int64_t i = grid_thread(); i < n_packs; i += grid_threads()) {
        float v[8], d[8], slope;
        load_floats<8>(x + 8 * i, v);
        load_floats<8>(dy + 8 * i, d);
        for (int k = 0; k < 8; k++) {
            activate<KIND, T>(v[k], &slope);
            d[k] *= slope;
        }
        store_floats<8>(dx + 8 * i, d);
    }
    for (int64_t i = 8 * n_packs + grid_thread(); i < n; i += grid_threads()) {
        float slope;
        activate<KIND, T>(f32(x[i]), &slope);
        dx[i] = to<T>(f32(dy[i]) * slope);
    }
}

/* Runs the rest with KIND as a constant. */
#define EACH_KIND(kind, ...)              \
    switch (kind) {                       \
    case TX_GELU_ERF: {                   \
        const int KIND = TX_GELU_ERF;     \
        __VA_ARGS__;                      \
    } break;                              \
    case TX_SQUARED_RELU: {               \
        const int KIND = TX_SQUARED_RELU; \
        __VA_ARGS__;                      \
    } break;                              \
    case TX_TANH: {                       \
        const int KIND = TX_TANH;         \
        __VA_ARGS__;                      \
    } break;                              \
    case TX_RELU: {                       \
        const int KIND = TX_RELU;         \
        __VA_ARGS__;                      \
    } break;                              \
    default: {                            \
        const int KIND = TX_GELU_TANH;    \
        __VA_ARGS__;                      \
    } break;                              \
    }

TX_GPU_ROW tx_status tx__gpu_activation_fwd(tx_ctx *c, const tx_activation_fwd_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x), packs = aligned16(a->x.data) && aligned16(a->y.data) ? n / 8 : 0;
    TX_TRY(tx__gpu_need_float("activation_fwd", a->x));
    if (!n) return TX_OK;
    EACH_KIND(a->kind,
              GPU_FLOAT(a->x.dtype, T,
                        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, packs ? n / 8 : n, 256), 256, 0,
                                   (activation_fwd_kernel<KIND, T>), (T *)a->y.data, (const T *)a->x.data, n, packs)));
    return tx__gpu_launched(c, "activation_fwd");
}

TX_GPU_ROW tx_status tx__gpu_activation_bwd(tx_ctx *c, const tx_activation_bwd_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x);
    int64_t packs = aligned16(a->x.data) && aligned16(a->dx.data) && aligned16(a->dy.data) ? n / 8 : 0;
    TX_TRY(tx__gpu_need_float("activation_bwd", a->x));
    if (!n) return TX_OK;
    EACH_KIND(a->kind, GPU_FLOAT(a->x.dtype, T,
                                 GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, packs ? n / 8 : n, 256), 256, 0,
                                            (activation_bwd_kernel<KIND, T>), (T *)a->dx.data, (const T *)a->dy.data,
                                            (const T *)a->x.data, n, packs)));
    return tx__gpu_launched(c, "activation_bwd");
}

/* ---- gates ---- */

/* Rows of f beside rows of 2 f, in which a gate and its up begin at these columns. */
struct glu_sizes {
    int64_t rows, f, gate, up;
};

static glu_sizes glu_sizes_of(tx_tensor y, bool gate_second)
{
    int64_t f = y.dim[1], gate = gate_second ? f : 0;
    glu_sizes n = { y.dim[0], f, gate, f - gate };
    return n;
}

template <int KIND, class T> __global__ void glu_fwd_kernel(T *y, const T *x, glu_sizes n)
{
    for (int64_t i = grid_thread(); i < n.rows * n.f; i += grid_threads()) {
        int64_t row = i / n.f, at = row * 2 * n.f + (i - row * n.f);
        float unused;
        y[i] = to<T>(open_gate<KIND, T>(f32(x[at + n.gate]), &unused) * f32(x[at + n.up]));
    }
}

template <int KIND, class T> __global__ void glu_bwd_kernel(T *dx, const T *dy, const T *x, glu_sizes n)
{
    for (int64_t i = grid_thread(); i < n.rows * n.f; i += grid_threads()) {
        int64_t row = i / n.f, at = row * 2 * n.f + (i - row * n.f);
        float slope, d = f32(dy[i]), through = f32(x[at + n.up]);
        float opened = open_gate<KIND, T>(f32(x[at + n.gate]), &slope);
        dx[at + n.gate] = to<T>(d * through * slope);
        dx[at + n.up] = to<T>(d * opened);
    }
}

#define EACH_GATE(kind, ...)               \
    switch (kind) {                        \
    case TX_GLU_GELU: {                    \
        const int KIND = TX_GLU_GELU;      \
        __VA_ARGS__;                       \
    } break;                               \
    case TX_GLU_GELU_TANH: {               \
        const int KIND = TX_GLU_GELU_TANH; \
        __VA_ARGS__;                       \
    } break;                               \
    case TX_GLU_RELU: {                    \
        const int KIND = TX_GLU_RELU;      \
        __VA_ARGS__;                       \
    } break;                               \
    case TX_GLU_LINEAR: {                  \
        const int KIND = TX_GLU_LINEAR;    \
        __VA_ARGS__;                       \
    } break;                               \
    default: {                             \
        const int KIND = TX_GLU_SILU;      \
        __VA_ARGS__;                       \
    } break;                               \
    }

TX_GPU_ROW tx_status tx__gpu_glu_fwd(tx_ctx *c, const tx_glu_fwd_args *a, void *scratch)
{
    (void)scratch;
    const glu_sizes n = glu_sizes_of(a->y, a->gate_second);
    TX_TRY(tx__gpu_need_float("glu_fwd", a->x));
    EACH_GATE(a->kind, GPU_FLOAT(a->x.dtype, T,
                                 GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n.rows * n.f, 256), 256, 0,
                                            (glu_fwd_kernel<KIND, T>), (T *)a->y.data, (const T *)a->x.data, n)));
    return tx__gpu_launched(c, "glu_fwd");
}

TX_GPU_ROW tx_status tx__gpu_glu_bwd(tx_ctx *c, const tx_glu_bwd_args *a, void *scratch)
{
    (void)scratch;
    const glu_sizes n = glu_sizes_of(a->dy, a->gate_second);
    TX_TRY(tx__gpu_need_float("glu_bwd", a->x));
    EACH_GATE(a->kind, GPU_FLOAT(a->x.dtype, T,
                                 GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n.rows * n.f, 256), 256, 0,
                                            (glu_bwd_kernel<KIND, T>), (T *)a->dx.data, (const T *)a->dy.data,
                                            (const T *)a->x.data, n)));
    return tx__gpu_launched(c, "glu_bwd");
}
