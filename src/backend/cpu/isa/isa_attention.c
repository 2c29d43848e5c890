/* isa_attention.c - one attention head at a time, in blocks of TX__ATTN_Q queries × TX__ATTN_K keys, so that scores
 * exist only inside the cache and memory is linear in s. Forward: online softmax, arXiv:2205.14135, algorithm 1;
 * backward: its algorithm 4.
 *
 *  packed, ld = d rounded up to TX__LANES, kb = keys of a block rounded up likewise:
 *
 *      kᵀ, vᵀ   block after block, each [ld, kb]: a row of scores is a sum of rows of it
 *      k, v     [sk, ld]
 *
 *  Every matrix product below is then  C += op(A) B  with B and C made of whole vectors and A's elements broadcast. */
#include <string.h>

#include "backend/cpu/isa/isa.h"
#include "backend/cpu/isa/vmath.h"

enum { BQ = TX__ATTN_Q, BK = TX__ATTN_K };
static const float MASKED = -1e30f; /* a score that is not there: its exp is exactly 0, and it makes no NaN */

static inline int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- matrix kernels ---- */

/* Where op(A)[i,p] lies: a + i rs + p cs. */
typedef struct strided {
    const float *a;
    int64_t rs, cs;
} strided;

/* C[mr, nv vectors] += A[mr, k] B[k, nv vectors]. mr and nv are constants where this is inlined. */
static inline __attribute__((always_inline)) void tile(int mr, int nv, int64_t k, strided a, const float *b,
                                                       int64_t ldb, float *c, int64_t ldc)
{
    tx__vec sum[8][2];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++) sum[i][j] = *(const tx__vec *)(c + i * ldc + j * TX__VEC);
    for (int64_t p = 0; p < k; p++) {
        const tx__vec *row = (const tx__vec *)(b + p * ldb);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) {
            const float x = a.a[i * a.rs + p * a.cs];
#pragma GCC unroll 2
            for (int j = 0; j < nv; j++) sum[i][j] += x * row[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++) *(tx__vec *)(c + i * ldc + j * TX__VEC) = sum[i][j];
}

static inline __attribute__((always_inline)) void strip(int nv, int64_t m, int64_t k, strided a, const float *b,
                                                        int64_t ldb, float *c, int64_t ldc)
{
    int64_t i = 0;
    for (; i + TX__MR <= m; i += TX__MR, a.a += TX__MR * a.rs) tile(TX__MR, nv, k, a, b, ldb, c + i * ldc, ldc);
    for (; i < m; i++, a.a += a.rs) tile(1, nv, k, a, b, ldb, c + i * ldc, ldc);
}

/* C[m,n] += op(A)[m,k] B[k,n], n a multiple of TX__VEC. */
static void multiply(int64_t m, int64_t n, int64_t k, strided a, const float *b, int64_t ldb, float *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + 2 * TX__VEC <= n; j += 2 * TX__VEC) strip(2, m, k, a, b + j, ldb, c + j, ldc);
    if (j < n) strip(1, m, k, a, b + j, ldb, c + j, ldc);
}

/* Not inlined, so that its sum has one order wherever it is called. */
static __attribute__((noinline)) float dot(const float *x, const float *y, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* ---- copying in and out ---- */

/* n elements of a tensor as fp32: its own memory, or a copy in `room`. */
static const float *load(const tx__attn *a, const void *src, int64_t at, int64_t n, float *room)
{
    if (a->dtype == TX_F32) return (const float *)src + at;
    if (a->dtype == TX_BF16)
        tx__k(of_bf16)(room, (const uint16_t *)src + at, n);
    else
        tx__k(of_f16)(room, (const uint16_t *)src + at, n);
    return room;
}

/* Where the result is made that store() then writes to `dst`. */
static float *place(const tx__attn *a, void *dst, int64_t at, float *room)
{
    return a->dtype == TX_F32 ? (float *)dst + at : room;
}

static void store(const tx__attn *a, void *dst, int64_t at, int64_t n, const float *room)
{
    if (a->dtype == TX_BF16) tx__k(to_bf16)((uint16_t *)dst + at, room, n);
    if (a->dtype == TX_F16) tx__k(to_f16)((uint16_t *)dst + at, room, n);
}

/* dst [rows, ld] = factor times rows of src from `at` on, padded with zeros. */
static void gather(const tx__attn *a, float *dst, const void *src, int64_t at, int64_t src_s, int64_t rows,
                   float factor)
{
    int64_t d = a->d, ld = tx__lanes(d);
    for (int64_t i = 0; i < rows; i++, dst += ld) {
        const float *row = load(a, src, at + i * src_s, d, dst);
#pragma omp simd
        for (int64_t x = 0; x < d; x++) dst[x] = factor * row[x];
        for (int64_t x = d; x < ld; x++) dst[x] = 0;
    }
}

/* Rows of dst from `at` on = factor src [rows, ld], which is used up. */
static void scatter(const tx__attn *a, void *dst, int64_t at, int64_t dst_s, float *src, int64_t rows, float factor)
{
    int64_t d = a->d, ld = tx__lanes(d);
    for (int64_t i = 0; i < rows; i++, src += ld) {
        float *row = place(a, dst, at + i * dst_s, src);
#pragma omp simd
        for (int64_t x = 0; x < d; x++) row[x] = factor * src[x];
        store(a, dst, at + i * dst_s, d, row);
    }
}

/* Keys of the block that begins at `first`, rounded up. */
static int64_t block_width(int64_t sk, int64_t first)
{
    return tx__lanes(min(BK, sk - first));
}

/* src [sk, d] into blocks of [ld, kb]. */
static void transpose(const tx__attn *a, float *dst, const void *src, int64_t src_s)
{
    enum { STRETCH = 256 };
    int64_t sk = a->sk, d = a->d, ld = tx__lanes(d);
    float room[STRETCH];
    for (int64_t first = 0; first < sk; first += BK) {
        int64_t kb = block_width(sk, first), n = min(BK, sk - first);
        memset(dst, 0, (size_t)(ld * kb) * sizeof *dst);
        for (int64_t j = 0; j < n; j++)
            for (int64_t x = 0; x < d; x += STRETCH) {
                int64_t some = min(d - x, STRETCH);
                const float *row = load(a, src, (first + j) * src_s + x, some, room);
                for (int64_t i = 0; i < some; i++) dst[(x + i) * kb + j] = row[i];
            }
        dst += ld * kb;
    }
}

/* ---- blocks of scores ---- */

/* How many keys query i of this call sees. */
static inline int64_t n_seen(const tx__attn *a, int64_t i)
{
    return a->causal ? i + 1 + a->sk - a->sq : a->sk;
}

/* The first key that query i sees. */
static inline int64_t first_seen(const tx__attn *a, int64_t i)
{
    return a->first_key ? a->first_key[i * a->first_key_s] : 0;
}

/* The first block of keys that one of the queries i0 .. i0 + rows sees. */
static int64_t first_block(const tx__attn *a, int64_t i0, int64_t rows)
{
    int64_t first = first_seen(a, i0);
    for (int64_t i = 1; a->first_key && i < rows; i++) first = min(first, first_seen(a, i0 + i));
    return first / BK * BK;
}

/* scores [rows, BK] = q kᵀ for keys first..first+kb, what is not seen MASKED. */
static void score_block(const tx__attn *a, float *p, const float *q, const float *kt, int64_t i0, int64_t rows,
                        int64_t first, int64_t kb)
{
    int64_t ld = tx__lanes(a->d);
    memset(p, 0, (size_t)(rows * BK) * sizeof *p);
    multiply(rows, kb, a->d, (strided){ q, ld, 1 }, kt + first * ld, kb, p, BK);
    for (int64_t i = 0; i < rows; i++) {
        int64_t seen = n_seen(a, i0 + i) - first, hidden = min(first_seen(a, i0 + i) - first, kb);
        for (int64_t j = 0; j < hidden; j++) p[i * BK + j] = MASKED;
        for (int64_t j = seen > 0 ? seen : 0; j < kb; j++) p[i * BK + j] = MASKED;
    }
}

/* The dropout mask of queries i0 .. i0 + rows, keys first .. first + n, into [rows, BK]. */
static void mask_block(const tx__attn *a, float *z, int64_t i0, int64_t rows, int64_t first, int64_t n)
{
    uint64_t q = (uint64_t)(i0 + a->sk - a->sq);
    tx__k(dropout_mask)(z, BK, rows, n, a->e + q * a->e_row + (uint64_t)first, a->e_row, a->drop);
}

/* ---- forward ---- */

void tx__k(attn_pack_fwd)(const tx__attn *a, float *packed)
{
    transpose(a, packed, a->k, a->k_s);
    gather(a, packed + tx__lanes(a->sk) * tx__lanes(a->d), a->v, 0, a->v_s, a->sk, 1.0f);
}

/* Scores p of one row become exp(score - max); max and sum of the row so far are updated and o is rescaled to the new
 * max. Blocks before a row's first key leave ones behind, which the first real score rescales to exactly 0. */
static void online_softmax(float *p, int64_t kb, float *max, float *sum, float *o, int64_t ld)
{
    float lane[TX__LANES], top = *max, add = 0;
    for (int l = 0; l < TX__LANES; l++) lane[l] = top;
    for (int64_t j = 0; j < kb; j += TX__LANES)
#pragma omp simd
        for (int l = 0; l < TX__LANES; l++) lane[l] = p[j + l] > lane[l] ? p[j + l] : lane[l];
    for (int l = 0; l < TX__LANES; l++) top = lane[l] > top ? lane[l] : top;
#pragma omp simd reduction(+ : add)
    for (int64_t j = 0; j < kb; j++) {
        float e = tx__expf(p[j] - top);
        p[j] = e;
        add += e;
    }
    if (top > *max) {
        const float shrink = tx__expf(*max - top);
        *sum *= shrink;
#pragma omp simd
        for (int64_t x = 0; x < ld; x++) o[x] *= shrink;
    }
    *max = top;
    *sum += add;
}

/* Queries i0 .. i0 + rows. */
static void fwd_block(const tx__attn *a, const float *packed, float *work, int64_t i0, int64_t rows)
{
    int64_t ld = tx__lanes(a->d), seen = n_seen(a, i0 + rows - 1);
    const float *kt = packed, *v = packed + tx__lanes(a->sk) * ld;
    float *q = work, *o = q + BQ * ld, *p = o + BQ * ld, *z = p + BQ * BK, *max = z + BQ * BK, *sum = max + BQ;
    gather(a, q, a->q, i0 * a->q_s, a->q_s, rows, a->scale);
    memset(o, 0, (size_t)(rows * ld) * sizeof *o);
    for (int64_t i = 0; i < rows; i++) max[i] = MASKED, sum[i] = 0;

    for (int64_t first = first_block(a, i0, rows); first < seen; first += BK) {
        int64_t kb = block_width(a->sk, first), n = min(BK, a->sk - first);
        score_block(a, p, q, kt, i0, rows, first, kb);
        if (a->drop) mask_block(a, z, i0, rows, first, n);
        for (int64_t i = 0; i < rows; i++) {
            online_softmax(p + i * BK, kb, max + i, sum + i, o + i * ld, ld);
            if (!a->drop) continue;
#pragma omp simd
            for (int64_t j = 0; j < n; j++) p[i * BK + j] *= z[i * BK + j];
        }
        multiply(rows, ld, n, (strided){ p, BK, 1 }, v + first * ld, ld, o, ld);
    }
    for (int64_t i = 0; i < rows; i++) {
        scatter(a, a->o, (i0 + i) * a->o_s, 0, o + i * ld, 1, 1.0f / sum[i]);
        if (a->lse) a->lse[i0 + i] = max[i] + logf(sum[i]);
    }
}

void tx__k(attn_fwd)(const tx__attn *a, const float *packed, float *work)
{
    for (int64_t i0 = 0; i0 < a->sq; i0 += BQ) fwd_block(a, packed, work, i0, min(BQ, a->sq - i0));
}

/* Few queries: reading k and v once in place costs less than packing them. */
void tx__k(attn_fwd_few)(const tx__attn *a, float *work)
{
    int64_t ld = tx__lanes(a->d);
    float *p = work, *z = p + tx__lanes(a->sk), *q_room = z + tx__lanes(a->sk), *room = q_room + ld;
    for (int64_t i = 0; i < a->sq; i++) {
        const float *q = load(a, a->q, i * a->q_s, a->d, q_room);
        float *o = place(a, a->o, i * a->o_s, room + ld), max = MASKED, sum = 0;
        int64_t n = n_seen(a, i), first = first_seen(a, i);
        for (int64_t j = first; j < n; j++) {
            const float *k = load(a, a->k, j * a->k_s, a->d, room);
            p[j] = dot(q, k, a->d) * a->scale;
            max = p[j] > max ? p[j] : max;
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t j = first; j < n; j++) {
            float e = tx__expf(p[j] - max);
            p[j] = e;
            sum += e;
        }
        if (a->drop) {
            uint64_t position = (uint64_t)(i + a->sk - a->sq);
            tx__k(dropout_mask)(z, 0, 1, n, a->e + position * a->e_row, 0, a->drop);
            for (int64_t j = first; j < n; j++) p[j] *= z[j];
        }
        memset(o, 0, (size_t)a->d * sizeof *o);
        for (int64_t j = first; j < n; j++) {
            const float *v = load(a, a->v, j * a->v_s, a->d, room), w = p[j] / sum;
#pragma omp simd
            for (int64_t x = 0; x < a->d; x++) o[x] += w * v[x];
        }
        store(a, a->o, i * a->o_s, a->d, o);
        if (a->lse) a->lse[i] = max + logf(sum);
    }
}

/* ---- backward ---- */

/* Views into what attn_pack_bwd packed. */
typedef struct packed_bwd {
    float *kt, *vt, *k, *dk, *dv;
} packed_bwd;

static packed_bwd bwd_views(const tx__attn *a, float *packed)
{
    int64_t n = tx__lanes(a->sk) * tx__lanes(a->d);
    return (packed_bwd){ packed, packed + n, packed + 2 * n, packed + 3 * n, packed + 4 * n };
}

void tx__k(attn_pack_bwd)(const tx__attn *a, float *packed)
{
    packed_bwd w = bwd_views(a, packed);
    transpose(a, w.kt, a->k, a->k_s);
    transpose(a, w.vt, a->v, a->v_s);
    gather(a, w.k, a->k, 0, a->k_s, a->sk, 1.0f);
    memset(w.dk, 0, (size_t)(2 * tx__lanes(a->sk) * tx__lanes(a->d)) * sizeof *w.dk);
}

/* From scores p and ds = do vᵀ of one row:  p = P Z,  ds = P (Z ds - D). */
static void softmax_bwd(float *p, float *ds, const float *z, int64_t n, float lse, float big_d)
{
    if (z) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float prob = tx__expf(p[j] - lse);
            ds[j] = prob * (z[j] * ds[j] - big_d);
            p[j] = prob * z[j];
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float prob = tx__expf(p[j] - lse);
            ds[j] = prob * (ds[j] - big_d);
            p[j] = prob;
        }
    }
}

/* Queries i0 .. i0 + rows. q is scaled where it is gathered, so dS needs no scale for dk = dSᵀ q; dq gets it at the
 * end. */
static void bwd_block(const tx__attn *a, const packed_bwd *w, float *work, int64_t i0, int64_t rows)
{
    int64_t ld = tx__lanes(a->d), seen = n_seen(a, i0 + rows - 1);
    float *q = work, *do_ = q + BQ * ld, *dq = do_ + BQ * ld, *p = dq + BQ * ld, *ds = p + BQ * BK, *z = ds + BQ * BK;
    float *big_d = z + BQ * BK;
    gather(a, q, a->q, i0 * a->q_s, a->q_s, rows, a->scale);
    gather(a, do_, a->do_, i0 * a->do_s, a->do_s, rows, 1.0f);
    for (int64_t i = 0; i < rows; i++) {
        const float *o = load(a, a->o, (i0 + i) * a->o_s, a->d, dq), *g = do_ + i * ld;
        big_d[i] = dot(o, g, a->d);
    }
    memset(dq, 0, (size_t)(rows * ld) * sizeof *dq);
    for (int64_t first = first_block(a, i0, rows); first < seen; first += BK) {
        int64_t kb = block_width(a->sk, first), n = min(BK, a->sk - first);
        score_block(a, p, q, w->kt, i0, rows, first, kb);
        memset(ds, 0, (size_t)(rows * BK) * sizeof *ds);
        multiply(rows, kb, a->d, (strided){ do_, ld, 1 }, w->vt + first * ld, kb, ds, BK);
        if (a->drop) mask_block(a, z, i0, rows, first, n);
        for (int64_t i = 0; i < rows; i++)
            softmax_bwd(p + i * BK, ds + i * BK, a->drop ? z + i * BK : NULL, n, a->lse[i0 + i], big_d[i]);
        multiply(n, ld, rows, (strided){ p, 1, BK }, do_, ld, w->dv + first * ld, ld);
        multiply(n, ld, rows, (strided){ ds, 1, BK }, q, ld, w->dk + first * ld, ld);
        multiply(rows, ld, n, (strided){ ds, BK, 1 }, w->k + first * ld, ld, dq, ld);
    }
    scatter(a, a->dq, i0 * a->dq_s, a->dq_s, dq, rows, a->scale);
}

void tx__k(attn_bwd)(const tx__attn *a, float *packed, float *work)
{
    packed_bwd w = bwd_views(a, packed);
    for (int64_t i0 = 0; i0 < a->sq; i0 += BQ) bwd_block(a, &w, work, i0, min(BQ, a->sq - i0));
}

void tx__k(attn_unpack_bwd)(const tx__attn *a, float *packed)
{
    int64_t ld = tx__lanes(a->d), n = tx__lanes(a->sk) * ld;
    scatter(a, a->dk, 0, a->dk_s, packed + 3 * n, a->sk, 1.0f);
    scatter(a, a->dv, 0, a->dv_s, packed + 4 * n, a->sk, 1.0f);
}
