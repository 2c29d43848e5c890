/* cpu_grouped.c - products of packed rows with each group's matrix, in blocks that threads take one after the other:
 * of one group some of its rows and some of its columns (isa_block.c). So groups may be as uneven as they are.
 *
 *  Where oneDNN has instructions for the type that our loops lack, and where these have no wide vectors, it is one
 * product of oneDNN's after another. How many rows a group has is known when the op runs, and what a product needs of
 * scratch memory depends on it: a group's rows are cut into pieces of few sizes, 2^i and 3 2^i, and a dry run counts
 * each of them. */
#include <omp.h>
#include <string.h>

#include "backend/cpu/cpu.h"

static bool by_products(const tx_ctx *c, tx_dtype t)
{
    return tx__cpu_k(c) == &tx__cpu_kernels_generic || (t != TX_F32 && tx__cpu_gemm_is_own(t));
}

/* ---- blocks ---- */

/* A product of all groups: rows x columns of c, or of_columns: of each c. */
typedef struct grouped {
    const int32_t *count;
    int64_t groups, columns, most; /* most: columns of a block, beside its rows; 0: as many as there is room for */
} grouped;

/* A group's rows first .. first + rows, of all, and of its columns those from `column` on. */
typedef struct part {
    int64_t group, first, rows, column, columns;
} part;

/* n cut into equal parts of at most `most`, at multiples of `unit`. */
static int64_t even(int64_t n, int64_t most, int64_t unit)
{
    int64_t parts = (n + most - 1) / most, each = (n + parts - 1) / parts;
    return (each + unit - 1) / unit * unit;
}

static part block_of(const grouped *g, int64_t rows)
{
    enum { UNIT = 3 * TX__LANES }; /* of vectors of all widths, and of tiles of 6 rows */
    int64_t m = g->most ? rows : even(rows, TX__BLOCK_M, 1);
    int64_t most = g->most ? g->most : TX__BLOCK_SIZE / tx__lanes(m) / UNIT * UNIT;
    return (part){ .rows = m, .columns = even(g->columns, most, UNIT) };
}

static int64_t blocks_in(const grouped *g, int64_t rows)
{
    if (!rows && !g->most) return 0;
    const part b = block_of(g, rows);
    return (g->most ? 1 : (rows + b.rows - 1) / b.rows) * ((g->columns + b.columns - 1) / b.columns);
}

static int64_t n_blocks(const grouped *g)
{
    int64_t n = 0;
    for (int64_t e = 0; e < g->groups; e++) n += blocks_in(g, g->count[e]);
    return n;
}

/* Block number i of all: blocks of a group that read the same part of its matrix follow one another. */
static part nth_block(const grouped *g, int64_t i)
{
    int64_t e = 0, first = 0;
    for (int64_t n; (n = blocks_in(g, g->count[e])) <= i; e++) i -= n, first += g->count[e];
    part b = block_of(g, g->count[e]);
    int64_t down = g->most ? 1 : (g->count[e] + b.rows - 1) / b.rows, row = i % down * b.rows;
    b.group = e, b.first = first + row, b.column = i / down * b.columns;
    b.rows = tx__cpu_min(b.rows, g->count[e] - row);
    b.columns = tx__cpu_min(b.columns, g->columns - b.column);
    return b;
}

static void *at(tx_tensor x, int64_t i, int64_t j)
{
    return (char *)x.data + (size_t)(i * x.stride[0] + j) * tx_dtype_size(x.dtype);
}

static void gemm_block(const tx_ctx *c, const void *args, const part *p, float *work)
{
    const tx_grouped_gemm_args *a = args;
    const tx_tensor b = *tx_nth_tensor(a->b, p->group);
    const tx__tile_block k = { .t = a->a.dtype,
                               .c_type = a->c.dtype,
                               .a = at(a->a, p->first, 0),
                               .b = a->trans_b ? at(b, p->column, 0) : at(b, 0, p->column),
                               .bias = a->bias.first ? tx__cpu_at(*tx_nth_tensor(a->bias, p->group), p->column) : NULL,
                               .c = at(a->c, p->first, p->column),
                               .m = p->rows,
                               .n = p->columns,
                               .k = a->a.dim[1],
                               .lda = a->a.stride[0],
                               .ldb = b.stride[0],
                               .ldc = a->c.stride[0] };
    if (a->trans_b)
        tx__cpu_k(c)->block_by_rows(&k, work);
    else
        tx__cpu_k(c)->block_by_columns(&k, work);
}

/* Rows p->column on of a group's dw; without rows of the batch they are 0, or stay as they are. */
static void dw_block(const tx_ctx *c, const void *args, const part *p, float *work)
{
    const tx_grouped_dw_args *a = args;
    const tx_tensor dw = *tx_nth_tensor(a->dw, p->group), dy = a->dy, x = a->x;
    const tx__tile_block k = { .t = dy.dtype,
                               .c_type = TX_F32,
                               .a = at(dy, p->first, p->column),
                               .b = at(x, p->first, 0),
                               .c = at(dw, p->column, 0),
                               .m = p->columns,
                               .n = x.dim[1],
                               .k = p->rows,
                               .lda = dy.stride[0],
                               .ldb = x.stride[0],
                               .ldc = dw.stride[0],
                               .accumulate = a->accumulate };
    for (int64_t i = 0; i < p->columns && !p->rows && !a->accumulate; i++)
        memset(at(dw, p->column + i, 0), 0, (size_t)x.dim[1] * sizeof(float));
    if (!p->rows) return;
    tx__cpu_k(c)->block_of_columns(&k, work);
    if (a->dbias.first)
        tx__cpu_k(c)->col_sum((float *)tx_nth_tensor(a->dbias, p->group)->data + p->column, k.a, k.t, k.k, k.m, k.lda);
}

typedef void block_fn(const tx_ctx *c, const void *args, const part *p, float *work);

/* @each numbers that a block touches, about */
static void run_blocks(const tx_ctx *c, const grouped *g, int64_t each, block_fn *fn, const void *args, float *work)
{
    int64_t n = n_blocks(g);
    int parts = tx__cpu_parts(c, n, each);
#pragma omp parallel for schedule(dynamic) num_threads(parts)
    for (int64_t i = 0; i < n; i++) {
        const part p = nth_block(g, i);
        fn(c, args, &p, work + (int64_t)omp_get_thread_num() * TX__BLOCK_WORK);
    }
}

/* ---- one product after another ---- */

enum { MOST_ROWS = 1024 }; /* of a piece */

/* The first piece of n rows. */
static int64_t piece_of(int64_t n)
{
    int64_t size = 1;
    while (2 * size <= n && size < MOST_ROWS) size *= 2;
    return size > 1 && size < MOST_ROWS && size / 2 * 3 <= n ? size / 2 * 3 : size;
}

/* Rows of a group, perhaps behind others of it. */
typedef tx_status piece_fn(tx_ctx *c, const void *args, const part *p, bool behind);

/* Counts the scratch memory of all pieces that there may be. */
static tx_status count_pieces(tx_ctx *c, piece_fn *fn, const void *args)
{
    struct tx_trace *trace = c->trace;
    tx_status st = TX_OK;
    c->trace = NULL;
    for (int64_t n = MOST_ROWS; n > 0 && !st; n = n > 1 ? piece_of(n - 1) : 0) {
        st = fn(c, args, &(part){ .rows = n }, false);
        if (!st) st = fn(c, args, &(part){ .rows = n }, true);
    }
    c->trace = trace;
    return st;
}

static tx_status run_pieces(tx_ctx *c, tx_tensor count, piece_fn *fn, const void *args)
{
    const int32_t *has = count.data;
    if (c->dry) return count_pieces(c, fn, args);
    for (int64_t e = 0, first = 0; e < count.dim[0]; first += has[e], e++)
        for (int64_t at = 0, n; at < has[e]; at += n) {
            n = piece_of(has[e] - at);
            TX_TRY(fn(c, args, &(part){ .group = e, .first = first + at, .rows = n }, at > 0));
        }
    return TX_OK;
}

/* Rows of a piece, which a dry run counts whether they are there or not. */
static tx_tensor rows_of(tx_tensor x, const part *p)
{
    x.data = at(x, p->first, 0);
    x.dim[0] = p->rows;
    return x;
}

static tx_status gemm_piece(tx_ctx *c, const void *args, const part *p, bool behind)
{
    const tx_grouped_gemm_args *a = args;
    (void)behind;
    TX_RUN(c, gemm, .c = rows_of(a->c, p), .a = rows_of(a->a, p), .b = *tx_nth_tensor(a->b, p->group),
           .trans_b = a->trans_b, .bias = a->bias.first ? *tx_nth_tensor(a->bias, p->group) : (tx_tensor){ 0 });
    return TX_OK;
}

/* The pieces behind add to what the first one has written. */
static tx_status dw_piece(tx_ctx *c, const void *args, const part *p, bool behind)
{
    const tx_grouped_dw_args *a = args;
    tx_tensor dy = rows_of(a->dy, p);
    TX_RUN(c, gemm, .c = *tx_nth_tensor(a->dw, p->group), .a = dy, .b = rows_of(a->x, p), .trans_a = true,
           .accumulate = behind || a->accumulate);
    if (a->dbias.first) TX_RUN(c, col_sum, .y = *tx_nth_tensor(a->dbias, p->group), .x = dy);
    return TX_OK;
}

static tx_status dw_pieces(tx_ctx *c, const tx_grouped_dw_args *a)
{
    TX_TRY(run_pieces(c, a->count, dw_piece, a));
    for (int64_t e = 0; e < a->count.dim[0] && !a->accumulate && !c->dry; e++)
        if (!((const int32_t *)a->count.data)[e]) TX_RUN(c, fill, .x = *tx_nth_tensor(a->dw, e));
    return TX_OK;
}

/* ---- the ops ---- */

static size_t work_of(const tx_ctx *c, tx_dtype t)
{
    return by_products(c, t) ? 0 : (size_t)c->n_threads * TX__BLOCK_WORK * sizeof(float);
}

size_t tx__cpu_grouped_gemm_scratch(const tx_ctx *c, const tx_grouped_gemm_args *a)
{
    return work_of(c, a->a.dtype);
}

size_t tx__cpu_grouped_dw_scratch(const tx_ctx *c, const tx_grouped_dw_args *a)
{
    return work_of(c, a->dy.dtype);
}

tx_status tx__cpu_grouped_gemm(tx_ctx *c, const tx_grouped_gemm_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("grouped_gemm", a->a));
    if (!c->dry) TX_TRY(tx__check_groups("grouped_gemm", a->count, a->a.dim[0]));
    if (by_products(c, a->a.dtype)) return run_pieces(c, a->count, gemm_piece, a);
    const grouped g = { a->count.data, a->count.dim[0], a->c.dim[1], 0 };
    if (!c->dry) run_blocks(c, &g, a->a.dim[1] * a->c.dim[1], gemm_block, a, scratch);
    return TX_OK;
}

tx_status tx__cpu_grouped_dw(tx_ctx *c, const tx_grouped_dw_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("grouped_dw", a->dy));
    if (!c->dry) TX_TRY(tx__check_groups("grouped_dw", a->count, a->dy.dim[0]));
    if (by_products(c, a->dy.dtype)) return dw_pieces(c, a);
    const grouped g = { a->count.data, a->count.dim[0], a->dy.dim[1], TX__BLOCK_M };
    if (!c->dry) run_blocks(c, &g, a->dy.dim[1] * a->x.dim[1], dw_block, a, scratch);
    return TX_OK;
}
