/* labels: unit */
/* A failure's sentence is one line that does nothing to a terminal, whatever a file or a flag puts into it. */
#include "support.h"

static void one_line(void **state)
{
    (void)state;
    assert_int_equal(TX_FAIL(TX_ERR_FORMAT, "%s: near '%s'", "a.json", "x\ny\x1b[2J\x7fz\t."), TX_ERR_FORMAT);
    assert_string_equal(tx_last_error(), "a.json: near 'x\\x0ay\\x1b[2J\\x7fz\\x09.'");
    assert_int_equal(tx_fail_prefix(TX_ERR_ARG, "line\r%d", 7), TX_ERR_ARG);
    assert_string_equal(tx_last_error(), "line\\x0d7: a.json: near 'x\\x0ay\\x1b[2J\\x7fz\\x09.'");
}

static void several_lines(void **state)
{
    (void)state;
    assert_int_equal(TX_FAIL_LINES(TX_ERR_SHAPE, "two:\n  %s", "\xc3\xa9"), TX_ERR_SHAPE);
    assert_string_equal(tx_last_error(), "two:\n  \xc3\xa9");
    tx_fail_prefix(TX_ERR_SHAPE, "before");
    assert_string_equal(tx_last_error(), "before: two:\n  \xc3\xa9");
}

/* What is text stays as it is, in any language; the rest is shown byte by byte. */
static void shows_what_is_no_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } c[] = {
        { "", "" },
        { "a \\ b", "a \\ b" },
        { "d\xc3\xa9j\xc3\xa0/\xe6\x97\xa5\xe6\x9c\xac/\xf0\x9f\x98\x80",
          "d\xc3\xa9j\xc3\xa0/\xe6\x97\xa5\xe6\x9c\xac/\xf0\x9f\x98\x80" },
        { "\xff\xfe", "\\xff\\xfe" },
        { "cut \xe6\x97", "cut \\xe6\\x97" },
        { "a\xc0\x80"
          "b",
          "a\\xc0\\x80"
          "b" },                               /* NUL in two bytes */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" }, /* half a pair */
        { "\xc2\x9b"
          "2J \xc2\xa0",
          "\\xc2\\x9b"
          "2J \xc2\xa0" } /* C1's control sequence; a space that does not break */
    };
    char out[64], again[64];
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        assert_string_equal(tx_printable(out, sizeof out, c[i].text), c[i].shown);
        assert_string_equal(tx_printable(again, sizeof again, out), c[i].shown);
        (void)TX_FAIL_LINES(TX_ERR_ARG, "1\n%s", c[i].text);
        assert_string_equal(tx_last_error() + 2, c[i].shown);
        tx_str s = { 0 };
        ASSERT_OK(tx_str_puts(&s, c[i].text));
        ASSERT_OK(tx_str_printable(&s));
        assert_string_equal(s.data, c[i].shown);
        assert_int_equal(s.len, strlen(c[i].shown));
        tx_str_free(&s);
    }
    assert_string_equal(tx_printable(out, 9, "abcd\xff\xff"), "abcd\\xff"); /* never half of one */
    assert_string_equal(tx_printable(out, 8, "abcd\xff\xff"), "abcd");
    assert_string_equal(tx_printable(out, 4, "ab\xc3\xa9"), "ab");
    assert_string_equal(tx_printable(out, 1, "ab"), "");
}

static void log_lines(void **state)
{
    (void)state;
    log_begin();
    tx_info("opening %s", "a\nb");
    log_end();
    assert_string_equal(logged, "\nopening a\\x0ab\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_line), cmocka_unit_test(several_lines),
                                        cmocka_unit_test(shows_what_is_no_text), cmocka_unit_test(log_lines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
