/* lamb.cu - the two halves of LAMB, and the ratio of norms between them. */
#include "backend/gpu/update.h"

struct lamb_numbers {
    double grad_scale;
    float beta1, beta2, one_minus_beta1, one_minus_beta2, first, second, inside, outside, decay;
};

static lamb_numbers numbers_of(const tx_lamb_rule &r)
{
    return { 1,
             (float)r.beta1,
             (float)r.beta2,
             (float)(1 - r.beta1),
             (float)(1 - r.beta2),
             (float)(1 / r.correct1),
             (float)(1 / r.correct2),
             r.eps_inside ? (float)r.eps : 0,
             r.eps_inside ? 0 : (float)r.eps,
             (float)r.weight_decay };
}

__device__ static inline float direction(const lamb_numbers &s, float p, float m, float v)
{
    return s.first * m / (sqrtf(v * s.second + s.inside) + s.outside) + s.decay * p;
}

/* ---- moments and squares ---- */

template <class G> struct lamb_moments_arrays {
    float *m, *v;
    const float *p;
    const G *g;
    double *of_p, *of_u;
    int64_t n, blocks;
    bool packs;
};

__device__ static inline void moments_one(const lamb_numbers &s, float g, float p, float *m, float *v, double *sum)
{
    *m = s.beta1 * *m + s.one_minus_beta1 * g;
    *v = s.beta2 * *v + s.one_minus_beta2 * g * g;
    double of_p = (double)p, of_u = (double)direction(s, p, *m, *v);
    sum[0] += of_p * of_p;
    sum[1] += of_u * of_u;
}

/* Four elements of a block from i on. */
template <class G>
__device__ static inline void moments_four(const lamb_moments_arrays<G> &a, const lamb_numbers &s, float scale,
                                           int64_t i, double *sum)
{
    if (a.packs && i + 4 <= a.n) {
        float p4[4], m4[4], v4[4], g4[4];
        load_floats<4>(a.p + i, p4);
        load_floats<4>(a.m + i, m4);
        load_floats<4>(a.v + i, v4);
        load_floats<4>(a.g + i, g4);
        for (int k = 0; k < 4; k++) moments_one(s, g4[k] * scale, p4[k], &m4[k], &v4[k], sum);
        store_floats<4>(a.m + i, m4);
        store_floats<4>(a.v + i, v4);
        return;
    }
    for (int64_t k = i; k < i + 4 && k < a.n; k++) moments_one(s, f32(a.g[k]) * scale, a.p[k], &a.m[k], &a.v[k], sum);
}

/* LANES have four elements each of one of sumsq's blocks. */
template <class G> __global__ void lamb_moments_kernel(lamb_moments_arrays<G> a, lamb_numbers s, const double *gate)
{
    float scale;
    bool open = is_open(gate, s.grad_scale, &scale);
    int lane = (int)threadIdx.x % LANES;
    int64_t step = grid_threads() / LANES, rounds = (a.blocks + step - 1) / step;
    for (int64_t r = 0; r < rounds; r++) { /* all lanes of a warp come to every round: they exchange their sums */
        int64_t block = r * step + grid_thread() / LANES;
        double sum[2] = { 0, 0 };
        if (open && block < a.blocks) moments_four(a, s, scale, block * TX_SUMSQ_BLOCK + 4 * lane, sum);
        for (int k = 0; k < 2; k++) sum[k] = lanes_sum(sum[k]);
        if (lane || block >= a.blocks) continue;
        a.of_p[block] = sum[0];
        a.of_u[block] = sum[1];
    }
}

TX_GPU_ROW tx_status tx__gpu_lamb_moments(tx_ctx *c, const tx_lamb_moments_args *a, void *scratch)
{
    (void)scratch;
    lamb_numbers s = numbers_of(a->rule);
    const void *address[] = { a->p.data, a->m.data, a->v.data, a->g.data };
    int64_t n = tx_numel(a->p), blocks = a->sums.dim[1];
    bool packs = packs_of(address, 4, n) > 0;
    double *sums = (double *)a->sums.data;
    TX_TRY(need_fp32("lamb_moments", a->p));
    TX_TRY(tx__gpu_need_float("lamb_moments", a->g));
    if (!n) return TX_OK;
    s.grad_scale = a->grad_scale;
    GPU_FLOAT(a->g.dtype, G,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, blocks * LANES, 256), 256, 0, lamb_moments_kernel<G>,
                         (lamb_moments_arrays<G>{ (float *)a->m.data, (float *)a->v.data, (const float *)a->p.data,
                                                  (const G *)a->g.data, sums, sums + blocks, n, blocks, packs }),
                         s, (const double *)a->gate.data));
    return tx__gpu_launched(c, "lamb_moments");
}

/* ---- 1-bit LAMB's moments, and its coefficients ---- */

struct lamb_fresh_arrays {
    float *m, *fresh;
    const float *x, *v, *p;
    double *of_w, *of_u, *most;
    int64_t n, blocks;
};

__device__ static inline void fresh_one(const lamb_fresh_arrays &a, const lamb_numbers &s, int64_t i, double *sum,
                                        float *most)
{
    float x = a.x[i], g = (x - s.beta1 * a.m[i]) / s.one_minus_beta1, root = sqrtf(a.v[i]) + s.outside;
    float fresh = s.beta2 * a.fresh[i] + s.one_minus_beta2 * g * g, quotient = root / (sqrtf(fresh) + s.outside);
    float w = x / root, u = w + s.decay * a.p[i];
    a.m[i] = x;
    a.fresh[i] = fresh;
    sum[0] += (double)w * (double)w;
    sum[1] += (double)u * (double)u;
    *most = quotient > *most ? quotient : *most;
}

/* Bits of doubles that are not negative are in their order. */
__global__ void lamb_fresh_kernel(lamb_fresh_arrays a, lamb_numbers s, const double *gate)
{
    float unused, most = 0;
    bool open = is_open(gate, 1, &unused);
    int lane = (int)threadIdx.x % LANES;
    int64_t step = grid_threads() / LANES, rounds = (a.blocks + step - 1) / step;
    for (int64_t r = 0; r < rounds; r++) { /* as lamb_moments_kernel */
        int64_t block = r * step + grid_thread() / LANES, begin = block * TX_SUMSQ_BLOCK + 4 * lane;
        double sum[2] = { 0, 0 };
        for (int64_t i = begin; i < begin + 4 && i < a.n && open; i++) fresh_one(a, s, i, sum, &most);
        for (int k = 0; k < 2; k++) sum[k] = lanes_sum(sum[k]);
        if (lane || block >= a.blocks) continue;
        a.of_w[block] = sum[0];
        a.of_u[block] = sum[1];
    }
    for (int k = LANES / 2; k; k >>= 1) {
        float other = shfl_xor(most, k);
        most = other > most ? other : most;
    }
    double of_lanes = (double)most;
    word bits;
    memcpy(&bits, &of_lanes, sizeof bits);
    if (!lane && open) atomicMax((word *)a.most, bits);
}

TX_GPU_ROW tx_status tx__gpu_lamb_fresh(tx_ctx *c, const tx_lamb_fresh_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->p), blocks = a->sums.dim[1];
    double *sums = (double *)a->sums.data;
    TX_TRY(need_fp32("lamb_fresh", a->p));
    if (n)
        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, blocks * LANES, 256), 256, 0, lamb_fresh_kernel,
                   (lamb_fresh_arrays{ (float *)a->m.data, (float *)a->fresh.data, (const float *)a->x.data,
                                       (const float *)a->v.data, (const float *)a->p.data, sums, sums + blocks,
                                       (double *)a->most.data, n, blocks }),
                   numbers_of(a->rule), (const double *)a->gate.data);
    return tx__gpu_launched(c, "lamb_fresh");
}

struct lamb_coeff_arrays {
    double *ratio;
    float *average, *last;
    const double *most, *gate;
    double beta, least, largest, threshold;
    int64_t n;
};

__global__ void lamb_coeff_kernel(lamb_coeff_arrays a)
{
    float unused;
    if (!is_open(a.gate, 1, &unused)) return;
    for (int64_t i = grid_thread(); i < a.n; i += grid_threads()) {
        double r = a.ratio[i], average = (double)a.average[i];
        if (a.most) {
            double f = tx_lamb_factor(a.most[i] * r + 1 - r, (double)a.last[i], a.least, a.largest, a.threshold);
            a.last[i] = (float)f;
            a.ratio[i] = average * f;
        } else if (r != 1)
            a.average[i] = (float)(a.beta * average + (1 - a.beta) * r);
    }
}

TX_GPU_ROW tx_status tx__gpu_lamb_coeff(tx_ctx *c, const tx_lamb_coeff_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->ratio);
    if (n)
        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 64), 64, 0, lamb_coeff_kernel,
                   (lamb_coeff_arrays{ (double *)a->ratio.data, (float *)a->average.data, (float *)a->last.data,
                                       (const double *)a->most.data, (const double *)a->gate.data, a->beta, a->least,
                                       a->largest, a->threshold, n }));
    return tx__gpu_launched(c, "lamb_coeff");
}

/* ---- the ratio ---- */

__device__ static inline double norm_of(const word *sum, bool *finite)
{
    double beyond;
    memcpy(&beyond, sum + TX_EXACT_LIMBS, sizeof beyond);
    *finite = *finite && beyond == 0;
    return sqrt(exact_value(sum, beyond));
}

__global__ void lamb_ratio_kernel(double *out, const word *sums, int64_t n, double least, double most)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        const word *sum = sums + 2 * i * TX_EXACT_WORDS;
        bool finite = true;
        double p = norm_of(sum, &finite), u = norm_of(sum + TX_EXACT_WORDS, &finite), ratio = p / u;
        if (!finite)
            out[i] = (double)NAN;
        else if (p == 0 || u == 0)
            out[i] = 1;
        else
            out[i] = ratio > most ? most : ratio < least ? least : ratio;
    }
}

TX_GPU_ROW tx_status tx__gpu_lamb_ratio(tx_ctx *c, const tx_lamb_ratio_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->out);
    if (n)
        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 64), 64, 0, lamb_ratio_kernel, (double *)a->out.data,
                   (const word *)a->sums.data, n, a->least, a->most);
    return tx__gpu_launched(c, "lamb_ratio");
}

/* ---- the update ---- */

template <class L> struct lamb_update_arrays {
    float *p;
    const float *m, *v;
    L *low; /* NULL: none */
    const double *ratio, *gate;
    double lr;
    int64_t n, n_packs;
};

template <class L> __global__ void lamb_update_kernel(lamb_update_arrays<L> a, lamb_numbers s)
{
    float unused;
    if (!is_open(a.gate, 1, &unused)) return;
    float rate = (float)(a.ratio ? a.lr * *a.ratio : a.lr);
    for (int64_t i = grid_thread(); i < a.n_packs; i += grid_threads()) {
        float p4[4], m4[4], v4[4];
        load_floats<4>(a.p + 4 * i, p4);
        load_floats<4>(a.m + 4 * i, m4);
        load_floats<4>(a.v + 4 * i, v4);
        for (int k = 0; k < 4; k++) p4[k] -= rate * direction(s, p4[k], m4[k], v4[k]);
        store_floats<4>(a.p + 4 * i, p4);
        if (a.low) store_floats<4>(a.low + 4 * i, p4);
    }
    for (int64_t i = 4 * a.n_packs + grid_thread(); i < a.n; i += grid_threads()) {
        a.p[i] -= rate * direction(s, a.p[i], a.m[i], a.v[i]);
        if (a.low) a.low[i] = to<L>(a.p[i]);
    }
}

TX_GPU_ROW tx_status tx__gpu_lamb_update(tx_ctx *c, const tx_lamb_update_args *a, void *scratch)
{
    (void)scratch;
    const void *address[] = { a->p.data, a->m.data, a->v.data, a->low.data };
    int64_t n = tx_numel(a->p), packs = packs_of(address, 4, n);
    tx_dtype low = a->low.data ? a->low.dtype : TX_F32;
    TX_TRY(need_fp32("lamb_update", a->p));
    TX_TRY(tx__gpu_need_float("lamb_update", a->low));
    if (!n) return TX_OK;
    GPU_FLOAT(low, L,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, packs ? packs : n, 256), 256, 0, lamb_update_kernel<L>,
                         (lamb_update_arrays<L>{ (float *)a->p.data, (const float *)a->m.data, (const float *)a->v.data,
                                                 (L *)a->low.data, (const double *)a->ratio.data,
                                                 (const double *)a->gate.data, a->lr, n, packs }),
                         numbers_of(a->rule)));
    return tx__gpu_launched(c, "lamb_update");
}

/* ---- what Adam divides by, taken back ---- */

__global__ void root_mul_kernel(float *y, const float *x, const float *v, float eps, int64_t n)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) y[i] = x[i] * (sqrtf(v[i]) + eps);
}

TX_GPU_ROW tx_status tx__gpu_root_mul(tx_ctx *c, const tx_root_mul_args *a, void *scratch)
{
    (void)scratch;
    int64_t n = tx_numel(a->y);
    TX_TRY(need_fp32("root_mul", a->y));
    if (n)
        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, n, 256), 256, 0, root_mul_kernel, (float *)a->y.data,
                   (const float *)a->x.data, (const float *)a->v.data, (float)a->eps, n);
    return tx__gpu_launched(c, "root_mul");
}
