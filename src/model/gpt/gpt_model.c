/* gpt_model.c - a transformer with a head that predicts the next token. */
#include "base/alloc.h"
#include "model/gpt/gpt.h"
#include "parallel/tp.h"

#define HEAD "output_layer" /* for the watch */

/* clang-format off */
static const tx_param_decl output_params[] = {
    { "output_layer.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY, TX_SETS, offsetof(tx_gpt, output), TX_WITH_OUTPUT },
};
/* clang-format on */

/* ---- making one ---- */

static void gpt_destroy(tx_model *m)
{
    tx_gpt *g = (tx_gpt *)m;
    if (!g) return;
    tx_transformer_deinit(&g->t);
    tx_free(g);
}

static tx_status declare(tx_gpt *g, const tx_grid *grid, const tx_dims *dims)
{
    tx_transformer *t = &g->t;
    tx_params *ps = &t->base.params;
    int last = t->base.n_chunks - 1;
    bool tied = g->head == &t->word;
    TX_TRY(tx_transformer_declare(t, grid, dims, tied));
    if (tied) return tx_transformer_declare_tied(t, grid, dims);
    if (!t->base.chunk[last].post) return TX_OK;
    t->unit.head = ps->n_units;
    TX_TRY(tx_params_begin_unit(ps, TX_UNIT_HEAD, last));
    return tx_params_declare(ps, "", output_params, 1, g, dims);
}

static tx_status gpt_create(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid)
{
    tx_gpt *g;
    tx_dims dims;
    bool untied = cfg->untie_embeddings_and_output_weights;
    const tx_head_shape head = { .share = 1, .traits = untied ? TX_WITH_OUTPUT : 0 };
    if (!grid) grid = &tx_grid_alone;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "the model"));
    tx_status st;
    g->head = untied ? &g->output : &g->t.word;
    TX_GOTO(tx_transformer_create(&g->t, &tx_model_gpt, cfg, vocab_size, grid, &head, &dims));
    TX_GOTO(declare(g, grid, &dims));
    tx_transformer_declared(&g->t);
    *out = &g->t.base;
out:
    if (st) gpt_destroy(&g->t.base);
    return st;
}

static tx_status gpt_hold(tx_model *m, int n_slots)
{
    return tx_transformer_hold((tx_transformer *)m, n_slots);
}

/* ---- the head ---- */

/* Loss, and with train also the gradient of the final norm's output and of the head. */
static tx_status head_loss(tx_ctx *c, tx_gpt *g, tx_transformer_saved *a, const tx_batch *batch, bool train)
{
    const tx_model *m = &g->t.base;
    const tx_axis *tp = &tx_grid_of(c)->axis[TX_AXIS_TENSOR];
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor none = { 0 }, y = tx_as_rows(a->y), x = tx_tp_room(c, &c->scratch, y), dx = none;
    if (train) dx = tx_tp_room(c, &c->scratch, tx_as_rows(a->dy));
    TX_TRY(tx_tp_gather(c, x, y));
    TX_RUN(c, head_loss, .loss = batch->loss, .dx = dx, .dw = train ? g->head->grad : none,
           .accumulate = !g->head->fresh, .x = x, .w = g->head->value, .y = batch->label,
           .weight = train ? batch->weight : none, .n_valid = m->n_valid, .smoothing = train ? m->label_smoothing : 0,
           .n_parts = tp->size, .part = tp->rank, .exchange = tx_tp_exchange);
    if (train) g->head->fresh = false;
    if (train) TX_TRY(tx_tp_sum(c, tx_as_rows(a->dy), dx));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* What is behind the layers. */
static tx_status head_fwd(tx_ctx *c, tx_gpt *g, const tx_batch *batch, bool train)
{
    tx_transformer *t = &g->t;
    TX_TRY(tx_unit_gather(batch, t->unit.norm, t->unit.head));
    TX_TRY(tx_transformer_norm_fwd(c, t, batch));
    TX_TRY(tx_unit_release(batch, t->unit.norm, train));
    tx_at_part(c, HEAD);
    TX_TRY(tx_unit_gather(batch, t->unit.head, train ? t->unit.norm : -1));
    if (train) TX_TRY(tx_unit_pre_backward(batch, t->unit.head));
    TX_TRY(head_loss(c, g, &t->saved[batch->slot], batch, train));
    TX_TRY(tx_unit_release(batch, t->unit.head, false));
    return train && t->unit.head != t->unit.words ? tx_unit_post_backward(batch, t->unit.head) : TX_OK;
}

static tx_status head_bwd(tx_ctx *c, tx_gpt *g, const tx_batch *batch)
{
    tx_transformer *t = &g->t;
    TX_TRY(tx_unit_gather(batch, t->unit.norm, tx_transformer_last_unit(t, batch)));
    TX_TRY(tx_unit_pre_backward(batch, t->unit.norm));
    TX_TRY(tx_transformer_norm_bwd(c, t, batch));
    TX_TRY(tx_unit_release(batch, t->unit.norm, false));
    return tx_unit_post_backward(batch, t->unit.norm);
}

/* ---- a chunk ---- */

static tx_status gpt_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train)
{
    tx_gpt *g = (tx_gpt *)m;
    TX_TRY(tx_transformer_fwd(c, &g->t, batch, train));
    if (m->chunk[batch->chunk].post) TX_TRY(head_fwd(c, g, batch, train));
    if (!train) tx_transformer_end(c, &g->t, batch);
    return TX_OK;
}

static tx_status gpt_bwd(tx_ctx *c, tx_model *m, tx_batch *batch)
{
    tx_gpt *g = (tx_gpt *)m;
    tx_at_backward(c, true);
    if (m->chunk[batch->chunk].post) TX_TRY(head_bwd(c, g, batch));
    TX_TRY(tx_transformer_bwd(c, &g->t, batch));
    tx_at_backward(c, false);
    return TX_OK;
}

static tx_status gpt_decode(tx_ctx *c, tx_model *m, const tx_decode *d)
{
    return tx_transformer_decode(c, (tx_transformer *)m, d);
}

static tx_status gpt_logits(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y)
{
    tx_gpt *g = (tx_gpt *)m;
    size_t start = tx_arena_mark(&c->acts);
    tx_tensor normed;
    TX_TRY(tx_transformer_norm_rows(c, &g->t, &normed, y));
    tx_at_part(c, HEAD);
    TX_RUN(c, gemm, .c = logits, .a = normed, .b = g->head->value, .trans_b = true);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

const tx_model_type tx_model_gpt = {
    .name = "GPT",
    .samples = &tx_gpt_samples,
    .usual_tokens = 50257,
    .usual_tokenizer = "GPT-2's",
    .prefix = "",
    .upstream_pipeline = true,
    .upstream_tokenizer = "GPT2BPETokenizer",
    .create = gpt_create,
    .destroy = gpt_destroy,
    .hold = gpt_hold,
    .shape = tx__gpt_shape,
    .fill = tx__gpt_fill,
    .losses = tx__gpt_losses,
    .fwd = gpt_fwd,
    .bwd = gpt_bwd,
    .decode = gpt_decode,
    .logits = gpt_logits,
};
