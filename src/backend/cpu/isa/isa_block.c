/* isa_block.c - products of blocks that fit the second cache, for matrices that are each multiplied with few rows: what
 * is copied of such a matrix costs as much as a tenth of its product, so of b only a panel is, as it lies.
 *
 *  Every product is made of tiles  C += op(A) B:  numbers of A are broadcast, B's and C's lie in whole vectors.
 *
 *      by_rows     cᵀ = b aᵀ     panels of MR rows of b          A        aᵀ, transposed once a stretch   B
 *      by_columns  c  = a b      rows of a                       A        panels of WIDE columns of b     B
 *      of_columns  c += aᵀ b     panels of MR columns of a       A        panels of WIDE columns of b     B
 *
 *  Panels of columns are copied some at a time, a strip, because rows of b lie far apart.
 *
 *  Every number of c is one chain of multiply-adds along k, and does not depend on the block that it is computed in. */
#include "backend/cpu/isa/isa.h"
#include "backend/cpu/isa/vec.h"

enum { MR = TX__MR, WIDE = TX__NV * TX__VEC, STRIP = 64, K = TX__BLOCK_K, LINE = 64, STEP = 8 };

static inline int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* n in whole vectors */
static inline int64_t whole(int64_t n)
{
    return (n + TX__VEC - 1) / TX__VEC * TX__VEC;
}

TX__INLINE const void *row_of(const void *x, tx_dtype t, int64_t i, int64_t ld)
{
    return (const char *)x + i * ld * (t == TX_F32 ? 4 : 2);
}

/* ---- what is read of memory next ---- */

/* Lines of some rows, of which `each` are asked for beside every STEP multiply-adds of a tile: a burst would be waited
 * for. */
typedef struct ahead {
    const char *row;
    int64_t rows, stride, lines; /* stride in bytes */
    int64_t line, each;
} ahead;

/* STEPs of so many tiles over k. */
static inline int64_t steps_of(int64_t tiles, int64_t k)
{
    return tiles * ((k + STEP - 1) / STEP);
}

/* Rows of n numbers, ld apart. */
static ahead ahead_of(const void *x, tx_dtype t, int64_t ld, int64_t rows, int64_t n, int64_t steps)
{
    int64_t size = t == TX_F32 ? 4 : 2, lines = (n * size + LINE - 1) / LINE;
    return (ahead){ x, rows, ld * size, lines, 0, (rows * lines + steps - 1) / steps };
}

static inline void foresee(ahead *f)
{
    for (int64_t n = 0; n < f->each && f->rows > 0; n++) {
        __builtin_prefetch(f->row + f->line * LINE);
        if (++f->line < f->lines) continue;
        f->line = 0, f->row += f->stride, f->rows--;
    }
}

/* ---- tiles ---- */

/* op(A)[i,p] lies at a + i rs + p cs; rows of B lie WIDE apart, of C ldc. */
typedef struct operands {
    const float *a, *b;
    float *c;
    int64_t ldc, k;
    bool fresh; /* C is written, and not read */
    ahead *next;
} operands;

/* C[mr, nv vectors] (+)= op(A) B; mr, nv, rs and cs are constants where this is inlined. */
TX__INLINE void tile(int mr, int nv, const operands *o, int64_t rs, int64_t cs)
{
    tx__vec sum[MR][TX__NV];
    const float *a = o->a, *b = o->b;
    const int64_t k = o->k, ldb = WIDE;
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sum[i][j] = o->fresh ? (tx__vec){ 0 } : *(const tx__vec *)(o->c + i * o->ldc + j * TX__VEC);
    for (int64_t end, p = 0; p < k; p = end) {
        end = min(k, p + STEP);
        foresee(o->next);
        for (int64_t q = p; q < end; q++, a += cs, b += ldb) {
            const tx__vec *row = (const tx__vec *)b;
#pragma GCC unroll 8
            for (int i = 0; i < mr; i++) {
                const float x = a[i * rs];
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++) sum[i][j] += x * row[j];
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) *(tx__vec *)(o->c + i * o->ldc + j * TX__VEC) = sum[i][j];
}

/* n columns in whole vectors, at most WIDE. */
TX__INLINE void tile_of(int mr, int64_t n, const operands *o, int64_t rs, int64_t cs)
{
    if (TX__NV >= 4 && n > 3 * TX__VEC)
        tile(mr, 4, o, rs, cs);
    else if (TX__NV >= 3 && n > 2 * TX__VEC)
        tile(mr, 3, o, rs, cs);
    else if (n > TX__VEC)
        tile(mr, 2, o, rs, cs);
    else
        tile(mr, 1, o, rs, cs);
}

/* m rows, at most MR: A's numbers of a row lie side by side, K a row, or those of a column, MR a column. */
TX__INLINE void rows_of_tiles(int64_t m, int64_t n, operands o, int64_t rs, int64_t cs)
{
    if (m == MR) {
        tile_of(MR, n, &o, rs, cs);
        return;
    }
    for (int64_t mr; m > 0; m -= mr, o.a += mr * rs, o.c += mr * o.ldc) {
        mr = m >= TX__MR_REST ? TX__MR_REST : 1;
        if (mr == TX__MR_REST)
            tile_of(TX__MR_REST, n, &o, rs, cs);
        else
            tile_of(1, n, &o, rs, cs);
    }
}

static void tiles_of_rows(int64_t m, int64_t n, operands o)
{
    rows_of_tiles(m, n, o, K, 1);
}

static void tiles_of_columns(int64_t m, int64_t n, operands o)
{
    rows_of_tiles(m, n, o, 1, MR);
}

/* ---- copies ---- */

/* y[n] = x[n] in fp32 */
TX__INLINE void widen(float *y, const void *x, tx_dtype t, int64_t n)
{
    for (int64_t i = 0; i < n; i += TX__VEC)
        if (n - i >= TX__VEC)
            *(tx__vec *)(y + i) = tx__load(x, t, i);
        else
            for (tx__vec last = tx__load_n(x, t, i, n - i); i < n; i++) y[i] = last[i % TX__VEC];
}

/* [rows, K] of rows of n, at most K, numbers. */
TX__INLINE void copy_rows(float *y, const void *x, tx_dtype t, int64_t ld, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows; i++) widen(y + i * K, row_of(x, t, i, ld), t, n);
}

/* Panels [K, WIDE] of n columns, at most STRIP; what fills a vector up is 0. */
TX__INLINE void copy_strip(float *y, const void *x, tx_dtype t, int64_t ld, int64_t rows, int64_t n)
{
    for (int64_t p = 0; p < rows; p++)
        for (int64_t j = 0; j < n; j += TX__VEC)
            *(tx__vec *)(y + j / WIDE * WIDE * K + p * WIDE + j % WIDE) = tx__load_n(row_of(x, t, p, ld), t, j, n - j);
}

/* Panels [K, WIDE] of xᵀ: of m rows of n numbers, those that fill a vector up are 0. */
TX__INLINE void copy_across(float *y, const void *x, tx_dtype t, int64_t ld, int64_t m, int64_t n)
{
    for (int64_t i = 0; i < m; i += TX__VEC) {
        float *panel = y + i / WIDE * WIDE * K + i % WIDE;
        for (int64_t p = 0; p < n; p += TX__VEC) {
            tx__vec square[TX__VEC];
#pragma GCC unroll 16
            for (int r = 0; r < TX__VEC; r++)
                square[r] = i + r < m ? tx__load_n(row_of(x, t, i + r, ld), t, p, n - p) : (tx__vec){ 0 };
            tx__transpose(square);
#pragma GCC unroll 16
            for (int r = 0; r < TX__VEC; r++) /* behind n they are 0, in room that is there: K is whole vectors */
                *(tx__vec *)(panel + (p + r) * WIDE) = square[r];
        }
    }
}

/* Panels [rows, MR] of n columns; rooms behind them are not read. */
TX__INLINE void copy_columns(float *y, const void *x, tx_dtype t, int64_t ld, int64_t rows, int64_t n)
{
    float line[WIDE * MR] = { 0 };
    for (int64_t p = 0; p < rows; p++)
        for (int64_t j = 0; j < n; j += WIDE * MR) {
            int64_t some = min(n - j, WIDE * MR);
            widen(line, row_of(row_of(x, t, p, ld), t, 1, j), t, some);
            for (int64_t i = 0; i < some; i += MR) /* a constant many: what is behind n is not read */
                memcpy(y + (j + i) * K + p * MR, line + i, MR * sizeof *line);
        }
}

/* ---- results ---- */

TX__INLINE void *number_of(const tx__tile_block *k, int64_t i, int64_t j)
{
    return (char *)k->c + (i * k->ldc + j) * (k->c_type == TX_F32 ? 4 : 2);
}

/* c = sums + bias, rows of sums ld apart */
static void store(const tx__tile_block *k, const float *sums, int64_t ld)
{
    for (int64_t i = 0; i < k->m; i++)
        for (int64_t j = 0; j < k->n; j += TX__VEC) {
            tx__vec y = *(const tx__vec *)(sums + i * ld + j);
            if (k->bias) y += tx__load_n(k->bias, k->t, j, k->n - j);
            tx__store_n(number_of(k, i, j), k->c_type, 0, k->n - j, y);
        }
}

/* c = sumsᵀ + bias */
static void store_across(const tx__tile_block *k, const float *sums, int64_t ld)
{
    for (int64_t j = 0; j < k->n; j += TX__VEC)
        for (int64_t i = 0; i < k->m; i += TX__VEC) {
            tx__vec square[TX__VEC], bias = { 0 };
            if (k->bias) bias = tx__load_n(k->bias, k->t, j, k->n - j);
#pragma GCC unroll 16
            for (int r = 0; r < TX__VEC; r++) square[r] = *(const tx__vec *)(sums + (j + r) * ld + i);
            tx__transpose(square);
            for (int r = 0; r < TX__VEC && i + r < k->m; r++)
                tx__store_n(number_of(k, i + r, j), k->c_type, 0, k->n - j, square[r] + bias);
        }
}

/* ---- the products ---- */

TX__INLINE void by_rows(tx_dtype t, const tx__tile_block *k, float *work)
{
    const int64_t ld = whole(k->m), tiles = (ld + WIDE - 1) / WIDE;
    float *across = work, *panel = across + tiles * WIDE * K, *sums = panel + MR * K;
    for (int64_t p = 0; p < k->k; p += K) {
        const int64_t some = min(k->k - p, K);
        const void *b = row_of(k->b, t, p, 1);
        copy_across(across, row_of(k->a, t, p, 1), t, k->lda, k->m, some);
        for (int64_t j = 0, n; j < k->n; j += n) {
            n = min(k->n - j, MR);
            ahead next =
                ahead_of(row_of(b, t, j + n, k->ldb), t, k->ldb, min(k->n - j - n, MR), some, steps_of(tiles, some));
            copy_rows(panel, row_of(b, t, j, k->ldb), t, k->ldb, n, some);
            for (int64_t i = 0; i < ld; i += WIDE) {
                tiles_of_rows(n, ld - i,
                              (operands){ .a = panel,
                                          .b = across + i * K,
                                          .c = sums + j * ld + i,
                                          .ldc = ld,
                                          .k = some,
                                          .fresh = p == 0,
                                          .next = &next });
            }
        }
    }
    store_across(k, sums, ld);
}

TX__INLINE void by_columns(tx_dtype t, const tx__tile_block *k, float *work)
{
    const int64_t ld = whole(k->n), tiles = (k->m + MR - 1) / MR * (STRIP / WIDE);
    float *rows = work, *strip = rows + k->m * K, *sums = strip + K * STRIP;
    for (int64_t p = 0; p < k->k; p += K) {
        const int64_t some = min(k->k - p, K);
        const void *b = row_of(k->b, t, p, k->ldb);
        copy_rows(rows, row_of(k->a, t, p, 1), t, k->lda, k->m, some);
        for (int64_t j = 0; j < k->n; j += STRIP) {
            const int64_t n = min(k->n - j, STRIP), behind = min(k->n - j - n, STRIP);
            ahead next = ahead_of(row_of(b, t, j + n, 1), t, k->ldb, behind ? some : 0, behind, steps_of(tiles, some));
            copy_strip(strip, row_of(b, t, j, 1), t, k->ldb, some, n);
            for (int64_t x = 0; x < n; x += WIDE)
                for (int64_t i = 0; i < k->m; i += MR) {
                    tiles_of_rows(min(k->m - i, MR), n - x,
                                  (operands){ .a = rows + i * K,
                                              .b = strip + x * K,
                                              .c = sums + i * ld + j + x,
                                              .ldc = ld,
                                              .k = some,
                                              .fresh = p == 0,
                                              .next = &next });
                }
        }
    }
    store(k, sums, ld);
}

/* A tile of c whose columns end within a vector goes by way of `edge`. */
static void edge_tile(int64_t m, int64_t n, operands o)
{
    float edge[MR * WIDE], *c = o.c;
    const int64_t ldc = o.ldc;
    for (int64_t i = 0; i < m && !o.fresh; i++)
        for (int64_t j = 0; j < whole(n); j++) edge[i * WIDE + j] = j < n ? c[i * ldc + j] : 0;
    o.c = edge, o.ldc = WIDE;
    tiles_of_columns(m, n, o);
    for (int64_t i = 0; i < m; i++) memcpy(c + i * ldc, edge + i * WIDE, (size_t)n * sizeof *c);
}

TX__INLINE void of_columns(tx_dtype t, const tx__tile_block *k, float *work)
{
    float *columns = work, *strip = columns + (k->m + MR - 1) / MR * MR * K;
    for (int64_t p = 0; p < k->k; p += K) {
        const int64_t some = min(k->k - p, K);
        copy_columns(columns, row_of(k->a, t, p, k->lda), t, k->lda, some, k->m);
        for (int64_t j = 0; j < k->n; j += STRIP) {
            const int64_t wide = min(k->n - j, STRIP);
            copy_strip(strip, row_of(row_of(k->b, t, p, k->ldb), t, 1, j), t, k->ldb, some, wide);
            for (int64_t i = 0; i < k->m; i += MR) {
                const int64_t m = min(k->m - i, MR);
                ahead next = ahead_of(number_of(k, i + m, j), TX_F32, k->ldc, min(k->m - i - m, MR), wide,
                                      steps_of((wide + WIDE - 1) / WIDE, some));
                for (int64_t x = 0; x < wide; x += WIDE) {
                    const int64_t n = min(wide - x, WIDE);
                    const operands o = { .a = columns + i * K,
                                         .b = strip + x * K,
                                         .c = number_of(k, i, j + x),
                                         .ldc = k->ldc,
                                         .k = some,
                                         .fresh = p == 0 && !k->accumulate,
                                         .next = &next };
                    if (n % TX__VEC)
                        edge_tile(m, n, o);
                    else
                        tiles_of_columns(m, n, o);
                }
            }
        }
    }
}

#define OF_EACH_TYPE(name)                                         \
    void tx__k(block_##name)(const tx__tile_block *a, float *work) \
    {                                                              \
        if (a->t == TX_F32)                                        \
            name(TX_F32, a, work);                                 \
        else if (a->t == TX_BF16)                                  \
            name(TX_BF16, a, work);                                \
        else                                                       \
            name(TX_F16, a, work);                                 \
    }
OF_EACH_TYPE(by_rows)
OF_EACH_TYPE(by_columns)
OF_EACH_TYPE(of_columns)
