/* labels: unit */
/* The orthogonal matrix nearest to another, against the formula written out in fp64, on both backends. */
#include "support.h"

#include "base/rng.h"
#include "optim/orthogonal.h"

enum { MOST = 40 };
typedef double matrix[MOST][MOST];

/* c = a b, or with bᵀ. */
static void multiply(matrix c, matrix a, matrix b, bool transposed, const int n[3])
{
    for (int i = 0; i < n[0]; i++)
        for (int j = 0; j < n[1]; j++) {
            double sum = 0;
            for (int k = 0; k < n[2]; k++) sum += a[i][k] * (transposed ? b[j][k] : b[k][j]);
            c[i][j] = sum;
        }
}

/* The formula, with A of the rows. */
static void written_out(matrix x, int rows, int columns, enum tx_ns_coefficients kind, int steps)
{
    static matrix a, square, product;
    double norm = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) norm += x[i][j] * x[i][j];
    norm = fmax(sqrt(norm), TX_BLEND_LEAST);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) x[i][j] /= norm;
    for (int k = 0; k < steps; k++) {
        const double *by = tx_newton_schulz_coefficients(kind, k);
        multiply(a, x, x, true, (int[]){ rows, rows, columns });
        multiply(square, a, a, false, (int[]){ rows, rows, rows });
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < rows; j++) a[i][j] = by[1] * a[i][j] + by[2] * square[i][j];
        multiply(product, a, x, false, (int[]){ rows, columns, rows });
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++) x[i][j] = by[0] * x[i][j] + product[i][j];
    }
}

typedef struct ns_case {
    enum tx_ns_coefficients kind;
    int rows, columns, steps;
    tx_dtype type;
    double within;
} ns_case;

static tx_status run(float *m, const char *backend, const ns_case *k, bool of_columns, double scale)
{
    tx_ctx c;
    tx_newton_schulz n = { .coefficients = k->kind,
                           .steps = k->steps,
                           .type = k->type,
                           .most = k->rows * k->columns,
                           .side = of_columns ? k->columns : k->rows,
                           .ranks = 1 };
    const tx_orthogonal o = { .m = tx_tensor2(m, TX_F32, k->rows, k->columns),
                              .of_columns = of_columns,
                              .scale = scale };
    TX_TRY(tx_ctx_init(&c, backend, 1));
    tx_newton_schulz_plan(&n);
    tx_status st = tx_newton_schulz_run(&c, &n, &o);
    if (!st) st = tx_ctx_take_memory(&c);
    if (!st) st = tx_newton_schulz_take(&n, NULL);
    if (!st) st = tx_newton_schulz_run(&c, &n, &o);
    tx_newton_schulz_give(&n, NULL);
    tx_ctx_deinit(&c);
    return st;
}

static void check(const char *backend, const ns_case *k, bool of_columns)
{
    static matrix want;
    float m[MOST * MOST];
    const tx_rng rng = { .seed = 5 };
    for (int i = 0; i < k->rows * k->columns; i++) {
        m[i] = (float)tx_rng_uniform(&rng, (uint64_t)i) - 0.4F;
        want[i / k->columns][i % k->columns] = (double)m[i];
    }
    written_out(want, k->rows, k->columns, k->kind, k->steps);
    ASSERT_OK(run(m, backend, k, of_columns, 1.5));
    double off = 0;
    for (int i = 0; i < k->rows * k->columns; i++)
        off = fmax(off, fabs((double)m[i] / 1.5 - want[i / k->columns][i % k->columns]));
    ASSERT_NEAR(off, 0, k->within, tx_ns_coefficients_word(k->kind));
}

/* Every set of coefficients, both sides, more steps than there are sets. */
static void is_the_formula(void **state)
{
    (void)state;
#define CONSTANT(constant, ...) constant,
    static const enum tx_ns_coefficients kinds[] = { TX_NS_COEFFICIENTS(CONSTANT) };
    static const char *const backends[] = { "ref", "cpu" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int b = 0; b < 2; b++)
            for (int side = 0; side < 2; side++) {
                check(backends[b], &(ns_case){ kinds[i], 9, 33, 5, TX_F32, 1e-4 }, side);
                check(backends[b], &(ns_case){ kinds[i], 24, 7, 6, TX_F32, 1e-3 }, side);
                check(backends[b], &(ns_case){ kinds[i], 1, 17, 5, TX_F32, 5e-3 },
                      side); /* A of the columns is of rank 1 */
            }
    for (int b = 0; b < 2; b++)
        for (int side = 0; side < 2; side++) { /* long: in pairs; and not */
            check(backends[b], &(ns_case){ TX_NS_SIMPLE, side ? 40 : 16, side ? 16 : 40, 5, TX_BF16, 3e-2 }, side);
            check(backends[b], &(ns_case){ TX_NS_POLAR_EXPRESS, side ? 40 : 16, side ? 16 : 40, 5, TX_BF16, 3e-2 },
                  side);
            check(backends[b], &(ns_case){ TX_NS_SIMPLE, 24, 24, 5, TX_BF16, 5e-2 }, side);
        }
}

/* Rows of length 1 and at right angles, where the iteration converges. */
static void is_orthogonal(void **state)
{
    (void)state;
    enum { ROWS = 12, COLUMNS = 30 };
    float m[ROWS * COLUMNS];
    const tx_rng rng = { .seed = 6 };
    for (int i = 0; i < ROWS * COLUMNS; i++) m[i] = (float)tx_rng_uniform(&rng, (uint64_t)i) - 0.5F;
    ASSERT_OK(run(m, "cpu", &(ns_case){ TX_NS_DEEPSEEKV4, ROWS, COLUMNS, 14, TX_F32, 0 }, false, 1));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < ROWS; j++) {
            double sum = 0;
            for (int k = 0; k < COLUMNS; k++) sum += (double)m[i * COLUMNS + k] * (double)m[j * COLUMNS + k];
            ASSERT_NEAR(sum, i == j, 1e-5, "a product of rows");
        }
}

/* As of a layer that has had no gradient. */
static void zeros_stay_zeros(void **state)
{
    (void)state;
    float m[6 * 4] = { 0 };
    ASSERT_OK(run(m, "cpu", &(ns_case){ TX_NS_QUINTIC, 6, 4, 5, TX_F32, 0 }, true, 3));
    for (int i = 0; i < 24; i++) assert_true(m[i] == 0);
}

/* Pairs are of long matrices in bf16, and not where the first of two steps makes errors large. */
static void steps_in_pairs(void **state)
{
    (void)state;
    tx_newton_schulz n = { .coefficients = TX_NS_SIMPLE, .steps = 5, .type = TX_BF16 };
    assert_int_equal(tx_newton_schulz_sums(&n, 16, 64), 3);
    assert_int_equal(tx_newton_schulz_sums(&n, 16, 24), 3);
    assert_int_equal(tx_newton_schulz_sums(&n, 16, 23), 5);
    assert_int_equal(tx_newton_schulz_sums(&n, 64, 16), 5);
    n.coefficients = TX_NS_POLAR_EXPRESS; /* 1; 2 and 3; 4 and 5; 6 */
    n.steps = 6;
    assert_int_equal(tx_newton_schulz_sums(&n, 16, 64), 4);
    n.type = TX_F32;
    assert_int_equal(tx_newton_schulz_sums(&n, 16, 64), 6);
}

/* What comes after the last set. */
static void coefficients_go_on(void **state)
{
    (void)state;
    assert_true(tx_newton_schulz_coefficients(TX_NS_QUINTIC, 5) == tx_newton_schulz_coefficients(TX_NS_QUINTIC, 0));
    assert_true(tx_newton_schulz_coefficients(TX_NS_CANS, 4) == tx_newton_schulz_coefficients(TX_NS_CANS, 11));
    assert_true(tx_newton_schulz_coefficients(TX_NS_POLAR_EXPRESS, 7)[0] == 1.8750);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_formula),     cmocka_unit_test(is_orthogonal),  cmocka_unit_test(zeros_stay_zeros),
        cmocka_unit_test(coefficients_go_on), cmocka_unit_test(steps_in_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
