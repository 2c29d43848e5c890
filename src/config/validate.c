/* validate.c - what follows from other options, and all rules across options (rules.h) together. */
#include <string.h>

#include "base/launched.h"
#include "config/layer_pattern.h"
#include "config/rules.h"

/* ---------------------------------------------------------------- derived values */

bool tx__in_samples(const tx_config *c)
{
    return c->train_samples && !c->given.train_iters;
}

/* Ranks that a copy of the model is divided over, with the samples that it works on. */
static int64_t ranks_of_copy(const tx_config *c)
{
    return c->tensor_model_parallel_size * c->pipeline_model_parallel_size * c->context_parallel_size;
}

/* A job that does not take place, and one whose data is looked at, are as large as a model needs. */
static void derive_layout(tx_config *c)
{
    if (c->ds_sequence_parallel_size > 1 && c->context_parallel_size == 1)
        c->context_parallel_size = c->ds_sequence_parallel_size;
    int64_t model = ranks_of_copy(c);
    if (!c->world_size) c->world_size = c->command->traits & TX_ON_RANKS ? tx_launched_find().size : model;
    if (c->tensor_model_parallel_size == 1) c->sequence_parallel = false;
    if (c->pipeline_model_parallel_size == 1) c->enable_zbh1_pipeline = false;
}

/* Where the model is chosen, its tokenizer need not be; what counts has no text. */
static void derive_tokenizer(tx_config *c)
{
    bool bert = c->model_type == TX_MODEL_BERT;
    bool files = c->vocab_file || c->merge_file || c->tokenizer_model;
    if (!bert && c->mock_data && c->given.vocab_size && !c->given.tokenizer_type && !files)
        c->tokenizer_type = TX_TOKENIZER_NULL;
    else if (bert && !c->given.tokenizer_type && !tx_tokenizer_is_wordpiece(c->tokenizer_type))
        c->tokenizer_type = TX_TOKENIZER_BERT_LOWER_CASE;
}

tx_positions tx_config_positions(const tx_config *cfg)
{
    switch (cfg->position_embedding_type) {
    case TX_POSITION_EMBEDDING_ABSOLUTE:
    case TX_POSITION_EMBEDDING_LEARNED_ABSOLUTE:
        return TX_POSITIONS_LEARNED;
    case TX_POSITION_EMBEDDING_ALIBI:
        return TX_POSITIONS_ALIBI;
    case TX_POSITION_EMBEDDING_ROTARY:
    case TX_POSITION_EMBEDDING_ROPE:
    case TX_POSITION_EMBEDDING_YARN:
        return TX_POSITIONS_ROPE;
    case TX_POSITION_EMBEDDING_NONE:
        return TX_POSITIONS_NONE;
    }
    return TX_POSITIONS_LEARNED; /* unset */
}

bool tx_config_is_gated(const tx_config *cfg)
{
    return cfg->swiglu || cfg->gated_activation || cfg->glu_activation;
}

int tx_config_layer_norms(const tx_config *cfg)
{
    if (cfg->norm_placement == TX_NORM_PLACEMENT_BOTH) return 4;
    return cfg->parallel_residual == TX_PARALLEL_RESIDUAL_ONE_NORM ? 1 : 2;
}

/* The type that the other two flags say where no other is given or of a checkpoint, in one word for each. */
static void derive_positions(tx_config *c)
{
    static const enum tx_position_embedding type[] = { [TX_POSITIONS_LEARNED] = TX_POSITION_EMBEDDING_LEARNED_ABSOLUTE,
                                                       [TX_POSITIONS_ALIBI] = TX_POSITION_EMBEDDING_ALIBI,
                                                       [TX_POSITIONS_ROPE] = TX_POSITION_EMBEDDING_ROPE,
                                                       [TX_POSITIONS_NONE] = TX_POSITION_EMBEDDING_NONE };
    tx_positions p = tx_config_positions(c);
    bool open = !c->given.position_embedding_type;
    if (open &&
        (c->given.use_rotary_position_embeddings || (p == TX_POSITIONS_LEARNED && c->use_rotary_position_embeddings)))
        p = TX_POSITIONS_ROPE;
    else if (open && p == TX_POSITIONS_LEARNED && !c->add_position_embedding)
        p = TX_POSITIONS_NONE;
    c->position_embedding_type = type[p];
}

/* Megatron's words for a scaling, where none is given in ours. */
static void derive_scaling(tx_config *c)
{
    tx_config_given *g = &c->given;
    double linear = c->rotary_seq_len_interpolation_factor;
    enum tx_rope_scaling type = c->position_embedding_type == TX_POSITION_EMBEDDING_YARN ? TX_ROPE_SCALING_YARN
                                : c->use_rope_scaling                                    ? TX_ROPE_SCALING_LLAMA3
                                : linear > 1                                             ? TX_ROPE_SCALING_LINEAR
                                                                                         : 0;
    if (!type || g->rope_scaling_type) return;
    c->rope_scaling_type = type;
    g->rope_scaling_type = true; /* it is not taken from a checkpoint */
    if (type != TX_ROPE_SCALING_LINEAR || g->rope_scaling_factor) return;
    c->rope_scaling_factor = linear;
    g->rope_scaling_factor = true;
}

/* The numbers that a scaling has where none are given. */
static void derive_scaling_numbers(tx_config *c)
{
    int64_t original = 0;
    switch (c->rope_scaling_type) {
    case TX_ROPE_SCALING_NONE:
    case TX_ROPE_SCALING_LINEAR:
        break;
    case TX_ROPE_SCALING_DYNAMIC:
        original = c->max_position_embeddings;
        break;
    case TX_ROPE_SCALING_YARN:
        original = 4096;
        break;
    case TX_ROPE_SCALING_LLAMA3:
        original = 8192;
        if (!(c->rope_scaling_factor > 0)) c->rope_scaling_factor = 8;
        break;
    }
    if (!c->rope_original_positions) c->rope_original_positions = original;
}

/* Nothing but a table has an end. */
static void derive_positions_reach(tx_config *c)
{
    tx_positions p = tx_config_positions(c);
    c->add_position_embedding = p == TX_POSITIONS_LEARNED;
    c->use_rotary_position_embeddings = p == TX_POSITIONS_ROPE;
    if (p != TX_POSITIONS_LEARNED && !c->given.max_position_embeddings && c->max_position_embeddings < c->seq_length)
        c->max_position_embeddings = c->seq_length;
}

/* Where it has no solution, or what its ranks are is not known, the batch sizes say nothing. */
static void derive_batch(tx_config *c, tx_config_given *bad, const tx__equation *e)
{
    tx__batch_sizes b = e->given;
    int64_t model = ranks_of_copy(c);
    bool known = !bad->tensor_model_parallel_size && !bad->context_parallel_size &&
                 !bad->pipeline_model_parallel_size && !bad->world_size;
    if (!known || c->world_size % model) return;
    b.ranks = tx_config_data_parallel(c);
    c->given.global_batch_size = c->given.micro_batch_size = true;
    if (tx__batch_complete(&b) && b.train <= TX__MAX_BATCH)
        c->global_batch_size = b.train, c->micro_batch_size = b.micro;
    else
        bad->global_batch_size = bad->micro_batch_size = true;
}

/* Of DeepSpeed's numbers the global batch is the run's, all others belong to a layout. */
static void derive_searched_batch(tx_config *c, const tx__equation *e)
{
    if (e && e->given.train) {
        c->global_batch_size = e->given.train;
        c->given.global_batch_size = true;
    }
    if (!c->micro_batch_size) c->micro_batch_size = 1;
}

static void derive_numbers(tx_config *c, tx_config_given *bad, const tx__equation *equation)
{
    const tx_config_given *g = &c->given;
    derive_layout(c);
    if (tx_config_searches(c))
        derive_searched_batch(c, equation);
    else if (equation && equation->any)
        derive_batch(c, bad, equation);
    if (c->use_distributed_optimizer && !g->zero_stage) c->zero_stage = 1;
    if (c->deepspeed_config) c->deepspeed = true;
    if (!c->global_batch_size) c->global_batch_size = c->micro_batch_size * tx_config_data_parallel(c);
    bool narrow = c->swiglu || c->gated_activation;
    if (!c->ffn_hidden_size) c->ffn_hidden_size = narrow ? 8 * c->hidden_size / 3 / 64 * 64 : 4 * c->hidden_size;
    if (c->group_query_attention && !g->num_key_value_heads) {
        c->num_key_value_heads = c->num_query_groups;
        c->given.num_key_value_heads = true; /* a checkpoint with another number is told, not taken */
    }
    if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
    if (!c->kv_channels && c->num_attention_heads && c->hidden_size % c->num_attention_heads == 0)
        c->kv_channels = c->hidden_size / c->num_attention_heads;
    derive_positions_reach(c);
    derive_scaling_numbers(c);
    if (tx__in_samples(c)) {
        tx__ramp ramp;
        bool sound = tx__ramp_of(c, &ramp) == TX__RAMP_NONE && c->global_batch_size;
        if (sound) c->train_iters = tx__ramp_iterations(&ramp, c->train_samples);
        if (!c->lr_decay_samples) c->lr_decay_samples = c->train_samples;
    } else if (!c->lr_decay_iters) {
        c->lr_decay_iters = c->train_iters;
    }
    if (c->weight_decay_incr_style == TX_WD_INCR_CONSTANT) {
        if (!g->start_weight_decay) c->start_weight_decay = c->weight_decay;
        if (!g->end_weight_decay) c->end_weight_decay = c->weight_decay;
    }
}

int64_t tx_config_data_parallel(const tx_config *cfg)
{
    int64_t n = cfg->world_size / ranks_of_copy(cfg);
    return n > 1 ? n : 1;
}

int64_t tx_config_sharers(const tx_config *cfg)
{
    return tx_config_data_parallel(cfg) * cfg->context_parallel_size;
}

enum tx_cp_comm tx_config_cp_comm(const tx_config *cfg)
{
    if (cfg->ds_sequence_parallel_size > 1) return TX_CP_COMM_A2A;
    return cfg->cp_comm_type.n ? tx_cp_comm_of(cfg->cp_comm_type.item[0]) : TX_CP_COMM_P2P;
}

int64_t tx_config_heads_ranks(const tx_config *cfg)
{
    bool both = cfg->context_parallel_size > 1 && tx_config_cp_comm(cfg) == TX_CP_COMM_A2A_P2P;
    return both && cfg->hierarchical_context_parallel_sizes.n ? atoll(cfg->hierarchical_context_parallel_sizes.item[0])
                                                              : 0;
}

bool tx_config_zigzag(const tx_config *cfg)
{
    bool causal = cfg->model_type != TX_MODEL_BERT;
    return causal && !cfg->fpdt && cfg->context_parallel_size > 1 && tx_config_cp_comm(cfg) != TX_CP_COMM_A2A;
}

bool tx_config_searches(const tx_config *cfg)
{
    return cfg->search || cfg->gpus_for > 0;
}

int tx_config_chunks(const tx_config *cfg)
{
    int64_t v = cfg->num_layers_per_virtual_pipeline_stage;
    int64_t n = v ? cfg->num_layers / cfg->pipeline_model_parallel_size / v : 1;
    return n > 1 ? (int)n : 1;
}

double tx_config_timeout(const tx_config *cfg)
{
    return cfg->step_timeout > 0 ? cfg->step_timeout : 60 * (double)cfg->distributed_timeout_minutes;
}

int64_t tx_config_rotary_dim(const tx_config *cfg)
{
    return (int64_t)((double)cfg->kv_channels * cfg->rotary_percent);
}

bool tx_config_skips_rope(const tx_config *cfg, int64_t layer)
{
    tx_layer_pattern p;
    if (!cfg->no_rope_freq || !tx_layer_pattern_read(cfg->no_rope_freq, layer, &p)) return false;
    return p.listed ? p.at : (layer + 1) % p.n == 0;
}

/* DeepSpeed's WarmupLR ends at the optimizer's, where it is not told. */
double tx_config_warmup_max_lr(const tx_config *cfg, const char **flag)
{
    const tx_config_given *g = &cfg->given;
    bool own = cfg->lr_schedule == TX_DS_WARMUP && g->lr && !g->warmup_max_lr;
    *flag = own ? "lr" : "warmup-max-lr";
    return own ? cfg->lr : cfg->warmup_max_lr;
}

/* Which layers are computed again. */
static tx_recompute layers_again(const tx_config *cfg)
{
    int64_t all = cfg->num_layers, n = cfg->recompute_num_layers;
    if (cfg->checkpoint_activations) return (tx_recompute){ .n_layers = all, .group = cfg->checkpoint_num_layers };
    if (cfg->recompute_activations || cfg->recompute_granularity == TX_RECOMPUTE_SELECTIVE)
        return (tx_recompute){ .selective = true };
    if (!cfg->recompute_granularity || !cfg->recompute_method)
        return (tx_recompute){ 0 }; /* the latter: as rules ask, too */
    switch (cfg->recompute_method) {
    case TX_RECOMPUTE_UNIFORM:
        return (tx_recompute){ .n_layers = all, .group = n };
    case TX_RECOMPUTE_BLOCK:
        return (tx_recompute){ .n_layers = n < all ? n : all, .group = 1 };
    }
    return (tx_recompute){ 0 };
}

tx_recompute tx_config_recompute(const tx_config *cfg)
{
    tx_recompute again = layers_again(cfg);
    if (!again.n_layers) return again;
    again.divided = cfg->partition_activations && cfg->tensor_model_parallel_size > 1 && !cfg->sequence_parallel;
    again.in_host = cfg->checkpoint_in_cpu;
    return again;
}

tx_chunking tx_config_chunking(const tx_config *cfg)
{
    if (!cfg->fpdt) return (tx_chunking){ .positions = 0 };
    bool in_host = cfg->fpdt_offloading, again = tx_config_recompute(cfg).n_layers > 0;
    return (tx_chunking){ .positions = cfg->fpdt_chunk_size, .in_host = in_host, .inputs = in_host && !again };
}

/* ---------------------------------------------------------------- for the rules */

void tx__violate_mendable(const tx__check *k, unsigned remedies, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tx__violate_v(k->v, remedies, fmt, ap);
    va_end(ap);
}

bool tx__layout_is_known(const tx__check *k)
{
    return !tx_config_searches(k->c) && !k->bad->tensor_model_parallel_size && !k->bad->pipeline_model_parallel_size &&
           !k->bad->context_parallel_size && !k->bad->world_size;
}

void tx__need(const tx__check *k, bool have, const char *flag)
{
    if (!have) tx__violate(k->v, "%s needs --%s", k->c->command->name, flag);
}

bool tx__plans_only(const tx__check *k)
{
    return k->c->command->load == TX_LOAD_PLANS;
}

bool tx__names_weighted(const tx_config_given *g)
{
    return g->train_weighted_split_paths || g->train_weighted_split_paths_path || g->valid_weighted_split_paths ||
           g->valid_weighted_split_paths_path || g->test_weighted_split_paths || g->test_weighted_split_paths_path;
}

/* ---------------------------------------------------------------- all of them */

static void check(const tx_config *cfg, tx_config_given *bad, const tx__equation *equation, tx_violations *v)
{
    static const tx__rule *const topics[] = { tx__rules_needs,   tx__rules_model,      tx__rules_rotary,
                                              tx__rules_layout,  tx__rules_run,        tx__rules_zero,
                                              tx__rules_files,   tx__rules_bert,       tx__rules_schedule,
                                              tx__rules_moe,     tx__rules_curriculum, tx__rules_routing,
                                              tx__rules_teacher, tx__rules_finetune,   tx__rules_lora,
                                              tx__rules_context, tx__rules_chunks };
    const tx__check k = { .c = cfg, .g = &cfg->given, .bad = bad, .equation = equation, .v = v };
    const char *command = cfg->command->name;
    bool trains = tx__plans_only(&k) || cfg->command->load == TX_LOAD_RESUMES;
    if (trains && cfg->command->id != TX_COMMAND_ENGINE) command = "pretrain";
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        for (const tx__rule *r = topics[i]; r->check; r++)
            if (!r->command || !strcmp(r->command, command) || (trains && !strcmp(r->command, "training")))
                r->check(&k);
}

void tx__config_settle_numbers(tx_config *cfg, const tx_config_given *bad, const tx__equation *equation,
                               tx_violations *v)
{
    tx_config_given said = *bad;
    derive_numbers(cfg, &said, equation);
    check(cfg, &said, equation, v);
}

/* Rows of conversations have one order, and their answers are what counts. */
static void derive_finetuning(tx_config *c)
{
    if (!c->finetune_data.n) return;
    if (!c->given.data_order) c->data_order = TX_DATA_ORDER_KEYED;
    if (!c->given.loss_on_targets_only) c->loss_on_targets_only = !c->loss_on_all_tokens;
}

/* Megatron Core's word for it. */
static void derive_gradients(tx_config *c)
{
    if (c->grad_reduce_in_bf16 && !c->given.grad_dtype) c->grad_dtype = TX_FLOAT_BF16;
}

tx_status tx__config_settle(tx_config *cfg, const tx_config_given *bad, const tx__equation *equation, bool advises,
                            tx_violations *v)
{
    derive_tokenizer(cfg);
    derive_scaling(cfg);
    derive_positions(cfg);
    derive_gradients(cfg);
    derive_finetuning(cfg);
    const tx_config as_given = *cfg; /* its texts are cfg's, which stay */
    tx__config_settle_numbers(cfg, bad, equation, v);
    if (advises) tx__advise(&as_given, bad, equation, v);
    return TX_OK;
}

tx_status tx_config_complete(tx_config *cfg)
{
    static const tx_config_given none = { 0 };
    tx_violations v = { 0 };
    TX_TRY(tx__config_settle(cfg, &none, NULL, true, &v));
    return tx__violations_close(&v);
}
