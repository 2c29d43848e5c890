/* tile.h - products of 16 x 16 tiles that a warp makes together, by whatever instruction the GPU has for them.
 *
 *      acc     16 rows x 16 columns of fp32; a lane has n of them: v[i] lies at (row(i), column(i))
 *      left    16 rows x 16 of the dimension that is summed over, from shared memory (load_left) or from sums (as_left:
 *              rounded to T)
 *      right   16 columns x the same, from shared memory: load_right where a column's numbers are contiguous
 *              (k in q kᵀ), load_right_t where a row's do (v in p v)
 *
 *      mul(c, a, b)    c += a b
 *
 *  A lane's numbers are in at most `rows` rows, v[i] in the row_of(i)-th of them; over_row_sum and over_row_max are
 * over the lanes that share a row. No layout ever moves sums between lanes to make them operands, but the plain one and
 * RDNA's.
 *
 *  tile<T> is what this GPU is best at: fp32 is always plain, because tensor cores round it. Shared memory begins at
 *  multiples of 16 bytes, and so does each of its rows. */
#ifndef TX_BACKEND_GPU_TILE_H
#define TX_BACKEND_GPU_TILE_H

#include "backend/gpu/port.h"

__device__ static inline int lane_id(void)
{
    return (int)threadIdx.x % WARP;
}

/* ---- 8 or 16 bytes into shared memory, not waited for where the GPU can go on meanwhile; zeros if they are not there,
 * and then `from` may be any address ---- */

template <int BYTES> __device__ static inline void copy_async(void *to, const void *from, bool there)
{
    static_assert(BYTES == 8 || BYTES == 16, "");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(there ? 8 : 0)
                     : "memory");
#elif defined(TX_GPU_EMULATED)
    emulate_copy(to, there ? from : nullptr, BYTES);
#else
    if (there)
        __builtin_memcpy(__builtin_assume_aligned(to, BYTES), __builtin_assume_aligned(from, BYTES), BYTES);
    else
        __builtin_memset(__builtin_assume_aligned(to, BYTES), 0, BYTES);
#endif
}

/* Until this thread's are there. */
__device__ static inline void copies_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#elif defined(TX_GPU_EMULATED)
    emulate_copies_wait();
#endif
}

/* Two values in 32 bits, the first in the low ones. */
template <class T> __device__ static inline uint32_t two(float low, float high)
{
    return (uint32_t)to<T>(low).bits | (uint32_t)to<T>(high).bits << 16;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <> __device__ inline uint32_t two<bf16>(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
template <> __device__ inline uint32_t two<fp16>(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
#endif

/* ---- plain: a lane has a row's numbers that lie side by side, and multiplies one after the other ---- */

/* N contiguous numbers, 16 bytes at a time where they are as many. */
template <int N, class T> __device__ static inline void load_run(float *y, const T *p)
{
    constexpr int n = N < pack_of<T>::n ? N : pack_of<T>::n;
    for (int i = 0; i < N; i += n) {
        pack<T, n> x = load_pack<T, n>(p + i);
        for (int j = 0; j < n; j++) y[i + j] = f32(x.v[j]);
    }
}

template <class T> struct plain_tile {
    static constexpr int n = 256 / WARP, rows = 1;
    struct acc {
        float v[n];
    };
    struct left {
        float v[16];
    };
    struct right {
        const T *p;
        int ld;
    };
    struct right_t {
        const T *p;
        int ld;
    };

    __device__ static inline int row(int)
    {
        return lane_id() % 16;
    }
    __device__ static inline int column(int i)
    {
        return lane_id() / 16 * n + i;
    }
    __device__ static inline constexpr int row_of(int)
    {
        return 0;
    }
    __device__ static inline float over_row_sum(float x)
    {
        for (int m = 16; m < WARP; m <<= 1) x += shfl_xor(x, m);
        return x;
    }
    __device__ static inline float over_row_max(float x)
    {
        for (int m = 16; m < WARP; m <<= 1) x = fmaxf(x, shfl_xor(x, m));
        return x;
    }

    __device__ static inline left load_left(const T *p, int ld)
    {
        left a;
        load_run<16>(a.v, p + lane_id() % 16 * ld);
        return a;
    }
    __device__ static inline right load_right(const T *p, int ld)
    {
        return right{ p, ld };
    }
    __device__ static inline right_t load_right_t(const T *p, int ld)
    {
        return right_t{ p, ld };
    }
    __device__ static inline left as_left(const acc &c)
    {
        left a;
#pragma unroll
        for (int part = 0; part < 16 / n; part++) {
#pragma unroll
            for (int i = 0; i < n; i++) a.v[part * n + i] = shfl(f32(to<T>(c.v[i])), part * 16 + lane_id() % 16);
        }
        return a;
    }
    __device__ static inline void mul(acc &c, const left &a, right b)
    {
#pragma unroll
        for (int i = 0; i < n; i++) {
            float x[16];
            load_run<16>(x, b.p + column(i) * b.ld);
#pragma unroll
            for (int k = 0; k < 16; k++) c.v[i] += a.v[k] * x[k];
        }
    }
    __device__ static inline void mul(acc &c, const left &a, right_t b)
    {
#pragma unroll
        for (int k = 0; k < 16; k++) {
            float x[n];
            load_run<n>(x, b.p + k * b.ld + column(0));
#pragma unroll
            for (int i = 0; i < n; i++) c.v[i] += a.v[k] * x[i];
        }
    }
};

/* ---- NVIDIA from sm_80 on: mma.sync.m16n8k16 and ldmatrix (PTX ISA 9.7.14). Also what is emulated at 32 lanes ---- */

#if (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800) || (defined(TX_GPU_EMULATED) && WARP == 32)
#define TILE_OF_16_BITS mma_tile

#if defined(TX_GPU_EMULATED)

/* Each lane names a row of 8 values: lane i row i % 8 of matrix i / 8. r[m] is two values of matrix m: of row lane / 4
 * the columns 2 (lane % 4) and the next, or transposed of that column the rows. */
struct ldmatrix_lane {
    uint32_t *r;
    const uint16_t *row;
    bool trans;
};
static inline void ldmatrix_together(void *const *lane)
{
    for (int l = 0; l < 32; l++) {
        ldmatrix_lane *to = (ldmatrix_lane *)lane[l];
        for (int m = 0; m < 4; m++) {
            uint32_t x[2];
            for (int i = 0; i < 2; i++) {
                int row = to->trans ? l % 4 * 2 + i : l / 4, column = to->trans ? l / 4 : l % 4 * 2 + i;
                x[i] = ((ldmatrix_lane *)lane[m * 8 + row])->row[column];
            }
            to->r[m] = x[0] | x[1] << 16;
        }
    }
}
template <bool TRANS> static inline void ldmatrix(uint32_t r[4], const void *row)
{
    ldmatrix_lane mine = { r, (const uint16_t *)row, TRANS };
    if ((uintptr_t)row % 16) emulate_die("ldmatrix of an address that is no multiple of 16 bytes");
    emulate_together(&mine, ldmatrix_together);
}

struct mma_lane {
    float *c;
    const uint32_t *a, *b;
};
template <class T> static inline float half_of(uint32_t x, int high)
{
    T v = { (uint16_t)(x >> 16 * high) };
    return f32(v);
}
template <class T> static inline void mma_together(void *const *lane)
{
    float a[16][16], b[16][8];
    for (int l = 0; l < 32; l++) {
        const mma_lane *x = (const mma_lane *)lane[l];
        for (int i = 0; i < 8; i++)
            a[l / 4 + 8 * (i / 2 % 2)][l % 4 * 2 + i % 2 + 8 * (i / 4)] = half_of<T>(x->a[i / 2], i % 2);
        for (int i = 0; i < 4; i++) b[l % 4 * 2 + i % 2 + 8 * (i / 2)][l / 4] = half_of<T>(x->b[i / 2], i % 2);
    }
    float c[16][8] = {};
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) c[row][column] += a[row][k] * b[k][column];
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) ((mma_lane *)lane[l])->c[i] += c[l / 4 + 8 * (i / 2)][l % 4 * 2 + i % 2];
}
template <class T> static inline void mma(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    mma_lane mine = { c, a, b };
    emulate_together(&mine, mma_together<T>);
}

#else

template <bool TRANS> __device__ static inline void ldmatrix(uint32_t r[4], const void *row)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
}
template <class T> __device__ static inline void mma(float c[4], const uint32_t a[4], const uint32_t b[2]);
template <> __device__ inline void mma<bf16>(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <> __device__ inline void mma<fp16>(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif

/* Columns 0 to 7 are v[0..3], 8 to 15 v[4..7], as the instruction has them; so as_left only rounds. */
template <class T> struct mma_tile {
    static constexpr int n = 8, rows = 2;
    struct acc {
        float v[n];
    };
    struct left {
        uint32_t r[4];
    };
    struct right {
        uint32_t r[4]; /* two of columns 0 to 7, two of 8 to 15 */
    };
    typedef right right_t;

    __device__ static inline int row(int i)
    {
        return lane_id() / 4 + 8 * (i / 2 % 2);
    }
    __device__ static inline int column(int i)
    {
        return 8 * (i / 4) + lane_id() % 4 * 2 + i % 2;
    }
    __device__ static inline constexpr int row_of(int i)
    {
        return i / 2 % 2;
    }
    __device__ static inline float over_row_sum(float x)
    {
        x += shfl_xor(x, 1);
        return x + shfl_xor(x, 2);
    }
    __device__ static inline float over_row_max(float x)
    {
        x = fmaxf(x, shfl_xor(x, 1));
        return fmaxf(x, shfl_xor(x, 2));
    }

    __device__ static inline left load_left(const T *p, int ld)
    {
        left a;
        ldmatrix<false>(a.r, p + lane_id() % 16 * ld + lane_id() / 16 * 8);
        return a;
    }
    __device__ static inline right load_right(const T *p, int ld)
    {
        right b;
        ldmatrix<false>(b.r, p + (lane_id() % 8 + lane_id() / 16 * 8) * ld + lane_id() / 8 % 2 * 8);
        return b;
    }
    __device__ static inline right_t load_right_t(const T *p, int ld)
    {
        right b;
        ldmatrix<true>(b.r, p + lane_id() % 16 * ld + lane_id() / 16 * 8);
        return b;
    }
    __device__ static inline left as_left(const acc &c)
    {
        left a;
#pragma unroll
        for (int i = 0; i < 4; i++) a.r[i] = two<T>(c.v[2 * i], c.v[2 * i + 1]);
        return a;
    }
    __device__ static inline void mul(acc &c, const left &a, const right &b)
    {
        mma<T>(c.v, a.r, b.r);
        mma<T>(c.v + 4, a.r, b.r + 2);
    }
};

/* ---- AMD's CDNA from gfx90a on: MFMA 16x16x16. Also what is emulated at 64 lanes ---- */

#elif defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || \
    (defined(TX_GPU_EMULATED) && WARP == 64)
#define TILE_OF_16_BITS mfma_tile

/* The instruction's a is [i = lane % 16][k = 4 (lane / 16) + j], its b [k likewise][j = lane % 16], its c
 * [i = 4 (lane / 16) + v][j = lane % 16]. */
#if defined(TX_GPU_EMULATED)

struct mfma_lane {
    float *c;
    const uint16_t *a, *b;
};
template <class T> static inline void mfma_together(void *const *lane)
{
    float a[16][16], b[16][16];
    for (int l = 0; l < 64; l++)
        for (int j = 0; j < 4; j++) {
            const mfma_lane *x = (const mfma_lane *)lane[l];
            a[l % 16][l / 16 * 4 + j] = f32(T{ x->a[j] });
            b[l / 16 * 4 + j][l % 16] = f32(T{ x->b[j] });
        }
    float c[16][16] = {};
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 16; column++) c[row][column] += a[row][k] * b[k][column];
    for (int l = 0; l < 64; l++)
        for (int v = 0; v < 4; v++) ((mfma_lane *)lane[l])->c[v] += c[l / 16 * 4 + v][l % 16];
}
template <class T> static inline void mfma(float c[4], const uint16_t a[4], const uint16_t b[4])
{
    mfma_lane mine = { c, a, b };
    emulate_together(&mine, mfma_together<T>);
}

#else

typedef float mfma_acc __attribute__((ext_vector_type(4)));
template <class T> __device__ static inline void mfma(float c[4], const uint16_t a[4], const uint16_t b[4]);
template <> __device__ inline void mfma<bf16>(float c[4], const uint16_t a[4], const uint16_t b[4])
{
    typedef short operand __attribute__((ext_vector_type(4)));
    operand x = { (short)a[0], (short)a[1], (short)a[2], (short)a[3] },
            y = { (short)b[0], (short)b[1], (short)b[2], (short)b[3] };
    mfma_acc z = { c[0], c[1], c[2], c[3] };
    z = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, z, 0, 0, 0);
    for (int i = 0; i < 4; i++) c[i] = z[i];
}
template <> __device__ inline void mfma<fp16>(float c[4], const uint16_t a[4], const uint16_t b[4])
{
    typedef _Float16 operand __attribute__((ext_vector_type(4)));
    operand x, y;
    __builtin_memcpy(&x, a, 8);
    __builtin_memcpy(&y, b, 8);
    mfma_acc z = { c[0], c[1], c[2], c[3] };
    z = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, z, 0, 0, 0);
    for (int i = 0; i < 4; i++) c[i] = z[i];
}

#endif

/* Our left is the instruction's b and our right its a: sums come out transposed, a lane has four of one row, and that
 * is how an operand has them, too. */
template <class T> struct mfma_tile {
    static constexpr int n = 4, rows = 1;
    struct acc {
        float v[n];
    };
    struct alignas(8) left {
        uint16_t k[4];
    };
    typedef left right;
    typedef left right_t;

    __device__ static inline int row(int)
    {
        return lane_id() % 16;
    }
    __device__ static inline int column(int i)
    {
        return lane_id() / 16 * 4 + i;
    }
    __device__ static inline constexpr int row_of(int)
    {
        return 0;
    }
    __device__ static inline float over_row_sum(float x)
    {
        x += shfl_xor(x, 16);
        return x + shfl_xor(x, 32);
    }
    __device__ static inline float over_row_max(float x)
    {
        x = fmaxf(x, shfl_xor(x, 16));
        return fmaxf(x, shfl_xor(x, 32));
    }

    __device__ static inline left load_left(const T *p, int ld)
    {
        left a;
        __builtin_memcpy(&a, __builtin_assume_aligned(p + lane_id() % 16 * ld + lane_id() / 16 * 4, 8), 8);
        return a;
    }
    __device__ static inline right load_right(const T *p, int ld)
    {
        return load_left(p, ld);
    }
    __device__ static inline right_t load_right_t(const T *p, int ld)
    {
        right b;
#pragma unroll
        for (int j = 0; j < 4; j++) b.k[j] = p[(lane_id() / 16 * 4 + j) * ld + lane_id() % 16].bits;
        return b;
    }
    __device__ static inline left as_left(const acc &c)
    {
        left a;
#pragma unroll
        for (int j = 0; j < 4; j++) a.k[j] = to<T>(c.v[j]).bits;
        return a;
    }
    __device__ static inline void mul(acc &c, const left &a, const right &b)
    {
        mfma<T>(c.v, b.k, a.k);
    }
};

#else
/* gfx1100 has WMMA, of which an operand has its 16 numbers twice, in both halves of a warp: not written yet. */
#define TILE_OF_16_BITS plain_tile
#endif

template <class T> struct tile_of {
    typedef TILE_OF_16_BITS<T> type;
};
template <> struct tile_of<float> {
    typedef plain_tile<float> type;
};
template <class T> using tile = typename tile_of<T>::type;

#endif
