/* gpt_model.c - the parameter table, forward, backward and decoding of GPT. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/gpt/gpt.h"

#define F(member) offsetof(tx_gpt, member)

/* Parts, for the watch. */
#define EMBEDDING  "embedding"
#define WORD_NORM  "embedding.word_embeddings.norm"
#define FINAL_NORM "encoder.final_layernorm"
#define HEAD       "output_layer"

/* clang-format off */
static const tx_param_decl embedding_params[] = {
    { "embedding.word_embeddings.weight",      "V,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(word),            TX_WITH_TIED },
    { "embedding.word_embeddings.weight",      "V,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, F(word),            TX_WITH_OUTPUT },
    { "embedding.word_embeddings.norm.weight", "h",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(word_norm.gamma), TX_WITH_E_NORM },
    { "embedding.word_embeddings.norm.bias",   "h",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(word_norm.beta),  TX_WITH_E_NORM },
    { "embedding.position_embeddings.weight",  "P,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, F(pos),             TX_WITH_POS_EMB },
};
static const tx_param_decl final_params[] = {
    { "encoder.final_layernorm.weight", "h",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(final_norm.gamma), 0 },
    { "encoder.final_layernorm.bias",   "h",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(final_norm.beta),  TX_WITH_NORM_BIAS },
    { "output_layer.weight",            "V,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(output),           TX_WITH_OUTPUT },
};
/* clang-format on */

static void gpt_destroy(tx_model *m)
{
    tx_gpt *g = (tx_gpt *)m;
    if (!g) return;
    tx_params_deinit(&g->base.params);
    tx_free(g->block);
    tx_free(g->saved.block);
    tx_free(g);
}

static tx_status declare_params(tx_gpt *g, unsigned traits)
{
    tx_model *m = &g->base;
    tx_dims dims = { .h = m->hidden,
                     .f = m->ffn,
                     .V = m->vocab_padded,
                     .v_logical = m->n_valid,
                     .P = m->max_positions,
                     .q = (m->n_heads + 2 * m->n_groups) * m->head_dim,
                     .a = m->n_heads * m->head_dim,
                     .u = m->mlp_in,
                     .traits = traits };
    TX_TRY(tx_params_declare(&m->params, "", embedding_params, 5, g, &dims));
    for (int64_t i = 0; i < m->n_layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "encoder.layers.%lld.", (long long)i);
        TX_TRY(tx_params_declare(&m->params, prefix, tx_block_params, tx_block_n_params, &g->block[i], &dims));
    }
    TX_TRY(tx_params_declare(&m->params, "", final_params, 3, g, &dims));
    for (int i = 0; g->final_norm.plus_one && i < m->params.n; i++) /* what begins at one is the norms' factors */
        if (m->params.param[i].init == TX_INIT_ONE) m->params.param[i].init = TX_INIT_ZERO;
    return TX_OK;
}

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
static tx_block block_of(const tx_config *cfg, int i)
{
    bool gelu_tanh = cfg->bias_gelu_fusion || cfg->openai_gelu;
    return (tx_block){
        .ln1 = norm_of(cfg),
        .ln2 = norm_of(cfg),
        .attn = { .n_heads = cfg->num_attention_heads,
                  .n_groups = cfg->num_key_value_heads,
                  .d = cfg->kv_channels,
                  .n_rot = cfg->use_rotary_position_embeddings ? tx_config_rotary_dim(cfg) : 0,
                  .rope_theta = cfg->rope_theta,
                  .p_drop = cfg->attention_dropout,
                  .layer = i + 1 },
        .mlp = { .gated = cfg->swiglu || cfg->glu_activation,
                 .gate_second = cfg->glu_activation, /* BigScience's order; --swiglu has Megatron-LM's */
                 .gate = gate_of(cfg),
                 .activation = cfg->squared_relu ? TX_SQUARED_RELU
                               : gelu_tanh       ? TX_GELU_TANH
                                                 : TX_GELU_ERF,
                 .recompute = tx_config_recompute(cfg).selective },
        .p_drop = cfg->hidden_dropout,
        .layer = i + 1,
        .residual_post_norm = cfg->apply_residual_connection_post_layernorm,
    };
}

/* Rows of the embedding. */
static tx_status pad_vocab(int64_t *out, const tx_config *cfg, int64_t vocab_size)
{
    int64_t multiple = cfg->make_vocab_size_divisible_by, to = cfg->pad_vocab_size_to;
    *out = to ? to : tx_vocab_padded(vocab_size, multiple);
    if (*out < vocab_size)
        return TX_FAIL(TX_ERR_ARG, "--pad-vocab-size-to %lld is less than the vocabulary's size of %lld", (long long)to,
                       (long long)vocab_size);
    if (*out % multiple)
        return TX_FAIL(TX_ERR_ARG, "--pad-vocab-size-to %lld is not divisible by --make-vocab-size-divisible-by %lld",
                       (long long)to, (long long)multiple);
    return TX_OK;
}

static tx_status gpt_create(tx_model **out, const tx_config *cfg, int64_t vocab_size)
{
    tx_gpt *g;
    int64_t padded;
    TX_TRY(pad_vocab(&padded, cfg, vocab_size));
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "the model"));
    tx_status st;
    tx_dtype dtype = cfg->bf16 ? TX_BF16 : cfg->fp16 ? TX_F16 : TX_F32;
    g->base = (tx_model){
        .type = tx_model_type_find("gpt"),
        .n_layers = cfg->num_layers,
        .hidden = cfg->hidden_size,
        .n_heads = cfg->num_attention_heads,
        .n_groups = cfg->num_key_value_heads,
        .head_dim = cfg->kv_channels,
        .ffn = cfg->ffn_hidden_size,
        .mlp_in = cfg->swiglu || cfg->glu_activation ? 2 * cfg->ffn_hidden_size : cfg->ffn_hidden_size,
        .max_positions = cfg->max_position_embeddings,
        .vocab_size = vocab_size,
        .vocab_padded = padded,
        .n_valid = cfg->megatron_padded_logits ? padded : vocab_size,
        .label_smoothing = cfg->label_smoothing,
        .recompute = tx_config_recompute(cfg),
        .dtype = dtype,
        .stream = cfg->fp32_residual_connection ? TX_F32 : dtype,
    };
    bool untied = cfg->untie_embeddings_and_output_weights;
    g->head = untied ? &g->output : &g->word;
    g->p_drop = cfg->hidden_dropout;
    g->norms_embedding = cfg->embed_layernorm;
    g->word_norm = (tx_norm){ .kind = TX_LAYERNORM, .eps = 1e-5, .plus_one = cfg->apply_layernorm_1p };
    g->final_norm = norm_of(cfg);
    TX_GOTO(tx_alloc(&g->block, (size_t)cfg->num_layers, sizeof *g->block, "the model's layers"));
    TX_GOTO(tx_alloc(&g->saved.block, (size_t)cfg->num_layers, sizeof *g->saved.block, "the model's layers"));
    for (int i = 0; i < (int)cfg->num_layers; i++) g->block[i] = block_of(cfg, i);
    TX_GOTO(declare_params(
        g, (cfg->add_bias_linear ? TX_WITH_BIAS : 0) | (g->final_norm.kind == TX_LAYERNORM ? TX_WITH_NORM_BIAS : 0) |
               (cfg->add_position_embedding ? TX_WITH_POS_EMB : 0) | (cfg->embed_layernorm ? TX_WITH_E_NORM : 0) |
               (untied ? TX_WITH_OUTPUT : TX_WITH_TIED)));
    *out = &g->base;
out:
    if (st) gpt_destroy(&g->base);
    return st;
}

/* x0 = norm(word[token]) + position[pos], pushing what backward needs.   @normed room for the norm's output; absent:
 * pushed, too */
static tx_status embed_normed(tx_ctx *c, tx_gpt *g, tx_tensor x, tx_tensor token, tx_tensor position, tx_tensor normed)
{
    struct tx_gpt_saved *a = &g->saved;
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    a->e = tx_push3(&c->acts, g->base.dtype, s, b, h);
    if (!normed.data) normed = tx_push3(&c->acts, g->base.dtype, s, b, h);
    TX_RUN(c, embedding_fwd, .y = a->e, .token = token, .position = position, .word = g->word.value);
    tx_at_part(c, WORD_NORM);
    TX_TRY(tx_norm_fwd(c, &g->word_norm, &a->word_norm, tx_as_rows(normed), a->e));
    tx_at_part(c, EMBEDDING);
    tx_tensor added = { 0 };
    if (g->pos.value.data) {
        TX_RUN(c, embedding_fwd, .y = x, .token = position, .position = position, .word = g->pos.value);
        added = x;
    }
    TX_RUN(c, dropout_add_fwd, .y = x, .x = normed, .residual = added);
    return TX_OK;
}

/* dword, dpos and the norm's gradients += those of d, the gradient of x0, which is used up. */
static tx_status embed_normed_bwd(tx_ctx *c, tx_gpt *g, const tx_batch *batch, tx_tensor d)
{
    struct tx_gpt_saved *a = &g->saved;
    tx_tensor dy = d;
    if (g->pos.value.data)
        TX_RUN(c, embedding_bwd, .dword = g->pos.grad, .dy = d, .token = batch->position, .position = batch->position);
    if (d.dtype != g->base.dtype) {
        dy = a->dy;
        TX_RUN(c, dropout_add_bwd, .dx = dy, .dy = d);
    }
    tx_at_part(c, WORD_NORM);
    TX_TRY(tx_norm_bwd(c, &g->word_norm, &a->word_norm, dy, dy, (tx_tensor){ 0 }, a->e));
    tx_at_part(c, EMBEDDING);
    TX_RUN(c, embedding_bwd, .dword = g->word.grad, .dy = dy, .token = batch->token, .position = batch->position);
    return TX_OK;
}

/* x0 = drop(word[token] + position[pos])   @normed as above */
static tx_status embed(tx_ctx *c, tx_gpt *g, tx_tensor x, tx_tensor token, tx_tensor position,
                       const tx_dropout_key *key, tx_tensor normed)
{
    tx_dropout mask = tx_dropout_at(key, g->p_drop, 0, TX_DROP_EMBEDDING);
    tx_at_part(c, EMBEDDING);
    if (g->norms_embedding)
        TX_TRY(embed_normed(c, g, x, token, position, normed));
    else
        TX_RUN(c, embedding_fwd, .y = x, .token = token, .position = position, .word = g->word.value,
               .pos = g->pos.value);
    if (mask.drop) TX_RUN(c, dropout_add_fwd, .y = x, .x = x, .mask = mask);
    return TX_OK;
}

/* Pushes and lends what all layers use in turn: memory for the branches' outputs where they cannot end in the residual
 * stream's own, and for the norms' outputs where those are not kept. */
static void lend(tx_ctx *c, tx_gpt *g, int64_t s, int64_t b)
{
    const tx_model *m = &g->base;
    tx_tensor branch = { 0 }, norm = { 0 };
    if (m->stream != m->dtype) branch = tx_push3(&c->acts, m->dtype, s, b, m->hidden);
    if (m->recompute.selective) norm = tx_push2(&c->acts, m->dtype, s * b, m->hidden);
    for (int64_t i = 0; i < m->n_layers; i++) {
        g->saved.block[i].branch = branch;
        g->saved.block[i].norm = norm;
    }
}

/* The first layer of the group that is computed again together with this one; a layer that is kept is alone. */
static int64_t group_first(const tx_model *m, int64_t layer)
{
    return layer < m->recompute.n_layers ? layer - layer % m->recompute.group : layer;
}

/* Layers first to end - 1, from x to y. With `keep` what their backward needs stays on the stack, otherwise nothing. */
static tx_status layers_fwd(tx_ctx *c, tx_gpt *g, const tx_batch *batch, int64_t first, int64_t end, tx_tensor y,
                            tx_tensor x, bool keep)
{
    size_t start = tx_arena_mark(&c->acts);
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    tx_tensor other = { 0 }; /* takes turns with y, which comes last */
    if (!keep && end - first > 1) other = tx_push3(&c->acts, x.dtype, s, b, h);
    for (int64_t i = first; i < end; i++) {
        tx_tensor out = (end - i) % 2 ? y : other;
        if (keep && i + 1 < end) out = tx_push3(&c->acts, x.dtype, s, b, h);
        size_t mark = tx_arena_mark(&c->acts);
        TX_TRY(tx_block_fwd(c, &g->block[i], &g->saved.block[i], NULL, batch->first_key, &batch->dropout, out, x));
        if (!keep) tx_arena_pop(&c->acts, mark);
        x = out;
    }
    if (!keep) tx_arena_pop(&c->acts, start);
    return TX_OK;
}

static tx_status gpt_fwd(tx_ctx *c, tx_model *m, const tx_batch *batch, bool train)
{
    tx_gpt *g = (tx_gpt *)m;
    struct tx_gpt_saved *a = &g->saved;
    int64_t s = batch->token.dim[0], b = batch->token.dim[1], h = m->hidden;
    a->mark = tx_arena_mark(&c->acts);
    a->d = a->dy = (tx_tensor){ 0 };
    if (train) a->d = a->dy = tx_push3(&c->acts, m->dtype, s, b, h);
    if (train && m->stream != m->dtype) a->d = tx_push3(&c->acts, m->stream, s, b, h);

    tx_tensor none = { 0 }, x = tx_push3(&c->acts, m->stream, s, b, h);
    lend(c, g, s, b);
    TX_TRY(embed(c, g, x, batch->token, batch->position, &batch->dropout, a->dy)); /* dy is free until the head */
    for (int64_t first = 0, end; first < m->n_layers; first = end) {
        for (end = first + 1; end < m->n_layers && (!train || group_first(m, end) == first);) end++; /* scoring: all */
        tx_tensor y = tx_push3(&c->acts, m->stream, s, b, h);
        TX_TRY(layers_fwd(c, g, batch, first, end, y, x, train && first >= m->recompute.n_layers));
        x = y;
    }
    a->x = x;
    a->head_mark = tx_arena_mark(&c->acts);
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_norm_fwd(c, &g->final_norm, &a->final_norm, none, x));
    tx_at_part(c, HEAD);
    TX_RUN(c, head_loss, .loss = batch->loss, .dx = train ? tx_as_rows(a->dy) : none,
           .dw = train ? g->head->grad : none, .accumulate = !g->head->fresh, .x = a->final_norm.y, .w = g->head->value,
           .y = batch->label, .weight = train ? batch->weight : none, .n_valid = m->n_valid,
           .smoothing = train ? m->label_smoothing : 0);
    if (!train) tx_arena_pop(&c->acts, a->mark);
    return TX_OK;
}

static tx_status gpt_bwd(tx_ctx *c, tx_model *m, const tx_batch *batch)
{
    tx_gpt *g = (tx_gpt *)m;
    struct tx_gpt_saved *a = &g->saved;
    tx_tensor d = a->d;
    tx_at_backward(c, true);
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_norm_bwd(c, &g->final_norm, &a->final_norm, d, a->dy, (tx_tensor){ 0 }, a->x));
    tx_arena_pop(&c->acts, a->head_mark);
    for (int64_t first, end = m->n_layers; end > 0; end = first) {
        first = group_first(m, end - 1);
        tx_tensor x = a->block[first].x, y = end < m->n_layers ? a->block[end].x : a->x;
        if (first < m->recompute.n_layers) /* y is there already and written once more */
            TX_TRY(layers_fwd(c, g, batch, first, end, y, x, true));
        for (int64_t i = end - 1; i >= first; i--)
            TX_TRY(tx_block_bwd(c, &g->block[i], &a->block[i], &batch->dropout, d));
    }
    tx_dropout mask = tx_dropout_at(&batch->dropout, g->p_drop, 0, TX_DROP_EMBEDDING);
    tx_at_part(c, EMBEDDING);
    if (mask.drop) TX_RUN(c, dropout_add_bwd, .dx = d, .dy = d, .mask = mask);
    if (g->norms_embedding)
        TX_TRY(embed_normed_bwd(c, g, batch, d));
    else
        TX_RUN(c, embedding_bwd, .dword = g->word.grad, .dpos = g->pos.grad, .dy = d, .token = batch->token,
               .position = batch->position);
    tx_at_backward(c, false);
    tx_arena_pop(&c->acts, a->mark);
    return TX_OK;
}

static tx_status gpt_decode(tx_ctx *c, tx_model *m, const tx_decode *dec)
{
    tx_gpt *g = (tx_gpt *)m;
    int64_t s = dec->token.dim[0], b = dec->token.dim[1], h = m->hidden;
    size_t start = tx_arena_mark(&c->acts);
    tx_dropout_key off = { 0 };
    tx_tensor x = tx_push3(&c->acts, m->stream, s, b, h), other = tx_push3(&c->acts, m->stream, s, b, h);
    lend(c, g, s, b);
    TX_TRY(embed(c, g, x, dec->token, dec->position, &off, (tx_tensor){ 0 }));
    for (int64_t i = 0; i < m->n_layers; i++) {
        size_t mark = tx_arena_mark(&c->acts);
        TX_TRY(tx_block_fwd(c, &g->block[i], &g->saved.block[i], &dec->kv[i], (tx_tensor){ 0 }, &off, other, x));
        tx_arena_pop(&c->acts, mark);
        tx_tensor y = other;
        other = x;
        x = y;
    }
    tx_norm_saved norm;
    tx_tensor none = { 0 }, last = tx_slice_rows(x, s - 1, 1); /* the last position only */
    TX_TRY(tx_norm_fwd(c, &g->final_norm, &norm, none, last));
    TX_RUN(c, gemm, .c = dec->logits, .a = norm.y, .b = g->head->value, .trans_b = true);
    for (int64_t i = 0; i < m->n_layers; i++) dec->kv[i].n_past += s;
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

const tx_model_type tx_model_gpt = {
    .name = "gpt",
    .create = gpt_create,
    .destroy = gpt_destroy,
    .fwd = gpt_fwd,
    .bwd = gpt_bwd,
    .decode = gpt_decode,
};
