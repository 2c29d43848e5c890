/* stack.c - the layers of a list in turn: forward, in groups computed again, backward. Layers are counted in the whole
 * list; in a slot, from the chunk's first one. */
#include "nn/stack.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "nn/kept_input.h"

/* What the forward of a layer left. */
typedef struct record {
    tx_tensor x, y; /* x of a group that is computed again: what is kept of it */
    tx_tensor dx;   /* of a layer whose backward is done in forward */
    size_t mark;    /* of the stack before what the layer pushed */
} record;

/* What the forward of a chunk left. */
typedef struct tx_stack_slot {
    record *record;        /* one a layer of the chunk; in one piece with all slots' */
    unsigned char *memory; /* the layers' saved parts; likewise */
    tx_tensor d[2];        /* gradients between layers, with a stream: of the weights' type, and of the stream's */
    tx_tensor y;           /* output of the body */
    tx_tensor place;       /* with a stream, where inputs move: the first of the two places of outputs */
    size_t mark, host_mark;
    size_t body_mark; /* after the body */
} tx_stack_slot;

/* Two places that outputs or gradients between layers take in turn. */
typedef struct places {
    tx_tensor at[2];
    int next;
    int64_t left; /* with a stream: outputs to come */
} places;

/* One call of the stack. */
typedef struct job {
    tx_stack *s;
    tx_stack_pass *p;
    tx_stack_slot *a;
    const tx_stack_chunk *chunk;
    bool stream; /* the stack has one */
    places places;
} job;

/* ---- making a list ---- */

void tx_stack_begin_chunk(tx_stack *s)
{
    int n = s->n_layers;
    TX_ASSERT(s->n_chunks < TX_MAX_CHUNKS);
    s->chunk[s->n_chunks++] = (tx_stack_chunk){ .first = n, .body = n, .after = n, .end = n };
}

tx_status tx_stack_add(tx_stack *s, const tx_stack_layer *layer)
{
    static const char what[] = "the model's layers";
    if (s->n_layers == s->layers_cap) {
        int cap = 2 * (s->n_layers + 8);
        TX_TRY(tx_realloc(&s->layer, (size_t)cap, sizeof *s->layer, what));
        s->layers_cap = cap;
    }
    if (s->n_units + layer->n_units > s->units_cap) {
        int cap = 2 * (s->n_units + layer->n_units + 8);
        TX_TRY(tx_realloc(&s->unit, (size_t)cap, sizeof *s->unit, what));
        s->units_cap = cap;
    }
    tx_stack_chunk *k = &s->chunk[s->n_chunks - 1];
    tx_stack_part part = layer->kind->part;
    TX_ASSERT(part != TX_BEFORE_BODY || k->body == k->end);
    TX_ASSERT(part == TX_AFTER_BODY || (k->after == k->end && layer->kind->fwd && layer->kind->bwd));
    tx_stack_layer *l = &s->layer[s->n_layers++];
    *l = *layer;
    l->first_unit = s->n_units;
    l->saved_at = k->saved_size;
    l->unit = NULL;
    if (l->n_units) memcpy(s->unit + s->n_units, layer->unit, (size_t)l->n_units * sizeof *s->unit);
    s->n_units += l->n_units;
    k->saved_size += (l->saved_size + 63) / 64 * 64;
    k->end++;
    if (part != TX_AFTER_BODY) k->after++;
    if (part == TX_BEFORE_BODY) k->body++;
    return TX_OK;
}

static void free_slots(tx_stack_slot *slot)
{
    if (!slot) return;
    tx_free(slot->record);
    tx_free(slot->memory);
    tx_free(slot);
}

tx_status tx_stack_hold(tx_stack *s, int n_slots)
{
    static const char what[] = "what layers save for backward";
    size_t layers = 1, bytes = 1, n = (size_t)n_slots;
    for (int k = 0; k < s->n_chunks; k++) {
        size_t has = (size_t)(s->chunk[k].end - s->chunk[k].first);
        if (has > layers) layers = has;
        if (s->chunk[k].saved_size > bytes) bytes = s->chunk[k].saved_size;
    }
    tx_stack_slot *slot;
    TX_TRY(tx_alloc(&slot, n, sizeof *slot, what));
    tx_status st = tx_alloc(&slot->record, n * layers, sizeof(record), what);
    if (!st) st = tx_alloc(&slot->memory, n * bytes, 1, what);
    if (st) {
        free_slots(slot);
        return st;
    }
    for (size_t i = 1; i < n; i++) {
        slot[i].record = slot->record + i * layers;
        slot[i].memory = slot->memory + i * bytes;
    }
    free_slots(s->slot);
    s->slot = slot;
    return TX_OK;
}

void tx_stack_deinit(tx_stack *s)
{
    free_slots(s->slot);
    tx_free(s->layer);
    tx_free(s->unit);
    *s = (tx_stack){ 0 };
}

static job job_of(tx_stack *s, tx_stack_pass *p)
{
    return (job){ .s = s, .p = p, .a = &s->slot[p->slot], .chunk = &s->chunk[p->chunk], .stream = s->stream };
}

static record *record_of(const job *j, int i)
{
    return &j->a->record[i - j->chunk->first];
}

/* ---- units ---- */

static const tx_stack_unit *units_of(const job *j, int i)
{
    const tx_stack_layer *l = &j->s->layer[i];
    return l->n_units ? j->s->unit + l->first_unit : NULL;
}

/* The unit that forward uses next, from row k of layer i on, before layer `end`; or -1. */
static int next_forward(const job *j, int i, int k, int end)
{
    for (; i < end; i++, k = 0)
        for (; k < j->s->layer[i].n_units; k++)
            if (units_of(j, i)[k].does & TX_GATHER_FWD) return units_of(j, i)[k].unit;
    return -1;
}

/* The unit that backward uses next, after layer i; or -1. */
static int next_backward(const job *j, int i)
{
    while (--i >= j->chunk->first)
        for (int k = 0; k < j->s->layer[i].n_units; k++) {
            const tx_stack_unit *u = &units_of(j, i)[k];
            if (u->does & TX_GATHER_BWD) return u->does & TX_NOT_AHEAD ? -1 : u->unit;
        }
    return -1;
}

/* Whether a unit that layer i leaves in forward is used again: by a later layer, or in backward. */
static bool comes_back(const job *j, int i, int unit)
{
    if (!j->p->train) return false;
    for (int q = j->chunk->first; q < j->chunk->end; q++)
        for (int k = 0; k < j->s->layer[q].n_units; k++) {
            const tx_stack_unit *u = &units_of(j, q)[k];
            if (u->unit == unit && (u->does & TX_GATHER_BWD || (q > i && u->does & TX_GATHER_FWD))) return true;
        }
    return false;
}

/* Uses of layer i.   @next the unit that is used after them */
static tx_status gather_units(const job *j, int i, unsigned event, int next)
{
    const tx_unit_hooks *h = j->p->units;
    const tx_stack_unit *u = units_of(j, i);
    int n = j->s->layer[i].n_units;
    for (int k = 0, then; k < n && h; k = then) {
        for (then = k + 1; then < n && !(u[then].does & event);) then++;
        if (u[k].does & event) TX_TRY(h->gather(h->user, u[k].unit, then < n ? u[then].unit : next));
    }
    return TX_OK;
}

static tx_status begin_grads(const job *j, int i, unsigned event)
{
    const tx_unit_hooks *h = j->p->units;
    for (int k = 0; k < j->s->layer[i].n_units && h; k++)
        if (units_of(j, i)[k].does & event) TX_TRY(h->pre_backward(h->user, units_of(j, i)[k].unit));
    return TX_OK;
}

static tx_status release_units(const job *j, int i, bool backward)
{
    const tx_unit_hooks *h = j->p->units;
    unsigned event = backward ? TX_RELEASE_BWD : TX_RELEASE_FWD;
    for (int k = 0; k < j->s->layer[i].n_units && h; k++) {
        const tx_stack_unit *u = &units_of(j, i)[k];
        if (u->does & event) TX_TRY(h->release(h->user, u->unit, !backward && comes_back(j, i, u->unit)));
    }
    return TX_OK;
}

static tx_status end_grads(const job *j, int i, unsigned event)
{
    const tx_unit_hooks *h = j->p->units;
    for (int k = 0; k < j->s->layer[i].n_units && h; k++)
        if (units_of(j, i)[k].does & event) TX_TRY(h->post_backward(h->user, units_of(j, i)[k].unit, j->p->last));
    return TX_OK;
}

/* ---- memory ---- */

static tx_stack_call call_of(const job *j, int i)
{
    const tx_stack_layer *l = &j->s->layer[i];
    const record *r = record_of(j, i);
    return (tx_stack_call){ .layer = l,
                            .model = j->s->model,
                            .batch = j->p->batch,
                            .x = r->x,
                            .y = r->y,
                            .saved = j->a->memory + l->saved_at,
                            .train = j->p->train };
}

/* Shape of the output of layer i; absent before the first one, and where it has none. */
static tx_tensor output_of(tx_ctx *c, const job *j, int i)
{
    if (i < j->chunk->first) return (tx_tensor){ 0 };
    const tx_stack_call k = { .layer = &j->s->layer[i], .model = j->s->model, .batch = j->p->batch };
    return k.layer->kind->output(c, &k);
}

static tx_tensor push(tx_ctx *c, tx_tensor shape)
{
    if (shape.n_dims) shape.data = tx_push1(&c->acts, shape.dtype, tx_numel(shape)).data;
    return shape;
}

static tx_tensor with_data(tx_tensor shape, tx_tensor at)
{
    shape.data = at.data;
    return shape;
}

/* Elements of the largest tensor between the chunk's layers, its input and its output included. */
static int64_t widest(tx_ctx *c, const job *j)
{
    int64_t most = j->p->x.n_dims ? tx_numel(j->p->x) : 0;
    for (int i = j->chunk->first; i < j->chunk->end; i++) {
        tx_tensor y = output_of(c, j, i);
        if (y.n_dims && tx_numel(y) > most) most = tx_numel(y);
    }
    return most;
}

/* Without a stream: two places for any tensor between layers, on the scratch arena. */
static void lend_places(tx_ctx *c, job *j, int64_t numel)
{
    for (int i = 0; i < 2 && numel; i++) j->places.at[i] = tx_push1(&c->scratch, j->p->dtype, numel);
}

static tx_tensor take_turn(places *t, tx_tensor shape)
{
    shape = with_data(shape, t->at[t->next]);
    t->next = !t->next;
    return shape;
}

/* With a stream, where the gradient of x is, which has the stream's number of elements; else absent. */
static tx_tensor stream_gradient(const job *j, tx_tensor x)
{
    const tx_tensor *d = &j->a->d[x.dtype != j->p->dtype];
    bool fits = j->stream && x.n_dims && d->data && tx_numel(x) == tx_numel(*d);
    return fits ? with_data(x, *d) : (tx_tensor){ 0 };
}

/* ---- groups ---- */

/* First layer of the body that is kept. */
static int again_end(const job *j)
{
    int n = j->chunk->after - j->chunk->body;
    return j->chunk->body + (j->p->recompute->n_layers < n ? (int)j->p->recompute->n_layers : n);
}

static bool is_again(const job *j, int i)
{
    return j->p->train && i >= j->chunk->body && i < again_end(j);
}

/* The first layer of the group that is computed again together with layer i; a layer that is kept is alone. */
static int group_first(const job *j, int i)
{
    return is_again(j, i) ? i - (i - j->chunk->body) % (int)j->p->recompute->group : i;
}

static int group_end(const job *j, int i)
{
    int end = i + (int)j->p->recompute->group;
    if (is_again(j, i)) return end < again_end(j) ? end : again_end(j);
    return j->stream && !j->p->train ? j->chunk->after : i + 1; /* scoring needs two places for all outputs */
}

/* Adds the time since *since, which becomes now, to a group's. */
static void count(tx_stack *s, tx_group_time what, double *since)
{
    double now = tx_clock();
    s->group_seconds[what] += now - *since;
    *since = now;
}

/* ---- one layer ---- */

static void note_layer(tx_ctx *c, const tx_stack_layer *l)
{
    if (!l->name) return;
    tx_at_layer(c, l->number);
    tx_at_part(c, l->name);
}

/* next: the unit that is used after its own. holds: its units stay in use, for a backward that follows at once. */
static tx_status forward(tx_ctx *c, const job *j, int i, int next, bool holds)
{
    const tx_stack_layer *l = &j->s->layer[i];
    tx_stack_call k = call_of(j, i);
    bool before = l->kind->part == TX_BEFORE_BODY && j->stream && j->p->train;
    if (!l->kind->bwd) k.dx = record_of(j, i)->dx;
    if (before) k.spare = k.y.data == j->a->d[0].data ? j->a->place : j->a->d[0];
    note_layer(c, l);
    TX_TRY(gather_units(j, i, TX_GATHER_FWD, next));
    if (k.train && !holds) TX_TRY(begin_grads(j, i, TX_GRADS_FWD));
    if (l->kind->fwd) TX_TRY(l->kind->fwd(c, &k));
    if (holds) return TX_OK;
    TX_TRY(release_units(j, i, false));
    return k.train ? end_grads(j, i, TX_COMPLETE_FWD) : TX_OK;
}

static void note_contributed(const job *j, int i)
{
    for (int u = 0; u < j->s->layer[i].n_units; u++) {
        const tx_unit *rows = &j->s->params->unit[units_of(j, i)[u].unit];
        if (units_of(j, i)[u].does & TX_GRADS_BWD) tx_params_contributed(j->s->params, rows->first, rows->end);
    }
}

/* The layer's backward, which leaves gradients of weights to the store. */
static tx_status input_part(tx_ctx *c, const job *j, int i, const tx_stack_call *k)
{
    c->wgrads = j->p->wgrads;
    c->wgrads->vectors = j->p->units && j->p->units->each_time;
    tx_status st = tx_wgrad_store_layer(c, i);
    if (!st) st = k->layer->kind->bwd(c, k);
    c->wgrads = NULL;
    return st;
}

/* What that put off.   @n which layer of the store */
static tx_status weights_part(tx_ctx *c, const job *j, int n)
{
    const tx_wgrad_store *store = j->p->wgrads;
    int i = store->layer[n].layer;
    bool none = store->layer[n].end == (n ? store->layer[n - 1].end : 0);
    TX_TRY(begin_grads(j, i, TX_GRADS_BWD));
    for (int u = 0; none && u < j->s->layer[i].n_units; u++) {
        const tx_unit *rows = &j->s->params->unit[units_of(j, i)[u].unit];
        TX_TRY(tx_params_nothing(c, j->s->params, rows->first, rows->end));
    }
    TX_TRY(tx_wgrad_store_add(c, store, n));
    note_contributed(j, i);
    return end_grads(j, i, TX_COMPLETE_BWD);
}

/* used: its units are, since forward. */
static tx_status backward(tx_ctx *c, const job *j, int i, tx_tensor dy, tx_tensor dx, bool used)
{
    const tx_stack_layer *l = &j->s->layer[i];
    tx_stack_call k = call_of(j, i);
    bool divided = j->p->wgrads && l->kind->divides;
    k.dy = dy;
    k.dx = dx;
    if (j->stream && dy.data != j->a->d[0].data) k.spare = j->a->d[0];
    note_layer(c, l);
    if (!used) TX_TRY(gather_units(j, i, TX_GATHER_BWD, next_backward(j, i)));
    if (!divided) TX_TRY(begin_grads(j, i, TX_GRADS_BWD));
    bool top = tx_ctx_begin_top(c);
    if (divided)
        TX_TRY(input_part(c, j, i, &k));
    else if (l->kind->fwd && l->kind->bwd)
        TX_TRY(l->kind->bwd(c, &k));
    tx_ctx_end_top(c, top);
    tx_arena_pop(&c->acts, record_of(j, i)->mark);
    if (!divided) note_contributed(j, i);
    TX_TRY(release_units(j, i, true));
    return divided ? TX_OK : end_grads(j, i, TX_COMPLETE_BWD);
}

/* ---- forward ---- */

/* Layers [first, end) of the body, from x to y. */
typedef struct some_layers {
    int first, end;
    tx_tensor x, y; /* y: room for it, absent where the last layer has none */
    bool keeps;     /* what their backward needs stays on the stack */
    bool holds;     /* and their units stay in use */
} some_layers;

/* Where layer i of the group puts its output. Pushes. */
static tx_tensor output_in(tx_ctx *c, const job *j, const some_layers *g, int i, tx_tensor other)
{
    if (i + 1 == g->end) return g->y;
    if (j->stream && !g->keeps) return (g->end - i) % 2 ? g->y : other;
    return push(c, output_of(c, j, i));
}

/* The unit that is used after those of layer i. */
static int next_of(const job *j, const some_layers *g, int i)
{
    int next = next_forward(j, i + 1, 0, g->holds ? g->end : j->chunk->end);
    return next < 0 && g->holds && j->s->ahead_of_group ? next_backward(j, g->first) : next;
}

static tx_status run_group(tx_ctx *c, const job *j, const some_layers *g)
{
    bool top = !g->keeps && j->p->recompute->n_layers > 0 && tx_ctx_begin_top(c); /* else there is room: training's */
    size_t start = tx_arena_mark(&c->acts);
    tx_tensor x = g->x, other = { 0 }; /* with a stream: outputs between layers that are not kept alternate */
    if (j->stream && !g->keeps && g->end - g->first > 1) other = push(c, g->y);
    for (int i = g->first; i < g->end; i++) {
        record *r = record_of(j, i);
        r->mark = tx_arena_mark(&c->acts);
        r->x = x;
        r->y = output_in(c, j, g, i, other);
        size_t mark = tx_arena_mark(&c->acts), host = tx_arena_mark(&c->host);
        TX_TRY(forward(c, j, i, next_of(j, g, i), g->holds));
        if (!g->keeps) tx_arena_pop(&c->acts, mark);
        if (!g->keeps) tx_arena_pop(&c->host, host);
        x = r->y;
    }
    if (!g->keeps) tx_arena_pop(&c->acts, start);
    tx_ctx_end_top(c, top);
    return TX_OK;
}

/* Pushes the gradients, what takes turns, and what layers are lent. */
static void begin_forward(tx_ctx *c, job *j)
{
    tx_stack_slot *a = j->a;
    const tx_stack_chunk *k = j->chunk;
    bool train = j->p->train, own = j->s->keeps_inputs, moves = train && (own || tx_inputs_move(j->p->recompute));
    j->p->d = a->d[0] = a->d[1] = a->y = a->place = (tx_tensor){ 0 };
    if (!j->stream) {
        a->y = push(c, output_of(c, j, k->after - 1));
        if (train) j->p->d = a->y.n_dims ? a->y : j->p->x;
        if (j->p->d.n_dims) j->p->d.data = tx_push1(&c->acts, j->p->d.dtype, widest(c, j)).data;
        if (moves) lend_places(c, j, widest(c, j));
        return;
    }
    tx_tensor x = j->s->stream(c, j->s->model, j->p->batch), d = x;
    d.dtype = j->p->dtype;
    if (train) j->p->d = a->d[0] = a->d[1] = push(c, d);
    if (train && x.dtype != d.dtype) j->p->d = a->d[1] = push(c, x);
    if (moves) {
        int64_t n = (own ? k->after : again_end(j)) - k->body, group = own ? 1 : j->p->recompute->group;
        j->places.at[0] = a->place = push(c, x);
        j->places.at[1] = j->p->d; /* which nobody needs yet */
        j->places.left = k->body - k->first + (n + group - 1) / group;
    }
    if (j->s->lend) j->s->lend(c, j->s->model, x);
}

/* Room for an output whose reader is layer `reader`. Where inputs move, those of groups that are computed again take
 * turns; with a stream the last of them comes into the first place, where it stays. */
static tx_tensor room_for(tx_ctx *c, job *j, int reader)
{
    tx_tensor shape = output_of(c, j, reader - 1);
    places *t = &j->places;
    if (j->stream) return t->left ? with_data(shape, t->at[--t->left % 2]) : push(c, shape);
    if (reader == j->chunk->after) return j->a->y;
    return t->at[0].data && is_again(j, reader) ? take_turn(t, shape) : push(c, shape);
}

/* A layer outside the body, from r->x to r->y. */
static tx_status forward_alone(tx_ctx *c, const job *j, int i, tx_tensor x, tx_tensor y)
{
    record *r = record_of(j, i);
    bool makes_losses = j->p->train && !j->s->layer[i].kind->bwd;
    r->x = x;
    r->y = y;
    r->dx = (tx_tensor){ 0 };
    if (makes_losses) r->dx = stream_gradient(j, x);
    if (makes_losses && x.n_dims && !r->dx.data) r->dx = push(c, x);
    r->mark = tx_arena_mark(&c->acts);
    return forward(c, j, i, makes_losses ? next_backward(j, i) : next_forward(j, i + 1, 0, j->chunk->end), false);
}

/* The body, a group at a time.   @x in: its input; out: its output */
static tx_status body_forward(tx_ctx *c, job *j, tx_tensor *x)
{
    double now = tx_clock();
    for (int i = j->chunk->body, end; i < j->chunk->after; i = end) {
        bool again = is_again(j, i);
        end = group_end(j, i);
        some_layers g = { .first = i, .end = end, .x = *x, .y = room_for(c, j, end), .keeps = j->p->train && !again };
        tx_tensor kept = *x;
        if (again && x->data) TX_TRY(tx_keep_input(c, j->p->recompute, &kept, *x));
        TX_TRY(run_group(c, j, &g));
        if (again) record_of(j, i)->x = kept;
        if (again) count(j->s, TX_GROUP_FORWARD, &now);
        *x = g.y;
    }
    return TX_OK;
}

tx_status tx_stack_fwd(tx_ctx *c, tx_stack *s, tx_stack_pass *p)
{
    job j = job_of(s, p);
    tx_stack_slot *a = j.a;
    const tx_stack_chunk *k = j.chunk;
    size_t scratch = tx_arena_mark(&c->scratch);
    tx_tensor x = p->x, y;
    a->mark = tx_arena_mark(&c->acts);
    a->host_mark = tx_arena_mark(&c->host);
    begin_forward(c, &j);
    for (int i = k->first; i < k->body; i++, x = y) {
        y = room_for(c, &j, i + 1);
        TX_TRY(forward_alone(c, &j, i, x, y));
    }
    TX_TRY(body_forward(c, &j, &x));
    p->y = a->y = x;
    tx_arena_pop(&c->scratch, scratch); /* losses need it for logits */
    a->body_mark = tx_arena_mark(&c->acts);
    for (int i = k->after; i < k->end; i++, x = y) {
        y = s->layer[i].kind->fwd ? push(c, output_of(c, &j, i)) : x;
        TX_TRY(forward_alone(c, &j, i, x, y));
    }
    if (p->train) return TX_OK;
    tx_arena_pop(&c->acts, a->mark);
    tx_arena_pop(&c->host, a->host_mark);
    return TX_OK;
}

/* ---- backward ---- */

/* The forward of a group once more. Its last output is not read by anyone: with a stream it is written where it was, or
 * where inputs move, to the place of the last one.   @fetched with a stream, where inputs move: room for its input */
static tx_status run_again(tx_ctx *c, const job *j, int first, int end, tx_tensor fetched)
{
    const tx_recompute *how = j->p->recompute;
    bool moves = tx_inputs_move(how);
    some_layers g = { .first = first, .end = end, .x = record_of(j, first)->x, .keeps = true, .holds = true };
    tx_tensor kept = g.x;
    if (kept.data && moves) {
        g.x = j->stream ? fetched : push(c, first > j->chunk->first ? output_of(c, j, first - 1) : j->p->x);
        TX_TRY(tx_fetch_input(c, how, g.x, kept));
    }
    if (!j->stream)
        g.y = push(c, output_of(c, j, end - 1));
    else if (moves)
        g.y = j->a->place;
    else
        g.y = end < j->chunk->end ? record_of(j, end)->x : j->a->y;
    return run_group(c, j, &g);
}

/* From *dy, the gradient of the output of layer i, to that of its input. */
static tx_status step_back(tx_ctx *c, job *j, int i, tx_tensor *dy, bool used)
{
    const record *r = record_of(j, i);
    const tx_layer_kind *kind = j->s->layer[i].kind;
    tx_tensor dx = kind->fwd ? stream_gradient(j, r->x) : *dy;
    if (!kind->bwd) dx = r->dx;
    if (!dx.data && r->x.n_dims) dx = take_turn(&j->places, r->x);
    TX_TRY(backward(c, j, i, *dy, dx, used));
    *dy = dx;
    return TX_OK;
}

/* The last layer's forward once more, for what it read has changed; what it pushed is on top of the stack. In a group
 * that is computed again it comes anyway. Memory is that of the first time. */
static tx_status last_again(tx_ctx *c, const job *j, bool *done)
{
    int last = j->chunk->end - 1;
    *done = j->p->loss_again && !is_again(j, last);
    if (!*done) return TX_OK;
    TX_ASSERT(j->s->layer[last].kind->bwd);
    tx_arena_pop(&c->acts, record_of(j, last)->mark);
    return forward(c, j, last, next_backward(j, last), true);
}

/* @dy in: the gradient of its output; out: that of its input   last_used: the units of the last layer are in use */
static tx_status body_backward(tx_ctx *c, job *j, tx_tensor *dy, bool last_used)
{
    tx_tensor fetched = { 0 };
    if (j->stream && tx_inputs_move(j->p->recompute)) {
        fetched = *dy;
        fetched.data = tx_push1(&c->scratch, dy->dtype, tx_numel(*dy)).data;
    }
    for (int end = j->chunk->after, first; end > j->chunk->body; end = first) {
        double now = tx_clock();
        first = group_first(j, end - 1);
        bool again = is_again(j, first), top = again && tx_ctx_begin_top(c);
        size_t mark = tx_arena_mark(&c->acts), host = tx_arena_mark(&c->host);
        if (again) TX_TRY(run_again(c, j, first, end, fetched));
        if (again) count(j->s, TX_GROUP_AGAIN, &now);
        for (int i = end - 1; i >= first; i--)
            TX_TRY(step_back(c, j, i, dy, again || (last_used && i == j->chunk->end - 1)));
        if (!again) continue;
        tx_arena_pop(&c->acts, mark);
        tx_arena_pop(&c->host, host);
        tx_ctx_end_top(c, top);
        count(j->s, TX_GROUP_BACKWARD, &now);
    }
    return TX_OK;
}

tx_status tx_stack_bwd(tx_ctx *c, tx_stack *s, tx_stack_pass *p)
{
    job j = job_of(s, p);
    tx_stack_slot *a = j.a;
    const tx_stack_chunk *k = j.chunk;
    tx_tensor dy = { 0 };
    bool last_used;
    tx_at_backward(c, true);
    TX_TRY(last_again(c, &j, &last_used));
    size_t scratch = tx_arena_mark(&c->scratch);
    if (!j.stream) lend_places(c, &j, widest(c, &j));
    if (k->after == k->end) dy = a->y.n_dims ? p->d : dy;
    for (int i = k->end - 1; i >= k->after; i--) TX_TRY(step_back(c, &j, i, &dy, last_used && i == k->end - 1));
    if (k->after < k->end) tx_arena_pop(&c->acts, a->body_mark);
    if (s->lend) s->lend(c, s->model, dy);
    TX_TRY(body_backward(c, &j, &dy, last_used));
    for (int i = k->body - 1; i >= k->first; i--) TX_TRY(step_back(c, &j, i, &dy, false));
    if (dy.data && dy.data != p->d.data) {
        p->d = with_data(dy, p->d);
        TX_RUN(c, copy, .y = p->d, .x = dy);
    }
    tx_at_backward(c, false);
    tx_arena_pop(&c->acts, a->mark);
    tx_arena_pop(&c->host, a->host_mark);
    tx_arena_pop(&c->scratch, scratch);
    return TX_OK;
}

tx_status tx_stack_weights(tx_ctx *c, tx_stack *s, const tx_stack_pass *p)
{
    tx_stack_pass pass = *p;
    const job j = job_of(s, &pass);
    tx_at_backward(c, true);
    for (int n = 0; n < p->wgrads->n_layers; n++) TX_TRY(weights_part(c, &j, n));
    tx_at_backward(c, false);
    tx_wgrad_store_clear(p->wgrads);
    return TX_OK;
}

/* ---- generation ---- */

tx_status tx_stack_decode(tx_ctx *c, tx_stack *s, const tx_stack_pass *pass)
{
    tx_stack_pass p = *pass;
    job j = job_of(s, &p);
    const tx_stack_chunk *k = j.chunk;
    size_t start = tx_arena_mark(&c->acts), host = tx_arena_mark(&c->host), scratch = tx_arena_mark(&c->scratch);
    tx_tensor x = p.x, other = push(c, p.y);
    TX_ASSERT(s->n_chunks == 1 && j.stream && !p.units && !p.train);
    if (s->lend) s->lend(c, s->model, p.y);
    for (int i = k->first; i < k->after; i++) {
        tx_tensor y = (k->after - i) % 2 ? p.y : other; /* the last one's is the caller's */
        TX_TRY(forward_alone(c, &j, i, x, y));
        if (i >= k->body) tx_arena_pop(&c->acts, record_of(&j, i)->mark);
        x = y;
    }
    if (k->first == k->after) TX_RUN(c, copy, .y = p.y, .x = x);
    tx_arena_pop(&c->scratch, scratch);
    tx_arena_pop(&c->host, host);
    tx_arena_pop(&c->acts, start);
    return TX_OK;
}
