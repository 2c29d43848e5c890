/* test_clock.c - durations as people say them.  labels: unit */
#include "base/clock.h"

#include <math.h>

#include "support.h"

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = { { 0, "0 s" },
                  { -1, "0 s" },
                  { 0.4, "0 s" },
                  { 44.6, "45 s" },
                  { 59.4, "59 s" },
                  { 59.5, "1 min" },
                  { 89, "1 min" },
                  { 90, "2 min" },
                  { 12 * 60, "12 min" },
                  { 3569, "59 min" },
                  { 3570, "1 h 0 min" },
                  { 3600, "1 h 0 min" },
                  { 2 * 3600 + 2 * 60, "2 h 2 min" },
                  { 86369, "23 h 59 min" },
                  { 86370, "1 d 0 h" },
                  { 3 * 86400 + 4 * 3600, "3 d 4 h" },
                  { 3 * 86400 - 1799, "3 d 0 h" },
                  { 1e300, "99999 d 0 h" },
                  { INFINITY, "99999 d 0 h" },
                  { NAN, "99999 d 0 h" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_string_equal(tx_duration_text(text, cases[i].seconds), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_durations) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
