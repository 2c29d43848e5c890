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
    static const char *const how[] = {
        "--fp16 --initial-loss-scale 3e7 --hysteresis 1 --loss-scale-window 4",
        "--fp16 --initial-loss-scale 3e7 --hysteresis 1 --loss-scale-window 4 --grad-dtype fp16",
    };
    for (size_t k = 0; k < N_BACKENDS * (sizeof how / sizeof *how); k++) {
        tx_config *cfg;
        tx_engine *e = create_on(&cfg, k % N_BACKENDS, how[k / N_BACKENDS]);
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

/* ---- gradients ---- */

/* The first iteration's gradients of n micro-batches, of a model without dropout. */
static void backward_of(tx_engine *e, int n)
{
    int32_t tokens[B * (S + 1)];
    double loss;
    for (int i = 0; i < n; i++) {
        batch(tokens, i);
        ASSERT_OK(tx_engine_forward(e, tokens, &loss));
        ASSERT_OK(tx_engine_backward(e));
        if (i < n - 1) ASSERT_OK(tx_engine_step(e));
    }
}

/* What layers add up in fp32 is rounded once a micro-batch: the first one's gradients are those of a run that keeps
 * fp32, rounded; the second one's are added to these and rounded. */
static void gradients_are_rounded_once_a_micro_batch(void **state)
{
    (void)state;
    static const struct {
        tx_dtype t;
        const char *fp32, *half;
    } how[] = {
        { TX_BF16, "--bf16", "--grad-dtype bf16" },
        { TX_F16, "--fp16 --initial-loss-scale 1024", "--grad-dtype fp16" },
        { TX_F16, "--fp16 --loss-scale 64 " LLAMA, "--main-grads-dtype fp16" },
    };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        tx_config *cfg[3];
        tx_engine *e[3]; /* fp32: the first micro-batch, the second; half: both */
        char flags[3][512];
        int32_t tokens[B * (S + 1)];
        double loss;
        static const char common[] = "--hidden-dropout 0 --attention-dropout 0";
        for (int k = 0; k < 3; k++) {
            snprintf(flags[k], sizeof flags[k], "%s %s %s %s", common, how[i].fp32, k == 2 ? how[i].half : "",
                     k == 2 ? "" : "--global-batch-size 2");
            e[k] = create_on(&cfg[k], 0, flags[k]);
            /* as much of the mean as in an iteration of two */
            if (k < 2) e[k]->trainer->scaler.scale /= 2;
        }
        backward_of(e[0], 1);
        batch(tokens, 1);
        ASSERT_OK(tx_engine_forward(e[1], tokens, &loss));
        ASSERT_OK(tx_engine_backward(e[1]));
        backward_of(e[2], 2);
        const tx_params *ps = &e[2]->trainer->model->params;
        const float *one = e[0]->trainer->zero.grad, *two = e[1]->trainer->zero.grad;
        const uint16_t *both = e[2]->trainer->zero.grad;
        int64_t rounds = 0;
        assert_int_equal(e[2]->trainer->zero.grad_type, how[i].t);
        for (int row = 0; row < ps->n; row++)
            for (int64_t j = ps->param[row].offset; j < ps->param[row].offset + ps->param[row].numel; j++) {
                uint16_t first = rounded(how[i].t, one[j]);
                float sum = (how[i].t == TX_BF16 ? tx_bf16_to_f32(first) : tx_f16_to_f32(first)) + two[j];
                if (both[j] != rounded(how[i].t, sum))
                    fail_msg("%s, %s: element %lld is %04x, not %04x", flags[2], ps->param[row].name,
                             (long long)(j - ps->param[row].offset), both[j], rounded(how[i].t, sum));
                rounds += first != 0;
            }
        assert_true(rounds > 1000);
        for (int k = 0; k < 3; k++) destroy(e[k], cfg[k]);
    }
}

/* A gradient beyond fp16's largest number is an infinity where gradients are fp16, and named; in fp32 it is none. */
static void what_fp16_cannot_hold_skips_the_step(void **state)
{
    (void)state;
    int n_only_half = 0;
    for (int power = 10; power <= 28; power += 2) {
        tx_config *cfg[2];
        tx_engine *e[2];
        int64_t skipped[2];
        for (int half = 0; half < 2; half++) {
            char flags[256];
            snprintf(flags, sizeof flags, "--fp16 --loss-scale %.0f%s", exp2(power), half ? " --grad-dtype fp16" : "");
            e[half] = create_on(&cfg[half], 0, flags);
            log_begin();
            train(e[half], 1, NULL);
            log_end();
            skipped[half] = e[half]->trainer->skipped;
            if (half && skipped[1]) ASSERT_CONTAINS(warned, "iteration 1 skipped: the gradient of ");
            if (half && skipped[1]) assert_true(e[half]->trainer->zero.optim.t == 0);
        }
        assert_true(skipped[1] >= skipped[0]);
        n_only_half += skipped[1] > skipped[0];
        for (int half = 0; half < 2; half++) destroy(e[half], cfg[half]);
    }
    assert_true(n_only_half > 0);
}

static void half_gradients_take_half_the_bytes(void **state)
{
    (void)state;
    tx_config *cfg[2];
    tx_engine *e[2] = { create(&cfg[0], "--bf16"), create(&cfg[1], "--bf16 --grad-dtype bf16") };
    double losses[2][10];
    tx_memory m[2];
    for (int i = 0; i < 2; i++) {
        m[i] = tx_trainer_memory(e[i]->trainer);
        train(e[i], 10, losses[i]);
    }
    assert_true(m[1].grads * 2 == m[0].grads && m[1].optimizer == m[0].optimizer && m[1].params == m[0].params);
    assert_true(m[0].buckets == 0 && m[1].buckets > 0 && m[1].buckets < m[0].grads);
    for (int i = 0; i < 10; i++) ASSERT_NEAR(losses[1][i] / losses[0][i], 1, 3e-3, "loss");
    assert_true(losses[1][9] != losses[0][9]);
    for (int i = 0; i < 2; i++) destroy(e[i], cfg[i]);
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
        "--bf16 --grad-dtype bf16",
        "--fp16 --initial-loss-scale 3e7 --loss-scale-window 3 --grad-dtype fp16 --optimizer sgd",
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
        cmocka_unit_test(gradients_are_rounded_once_a_micro_batch),
        cmocka_unit_test(what_fp16_cannot_hold_skips_the_step),
        cmocka_unit_test(half_gradients_take_half_the_bytes),
        SCRATCH_TEST(resumed_runs_have_the_same_bits),
        SCRATCH_TEST(precision_may_change_on_the_way),
        cmocka_unit_test(a_broken_loss_scale_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
