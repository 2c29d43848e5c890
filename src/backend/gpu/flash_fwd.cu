/* flash_fwd.cu - attention forward: a block per tile of queries and head. K and V have a buffer each: while scores are
 * computed V comes, and while V is multiplied the next K does. */
#include "backend/gpu/flash.h"

/* Rows of a warp / 16, keys of a tile. */
template <class T, int D> struct fwd_shape {
    static constexpr bool wide = sizeof(T) == 4;
    static constexpr int M = wide || D > 128 ? 1 : 2, N = wide ? (D > 128 ? 16 : 32) : (D > 80 ? 32 : 64);
    static constexpr size_t warp_bytes = M * 16 * (flash_row<T, D>::bytes + N / 8);
    static constexpr size_t bytes(int warps)
    {
        return (size_t)2 * N * flash_row<T, D>::bytes + (size_t)warps * warp_bytes;
    }
};

/* Shared memory: Q, then K, V, then the warps' bits of dropout. */
template <class T, int D> __global__ void __launch_bounds__(FLASH_WARPS *WARP) flash_fwd_kernel(flash_call f)
{
    constexpr int M = fwd_shape<T, D>::M, N = fwd_shape<T, D>::N, ld = flash_row<T, D>::ld;
    typedef tile<T> X;
    GPU_SHARED(shared);
    const int n_threads = (int)blockDim.x, me = (int)threadIdx.x, warp = me / WARP, rows = n_threads / WARP * 16 * M;
    T *q = (T *)shared, *k = q + rows * ld, *v = k + N * ld, *mine = q + warp * 16 * M * ld;
    unsigned char *keep = (unsigned char *)(v + N * ld) + warp * 16 * M * (N / 8);

    const int n_tiles = (f.sq + rows - 1) / rows, heads = f.groups * f.r;
    const int first =
        (n_tiles - 1 - (int)(blockIdx.x % (unsigned)n_tiles)) * rows; /* the longest of a causal head first */
    const int head = (int)(blockIdx.x / (unsigned)n_tiles) % heads, i_b = (int)(blockIdx.x / (unsigned)n_tiles) / heads;
    const int g = head / f.r, r = head % f.r, own = first + warp * 16 * M;
    const flash_sample sample = flash_sample_of(f, i_b);
    const int begin = flash_least_key(f, sample, i_b, first, first + rows) / N * N;
    int end = sample.n_keys;
    if (f.causal && first + rows + sample.offset < end) end = first + rows + sample.offset;

    auto load = [&](T *to, const flash_view &from, int k0) {
        flash_load<T, D>(to, N, flash_strip_of<T>(from, k0, sample.n_keys, sample.slot, g, 0), f.d, f.packs,
                         { me, n_threads });
    };
    flash_load<T, D>(q, rows, flash_strip_of<T>(f.q, first, f.sq, i_b, g, r), f.d, f.packs, { me, n_threads });
    load(k, f.k, begin);

    flash_rows<T, D, M, N> x;
    const float slope = flash_slope(f, head);
    auto seen = [&](int i) {
        flash_range keys = flash_seen(f, sample, i_b, own + i);
        if (f.causal && own + i < f.sq) keys.hi = own + i + sample.offset + 1; /* which biases count from */
        return keys;
    };
    x.begin(
        seen, [&](int) { return slope; }, flash_sink<T>(f, head));
    if (begin >= end) { /* what has been asked for must not come later than the result */
        copies_wait();
        __syncthreads();
    }
    for (int k0 = begin; k0 < end; k0 += N) {
        typename X::acc s[M][N / 16];
        copies_wait();
        __syncthreads();
        load(v, f.v, k0);
        if (f.mask.drop)
            flash_keep<N>(keep, 16 * M, f.mask, flash_element(f, i_b, head, own + sample.offset, k0),
                          (uint64_t)f.mask.s_global);
        x.scores(s, mine, k, k0, f, f.mask.drop ? keep : nullptr);
        copies_wait();
        __syncthreads();
        if (k0 + N < end) load(k, f.k, k0 + N);
        x.values(s, v);
    }
    x.end();

    float by[M][X::rows];
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int i = 0; i < X::n; i++) {
            int at = X::row_of(i), row = own + m * 16 + X::row(i);
            by[m][at] = x.sum[m][at] > 0 ? f.keep_scale / x.sum[m][at] : 0; /* 0: it sees nothing */
            if (f.lse && row < f.sq && X::column(i) == 0)
                f.lse[((int64_t)i_b * heads + head) * f.sq + row] = x.most[m][at] * (float)LN2 + logf(x.sum[m][at]);
        }
    }
    sync_warp(); /* q is read */
    flash_put<T, D, D, M>(mine, x.o, by);
    sync_warp();
    flash_store<T, D>(mine, 16 * M, f.d, f.packs, { lane_id(), WARP },
                      [&](int i) -> T * { return own + i < f.sq ? flash_at<T>(f.o, own + i, i_b, g, r) : nullptr; });
}

template <class T, int D> static tx_status forward(const tx_ctx *c, const flash_call *f)
{
    typedef fwd_shape<T, D> shape;
    int warps = FLASH_WARPS;
    while (warps > 1 && (shape::bytes(warps) > flash_shared_limit(c) || warps / 2 * 16 * shape::M >= f->sq)) warps /= 2;
    size_t bytes = shape::bytes(warps);
    if (bytes > tx__gpu_of(c)->shared_bytes) return flash_does_not_fit(c, f->d);
    int rows = warps * 16 * shape::M;
    int64_t blocks = (int64_t)((f->sq + rows - 1) / rows) * f->b * f->groups * f->r;
    GPU_TRY(GPU_ALLOW_SHARED((flash_fwd_kernel<T, D>), bytes));
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)blocks, (unsigned)(warps * tx__gpu_of(c)->warp), bytes,
               (flash_fwd_kernel<T, D>), *f);
    return tx__gpu_launched(c, "attention_fwd");
}

tx_status flash_forward(const tx_ctx *c, const flash_call *f, tx_dtype t)
{
    GPU_FLOAT(t, T, FLASH_WIDTH(f->d, D, return forward<T, flash_width_of<T>(D)>(c, f)));
    return TX_OK;
}
