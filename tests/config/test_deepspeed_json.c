/* labels: unit */
/* DeepSpeed's JSON as options: every key, every way in which a file or a key is wrong, and what it says of batches. */
#include "support.h"

#include "config/deepspeed_json.h"
#include "ds_sections.h"

#define SHAPE  "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
#define GOOD   SHAPE "--micro-batch-size 2 "
#define RANKS4 SHAPE "--world-size 4 "

/* flags with --deepspeed_config of a file that holds `json` */
static tx_status read_json(tx_config **c, const char *command, const char *flags, const char *json)
{
    char path[300], line[4096];
    snprintf(path, sizeof path, "%s/ds.json", scratch_dir);
    write_file(path, json, strlen(json));
    snprintf(line, sizeof line, "%s --deepspeed_config %s", flags, path);
    return tx_config_parse_string(c, command, line);
}

static tx_config *parsed(const char *flags, const char *json)
{
    tx_config *c = NULL;
    if (read_json(&c, "plan", flags, json)) fail_msg("%s %s: %s", flags, json, tx_last_error());
    return c;
}

/* The error without the folder in which the file lies. */
static void refused(const char *command, const char *flags, const char *json, const char *text)
{
    tx_config *c = NULL;
    tx_str got = { 0 };
    size_t n = strlen(scratch_dir) + 1;
    if (read_json(&c, command, flags, json) != TX_ERR_ARG) fail_msg("%s %s was not refused", flags, json);
    for (const char *p = tx_last_error(), *at; *p; p = at ? at + n : p + strlen(p)) {
        at = strstr(p, scratch_dir);
        ASSERT_OK(tx_str_append(&got, p, at ? (size_t)(at - p) : strlen(p)));
    }
    if (strcmp(got.data, text) != 0) fail_msg("%s %s:\n%s\nexpected:\n%s", flags, json, got.data, text);
    tx_str_free(&got);
}

/* ---------------------------------------------------------------- every key that is an option */

/* A value that is not the default, as JSON, and the option printed. A switch that is on by default becomes off. */
static const struct set {
    const char *json, *field, *printed;
} sets[] = {
    { "{\"train_batch_size\": 8}", "global_batch_size", "8" },
    { "{\"train_micro_batch_size_per_gpu\": 2}", "micro_batch_size", "2" },
    { "{\"sequence_parallel_size\": 1}", "ds_sequence_parallel_size", "1" },
    { "{\"gradient_accumulation_steps\": 3}", "global_batch_size", "6" },
    { "{\"gradient_accumulation_steps\": 3.0}", "global_batch_size", "6" },
    { "{\"optimizer\": {\"type\": \"Adam\"}}", "optimizer", "adam" },
    { "{\"optimizer\": {\"type\": \"ADAMW\"}}", "optimizer", "adam" },
    { "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.5}}}", "optimizer", "sgd" },
    { "{\"optimizer\": {\"params\": {\"momentum\": 0.5}}}", "sgd_momentum", "0.5" },
    { "{\"optimizer\": {\"type\": \"SGD\", \"params\": {}}}", "sgd_momentum", "0.0" },
    { "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.5, \"nesterov\": true}}}", "sgd_nesterov",
      "True" },
    { "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.5, \"dampening\": 0.25}}}", "sgd_dampening",
      "0.25" },
    { "{\"optimizer\": {\"type\": \"Lion\", \"params\": {\"betas\": [0.8, 0.95]}}}", "optimizer", "lion" },
    { "{\"optimizer\": {\"params\": {\"betas\": [0.8, 0.95]}, \"type\": \"Lion\"}}", "lion_beta1", "0.8" },
    { "{\"optimizer\": {\"type\": \"lion\", \"params\": {\"betas\": [0.8, 0.95]}}}", "lion_beta2", "0.95" },
    { "{\"optimizer\": {\"type\": \"Lion\"}}", "lion_beta1", "0.9" },
    { "{\"optimizer\": {\"type\": \"Lion\"}}", "lion_beta2", "0.99" },
    { "{\"optimizer\": {\"type\": \"Adagrad\", \"params\": {\"eps\": 1e-6}}}", "optimizer", "adagrad" },
    { "{\"optimizer\": {\"type\": \"Lamb\"}}", "optimizer", "lamb" },
    { "{\"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": 23, \"cuda_aware\": false, "
      "\"comm_backend_name\": \"nccl\"}}}",
      "onebit_freeze_step", "23" },
    { "{\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"var_freeze_step\": 23, \"bias_correction\": false}}}",
      "optimizer", "zerooneadam" },
    { "{\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"var_freeze_step\": 23, \"eps_inside_sqrt\": true}}}",
      "var_freeze_step", "23" },
    { "{\"optimizer\": {\"type\": \"OneBitAdam\", \"params\": {\"freeze_step\": 24, \"eps_inside_sqrt\": true}}}",
      "onebit_freeze_step", "24" },
    { "{\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"var_update_scaler\": 4}}}", "var_update_scaler",
      "4" },
    { "{\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"local_step_scaler\": 5}}}", "local_step_scaler",
      "5" },
    { "{\"optimizer\": {\"type\": \"ZeroOneAdam\", \"params\": {\"local_step_clipper\": 6}}}", "local_step_clipper",
      "6" },
    { "{\"optimizer\": {\"type\": \"OneBitLamb\", \"params\": {\"freeze_step\": 23, \"cuda_aware\": false, "
      "\"comm_backend_name\": \"nccl\", \"bias_correction\": true, \"eps_inside_sqrt\": false, \"amsgrad\": false, "
      "\"max_coeff\": 0.3, \"min_coeff\": 0.01}}}",
      "onebit_freeze_step", "23" },
    { "{\"optimizer\": {\"type\": \"OneBitLamb\", \"params\": {\"coeff_beta\": 0.8}}}", "onebit_coeff_beta", "0.8" },
    { "{\"optimizer\": {\"type\": \"OneBitLamb\", \"params\": {\"factor_max\": 3.5}}}", "onebit_factor_max", "3.5" },
    { "{\"optimizer\": {\"type\": \"onebitlamb\", \"params\": {\"factor_min\": 0.4}}}", "onebit_factor_min", "0.4" },
    { "{\"optimizer\": {\"type\": \"OneBitLamb\", \"params\": {\"factor_threshold\": 0.2}}}", "onebit_factor_threshold",
      "0.2" },
    { "{\"optimizer\": {\"type\": \"FusedLamb\", \"params\": {\"max_coeff\": 0.3}}}", "lamb_max_coeff", "0.3" },
    { "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"min_coeff\": 0.08}}}", "lamb_min_coeff", "0.08" },
    { "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"bias_correction\": false}}}", "lamb_bias_correction",
      "none" },
    { "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"bias_correction\": true}}}", "lamb_bias_correction",
      "rate" },
    { "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"eps_inside_sqrt\": true}}}", "lamb_eps_inside_sqrt",
      "True" },
    { "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"betas\": [0.8, 0.95]}}}", "adam_beta2", "0.95" },
    { "{\"optimizer\": {\"type\": \"Adagrad\", \"params\": {\"eps\": 1e-6}}}", "adagrad_eps", "1e-06" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "optimizer", "muon" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "muon_momentum", "0.95" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "muon_nesterov", "True" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "muon_split_qkv", "False" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "muon_scale_mode", "shape_scaling" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "muon_coefficient_type", "simple" },
    { "{\"optimizer\": {\"type\": \"Muon\"}}", "adam_beta2", "0.95" },
    { "{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"momentum\": 0.8, \"eps\": 1e-7}}}", "muon_momentum", "0.8" },
    { "{\"optimizer\": {\"type\": \"Muon\", \"params\": {\"momentum\": 0.8, \"eps\": 1e-7}}}", "adam_eps", "1e-07" },
    { "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}", "decoupled_weight_decay",
      "False" },
    { "{\"optimizer\": {\"params\": {\"lr\": 1e-3}}}", "lr", "0.001" },
    { "{\"optimizer\": {\"params\": {\"max_grad_norm\": 0.5}}}", "clip_grad", "0.5" },
    { "{\"max_grad_norm\": 0.5}", "clip_grad", "0.5" },
    { "{\"zero_optimization\": {\"prefetch_bucket_size\": 7}}", "zero_prefetch_bucket_size", "7" },
    { "{\"zero_optimization\": {\"param_persistence_threshold\": 7}}", "zero_param_persistence_threshold", "7" },
    { "{\"zero_optimization\": {\"model_persistence_threshold\": 7}}", "zero_model_persistence_threshold", "7" },
    { "{\"zero_optimization\": {\"max_live_parameters\": 7}}", "zero_max_live_parameters", "7" },
    { "{\"zero_optimization\": {\"max_reuse_distance\": 7}}", "zero_max_reuse_distance", "7" },
    { "{\"tensor_parallel\": {\"autotp_size\": 1}}", "tensor_model_parallel_size", "1" },
    { "{\"log_level\": \"debug\"}", "log_level", "debug" },
    { "{\"optimizer\": {\"params\": {\"betas\": [0.8, 0.95]}}}", "adam_beta1", "0.8" },
    { "{\"optimizer\": {\"params\": {\"betas\": [0.8, 0.95]}}}", "adam_beta2", "0.95" },
    { "{\"optimizer\": {\"params\": {\"eps\": 1e-6}}}", "adam_eps", "1e-06" },
    { "{\"optimizer\": {\"params\": {\"weight_decay\": 0.1}}}", "weight_decay", "0.1" },
    { "{\"optimizer\": {\"params\": {\"weight_decay\": 0.1}}}", "end_weight_decay", "0.1" },
    { "{\"gradient_clipping\": 0}", "clip_grad", "0.0" },
    { "{\"fp16\": {\"enabled\": true}}", "fp16", "True" },
    { "{\"fp16\": {\"enabled\": true}}", "initial_loss_scale", "4294967296.0" },
    { "{\"fp16\": {\"enabled\": true, \"loss_scale\": 128}}", "loss_scale", "128.0" },
    { "{\"fp16\": {\"loss_scale\": 0, \"enabled\": true}}", "loss_scale", "None" },
    { "{\"fp16\": {\"initial_scale_power\": 12, \"enabled\": true}}", "initial_loss_scale", "4096.0" },
    { "{\"fp16\": {\"enabled\": true, \"loss_scale_window\": 500}}", "loss_scale_window", "500.0" },
    { "{\"fp16\": {\"enabled\": true, \"loss_scale_window\": 500}}", "initial_loss_scale", "65536.0" },
    { "{\"fp16\": {\"enabled\": true, \"hysteresis\": 1}}", "hysteresis", "1" },
    { "{\"fp16\": {\"enabled\": true, \"min_loss_scale\": 4}}", "min_loss_scale", "4.0" },
    { "{\"fp16\": {\"enabled\": false, \"min_loss_scale\": 4, \"loss_scale\": 8}}", "min_loss_scale", "1.0" },
    { "{\"bf16\": {\"enabled\": true}}", "bf16", "True" },
    /* gradients: DeepSpeed's own default in fp16, and triax's else */
    { "{\"fp16\": {\"enabled\": true}}", "grad_dtype", "fp16" },
    { "{\"fp16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": null}}", "grad_dtype", "fp16" },
    { "{\"fp16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"float32\"}}", "grad_dtype", "fp32" },
    { "{\"fp16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"half\"}}", "grad_dtype", "fp16" },
    { "{\"fp16\": {\"enabled\": false}}", "grad_dtype", "fp32" },
    { "{\"bf16\": {\"enabled\": true}}", "grad_dtype", "fp32" },
    { "{\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"bfloat16\"}}", "grad_dtype", "bf16" },
    { "{\"bf16\": {\"enabled\": true}}", "grad_reduce_dtype", "None" },
    { "{\"communication_data_type\": \"FP16\"}", "grad_reduce_dtype", "fp16" },
    { "{\"fp16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\"}", "grad_reduce_dtype", "fp32" },
    { "{\"fp16\": {\"enabled\": true}, \"fp32_allreduce\": true}", "grad_reduce_dtype", "fp32" },
    { "{\"fp32_allreduce\": false}", "grad_reduce_dtype", "None" },
    { "{\"bfloat16\": {\"enabled\": true}}", "bf16", "True" },
    { "{\"zero_optimization\": true}", "zero_stage", "1" },
    { "{\"zero_optimization\": false}", "zero_stage", "0" },
    { "{\"zero_optimization\": {\"stage\": 2}}", "zero_stage", "2" },
    { "{\"zero_optimization\": {\"reduce_scatter\": false}}", "zero_reduce_scatter", "False" },
    { "{\"zero_optimization\": {\"reduce_bucket_size\": 5e8}}", "zero_reduce_bucket_size", "500000000" },
    { "{\"zero_optimization\": {\"allgather_partitions\": false}}", "zero_allgather_partitions", "False" },
    { "{\"zero_optimization\": {\"allgather_bucket_size\": 2e8}}", "zero_allgather_bucket_size", "200000000" },
    { "{\"allgather_size\": 2e8}", "zero_allgather_bucket_size", "200000000" },
    { "{\"zero_optimization\": {\"overlap_comm\": false}}", "overlap_grad_reduce", "False" },
    { "{\"zero_optimization\": {\"overlap_comm\": true}}", "overlap_grad_reduce", "True" },
    { "{\"zero_optimization\": {\"sub_group_size\": 1e12}}", "zero_sub_group_size", "1000000000000" },
    { "{\"zero_optimization\": {\"stage\": 1, \"cpu_offload\": true}}", "offload_optimizer", "cpu" },
    { "{\"zero_optimization\": {\"cpu_offload\": false}}", "offload_optimizer", "none" },
    { "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_param\": true}}", "offload_param", "cpu" },
    { "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload_params\": true}}", "offload_param", "cpu" },
    { "{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 0}}", "zero_prefetch_bucket_size", "0" },
    { "{\"zero_optimization\": {\"stage3_param_persistence_threshold\": 7}}", "zero_param_persistence_threshold", "7" },
    { "{\"zero_optimization\": {\"stage3_model_persistence_threshold\": 9223372036854775807}}",
      "zero_model_persistence_threshold", "9223372036854775807" },
    { "{\"zero_optimization\": {\"stage3_max_live_parameters\": 3e9}}", "zero_max_live_parameters", "3000000000" },
    { "{\"zero_optimization\": {\"stage3_max_reuse_distance\": 1e9}}", "zero_max_reuse_distance", "1000000000" },
    { "{\"zero_optimization\": {\"stage\": 3, \"zero_quantized_weights\": true}}", "zero_quantized_weights", "True" },
    { "{\"zero_optimization\": {\"stage\": 3, \"zero_quantized_gradients\": true}}", "zero_quantized_gradients",
      "True" },
    { "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 1}}", "zero_hpz_partition_size", "1" },
    { "{\"zero_optimization\": {\"stage\": 3, \"zero_quantized_gradients\": true, \"zeropp_loco_param\": "
      "{\"err_beta\": 0.75, \"reset_T\": 512}}}",
      "zero_loco_err_beta", "0.75" },
    { "{\"zero_optimization\": {\"stage\": 3, \"zero_quantized_gradients\": true, \"zeropp_loco_param\": "
      "{\"err_beta\": 0.75, \"reset_T\": 512}}}",
      "zero_loco_reset_t", "512" },
    { "{\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 1}}", "mics_shard_size", "1" },
    { "{\"zero_optimization\": {\"mics_shard_size\": -1}}", "mics_shard_size", "-1" },
    { "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}}", "offload_param", "cpu" },
    { "{\"zero_optimization\": {\"offload_param\": {\"nvme_path\": \"/x\"}}}", "offload_param_nvme_path", "/x" },
    { "{\"zero_optimization\": {\"offload_param\": {\"max_in_cpu\": 0}}}", "offload_param_max_in_cpu", "0" },
    { "{\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"d\"}}}",
      "offload_optimizer", "nvme" },
    { "{\"zero_optimization\": {\"offload_optimizer\": {\"nvme_path\": \"/x\"}}}", "offload_optimizer_nvme_path",
      "/x" },
    { "{\"zero_optimization\": {\"offload_optimizer\": {\"buffer_count\": 8}}}", "offload_optimizer_buffer_count",
      "8" },
    { "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.25}}}",
      "offload_optimizer_ratio", "0.25" },
    { "{\"zero_optimization\": {\"offload_optimizer\": {\"ratio\": 1.0}}}", "offload_optimizer_ratio", "1.0" },
    { "{\"checkpoint\": {\"load_universal\": true}}", "universal_checkpoint", "True" },
    { "{\"aio\": {\"block_size\": 8192}}", "aio_block_size", "8192" },
    { "{\"aio\": {\"queue_depth\": 32}}", "aio_queue_depth", "32" },
    { "{\"aio\": {\"intra_op_parallelism\": 2}}", "aio_intra_op_parallelism", "2" },
    { "{\"aio\": {\"thread_count\": 2}}", "aio_intra_op_parallelism", "2" },
    { "{\"aio\": {\"single_submit\": true}}", "aio_single_submit", "True" },
    { "{\"aio\": {\"overlap_events\": false}}", "aio_overlap_events", "False" },
    { "{\"activation_checkpointing\": {\"partition_activations\": true}}", "partition_activations", "True" },
    { "{\"activation_checkpointing\": {\"number_checkpoints\": 4}}", "number_checkpoints", "4" },
    { "{\"activation_checkpointing\": {\"partition_activations\": true, \"contiguous_memory_optimization\": true, "
      "\"number_checkpoints\": 4}}",
      "contiguous_checkpointing", "True" },
    { "{\"activation_checkpointing\": {\"cpu_checkpointing\": true}}", "checkpoint_in_cpu", "True" },
    { "{\"activation_checkpointing\": {\"profile\": true}}", "profile_backward", "True" },
    { "{\"steps_per_print\": 10}", "log_interval", "10" },
    { "{\"wall_clock_breakdown\": true}", "timing_log_level", "2" },
    { "{\"wall_clock_breakdown\": false}", "timing_log_level", "0" },
    { "{\"tensorboard\": {\"enabled\": true, \"output_path\": \"t\"}}", "tensorboard_dir", "t/DeepSpeedJobName" },
    { "{\"tensorboard\": {\"job_name\": \"j\", \"output_path\": \"t\", \"enabled\": true}}", "tensorboard_dir", "t/j" },
    { "{\"tensorboard\": {\"enabled\": false, \"output_path\": \"t\"}}", "tensorboard_dir", "None" },
    { "{\"csv_monitor\": {\"enabled\": true, \"output_path\": \"c\"}}", "csv_monitor_dir", "c/DeepSpeedJobName" },
    { "{\"csv_monitor\": {\"job_name\": \"j\", \"enabled\": true}}", "csv_monitor_dir", "j" },
    { "{\"csv_monitor\": {\"enabled\": false, \"output_path\": \"c\"}}", "csv_monitor_dir", "None" },
    { "{\"data_parallel_size\": 1}", "zero_stage", "0" },
    { RISING, "curriculum_schedule", "fixed_root" },
    { RISING, "curriculum_min_difficulty", "8" },
    { RISING, "curriculum_max_difficulty", "16" },
    { RISING, "curriculum_total_step", "9" },
    { RISING, "curriculum_difficulty_step", "4" },
    { RISING, "curriculum_root_degree", "2.0" },
    { LISTED, "curriculum_difficulty", "['8', '12', '16']" },
    { LISTED, "curriculum_max_step", "['3', '5']" },
    { "{\"progressive_layer_drop\": {\"enabled\": true}}", "pld_theta", "0.5" },
    { "{\"progressive_layer_drop\": {\"theta\": 0.25, \"enabled\": true}}", "pld_theta", "0.25" },
    { "{\"progressive_layer_drop\": {\"gamma\": 0.5, \"enabled\": true}}", "pld_gamma", "0.5" },
    { "{\"progressive_layer_drop\": {\"gamma\": 0.5, \"enabled\": false}}", "pld_gamma", "0.001" },
    { DROPPING, "random_ltd", "True" },
    { DROPPING, "num_layers", "4" },
    { DROPPING, "random_ltd_layer_num", "2" },
    { DROPPING, "random_ltd_layer_id", "['1', '3']" },
    { DROPPING, "random_ltd_min_value", "8" },
    { DROPPING, "random_ltd_max_value", "16" },
    { DROPPING, "random_ltd_require_steps", "9" },
    { DROPPING, "random_ltd_seq_per_step", "4" },
    { DRAWN, "data_efficiency_curriculum_learning", "True" },
    { DRAWN, "data_efficiency_seed", "7" },
    { DRAWN, "data_sampling_num_epochs", "2" },
    { DRAWN, "data_cluster_path", "d" },
    { DRAWN, "curriculum_metrics", "{}" },
};

struct wanted {
    const char *field, *value;
    bool found;
};

static tx_status compare_item(void *user, const char *name, const char *value)
{
    struct wanted *w = user;
    if (strcmp(name, w->field) != 0) return TX_OK;
    if (strcmp(value, w->value) != 0) fail_msg("%s is %s, not %s", name, value, w->value);
    w->found = true;
    return TX_OK;
}

static void keys_are_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct wanted w = { sets[i].field, sets[i].printed, false };
        tx_config *c = parsed(GOOD, sets[i].json);
        ASSERT_OK(tx_config_each(c, compare_item, &w));
        if (!w.found) fail_msg("no option %s", w.field);
        assert_true(c->deepspeed);
        tx_config_free(c);
    }
}

/* The other commands that take the file take its options, too. */
static void every_command_takes_them(void **state)
{
    (void)state;
    static const char *const commands[] = { "inspect-samples", "pretrain-gpt" };
    for (size_t i = 0; i < 2 * (sizeof sets / sizeof *sets); i++) {
        tx_config *c = NULL;
        ASSERT_OK(read_json(&c, commands[i % 2],
                            GOOD "--data-path d --train-iters 2 --lr 1 --vocab-file v --merge-file m",
                            sets[i / 2].json));
        tx_config_free(c);
    }
}

/* {"a": {"b": value}} of "a.b" */
static const char *nested(char text[512], const char *path, const char *value)
{
    int depth = 1;
    snprintf(text, 512, "{\"");
    for (; *path; path++) {
        size_t n = strlen(text);
        if (*path == '.')
            snprintf(text + n, 512 - n, "\": {\""), depth++;
        else
            snprintf(text + n, 512 - n, "%c", *path);
    }
    snprintf(text + strlen(text), 512 - strlen(text), "\": %s", value);
    while (depth--) strcat(text, "}");
    return text;
}

/* Every key of the table is in the list above, or is known and not used, or refused; every one may be null or "auto".
 */
static void every_key_is_tested(void **state)
{
    (void)state;
    static const struct {
        char kind;
        const char *path;
    } keys[] = {
#define OPTION(path, ...)   { 'o', path },
#define YIELDS(path, ...)   { 'o', path },
#define SCHEDULE(path, ...) { 'u', path }, /* tests/optim/test_deepspeed_schedule.c */
#define CONVERT(path, ...)  { 'o', path },
#define UNUSED(path, ...)   { 'u', path },
#define ONLY(path, ...)     { 'u', path },
#define REFUSED(path, ...)  { 'r', path },
#define SECTION(path, ...)  { 'u', path },
#define OFF(path, ...)      { 'u', path },
#define TUNING(name, ...)   { 'u', "autotuning." #name }, /* test_tuning.c */
#include "config/deepspeed_keys.def"
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char json[512], last[128];
        const char *dot = strrchr(keys[i].path, '.');
        bool tested = keys[i].kind != 'o';
        snprintf(last, sizeof last, "\"%s\":", dot ? dot + 1 : keys[i].path);
        for (size_t k = 0; k < sizeof sets / sizeof *sets && !tested; k++) tested = strstr(sets[k].json, last) != NULL;
        if (!tested) fail_msg("%s is not tested", keys[i].path);
        tx_config_free(parsed(GOOD, nested(json, keys[i].path, "null")));
        tx_config_free(parsed(GOOD, nested(json, keys[i].path, "\"auto\"")));
    }
}

/* ---------------------------------------------------------------- known, not used */

static const char *logged_of(const char *flags, const char *json)
{
    log_begin();
    tx_config_free(parsed(flags, json));
    log_end();
    return logged;
}

/* Only where it is asked for. */
static void a_scheduler_counts_on_request(void **state)
{
    (void)state;
    static const char json[] = "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 7}}}";
    tx_config *c = parsed(GOOD, json);
    assert_int_equal(c->lr_schedule, 0);
    assert_int_equal(c->warmup_num_steps, 1000);
    tx_config_free(c);
    c = parsed(GOOD "--deepspeed-scheduler", json);
    assert_int_equal(c->lr_schedule, TX_DS_WARMUP);
    assert_int_equal(c->warmup_num_steps, 7);
    tx_config_free(c);
    c = parsed(GOOD "--lr-schedule LRRangeTest", json); /* flags alone */
    assert_int_equal(c->lr_schedule, TX_DS_RANGE_TEST);
    tx_config_free(c);
}

static void what_is_not_used_says_so(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "{\"prescale_gradients\": false}", "ds.json: line 1: prescale_gradients: accepted, without effect here: " },
        { "{\n \"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1}}}",
          "ds.json: line 2: scheduler: accepted, without effect here: as with Megatron-DeepSpeed the learning rate" },
        { "{\"amp\": {\"enabled\": false, \"opt_level\": \"O1\"}}", "amp: accepted, without effect here: " },
        { "{\"comms_logger\": {\"enabled\": true, \"verbose\": false}}", "comms_logger: accepted, without effect" },
        { "{\"zero_optimization\": {\"mics_hierarchical_params_gather\": true}}",
          "mics_hierarchical_params_gather: accepted, without effect here: large calls go host by host" },
        { "{\"checkpoint\": {\"parallel_write\": {\"pipeline_stage\": true}}}", "checkpoint.parallel_write: accepted" },
        { "{\"zero_optimization\": {\"cpu_offload\": false}}",
          "Config parameter cpu_offload is deprecated use offload_optimizer" },
        { "{\"zero_optimization\": true}", "zero_optimization: true and false are deprecated upstream" },
        { "{\"fp16\": {\"enabled\": true, \"hysteresis\": 2}}",
          "fp16.initial_scale_power is left out: the loss scale begins at 65536" },
        { "{\n\"fp16\": {\"enabled\": true}}",
          "ds.json: line 2: data_types.grad_accum_dtype is left out: gradients are kept in fp16, as DeepSpeed's are; "
          "--accumulate-allreduce-grads-in-fp32 keeps them in fp32\n" },
        { "{}", "ds.json: switches --deepspeed on" },
    };
    static const char scaled[] = GOOD "--loss-scale 12";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ASSERT_CONTAINS(logged_of(GOOD, cases[i][0]), cases[i][1]);
    assert_null(strstr(logged_of(GOOD "--deepspeed", "{}"), "switches"));
    ASSERT_CONTAINS(
        logged_of(scaled, "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0}}"),
        "fp16.enabled: --loss-scale 12 is not used, as in DeepSpeed: fp16.loss_scale is 0, a dynamic one\n");
    ASSERT_CONTAINS(logged_of(scaled, "{\"bf16\": {\"enabled\": true}}"),
                    "--loss-scale 12 is not used, as in DeepSpeed");
    tx_config *c = parsed(scaled, "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 12}}");
    assert_false(c->given.loss_scale);
    assert_true(c->initial_loss_scale == 4096);
    tx_config_free(c);
    ASSERT_CONTAINS(logged_of(GOOD "--lr 0.1", "{\"optimizer\": {\"params\": {\"lr\": 1e-3}}}"),
                    "ds.json: line 1: optimizer.params.lr 0.001: --lr 0.1 is given and counts\n");
    ASSERT_CONTAINS(
        logged_of(GOOD "--tensorboard-dir x", "{\"tensorboard\": {\"enabled\": true, \"output_path\": \"y\"}}"),
        "tensorboard.enabled y/DeepSpeedJobName: --tensorboard-dir x is given and counts\n");
}

/* Megatron's flag takes DeepSpeed's default back, and so does the option that says the same. */
static void gradients_may_stay_in_fp32(void **state)
{
    (void)state;
    static const char *const flags[] = { GOOD "--accumulate-allreduce-grads-in-fp32", GOOD "--grad-dtype fp32" };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        tx_config *c = parsed(flags[i], "{\"fp16\": {\"enabled\": true}}");
        assert_string_equal(tx_float_type_word(c->grad_dtype), "fp32");
        tx_config_free(c);
        assert_null(strstr(logged_of(flags[i], "{\"fp16\": {\"enabled\": true}}"), "grad_accum_dtype"));
    }
}

static void deepspeed_needs_no_file(void **state)
{
    (void)state;
    tx_config *c = NULL;
    log_begin();
    ASSERT_OK(tx_config_parse_string(&c, "plan", GOOD "--deepspeed --zero-stage 2 --deepspeed_mpi"));
    log_end();
    ASSERT_CONTAINS(logged, "--deepspeed: without --deepspeed_config the flags say everything\n");
    assert_int_equal(c->zero_stage, 2);
    tx_config_free(c);
}

/* ---------------------------------------------------------------- what is read beside JSON */

static void comments_and_commas(void **state)
{
    (void)state;
    tx_config *c =
        parsed(GOOD, "# at the top\n{ // here\n \"zero_optimization\" /* and, } here */ : {\n"
                     "  \"stage\": 2, # \"stage\": 3\n  \"offload_optimizer\": {\"nvme_path\": \"a//b#c,}\",},\n },\n"
                     "\"optimizer\": {\"params\": {\"betas\": [0.8, 0.9,],},},\n}\n// the end");
    assert_int_equal(c->zero_stage, 2);
    assert_string_equal(c->offload_optimizer_nvme_path, "a//b#c,}");
    assert_true(c->adam_beta1 == 0.8);
    tx_config_free(c);
    refused(
        "plan", GOOD, "{ /* \xC3\xA4 */\n /* \n */ \"zero_optimization\": {# x\n\t\"\xC3\xA4\": 1, \"stagee\": 2}}",
        "ds.json: line 4, column 2: unknown key \"zero_optimization.\xC3\xA4\"; docs/deepspeed-keys.md lists the keys\n"
        "ds.json: line 4, column 10: unknown key \"zero_optimization.stagee\"; did you mean "
        "\"zero_optimization.stage\"?");
}

/* ---------------------------------------------------------------- wrong files and keys */

static const struct wrong {
    const char *flags, *json, *text;
} wrongs[] = {
    { GOOD, "", "--deepspeed_config ds.json: line 1, column 1: it is empty" },
    { GOOD, "{\"a\": 1 # one\n \"b\": 2}",
      "--deepspeed_config ds.json: line 1, column 8: a comma is missing before \"b\"" },
    { GOOD, "\n key: 1", "--deepspeed_config ds.json: line 2, column 2: JSON begins with { or [, this does not" },
    { GOOD, "{\"a\" 1}", "--deepspeed_config ds.json: line 1, column 6: ':' expected near '1'" },
    { GOOD, "{,}", "--deepspeed_config ds.json: line 1, column 2: string or '}' expected near ','" },
    { GOOD, "{\"a\": 1,,}", "--deepspeed_config ds.json: line 1, column 9: string or '}' expected near ','" },
    { GOOD, "{\n/* open", "--deepspeed_config ds.json: line 2, column 1: string or '}' expected near '/'" },
    { GOOD, "[1]",
      "--deepspeed_config ds.json: line 1, column 1: holds a list, not an object { \"key\": value, ... }" },
    { GOOD, "{\"fp16\": {},\n \"fp16\": 2}",
      "--deepspeed_config ds.json: line 2, column 7: the key \"fp16\" is given twice" },
    /* types */
    { GOOD, "{\"fp16\": true}", "ds.json: line 1, column 2: fp16 is true, a boolean; it takes an object { ... }" },
    { GOOD, "{\"fp16\": {\"enabled\": 1}}",
      "ds.json: line 1, column 11: fp16.enabled is 1, a number; it takes true or false" },
    { GOOD, "{\"fp16\": {\"enabled\": false, \"hysteresis\": [2]}}",
      "ds.json: line 1, column 29: fp16.hysteresis is [2], a list; it takes a number" },
    { GOOD, "{\"zero_optimization\": 3}",
      "ds.json: line 1, column 2: zero_optimization is 3, a number; it takes true or false" },
    { GOOD, "{\"zero_optimization\": {\"stage\": \"two\"}}",
      "ds.json: line 1, column 24: zero_optimization.stage is \"two\", a string; it takes a number" },
    { GOOD, "{\"zero_optimization\": {\"offload_param\": {\"device\": {}}}}",
      "ds.json: line 1, column 42: zero_optimization.offload_param.device is {}, an object; it takes a string" },
    { GOOD, "{\"optimizer\": {\"params\": {\"betas\": [0.9, \"x\"]}}}",
      "ds.json: line 1, column 27: optimizer.params.betas is [0.9,\"x\"]; it takes two numbers, as in [0.9, 0.999]" },
    { GOOD, "{\"gradient_accumulation_steps\": 1.5}",
      "ds.json: line 1, column 2: gradient_accumulation_steps is 1.5; it takes a whole number from 1 to 1e9" },
    { GOOD, "{\"scheduler\": \"WarmupLR\"}",
      "ds.json: line 1, column 2: scheduler is \"WarmupLR\", a string; it takes an object { ... }" },
    { GOOD "--deepspeed-scheduler", "{\"scheduler\": {\"type\": \"StepLR\"}}",
      "ds.json: line 1, column 16: scheduler.type: --lr-schedule StepLR is unknown; allowed: one of LRRangeTest, "
      "OneCycle, "
      "WarmupLR, WarmupDecayLR, WarmupCosineLR" },
    { GOOD "--deepspeed-scheduler", "{\"scheduler\": {}}",
      "--deepspeed-scheduler needs the section scheduler, with a type, in the file of --deepspeed_config" },
    { GOOD "--deepspeed-scheduler --min-lr 1e-5",
      "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\n  \"cycle_min_lr\": 1}}}",
      "--cycle-min-lr is none of --lr-schedule WarmupLR's: it is of OneCycle; leave it out\n--min-lr is of Megatron's "
      "schedule, in whose place --lr-schedule WarmupLR stands: leave it out\n--lr-schedule is here scheduler.type, in "
      "ds.json, line 1, column 16\n--cycle-min-lr is here scheduler.params.cycle_min_lr, in ds.json, line 2, column "
      "3" },
    { GOOD "--deepspeed-scheduler",
      "{\"scheduler\": {\"type\": \"OneCycle\",\n \"params\": {\"cycle_min_lr\": 2e-3, \"cycle_max_lr\": 1e-3}}}",
      "--cycle-min-lr 0.002 is more than --cycle-max-lr 0.001\n--cycle-min-lr is here scheduler.params.cycle_min_lr, "
      "in "
      "ds.json, line 2, column 13\n--cycle-max-lr is here scheduler.params.cycle_max_lr, in ds.json, line 2, column "
      "35" },
    { GOOD "--deepspeed-scheduler --warmup-num-steps 4",
      "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 5}}}",
      "ds.json: line 1, column 47: scheduler.params.warmup_num_steps is 5, but --warmup-num-steps 4 is given: the two "
      "say "
      "the same thing, give them one value or leave one out" },
    { GOOD, "{\"dump_state\": \"no\"}",
      "ds.json: line 1, column 2: dump_state is \"no\", a string; it takes true or false" },
    { GOOD, "{\"amp\": {\"enabled\": \"yes\"}}",
      "ds.json: line 1, column 10: amp.enabled is \"yes\", a string; it takes true or false" },
    /* bounds, by the option's own parser */
    { GOOD, "{\"zero_optimization\": {\"stage\": 4}}",
      "ds.json: line 1, column 24: zero_optimization.stage: --zero-stage 4 is too large; allowed: at most 3" },
    { GOOD, "{\"zero_optimization\": {\"reduce_bucket_size\": 2.5}}",
      "ds.json: line 1, column 24: zero_optimization.reduce_bucket_size: --zero-reduce-bucket-size 2.5 is not a whole "
      "number; allowed: at least 1 elements" },
    { GOOD, "{\"zero_optimization\": {\"offload_param\": {\"device\": \"disk\"}}}",
      "ds.json: line 1, column 42: zero_optimization.offload_param.device: --offload-param disk is unknown; allowed: "
      "one "
      "of none, cpu, nvme" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"cpu\",\n\"ratio\": 1.5}}}",
      "ds.json: line 2, column 1: zero_optimization.offload_optimizer.ratio: --offload-optimizer-ratio 1.5 is too "
      "large; allowed: at most 1" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"ratio\": -0.5}}}",
      "ds.json: line 1, column 58: zero_optimization.offload_optimizer.ratio: --offload-optimizer-ratio -0.5 is too "
      "small; allowed: 0 to 1" },
    { GOOD, "{\"zero_optimization\": {\"offload_optimizer\": {\"ratio\": \"half\"}}}",
      "ds.json: line 1, column 46: zero_optimization.offload_optimizer.ratio is \"half\", a string; it takes a "
      "number" },
    { GOOD, "{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 1000}}",
      "ds.json: line 1, column 28: fp16.initial_scale_power is 1000; it takes a whole number up to 126" },
    { GOOD, "{\"train_batch_size\": 0}",
      "ds.json: line 1, column 2: train_batch_size: --global-batch-size 0 is too small; allowed: at least 1 samples" },
    { GOOD, "{\"data_types\": {\"grad_accum_dtype\": \"int8\"}}",
      "ds.json: line 1, column 17: data_types.grad_accum_dtype is \"int8\"; it takes fp32, bf16 or fp16" },
    { GOOD, "{\"communication_data_type\": \"half\"}",
      "ds.json: line 1, column 2: communication_data_type is \"half\"; it takes fp32, bf16 or fp16" },
    { GOOD, "{\"data_types\": {\"grad_accum_dtype\": \"bf16\"}}",
      "--grad-dtype bf16 needs --bf16: gradients are fp32, or what weights and activations are\n"
      "--grad-dtype is here data_types.grad_accum_dtype, in ds.json, line 1, column 17" },
    { GOOD "--bf16 --accumulate-allreduce-grads-in-fp32", "{\"data_types\": {\"grad_accum_dtype\": \"bf16\"}}",
      "--accumulate-allreduce-grads-in-fp32 is --grad-dtype fp32, but --grad-dtype bf16 is given: leave one out\n"
      "--grad-dtype is here data_types.grad_accum_dtype, in ds.json, line 1, column 17" },
    /* unknown */
    { GOOD, "{\"stage3_max_live_parameters\": 1}",
      "ds.json: line 1, column 2: unknown key \"stage3_max_live_parameters\"; did you mean "
      "\"zero_optimization.stage3_max_live_parameters\"?" },
    { GOOD, "{\"zero_optimisation\": {\"stage\": 1}}",
      "ds.json: line 1, column 2: unknown key \"zero_optimisation\"; did you mean \"zero_optimization\"?" },
    { GOOD, "{\"fp16.enabled\": true}",
      "ds.json: line 1, column 2: unknown key \"fp16.enabled\"; did you mean \"fp16.enabled\"?" },
    { GOOD, "{\"wandb\": {\"enabled\": false, \"projct\": 1}}",
      "ds.json: line 1, column 30: unknown key \"wandb.projct\"; did you mean \"wandb.project\"?" },
    { GOOD, "{\"quite_something_else\": 1}",
      "ds.json: line 1, column 2: unknown key \"quite_something_else\"; docs/deepspeed-keys.md lists the keys" },
    /* not built */
    { GOOD, "{\"amp\": {\"enabled\": true}}",
      "ds.json: line 1, column 10: amp is not built: mixed precision is --bf16 or --fp16; give \"enabled\": false, or "
      "leave it out" },
    { GOOD, "{\"sparse_attention\": {\"mode\": \"fixed\"}}",
      "ds.json: line 1, column 2: sparse_attention: attention is dense; leave the key out" },
    { GOOD, "{\"zero_optimization\": {\"zeropp_loco_param\": {\"err_beta\": 0.8}}}",
      "--zero-loco-err-beta 0.8 is of what --zero-quantized-gradients leaves out, and gradients are not quantized: "
      "give "
      "that, too, or leave it out\n"
      "--zero-loco-err-beta is here zero_optimization.zeropp_loco_param.err_beta, in ds.json, line 1, column 46" },
    { GOOD, "{\"zero_optimization\": {\"zeropp_loco_param\": {\"reset_T\": 5}}}",
      "--zero-loco-reset-t is of the errors of LoCo: give --zero-loco-err-beta, 0.8 in DeepSpeed, too, or leave it "
      "out\n"
      "--zero-loco-reset-t is here zero_optimization.zeropp_loco_param.reset_T, in ds.json, line 1, column 46" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 2, \"zero_quantized_weights\": true}}",
      "--zero-quantized-weights needs --zero-stage 3, not 2; try --zero-stage 3\n"
      "--zero-stage is here zero_optimization.stage, in ds.json, line 1, column 24\n"
      "--zero-quantized-weights is here zero_optimization.zero_quantized_weights, in ds.json, line 1, column 36" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 3}}",
      "--zero-hpz-partition-size 3 does not divide the 1 data-parallel ranks\n"
      "--zero-hpz-partition-size is here zero_optimization.zero_hpz_partition_size, in ds.json, line 1, column 36" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 2}}",
      "--mics-shard-size 2 does not divide the 1 data-parallel ranks\n"
      "--mics-shard-size is here zero_optimization.mics_shard_size, in ds.json, line 1, column 36" },
    { GOOD, "{\"optimizer\": {\"type\": \"OneBitLion\"}}",
      "ds.json: line 1, column 16: optimizer.type OneBitLion: there are Adam (also AdamW), SGD, Lion, "
      "Adagrad, Lamb (also FusedLamb), Muon, OneBitAdam, ZeroOneAdam and OneBitLamb; with Megatron-DeepSpeed the "
      "section is not "
      "used, leave it out" },
    { GOOD, "{\"optimizer\": {\"type\": \"OneBitLamb\",\n \"params\": {\"coeff_beta\": 1.5}}}",
      "ds.json: line 2, column 13: optimizer.params.coeff_beta: --onebit-coeff-beta 1.5 is too large; allowed: at most "
      "1" },
    { GOOD, "{\"optimizer\": {\"type\": \"OneBitLamb\",\n \"params\": {\"amsgrad\": true}}}",
      "ds.json: line 2, column 13: optimizer.params.amsgrad is true, and only false is built: no maximum of the second "
      "moment is kept" },
    { GOOD, "{\"optimizer\": {\"type\": \"OneBitLamb\",\n \"params\": {\"factor_min\": 5}}}",
      "--onebit-factor-min 5 is more than --onebit-factor-max 4\n"
      "--onebit-factor-min is here optimizer.params.factor_min, in ds.json, line 2, column 13" },
    { GOOD, "{\"optimizer\": {\"type\": \"ZeroOneAdam\",\n \"params\": {\"var_update_scaler\": 0}}}",
      "ds.json: line 2, column 13: optimizer.params.var_update_scaler: --var-update-scaler 0 is too small; allowed: at "
      "least 1" },
    { GOOD, "{\"optimizer\": {\"type\": \"OneBitAdam\",\n \"params\": {\"local_step_clipper\": 4}}}",
      "ds.json: line 2, column 13: optimizer.params.local_step_clipper is no parameter of OneBitAdam, which takes lr "
      "weight_decay max_grad_norm freeze_step cuda_aware comm_backend_name betas eps bias_correction eps_inside_sqrt "
      "amsgrad" },
    { GOOD, "{\"optimizer\": {\"type\": \"Muon\",\n \"params\": {\"muon_lr\": 0.02}}}",
      "ds.json: line 2, column 13: optimizer.params.muon_lr: matrices and the rest have one learning rate, lr; "
      "--muon-extra-scale-factor makes Muon's updates larger or smaller" },
    { GOOD, "{\"optimizer\": {\"type\": \"Lion\",\n \"params\": {\"eps\": 1e-8}}}",
      "ds.json: line 2, column 13: optimizer.params.eps is no parameter of Lion, which takes lr weight_decay "
      "max_grad_norm betas set_grad_none fp32_optimizer_states" },
    { GOOD, "{\"optimizer\": {\"type\": \"Lamb\",\n \"params\": {\"freeze_step\": 1}}}",
      "ds.json: line 2, column 13: optimizer.params.freeze_step is no parameter of Lamb, which takes lr weight_decay "
      "max_grad_norm betas eps bias_correction eps_inside_sqrt max_coeff min_coeff amsgrad" },
    { GOOD, "{\"optimizer\": {\"type\": \"OneBitAdam\",\n \"params\": {\"freeze_step\": -1}}}",
      "ds.json: line 2, column 13: optimizer.params.freeze_step: --onebit-freeze-step -1 is too small; allowed: at "
      "least 0" },
    { GOOD, "{\"optimizer\": {\"type\": \"FusedLamb\",\n \"params\": {\"momentum\": 0.5}}}",
      "ds.json: line 2, column 13: optimizer.params.momentum is no parameter of Lamb, which takes lr weight_decay "
      "max_grad_norm betas eps bias_correction eps_inside_sqrt max_coeff min_coeff amsgrad" },
    { GOOD, "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"max_coeff\": 0.5}}}",
      "ds.json: line 1, column 43: optimizer.params.max_coeff is no parameter of Adam, which takes lr weight_decay "
      "max_grad_norm betas eps torch_adam adam_w_mode bias_correction amsgrad fused foreach set_grad_none "
      "fp32_optimizer_states" },
    { GOOD, "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"bias_correction\": false}}}",
      "ds.json: line 1, column 43: optimizer.params.bias_correction is false, and only true is built: Adam corrects "
      "its moments" },
    { GOOD, "{\"optimizer\": {\"type\": \"Lamb\", \"params\": {\"min_coeff\": 11}}}",
      "--lamb-min-coeff 11 is more than --lamb-max-coeff 10\n"
      "--lamb-min-coeff is here optimizer.params.min_coeff, in ds.json, line 1, column 43" },
    { GOOD, "{\"optimizer\": {\"params\": {\"momentum\": 0.9}, \"type\": \"Adagrad\"}}",
      "ds.json: line 1, column 27: optimizer.params.momentum is no parameter of Adagrad, which takes lr weight_decay "
      "max_grad_norm eps lr_decay initial_accumulator_value amsgrad maximize fused foreach differentiable "
      "fp32_optimizer_states" },
    { GOOD, "{\"optimizer\": {\"type\": \"Adagrad\", \"params\": {\"lr_decay\": 0.1}}}",
      "ds.json: line 1, column 46: optimizer.params.lr_decay is 0.1, and only 0 is built: Adagrad's rate is that of "
      "the "
      "schedule" },
    { GOOD, "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}}}",
      "ds.json: line 1, column 44: optimizer.params.adam_w_mode is false, but optimizer.type is AdamW, whose weight "
      "decay is decoupled: the type is Adam, or leave it out" },
    { GOOD, "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true}}}",
      "--sgd-nesterov needs a --sgd-momentum above 0\n"
      "--sgd-momentum is here optimizer.params.momentum, in ds.json, line 1, column 16\n"
      "--sgd-nesterov is here optimizer.params.nesterov, in ds.json, line 1, column 42" },
    { GOOD "--no-decoupled-weight-decay", "{\"optimizer\": {\"type\": \"Lion\"}}",
      "--no-decoupled-weight-decay is for --optimizer adam, not lion\n"
      "--optimizer is here optimizer.type, in ds.json, line 1, column 16" },
    { GOOD, "{\"tensorboard\": {\"enabled\": true}}",
      "ds.json: line 1, column 18: tensorboard is enabled and has no output_path: give that, or --tensorboard-dir" },
    { RANKS4 "--micro-batch-size 1", "{\"data_parallel_size\": 2}",
      "ds.json: line 1, column 2: data_parallel_size is 2, but 4 ranks with --tensor-model-parallel-size 1 and "
      "--pipeline-model-parallel-size 1 make it 4; try --tensor-model-parallel-size 2, or "
      "--pipeline-model-parallel-size 2, or --world-size 2" },
    /* flags that say something else */
    { GOOD "--zero-stage 1", "{\"zero_optimization\": {\"stage\": 2}}",
      "ds.json: line 1, column 24: zero_optimization.stage is 2, but --zero-stage 1 is given: the two say the same "
      "thing, give them one value or leave one out" },
    { GOOD "--remote-device cpu --zero-stage 3", "{\"zero_optimization\": {\"offload_param\": {\"device\": \"none\"}}}",
      "ds.json: line 1, column 42: zero_optimization.offload_param.device is none, but --remote-device cpu is given: "
      "the "
      "two say the same thing, give them one value or leave one out" },
    { GOOD "--bf16 --main-grads-dtype fp32", "{\"data_types\": {\"grad_accum_dtype\": \"bf16\"}}",
      "ds.json: line 1, column 17: data_types.grad_accum_dtype is bf16, but --main-grads-dtype fp32 is given: the two "
      "say "
      "the same thing, give them one value or leave one out" },
    { GOOD "--fp16", "{\"fp16\": {\"enabled\": false}}",
      "ds.json: line 1, column 11: fp16.enabled is false, but --fp16 is given: the two say the same thing, give them "
      "one value or leave one out" },
    { GOOD "--fp16 --loss-scale 8", "{\"fp16\": {\"enabled\": true, \"loss_scale\": 16}}",
      "ds.json: line 1, column 28: fp16.loss_scale is 16, but --loss-scale 8.0 is given: the two say the same "
      "thing, give them one value or leave one out" },
    { GOOD "--no-overlap-grad-reduce", "{\"zero_optimization\": {\"overlap_comm\": true}}",
      "ds.json: line 1, column 24: zero_optimization.overlap_comm is true, but --no-overlap-grad-reduce is given: the "
      "two "
      "say the same thing, give them one value or leave one out" },
    { GOOD "--micro-batch-size 4", "{\"train_micro_batch_size_per_gpu\": 2}",
      "ds.json: line 1, column 2: train_micro_batch_size_per_gpu is 2, but --micro-batch-size 4 is given: the two say "
      "the "
      "same thing, give them one value or leave one out" },
    { GOOD "--zero-stage x", "{\"zero_optimization\": {\"stage\": 2}}",
      "--zero-stage x is not a whole number; allowed: 0 to 3" },
    /* keys that say something else */
    { GOOD,
      "{\"zero_optimization\": {\"stage\": 3, \"cpu_offload\": true,\n \"offload_optimizer\": {\"device\": \"none\"}}}",
      "ds.json: line 2, column 24: zero_optimization.offload_optimizer.device is none, but "
      "zero_optimization.cpu_offload "
      "in line 1, which says the same thing, has another value" },
    { GOOD, "{\"bf16\": {\"enabled\": true}, \"bfloat16\": {\"enabled\": false}}",
      "ds.json: line 1, column 42: bfloat16.enabled is false, but bf16.enabled in line 1, which says the same thing, "
      "has "
      "another value" },
    /* rules across options name the keys */
    { GOOD, "{\"bf16\": {\"enabled\": true},\n\"fp16\": {\"enabled\": true}}",
      "--fp16 and --bf16: give one of the two\n"
      "--fp16 is here fp16.enabled, in ds.json, line 2, column 10\n"
      "--bf16 is here bf16.enabled, in ds.json, line 1, column 11" },
    { GOOD "--bf16", "{\"fp16\": {\"enabled\": true}}",
      "--fp16 and --bf16: give one of the two\n--fp16 is here fp16.enabled, in ds.json, line 1, column 11" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}}",
      "--offload-param cpu needs --zero-stage 3, not 2: at lower stages every parameter is in use all the time; with "
      "them there is --offload-optimizer; try --zero-stage 3\n"
      "--zero-stage is here zero_optimization.stage, in ds.json, line 1, column 24\n"
      "--offload-param is here zero_optimization.offload_param.device, in ds.json, line 1, column 54" },
    { GOOD, "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"none\",\n \"ratio\": 0.3}}}",
      "--offload-optimizer-ratio 0.3 is the part of the state that is offloaded by --offload-optimizer cpu or nvme, "
      "and "
      "it is none; try without --offload-optimizer-ratio\n"
      "--offload-optimizer is here zero_optimization.offload_optimizer.device, in ds.json, line 1, column 58\n"
      "--offload-optimizer-ratio is here zero_optimization.offload_optimizer.ratio, in ds.json, line 2, column 2" },
};

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
        refused("plan", wrongs[i].flags, wrongs[i].json, wrongs[i].text);
}

static void a_file_that_is_not_there(void **state)
{
    (void)state;
    tx_config *c = NULL;
    ASSERT_FAILS(tx_config_parse_string(&c, "plan", GOOD "--deepspeed_config no/such.json"), TX_ERR_ARG,
                 "--deepspeed_config no/such.json: cannot open: No such file or directory");
    ASSERT_FAILS_LINES(tx_config_parse_string(&c, "plan", GOOD "--deepspeed_config a --deepscale_config b"), TX_ERR_ARG,
                       "cannot have both --deepspeed_config and --deepscale_config: they are the same option\n");
}

/* Jansson alone takes a NUL after a number for the number's end. */
static void a_nul_is_no_text(void **state)
{
    (void)state;
    static const char json[] = "{\n \"\xc3\xa9\": 1\0, \"a\": 2 }";
    const char *path = write_file(in_scratch("ds.json"), json, sizeof json - 1);
    char flags[1024];
    tx_config *c = NULL;
    snprintf(flags, sizeof flags, GOOD "--deepspeed_config %s", path);
    ASSERT_FAILS(tx_config_parse_string(&c, "plan", flags), TX_ERR_ARG,
                 "ds.json: line 2, column 8: a NUL byte, which is no text");
}

/* Whichever allocation fails, the call says so, gives nothing and leaks nothing. */
static void any_allocation_may_fail(void **state)
{
    (void)state;
    static const char *const files[] = {
        "{\"fp16\": {\"enabled\": true, \"hysteresis\": 1}, \"tensorboard\": {\"enabled\": true, \"output_path\": "
        "\"t\"},"
        "\"optimizer\": {\"params\": {\"lr\": 1}}, \"zero_optimization\": {\"stage\": 1, \"cpu_offload\": true}, "
        "\"amp\": {}}",
        "{\"zero_optimization\": {\"stage\": 3, \"stagee\": 1}, \"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": "
        "true}}",
    };
    for (size_t i = 0; i < 2; i++) {
        char path[300], line[800];
        snprintf(path, sizeof path, "%s/ds.json", scratch_dir);
        write_file(path, files[i], strlen(files[i]));
        snprintf(line, sizeof line, GOOD "--lr 2 --zero-stage 1 --deepspeed_config %s", path);
        tx_status st = TX_ERR_NOMEM;
        for (int64_t n = 0; st == TX_ERR_NOMEM; n++) {
            tx_config *c = NULL;
            assert_true(n < 10000);
            allocation_fails_at(n);
            st = tx_config_parse_string(&c, "plan", line);
            allocations_succeed();
            assert_true(!st == !!c);
            tx_config_free(c);
        }
        assert_int_equal(st, i == 0 ? TX_OK : TX_ERR_ARG);
    }
}

/* ---------------------------------------------------------------- flags that agree, and what comes after */

static void flags_that_agree_are_fine(void **state)
{
    (void)state;
    tx_config *c = parsed(RANKS4 "--micro-batch-size 2 --global-batch-size 8 --clip-grad 1 --fp16 --zero-stage 3 "
                                 "--zero-reduce-scatter --overlap-grad-reduce --use-pin-memory --cpu-optimizer",
                          "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"gradient_clipping\": 1.0,"
                          "\"fp16\": {\"enabled\": true}, \"gradient_accumulation_steps\": 1,"
                          "\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true, \"reduce_scatter\": true}}");
    assert_int_equal(c->zero_stage, 3);
    tx_config_free(c);
}

/* Flags that are added later win, and the file is not read again: fit tries changes, and replay files hold flags. */
static void later_flags_win(void **state)
{
    (void)state;
    tx_config *c = parsed(GOOD, "{\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": false}}"), *w = NULL;
    ASSERT_OK(tx_config_with(&w, c, "--zero-stage 3 --bf16"));
    assert_true(w->zero_stage == 3 && w->bf16);
    tx_config_free(w);
    json_t *flags;
    ASSERT_OK(tx_config_to_flags(c, (const char *const[]){ NULL }, &flags));
    char *text = json_dumps(flags, JSON_COMPACT);
    ASSERT_CONTAINS(text, "\"--zero-stage=2\"");
    assert_null(strstr(text, "deepspeed_config"));
    assert_null(strstr(text, "bf16"));
    free(text);
    json_decref(flags);
    tx_config_free(c);
}

/* ---------------------------------------------------------------- batch sizes */

static void batches_follow(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *json;
        int64_t train, micro;
    } cases[] = {
        { RANKS4 "--micro-batch-size 2 --global-batch-size 16", "{}", 16, 2 },
        { RANKS4, "{\"train_batch_size\": 16}", 16, 4 },
        { RANKS4, "{\"train_micro_batch_size_per_gpu\": 3}", 12, 3 },
        { RANKS4, "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2}", 16, 2 },
        { RANKS4, "{\"train_batch_size\": 16, \"gradient_accumulation_steps\": 2}", 16, 2 },
        { RANKS4, "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}", 24, 2 },
        { RANKS4,
          "{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}", 24,
          2 },
        { RANKS4 "--micro-batch-size 2", "{\"gradient_accumulation_steps\": 3}", 24, 2 },
        { RANKS4 "--global-batch-size 24", "{\"gradient_accumulation_steps\": 3}", 24, 2 },
        { RANKS4 "--global-batch-size 24", "{\"train_micro_batch_size_per_gpu\": 2}", 24, 2 },
        { RANKS4 "--global-batch-size 24", "{\"train_batch_size\": 24}", 24, 6 },
        { RANKS4 "--micro-batch-size 2", "{\"train_batch_size\": \"auto\"}", 8, 2 },
        { RANKS4 "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", "{\"train_batch_size\": 6}", 6, 6 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tx_config *c = parsed(cases[i].flags, cases[i].json);
        if (c->global_batch_size != cases[i].train || c->micro_batch_size != cases[i].micro)
            fail_msg("%s: %lld, %lld", cases[i].json, (long long)c->global_batch_size, (long long)c->micro_batch_size);
        tx_config_free(c);
    }
}

static void impossible_batches_name_the_nearest(void **state)
{
    (void)state;
    refused("plan", RANKS4,
            "{\n \"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 3}",
            "ds.json: line 2, column 2: train_batch_size 64 = train_micro_batch_size_per_gpu 4 x "
            "gradient_accumulation_steps 3 x data-parallel size 4 is impossible; try train_batch_size 64 = 4 x 4 x 4 "
            "or 48 = 4 x 3 x 4");
    refused("plan", RANKS4 "--micro-batch-size 4", "{\"train_batch_size\": 24}",
            "ds.json: line 1, column 2: train_batch_size 24 = --micro-batch-size 4 x gradient_accumulation_steps ? x "
            "data-parallel size 4 is impossible; try train_batch_size 32 = 4 x 2 x 4 or 24 = 3 x 2 x 4, or "
            "--world-size 3 or 6, or --tensor-model-parallel-size 2 or 4");
    refused("plan", RANKS4, "{\"train_batch_size\": 10}",
            "ds.json: line 1, column 2: train_batch_size 10 = train_micro_batch_size_per_gpu ? x "
            "gradient_accumulation_steps ? x data-parallel size 4 is impossible; try train_batch_size 12 = 3 x 1 x 4 "
            "or 8 = 2 x 1 x 4, or --world-size 2 or 5, or --tensor-model-parallel-size 2 or 4");
    refused("plan", SHAPE,
            "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 4}",
            "ds.json: line 1, column 2: train_batch_size 64 = train_micro_batch_size_per_gpu 4 x "
            "gradient_accumulation_steps 4 x data-parallel size 1 is impossible; try train_batch_size 64 = 16 x 4 x 1 "
            "or 16 = 4 x 4 x 1, or --world-size 4");
    refused(
        "pretrain-gpt", SHAPE "--lr 1 --train-iters 1 --data-path d --vocab-file v --merge-file m",
        "{\"gradient_accumulation_steps\": 3}",
        "ds.json: line 1, column 2: Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided: "
        "here, or as --global-batch-size or --micro-batch-size");
    refused("plan", RANKS4, "{\"train_micro_batch_size_per_gpu\": 1000, \"gradient_accumulation_steps\": 1000000000}",
            "ds.json: line 1, column 2: train_batch_size 4000000000000 is more than 1e9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_options),
        cmocka_unit_test(every_command_takes_them),
        cmocka_unit_test(every_key_is_tested),
        cmocka_unit_test(a_scheduler_counts_on_request),
        cmocka_unit_test(what_is_not_used_says_so),
        cmocka_unit_test(gradients_may_stay_in_fp32),
        cmocka_unit_test(deepspeed_needs_no_file),
        cmocka_unit_test(comments_and_commas),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_file_that_is_not_there),
        cmocka_unit_test(a_nul_is_no_text),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(flags_that_agree_are_fine),
        cmocka_unit_test(later_flags_win),
        cmocka_unit_test(batches_follow),
        cmocka_unit_test(impossible_batches_name_the_nearest),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
