/* flash_bwd.cu - attention backward, twice with the same lines: once a warp's rows are keys and it goes through the
 * queries of all heads of the group (dk, dv), once they are queries and it goes through the keys (dq). So every sum has
 * one owner and a fixed order; that scores are made twice is the price. With keys as rows the scores are transposed,
 * and what a query has (log-sum-exp, delta, keys that it sees) belongs to a column. */
#include "backend/gpu/flash.h"

/* The sum of do o over a head is where softmax's gradient begins: a warp per row, always in the same order. */
template <class T> __global__ void __launch_bounds__(256) flash_query_kernel(flash_call f)
{
    int heads = f.groups * f.r;
    int64_t n = (int64_t)f.b * heads * f.sq;
    for (int64_t row = grid_warp(); row < n; row += grid_warps()) {
        int64_t i = row % f.sq, head = row / f.sq % heads, i_b = row / f.sq / heads;
        const T *x = flash_at<T>(f.do_, i, i_b, head / f.r, head % f.r),
                *y = flash_at<T>(f.o, i, i_b, head / f.r, head % f.r);
        float sum = 0;
        for (int j = lane_id(); j < f.d; j += WARP) sum += f32(x[j]) * f32(y[j]);
        sum = warp_sum(sum);
        if (lane_id() == 0) f.query[row] = { f.lse[row] * (float)LOG2E, sum };
    }
}

/* A head's sink, a block each: its gradient is the sum of -exp(sink - lse) delta over all queries. */
template <class T> __global__ void __launch_bounds__(256) flash_sink_kernel(flash_call f)
{
    const int heads = f.groups * f.r, head = (int)blockIdx.x;
    const float sink = flash_sink<T>(f, head);
    float sum = 0;
    for (int64_t i = threadIdx.x; i < (int64_t)f.b * f.sq; i += blockDim.x) {
        flash_query q = f.query[(i / f.sq * heads + head) * f.sq + i % f.sq];
        sum += exp2_of(sink - q.lse) * q.delta;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) f.dsink[head] -= sum;
}

/* Rows of a warp / 16, rows of a tile, columns of the results that a block makes (a wider head has several blocks). */
template <class T, int D> struct bwd_shape {
    static constexpr bool wide = sizeof(T) == 4;
    static constexpr int M = 1, N = wide || D > 128 ? 16 : 32, C = D > 128 ? D / 2 : D;
    /* Of a multiprocessor, which there are to be registers for: 2 there always are. */
    static constexpr int blocks(bool keys)
    {
        return !wide && D <= (keys ? 80 : 96) ? 3 : 2;
    }
    static constexpr size_t row_bytes = flash_row<T, D>::bytes;
    static constexpr size_t column_bytes = sizeof(flash_query) + 2 * sizeof(int);
    static constexpr size_t stage_bytes = (size_t)N * (2 * row_bytes + column_bytes);
    static constexpr size_t bytes(int warps, int stages)
    {
        return (size_t)warps * 16 * M * (2 * row_bytes + N / 8) + (size_t)stages * stage_bytes;
    }
};

/* Of the tile's N columns, where they are queries. */
template <int N> struct flash_columns {
    flash_query query[N];
    int lo[N], hi[N];
};

template <class T, int D, bool KEYS> struct bwd_block {
    typedef bwd_shape<T, D> shape;
    typedef tile<T> X;
    static constexpr int M = shape::M, N = shape::N, C = shape::C, ld = flash_row<T, D>::ld;

    const flash_call &f;
    flash_sample sample;
    int i_b, g, own, warp_rows; /* own: position of the warp's first row */
    typename X::acc out0[M][C / 16], out1[M][C / 16];
    /* of the rows, where they are queries */
    flash_query query[M][X::rows];
    int lo[M][X::rows], hi[M][X::rows], most_lo, least_hi;

    __device__ inline bwd_block(const flash_call &call) : f(call)
    {
    }

    __device__ inline int64_t query_row(int r) const
    {
        return ((int64_t)i_b * f.groups * f.r + g * f.r + r) * f.sq;
    }

    __device__ inline void begin(int r)
    {
        most_lo = 0;
        least_hi = INT32_MAX;
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < C / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) out0[m][j].v[i] = out1[m][j].v[i] = 0;
            }
            if constexpr (!KEYS) {
#pragma unroll
                for (int i = 0; i < X::n; i++) {
                    if (i && X::row_of(i) == X::row_of(i - 1)) continue;
                    int row = own + m * 16 + X::row(i), at = X::row_of(i);
                    flash_range seen = flash_seen(f, sample, i_b, row);
                    query[m][at] = row < f.sq ? f.query[query_row(r) + row] : flash_query{ 0, 0 };
                    lo[m][at] = seen.lo;
                    hi[m][at] = row < f.sq ? seen.hi : 0;
                    most_lo = seen.lo > most_lo ? seen.lo : most_lo;
                    least_hi = hi[m][at] < least_hi ? hi[m][at] : least_hi;
                }
            }
        }
        if (KEYS) return;
        most_lo = -warp_min(-most_lo);
        least_hi = warp_min(least_hi);
    }

    /* Whether the warp's rows and the tile at `first` have nothing to do with each other, or everything. */
    __device__ inline bool apart(int first, const flash_columns<N> &at) const
    {
        if (!KEYS) return false;
        const int at_query = first + sample.offset; /* where the first one is */
        if (own >= sample.n_keys || (f.causal && at_query + N <= own)) return true;
        if (f.window && at_query - f.window >= own + 16 * M) return true;
        if (!f.first_key) return false;
        int least = INT32_MAX;
        for (int j = lane_id(); j < N; j += WARP)
            if (first + j < f.sq && at.lo[j] < least) least = at.lo[j];
        return warp_min(least) >= own + 16 * M;
    }
    __device__ inline bool whole(int first) const
    {
        if (!KEYS) return first >= most_lo && first + N <= least_hi;
        return !f.first_key && first + N <= f.sq && own + 16 * M <= sample.n_keys &&
               (!f.causal || own + 16 * M <= first + sample.offset + 1) &&
               (!f.window || first + sample.offset + N - 1 - f.window <= own);
    }

    /* One tile: x0, x1 are the warp's rows (k and v, or q and do), y0, y1 the tile's (q and do, or k and v). */
    __device__ inline void step(const T *x0, const T *x1, const T *y0, const T *y1, int first, int column,
                                const flash_columns<N> &at, const unsigned char *keep, float slope)
    {
        typename X::acc p[M][N / 16], ds[M][N / 16];
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) p[m][j].v[i] = ds[m][j].v[i] = 0;
            }
        }
#pragma unroll
        for (int x = 0; x < D; x += 16) {
            typename X::left a0[M], a1[M];
#pragma unroll
            for (int m = 0; m < M; m++) {
                a0[m] = X::load_left(x0 + m * 16 * ld + x, ld);
                a1[m] = X::load_left(x1 + m * 16 * ld + x, ld);
            }
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
                typename X::right b0 = X::load_right(y0 + j * 16 * ld + x, ld),
                                  b1 = X::load_right(y1 + j * 16 * ld + x, ld);
#pragma unroll
                for (int m = 0; m < M; m++) {
                    X::mul(p[m][j], a0[m], b0);
                    X::mul(ds[m][j], a1[m], b1);
                }
            }
        }
        gradients(p, ds, first, at, keep, slope);
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
            typename X::left a0[M], a1[M];
#pragma unroll
            for (int m = 0; m < M; m++) {
                a0[m] = X::as_left(ds[m][j]);
                if (KEYS) a1[m] = X::as_left(p[m][j]);
            }
#pragma unroll
            for (int x = 0; x < C / 16; x++) {
                typename X::right_t b0 = X::load_right_t(y0 + j * 16 * ld + column + x * 16, ld);
#pragma unroll
                for (int m = 0; m < M; m++) X::mul(out0[m][x], a0[m], b0);
                if (!KEYS) continue;
                typename X::right_t b1 = X::load_right_t(y1 + j * 16 * ld + column + x * 16, ld);
#pragma unroll
                for (int m = 0; m < M; m++) X::mul(out1[m][x], a1[m], b1);
            }
        }
    }

    /* From q kᵀ and do vᵀ to P Z and dS = P (Z (do vᵀ) - delta) scale, times the slope of a softcap. */
    __device__ inline void gradients(typename X::acc (&p)[M][N / 16], typename X::acc (&ds)[M][N / 16], int first,
                                     const flash_columns<N> &at, const unsigned char *keep, float slope) const
    {
        const bool all = whole(first);
        const int apart = (KEYS ? own - first : first - own) - sample.offset; /* key less query, of both's first */
        const float lean = slope / f.scale_log2; /* biases, in units of scores before they are scaled */
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) {
                    int row = m * 16 + X::row(i), column = j * 16 + X::column(i), r = X::row_of(i);
                    const flash_query of = KEYS ? at.query[column] : query[m][r];
                    float score = p[m][j].v[i], by = f.scale, z = 1;
                    if (f.cap_out > 0) {
                        float t = tanhf(f.cap_in * score);
                        score = f.cap_out * t;
                        by *= 1 - t * t;
                    }
                    if (lean > 0) score += lean * (float)(apart + (KEYS ? row - column : column - row));
                    float prob = exp2_of(score * f.scale_log2 - of.lse);
                    if (!all) {
                        int key = KEYS ? own + row : first + column;
                        if (key < (KEYS ? at.lo[column] : lo[m][r]) || key >= (KEYS ? at.hi[column] : hi[m][r]))
                            prob = 0;
                    }
                    if (keep) {
                        int byte = KEYS ? column * (2 * M) + row / 8 : row * (N / 8) + column / 8;
                        z = keep[byte] >> (KEYS ? row : column) % 8 & 1 ? f.keep_scale : 0;
                    }
                    p[m][j].v[i] = prob * z;
                    ds[m][j].v[i] = prob * (z * ds[m][j].v[i] - of.delta) * by;
                }
            }
        }
    }
};

/* Shared memory: the block's rows x0, x1; for each stage y0, y1 and what columns have; the warps' bits of dropout. */
template <class T, int D, bool KEYS>
__global__ void __launch_bounds__(FLASH_WARPS *WARP, (bwd_shape<T, D>::blocks(KEYS)))
    flash_bwd_kernel(flash_call f, int stages)
{
    typedef bwd_shape<T, D> shape;
    typedef tile<T> X;
    constexpr int M = shape::M, N = shape::N, C = shape::C, ld = flash_row<T, D>::ld, parts = D / C;
    GPU_SHARED(shared);
    const int n_threads = (int)blockDim.x, me = (int)threadIdx.x, warp = me / WARP, rows = n_threads / WARP * 16 * M;
    T *x0 = (T *)shared, *x1 = x0 + rows * ld;
    unsigned char *tiles = (unsigned char *)(x1 + rows * ld);
    unsigned char *keep = tiles + (size_t)stages * shape::stage_bytes + warp * 16 * M * (N / 8);

    /* 1  which rows: a tile of the sequence, part of their columns, head (of keys: group) and sample */
    const int n_rows = KEYS ? f.sk : f.sq, n_tiles = (n_rows + rows - 1) / rows,
              n_heads = KEYS ? f.groups : f.groups * f.r;
    unsigned block = blockIdx.x;
    const int tile_at = (int)(block % (unsigned)n_tiles), part = (int)(block / (unsigned)n_tiles % parts);
    const int head = (int)(block / (unsigned)(n_tiles * parts)) % n_heads;
    bwd_block<T, D, KEYS> x(f);
    x.i_b = (int)(block / (unsigned)(n_tiles * parts)) / n_heads;
    x.sample = flash_sample_of(f, x.i_b);
    x.g = KEYS ? head : head / f.r;
    const int r0 = KEYS ? 0 : head % f.r, first = (KEYS ? tile_at : n_tiles - 1 - tile_at) * rows;
    x.own = first + warp * 16 * M;
    x.begin(r0);

    /* 2  which tiles: of keys' queries those of all heads of the group, one head after the other */
    const int offset = x.sample.offset;
    int begin = 0, end = KEYS ? f.sq : x.sample.n_keys;
    if (KEYS && f.causal && first > offset) begin = (first - offset) / N * N;
    if (KEYS && f.window && first + rows - offset < end - f.window) end = first + rows - offset + f.window;
    if (!KEYS) begin = flash_least_key(f, x.sample, x.i_b, first, first + rows) / N * N;
    if (!KEYS && f.causal && first + rows + offset < end) end = first + rows + offset;
    int n = KEYS ? f.r : 1;                                        /* heads to go through */
    if (begin >= end || (KEYS && first >= x.sample.n_keys)) n = 0; /* they see nothing, or pad */

    auto load = [&](T *to, int n_rows, const flash_view &from, int at, int limit, int r) {
        flash_load<T, D>(to, n_rows, flash_strip_of<T>(from, at, limit, x.i_b, x.g, r), f.d, f.packs,
                         { me, n_threads });
    };
    auto columns_of = [&](int stage) -> flash_columns<N> & {
        return *(flash_columns<N> *)(tiles + (size_t)stage * shape::stage_bytes + 2 * N * shape::row_bytes);
    };
    auto load_tile = [&](int r, int at, int stage) {
        T *y0 = (T *)(tiles + (size_t)stage * shape::stage_bytes), *y1 = y0 + N * ld;
        int limit = KEYS ? f.sq : x.sample.n_keys;
        load(y0, N, KEYS ? f.q : f.k, at, limit, KEYS ? r : 0);
        load(y1, N, KEYS ? f.do_ : f.v, at, limit, KEYS ? r : 0);
        flash_columns<N> &of = columns_of(stage);
        for (int i = me; KEYS && i < N; i += n_threads) {
            flash_range seen = flash_seen(f, x.sample, x.i_b, at + i);
            bool there = at + i < f.sq;
            copy_async<8>(&of.query[i], f.query + x.query_row(r) + at + i, there);
            of.lo[i] = seen.lo;
            of.hi[i] = there ? seen.hi : 0;
        }
    };

    /* 3  through them */
    if (n) {
        load(x0, rows, KEYS ? f.k : f.q, first, KEYS ? x.sample.n_keys : f.sq, KEYS ? 0 : r0);
        load(x1, rows, KEYS ? f.v : f.do_, first, KEYS ? x.sample.n_keys : f.sq, KEYS ? 0 : r0);
        load_tile(r0, begin, 0);
    }
    for (int r = r0, at = begin, stage = 0; r < r0 + n;) {
        int next_at = at + N < end ? at + N : begin, next_r = at + N < end ? r : r + 1;
        copies_wait();
        __syncthreads();
        if (stages > 1 && next_r < r0 + n) load_tile(next_r, next_at, 1 - stage);
        const T *y0 = (const T *)(tiles + (size_t)stage * shape::stage_bytes), *y1 = y0 + N * ld;
        if (!x.apart(at, columns_of(stage))) {
            if (f.mask.drop) {
                uint64_t s = (uint64_t)f.mask.s_global;
                if (KEYS)
                    flash_keep<16 * M>(keep, N, f.mask, flash_element(f, x.i_b, x.g * f.r + r, at + offset, x.own), s);
                else
                    flash_keep<N>(keep, 16 * M, f.mask, flash_element(f, x.i_b, x.g * f.r + r, x.own + offset, at), s);
            }
            x.step(x0 + warp * 16 * M * ld, x1 + warp * 16 * M * ld, y0, y1, at, part * C, columns_of(stage),
                   f.mask.drop ? keep : nullptr, flash_slope(f, x.g * f.r + r));
        }
        if (stages == 1 && next_r < r0 + n) {
            __syncthreads();
            load_tile(next_r, next_at, 0);
        }
        r = next_r;
        at = next_at;
        stage = stages > 1 ? 1 - stage : 0;
    }

    /* 4  out by way of the warp's own rows */
    float one[M][X::rows];
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int r = 0; r < X::rows; r++) one[m][r] = 1;
    }
    int wide = f.d - part * C < C ? f.d - part * C : C;
    T *mine0 = x0 + warp * 16 * M * ld, *mine1 = x1 + warp * 16 * M * ld;
    sync_warp();
    flash_put<T, D, C, M>(mine0, x.out0, one);
    if (KEYS) flash_put<T, D, C, M>(mine1, x.out1, one);
    sync_warp();
    auto store = [&](const T *from, const flash_view &to) {
        if (wide > 0)
            flash_store<T, D>(from, 16 * M, wide, f.packs, { lane_id(), WARP }, [&](int i) -> T * {
                return x.own + i < n_rows ? flash_at<T>(to, x.own + i, x.i_b, x.g, KEYS ? 0 : r0) + part * C : nullptr;
            });
    };
    store(mine0, KEYS ? f.dk : f.dq);
    if (KEYS) store(mine1, f.dv);
}

template <class T, int D, bool KEYS> static tx_status launch(const tx_ctx *c, const flash_call *f)
{
    typedef bwd_shape<T, D> shape;
    int warps = FLASH_WARPS, stages = 2, n = KEYS ? f->sk : f->sq;
    while (warps > 1 && (shape::bytes(warps, stages) > flash_shared_limit(c) || warps / 2 * 16 * shape::M >= n))
        warps /= 2;
    if (shape::bytes(warps, stages) > tx__gpu_of(c)->shared_bytes) stages = 1;
    size_t bytes = shape::bytes(warps, stages);
    if (bytes > tx__gpu_of(c)->shared_bytes) return flash_does_not_fit(c, f->d);
    int rows = warps * 16 * shape::M;
    int64_t blocks = (int64_t)((n + rows - 1) / rows) * (D / shape::C) * f->b * f->groups * (KEYS ? 1 : f->r);
    GPU_TRY(GPU_ALLOW_SHARED((flash_bwd_kernel<T, D, KEYS>), bytes));
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)blocks, (unsigned)(warps * tx__gpu_of(c)->warp), bytes,
               (flash_bwd_kernel<T, D, KEYS>), *f, stages);
    return tx__gpu_launched(c, "attention_bwd");
}

template <class T, int D> static tx_status backward(const tx_ctx *c, const flash_call *f)
{
    int64_t rows = (int64_t)f->sq * f->b * f->groups * f->r;
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_warp_blocks(c, rows, 256), 256, 0, flash_query_kernel<T>, *f);
    if (f->dsink) GPU_LAUNCH(tx__gpu_compute(c), (unsigned)(f->groups * f->r), 256, 0, flash_sink_kernel<T>, *f);
    TX_TRY((launch<T, D, true>(c, f)));
    return launch<T, D, false>(c, f);
}

tx_status flash_backward(const tx_ctx *c, const flash_call *f, tx_dtype t)
{
    GPU_FLOAT(t, T, FLASH_WIDTH(f->d, D, return backward<T, flash_width_of<T>(D)>(c, f)));
    return TX_OK;
}
