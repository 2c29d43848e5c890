/* experts.cu - routing of tokens to experts, and the rows that go with it.
 *
 *  What tokens choose and what experts have no room for is computed in fp64: a choice is the same as ref's unless two
 * scores differ by less than that tells apart. There is little of it. Rows are values, summed in fp32.
 *
 *  Pairs of a token and a choice are put into the order of experts by a block per expert, which goes over all pairs:
 * a thread takes a run of them, so that the order of threads is that of pairs. */
#include "backend/gpu/gpu.h"

#define EPSILON 0x1p-23 /* of fp32 */

enum { THREADS = 256 };

__device__ static inline int64_t expert_of(int32_t choice)
{
    return choice < 0 ? -1 - choice : choice;
}

/* ---- scores ---- */

struct routing {
    const float *logits;
    const double *lse; /* [T] log Σ exp, of a softmax and of z-loss */
    int64_t rows, n;   /* tokens, experts */
    tx_router how;
};

/* A token's row. */
struct token {
    int64_t t;
    const float *logits;
    double lse;
};

__device__ static inline token token_of(const routing &r, int64_t t)
{
    token x = { t, r.logits + t * r.n, r.lse[t] };
    return x;
}

__device__ static inline double score(const routing &r, const token &x, int64_t e)
{
    double z = (double)x.logits[e];
    return r.how.score == TX_ROUTER_SIGMOID ? 1 / (1 + exp(-z)) : exp(z - x.lse);
}

/* The same, by a warp that finds lse. */
__device__ static inline token warp_token(const routing &r, int64_t t)
{
    token x = { t, r.logits + t * r.n, 0 };
    float most = -INFINITY;
    double sum = 0;
    int lane = (int)threadIdx.x % WARP;
    for (int64_t e = lane; e < r.n; e += WARP) most = fmaxf(most, x.logits[e]);
    most = warp_max(most);
    for (int64_t e = lane; e < r.n; e += WARP) sum += exp((double)x.logits[e] - (double)most);
    x.lse = (double)most + log(warp_sum(sum));
    return x;
}

/* What probs are divided by; by a warp. */
__device__ static inline double sum_of_scores(const routing &r, const token &x)
{
    double sum = 0;
    if (r.how.score != TX_ROUTER_SIGMOID) return 1;
    for (int64_t e = (int)threadIdx.x % WARP; e < r.n; e += WARP) sum += score(r, x, e);
    return warp_sum(sum);
}

/* Number of an element of the random stream. */
__device__ static inline uint64_t element_of(const routing &r, int64_t t, int64_t e)
{
    int64_t b = r.how.b ? r.how.b : 1;
    uint64_t first = tx_dropout_row(&r.how.random, t / b, t % b, r.n);
    return first + (uint64_t)e;
}

/* ---- choices ---- */

/* What a token may choose, and how much it is drawn there; e is -1 where there is nothing. */
struct candidate {
    double by;
    int64_t e;
};

__device__ static inline candidate better(candidate a, candidate b)
{
    if (a.e < 0 || (b.e >= 0 && (b.by > a.by || (b.by == a.by && b.e < a.e)))) return b;
    return a;
}

__device__ static inline candidate warp_best(candidate mine)
{
    for (int m = WARP / 2; m; m >>= 1) {
        candidate other;
        other.by = shfl_xor(mine.by, m);
        other.e = shfl_xor(mine.e, m);
        mine = better(mine, other);
    }
    return mine;
}

/* Without a bias logits have the order of scores. */
template <class B>
__device__ static inline double attraction(const routing &r, const B *bias, const token &x, int64_t j, int64_t e)
{
    double by = (double)x.logits[e];
    if (j == 1 && r.how.noisy_second)
        by -= log(-log(tx_rng_uniform_at(&r.how.random.rng, element_of(r, x.t, e))));
    else if (bias)
        by = score(r, x, e) + (double)f32(bias[e]);
    return isnan(by) ? -INFINITY : by;
}

__device__ static inline bool is_taken(const int32_t *taken, int64_t n, int64_t e)
{
    for (int64_t j = 0; j < n; j++)
        if (taken[j] == e) return true;
    return false;
}

/* A warp a token. */
template <class B> __global__ void choose_kernel(float *probs, int32_t *choice, double *lse, const B *bias, routing r)
{
    int lane = (int)threadIdx.x % WARP;
    for (int64_t t = grid_warp(); t < r.rows; t += grid_warps()) {
        int32_t taken[TX_MAX_CHOICES];
        const token x = warp_token(r, t);
        if (lane == 0) lse[t] = x.lse;
        for (int64_t j = 0; j < r.how.k; j++) {
            candidate best = { 0, -1 };
            for (int64_t e = lane; e < r.n; e += WARP) {
                candidate one = { attraction(r, bias, x, j, e), e };
                if (!is_taken(taken, j, e)) best = better(best, one);
            }
            taken[j] = (int32_t)warp_best(best).e;
            if (lane == 0) choice[t * r.how.k + j] = taken[j];
        }
        double sum = sum_of_scores(r, x);
        for (int64_t e = lane; e < r.n; e += WARP) probs[t * r.n + e] = (float)(score(r, x, e) / sum);
    }
}

/* ---- counts and order ---- */

/* Pairs, and the run of them that a thread of a block has. */
struct run {
    int64_t first, end;
};

__device__ static inline run run_of(int64_t pairs)
{
    int64_t each = (pairs + blockDim.x - 1) / blockDim.x, first = each * threadIdx.x;
    run r = { first < pairs ? first : pairs, first + each < pairs ? first + each : pairs };
    return r;
}

/* How many of a thread's pairs are of e. */
__device__ static inline int of_expert(const int32_t *choice, run r, int64_t e)
{
    int n = 0;
    for (int64_t i = r.first; i < r.end; i++) n += choice[i] == e;
    return n;
}

/* A block an expert; what is dropped is nobody's. */
__global__ void count_kernel(int32_t *count, const int32_t *choice, int64_t pairs)
{
    int n = 0;
    for (int64_t i = threadIdx.x; i < pairs; i += blockDim.x) n += choice[i] == (int32_t)blockIdx.x;
    n = block_sum(n);
    if (threadIdx.x == 0) count[blockIdx.x] = n;
}

/* Pairs packed by expert; row NULL: not wanted. */
struct packing {
    int32_t *row, *source;
    const int32_t *count, *choice;
    int64_t pairs, room;
    tx__fault *fault;
};

/* Rows of the experts before e; of all experts for e = n. */
__device__ static inline int64_t rows_before(const int32_t *count, int64_t e)
{
    int n = 0;
    for (int64_t i = threadIdx.x; i < e; i += blockDim.x) n += count[i];
    return block_sum(n);
}

/* A block an expert. */
__global__ void order_kernel(packing p)
{
    __shared__ int has[THREADS];
    const int64_t e = blockIdx.x;
    const run mine = run_of(p.pairs);
    int64_t at = rows_before(p.count, e), all = rows_before(p.count, gridDim.x);
    has[threadIdx.x] = of_expert(p.choice, mine, e);
    __syncthreads();
    for (int i = 0; i < (int)threadIdx.x; i++) at += has[i];
    for (int64_t i = mine.first; i < mine.end; i++) {
        if (p.choice[i] != e) continue;
        if (at < p.room) p.source[at] = (int32_t)i;
        if (p.row) p.row[i] = (int32_t)at;
        at++;
    }
    for (int64_t i = grid_thread(); p.row && i < p.pairs; i += grid_threads())
        if (p.choice[i] < 0) p.row[i] = -1;
    for (int64_t i = all + grid_thread(); i < p.room; i += grid_threads()) p.source[i] = -1;
    if (all > p.room && grid_thread() == 0) tx__gpu_fault(p.fault, TX__FAULT_PAIRS, 0, all, p.room + 1);
}

static void put_in_order(const tx_ctx *c, int32_t *count, packing p, int64_t experts)
{
    gpuStream_t s = tx__gpu_compute(c);
    GPU_LAUNCH(s, (unsigned)experts, THREADS, 0, count_kernel, count, p.choice, p.pairs);
    p.count = count;
    p.fault = tx__gpu_of(c)->fault;
    GPU_LAUNCH(s, (unsigned)experts, THREADS, 0, order_kernel, p);
}

TX_GPU_ROW tx_status tx__gpu_expert_order(tx_ctx *c, const tx_expert_order_args *a, void *scratch)
{
    (void)scratch;
    const packing p = { (int32_t *)a->row.data, (int32_t *)a->source.data, NULL, (const int32_t *)a->choice.data,
                        tx_numel(a->choice),    a->source.dim[0],          NULL };
    put_in_order(c, (int32_t *)a->count.data, p, a->count.dim[0]);
    return tx__gpu_launched(c, "expert_order");
}

/* ---- what experts have no room for ---- */

/* Of a pair: the larger, the rather it is kept. Of equal ones the first is. */
__device__ static inline double claim_of(const routing &r, int64_t t, int64_t j, int64_t e)
{
    switch (r.how.drop) {
    case TX_DROP_LATER:
        break;
    case TX_DROP_SECONDS:
        return (double)-j;
    case TX_DROP_SMALL:
        return score(r, token_of(r, t), e);
    case TX_DROP_RANDOM:
        return tx_rng_uniform_at(&r.how.random.rng, element_of(r, t, e));
    }
    return 0;
}

__global__ void claims_kernel(double *claim, const int32_t *choice, routing r)
{
    const int64_t k = r.how.k;
    for (int64_t i = grid_thread(); i < r.rows * k; i += grid_threads())
        claim[i] = claim_of(r, i / k, i % k, choice[i]);
}

/* Of an expert's pairs those that as many others go before as it has room for become -1 - e. Blocks share an expert. */
__global__ void drop_kernel(int32_t *choice, const int32_t *source, const int32_t *count, const double *claim,
                            int64_t experts, int64_t capacity)
{
    const int64_t e = blockIdx.x % experts, part = blockIdx.x / experts, parts = gridDim.x / experts;
    const int64_t first = rows_before(count, e), end = first + count[e];
    if (count[e] <= capacity) return;
    for (int64_t i = first + part * blockDim.x + threadIdx.x; i < end; i += parts * blockDim.x) {
        double mine = claim[source[i]];
        int64_t before = 0;
        for (int64_t k = first; k < end; k++) {
            double other = claim[source[k]];
            before += other > mine || (other == mine && k < i);
        }
        if (before >= capacity) choice[source[i]] = (int32_t)(-1 - e);
    }
}

/* ---- weights ---- */

/* Weights of what the token has chosen, before scale; of the dropped ones, too, with softmax_after. Returns what they
 * were divided by. */
__device__ static inline double weights_of(const routing &r, const token &x, const int32_t *choice, double *w)
{
    const bool after = r.how.softmax_after, divides = after || r.how.renormalise;
    double most = -INFINITY, sum = divides ? 0 : 1;
    for (int64_t j = 0; j < r.how.k; j++) most = fmax(most, (double)x.logits[expert_of(choice[j])]);
    for (int64_t j = 0; j < r.how.k; j++) {
        int64_t e = expert_of(choice[j]);
        w[j] = after ? exp((double)x.logits[e] - most) : choice[j] < 0 ? 0 : score(r, x, e);
        if (divides) sum += w[j];
    }
    if (r.how.renormalise && !after) sum = fmax(sum, EPSILON);
    for (int64_t j = 0; j < r.how.k; j++) w[j] /= sum;
    return sum;
}

/* A thread a token. */
__global__ void weights_kernel(float *weight, const int32_t *choice, routing r)
{
    const int64_t k = r.how.k;
    for (int64_t t = grid_thread(); t < r.rows; t += grid_threads()) {
        double w[TX_MAX_CHOICES];
        weights_of(r, token_of(r, t), choice + t * k, w);
        for (int64_t j = 0; j < k; j++) weight[t * k + j] = choice[t * k + j] < 0 ? 0 : (float)(r.how.scale * w[j]);
    }
}

/* A block an expert, and one for Σ lse². */
__global__ void stats_kernel(float *stats, int32_t *chosen, const float *probs, const int32_t *choice, routing r)
{
    const int64_t e = blockIdx.x, k = r.how.k, counted = r.how.load_of_first ? 1 : k;
    double sum = 0;
    int n = 0;
    for (int64_t t = threadIdx.x; t < r.rows; t += blockDim.x) {
        sum += e < r.n ? (double)probs[t * r.n + e] : r.lse[t] * r.lse[t];
        for (int64_t j = 0; j < counted; j++) n += choice[t * k + j] == e;
    }
    sum = block_sum(sum);
    n = block_sum(n);
    if (threadIdx.x) return;
    stats[e] = (float)sum;
    if (e < r.n) chosen[e] = n;
}

/* ---- route_fwd ---- */

/* In scratch memory. */
struct route_room {
    double *lse, *claim;     /* [T], [T k] */
    int32_t *source, *count; /* [T k], [E] */
};

static route_room room_in(void *scratch, int64_t rows, int64_t pairs)
{
    route_room m;
    m.lse = (double *)scratch;
    m.claim = m.lse + rows;
    m.source = (int32_t *)(m.claim + pairs);
    m.count = m.source + pairs;
    return m;
}

TX_GPU_ROW size_t tx__gpu_route_fwd_scratch(const tx_ctx *c, const tx_route_fwd_args *a)
{
    (void)c;
    size_t rows = (size_t)a->logits.dim[0], pairs = (size_t)tx_numel(a->choice), experts = (size_t)a->logits.dim[1];
    size_t drops = pairs * (sizeof(double) + sizeof(int32_t)) + experts * sizeof(int32_t);
    return rows * sizeof(double) + (a->router.capacity ? drops : 0);
}

static void drop(const tx_ctx *c, const tx_route_fwd_args *a, const routing &r, const route_room &m)
{
    const int64_t most = 32; /* blocks an expert */
    gpuStream_t s = tx__gpu_compute(c);
    int32_t *choice = (int32_t *)a->choice.data;
    const packing p = { NULL, m.source, NULL, choice, tx_numel(a->choice), tx_numel(a->choice), NULL };
    int64_t parts = (p.pairs / r.n + THREADS - 1) / THREADS;
    parts = parts < 1 ? 1 : parts < most ? parts : most;
    put_in_order(c, m.count, p, r.n);
    GPU_LAUNCH(s, tx__gpu_blocks(c, p.pairs, THREADS), THREADS, 0, claims_kernel, m.claim, choice, r);
    GPU_LAUNCH(s, (unsigned)(r.n * parts), THREADS, 0, drop_kernel, choice, m.source, m.count, m.claim, r.n,
               r.how.capacity);
}

static tx_status need_f32(const char *op, tx_tensor wide)
{
    if (wide.dtype == TX_F32) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: backend gpu takes fp32, not %s", op, tx_dtype_name(wide.dtype));
}

static routing routing_of(tx_tensor logits, const double *lse, const tx_router *how)
{
    routing r = { (const float *)logits.data, lse, logits.dim[0], logits.dim[1], *how };
    return r;
}

TX_GPU_ROW tx_status tx__gpu_route_fwd(tx_ctx *c, const tx_route_fwd_args *a, void *scratch)
{
    const route_room m = room_in(scratch, a->logits.dim[0], tx_numel(a->choice));
    const routing r = routing_of(a->logits, m.lse, &a->router);
    tx_dtype bias = a->bias.data ? a->bias.dtype : TX_F32;
    gpuStream_t s = tx__gpu_compute(c);
    float *probs = (float *)a->probs.data;
    int32_t *choice = (int32_t *)a->choice.data;
    TX_TRY(need_f32("route_fwd", a->logits));
    if (a->bias.data) TX_TRY(tx__gpu_need_float("route_fwd", a->bias));
    GPU_FLOAT(bias, B,
              GPU_LAUNCH(s, tx__gpu_warp_blocks(c, r.rows, THREADS), THREADS, 0, choose_kernel<B>, probs, choice, m.lse,
                         (const B *)a->bias.data, r));
    GPU_LAUNCH(s, (unsigned)(r.n + 1), THREADS, 0, stats_kernel, (float *)a->stats.data, (int32_t *)a->chosen.data,
               probs, choice, r);
    if (r.how.capacity) drop(c, a, r, m);
    GPU_LAUNCH(s, tx__gpu_blocks(c, r.rows, THREADS), THREADS, 0, weights_kernel, (float *)a->weight.data, choice, r);
    return tx__gpu_launched(c, "route_fwd");
}

/* ---- route_bwd ---- */

struct route_gradients {
    const float *dweight;
    const int32_t *choice, *chosen;
    double aux, z;
};

/* The gradients of what a token's weights are made of: its scores, or with softmax_after its logits. */
__device__ static inline void weights_bwd(const routing &r, const route_gradients &d, const token &x, double *g)
{
    const int64_t k = r.how.k;
    const int32_t *choice = d.choice + x.t * k;
    double w[TX_MAX_CHOICES], mean = 0, sum = weights_of(r, x, choice, w);
    const bool after = r.how.softmax_after, divided = after || (r.how.renormalise && sum > EPSILON);
    for (int64_t j = 0; j < k; j++) {
        g[j] = choice[j] < 0 ? 0 : r.how.scale * (double)d.dweight[x.t * k + j];
        if (divided) mean += w[j] * g[j];
    }
    for (int64_t j = 0; j < k; j++) g[j] = after ? w[j] * (g[j] - mean) : choice[j] < 0 ? 0 : (g[j] - mean) / sum;
}

__device__ static inline double gradient_of(const int32_t *choice, const double *g, int64_t k, int64_t e)
{
    for (int64_t j = 0; j < k; j++)
        if (expert_of(choice[j]) == e) return g[j];
    return 0;
}

/* A warp a token; each lane has the gradients of its choices. */
__global__ void route_bwd_kernel(float *dlogits, routing r, route_gradients d)
{
    const int lane = (int)threadIdx.x % WARP;
    const bool sigmoid = r.how.score == TX_ROUTER_SIGMOID, after = r.how.softmax_after;
    const int64_t k = r.how.k;
    for (int64_t t = grid_warp(); t < r.rows; t += grid_warps()) {
        const int32_t *choice = d.choice + t * k;
        const token x = warp_token(r, t);
        double g[TX_MAX_CHOICES], mean = 0, aux = 0, sum = sum_of_scores(r, x);
        weights_bwd(r, d, x, g);
        for (int64_t e = lane; e < r.n; e += WARP) {
            double p = score(r, x, e);
            if (!after) mean += p * gradient_of(choice, g, k, e);
            aux += p / sum * d.aux * d.chosen[e];
        }
        mean = warp_sum(mean);
        aux = warp_sum(aux);
        for (int64_t e = lane; e < r.n; e += WARP) {
            double p = score(r, x, e), of = gradient_of(choice, g, k, e), load = (d.aux * d.chosen[e] - aux) / sum;
            if (!after) of = sigmoid ? of * p * (1 - p) : p * (of - mean);
            of += load * p * (sigmoid ? 1 - p : 1) + 2 * d.z * x.lse * exp((double)x.logits[e] - x.lse);
            dlogits[t * r.n + e] = (float)of;
        }
    }
}

TX_GPU_ROW tx_status tx__gpu_route_bwd(tx_ctx *c, const tx_route_bwd_args *a, void *scratch)
{
    (void)scratch;
    const routing r = routing_of(a->logits, NULL, &a->router);
    const route_gradients d = { (const float *)a->dweight.data, (const int32_t *)a->choice.data,
                                (const int32_t *)a->chosen.data, a->aux, a->z };
    TX_TRY(need_f32("route_bwd", a->logits));
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_warp_blocks(c, r.rows, 128), 128, 0, route_bwd_kernel,
               (float *)a->dlogits.data, r, d);
    return tx__gpu_launched(c, "route_bwd");
}

/* ---- route_sums ---- */

struct sums_of {
    const float *stats;
    const int32_t *chosen, *choice;
    int64_t n, pairs;
    double aux, z;
};

/* A block an expert, and one for what is not an expert's. */
__global__ void route_sums_kernel(float *sums, sums_of a)
{
    const int64_t e = blockIdx.x;
    double aux = 0;
    int n = 0;
    for (int64_t i = threadIdx.x; i < a.pairs; i += blockDim.x)
        n += e < a.n ? expert_of(a.choice[i]) == e : a.choice[i] < 0;
    for (int64_t i = threadIdx.x; e == a.n && i < a.n; i += blockDim.x) aux += (double)a.stats[i] * a.chosen[i];
    n = block_sum(n);
    aux = block_sum(aux);
    if (threadIdx.x) return;
    sums[e < a.n ? 3 + e : 2] += (float)n;
    if (e < a.n) return;
    sums[0] += (float)(a.aux * aux);
    sums[1] += (float)(a.z * (double)a.stats[a.n]);
}

TX_GPU_ROW tx_status tx__gpu_route_sums(tx_ctx *c, const tx_route_sums_args *a, void *scratch)
{
    (void)scratch;
    const sums_of s = { (const float *)a->stats.data,
                        (const int32_t *)a->chosen.data,
                        (const int32_t *)a->choice.data,
                        a->chosen.dim[0],
                        tx_numel(a->choice),
                        a->aux,
                        a->z };
    TX_TRY(need_f32("route_sums", a->stats));
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)(s.n + 1), THREADS, 0, route_sums_kernel, (float *)a->sums.data, s);
    return tx__gpu_launched(c, "route_sums");
}

/* ---- rows: N columns a thread ---- */

template <int N, class T>
__global__ void gather_rows_kernel(T *y, const T *x, const int32_t *index, int64_t div, int64_t n, int64_t h)
{
    const int64_t each = h / N;
    for (int64_t t = grid_thread(); t < n * each; t += grid_threads()) {
        int64_t i = t / each, j = (t - i * each) * N;
        pack<T, N> v;
        memset(&v, 0, sizeof v);
        if (index[i] >= 0) v = load_pack<T, N>(x + index[i] / div * h + j);
        store_pack<T, N>(y + i * h + j, v);
    }
}

/* Whether rows can be read and written in packs of 16 bytes. */
static bool in_packs(int64_t h, tx_tensor a, tx_tensor b)
{
    return h * (int64_t)tx_dtype_size(a.dtype) % 16 == 0 && aligned16(a.data) && aligned16(b.data);
}

template <class T> static void gather_rows(const tx_ctx *c, const tx_gather_rows_args *a)
{
    const int N = pack_of<T>::n;
    int64_t n = a->y.dim[0], h = a->y.dim[1];
    gpuStream_t s = tx__gpu_compute(c);
    T *y = (T *)a->y.data;
    const T *x = (const T *)a->x.data;
    const int32_t *index = (const int32_t *)a->index.data;
    if (in_packs(h, a->y, a->x))
        GPU_LAUNCH(s, tx__gpu_blocks(c, n * h / N, THREADS), THREADS, 0, (gather_rows_kernel<pack_of<T>::n, T>), y, x,
                   index, a->div, n, h);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, n * h, THREADS), THREADS, 0, (gather_rows_kernel<1, T>), y, x, index, a->div, n,
                   h);
}

TX_GPU_ROW tx_status tx__gpu_gather_rows(tx_ctx *c, const tx_gather_rows_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("gather_rows", a->y));
    if (!a->y.dim[0]) return TX_OK;
    GPU_FLOAT(a->y.dtype, T, gather_rows<T>(c, a));
    return tx__gpu_launched(c, "gather_rows");
}

/* Rows that are summed by weight. */
struct weighed {
    const int32_t *row;
    const float *weight; /* NULL: 1 */
    int64_t rows, h, k;
    bool accumulate;
};

template <int N, class T> __global__ void combine_fwd_kernel(T *y, const T *z, weighed a)
{
    const int64_t each = a.h / N, k = a.k;
    for (int64_t i = grid_thread(); i < a.rows * each; i += grid_threads()) {
        int64_t t = i / each, j = (i - t * each) * N;
        float sum[N] = { 0 }, v[N];
        if (a.accumulate) load_floats<N>(y + t * a.h + j, sum);
        for (int64_t p = t * k; p < (t + 1) * k; p++) {
            if (a.row[p] < 0) continue;
            float w = a.weight ? a.weight[p] : 1;
            load_floats<N>(z + a.row[p] * a.h + j, v);
            for (int l = 0; l < N; l++) sum[l] += w * v[l];
        }
        store_floats<N>(y + t * a.h + j, sum);
    }
}

template <class T> static void combine_fwd(const tx_ctx *c, const tx_combine_fwd_args *a)
{
    const int N = pack_of<T>::n;
    int64_t rows = a->y.dim[0], h = a->y.dim[1];
    const weighed w = {
        (const int32_t *)a->row.data, (const float *)a->weight.data, rows, h, a->row.dim[0] / rows, a->accumulate
    };
    gpuStream_t s = tx__gpu_compute(c);
    if (in_packs(h, a->y, a->z))
        GPU_LAUNCH(s, tx__gpu_blocks(c, rows * h / N, THREADS), THREADS, 0, (combine_fwd_kernel<pack_of<T>::n, T>),
                   (T *)a->y.data, (const T *)a->z.data, w);
    else
        GPU_LAUNCH(s, tx__gpu_blocks(c, rows * h, THREADS), THREADS, 0, (combine_fwd_kernel<1, T>), (T *)a->y.data,
                   (const T *)a->z.data, w);
}

TX_GPU_ROW tx_status tx__gpu_combine_fwd(tx_ctx *c, const tx_combine_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__gpu_need_float("combine_fwd", a->y));
    if (a->weight.data) TX_TRY(need_f32("combine_fwd", a->weight));
    if (!a->y.dim[0]) return TX_OK;
    GPU_FLOAT(a->y.dtype, T, combine_fwd<T>(c, a));
    return tx__gpu_launched(c, "combine_fwd");
}

/* A warp a pair. */
template <class T> __global__ void combine_bwd_kernel(T *dz, float *dweight, const T *dy, const T *z, weighed a)
{
    const int lane = (int)threadIdx.x % WARP;
    const int64_t h = a.h;
    for (int64_t p = grid_warp(); p < a.rows * a.k; p += grid_warps()) {
        float sum = 0, w = a.weight[p];
        const T *from = dy + p / a.k * h;
        for (int64_t j = lane; a.row[p] >= 0 && j < h; j += WARP) {
            float g = f32(from[j]);
            sum += g * f32(z[a.row[p] * h + j]);
            dz[a.row[p] * h + j] = to<T>(w * g);
        }
        sum = warp_sum(sum);
        if (lane == 0) dweight[p] = sum;
    }
}

TX_GPU_ROW tx_status tx__gpu_combine_bwd(tx_ctx *c, const tx_combine_bwd_args *a, void *scratch)
{
    (void)scratch;
    int64_t rows = a->dy.dim[0];
    TX_TRY(tx__gpu_need_float("combine_bwd", a->dy));
    TX_TRY(need_f32("combine_bwd", a->weight));
    if (!rows) return TX_OK;
    const weighed w = {
        (const int32_t *)a->row.data, (const float *)a->weight.data, rows, a->dy.dim[1], a->row.dim[0] / rows, false
    };
    GPU_FLOAT(a->dy.dtype, T,
              GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_warp_blocks(c, rows * w.k, THREADS), THREADS, 0,
                         combine_bwd_kernel<T>, (T *)a->dz.data, (float *)a->dweight.data, (const T *)a->dy.data,
                         (const T *)a->z.data, w));
    return tx__gpu_launched(c, "combine_bwd");
}
