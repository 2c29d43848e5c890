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
        ASSERT_OK(tx_trainer_create(&t, cfg, 512, 511, true));
        ASSERT_OK(tx_train_data_open(&data, cfg, n_samples, 512, NULL));
        log_begin();
        ASSERT_OK(tx_train_loop(t, data, &metrics, tx_clock() - 60 * run[i].minutes));
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

int main(void)
{
    const struct CMUnitTest tests[] = { SCRATCH_TEST(minutes_are_counted_from_the_start_of_the_program) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
