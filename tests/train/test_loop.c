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
        ASSERT_OK(tx_train_data_open(&data, cfg, n_samples, 512, NULL));
        log_begin();
        ASSERT_OK(tx_train_loop(t, data, &metrics, tx_clock() - 60 * run[i].minutes, NULL));
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
    ASSERT_OK(tx_train_data_open(&data, cfg, n_samples, 512, NULL));
    if (begin) {
        tx_feed f;
        double loss;
        ASSERT_OK(tx_feed_open(&f, t, tx_train_data_split(data, TX_SPLIT_TRAIN)));
        for (int i = 0; i < 12; i++) {
            ASSERT_OK(tx_feed_read(&f, t, begin[i / 2] + i % 2 * 2));
            ASSERT_OK(tx_trainer_forward(t, f.rows, &loss));
            ASSERT_OK(tx_trainer_backward(t));
            ASSERT_OK(tx_trainer_step(t));
        }
        tx_feed_close(&f);
        ASSERT_OK(tx_trainer_save(t, cfg->save));
    } else {
        ASSERT_OK(tx_train_loop(t, data, &metrics, tx_clock(), NULL));
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

int main(void)
{
    const struct CMUnitTest tests[] = { SCRATCH_TEST(minutes_are_counted_from_the_start_of_the_program),
                                        SCRATCH_TEST(data_of_skipped_ranges_is_passed_over) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
