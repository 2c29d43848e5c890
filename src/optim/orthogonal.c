/* orthogonal.c - Newton-Schulz iterations, of ops. */
#include "optim/orthogonal.h"

#include "base/arena.h"

#define ROW(constant, word, after, ...) static const double constant##_set[][3] = { __VA_ARGS__ };
TX_NS_COEFFICIENTS(ROW)
#undef ROW

static const struct {
    const double (*set)[3];
    int n;
    tx_ns_after after;
} rows[] = {
#define ROW(constant, word, after, ...) \
    [constant] = { constant##_set, sizeof constant##_set / sizeof *constant##_set, after },
    TX_NS_COEFFICIENTS(ROW)
#undef ROW
};

const double *tx_newton_schulz_coefficients(enum tx_ns_coefficients kind, int i)
{
    int n = rows[kind].n;
    return rows[kind].set[i < n ? i : rows[kind].after == TX_NS_REPEATS_LAST ? n - 1 : i % n];
}

/* ---- memory ---- */

/* The next piece of what begins at base; aligned for every type. */
static void *cut(tx_newton_schulz *n, void *base, size_t bytes)
{
    void *at = (char *)base + n->bytes;
    n->bytes += (bytes + 63) / 64 * 64;
    return at;
}

static void point(tx_newton_schulz *n, void *base)
{
    size_t size = tx_dtype_size(n->type);
    n->bytes = 0;
    n->sums = cut(n, base, (size_t)tx_sumsq_blocks(n->most) * sizeof *n->sums);
    n->norm = cut(n, base, 3 * sizeof *n->norm);
    n->norms = cut(n, base, (size_t)n->ranks * sizeof *n->norms);
    n->squares = cut(n, base, (size_t)TX_EXACT_WORDS * sizeof *n->squares);
    for (int i = 0; i < 2; i++) n->x[i] = cut(n, base, (size_t)n->most * size);
    for (int i = 0; i < 2; i++) n->gram[i] = cut(n, base, (size_t)(n->side * n->side) * size);
}

void tx_newton_schulz_plan(tx_newton_schulz *n)
{
    point(n, TX_DRY_ADDRESS);
}

tx_status tx_newton_schulz_take(tx_newton_schulz *n, tx_device *d)
{
    TX_TRY(tx_device_take(d, &n->base, n->bytes, true, "the matrices of an update"));
    point(n, n->base);
    return TX_OK;
}

void tx_newton_schulz_give(tx_newton_schulz *n, tx_device *d)
{
    tx_device_give(d, n->base);
    n->base = NULL;
}

/* ---- the iteration ---- */

/* x = m / |m|, the norm of all parts. */
static tx_status normalise(tx_ctx *c, const tx_newton_schulz *n, const tx_orthogonal *o, tx_tensor x)
{
    static const tx_exact zero;
    tx_tensor sums = tx_tensor1(n->sums, TX_F64, tx_sumsq_blocks(tx_numel(o->m)));
    tx_tensor squares = tx_tensor1(n->squares, TX_I64, TX_EXACT_WORDS);
    tx_tensor norm = tx_tensor1(n->norm, TX_F64, 3), of = tx_slice1(norm, 0, 1);
    if (!c->dry) TX_TRY(tx_device_copy(c->device, TX_STREAM_COMPUTE, n->squares, &zero, sizeof zero));
    TX_RUN(c, sumsq, .out = sums, .x = o->m);
    TX_RUN(c, exact_add, .sum = squares, .x = sums);
    TX_RUN(c, clip, .out = norm, .sum = squares, .loss_scale = 1);
    if (o->parts) {
        tx_tensor all = tx_tensor1(n->norms, TX_F64, tx_comm_size(o->parts));
        TX_TRY(tx_all_gather(c, o->parts, all, of));
        of = all;
    }
    TX_RUN(c, blend, .y = x, .x = o->m, .norm = of, .alpha = 1);
    return TX_OK;
}

/* y = a x + (b A + c A²) x */
static tx_status iterate(tx_ctx *c, const tx_newton_schulz *n, const tx_orthogonal *o, tx_tensor y, tx_tensor x,
                         const double *by)
{
    int64_t side = o->m.dim[o->of_columns];
    tx_tensor gram = tx_tensor2(n->gram[0], n->type, side, side), square = tx_tensor2(n->gram[1], n->type, side, side);
    TX_RUN(c, gemm, .c = gram, .a = x, .b = x, .trans_a = o->of_columns, .trans_b = !o->of_columns, .symmetric = true);
    if (o->parts) TX_TRY(tx_all_reduce(c, o->parts, gram, TX_SUM));
    if (by[2] != 0) {
        TX_RUN(c, gemm, .c = square, .a = gram, .b = gram, .symmetric = true);
        TX_RUN(c, blend, .y = gram, .x = square, .z = gram, .alpha = by[2], .beta = by[1]);
    } else {
        TX_RUN(c, blend, .y = gram, .x = gram, .alpha = by[1]);
    }
    TX_RUN(c, blend, .y = y, .x = x, .alpha = by[0]);
    TX_RUN(c, gemm, .c = y, .a = o->of_columns ? x : gram, .b = o->of_columns ? gram : x, .accumulate = true);
    return TX_OK;
}

tx_status tx_newton_schulz_run(tx_ctx *c, const tx_newton_schulz *n, const tx_orthogonal *o)
{
    int64_t rows_here = o->m.dim[0], columns = o->m.dim[1];
    tx_tensor x = tx_tensor2(n->x[0], n->type, rows_here, columns), y = x;
    y.data = n->x[1];
    TX_ASSERT(rows_here * columns <= n->most && o->m.dim[o->of_columns] <= n->side);
    TX_TRY(normalise(c, n, o, x));
    for (int i = 0; i < n->steps; i++) {
        TX_TRY(iterate(c, n, o, y, x, tx_newton_schulz_coefficients(n->coefficients, i)));
        tx_tensor before = x;
        x = y;
        y = before;
    }
    TX_RUN(c, blend, .y = o->m, .x = x, .alpha = o->scale);
    return TX_OK;
}
