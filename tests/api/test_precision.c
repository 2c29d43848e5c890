/* labels: unit resume */
/* Half precision: what is stored in it and what is not, the loss scale's rules, and that a resumed run is the same run.
 */
#include "engine_test.h"

#include "base/half.h"
#include "optim/loss_scaler.h"
#include "train/non_finite.h"

static const char *const backends[] = { "--backend cpu", "--backend ref --threads 1" };
enum { N_BACKENDS = 2, ON_REF = 2 }; /* ref is slow: it runs so many of a list */

static tx_engine *create_on(tx_config **cfg, size_t backend, const char *more)
{
    char flags[1024];
    snprintf(flags, sizeof flags, "%s %s", backends[backend], more);
    return create(cfg, flags);
}

static void destroy(tx_engine *e, tx_config *cfg)
{
    tx_engine_destroy(e);
    tx_config_free(cfg);
}

static uint16_t rounded(tx_dtype t, float x)
{
    return t == TX_BF16 ? tx_f32_to_bf16(x) : tx_f32_to_f16(x);
}

/* ---- the loss scale ---- */

/* o: overflow, c: clean step; behind each, the scale that follows. */
static void follow(const char *flags, const char *steps, const double *expect)
{
    tx_config *cfg;
    char all[1024];
    snprintf(all, sizeof all, "%s %s", FLAGS, flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "pretrain-gpt", all));
    tx_loss_scaler s = tx_loss_scaler_from_config(cfg);
    for (size_t i = 0; steps[i]; i++) {
        tx_loss_scaler_update(&s, steps[i] == 'o');
        ASSERT_NEAR(s.scale, expect[i], 0, flags);
    }
    tx_config_free(cfg);
}

/* Worked out by hand from the rules of Megatron-LM's DynamicGradScaler. */
static void the_loss_scale_follows_its_rules(void **state)
{
    (void)state;
    follow("--fp16", "ooo", (double[]){ 0x1p32, 0x1p31, 0x1p30 });
    follow("--fp16 --initial-loss-scale 1024 --hysteresis 1 --min-loss-scale 256", "oooo",
           (double[]){ 512, 256, 256, 256 });
    /* the tolerance comes back with a doubling only; an overflow begins the window again */
    follow("--fp16 --initial-loss-scale 64 --loss-scale-window 3 --hysteresis 2", "cccocoocccoo",
           (double[]){ 64, 64, 128, 128, 128, 64, 32, 32, 32, 64, 64, 32 });
    follow("--fp16 --loss-scale 128", "oc", (double[]){ 128, 128 });
    follow("--bf16 --loss-scale 8", "oc", (double[]){ 8, 8 });
    follow("--bf16", "oc", (double[]){ 1, 1 });
    follow("--loss-scale 8", "oc", (double[]){ 1, 1 });
}

static void an_overflow_skips_a_step_and_halves_the_scale(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_BACKENDS; k++) {
        tx_config *cfg;
        tx_engine *e = create_on(&cfg, k, "--fp16 --initial-loss-scale 3e7 --hysteresis 1 --loss-scale-window 4");
        tx_trainer *t = e->trainer;
        double before = tx_engine_lr(e), losses[10], scale = t->scaler.scale;
        size_t bytes = (size_t)t->model->params.numel * sizeof(float);
        float *weights = malloc(bytes);
        memcpy(weights, t->zero.master, bytes);
        train(e, 1, NULL);
        assert_int_equal(t->skipped, 1);
        assert_true(t->last_step == TX_STEP_OVERFLOWED && t->scaler.scale == scale / 2 && t->consecutive_skips == 0 &&
                    t->interval.nan == 0);
        assert_true(tx_engine_lr(e) == before && t->zero.optim.t == 0 && t->iteration == 1);
        assert_memory_equal(weights, t->zero.master, bytes);
        t->consecutive_skips = 1; /* an overflow right after a fault is no fault */
        train(e, 1, losses);
        assert_true(t->last_step == TX_STEP_OVERFLOWED && !tx_non_finite_is_fault(t));
        train(e, 8, losses + 1); /* which settles, doubles after four clean steps and overflows again */
        assert_true(t->skipped > 2 && t->skipped < 9 && t->zero.optim.t == 10 - t->skipped);
        assert_true(isfinite(tx_engine_grad_norm(e)) || t->last_step != TX_STEP_TAKEN);
        for (int i = 0; i < 9; i++) assert_true(isfinite(losses[i]));
        assert_memory_not_equal(weights, t->zero.master, bytes);
        free(weights);
        destroy(e, cfg);
    }
}

/* Powers of two change no bit where nothing overflows or vanishes: gradients, their norm and the update are those
 * without a scale. */
static void a_power_of_two_changes_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_BACKENDS; k++) {
        tx_config *cfg[2];
        tx_engine *e[2] = { create_on(&cfg[0], k, "--bf16"), create_on(&cfg[1], k, "--bf16 --loss-scale 4096") };
        double losses[2][3];
        for (int i = 0; i < 2; i++) train(e[i], 3, losses[i]);
        for (int i = 0; i < 3; i++) assert_true(losses[0][i] == losses[1][i]);
        assert_true(tx_engine_grad_norm(e[0]) == tx_engine_grad_norm(e[1]));
        assert_memory_equal(e[0]->trainer->zero.master, e[1]->trainer->zero.master,
                            (size_t)e[0]->trainer->model->params.numel * sizeof(float));
        for (int i = 0; i < 2; i++) destroy(e[i], cfg[i]);
    }
}

/* ---- storage ---- */

static void layers_compute_with_the_rounded_master_weights(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        tx_dtype dtype, stream;
    } how[] = { { "--bf16", TX_BF16, TX_BF16 },
                { "--fp16 --initial-loss-scale 256", TX_F16, TX_F16 },
                { "--bf16 --fp32-residual-connection " LLAMA, TX_BF16, TX_F32 },
                { "--bf16 --optimizer sgd", TX_BF16, TX_BF16 } };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        for (size_t k = 0; k < (i < ON_REF ? N_BACKENDS : 1); k++) {
            tx_config *cfg;
            tx_engine *e = create_on(&cfg, k, how[i].flags);
            const tx_trainer *t = e->trainer;
            int64_t n = t->model->params.numel, same = 0;
            assert_true(t->model->dtype == how[i].dtype && t->model->stream == how[i].stream);
            train(e, 2, NULL);
            assert_int_equal(t->skipped, 0);
            for (int64_t j = 0; j < n; j++) {
                uint16_t half = ((const uint16_t *)t->zero.value)[j];
                assert_int_equal(half, rounded(how[i].dtype, t->zero.master[j]));
                same += rounded(TX_BF16, t->zero.master[j]) == tx_bits_of_f32(t->zero.master[j]) >> 16;
            }
            assert_true(same < n); /* the master has more bits than that */
            destroy(e, cfg);
        }
}

static void half_the_bytes(void **state)
{
    (void)state;
    tx_config *cfg[3];
    tx_engine *e[3] = { create(&cfg[0], ""), create(&cfg[1], "--bf16"),
                        create(&cfg[2], "--bf16 --fp32-residual-connection") };
    tx_memory m[3];
    for (int i = 0; i < 3; i++) m[i] = tx_trainer_memory(e[i]->trainer);
    assert_true(2 * m[1].params == m[0].params && m[1].grads == m[0].grads);
    assert_true(m[1].optimizer == m[0].optimizer / 2 * 3); /* and master weights */
    assert_true(m[1].activations < m[0].activations * 6 / 10 && m[1].activations > m[0].activations * 4 / 10);
    assert_true(m[2].activations > m[1].activations && m[2].activations < m[0].activations * 8 / 10);
    for (int i = 0; i < 3; i++) destroy(e[i], cfg[i]);
}

/* ---- resuming ---- */

static void resumed_runs_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const how[] = {
        "--bf16",
        "--fp16 --initial-loss-scale 3e7 --hysteresis 2 --loss-scale-window 3",
        "--bf16 --fp32-residual-connection " LLAMA,
        "--fp16 --loss-scale 512 --optimizer sgd",
    };
    for (size_t k = 0; k < N_BACKENDS; k++)
        for (size_t i = 0; i < (k ? ON_REF : sizeof how / sizeof *how); i++) {
            char flags[512], a[32], b[32];
            snprintf(flags, sizeof flags, "%s %s", backends[k], how[i]);
            snprintf(a, sizeof a, "straight%zu%zu", k, i);
            snprintf(b, sizeof b, "cut%zu%zu", k, i);
            run_and_save(in_scratch("%s", a), flags, 10, 0);
            run_and_save(in_scratch("%s", b), flags, 5, 5);
            assert_same_checkpoint(a, b);
        }
}

/* A checkpoint holds the fp32 weights; the precision is the run's. */
static void precision_may_change_on_the_way(void **state)
{
    (void)state;
    tx_config *cfg;
    char flags[512];
    double losses[2], half[2];
    snprintf(flags, sizeof flags, "%s --bf16", backends[0]);
    run_and_save(in_scratch("bf16"), flags, 5, 0);
    snprintf(flags, sizeof flags, "--load %s", in_scratch("bf16"));
    log_begin();
    tx_engine *e = create_on(&cfg, 0, flags);
    log_end();
    ASSERT_CONTAINS(warned, "--bf16 is False, in the checkpoint it is True; this run goes on with its own");
    train(e, 2, losses);
    destroy(e, cfg);
    snprintf(flags, sizeof flags, "--fp16 --initial-loss-scale 256 --load %s", in_scratch("bf16"));
    e = create_on(&cfg, 0, flags);
    assert_true(e->trainer->scaler.scale == 256);
    train(e, 2, half);
    for (int i = 0; i < 2; i++) ASSERT_NEAR(half[i], losses[i], 5e-3, "loss");
    destroy(e, cfg);
}

static void a_broken_loss_scale_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "{\"scale\": 0, \"growth_tracker\": 0, \"hysteresis_tracker\": 2}",
                                       "{\"scale\": \"1\", \"growth_tracker\": 0, \"hysteresis_tracker\": 2}",
                                       "{\"scale\": 1, \"growth_tracker\": -1, \"hysteresis_tracker\": 2}",
                                       "{\"scale\": 1, \"growth_tracker\": 0}", "[]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tx_loss_scaler s = { .kind = TX_SCALE_DYNAMIC, .scale = 8, .window = 2 };
        json_t *saved = json_loads(bad[i], 0, NULL);
        assert_int_equal(tx_loss_scaler_from_json(&s, saved), TX_ERR_FORMAT);
        assert_true(s.scale == 8);
        json_decref(saved);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_scale_follows_its_rules),
        cmocka_unit_test(an_overflow_skips_a_step_and_halves_the_scale),
        cmocka_unit_test(a_power_of_two_changes_nothing),
        cmocka_unit_test(layers_compute_with_the_rounded_master_weights),
        cmocka_unit_test(half_the_bytes),
        SCRATCH_TEST(resumed_runs_have_the_same_bits),
        SCRATCH_TEST(precision_may_change_on_the_way),
        cmocka_unit_test(a_broken_loss_scale_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
