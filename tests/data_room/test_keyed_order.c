/* labels: unit */
#include "data/keyed_order.h"
#include "support.h"

static void is_a_permutation(void **state)
{
    (void)state;
    const int64_t n[] = { 1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4097 };
    for (size_t k = 0; k < sizeof n / sizeof *n; k++)
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            bool seen[4097] = { false };
            for (int64_t i = 0; i < n[k]; i++) {
                int64_t to = tx_keyed_order(1234, epoch, n[k], i);
                assert_in_range(to, 0, n[k] - 1);
                assert_false(seen[to]);
                seen[to] = true;
            }
        }
}

/* Seeds and epochs have orders of their own, and an order is not the plain one: expected agreements are 1 each. */
static void orders_differ(void **state)
{
    (void)state;
    int same_seed = 0, same_epoch = 0, fixed = 0;
    int64_t n = 100000, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t a = tx_keyed_order(1, 0, n, i);
        same_seed += a == tx_keyed_order(2, 0, n, i);
        same_epoch += a == tx_keyed_order(1, 1, n, i);
        fixed += a == i;
        if (i < 10000) sum += a;
    }
    assert_in_range(same_seed, 0, 8);
    assert_in_range(same_epoch, 0, 8);
    assert_in_range(fixed, 0, 8);
    assert_in_range(sum / 10000, 48500, 51500); /* the first tenth comes from everywhere: 5 standard deviations */
}

/* 10^12 samples, at once. */
static void reaches_far(void **state)
{
    (void)state;
    int64_t n = 1000000000000, upper = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t to = tx_keyed_order(7, 3, n, n - 1 - i);
        assert_true(to >= 0 && to < n);
        upper += to >= n / 2;
    }
    assert_in_range(upper, 420, 580);
    for (int64_t i = 0; i < 100; i++) {
        int64_t huge = INT64_C(1) << 62;
        assert_true(tx_keyed_order(7, 0, huge, huge - 1 - i) < huge);
    }
}

/* The order is part of the format: checkpoints go on in it. */
static void stays_as_it_is(void **state)
{
    (void)state;
    int64_t got[10];
    for (int64_t i = 0; i < 10; i++) got[i] = tx_keyed_order(1234, 0, 10, i);
    static const int64_t want[10] = { 0, 3, 4, 6, 1, 8, 5, 7, 2, 9 };
    assert_memory_equal(got, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_a_permutation),
        cmocka_unit_test(orders_differ),
        cmocka_unit_test(reaches_far),
        cmocka_unit_test(stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
