/* flash.h - what the attention kernels share. FlashAttention-2, arXiv:2307.08691: a warp has 16 or 32 rows to itself
 * and goes through the other side in tiles that its block has in shared memory; scores never leave registers.
 *
 *      flash_fwd.cu     rows are queries, tiles are keys
 *      flash_bwd.cu     rows are keys, tiles queries (dk, dv), and the other way round (dq)
 *      flash_decode.cu  few queries after a past: rows are the queries of a group's heads, and keys are split over
 *                       warps and blocks
 *      max_logits.cu    rows are queries, tiles are keys: scores alone
 *
 *  What a row's result is a sum of, and in which order, depends on the row alone: not on how long the padding is, on
 * the neighbours or on how many warps there are. Tiles begin at multiples of their size, and one that a row sees
 * nothing of leaves the row's bits as they are. */
#ifndef TX_BACKEND_GPU_FLASH_H
#define TX_BACKEND_GPU_FLASH_H

#include "backend/gpu/gpu.h"
#include "backend/gpu/tile.h"

#define LOG2E 1.4426950408889634
#define LN2   0.6931471805599453

#define FLASH_WARPS 4 /* of a block, at most */

/* Where rows of a tensor begin: [position, sample, group, head of the group], the last one of q's kind only. */
typedef struct flash_view {
    void *data;
    int64_t stride[4];
} flash_view;

/* What backward has of a query and head. */
typedef struct alignas(8) flash_query {
    float lse, delta; /* log-sum-exp, in units of log2; sum of do o */
} flash_query;

/* One call, as kernels get it. */
typedef struct flash_call {
    flash_view q, k, v, o, dq, dk, dv, do_; /* o: of backward, what forward made */
    float *lse;                             /* [b, groups, r, sq] */
    struct flash_query *query;              /* likewise, of backward */
    float *parts;                           /* decoding: what each split has, flash_decode.cu */
    const int32_t *first_key, *n_keys, *past_n, *slot;
    tx__fault *fault;
    tx_dropout mask;
    tx_alibi alibi;
    float scale, scale_log2, keep_scale;
    float cap_in, cap_out; /* with a softcap: scores that are not scaled become cap_out tanh(cap_in score); 0: none */
    const void *sink;      /* [heads]; NULL with has_sink: all are 0 */
    float *dsink;          /* [heads], NULL: not wanted */
    int window;            /* 0: all keys */
    int sq, sk, b, groups, r, d, slots;
    int q_at, k_at; /* of a part of a sequence: positions of query 0 and key 0 */
    bool part, causal, has_sink;
    bool packs; /* addresses and strides are multiples of 16 bytes */
} flash_call;

tx_status flash_forward(const tx_ctx *c, const flash_call *f, tx_dtype t);
tx_status flash_backward(const tx_ctx *c, const flash_call *f, tx_dtype t);
tx_status flash_decode(const tx_ctx *c, const flash_call *f, tx_dtype t);
tx_status flash_max_logits(const tx_ctx *c, const flash_call *f, tx_dtype t, float *max);
int64_t flash_decode_splits(int64_t positions);

/* Runs the rest with D as the width of heads that kernels are compiled for, the least that holds d. */
#define FLASH_WIDTH(d, D, ...) \
    if ((d) <= 32) {           \
        constexpr int D = 32;  \
        __VA_ARGS__;           \
    } else if ((d) <= 64) {    \
        constexpr int D = 64;  \
        __VA_ARGS__;           \
    } else if ((d) <= 80) {    \
        constexpr int D = 80;  \
        __VA_ARGS__;           \
    } else if ((d) <= 96) {    \
        constexpr int D = 96;  \
        __VA_ARGS__;           \
    } else if ((d) <= 128) {   \
        constexpr int D = 128; \
        __VA_ARGS__;           \
    } else {                   \
        constexpr int D = 256; \
        __VA_ARGS__;           \
    }

/* Of fp32 there are fewer widths: what is saved by fitting better is little beside what it computes without tensor
 * cores. */
template <class T> constexpr int flash_width_of(int D)
{
    return sizeof(T) < 4 ? D : D <= 64 ? 64 : D <= 128 ? 128 : 256;
}

/* Blocks with less shared memory share a multiprocessor, and this is what sm_86 has. */
#define FLASH_SHARED_BYTES ((size_t)99 << 10)

static inline size_t flash_shared_limit(const tx_ctx *c)
{
    size_t most = tx__gpu_of(c)->shared_bytes;
    return most < FLASH_SHARED_BYTES ? most : FLASH_SHARED_BYTES;
}

static inline tx_status flash_does_not_fit(const tx_ctx *c, int d)
{
    return TX_FAIL(TX_ERR_UNSUPPORTED, "attention: heads of %d numbers do not fit into the %zu bytes that a block has",
                   d, tx__gpu_of(c)->shared_bytes);
}

/* Elements from a row in shared memory to the next: 16 bytes more than it has, so that neither eight rows' 16 bytes
 * meet in a bank. */
template <class T, int D> struct flash_row {
    static constexpr int ld = D + pack_of<T>::n;
    static constexpr size_t bytes = ld * sizeof(T);
};

/* ---- which keys a query sees ---- */

typedef struct flash_sample {
    int n_keys; /* of the sample: none after them is ever loaded */
    int offset; /* position of query 0, counted from key 0; of a part it may be below 0 */
    int slot;
} flash_sample;

__device__ static inline flash_sample flash_sample_of(const flash_call &f, int i_b)
{
    flash_sample s = { f.sk, f.sk - f.sq, i_b };
    if (f.part) s.offset = f.q_at - f.k_at;
    if (f.n_keys) {
        int n = f.n_keys[i_b];
        if (f.part && n >= 1) {
            n = n < f.k_at ? 0 : n - f.k_at;
            n = n < f.sk ? n : f.sk;
        } else if (n < 1 || n > f.sk) {
            tx__gpu_fault(f.fault, TX__FAULT_KEYS, i_b, n, (long long)f.sk + 1);
            n = n < 1 ? 1 : f.sk;
        }
        s.n_keys = n;
    }
    if (f.past_n) {
        int n = f.past_n[i_b], slot = f.slot[i_b];
        if (n < 0 || n > f.sk - f.sq) {
            tx__gpu_fault(f.fault, TX__FAULT_KEYS, i_b, n, (long long)f.sk - f.sq + 1);
            n = 0;
        }
        if (slot < 0 || slot >= f.slots) {
            tx__gpu_fault(f.fault, TX__FAULT_KEYS, i_b, slot, f.slots);
            slot = 0;
        }
        s.n_keys = n + f.sq;
        s.offset = n;
        s.slot = slot;
    }
    return s;
}

/* Query i sees the keys lo <= j < hi; none, in a part, where lo >= hi. A row after the last query sees them all: its
 * result is dropped. */
typedef struct flash_range {
    int lo, hi;
} flash_range;

/* The first key that the window lets query i see. */
__device__ static inline int flash_window_begin(const flash_call &f, const flash_sample &s, int i)
{
    return f.window && i + s.offset > f.window ? i + s.offset - f.window : 0;
}

__device__ static inline flash_range flash_seen(const flash_call &f, const flash_sample &s, int i_b, int i)
{
    flash_range x = { 0, s.n_keys };
    if (i >= f.sq) return x;
    if (f.causal && i + s.offset + 1 < x.hi) x.hi = i + s.offset + 1;
    if (f.first_key) {
        x.lo = f.first_key[(int64_t)i * f.b + i_b] - f.k_at;
        if (f.part)
            x.lo = x.lo < 0 ? 0 : x.lo;
        else if (x.lo < 0 || x.lo >= x.hi) {
            if (!f.n_keys || i < s.n_keys) /* padding is not checked */
                tx__gpu_fault(f.fault, TX__FAULT_KEYS, (int64_t)i * f.b + i_b, x.lo, x.hi);
            x.lo = x.lo < 0 ? 0 : x.hi - 1;
        }
    }
    int begin = flash_window_begin(f, s, i);
    x.lo = x.lo > begin ? x.lo : begin;
    return x;
}

__device__ static inline int warp_min(int x)
{
    for (int m = WARP / 2; m; m >>= 1) {
        int y = shfl_xor(x, m);
        x = y < x ? y : x;
    }
    return x;
}

/* The least first key of queries [i, end), in all threads of the block. Two barriers. */
__device__ static inline int flash_least_key(const flash_call &f, const flash_sample &s, int i_b, int i, int end)
{
    __shared__ int part[FLASH_WARPS];
    int least = INT32_MAX, n = (int)blockDim.x / WARP;
    if (!f.first_key) return flash_window_begin(f, s, i);
    for (i += (int)threadIdx.x; i < end && i < f.sq; i += (int)blockDim.x) {
        int lo = flash_seen(f, s, i_b, i).lo;
        least = lo < least ? lo : least;
    }
    least = warp_min(least);
    __syncthreads();
    if (lane_id() == 0) part[threadIdx.x / WARP] = least;
    __syncthreads();
    for (int w = 0; w < n; w++) least = part[w] < least ? part[w] : least;
    return least;
}

/* The slope of a head's biases of positions, in units of log2; 0: there are none. */
__device__ static inline float flash_slope(const flash_call &f, int head)
{
    return f.alibi.n_heads ? exp2_of((float)tx_alibi_log2_slope(&f.alibi, head)) * (float)LOG2E : 0;
}

/* The score, in units of log2, that a head's softmax has beside those of keys; -infinity: none. */
template <class T> __device__ static inline float flash_sink(const flash_call &f, int head)
{
    if (!f.has_sink) return -INFINITY;
    return f.sink ? f32(((const T *)f.sink)[head]) * (float)LOG2E : 0;
}

/* ---- rows of tensors in global memory ---- */

template <class T>
__device__ static inline T *flash_at(const flash_view &x, int64_t position, int64_t sample, int64_t group, int64_t head)
{
    return (T *)x.data + position * x.stride[0] + sample * x.stride[1] + group * x.stride[2] + head * x.stride[3];
}

/* The threads that copy rows together, of which this one is number `me`. */
typedef struct flash_team {
    int me, n_threads;
} flash_team;

/* Positions of one head, side by side: n of them are there. */
template <class T> struct flash_strip {
    const T *row;
    int64_t step;
    int n;
};
template <class T>
__device__ static inline flash_strip<T> flash_strip_of(const flash_view &x, int first, int end, int sample, int group,
                                                       int head)
{
    return { flash_at<T>(x, first, sample, group, head), x.stride[0], end - first };
}

/* n_rows of them, d values each, into rows of D in shared memory, each thread of the team doing its part; zeros after a
 * row's end and after the last one. To be waited for. */
template <class T, int D>
__device__ static inline void flash_load(T *to, int n_rows, flash_strip<T> x, int d, bool packs, flash_team team)
{
    constexpr int ld = flash_row<T, D>::ld, n = pack_of<T>::n, n_packs = D / n, wide = n_packs < WARP ? n_packs : WARP;
    if (packs) { /* a thread has a column of packs: addresses go on by what is the same for all rows */
        const int by = team.n_threads / wide, first = team.me / wide;
#pragma unroll
        for (int pass = 0; pass < n_packs / wide; pass++) {
            const int column = (team.me % wide + pass * wide) * n, end = first < by ? n_rows : 0;
            const T *from = x.row + first * x.step + column;
            T *y = to + first * ld + column;
#pragma unroll 1 /* copies are not waited for here, and registers are dear */
            for (int row = first; row < end; row += by, from += by * x.step, y += by * ld)
                copy_async<16>(y, from, row < x.n && column < d);
        }
    } else {
#pragma unroll 1
        for (int i = team.me; i < n_rows * D; i += team.n_threads) {
            int row = i / D, column = i % D;
            to[row * ld + column] = row < x.n && column < d ? x.row[row * x.step + column] : T();
        }
    }
}

/* The way back, n values of each row; rows without an address are left out. */
template <class T, int D, class F>
__device__ static inline void flash_store(const T *from, int n_rows, int n, bool packs, flash_team team, F at)
{
    constexpr int ld = flash_row<T, D>::ld, per = pack_of<T>::n;
    if (packs) {
        int n_packs = n / per;
        for (int i = team.me; i < n_rows * n_packs; i += team.n_threads) {
            int row = i / n_packs, x = i % n_packs * per;
            T *to = at(row);
            if (to) store_pack<T, per>(to + x, load_pack<T, per>(from + row * ld + x));
        }
    } else {
        for (int i = team.me; i < n_rows * n; i += team.n_threads) {
            int row = i / n, x = i % n;
            T *to = at(row);
            if (to) to[x] = from[row * ld + x];
        }
    }
}

/* ---- dropout: a bit for each probability, of eight keys side by side in a byte ---- */

__device__ static inline unsigned flash_keep8_aligned(const tx_dropout &m, uint64_t counter)
{
    uint32_t w[4];
    unsigned bits = 0;
    tx_rng_u32x4(&m.rng, counter, w);
#pragma unroll
    for (int j = 0; j < 8; j++) bits |= (unsigned)((w[j / 2] >> (j % 2 * 16) & 0xffffu) >= m.drop) << j;
    return bits;
}

/* Of the eight elements from e on. */
__device__ static inline unsigned char flash_keep8(const tx_dropout &m, uint64_t e)
{
    unsigned bits = flash_keep8_aligned(m, e >> 3), shift = (unsigned)e & 7;
    if (shift) bits = (bits | flash_keep8_aligned(m, (e >> 3) + 1) << 8) >> shift;
    return (unsigned char)bits;
}

/* ---- sums into shared memory ---- */

/* Rows of C columns, times `by` of their row (of M x 16 rows), rounded into rows of D at `to`. */
template <class T, int D, int C, int M>
__device__ static inline void flash_put(T *to, const typename tile<T>::acc (&x)[M][C / 16],
                                        const float (&by)[M][tile<T>::rows])
{
#pragma unroll
    for (int m = 0; m < M; m++) {
#pragma unroll
        for (int j = 0; j < C / 16; j++) {
#pragma unroll
            for (int i = 0; i < tile<T>::n; i++)
                to[(m * 16 + tile<T>::row(i)) * flash_row<T, D>::ld + j * 16 + tile<T>::column(i)] =
                    ::to<T>(x[m][j].v[i] * by[m][tile<T>::row_of(i)]);
        }
    }
}

/* ---- the forward step of a warp: online softmax over one tile of N keys ---- */

template <class T, int D, int M, int N> struct flash_rows {
    typedef tile<T> X;
    typename X::acc o[M][D / 16];
    float most[M][X::rows];             /* of the scores so far, in units of log2 */
    float sum[M][X::rows];              /* of this lane's part of them */
    int lo[M][X::rows], hi[M][X::rows]; /* hi may be more than there are */
    float slope[M][X::rows];            /* with alibi, where a row sees the keys up to its own position */
    int most_lo, least_hi;              /* of the warp's rows: tiles between them need no mask */

    /* seen(row) and slope_of(row) of the warp's 16 M rows; sink of all of them, as flash_sink has it */
    template <class F, class G> __device__ inline void begin(F seen, G slope_of, float sink)
    {
        most_lo = 0;
        least_hi = INT32_MAX;
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int i = 0; i < X::n; i++) {
                if (i && X::row_of(i) == X::row_of(i - 1)) continue;
                flash_range x = seen(m * 16 + X::row(i));
                most[m][X::row_of(i)] = sink;
                sum[m][X::row_of(i)] = 0;
                lo[m][X::row_of(i)] = x.lo;
                hi[m][X::row_of(i)] = x.hi;
                slope[m][X::row_of(i)] = slope_of(m * 16 + X::row(i));
                most_lo = x.lo > most_lo ? x.lo : most_lo;
                least_hi = x.hi < least_hi ? x.hi : least_hi;
            }
#pragma unroll
            for (int j = 0; j < D / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) o[m][j].v[i] = 0;
            }
            if (sink == -INFINITY) continue;
#pragma unroll
            for (int i = 0; i < X::n; i++)
                if (X::column(i) == 0) sum[m][X::row_of(i)] = 1; /* of one lane of the row */
        }
        most_lo = -warp_min(-most_lo);
        least_hi = warp_min(least_hi);
    }

    /* Scores of the tile that begins with key k0, as probabilities that are yet to be divided by their sum, of which o
     * and sum are brought to the same measure. keep: the warp's bits [row][N / 8], NULL without dropout. */
    __device__ inline void scores(typename X::acc (&s)[M][N / 16], const T *q, const T *k, int k0, const flash_call &f,
                                  const unsigned char *keep)
    {
        constexpr int ld = flash_row<T, D>::ld;
        const float scale_log2 = f.scale_log2;
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) s[m][j].v[i] = 0;
            }
        }
#pragma unroll
        for (int x = 0; x < D; x += 16) {
            typename X::left a[M];
#pragma unroll
            for (int m = 0; m < M; m++) a[m] = X::load_left(q + m * 16 * ld + x, ld);
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
                typename X::right b = X::load_right(k + j * 16 * ld + x, ld);
#pragma unroll
                for (int m = 0; m < M; m++) X::mul(s[m][j], a[m], b);
            }
        }
        if (f.cap_out > 0) squeeze(s, f.cap_in, f.cap_out);
        if (f.alibi.n_heads > 0) lean(s, k0, 1 / scale_log2);
        if (k0 < most_lo || k0 + N > least_hi || k0 + N > f.sk) hide(s, k0, f.sk);
#pragma unroll
        for (int m = 0; m < M; m++) softmax(s[m], m, scale_log2);
        if (keep) {
#pragma unroll
            for (int m = 0; m < M; m++) {
#pragma unroll
                for (int j = 0; j < N / 16; j++) {
#pragma unroll
                    for (int i = 0; i < X::n; i++) {
                        int column = j * 16 + X::column(i);
                        if (!(keep[(m * 16 + X::row(i)) * (N / 8) + column / 8] >> column % 8 & 1)) s[m][j].v[i] = 0;
                    }
                }
            }
        }
    }

    /* The softcap, before scores are scaled. */
    __device__ inline void squeeze(typename X::acc (&s)[M][N / 16], float in, float out)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) s[m][j].v[i] = out * tanhf(in * s[m][j].v[i]);
            }
        }
    }

    /* Before scores are scaled. */
    __device__ inline void lean(typename X::acc (&s)[M][N / 16], int k0, float per_unit)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) {
                    int key = k0 + j * 16 + X::column(i), r = X::row_of(i);
                    s[m][j].v[i] += slope[m][r] * per_unit * (float)(key + 1 - hi[m][r]);
                }
            }
        }
    }

    __device__ inline void hide(typename X::acc (&s)[M][N / 16], int k0, int sk)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int j = 0; j < N / 16; j++) {
#pragma unroll
                for (int i = 0; i < X::n; i++) {
                    int key = k0 + j * 16 + X::column(i), r = X::row_of(i);
                    if (key < lo[m][r] || key >= hi[m][r] || key >= sk) s[m][j].v[i] = -INFINITY;
                }
            }
        }
    }

    __device__ inline void softmax(typename X::acc (&s)[N / 16], int m, float scale_log2)
    {
        float least[X::rows], by[X::rows], now[X::rows];
#pragma unroll
        for (int r = 0; r < X::rows; r++) now[r] = -INFINITY;
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
#pragma unroll
            for (int i = 0; i < X::n; i++) now[X::row_of(i)] = fmaxf(now[X::row_of(i)], s[j].v[i]);
        }
#pragma unroll
        for (int r = 0; r < X::rows; r++) {
            now[r] = fmaxf(most[m][r], X::over_row_max(now[r]) * scale_log2);
            least[r] = now[r] == -INFINITY ? 0 : now[r]; /* a row that has seen nothing yet */
            by[r] = exp2_of(most[m][r] - least[r]);
            most[m][r] = now[r];
            sum[m][r] *= by[r];
        }
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
#pragma unroll
            for (int i = 0; i < X::n; i++) o[m][j].v[i] *= by[X::row_of(i)];
        }
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
#pragma unroll
            for (int i = 0; i < X::n; i++) {
                float p = exp2_of(s[j].v[i] * scale_log2 - least[X::row_of(i)]);
                sum[m][X::row_of(i)] += p;
                s[j].v[i] = p;
            }
        }
    }

    /* o += p v */
    __device__ inline void values(const typename X::acc (&p)[M][N / 16], const T *v)
    {
        constexpr int ld = flash_row<T, D>::ld;
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
            typename X::left a[M];
#pragma unroll
            for (int m = 0; m < M; m++) a[m] = X::as_left(p[m][j]);
#pragma unroll
            for (int x = 0; x < D / 16; x++) {
                typename X::right_t b = X::load_right_t(v + j * 16 * ld + x * 16, ld);
#pragma unroll
                for (int m = 0; m < M; m++) X::mul(o[m][x], a[m], b);
            }
        }
    }

    /* Sums over whole rows. */
    __device__ inline void end(void)
    {
#pragma unroll
        for (int m = 0; m < M; m++) {
#pragma unroll
            for (int r = 0; r < X::rows; r++) sum[m][r] = X::over_row_sum(sum[m][r]);
        }
    }
};

/* The element of a head's mask that belongs to its query at `position` and to key j, both counted from the call's key
 * 0.
 */
__device__ static inline uint64_t flash_element(const flash_call &f, int i_b, int head, int position, int j)
{
    uint64_t s = (uint64_t)f.mask.s_global, e = tx_dropout_head(&f.mask, i_b, head);
    return e + (uint64_t)((int64_t)f.k_at + position) * s + (uint64_t)((int64_t)f.k_at + j);
}

/* The bits of a tile for a warp's rows: e is the element of the first row and key, and rows are `step` apart. */
template <int N>
__device__ static inline void flash_keep(unsigned char *keep, int n_rows, const tx_dropout &mask, uint64_t e,
                                         uint64_t step)
{
    constexpr int octets = N / 8, by = WARP / octets;
    const int first = lane_id() / octets, octet = lane_id() % octets;
    e += (uint64_t)first * step + (uint64_t)octet * 8;
    sync_warp(); /* of the tile before this one */
#pragma unroll 1
    for (int row = first; row < n_rows; row += by, e += by * step) keep[row * octets + octet] = flash_keep8(mask, e);
    sync_warp();
}

#endif
