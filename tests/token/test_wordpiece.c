/* labels: unit golden */
/* Ids equal to Megatron's, vocab.txt is checked, and text is put together again as Megatron does. */
#include "token_test.h"

#define BASIC "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

static tx_tokenizer *open_bert(void)
{
    tx_tokenizer *t = NULL;
    ASSERT_OK(tx_tokenizer_open_wordpiece(&t, data_path("token/bert-base-uncased-vocab.txt"), true));
    return t;
}

static tx_tokenizer *open_text(const char *vocab, bool lower_case)
{
    tx_tokenizer *t = NULL;
    ASSERT_OK(tx_tokenizer_open_wordpiece(&t, write_text(in_scratch("vocab.txt"), vocab), lower_case));
    return t;
}

/* ---- golden ---- */

typedef struct golden {
    tx_tokenizer *t;
    json_t *text; /* id -> text */
    int n_ids, n_megatron;
} golden;

static const char *key_of(json_t *line)
{
    static char key[32];
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(line, "id")));
    return key;
}

static void keep_text(json_t *line, void *user)
{
    golden *g = user;
    assert_int_equal(json_object_set(g->text, key_of(line), json_object_get(line, "text")), 0);
}

static void check_case(json_t *line, void *user)
{
    golden *g = user;
    tx_ids ids = { 0 };
    json_t *text = json_object_get(g->text, key_of(line)), *want = json_object_get(line, "megatron");
    g->n_megatron += want != NULL;
    if (!want) want = json_object_get(line, "ids"); /* where Megatron's are Hugging Face's */
    ASSERT_OK(tx_tokenizer_encode(g->t, json_string_value(text), json_string_length(text), &ids));
    if (ids.n != json_array_size(want))
        fail_msg("case %s: %zu ids instead of %zu", key_of(line), ids.n, json_array_size(want));
    for (size_t i = 0; i < ids.n; i++)
        if (ids.id[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("case %s: id %zu is %d", key_of(line), i, ids.id[i]);
    g->n_ids += (int)ids.n;
    tx_ids_free(&ids);
}

static void golden_ids(void **state)
{
    golden g = { open_bert(), json_object(), 0, 0 };
    (void)state;
    assert_int_equal(for_each_json_line(data_path("token/bert_cases.jsonl"), keep_text, &g), 359);
    assert_int_equal(for_each_json_line(data_path("token/bert_ids.jsonl"), check_case, &g), 359);
    assert_int_equal(g.n_megatron, 10);
    assert_true(g.n_ids > 3000);
    json_decref(g.text);
    tx_tokenizer_close(g.t);
}

static void special_ids(void **state)
{
    tx_tokenizer *t = open_bert();
    (void)state;
    assert_int_equal(tx_tokenizer_vocab_size(t), 30524);
    assert_int_equal(tx_tokenizer_special(t, "[PAD]"), 0);
    assert_int_equal(tx_tokenizer_special(t, "[UNK]"), 100);
    assert_int_equal(tx_tokenizer_special(t, "[CLS]"), 101);
    assert_int_equal(tx_tokenizer_special(t, "[SEP]"), 102);
    assert_int_equal(tx_tokenizer_special(t, "[MASK]"), 103);
    assert_int_equal(tx_tokenizer_special(t, "[BOS]"), 30522);
    assert_int_equal(tx_tokenizer_special(t, "[EOS]"), 30523);
    assert_int_equal(tx_tokenizer_eod(t), 30523);
    assert_int_equal(tx_tokenizer_special(t, "the"), -1);
    tx_tokenizer_close(t);

    t = open_text(BASIC "[EOS]\na\n", true); /* one of them is there */
    assert_int_equal(tx_tokenizer_vocab_size(t), 8);
    assert_int_equal(tx_tokenizer_eod(t), 5);
    assert_int_equal(tx_tokenizer_special(t, "[BOS]"), 7);
    tx_tokenizer_close(t);

    t = open_gpt2();
    assert_int_equal(tx_tokenizer_special(t, "<|endoftext|>"), 50256);
    assert_int_equal(tx_tokenizer_special(t, "[CLS]"), -1);
    tx_tokenizer_close(t);
}

/* ---- words ---- */

/* The text's tokens with blanks between them: by what decode gives before it tidies up, one id at a time. */
static void assert_tokens(const tx_tokenizer *t, const char *text, size_t n, const char *want)
{
    tx_ids ids = { 0 };
    tx_bytes got = { 0 };
    char all[4096] = "";
    ASSERT_OK(tx_tokenizer_encode(t, text, n, &ids));
    for (size_t i = 0; i < ids.n; i++) {
        got.n = 0;
        ASSERT_OK(tx_tokenizer_decode(t, ids.id + i, 1, &got));
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? " " : "", got.data);
    }
    assert_string_equal(all, want);
    tx_ids_free(&ids);
    tx_bytes_free(&got);
}

#define TOKENS(t, text, want) assert_tokens(t, text, sizeof(text) - 1, want)

#define LETTERS BASIC "a\n##a\nA\nb\n##b\ni\nσ\n##σ\nς\n##ς\n.\n'\n$\n中\né\n\xEF\x80\x80\n𝅘\n##𝅥\n##𝅭\n"

static void words(void **state)
{
    tx_tokenizer *t = open_text(LETTERS, true);
    (void)state;
    TOKENS(t, "", "");
    TOKENS(t, " \n\t", "");
    TOKENS(t,
           "a\0b\x01\xEF\xBF\xBD\xE2\x80\x8D\xC2\xAD"
           "a",
           "a ##b ##a"); /* NUL, control, U+FFFD, ZWJ, soft hyphen: as if they were not there */
    TOKENS(t,
           "a\xFF\xC3 b\xED\xA0\x80"
           "a\xF0\x9F",
           "a b ##a"); /* neither are bytes that are no UTF-8 */
    TOKENS(t,
           "a\xC2\xA0"
           "b\xE3\x80\x80"
           "a\xE2\x80\xA8"
           "b\xE2\x80\xA9"
           "a\x1C"
           "b",
           "a b a b a ##b");
    TOKENS(t, "a.b$a'", "a . b $ a '");
    TOKENS(t, "a中b", "a 中 b");
    TOKENS(t,
           "Á\xCC\x81"
           "B",
           "a ##b");                           /* accents go, composed or not */
    TOKENS(t, "İ I", "i i");                   /* the two-character lower case of U+0130 */
    TOKENS(t, "\xEF\x80\x80", "\xEF\x80\x80"); /* private use is kept */
    TOKENS(t, "[MASK]", "[UNK] [UNK] [UNK]");  /* plain text */
    TOKENS(t, "c ac", "[UNK] [UNK]");          /* all of a word or nothing */
    /* sigma: final after a cased letter and before none; apostrophes and accents do not count, cut words do */
    TOKENS(t, "Σ AΣ AΣA A'Σ A'Σ' AΣ'A", "σ a ##ς a ##σ ##a a ' ς a ' ς ' a ##σ ' a");
    TOKENS(t,
           "A\xCC\x81Σ\xCC\x81 A中Σ AΣ中A A\x01Σ\x01"
           "A",
           "a ##ς a 中 σ a ##ς 中 a a ##σ ##a");
    /* U+1D165 (class 216) comes before U+1D16D (226) whichever is first */
    TOKENS(t, "\U0001D158\U0001D165\U0001D16D \U0001D158\U0001D16D\U0001D165", "𝅘 ##𝅥 ##𝅭 𝅘 ##𝅥 ##𝅭");
    tx_tokenizer_close(t);

    t = open_text(LETTERS, false);
    TOKENS(t, "A a é Σ AΣ a中b.", "A a é [UNK] [UNK] a 中 b .");
    TOKENS(t, "\U0001D158\U0001D16D\U0001D165", "𝅘 ##𝅭 ##𝅥"); /* as it comes */
    tx_tokenizer_close(t);
}

static void long_words(void **state)
{
    enum { HUGE_WORD = 1000000 };
    tx_tokenizer *t = open_text(LETTERS, true);
    tx_ids ids = { 0 };
    char *text = malloc(HUGE_WORD);
    (void)state;
    memset(text, 'a', HUGE_WORD);
    ASSERT_OK(tx_tokenizer_encode(t, text, 200, &ids));
    assert_int_equal(ids.n, 200);
    ids.n = 0;
    ASSERT_OK(tx_tokenizer_encode(t, text, 201, &ids));
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.id[0], 1);
    text[HUGE_WORD - 2] = ' ';
    ids.n = 0;
    ASSERT_OK(tx_tokenizer_encode(t, text, HUGE_WORD, &ids));
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.id[1], 5);
    for (size_t i = 0; i + 1 < HUGE_WORD; i += 2)
        memcpy(text + i, i % 4 ? "Σ" : "''", 2); /* linear: see no_cased_follows */
    ids.n = 0;
    ASSERT_OK(tx_tokenizer_encode(t, text, HUGE_WORD, &ids));
    assert_int_equal(ids.n, HUGE_WORD / 4 * 3);
    free(text);
    tx_ids_free(&ids);
    tx_tokenizer_close(t);
}

/* ---- ids to text ---- */

static void decode(void **state)
{
    tx_tokenizer *t = open_bert();
    tx_ids ids = { 0 };
    tx_bytes out = { 0 };
    const char *text = "[CLS] Unbelievably, it 's the dog' s \"do n't\" . I 've, we ' re!";
    (void)state;
    ASSERT_OK(tx_tokenizer_encode(t, text, strlen(text), &ids));
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, ids.n, &out));
    assert_string_equal(out.data, "[ cls ] unbelievably, it's the dog's \" don't \". i've, we're!");
    int32_t some[] = { 101, 2026, 2075, 102, 0 }; /* special tokens are spelled out */
    out.n = 0;
    ASSERT_OK(tx_tokenizer_decode(t, some, 5, &out));
    assert_string_equal(out.data, "[CLS] mying [SEP] [PAD]");
    ASSERT_OK(tx_tokenizer_decode(t, some + 2, 1, &out)); /* appends; nothing before it to join */
    assert_string_equal(out.data, "[CLS] mying [SEP] [PAD]##ing");
    ASSERT_OK(tx_tokenizer_decode(t, some, 0, &out));
    assert_string_equal(out.data, "[CLS] mying [SEP] [PAD]##ing");
    some[1] = 30524;
    ASSERT_FAILS(tx_tokenizer_decode(t, some, 5, &out), TX_ERR_ARG, "ids are 0 to 30523");
    tx_ids_free(&ids);
    tx_bytes_free(&out);
    tx_tokenizer_close(t);
}

/* ---- vocab.txt ---- */

static void vocab_files(void **state)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        { "", "is empty; a WordPiece vocabulary has one token per line" },
        { "\n", ":1: is empty" },
        { BASIC "a\n \nb\n", ":7: is empty" },
        { BASIC "a\nb\na\n", ":8: is the same token as line 6" },
        { BASIC "a\nb\n\xC2\xA0 a \n", ":8: is the same token as line 6" },
        { BASIC "a\nb\xFF\n", ":7: is not UTF-8 at byte 2" },
        { "[PAD]\n[UNK]\na\n[SEP]\n", "has no [CLS], [MASK], which" },
        { "{\"a\": 1}", "has no [PAD], [UNK], [CLS], [SEP], [MASK]" },
        { "\xEF\xBB\xBF" BASIC, "has no [PAD], which" },
    };
    tx_tokenizer *t = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *path = write_text(in_scratch("vocab.txt"), bad[i].text);
        ASSERT_FAILS(tx_tokenizer_open_wordpiece(&t, path, true), TX_ERR_FORMAT, bad[i].error);
        ASSERT_CONTAINS(tx_last_error(), "vocab.txt");
        assert_null(t);
    }
    ASSERT_FAILS(tx_tokenizer_open_wordpiece(&t, in_scratch("none"), true), TX_ERR_NOTFOUND, "none");
    t = open_text("[PAD]\r\n[UNK]\r[CLS]\n[SEP]\n[MASK]\r\na", true); /* any line ends, or none at the end */
    assert_int_equal(tx_tokenizer_vocab_size(t), 8);
    TOKENS(t, "A b", "a [UNK]");
    tx_tokenizer_close(t);
}

static void out_of_memory(void **state)
{
    const char *path = write_text(in_scratch("vocab.txt"), LETTERS);
    tx_status st = TX_ERR_NOMEM;
    int64_t n = 0;
    (void)state;
    for (; st; n++) {
        tx_tokenizer *t = NULL;
        tx_ids ids = { 0 };
        tx_bytes out = { 0 };
        allocation_fails_at(n);
        st = tx_tokenizer_open_wordpiece(&t, path, true);
        if (!st) st = tx_tokenizer_encode(t, "ab ΑΣ", 7, &ids);
        if (!st) st = tx_tokenizer_decode(t, ids.id, ids.n, &out);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
        tx_tokenizer_close(t);
        tx_ids_free(&ids);
        tx_bytes_free(&out);
        assert_true(n < 100);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_ids), SCRATCH_TEST(special_ids), SCRATCH_TEST(words),         SCRATCH_TEST(long_words),
        cmocka_unit_test(decode),     SCRATCH_TEST(vocab_files), SCRATCH_TEST(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
