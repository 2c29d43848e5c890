/* labels: unit */
/* Every key of DeepSpeed's configuration, by tests/data/config/deepspeed_keys.txt, is known; and what the newer and the
 * oldest ones of them do. */
#include "support.h"

#include "config/config.h"

#define GOOD                                                                                                \
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 " \
    "--micro-batch-size 2 "

static tx_status read_json(tx_config **c, const char *flags, const char *json)
{
    char path[300], line[4096];
    snprintf(path, sizeof path, "%s/ds.json", scratch_dir);
    write_file(path, json, strlen(json));
    snprintf(line, sizeof line, "%s --deepspeed_config %s", flags, path);
    return tx_config_parse_string(c, "plan", line);
}

/* {"a":{"b":null}} of "a.b": null is as if the key were left out, but for a key that is unknown. */
static void is_known(const char *key)
{
    char json[400];
    size_t n = 0;
    int depth = 1;
    n += (size_t)snprintf(json, sizeof json, "{\"");
    for (const char *p = key; *p; p++) {
        depth += *p == '.';
        n += (size_t)snprintf(json + n, sizeof json - n, *p == '.' ? "\":{\"" : "%c", *p);
    }
    n += (size_t)snprintf(json + n, sizeof json - n, "\":null%.*s", depth, "}}}}}}");
    tx_config *c = NULL;
    if (read_json(&c, GOOD, json)) fail_msg("%s: %s", json, tx_last_error());
    tx_config_free(c);
}

static void every_key_is_known(void **state)
{
    (void)state;
    tx_str text = read_file(data_path("config/deepspeed_keys.txt"));
    char *rest = NULL;
    int n = 0;
    for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (*line != '#') is_known(line), n++;
    assert_true(n > 250);
    tx_str_free(&text);
}

static void refuses(const char *flags, const char *json, const char *text)
{
    tx_config *c = NULL;
    if (read_json(&c, flags, json) != TX_ERR_ARG) fail_msg("%s was not refused", json);
    ASSERT_CONTAINS(tx_last_error(), text);
    if (strchr(tx_last_error(), '\n')) fail_msg("%s: more than one line: %s", json, tx_last_error());
}

static void newer_keys_are_refused_where_they_change_something(void **state)
{
    (void)state;
    refuses(GOOD, "{\"torch_autocast\": {\"enabled\": true, \"dtype\": \"bfloat16\"}}",
            "mixed precision is --bf16 or --fp16");
    refuses(GOOD, "{\"bf16\": {\"enabled\": true, \"bf16_master_weights_and_grads\": true}}",
            "bf16.bf16_master_weights_and_grads is true, and only false is built: master weights are fp32");
    refuses(GOOD, "{\"bf16\": {\"bf16_optimizer_states\": true}}", "the optimizer's state is fp32");
    refuses(GOOD, "{\"zero_optimization\": {\"zenflow\": {\"topk_ratio\": 0.1}}}",
            "zero_optimization.zenflow: all gradients are applied in every step");
    refuses(GOOD, "{\"zero_optimization\": {\"offload_optimizer\": {\"super_offload\": true}}}",
            "begins after backward");
    refuses(GOOD, "{\"gradient_allreduce_op\": \"sum\"}", "only mean is built");
    refuses(GOOD, "{\"expert_parallel\": {\"enabled\": true}}", "give --moe-expert-parallel-size");
    refuses(GOOD, "{\"data_types\": {\"param_dtype\": \"bf16\"}}", "leave the key out");
    refuses(GOOD, "{\"tensor_parallel\": {\"tp\": {\"tp_size\": 2}}}", "matrices are split by autotp_size");
}

static void autotp_size_is_obeyed(void **state)
{
    (void)state;
    tx_config *c = NULL;
    ASSERT_OK(read_json(&c, GOOD "--world-size 4",
                        "{\"tensor_parallel\": {\"autotp_size\": 2, \"preset_model\": \"llama\"}}"));
    assert_int_equal(c->tensor_model_parallel_size, 2);
    assert_int_equal(tx_config_data_parallel(c), 2);
    tx_config_free(c);
    ASSERT_OK(read_json(&c, GOOD, "{\"tensor_parallel\": {\"autotp_size\": 0}}"));
    assert_int_equal(c->tensor_model_parallel_size, 1);
    tx_config_free(c);
    refuses(GOOD "--world-size 4 --tensor-model-parallel-size 4", "{\"tensor_parallel\": {\"autotp_size\": 2}}",
            "tensor_parallel.autotp_size is 2, but --tensor-model-parallel-size 4 is given");
}

static void max_grad_norm_is_gradient_clipping(void **state)
{
    (void)state;
    static const char *const places[] = { "{\"max_grad_norm\": 0.5}",
                                          "{\"optimizer\": {\"params\": {\"max_grad_norm\": 0.5}}}" };
    for (int i = 0; i < 2; i++) {
        tx_config *c = NULL;
        log_begin();
        ASSERT_OK(read_json(&c, GOOD, places[i]));
        log_end();
        assert_true(c->clip_grad == 0.5);
        ASSERT_CONTAINS(logged, "max_grad_norm: gradient_clipping, as it is called today");
        tx_config_free(c);
    }
    refuses(GOOD, "{\"gradient_clipping\": 1, \"max_grad_norm\": 0.5}", "which says the same thing, has another value");
}

/* Its parameters are not ours to know. */
static void a_refused_optimizer_is_one_violation(void **state)
{
    (void)state;
    refuses(GOOD, "{\"optimizer\": {\"params\": {\"lr\": 1e-3, \"freeze_step\": 9}, \"type\": \"OneBitLion\"}}",
            "optimizer.type OneBitLion: there are Adam (also AdamW), SGD, Lion, Adagrad, Lamb (also FusedLamb), Muon, "
            "OneBitAdam, ZeroOneAdam and OneBitLamb");
    refuses(GOOD, "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"freeze_step\": 9}}}",
            "optimizer.params.freeze_step is no parameter of Adam");
}

/* A flag names another optimizer: the file's parameters are not for that one, but the rate is. */
static void parameters_are_of_the_optimizer_that_counts(void **state)
{
    (void)state;
    tx_config *c = NULL;
    log_begin();
    ASSERT_OK(read_json(&c, GOOD "--optimizer sgd",
                        "{\"optimizer\": {\"type\": \"Lion\", \"params\": {\"lr\": 0.5, \"betas\": [0.1, 0.2]}}}"));
    log_end();
    ASSERT_CONTAINS(logged, "optimizer.type lion: --optimizer sgd is given and counts");
    ASSERT_CONTAINS(logged, "optimizer.params.betas: --optimizer sgd is given and counts, which is not of this type");
    assert_true(c->optimizer == TX_OPTIMIZER_SGD && c->lr == 0.5 && c->lion_beta1 == 0.95);
    assert_true(c->sgd_momentum == 0.9);
    tx_config_free(c);
}

/* The loader of scripts of 2020 had batches of --batch-size, whatever the file said. */
static void batch_sizes_yield_to_the_flag_of_2020(void **state)
{
    (void)state;
    tx_config *c = NULL;
#define EARLY                                                                                               \
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 " \
    "--world-size 4 --batch-size 8 "
    log_begin();
    ASSERT_OK(read_json(&c, EARLY, "{\"train_batch_size\": 16, \"gradient_accumulation_steps\": 1}"));
    log_end();
    assert_int_equal(c->micro_batch_size, 8);
    assert_int_equal(c->global_batch_size, 32);
    ASSERT_CONTAINS(logged, "train_batch_size 16: --batch-size is given and counts");
    tx_config_free(c);
    ASSERT_OK(read_json(&c, EARLY, "{\"train_micro_batch_size_per_gpu\": 10, \"gradient_accumulation_steps\": 2}"));
    assert_int_equal(c->micro_batch_size, 8);
    assert_int_equal(c->global_batch_size, 64);
    tx_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_known),
        cmocka_unit_test(newer_keys_are_refused_where_they_change_something),
        cmocka_unit_test(autotp_size_is_obeyed),
        cmocka_unit_test(max_grad_norm_is_gradient_clipping),
        cmocka_unit_test(a_refused_optimizer_is_one_violation),
        cmocka_unit_test(parameters_are_of_the_optimizer_that_counts),
        cmocka_unit_test(batch_sizes_yield_to_the_flag_of_2020),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
