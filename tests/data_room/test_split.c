/* labels: unit golden */
#include "data/split.h"
#include "support.h"

static void bounds_are_megatrons(void **state)
{
    (void)state;
    FILE *f = fopen(data_path("dataset/split_boundaries.txt"), "r");
    char text[64];
    long n, want[3];
    int cases = 0;
    assert_non_null(f);
    for (; fscanf(f, "%63s %ld %ld %ld %ld", text, &n, &want[0], &want[1], &want[2]) == 5; cases++) {
        int64_t bound[4];
        ASSERT_OK(tx_split_bounds(bound, text, n));
        assert_int_equal(bound[0], 0);
        for (int k = 0; k < 3; k++) assert_int_equal(bound[k + 1], want[k]);
    }
    fclose(f);
    assert_int_equal(cases, 32);
}

static void takes_what_python_takes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t n, bound[4];
    } cases[] = {
        { "969, 30, 1", 1000, { 0, 969, 999, 1000 } },
        { "969, 30, 1", 12345, { 0, 11963, 12333, 12345 } },
        { "949,50,1", 12345, { 0, 11716, 12333, 12345 } },
        { "949,50,1", 100, { 0, 95, 100, 100 } },
        { "1", 7, { 0, 7, 7, 7 } },
        { "1e0,1E0", 4, { 0, 2, 4, 4 } },
        { "1,0,0,9", 5, { 0, 5, 5, 5 } }, /* the fourth is dropped before the sum */
        { "0.5,0.5", 5, { 0, 3, 5, 5 } }, /* 2.5 to even is 2, then 2 + 2 is one short */
        { "0,1,1", 3, { 0, 0, 1, 3 } },   /* never below zero */
        { "949,50,1", 0, { 0, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bound[4];
        ASSERT_OK(tx_split_bounds(bound, cases[i].text, cases[i].n));
        for (int k = 0; k < 4; k++) assert_int_equal(bound[k], cases[i].bound[k]);
    }
}

static void refuses_nonsense(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      "a",       "949,50,",  "949,,1", "949;50;1", "-1,2,3", "nan,1,1",
                                       "inf,1", "0,0,0,5", "0x10,1,1", "1 2,3",  "1/2,3",    "1e999" };
    int64_t bound[4];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ASSERT_FAILS(tx_split_bounds(bound, bad[i], 10), TX_ERR_ARG, "--split");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_megatrons),
        cmocka_unit_test(takes_what_python_takes),
        cmocka_unit_test(refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
