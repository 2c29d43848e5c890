/* labels: unit */
/* Sums without rounding: any order and grouping, squares of every fp32 number, and what is not a number. */
#include "support.h"

#include <math.h>

#include "base/exact.h"
#include "base/rng.h"

static double value_of(double x, double y)
{
    tx_exact a = { .beyond = 0 };
    tx_exact_add(&a, x);
    tx_exact_add(&a, y);
    return tx_exact_value(&a);
}

static void one_number_is_itself(void **state)
{
    (void)state;
    const double numbers[] = { 0,    1,       3,       0.1,          1e-30, 1e30, ldexp(1, -298), ldexp(3, -297),
                               1.75, 0x1p265, 0x1p-31, 0x1.fffffp40, 12345, 7e-9 };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_true(value_of(numbers[i], 0) == numbers[i] && value_of(0, numbers[i]) == numbers[i]);
}

static void sums_are_rounded_once(void **state)
{
    (void)state;
    assert_true(value_of(1, 0x1p-53) == 1); /* half of the last bit: to even */
    assert_true(value_of(1 + 0x1p-52, 0x1p-53) == 1 + 0x1p-51);
    tx_exact a = { .beyond = 0 };
    tx_exact_add(&a, 1);
    for (int i = 0; i < 4; i++) tx_exact_add(&a, 0x1p-54); /* each by itself would vanish */
    assert_true(tx_exact_value(&a) == 1 + 0x1p-52);
    tx_exact_add(&a, 0x1p-53);
    tx_exact_add(&a, 0x1p-290); /* far below the half bit, and still above it */
    assert_true(tx_exact_value(&a) == 1 + 0x1p-51);
    assert_true(value_of(0x1p265, 0x1p-298) == 0x1p265);
}

static void no_order_shows(void **state)
{
    (void)state;
    enum { N = 4000 };
    static double x[N];
    const tx_rng rng = { .seed = 3 };
    tx_exact forward = { .beyond = 0 }, backward = { .beyond = 0 }, part[3] = { { .beyond = 0 } };
    long double sum = 0;
    for (int i = 0; i < N; i++) {
        float f =
            (float)ldexp(tx_rng_uniform(&rng, (uint64_t)i) - 0.5, (int)(40 * tx_rng_uniform(&rng, (uint64_t)(N + i))));
        x[i] = (double)f * (double)f;
        sum += (long double)x[i];
    }
    for (int i = 0; i < N; i++) {
        tx_exact_add(&forward, x[i]);
        tx_exact_add(&backward, x[N - 1 - i]);
        tx_exact_add(&part[i % 3], x[i]);
    }
    tx_exact_merge(&part[2], &part[0]);
    tx_exact_merge(&part[2], &part[1]);
    double value = tx_exact_value(&forward);
    assert_true(value == tx_exact_value(&backward) && value == tx_exact_value(&part[2]));
    assert_true(fabsl((long double)value / sum - 1) < 1e-15L);
}

static void what_is_not_a_number_stays(void **state)
{
    (void)state;
    assert_true(isinf(value_of(1, INFINITY)) && isnan(value_of(NAN, 1)) && isnan(value_of(INFINITY, NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_number_is_itself),
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(no_order_shows),
        cmocka_unit_test(what_is_not_a_number_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
