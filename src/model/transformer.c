/* transformer.c - the layers that models have in common: embedding, block, final norm. */
#include "model/transformer.h"

#include "nn/context_attention.h"
#include "parallel/cp.h"
#include "parallel/tp.h"

/* Parts, for the watch. */
#define EMBEDDING      "embedding"
#define EMBEDDING_NORM "embedding.norm"
#define FINAL_NORM     "encoder.final_layernorm"

tx_tensor tx_transformer_stream(tx_ctx *c, const void *model, const void *batch)
{
    const tx_model *m = model;
    const tx_batch *of = batch;
    return tx_tensor3(NULL, m->stream, tx_tp_positions(c, of->token.dim[0]), of->token.dim[1], m->hidden);
}

static tx_tensor stream_output(tx_ctx *c, const tx_stack_call *k)
{
    return tx_transformer_stream(c, k->model, k->batch);
}

/* ---- the embedding ---- */

static tx_table_shard words_here(const tx_ctx *c, const tx_transformer *t)
{
    return (tx_table_shard){ .first = tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR) * t->word.value.dim[0],
                             .whole = t->base.vocab_padded };
}

/* What the words are added to, or the gradients of that; either may be absent. */
typedef struct tables {
    tx_tensor pos, kind;
} tables;

/* y = scale word[token] + pos[position] + kind[type]: each tensor rank gives the words it has, and the first one the
 * rest. */
static tx_status look_up(tx_ctx *c, const tx_transformer *t, tx_tensor y, const tx_batch *batch, tables add)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, y);
    if (tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR)) add.pos.data = add.kind.data = NULL;
    TX_RUN(c, embedding_fwd, .y = whole, .token = batch->token, .position = batch->position, .type = batch->type,
           .word = t->word.value, .pos = add.pos, .kind = add.kind, .shard = words_here(c, t),
           .scale = t->embedding_scale);
    TX_TRY(tx_tp_sum(c, y, whole));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* dword and what is in `add` += those of d. */
static tx_status look_up_bwd(tx_ctx *c, const tx_transformer *t, const tx_batch *batch, tx_tensor d, tables add)
{
    size_t mark = tx_arena_mark(&c->scratch);
    if (t->word.frozen) return TX_OK; /* and so are the others */
    tx_tensor whole = tx_tp_room(c, &c->scratch, d);
    TX_TRY(tx_tp_gather(c, whole, d));
    TX_RUN(c, embedding_bwd, .dword = t->word.grad, .dpos = add.pos, .dkind = add.kind, .dy = whole,
           .token = batch->token, .position = batch->position, .type = batch->type, .shard = words_here(c, t),
           .scale = t->embedding_scale);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* y = norm(e), noting where. */
static tx_status embedding_norm(tx_ctx *c, const tx_transformer *t, tx_embedding_saved *a, tx_tensor y)
{
    tx_at_part(c, EMBEDDING_NORM);
    TX_TRY(tx_norm_fwd(c, &t->embedding_norm, &a->norm, tx_as_rows(y), a->e));
    tx_at_part(c, EMBEDDING);
    return TX_OK;
}

static tx_status embedding_norm_bwd(tx_ctx *c, const tx_transformer *t, tx_embedding_saved *a, tx_tensor d)
{
    tx_at_part(c, EMBEDDING_NORM);
    TX_TRY(tx_norm_bwd(c, &t->embedding_norm, &a->norm, (tx_norm_gradient){ .d = d, .dy = d }, a->e));
    tx_at_part(c, EMBEDDING);
    return TX_OK;
}

/* x0 = norm(word[token]) + pos[position], pushing what backward needs. */
static tx_status embed_word_norm(tx_ctx *c, const tx_transformer *t, const tx_stack_call *k)
{
    const tx_batch *batch = k->batch;
    tx_embedding_saved *a = k->saved;
    int64_t s = k->y.dim[0], b = k->y.dim[1], h = k->y.dim[2];
    tx_tensor added = { 0 }, normed = k->spare;
    a->e = tx_push3(&c->acts, t->base.dtype, s, b, h);
    if (!normed.data) normed = tx_push3(&c->acts, t->base.dtype, s, b, h);
    TX_TRY(look_up(c, t, a->e, batch, (tables){ .pos = added }));
    TX_TRY(embedding_norm(c, t, a, normed));
    if (t->pos.value.data) {
        tx_tensor here = tx_slice_rows(batch->position, tx_tp_first_position(c, batch->position.dim[0]), s);
        TX_RUN(c, embedding_fwd, .y = k->y, .token = here, .position = here, .word = t->pos.value);
        added = k->y;
    }
    if (added.data)
        TX_RUN(c, add, .y = k->y, .a = normed, .b = added);
    else
        TX_RUN(c, cast, .y = k->y, .x = normed);
    return TX_OK;
}

/* dword, dpos and the norm's gradients += those of d, the gradient of x0, which is used up. */
static tx_status embed_word_norm_bwd(tx_ctx *c, const tx_transformer *t, const tx_stack_call *k)
{
    const tx_batch *batch = k->batch;
    tx_tensor d = k->dy, dy = d;
    if (t->pos.value.data && !t->pos.frozen) {
        size_t mark = tx_arena_mark(&c->scratch);
        tx_tensor whole = tx_tp_room(c, &c->scratch, d);
        TX_TRY(tx_tp_gather(c, whole, d));
        TX_RUN(c, embedding_bwd, .dword = t->pos.grad, .dy = whole, .token = batch->position,
               .position = batch->position);
        tx_arena_pop(&c->scratch, mark);
    }
    if (d.dtype != t->base.dtype) {
        dy = k->spare;
        TX_RUN(c, cast, .y = dy, .x = d);
    }
    TX_TRY(embedding_norm_bwd(c, t, k->saved, dy));
    return look_up_bwd(c, t, batch, dy, (tables){ .pos = { 0 } });
}

/* x0 as in transformer.h */
static tx_status embed(tx_ctx *c, const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_batch *batch = k->batch;
    tx_embedding_saved *a = k->saved;
    tx_dropout mask = tx_dropout_at(&batch->dropout, t->p_drop, 0, TX_DROP_EMBEDDING);
    tables add = { t->pos.value, t->kind.value };
    tx_tensor x = k->y;
    tx_at_part(c, EMBEDDING);
    if (t->normed == TX_NORM_WORDS) TX_TRY(embed_word_norm(c, t, k));
    if (t->normed == TX_NORM_NOTHING) TX_TRY(look_up(c, t, x, batch, add));
    if (t->normed == TX_NORM_SUM) {
        a->e = tx_push3(&c->acts, t->base.dtype, x.dim[0], x.dim[1], x.dim[2]);
        TX_TRY(look_up(c, t, a->e, batch, add));
        TX_TRY(embedding_norm(c, t, a, x));
    }
    if (mask.drop) TX_RUN(c, dropout_add_fwd, .y = x, .x = x, .mask = mask);
    return TX_OK;
}

static tx_status embed_bwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_batch *batch = k->batch;
    tx_dropout mask = tx_dropout_at(&batch->dropout, t->p_drop, 0, TX_DROP_EMBEDDING);
    tx_tensor d = k->dy;
    tx_at_part(c, EMBEDDING);
    if (mask.drop) TX_RUN(c, dropout_add_bwd, .dx = d, .dy = d, .mask = mask);
    if (t->normed == TX_NORM_WORDS) return embed_word_norm_bwd(c, t, k);
    if (t->normed == TX_NORM_SUM) TX_TRY(embedding_norm_bwd(c, t, k->saved, d));
    return look_up_bwd(c, t, batch, d, (tables){ t->pos.grad, t->kind.grad });
}

const tx_layer_kind tx_embedding_layer = {
    .part = TX_BEFORE_BODY, .output = stream_output, .fwd = embed, .bwd = embed_bwd
};

/* ---- the blocks ---- */

/* Memory for the branches' outputs where they cannot be made in the residual stream's own, for the norms' outputs where
 * those are not kept, and for all positions where a rank has a part of them. */
void tx_transformer_lend(tx_ctx *c, void *model, tx_tensor x)
{
    tx_transformer *t = model;
    const tx_model *m = &t->base;
    int64_t s = x.dim[0], b = x.dim[1], chunk = m->chunking.positions;
    if (chunk) chunk = tx_cp_rows(tx_grid_of(c), chunk);
    if (chunk && chunk < s) s = chunk;
    t->lent = (tx_block_rooms){ 0 };
    if (m->stream != m->dtype || t->halves != TX_IN_TURN)
        t->lent.branch = tx_push3(&c->scratch, m->dtype, s, b, m->hidden);
    if (m->recompute.selective) t->lent.norm = tx_push2(&c->scratch, m->dtype, s * b, m->hidden);
    if (!tx_tp_is_whole(c))
        t->lent.whole = tx_push3(&c->scratch, m->dtype, s * tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR), b, m->hidden);
}

/* What a layer with experts is told of the pass. */
static tx_moe_pass pass_of(const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_batch *batch = k->batch;
    const tx_block *block = k->layer->params;
    tx_moe_pass p = { .b = batch->token.dim[1], .train = k->train, .generates = batch->kv, .scale = batch->scale };
    const tx_tensor all = t->base.expert_sums;
    const tx_tensor bias = t->base.expert_bias;
    if (block->moe && all.data) p.sums = tx_slice1(all, (block->moe - t->moe) * all.dim[1], all.dim[1]);
    if (block->moe && bias.data) p.bias = tx_slice1(bias, (block->moe - t->moe) * bias.dim[1], block->moe->n_experts);
    return p;
}

/* Where a layer's largest scores go: training's. */
static tx_tensor max_logits_of(const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_tensor all = t->base.max_logits;
    const tx_block *block = k->layer->params;
    int64_t n = block->attn.n_groups, r = block->attn.n_heads / n;
    if (!all.data || !k->train) return (tx_tensor){ 0 };
    return tx_tensor2((float *)all.data + (block - t->block) * all.dim[1], TX_F32, n, r);
}

/* The probability with which a layer is computed (--progressive-layer-drop): arXiv:2010.13369, algorithm 1. */
static double kept_with(const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_dropout_key *key = &((const tx_batch *)k->batch)->dropout;
    const tx_block *block = k->layer->params;
    if (!key->on) return 1;
    return 1 - (double)(block->layer - 1) / (double)t->base.n_layers * key->layer_drop;
}

/* Whether the micro-batch passes the layer by. It is named by its first sample. */
static bool is_dropped(const tx_stack_call *k)
{
    const tx_dropout_key *key = &((const tx_batch *)k->batch)->dropout;
    const tx_block *block = k->layer->params;
    double p = kept_with(k);
    if (p >= 1) return false;
    const tx_rng rng = tx_dropout_at(key, 0, block->layer, TX_RANDOM_LAYER).rng;
    return tx_rng_uniform_at(&rng, key->sample) >= p;
}

static tx_block_call block_call(const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_batch *batch = k->batch;
    const tx_block *block = k->layer->params;
    return (tx_block_call){ .x = k->x,
                            .y = k->y,
                            .d = k->dy,
                            .seen = { .first = batch->first_key, .n = batch->n_keys },
                            .max_logits = max_logits_of(k),
                            .dropout = &batch->dropout,
                            .kv = batch->kv ? batch->kv + (block - t->block) : NULL,
                            .branch_scale = 1 / kept_with(k),
                            .pass = pass_of(k),
                            .lent = &t->lent };
}

/* ---- of some tokens: y = x, but for those that the layer computes ---- */

/* Whether the layer computes some of the batch's tokens (--random-ltd), whose positions are then `at` [r, b]. */
static bool drops_tokens(const tx_stack_call *k, tx_tensor *at)
{
    const tx_batch *batch = k->batch;
    const tx_tensor all = batch->kept;
    int64_t r = all.dim[1], b = all.dim[2];
    int n = ((const tx_block *)k->layer->params)->dropping;
    if (n < 0 || !all.data || !batch->dropout.on || r >= batch->dropout.s_global) return false;
    *at = tx_tensor2((int32_t *)all.data + n * r * b, TX_I32, r, b);
    return true;
}

/* What a layer works on of them. */
typedef struct some_tokens {
    tx_block_call call;
    tx_block_rooms lent;
    tx_dropout_key dropout;
} some_tokens;

/* @t out; whose call looks into it   @x the layer's input, of all ranks together [r, b, h] */
static void begin_some(tx_ctx *c, const tx_stack_call *k, some_tokens *t, tx_tensor x, tx_tensor at)
{
    const tx_batch *batch = k->batch;
    const tx_tensor first = batch->kept_first, n = batch->kept_n;
    int64_t r = at.dim[0], b = at.dim[1], own = ((const tx_block *)k->layer->params)->dropping, rows = x.dim[0];
    int64_t of_peers = tx_cp_rows(tx_grid_of(c), r);
    t->call = block_call(k);
    t->lent = *t->call.lent;
    t->dropout = batch->dropout;
    t->dropout.s_global = r;
    t->dropout.whole = tx_cp_positions(tx_grid_of(c), r);
    t->dropout.at = tx_positions_from(&t->dropout.whole, tx_tp_first_position(c, of_peers));
    if (t->lent.branch.data) t->lent.branch = tx_slice_rows(t->lent.branch, 0, rows);
    if (t->lent.norm.data) t->lent.norm = tx_slice_rows(t->lent.norm, 0, rows * b);
    if (t->lent.whole.data) t->lent.whole = tx_slice_rows(t->lent.whole, 0, of_peers);
    t->call.x = x;
    t->call.position = at;
    t->call.dropout = &t->dropout;
    t->call.lent = &t->lent;
    if (first.data) t->call.seen.first = tx_tensor2((int32_t *)first.data + own * r * b, TX_I32, r, b);
    if (n.data) t->call.seen.n = tx_tensor1((int32_t *)n.data + own * b, TX_I32, b);
}

static tx_tensor push_some(tx_ctx *c, tx_arena *a, tx_tensor all, tx_tensor at)
{
    int64_t rows = tx_cp_rows(tx_grid_of(c), at.dim[0]);
    return tx_push3(a, all.dtype, tx_tp_positions(c, rows), all.dim[1], all.dim[2]);
}

/* How tokens come and go where ranks divide positions. */
static tx_status open_exchange(tx_ctx *c, const tx_stack_call *k, tx_token_exchange *e, tx_tensor at)
{
    const tx_dropout_key *key = &((const tx_batch *)k->batch)->dropout;
    const tx_block *block = k->layer->params;
    const tx_token_choice which = { at, key->s_global, tx_dropout_at(key, 0, block->layer, TX_RANDOM_TOKENS).rng,
                                    key->sample };
    return tx_context_is_divided(c) ? tx_token_exchange_open(c, e, &which, k->x.dim[0]) : TX_OK;
}

/* some = the tokens of all, which tensor ranks may have divided: each gives what it has of them, and keeps its part. */
static tx_status take_tokens(tx_ctx *c, const tx_token_exchange *e, tx_tensor some, tx_tensor all, tx_tensor at)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, some);
    int64_t s = all.dim[0] * (tx_tp_is_whole(c) ? 1 : tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR));
    if (tx_context_is_divided(c))
        TX_TRY(tx_token_exchange_take(c, e, whole, all));
    else
        TX_RUN(c, gather_tokens, .y = whole, .x = all, .position = at, .first = tx_tp_first_position(c, s));
    if (!tx_tp_is_whole(c)) TX_TRY(tx_tp_sum(c, some, whole));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

static tx_status put_tokens(tx_ctx *c, const tx_token_exchange *e, tx_tensor all, tx_tensor some, tx_tensor at)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, some);
    int64_t s = all.dim[0] * (tx_tp_is_whole(c) ? 1 : tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR));
    TX_TRY(tx_tp_gather(c, whole, some));
    if (tx_context_is_divided(c))
        TX_TRY(tx_token_exchange_put(c, e, all, whole));
    else
        TX_RUN(c, scatter_tokens, .y = all, .x = whole, .position = at, .first = tx_tp_first_position(c, s));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

static tx_status some_fwd(tx_ctx *c, const tx_stack_call *k, tx_tensor at)
{
    some_tokens t;
    tx_layer_saved *a = k->saved;
    size_t mark = tx_arena_mark(&c->scratch);
    a->x = push_some(c, &c->acts, k->x, at);
    TX_TRY(open_exchange(c, k, &a->some, at));
    TX_TRY(take_tokens(c, &a->some, a->x, k->x, at));
    begin_some(c, k, &t, a->x, at);
    t.call.y = push_some(c, &c->scratch, k->y, at);
    TX_TRY(tx_block_fwd(c, k->layer->params, &a->block, &t.call));
    TX_RUN(c, copy, .y = k->y, .x = k->x);
    TX_TRY(put_tokens(c, &a->some, k->y, t.call.y, at));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* The gradient of tokens that pass by stays where it is. */
static tx_status some_bwd(tx_ctx *c, const tx_stack_call *k, tx_tensor at)
{
    some_tokens t;
    const tx_layer_saved *a = k->saved;
    size_t mark = tx_arena_mark(&c->acts);
    begin_some(c, k, &t, a->x, at);
    t.call.d = push_some(c, &c->acts, k->dy, at);
    TX_TRY(take_tokens(c, &a->some, t.call.d, k->dy, at));
    TX_TRY(tx_block_bwd(c, k->layer->params, &a->block, &t.call));
    TX_TRY(put_tokens(c, &a->some, k->dy, t.call.d, at));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* The layer's unit of the parameter table. */
static int unit_of(const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    return t->unit.layers + (int)((const tx_block *)k->layer->params - t->block);
}

/* Whether the layer computes its positions in chunks; generation does not. */
static bool is_chunked(const tx_stack_call *k)
{
    return ((const tx_model *)k->model)->chunking.positions && !((const tx_batch *)k->batch)->kv;
}

/* A layer that is passed by adds nothing to its parameters' gradients. */
static tx_status dropped_bwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    const tx_params *ps = &t->base.params;
    if (c->wgrads) return TX_OK; /* as the part that is put off finds */
    const tx_unit *rows = &ps->unit[unit_of(k)];
    return tx_params_nothing(c, ps, rows->first, rows->end);
}

static tx_status block_fwd(tx_ctx *c, const tx_stack_call *k)
{
    tx_layer_saved *a = k->saved;
    tx_tensor at;
    if (is_dropped(k)) {
        TX_RUN(c, copy, .y = k->y, .x = k->x);
        return TX_OK;
    }
    if (drops_tokens(k, &at)) return some_fwd(c, k, at);
    const tx_block_call call = block_call(k);
    if (is_chunked(k))
        return tx_chunked_block_fwd(c, k->layer->params, &a->chunks, ((const tx_model *)k->model)->chunking, &call);
    return tx_block_fwd(c, k->layer->params, &a->block, &call);
}

static tx_status block_bwd(tx_ctx *c, const tx_stack_call *k)
{
    tx_layer_saved *a = k->saved;
    tx_tensor at;
    if (is_dropped(k)) return dropped_bwd(c, k);
    if (drops_tokens(k, &at)) return some_bwd(c, k, at);
    const tx_block_call call = block_call(k);
    if (is_chunked(k))
        return tx_chunked_block_bwd(c, k->layer->params, &a->chunks, &call, &((const tx_model *)k->model)->params,
                                    unit_of(k));
    return tx_block_bwd(c, k->layer->params, &a->block, &call);
}

const tx_layer_kind tx_block_layer = {
    .part = TX_IN_BODY, .output = stream_output, .fwd = block_fwd, .bwd = block_bwd, .divides = true
};

/* ---- the final norm ---- */

static tx_tensor norm_output(tx_ctx *c, const tx_stack_call *k)
{
    tx_tensor y = tx_transformer_stream(c, k->model, k->batch);
    y.dtype = ((const tx_model *)k->model)->dtype;
    return y;
}

static tx_status final_norm_fwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    tx_at_part(c, FINAL_NORM);
    return tx_norm_fwd(c, &t->final_norm, k->saved, tx_as_rows(k->y), k->x);
}

static tx_status final_norm_bwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_transformer *t = k->model;
    tx_at_part(c, FINAL_NORM);
    return tx_norm_bwd(c, &t->final_norm, k->saved, (tx_norm_gradient){ .d = k->dx, .dy = k->dy }, k->x);
}

const tx_layer_kind tx_final_norm_layer = {
    .part = TX_AFTER_BODY, .output = norm_output, .fwd = final_norm_fwd, .bwd = final_norm_bwd
};
/* The stream has the values' type then. */
const tx_layer_kind tx_no_norm_layer = { .part = TX_AFTER_BODY, .output = stream_output };

tx_status tx_transformer_norm_rows(tx_ctx *c, tx_transformer *t, tx_tensor *normed, tx_tensor y)
{
    tx_norm_saved norm;
    *normed = y;
    if (!(t->traits & TX_WITH_FINAL_NORM)) return TX_OK;
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_norm_fwd(c, &t->final_norm, &norm, (tx_tensor){ 0 }, y));
    *normed = norm.y;
    return TX_OK;
}
