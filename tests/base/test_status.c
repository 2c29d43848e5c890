/* labels: unit */
/* A failure's sentence is one line that does nothing to a terminal, whatever a file or a flag puts into it. */
#include "support.h"

static void one_line(void **state)
{
    (void)state;
    assert_int_equal(TX_FAIL(TX_ERR_FORMAT, "%s: near '%s'", "a.json", "x\ny\x1b[2J\x7fz\t."), TX_ERR_FORMAT);
    assert_string_equal(tx_last_error(), "a.json: near 'x?y?[2J?z?.'");
    assert_int_equal(tx_fail_prefix(TX_ERR_ARG, "line\r%d", 7), TX_ERR_ARG);
    assert_string_equal(tx_last_error(), "line?7: a.json: near 'x?y?[2J?z?.'");
}

static void several_lines(void **state)
{
    (void)state;
    assert_int_equal(TX_FAIL_LINES(TX_ERR_SHAPE, "two:\n  %s", "\xc3\xa9"), TX_ERR_SHAPE);
    assert_string_equal(tx_last_error(), "two:\n  \xc3\xa9");
    tx_fail_prefix(TX_ERR_SHAPE, "before");
    assert_string_equal(tx_last_error(), "before: two:\n  \xc3\xa9");
}

static void log_lines(void **state)
{
    (void)state;
    log_begin();
    tx_info("opening %s", "a\nb");
    log_end();
    assert_string_equal(logged, "\nopening a?b\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_line), cmocka_unit_test(several_lines),
                                        cmocka_unit_test(log_lines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
