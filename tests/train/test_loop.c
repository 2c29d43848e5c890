/* labels: unit */
/* The loop's exits that a command line cannot show: those that take minutes. */
#include "support.h"

#include "base/clock.h"
#include "train/loop.h"
#include "train/metrics.h"

static void minutes_are_counted_from_the_start_of_the_program(void **state)
{
    (void)state;
    static const struct {
        double minutes;
        int64_t iterations;
    } run[] = { { 0, 4 }, { 1.5, 4 }, { 2.1, 1 } };
    char flags[2048];
    snprintf(flags, sizeof flags,
             "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 "
             "--micro-batch-size 2 --lr 1e-3 --train-iters 4 --eval-iters 0 --tokenizer-type NullTokenizer "
             "--vocab-size 511 --data-path %s --split 1,0,0 --exit-duration-in-mins 2 --save %s --save-interval 100",
             data_path("dataset/tiny_text_document"), in_scratch("ck"));
    for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
        tx_config *cfg;
        tx_trainer *t;
        tx_train_data *data;
        tx_metrics metrics = { 0 };
        int64_t n_samples[TX_N_SPLITS];
        ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
        tx_train_sample_counts(cfg, n_samples);
        ASSERT_OK(tx_trainer_create(&t, cfg, 512, 511, true, NULL));
        ASSERT_OK(tx_train_data_open(&data, cfg, n_samples, 512, -1, NULL));
        log_begin();
        ASSERT_OK(tx_train_loop(t, &(tx_loop_data){ .sets = data }, &metrics, tx_clock() - 60 * run[i].minutes, NULL));
        log_end();
        assert_int_equal(t->iteration, run[i].iterations);
        bool told = strstr(logged, "[exiting program after 2.1 minutes] datetime: ");
        assert_true(told == (run[i].iterations < 4));
        assert_true(tx_path_exists(in_scratch("ck/iter_000000%d", (int)run[i].iterations)));
        tx_train_data_close(data);
        tx_trainer_destroy(t);
        tx_config_free(cfg);
    }
}

#define SMALL                                                                                               \
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 " \
    "--micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --train-iters 6 --eval-iters 0 --tokenizer-type " \
    "NullTokenizer --vocab-size 511 --split 1,0,0 --save-interval 100 --data-path %s --save %s %s"

/* A run by the loop; with `begin`, one by hand that reads each iteration's samples from there on. */
static void run_small(const char *name, const char *more, const int64_t *begin)
{
    char flags[2048];
    tx_config *cfg;
    tx_trainer *t;
    tx_train_data *data;
    tx_metrics metrics = { 0 };
    int64_t n_samples[TX_N_SPLITS];
    snprintf(flags, sizeof flags, SMALL, data_path("dataset/tiny_text_document"), in_scratch("%s", name), more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    tx_train_sample_counts(cfg, n_samples);
    ASSERT_OK(tx_trainer_create(&t, cfg, 512, 511, true, NULL));
    if (cfg->load) {
        tx_source from;
        ASSERT_OK(tx_source_open(&from, cfg->load, NULL, &tx_comm_self));
        ASSERT_OK(tx_trainer_load(t, &from));
        tx_source_close(&from);
    }
    ASSERT_OK(tx_train_data_open(&data, cfg, n_samples, 512, -1, NULL));
    if (begin) {
        tx_batch_reader f;
        double loss;
        ASSERT_OK(tx_batch_reader_open(&f, t, tx_train_data_split(data, TX_SPLIT_TRAIN)));
        for (int i = 0; i < 12; i++) {
            ASSERT_OK(tx_batch_reader_read(&f, t, begin[i / 2] + i % 2 * 2));
            ASSERT_OK(tx_trainer_forward(t, f.rows, &loss));
            ASSERT_OK(tx_trainer_backward(t));
            ASSERT_OK(tx_trainer_step(t));
        }
        tx_batch_reader_close(&f);
        ASSERT_OK(tx_trainer_save(t, cfg->save, NULL, NULL));
    } else {
        ASSERT_OK(tx_train_loop(t, &(tx_loop_data){ .sets = data }, &metrics, tx_clock(), NULL));
    }
    tx_train_data_close(data);
    tx_trainer_destroy(t);
    tx_config_free(cfg);
}

/* Iterations keep their numbers and the schedule; what is read lies further on, also when the run was cut. */
static void data_of_skipped_ranges_is_passed_over(void **state)
{
    (void)state;
    static const int64_t begin[] = { 0, 4 + 4, 8 + 4, 12 + 16, 16 + 16, 20 + 16 };
    const char *shard[] = { "%s/iter_0000006/shard_00000.safetensors", "%s/iter_0000006/manifest.json" };
    char cut[1024], more[1536];
    run_small("hand", "--skip-train-iteration-range 4-5 5-6 2-2", begin);
    log_begin();
    run_small("loop", "--skip-train-iteration-range 4-5 5-6 2-2", NULL);
    log_end();
    assert_non_null(strstr(logged, "Skipped iterations 2 to 2 due to --skip-train-iteration-range flag."));
    assert_non_null(strstr(logged, "Skipped iterations 4 to 6 due to --skip-train-iteration-range flag."));
    snprintf(cut, sizeof cut, "%s", in_scratch("cut"));
    run_small("cut", "--skip-train-iteration-range 4-5 5-6 2-2 --exit-interval 4", NULL);
    snprintf(more, sizeof more, "--skip-train-iteration-range 4-5 5-6 2-2 --load %s", cut);
    run_small("cut", more, NULL);
    for (int i = 0; i < 2; i++) {
        char hand[1024];
        snprintf(hand, sizeof hand, "%s", in_scratch(shard[i], "hand"));
        assert_same_file(hand, in_scratch(shard[i], "loop"));
        assert_same_file(hand, in_scratch(shard[i], "cut"));
    }
}

/* ---- a model with two losses ---- */

typedef struct told {
    double step[8][2], interval[4][2], evaluation[4][2];
    int n_steps, n_intervals, n_evaluations;
} told;

static void take(void *user, const tx_step_record *r)
{
    told *t = user;
    double *to = r->kind == TX_RECORD_STEP       ? t->step[t->n_steps++]
                 : r->kind == TX_RECORD_INTERVAL ? t->interval[t->n_intervals++]
                                                 : t->evaluation[t->n_evaluations++];
    assert_int_equal(r->n_other_losses, 1);
    assert_string_equal(r->other_loss[0].name, "sop loss");
    to[0] = r->loss;
    to[1] = r->other_loss[0].value;
}

#define BERT                                                                                                 \
    "--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 64 --max-position-embeddings 64 "  \
    "--micro-batch-size 2 --global-batch-size 4 --lr 1e-2 --train-iters 6 --eval-iters 2 --eval-interval 4 " \
    "--log-interval 2 --split 9,1,0 --save-interval 100 --vocab-file %s --data-path %s --save %s %s"

typedef struct bert_run {
    tx_config *cfg;
    tx_tokenizer *tok;
    tx_trainer *t;
    tx_train_data *data;
} bert_run;

static void open_bert(bert_run *b, const char *name, const char *more)
{
    char flags[4096];
    int64_t n_samples[TX_N_SPLITS];
    snprintf(flags, sizeof flags, BERT, data_path("tiny/tiny-bert-vocab.txt"),
             data_path("dataset/tinybert_text_document"), in_scratch("%s", name), more);
    ASSERT_OK(tx_config_parse_string(&b->cfg, "pretrain-bert", flags));
    ASSERT_OK(tx_tokenizer_open_wordpiece(&b->tok, b->cfg->vocab_file, true));
    tx_train_sample_counts(b->cfg, n_samples);
    ASSERT_OK(tx_trainer_create(&b->t, b->cfg, tx_tokenizer_vocab_size(b->tok), -1, true, NULL));
    ASSERT_OK(tx_train_data_open(&b->data, b->cfg, n_samples, 0, -1, b->tok));
    if (!b->cfg->load) return;
    tx_source from;
    ASSERT_OK(tx_source_open(&from, b->cfg->load, NULL, &tx_comm_self));
    ASSERT_OK(tx_trainer_load(b->t, &from));
    tx_source_close(&from);
}

static void close_bert(bert_run *b)
{
    tx_train_data_close(b->data);
    tx_trainer_destroy(b->t);
    tx_tokenizer_close(b->tok);
    tx_config_free(b->cfg);
}

static void run_bert(told *all, const char *name, const char *more)
{
    bert_run b;
    tx_metrics metrics = { 0 };
    open_bert(&b, name, more);
    tx_metrics_watch(&metrics, take, all);
    ASSERT_OK(tx_train_loop(b.t, &(tx_loop_data){ .sets = b.data }, &metrics, tx_clock(), NULL));
    close_bert(&b);
}

/* By hand: what is told and logged are these losses and the means of two iterations'. */
static void two_losses_are_told(void **state)
{
    (void)state;
    told all = { 0 };
    bert_run b;
    tx_batch_reader f;
    char line[256];
    log_begin();
    run_bert(&all, "loop", "");
    log_end();
    assert_true(all.n_steps == 6 && all.n_intervals == 3 && all.n_evaluations == 2); /* in mid-run, at the end */

    open_bert(&b, "hand", "");
    ASSERT_OK(tx_batch_reader_open(&f, b.t, tx_train_data_split(b.data, TX_SPLIT_TRAIN)));
    for (int i = 0; i < 6; i++) {
        for (int micro = 0; micro < 2; micro++) {
            double loss;
            ASSERT_OK(tx_batch_reader_read(&f, b.t, 4 * i + 2 * micro));
            ASSERT_OK(tx_trainer_forward(b.t, f.rows, &loss));
            ASSERT_OK(tx_trainer_backward(b.t));
            ASSERT_OK(tx_trainer_step(b.t));
        }
        assert_memory_equal(b.t->losses, all.step[i], sizeof all.step[i]);
        assert_true(b.t->iteration_loss == b.t->losses[0] + b.t->losses[1]);
        assert_true(all.step[i][0] > 5 && all.step[i][1] < 2);
    }
    tx_batch_reader_close(&f);
    double mean[2];
    ASSERT_OK(tx_batch_reader_open(&f, b.t, tx_train_data_split(b.data, TX_SPLIT_VALID)));
    ASSERT_OK(tx_train_evaluate(b.t, &f, 8, 8, mean, NULL)); /* behind what the first one consumed */
    assert_memory_equal(mean, all.evaluation[1], sizeof mean);
    tx_batch_reader_close(&f);
    close_bert(&b);

    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++)
            assert_true(all.interval[i][k] == (all.step[2 * i][k] + all.step[2 * i + 1][k]) / 2);
        snprintf(line, sizeof line, " | lm loss: %.6E | sop loss: %.6E | loss scale: ", all.interval[i][0],
                 all.interval[i][1]);
        ASSERT_CONTAINS(logged, line);
    }
    snprintf(line, sizeof line,
             "| lm loss value: %.6E | lm loss PPL: %.6E | sop loss value: %.6E | sop loss PPL: ", mean[0], exp(mean[0]),
             mean[1]);
    ASSERT_CONTAINS(logged, line);
}

static void a_bert_goes_on_where_it_was(void **state)
{
    (void)state;
    const char *more = "--fp16 --initial-loss-scale 1024 --skip-train-iteration-range 3-4";
    told all = { 0 }, cut = { 0 };
    char cut_more[1024], whole[1024];
    run_bert(&all, "whole", more);
    snprintf(cut_more, sizeof cut_more, "%s --exit-interval 4", more);
    run_bert(&cut, "cut", cut_more);
    assert_int_equal(cut.n_steps, 4);
    assert_true(all.step[0][0] < 10 && all.step[5][0] < all.step[0][0]); /* steps were taken */
    snprintf(cut_more, sizeof cut_more, "%s --load %s", more, in_scratch("cut"));
    run_bert(&cut, "cut", cut_more);
    assert_int_equal(cut.n_steps, 6);
    assert_memory_equal(cut.step, all.step, sizeof all.step);
    snprintf(whole, sizeof whole, "%s", in_scratch("whole/iter_0000006/shard_00000.safetensors"));
    assert_same_file(whole, in_scratch("cut/iter_0000006/shard_00000.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { SCRATCH_TEST(minutes_are_counted_from_the_start_of_the_program),
                                        SCRATCH_TEST(data_of_skipped_ranges_is_passed_over),
                                        SCRATCH_TEST(two_losses_are_told), SCRATCH_TEST(a_bert_goes_on_where_it_was) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
