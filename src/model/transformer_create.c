/* transformer_create.c - a model but for its head from the options: sizes, layers, which of them this rank has, and the
 * parameters. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/rotary.h"
#include "model/transformer.h"

#define F(member) offsetof(tx_transformer, member)

enum {
    POS = TX_WITH_POS,
    KIND = TX_WITH_KIND,
    WORD = TX_WITH_WORD_NORM,
    SUM = TX_WITH_SUM_NORM,
    SUM_BETA = SUM | TX_WITH_BETA,
    FINAL = TX_WITH_FINAL_NORM,
    FINAL_BETA = FINAL | TX_WITH_BETA
};

/* clang-format off */
static const tx_param_decl word_params[] = {
    { "embedding.word_embeddings.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(word), TX_WITH_HEAD },
    { "embedding.word_embeddings.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, F(word), TX_WITH_WORDS },
};
static const tx_param_decl embedding_params[] = {
    { "embedding.word_embeddings.norm.weight",    "h+",  TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(embedding_norm.gamma), WORD },
    { "embedding.word_embeddings.norm.bias",      "h+",  TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(embedding_norm.beta),  WORD },
    { "embedding.position_embeddings.weight",     "P,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, F(pos),                  POS },
    { "embedding.tokentype_embeddings.weight",    "T,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, F(kind),                 KIND },
    { "embedding.layernorm.weight",               "h+",  TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(embedding_norm.gamma), SUM },
    { "embedding.layernorm.bias",                 "h+",  TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(embedding_norm.beta), SUM_BETA },
};
static const tx_param_decl norm_params[] = {
    { "encoder.final_layernorm.weight",            "h+",  TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(final_norm.gamma), FINAL },
    { "encoder.final_layernorm.bias",              "h+",  TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(final_norm.beta),  FINAL_BETA },
};
/* clang-format on */
enum { N_EMBEDDING_PARAMS = sizeof embedding_params / sizeof embedding_params[0] };

static tx_norm norm_of(const tx_config *cfg)
{
    return (tx_norm){ .kind = cfg->normalization == TX_NORMALIZATION_RMSNORM ? TX_RMSNORM : TX_LAYERNORM,
                      .eps = cfg->layernorm_epsilon,
                      .plus_one = cfg->apply_layernorm_1p };
}

static tx_norm head_norm_of(const tx_config *cfg)
{
    tx_norm norm = norm_of(cfg);
    norm.of_ranks = cfg->qk_layernorm_whole;
    return norm;
}

static tx_glu gate_of(const tx_config *cfg)
{
    switch (cfg->gated_activation) {
    case TX_GATED_ACTIVATION_SILU:
        return TX_GLU_SILU;
    case TX_GATED_ACTIVATION_GELU:
        return TX_GLU_GELU;
    case TX_GATED_ACTIVATION_GELU_TANH:
        return TX_GLU_GELU_TANH;
    case TX_GATED_ACTIVATION_RELU:
        return TX_GLU_RELU;
    }
    switch (cfg->glu_activation) {
    case TX_GLU_ACTIVATION_GEGLU:
        return TX_GLU_GELU;
    case TX_GLU_ACTIVATION_LIGLU:
        return TX_GLU_LINEAR;
    case TX_GLU_ACTIVATION_REGLU:
        return TX_GLU_RELU;
    case TX_GLU_ACTIVATION_SWIGLU:
        return TX_GLU_SILU;
    }
    return TX_GLU_SILU; /* unset: --swiglu's */
}

/* A feed-forward half as the options have it. */
static tx_halves halves_of(const tx_config *cfg)
{
    switch (cfg->parallel_residual) {
    case TX_PARALLEL_RESIDUAL_NONE:
        return TX_IN_TURN;
    case TX_PARALLEL_RESIDUAL_ONE_NORM:
        return TX_PARALLEL_ONE_NORM;
    case TX_PARALLEL_RESIDUAL_TWO_NORMS:
        return TX_PARALLEL_TWO_NORMS;
    }
    return TX_IN_TURN;
}

static bool norms_in(const tx_config *cfg)
{
    return !cfg->post_layernorm && cfg->norm_placement != TX_NORM_PLACEMENT_BRANCH;
}

static bool norms_out(const tx_config *cfg)
{
    return cfg->norm_placement == TX_NORM_PLACEMENT_BRANCH || cfg->norm_placement == TX_NORM_PLACEMENT_BOTH;
}

static tx_mlp mlp_of(const tx_config *cfg)
{
    bool gelu_tanh = cfg->bias_gelu_fusion || cfg->openai_gelu;
    return (tx_mlp){ .to_h.summed = true,
                     .gated = tx_config_is_gated(cfg),
                     .gate_second = cfg->glu_activation, /* BigScience's order; the others have Megatron-LM's */
                     .gate = gate_of(cfg),
                     .activation = cfg->squared_relu ? TX_SQUARED_RELU
                                   : cfg->relu       ? TX_RELU
                                   : gelu_tanh       ? TX_GELU_TANH
                                                     : TX_GELU_ERF,
                     .recompute = tx_config_recompute(cfg).selective };
}

/* Layer i, from 0, as the options have it. */
static tx_block block_of(const tx_config *cfg, int64_t i, const tx_grid *grid, bool causal)
{
    int64_t t = tx_grid_size(grid, TX_AXIS_TENSOR), n = cfg->num_attention_heads;
    return (tx_block){
        .ln1 = norm_of(cfg),
        .ln2 = norm_of(cfg),
        .out1 = norm_of(cfg),
        .out2 = norm_of(cfg),
        .norms_in = norms_in(cfg),
        .norms_out = norms_out(cfg),
        .post_norm = cfg->post_layernorm,
        .residual_post_norm = cfg->apply_residual_connection_post_layernorm,
        .halves = halves_of(cfg),
        .residual_scale = cfg->residual_scale,
        .attn = { .proj.summed = true,
                  .qk_norm = cfg->qk_layernorm,
                  .qk_norm_whole = cfg->qk_layernorm_whole,
                  .q_norm = head_norm_of(cfg),
                  .k_norm = head_norm_of(cfg),
                  .n_heads = n / t,
                  .n_groups = cfg->num_key_value_heads / t,
                  .n_heads_whole = n,
                  .first_head = tx_grid_rank(grid, TX_AXIS_TENSOR) * (n / t),
                  .d = cfg->kv_channels,
                  .alibi = tx_config_positions(cfg) == TX_POSITIONS_ALIBI,
                  .causal = causal,
                  .scale = tx_config_attention_scale(cfg),
                  .kind = { .window = tx_config_window(cfg, i),
                            .softcap = cfg->attention_logit_softcap,
                            .off_by_one = cfg->softmax_type == TX_SOFTMAX_OFF_BY_ONE },
                  .p_drop = cfg->attention_dropout,
                  .context = tx_config_cp_comm(cfg),
                  .layer = (int)i + 1 },
        .mlp = mlp_of(cfg),
        .p_drop = cfg->hidden_dropout,
        .layer = (int)i + 1,
    };
}

/* Rows of the embedding, and how many of them are real. Where padding is part of the model its size is, too, and
 * another number of ranks only adds rows that are not. */
static tx_status pad_vocab(int64_t *out, int64_t *n_valid, const tx_config *cfg, int64_t vocab_size,
                           const tx_grid *grid)
{
    int64_t multiple = cfg->make_vocab_size_divisible_by * tx_grid_size(grid, TX_AXIS_TENSOR),
            to = cfg->pad_vocab_size_to;
    *out = to ? to : tx_vocab_padded(vocab_size, multiple);
    *n_valid = cfg->megatron_padded_logits ? *out : vocab_size;
    if (cfg->megatron_padded_logits) *out = tx_vocab_padded(*out, multiple);
    if (to && to < vocab_size)
        return TX_FAIL(TX_ERR_ARG, "--pad-vocab-size-to %lld is less than the vocabulary's size of %lld", (long long)to,
                       (long long)vocab_size);
    if (*out % multiple)
        return TX_FAIL(TX_ERR_ARG, "--pad-vocab-size-to %lld is not divisible by --make-vocab-size-divisible-by %lld%s",
                       (long long)to, (long long)cfg->make_vocab_size_divisible_by,
                       tx_grid_size(grid, TX_AXIS_TENSOR) > 1 ? " times the tensor-parallel size" : "");
    return TX_OK;
}

/* DeepSpeed: top1gating's random token selection, top2gating, topkgating's "probs". */
static tx_drop_policy drops_of(const tx_moe_shape *is)
{
    if (!is->deepspeed) return is->drops_small ? TX_DROP_SMALL : TX_DROP_LATER;
    return is->k == 1 ? TX_DROP_RANDOM : is->k == 2 ? TX_DROP_SECONDS : TX_DROP_SMALL;
}

/* How many of a layer's experts a rank has. */
static int64_t n_experts_of(const tx_moe_shape *is, const tx_grid *grid)
{
    return is->n_experts == 1 ? 0 : is->n_experts / tx_comm_size(tx_grid_group(grid, TX_GROUP_EXPERT));
}

/* A layer's experts, of which this rank's are `expert`, and what chooses them. */
static tx_moe moe_of(const tx_config *cfg, const tx_moe_shape *is, const tx_grid *grid, tx_mlp *expert, int64_t layer)
{
    int64_t n = n_experts_of(is, grid);
    for (int64_t e = 0; e < n; e++) {
        expert[e] = mlp_of(cfg);
        if (tx_grid_token_parts(grid).size > 1) expert[e].to_h.summed = false;
    }
    return (tx_moe){ .router.how = { .score = is->sigmoid ? TX_ROUTER_SIGMOID : TX_ROUTER_SOFTMAX,
                                     .k = is->k,
                                     .softmax_after = is->softmax_after,
                                     .renormalise = is->renormalise,
                                     .drop = drops_of(is),
                                     .noisy_second = is->noisy_second,
                                     .load_of_first = is->deepspeed && is->k == 2,
                                     .scale = is->scale },
                     .experts = { expert, n },
                     .first = n * tx_comm_rank(tx_grid_group(grid, TX_GROUP_EXPERT)),
                     .n_experts = is->n_experts,
                     .ffn = is->ffn,
                     .shared_ffn = is->shared_ffn,
                     .train_factor = is->train_factor,
                     .eval_factor = is->eval_factor,
                     .min_capacity = is->min_capacity,
                     .wide_capacity = !is->deepspeed,
                     .aux_coeff = is->aux_coeff,
                     .z_coeff = is->z_coeff,
                     .has_bias = is->bias,
                     .has_shared = is->shared_ffn,
                     .has_shared_gate = is->shared_gate,
                     .has_residual = is->residual,
                     .shared = mlp_of(cfg),
                     .residual = mlp_of(cfg),
                     .shared_gate.how = { .score = TX_ROUTER_SIGMOID, .k = 1, .scale = 1 },
                     .coefficient.how = { .k = 2, .scale = 1 },
                     .recompute = tx_config_recompute(cfg).selective,
                     .layer = (int)layer + 1 };
}

/* Of the stage's layers that have some. */
static tx_status make_experts(tx_transformer *t, const tx_config *cfg, const tx_grid *grid)
{
    int64_t n_moe = 0, n = 0, most = 0;
    for (int i = 0; i < t->n_blocks; i++) {
        const tx_moe_shape is = tx_config_moe(cfg, t->block[i].layer - 1);
        n_moe += is.n_experts > 1;
        n += n_experts_of(&is, grid);
        if (is.n_experts > most) most = is.n_experts;
    }
    if (!n_moe) return TX_OK;
    TX_TRY(tx_alloc(&t->moe, (size_t)n_moe, sizeof *t->moe, "the model's layers with experts"));
    TX_TRY(tx_alloc(&t->expert, (size_t)n, sizeof *t->expert, "the model's experts"));
    tx_mlp *next = t->expert;
    for (int i = 0; i < t->n_blocks; i++) {
        const tx_moe_shape is = tx_config_moe(cfg, t->block[i].layer - 1);
        if (is.n_experts == 1) continue;
        t->block[i].moe = &t->moe[t->n_moe++];
        *t->block[i].moe = moe_of(cfg, &is, grid, next, t->block[i].layer - 1);
        next += n_experts_of(&is, grid);
    }
    t->base.expert_sums = tx_tensor2(NULL, TX_F32, n_moe, tx_moe_n_sums(most));
    if (t->moe->has_bias) t->base.expert_bias = tx_tensor2(NULL, TX_F32, n_moe, most);
    return TX_OK;
}

/* The layers of this stage, chunk by chunk. */
static tx_status make_blocks(tx_transformer *t, const tx_config *cfg, const tx_grid *grid, bool causal)
{
    tx_model *m = &t->base;
    for (int k = 0; k < m->n_chunks; k++) t->n_blocks += (int)(m->chunk[k].end - m->chunk[k].first);
    TX_TRY(tx_alloc(&t->block, (size_t)t->n_blocks, sizeof *t->block, "the model's layers"));
    TX_TRY(tx_rotary_create(&t->frequency, cfg));
    for (int k = 0, i = 0; k < m->n_chunks; k++) {
        int dropping = 0;
        for (int64_t layer = m->chunk[k].first; layer < m->chunk[k].end; layer++, i++) {
            t->block[i] = block_of(cfg, layer, grid, causal);
            tx_rotary_set(&t->block[i].attn, t->frequency, cfg, layer);
            t->block[i].dropping = tx_config_drops_tokens(cfg, layer) ? dropping++ : -1;
        }
        if (dropping > m->most_dropping) m->most_dropping = dropping;
    }
    m->n_dropping = tx_config_n_dropping(cfg);
    if ((cfg->qk_clip || cfg->log_max_attention_logit) && t->n_blocks)
        m->max_logits = tx_tensor2(NULL, TX_F32, t->n_blocks, t->block->attn.n_heads);
    return make_experts(t, cfg, grid);
}

/* Of the whole model, whose chunks' first layers are computed again. */
static int64_t count_again(const tx_model *m, const tx_pp_division *d)
{
    int64_t n = 0;
    for (int i = 0; i < d->p * d->n_chunks; i++) {
        tx_pp_chunk chunk = tx_pp_layers(d, i % d->p, i / d->p);
        int64_t has = chunk.end - chunk.first;
        n += has < m->recompute.n_layers ? has : m->recompute.n_layers;
    }
    return n;
}

/* Cost of the head in layers, by their multiply-adds. */
static double head_cost(const tx_model *m, int64_t s)
{
    double h = (double)m->hidden, heads = (double)(m->n_heads * m->head_dim);
    double qkv = (double)((m->n_heads + 2 * m->n_groups) * m->head_dim);
    return m->head_products / (h * (qkv + heads) + m->mlp_products + 2 * heads * tx_model_keys(m, s));
}

static void take_chunks(tx_model *m, const tx_config *cfg, const tx_grid *grid)
{
    m->n_chunks = tx_config_chunks(cfg);
    TX_ASSERT(m->n_chunks <= TX_MAX_CHUNKS);
    int p = tx_grid_size(grid, TX_AXIS_PIPELINE); /* 1 also where a plan counts the whole model */
    const tx_pp_division d = { .n_layers = m->n_layers,
                               .p = p,
                               .n_chunks = m->n_chunks,
                               .post_cost = head_cost(m, cfg->seq_length),
                               .pre_alone = cfg->standalone_embedding_stage && p > 1 };
    for (int k = 0; k < m->n_chunks; k++) m->chunk[k] = tx_pp_layers(&d, tx_grid_rank(grid, TX_AXIS_PIPELINE), k);
    m->n_again = count_again(m, &d);
}

/* Of all layers in the mean: an MLP's, or the router's and of all that a token goes through. */
static double mlp_products(const tx_config *cfg)
{
    double h = (double)cfg->hidden_size, matrices = tx_config_is_gated(cfg) ? 3 : 2, sum = 0;
    for (int64_t i = 0; i < cfg->num_layers; i++) {
        const tx_moe_shape is = tx_config_moe(cfg, i);
        if (is.n_experts > 1) sum += h * (double)is.n_experts + matrices * h * (double)(is.k * is.ffn + is.shared_ffn);
        if (is.n_experts == 1 || is.residual) sum += matrices * h * (double)cfg->ffn_hidden_size;
        if (is.residual) sum += 2 * h;
        if (is.shared_gate) sum += h;
    }
    return sum / (double)cfg->num_layers;
}

static void take_experts(tx_model *m, const tx_config *cfg)
{
    m->experts = tx_config_moe(cfg, 0);
    for (int64_t i = 1; i < m->n_layers && m->experts.n_experts == 1; i++) m->experts = tx_config_moe(cfg, i);
}

static int64_t n_windowed(const tx_config *cfg)
{
    int64_t n = 0;
    for (int64_t i = 0; i < cfg->num_layers; i++) n += tx_config_window(cfg, i) > 0;
    return n;
}

static tx_model sizes_of(const tx_config *cfg, const tx_model_type *type, int64_t vocab_size, int64_t padded,
                         int64_t n_valid)
{
    tx_dtype dtype = cfg->bf16 ? TX_BF16 : cfg->fp16 ? TX_F16 : TX_F32;
    return (tx_model){
        .type = type,
        .n_layers = cfg->num_layers,
        .hidden = cfg->hidden_size,
        .n_heads = cfg->num_attention_heads,
        .n_groups = cfg->num_key_value_heads,
        .head_dim = cfg->kv_channels,
        .ffn = cfg->ffn_hidden_size,
        .mlp_in = tx_config_is_gated(cfg) ? 2 * cfg->ffn_hidden_size : cfg->ffn_hidden_size,
        .mlp_products = mlp_products(cfg),
        .window = cfg->window_size,
        .n_windowed = n_windowed(cfg),
        .frozen = cfg->lora_rank > 0,
        .max_positions = cfg->max_position_embeddings,
        .positions = tx_config_positions(cfg),
        .lengths_matter = cfg->use_rotary_position_embeddings && cfg->rope_scaling_type == TX_ROPE_SCALING_DYNAMIC,
        .vocab_size = vocab_size,
        .vocab_padded = padded,
        .n_valid = n_valid,
        .n_losses = 1,
        .loss_name = { "lm loss" },
        .label_smoothing = cfg->label_smoothing,
        .recompute = tx_config_recompute(cfg),
        .chunking = tx_config_chunking(cfg),
        .dtype = dtype,
        .stream = cfg->fp32_residual_connection ? TX_F32 : dtype,
    };
}

static unsigned traits_of(const tx_transformer *t, const tx_config *cfg, const tx_head_shape *head)
{
    bool attention_bias = cfg->add_bias_linear && !cfg->disable_attention_bias;
    bool beta = t->final_norm.kind == TX_LAYERNORM && !cfg->disable_norm_bias;
    bool mlp_norm = norms_in(cfg) && t->halves != TX_PARALLEL_ONE_NORM;
    return (cfg->add_bias_linear ? TX_WITH_BIAS : 0) | (attention_bias || cfg->add_qkv_bias ? TX_WITH_QKV_BIAS : 0) |
           (attention_bias || cfg->add_attention_dense_bias ? TX_WITH_DENSE_BIAS : 0) |
           (cfg->qk_layernorm ? TX_WITH_QK_NORM : 0) | (cfg->softmax_type == TX_SOFTMAX_LEARNABLE ? TX_WITH_SINK : 0) |
           (cfg->qk_layernorm_whole ? TX_WITH_QK_WHOLE : 0) | (beta ? TX_WITH_BETA : 0) |
           (norms_in(cfg) ? TX_WITH_PRE_NORM : 0) | (mlp_norm ? TX_WITH_MLP_NORM : 0) |
           (norms_out(cfg) ? TX_WITH_OUT_NORMS : 0) | (cfg->add_position_embedding ? TX_WITH_POS : 0) |
           (head->n_types ? TX_WITH_KIND : 0) | (t->normed == TX_NORM_WORDS ? TX_WITH_WORD_NORM : 0) |
           (t->normed == TX_NORM_SUM ? TX_WITH_SUM_NORM : 0) |
           (cfg->post_layernorm ? TX_WITH_POST_NORM : TX_WITH_FINAL_NORM) | head->traits;
}

static tx_dims dims_of(const tx_transformer *t, const tx_grid *grid, int64_t n_types)
{
    const tx_model *m = &t->base;
    return (tx_dims){ .h = m->hidden,
                      .f = m->ffn,
                      .V = m->vocab_padded,
                      .v_logical = m->n_valid,
                      .P = m->max_positions,
                      .T = n_types,
                      .q = (m->n_heads + 2 * m->n_groups) * m->head_dim,
                      .a = m->n_heads * m->head_dim,
                      .d = m->head_dim,
                      .k = m->n_groups * m->head_dim,
                      .u = m->mlp_in,
                      .u_parts = m->mlp_in == m->ffn ? 1 : 2,
                      .n_tp = tx_grid_size(grid, TX_AXIS_TENSOR),
                      .tp_rank = tx_grid_rank(grid, TX_AXIS_TENSOR),
                      .traits = t->traits };
}

/* Adapters k to the last of a layer. */
static tx_loras loras_of(const tx_block *b, int k, int last)
{
    return (tx_loras){ .lora = &b->lora[k], .n = last - k + 1 };
}

/* Which columns of its layer's output an adapter has, and of what it reads a row-parallel one. */
static tx_lora lora_columns(const tx_block *b, int target, const tx_dims *dims)
{
    int64_t n_tp = dims->n_tp, groups = b->attn.n_groups, d = b->attn.d, per = b->attn.n_heads / groups;
    int64_t f = dims->f / n_tp;
    switch (target) {
    case TX_LORA_Q:
        return (tx_lora){ .groups = groups, .wide = (per + 2) * d, .begin = 0, .width = per * d };
    case TX_LORA_K:
        return (tx_lora){ .groups = groups, .wide = (per + 2) * d, .begin = per * d, .width = d };
    case TX_LORA_V:
        return (tx_lora){ .groups = groups, .wide = (per + 2) * d, .begin = (per + 1) * d, .width = d };
    case TX_LORA_GATE:
        return (tx_lora){ .groups = 1, .wide = 2 * f, .begin = b->mlp.gate_second ? f : 0, .width = f };
    case TX_LORA_UP:
        return (tx_lora){ .groups = 1, .wide = 2 * f, .begin = b->mlp.gate_second ? 0 : f, .width = f };
    case TX_LORA_DENSE:
        return (tx_lora){ .columns = dims->a, .first = dims->tp_rank * (dims->a / n_tp) };
    case TX_LORA_4H_H:
        return (tx_lora){ .columns = dims->f, .first = dims->tp_rank * f };
    default:
        return (tx_lora){ .groups = 0 };
    }
}

/* The adapters that the options ask for. */
static void make_loras(tx_block *b, const tx_config *cfg, const tx_dims *dims)
{
    unsigned targets = tx_config_lora_targets(cfg);
    for (int k = 0; k < TX_N_LORA_TARGETS; k++) {
        tx_lora *l = &b->lora[k];
        *l = lora_columns(b, k, dims);
        l->on = targets & TX_LORA_BIT(k);
        l->scale = cfg->lora_rank ? cfg->lora_alpha / (double)cfg->lora_rank : 0;
        l->p_drop = cfg->lora_dropout;
        l->layer = b->layer;
        l->site = (tx_dropout_site)(TX_DROP_LORA + k);
    }
    if (!targets) return;
    b->attn.qkv_lora = loras_of(b, TX_LORA_QKV, TX_LORA_V);
    b->attn.proj_lora = loras_of(b, TX_LORA_DENSE, TX_LORA_DENSE);
    b->mlp.h_to_4h_lora = loras_of(b, TX_LORA_H_4H, TX_LORA_UP);
    b->mlp.to_h_lora = loras_of(b, TX_LORA_4H_H, TX_LORA_4H_H);
}

static tx_status take_shape(tx_model *m, const tx_config *cfg)
{
    TX_TRY(tx_alloc(&m->shape, 1, sizeof *m->shape, "the model's options"));
    m->shape->format = -1;
    if (cfg->hf_model_type) snprintf(m->shape->family, sizeof m->shape->family, "%s", cfg->hf_model_type);
    return tx_config_shape_of(cfg, &m->shape->options);
}

/* Options of a checkpoint come after the rules. */
static tx_status check_divided(const tx_config *cfg, const tx_grid *grid)
{
    int n = tx_grid_size(grid, TX_AXIS_CONTEXT);
    int64_t heads = cfg->num_attention_heads / tx_grid_size(grid, TX_AXIS_TENSOR);
    if (n == 1) return TX_OK;
    if (tx_config_cp_comm(cfg) == TX_CP_COMM_A2A && heads < n)
        return TX_FAIL(TX_ERR_ARG,
                       "--context-parallel-size %d: --cp-comm-type a2a gives each rank heads, and there are %lld", n,
                       (long long)heads);
    return TX_OK;
}

tx_status tx_transformer_create(tx_transformer *t, const tx_model_type *type, const tx_config *cfg, int64_t vocab_size,
                                const tx_grid *grid, const tx_head_shape *head, tx_dims *dims)
{
    tx_model *m = &t->base;
    int64_t padded, n_valid;
    TX_TRY(check_divided(cfg, grid));
    TX_TRY(pad_vocab(&padded, &n_valid, cfg, vocab_size, grid));
    *m = sizes_of(cfg, type, vocab_size, padded, n_valid);
    TX_TRY(take_shape(m, cfg));
    take_experts(m, cfg);
    m->head_products = head->share * (double)(head->before + m->hidden * padded);
    t->p_drop = cfg->hidden_dropout;
    t->embedding_scale = cfg->embedding_scale;
    t->halves = halves_of(cfg);
    t->puts_off = cfg->enable_zbh1_pipeline;
    t->normed = cfg->embed_layernorm ? TX_NORM_WORDS : cfg->post_layernorm ? TX_NORM_SUM : TX_NORM_NOTHING;
    t->embedding_norm = norm_of(cfg);
    if (t->normed == TX_NORM_WORDS)
        t->embedding_norm = (tx_norm){ .kind = TX_LAYERNORM, .eps = 1e-5, .plus_one = cfg->apply_layernorm_1p };
    t->final_norm = norm_of(cfg);
    t->traits = traits_of(t, cfg, head);
    take_chunks(m, cfg, grid);
    TX_TRY(make_blocks(t, cfg, grid, !head->no_direction));
    *dims = dims_of(t, grid, head->n_types);
    dims->frozen = cfg->lora_rank > 0;
    dims->r = cfg->lora_rank;
    for (int i = 0; i < t->n_blocks; i++) make_loras(&t->block[i], cfg, dims);
    return TX_OK;
}

/* ---- parameters ---- */

/* The word embedding of the first stage, which with a pipeline of one is a tied head, too, or the last stage's copy. */
static tx_status declare_words(tx_transformer *t, tx_dims dims, const tx_grid *grid, int chunk, bool tied, bool copy)
{
    TX_TRY(tx_params_begin_unit(&t->base.params, TX_UNIT_WORDS, chunk));
    dims.tied = tied && tx_grid_size(grid, TX_AXIS_PIPELINE) > 1;
    dims.copy = dims.tied && copy;
    dims.traits = tied && (copy || tx_grid_size(grid, TX_AXIS_PIPELINE) == 1) ? TX_WITH_HEAD : TX_WITH_WORDS;
    return tx_params_declare(&t->base.params, "", word_params, 2, t, &dims);
}

/* A layer's rows.   @layer from 0 */
static tx_status declare_block(tx_params *ps, tx_block *b, int64_t layer, const tx_grid *grid, const tx_dims *dims)
{
    char prefix[64];
    tx_dims own = *dims;
    snprintf(prefix, sizeof prefix, "encoder.layers.%lld.", (long long)layer);
    if (!b->moe) own.traits |= TX_WITH_MLP;
    TX_TRY(tx_params_declare(ps, prefix, tx_block_params, tx_block_n_params, b, &own));
    own.frozen = false;
    TX_TRY(tx_lora_declare(ps, prefix, b->lora, &own));
    if (!b->moe) return TX_OK;
    snprintf(prefix, sizeof prefix, "encoder.layers.%lld.mlp.", (long long)layer);
    tx_dims expert = *dims, all = *dims;
    expert.f = b->moe->ffn;
    expert.u = dims->u_parts * expert.f;
    expert.reduce_group = tx_grid_expert_data(grid);
    if (tx_grid_token_parts(grid).size > 1) expert.n_tp = 1, expert.tp_rank = 0;
    if (b->moe->has_shared) all.f = b->moe->shared_ffn;
    all.u = dims->u_parts * all.f;
    return tx_moe_declare(ps, prefix, b->moe, &expert, &all);
}

tx_status tx_transformer_declare(tx_transformer *t, const tx_grid *grid, const tx_dims *dims, bool tied)
{
    tx_model *m = &t->base;
    tx_params *ps = &m->params;
    const tx_pp_chunk *first = &m->chunk[0], *last = &m->chunk[m->n_chunks - 1];
    t->unit.words = t->unit.embedding = t->unit.norm = t->unit.head = -1;
    if (first->pre) {
        t->unit.words = ps->n_units;
        TX_TRY(declare_words(t, *dims, grid, 0, tied, false));
        t->unit.embedding = ps->n_units;
        TX_TRY(tx_params_begin_unit(ps, TX_UNIT_EMBEDDING, 0));
        TX_TRY(tx_params_declare(ps, "", embedding_params, N_EMBEDDING_PARAMS, t, dims));
    }
    t->unit.layers = ps->n_units;
    for (int k = 0, i = 0; k < m->n_chunks; k++)
        for (int64_t layer = m->chunk[k].first; layer < m->chunk[k].end; layer++, i++) {
            TX_TRY(tx_params_begin_unit(ps, TX_UNIT_LAYER, k));
            TX_TRY(declare_block(ps, &t->block[i], layer, grid, dims));
        }
    if (!last->post) return TX_OK;
    t->unit.norm = ps->n_units;
    TX_TRY(tx_params_begin_unit(ps, TX_UNIT_LAYER, m->n_chunks - 1));
    ps->unit[t->unit.norm].apart = t->puts_off;
    return tx_params_declare(ps, "", norm_params, 2, t, dims);
}

tx_status tx_transformer_declare_tied(tx_transformer *t, const tx_grid *grid, const tx_dims *dims)
{
    int last = t->base.n_chunks - 1;
    if (!t->base.chunk[last].post) return TX_OK;
    t->unit.head = t->unit.words >= 0 ? t->unit.words : t->base.params.n_units;
    return t->unit.words >= 0 ? TX_OK : declare_words(t, *dims, grid, last, true, true);
}

void tx_transformer_declared(tx_transformer *t)
{
    tx_params *ps = &t->base.params;
    for (int i = 0; t->final_norm.plus_one && i < ps->n; i++) /* what begins at one is the norms' factors */
        if (ps->param[i].init == TX_INIT_ONE) ps->param[i].init = TX_INIT_ZERO;
}

/* ---- the list ---- */

/* The words may be the head's as well: then their gradients are complete after it and the embedding. */
static tx_status list_embedding(tx_transformer *t)
{
    unsigned once = TX_GATHER_FWD | TX_RELEASE_FWD | TX_GRADS_BWD;
    const tx_stack_unit unit[] = {
        { t->unit.words, once },
        { t->unit.embedding,
          once | TX_COMPLETE_BWD | (t->normed ? TX_GATHER_BWD | TX_RELEASE_BWD | TX_NOT_AHEAD : 0u) },
        { t->unit.words, TX_COMPLETE_BWD },
    };
    return tx_stack_add(&t->base.stack, &(tx_stack_layer){ .kind = &tx_embedding_layer,
                                                           .saved_size = sizeof(tx_embedding_saved),
                                                           .unit = unit,
                                                           .n_units = 3 });
}

tx_status tx_transformer_list(tx_transformer *t)
{
    tx_model *m = &t->base;
    m->stack = (tx_stack){ .model = t,
                           .params = &m->params,
                           .stream = tx_transformer_stream,
                           .lend = tx_transformer_lend,
                           .keeps_inputs = m->chunking.inputs };
    for (int k = 0, i = 0; k < m->n_chunks; k++) {
        tx_stack_begin_chunk(&m->stack);
        if (m->chunk[k].pre) TX_TRY(list_embedding(t));
        for (int64_t n = m->chunk[k].end - m->chunk[k].first; n > 0; n--, i++) {
            const tx_stack_unit unit = { t->unit.layers + i, TX_OWN_UNIT };
            TX_TRY(tx_stack_add(&m->stack, &(tx_stack_layer){ .kind = &tx_block_layer,
                                                              .params = &t->block[i],
                                                              .saved_size = sizeof(tx_layer_saved),
                                                              .unit = &unit,
                                                              .n_units = 1 }));
        }
    }
    return TX_OK;
}

tx_status tx_transformer_list_norm(tx_transformer *t, unsigned does)
{
    const tx_stack_unit unit = { t->unit.norm, does };
    bool normed = t->traits & TX_WITH_FINAL_NORM;
    return tx_stack_add(&t->base.stack, &(tx_stack_layer){ .kind = normed ? &tx_final_norm_layer : &tx_no_norm_layer,
                                                           .saved_size = sizeof(tx_norm_saved),
                                                           .unit = &unit,
                                                           .n_units = 1 });
}

void tx_transformer_deinit(tx_transformer *t)
{
    tx_stack_deinit(&t->base.stack);
    tx_params_deinit(&t->base.params);
    if (t->base.shape) json_decref(t->base.shape->options);
    tx_free(t->base.shape);
    tx_free(t->block);
    tx_free(t->moe);
    tx_free(t->expert);
    tx_free(t->frequency);
}
