/* labels: unit golden */
/* SentencePiece models: ids and texts as the library's, files that are damaged, and models built here. */
#include "token_test.h"

#include <jansson.h>

#include "token/protobuf.h"

static tx_tokenizer *open_model(const char *path, tx_sentencepiece_use use, int32_t n_extra_ids)
{
    tx_tokenizer *t = NULL;
    ASSERT_OK(tx_tokenizer_open_sentencepiece(&t, path, use, n_extra_ids));
    return t;
}

static void check_row(const tx_tokenizer *t, json_t *row, const char *line)
{
    json_t *text = json_object_get(row, "text"), *ids = json_object_get(row, "ids");
    json_t *decoded = json_object_get(row, "decoded");
    tx_ids got = { 0 };
    tx_bytes back = { 0 };
    int32_t id[4096];
    size_t n = json_array_size(ids);
    assert_true(n <= 4096);
    for (size_t i = 0; i < n; i++) id[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    if (text) ASSERT_OK(tx_tokenizer_encode(t, json_string_value(text), json_string_length(text), &got));
    if (text && (got.n != n || (n && memcmp(got.id, id, n * sizeof *id)))) fail_msg("other ids for %s", line);
    ASSERT_OK(tx_tokenizer_decode(t, id, n, &back));
    if (back.n != json_string_length(decoded) || (back.n && memcmp(back.data, json_string_value(decoded), back.n)))
        fail_msg("other text for %s: %.*s", line, (int)back.n, back.data);
    tx_ids_free(&got);
    tx_bytes_free(&back);
}

/* Each model's rows follow each other; a second pass finds the words in the cache. */
static void stored_ids(void **state)
{
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        tx_str file = read_file(data_path("token/sp_ids.jsonl"));
        tx_tokenizer *plain = NULL, *marks = NULL;
        char open_name[64] = "";
        int n_lines = 0;
        for (char *line = strtok(file.data, "\n"); line; line = strtok(NULL, "\n"), n_lines++) {
            char path[96];
            json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL);
            const char *name = json_string_value(json_object_get(row, "model"));
            if (strcmp(name, open_name) != 0) {
                tx_tokenizer_close(plain);
                tx_tokenizer_close(marks);
                snprintf(open_name, sizeof open_name, "%s", name);
                snprintf(path, sizeof path, "token/%s.model", name);
                plain = open_model(data_path(path), TX_SENTENCEPIECE_GPT, 0);
                marks = open_model(data_path(path), TX_SENTENCEPIECE_MARKS, 2);
            }
            check_row(json_object_get(row, "marks") ? marks : plain, row, line);
            if (!json_object_get(row, "marks") && json_object_get(row, "text")) check_row(plain, row, line);
            json_decref(row);
        }
        assert_true(n_lines > 500);
        tx_tokenizer_close(plain);
        tx_tokenizer_close(marks);
        tx_str_free(&file);
    }
}

/* ---- the three tokenizers ---- */

static void ends_and_specials(void **state)
{
    (void)state;
    char hex[4][33];
    size_t before, after;
    const char *path = data_path("token/sp-bpe-bytes.model");
    tx_tokenizer *gpt = open_model(path, TX_SENTENCEPIECE_GPT, 0);
    tx_tokenizer *llama = open_model(path, TX_SENTENCEPIECE_LLAMA2, 0);
    tx_tokenizer *marks = open_model(path, TX_SENTENCEPIECE_MARKS, 0);
    tx_tokenizer *extra = open_model(path, TX_SENTENCEPIECE_MARKS, 3);
    int32_t n = tx_tokenizer_vocab_size(gpt);
    assert_int_equal(tx_tokenizer_eod(gpt), 2);
    assert_int_equal(tx_tokenizer_eod(llama), 2);
    assert_int_equal(tx_tokenizer_special(gpt, "</s>"), 2);
    assert_int_equal(tx_tokenizer_special(gpt, "<unk>"), 0);
    assert_int_equal(tx_tokenizer_special(gpt, "the"), -1);
    assert_int_equal(tx_tokenizer_vocab_size(llama), n);
    /* <CLS> <SEP> <EOD> <MASK> <PAD> are new, <s> and </s> the model's */
    assert_int_equal(tx_tokenizer_vocab_size(marks), n + 5);
    assert_int_equal(tx_tokenizer_eod(marks), n + 2);
    assert_int_equal(tx_tokenizer_special(marks, "<PAD>"), n + 4);
    assert_int_equal(tx_tokenizer_special(marks, "<EOS>"), -1);
    assert_int_equal(tx_tokenizer_vocab_size(extra), n + 8);
    assert_int_equal(tx_tokenizer_special(extra, "<extra_id_2>"), n + 7);
    tx_tokenizer_ends(gpt, &before, &after);
    assert_true(before == 0 && after == 0);
    tx_tokenizer_ends(llama, &before, &after);
    assert_true(before == 1 && after == 0);
    tx_tokenizer *all[] = { gpt, llama, marks, extra };
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(tx_tokenizer_hash(all[i], hex[i]));
        for (int k = 0; k < i; k++) assert_string_not_equal(hex[i], hex[k]);
    }
    tx_ids ids = { 0 };
    ASSERT_OK(tx_tokenizer_encode(llama, "", 0, &ids));
    assert_true(ids.n == 1 && ids.id[0] == 1);
    tx_ids_free(&ids);
    for (int i = 0; i < 4; i++) tx_tokenizer_close(all[i]);
}

/* Token by token: blanks stay, and a byte is a byte. */
static void token_by_token(void **state)
{
    (void)state;
    static const char text[] = "Hello  world \xC3\xA9\xE4\xB8\xAD!";
    tx_tokenizer *t = open_model(data_path("token/sp-bpe-bytes.model"), TX_SENTENCEPIECE_GPT, 0);
    tx_ids ids = { 0 };
    tx_bytes out = { 0 }, all = { 0 };
    ASSERT_OK(tx_tokenizer_encode(t, text, strlen(text), &ids));
    for (size_t i = 0; i < ids.n; i++) ASSERT_OK(tx_tokenizer_decode_next(t, i ? ids.id[i - 1] : -1, ids.id[i], &out));
    assert_int_equal(out.data[0], ' ');
    assert_string_equal(out.data + 1, text);
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, ids.n, &all));
    assert_string_equal(all.data, text);
    tx_ids_free(&ids);
    tx_bytes_free(&out);
    tx_bytes_free(&all);
    tx_tokenizer_close(t);
}

/* ---- models built here ---- */

static void put_piece(tx_str *model, const char *piece, float score, int type)
{
    tx_str s = { 0 };
    ASSERT_OK(tx__pb_put_bytes(&s, 1, piece, strlen(piece)));
    ASSERT_OK(tx__pb_put_float(&s, 2, score));
    ASSERT_OK(tx__pb_put_varint(&s, 3, (uint64_t)type));
    ASSERT_OK(tx__pb_put_bytes(model, 1, s.data, s.len));
    tx_str_free(&s);
}

static const char *save_model(tx_str *model)
{
    const char *path = write_file(in_scratch("m.model"), model->data, model->len);
    tx_str_free(model);
    return path;
}

static void assert_refused(tx_str *model, tx_status code, const char *why)
{
    tx_tokenizer *t = NULL;
    ASSERT_FAILS(tx_tokenizer_open_sentencepiece(&t, save_model(model), TX_SENTENCEPIECE_GPT, 0), code, why);
}

static void wrong_models(void **state)
{
    (void)state;
    tx_str m = { 0 };
    put_piece(&m, "a", -1, 1);
    assert_refused(&m, TX_ERR_FORMAT, "has no piece of the type unknown");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "<unk2>", 0, 2);
    assert_refused(&m, TX_ERR_FORMAT, "pieces 0 and 1 are both of the type unknown");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "a", -1, 1);
    put_piece(&m, "a", -2, 1);
    assert_refused(&m, TX_ERR_FORMAT, "pieces 1 and 2 are both \"a\"");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "", -1, 1);
    assert_refused(&m, TX_ERR_FORMAT, "piece 1, \"\", is empty");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "\xff", -1, 1);
    assert_refused(&m, TX_ERR_FORMAT, "is no valid UTF-8");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "a", -1.0f / 0.0f, 1);
    assert_refused(&m, TX_ERR_FORMAT, "has a score that is no number");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "a", -1, 9);
    assert_refused(&m, TX_ERR_FORMAT, "is of no known type");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "<0x41>", 0, 6);
    assert_refused(&m, TX_ERR_FORMAT, "is a byte, but trainer_spec.byte_fallback is false");
    put_piece(&m, "<unk>", 0, 2);
    ASSERT_OK(tx__pb_put_bytes(&m, 2, "\x98\x02\x01", 3));
    assert_refused(&m, TX_ERR_FORMAT, "there is no piece <0x00>");
    put_piece(&m, "<unk>", 0, 2);
    ASSERT_OK(tx__pb_put_bytes(&m, 2, "\x18\x07", 2));
    assert_refused(&m, TX_ERR_UNSUPPORTED, "trainer_spec.model_type is 7");
    put_piece(&m, "<unk>", 0, 2);
    ASSERT_OK(tx__pb_put_varint(&m, 1, 5));
    assert_refused(&m, TX_ERR_FORMAT, "pieces has the wire type 0, not 2");
    put_piece(&m, "<unk>", 0, 2);
    ASSERT_OK(tx__pb_put_varint(&m, 77, 5));
    assert_refused(&m, TX_ERR_UNSUPPORTED, "the model has a field 77, which triax does not know");
    put_piece(&m, "<unk>", 0, 2);
    m.len -= 2;
    assert_refused(&m, TX_ERR_FORMAT, "byte 0: a field is longer than what it is in");
    put_piece(&m, "<unk>", 0, 2);
    ASSERT_OK(tx__pb_put_bytes(&m, 3, "\x12\x05\x04\0\0\0\0", 7));
    assert_refused(&m, TX_ERR_FORMAT, "normalizer_spec.precompiled_charsmap is damaged");
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "a", -1, 1);
    ASSERT_OK(tx__pb_put_bytes(&m, 2, "\x18\x02", 2)); /* BPE */
    ASSERT_OK(tx__pb_put_bytes(&m, 3, "\x18\0", 2));   /* no blank in front */
    ASSERT_OK(tx__pb_put_bytes(&m, 4,
                               "\x0A\x06\x0A\x01"
                               "a\x12\x01"
                               "b",
                               8)); /* a sample: "a" gives "b" */
    assert_refused(&m, TX_ERR_FORMAT, "self_test_data.samples[0], \"a\", gives \"a\", not the expected \"b\"");
    tx_tokenizer *t = NULL;
    ASSERT_FAILS(tx_tokenizer_open_sentencepiece(&t, data_path("token/gpt2-merges.txt"), TX_SENTENCEPIECE_GPT, 0),
                 TX_ERR_FORMAT, "is a merges.txt of byte-level BPE, not a SentencePiece model");
    ASSERT_FAILS(tx_tokenizer_open_json(&t, data_path("token/sp-char.model")), TX_ERR_FORMAT,
                 "is a SentencePiece model, not a tokenizer.json");
}

static void assert_ids(const tx_tokenizer *t, const char *text, size_t n, const int32_t *ids)
{
    tx_ids got = { 0 };
    ASSERT_OK(tx_tokenizer_encode(t, text, strlen(text), &got));
    assert_int_equal(got.n, n);
    assert_memory_equal(got.id, ids, n * sizeof *ids);
    tx_ids_free(&got);
}

/* Bytes that are no UTF-8, which Python's strings cannot hold, count as U+FFFD. */
static void no_utf8(void **state)
{
    (void)state;
    tx_str m = { 0 };
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "a", -1, 1);
    put_piece(&m, "\xEF\xBF\xBD", -2, 1);
    ASSERT_OK(tx__pb_put_bytes(&m, 3, "\x18\0", 2));
    tx_tokenizer *t = open_model(save_model(&m), TX_SENTENCEPIECE_GPT, 0);
    assert_ids(t, "a\xE2\x82z\xFF", 5, (const int32_t[]){ 1, 2, 2, 0, 2 });
    assert_ids(t, "zzz", 1, (const int32_t[]){ 0 });
    tx_tokenizer_close(t);
}

/* The sum is taken off at -100000 and ways are compared as floats: the same word is cut in two ways in one text, as by
 * the library. Cached and not. */
static void far_into_a_text(void **state)
{
    (void)state;
    tx_str m = { 0 }, text = { 0 };
    tx_ids once = { 0 }, again = { 0 };
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m,
              "\xE2\x96\x81"
              "a",
              -1.2f, 1);
    put_piece(&m, "b", -2.3f, 1);
    put_piece(&m,
              "\xE2\x96\x81"
              "ab",
              -2.0987f, 1);
    put_piece(&m, "bc", -3.1f, 1);
    put_piece(&m, "c", -2.2f, 1);
    tx_tokenizer *t = open_model(save_model(&m), TX_SENTENCEPIECE_GPT, 0);
    for (int i = 0; i < 60000; i++) ASSERT_OK(tx_str_puts(&text, " abc"));
    ASSERT_OK(tx_tokenizer_encode(t, text.data, text.len, &once));
    ASSERT_OK(tx_tokenizer_encode(t, text.data, text.len, &again));
    assert_true(once.n == 120000 && again.n == once.n && !memcmp(once.id, again.id, once.n * sizeof *once.id));
    int ways[2] = { 0 };
    for (size_t i = 0; i < once.n; i += 2) ways[once.id[i] == 3]++;
    assert_true(ways[0] == 27441 && ways[1] == 32559); /* sentencepiece 0.2.3's numbers */
    tx_ids_free(&once);
    tx_ids_free(&again);
    tx_str_free(&text);
    tx_tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_ids),
        cmocka_unit_test(ends_and_specials),
        cmocka_unit_test(token_by_token),
        SCRATCH_TEST(wrong_models),
        SCRATCH_TEST(no_utf8),
        SCRATCH_TEST(far_into_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
