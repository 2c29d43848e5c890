/* labels: unit
 * Predictions that learn from measurements: the same layout, those of its kind, others. */
#include "predict/correction.h"

#include <math.h>

#include "support.h"

static const tx_layout_choice data = { .ranks = 4, .tp = 1, .pp = 1, .micro_batch = 1 };
static const tx_layout_choice tensor = { .ranks = 4, .tp = 4, .pp = 1, .micro_batch = 1 };
static const tx_layout_choice tensor_half = { .ranks = 4, .tp = 2, .pp = 1, .micro_batch = 1 };
static const tx_layout_choice gathers = { .ranks = 4, .tp = 1, .pp = 1, .micro_batch = 1, .zero = 3 };

static void nothing_is_known_at_first(void **state)
{
    (void)state;
    tx_correction c;
    double spread;
    tx_correction_start(&c);
    assert_true(tx_correction_of(&c, &tensor, &spread) == 1);
    assert_true(spread > 0.3);
}

/* What was measured is known afterwards, and all others are known better than before. */
static void all_are_off_alike(void **state)
{
    (void)state;
    tx_correction c;
    double before, spread;
    tx_correction_start(&c);
    (void)tx_correction_of(&c, &tensor, &before);
    tx_correction_learn(&c, &data, 1.3, 0);
    assert_true(fabs(tx_correction_of(&c, &data, &spread) - 1.3) < 0.01);
    assert_true(spread < 0.05);
    double other = tx_correction_of(&c, &tensor, &spread);
    assert_true(other > 1.15 && other < 1.35 && spread < before);
}

/* That tensor parallelism takes longer says so of half as much of it, and nothing of ZeRO 3. */
static void a_kind_is_off(void **state)
{
    (void)state;
    tx_correction c;
    double spread, first;
    tx_correction_start(&c);
    tx_correction_learn(&c, &data, 1, 0);
    first = tx_correction_of(&c, &gathers, &spread);
    tx_correction_learn(&c, &tensor, 1.5, 0);
    assert_true(fabs(tx_correction_of(&c, &tensor, &spread) - 1.5) < 0.03);
    double half = tx_correction_of(&c, &tensor_half, &spread);
    assert_true(half > 1.1 && half < 1.4);
    assert_true(fabs(tx_correction_of(&c, &data, &spread) - 1) < 0.02);
    assert_true(fabs(tx_correction_of(&c, &gathers, &spread) - first) < 0.03);
}

/* What is measured badly says less. */
static void noise_counts(void **state)
{
    (void)state;
    tx_correction c;
    double spread, other;
    tx_correction_start(&c);
    tx_correction_learn(&c, &data, 1.5, 0.5);
    other = tx_correction_of(&c, &data, &spread);
    assert_true(other > 1.1 && other < 1.35 && spread > 0.2);
}

/* The order of measurements does not matter. */
static void the_order_is_free(void **state)
{
    (void)state;
    tx_correction a, b;
    double spread;
    tx_correction_start(&a);
    tx_correction_start(&b);
    tx_correction_learn(&a, &data, 1.2, 0), tx_correction_learn(&a, &tensor, 0.9, 0),
        tx_correction_learn(&a, &gathers, 1.4, 0);
    tx_correction_learn(&b, &gathers, 1.4, 0), tx_correction_learn(&b, &data, 1.2, 0),
        tx_correction_learn(&b, &tensor, 0.9, 0);
    double x = tx_correction_of(&a, &tensor_half, &spread);
    assert_true(fabs(x / tx_correction_of(&b, &tensor_half, &spread) - 1) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_known_at_first),
                                        cmocka_unit_test(all_are_off_alike), cmocka_unit_test(a_kind_is_off),
                                        cmocka_unit_test(noise_counts), cmocka_unit_test(the_order_is_free) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
