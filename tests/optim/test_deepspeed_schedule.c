/* labels: golden unit */
/* DeepSpeed's schedules: its own numbers, from its own JSON; which parameters are whose; and what of them a checkpoint
 * keeps. */
#include "support.h"

#include "optim/deepspeed_schedule.h"

#define FLAGS "--micro-batch-size 1 --lr 0.002 "

/* Of a scheduler section's text. */
static tx_config *parsed(const char *scheduler)
{
    tx_config *cfg;
    char flags[4096], json[4096];
    snprintf(json, sizeof json, "{\"scheduler\": %s}", scheduler);
    write_text(in_scratch("ds.json"), json);
    snprintf(flags, sizeof flags, FLAGS "--deepspeed_config %s", in_scratch("ds.json"));
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", flags));
    return cfg;
}

static tx_ds_schedule of(const char *scheduler)
{
    tx_config *cfg = parsed(scheduler);
    tx_ds_schedule s = tx_ds_schedule_from_config(cfg);
    tx_config_free(cfg);
    return s;
}

static void numbers_are_deepspeeds(void **state)
{
    (void)state;
    json_t *cases = load_json(data_path("golden/schedules/deepspeed.json")), *c, *lr;
    size_t i, k, n = 0, n_betas = 0;
    json_array_foreach(cases, i, c)
    {
        char what[64];
        json_t *section =
            json_pack("{s:O, s:O}", "type", json_object_get(c, "type"), "params", json_object_get(c, "params"));
        char *text = json_dumps(section, 0);
        tx_ds_schedule s = of(text);
        const json_t *betas = json_object_get(c, "betas");
        assert_string_equal(tx_ds_schedule_kind_word(s.kind), json_string_value(json_object_get(c, "type")));
        json_array_foreach(json_object_get(c, "lr"), k, lr)
        {
            double want = json_number_value(lr), b[2] = { 0.9, 0.999 };
            snprintf(what, sizeof what, "case %zu, step %zu", i, k);
            ASSERT_NEAR(tx_ds_schedule_lr(&s, (int64_t)k), want, 1e-12 * want, what);
            n++;
            tx_ds_schedule_betas(&s, (int64_t)k, b);
            for (size_t m = 0; m < 2 && betas; m++, n_betas++)
                ASSERT_NEAR(b[m], json_number_value(json_array_get(json_array_get(betas, k), m)), 1e-12, what);
        }
        json_decref(section);
        free(text);
    }
    assert_int_equal(n, 16 * 200);
    assert_int_equal(n_betas, 4 * 200 * 2);
    json_decref(cases);
}

/* With SGD there are no betas to cycle, with Lion there are, and WarmupLR without a --lr ends at its own default. */
static void what_is_left_out(void **state)
{
    (void)state;
    tx_config *cfg;
    double betas[2];
    ASSERT_OK(tx_config_parse_string(&cfg, "engine",
                                     "--micro-batch-size 1 --lr_schedule OneCycle --cycle_min_lr 0.1 --cycle_max_lr 1 "
                                     "--optimizer sgd"));
    tx_ds_schedule s = tx_ds_schedule_from_config(cfg);
    assert_false(tx_ds_schedule_betas(&s, 3, betas));
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "engine",
                                     "--micro-batch-size 1 --lr_schedule OneCycle --cycle_min_lr 0.1 --cycle_max_lr 1 "
                                     "--optimizer lion"));
    s = tx_ds_schedule_from_config(cfg);
    assert_true(tx_ds_schedule_betas(&s, 3, betas));
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", "--micro-batch-size 1 --lr-schedule WarmupLR"));
    s = tx_ds_schedule_from_config(cfg);
    assert_true(tx_ds_schedule_lr(&s, 5000) == 0.001);
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "engine", FLAGS));
    assert_int_equal(tx_ds_schedule_from_config(cfg).kind, 0);
    tx_config_free(cfg);
    assert_true(of("{\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": \"auto\"}}").max_lr == 0.002);
}

static void wrong_sections_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        { "{\"type\": \"StepLR\"}", "--lr-schedule StepLR is unknown; allowed: one of LRRangeTest, OneCycle, " },
        { "{\"params\": {\"warmup_num_steps\": 5}}", "--warmup-num-steps needs --lr-schedule WarmupLR|WarmupDecayLR" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_step\": 5}}",
          "unknown key \"scheduler.params.warmup_step\"; did you mean " },
        { "{\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 5}}",
          "--total-num-steps is none of --lr-schedule WarmupLR's: it is of WarmupDecayLR|WarmupCosineLR; leave it "
          "out" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}}", "--warmup-num-steps 0 is too small" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": [0, 0.1]}}",
          "scheduler.params.warmup_min_lr is [0,0.1], a list; it takes a number" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"cubic\"}}",
          "--warmup-type cubic is unknown; allowed: one of log, linear" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"last_batch_iteration\": 5}}",
          "scheduler.params.last_batch_iteration is 5, and only -1 is built" },
        { "{\"type\": \"WarmupDecayLR\"}",
          "--lr-schedule WarmupDecayLR needs --total-num-steps (scheduler.params.total_num_steps)" },
        { "{\"type\": \"OneCycle\", \"params\": {\"cycle_max_lr\": 1}}", "OneCycle needs --cycle-min-lr" },
        { "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1, \"cycle_max_lr\": 2, \"cycle_max_mom\": 1}}",
          "--cycle-max-mom 1 is too large" },
        { "{\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_step_size\": 0}}", "is too small" },
        { "{\"type\": \"LRRangeTest\", \"params\": {\"cos_min_ratio\": 0.5}}",
          "is none of --lr-schedule LRRangeTest's: it is of WarmupCosineLR" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tx_config *cfg = NULL;
        char flags[4096], json[1024];
        snprintf(json, sizeof json, "{\"scheduler\": %s}", wrong[i][0]);
        write_text(in_scratch("ds.json"), json);
        snprintf(flags, sizeof flags, FLAGS "--deepspeed_config %s", in_scratch("ds.json"));
        ASSERT_FAILS_LINES(tx_config_parse_string(&cfg, "engine", flags), TX_ERR_ARG, wrong[i][1]);
        assert_null(cfg);
    }
    tx_config *cfg = NULL;
    ASSERT_FAILS(tx_config_parse_string(&cfg, "engine",
                                        "--micro-batch-size 1 --lr-schedule WarmupCosineLR "
                                        "--total-num-steps 9"),
                 TX_ERR_ARG, "--lr-schedule WarmupCosineLR needs --lr (optimizer.params.lr)");
}

static void a_checkpoint_keeps_it(void **state)
{
    (void)state;
    tx_ds_schedule mine = of("{\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 20}}"), s = mine;
    tx_ds_schedule longer = of("{\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 30}}");
    tx_ds_schedule other = of("{\"type\": \"LRRangeTest\"}"), none = { .kind = 0 };
    json_t *saved;
    int64_t steps = 0;
    ASSERT_OK(tx_ds_schedule_to_json(&mine, 7, &saved));
    assert_int_equal(json_integer_value(json_object_get(saved, "last_batch_iteration")), 6);
    ASSERT_OK(tx_ds_schedule_steps(saved, &steps));
    assert_int_equal(steps, 7);
    ASSERT_OK(tx_ds_schedule_resume(&s, saved, false, false));
    assert_memory_equal(&s, &mine, sizeof s);
    s = longer;
    ASSERT_FAILS(tx_ds_schedule_resume(&s, saved, false, false), TX_ERR_ARG,
                 "the scheduler: total_steps of the run's WarmupDecayLR is 30, of the checkpoint's 20; give "
                 "--override-opt_param-scheduler to go on with the run's, or --use-checkpoint-opt_param-scheduler");
    assert_memory_equal(&s, &longer, sizeof s);
    ASSERT_OK(tx_ds_schedule_resume(&s, saved, true, false));
    assert_memory_equal(&s, &longer, sizeof s);
    ASSERT_OK(tx_ds_schedule_resume(&s, saved, false, true));
    assert_memory_equal(&s, &mine, sizeof s);
    s = other;
    ASSERT_FAILS(tx_ds_schedule_resume(&s, saved, false, false), TX_ERR_ARG,
                 "the run's is LRRangeTest, the checkpoint's WarmupDecayLR");
    s = none;
    ASSERT_FAILS(tx_ds_schedule_resume(&s, saved, false, false), TX_ERR_ARG,
                 "the run's is none of DeepSpeed's, the checkpoint's WarmupDecayLR");
    ASSERT_OK(tx_ds_schedule_resume(&s, NULL, false, false));
    s = mine;
    ASSERT_FAILS(tx_ds_schedule_resume(&s, NULL, false, false), TX_ERR_ARG,
                 "the run's is WarmupDecayLR, the checkpoint's none of DeepSpeed's");
    json_t *deepspeeds = json_pack("{s:i}", "last_batch_iteration", 6); /* all that its own checkpoints have */
    ASSERT_OK(tx_ds_schedule_steps(deepspeeds, &steps));
    ASSERT_OK(tx_ds_schedule_resume(&s, deepspeeds, false, false));
    assert_memory_equal(&s, &mine, sizeof s);
    s = none;
    ASSERT_FAILS(tx_ds_schedule_resume(&s, deepspeeds, false, false), TX_ERR_ARG,
                 "the run's is none of DeepSpeed's, the checkpoint's is one; give --deepspeed-scheduler");
    ASSERT_OK(tx_ds_schedule_resume(&s, deepspeeds, true, false));
    s = mine;
    json_decref(deepspeeds);
    json_object_set_new(saved, "warmup_steps", json_integer(0));
    ASSERT_FAILS(tx_ds_schedule_resume(&s, saved, false, true), TX_ERR_FORMAT, "contradicts itself");
    json_object_del(saved, "max_lr");
    ASSERT_FAILS(tx_ds_schedule_resume(&s, saved, false, true), TX_ERR_FORMAT, "has no max_lr that can be");
    json_object_set_new(saved, "last_batch_iteration", json_integer(-2));
    ASSERT_FAILS(tx_ds_schedule_steps(saved, &steps), TX_ERR_FORMAT, "last_batch_iteration");
    json_decref(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(numbers_are_deepspeeds),
        SCRATCH_TEST(what_is_left_out),
        SCRATCH_TEST(wrong_sections_are_refused),
        SCRATCH_TEST(a_checkpoint_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
