/* isa_attention.c - one attention head at a time, in blocks of TX__ATTN_Q queries × TX__ATTN_K keys, so that scores
 * exist only inside the cache and memory is linear in s. Forward: online softmax, arXiv:2205.14135, algorithm 1;
 * backward: its algorithm 4.
 *
 *  packed, ld = d rounded up to TX__LANES, kb = keys of a block rounded up likewise:
 *
 *      kᵀ, vᵀ   block after block, each [ld, kb]: a row of scores is a sum of rows of it
 *      k, v     [sk, ld]
 *
 *  Every matrix product below is then  C += op(A) B  with B and C made of whole vectors and A's elements broadcast.
 *
 *  Where the set multiplies pairs of bf16, bf16 is packed as it is: a unit of 32 bits is not a number but the two that
 * are neighbours along the dimension that the product sums over, and there are half as many of them. So a matrix is
 * packed in one of two ways, which for fp32 are the same:
 *
 *      rows     [rows, units of d]    unit x of row i is (i, 2x) (i, 2x+1):   q, do, and k, v on their way to kᵀ, vᵀ
 *      across   [rows / 2, ld]        unit x of row i is (2i, x) (2i+1, x):   k, v; q, do for dk, dv
 *
 *  P and dS become bf16 in place once they are known. Scores, softmax, and all sums are fp32 in any case. */
#include <string.h>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "backend/cpu/isa/isa.h"
#include "backend/cpu/isa/vmath.h"

enum { BQ = TX__ATTN_Q, BK = TX__ATTN_K, ABREAST = TX__ATTN_ABREAST, AHEAD = 8 /* rows */ };
static const float MASKED = -1e30f; /* a score that is not there: its exp is exactly 0, and it makes no NaN */

static inline int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- units: a number, or two bf16 ---- */

#if defined(__AVX512BF16__)
enum { HAS_PAIRS = 1 };

/* sum + x y of pairs, each lane's two products into one sum */
static inline tx__vec add_pairs(tx__vec sum, float x, tx__vec y)
{
    return (tx__vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(x), (__m512bh)y);
}

/* low and high as bf16, `low` in the first half */
static inline tx__vec to_halves(tx__vec low, tx__vec high)
{
    return (tx__vec)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

/* The pairs of bf16 (low[i], high[i]) */
static inline tx__vec to_pairs(tx__vec low, tx__vec high)
{
    const __m512i from = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                          21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (tx__vec)_mm512_permutexvar_epi16(from, (__m512i)to_halves(low, high));
}
#else
enum { HAS_PAIRS = 0 };

static inline tx__vec add_pairs(tx__vec sum, float x, tx__vec y)
{
    (void)x, (void)y;
    return sum;
}

static inline tx__vec to_halves(tx__vec low, tx__vec high)
{
    (void)high;
    return low;
}

static inline tx__vec to_pairs(tx__vec low, tx__vec high)
{
    (void)high;
    return low;
}
#endif

/* Numbers in a unit: 1 or 2. */
static inline int64_t per_unit(const tx__attn *a)
{
    return HAS_PAIRS && a->dtype == TX_BF16 ? 2 : 1;
}

/* Units that hold n numbers. */
static inline int64_t units(const tx__attn *a, int64_t n)
{
    return (n + per_unit(a) - 1) / per_unit(a);
}

/* ---- matrix kernels ---- */

/* Where op(A)[i,p] lies: a + i rs + p cs. */
typedef struct strided {
    const float *a;
    int64_t rs, cs;
} strided;

/* Query i of a block sees keys j < i + off of a block. What of a product needs no work then: */
typedef enum product {
    SCORES,   /* C[query, key] = A B, not read before: columns that no row of a tile sees are left as they are */
    BY_QUERY, /* C[query, :] += A[query, key] B: A is 0 from column i + off on */
    BY_KEY,   /* C[key, :] += A[key, query] B: A is 0 up to column i - off */
} product;

/* What is the same for all tiles of a product; all constants where tiles are inlined. */
typedef struct tile_kind {
    product product;
    bool pairs;
} tile_kind;

/* C[mr, nv vectors] = factor A[mr, k] B[k, nv vectors] for scores, else C += A B. mr, nv and kind are constants where
 * this is inlined. */
static inline __attribute__((always_inline)) void tile(int mr, int nv, tile_kind kind, float factor, int64_t k,
                                                       strided a, const float *b, int64_t ldb, float *c, int64_t ldc)
{
    const bool fresh = kind.product == SCORES;
    tx__vec sum[TX__MR][TX__NV];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) sum[i][j] = fresh ? (tx__vec){ 0 } : *(const tx__vec *)(c + i * ldc + j * TX__VEC);
    for (int64_t p = 0; p < k; p++) {
        const tx__vec *row = (const tx__vec *)(b + p * ldb);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) {
            const float x = a.a[i * a.rs + p * a.cs];
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                if (kind.pairs)
                    sum[i][j] = add_pairs(sum[i][j], x, row[j]);
                else
                    sum[i][j] += x * row[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            if (fresh) sum[i][j] *= factor;
            *(tx__vec *)(c + i * ldc + j * TX__VEC) = sum[i][j];
        }
}

/* C[mr, n] of one strip, n at most NV vectors. */
static inline __attribute__((always_inline)) void tile_of(int mr, int64_t n, tile_kind kind, float factor, int64_t k,
                                                          strided a, const float *b, int64_t ldb, float *c, int64_t ldc)
{
    if (TX__NV >= 4 && n >= 4 * TX__VEC)
        tile(mr, 4, kind, factor, k, a, b, ldb, c, ldc);
    else if (TX__NV >= 3 && n >= 3 * TX__VEC)
        tile(mr, 3, kind, factor, k, a, b, ldb, c, ldc);
    else if (n >= 2 * TX__VEC)
        tile(mr, 2, kind, factor, k, a, b, ldb, c, ldc);
    else
        tile(mr, 1, kind, factor, k, a, b, ldb, c, ldc);
}

/* The product C[m,n], op(A)[m,k], B[k,n], n a multiple of TX__VEC, in strips of columns and tiles of rows. k counts
 * numbers, A and B are of units. */
static inline __attribute__((always_inline)) void multiply(tile_kind kind, float factor, int64_t off, int64_t m,
                                                           int64_t n, int64_t k, strided a, const float *b, int64_t ldb,
                                                           float *c, int64_t ldc)
{
    const int64_t per = kind.pairs ? 2 : 1;
    for (int64_t j = 0; j < n; j += TX__NV * TX__VEC) {
        int64_t width = min(n - j, TX__NV * TX__VEC), mr;
        for (int64_t i = 0; i < m; i += mr) {
            mr = m - i >= TX__MR ? TX__MR : m - i >= TX__MR_REST ? TX__MR_REST : 1;
            int64_t end = i + mr - 1 + off, cols = width, p0 = 0, p1 = k;
            if (kind.product == SCORES) cols = min(width, tx__lanes(end) - j);
            if (kind.product == BY_QUERY) p1 = min(k, end);
            if (kind.product == BY_KEY) p0 = max(0, i - off + 1);
            if (cols <= 0 || p0 >= p1) continue;
            p0 /= per, p1 = (p1 + per - 1) / per;
            strided at = { a.a + i * a.rs + p0 * a.cs, a.rs, a.cs };
            const float *from = b + p0 * ldb + j;
            float *to = c + i * ldc + j;
            if (mr == TX__MR)
                tile_of(TX__MR, cols, kind, factor, p1 - p0, at, from, ldb, to, ldc);
            else if (mr == TX__MR_REST)
                tile_of(TX__MR_REST, cols, kind, factor, p1 - p0, at, from, ldb, to, ldc);
            else
                tile_of(1, cols, kind, factor, p1 - p0, at, from, ldb, to, ldc);
        }
    }
}

/* Queries × keys: how many of each, and `off` as above. */
typedef struct extent {
    int64_t off, rows, n;
} extent;

/* scores[queries, keys n] = factor q kᵀ, or do vᵀ. */
static void multiply_scores(const tx__attn *a, float factor, extent e, const float *q, const float *kt, float *scores)
{
    const int64_t off = e.off, rows = e.rows, n = e.n;
    const strided by_row = { q, tx__lanes(units(a, a->d)), 1 };
    if (per_unit(a) == 2)
        multiply((tile_kind){ SCORES, true }, factor, off, rows, n, a->d, by_row, kt, n, scores, BK);
    else
        multiply((tile_kind){ SCORES, false }, factor, off, rows, n, a->d, by_row, kt, n, scores, BK);
}

/* o[queries, ld] += p v, or dq += ds k. */
static void multiply_by_query(const tx__attn *a, extent e, const float *p, const float *v, float *o)
{
    const int64_t off = e.off, rows = e.rows, n = e.n;
    const int64_t ld = tx__lanes(a->d);
    const strided by_row = { p, BK, 1 };
    if (per_unit(a) == 2)
        multiply((tile_kind){ BY_QUERY, true }, 1, off, rows, ld, n, by_row, v, ld, o, ld);
    else
        multiply((tile_kind){ BY_QUERY, false }, 1, off, rows, ld, n, by_row, v, ld, o, ld);
}

/* dv[keys n, ld] += pᵀ do, or dk += dsᵀ q. */
static void multiply_by_key(const tx__attn *a, extent e, const float *p, const float *do_, float *dv)
{
    const int64_t off = e.off, rows = e.rows, n = e.n;
    const int64_t ld = tx__lanes(a->d);
    const strided by_column = { p, 1, per_unit(a) * BK };
    if (per_unit(a) == 2)
        multiply((tile_kind){ BY_KEY, true }, 1, off, n, ld, rows, by_column, do_, ld, dv, ld);
    else
        multiply((tile_kind){ BY_KEY, false }, 1, off, n, ld, rows, by_column, do_, ld, dv, ld);
}

/* Halves are compared round by round. */
static inline float largest(tx__vec x)
{
#pragma GCC unroll 4
    for (int round = 1; round < TX__VEC; round *= 2) x = tx__at_least(tx__zip_high(x, x), tx__zip_low(x, x));
    return x[0];
}

/* x y; not inlined, so that its sum has one order wherever it is called. */
static __attribute__((noinline)) float dot(const float *x, const float *y, int64_t n)
{
    tx__vec sum = { 0 };
    int64_t i = 0;
    for (; i + TX__VEC <= n; i += TX__VEC) sum += *(const tx__vec *)(x + i) * *(const tx__vec *)(y + i);
    float rest = 0;
    for (; i < n; i++) rest += x[i] * y[i];
    return tx__total(sum) + rest;
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

/* Asks for row `at` of a tensor ahead of its use: rows lie too far apart for the processor to foresee the next. */
static inline void foresee(const tx__attn *a, const void *x, int64_t at)
{
    enum { LINE = 64 };
    int64_t size = (int64_t)tx_dtype_size(a->dtype);
    const char *row = (const char *)x + at * size;
    for (int64_t i = 0; i < a->d * size; i += LINE) __builtin_prefetch(row + i);
}

/* What the products of q have to be multiplied with: numbers are scaled where q is packed, but bf16 would be rounded.
 */
static inline float late_scale(const tx__attn *a)
{
    return per_unit(a) == 2 ? a->scale : 1.0f;
}

/* n rows of a tensor: the first begins with element `at`, and each `stride` elements after the one before it. */
typedef struct row_range {
    int64_t at, stride, n;
} row_range;

/* dst [rows, ld] = the rows of src as units, padded with zeros; numbers times factor. */
static void pack_rows(const tx__attn *a, float *dst, const void *src, row_range rows, float factor)
{
    int64_t d = a->d, ld = tx__lanes(units(a, d));
    for (int64_t i = 0; i < rows.n; i++, dst += ld) {
        if (i + AHEAD < rows.n) foresee(a, src, rows.at + (i + AHEAD) * rows.stride);
        if (per_unit(a) == 2) {
            memset(dst + ld - TX__LANES, 0, TX__LANES * sizeof *dst);
            memcpy(dst, (const uint16_t *)src + rows.at + i * rows.stride, (size_t)d * sizeof(uint16_t));
            continue;
        }
        const float *row = load(a, src, rows.at + i * rows.stride, d, dst);
#pragma omp simd
        for (int64_t x = 0; x < d; x++) dst[x] = factor * row[x];
        for (int64_t x = d; x < ld; x++) dst[x] = 0;
    }
}

/* dst [units of rows, ld] = the same rows across. */
static void pack_across(const tx__attn *a, float *dst, const void *src, row_range rows)
{
    if (per_unit(a) == 1) {
        pack_rows(a, dst, src, rows, 1.0f);
        return;
    }
    const int64_t n = rows.n, src_s = rows.stride;
    const uint16_t *row = (const uint16_t *)src + rows.at;
    uint32_t *pair = (uint32_t *)(void *)dst;
    for (int64_t i = 0; i < n; i += 2, row += 2 * src_s, pair += tx__lanes(a->d)) {
        if (i + AHEAD < n) foresee(a, src, rows.at + (i + AHEAD) * src_s);
        if (i + AHEAD + 1 < n) foresee(a, src, rows.at + (i + AHEAD + 1) * src_s);
        const uint16_t *next = row + src_s;
        memset(pair + tx__lanes(a->d) - TX__LANES, 0, TX__LANES * sizeof *pair);
        if (i + 1 < n) {
#pragma omp simd
            for (int64_t x = 0; x < a->d; x++) pair[x] = (uint32_t)row[x] | (uint32_t)next[x] << 16;
        } else {
#pragma omp simd
            for (int64_t x = 0; x < a->d; x++) pair[x] = row[x];
        }
    }
}

/* p [rows, BK] as units in place, keys in pairs; n is a multiple of TX__LANES. */
static void pair_keys(const tx__attn *a, float *dst, const float *p, int64_t rows, int64_t n)
{
    for (int64_t i = 0; per_unit(a) == 2 && i < rows; i++)
        for (int64_t j = 0; j < n; j += 2 * TX__VEC) {
            const tx__vec *x = (const tx__vec *)(p + i * BK + j);
            *(tx__vec *)(dst + i * BK + j / 2) = to_halves(x[0], j + TX__VEC < n ? x[1] : (tx__vec){ 0 });
        }
}

/* p [rows, BK] as units in place, queries in pairs: those of rows i and i + 1 in row i. */
static void pair_queries(const tx__attn *a, float *p, int64_t rows, int64_t n)
{
    if (per_unit(a) == 1) return;
    if (rows % 2) memset(p + rows * BK, 0, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < rows; i += 2)
        for (int64_t j = 0; j < n; j += TX__VEC) {
            tx__vec *x = (tx__vec *)(p + i * BK + j);
            *x = to_pairs(*x, *(const tx__vec *)(p + (i + 1) * BK + j));
        }
}

/* Rows of dst = factor src [rows, ld], which is used up. */
static void scatter(const tx__attn *a, void *dst, row_range rows, float *src, float factor)
{
    int64_t d = a->d, ld = tx__lanes(d);
    for (int64_t i = 0; i < rows.n; i++, src += ld) {
        if (i + AHEAD < rows.n) foresee(a, dst, rows.at + (i + AHEAD) * rows.stride);
        float *row = place(a, dst, rows.at + i * rows.stride, src);
#pragma omp simd
        for (int64_t x = 0; x < d; x++) row[x] = factor * src[x];
        store(a, dst, rows.at + i * rows.stride, d, row);
    }
}

/* dst, blocks of [ld, kb] = rows [sk, ld] of src, in units; rooms of src up to a whole vector are cleared. */
static void transpose(const tx__attn *a, float *dst, float *src)
{
    int64_t sk = a->sk, ld = tx__lanes(units(a, a->d));
    memset(src + sk * ld, 0, (size_t)((tx__lanes(sk) - sk) * ld) * sizeof *src);
    for (int64_t first = 0; first < sk; first += BK) {
        int64_t kb = tx__lanes(min(BK, sk - first));
        for (int64_t j = 0; j < kb; j += TX__VEC)
            for (int64_t x = 0; x < ld; x += TX__VEC) {
                tx__vec square[TX__VEC];
#pragma GCC unroll 16
                for (int i = 0; i < TX__VEC; i++) square[i] = *(const tx__vec *)(src + (first + j + i) * ld + x);
                tx__transpose(square);
#pragma GCC unroll 16
                for (int i = 0; i < TX__VEC; i++) *(tx__vec *)(dst + first * ld + (x + i) * kb + j) = square[i];
            }
    }
}

/* ---- blocks of scores ---- */

/* The first block of keys that one of the queries i0 .. i0 + rows sees. */
static int64_t first_block(const tx__attn *a, int64_t i0, int64_t rows)
{
    int64_t first = tx__attn_begin(a, i0);
    for (int64_t i = 1; a->first_key && i < rows; i++) first = min(first, tx__attn_begin(a, i0 + i));
    return first / BK * BK;
}

/* A block of scores: of the queries i0 .. i0 + rows, and of n keys from `first` on, with padding `padded` keys. Query
 * i0 + i sees the block's keys j < i + off. Queries after the last one that sees any of them are left out. */
typedef struct block {
    int64_t i0, rows, first, n, padded, off;
} block;

static block block_of(const tx__attn *a, int64_t i0, int64_t rows, int64_t first)
{
    int64_t n = min(BK, a->sk - first);
    while (rows && tx__attn_begin(a, i0 + rows - 1) >= first + n) rows--;
    return (block){ i0, rows, first, n, tx__lanes(n), a->causal ? i0 + 1 + a->q0 - first : n };
}

/* How many keys of the block row i reaches. */
static inline int64_t reach(const block *b, int64_t i)
{
    return max(0, min(b->n, i + b->off));
}

/* Adds slope (j - i) to the scores of query i and n keys, `apart` being the first one's. */
static inline void lean(float *p, int64_t n, float slope, int64_t apart)
{
    const int first = (int)apart, end = (int)n; /* whose conversions are of whole vectors */
#pragma omp simd
    for (int j = 0; j < end; j++) p[j] += slope * (float)(first + j);
}

/* n scores p, a whole number of vectors, become cap tanh(p / cap). `slope`, NULL: not wanted, is how much each changes
 * with what it was. */
static inline void cap_scores(float *p, float *slope, int64_t n, float cap)
{
    const float inverse = 1.0f / cap;
    for (int64_t j = 0; j < n; j += TX__VEC) {
        tx__vec x = *(tx__vec *)(p + j) * inverse;
        *(tx__vec *)(p + j) = cap * tx__vtanh(x);
        if (slope) *(tx__vec *)(slope + j) = tx__vtanh_slope(x);
    }
}

/* scores [rows, BK] = scale q kᵀ, capped, + bias, MASKED what row i does not see within the vectors that it reaches
 * into.   @slope [rows, BK] of the cap; NULL: not wanted */
static void score_block(const tx__attn *a, const block *b, float *p, float *slope, const float *q, const float *kt)
{
    multiply_scores(a, late_scale(a), (extent){ b->off, b->rows, b->padded }, q,
                    kt + b->first * tx__lanes(units(a, a->d)), p);
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t seen = reach(b, i), hidden = min(tx__attn_begin(a, b->i0 + i) - b->first, seen);
        if (a->softcap > 0) cap_scores(p + i * BK, slope ? slope + i * BK : NULL, tx__lanes(seen), a->softcap);
        if (a->slope > 0) lean(p + i * BK, seen, a->slope, b->first - b->i0 - i - a->q0);
        for (int64_t j = 0; j < hidden; j++) p[i * BK + j] = MASKED;
        for (int64_t j = seen; j < tx__lanes(seen); j++) p[i * BK + j] = MASKED;
    }
}

/* What row i does not reach is 0. */
static inline void clear_rest(const block *b, int64_t i, float *p)
{
    for (int64_t j = tx__lanes(reach(b, i)); j < b->padded; j++) p[j] = 0;
}

/* The block's dropout mask, into [rows, BK]. */
static void mask_block(const tx__attn *a, const block *b, float *z)
{
    const uint64_t q = (uint64_t)(b->i0 + a->q0);
    const tx__mask_elements of = { a->e + q * a->e_row + (uint64_t)b->first, a->e_row, b->rows, b->n };
    tx__k(dropout_mask)(z, BK, of, a->drop);
}

/* ---- forward ---- */

void tx__k(attn_pack_keys)(const tx__attn *a, float *packed)
{
    float *way = packed + tx__lanes(a->sk) * tx__lanes(a->d);
    pack_rows(a, way, a->k, (row_range){ 0, a->k_s, a->sk }, 1.0f);
    transpose(a, packed, way);
}

void tx__k(attn_pack_fwd)(const tx__attn *a, float *packed)
{
    float *v = packed + tx__lanes(a->sk) * tx__lanes(a->d);
    tx__k(attn_pack_keys)(a, packed);
    pack_across(a, v, a->v, (row_range){ 0, a->v_s, a->sk });
}

/* The rows of a block so far: their maximum and their sum of exp(score - max). */
typedef struct so_far {
    float *max, *sum, *room; /* [BQ] each */
} so_far;

/* Scores p become exp(score - max); max and sum of the rows so far are updated and o is rescaled to the new max. Blocks
 * before a row's first key leave ones behind, which the first real score rescales to exactly 0; a row without any keeps
 * MASKED as its maximum. */
static void online_softmax(const block *b, float *p, so_far w, float *o, int64_t ld)
{
    const int64_t rows = b->rows;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = p + i * BK;
        tx__vec top = (tx__vec){ 0 } + w.max[i];
        int64_t n = tx__lanes(reach(b, i));
        for (int64_t j = 0; j < n; j += TX__VEC) top = tx__at_least(top, *(const tx__vec *)(row + j));
        w.room[i] = largest(top);
    }
#pragma omp simd
    for (int64_t i = 0; i < rows; i++) {
        float top = w.room[i], shrink = tx__expf(w.max[i] - top);
        w.max[i] = top;
        w.sum[i] *= shrink;
        w.room[i] = shrink;
    }
    for (int64_t i = 0; i < rows; i++) {
        float *row = p + i * BK, top = w.max[i], shrink = w.room[i];
        int64_t n = tx__lanes(reach(b, i));
        tx__vec add = { 0 };
        for (int64_t j = 0; j < n; j += TX__VEC) {
            tx__vec *e = (tx__vec *)(row + j);
            *e = tx__vexp(*e - top);
            add += *e;
        }
        w.sum[i] += tx__total(add);
        clear_rest(b, i, row);
        if (shrink == 1.0f) continue;
#pragma omp simd
        for (int64_t x = 0; x < ld; x++) o[i * ld + x] *= shrink;
    }
}

/* A block of queries on its way through the keys that one of them sees, from `first` to `end`. */
typedef struct fwd_queries {
    int64_t i0, rows, first, end;
    float *q, *o;
    so_far so_far;
} fwd_queries;

static fwd_queries begin_fwd(const tx__attn *a, float *room, int64_t i0)
{
    const int64_t rows = min(BQ, a->sq - i0), ld = tx__lanes(a->d);
    float *o = room + BQ * ld, *state = o + BQ * ld;
    const so_far w = { state, state + BQ, state + 2 * BQ };
    pack_rows(a, room, a->q, (row_range){ i0 * a->q_s, a->q_s, rows }, a->scale);
    memset(o, 0, (size_t)(rows * ld) * sizeof *o);
    for (int64_t i = 0; i < rows; i++) w.max[i] = a->has_sink ? a->sink : MASKED, w.sum[i] = a->has_sink ? 1 : 0;
    return (fwd_queries){ i0, rows, first_block(a, i0, rows), tx__attn_end(a, i0 + rows - 1), room, o, w };
}

/* The block of keys at `first`.   @p, z [BQ, BK] */
static void fwd_block(const tx__attn *a, const float *packed, const fwd_queries *w, int64_t first, float *p, float *z)
{
    const int64_t ld = tx__lanes(a->d);
    const float *v = packed + tx__lanes(a->sk) * ld;
    const block b = block_of(a, w->i0, w->rows, first);
    score_block(a, &b, p, NULL, w->q, packed);
    if (a->drop) mask_block(a, &b, z);
    online_softmax(&b, p, w->so_far, w->o, ld);
    for (int64_t i = 0; a->drop && i < b.rows; i++) {
#pragma omp simd
        for (int64_t j = 0; j < b.n; j++) p[i * BK + j] *= z[i * BK + j];
    }
    pair_keys(a, p, p, b.rows, b.padded);
    multiply_by_query(a, (extent){ b.off, b.rows, b.n }, p, v + first / per_unit(a) * ld, w->o);
}

static void end_fwd(const tx__attn *a, const fwd_queries *w)
{
    const int64_t ld = tx__lanes(a->d);
    for (int64_t i = 0; i < w->rows; i++) {
        const bool sees = w->so_far.max[i] > MASKED;
        const float factor = sees ? 1.0f / w->so_far.sum[i] : 1;
        if (!sees) memset(w->o + i * ld, 0, (size_t)ld * sizeof *w->o);
#pragma omp simd
        for (int64_t x = 0; x < ld; x++) w->o[i * ld + x] *= factor;
        if (a->lse) a->lse[w->i0 + i] = sees ? w->so_far.max[i] + logf(w->so_far.sum[i]) : -INFINITY;
    }
    scatter(a, a->o, (row_range){ w->i0 * a->o_s, a->o_s, w->rows }, w->o, 1.0f);
}

void tx__k(attn_fwd)(const tx__attn *a, const float *packed, float *work)
{
    const int64_t room = tx__attn_fwd_room(a->d);
    float *p = work + tx__attn_abreast(a->sq) * room, *z = p + BQ * BK;
    fwd_queries w[ABREAST];
    for (int64_t i0 = 0; i0 < a->sq; i0 += ABREAST * BQ) {
        int64_t first = a->sk, end = 0;
        int n = 0;
        for (; n < ABREAST && i0 + n * BQ < a->sq; n++) {
            w[n] = begin_fwd(a, work + n * room, i0 + n * BQ);
            first = min(first, w[n].first), end = max(end, w[n].end);
        }
        for (; first < end; first += BK)
            for (int i = 0; i < n; i++)
                if (first >= w[i].first && first < w[i].end) fwd_block(a, packed, &w[i], first, p, z);
        for (int i = 0; i < n; i++) end_fwd(a, &w[i]);
    }
}

/* What rows of a block see begins where a vector may: what they do not see is MASKED. */
static tx__vec block_max(const block *b, const float *p, tx__vec most)
{
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0, n = tx__lanes(reach(b, i)); j < n; j += TX__VEC)
            most = tx__at_least(most, *(const tx__vec *)(p + i * BK + j));
    return most;
}

float tx__k(attn_max)(const tx__attn *a, const float *packed, float *work)
{
    float *q = work, *p = q + BQ * tx__lanes(a->d);
    tx__vec most = { 0 };
    for (int64_t i0 = 0; i0 < a->sq; i0 += BQ) {
        int64_t rows = min(BQ, a->sq - i0), seen = tx__attn_end(a, i0 + rows - 1);
        pack_rows(a, q, a->q, (row_range){ i0 * a->q_s, a->q_s, rows }, a->scale);
        for (int64_t first = first_block(a, i0, rows); first < seen; first += BK) {
            const block b = block_of(a, i0, rows, first);
            score_block(a, &b, p, NULL, q, packed);
            most = block_max(&b, p, most);
        }
    }
    return largest(most);
}

/* p[j] = q · k[j], j in [first, n); t is a constant where this is inlined. */
TX__INLINE void few_scores(tx_dtype t, const tx__attn *a, const float *q, float *p, int64_t first, int64_t n)
{
    for (int64_t j = first; j < n; j++) {
        tx__vec sum = { 0 };
        for (int64_t x = 0; x < a->d; x += TX__VEC)
            sum += tx__load_n(q, TX_F32, x, a->d - x) * tx__load_n(a->k, t, j * a->k_s + x, a->d - x);
        p[j] = tx__total(sum);
    }
}

/* o = Σ_j p[j] v[j], likewise; of several vectors at a time, whose sums stay in registers. */
TX__INLINE void few_values(tx_dtype t, const tx__attn *a, float *o, const float *p, int64_t first, int64_t n)
{
    enum { ABREAST_O = 4 };
    for (int64_t x = 0; x < a->d; x += ABREAST_O * TX__VEC) {
        tx__vec sum[ABREAST_O] = { { 0 } };
        int64_t left = a->d - x;
        for (int64_t j = first; j < n; j++) {
#pragma GCC unroll 4
            for (int i = 0; i < ABREAST_O; i++)
                if (i * TX__VEC < left)
                    sum[i] += p[j] * tx__load_n(a->v, t, j * a->v_s + x + i * TX__VEC, left - i * TX__VEC);
        }
        for (int i = 0; i < ABREAST_O && i * TX__VEC < left; i++)
            tx__store_n(o, TX_F32, x + i * TX__VEC, left - i * TX__VEC, sum[i]);
    }
}

static void few_scores_of(const tx__attn *a, const float *q, float *p, int64_t first, int64_t n)
{
    if (a->dtype == TX_F32) few_scores(TX_F32, a, q, p, first, n);
    if (a->dtype == TX_BF16) few_scores(TX_BF16, a, q, p, first, n);
    if (a->dtype == TX_F16) few_scores(TX_F16, a, q, p, first, n);
}

static void few_values_of(const tx__attn *a, float *o, const float *p, int64_t first, int64_t n)
{
    if (a->dtype == TX_F32) few_values(TX_F32, a, o, p, first, n);
    if (a->dtype == TX_BF16) few_values(TX_BF16, a, o, p, first, n);
    if (a->dtype == TX_F16) few_values(TX_F16, a, o, p, first, n);
}

/* Few queries: reading k and v once in place costs less than packing them. */
void tx__k(attn_fwd_few)(const tx__attn *a, float *work)
{
    int64_t ld = tx__lanes(a->d);
    float *p = work, *z = p + tx__lanes(a->sk), *q_room = z + tx__lanes(a->sk), *room = q_room + ld;
    for (int64_t i = 0; i < a->sq; i++) {
        const float *q = load(a, a->q, i * a->q_s, a->d, q_room);
        float *o = place(a, a->o, i * a->o_s, room + ld), max = a->has_sink ? a->sink : MASKED, sum = 0;
        int64_t n = tx__attn_end(a, i), first = tx__attn_begin(a, i);
        few_scores_of(a, q, p, first, n);
        for (int64_t j = first; j < n; j++) {
            float score = p[j] * a->scale;
            if (a->softcap > 0) score = a->softcap * tanhf(score / a->softcap);
            p[j] = score + a->slope * (float)(j - i - a->q0);
            max = p[j] > max ? p[j] : max;
        }
        if (a->has_sink) sum = tx__expf(a->sink - max);
#pragma omp simd reduction(+ : sum)
        for (int64_t j = first; j < n; j++) {
            float e = tx__expf(p[j] - max);
            p[j] = e;
            sum += e;
        }
        if (a->drop) {
            uint64_t position = (uint64_t)(i + a->q0);
            tx__k(dropout_mask)(z, 0, (tx__mask_elements){ a->e + position * a->e_row, 0, 1, n }, a->drop);
            for (int64_t j = first; j < n; j++) p[j] *= z[j];
        }
        for (int64_t j = first; j < n; j++) p[j] /= sum;
        few_values_of(a, o, p, first, n);
        store(a, a->o, i * a->o_s, a->d, o);
        if (a->lse) a->lse[i] = max > MASKED ? max + logf(sum) : -INFINITY;
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
    pack_rows(a, w.k, a->v, (row_range){ 0, a->v_s, a->sk }, 1.0f); /* v, on its way */
    transpose(a, w.vt, w.k);
    pack_rows(a, w.k, a->k, (row_range){ 0, a->k_s, a->sk }, 1.0f);
    transpose(a, w.kt, w.k);
    if (per_unit(a) == 2) pack_across(a, w.k, a->k, (row_range){ 0, a->k_s, a->sk });
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

/* ds *= cap */
static inline void shrink_by(float *ds, const float *cap, int64_t n)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++) ds[j] *= cap[j];
}

/* A block of queries on its way, as in forward. */
typedef struct bwd_queries {
    int64_t i0, rows, first, end;
    float *q, *do_;              /* rows */
    float *q_across, *do_across; /* for fp32 the same memory */
    float *dq, *big_d;
} bwd_queries;

/* What blocks of queries have by turns, [BQ, BK] each: scores, their gradients, the dropout mask, with a softcap its
 * slope at each score. */
typedef struct work_bwd {
    float *p, *ds, *z, *cap;
} work_bwd;

/* Packs a block's queries and clears their dq. */
static bwd_queries begin_bwd(const tx__attn *a, float *room, int64_t i0)
{
    const int64_t n = BQ * tx__lanes(a->d), rows = min(BQ, a->sq - i0);
    bwd_queries w = { .i0 = i0,
                      .rows = rows,
                      .first = first_block(a, i0, rows),
                      .end = tx__attn_end(a, i0 + rows - 1),
                      .q = room,
                      .do_ = room + n,
                      .q_across = room,
                      .do_across = room + n,
                      .dq = room + 3 * n,
                      .big_d = room + 4 * n };
    const row_range q = { i0 * a->q_s, a->q_s, rows }, do_ = { i0 * a->do_s, a->do_s, rows };
    pack_rows(a, w.q, a->q, q, a->scale);
    pack_rows(a, w.do_, a->do_, do_, 1.0f);
    if (per_unit(a) == 2) {
        w.q_across = room + 2 * n;
        w.do_across = w.q_across + n / 2;
        pack_across(a, w.q_across, a->q, q);
        pack_across(a, w.do_across, a->do_, do_);
    }
    for (int64_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows) foresee(a, a->o, (i0 + i + AHEAD) * a->o_s);
        const float *o = load(a, a->o, (i0 + i) * a->o_s, a->d, w.dq);
        const float *g = load(a, a->do_, (i0 + i) * a->do_s, a->d, w.dq + tx__lanes(a->d));
        w.big_d[i] = dot(o, g, a->d);
    }
    memset(w.dq, 0, (size_t)n * sizeof *w.dq);
    return w;
}

/* The block of keys at `first`. Where q is scaled when it is packed, dS needs no scale for dk = dSᵀ q; dq, and dk
 * otherwise, get it at the end. */
static void bwd_block(const tx__attn *a, const packed_bwd *packed, const bwd_queries *q, int64_t first, work_bwd w)
{
    const int64_t ld = tx__lanes(a->d);
    const block b = block_of(a, q->i0, q->rows, first);
    const extent e = { b.off, b.rows, b.n };
    score_block(a, &b, w.p, w.cap, q->q, packed->kt);
    multiply_scores(a, 1, (extent){ b.off, b.rows, b.padded }, q->do_, packed->vt + first * tx__lanes(units(a, a->d)),
                    w.ds);
    if (a->drop) mask_block(a, &b, w.z);
    for (int64_t i = 0; i < b.rows; i++) {
        float *p = w.p + i * BK, *ds = w.ds + i * BK;
        softmax_bwd(p, ds, a->drop ? w.z + i * BK : NULL, tx__lanes(reach(&b, i)), a->lse[b.i0 + i], q->big_d[i]);
        if (a->softcap > 0) shrink_by(ds, w.cap + i * BK, tx__lanes(reach(&b, i)));
        clear_rest(&b, i, p);
        clear_rest(&b, i, ds);
    }
    float *ds_by_query = per_unit(a) == 2 ? w.z : w.ds; /* the mask is used up */
    pair_keys(a, ds_by_query, w.ds, b.rows, b.padded);
    pair_queries(a, w.p, b.rows, b.padded);
    pair_queries(a, w.ds, b.rows, b.padded);
    multiply_by_key(a, e, w.p, q->do_across, packed->dv + first * ld);
    multiply_by_key(a, e, w.ds, q->q_across, packed->dk + first * ld);
    multiply_by_query(a, e, ds_by_query, packed->k + first / per_unit(a) * ld, q->dq);
}

/* What a block's queries add to the gradient of the sink. */
static double end_bwd(const tx__attn *a, const bwd_queries *w)
{
    double dsink = 0;
    scatter(a, a->dq, (row_range){ w->i0 * a->dq_s, a->dq_s, w->rows }, w->dq, a->scale);
    for (int64_t i = 0; a->dsink && i < w->rows; i++)
        dsink -= (double)(tx__expf(a->sink - a->lse[w->i0 + i]) * w->big_d[i]);
    return dsink;
}

void tx__k(attn_bwd)(const tx__attn *a, float *packed, float *work)
{
    const packed_bwd keys = bwd_views(a, packed);
    const int64_t room = tx__attn_bwd_room(a->d);
    float *x = work + tx__attn_abreast(a->sq) * room;
    const work_bwd shared = { x, x + BQ * BK, x + 2 * BQ * BK, x + 3 * BQ * BK };
    bwd_queries w[ABREAST];
    double dsink = 0;
    for (int64_t i0 = 0; i0 < a->sq; i0 += ABREAST * BQ) {
        int64_t first = a->sk, end = 0;
        int n = 0;
        for (; n < ABREAST && i0 + n * BQ < a->sq; n++) {
            w[n] = begin_bwd(a, work + n * room, i0 + n * BQ);
            first = min(first, w[n].first), end = max(end, w[n].end);
        }
        for (; first < end; first += BK)
            for (int i = 0; i < n; i++)
                if (first >= w[i].first && first < w[i].end) bwd_block(a, &keys, &w[i], first, shared);
        for (int i = 0; i < n; i++) dsink += end_bwd(a, &w[i]);
    }
    if (a->dsink) *a->dsink = (float)dsink;
}

void tx__k(attn_unpack_bwd)(const tx__attn *a, float *packed)
{
    int64_t ld = tx__lanes(a->d), n = tx__lanes(a->sk) * ld;
    scatter(a, a->dk, (row_range){ 0, a->dk_s, a->sk }, packed + 3 * n, late_scale(a));
    scatter(a, a->dv, (row_range){ 0, a->dv_s, a->sk }, packed + 4 * n, 1.0f);
}
