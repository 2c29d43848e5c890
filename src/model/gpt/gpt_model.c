/* gpt_model.c - forward, backward and decoding of GPT: a chunk of it at a time, which without a pipeline is all of it.
 */
#include <string.h>

#include "base/clock.h"
#include "model/gpt/gpt.h"
#include "parallel/tp.h"

/* Parts, for the watch. */
#define EMBEDDING  "embedding"
#define WORD_NORM  "embedding.word_embeddings.norm"
#define FINAL_NORM "encoder.final_layernorm"
#define HEAD       "output_layer"

/* ---- the embedding ---- */

/* Rows of the vocabulary that this tensor rank has. */
static tx_shard words_here(const tx_ctx *c, const tx_gpt *g)
{
    return (tx_shard){ .first = tx_grid_of(c)->tp.rank * g->word.value.dim[0], .whole = g->base.vocab_padded };
}

/* y = word[token] + pos[position]: each tensor rank gives the words it has, and the first one the positions. @pos may
 * be absent */
static tx_status look_up(tx_ctx *c, const tx_gpt *g, tx_tensor y, tx_tensor token, tx_tensor position, tx_tensor pos)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, y);
    if (tx_grid_of(c)->tp.rank) pos.data = NULL;
    TX_RUN(c, embedding_fwd, .y = whole, .token = token, .position = position, .word = g->word.value, .pos = pos,
           .shard = words_here(c, g));
    TX_TRY(tx_tp_sum(c, y, whole));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* dword and dpos, which may be absent, += those of d. */
static tx_status look_up_bwd(tx_ctx *c, const tx_gpt *g, const tx_batch *batch, tx_tensor d, tx_tensor dpos)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = tx_tp_room(c, &c->scratch, d);
    TX_TRY(tx_tp_gather(c, whole, d));
    TX_RUN(c, embedding_bwd, .dword = g->word.grad, .dpos = dpos, .dy = whole, .token = batch->token,
           .position = batch->position, .shard = words_here(c, g));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* x0 = norm(word[token]) + position[pos], pushing what backward needs.   @normed room for the norm's output; absent:
 * pushed, too */
static tx_status embed_normed(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, tx_tensor x, tx_tensor token, tx_tensor position,
                              tx_tensor normed)
{
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    tx_tensor none = { 0 }, added = none;
    a->e = tx_push3(&c->acts, g->base.dtype, s, b, h);
    if (!normed.data) normed = tx_push3(&c->acts, g->base.dtype, s, b, h);
    TX_TRY(look_up(c, g, a->e, token, position, none));
    tx_at_part(c, WORD_NORM);
    TX_TRY(tx_norm_fwd(c, &g->word_norm, &a->word_norm, tx_as_rows(normed), a->e));
    tx_at_part(c, EMBEDDING);
    if (g->pos.value.data) {
        tx_tensor here = tx_slice_rows(position, tx_tp_first_position(c, position.dim[0]), s);
        TX_RUN(c, embedding_fwd, .y = x, .token = here, .position = here, .word = g->pos.value);
        added = x;
    }
    TX_RUN(c, dropout_add_fwd, .y = x, .x = normed, .residual = added);
    return TX_OK;
}

/* dword, dpos and the norm's gradients += those of d, the gradient of x0, which is used up. */
static tx_status embed_normed_bwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, tx_tensor d)
{
    tx_tensor dy = d;
    if (g->pos.value.data) {
        size_t mark = tx_arena_mark(&c->scratch);
        tx_tensor whole = tx_tp_room(c, &c->scratch, d);
        TX_TRY(tx_tp_gather(c, whole, d));
        TX_RUN(c, embedding_bwd, .dword = g->pos.grad, .dy = whole, .token = batch->position,
               .position = batch->position);
        tx_arena_pop(&c->scratch, mark);
    }
    if (d.dtype != g->base.dtype) {
        dy = a->dy;
        TX_RUN(c, dropout_add_bwd, .dx = dy, .dy = d);
    }
    tx_at_part(c, WORD_NORM);
    TX_TRY(tx_norm_bwd(c, &g->word_norm, &a->word_norm, dy, dy, (tx_tensor){ 0 }, a->e));
    tx_at_part(c, EMBEDDING);
    return look_up_bwd(c, g, batch, dy, (tx_tensor){ 0 });
}

/* x0 = drop(word[token] + position[pos])   @normed as above */
static tx_status embed(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, tx_tensor x, tx_tensor token, tx_tensor position,
                       const tx_dropout_key *key, tx_tensor normed)
{
    tx_dropout mask = tx_dropout_at(key, g->p_drop, 0, TX_DROP_EMBEDDING);
    tx_at_part(c, EMBEDDING);
    if (g->norms_embedding)
        TX_TRY(embed_normed(c, g, a, x, token, position, normed));
    else
        TX_TRY(look_up(c, g, x, token, position, g->pos.value));
    if (mask.drop) TX_RUN(c, dropout_add_fwd, .y = x, .x = x, .mask = mask);
    return TX_OK;
}

static tx_status embed_bwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, tx_tensor d)
{
    tx_dropout mask = tx_dropout_at(&batch->dropout, g->p_drop, 0, TX_DROP_EMBEDDING);
    tx_at_part(c, EMBEDDING);
    if (mask.drop) TX_RUN(c, dropout_add_bwd, .dx = d, .dy = d, .mask = mask);
    if (g->norms_embedding) return embed_normed_bwd(c, g, a, batch, d);
    return look_up_bwd(c, g, batch, d, g->pos.grad);
}

/* The same with the units that they work on. */
static tx_status embed_units(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, tx_tensor x, tx_tensor free,
                             bool train)
{
    TX_TRY(tx_unit_use(batch, g->unit.words, g->unit.embedding));
    TX_TRY(tx_unit_use(batch, g->unit.embedding, g->unit.layers));
    TX_TRY(embed(c, g, a, x, batch->token, batch->position, &batch->dropout, free));
    TX_TRY(tx_unit_leave(batch, g->unit.words, train && g->unit.words == g->unit.head));
    return tx_unit_leave(batch, g->unit.embedding, train && g->norms_embedding);
}

static tx_status embed_units_bwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, tx_tensor d)
{
    TX_TRY(tx_unit_touch(batch, g->unit.words));
    TX_TRY(tx_unit_touch(batch, g->unit.embedding));
    if (g->norms_embedding) TX_TRY(tx_unit_use(batch, g->unit.embedding, -1));
    TX_TRY(embed_bwd(c, g, a, batch, d));
    if (g->norms_embedding) TX_TRY(tx_unit_leave(batch, g->unit.embedding, false));
    TX_TRY(tx_unit_done(batch, g->unit.embedding));
    return tx_unit_done(batch, g->unit.words);
}

/* ---- the layers ---- */

/* What the layers of a chunk use in turn, on the scratch arena until the caller pops it: memory for the branches'
 * outputs where they cannot end in the residual stream's own, for the norms' outputs where those are not kept, and for
 * all positions where a rank has a part of them. @s of a rank */
static void lend(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, int chunk, int64_t s, int64_t b)
{
    const tx_model *m = &g->base;
    tx_tensor branch = { 0 }, norm = { 0 }, whole = { 0 };
    if (m->stream != m->dtype) branch = tx_push3(&c->scratch, m->dtype, s, b, m->hidden);
    if (m->recompute.selective) norm = tx_push2(&c->scratch, m->dtype, s * b, m->hidden);
    if (!tx_tp_is_whole(c)) whole = tx_push3(&c->scratch, m->dtype, s * tx_grid_of(c)->tp.size, b, m->hidden);
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
static int unit_of(const tx_gpt *g, const tx_batch *batch, int64_t layer)
{
    const tx_pp_chunk *chunk = &g->base.chunk[batch->chunk];
    if (layer < chunk->end - chunk->first) return g->unit.layers + g->at[batch->chunk] + (int)layer;
    return chunk->post ? g->unit.norm : -1;
}

/* What becomes of the layers' parameters behind a forward. */
typedef enum after { FORGET, COME_BACK, KEEP } after;

/* Layers first to end - 1 of the chunk, from x to y. With `keep` what their backward needs stays on the stack,
 * otherwise nothing. */
static tx_status layers_fwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, int64_t first, int64_t end,
                            tx_tensor y, tx_tensor x, bool keep, after then)
{
    size_t start = tx_arena_mark(&c->acts);
    int64_t s = x.dim[0], b = x.dim[1], h = x.dim[2];
    const tx_block *block = g->block + g->at[batch->chunk];
    tx_tensor other = { 0 }; /* takes turns with y, which comes last */
    if (!keep && end - first > 1) other = tx_push3(&c->acts, x.dtype, s, b, h);
    for (int64_t i = first; i < end; i++) {
        tx_tensor out = (end - i) % 2 ? y : other;
        if (keep && i + 1 < end) out = tx_push3(&c->acts, x.dtype, s, b, h);
        size_t mark = tx_arena_mark(&c->acts);
        TX_TRY(tx_unit_use(batch, unit_of(g, batch, i), then == KEEP && i + 1 == end ? -1 : unit_of(g, batch, i + 1)));
        TX_TRY(tx_block_fwd(c, &block[i], &a->block[i], NULL, batch->first_key, &batch->dropout, out, x));
        if (then != KEEP) TX_TRY(tx_unit_leave(batch, unit_of(g, batch, i), then == COME_BACK));
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
static turns turns_of(tx_ctx *c, const tx_model *m, const tx_gpt_saved *a, const tx_pp_chunk *chunk)
{
    const tx_recompute *r = &m->recompute;
    int64_t n = chunk->end - chunk->first < r->n_layers ? chunk->end - chunk->first : r->n_layers;
    tx_tensor d = a->d;
    if (!tx_inputs_move(r)) return (turns){ .left = 0 };
    return (turns){ .place = { tx_push3(&c->acts, d.dtype, d.dim[0], d.dim[1], d.dim[2]), d },
                    .left = chunk->pre + (n + r->group - 1) / r->group };
}

static tx_tensor next_place(tx_ctx *c, turns *t, tx_dtype dtype, int64_t s, int64_t b, int64_t h)
{
    return t->left ? t->place[--t->left % 2] : tx_push3(&c->acts, dtype, s, b, h);
}

/* Adds the time since *since, which becomes now, to a group's. */
static void count(tx_model *m, tx_group_time what, double *since)
{
    double now = tx_clock();
    m->group_seconds[what] += now - *since;
    *since = now;
}

/* All layers of the chunk, a group at a time; x: in, its input; out, its output. */
static tx_status groups_fwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, turns *t, tx_tensor *x,
                            bool train)
{
    tx_model *m = &g->base;
    int64_t n = m->chunk[batch->chunk].end - m->chunk[batch->chunk].first;
    double now = tx_clock();
    for (int64_t first = 0, end; first < n; first = end) {
        bool again = train && first < m->recompute.n_layers;
        for (end = first + 1; end < n && (!train || group_first(m, end) == first);) end++; /* scoring: all */
        tx_tensor y = next_place(c, t, m->stream, x->dim[0], x->dim[1], x->dim[2]), kept = { 0 };
        if (again) TX_TRY(tx_keep_input(c, &m->recompute, &kept, *x));
        TX_TRY(layers_fwd(c, g, a, batch, first, end, y, *x, train && !again, train ? COME_BACK : FORGET));
        if (again) a->block[first].x = kept;
        if (again) count(m, TX_GROUP_FORWARD, &now);
        *x = y;
    }
    return TX_OK;
}

/* Where the output of a group goes that is computed again, for nobody: to where it was, or to the last one's place. */
static tx_tensor old_output(const tx_model *m, const tx_gpt_saved *a, int64_t n, int64_t end)
{
    if (tx_inputs_move(&m->recompute) && end < m->recompute.n_layers) end = m->recompute.n_layers;
    return end < n ? a->block[end].x : a->x;
}

/* Backward of one layer. */
static tx_status layer_bwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, int64_t i, tx_tensor d)
{
    int unit = unit_of(g, batch, i);
    const tx_unit *rows = &g->base.params.unit[unit];
    TX_TRY(tx_unit_touch(batch, unit));
    TX_TRY(tx_block_bwd(c, &g->block[g->at[batch->chunk] + i], &a->block[i], &batch->dropout, d));
    tx_params_contributed(&g->base.params, rows->first, rows->end);
    TX_TRY(tx_unit_leave(batch, unit, false));
    return tx_unit_done(batch, unit);
}

static tx_status layers_bwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, tx_tensor d)
{
    tx_model *m = &g->base;
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
            TX_TRY(layers_fwd(c, g, a, batch, first, end, old_output(m, a, n, end), x, true, KEEP));
            count(m, TX_GROUP_AGAIN, &now);
        } else {
            TX_TRY(tx_unit_use(batch, unit_of(g, batch, first), first ? unit_of(g, batch, first - 1) : -1));
        }
        for (int64_t i = end - 1; i >= first; i--) TX_TRY(layer_bwd(c, g, a, batch, i, d));
        if (!again) continue;
        tx_arena_pop(&c->acts, mark); /* streams between the group's layers */
        count(m, TX_GROUP_BACKWARD, &now);
    }
    tx_arena_pop(&c->scratch, scratch);
    return TX_OK;
}

/* ---- the head ---- */

/* Loss, and with train also the gradient of the final norm's output and of the head. */
static tx_status head_loss(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, bool train)
{
    const tx_model *m = &g->base;
    const tx_axis *tp = &tx_grid_of(c)->tp;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor none = { 0 }, y = a->final_norm.y, x = tx_tp_room(c, &c->scratch, y), dx = none;
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
static tx_status head(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch, tx_tensor x, bool train)
{
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_unit_use(batch, g->unit.norm, g->unit.head));
    TX_TRY(tx_norm_fwd(c, &g->final_norm, &a->final_norm, (tx_tensor){ 0 }, x));
    TX_TRY(tx_unit_leave(batch, g->unit.norm, train));
    tx_at_part(c, HEAD);
    TX_TRY(tx_unit_use(batch, g->unit.head, train ? g->unit.norm : -1));
    if (train) TX_TRY(tx_unit_touch(batch, g->unit.head));
    TX_TRY(head_loss(c, g, a, batch, train));
    TX_TRY(tx_unit_leave(batch, g->unit.head, false));
    return train && g->unit.head != g->unit.words ? tx_unit_done(batch, g->unit.head) : TX_OK;
}

static tx_status final_norm_bwd(tx_ctx *c, tx_gpt *g, tx_gpt_saved *a, const tx_batch *batch)
{
    int64_t n = g->base.chunk[batch->chunk].end - g->base.chunk[batch->chunk].first;
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_unit_use(batch, g->unit.norm, n ? unit_of(g, batch, n - 1) : -1));
    TX_TRY(tx_unit_touch(batch, g->unit.norm));
    TX_TRY(tx_norm_bwd(c, &g->final_norm, &a->final_norm, a->d, a->dy, (tx_tensor){ 0 }, a->x));
    TX_TRY(tx_unit_leave(batch, g->unit.norm, false));
    return tx_unit_done(batch, g->unit.norm);
}

/* ---- a chunk ---- */

static tx_status gpt_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train)
{
    tx_gpt *g = (tx_gpt *)m;
    tx_gpt_saved *a = &g->saved[batch->slot];
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
    turns t = { .left = 0 };
    if (train) t = turns_of(c, m, a, chunk);
    lend(c, g, a, batch->chunk, s, b);
    if (chunk->pre) {
        x = next_place(c, &t, m->stream, s, b, h);
        if (train && x.data == free.data) free = tx_tensor3(t.place[0].data, m->dtype, s, b, h);
        TX_TRY(embed_units(c, g, a, batch, x, free, train));
    }
    TX_TRY(groups_fwd(c, g, a, batch, &t, &x, train));
    a->x = batch->y = x;
    tx_arena_pop(&c->scratch, scratch);
    a->head_mark = tx_arena_mark(&c->acts);
    if (chunk->post) TX_TRY(head(c, g, a, batch, x, train));
    if (!train) tx_arena_pop(&c->acts, a->mark);
    return TX_OK;
}

static tx_status gpt_bwd(tx_ctx *c, tx_model *m, tx_batch *batch)
{
    tx_gpt *g = (tx_gpt *)m;
    tx_gpt_saved *a = &g->saved[batch->slot];
    const tx_pp_chunk *chunk = &m->chunk[batch->chunk];
    size_t scratch = tx_arena_mark(&c->scratch);
    tx_at_backward(c, true);
    lend(c, g, a, batch->chunk, a->d.dim[0], a->d.dim[1]);
    if (chunk->post) TX_TRY(final_norm_bwd(c, g, a, batch));
    tx_arena_pop(&c->acts, a->head_mark);
    TX_TRY(layers_bwd(c, g, a, batch, a->d));
    if (chunk->pre) TX_TRY(embed_units_bwd(c, g, a, batch, a->d));
    tx_at_backward(c, false);
    tx_arena_pop(&c->scratch, scratch);
    tx_arena_pop(&c->acts, a->mark);
    tx_arena_pop(&c->host, a->host_mark);
    return TX_OK;
}

static tx_status gpt_decode(tx_ctx *c, tx_model *m, const tx_decode *dec)
{
    tx_gpt *g = (tx_gpt *)m;
    tx_gpt_saved *a = &g->saved[0];
    const tx_pp_chunk *chunk = &m->chunk[0];
    int64_t n = chunk->end - chunk->first, s = dec->y.dim[0], b = dec->y.dim[1], h = m->hidden;
    size_t start = tx_arena_mark(&c->acts), scratch = tx_arena_mark(&c->scratch);
    tx_dropout_key off = { 0 };
    tx_tensor none = { 0 }, turn[2] = { dec->y, tx_push3(&c->acts, m->stream, s, b, h) }, x = dec->x;
    TX_ASSERT(m->n_chunks == 1 && tx_tp_is_whole(c));
    lend(c, g, a, 0, s, b);
    if (chunk->pre) {
        x = turn[n % 2];
        TX_TRY(embed(c, g, a, x, dec->token, dec->position, &off, none));
    }
    for (int64_t i = 0; i < n; i++) {
        size_t mark = tx_arena_mark(&c->acts);
        tx_tensor y = turn[(n - 1 - i) % 2]; /* the last one's is the caller's */
        TX_TRY(tx_block_fwd(c, &g->block[i], &a->block[i], &dec->kv[i], none, &off, y, x));
        tx_arena_pop(&c->acts, mark);
        x = y;
    }
    if (n == 0 && !chunk->pre) TX_RUN(c, cast, .y = dec->y, .x = x);
    tx_arena_pop(&c->scratch, scratch);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

static tx_status gpt_logits(tx_ctx *c, tx_model *m, tx_tensor logits, tx_tensor y)
{
    tx_gpt *g = (tx_gpt *)m;
    size_t start = tx_arena_mark(&c->acts);
    tx_norm_saved norm;
    tx_at_part(c, FINAL_NORM);
    TX_TRY(tx_norm_fwd(c, &g->final_norm, &norm, (tx_tensor){ 0 }, y));
    tx_at_part(c, HEAD);
    TX_RUN(c, gemm, .c = logits, .a = norm.y, .b = g->head->value, .trans_b = true);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}

const tx_model_type tx_model_gpt = {
    .name = "gpt",
    .create = tx__gpt_create,
    .destroy = tx__gpt_destroy,
    .hold = tx__gpt_hold,
    .fwd = gpt_fwd,
    .bwd = gpt_bwd,
    .decode = gpt_decode,
    .logits = gpt_logits,
};
