/* teacher_config.c - the options of a teacher's model: its own shape, on the student's ranks. */
#include <string.h>

#include "config/option_table.h"

bool tx_config_has_teacher(const tx_config *cfg)
{
    return cfg->kd || cfg->mos;
}

/* What a teacher has of its student's run: batches, ranks, precision, and the vocabulary's padding. */
static const char *const of_run[] = { "micro_batch_size",
                                      "global_batch_size",
                                      "seq_length",
                                      "tensor_model_parallel_size",
                                      "pipeline_model_parallel_size",
                                      "context_parallel_size",
                                      "ds_sequence_parallel_size",
                                      "cp_comm_type",
                                      "hierarchical_context_parallel_sizes",
                                      "pipeline_schedule",
                                      "enable_zbh1_pipeline",
                                      "enable_zbh1_exact_semantics",
                                      "moe_expert_parallel_size",
                                      "enable_expert_tensor_parallelism",
                                      "expert_tensor_parallel_size",
                                      "world_size",
                                      "sequence_parallel",
                                      "bf16",
                                      "fp16",
                                      "fp32_residual_connection",
                                      "make_vocab_size_divisible_by",
                                      "pad_vocab_size_to",
                                      "megatron_padded_logits",
                                      "reset_attention_mask",
                                      "disable_moe_token_dropping",
                                      "moe_eval_capacity_factor",
                                      "moe_expert_capacity_factor",
                                      "moe_min_capacity",
                                      "moe_token_drop_policy" };

/* Of the student's shape what follows from sizes that the teacher has of its own. */
static const char *const of_sizes[] = { "num_layers",  "hidden_size",         "num_attention_heads", "ffn_hidden_size",
                                        "kv_channels", "num_key_value_heads", "num_experts" };

static bool is_among(const char *field, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(field, list[i])) return true;
    return false;
}
#define IS_AMONG(field, list) is_among(field, list, sizeof list / sizeof *list)

/* Whether the teacher's value is the student's. */
static bool is_taken(const tx_config *cfg, const tx_option *o)
{
    if (IS_AMONG(o->field, of_run)) return true;
    if (cfg->teacher || o->kept != TX_KEPT_SHAPE) return false;
    return !IS_AMONG(o->field, of_sizes) || (tx__is_given(cfg, o) && strcmp(o->field, "num_experts") != 0);
}

/* The student's, given as there; what is not taken is at its default. */
static tx_status take_run(tx_config *t, const tx_config *cfg)
{
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__has_member(o) || !is_taken(cfg, o)) continue;
        TX_TRY(tx__option_copy(t, cfg, o));
        *tx__given(&t->given, o) = tx__is_given(cfg, o) && o->kept != TX_KEPT_SHAPE;
    }
    return TX_OK;
}

/* A size that a flag names.   @read whether the checkpoint's is known */
static tx_status take_size(int64_t *size, bool read, bool given, int64_t value, const char *flag)
{
    if (!given) return TX_OK;
    if (read && *size != value)
        return TX_FAIL(
            TX_ERR_ARG,
            "--%s-teacher is %lld, in --load-teacher it is %lld; leave the flag out or give the checkpoint's "
            "value",
            flag, (long long)value, (long long)*size);
    *size = value;
    return TX_OK;
}

static bool same_items(const tx_list *a, const tx_list *b)
{
    bool same = a->n == b->n;
    for (int i = 0; i < a->n && same; i++) same = !strcmp(a->item[i], b->item[i]);
    return same;
}

static tx_status take_experts(tx_config *t, const tx_config *cfg, bool read)
{
    if (!cfg->given.num_experts_teacher) return TX_OK;
    if (read && !same_items(&t->num_experts, &cfg->num_experts_teacher))
        return TX_FAIL(TX_ERR_ARG, "--num-experts-teacher is not what --load-teacher has; leave the flag out");
    for (size_t i = 0; i < tx__n_options; i++) {
        const tx_option *o = &tx__options[i];
        if (!tx__has_member(o) || strcmp(o->field, "num_experts")) continue;
        return tx__option_set(t, o, cfg->num_experts_teacher.n,
                              (const char *const *)(void *)cfg->num_experts_teacher.item);
    }
    return TX_OK;
}

static tx_status take_sizes(tx_config *t, const tx_config *cfg)
{
    const tx_config_given *g = &cfg->given;
    bool read = cfg->teacher != NULL;
    if (!read) {
        t->num_layers = cfg->num_layers;
        t->hidden_size = cfg->hidden_size;
        t->num_attention_heads = cfg->num_attention_heads;
    }
    TX_TRY(take_size(&t->num_layers, read, g->num_layers_teacher, cfg->num_layers_teacher, "num-layers"));
    TX_TRY(take_size(&t->hidden_size, read, g->hidden_size_teacher, cfg->hidden_size_teacher, "hidden-size"));
    TX_TRY(take_size(&t->num_attention_heads, read, g->num_attention_heads_teacher, cfg->num_attention_heads_teacher,
                     "num-attention-heads"));
    return take_experts(t, cfg, read);
}

/* As many chunks in a stage as the student has. */
static tx_status divide_layers(tx_config *t, const tx_config *cfg)
{
    int64_t p = cfg->pipeline_model_parallel_size, chunks = tx_config_chunks(cfg);
    if (t->num_layers < p)
        return TX_FAIL(TX_ERR_ARG,
                       "the teacher's %lld layers are fewer than --pipeline-model-parallel-size %lld: each stage has "
                       "some of them",
                       (long long)t->num_layers, (long long)p);
    if (chunks == 1) return TX_OK;
    if (t->num_layers % (p * chunks))
        return TX_FAIL(TX_ERR_ARG,
                       "the teacher's %lld layers are not divisible by the %lld parts that "
                       "--num-layers-per-virtual-pipeline-stage makes of the student",
                       (long long)t->num_layers, (long long)(p * chunks));
    t->num_layers_per_virtual_pipeline_stage = t->num_layers / p / chunks;
    t->given.num_layers_per_virtual_pipeline_stage = true;
    return TX_OK;
}

/* Ranks that are threads share cfg, and Jansson's references are not counted for several threads at once. */
static tx_status take_shape(tx_config *t, const tx_config *cfg)
{
    if (!cfg->teacher) return TX_OK;
    json_t *own = json_deep_copy(cfg->teacher);
    if (!own) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the teacher's options");
    tx_status st = tx_config_from_json(t, own, TX_KEPT_SHAPE);
    json_decref(own);
    return st;
}

static tx_status make(tx_config *t, const tx_config *cfg)
{
    TX_TRY(take_run(t, cfg));
    TX_TRY(take_shape(t, cfg));
    TX_TRY(take_sizes(t, cfg));
    if (t->model_type != TX_MODEL_GPT)
        return TX_FAIL(TX_ERR_ARG, "--load-teacher is a %s; a GPT learns from a GPT",
                       tx_model_kind_word(t->model_type));
    TX_TRY(divide_layers(t, cfg));
    tx_status st = tx_config_complete(t);
    return st ? tx_fail_prefix(st, "the teacher") : TX_OK;
}

tx_status tx_config_teacher(tx_config **out, const tx_config *cfg)
{
    tx_config *t;
    TX_TRY(tx_config_new(&t, tx_command_id_word(TX_COMMAND_PLAN))); /* it needs no data, no length and no rate */
    tx_status st = make(t, cfg);
    if (st)
        tx_config_free(t);
    else
        *out = t;
    return st;
}
