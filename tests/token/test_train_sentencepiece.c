/* labels: unit */
/* Models in SentencePiece's form, learned from the small corpus: they do not depend on the order of the text or on who
 * counts it, and their files give every text back. */
#include "token_test.h"

#include <jansson.h>

enum { N_TOKENS = 700 };

/* Every document from `first` on, in steps, also backwards. */
static void feed(tx_vocab_trainer *t, int first, int step)
{
    tx_str file = read_file(data_path("tiny/tiny-corpus.jsonl"));
    char *lines[400];
    int n = 0;
    for (char *line = strtok(file.data, "\n"); line && n < 400; line = strtok(NULL, "\n")) lines[n++] = line;
    for (int i = step > 0 ? first : n - 1 - first; i >= 0 && i < n; i += step) {
        json_t *row = json_loads(lines[i], 0, NULL), *text = json_object_get(row, "text");
        ASSERT_OK(tx_vocab_trainer_feed(t, json_string_value(text), json_string_length(text)));
        json_decref(row);
    }
    tx_str_free(&file);
}

static tx_vocab_trainer *create(tx_vocab_kind kind)
{
    static const char *const special[] = { "<|user|>" };
    const tx_vocab_opts o = {
        .kind = kind, .vocab_size = N_TOKENS, .min_frequency = 2, .special = special, .n_special = 1
    };
    tx_vocab_trainer *t = NULL;
    ASSERT_OK(tx_vocab_trainer_create(&t, &o));
    return t;
}

static tx_str learn(tx_vocab_trainer *t)
{
    ASSERT_OK(tx_vocab_trainer_finish(t));
    assert_int_equal(tx_vocab_trainer_size(t), N_TOKENS);
    ASSERT_OK(tx_vocab_trainer_save(t, in_scratch(".")));
    tx_vocab_trainer_free(t);
    tx_str json = read_file(in_scratch("tokenizer.json"));
    assert_true(json.len > 1000);
    tx_str_free(&json);
    return read_file(in_scratch("tokenizer.model"));
}

static void check_kind(tx_vocab_kind kind)
{
    static const char text[] = "Two  men, 12 boats \xF0\x9F\x98\x80\n\tand no\xC3\xAB.";
    tx_vocab_trainer *all = create(kind), *own = create(kind), *back = create(kind);
    feed(all, 0, 2);
    feed(own, 1, 2);
    feed(back, 0, -1);
    ASSERT_OK(tx_vocab_trainer_absorb(all, own));
    tx_vocab_trainer_free(own);
    tx_str a = learn(all), b = learn(back);
    assert_true(a.len == b.len && !memcmp(a.data, b.data, a.len));
    tx_str_free(&a);
    tx_str_free(&b);

    tx_tokenizer *t = NULL;
    tx_ids ids = { 0 };
    tx_bytes out = { 0 };
    ASSERT_OK(tx_tokenizer_open_sentencepiece(&t, in_scratch("tokenizer.model"), TX_SENTENCEPIECE_LLAMA2, 0));
    assert_int_equal(tx_tokenizer_vocab_size(t), N_TOKENS);
    assert_int_equal(tx_tokenizer_special(t, "<|user|>"), 3);
    ASSERT_OK(tx_tokenizer_encode(t, text, strlen(text), &ids));
    assert_true(ids.n < strlen(text) && ids.id[0] == 1);
    ASSERT_OK(tx_tokenizer_decode(t, ids.id, ids.n, &out));
    assert_string_equal(out.data, text);
    tx_ids_free(&ids);
    tx_bytes_free(&out);
    tx_tokenizer_close(t);
}

static void bpe(void **state)
{
    (void)state;
    check_kind(TX_VOCAB_SENTENCEPIECE_BPE);
}

static void unigram(void **state)
{
    (void)state;
    check_kind(TX_VOCAB_SENTENCEPIECE_UNIGRAM);
}

static void too_small(void **state)
{
    (void)state;
    const tx_vocab_opts o = { .kind = TX_VOCAB_SENTENCEPIECE_UNIGRAM, .vocab_size = 265, .min_frequency = 2 };
    tx_vocab_trainer *t = NULL;
    ASSERT_OK(tx_vocab_trainer_create(&t, &o));
    feed(t, 0, 1);
    ASSERT_FAILS(tx_vocab_trainer_finish(t), TX_ERR_ARG, "vocabulary size 265 is too small: the text has");
    tx_vocab_trainer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { SCRATCH_TEST(bpe), SCRATCH_TEST(unigram), cmocka_unit_test(too_small) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
