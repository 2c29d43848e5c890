/* labels: golden unit */
/* --random-ltd: DeepSpeed's own numbers of tokens, from its own JSON; which layers; what is refused. */
#include "support.h"

#include "deepspeed_lengths.h"

#define FLAGS                                                                                               \
    "--micro-batch-size 1 --seq-length 4096 --max-position-embeddings 4096 --num-layers 6 --hidden-size 8 " \
    "--num-attention-heads 2 "
#define DROPS "--random-ltd --random-ltd-min-value 128 --random-ltd-max-value 4096 "
#define STEPS "--random-ltd-require-steps 100 --random-ltd-seq-per-step 16 "

/* The case's schedule as the section of a file. */
static tx_config *of_case(const json_t *c)
{
    json_t *schedule = json_deep_copy(c);
    json_object_del(schedule, "lengths");
    json_t *whole =
        json_pack("{s:{s:b,s:{s:b,s:{s:b,s:i,s:i,s:[i,i,i],s:n,s:s,s:s,s:o}}}}", "data_efficiency", "enabled", 1,
                  "data_routing", "enabled", 1, "random_ltd", "enabled", 1, "total_layer_num", 6,
                  "random_ltd_layer_num", 3, "random_ltd_layer_id", 1, 2, 4, "model_mask_name", "model_type", "decoder",
                  "hidden_state_order", "seq_batch_dim", "random_ltd_schedule", schedule);
    return config_of_json(FLAGS, whole);
}

/* The mean over six layers, three of which drop. */
static int64_t mean_tokens(int64_t length)
{
    return (4096 * 3 + (length < 4096 ? length : 4096) * 3) / 6;
}

static void lengths_are_deepspeeds(void **state)
{
    (void)state;
    json_t *all = load_json(data_path("golden/routing/result.json")), *cases = json_object_get(all, "random_ltd"), *c;
    size_t i;
    json_array_foreach(cases, i, c)
    {
        tx_config *cfg = of_case(c);
        assert_int_equal(tx_config_n_dropping(cfg), 3);
        assert_lengths(cfg, c, i, tx_config_reserved_length, mean_tokens);
        tx_config_free(cfg);
    }
    assert_int_equal(i, 21);
    json_decref(all);
}

/* But for the last places of exp. */
static void theta_is_deepspeeds(void **state)
{
    (void)state;
    json_t *all = load_json(data_path("golden/routing/result.json")), *cases = json_object_get(all, "layer_drop"), *c;
    size_t i, k, n = 0;
    json_array_foreach(cases, i, c)
    {
        char json[200];
        tx_config *cfg;
        const json_t *at;
        snprintf(json, sizeof json,
                 "{\"progressive_layer_drop\": {\"enabled\": true, \"theta\": %.17g, \"gamma\": %.17g}}",
                 json_number_value(json_object_get(c, "theta")), json_number_value(json_object_get(c, "gamma")));
        ASSERT_OK(read_json(&cfg, FLAGS, json));
        json_array_foreach(json_object_get(c, "at"), k, at)
        {
            double want = json_number_value(json_array_get(at, 1));
            double theta = tx_config_layer_theta(cfg, json_integer_value(json_array_get(at, 0)));
            ASSERT_NEAR(theta, want, 4e-16 * want, "theta");
            n++;
        }
        tx_config_free(cfg);
    }
    assert_int_equal(n, 6 * 107);
    json_decref(all);
}

/* A stretch ends where the number changes, and not before. */
static void stretches_are_as_long_as_they_can(void **state)
{
    (void)state;
    tx_config *cfg;
    int64_t last, next;
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS DROPS STEPS));
    for (int64_t i = 1;; i = last + 1) {
        int64_t length = tx_config_reserved_length(cfg, i, &last);
        if (last == INT64_MAX) {
            assert_int_equal(length, 4096);
            assert_int_equal(i, 101);
            break;
        }
        assert_int_not_equal(tx_config_reserved_length(cfg, last + 1, &next), length);
    }
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS));
    assert_int_equal(tx_config_reserved_length(cfg, 7, &last), 0);
    assert_true(last == INT64_MAX);
    tx_config_free(cfg);
}

static void layers_are_those_named_or_in_the_middle(void **state)
{
    (void)state;
    tx_config *cfg;
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS DROPS STEPS));
    for (int i = 0; i < 6; i++) assert_true(tx_config_drops_tokens(cfg, i) == (i > 0 && i < 5));
    assert_int_equal(tx_config_layer_tokens(cfg, 4096, 130), (4096 * 2 + 130 * 4) / 6);
    assert_int_equal(tx_config_layer_tokens(cfg, 100, 130), 100);
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS DROPS STEPS "--random-ltd-layer-id 5 0"));
    for (int i = 0; i < 6; i++) assert_true(tx_config_drops_tokens(cfg, i) == (i == 0 || i == 5));
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS));
    for (int i = 0; i < 6; i++) assert_false(tx_config_drops_tokens(cfg, i));
    tx_config_free(cfg);
}

static void what_is_not_sound_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { DROPS "--random-ltd-require-steps 9", "--random-ltd needs --random-ltd-seq-per-step (data_efficiency."
                                                "data_routing.random_ltd.random_ltd_schedule.schedule_config."
                                                "seq_per_step)" },
        { "--random-ltd-min-value 8", "--random-ltd-min-value needs --random-ltd" },
        { "--random-ltd-layer-id 1", "--random-ltd-layer-id needs --random-ltd" },
        { DROPS STEPS "--random-ltd-min-value 8000",
          "--random-ltd-min-value 8000 is more than --random-ltd-max-value 4096" },
        { DROPS STEPS "--random-ltd-min-value 15",
          "--random-ltd-min-value 15, rounded down to a multiple of --random-ltd-seq-per-step 16, leaves no token" },
        { DROPS STEPS "--random-ltd-layer-id 1 6", "--random-ltd-layer-id 6: layers are numbered from 0 to 5" },
        { DROPS STEPS "--random-ltd-layer-id 1 x", "--random-ltd-layer-id x: layers are numbered from 0 to 5" },
        { DROPS STEPS "--random-ltd-layer-id 2 3 2", "--random-ltd-layer-id has layer 2 twice" },
        { DROPS STEPS "--random-ltd-layer-num 5",
          "--random-ltd-layer-num 5: between the first and the last are 4 layers" },
        { DROPS STEPS "--random-ltd-layer-num 1 --random-ltd-layer-id 2 3",
          "--random-ltd-layer-num 1: --random-ltd-layer-id names 2 layers" },
        { DROPS STEPS "--num-layers 2", "--random-ltd: all layers but the first and the last drop tokens, and "
                                        "--num-layers is 2: give --random-ltd-layer-id" },
        { DROPS STEPS "--position-embedding-type alibi", "--random-ltd: ALiBi's biases of tokens that are not "
                                                         "neighbours are not built" },
        { DROPS STEPS "--window-size 4", "--random-ltd: windows of tokens that are not neighbours are not built" },
        { DROPS STEPS "--num-experts 4", "--random-ltd: layers with experts compute all tokens" },
        { DROPS STEPS "--ds-sequence-parallel-fpdt",
          "--ds-sequence-parallel-fpdt: tokens that pass layers by are not in chunks: leave it out, or --random-ltd" },
        { "--pld-gamma 1", "--pld-gamma needs --progressive-layer-drop" },
        { "--progressive-layer-drop --post-layernorm --model-type BERT",
          "--progressive-layer-drop needs layers past which their input goes unchanged: leave out --post-layernorm" },
        { "--progressive-layer-drop --apply-residual-connection-post-layernorm",
          "leave out --apply-residual-connection-post-layernorm" },
        { "--progressive-layer-drop --num-experts 4",
          "--progressive-layer-drop: ranks that divide experts compute every layer together" },
        { DROPS STEPS "--world-size 32 --tensor-model-parallel-size 32 --sequence-parallel --num-attention-heads 32 "
                      "--hidden-size 64 --random-ltd-seq-per-step 8",
          "--sequence-parallel: --random-ltd leaves 200 tokens from iteration 3 on, which are not divisible by "
          "--tensor-model-parallel-size 32" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = NULL;
        char flags[1024];
        snprintf(flags, sizeof flags, FLAGS "%s", cases[i][0]);
        ASSERT_FAILS_LINES(tx_config_parse_string(&cfg, "plan", flags), TX_ERR_ARG, cases[i][1]);
    }
}

#define SECTION(text) "{\"data_efficiency\": {\"data_routing\": {\"random_ltd\": {\"enabled\": true, " text "}}}}"

static void a_files_errors_have_a_place(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { SECTION("\n\"total_layer_num\": 24"), "line 2, column 1: data_efficiency.data_routing.random_ltd."
                                                "total_layer_num is 24, and the model has 6 layers (--num-layers)" },
        { SECTION("\"random_ltd_schedule\": {\n\"min_value\": 0}"),
          "line 2, column 1: data_efficiency.data_routing.random_ltd.random_ltd_schedule.min_value: "
          "--random-ltd-min-value 0" },
        { SECTION("\"random_ltd_schedule\": {\"schedule_type\": \"fixed_root\"}"),
          "schedule_type is \"fixed_root\", and only fixed_linear is built" },
        { SECTION("\"model_type\": 3"), "data_efficiency.data_routing.random_ltd.model_type is 3, a number; it takes a "
                                        "string" },
        { SECTION("\"layer_token_lr_schedule\": {\"enabled\": true}"),
          "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule is not built" },
        { SECTION("\"random_ltd_layer_id\": []"), "random_ltd_layer_id has 0 numbers; it takes 1 to 1000" },
        { SECTION("\"layers\": 3"), "unknown key \"data_efficiency.data_routing.random_ltd.layers\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = NULL;
        ASSERT_FAILS_LINES(read_json(&cfg, FLAGS, cases[i][0]), TX_ERR_ARG, cases[i][1]);
    }
}

/* Of a section that is not enabled nothing counts. */
static void what_does_not_count_is_taken(void **state)
{
    (void)state;
    tx_config *cfg = NULL;
    const char *off = "{\"data_efficiency\": {\"enabled\": true, \"data_routing\": {\"random_ltd\": {\"enabled\": "
                      "false, \"total_layer_num\": 99, \"random_ltd_schedule\": {\"min_value\": 0}}}}}";
    ASSERT_OK(read_json(&cfg, FLAGS, off));
    assert_false(cfg->random_ltd);
    tx_config_free(cfg);
    ASSERT_FAILS_LINES(read_json(&cfg, FLAGS DROPS STEPS, off), TX_ERR_ARG,
                       "data_efficiency.data_routing.random_ltd.enabled is false, but --random-ltd is given");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_deepspeeds),
        cmocka_unit_test(theta_is_deepspeeds),
        cmocka_unit_test(stretches_are_as_long_as_they_can),
        cmocka_unit_test(layers_are_those_named_or_in_the_middle),
        cmocka_unit_test(what_is_not_sound_is_refused),
        cmocka_unit_test(a_files_errors_have_a_place),
        cmocka_unit_test(what_does_not_count_is_taken),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
