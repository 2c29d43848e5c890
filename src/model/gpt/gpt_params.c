/* gpt_params.c - which parameters a GPT has, and how it is made from the options. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "model/gpt/gpt.h"

#define F(member) offsetof(tx_gpt, member)

/* clang-format off */
static const tx_param_decl word_params[] = {
    { "embedding.word_embeddings.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY, TX_SETS, F(word), TX_WITH_HEAD },
    { "embedding.word_embeddings.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY, TX_ADDS, F(word), TX_WITH_WORDS },
};
static const tx_param_decl embedding_params[] = {
    { "embedding.word_embeddings.norm.weight", "h+",  TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(word_norm.gamma), TX_WITH_ENORM },
    { "embedding.word_embeddings.norm.bias",   "h+",  TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(word_norm.beta),  TX_WITH_ENORM },
    { "embedding.position_embeddings.weight",  "P,h", TX_INIT_NORMAL, TX_DECAY,    TX_ADDS, F(pos),             TX_WITH_POS },
};
static const tx_param_decl norm_params[] = {
    { "encoder.final_layernorm.weight", "h+",    TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(final_norm.gamma), 0 },
    { "encoder.final_layernorm.bias",   "h+",    TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(final_norm.beta),  TX_WITH_BETA },
};
static const tx_param_decl output_params[] = {
    { "output_layer.weight",            "V/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(output),           TX_WITH_OUTPUT },
};
/* clang-format on */

static unsigned traits_of(const tx_gpt *g, const tx_config *cfg)
{
    return (cfg->add_bias_linear ? TX_WITH_BIAS : 0) | (g->final_norm.kind == TX_LAYERNORM ? TX_WITH_BETA : 0) |
           (cfg->add_position_embedding ? TX_WITH_POS : 0) | (cfg->embed_layernorm ? TX_WITH_ENORM : 0) |
           (cfg->untie_embeddings_and_output_weights ? TX_WITH_OUTPUT : 0);
}

/* The word embedding of the first stage, which with a pipeline of one is the head, too, or the last stage's copy. */
static tx_status declare_words(tx_gpt *g, tx_dims dims, const tx_grid *grid, int chunk, bool head)
{
    bool tied = g->head == &g->word;
    TX_TRY(tx_params_begin_unit(&g->base.params, TX_UNIT_WORDS, chunk));
    dims.tied = tied && grid->pp.size > 1;
    dims.copy = dims.tied && head;
    dims.traits = tied && (head || grid->pp.size == 1) ? TX_WITH_HEAD : TX_WITH_WORDS;
    return tx_params_declare(&g->base.params, "", word_params, 2, g, &dims);
}

/* What turns the last layer's output into logits: a matrix of its own, or the words', here or in a copy. */
static tx_status declare_head(tx_gpt *g, tx_dims dims, const tx_grid *grid, int chunk)
{
    tx_params *ps = &g->base.params;
    g->unit.head = ps->n_units;
    if (g->head == &g->output) {
        TX_TRY(tx_params_begin_unit(ps, TX_UNIT_HEAD, chunk));
        return tx_params_declare(ps, "", output_params, 1, g, &dims);
    }
    if (g->unit.words < 0) return declare_words(g, dims, grid, chunk, true);
    g->unit.head = g->unit.words;
    return TX_OK;
}

tx_status tx__gpt_declare(tx_gpt *g, const tx_config *cfg, const tx_grid *grid)
{
    tx_model *m = &g->base;
    tx_params *ps = &m->params;
    g->traits = traits_of(g, cfg);
    tx_dims dims = { .h = m->hidden,
                     .f = m->ffn,
                     .V = m->vocab_padded,
                     .v_logical = m->n_valid,
                     .P = m->max_positions,
                     .q = (m->n_heads + 2 * m->n_groups) * m->head_dim,
                     .a = m->n_heads * m->head_dim,
                     .u = m->mlp_in,
                     .u_parts = m->mlp_in == m->ffn ? 1 : 2,
                     .n_tp = grid->tp.size,
                     .tp_rank = grid->tp.rank,
                     .traits = g->traits };
    const tx_pp_chunk *first = &m->chunk[0], *last = &m->chunk[m->n_chunks - 1];
    g->unit.words = g->unit.embedding = g->unit.norm = g->unit.head = -1;
    if (first->pre) {
        g->unit.words = ps->n_units;
        TX_TRY(declare_words(g, dims, grid, 0, false));
        g->unit.embedding = ps->n_units;
        TX_TRY(tx_params_begin_unit(ps, TX_UNIT_EMBEDDING, 0));
        TX_TRY(tx_params_declare(ps, "", embedding_params, 3, g, &dims));
    }
    g->unit.layers = ps->n_units;
    for (int k = 0, i = 0; k < m->n_chunks; k++)
        for (int64_t layer = m->chunk[k].first; layer < m->chunk[k].end; layer++, i++) {
            char prefix[64];
            snprintf(prefix, sizeof prefix, "encoder.layers.%lld.", (long long)layer);
            TX_TRY(tx_params_begin_unit(ps, TX_UNIT_LAYER, k));
            TX_TRY(tx_params_declare(ps, prefix, tx_block_params, tx_block_n_params, &g->block[i], &dims));
        }
    if (last->post) {
        g->unit.norm = ps->n_units;
        TX_TRY(tx_params_begin_unit(ps, TX_UNIT_LAYER, m->n_chunks - 1));
        TX_TRY(tx_params_declare(ps, "", norm_params, 2, g, &dims));
        TX_TRY(declare_head(g, dims, grid, m->n_chunks - 1));
    }
    for (int i = 0; g->final_norm.plus_one && i < ps->n; i++) /* what begins at one is the norms' factors */
        if (ps->param[i].init == TX_INIT_ONE) ps->param[i].init = TX_INIT_ZERO;
    return TX_OK;
}
