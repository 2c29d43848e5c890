/* labels: golden unit */
/* Scores against logits taken one position at a time; tasks in parts; what a result is made of. */
#include "../infer/trained_model.h"
#include "eval/task.h"

enum { N = 40, MAX_LEN = 96 };

static struct {
    tx_decoder *d;
    tx_tokenizer *tok;
} m;

static int open_model(void **state)
{
    trained_model_setup(state);
    m.d = trained_decoder(1, MAX_LEN);
    ASSERT_OK(tx_tokenizer_open_gpt2(&m.tok, data_path("tiny/tiny-vocab.json"), data_path("tiny/tiny-merges.txt")));
    return 0;
}

static int close_model(void **state)
{
    tx_tokenizer_close(m.tok);
    tx_decoder_destroy(m.d);
    return trained_model_teardown(state);
}

/* By hand, in fp64 and with sorting by counting. */
static void check_score(const tx_token_score *got, const float *logits, int32_t token, double bound)
{
    double sum = 0;
    int64_t above = 0;
    bool near = false;
    for (int v = 0; v < VOCAB; v++) {
        sum += exp((double)logits[v]);
        above += logits[v] > logits[token] || (logits[v] == logits[token] && v < token);
        near = near || (v != token && fabs((double)logits[v] - (double)logits[token]) < 1e-4);
    }
    ASSERT_NEAR(got->logprob, (double)logits[token] - log(sum), bound, "log-probability");
    if (!near) assert_int_equal(got->rank, above + 1);
    if (got->rank == 1) assert_int_equal(got->top, token);
}

static void against_steps(void **state)
{
    (void)state;
    int32_t token[N];
    tx_token_score all[N - 1], some[N - 7], again[N - 7];
    for (int i = 0; i < N; i++) token[i] = (i * 37 + 11) % 500;
    ASSERT_OK(tx_score_tokens(m.d, token, N, 1, 0, all));
    assert_int_equal(tx_decoder_length(m.d, 0), N - 1); /* the last one is not put in */
    ASSERT_OK(tx_score_tokens(m.d, token, N, 7, 0, some));
    ASSERT_OK(tx_score_tokens(m.d, token, N, 7, 5, again)); /* five of them are there */
    tx_decoder_truncate(m.d, 0, 0);
    for (int i = 1; i < N; i++) {
        const float *logits;
        int64_t stride;
        ASSERT_OK(tx_decoder_step(m.d, &(int){ 0 }, &token[i - 1], 1, &logits, &stride));
        check_score(&all[i - 1], logits, token[i], 1e-5);
        if (i < 7) continue;
        check_score(&some[i - 7], logits, token[i], 1e-5);
        check_score(&again[i - 7], logits, token[i], 1e-5);
    }
}

static void ranks_of_equals_and_of_nothing(void **state)
{
    (void)state;
    float logits[4] = { 1, 3, 3, -INFINITY };
    assert_int_equal(tx_token_score_of(logits, 4, 1).rank, 1);
    assert_int_equal(tx_token_score_of(logits, 4, 2).rank, 2);
    assert_int_equal(tx_token_score_of(logits, 4, 0).rank, 3);
    assert_true(tx_token_score_of(logits, 4, 3).logprob == -INFINITY);
    ASSERT_NEAR(tx_token_score_of(logits, 4, 1).logprob, -log(2 + exp(-2)), 1e-7, "of two equals");
    logits[0] = NAN;
    for (int32_t v = 0; v < 4; v++) assert_int_equal(tx_token_score_of(logits, 4, v).rank, 4);
}

static const char *const example[TX_TASK_CHOICE + 1] = {
    [TX_TASK_TEXT] =
        "And it came to pass, that after we were gotten from them, and had launched, we came with a straight course. ",
    [TX_TASK_WIKITEXT103] =
        "And it came to pass , that after we were gotten from them . And had launched @-@ we came with a course . ",
    [TX_TASK_LAMBADA] =
        "{\"text\": \"the king said unto him\"}\n{\"text\": \"and so it was\"}\n{\"text\": \"And so, I have so\"}\n",
    [TX_TASK_CHOICE] = ("{\"context\": \"the king\", \"choices\": [\"said unto\", \"zq\"], \"answer\": 0}\n"
                        "{\"context\": \"the king\", \"choices\": [\"zq\", \"xzq\", \"was the\"], \"answer\": 0}\n"),
};

/* Every n-th item on each of n ranks is the whole. */
static void parts_add_up(void **state)
{
    (void)state;
    for (int kind = TX_TASK_TEXT; kind <= TX_TASK_CHOICE; kind++) {
        tx_task t;
        tx_task_opts o = { .kind = (enum tx_task_kind)kind,
                           .seq_length = 16,
                           .overlap = 4,
                           .file = write_text(in_scratch("f"), example[kind]) };
        tx_task_sums all, part, sum = { 0 };
        log_begin();
        ASSERT_OK(tx_task_open(&t, &o, m.tok));
        log_end();
        ASSERT_OK(tx_task_run(&t, m.d, 0, 1, &all, NULL));
        for (int i = 0; i < 5; i++) {
            ASSERT_OK(tx_task_run(&t, m.d, i, 5, &part, NULL));
            sum.n_items += part.n_items;
            sum.n_correct += part.n_correct;
            sum.n_correct_norm += part.n_correct_norm;
            sum.n_targets += part.n_targets;
            sum.nats += part.nats;
        }
        assert_true(all.n_items == (double)t.n_items && all.n_targets > 0 && all.nats > 0);
        assert_true(sum.n_items == all.n_items && sum.n_targets == all.n_targets);
        assert_true(sum.n_correct == all.n_correct && sum.n_correct_norm == all.n_correct_norm);
        ASSERT_NEAR(sum.nats, all.nats, 1e-9 * all.nats, "nats");
        tx_task_close(&t);
    }
}

/* A choice's sums, once more: each choice by itself, without what the one before left in the cache. */
static void choices_by_hand(void **state)
{
    (void)state;
    tx_task t;
    tx_task_opts o = { .kind = TX_TASK_CHOICE,
                       .seq_length = 16,
                       .file = write_text(in_scratch("f"), example[TX_TASK_CHOICE]) };
    tx_task_sums got;
    double correct = 0, correct_norm = 0, nats = 0;
    log_begin();
    ASSERT_OK(tx_task_open(&t, &o, m.tok));
    log_end();
    ASSERT_OK(tx_task_run(&t, m.d, 0, 1, &got, NULL));
    for (int64_t i = 0; i < t.n_items; i++) {
        double sum[3], norm[3];
        int best = 0, best_norm = 0;
        for (int k = 0; k < t.item[i].n_spans; k++) {
            const tx_task_span *s = &t.span[t.item[i].span + k];
            tx_token_score score[16];
            ASSERT_OK(tx_score_tokens(m.d, t.ids.id + s->begin, s->end - s->begin, s->first - s->begin, 0, score));
            sum[k] = 0;
            for (int64_t j = 0; j < s->end - s->first; j++) sum[k] += score[j].logprob;
            norm[k] = sum[k] / (double)s->n_chars;
            if (sum[k] > sum[best]) best = k;
            if (norm[k] > norm[best_norm]) best_norm = k;
        }
        correct += best == t.item[i].answer;
        correct_norm += best_norm == t.item[i].answer;
        nats -= sum[t.item[i].answer];
    }
    assert_true(got.n_correct == correct && got.n_correct_norm == correct_norm);
    ASSERT_NEAR(got.nats, nats, 1e-4, "nats of the right choices");
    tx_task_close(&t);
}

static void results(void **state)
{
    (void)state;
    tx_str text = { 0 };
    tx_task t = { .opts = { .kind = TX_TASK_WIKITEXT103, .file = "dir/a\"b" }, .n_tokens = 11, .n_words = 6 };
    tx_task_result r = tx_task_result_of(&t, &(tx_task_sums){ .n_items = 2, .n_targets = 10, .nats = 20 });
    ASSERT_OK(tx_task_result_line(&text, &t, &r));
    assert_string_equal(text.data, " validation results on WIKITEXT103 | avg loss: 2.0000E+00 | ppl: 7.3891E+00 | "
                                   "adjusted ppl: 5.4598E+01 | token ratio: 2.0 |");
    text.len = 0;
    ASSERT_OK(tx_task_result_json(&text, &t, &r));
    assert_string_equal(text.data, "{\"task\":\"WIKITEXT103\",\"file\":\"dir/a\\\"b\",\"loss\":2,\"ppl\":7.38905609893,"
                                   "\"adjusted_ppl\":54.5981500331,\"token_ratio\":2,\"targets\":10}");
    t.opts.kind = TX_TASK_LAMBADA;
    r = tx_task_result_of(&t, &(tx_task_sums){ .n_items = 8, .n_correct = 2, .n_targets = 8, .nats = 800 });
    text.len = 0;
    ASSERT_OK(tx_task_result_line(&text, &t, &r));
    assert_string_equal(text.data, " validation results on LAMBADA | number correct: 2.0000E+00 | total examples: "
                                   "8.0000E+00 | avg accuracy: 2.5000E-01");
    ASSERT_NEAR(r.ppl, exp(20), 1, "perplexity beyond e^20");
    t.opts.kind = TX_TASK_TEXT;
    t.n_bytes = 4;
    r = tx_task_result_of(&t, &(tx_task_sums){ .n_items = 1, .n_targets = 2, .nats = NAN });
    text.len = 0;
    ASSERT_OK(tx_task_result_json(&text, &t, &r));
    ASSERT_CONTAINS(text.data, "\"loss\":null");
    ASSERT_CONTAINS(text.data, "\"bits_per_byte\":null");
    tx_str_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(against_steps),
                                        cmocka_unit_test(ranks_of_equals_and_of_nothing), SCRATCH_TEST(parts_add_up),
                                        SCRATCH_TEST(choices_by_hand), cmocka_unit_test(results) };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
