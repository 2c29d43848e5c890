/* labels: unit golden */
/* The pieces of each published pattern and of digits, as tokenizers 0.23.3 cuts these texts: pre_tokenizers.Split of
 * the pattern in split_pattern.c ("isolated"), and Digits. tests/peer/compare_tokenizer_json.py compares random texts.
 */
#include "token_test.h"

#include "token/split_pattern.h"

static const char *const cl100k[] = {
    "Hello| WORLD|'s| don|'T| we|'LL| it|'ſ| O|'Re|illy| '|x",
    "iPhone| HTMLParser| fooBAR| ǅabc| \312\260A",
    "123|45| x|123|4|y| |٣٤٥|٦| |½Ⅷ",
    " a| | b|   \n\n| | c| \r\n|\td|\343\200\200e|  ",
    "x|=/|a|//|b|/\n\n|/| !?\n\r|;ok| _|v",
    "e|\314\201\314\201| \314\201|x| !\314\201",
    "日本語|、テキスト|123|ひら漢A",
    "\302\240a| |\342\200\203b|\342\200\250c",
    "a|😀😀| 😀|b",
    "#define| $|x|.y| <|p|>(|a|)",
    "'s| '|re|'VE|x| '|l",
    "A|\001b|\037| c",
    NULL,
};

static const char *const qwen2[] = {
    "Hello| WORLD|'s| don|'T| we|'LL| it|'ſ| O|'Re|illy| '|x",
    "1|2|3|4|5| x|1|2|3|4|y| |٣|٤|٥|٦| |½|Ⅷ",
    " a| | b|   \n\n| | c| \r\n|\td|\343\200\200e|  ",
    "'s| '|re|'VE|x| '|l",
    NULL,
};

static const char *const o200k[] = {
    "Hello| WORLD's| don'T| we'LL| it'ſ| O'Re|illy| '|x",
    "i|Phone| HTMLParser| foo|BAR| ǅabc| \312\260|A",
    "123|45| x|123|4|y| |٣٤٥|٦| |½Ⅷ",
    " a| | b|   \n\n| | c| \r\n|\td|\343\200\200e|  ",
    "x|=/|a|//|b|/\n\n/| !?\n\r|;ok| _|v",
    "e\314\201\314\201| \314\201x| !\314\201",
    "日本語|、テキスト|123|ひら漢|A",
    "\302\240a| |\342\200\203b|\342\200\250c",
    "a|😀😀| 😀|b",
    "#define| $|x|.y| <|p|>(|a|)",
    "'s| '|re'VE|x| '|l",
    "A|\001b|\037| c",
    NULL,
};

static const char *const tekken[] = {
    "Hello| WORLD|'s| don|'T| we|'LL| it|'ſ| O|'Reilly| '|x",
    "i|Phone| HTMLParser| foo|BAR| ǅabc| \312\260|A",
    "1|2|3|4|5| x|1|2|3|4|y| |٣|٤|٥|٦| |½|Ⅷ",
    " a| | b|   \n\n| | c| \r\n|\td|\343\200\200e|  ",
    "x|=/|a|//|b|/\n\n/| !?\n\r|;ok| _|v",
    "e\314\201\314\201| \314\201x| !\314\201",
    "日本語|、テキスト|1|2|3|ひら漢|A",
    "\302\240a| |\342\200\203b|\342\200\250c",
    "a|😀😀| 😀|b",
    "#define| $|x|.y| <|p|>(|a|)",
    "'s| '|re|'VEx| '|l",
    "A|\001b|\037| c",
    NULL,
};

static const char *const deepseek_numbers[] = {
    "123|45| x|123|4|y |٣٤٥|٦| |½Ⅷ",
    " a  b   \n\n  c \r\n\td\343\200\200e  ",
    "日本語、テキスト|123|ひら漢A",
    NULL,
};

static const char *const deepseek_cjk[] = {
    "日本語|、|テキスト|123|ひら漢|A",
    "e\314\201\314\201 \314\201x !\314\201",
    "Hello WORLD's don'T we'LL it'ſ O'Reilly 'x",
    NULL,
};

static const char *const deepseek_words[] = {
    "Hello| WORLD|'s| don|'T| we|'LL| it|'|ſ| O|'Reilly| '|x",
    "iPhone| HTMLParser| fooBAR| ǅabc| \312\260A",
    "12345| x|123|4y| |٣٤٥٦| |½Ⅷ",
    " a| | b|   \n\n| | c| \r\n|\td|\343\200\200e|  ",
    "x|=/|a|//|b|/\n\n|/| !?\n\r|;ok| _|v",
    "e\314\201\314\201| \314\201x| !|\314\201",
    "日本語|、|テキスト|12|3ひら漢A",
    "\302\240a| |\342\200\203b|\342\200\250c",
    "a|😀😀| 😀|b",
    "#define| $|x|.y| <|p|>(|a|)",
    "'s| '|re|'VEx| '|l",
    "A|\001b|\037| c",
    NULL,
};

static const char *const digits[] = {
    "1|2|3|4|5| x|1|2|3|4|y |٣|٤|٥|٦| |½|Ⅷ",
    "日本語、テキスト|1|2|3|ひら漢A",
    "\302\240a \342\200\203b\342\200\250c",
    NULL,
};

static const char *const digit_runs[] = {
    "12345| x|1234|y |٣٤٥٦| |½Ⅷ",
    "日本語、テキスト|123|ひら漢A",
    "\302\240a \342\200\203b\342\200\250c",
    NULL,
};

/* The texts of `want`, whose pieces are separated by '|', are cut there. */
static void check(const char *name, tx__split_fn *split, const char *const *want)
{
    for (; *want; want++) {
        char text[256], got[512];
        size_t n = 0, k = 0, len;
        for (const char *p = *want; *p; p++)
            if (*p != '|') text[n++] = *p;
        for (size_t at = 0; at < n; at += len) {
            len = split((const unsigned char *)text + at, n - at);
            assert_true(len > 0 && len <= n - at);
            if (at) got[k++] = '|';
            memcpy(got + k, text + at, len);
            k += len;
        }
        got[k] = 0;
        if (strcmp(got, *want)) fail_msg("%s: \"%s\", not \"%s\"", name, got, *want);
    }
}

/* The pattern `after` rows behind the one of that name. */
static tx__split_fn *of_name(const char *name, int after)
{
    const tx__split_pattern *p = tx__split_patterns;
    while (p->regex && !(p->name && !strcmp(p->name, name))) p++;
    assert_non_null(p->regex);
    p += after;
    assert_ptr_equal(tx__split_pattern_find(p->regex), p);
    return p->split;
}

static void published_patterns(void **state)
{
    (void)state;
    check("GPT-4", of_name("GPT-4 and Llama 3", 0), cl100k);
    check("GPT-4 in other words", of_name("GPT-4 and Llama 3", 1), cl100k);
    check("Qwen 2", of_name("Qwen 2", 0), qwen2);
    check("GPT-4o", of_name("GPT-4o", 0), o200k);
    check("Tekken", of_name("Mistral's Tekken", 0), tekken);
    check("DeepSeek-V3's numbers", of_name("DeepSeek-V3's three", 0), deepseek_numbers);
    check("DeepSeek-V3's CJK", of_name("DeepSeek-V3's three", 1), deepseek_cjk);
    check("DeepSeek-V3's words", of_name("DeepSeek-V3's three", 2), deepseek_words);
    assert_null(tx__split_pattern_find("a+"));
}

static void digits_by_name(void **state)
{
    (void)state;
    check("digits", tx__split_digits, digits);
    check("runs of digits", tx__split_digit_runs, digit_runs);
    assert_int_equal(tx__split_nothing((const unsigned char *)"a 1", 3), 3);
    /* Rust's numbers beyond \p{N}'s Unicode */
    assert_int_equal(tx__split_digits((const unsigned char *)"\xF0\x91\xB7\xA0\xF0\x91\xB7\xA1", 8), 4);
    assert_int_equal(tx__split_digit_runs((const unsigned char *)"\xF0\x91\xB7\xA0\xF0\x96\xBF\xB4x", 9), 8);
}

/* What is not UTF-8 is no letter and no number, byte by byte, also where the text ends in the middle of a character. */
static void bytes_that_are_not_utf8(void **state)
{
    static const char *const bad[] = { "\x80", "\xFF", "\xC0\xAF", "\xED\xA0\x80", "\xE2\x82", "\xF0\x9F\x98" };
    (void)state;
    for (const tx__split_pattern *p = tx__split_patterns; p->regex; p++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            char text[32];
            size_t n = (size_t)snprintf(text, sizeof text, "7%s8a", bad[i]), len;
            for (size_t at = 0; at < n; at += len) {
                len = p->split((const unsigned char *)text + at, n - at);
                assert_true(len > 0 && len <= n - at);
            }
            assert_int_equal(tx__split_digits((const unsigned char *)text, n), 1);
            assert_int_equal(tx__split_digits((const unsigned char *)text + 1, n - 1), n - 3);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_patterns),
        cmocka_unit_test(digits_by_name),
        cmocka_unit_test(bytes_that_are_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
