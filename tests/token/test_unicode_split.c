/* labels: unit */
/* The pieces of GPT-2's regular expression, case by case, and of the bytes and names under it. */
#include "token_test.h"

#include "base/utf8.h"
#include "token/byte_symbols.h"
#include "token/unicode_split.h"

/* `text` with its pieces separated by '|' (which no case holds) must come out as `want`. */
static void check(const char *text, size_t n, const char *want)
{
    char got[512];
    size_t k = 0;
    for (size_t at = 0; at < n;) {
        size_t len = tx__split_next((const unsigned char *)text + at, n - at);
        assert_true(len > 0 && len <= n - at);
        if (at) got[k++] = '|';
        memcpy(got + k, text + at, len);
        k += len;
        at += len;
    }
    got[k] = 0;
    assert_string_equal(got, want);
}

static void pieces(void **state)
{
    static const char *const want[] = {
        "hello| world",
        "don|'t",
        "y|'|all|'d|'ve",
        "DON|'|T",
        "we|'ll|'re|'m|'s|'d|'t|'ve",
        "'s|ss",
        "'re|x",
        " '|s",
        "x| '|ll",
        "''|s",
        "'|l",
        "'",
        "'|r",
        "'|e",
        "a|  | b|   |\n|c",
        "a|  ",
        "a| ",
        " ",
        "  ",
        " | a",
        "\n|a",
        "\n\n|\n|a",
        "a|\n| b",
        "a|\n |\n|b",
        "a|\t|!|\t| !",
        "x|=|1|+| 22|!!",
        "abc|123|abc",
        "a|_|b",
        "!|\n",
        "naïve| café",
        "a\xF0\xAE\xAF\xB0|!", /* U+2EBF0, a letter since Unicode 15.1 */
        "1\xF0\x9E\x97\xB1|!", /* U+1E5F1, a digit since Unicode 16.0 */
        "日本語|、|テキスト",
        "٣|abc|Ⅷ½",         /* Nd, Nl, No are numbers */
        "a|\xC2\xA0|b",     /* no-break space */
        "a|\xC2\xA0| b",    /* the blank goes with b, the other space is left alone */
        "a| |\xC2\xA0|b",   /* here the last of the run is not a blank */
        "a|\xC2\x85|b",     /* NEL */
        "a|\xE1\x9A\x80|b", /* ogham space */
        "a|\xE2\x80\x83|\xE2\x80\x8A|b",
        "a|\xE2\x80\xA8|\xE2\x80\xA9|b",
        "a|\xE2\x80\xAF|\xE2\x81\x9F|b",
        "a|\xE3\x80\x80|\xE3\x80\x80|b",
        "a|\xE2\x80\x8B|b", /* zero width space is none */
        "a|\xE1\xA0\x8E|b", /* nor is the Mongolian vowel separator */
        "a|\x1C\x1F|b",     /* nor are the information separators */
        "a|\xEF\xBB\xBF|b",
        "e|\xCC\x81|e", /* a combining mark is no letter */
        "\xF0\x9F\x98\x80\xF0\x9F\x98\x80| \xF0\x9F\x98\x80",
        "\xF0\x90\x90\x80\xF0\xA0\x80\x80", /* letters beyond the BMP */
        "\xF0\x9D\x9F\x8E|x",               /* mathematical digit */
    };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char text[512];
        size_t n = 0;
        for (const char *p = want[i]; *p; p++)
            if (*p != '|') text[n++] = *p;
        check(text, n, want[i]);
    }
}

static void bytes_that_are_not_utf8(void **state)
{
    static const char *const bad[] = {
        "\x80", "\xFF",     "\xC0\xAF",     "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\xF5", "\xE2\x82", "\xF0\x9F\x98", "\xC3",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) { /* symbols: one piece, with the blank and with '!' */
        char text[32], want[32];
        int n = snprintf(text, sizeof text, "a %s!a", bad[i]);
        snprintf(want, sizeof want, "a| %s!|a", bad[i]);
        check(text, (size_t)n, want);
        check(bad[i], strlen(bad[i]), bad[i]); /* also where the text ends in the middle of a character */
    }
    assert_int_equal(tx__split_next((const unsigned char *)"\0\0b", 3), 2); /* NUL is a symbol too */
}

static void utf8(void **state)
{
    uint32_t got;
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        unsigned char b[4];
        size_t n = 0;
        if (c < 0x80)
            b[n++] = (unsigned char)c;
        else if (c < 0x800)
            b[n++] = (unsigned char)(0xC0 | c >> 6);
        else if (c < 0x10000)
            b[n++] = (unsigned char)(0xE0 | c >> 12);
        else
            b[n++] = (unsigned char)(0xF0 | c >> 18);
        if (c >= 0x10000) b[n++] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
        if (c >= 0x800) b[n++] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        if (c >= 0x80) b[n++] = (unsigned char)(0x80 | (c & 0x3F));
        int surrogate = c >= 0xD800 && c < 0xE000;
        assert_int_equal(tx__utf8_next(b, n, &got), surrogate ? 1 : n);
        assert_int_equal(got, surrogate ? TX__NO_CHAR : c);
    }
    assert_int_equal(tx__utf8_next((const unsigned char *)"\xF0\x9F\x98", 3, &got), 3);
    assert_int_equal(got, TX__NO_CHAR);
    assert_int_equal(tx__utf8_next((const unsigned char *)"\xF0\x9Fx", 3, &got), 2);
    assert_int_equal(tx__utf8_next((const unsigned char *)"\xF0\x8F\x80\x80", 4, &got), 1);
}

static void symbols_of_bytes(void **state)
{
    (void)state;
    int n = 0;
    for (unsigned b = 0; b < 256; b++) assert_int_equal(tx__byte_of_symbol(tx__symbol_of_byte(b)), b);
    for (uint32_t c = 0; c < 0x1000; c++) n += tx__byte_of_symbol(c) >= 0;
    assert_int_equal(n, 256);
    assert_int_equal(tx__symbol_of_byte(' '), 0x120); /* the well-known Ġ and Ċ */
    assert_int_equal(tx__symbol_of_byte('\n'), 0x10A);
    assert_int_equal(tx__symbol_of_byte(0xAD), 0x143);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces),
        cmocka_unit_test(bytes_that_are_not_utf8),
        cmocka_unit_test(utf8),
        cmocka_unit_test(symbols_of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
