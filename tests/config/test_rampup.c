/* labels: unit */
/* --rampup-batch-size against upstream's rule taken iteration by iteration, and what is refused of it. */
#include "support.h"

#include "config/option_table.h"

#define GOOD                                                                                                          \
    "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --max-position-embeddings 64 --seq-length 64 --lr 1e-3 " \
    "--data-path d --vocab-file v --merge-file m "

static tx_config *parsed(const char *more)
{
    tx_config *cfg;
    char flags[1024];
    snprintf(flags, sizeof flags, GOOD "%s", more);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", flags));
    return cfg;
}

/* 16, 20, ... 32 over 100 samples: an increment each 25. */
static void sizes(void **state)
{
    (void)state;
    tx_config *c =
        parsed("--micro-batch-size 4 --global-batch-size 32 --rampup-batch-size 16 4 100 --train-samples 500");
    static const int64_t at[][2] = { { 0, 16 },  { 16, 16 }, { 24, 16 },  { 25, 20 },  { 49, 20 },
                                     { 50, 24 }, { 75, 28 }, { 100, 32 }, { 101, 32 }, { 100000, 32 } };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) assert_int_equal(tx_config_batch_size(c, at[i][0]), at[i][1]);
    /* 16 16 20 (52) 24 (76) 28 (104), then 396 / 32 */
    assert_int_equal(c->train_iters, 5 + 12);
    tx_config_free(c);
    c = parsed("--micro-batch-size 4 --global-batch-size 16 --rampup-batch-size 16 4 100 --train-samples 500");
    assert_int_equal(tx_config_batch_size(c, 0), 16);
    assert_int_equal(c->train_iters, 31);
    tx_config_free(c);
}

static int64_t by_one(int64_t start, int64_t increment, int64_t ramp, int64_t global, int64_t samples)
{
    int64_t iterations = 0, consumed = 0, n = (global - start) / increment;
    while (consumed <= ramp) {
        consumed += start + (int64_t)((double)consumed / ((double)ramp / (double)n)) * increment;
        iterations++;
    }
    return iterations + (int64_t)floor((double)(samples - consumed) / (double)global);
}

static void iterations(void **state)
{
    (void)state;
    static const int64_t increments[] = { 1, 3, 16 }, ramps[] = { 1, 7, 100, 999, 12345 }, starts[] = { 1, 8, 100 };
    for (int i = 0; i < 3 * 5 * 3 * 3; i++) {
        tx__ramp r = { .start = starts[i % 3],
                       .increment = increments[i / 3 % 3],
                       .samples = ramps[i / 9 % 5],
                       .n_increments = i / 45 ? 10 * (i / 45) + 3 : 1 };
        r.global = r.start + r.n_increments * r.increment;
        for (int64_t samples = 1; samples < 30000; samples += 7001) {
            int64_t want = by_one(r.start, r.increment, r.samples, r.global, samples);
            if (tx__ramp_iterations(&r, samples) != want)
                fail_msg("start %lld increment %lld ramp %lld to %lld: %lld iterations, expected %lld",
                         (long long)r.start, (long long)r.increment, (long long)r.samples, (long long)r.global,
                         (long long)tx__ramp_iterations(&r, samples), (long long)want);
        }
    }
    tx__ramp huge = {
        .start = 1, .increment = 1, .samples = 1000000000000000, .global = 1000001, .n_increments = 1000000
    };
    assert_true(tx__ramp_iterations(&huge, 1000000000000000) > 1000000000);
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "--train-iters 9 --rampup-batch-size 16 4 100",
          "expected no batch-size rampup for iteration-based training" },
        { "--train-samples 900 --rampup-batch-size 16 4",
          "--rampup-batch-size takes 3 values (START INCREMENT SAMPLES), not 2" },
        { "--train-samples 900 --rampup-batch-size 16 4 x", "expected the following format: --rampup-batch-size" },
        { "--train-samples 900 --rampup-batch-size 0 4 9", "expected the following format: --rampup-batch-size" },
        { "--train-samples 900 --rampup-batch-size 36 4 9", "starts with 36, more than --global-batch-size 32" },
        { "--train-samples 900 --rampup-batch-size 16 12 9",
          "expected global batch size interval (16) to be divisible by global batch size increment (12)" },
        { "--train-samples 900 --rampup-batch-size 2 10 9",
          "current global batch size (2) is not divisible by micro-batch-size (4) times data parallel size (1)" },
        { "--train-samples 900 --rampup-batch-size 16 2 9", "current global batch size (18) is not divisible" },
        { "--train-samples 10 --rampup-batch-size 16 4 1000",
          "--train-samples 10: the run ends before its --rampup-batch-size over 1000 samples does" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_config *cfg;
        char flags[1024];
        snprintf(flags, sizeof flags, GOOD "--micro-batch-size 4 --global-batch-size 32 %s", bad[i][0]);
        ASSERT_FAILS(tx_config_parse_string(&cfg, "pretrain-gpt", flags), TX_ERR_ARG, bad[i][1]);
    }
}

/* A list is kept as it was typed, and another one is told. */
static void kept(void **state)
{
    (void)state;
    const char *flags = "--micro-batch-size 4 --global-batch-size 32 --train-samples 500 --rampup-batch-size 16 4 ";
    char text[256];
    json_t *saved;
    snprintf(text, sizeof text, "%s 100", flags);
    tx_config *c = parsed(text);
    ASSERT_OK(tx_config_to_json(c, &saved));
    log_begin();
    ASSERT_OK(tx_config_from_json(c, saved, TX_KEPT_RUN));
    assert_string_equal(warned, "");
    tx_config_free(c);
    snprintf(text, sizeof text, "%s 200", flags);
    c = parsed(text);
    ASSERT_OK(tx_config_from_json(c, saved, TX_KEPT_RUN));
    log_end();
    ASSERT_CONTAINS(warned, "  --rampup-batch-size  ['16', '4', '100']  ['16', '4', '200']");
    static const char *const bad[] = { "[]", "\"16\"", "[16, 4, 100]", "[\"16\", \"4\"]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_object_set_new(saved, "rampup_batch_size", json_loads(bad[i], JSON_DECODE_ANY, NULL));
        assert_int_equal(tx_config_from_json(c, saved, TX_KEPT_RUN), TX_ERR_FORMAT);
    }
    tx_config_free(c);
    json_decref(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sizes), cmocka_unit_test(iterations),
                                        cmocka_unit_test(refused), cmocka_unit_test(kept) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
