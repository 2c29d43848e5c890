/* gpt_create.c - a GPT from the options: sizes, layers, and which of them this rank has. */
#include <string.h>

#include "base/alloc.h"
#include "model/gpt/gpt.h"

static tx_norm norm_of(const tx_config *cfg)
{
    return (tx_norm){ .kind = strcmp(cfg->normalization, "rmsnorm") ? TX_LAYERNORM : TX_RMSNORM,
                      .eps = cfg->layernorm_epsilon,
                      .plus_one = cfg->apply_layernorm_1p };
}

static tx_glu gate_of(const tx_config *cfg)
{
    static const char *const name[] = { "swiglu", "geglu", "reglu", "liglu" }; /* as tx_glu */
    int i = 0;
    while (cfg->glu_activation && strcmp(cfg->glu_activation, name[i])) i++;
    return (tx_glu)i;
}

/* Layer i, from 0, as the options have it. */
static tx_block block_of(const tx_config *cfg, int64_t i, const tx_grid *grid)
{
    int64_t t = grid->tp.size, n = cfg->num_attention_heads;
    bool gelu_tanh = cfg->bias_gelu_fusion || cfg->openai_gelu;
    return (tx_block){
        .ln1 = norm_of(cfg),
        .ln2 = norm_of(cfg),
        .attn = { .proj.summed = true,
                  .n_heads = n / t,
                  .n_groups = cfg->num_key_value_heads / t,
                  .n_heads_whole = n,
                  .first_head = grid->tp.rank * (n / t),
                  .d = cfg->kv_channels,
                  .n_rot = cfg->use_rotary_position_embeddings ? tx_config_rotary_dim(cfg) : 0,
                  .rope_theta = cfg->rope_theta,
                  .p_drop = cfg->attention_dropout,
                  .layer = (int)i + 1 },
        .mlp = { .to_h.summed = true,
                 .gated = cfg->swiglu || cfg->glu_activation,
                 .gate_second = cfg->glu_activation, /* BigScience's order; --swiglu has Megatron-LM's */
                 .gate = gate_of(cfg),
                 .activation = cfg->squared_relu ? TX_SQUARED_RELU
                               : gelu_tanh       ? TX_GELU_TANH
                                                 : TX_GELU_ERF,
                 .recompute = tx_config_recompute(cfg).selective },
        .p_drop = cfg->hidden_dropout,
        .layer = (int)i + 1,
        .residual_post_norm = cfg->apply_residual_connection_post_layernorm,
    };
}

/* Rows of the embedding, and how many of them are real. Where padding is part of the model its size is, too, and
 * another number of ranks only adds rows that are not. */
static tx_status pad_vocab(int64_t *out, int64_t *n_valid, const tx_config *cfg, int64_t vocab_size,
                           const tx_grid *grid)
{
    int64_t multiple = cfg->make_vocab_size_divisible_by * grid->tp.size, to = cfg->pad_vocab_size_to;
    *out = to ? to : tx_vocab_padded(vocab_size, multiple);
    *n_valid = cfg->megatron_padded_logits ? *out : vocab_size;
    if (cfg->megatron_padded_logits) *out = tx_vocab_padded(*out, multiple);
    if (to && to < vocab_size)
        return TX_FAIL(TX_ERR_ARG, "--pad-vocab-size-to %lld is less than the vocabulary's size of %lld", (long long)to,
                       (long long)vocab_size);
    if (*out % multiple)
        return TX_FAIL(TX_ERR_ARG, "--pad-vocab-size-to %lld is not divisible by --make-vocab-size-divisible-by %lld%s",
                       (long long)to, (long long)cfg->make_vocab_size_divisible_by,
                       grid->tp.size > 1 ? " times the tensor-parallel size" : "");
    return TX_OK;
}

/* The layers of this stage, chunk by chunk. */
static tx_status make_blocks(tx_gpt *g, const tx_config *cfg, const tx_grid *grid)
{
    tx_model *m = &g->base;
    for (int k = 0; k < m->n_chunks; k++) {
        g->at[k] = g->n_blocks;
        g->n_blocks += (int)(m->chunk[k].end - m->chunk[k].first);
    }
    TX_TRY(tx_alloc(&g->block, (size_t)g->n_blocks, sizeof *g->block, "the model's layers"));
    for (int k = 0, i = 0; k < m->n_chunks; k++)
        for (int64_t layer = m->chunk[k].first; layer < m->chunk[k].end; layer++)
            g->block[i++] = block_of(cfg, layer, grid);
    return TX_OK;
}

/* Cost of the output layer in layers, by their multiply-adds. */
static double head_cost(const tx_model *m, int64_t s)
{
    double h = (double)m->hidden, heads = (double)(m->n_heads * m->head_dim);
    double qkv = (double)((m->n_heads + 2 * m->n_groups) * m->head_dim);
    return h * (double)m->vocab_padded / (h * (qkv + heads + (double)(m->mlp_in + m->ffn)) + 2 * heads * (double)s);
}

static void take_chunks(tx_model *m, const tx_config *cfg, const tx_grid *grid)
{
    double post = head_cost(m, cfg->seq_length);
    m->n_chunks = tx_config_chunks(cfg);
    TX_ASSERT(m->n_chunks <= TX_MAX_CHUNKS);
    for (int k = 0; k < m->n_chunks; k++)
        m->chunk[k] = tx_pp_layers(m->n_layers, grid->pp.size, m->n_chunks, grid->pp.rank, k, 0, post);
}

static tx_model sizes_of(const tx_config *cfg, int64_t vocab_size, int64_t padded, int64_t n_valid)
{
    tx_dtype dtype = cfg->bf16 ? TX_BF16 : cfg->fp16 ? TX_F16 : TX_F32;
    return (tx_model){
        .type = tx_model_type_find("gpt"),
        .n_layers = cfg->num_layers,
        .hidden = cfg->hidden_size,
        .n_heads = cfg->num_attention_heads,
        .n_groups = cfg->num_key_value_heads,
        .head_dim = cfg->kv_channels,
        .ffn = cfg->ffn_hidden_size,
        .mlp_in = cfg->swiglu || cfg->glu_activation ? 2 * cfg->ffn_hidden_size : cfg->ffn_hidden_size,
        .max_positions = cfg->max_position_embeddings,
        .learns_positions = cfg->add_position_embedding,
        .vocab_size = vocab_size,
        .vocab_padded = padded,
        .n_valid = n_valid,
        .label_smoothing = cfg->label_smoothing,
        .recompute = tx_config_recompute(cfg),
        .dtype = dtype,
        .stream = cfg->fp32_residual_connection ? TX_F32 : dtype,
    };
}

tx_status tx__gpt_create(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid)
{
    tx_gpt *g;
    int64_t padded, n_valid;
    if (!grid) grid = &tx_grid_alone;
    TX_TRY(pad_vocab(&padded, &n_valid, cfg, vocab_size, grid));
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "the model"));
    tx_status st;
    g->base = sizes_of(cfg, vocab_size, padded, n_valid);
    g->head = cfg->untie_embeddings_and_output_weights ? &g->output : &g->word;
    g->p_drop = cfg->hidden_dropout;
    g->norms_embedding = cfg->embed_layernorm;
    g->word_norm = (tx_norm){ .kind = TX_LAYERNORM, .eps = 1e-5, .plus_one = cfg->apply_layernorm_1p };
    g->final_norm = norm_of(cfg);
    take_chunks(&g->base, cfg, grid);
    TX_GOTO(make_blocks(g, cfg, grid));
    TX_GOTO(tx__gpt_hold(&g->base, 1));
    TX_GOTO(tx__gpt_declare(g, cfg, grid));
    *out = &g->base;
out:
    if (st) tx__gpt_destroy(&g->base);
    return st;
}

tx_status tx__gpt_hold(tx_model *m, int n_slots)
{
    tx_gpt *g = (tx_gpt *)m;
    size_t most = 1;
    for (int k = 0; k < m->n_chunks; k++) {
        size_t n = (size_t)(m->chunk[k].end - m->chunk[k].first);
        if (n > most) most = n;
    }
    tx_gpt_saved *saved;
    tx_block_saved *block;
    TX_TRY(tx_alloc(&saved, (size_t)n_slots, sizeof *saved, "the model's slots"));
    tx_status st = tx_alloc(&block, (size_t)n_slots * most, sizeof *block, "the model's slots");
    if (st) {
        tx_free(saved);
        return st;
    }
    for (int i = 0; i < n_slots; i++) saved[i].block = block + (size_t)i * most;
    if (g->saved) tx_free(g->saved[0].block);
    tx_free(g->saved);
    g->saved = saved;
    return TX_OK;
}

void tx__gpt_destroy(tx_model *m)
{
    tx_gpt *g = (tx_gpt *)m;
    if (!g) return;
    tx_params_deinit(&g->base.params);
    tx_free(g->block);
    if (g->saved) tx_free(g->saved[0].block);
    tx_free(g->saved);
    tx_free(g);
}
