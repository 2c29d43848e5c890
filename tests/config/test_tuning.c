/* labels: unit
 * The settings of the autotuner: defaults, what a file sets, what it may not. */
#include "config/tuning.h"

#include <unistd.h>

#include "config/config.h"
#include "support.h"

#define FLAGS                                                                                            \
    "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 --max-position-embeddings 8 " \
    "--micro-batch-size 1 "

static char path[64];

static void put_file(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static tx_status parse(const char *json)
{
    char flags[512];
    tx_config *cfg = NULL;
    put_file(json);
    snprintf(flags, sizeof flags, FLAGS "--deepspeed_config %s", path);
    tx_status st = tx_config_parse_string(&cfg, "plan", flags);
    tx_config_free(cfg);
    return st;
}

static void left_out(void **state)
{
    (void)state;
    tx_tuning t;
    ASSERT_OK(tx_tuning_read(&t, NULL));
    assert_string_equal(t.results_dir, "autotuning_results");
    assert_true(t.start_profile_step == 3 && t.tuner_num_trials == 8 && !t.overwrite && !t.any_batch && !t.grid &&
                !t.latency);
    tx_tuning_free(&t);
    put_file("{\"autotuning\": {\"results_dir\": null, \"tuner_num_trials\": \"auto\"}, \"train_batch_size\": 4}");
    ASSERT_OK(tx_tuning_read(&t, path));
    assert_string_equal(t.results_dir, "autotuning_results");
    assert_true(t.tuner_num_trials == 8 && !t.any_batch);
    tx_tuning_free(&t);
}

static void set_by_the_file(void **state)
{
    (void)state;
    static const char json[] =
        "{\"train_batch_size\": \"auto\", \"autotuning\": {\"enabled\": true, \"results_dir\": \"r\", \"exps_dir\": "
        "\"e\","
        "\"overwrite\": true, \"metric\": \"latency\", \"start_profile_step\": 2, \"end_profile_step\": 4,"
        "\"tuner_type\": \"gridsearch\", \"tuner_num_trials\": 1e2, \"mp_size\": 2, \"fast\": false,"
        "\"arg_mappings\": {\"x\": \"--x\"}, \"model_info\": {\"num_params\": 3}}}";
    tx_tuning t;
    ASSERT_OK(parse(json));
    ASSERT_OK(tx_tuning_read(&t, path));
    assert_string_equal(t.results_dir, "r");
    assert_string_equal(t.exps_dir, "e");
    assert_true(t.latency && t.grid);
    assert_true(t.overwrite && t.any_batch && t.start_profile_step == 2 && t.end_profile_step == 4);
    assert_true(t.tuner_num_trials == 100 && t.mp_size == 2);
    tx_tuning_free(&t);
}

static void not_allowed(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "\"metric\": \"speed\"", "autotuning.metric is \"speed\"; it takes one of throughput|latency|flops" },
        { "\"tuner_type\": \"random\"", "autotuning.tuner_type is \"random\"; it takes one of model_based|gridsearch" },
        { "\"tuner_num_trials\": 0", "autotuning.tuner_num_trials is 0; it takes a whole number from 1 to 100000" },
        { "\"start_profile_step\": 2.5", "autotuning.start_profile_step is 2.5; it takes a whole number" },
        { "\"overwrite\": 1", "autotuning.overwrite is 1; it takes true or false" },
        { "\"results_dir\": \"\"", "autotuning.results_dir is \"\"; it takes a name that is not empty" },
        { "\"tuner_trials\": 3", "unknown key \"autotuning.tuner_trials\"; did you mean" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[256];
        snprintf(json, sizeof json, "{\"autotuning\": {%s}}", cases[i][0]);
        assert_int_equal(parse(json), TX_ERR_ARG);
        ASSERT_CONTAINS(tx_last_error(), cases[i][1]);
    }
    tx_tuning t;
    put_file("{\"autotuning\": {\"start_profile_step\": 9}}");
    assert_int_equal(tx_tuning_read(&t, path), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "start_profile_step 9 is beyond end_profile_step 8");
    tx_tuning_free(&t);
    put_file("{\"autotuning\": {\"min_train_micro_batch_size_per_gpu\": 2000}}");
    assert_int_equal(tx_tuning_read(&t, path), TX_ERR_ARG);
    ASSERT_CONTAINS(tx_last_error(), "min_train_micro_batch_size_per_gpu 2000 is more than the largest, 1024");
    tx_tuning_free(&t);
}

int main(void)
{
    char folder[] = "/tmp/triax-tuning-XXXXXX";
    const struct CMUnitTest tests[] = { cmocka_unit_test(left_out), cmocka_unit_test(set_by_the_file),
                                        cmocka_unit_test(not_allowed) };
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/ds.json", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
