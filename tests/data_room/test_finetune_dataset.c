/* labels: unit golden */
/* Rows of conversations: what is written and read again is what TRL has of each, packed or alone, in another order each
 * epoch. */
#include "data/finetune_dataset.h"
#include "support.h"

enum { S = 256, N = 15 }; /* the conversations of the stored ones that are prompts and completions */

static void config_of(tx_config *cfg, bool packed)
{
    *cfg = (tx_config){ .seq_length = S,
                        .seed = 5,
                        .finetune_packing = packed,
                        .tokenizer_type = TX_TOKENIZER_HF,
                        .tokenizer_model = (char *)data_path("finetune/tokenizer.json") };
}

/* The stored prompts and completions as a file, and what is expected of them. */
static const char *take_prompts(json_t **expected)
{
    tx_str all = read_file(data_path("finetune/conversations.jsonl")), some = { 0 };
    json_error_t e;
    *expected = json_array();
    FILE *f = fopen(data_path("finetune/expected.jsonl"), "r");
    assert_non_null(f);
    for (char *at = all.data, *end; (end = strchr(at, '\n')); at = end + 1) {
        json_t *one = json_loadf(f, JSON_DISABLE_EOF_CHECK, &e);
        assert_non_null(one);
        if (json_is_null(json_object_get(one, "template"))) {
            ASSERT_OK(tx_str_append(&some, at, (size_t)(end - at + 1)));
            json_array_append(*expected, one);
        }
        json_decref(one);
    }
    fclose(f);
    const char *path = write_file(in_scratch("prompts.jsonl"), some.data, some.len);
    tx_str_free(&all);
    tx_str_free(&some);
    return path;
}

static tx_status make(const char *prefix, const char *file, const tx_config *cfg)
{
    return tx_finetune_make(prefix, &file, 1, cfg);
}

typedef struct opened {
    void *data;
    const void *set;
} opened;

static opened open_set(const char *prefix, const tx_config *cfg)
{
    const tx_samples *kind = &tx_finetune_samples;
    const int64_t n[TX_N_SPLITS] = { 1, 0, 0 };
    tx_data_set its = { .path = (char *)prefix, .range = "0:1" };
    tx_data_group g = { .split = TX_SPLIT_TRAIN, .set = &its, .n = 1 };
    const tx_dataset_request from = {
        .cfg = cfg, .group = &g, .set = &its, .n_samples = n, .vocab_size = 521, .eod = 511
    };
    opened o;
    ASSERT_OK(kind->open(&o.data, &from));
    o.set = kind->split(o.data, TX_SPLIT_TRAIN);
    assert_non_null(o.set);
    assert_null(kind->split(o.data, TX_SPLIT_VALID));
    return o;
}

/* Which of the expected conversations begins at place[0], and its tokens; a label is the next token, if that counts. */
static int find(const json_t *expected, const tx_finetune_place *place, int64_t n)
{
    for (int i = 0; i < N; i++) {
        const json_t *e = json_array_get(expected, (size_t)i), *ids = json_object_get(e, "ids"),
                     *mask = json_object_get(e, "mask");
        bool same = json_array_size(ids) == (size_t)n;
        for (size_t k = 0; same && k < (size_t)n; k++) {
            bool counts = k + 1 < (size_t)n && json_integer_value(json_array_get(mask, k + 1));
            json_int_t next = counts ? json_integer_value(json_array_get(ids, k + 1)) : -1;
            same = place[k].id == json_integer_value(json_array_get(ids, k)) && place[k].label == next &&
                   place[k].position == (int32_t)k;
        }
        if (same) return i;
    }
    return -1;
}

/* Marks the conversations of sample i in seen; what is left of the row is padding. */
static void see_row(const opened *o, const json_t *expected, int64_t i, int *seen)
{
    static int32_t row[3 * S], scratch[S];
    const tx_finetune_place *place = (const tx_finetune_place *)row;
    tx_sample_piece piece[N];
    ASSERT_OK(tx_finetune_samples.get(o->set, scratch, row, i));
    int64_t n = tx_finetune_samples.pieces(o->set, piece, N, i), at = 0;
    for (int64_t k = 0; k < n; at += piece[k++].n_tokens) {
        int which = find(expected, place + at, piece[k].n_tokens);
        if (which < 0) fail_msg("sample %lld: piece %lld is no conversation", (long long)i, (long long)k);
        seen[which]++;
    }
    for (int64_t k = at; k < S; k++) {
        assert_int_equal(place[k].id, 511);
        assert_int_equal(place[k].label, -1);
        assert_int_equal(place[k].position, k - at);
    }
}

static void rows_hold_every_conversation_once_an_epoch(void **state)
{
    (void)state;
    json_t *expected;
    const char *file = take_prompts(&expected);
    assert_int_equal(json_array_size(expected), N);
    for (int packed = 0; packed < 2; packed++) {
        tx_config cfg;
        config_of(&cfg, packed);
        const char *prefix = in_scratch("rows%d", packed);
        ASSERT_OK(make(prefix, file, &cfg));
        opened o = open_set(prefix, &cfg);
        int64_t n = tx_finetune_samples.len(o.set), again;
        ASSERT_OK(tx_finetune_rows(prefix, &again));
        assert_int_equal(n, again);
        if (packed)
            assert_in_range(n, 2, 5);
        else
            assert_int_equal(n, N);
        for (int epoch = 0; epoch < 3; epoch++) {
            int seen[N] = { 0 };
            for (int64_t i = 0; i < n; i++) see_row(&o, expected, epoch * n + i, seen);
            for (int i = 0; i < N; i++) assert_int_equal(seen[i], 1);
        }
        tx_finetune_samples.close(o.data);
    }
    json_decref(expected);
}

static void a_row_that_is_too_short_is_refused(void **state)
{
    (void)state;
    json_t *expected;
    const char *file = take_prompts(&expected);
    tx_config cfg;
    config_of(&cfg, true);
    cfg.seq_length = 24;
    ASSERT_FAILS(make(in_scratch("short"), file, &cfg), TX_ERR_FORMAT,
                 "tokens, more than a row has (--seq-length 24): lengthen rows, or cut it with --finetune-truncate");
    ASSERT_CONTAINS(tx_last_error(), "prompts.jsonl: line ");
    const char *text = write_file(in_scratch("text.jsonl"), "hello\n", 6);
    ASSERT_FAILS(make(in_scratch("text"), text, &cfg), TX_ERR_FORMAT, "text.jsonl: line 1: does not begin with {");
    text = write_file(in_scratch("none.jsonl"), "", 0);
    ASSERT_FAILS(make(in_scratch("none"), text, &cfg), TX_ERR_FORMAT, "none.jsonl: has no conversation");
    json_decref(expected);
}

static void all_tokens_count_if_asked(void **state)
{
    (void)state;
    const char line[] = "{\"prompt\": \"one two\", \"completion\": \" three\"}\n";
    static int32_t row[3 * S], scratch[S];
    tx_config cfg;
    config_of(&cfg, true);
    cfg.loss_on_all_tokens = true;
    ASSERT_OK(make(in_scratch("all"), write_file(in_scratch("all.jsonl"), line, strlen(line)), &cfg));
    opened o = open_set(in_scratch("all"), &cfg);
    ASSERT_OK(tx_finetune_samples.get(o.set, scratch, row, 0));
    int64_t n = 0;
    for (const tx_finetune_place *p = (const tx_finetune_place *)row; p[n].label >= 0; n++)
        assert_int_equal(p[n].label, p[n + 1].id);
    assert_in_range(n, 4, 20);
    tx_finetune_samples.close(o.data);
}

static void no_memory_is_an_error(void **state)
{
    (void)state;
    const char line[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": "
        "\"yes\"}]}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    const char *file = write_file(in_scratch("m.jsonl"), line, strlen(line)), *prefix = in_scratch("m");
    tx_config cfg;
    tx_status st = TX_ERR_NOMEM;
    config_of(&cfg, true);
    cfg.chat_template = "zephyr";
    for (int64_t n = 0; st; n++) {
        assert_true(n < 5000);
        allocation_fails_at(n);
        st = make(prefix, file, &cfg);
        allocations_succeed();
        if (st) assert_int_equal(st, TX_ERR_NOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(rows_hold_every_conversation_once_an_epoch),
        SCRATCH_TEST(a_row_that_is_too_short_is_refused),
        SCRATCH_TEST(all_tokens_count_if_asked),
        SCRATCH_TEST(no_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
