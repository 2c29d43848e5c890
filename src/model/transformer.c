/* transformer.c - forward, backward and decoding of all but the head: a chunk at a time, which without a pipeline is
 * the whole. */
#include <string.h>

#include "base/clock.h"
#include "model/transformer.h"
#include "parallel/tp.h"

/* Parts, for the watch. */
#define EMBEDDING      "embedding"
#define EMBEDDING_NORM "embedding.norm"
#define FINAL_NORM     "encoder.final_layernorm"

/* ---- the embedding ---- */

tx_table_shard tx_transformer_words_here(const tx_ctx *c, const tx_transformer *t)
{
    return (tx_table_shard){ .first = tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR) * t->word.value.dim[0],
                             .whole = t->base.vocab_padded };
}

/* What the words are added to, or the gradients of that; either may be absent. */
typedef struct tables {
    tx_tensor pos, kind;
} tables;

/* y = word[token] + pos[position] + kind[type]: each tensor rank gives the words it has, and the first one the rest. */
static tx_status look_up(tx_ctx *c, const tx_transformer *t, tx_tensor y, const tx_batch *batch, tables add)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, y);
    if (tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR)) add.pos.data = add.kind.data = NULL;
    TX_RUN(c, embedding_fwd, .y = whole, .token = batch->token, .position = batch->position, .type = batch->type,
           .word = t->word.value, .pos = add.pos, .kind = add.kind, .shard = tx_transformer_words_here(c, t));
    TX_TRY(tx_tp_sum(c, y, whole));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* dword and what is in `add` += those of d. */
static tx_status look_up_bwd(tx_ctx *c, const tx_transformer *t, const tx_batch *batch, tx_tensor d, tables add)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, d);
    TX_TRY(tx_tp_gather(c, whole, d));
    TX_RUN(c, embedding_bwd, .dword = t->word.grad, .dpos = add.pos, .dkind = add.kind, .dy = whole,
           .token = batch->token, .position = batch->position, .type = batch->type,
           .shard = tx_transformer_words_here(c, t));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* y = norm(e), noting where. */
static tx_status embedding_norm(tx_ctx *c, const tx_transformer *t, tx_transformer_saved *a, tx_tensor y)
{
    tx_at_part(c, EMBEDDING_NORM);
    TX_TRY(tx_norm_fwd(c, &t->embedding_norm, &a->embedding_norm, tx_as_rows(y), a->e));
    tx_at_part(c, EMBEDDING);
    return TX_OK;
}

static tx_status embedding_norm_bwd(tx_ctx *c, const tx_transformer *t, tx_transformer_saved *a, tx_tensor d)
{
    tx_at_part(c, EMBEDDING_NORM);
    TX_TRY(tx_norm_bwd(c, &t->embedding_norm, &a->embedding_norm, d, d, (tx_tensor){ 0 }, a->e));
    tx_at_part(c, EMBEDDING);
    return TX_OK;
}

/* x0 = norm(word[token]) + pos[position], pushing what backward needs.   @normed room for the norm's output; absent:
 * pushed, too */
static tx_status embed_word_norm(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, tx_tensor x,
                                 const tx_batch *batch, tx_tensor normed)
{
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    tx_tensor added = { 0 };
    a->e = tx_push3(&c->acts, t->base.dtype, s, b, h);
    if (!normed.data) normed = tx_push3(&c->acts, t->base.dtype, s, b, h);
    TX_TRY(look_up(c, t, a->e, batch, (tables){ .pos = added }));
    TX_TRY(embedding_norm(c, t, a, normed));
    if (t->pos.value.data) {
        tx_tensor here = tx_slice_rows(batch->position, tx_tp_first_position(c, batch->position.dim[0]), s);
        TX_RUN(c, embedding_fwd, .y = x, .token = here, .position = here, .word = t->pos.value);
        added = x;
    }
    if (added.data)
        TX_RUN(c, add, .y = x, .a = normed, .b = added);
    else
        TX_RUN(c, cast, .y = x, .x = normed);
    return TX_OK;
}

/* dword, dpos and the norm's gradients += those of d, the gradient of x0, which is used up. */
static tx_status embed_word_norm_bwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch,
                                     tx_tensor d)
{
    tx_tensor dy = d;
    if (t->pos.value.data) {
        size_t mark = tx_arena_mark(&c->scratch);
        tx_tensor whole = tx_tp_room(c, &c->scratch, d);
        TX_TRY(tx_tp_gather(c, whole, d));
        TX_RUN(c, embedding_bwd, .dword = t->pos.grad, .dy = whole, .token = batch->position,
               .position = batch->position);
        tx_arena_pop(&c->scratch, mark);
    }
    if (d.dtype != t->base.dtype) {
        dy = a->dy;
        TX_RUN(c, cast, .y = dy, .x = d);
    }
    TX_TRY(embedding_norm_bwd(c, t, a, dy));
    return look_up_bwd(c, t, batch, dy, (tables){ .pos = { 0 } });
}

/* x0 as in transformer.h   @normed as above */
static tx_status embed(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, tx_tensor x, const tx_batch *batch,
                       tx_tensor normed)
{
    tx_dropout mask = tx_dropout_at(&batch->dropout, t->p_drop, 0, TX_DROP_EMBEDDING);
    tables add = { t->pos.value, t->kind.value };
    tx_at_part(c, EMBEDDING);
    if (t->normed == TX_NORM_WORDS) TX_TRY(embed_word_norm(c, t, a, x, batch, normed));
    if (t->normed == TX_NORM_NOTHING) TX_TRY(look_up(c, t, x, batch, add));
    if (t->normed == TX_NORM_SUM) {
        a->e = tx_push3(&c->acts, t->base.dtype, x.dim[0], x.dim[1], x.dim[2]);
        TX_TRY(look_up(c, t, a->e, batch, add));
        TX_TRY(embedding_norm(c, t, a, x));
    }
    if (mask.drop) TX_RUN(c, dropout_add_fwd, .y = x, .x = x, .mask = mask);
    return TX_OK;
}

static tx_status embed_bwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch, tx_tensor d)
{
    tx_dropout mask = tx_dropout_at(&batch->dropout, t->p_drop, 0, TX_DROP_EMBEDDING);
    tx_at_part(c, EMBEDDING);
    if (mask.drop) TX_RUN(c, dropout_add_bwd, .dx = d, .dy = d, .mask = mask);
    if (t->normed == TX_NORM_WORDS) return embed_word_norm_bwd(c, t, a, batch, d);
    if (t->normed == TX_NORM_SUM) TX_TRY(embedding_norm_bwd(c, t, a, d));
    return look_up_bwd(c, t, batch, d, (tables){ t->pos.grad, t->kind.grad });
}

/* The same with the units that they work on. */
static tx_status embed_units(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch, tx_tensor x,
                             tx_tensor free, bool train)
{
    TX_TRY(tx_unit_gather(batch, t->unit.words, t->unit.embedding));
    TX_TRY(tx_unit_gather(batch, t->unit.embedding, t->unit.layers));
    TX_TRY(embed(c, t, a, x, batch, free));
    TX_TRY(tx_unit_release(batch, t->unit.words, train && t->unit.words == t->unit.head));
    return tx_unit_release(batch, t->unit.embedding, train && t->normed);
}

static tx_status embed_units_bwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch,
                                 tx_tensor d)
{
    TX_TRY(tx_unit_pre_backward(batch, t->unit.words));
    TX_TRY(tx_unit_pre_backward(batch, t->unit.embedding));
    if (t->normed) TX_TRY(tx_unit_gather(batch, t->unit.embedding, -1));
    TX_TRY(embed_bwd(c, t, a, batch, d));
    if (t->normed) TX_TRY(tx_unit_release(batch, t->unit.embedding, false));
    TX_TRY(tx_unit_post_backward(batch, t->unit.embedding));
    return tx_unit_post_backward(batch, t->unit.words);
}

/* ---- the layers ---- */

/* What the layers of a chunk use in turn, on the scratch arena until the caller pops it: memory for the branches'
 * outputs where they cannot end in the residual stream's own, for the norms' outputs where those are not kept, and for
 * all positions where a rank has a part of them. @s of a rank */
static void lend(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, int chunk, int64_t s, int64_t b)
{
    const tx_model *m = &t->base;
    tx_tensor branch = { 0 }, norm = { 0 }, whole = { 0 };
    if (m->stream != m->dtype) branch = tx_push3(&c->scratch, m->dtype, s, b, m->hidden);
    if (m->recompute.selective) norm = tx_push2(&c->scratch, m->dtype, s * b, m->hidden);
    if (!tx_tp_is_whole(c))
        whole = tx_push3(&c->scratch, m->dtype, s * tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR), b, m->hidden);
    for (int64_t i = 0; i < m->chunk[chunk].end - m->chunk[chunk].first; i++) {
        a->block[i].branch = branch;
        a->block[i].norm = norm;
        a->block[i].whole = whole;
    }
}

/* The first layer of the group that is computed again together with this one; a layer that is kept is alone. Layers of
 * a chunk count from 0. */
static int64_t group_first(const tx_model *m, int64_t layer)
{
    return layer < m->recompute.n_layers ? layer - layer % m->recompute.group : layer;
}

/* The unit of a layer of the chunk, whose layers count from 0, and of what is behind them. */
static int unit_of(const tx_transformer *t, const tx_batch *batch, int64_t layer)
{
    const tx_pp_chunk *chunk = &t->base.chunk[batch->chunk];
    if (layer < chunk->end - chunk->first) return t->unit.layers + t->at[batch->chunk] + (int)layer;
    return chunk->post ? t->unit.norm : -1;
}

/* What becomes of the layers' parameters behind a forward. */
typedef enum after { FORGET, COME_BACK, KEEP } after;

static tx_keys keys_of(const tx_batch *batch)
{
    return (tx_keys){ .first = batch->first_key, .n = batch->n_keys };
}

/* Layers first to end - 1 of the chunk, from x to y. With `keep` what their backward needs stays on the stack,
 * otherwise nothing. */
static tx_status layers_fwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch, int64_t first,
                            int64_t end, tx_tensor y, tx_tensor x, bool keep, after then)
{
    size_t start = tx_arena_mark(&c->acts);
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    const tx_block *block = t->block + t->at[batch->chunk];
    tx_tensor other = { 0 }; /* takes turns with y, which comes last */
    if (!keep && end - first > 1) other = tx_push3(&c->acts, x.dtype, s, b, h);
    for (int64_t i = first; i < end; i++) {
        tx_tensor out = (end - i) % 2 ? y : other;
        if (keep && i + 1 < end) out = tx_push3(&c->acts, x.dtype, s, b, h);
        size_t mark = tx_arena_mark(&c->acts);
        TX_TRY(
            tx_unit_gather(batch, unit_of(t, batch, i), then == KEEP && i + 1 == end ? -1 : unit_of(t, batch, i + 1)));
        TX_TRY(tx_block_fwd(c, &block[i], &a->block[i], NULL, keys_of(batch), &batch->dropout, out, x));
        if (then != KEEP) TX_TRY(tx_unit_release(batch, unit_of(t, batch, i), then == COME_BACK));
        if (!keep) tx_arena_pop(&c->acts, mark);
        x = out;
    }
    if (!keep) tx_arena_pop(&c->acts, start);
    return TX_OK;
}

/* Where forward has the stream around groups whose inputs move: two places in turn, of which one is the gradient's,
 * which nobody has yet. The last group's output comes into the first, where it stays. */
typedef struct turns {
    tx_tensor place[2];
    int64_t left; /* outputs to come; with none left, or where inputs do not move, a place is pushed each time */
} turns;

/* Of a training chunk. Pushes. */
static turns turns_of(tx_ctx *c, const tx_model *m, const tx_transformer_saved *a, const tx_pp_chunk *chunk)
{
    const tx_recompute *r = &m->recompute;
    int64_t n = chunk->end - chunk->first < r->n_layers ? chunk->end - chunk->first : r->n_layers;
    tx_tensor d = a->d;
    if (!tx_inputs_move(r)) return (turns){ .left = 0 };
    return (turns){ .place = { tx_push3(&c->acts, d.dtype, d.dim[0], d.dim[1], d.dim[2]), d },
                    .left = chunk->pre + (n + r->group - 1) / r->group };
}

static tx_tensor next_place(tx_ctx *c, turns *places, tx_dtype dtype, int64_t s, int64_t b, int64_t h)
{
    return places->left ? places->place[--places->left % 2] : tx_push3(&c->acts, dtype, s, b, h);
}

/* Adds the time since *since, which becomes now, to a group's. */
static void count(tx_model *m, tx_group_time what, double *since)
{
    double now = tx_clock();
    m->group_seconds[what] += now - *since;
    *since = now;
}

/* All layers of the chunk, a group at a time; x: in, its input; out, its output. */
static tx_status groups_fwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch, turns *places,
                            tx_tensor *x, bool train)
{
    tx_model *m = &t->base;
    int64_t n = m->chunk[batch->chunk].end - m->chunk[batch->chunk].first;
    double now = tx_clock();
    for (int64_t first = 0, end; first < n; first = end) {
        bool again = train && first < m->recompute.n_layers;
        for (end = first + 1; end < n && (!train || group_first(m, end) == first);) end++; /* scoring: all */
        tx_tensor y = next_place(c, places, m->stream, x->dim[0], x->dim[1], x->dim[2]), kept = { 0 };
        if (again) TX_TRY(tx_keep_input(c, &m->recompute, &kept, *x));
        TX_TRY(layers_fwd(c, t, a, batch, first, end, y, *x, train && !again, train ? COME_BACK : FORGET));
        if (again) a->block[first].x = kept;
        if (again) count(m, TX_GROUP_FORWARD, &now);
        *x = y;
    }
    return TX_OK;
}

/* Where the output of a group goes that is computed again, for nobody: to where it was, or to the last one's place. */
static tx_tensor old_output(const tx_model *m, const tx_transformer_saved *a, int64_t n, int64_t end)
{
    if (tx_inputs_move(&m->recompute) && end < m->recompute.n_layers) end = m->recompute.n_layers;
    return end < n ? a->block[end].x : a->x;
}

/* Backward of one layer. */
static tx_status layer_bwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch, int64_t i,
                           tx_tensor d)
{
    int unit = unit_of(t, batch, i);
    const tx_unit *rows = &t->base.params.unit[unit];
    TX_TRY(tx_unit_pre_backward(batch, unit));
    TX_TRY(tx_block_bwd(c, &t->block[t->at[batch->chunk] + i], &a->block[i], &batch->dropout, d));
    tx_params_contributed(&t->base.params, rows->first, rows->end);
    TX_TRY(tx_unit_release(batch, unit, false));
    return tx_unit_post_backward(batch, unit);
}

static tx_status layers_bwd(tx_ctx *c, tx_transformer *t, tx_transformer_saved *a, const tx_batch *batch, tx_tensor d)
{
    tx_model *m = &t->base;
    int64_t n = m->chunk[batch->chunk].end - m->chunk[batch->chunk].first;
    size_t scratch = tx_arena_mark(&c->scratch);
    tx_tensor room = { 0 };
    if (tx_inputs_move(&m->recompute)) room = tx_push3(&c->scratch, d.dtype, d.dim[0], d.dim[1], d.dim[2]);
    for (int64_t first, end = n; end > 0; end = first) {
        size_t mark = tx_arena_mark(&c->acts);
        double now = tx_clock();
        first = group_first(m, end - 1);
        bool again = first < m->recompute.n_layers;
        if (again) {
            tx_tensor x = room.data ? room : a->block[first].x;
            if (room.data) TX_TRY(tx_fetch_input(c, &m->recompute, x, a->block[first].x));
            TX_TRY(layers_fwd(c, t, a, batch, first, end, old_output(m, a, n, end), x, true, KEEP));
            count(m, TX_GROUP_AGAIN, &now);
        } else {
            TX_TRY(tx_unit_gather(batch, unit_of(t, batch, first), first ? unit_of(t, batch, first - 1) : -1));
        }
        for (int64_t i = end - 1; i >= first; i--) TX_TRY(layer_bwd(c, t, a, batch, i, d));
        if (!again) continue;
        tx_arena_pop(&c->acts, mark); /* streams between the group's layers */
        count(m, TX_GROUP_BACKWARD, &now);
    }
    tx_arena_pop(&c->scratch, scratch);
    return TX_OK;
}

/* ---- behind the layers ---- */

int tx_transformer_last_unit(const tx_transformer *t, const tx_batch *batch)
{
    int64_t n = t->base.chunk[batch->chunk].end - t->base.chunk[batch->chunk].first;
    return n ? unit_of(t, batch, n - 1) : -1;
}

tx_status tx_transformer_norm_fwd(tx_ctx *c, tx_transformer *t, const tx_batch *batch)
{
    tx_transformer_saved *a = &t->saved[batch->slot];
    a->y = a->x;
    if (!(t->traits & TX_WITH_FINAL_NORM)) return TX_OK;
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_norm_fwd(c, &t->final_norm, &a->final_norm, (tx_tensor){ 0 }, a->x));
    a->y.data = a->final_norm.y.data;
    a->y.dtype = a->final_norm.y.dtype;
    return TX_OK;
}

tx_status tx_transformer_norm_bwd(tx_ctx *c, tx_transformer *t, const tx_batch *batch)
{
    tx_transformer_saved *a = &t->saved[batch->slot];
    if (!(t->traits & TX_WITH_FINAL_NORM)) return TX_OK; /* the stream has the values' dtype: d is dy */
    tx_at_part(c, FINAL_NORM);
    return tx_norm_bwd(c, &t->final_norm, &a->final_norm, a->d, a->dy, (tx_tensor){ 0 }, a->x);
}

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

/* ---- a chunk ---- */

tx_status tx_transformer_fwd(tx_ctx *c, tx_transformer *t, tx_batch *batch, bool train)
{
    const tx_model *m = &t->base;
    tx_transformer_saved *a = &t->saved[batch->slot];
    const tx_pp_chunk *chunk = &m->chunk[batch->chunk];
    int64_t s = tx_tp_positions(c, batch->token.dim[0]), b = batch->token.dim[1], h = m->hidden;
    size_t scratch = tx_arena_mark(&c->scratch);
    a->mark = tx_arena_mark(&c->acts);
    a->host_mark = tx_arena_mark(&c->host);
    a->d = a->dy = (tx_tensor){ 0 };
    if (train) a->d = a->dy = tx_push3(&c->acts, m->dtype, s, b, h);
    if (train && m->stream != m->dtype) a->d = tx_push3(&c->acts, m->stream, s, b, h);
    batch->d = a->d;

    tx_tensor x = batch->x, free = a->dy; /* until the head */
    turns places = { .left = 0 };
    if (train) places = turns_of(c, m, a, chunk);
    lend(c, t, a, batch->chunk, s, b);
    if (chunk->pre) {
        x = next_place(c, &places, m->stream, s, b, h);
        if (train && x.data == free.data) free = tx_tensor3(places.place[0].data, m->dtype, s, b, h);
        TX_TRY(embed_units(c, t, a, batch, x, free, train));
    }
    TX_TRY(groups_fwd(c, t, a, batch, &places, &x, train));
    a->x = batch->y = x;
    tx_arena_pop(&c->scratch, scratch);
    a->head_mark = tx_arena_mark(&c->acts);
    return TX_OK;
}

void tx_transformer_end(tx_ctx *c, tx_transformer *t, const tx_batch *batch)
{
    tx_arena_pop(&c->acts, t->saved[batch->slot].mark);
}

tx_status tx_transformer_bwd(tx_ctx *c, tx_transformer *t, tx_batch *batch)
{
    tx_transformer_saved *a = &t->saved[batch->slot];
    size_t scratch = tx_arena_mark(&c->scratch);
    lend(c, t, a, batch->chunk, a->d.dim[0], a->d.dim[1]);
    tx_arena_pop(&c->acts, a->head_mark);
    TX_TRY(layers_bwd(c, t, a, batch, a->d));
    if (t->base.chunk[batch->chunk].pre) TX_TRY(embed_units_bwd(c, t, a, batch, a->d));
    tx_arena_pop(&c->scratch, scratch);
    tx_arena_pop(&c->acts, a->mark);
    tx_arena_pop(&c->host, a->host_mark);
    return TX_OK;
}

tx_status tx_transformer_decode(tx_ctx *c, tx_transformer *t, const tx_decode *dec)
{
    const tx_model *m = &t->base;
    tx_transformer_saved *a = &t->saved[0];
    const tx_pp_chunk *chunk = &m->chunk[0];
    int64_t n = chunk->end - chunk->first, s = dec->y.dim[0], b = dec->y.dim[1], h = m->hidden;
    size_t start = tx_arena_mark(&c->acts), scratch = tx_arena_mark(&c->scratch);
    const tx_batch batch = { .token = dec->token, .position = dec->position };
    tx_tensor none = { 0 }, turn[2] = { dec->y, tx_push3(&c->acts, m->stream, s, b, h) }, x = dec->x;
    TX_ASSERT(m->n_chunks == 1 && tx_tp_is_whole(c));
    lend(c, t, a, 0, s, b);
    if (chunk->pre) {
        x = turn[n % 2];
        TX_TRY(embed(c, t, a, x, &batch, none));
    }
    for (int64_t i = 0; i < n; i++) {
        size_t mark = tx_arena_mark(&c->acts);
        tx_tensor y = turn[(n - 1 - i) % 2]; /* the last one's is the caller's */
        TX_TRY(tx_block_fwd(c, &t->block[i], &a->block[i], &dec->kv[i], keys_of(&batch), &batch.dropout, y, x));
        tx_arena_pop(&c->acts, mark);
        x = y;
    }
    if (n == 0 && !chunk->pre) TX_RUN(c, copy, .y = dec->y, .x = x);
    tx_arena_pop(&c->scratch, scratch);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}
