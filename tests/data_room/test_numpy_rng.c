/* labels: unit golden */
/* NumPy's own numbers: RandomState(seed) of NumPy 2.4, and MT19937's published check value. */
#include "data/numpy_rng.h"
#include "support.h"

static void shuffles_like_numpy(void **state)
{
    (void)state;
    static const int32_t want[10] = { 7, 2, 9, 1, 0, 8, 4, 5, 6, 3 };
    static const int32_t want_333[8] = { 304, 243, 65, 73, 327, 170, 138, 30 };
    tx_np_rng r;
    int32_t x[333];
    int64_t y[333];
    for (int i = 0; i < 10; i++) x[i] = i;
    tx_np_rng_seed(&r, 1234);
    tx_np_rng_shuffle_i32(&r, x, 10);
    assert_memory_equal(x, want, sizeof want);
    assert_float_equal(tx_np_rng_random(&r), 0.1506369656060953, 0); /* exactly */

    for (int i = 0; i < 333; i++) x[i] = i, y[i] = i;
    tx_np_rng_seed(&r, 7);
    tx_np_rng_shuffle_i32(&r, x, 333);
    assert_memory_equal(x, want_333, sizeof want_333);
    tx_np_rng_seed(&r, 7);
    tx_np_rng_shuffle_i64(&r, y, 333);
    for (int i = 0; i < 333; i++) assert_int_equal(x[i], y[i]);
}

/* Longer than what is drawn ahead, across changes of the mask: the plain definition, and as many draws. */
static void draws_ahead_without_a_trace(void **state)
{
    (void)state;
    static const int64_t n[] = { 0, 1, 2, 3, 127, 128, 129, 130, 257, 1000, 100000 };
    for (size_t k = 0; k < sizeof n / sizeof *n; k++) {
        tx_np_rng a, b;
        int32_t *x = calloc((size_t)n[k] + 1, sizeof *x), *y = calloc((size_t)n[k] + 1, sizeof *y);
        for (int64_t i = 0; i < n[k]; i++) x[i] = y[i] = (int32_t)i;
        tx_np_rng_seed(&a, (uint32_t)k);
        b = a;
        tx_np_rng_shuffle_i32(&a, x, n[k]);
        for (int64_t i = n[k] - 1; i > 0; i--) {
            uint64_t j = tx_np_rng_interval(&b, (uint64_t)i);
            int32_t t = y[i];
            y[i] = y[j];
            y[j] = t;
        }
        assert_memory_equal(x, y, (size_t)n[k] * sizeof *x);
        assert_int_equal(tx_np_rng_u32(&a), tx_np_rng_u32(&b));
        free(x);
        free(y);
    }
}

/* The 10000th word of MT19937 with the default seed, fixed by the C++ standard ([rand.predef]). */
static void is_mt19937(void **state)
{
    (void)state;
    tx_np_rng r;
    uint32_t last = 0;
    tx_np_rng_seed(&r, 5489);
    for (int i = 0; i < 10000; i++) last = tx_np_rng_u32(&r);
    assert_int_equal(last, 4123659995u);
}

static void intervals_draw_as_numpy_does(void **state)
{
    (void)state;
    tx_np_rng a, b;
    tx_np_rng_seed(&a, 99);
    b = a;
    assert_int_equal(tx_np_rng_interval(&a, 0), 0); /* no draw */
    assert_int_equal(tx_np_rng_randint(&a, 5, 6), 5);
    assert_memory_equal(&a, &b, sizeof a);

    uint64_t high = tx_np_rng_u32(&b), low = tx_np_rng_u32(&b); /* above 32 bits: two words, the high one first */
    assert_int_equal(tx_np_rng_interval(&a, UINT64_MAX), high << 32 | low);
    assert_int_equal(tx_np_rng_interval(&a, UINT32_MAX), tx_np_rng_u32(&b));

    int seen[3] = { 0 };
    for (int i = 0; i < 300; i++) {
        int64_t v = tx_np_rng_randint(&a, -1, 2);
        assert_in_range(v + 1, 0, 2);
        seen[v + 1]++;
    }
    for (int i = 0; i < 3; i++) assert_in_range(seen[i], 60, 140);
}

static void chooses_like_numpy(void **state)
{
    (void)state;
    static const int want[12] = { 1, 4, 1, 4, 2, 3, 4, 2, 1, 1, 0, 3 }; /* choice(5, p=...) */
    static const int64_t want_int[6] = { 715, 65, 431, 542, 980, 86 };  /* randint(0, 1002) */
    const double p[5] = { .1, .2, .3, .15, .25 };
    tx_np_rng r;
    tx_np_rng_seed(&r, 5);
    for (int i = 0; i < 12; i++) assert_int_equal(tx_np_rng_choice(&r, p, 5), want[i]);
    assert_float_equal(tx_np_rng_random(&r), 0.4413092228959531, 0); /* exactly */
    for (int i = 0; i < 6; i++) assert_int_equal(tx_np_rng_randint(&r, 0, 1002), want_int[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_like_numpy), cmocka_unit_test(draws_ahead_without_a_trace),
        cmocka_unit_test(is_mt19937),          cmocka_unit_test(intervals_draw_as_numpy_does),
        cmocka_unit_test(chooses_like_numpy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
