/* labels: unit golden */
/* Merges equal to those that Hugging Face's trainer learned from the same documents, small cases counted by hand, and
 * the files that are written. */
#include "token_test.h"

#include <unistd.h>

static void feed_text(json_t *line, void *user)
{
    json_t *text = json_object_get(line, "text");
    ASSERT_OK(tx_bpe_trainer_feed(user, json_string_value(text), json_string_length(text)));
}

static void same_as_hugging_face(void **state)
{
    tx_bpe_trainer *t = NULL;
    tx_tokenizer *tok = NULL;
    (void)state;
    ASSERT_OK(tx_bpe_trainer_create(&t));
    assert_int_equal(for_each_json_line(data_path("token/gpt2_cases.jsonl"), feed_text, t), 613);
    assert_int_equal(tx_bpe_trainer_vocab_size(t), 0);
    ASSERT_OK(tx_bpe_trainer_finish(t, 1500, 2));
    assert_int_equal(tx_bpe_trainer_vocab_size(t), 1500);
    ASSERT_OK(tx_bpe_trainer_save(t, in_scratch("v.json"), in_scratch("m.txt")));
    assert_same_file(in_scratch("m.txt"), data_path("token/hf-merges-1500.txt"));
    /* the loader takes what the trainer writes */
    ASSERT_OK(tx_tokenizer_open_gpt2(&tok, in_scratch("v.json"), in_scratch("m.txt")));
    assert_int_equal(tx_tokenizer_vocab_size(tok), 1500);
    assert_int_equal(tx_tokenizer_eod(tok), 1499);
    tx_tokenizer_close(tok);
    tx_bpe_trainer_free(t);
}

/* Trains on one document and gives the merges file. */
static tx_str merges_of(const char *text, int32_t vocab_size, int64_t min_frequency)
{
    tx_bpe_trainer *t = NULL;
    ASSERT_OK(tx_bpe_trainer_create(&t));
    ASSERT_OK(tx_bpe_trainer_feed(t, text, strlen(text)));
    ASSERT_OK(tx_bpe_trainer_finish(t, vocab_size, min_frequency));
    ASSERT_OK(tx_bpe_trainer_save(t, in_scratch("v.json"), in_scratch("m.txt")));
    tx_bpe_trainer_free(t);
    return read_file(in_scratch("m.txt"));
}

static void by_hand(void **state)
{
    static const struct {
        const char *text;
        int32_t vocab_size;
        int64_t min_frequency;
        const char *merges;
    } c[] = {
        { "ab ab ab", 258, 0, "a b\n" },               /* 3 x (a,b) against 2 x (blank,a) */
        { "ab ab ab", 300, 0, "a b\n\xC4\xA0 ab\n" },  /* all there is */
        { "cd ab", 258, 0, "a b\n" },                  /* equal counts: the smaller left id */
        { "ac ab", 258, 0, "a b\n" },                  /* ... then the smaller right id */
        { "\xC3\xA9", 258, 0, "\xC3\x83 \xC2\xA9\n" }, /* one letter of two bytes */
        { "aaaaa", 300, 0, "a a\naa a\naa aaa\n" },    /* aa aa a: then a before aa, its id is smaller */
        { "aaa aaa", 300, 0, "a a\naa a\n\xC4\xA0 aaa\n" },
        { "ab ab cd", 300, 2, "a b\n" }, /* nothing else occurs twice */
        { "ab", 300, 2, "" },
        { "", 300, 0, "" },
        { "\"\\\"\\", 258, 0, "\" \\\n" }, /* what JSON has to escape */
        { "ab ab", 257, 0, "" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        tx_str got = merges_of(c[i].text, c[i].vocab_size, c[i].min_frequency);
        assert_true(got.len >= 14 && !memcmp(got.data, "#version: 0.2\n", 14));
        assert_string_equal(got.data + 14, c[i].merges);
        tx_str_free(&got);
    }
}

static void vocabulary_layout(void **state)
{
    tx_str m = merges_of("ab ab ab \"\"", 259, 0), v = read_file(in_scratch("v.json"));
    json_t *j = json_loadb(v.data, v.len, JSON_REJECT_DUPLICATES, NULL);
    (void)state;
    assert_non_null(j);
    assert_int_equal(json_object_size(j), 259);
    assert_int_equal(json_integer_value(json_object_get(j, "!")), 0); /* GPT-2's order of bytes */
    assert_int_equal(json_integer_value(json_object_get(j, "\"")), 1);
    assert_int_equal(json_integer_value(json_object_get(j, "\\")), 59);
    assert_int_equal(json_integer_value(json_object_get(j, "\xC4\x80")), 188);
    assert_int_equal(json_integer_value(json_object_get(j, "\xC5\x83")), 255);
    assert_int_equal(json_integer_value(json_object_get(j, "ab")), 256);
    assert_int_equal(json_integer_value(json_object_get(j, "<|endoftext|>")), 258);
    assert_ptr_equal(strstr(v.data, "{\"!\": 0, \"\\\"\": 1, "), v.data);
    json_decref(j);
    tx_str_free(&m);
    tx_str_free(&v);
}

static void too_little_text(void **state)
{
    (void)state;
    log_begin();
    tx_str m = merges_of("ab ab", 1000, 2);
    log_end();
    ASSERT_CONTAINS(warned, "asked for a vocabulary of 1000 tokens, but the text gives only 258");
    tx_str_free(&m);
}

static void wrong_calls(void **state)
{
    tx_bpe_trainer *t = NULL;
    (void)state;
    ASSERT_OK(tx_bpe_trainer_create(&t));
    ASSERT_OK(tx_bpe_trainer_feed(t, "ab ab", 5));
    ASSERT_FAILS(tx_bpe_trainer_save(t, in_scratch("v.json"), in_scratch("m.txt")), TX_ERR_STATE, "has not finished");
    ASSERT_FAILS(tx_bpe_trainer_finish(t, 256, 0), TX_ERR_ARG, "vocabulary size 256 is too small: 256 bytes");
    ASSERT_FAILS(tx_bpe_trainer_finish(t, -5, 0), TX_ERR_ARG, "need 257");
    ASSERT_FAILS(tx_bpe_trainer_finish(t, 258, -1), TX_ERR_ARG, "minimum frequency -1");
    ASSERT_OK(tx_bpe_trainer_finish(t, 258, 0)); /* the refusals have cost nothing */
    assert_int_equal(tx_bpe_trainer_vocab_size(t), 258);
    ASSERT_FAILS(tx_bpe_trainer_finish(t, 258, 0), TX_ERR_STATE, "has finished already");
    ASSERT_FAILS(tx_bpe_trainer_feed(t, "x", 1), TX_ERR_STATE, "takes no more text");
    ASSERT_FAILS(tx_bpe_trainer_save(t, in_scratch("no/v.json"), in_scratch("m.txt")), TX_ERR_NOTFOUND, "v.json");
    tx_bpe_trainer_free(t);
    tx_bpe_trainer_free(NULL);
}

/* A merges file that cannot be made leaves the old vocabulary in place. */
static void both_or_none(void **state)
{
    tx_str before = merges_of("ab ab", 258, 0), vocab = read_file(in_scratch("v.json"));
    tx_bpe_trainer *t = NULL;
    (void)state;
    ASSERT_OK(tx_bpe_trainer_create(&t));
    ASSERT_OK(tx_bpe_trainer_finish(t, 257, 0));
    assert_int_equal(tx_bpe_trainer_save(t, in_scratch("v.json"), in_scratch("no/m.txt")), TX_ERR_NOTFOUND);
    tx_str after = read_file(in_scratch("v.json"));
    assert_string_equal(after.data, vocab.data);
    tx_bpe_trainer_free(t);
    tx_str_free(&before);
    tx_str_free(&vocab);
    tx_str_free(&after);
}

/* One word of 400,000 letters: looking through it for each merge would take many minutes. */
static void long_word(void **state)
{
    enum { N = 400000 };
    char *text = malloc(N);
    uint32_t x = 1;
    tx_bpe_trainer *t = NULL;
    (void)state;
    for (int i = 0; i < N; i++) {
        x = x * 1664525 + 1013904223;
        text[i] = (char)('a' + (x >> 24) % 20);
    }
    ASSERT_OK(tx_bpe_trainer_create(&t));
    ASSERT_OK(tx_bpe_trainer_feed(t, text, N));
    ASSERT_OK(tx_bpe_trainer_finish(t, 15000, 2));
    assert_int_equal(tx_bpe_trainer_vocab_size(t), 15000);
    tx_bpe_trainer_free(t);
    free(text);
}

/* ---- no memory ---- */

static tx_status train_and_save(void)
{
    tx_bpe_trainer *t = NULL;
    tx_status st = tx_bpe_trainer_create(&t);
    if (!st) st = tx_bpe_trainer_feed(t, "the cat and the hat and the rat", 31);
    if (!st) st = tx_bpe_trainer_finish(t, 270, 0);
    if (!st) st = tx_bpe_trainer_save(t, in_scratch("v.json"), in_scratch("m.txt"));
    tx_bpe_trainer_free(t);
    return st;
}

static void every_allocation_fails(void **state)
{
    int n = 0;
    tx_status st;
    (void)state;
    do {
        allocations_fail_from(n++);
        st = train_and_save();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    } while (st && n < 1000);
    allocations_succeed();
    ASSERT_OK(st);
    assert_true(n > 10);
}

static int clean(void **state)
{
    remove(in_scratch("v.json"));
    remove(in_scratch("m.txt"));
    int left_over = rmdir(scratch_dir); /* fails if a temporary file was left behind */
    return scratch_teardown(state) || left_over ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_hugging_face),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(vocabulary_layout),
        cmocka_unit_test(too_little_text),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(both_or_none),
        cmocka_unit_test(long_word),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, scratch_setup, clean);
}
