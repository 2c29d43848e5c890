/* labels: unit golden */
/* TikTokenizer: tiktoken's ids of lines and of Megatron Core's JSON by each pattern, special tokens, and what is
 * refused. */
#include "token/tokenizer_kinds.h"

#include "token_test.h"

static tx_tokenizer_files files_of(const char *path, const char *pattern, int32_t n_special)
{
    tx_tokenizer_files f = { .model_file = path };
    f.tiktoken.pattern = tx_tiktoken_pattern_of(pattern);
    f.tiktoken.n_special = n_special;
    return f;
}

static tx_tokenizer *open_small(const char *file, const char *pattern)
{
    char path[96];
    tx_tokenizer *t = NULL;
    snprintf(path, sizeof path, "token/tiktoken/%s", file);
    tx_tokenizer_files f = files_of(data_path(path), pattern, 10);
    ASSERT_OK(tx_tokenizer_open_type(&t, TX_TOKENIZER_TIKTOKEN, &f));
    return t;
}

static tx_status try_open(const tx_tokenizer_files *f)
{
    tx_tokenizer *t = NULL;
    tx_status st = tx_tokenizer_open_type(&t, TX_TOKENIZER_TIKTOKEN, f);
    tx_tokenizer_close(t);
    return st;
}

static void check_row(const char *line)
{
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_object_get(row, "text");
    json_t *want = json_object_get(row, "ids");
    tx_ids got = { 0 };
    tx_bytes back = { 0 };
    assert_non_null(row);
    tx_tokenizer *t =
        open_small(json_string_value(json_object_get(row, "file")), json_string_value(json_object_get(row, "pattern")));
    ASSERT_OK(tx_tokenizer_encode(t, json_string_value(text), json_string_length(text), &got));
    bool same = got.n == json_array_size(want);
    for (size_t i = 0; same && i < got.n; i++) same = got.id[i] == json_integer_value(json_array_get(want, i));
    if (!same) fail_msg("other ids for %s", line);
    ASSERT_OK(tx_tokenizer_decode(t, got.id, got.n, &back));
    assert_int_equal(back.n, json_string_length(text));
    if (back.n) assert_memory_equal(back.data, json_string_value(text), back.n);
    tx_bytes_free(&back);
    tx_ids_free(&got);
    tx_tokenizer_close(t);
    json_decref(row);
}

static void stored_ids(void **state)
{
    (void)state;
    char *rest = NULL;
    int n_lines = 0;
    tx_str file = read_file(data_path("token/tiktoken/ids.jsonl"));
    for (char *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n_lines++)
        check_row(line);
    assert_true(n_lines > 400);
    tx_str_free(&file);
}

static void facts(void **state)
{
    (void)state;
    char hash[3][33];
    tx_tokenizer *t = open_small("small.tiktoken", "r50k");
    assert_int_equal(tx_tokenizer_vocab_size(t), 421);
    assert_int_equal(tx_tokenizer_eod(t), 420);
    assert_int_equal(tx_tokenizer_special(t, "<|endoftext|>"), 420);
    assert_int_equal(tx_tokenizer_special(t, "the"), -1);
    ASSERT_OK(tx_tokenizer_hash(t, hash[0]));
    tx_tokenizer_close(t);
    t = open_small("small.tiktoken", "cl100k");
    ASSERT_OK(tx_tokenizer_hash(t, hash[1]));
    tx_tokenizer_close(t);
    t = open_small("small-core.json", "v2");
    assert_int_equal(tx_tokenizer_vocab_size(t), 430);
    assert_int_equal(tx_tokenizer_eod(t), 2);
    assert_int_equal(tx_tokenizer_special(t, "<SPECIAL_9>"), 9);
    ASSERT_OK(tx_tokenizer_hash(t, hash[2]));
    tx_tokenizer_close(t);
    assert_string_not_equal(hash[0], hash[1]);
    assert_string_not_equal(hash[1], hash[2]);
}

static void special_names(void **state)
{
    (void)state;
    char a[] = "<|a|>", b[] = "<|b|>", same[] = "<|a|>";
    char *names[] = { a, b }, *twice[] = { a, same };
    tx_tokenizer *t = NULL;
    tx_ids ids = { 0 };
    tx_tokenizer_files f = files_of(data_path("token/tiktoken/small.tiktoken"), "r50k", 1000);
    f.tiktoken.special = names;
    f.tiktoken.n_names = 2;
    ASSERT_OK(tx_tokenizer_open_type(&t, TX_TOKENIZER_TIKTOKEN, &f));
    assert_int_equal(tx_tokenizer_special(t, "<|b|>"), 421);
    assert_int_equal(tx_tokenizer_eod(t), -1);
    ASSERT_OK(tx_tokenizer_encode(t, "<|b|><|a|>", 10, &ids));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.id[0], 421);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
    f.tiktoken.special = twice;
    ASSERT_FAILS(try_open(&f), TX_ERR_ARG, "\"<|a|>\" is empty or there twice");
    f = files_of(data_path("token/tiktoken/small-core.json"), "v2", 10);
    f.tiktoken.special = names;
    f.tiktoken.n_names = 2;
    ASSERT_FAILS(try_open(&f), TX_ERR_ARG, "--tiktoken-special-tokens has no <unk>");
    f = files_of(data_path("token/tiktoken/small-core.json"), "v2", 3);
    ASSERT_FAILS(try_open(&f), TX_ERR_ARG, "--tiktoken-num-special-tokens 3 is less than the 7 special tokens");
}

static void cut_vocabularies(void **state)
{
    (void)state;
    tx_tokenizer *t = NULL;
    tx_tokenizer_files f = files_of(data_path("token/tiktoken/small-core.json"), "v1", 20);
    f.n_ids = 300;
    ASSERT_OK(tx_tokenizer_open_type(&t, TX_TOKENIZER_TIKTOKEN, &f));
    assert_int_equal(tx_tokenizer_vocab_size(t), 300);
    tx_tokenizer_close(t);
    f.n_ids = 275;
    ASSERT_FAILS(try_open(&f), TX_ERR_ARG, "--vocab-size 275 has no room for");
    f.n_ids = 500;
    ASSERT_FAILS(try_open(&f), TX_ERR_FORMAT, "has 420 tokens, but --vocab-size 500 asks for 480 beside 20 special");
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *say;
        tx_status code;
    } bad[] = {
        { "", "has no tokens", TX_ERR_FORMAT },
        { "IQ== 0\nx", ":2: \"x\" is not a token in base64, a blank and its rank", TX_ERR_FORMAT },
        { "IQ== 0\nIQ=? 1\n", ":2: \"IQ=?\" is not a token in base64", TX_ERR_FORMAT },
        { "IQ== 0\nIg== 0\n", "has the rank 0, as", TX_ERR_FORMAT },
        { "IQ== 0\nIQ== 1\n", ":2: the token is there a second time, as id 0", TX_ERR_FORMAT },
        { "IQ== 1a\n", ":1:", TX_ERR_FORMAT },
        { "IQ== 99999999\n", "the rank 99999999 is too large", TX_ERR_UNSUPPORTED },
        { "IQ== 0\n", "the byte 0x00 has no token", TX_ERR_FORMAT },
        { "{\"vocab\": []}", "is a JSON object; triax reads the list", TX_ERR_UNSUPPORTED },
        { "[{\"rank\": 0, \"token_bytes\": \"IQ==\", \"token_str\": \"!\"}]", "[0] is not the byte 0", TX_ERR_FORMAT },
        { "[{\"rank\": 1, \"token_bytes\": \"IQ==\"}]", "[0] is not {\"rank\": 0", TX_ERR_FORMAT },
        { "[{\"rank\": 0, \"x\": 1}]", "the key \"x\"", TX_ERR_UNSUPPORTED },
        { "[", "not JSON", TX_ERR_FORMAT },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_tokenizer_files f = files_of(write_text(in_scratch("t"), bad[i].text), "v2", 1000);
        ASSERT_FAILS(try_open(&f), bad[i].code, bad[i].say);
    }
}

static void out_of_memory(void **state)
{
    (void)state;
    tx_status st = TX_ERR_NOMEM;
    tx_tokenizer_files f = files_of(data_path("token/tiktoken/small-core.json"), "v2", 10);
    for (int n = 0; st; n++) {
        allocation_fails_at(n);
        st = try_open(&f);
        allocations_succeed();
        assert_true(st == TX_OK || st == TX_ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_ids),       cmocka_unit_test(facts), cmocka_unit_test(special_names),
        cmocka_unit_test(cut_vocabularies), SCRATCH_TEST(refused),   cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
