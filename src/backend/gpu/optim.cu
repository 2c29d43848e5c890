/* optim.cu - the gradients' norm and what follows from it, and the updates. No number of it passes through the host. */
#include "backend/gpu/update.h"

/* ---- exact_add: the limbs are whole numbers, so that the order of additions does not show ---- */

/* A thread's own sum as long as its numbers begin in one limb, which those of a gradient nearly always do: atomic
 * additions to the same few limbs would wait for each other. */
struct exact_part {
    int k;        /* the first of three; -1: nothing is there */
    word limb[3]; /* each of less than 2^32 a number */
};

__device__ static inline void exact_flush(word *limb, exact_part *a)
{
    for (int i = 0; i < 3; i++) {
        if (a->limb[i]) atomicAdd(&limb[a->k + i], a->limb[i]);
        a->limb[i] = 0;
    }
}

/* tx_exact_add (base/exact.c).  @limb the block's, for what begins elsewhere than `a` does */
__device__ static inline void add_exactly(exact_part *a, word *limb, double *beyond, double x)
{
    word bits;
    memcpy(&bits, &x, sizeof bits);
    int at = (int)(bits >> 52 & 2047) - 1075 + 320;
    if (at >= 32 * (TX_EXACT_LIMBS - 2)) {
        *beyond = *beyond + x; /* infinite or NaN; of several threads any one may do it */
        return;
    }
    word m = (bits & ((1ull << 52) - 1)) | 1ull << 52;
    if (at <= -53) return;
    if (at < 0) {
        m >>= -at;
        at = 0;
    }
    int k = at / 32, shift = at % 32;
    word low = m << shift;
    if (k != a->k) exact_flush(limb, a);
    a->k = k;
    a->limb[0] += low & 0xffffffffull;
    a->limb[1] += low >> 32;
    a->limb[2] += shift ? m >> (64 - shift) : 0;
}

/* To the block's, a warp's threads together as far as they begin where most of the sum does. */
__device__ static inline void exact_join(word *limb, exact_part *a)
{
    int k = a->k;
    for (int m = WARP / 2; m; m >>= 1) {
        int other = shfl_xor(k, m);
        if (other > k) k = other;
    }
    if (a->k != k) exact_flush(limb, a);
    a->k = k;
    for (int i = 0; i < 3; i++) a->limb[i] = warp_sum(a->limb[i]);
    if (threadIdx.x % WARP == 0) exact_flush(limb, a);
}

__global__ void exact_add_kernel(word *sum, const double *x, int64_t n)
{
    __shared__ word limb[TX_EXACT_LIMBS];
    __shared__ double beyond;
    for (int k = (int)threadIdx.x; k < TX_EXACT_LIMBS; k += (int)blockDim.x) limb[k] = 0;
    if (threadIdx.x == 0) beyond = 0;
    __syncthreads();
    exact_part part = { -1, { 0, 0, 0 } };
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) add_exactly(&part, limb, &beyond, x[i]);
    exact_join(limb, &part);
    __syncthreads();
    for (int k = (int)threadIdx.x; k < TX_EXACT_LIMBS; k += (int)blockDim.x)
        if (limb[k]) atomicAdd(&sum[k], limb[k]);
    if (threadIdx.x) return;
    double *all = (double *)(sum + TX_EXACT_LIMBS);
    if (beyond != 0) *all = *all + beyond;
}

TX_GPU_ROW tx_status tx__gpu_exact_add(tx_ctx *c, const tx_exact_add_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->x);
    if (n)
        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, (n + 7) / 8, 256), 256, 0, exact_add_kernel,
                   (word *)a->sum.data, (const double *)a->x.data, n);
    return tx__gpu_launched(c, "exact_add");
}

/* ---- clip ---- */

__global__ void clip_kernel(double *out, const word *sum, double loss_scale, double max_norm)
{
    double beyond;
    memcpy(&beyond, sum + TX_EXACT_LIMBS, sizeof beyond);
    double norm = sqrt(exact_value(sum, beyond)) / loss_scale;
    double keep = max_norm > 0 ? max_norm / (norm + 1e-6) : 1;
    out[0] = norm;
    out[1] = (keep < 1 ? keep : 1) / loss_scale;
    out[2] = isfinite(norm) ? 1 : 0;
}

TX_GPU_ROW tx_status tx__gpu_clip(tx_ctx *c, const tx_clip_args *a, void *scratch)
{
    (void)scratch;
    GPU_LAUNCH(tx__gpu_compute(c), 1, 1, 0, clip_kernel, (double *)a->out.data, (const word *)a->sum.data,
               a->loss_scale, a->max_norm);
    return tx__gpu_launched(c, "clip");
}

/* ---- updates ---- */

struct adam_numbers {
    double grad_scale;
    float beta1, beta2, one_minus_beta1, one_minus_beta2, rate, root, eps, decay, l2;
};

__device__ static inline void adam_one(const adam_numbers &s, float scale, float g, float *p, float *m, float *v)
{
    g = g * scale + s.l2 * *p;
    *m = s.beta1 * *m + s.one_minus_beta1 * g;
    *v = s.beta2 * *v + s.one_minus_beta2 * g * g;
    *p -= s.rate * *m / (sqrtf(*v) * s.root + s.eps) + s.decay * *p;
}

template <class G, class L> struct adam_arrays {
    float *p, *m, *v;
    const G *g;
    L *low; /* NULL: none */
    int64_t n, n_packs;
};

template <class G, class L> __global__ void adam_kernel(adam_arrays<G, L> a, adam_numbers s, const double *gate)
{
    float scale;
    if (!is_open(gate, s.grad_scale, &scale)) return;
    for (int64_t i = grid_thread(); i < a.n_packs; i += grid_threads()) {
        float p4[4], m4[4], v4[4], g4[4];
        load_floats<4>(a.p + 4 * i, p4);
        load_floats<4>(a.m + 4 * i, m4);
        load_floats<4>(a.v + 4 * i, v4);
        load_floats<4>(a.g + 4 * i, g4);
        for (int k = 0; k < 4; k++) adam_one(s, scale, g4[k], &p4[k], &m4[k], &v4[k]);
        store_floats<4>(a.p + 4 * i, p4);
        store_floats<4>(a.m + 4 * i, m4);
        store_floats<4>(a.v + 4 * i, v4);
        if (a.low) store_floats<4>(a.low + 4 * i, p4);
    }
    for (int64_t i = 4 * a.n_packs + grid_thread(); i < a.n; i += grid_threads()) {
        adam_one(s, scale, f32(a.g[i]), &a.p[i], &a.m[i], &a.v[i]);
        if (a.low) a.low[i] = to<L>(a.p[i]);
    }
}

template <class G, class L>
static void adam(const tx_ctx *c, const tx_adam_args *a, const adam_numbers &s, int64_t n, int64_t packs)
{
    const adam_arrays<G, L> x = {
        (float *)a->p.data, (float *)a->m.data, (float *)a->v.data, (const G *)a->g.data, (L *)a->low.data, n, packs
    };
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, packs ? packs : n, 256), 256, 0, (adam_kernel<G, L>), x, s,
               (const double *)a->gate.data);
}

TX_GPU_ROW tx_status tx__gpu_adam(tx_ctx *c, const tx_adam_args *a, void *scratch)
{
    (void)scratch;
    double correct1 = 1 - pow(a->beta1, (double)a->t), correct2 = 1 - pow(a->beta2, (double)a->t);
    const adam_numbers s = { a->grad_scale,
                             (float)a->beta1,
                             (float)a->beta2,
                             (float)(1 - a->beta1),
                             (float)(1 - a->beta2),
                             (float)(a->lr / correct1),
                             (float)(1 / sqrt(correct2)),
                             (float)a->eps,
                             a->coupled ? 0 : (float)(a->lr * a->weight_decay),
                             a->coupled ? (float)a->weight_decay : 0 };
    const void *address[] = { a->p.data, a->m.data, a->v.data, a->g.data, a->low.data };
    int64_t n = tx_numel(a->p), packs = packs_of(address, 5, n);
    TX_TRY(need_fp32("adam", a->p));
    TX_TRY(tx__gpu_need_float("adam", a->g));
    TX_TRY(tx__gpu_need_float("adam", a->low));
    if (!n) return TX_OK;
    tx_dtype low = a->low.data ? a->low.dtype : TX_F32;
    GPU_FLOAT(a->g.dtype, G, GPU_FLOAT(low, L, adam<G, L>(c, a, s, n, packs)));
    return tx__gpu_launched(c, "adam");
}

/* ---- updates with one buffer of state ---- */

/* What a rule does to an element: `of` is the gradient, scaled, and m its state. */
struct sgd_rule {
    float momentum, decay, keep, of_grad, of_momentum;
    __device__ inline void operator()(float of, float *p, float *m) const
    {
        float g = of + decay * *p;
        *m = momentum * *m + keep * g;
        *p -= of_momentum * *m + of_grad * g;
    }
};

struct lion_rule {
    float beta1, beta2, one_minus_beta1, one_minus_beta2, rate, decay;
    __device__ inline void operator()(float of, float *p, float *m) const
    {
        float mean = beta1 * *m + one_minus_beta1 * of;
        float step = mean > 0 ? rate : mean < 0 ? -rate : 0;
        *m = beta2 * *m + one_minus_beta2 * of;
        *p -= step + decay * *p;
    }
};

struct adagrad_rule {
    float rate, eps, decay;
    __device__ inline void operator()(float of, float *p, float *v) const
    {
        float g = of + decay * *p;
        *v += g * g;
        *p -= rate * g / (sqrtf(*v) + eps);
    }
};

/* The tensors of such an update; low is absent where its data is NULL. */
struct one_state {
    const char *op;
    tx_tensor p, m, g, low, gate;
    double grad_scale;
};

template <class G, class L> struct one_state_arrays {
    float *p, *m;
    const G *g;
    L *low; /* NULL: none */
    int64_t n, n_packs;
};

template <class R, class G, class L>
__global__ void one_state_kernel(one_state_arrays<G, L> a, R rule, double grad_scale, const double *gate)
{
    float scale;
    if (!is_open(gate, grad_scale, &scale)) return;
    for (int64_t i = grid_thread(); i < a.n_packs; i += grid_threads()) {
        float p4[4], m4[4], g4[4];
        load_floats<4>(a.p + 4 * i, p4);
        load_floats<4>(a.m + 4 * i, m4);
        load_floats<4>(a.g + 4 * i, g4);
        for (int k = 0; k < 4; k++) rule(g4[k] * scale, &p4[k], &m4[k]);
        store_floats<4>(a.p + 4 * i, p4);
        store_floats<4>(a.m + 4 * i, m4);
        if (a.low) store_floats<4>(a.low + 4 * i, p4);
    }
    for (int64_t i = 4 * a.n_packs + grid_thread(); i < a.n; i += grid_threads()) {
        rule(f32(a.g[i]) * scale, &a.p[i], &a.m[i]);
        if (a.low) a.low[i] = to<L>(a.p[i]);
    }
}

template <class R, class G, class L> static void launch_one_state(const tx_ctx *c, const one_state *a, R rule)
{
    const void *address[] = { a->p.data, a->m.data, a->g.data, a->low.data };
    int64_t n = tx_numel(a->p), packs = packs_of(address, 4, n);
    const one_state_arrays<G, L> x = {
        (float *)a->p.data, (float *)a->m.data, (const G *)a->g.data, (L *)a->low.data, n, packs
    };
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, packs ? packs : n, 256), 256, 0, (one_state_kernel<R, G, L>), x,
               rule, a->grad_scale, (const double *)a->gate.data);
}

template <class R> static tx_status update_one_state(const tx_ctx *c, const one_state *a, R rule)
{
    TX_TRY(need_fp32(a->op, a->p));
    TX_TRY(tx__gpu_need_float(a->op, a->g));
    TX_TRY(tx__gpu_need_float(a->op, a->low));
    if (!tx_numel(a->p)) return TX_OK;
    tx_dtype low = a->low.data ? a->low.dtype : TX_F32;
    GPU_FLOAT(a->g.dtype, G, GPU_FLOAT(low, L, launch_one_state<R, G, L>(c, a, rule)));
    return tx__gpu_launched(c, a->op);
}

TX_GPU_ROW tx_status tx__gpu_sgd(tx_ctx *c, const tx_sgd_args *a, void *scratch)
{
    (void)scratch;
    const one_state x = { "sgd", a->p, a->m, a->g, a->low, a->gate, a->grad_scale };
    const sgd_rule rule = { (float)a->momentum, (float)a->weight_decay, (float)(1 - a->dampening),
                            a->nesterov ? (float)a->lr : 0, a->nesterov ? (float)(a->lr * a->momentum) : (float)a->lr };
    return update_one_state(c, &x, rule);
}

TX_GPU_ROW tx_status tx__gpu_lion(tx_ctx *c, const tx_lion_args *a, void *scratch)
{
    (void)scratch;
    const one_state x = { "lion", a->p, a->m, a->g, a->low, a->gate, a->grad_scale };
    const lion_rule rule = { (float)a->beta1,       (float)a->beta2, (float)(1 - a->beta1),
                             (float)(1 - a->beta2), (float)a->lr,    (float)(a->lr * a->weight_decay) };
    return update_one_state(c, &x, rule);
}

TX_GPU_ROW tx_status tx__gpu_adagrad(tx_ctx *c, const tx_adagrad_args *a, void *scratch)
{
    (void)scratch;
    const one_state x = { "adagrad", a->p, a->v, a->g, a->low, a->gate, a->grad_scale };
    return update_one_state(c, &x, adagrad_rule{ (float)a->lr, (float)a->eps, (float)a->weight_decay });
}

/* A number of an array whose type is known at run time: the kernel is bound by memory. */
struct any_array {
    void *data; /* NULL: none */
    int dtype;
};

__device__ static inline float any_load(any_array a, int64_t i)
{
    if (a.dtype == TX_F32) return ((const float *)a.data)[i];
    if (a.dtype == TX_BF16) return f32(((const bf16 *)a.data)[i]);
    return f32(((const fp16 *)a.data)[i]);
}

__device__ static inline void any_store(any_array a, int64_t i, float x)
{
    if (a.dtype == TX_F32)
        ((float *)a.data)[i] = x;
    else if (a.dtype == TX_BF16)
        ((bf16 *)a.data)[i] = to<bf16>(x);
    else
        ((fp16 *)a.data)[i] = to<fp16>(x);
}

struct blend_arrays {
    any_array y, x, z, low;
    int64_t n;
};

struct blend_numbers {
    double alpha;
    float beta, diagonal;
    bool only_go;
    int64_t n_norms, apart; /* elements from one of the diagonal to the next */
};

__global__ void blend_kernel(blend_arrays a, blend_numbers s, const double *norm, const double *gate)
{
    if (gate && gate[2] == 0) return;
    double of_x = gate && !s.only_go ? s.alpha * gate[1] : s.alpha, squares = 0;
    for (int64_t i = 0; i < s.n_norms; i++) squares += norm[i] * norm[i];
    if (s.n_norms) of_x /= fmax(sqrt(squares), TX_BLEND_LEAST);
    float alpha = (float)of_x;
    for (int64_t i = grid_thread(); i < a.n; i += grid_threads()) {
        float y = alpha * any_load(a.x, i);
        if (a.z.data) y += s.beta * any_load(a.z, i);
        if (s.diagonal != 0 && i % s.apart == 0) y += s.diagonal;
        any_store(a.y, i, y);
        if (a.low.data) any_store(a.low, i, any_load(a.y, i));
    }
}

TX_GPU_ROW tx_status tx__gpu_blend(tx_ctx *c, const tx_blend_args *a, void *scratch)
{
    (void)scratch;
    const tx_tensor of[] = { a->y, a->x, a->z, a->low };
    any_array array[4];
    int64_t n = tx_numel(a->y);
    for (int i = 0; i < 4; i++) {
        TX_TRY(tx__gpu_need_float("blend", of[i]));
        array[i].data = of[i].data;
        array[i].dtype = of[i].dtype;
    }
    if (!n) return TX_OK;
    const blend_arrays x = { array[0], array[1], array[2], array[3], n };
    const blend_numbers s = { a->alpha,
                              (float)a->beta,
                              (float)a->diagonal,
                              a->only_go,
                              a->norm.data ? tx_numel(a->norm) : 0,
                              a->diagonal != 0 ? a->y.dim[1] + 1 : 1 };
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 256), 256, 0, blend_kernel, x, s, (const double *)a->norm.data,
               (const double *)a->gate.data);
    return tx__gpu_launched(c, "blend");
}
