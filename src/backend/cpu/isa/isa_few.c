/* isa_few.c - the product of a few rows with a large matrix, which is read once, as it lies: c = a bᵀ + bias.
 *
 *  Every number is one chain of multiply-adds along k in the lanes of one vector and a sum of those lanes in one order
 * (tx__total's), whatever else is computed beside it: a row's numbers do not depend on how many rows there are. Vectors
 * of lanes of so many columns as a vector has lanes are kept, and summed together.
 *
 *      b, rows j .. j + NR        read from memory once, multiplied with MR rows of a at a time; rows of more than one
 *                                 tile of a come in stretches that stay in the first cache
 *      sums [rows of a][columns]  vectors                                                                  */
#include "backend/cpu/isa/isa.h"
#include "backend/cpu/isa/vec.h"

/* MR × NR sums, NR vectors of b and one of a fit the registers. The sums of ROWS rows and a stretch of so many bytes of
 * each stay in the first cache. */
enum { MR = 4, NR = TX__VEC == 16 ? 4 : 2, ROWS = 16, STRETCH = TX__FEW_STRETCH, AHEAD = 24576 };

/* Rows of a of so many bytes stay in the first cache beside what is read of b. */
enum { CACHED = 24576 };

#if defined(__AVX512BF16__)
enum { HAS_PAIRS = 1 };

/* sum + x y of pairs of bf16, each lane's two products into one sum */
TX__INLINE tx__vec add_pairs(tx__vec sum, tx__vec x, tx__vec y)
{
    return (tx__vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x, (__m512bh)y);
}
#else
enum { HAS_PAIRS = 0 };

TX__INLINE tx__vec add_pairs(tx__vec sum, tx__vec x, tx__vec y)
{
    (void)x, (void)y;
    return sum;
}
#endif

/* What a vector holds of a row: numbers, or of bf16 pairs. */
TX__INLINE int64_t per_vector(tx_dtype t)
{
    return HAS_PAIRS && t == TX_BF16 ? 2 * TX__VEC : TX__VEC;
}

/* The vector of elements from i on, of which n may be there; the others are 0. */
TX__INLINE tx__vec units(const void *x, tx_dtype t, int64_t i, int64_t n)
{
    if (!HAS_PAIRS || t != TX_BF16) return tx__load_n(x, t, i, n);
    const uint16_t *row = (const uint16_t *)x + i; /* of which pairs lie at any even address */
    tx__vec v = { 0 };
    memcpy(&v, row, __builtin_expect(n >= 2 * TX__VEC, 1) ? sizeof v : (size_t)n * sizeof *row);
    return v;
}

TX__INLINE tx__vec multiply_add(tx__vec sum, tx__vec x, tx__vec y, tx_dtype t)
{
    if (HAS_PAIRS && t == TX_BF16) return add_pairs(sum, x, y);
    return sum + x * y;
}

TX__INLINE const void *row_of(const void *x, tx_dtype t, int64_t i, int64_t ld)
{
    return (const char *)x + i * ld * (t == TX_F32 ? 4 : 2);
}

/* Elements [from, to) of m rows: the first stretch begins the sums, the others go on with them. `a` has only them, its
 * rows lda apart. */
typedef struct stretch {
    const void *a;
    int64_t m, from, to, lda;
    bool first;
} stretch;

/* mr rows of a with nr of b; the first n_ahead of the rows of b that come next are asked for. */
typedef struct tile_size {
    int mr, nr, n_ahead;
} tile_size;

/* sums[i TX__VEC + j] += a[i] · b[j], lane by lane, over a stretch of the first mr rows of a. The size and t are
 * constants where this is inlined. */
TX__INLINE void tile(tile_size size, tx_dtype t, const tx__few *f, stretch k, const void *b, tx__vec *sums)
{
    const int mr = size.mr, nr = size.nr, n_ahead = size.n_ahead;
    const void *a = k.a;
    const int64_t step = per_vector(t), whole = k.from + (k.to - k.from) / step * step;
    tx__vec sum[MR][NR];
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nr; j++) sum[i][j] = k.first ? (tx__vec){ 0 } : sums[i * TX__VEC + j];
    for (int64_t p = k.from; p < whole; p += step) {
        tx__vec y[NR];
#pragma GCC unroll 8
        for (int j = 0; j < n_ahead; j++)
            __builtin_prefetch((const char *)row_of(b, t, f->ahead + j, f->ldb) + p * (t == TX_F32 ? 4 : 2));
#pragma GCC unroll 8
        for (int j = 0; j < nr; j++) y[j] = units(row_of(b, t, j, f->ldb), t, p, step);
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++) {
            tx__vec x = units(row_of(a, t, i, k.lda), t, p - k.from, step);
#pragma GCC unroll 8
            for (int j = 0; j < nr; j++) sum[i][j] = multiply_add(sum[i][j], x, y[j], t);
        }
    }
    if (whole < k.to) {
#pragma GCC unroll 8
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
            for (int j = 0; j < nr; j++)
                sum[i][j] = multiply_add(sum[i][j], units(row_of(a, t, i, k.lda), t, whole - k.from, k.to - whole),
                                         units(row_of(b, t, j, f->ldb), t, whole, k.to - whole), t);
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nr; j++) sums[i * TX__VEC + j] = sum[i][j];
}

/* The stretch of the rows after the first n. */
TX__INLINE stretch without(stretch k, tx_dtype t, int64_t n)
{
    return (stretch){ row_of(k.a, t, n, k.lda), k.m - n, k.from, k.to, k.lda, k.first };
}

/* All rows of a, at most ROWS, with size.nr rows of b; the first size.n_ahead of those that come next are asked for
 * beside the first tiles. */
TX__INLINE void strip(tile_size size, tx_dtype t, const tx__few *f, stretch k, const void *b, tx__vec *sums)
{
    const int nr = size.nr, n_ahead = size.n_ahead;
    if (k.m >= MR) {
        tile((tile_size){ MR, nr, n_ahead }, t, f, k, b, sums);
        k = without(k, t, MR), sums += MR * TX__VEC;
        for (; k.m >= MR; k = without(k, t, MR), sums += MR * TX__VEC) tile((tile_size){ MR, nr, 0 }, t, f, k, b, sums);
    }
    if (k.m == 3) tile((tile_size){ 3, nr, n_ahead }, t, f, k, b, sums);
    if (k.m == 2) tile((tile_size){ 2, nr, n_ahead }, t, f, k, b, sums);
    if (k.m == 1) tile((tile_size){ 1, nr, n_ahead }, t, f, k, b, sums);
}

/* The totals of the lanes of TX__VEC vectors, those of x[i] in lane i: what tx__total does, of all at once. */
TX__INLINE tx__vec totals(tx__vec *x)
{
#pragma GCC unroll 4
    for (int n = TX__VEC / 2; n > 0; n /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < n; i++) x[i] = tx__zip_low(x[i], x[i + n]) + tx__zip_high(x[i], x[i + n]);
    return x[0];
}

/* Whether rows of b are read whole, one after the other. Processors foresee that by themselves, and better than when
 * they are told; of several rows side by side they do not foresee all. */
static bool is_whole(const tx__few *f)
{
    return f->m == 1 || (f->m <= 2 * MR && f->m * f->k * (f->t == TX_F32 ? 4 : 2) <= CACHED);
}

/* Elements of a stretch. */
static int64_t length_of(const tx__few *f)
{
    return is_whole(f) ? f->k : STRETCH / (f->t == TX_F32 ? 4 : 2);
}

/* Where the stretch `from` of rows i .. i + m lies in the copy that few_pack makes: one row behind the other. */
TX__INLINE const void *packed_at(tx_dtype t, const tx__few *f, const void *work, int64_t i, int64_t m, int64_t from)
{
    int64_t each = length_of(f), k = (f->k + each - 1) / each * each;
    return row_of(work, t, i * k + m * from, 1);
}

/* Rows of a that lie some power of two apart would drive each other out of the first cache: they are copied. */
void tx__k(few_pack)(const tx__few *f, void *work)
{
    if (f->m == 1) return;
    int64_t each = length_of(f), size = f->t == TX_F32 ? 4 : 2;
    for (int64_t i = 0; i < f->m; i += ROWS) {
        int64_t m = f->m - i < ROWS ? f->m - i : ROWS;
        for (int64_t from = 0; from < f->k; from += each)
            for (int64_t r = 0; r < m; r++) {
                int64_t n = f->k - from < each ? f->k - from : each;
                char *to = (char *)(uintptr_t)packed_at(f->t, f, work, i, m, from) + r * each * size;
                memcpy(to, (const char *)row_of(f->a, f->t, i + r, f->lda) + from * size, (size_t)(n * size));
            }
    }
}

/* Columns j .. j + n, at most TX__VEC, of all rows. */
TX__INLINE void columns(tx_dtype t, const tx__few *f, const void *work, int64_t j, int64_t n)
{
    tx__vec sums[ROWS * TX__VEC], bias = { 0 };
    const void *b = row_of(f->b, t, j, f->ldb);
    const int64_t each = length_of(f);
    if (f->bias) bias = tx__load_n(f->bias, t, j, n);
    for (int64_t i = 0; i < f->m; i += ROWS) {
        int64_t m = f->m - i < ROWS ? f->m - i : ROWS;
        for (int64_t from = 0; from < f->k; from += each) {
            const void *a = f->m == 1 ? f->a : packed_at(t, f, work, i, m, from);
            const stretch k = { a, m, from, f->k - from < each ? f->k : from + each, each, from == 0 };
            int64_t x = 0;
            for (; !f->whole && x + NR <= n; x += NR)
                strip((tile_size){ MR, NR, NR }, t, f, k, row_of(b, t, x, f->ldb), sums + x);
            for (; x < n; x++) strip((tile_size){ MR, 1, 0 }, t, f, k, row_of(b, t, x, f->ldb), sums + x);
        }
        for (int64_t r = 0; r < m; r++) {
            tx__vec y = totals(sums + r * TX__VEC) + bias;
            tx__store_n((char *)f->c + (i + r) * f->ldc * (f->c_type == TX_F32 ? 4 : 2), f->c_type, j, n, y);
        }
    }
}

TX__INLINE void product(tx_dtype t, const tx__few *f, int64_t first, int64_t end, const void *work)
{
    for (int64_t j = first; j < end; j += TX__VEC) columns(t, f, work, j, end - j < TX__VEC ? end - j : TX__VEC);
}

void tx__k(few)(const tx__few *a, int64_t first, int64_t end, const void *work)
{
    tx__few f = *a;
    const int64_t bytes = f.k * (f.t == TX_F32 ? 4 : 2);
    f.whole = is_whole(a);
    f.ahead = NR;
    while (f.ahead < 4 * NR && f.ahead * bytes < AHEAD) f.ahead++;
    if (f.t == TX_F32)
        product(TX_F32, &f, first, end, work);
    else if (f.t == TX_BF16)
        product(TX_BF16, &f, first, end, work);
    else
        product(TX_F16, &f, first, end, work);
}
