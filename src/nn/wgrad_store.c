/* wgrad_store.c - what gradients of weights are made of, kept until they are made. */
#include "nn/wgrad_store.h"

#include <string.h>

#include "base/alloc.h"
#include "parallel/tp.h"

static const char what[] = "what the gradients of weights are made of";

void tx_wgrad_store_open(tx_wgrad_store *s, const tx_arena *like)
{
    tx_arena_init(&s->arena, "gradients of weights put off");
    s->arena.shared = like->shared;
    s->arena.device = like->device;
}

tx_status tx_wgrad_store_take(tx_wgrad_store *s, size_t bytes, const tx_wgrad_store *like)
{
    tx_wgrad_store_clear(s);
    TX_TRY(tx_realloc(&s->row, (size_t)like->cap, sizeof *s->row, what));
    TX_TRY(tx_realloc(&s->layer, (size_t)like->layers_cap, sizeof *s->layer, what));
    TX_TRY(tx_realloc(&s->count, (size_t)like->counts_cap, sizeof *s->count, what));
    s->cap = like->cap, s->layers_cap = like->layers_cap, s->counts_cap = like->counts_cap;
    return tx_arena_reserve(&s->arena, bytes);
}

void tx_wgrad_store_close(tx_wgrad_store *s)
{
    tx_arena_deinit(&s->arena);
    tx_free(s->row);
    tx_free(s->layer);
    tx_free(s->count);
    *s = (tx_wgrad_store){ 0 };
}

void tx_wgrad_store_clear(tx_wgrad_store *s)
{
    s->n = s->n_layers = s->n_counts = 0;
    tx_arena_pop(&s->arena, 0);
}

/* Twice as many as there are, in the dry run: a step has no more, and takes no memory. */
static int grown(const tx_ctx *c, int cap)
{
    TX_ASSERT(c->dry);
    return 2 * (cap + 8);
}

tx_status tx_wgrad_store_layer(tx_ctx *c, int layer)
{
    tx_wgrad_store *s = c->wgrads;
    if (s->n_layers == s->layers_cap) {
        int cap = grown(c, s->layers_cap);
        TX_TRY(tx_realloc(&s->layer, (size_t)cap, sizeof *s->layer, what));
        s->layers_cap = cap;
    }
    s->layer[s->n_layers++] = (tx_wgrad_layer){ .layer = layer, .end = s->n };
    s->adds = false;
    return TX_OK;
}

static tx_status append(tx_ctx *c, tx_wgrad r)
{
    tx_wgrad_store *s = c->wgrads;
    if (s->n == s->cap) {
        int cap = grown(c, s->cap);
        TX_TRY(tx_realloc(&s->row, (size_t)cap, sizeof *s->row, what));
        s->cap = cap;
    }
    r.at = c->at;
    r.adds = s->adds;
    s->row[s->n++] = r;
    s->layer[s->n_layers - 1].end = s->n;
    return TX_OK;
}

/* A contiguous copy of rows, of which there may be as many as `room`. */
static tx_status keep(tx_ctx *c, tx_tensor *to, tx_tensor rows, int64_t room)
{
    *to = tx_slice_rows(tx_push2(&c->wgrads->arena, rows.dtype, room, rows.dim[1]), 0, rows.dim[0]);
    if (rows.dim[0]) TX_RUN(c, copy, .y = *to, .x = rows);
    return TX_OK;
}

/* ---- one contribution ---- */

static bool is_trained(const tx_weight *w)
{
    return w && w->value.data && !w->frozen;
}

static tx_tensors each(const tx_wgrad *r, const tx_weight *w)
{
    return w ? (tx_tensors){ &w->grad, r->stride } : (tx_tensors){ 0 };
}

static bool accumulates(const tx_wgrad *r)
{
    return r->adds || !r->w->fresh;
}

static tx_status add_grouped(tx_ctx *c, const tx_wgrad *r, int32_t *count)
{
    TX_RUN(c, grouped_dw, .dw = each(r, r->w), .dbias = each(r, r->b), .dy = r->dy, .x = r->x,
           .count = tx_tensor1(count, TX_I32, r->n_experts), .accumulate = accumulates(r));
    return TX_OK;
}

/* The x of all positions, pushed on the scratch arena. */
static tx_status whole_of(tx_ctx *c, const tx_wgrad *r, tx_tensor *x)
{
    *x = r->x;
    if (!r->gathers || !r->w) return TX_OK;
    *x = tx_push2(&c->scratch, r->x.dtype, r->dy.dim[0], r->x.dim[1]);
    return tx_tp_gather(c, *x, r->x);
}

static tx_status add_row(tx_ctx *c, const tx_wgrad *r, int32_t *count)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor x;
    if (r->n_experts) return add_grouped(c, r, count + r->count);
    if (r->made.data) {
        TX_RUN(c, add, .y = r->w->grad, .a = r->w->grad, .b = r->made);
        return TX_OK;
    }
    TX_TRY(whole_of(c, r, &x));
    if (r->w) TX_RUN(c, gemm, .c = r->w->grad, .a = r->dy, .b = x, .trans_a = true, .accumulate = accumulates(r));
    if (r->b) TX_RUN(c, col_sum, .y = r->b->grad, .x = r->dy);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx_wgrad_store_add(tx_ctx *c, const tx_wgrad_store *s, int k)
{
    const tx_model_place at = c->at;
    for (int i = k ? s->layer[k - 1].end : 0; i < s->layer[k].end; i++) {
        c->at = s->row[i].at;
        TX_TRY(add_row(c, &s->row[i], s->count));
    }
    c->at = at;
    return TX_OK;
}

/* ---- for layers ---- */

tx_status tx_wgrad_linear(tx_ctx *c, const tx_weight *w, const tx_weight *b, tx_tensor dy, tx_tensor x)
{
    tx_wgrad r = { .w = is_trained(w) ? w : NULL, .b = is_trained(b) ? b : NULL, .dy = dy, .x = x };
    if (!c->wgrads) return add_row(c, &r, NULL);
    if (!r.w && !r.b) return TX_OK;
    r.gathers = x.dim[0] < dy.dim[0];
    TX_TRY(keep(c, &r.dy, dy, dy.dim[0]));
    if (r.w) TX_TRY(keep(c, &r.x, x, x.dim[0]));
    return append(c, r);
}

/* @at out: where */
static tx_status keep_counts(tx_ctx *c, tx_tensor count, int *at)
{
    tx_wgrad_store *s = c->wgrads;
    int n = (int)tx_numel(count);
    if (s->n_counts + n > s->counts_cap) {
        int cap = grown(c, s->n_counts + n);
        TX_TRY(tx_realloc(&s->count, (size_t)cap, sizeof *s->count, what));
        s->counts_cap = cap;
    }
    *at = s->n_counts;
    s->n_counts += n;
    if (!c->dry) memcpy(s->count + *at, count.data, (size_t)n * sizeof *s->count);
    return TX_OK;
}

tx_status tx_wgrad_grouped(tx_ctx *c, const tx_wgrad_experts *e, tx_tensor dy, tx_tensor x)
{
    tx_wgrad r = { .w = e->w,
                   .b = is_trained(e->b) ? e->b : NULL,
                   .dy = dy,
                   .x = x,
                   .n_experts = (int)tx_numel(e->count),
                   .stride = e->stride };
    if (!c->wgrads) return add_grouped(c, &r, e->count.data);
    TX_TRY(keep_counts(c, e->count, &r.count));
    TX_TRY(keep(c, &r.dy, dy, e->room));
    TX_TRY(keep(c, &r.x, x, e->room));
    return append(c, r);
}

void tx_wgrad_contributed(tx_ctx *c, const tx_params *ps, int first, int end)
{
    if (c->wgrads)
        c->wgrads->adds = true;
    else
        tx_params_contributed(ps, first, end);
}

tx_status tx_wgrad_vector(tx_ctx *c, const tx_weight *w, tx_tensor *to)
{
    *to = w->frozen ? (tx_tensor){ 0 } : w->grad;
    if (!c->wgrads || !c->wgrads->vectors || !is_trained(w)) return TX_OK;
    *to = tx_push1(&c->wgrads->arena, tx_wide(w->value.dtype), w->value.dim[0]);
    TX_RUN(c, fill, .x = *to);
    return append(c, (tx_wgrad){ .w = w, .made = *to });
}
