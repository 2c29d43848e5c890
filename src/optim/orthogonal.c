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
    for (int i = 0; i < TX_NS_GRAMS; i++) n->gram[i] = cut(n, base, (size_t)(n->side * n->side) * size);
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

/* ---- in pairs ----
 *
 *  A step multiplies X by Q = a + b A + c A². So the next one's A is Q A Q, and both together are Q' Q X: of a long X
 * it is less work to multiply these matrices of its shorter side, which commute and so are symmetric, than X twice.
 * What bf16 leaves out of A, 2^-9 of it, the next A has a² times, since Q is about a where singular values are small:
 * in pairs whose first a² is at most this, results are as near to the formula's as with A made anew in each step
 * (simple, quintic and polar_express of matrices with 96 to 384 rows), while without an end it becomes all there is. */
static const double MOST_GROWTH = 50;

static bool is_pair(const tx_newton_schulz *n, bool is_long, int i)
{
    double a = tx_newton_schulz_coefficients(n->coefficients, i)[0];
    return is_long && n->type == TX_BF16 && i + 1 < n->steps && a * a <= MOST_GROWTH;
}

/* From 3 to 2 on a pair is less work. */
static bool is_long(int64_t side, int64_t other)
{
    return 2 * other >= 3 * side;
}

int tx_newton_schulz_sums(const tx_newton_schulz *n, int64_t side, int64_t other)
{
    int sums = 0;
    for (int i = 0; i < n->steps; i += 1 + is_pair(n, is_long(side, other), i)) sums++;
    return sums;
}

/* q = a + b A + c A² */
static tx_status polynomial(tx_ctx *c, tx_tensor q, tx_tensor gram, const double *by)
{
    if (by[2] != 0) TX_RUN(c, gemm, .c = q, .a = gram, .b = gram, .symmetric = true);
    if (by[2] != 0)
        TX_RUN(c, blend, .y = q, .x = q, .z = gram, .alpha = by[2], .beta = by[1], .diagonal = by[0]);
    else
        TX_RUN(c, blend, .y = q, .x = gram, .alpha = by[1], .diagonal = by[0]);
    return TX_OK;
}

/* What X is multiplied by in step i and, of a pair, in the next one.   *q: one of the three   @gram [3]; [0] is A */
static tx_status factor(tx_ctx *c, const tx_newton_schulz *n, const tx_tensor *gram, int i, bool pair, tx_tensor *q)
{
    TX_TRY(polynomial(c, gram[1], gram[0], tx_newton_schulz_coefficients(n->coefficients, i)));
    *q = gram[1];
    if (!pair) return TX_OK;
    TX_RUN(c, gemm, .c = gram[2], .a = gram[1], .b = gram[0], .symmetric = true);
    TX_RUN(c, gemm, .c = gram[0], .a = gram[2], .b = gram[1], .symmetric = true);
    TX_TRY(polynomial(c, gram[2], gram[0], tx_newton_schulz_coefficients(n->coefficients, i + 1)));
    TX_RUN(c, gemm, .c = gram[0], .a = gram[2], .b = gram[1], .symmetric = true);
    *q = gram[0];
    return TX_OK;
}

/* Step i, or with the next one a pair: y = q x. */
static tx_status iterate(tx_ctx *c, const tx_newton_schulz *n, const tx_orthogonal *o, const tx_tensor yx[2], int i,
                         bool pair)
{
    int64_t side = o->m.dim[o->of_columns];
    tx_tensor gram[TX_NS_GRAMS], q, x = yx[1];
    for (int k = 0; k < TX_NS_GRAMS; k++) gram[k] = tx_tensor2(n->gram[k], n->type, side, side);
    TX_RUN(c, gemm, .c = gram[0], .a = x, .b = x, .trans_a = o->of_columns, .trans_b = !o->of_columns,
           .symmetric = true);
    if (o->parts) TX_TRY(tx_all_reduce(c, o->parts, gram[0], TX_SUM));
    TX_TRY(factor(c, n, gram, i, pair, &q));
    TX_RUN(c, gemm, .c = yx[0], .a = o->of_columns ? x : q, .b = o->of_columns ? q : x);
    return TX_OK;
}

tx_status tx_newton_schulz_run(tx_ctx *c, const tx_newton_schulz *n, const tx_orthogonal *o)
{
    int64_t rows_here = o->m.dim[0], columns = o->m.dim[1], side = o->m.dim[o->of_columns];
    int64_t other = o->m.dim[!o->of_columns] * (o->parts ? tx_comm_size(o->parts) : 1);
    tx_tensor x = tx_tensor2(n->x[0], n->type, rows_here, columns), y = x;
    y.data = n->x[1];
    TX_ASSERT(rows_here * columns <= n->most && side <= n->side);
    TX_TRY(normalise(c, n, o, x));
    for (int i = 0; i < n->steps; i++) {
        bool pair = is_pair(n, is_long(side, other), i);
        TX_TRY(iterate(c, n, o, (tx_tensor[]){ y, x }, i, pair));
        tx_tensor before = x;
        x = y;
        y = before;
        i += pair;
    }
    TX_RUN(c, blend, .y = o->m, .x = x, .alpha = o->scale);
    return TX_OK;
}
