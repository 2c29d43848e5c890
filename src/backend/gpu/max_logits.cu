/* max_logits.cu - the largest score of each head: a block per tile of queries and head goes through the keys as forward
 * does (flash_fwd.cu), without a softmax and without values. Scores above 0 are in the order of their bits, and a
 * maximum does not depend on the order in which blocks arrive. */
#include "backend/gpu/flash.h"

template <class T, int D> struct max_shape {
    static constexpr int N = D > 128 ? 16 : 32; /* keys of a tile */
    static constexpr size_t bytes(int warps)
    {
        return (size_t)(N + warps * 16) * flash_row<T, D>::bytes;
    }
};

/* Shared memory: Q, then K. */
template <class T, int D>
__global__ void __launch_bounds__(FLASH_WARPS *WARP) max_logits_kernel(flash_call f, float *max)
{
    constexpr int N = max_shape<T, D>::N, ld = flash_row<T, D>::ld;
    typedef tile<T> X;
    GPU_SHARED(shared);
    const int n_threads = (int)blockDim.x, me = (int)threadIdx.x, warp = me / WARP, rows = n_threads / WARP * 16;
    T *q = (T *)shared, *k = q + rows * ld, *mine = q + warp * 16 * ld;
    const int n_tiles = (f.sq + rows - 1) / rows, heads = f.groups * f.r;
    const int first = (int)(blockIdx.x % (unsigned)n_tiles) * rows, own = first + warp * 16;
    const int head = (int)(blockIdx.x / (unsigned)n_tiles) % heads, i_b = (int)(blockIdx.x / (unsigned)n_tiles) / heads;
    const int g = head / f.r, r = head % f.r;
    const flash_sample sample = flash_sample_of(f, i_b);
    int n_queries = f.n_keys ? f.n_keys[i_b] - f.q_at : f.sq; /* the others pad */
    n_queries = n_queries < f.sq ? n_queries : f.sq;
    const int begin = flash_least_key(f, sample, i_b, first, first + rows) / N * N;
    int end = sample.n_keys;
    if (f.causal && first + rows + sample.offset < end) end = first + rows + sample.offset;
    if (first >= n_queries) return; /* the whole block */

    flash_load<T, D>(q, rows, flash_strip_of<T>(f.q, first, f.sq, i_b, g, r), f.d, f.packs, { me, n_threads });
    flash_range seen[X::rows];
#pragma unroll
    for (int i = 0; i < X::n; i++) {
        int row = own + X::row(i);
        seen[X::row_of(i)] = row < n_queries ? flash_seen(f, sample, i_b, row) : flash_range{ 0, 0 };
    }
    float most = 0;
    for (int k0 = begin; k0 < end; k0 += N) {
        __syncthreads(); /* the tile before is read */
        flash_load<T, D>(k, N, flash_strip_of<T>(f.k, k0, sample.n_keys, i_b, g, 0), f.d, f.packs, { me, n_threads });
        copies_wait();
        __syncthreads();
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
            typename X::acc s;
#pragma unroll
            for (int i = 0; i < X::n; i++) s.v[i] = 0;
#pragma unroll
            for (int x = 0; x < D; x += 16) {
                typename X::left a = X::load_left(mine + x, ld);
                typename X::right b = X::load_right(k + j * 16 * ld + x, ld);
                X::mul(s, a, b);
            }
#pragma unroll
            for (int i = 0; i < X::n; i++) {
                int key = k0 + j * 16 + X::column(i);
                flash_range at = seen[X::row_of(i)];
                if (key >= at.lo && key < at.hi) most = fmaxf(most, s.v[i] * f.scale);
            }
        }
    }
    copies_wait(); /* of queries that see no key */
    most = warp_max(most);
    int bits;
    memcpy(&bits, &most, sizeof bits);
    if (lane_id() == 0 && most > 0) atomicMax((int *)(max + head), bits);
}

template <class T, int D> static tx_status largest(const tx_ctx *c, const flash_call *f, float *max)
{
    typedef max_shape<T, D> shape;
    int warps = FLASH_WARPS;
    while (warps > 1 && (shape::bytes(warps) > flash_shared_limit(c) || warps / 2 * 16 >= f->sq)) warps /= 2;
    size_t bytes = shape::bytes(warps);
    if (bytes > tx__gpu_of(c)->shared_bytes) return flash_does_not_fit(c, f->d);
    int64_t blocks = (int64_t)((f->sq + warps * 16 - 1) / (warps * 16)) * f->b * f->groups * f->r;
    GPU_TRY(GPU_ALLOW_SHARED((max_logits_kernel<T, D>), bytes));
    GPU_LAUNCH(tx__gpu_compute(c), (unsigned)blocks, (unsigned)(warps * tx__gpu_of(c)->warp), bytes,
               (max_logits_kernel<T, D>), *f, max);
    return tx__gpu_launched(c, "max_logits");
}

tx_status flash_max_logits(const tx_ctx *c, const flash_call *f, tx_dtype t, float *max)
{
    GPU_FLOAT(t, T, FLASH_WIDTH(f->d, D, return largest<T, flash_width_of<T>(D)>(c, f, max)));
    return TX_OK;
}
