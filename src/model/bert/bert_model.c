/* bert_model.c - a transformer that sees both sides, with a masked-LM head and a head on pairs of segments. */
#include "base/alloc.h"
#include "model/bert/bert.h"
#include "parallel/tp.h"

/* Parts, for the watch. */
#define GATHER  "lm_head.gather"
#define DENSE   "lm_head.dense"
#define NORM    "lm_head.layernorm"
#define WORDS   "lm_head.words"
#define POOLER  "pooler.dense"
#define BINARY  "binary_head"
#define SCATTER "lm_head.scatter"

#define F(member) offsetof(tx_bert, member)

/* clang-format off */
static const tx_param_decl head_params[] = {
    { "pooler.dense.weight",      "h,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(pooler.w),   TX_WITH_BINARY },
    { "pooler.dense.bias",        "h",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(pooler.b),   TX_WITH_BINARY },
    { "lm_head.bias",             "V/t", TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(bias),       0 },
    { "lm_head.dense.weight",     "h,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(dense.w),    0 },
    { "lm_head.dense.bias",       "h",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(dense.b),    0 },
    { "lm_head.layernorm.weight", "h",   TX_INIT_ONE,    TX_NO_DECAY, TX_ADDS, F(norm.gamma), 0 },
    { "lm_head.layernorm.bias",   "h",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(norm.beta),  TX_WITH_BETA },
    { "binary_head.weight",       "T,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, F(binary.w),   TX_WITH_BINARY },
    { "binary_head.bias",         "T",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, F(binary.b),   TX_WITH_BINARY },
};
/* clang-format on */
enum { N_HEAD_PARAMS = sizeof head_params / sizeof head_params[0] };

/* ---- parameters ---- */

static void bert_destroy(tx_model *m)
{
    tx_bert *g = (tx_bert *)m;
    if (!g) return;
    tx_transformer_deinit(&g->t);
    tx_free(g);
}

static tx_status declare(tx_bert *g, const tx_grid *grid, const tx_dims *dims)
{
    tx_transformer *t = &g->t;
    TX_TRY(tx_transformer_declare(t, grid, dims, true));
    if (t->unit.norm >= 0) TX_TRY(tx_params_declare(&t->base.params, "", head_params, N_HEAD_PARAMS, g, dims));
    TX_TRY(tx_transformer_declare_tied(t, grid, dims));
    tx_transformer_declared(t);
    return TX_OK;
}

/* ---- the rows that the heads read ---- */

/* Rows of x, a matrix, as a batch of one position each: b of them, and those of the labels. */
static tx_tensor rows_of(tx_tensor x)
{
    return tx_tensor3(x.data, x.dtype, 1, x.dim[0], x.dim[1]);
}

static tx_tensor numbers_of(const tx_batch *batch)
{
    return tx_tensor2(batch->row.data, TX_I32, 1, batch->row.dim[0]);
}

/* The two parts of it: of all samples, and of the labels. */
static tx_tensor first_rows(const tx_batch *batch, tx_tensor x)
{
    return tx_slice_rows(x, 0, batch->token.dim[1]);
}

static tx_tensor label_rows(const tx_batch *batch, tx_tensor x)
{
    return tx_slice_rows(x, batch->token.dim[1], batch->label.dim[0]);
}

/* X = y[row], y being whole on every rank then. A gather is what an embedding does. */
static tx_status gather_rows(tx_ctx *c, const tx_batch *batch, tx_tensor x, tx_tensor y)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, y), row = numbers_of(batch);
    tx_at_part(c, GATHER);
    TX_TRY(tx_tp_gather(c, whole, y));
    TX_RUN(c, embedding_fwd, .y = rows_of(x), .token = row, .position = row, .word = tx_as_rows(whole));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* dy = the rows of dx where they came from, and 0 elsewhere. Every rank has all of dx and keeps its positions. */
static tx_status scatter_rows(tx_ctx *c, const tx_batch *batch, tx_tensor dy, tx_tensor dx)
{
    size_t mark = tx_arena_mark(&c->scratch);
    int64_t s = batch->token.dim[0], b = batch->token.dim[1];
    tx_tensor row = numbers_of(batch), sum = dy;
    tx_at_part(c, SCATTER);
    if (dy.dtype != tx_wide(dy.dtype)) sum = tx_push3(&c->scratch, tx_wide(dy.dtype), dy.dim[0], b, dy.dim[2]);
    TX_RUN(c, fill, .x = sum, .value = 0);
    TX_RUN(c, embedding_bwd, .dword = tx_as_rows(sum), .dy = rows_of(dx), .token = row, .position = row,
           .shard = { .first = tx_tp_first_position(c, s) * b, .whole = s * b });
    if (sum.data != dy.data) TX_RUN(c, cast, .y = dy, .x = sum);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- the masked-LM head ---- */

/* From rows of y to what the words are multiplied with. Pushes a's tensors.   @y room for that; absent: pushed, too */
static tx_status transform_fwd(tx_ctx *c, const tx_bert *g, tx_bert_saved *a, tx_tensor y, tx_tensor x)
{
    a->u = tx_push2(&c->acts, x.dtype, x.dim[0], x.dim[1]);
    a->g = tx_push2(&c->acts, x.dtype, x.dim[0], x.dim[1]);
    tx_at_part(c, DENSE);
    TX_TRY(tx_linear_fwd(c, &g->dense, a->u, x));
    TX_RUN(c, activation_fwd, .y = a->g, .x = a->u, .kind = g->activation);
    tx_at_part(c, NORM);
    return tx_norm_fwd(c, &g->norm, &a->norm, y, a->g);
}

/* @dx [n, h], written   @dn [n, h], the gradient of its output; used up */
static tx_status transform_bwd(tx_ctx *c, const tx_bert *g, const tx_bert_saved *a, tx_tensor dx, tx_tensor dn,
                               tx_tensor x)
{
    tx_at_part(c, NORM);
    TX_TRY(tx_norm_bwd(c, &g->norm, &a->norm, (tx_norm_gradient){ .d = dn, .dy = dn }, a->g));
    tx_at_part(c, DENSE);
    TX_RUN(c, activation_bwd, .dx = dn, .dy = dn, .x = a->u, .kind = g->activation);
    return tx_linear_bwd(c, &g->dense, dx, dn, x);
}

/* The losses, and with train also dx and the words' gradient. */
static tx_status words_fwd(tx_ctx *c, const tx_stack_call *k)
{
    tx_bert *g = k->model;
    const tx_batch *batch = k->batch;
    const tx_model *m = &g->t.base;
    const tx_axis *tp = &tx_grid_of(c)->axis[TX_AXIS_TENSOR];
    tx_weight *word = &g->t.word;
    tx_tensor none = { 0 };
    tx_at_part(c, WORDS);
    TX_RUN(c, head_loss, .loss = batch->loss, .dx = k->dx, .dw = k->train ? word->grad : none,
           .accumulate = !word->fresh, .x = k->x, .w = word->value, .bias = g->bias.value,
           .dbias = k->train ? g->bias.grad : none, .y = batch->label, .weight = k->train ? batch->weight : none,
           .n_valid = m->n_valid, .smoothing = k->train ? m->label_smoothing : 0, .n_parts = tp->size, .part = tp->rank,
           .exchange = tx_tp_exchange);
    if (!k->train) return TX_OK;
    word->fresh = false;
    return tp->size > 1 ? tx_all_reduce(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), k->dx, TX_SUM) : TX_OK;
}

/* ---- the binary head ---- */

static tx_status pool_fwd(tx_ctx *c, const tx_bert *g, tx_bert_saved *a, tx_tensor logits, tx_tensor x)
{
    a->pooled = tx_push2(&c->acts, x.dtype, x.dim[0], x.dim[1]);
    a->tanh = tx_push2(&c->acts, x.dtype, x.dim[0], x.dim[1]);
    tx_at_part(c, POOLER);
    TX_TRY(tx_linear_fwd(c, &g->pooler, a->pooled, x));
    TX_RUN(c, activation_fwd, .y = a->tanh, .x = a->pooled, .kind = TX_TANH);
    tx_at_part(c, BINARY);
    return tx_linear_fwd(c, &g->binary, logits, a->tanh);
}

static tx_status binary_fwd(tx_ctx *c, const tx_bert *g, tx_bert_saved *a, const tx_batch *batch, bool train)
{
    tx_tensor x = first_rows(batch, a->x);
    a->dlogits = tx_push2(&c->acts, x.dtype, x.dim[0], 2);
    tx_tensor logits = tx_push2(&c->acts, tx_wide(x.dtype), x.dim[0], 2), none = { 0 };
    TX_TRY(pool_fwd(c, g, a, logits, x));
    TX_RUN(c, cross_entropy, .loss = batch->other_loss, .z = logits, .dz = train ? a->dlogits : none,
           .y = batch->pair_label, .weight = train ? batch->pair_weight : none, .n_valid = 2);
    return TX_OK;
}

/* @dx [b, h], written */
static tx_status binary_bwd(tx_ctx *c, const tx_bert *g, const tx_bert_saved *a, const tx_batch *batch, tx_tensor dx)
{
    tx_at_part(c, BINARY);
    if (!g->has_binary) {
        TX_RUN(c, fill, .x = dx, .value = 0);
        return TX_OK;
    }
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor d = tx_push2(&c->acts, dx.dtype, dx.dim[0], dx.dim[1]);
    TX_TRY(tx_linear_bwd(c, &g->binary, d, a->dlogits, a->tanh));
    tx_at_part(c, POOLER);
    TX_RUN(c, activation_bwd, .dx = d, .dy = d, .x = a->pooled, .kind = TX_TANH);
    TX_TRY(tx_linear_bwd(c, &g->pooler, dx, d, first_rows(batch, a->x)));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* ---- both ---- */

static tx_tensor heads_output(tx_ctx *c, const tx_stack_call *k)
{
    (void)c;
    const tx_model *m = k->model;
    return tx_tensor2(NULL, m->dtype, ((const tx_batch *)k->batch)->label.dim[0], m->hidden);
}

/* From the final norm's output to the binary head's losses, and to what the words are multiplied with. */
static tx_status heads_fwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_bert *g = k->model;
    const tx_batch *batch = k->batch;
    tx_bert_saved *a = k->saved;
    a->x = tx_push2(&c->acts, k->x.dtype, batch->row.dim[0], k->x.dim[2]);
    TX_TRY(gather_rows(c, batch, a->x, k->x));
    if (g->has_binary) TX_TRY(binary_fwd(c, g, a, batch, k->train));
    return transform_fwd(c, g, a, k->y, label_rows(batch, a->x));
}

static tx_status heads_bwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_bert *g = k->model;
    const tx_batch *batch = k->batch;
    const tx_bert_saved *a = k->saved;
    tx_tensor dx = tx_push2(&c->acts, a->x.dtype, a->x.dim[0], a->x.dim[1]);
    TX_TRY(transform_bwd(c, g, a, label_rows(batch, dx), k->dy, label_rows(batch, a->x)));
    TX_TRY(binary_bwd(c, g, a, batch, first_rows(batch, dx)));
    return scatter_rows(c, batch, k->dx, dx);
}

static const tx_layer_kind heads_layer = {
    .part = TX_AFTER_BODY, .output = heads_output, .fwd = heads_fwd, .bwd = heads_bwd
};
static const tx_layer_kind words_layer = { .part = TX_AFTER_BODY, .output = tx_no_output, .fwd = words_fwd };

/* Embedding, blocks, final norm, heads, and the words' losses. The heads' parameters are in the final norm's unit,
 * which is in use until the last of these; the words' bias gets its gradient there. */
static tx_status list_layers(tx_bert *g)
{
    tx_transformer *t = &g->t;
    tx_stack *s = &t->base.stack;
    unsigned done = t->unit.head == t->unit.words ? 0 : TX_COMPLETE_FWD; /* the embedding contributes last */
    const tx_stack_unit heads = { t->unit.norm, TX_GATHER_BWD | TX_GRADS_BWD };
    const tx_stack_unit words[] = { { t->unit.head, TX_GATHER_FWD | TX_GRADS_FWD | TX_RELEASE_FWD | done },
                                    { t->unit.norm, TX_GRADS_FWD | TX_RELEASE_FWD } };
    TX_TRY(tx_transformer_list(t));
    if (!t->base.chunk[t->base.n_chunks - 1].post) return TX_OK;
    TX_TRY(tx_transformer_list_norm(t, TX_GATHER_FWD | TX_RELEASE_BWD | TX_COMPLETE_BWD));
    TX_TRY(tx_stack_add(
        s,
        &(tx_stack_layer){ .kind = &heads_layer, .saved_size = sizeof(tx_bert_saved), .unit = &heads, .n_units = 1 }));
    return tx_stack_add(s, &(tx_stack_layer){ .kind = &words_layer, .unit = words, .n_units = 2 });
}

/* ---- making one ---- */

static tx_status bert_create(tx_model **out, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid)
{
    tx_bert *g;
    tx_dims dims;
    const tx_head_shape head = { .share = cfg->mask_prob,
                                 .before = cfg->hidden_size * cfg->hidden_size,
                                 .n_types = cfg->bert_binary_head ? 2 : 0,
                                 .no_direction = true,
                                 .traits = cfg->bert_binary_head ? TX_WITH_BINARY : 0 };
    if (!grid) grid = &tx_grid_alone;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "the model"));
    tx_status st;
    TX_GOTO(tx_transformer_create(&g->t, &tx_model_bert, cfg, vocab_size, grid, &head, &dims));
    g->has_binary = cfg->bert_binary_head;
    g->norm = g->t.final_norm;
    g->activation = cfg->relu          ? TX_RELU
                    : cfg->openai_gelu ? TX_GELU_TANH
                                       : TX_GELU_ERF; /* whatever fuses with the layers' bias */
    g->t.base.n_losses = 1 + g->has_binary;
    g->t.base.loss_name[1] = "sop loss";
    TX_GOTO(declare(g, grid, &dims));
    TX_GOTO(list_layers(g));
    TX_GOTO(tx_stack_hold(&g->t.base.stack, 1));
    *out = &g->t.base;
out:
    if (st) bert_destroy(&g->t.base);
    return st;
}

static tx_status bert_logits(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y)
{
    tx_bert *g = (tx_bert *)m;
    tx_bert_saved a = { 0 };
    size_t start = tx_arena_mark(&c->acts);
    tx_tensor normed;
    TX_TRY(tx_transformer_norm_rows(c, &g->t, &normed, y));
    TX_TRY(transform_fwd(c, g, &a, (tx_tensor){ 0 }, normed));
    tx_at_part(c, WORDS);
    TX_RUN(c, gemm, .c = logits, .a = a.norm.y, .b = g->t.word.value, .trans_b = true, .bias = g->bias.value);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

static tx_status bert_pair_logits(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y)
{
    tx_bert *g = (tx_bert *)m;
    tx_bert_saved a = { 0 };
    size_t start = tx_arena_mark(&c->acts);
    tx_tensor normed;
    TX_TRY(tx_transformer_norm_rows(c, &g->t, &normed, y));
    TX_TRY(pool_fwd(c, g, &a, logits, normed));
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

const tx_model_type tx_model_bert = {
    .name = "BERT",
    .samples = &tx_bert_samples,
    .usual_tokens = 30524, /* the uncased ones, and two that Megatron adds */
    .usual_tokenizer = "BERT's",
    .prefix = "BERT, ",
    .upstream_tokenizer = "BertWordPieceLowerCase",
    .create = bert_create,
    .destroy = bert_destroy,
    .shape = tx__bert_shape,
    .collate = tx__bert_collate,
    .losses = tx__bert_losses,
    .logits = bert_logits,
    .pair_logits = bert_pair_logits,
};
