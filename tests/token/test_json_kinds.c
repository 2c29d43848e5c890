/* labels: unit golden */
/* A tokenizer.json of each kind of model: ids and text as Hugging Face's library has them, bytes that are no UTF-8, and
 * what no token stands for. */
#include "token_test.h"

static const char *const kinds[] = { "llama2",  "mistral",    "gemma", "clip",       "gpt1",         "prefixes",
                                     "symbols", "expression", "bert",  "bert-cased", "short-words",  "words4",
                                     "words5",  "words9",     "t5",    "first-word", "unigram-bytes" };

static tx_tokenizer *open_kind(const char *name)
{
    char path[128];
    tx_tokenizer *t = NULL;
    snprintf(path, sizeof path, "token/json_kinds/%s.json", name);
    ASSERT_OK(tx_tokenizer_open_json(&t, data_path(path)));
    return t;
}

/* One line of the stored ones; twice, because words are remembered. */
static void check_row(const tx_tokenizer *t, const char *name, const char *line)
{
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_object_get(row, "text");
    json_t *want = json_object_get(row, "ids"), *decoded = json_object_get(row, "decoded");
    assert_non_null(row);
    for (int turn = 0; turn < 2; turn++) {
        tx_ids got = { 0 };
        tx_bytes back = { 0 };
        ASSERT_OK(tx_tokenizer_encode(t, json_string_value(text), json_string_length(text), &got));
        bool same = got.n == json_array_size(want);
        for (size_t i = 0; same && i < got.n; i++) same = got.id[i] == json_integer_value(json_array_get(want, i));
        if (!same) fail_msg("%s: other ids for %s", name, line);
        ASSERT_OK(tx_tokenizer_decode(t, got.id, got.n, &back));
        if (decoded && (back.n != json_string_length(decoded) ||
                        (back.n && memcmp(back.data, json_string_value(decoded), back.n) != 0)))
            fail_msg("%s: other text \"%s\" for %s", name, back.data ? back.data : "", line);
        tx_bytes_free(&back);
        tx_ids_free(&got);
    }
    json_decref(row);
}

static void stored_ids(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char path[128], *rest = NULL;
        int n_lines = 0;
        snprintf(path, sizeof path, "token/json_kinds/%s.jsonl", kinds[k]);
        tx_tokenizer *t = open_kind(kinds[k]);
        tx_str file = read_file(data_path(path));
        for (char *line = strtok_r(file.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n_lines++)
            check_row(t, kinds[k], line);
        assert_true(n_lines > 100);
        tx_str_free(&file);
        tx_tokenizer_close(t);
    }
}

/* Any bytes have ids; where the model is given bytes, all of them come back. */
static void not_utf8(void **state)
{
    (void)state;
    static const char text[] = "a\xFF\xFE \x80 caf\xC3 \xE4\xB8 b\xED\xA0\x80";
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tx_tokenizer *t = open_kind(kinds[k]);
        tx_ids ids = { 0 }, shown = { 0 };
        tx_bytes valid = { 0 }, back = { 0 };
        ASSERT_OK(tx_tokenizer_encode(t, text, sizeof text - 1, &ids));
        ASSERT_OK(tx_text_replace_invalid(text, sizeof text - 1, &valid));
        ASSERT_OK(tx_tokenizer_encode(t, valid.data, valid.n, &shown));
        bool bytes = !strcmp(kinds[k], "clip") || !strcmp(kinds[k], "symbols") || !strcmp(kinds[k], "expression");
        if (!bytes) {
            assert_int_equal(ids.n, shown.n);
            assert_memory_equal(ids.id, shown.id, ids.n * sizeof *ids.id);
        } else if (!strcmp(kinds[k], "expression")) {
            ASSERT_OK(tx_tokenizer_decode(t, ids.id, ids.n, &back));
            assert_int_equal(back.n, sizeof text - 1);
            assert_memory_equal(back.data, text, back.n);
        }
        tx_bytes_free(&valid);
        tx_bytes_free(&back);
        tx_ids_free(&ids);
        tx_ids_free(&shown);
        tx_tokenizer_close(t);
    }
}

/* Text without spaces to cut at, longer than what is remembered, and repeated: the same ids in one text and in parts.
 */
static void long_texts(void **state)
{
    (void)state;
    tx_tokenizer *t = open_kind("llama2");
    tx_str text = { 0 };
    tx_ids whole = { 0 }, back = { 0 };
    for (int i = 0; i < 400; i++) ASSERT_OK(tx_str_printf(&text, "%sthe%d\xE4\xB8\xAD", i % 7 ? "" : "  ", i));
    ASSERT_OK(tx_tokenizer_encode(t, text.data, text.len, &whole));
    ASSERT_OK(tx_tokenizer_encode(t, text.data, text.len, &back));
    assert_int_equal(whole.n, back.n);
    assert_memory_equal(whole.id, back.id, back.n * sizeof *back.id);
    tx_ids_free(&whole);
    tx_ids_free(&back);
    tx_str_free(&text);
    tx_tokenizer_close(t);
}

static void other_hashes(void **state)
{
    (void)state;
    char hash[sizeof kinds / sizeof *kinds][33];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        tx_tokenizer *t = open_kind(kinds[k]);
        ASSERT_OK(tx_tokenizer_hash(t, hash[k]));
        for (size_t i = 0; i < k; i++) assert_string_not_equal(hash[i], hash[k]);
        tx_tokenizer_close(t);
    }
}

#define WORDS(more)                                                                                         \
    "{\"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", \"vocab\": " \
    "{\"a\": 0, \"b\": 2}" more "}}"

/* The vocabulary's holes, and words that have no id. */
static void unknown_words(void **state)
{
    (void)state;
    tx_tokenizer *t = NULL;
    tx_ids ids = { 0 };
    tx_bytes text = { 0 };
    ASSERT_OK(tx_tokenizer_open_json(&t, write_text(in_scratch("t.json"), WORDS(", \"unk_token\": \"<unk>\""))));
    ASSERT_OK(tx_tokenizer_encode(t, "b a  b", 6, &ids));
    assert_int_equal(ids.n, 3);
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, ids.n, &text));
    assert_string_equal(text.data, "b a b");
    ASSERT_FAILS(tx_tokenizer_encode(t, "b c", 3, &ids), TX_ERR_ARG, "\"c\" is not in the vocabulary");
    assert_int_equal(ids.n, 3);
    ASSERT_FAILS(tx_tokenizer_decode(t, (int32_t[]){ 1 }, 1, &text), TX_ERR_ARG, "holes");
    tx_tokenizer_close(t);
    ASSERT_OK(tx_tokenizer_open_json(&t, write_text(in_scratch("t.json"), WORDS(", \"unk_token\": \"a\""))));
    ids.n = 0;
    ASSERT_OK(tx_tokenizer_encode(t, "b c", 3, &ids));
    assert_int_equal(ids.id[1], 0);
    tx_tokenizer_close(t);
    tx_ids_free(&ids);
    tx_bytes_free(&text);
}

/* An expression that goes back again and again is stopped. */
static void slow_expression(void **state)
{
    (void)state;
    static const char file[] =
        "{\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"(?:a|b|ab|aa)*$\"}, "
        "\"behavior\": \"Isolated\", \"invert\": false}, \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}, "
        "\"unk_token\": \"a\"}}";
    char text[400];
    tx_tokenizer *t = NULL;
    tx_ids ids = { 0 };
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    ASSERT_OK(tx_tokenizer_open_json(&t, write_text(in_scratch("t.json"), file)));
    ASSERT_FAILS(tx_tokenizer_encode(t, text, sizeof text, &ids), TX_ERR_ARG, "takes too long");
    tx_tokenizer_close(t);
    tx_ids_free(&ids);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char *const some[] = { "llama2", "expression", "short-words", "t5" };
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        tx_status st = TX_ERR_NOMEM;
        char path[128];
        snprintf(path, sizeof path, "token/json_kinds/%s.json", some[k]);
        const char *file = data_path(path);
        for (int n = 0; st; n++) {
            tx_tokenizer *t = NULL;
            allocation_fails_at(n);
            st = tx_tokenizer_open_json(&t, file);
            allocations_succeed();
            assert_true(st == TX_OK || st == TX_ERR_NOMEM);
            tx_tokenizer_close(t);
        }
        tx_tokenizer *t = open_kind(some[k]);
        st = TX_ERR_NOMEM;
        for (int n = 0; st; n++) {
            tx_ids ids = { 0 };
            tx_bytes back = { 0 };
            allocation_fails_at(n);
            st = tx_tokenizer_encode(t, "the cafe\xCC\x81 <x> the \xF0\x9F\x91\x8D", 20, &ids);
            if (!st) st = tx_tokenizer_decode(t, ids.id, ids.n, &back);
            allocations_succeed();
            tx_ids_free(&ids);
            tx_bytes_free(&back);
        }
        tx_tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_ids),    cmocka_unit_test(not_utf8),  cmocka_unit_test(long_texts),
        cmocka_unit_test(other_hashes),  SCRATCH_TEST(unknown_words), SCRATCH_TEST(slow_expression),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
