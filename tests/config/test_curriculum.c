/* labels: golden unit */
/* --curriculum-schedule: DeepSpeed's own lengths, from its own JSON; which parameters are whose; what is refused. */
#include "support.h"

#include "config/curriculum_metrics.h"
#include "deepspeed_lengths.h"

#define FLAGS                                                                                               \
    "--micro-batch-size 1 --seq-length 4096 --max-position-embeddings 4096 --num-layers 1 --hidden-size 8 " \
    "--num-attention-heads 2 "
#define LINEAR "--curriculum-schedule fixed_linear --curriculum-min-difficulty 8 --curriculum-max-difficulty 64 "
#define STEPS  "--curriculum-total-step 100 --curriculum-difficulty-step 8 "

/* The case's curriculum as the section of a file. */
static tx_config *of_case(const json_t *c)
{
    json_t *section = json_deep_copy(c), *whole;
    json_object_del(section, "lengths");
    json_object_set_new(section, "enabled", json_true());
    json_object_set_new(section, "curriculum_type", json_string("seqlen"));
    whole = json_pack("{s:o}", "curriculum_learning", section);
    return config_of_json(FLAGS, whole);
}

static int64_t all_tokens(int64_t length)
{
    return length;
}

static void lengths_are_deepspeeds(void **state)
{
    (void)state;
    json_t *cases = load_json(data_path("golden/curriculum/result.json")), *c;
    size_t i;
    json_array_foreach(cases, i, c)
    {
        tx_config *cfg = of_case(c);
        assert_lengths(cfg, c, i, tx_config_sample_length, all_tokens);
        tx_config_free(cfg);
    }
    assert_int_equal(i, 21);
    json_decref(cases);
}

/* A stretch ends where the length changes, and not before. */
static void stretches_are_as_long_as_they_can(void **state)
{
    (void)state;
    tx_config *cfg;
    int64_t last, next;
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS LINEAR STEPS));
    for (int64_t i = 1; i < 200; i = last + 1) {
        int64_t length = tx_config_sample_length(cfg, i, &last);
        if (last == INT64_MAX) {
            assert_int_equal(length, 64);
            assert_int_equal(i, 100);
            break;
        }
        assert_int_not_equal(tx_config_sample_length(cfg, last + 1, &next), length);
    }
    assert_true(last == INT64_MAX);
    tx_config_free(cfg);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", FLAGS));
    assert_int_equal(tx_config_sample_length(cfg, 7, &last), 4096);
    assert_true(last == INT64_MAX);
    tx_config_free(cfg);
}

static void what_is_not_sound_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { LINEAR, "--curriculum-schedule fixed_linear needs --curriculum-total-step "
                  "(curriculum_learning.schedule_config.total_curriculum_step)" },
        { LINEAR STEPS "--curriculum-root-degree 2",
          "--curriculum-root-degree is none of --curriculum-schedule fixed_linear's: leave it out" },
        { STEPS, "--curriculum-total-step needs --curriculum-schedule" },
        { LINEAR STEPS "--curriculum-min-difficulty 72",
          "--curriculum-min-difficulty 72 is more than --curriculum-max-difficulty 64" },
        { LINEAR STEPS "--curriculum-max-difficulty 4104",
          "--curriculum-max-difficulty 4104 is more than --seq-length 4096" },
        { "--curriculum-schedule fixed_discrete --curriculum-min-difficulty 8 --curriculum-max-difficulty 64 "
          "--curriculum-difficulty 8 16 --curriculum-max-step 1 2",
          "--curriculum-difficulty has 2 lengths and --curriculum-max-step 2 iterations: it takes one less" },
        { "--curriculum-schedule fixed_discrete --curriculum-min-difficulty 8 --curriculum-max-difficulty 64 "
          "--curriculum-difficulty 8 16 64 --curriculum-max-step 2 2",
          "--curriculum-max-step: 2 comes after 2, and is not more" },
        { "--curriculum-schedule fixed_discrete --curriculum-min-difficulty 8 --curriculum-max-difficulty 64 "
          "--curriculum-difficulty 8 x --curriculum-max-step 2",
          "--curriculum-difficulty x: each is a whole number from 1 to 1e9" },
        { LINEAR STEPS "--model-type BERT", "--curriculum-schedule: a BERT's samples are not cut" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = NULL;
        char flags[1024];
        snprintf(flags, sizeof flags, FLAGS "%s", cases[i][0]);
        ASSERT_FAILS_LINES(tx_config_parse_string(&cfg, "plan", flags), TX_ERR_ARG, cases[i][1]);
    }
}

#define SECTION(text) "{\"curriculum_learning\": {\"enabled\": true, " text "}}"
#define RANGE         "\"min_difficulty\": 8, \"max_difficulty\": 64, "

static void a_files_errors_have_a_place(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { SECTION(RANGE "\n \"schedule_config\": {}"), "line 1, column 26: curriculum_learning is enabled and has no "
                                                       "schedule_type: give fixed_linear, fixed_root or "
                                                       "fixed_discrete" },
        { SECTION(RANGE "\n\"schedule_type\": \"custom\""),
          "line 2, column 1: curriculum_learning.schedule_type: --curriculum-schedule custom" },
        { SECTION(RANGE "\n\"schedule_type\": \"fixed_linear\",\n \"schedule_config\": {\"total_curriculum_step\": 0}"),
          "line 3, column 22: curriculum_learning.schedule_config.total_curriculum_step: --curriculum-total-step 0" },
        { SECTION(RANGE "\"schedule_type\": \"fixed_linear\", \"curriculum_type\": \"loss\""),
          "curriculum_learning.curriculum_type is \"loss\", and only seqlen is built" },
        { SECTION(RANGE
                  "\"schedule_type\": \"fixed_discrete\", \"schedule_config\": {\"difficulty\": [], \"max_step\": "
                  "[1]}"),
          "curriculum_learning.schedule_config.difficulty has 0 numbers; it takes 1 to 1000" },
        { SECTION(RANGE "\"difficulties\": 3"), "unknown key \"curriculum_learning.difficulties\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *cfg = NULL;
        ASSERT_FAILS_LINES(read_json(&cfg, FLAGS, cases[i][0]), TX_ERR_ARG, cases[i][1]);
    }
}

/* Of a section that is not enabled nothing counts; of one that is, parameters of another schedule. */
static void what_does_not_count_is_taken(void **state)
{
    (void)state;
    tx_config *cfg;
    ASSERT_OK(read_json(&cfg, FLAGS,
                        "{\"curriculum_learning\": {\"enabled\": false, \"schedule_type\": \"custom\", "
                        "\"min_difficulty\": 99999999}}"));
    assert_int_equal(cfg->curriculum_schedule, 0);
    tx_config_free(cfg);
    ASSERT_OK(read_json(&cfg, FLAGS,
                        SECTION(RANGE "\"schedule_type\": \"fixed_linear\", \"schedule_config\": {"
                                      "\"total_curriculum_step\": 10, \"difficulty_step\": 8, \"root_degree\": 2}")));
    assert_int_equal(cfg->curriculum_schedule, TX_CURRICULUM_LINEAR);
    assert_false(cfg->given.curriculum_root_degree);
    tx_config_free(cfg);
}

static void ranks_divide_every_length(void **state)
{
    (void)state;
    tx_config *cfg = NULL;
    const char *const two = FLAGS "--world-size 2 --tensor-model-parallel-size 2 --sequence-parallel "
                                  "--curriculum-schedule fixed_linear --curriculum-min-difficulty 8 "
                                  "--curriculum-max-difficulty 64 --curriculum-total-step 100 ";
    char flags[1024];
    snprintf(flags, sizeof flags, "%s--curriculum-difficulty-step 3", two);
    ASSERT_FAILS_LINES(tx_config_parse_string(&cfg, "plan", flags), TX_ERR_ARG,
                       "--sequence-parallel: --curriculum-schedule has 9 tokens from iteration 1 on, which "
                       "are not divisible by --tensor-model-parallel-size 2");
    snprintf(flags, sizeof flags, "%s--curriculum-difficulty-step 4", two);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", flags));
    tx_config_free(cfg);
}

/* Upstream's warning. */
static void odd_lengths_are_warned_of(void **state)
{
    (void)state;
    static const char *const step[] = { "8", "64", "12" };
    tx_config *cfg;
    for (int i = 0; i < 3; i++) {
        char flags[1024];
        snprintf(flags, sizeof flags, "%s%s--curriculum-total-step 100 --curriculum-difficulty-step %s", FLAGS, LINEAR,
                 step[i]);
        log_begin();
        ASSERT_OK(tx_config_parse_string(&cfg, "plan", flags));
        log_end();
        tx_config_free(cfg);
        assert_int_equal(strstr(warned, "multiple of 8") != NULL, i == 2);
    }
    ASSERT_CONTAINS(warned,
                    "--curriculum-difficulty-step 12: lengths that are no multiple of 8 make products slower on GPUs");
}

/* ---- samples that are drawn by difficulty ---- */

#define METRIC(more)                                                                                      \
    "{\"index_to_sample_path\": \"s\", \"index_to_metric_path\": \"m\", \"difficulty_type\": \"value\", " \
    "\"clustering_type\": \"schedule_based\", \"min_difficulty\": 4, \"max_difficulty\": 9, " more "}"
#define GROWS \
    "\"schedule_type\": \"fixed_linear\", \"schedule_config\": {\"total_curriculum_step\": 7, \"difficulty_step\": 2}"
#define LENGTHS                                                                                         \
    "{\"difficulty_type\": \"value\", \"clustering_type\": \"single_cluster\", \"min_difficulty\": 8, " \
    "\"max_difficulty\": 64, " GROWS "}"
#define DRAWS(metrics)                                                                                                 \
    "{\"data_efficiency\": {\"enabled\": true, \"seed\": 77,\n\"data_sampling\": {\"enabled\": true, \"num_epochs\": " \
    "3, "                                                                                                              \
    "\"num_workers\": 2, \"curriculum_learning\": {\"enabled\": true, \"data_cluster_path\": \"here\", "               \
    "\"curriculum_metrics\": " metrics "}}}}"

static void deepspeeds_section_draws_samples(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_curriculum_metrics all;
    ASSERT_OK(
        read_json(&cfg, FLAGS,
                  DRAWS("{\"rarity\": " METRIC(GROWS) ", \"seqlen_truncate\": " LENGTHS ", \"same\": " LENGTHS "}")));
    assert_true(cfg->data_efficiency_curriculum_learning);
    assert_int_equal(cfg->data_efficiency_seed, 77);
    assert_int_equal(cfg->data_sampling_num_epochs, 3);
    assert_string_equal(cfg->data_cluster_path, "here");
    assert_int_equal(cfg->curriculum_schedule, TX_CURRICULUM_LINEAR);
    assert_int_equal(cfg->curriculum_max_difficulty, 64);
    ASSERT_OK(tx_curriculum_metrics_parse(&all, cfg->curriculum_metrics));
    assert_int_equal(all.n, 1);
    assert_string_equal(all.metric[0].name, "rarity");
    assert_string_equal(all.metric[0].index_to_metric, "m");
    assert_int_equal(tx_curriculum_at(&all.metric[0].schedule, 1), 4);
    assert_int_equal(tx_curriculum_at(&all.metric[0].schedule, 6), 8);
    assert_int_equal(tx_curriculum_at(&all.metric[0].schedule, 7), 8); /* whole multiples of 2 */
    assert_int_equal(tx_curriculum_at(&all.metric[0].schedule, 9), 9);
    tx_curriculum_metrics_free(&all);
    tx_config_free(cfg);
    static const char off[] = "{\"data_efficiency\": {\"enabled\": true, \"data_sampling\": {\"enabled\": false, "
                              "\"curriculum_learning\": {\"enabled\": false, \"curriculum_metrics\": {\"a\": 1}}}}}";
    ASSERT_OK(read_json(&cfg, FLAGS, off));
    assert_false(cfg->data_efficiency_curriculum_learning);
    tx_config_free(cfg);
}

static void drawn_samples_have_rules(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { DRAWS("{\"a\": " METRIC("\"schedule_type\": \"custom\"") "}"),
          "line 2, column 1: data_efficiency.data_sampling.curriculum_learning.curriculum_metrics: a: schedule_type is "
          "fixed_linear, fixed_root or fixed_discrete" },
        { DRAWS("{\"a\": " METRIC("\"schedule_type\": \"fixed_linear\"") "}"),
          "curriculum_metrics: a has no total_curriculum_step: give a whole number" },
        { DRAWS("{\"a\": {\"clustering_type\": \"schedule_based\"}}"),
          "curriculum_metrics: a: difficulty_type is value or percentile" },
        { DRAWS("{\"a\": {\"difficulty_type\": \"value\"}}"),
          "curriculum_metrics: a: clustering_type is single_cluster or schedule_based" },
        { DRAWS("{\"a\": {\"difficulty_type\": \"value\", \"clustering_type\": \"schedule_based\", \"min_difficulty\": "
                "1, "
                "\"max_difficulty\": 2, " GROWS "}}"),
          "curriculum_metrics: a has no index_to_sample_path: give the path, without .bin and .idx, that triax "
          "analyze-data has written" },
        { DRAWS("{\"a\": {\"difficulty_type\": \"value\", \"clustering_type\": \"schedule_based\", \"min_difficulty\": "
                "1, "
                "\"max_difficulty\": 2, \"index_to_sample_path\": \"s\", " GROWS "}}"),
          "curriculum_metrics: a has no index_to_metric_path: give the path" },
        { DRAWS(
              "{\"a\": " METRIC("\"schedule_type\": \"fixed_linear\", \"schedule_config\": {\"root_degree\": 2}") "}"),
          "curriculum_metrics: a: root_degree is no member of the schedule_config of fixed_linear: leave it out" },
        { DRAWS(
              "{\"a\": " METRIC("\"schedule_type\": \"fixed_discrete\", \"schedule_config\": {\"difficulty\": [1, 2], "
                                "\"max_step\": [1, 2]}") "}"),
          "curriculum_metrics: a: schedule_config has a list difficulty of 2 to 1000 numbers, and a list max_step of "
          "one "
          "less" },
        { DRAWS("{\"seqlen_reshape\": " LENGTHS "}"), "curriculum_metrics: seqlen_reshape is not built" },
        { DRAWS("{\"a\": 3}"), "curriculum_metrics: \"a\" is no metric: a metric is a name with an object { ... }" },
        { "{\"data_efficiency\": {\"data_sampling\": {\"enabled\": true, \"curriculum_learning\": {\"enabled\": true, "
          "\"curriculum_metrics\": {}}}}}",
          "data_efficiency.data_sampling.curriculum_learning is enabled, and data_efficiency or data_sampling is not" },
        { "{\"data_efficiency\": {\"enabled\": true, \"data_sampling\": {\"enabled\": true, \"curriculum_learning\": "
          "{\"enabled\": true}}}}",
          "curriculum_learning is enabled and has no curriculum_metrics" },
        { "{\"data_efficiency\": {\"data_sampling\": {\"num_epoch\": 2}}}",
          "data_sampling.num_epoch: there is no such key; docs/deepspeed-keys.md lists the keys" },
        { "{\"data_efficiency\": {\"data_sampling\": {\"num_epochs\": \"x\"}}}",
          "data_sampling.num_epochs is a string; it takes a number" },
        { "{\"data_efficiency\": {\"data_sampling\": {\"dynamic_batching\": {\"enabled\": true}}}}",
          "data_sampling.dynamic_batching is not built" },
    };
    tx_config *cfg;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ASSERT_FAILS_LINES(read_json(&cfg, FLAGS, cases[i][0]), TX_ERR_ARG, cases[i][1]);
    static const char *const flags[][2] = {
        { "--data-efficiency-curriculum-learning", "--data-efficiency-curriculum-learning needs --curriculum-metrics" },
        { "--curriculum-metrics {}", "--curriculum-metrics needs --data-efficiency-curriculum-learning" },
        { "--data-cluster-path x", "--data-cluster-path needs --data-efficiency-curriculum-learning" },
        { "--data-efficiency-curriculum-learning --curriculum-metrics {",
          "--curriculum-metrics: it is no JSON object" },
        { "--data-efficiency-curriculum-learning --curriculum-metrics {} --dataloader-type cyclic",
          "is an order of its own: use --dataloader-type single" },
        { "--data-efficiency-curriculum-learning --curriculum-metrics {} --rampup-batch-size 1 1 8 --global-batch-size "
          "2 "
          "--train-samples 100",
          "draws batches of one size" },
        { "--data-efficiency-curriculum-learning --curriculum-metrics {} --data-path 1 a 1 b",
          "draws from one dataset" },
        { "--data-efficiency-curriculum-learning --curriculum-metrics "
          "{\"a\":{\"difficulty_type\":\"value\",\"clustering_type\":\"single_cluster\",\"min_difficulty\":1,"
          "\"max_difficulty\":2,\"schedule_type\":\"fixed_linear\",\"schedule_config\":{\"total_curriculum_step\":1,"
          "\"difficulty_step\":1}}}",
          "--curriculum-metrics: a is of a single cluster, so no sample is drawn by it" },
    };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        char all[2048];
        snprintf(all, sizeof all, FLAGS "%s", flags[i][0]);
        ASSERT_FAILS_LINES(tx_config_parse_string(&cfg, "plan", all), TX_ERR_ARG, flags[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_are_deepspeeds),       cmocka_unit_test(stretches_are_as_long_as_they_can),
        cmocka_unit_test(what_is_not_sound_is_refused), cmocka_unit_test(a_files_errors_have_a_place),
        cmocka_unit_test(what_does_not_count_is_taken), cmocka_unit_test(ranks_divide_every_length),
        cmocka_unit_test(odd_lengths_are_warned_of),    cmocka_unit_test(deepspeeds_section_draws_samples),
        cmocka_unit_test(drawn_samples_have_rules),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
