/* labels: unit */
/* WikiText's and Penn Treebank's rules on texts whose results Python's re and str made; white space as Python has it.
 */
#include "support.h"

#include "eval/detokenizer.h"

static void becomes(enum tx_detokenizer_choice which, const char *from, const char *to)
{
    tx_str text = { 0 };
    ASSERT_OK(tx_str_puts(&text, from));
    ASSERT_OK(tx_detokenize(which, &text));
    if (strcmp(text.data ? text.data : "", to)) fail_msg("\"%s\" became \"%s\", expected \"%s\"", from, text.data, to);
    assert_int_equal(text.len, strlen(to));
    tx_str_free(&text);
}

static void rules(void **state)
{
    (void)state;
    becomes(
        TX_DETOKENIZER_WIKI,
        " = = = Title = = = \n It 's 5 @.@ 1 @,@ 000 ( a ( b ) c ) ; \" well \" he said . dogs ' N 20 \u00b0 C /' 7/ "
        "[ x\u00a0] { y \u3000} ' q ' ? ! end ",
        " === Title ===\nIt's 5.1,000 (a ( b) c ); \"well\" he said. dogs' 1 20\u00b0C /'[0-9]/ [x] {y}' q ' ?! end ");
    becomes(TX_DETOKENIZER_WIKI, "no (close \" and ' odd", "no (close \" and ' odd");
    becomes(TX_DETOKENIZER_WIKI, "( \t )( ) ''' ' =", "()() '''' =");
    becomes(TX_DETOKENIZER_PTB, "do n't say ' N times $ 1 # 1 \n ok \n", "don't say'1 times $1 #1\nok\n");
    becomes(TX_DETOKENIZER_NONE, " ( a ) ", " ( a ) ");
    becomes(TX_DETOKENIZER_WIKI, "", "");
    assert_int_equal(tx_detokenizer_for("/data/wikitext-103/wiki.test.tokens"), TX_DETOKENIZER_WIKI);
    assert_int_equal(tx_detokenizer_for("/wiki/ptb.txt"), TX_DETOKENIZER_PTB);
    assert_int_equal(tx_detokenizer_for("test.txt"), TX_DETOKENIZER_NONE);
}

static void stripped(const char *from, const char *to)
{
    const char *p = from;
    size_t n = strlen(from);
    tx_strip(&p, &n);
    if (n != strlen(to) || memcmp(p, to, n)) fail_msg("\"%s\" became \"%.*s\"", from, (int)n, p);
}

static void white_space(void **state)
{
    (void)state;
    stripped(
        " \t\n\v\f\r\x1c\x1d\x1e\x1f\xc2\x85\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000a b\u3000\u2003 ",
        "a b");
    stripped("\u200bx\u200b", "\u200bx\u200b"); /* neighbours that are none */
    stripped("\u180e\xc2\x84", "\u180e\xc2\x84");
    stripped(" \u00a0 ", "");
    stripped("", "");
    assert_int_equal(tx_white_at("\xe2\x80", 2), 0); /* cut */
}

/* Without memory it says so and loses none. */
static void fails_without_memory(void **state)
{
    (void)state;
    for (int64_t n = 0;; n++) {
        tx_str text = { 0 };
        ASSERT_OK(tx_str_puts(&text, "( a ) : b @-@ c"));
        allocation_fails_at(n);
        tx_status st = tx_detokenize(TX_DETOKENIZER_WIKI, &text);
        allocations_succeed();
        if (!st) assert_string_equal(text.data, "(a): b-c");
        tx_str_free(&text);
        if (!st) break;
        assert_int_equal(st, TX_ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rules), cmocka_unit_test(white_space),
                                        cmocka_unit_test(fails_without_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
