/* labels: unit */
/* vocab.json and merges.txt as users have them, good and bad: each fault is one line that says where it is. */
#include "token_test.h"

#include <unistd.h>

#include "token/byte_symbols.h"

/* {"<byte 0>": 0, ... "<byte 255>": 255 <more>} with the id of byte `skip` left to `more` (-1: none). */
static const char *vocab_file(const char *more, int skip)
{
    tx_str s = { 0 };
    ASSERT_OK(tx_str_puts(&s, "{"));
    for (unsigned b = 0; b < 256; b++) {
        uint32_t c = tx__symbol_of_byte(b);
        if ((int)b != skip) ASSERT_OK(tx_str_printf(&s, "%s\"\\u%04x\": %u", s.len > 1 ? ", " : "", c, b));
    }
    ASSERT_OK(tx_str_puts(&s, more));
    ASSERT_OK(tx_str_puts(&s, "}"));
    const char *path = write_file(in_scratch("vocab.json"), s.data, s.len);
    tx_str_free(&s);
    return path;
}

static const char *merge_file(const char *text)
{
    return write_text(in_scratch("merges.txt"), text);
}

static tx_status try_open(const char *more, int skip, const char *merges)
{
    tx_tokenizer *t = NULL;
    tx_status st = tx_tokenizer_open_gpt2(&t, vocab_file(more, skip), merge_file(merges));
    tx_tokenizer_close(t);
    if (st) assert_null(t);
    return st;
}

static int32_t one_id(const tx_tokenizer *t, const char *text)
{
    tx_ids ids = { 0 };
    ASSERT_OK(tx_tokenizer_encode(t, text, strlen(text), &ids));
    int32_t id = ids.n == 1 ? ids.id[0] : -1;
    tx_ids_free(&ids);
    return id;
}

/* ---- good files ---- */

static void line_ends_and_version(void **state)
{
    static const char *const merges[] = {
        "#version: 0.2\na b\nab c\n",
        "#version: 0.2\r\na b\r\nab c\r\n",
        "#version: 0.2\na b\nab c",
        "a b\nab c\n", /* no version line: the first line is a merge */
        "#version: 0.2 - trained by hand\na b\nab c\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        tx_tokenizer *t = NULL;
        ASSERT_OK(tx_tokenizer_open_gpt2(&t, vocab_file(", \"ab\": 256, \"abc\": 257", -1), merge_file(merges[i])));
        assert_int_equal(one_id(t, "ab"), 256);
        assert_int_equal(one_id(t, "abc"), 257);
        assert_int_equal(tx_tokenizer_vocab_size(t), 258);
        assert_int_equal(tx_tokenizer_eod(t), -1); /* no <|endoftext|> */
        tx_tokenizer_close(t);
    }
}

static void only_bytes(void **state)
{
    tx_tokenizer *t = NULL;
    (void)state;
    ASSERT_OK(tx_tokenizer_open_gpt2(&t, vocab_file("", -1), merge_file("")));
    assert_int_equal(tx_tokenizer_vocab_size(t), 256);
    assert_int_equal(one_id(t, "\xFF"), 255);
    assert_int_equal(one_id(t, "ab"), -1);
    tx_tokenizer_close(t);
}

/* A token that no merge leads to is decoded but never encoded, special or not. */
static void unreachable_tokens(void **state)
{
    tx_tokenizer *t = NULL;
    tx_bytes b = { 0 };
    const int32_t ids[] = { 256, 257, 258, 259 };
    (void)state;
    ASSERT_OK(tx_tokenizer_open_gpt2(
        &t, vocab_file(", \"<|endoftext|>\": 256, \"abc\": 257, \"<|\\u65e5 |>\": 258, \"bc\": 259", -1),
        merge_file("b c\n")));
    assert_int_equal(tx_tokenizer_eod(t), 256);
    assert_int_equal(one_id(t, "<|endoftext|>"), -1);
    assert_int_equal(one_id(t, "abc"), -1);
    assert_int_equal(one_id(t, "<|\xE6\x97\xA5 |>"), -1);
    assert_int_equal(one_id(t, "bc"), 259);
    ASSERT_OK(tx_tokenizer_decode(t, ids, 4, &b));
    assert_string_equal(b.data, "<|endoftext|>abc<|\xE6\x97\xA5 |>bc");
    tx_bytes_free(&b);
    tx_tokenizer_close(t);
}

/* ---- bad files ---- */

static void bad_vocab(void **state)
{
    static const struct {
        const char *text, *message;
    } c[] = {
        { "", "vocab.json:1:0: not JSON" },
        { "{\n\"a\": 0,\n\"b\": }", "vocab.json:3:6: not JSON" },
        { "{\"a\": 0} x", "not JSON" },
        { "{\"a\": 0, \"a\": 1}", "is given twice" },
        { "{\"\\u0000\": 0}", "not JSON" },
        { "{\"\\ud800\": 0}", "not JSON" },
        { "[1, 2]", "not a JSON object" },
        { "{}", "the symbol of byte 0x00 (U+0100) is missing" },
        { "{\"a\": \"0\"}", "the id of token \"a\" is not a whole number" },
        { "{\"a\": 0.0}", "not a whole number" },
        { "{\"a\": -1}", "token \"a\" has id -1, but 1 tokens must have the ids 0 to 0" },
        { "{\"a\": 0, \"b\": 2}", "token \"b\" has id 2, but 2 tokens must have the ids 0 to 1" },
        { "{\"a\": 9223372036854775807}", "has id 9223372036854775807" },
        { "{\"a\": 99999999999999999999}", "not JSON" },
        { "{\"a\": 0, \"b\": 0}", "tokens \"a\" and \"b\" both have id 0" },
        { "{\"\": 0}", "the token with id 0 is empty" },
        { "{\"a b\": 0}", "token \"a b\" has the character U+0020" },
        { "{\"\\u65e5\": 0}", "U+65E5, which is none of GPT-2's byte symbols" },
        { "{\"a\\nb\": 0}", "token \"a?b\"" },
    };
    tx_tokenizer *t = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, write_text(in_scratch("vocab.json"), c[i].text), merge_file("")),
                     TX_ERR_FORMAT, c[i].message);
    ASSERT_FAILS(try_open("", 'q', ""), TX_ERR_FORMAT, "has id 255, but 255 tokens must have the ids 0 to 254");
    ASSERT_FAILS(try_open(", \"qq\": 113", 'q', ""), TX_ERR_FORMAT, "the symbol of byte 0x71 (U+0071) is missing");
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, in_scratch("none.json"), merge_file("")), TX_ERR_NOTFOUND,
                 "none.json: cannot open");
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, "/", merge_file("")), TX_ERR_IO, "is a directory");
    assert_null(t);
}

static void bad_merges(void **state)
{
    static const struct {
        const char *text, *message;
    } c[] = {
        { "#version: 0.2\na b\nab\n", "merges.txt:3: \"ab\" is not a merge: two tokens with one blank between them" },
        { "a b\n\n", "merges.txt:2: \"\" is not a merge" },
        { "a  b\n", "merges.txt:1: \"a  b\" is not a merge" },
        { "a b c\n", "is not a merge" },
        { " b\n", "is not a merge" },
        { "a \n", "is not a merge" },
        { "a b\n#version: 0.2\n", "merges.txt:2: \"#version:\" is not in" },
        { "#version: 0.2\nzz a\n", "merges.txt:2: \"zz\" is not in" },
        { "a zz\n", "merges.txt:1: \"zz\" is not in" },
        { "a b\nb a\n", "merges.txt:2: the merged token \"ba\" is not in" },
        { "a b\nab c\na b\n", "merges.txt:3: \"a b\" is there a second time" },
        { "ab c\na b\n", "merges.txt:1: this merge takes what only line 2 makes" },
        { "#version: 0.2\nab c\na b\n", "merges.txt:2: this merge takes what only line 3 makes" },
        { "a \xE6\x97\xA5\n", "merges and vocabulary do not fit" },
        { "a \xFF\n", "merges.txt:1" },
        { "a\tb\n", "\"a?b\" is not a merge" },
    };
    tx_tokenizer *t = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        ASSERT_FAILS(try_open(", \"ab\": 256, \"abc\": 257", -1, c[i].text), TX_ERR_FORMAT, c[i].message);
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, vocab_file("", -1), in_scratch("none.txt")), TX_ERR_NOTFOUND,
                 "none.txt: cannot open");
    static const char nul[] = "a\0zz b\n"; /* is not the merge "a b" */
    write_file(in_scratch("nul.txt"), nul, sizeof nul - 1);
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, vocab_file(", \"ab\": 256", -1), in_scratch("nul.txt")), TX_ERR_FORMAT,
                 "nul.txt:1: \"a?zz\" is not in");
    /* two models' files */
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, data_path("tiny/tiny-vocab.json"), data_path("token/gpt2-merges.txt")),
                 TX_ERR_FORMAT, "merges and vocabulary do not fit, give two files of one model");
    /* a token of 1000 letters is cut in the message */
    char line[1100];
    memset(line, 'x', 1000);
    strcpy(line + 1000, " y\n");
    ASSERT_FAILS(try_open("", -1, line), TX_ERR_FORMAT, "xxx...\" is not in");
}

static void sizes_are_bounded(void **state)
{
    tx_tokenizer *t = NULL;
    const char *path = in_scratch("huge.json");
    FILE *f = fopen(path, "wb");
    (void)state;
    assert_non_null(f);
    assert_int_equal(ftruncate(fileno(f), (off_t)1 << 40), 0); /* a hole, no disk used */
    fclose(f);
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, path, merge_file("")), TX_ERR_FORMAT, "huge.json: larger than");
    ASSERT_FAILS(tx_tokenizer_open_gpt2(&t, vocab_file("", -1), path), TX_ERR_FORMAT, "huge.json: larger than");
    remove(path);
}

static int clean(void **state)
{
    remove(in_scratch("vocab.json"));
    remove(in_scratch("merges.txt"));
    int left_over = rmdir(scratch_dir); /* fails if a temporary file was left behind */
    return scratch_teardown(state) || left_over ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_ends_and_version),
        cmocka_unit_test(only_bytes),
        cmocka_unit_test(unreachable_tokens),
        cmocka_unit_test(bad_vocab),
        cmocka_unit_test(bad_merges),
        cmocka_unit_test(sizes_are_bounded),
    };
    return cmocka_run_group_tests(tests, scratch_setup, clean);
}
