/* labels: unit. A text with [MASK] in it as a sample. */
#include "support.h"

#include "api/masked_text.h"

static int open_tokenizer(void **state)
{
    tx_tokenizer *tok;
    ASSERT_OK(tx_tokenizer_open_wordpiece(&tok, data_path("token/bert-base-uncased-vocab.txt"), true));
    *state = tok;
    return 0;
}

static int close_tokenizer(void **state)
{
    tx_tokenizer_close(*state);
    return 0;
}

enum { CLS = 101, SEP = 102, MASK = 103, HELLO = 7592, WORLD = 2088, COMMA = 1010 };

/* Ids from 1 on; 0 ends them. */
static const struct text {
    const char *text;
    int32_t id[12];
    int64_t n_first, n_masks;
} texts[] = {
    { "Hello [MASK]", { CLS, HELLO, MASK, SEP }, 4, 1 },
    { "[MASK][MASK], world", { CLS, MASK, MASK, COMMA, WORLD, SEP }, 6, 2 },
    { "[CLS] hello [MASK] [SEP]", { CLS, HELLO, MASK, SEP }, 4, 1 },
    { "hello [MASK] [SEP] world", { CLS, HELLO, MASK, SEP, WORLD, SEP }, 4, 1 },
    { "hello[SEP][MASK] [SEP]", { CLS, HELLO, SEP, MASK, SEP }, 3, 1 },
    { "hello [mask [MASK", { CLS, HELLO, 1031, 7308, 1031, 7308, SEP }, 7, 0 },
    { "", { CLS, SEP }, 2, 0 },
};

static void marks_become_ids(void **state)
{
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        const struct text *x = &texts[k];
        tx_masked_text t = { 0 };
        tx_status st = tx__masked_text_read(&t, *state, x->text, strlen(x->text));
        if (!x->text[0]) { /* no word at all is an empty segment */
            assert_int_equal(st, TX_ERR_ARG);
            continue;
        }
        ASSERT_OK(st);
        size_t n = 0;
        while (x->id[n]) n++;
        assert_int_equal(t.ids.n, n);
        assert_memory_equal(t.ids.id, x->id, n * sizeof *x->id);
        assert_int_equal(t.n_first, x->n_first);
        assert_int_equal(t.n_masks, x->n_masks);
        tx__masked_text_free(&t);
    }
}

static void row_has_types_and_labels(void **state)
{
    enum { S = 8 };
    const int32_t want[3 * S + 2] = { CLS, HELLO, MASK, SEP, WORLD, SEP, 0,  0, /* tokens */
                                      0,   0,     0,    0,   1,     1,   0,  0, /* types */
                                      -1,  -1,    0,    -1,  -1,    -1,  -1, -1, 6, 0 };
    const char *text = "hello [MASK] [SEP] world";
    int32_t row[3 * S + 2];
    tx_masked_text t = { 0 };
    memset(row, 77, sizeof row);
    ASSERT_OK(tx__masked_text_read(&t, *state, text, strlen(text)));
    tx__masked_text_put(&t, MASK, tx_bert_ids_of(row, S), S);
    assert_memory_equal(row, want, sizeof want);
    tx__masked_text_free(&t);
}

static void what_is_no_sample_is_refused(void **state)
{
    static const char *const bad[][2] = {
        { "hello [CLS] [MASK]", "[CLS] is the first word" },
        { "[SEP] [MASK]", "a segment has no word" },
        { "[MASK] [SEP] [SEP]", "a segment has no word" },
        { "[MASK] [SEP] hello [SEP] world", "more than two segments" },
        { "[MASK] [SEP] hello [SEP] world [SEP]", "more than two segments" },
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        tx_masked_text t = { 0 };
        ASSERT_FAILS(tx__masked_text_read(&t, *state, bad[k][0], strlen(bad[k][0])), TX_ERR_ARG, bad[k][1]);
        assert_null(t.ids.id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_become_ids),
        cmocka_unit_test(row_has_types_and_labels),
        cmocka_unit_test(what_is_no_sample_is_refused),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
