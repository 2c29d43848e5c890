/* labels: unit threads. What a BERT makes of masked samples: against the model's own losses, against itself for other
 * micro-batches, and how a text is scored token by token. */
#include "masked_rig.h"

#include "eval/task.h"

#define BOUND 2e-5

/* The model's own losses of the samples, one at a time. */
static void assert_losses(const char *flags, const found *f)
{
    tx_config *cfg = masked_config(flags, 1, 1);
    tx_model *m = NULL;
    void *value = NULL;
    tx_ctx c;
    tx_batch batch = { 0 };
    tx_tensor *own[TX_BATCH_BUFFERS];
    int32_t row[3 * LEN + 2];
    cfg->mask_prob = 1;
    ASSERT_OK(random_model(&m, &value, cfg, NULL));
    ASSERT_OK(tx_ctx_init(&c, "ref", 1));
    m->type->shape(m, cfg, &batch, LEN, 1);
    ASSERT_OK(tx_model_fwd(&c, m, &batch, false));
    ASSERT_OK(tx_ctx_take_memory(&c));
    tx_batch_buffers(&batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++)
        if (own[i]->data) ASSERT_OK(tx_alloc(&own[i]->data, (size_t)tx_numel(*own[i]), 4, "test"));
    for (int k = 0; k < SAMPLES; k++) {
        const tx_batch_rule rule = { .eod = -1, .scale = 1 };
        put_random_sample(tx_bert_ids_of(row, LEN), LEN, k);
        ASSERT_OK(m->type->collate(m, &batch, row, &rule));
        ASSERT_OK(tx_model_fwd(&c, m, &batch, false));
        assert_int_equal(batch.n_labels, f->first[k + 1] - f->first[k]);
        for (int64_t i = 0; i < batch.n_labels; i++)
            ASSERT_NEAR(f->score[f->first[k] + i].logprob, -(double)((float *)batch.loss.data)[i], BOUND, "lm loss");
        assert_int_equal(f->has_pair, batch.other_loss.data != NULL);
        if (f->has_pair) ASSERT_NEAR(f->pair[k], -(double)*(float *)batch.other_loss.data, BOUND, "sop loss");
    }
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) tx_free(own[i]->data);
    tx_ctx_deinit(&c);
    m->type->destroy(m);
    tx_free(value);
    tx_config_free(cfg);
}

/* With all tokens for guesses: they are all there, once, in order, and certain together; ranks and words are theirs. */
static void assert_sound(const found *f)
{
    for (int64_t i = 0; i < f->first[SAMPLES]; i++) {
        const tx_guess *g = f->top + i * VOCAB;
        bool seen[VOCAB] = { 0 };
        double sum = 0;
        for (int k = 0; k < VOCAB; k++) {
            assert_in_range(g[k].id, 0, VOCAB - 1);
            assert_false(seen[g[k].id]);
            seen[g[k].id] = true;
            sum += exp(g[k].logprob);
            if (k)
                assert_true(g[k].logprob < g[k - 1].logprob ||
                            (g[k].logprob == g[k - 1].logprob && g[k].id > g[k - 1].id));
            for (int w = 0; w < N_WORDS; w++)
                if (g[k].id == words[w]) assert_true(f->word[i * N_WORDS + w] == g[k].logprob);
        }
        ASSERT_NEAR(sum, 1, 1e-9, "all probabilities");
        assert_int_equal(f->score[i].top, g[0].id);
        assert_in_range(f->score[i].rank, 1, VOCAB);
        assert_true(f->score[i].logprob == g[f->score[i].rank - 1].logprob);
    }
}

static void scores_are_the_models_own(void **state)
{
    (void)state;
    static const char *const shapes[] = { LIKE_BERT, LIKE_BERT "--post-layernorm", LIKE_BERT "--bert-no-binary-head" };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        found *f = masked_found(shapes[k], 1, 1, 0, LEN, 4, VOCAB);
        assert_losses(shapes[k], f);
        assert_sound(f);
        free(f);
    }
}

/* Samples beside a sample, and pads behind it, are nothing to it. */
static void micro_batches_do_not_matter(void **state)
{
    (void)state;
    enum { N_TOP = 5 };
    found *one = masked_found(LIKE_BERT, 1, 1, 0, LEN, 1, N_TOP);
    for (int64_t b = 2; b <= 16; b *= 2) {
        found *many = masked_found(LIKE_BERT, 1, 1, 0, LEN, b, N_TOP);
        assert_same_found(one, many, N_TOP, BOUND, "another micro-batch size");
        free(many);
    }
    free(one);
}

static void too_long_is_refused(void **state)
{
    (void)state;
    tx_config *cfg = masked_config(LIKE_BERT, 1, 1);
    const tx_masked_opts opts = { .s = LEN + 1, .b = 1, .n_top = 1 };
    tx_model *m = NULL;
    void *value = NULL;
    tx_masked *masked;
    ASSERT_OK(random_model(&m, &value, cfg, NULL));
    ASSERT_FAILS(tx_masked_create(&masked, m, cfg, &tx_grid_alone, &opts), TX_ERR_ARG, "the model has 24 positions");
    m->type->destroy(m);
    tx_free(value);
    tx_config_free(cfg);
}

/* ---- a text ---- */

typedef struct told {
    double nats;
    int64_t n, document;
    int32_t id[1000];
} told;

static tx_status listen(void *user, int64_t document, int32_t id, const tx_token_score *score)
{
    told *t = user;
    t->nats -= score->logprob;
    t->id[t->n++] = id;
    t->document = document;
    return TX_OK;
}

/* Sum over all tokens of a window, by hand. */
static double nats_of_window(tx_masked *m, const tx_tokenizer *tok, const int32_t *id, int64_t n)
{
    double nats = 0;
    for (int64_t k = 0; k < n; k++) {
        tx_bert_ids row = tx_masked_row(m, 0);
        for (int64_t i = 0; i < m->opts.s; i++) {
            row.tokens[i] = i == 0 ? tx_tokenizer_special(tok, "[CLS]") : i <= n ? id[i - 1] : 0;
            if (i == n + 1) row.tokens[i] = tx_tokenizer_special(tok, "[SEP]");
            row.types[i] = 0;
            row.labels[i] = i == k + 1 ? id[k] : -1;
        }
        row.tokens[k + 1] = tx_tokenizer_special(tok, "[MASK]");
        *row.n_tokens = (int32_t)n + 2;
        *row.is_random = 0;
        ASSERT_OK(tx_masked_run(m, 1));
        nats -= m->score[0].logprob;
    }
    return nats;
}

static void text_is_masked_token_by_token(void **state)
{
    (void)state;
    enum { WINDOW = 9 };
    const char *text = "{\"text\": \"the cat sat on the mat, and said that it was so.\"}\n{\"text\": \"\"}\n{\"text\": "
                       "\"and so on\"}\n";
    const char *file = write_file(in_scratch("text.jsonl"), text, strlen(text));
    const tx_task_opts opts = { .kind = TX_TASK_TEXT, .file = file, .seq_length = WINDOW, .masked = true };
    const tx_masked_opts rows = { .s = WINDOW + 2, .b = 3, .n_top = 1 };
    tx_config *cfg = masked_config(LIKE_BERT, 1, 1);
    tx_tokenizer *tok;
    tx_task t;
    tx_model *model = NULL;
    void *value = NULL;
    tx_masked *m;
    tx_task_sums sums;
    told heard = { 0 };
    ASSERT_OK(tx_tokenizer_open_wordpiece(&tok, data_path("tiny/tiny-bert-vocab.txt"), true));
    ASSERT_OK(tx_task_open(&t, &opts, tok));
    for (size_t i = 0; i < t.ids.n; i++) t.ids.id[i] %= VOCAB; /* the random model's vocabulary is another */
    ASSERT_OK(random_model(&model, &value, cfg, NULL));
    ASSERT_OK(tx_masked_create(&m, model, cfg, &tx_grid_alone, &rows));
    ASSERT_OK(tx_task_run_masked(&t, m, tok, &sums, &(tx_task_listener){ listen, &heard }));
    assert_int_equal(t.n_documents, 3);
    assert_true(t.n_spans >= 3); /* the first document has two windows or more, the last one */
    double nats = 0;
    for (int64_t k = 0; k < t.n_spans; k++) {
        const tx_task_span *s = &t.span[k];
        assert_int_equal(s->begin, k ? t.span[k - 1].end : 0);
        assert_true(s->end - s->begin <= WINDOW);
        nats += nats_of_window(m, tok, t.ids.id + s->begin, s->end - s->begin);
    }
    assert_int_equal(t.span[t.n_spans - 1].end, t.ids.n);
    assert_true(sums.n_targets == (double)t.ids.n);
    ASSERT_NEAR(sums.nats, nats, 1e-4, "nats");
    ASSERT_NEAR(heard.nats, sums.nats, 1e-9, "nats told");
    assert_int_equal(heard.n, t.ids.n);
    assert_memory_equal(heard.id, t.ids.id, t.ids.n * sizeof *t.ids.id);
    assert_int_equal(heard.document, 2);
    tx_masked_destroy(m);
    model->type->destroy(model);
    tx_free(value);
    tx_task_close(&t);
    tx_tokenizer_close(tok);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_the_models_own),
        cmocka_unit_test(micro_batches_do_not_matter),
        cmocka_unit_test(too_long_is_refused),
        SCRATCH_TEST(text_is_masked_token_by_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
