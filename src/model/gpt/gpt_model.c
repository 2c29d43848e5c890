/* gpt_model.c - a transformer with a head that predicts the next token. */
#include "base/alloc.h"
#include "model/gpt/gpt.h"
#include "parallel/cp.h"
#include "parallel/tp.h"

#define HEAD "output_layer" /* for the watch */

/* clang-format off */
static const tx_param_decl output_params[] = {
    { "output_layer.weight", "V/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, offsetof(tx_gpt, output),      TX_WITH_OUTPUT },
    { "output_layer.bias",   "V/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, offsetof(tx_gpt, output_bias), TX_WITH_OUTPUT_BIAS },
};
/* clang-format on */

/* ---- parameters ---- */

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
    return tx_params_declare(ps, "", output_params, 2, g, dims);
}

/* ---- the head ---- */

static const tx_teacher_head nobody;

/* The mean of what each token learns, over a micro-batch of whole samples. */
static tx_teacher_head taught_by(const tx_model *m, const tx_batch *batch)
{
    if (!m->is_taught) return nobody;
    return (tx_teacher_head){ .loss = batch->taught,
                              .x = batch->teacher.x,
                              .w = batch->teacher.head.w,
                              .bias = batch->teacher.head.bias,
                              .form = batch->teacher.head.form,
                              .temperature = m->kd_temp,
                              .factor = m->kd_factor,
                              .scale = batch->scale / (double)(batch->token.dim[1] * m->kd_positions) };
}

/* A teacher's forward ends with what its head reads: the student's makes the logits. */
static tx_status give_features(tx_ctx *c, tx_tensor features, tx_tensor y)
{
    if (tx_numel(features) != tx_numel(y)) return tx_tp_gather(c, features, y);
    TX_RUN(c, copy, .y = features, .x = y);
    return TX_OK;
}

/* Loss, and with train also the gradient of the final norm's output and of the head. */
static tx_status head_fwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_gpt *g = k->model;
    const tx_batch *batch = k->batch;
    const tx_model *m = &g->t.base;
    const tx_axis *tp = &tx_grid_of(c)->axis[TX_AXIS_TENSOR];
    if (batch->features.data) return give_features(c, batch->features, tx_as_rows(k->x));
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor none = { 0 }, y = tx_as_rows(k->x), x = tx_tp_room(c, &c->scratch, y), dx = none;
    if (k->train) dx = tx_tp_room(c, &c->scratch, tx_as_rows(k->dx));
    TX_TRY(tx_tp_gather(c, x, y));
    bool learns = k->train && !g->head->frozen;
    TX_RUN(c, head_loss, .loss = batch->loss, .dx = dx, .dw = learns ? g->head->grad : none,
           .accumulate = !g->head->fresh, .x = x, .w = g->head->value, .bias = g->output_bias.value,
           .dbias = learns ? g->output_bias.grad : none, .form = g->form, .y = batch->label,
           .weight = k->train ? batch->weight : none, .n_valid = m->n_valid,
           .smoothing = k->train ? m->label_smoothing : 0, .n_parts = tp->size, .part = tp->rank,
           .exchange = tx_tp_exchange, .z_weight = k->train ? m->z_weight : 0,
           .z_loss = k->train ? batch->other_loss : none, .teacher = k->train ? taught_by(m, batch) : nobody);
    if (k->train) g->head->fresh = false;
    if (!k->train && batch->other_loss.data) TX_RUN(c, fill, .x = batch->other_loss, .value = 0);
    if (!k->train && batch->taught.data) TX_RUN(c, fill, .x = batch->taught, .value = 0);
    if (k->train) TX_TRY(tx_tp_sum(c, tx_as_rows(k->dx), dx));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

static const tx_layer_kind head_layer = { .part = TX_AFTER_BODY, .output = tx_no_output, .fwd = head_fwd };

/* Embedding, blocks, final norm, head. */
static tx_status list_layers(tx_gpt *g)
{
    tx_transformer *t = &g->t;
    unsigned done = t->unit.head == t->unit.words ? 0 : TX_COMPLETE_FWD; /* the embedding contributes last */
    const tx_stack_unit head = { t->unit.head, TX_GATHER_FWD | TX_GRADS_FWD | TX_RELEASE_FWD | done };
    TX_TRY(tx_transformer_list(t));
    if (!t->base.chunk[t->base.n_chunks - 1].post) return TX_OK;
    TX_TRY(tx_transformer_list_norm(t, TX_OWN_UNIT));
    return tx_stack_add(&t->base.stack,
                        &(tx_stack_layer){ .kind = &head_layer, .name = HEAD, .unit = &head, .n_units = 1 });
}

/* ---- making one ---- */

static tx_status gpt_create(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid)
{
    tx_gpt *g;
    tx_dims dims;
    bool untied = cfg->untie_embeddings_and_output_weights;
    const tx_head_shape head = { .share = 1,
                                 .traits =
                                     (untied ? TX_WITH_OUTPUT : 0) | (cfg->output_bias ? TX_WITH_OUTPUT_BIAS : 0) };
    if (!grid) grid = &tx_grid_alone;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "the model"));
    tx_status st;
    g->head = untied ? &g->output : &g->t.word;
    g->form = (tx_logit_form){ .scale = cfg->logits_scale, .cap = cfg->final_logit_softcap };
    TX_GOTO(tx_transformer_create(&g->t, &tx_model_gpt, cfg, vocab_size, grid, &head, &dims));
    if (cfg->z_loss_weight > 0) {
        g->t.base.z_weight = cfg->z_loss_weight;
        g->t.base.loss_name[g->t.base.n_losses++] = "head z loss";
    }
    if (tx_config_has_teacher(cfg)) {
        g->t.base.is_taught = true;
        g->t.base.kd_factor = cfg->kd_beta_ce;
        g->t.base.kd_temp = cfg->kd_temp;
        g->t.base.kd_positions = cfg->seq_length;
        g->t.base.kd_counted = tx_cp_rows(grid, cfg->seq_length);
        g->t.base.loss_name[g->t.base.n_losses++] = cfg->mos ? "mos loss" : "kd loss";
    }
    TX_GOTO(declare(g, grid, &dims));
    tx_transformer_declared(&g->t);
    TX_GOTO(list_layers(g));
    TX_GOTO(tx_stack_hold(&g->t.base.stack, 1));
    *out = &g->t.base;
out:
    if (st) gpt_destroy(&g->t.base);
    return st;
}

static tx_status gpt_logits(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y)
{
    tx_gpt *g = (tx_gpt *)m;
    size_t start = tx_arena_mark(&c->acts);
    tx_tensor normed;
    TX_TRY(tx_transformer_norm_rows(c, &g->t, &normed, y));
    tx_at_part(c, HEAD);
    TX_RUN(c, gemm, .c = logits, .a = normed, .b = g->head->value, .trans_b = true, .bias = g->output_bias.value);
    if (tx_logits_change(g->form)) TX_RUN(c, softcap_fwd, .y = logits, .x = logits, .form = g->form);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

static tx_model_head gpt_head(const tx_model *m)
{
    const tx_gpt *g = (const tx_gpt *)m;
    return (tx_model_head){ g->head->value, g->output_bias.value, g->form };
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
    .shape = tx__gpt_shape,
    .collate = tx__gpt_collate,
    .losses = tx__gpt_losses,
    .decode = tx_model_decode,
    .logits = gpt_logits,
    .head = gpt_head,
};
