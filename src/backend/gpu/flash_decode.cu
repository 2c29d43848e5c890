/* flash_decode.cu - attention of few queries behind a past: memory's speed is what counts, so that keys are split over
 * blocks, SPLIT of them each, and there over warps. All queries of a group's heads are rows side by side, because they
 * read the same keys. Splits begin at multiples of SPLIT and are summed in their order: a sample has the bits that it
 * has alone, in a cache of any length. */
#include "backend/gpu/flash.h"

#define SPLIT 256
#define N     16 /* keys of a tile, of which each warp has its own */

int64_t flash_decode_splits(int64_t positions)
{
    return (positions + SPLIT - 1) / SPLIT;
}

template <class T, int D> struct decode_shape {
    static constexpr size_t tile_bytes = 2 * N * flash_row<T, D>::bytes;
    static constexpr size_t part_bytes = 16 * (D + 2) * sizeof(float);
    static constexpr size_t warp_bytes = (tile_bytes > part_bytes ? tile_bytes : part_bytes) + 16 * (N / 8);
    static constexpr size_t bytes(int warps)
    {
        return 16 * flash_row<T, D>::bytes + (size_t)warps * warp_bytes;
    }
};

/* Row of a group's queries -> position of the query, head of the group. */
struct decode_row {
    int i, r;
};
__device__ static inline decode_row decode_row_of(const flash_call &f, int row)
{
    return { row / f.r, row % f.r };
}

/* What a split has of a row: most, sum, o[d]. */
__device__ static inline float *decode_part(const flash_call &f, int i_b, int g, int row, int split, int n_splits)
{
    return f.parts + ((((int64_t)i_b * f.groups + g) * f.sq * f.r + row) * n_splits + split) * (f.d + 2);
}

/* The last n parts' sum of a row's column x, in their order; part(k) gives most, sum, o. */
template <class F> __device__ static inline float decode_sum(int n, F part, float *most, float *sum, int x)
{
    float o = 0;
    *most = -INFINITY;
    for (int k = 0; k < n; k++) *most = fmaxf(*most, part(k)[0]);
    *sum = 0;
    for (int k = 0; k < n; k++) {
        const float *p = part(k);
        float by = *most == -INFINITY ? 0 : exp2_of(p[0] - *most);
        *sum += by * p[1];
        o += by * p[2 + x];
    }
    return o;
}

/* Shared memory: Q; each warp's K, V, later its rows' most, sum and o; the warps' bits of dropout. */
template <class T, int D>
__global__ void __launch_bounds__(FLASH_WARPS *WARP) flash_decode_kernel(flash_call f, int n_splits)
{
    typedef decode_shape<T, D> shape;
    typedef tile<T> X;
    constexpr int ld = flash_row<T, D>::ld;
    GPU_SHARED(shared);
    const int me = (int)threadIdx.x, warps = (int)blockDim.x / WARP, warp = me / WARP, n_rows = f.sq * f.r;
    T *q = (T *)shared;
    unsigned char *of_warps = shared + 16 * flash_row<T, D>::bytes, *of_warp = of_warps + warp * shape::warp_bytes;
    T *k = (T *)of_warp, *v = k + N * ld;
    unsigned char *keep = of_warp + shape::warp_bytes - 16 * (N / 8);

    const int split = (int)(blockIdx.x % (unsigned)n_splits);
    const int n_tiles = (n_rows + 15) / 16, first = (int)(blockIdx.x / (unsigned)n_splits) % n_tiles * 16;
    const int g = (int)(blockIdx.x / (unsigned)(n_splits * n_tiles)) % f.groups;
    const int i_b = (int)(blockIdx.x / (unsigned)(n_splits * n_tiles)) / f.groups;
    const flash_sample sample = flash_sample_of(f, i_b);
    const int seen_from = flash_window_begin(f, sample, 0); /* by the first query */
    if (split * SPLIT >= sample.n_keys || (split + 1) * SPLIT <= seen_from) return;
    const int end = (split + 1) * SPLIT < sample.n_keys ? (split + 1) * SPLIT : sample.n_keys;

    auto load = [&](T *to, const flash_view &from, int k0) {
        flash_load<T, D>(to, N, flash_strip_of<T>(from, k0, sample.n_keys, sample.slot, g, 0), f.d, f.packs,
                         { lane_id(), WARP });
    };
    for (int i = me; i < 16 * D; i += (int)blockDim.x) {
        decode_row x = decode_row_of(f, first + i / D);
        bool there = first + i / D < n_rows && i % D < f.d;
        q[i / D * ld + i % D] = there ? flash_at<T>(f.q, x.i, i_b, g, x.r)[i % D] : T();
    }
    copies_wait();
    __syncthreads();

    flash_rows<T, D, 1, N> x;
    x.begin([&](int row) { return flash_seen(f, sample, i_b, decode_row_of(f, first + row).i); },
            [&](int row) { return flash_slope(f, g * f.r + decode_row_of(f, first + row).r); }, -INFINITY);
    for (int k0 = split * SPLIT + warp * N; k0 < end; k0 += warps * N) {
        typename X::acc s[1][N / 16];
        if (k0 + N <= seen_from) continue;
        sync_warp(); /* of the tile before this one */
        load(k, f.k, k0);
        load(v, f.v, k0);
        if (f.mask.drop)
            for (int row = 0; row < 16; row++) {
                decode_row y = decode_row_of(f, first + row);
                uint64_t e = tx_dropout_head(&f.mask, i_b, g * f.r + y.r) +
                             (uint64_t)(y.i + sample.offset) * (uint64_t)f.mask.s_global + (uint64_t)k0;
                flash_keep<N>(keep + row * (N / 8), 1, f.mask, e, 0);
            }
        copies_wait();
        sync_warp();
        x.scores(s, q, k, k0, f, f.mask.drop ? keep : nullptr);
        x.values(s, v);
    }
    x.end();

    sync_warp();
    float *part = (float *)of_warp; /* [16][D + 2] */
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
#pragma unroll
        for (int i = 0; i < X::n; i++) {
            float *row = part + X::row(i) * (D + 2);
            row[2 + j * 16 + X::column(i)] = x.o[0][j].v[i];
            if (j == 0 && X::column(i) == 0) {
                row[0] = x.most[0][X::row_of(i)];
                row[1] = x.sum[0][X::row_of(i)];
            }
        }
    }
    __syncthreads();
    for (int i = me; i < 16 * f.d; i += (int)blockDim.x) {
        int row = i / f.d, column = i % f.d;
        if (first + row >= n_rows) break;
        float most, sum,
            o = decode_sum(
                warps, [&](int w) { return (const float *)(of_warps + w * shape::warp_bytes) + row * (D + 2); }, &most,
                &sum, column);
        float *to = decode_part(f, i_b, g, first + row, split, n_splits);
        to[2 + column] = o;
        if (column == 0) {
            to[0] = most;
            to[1] = sum;
        }
    }
}

/* Sums the splits, a warp per row. */
template <class T> __global__ void __launch_bounds__(256) flash_decode_end_kernel(flash_call f, int n_splits)
{
    int n_rows = f.sq * f.r;
    int64_t n = (int64_t)f.b * f.groups * n_rows;
    for (int64_t at = grid_warp(); at < n; at += grid_warps()) {
        int row = (int)(at % n_rows), g = (int)(at / n_rows % f.groups), i_b = (int)(at / n_rows / f.groups);
        const flash_sample sample = flash_sample_of(f, i_b);
        int from = flash_window_begin(f, sample, 0) / SPLIT, there = (sample.n_keys + SPLIT - 1) / SPLIT - from;
        decode_row x = decode_row_of(f, row);
        float sink = flash_sink<T>(f, g * f.r + x.r);
        T *o = flash_at<T>(f.o, x.i, i_b, g, x.r);
        for (int j = lane_id(); j < f.d; j += WARP) {
            float most, sum,
                y = decode_sum(
                    there, [&](int k) { return (const float *)decode_part(f, i_b, g, row, from + k, n_splits); }, &most,
                    &sum, j);
            if (f.has_sink) {
                float top = fmaxf(most, sink), by = exp2_of(most - top);
                y *= by;
                sum = sum * by + exp2_of(sink - top);
                most = top;
            }
            o[j] = to<T>(y * (f.keep_scale / sum));
            if (j == 0 && f.lse)
                f.lse[(((int64_t)i_b * f.groups + g) * f.r + x.r) * f.sq + x.i] = most * (float)LN2 + logf(sum);
        }
    }
}

template <class T, int D> static tx_status decode(const tx_ctx *c, const flash_call *f)
{
    typedef decode_shape<T, D> shape;
    int warps = FLASH_WARPS, n_splits = (int)flash_decode_splits(f->sk);
    while (warps > 1 && shape::bytes(warps) > flash_shared_limit(c)) warps /= 2;
    size_t bytes = shape::bytes(warps);
    if (bytes > tx__gpu_of(c)->shared_bytes) return flash_does_not_fit(c, f->d);
    int64_t rows = (int64_t)f->sq * f->r, blocks = (rows + 15) / 16 * n_splits * f->groups * f->b;
    GPU_TRY(GPU_ALLOW_SHARED((flash_decode_kernel<T, D>), bytes));
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)blocks, (unsigned)(warps * tx__gpu_of(c)->warp), bytes,
               (flash_decode_kernel<T, D>), *f, n_splits);
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_warp_blocks(c, rows * f->groups * f->b, 256), 256, 0,
               flash_decode_end_kernel<T>, *f, n_splits);
    return tx__gpu_launched(c, "attention_fwd");
}

/* Three widths: what is behind a head's end is computed but not read. */
tx_status flash_decode(const tx_ctx *c, const flash_call *f, tx_dtype t)
{
    GPU_FLOAT(t, T, {
        if (f->d <= 64) return decode<T, 64>(c, f);
        if (f->d <= 128) return decode<T, 128>(c, f);
        return decode<T, 256>(c, f);
    });
    return TX_OK;
}
