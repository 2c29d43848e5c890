/* client_run.c - forward and backward of a client's layers, in turn. On the activation stack
 *
 *      | y of the stage, d | y 0, saved 0 | y 1, saved 1 | ...          layers that are kept
 *      | y of the stage, d | y of group 0 | y of group 1 | ...          groups of layers that are computed again
 *
 *  A layer's y is the next one's x. Where the inputs of groups move (nn/kept_input.h) the groups' y take turns in two
 * places instead. Gradients between layers do so always. */
#include "model/client/client_model.h"

/* Memory that takes turns, on the scratch arena while a function of this file runs. */
typedef struct turns {
    tx_tensor room[2]; /* [b widest] */
    int next;
} turns;

static turns lend(tx_ctx *c, const tx_client_net *n, const tx_batch *batch, bool wanted)
{
    turns t = { .next = 0 };
    for (int i = 0; i < 2 && wanted && n->widest; i++)
        t.room[i] = tx_push1(&c->scratch, n->base.dtype, batch->n_samples * n->widest);
    return t;
}

static tx_tensor take_turn(turns *t, tx_tensor shape)
{
    shape.data = t->room[t->next].data;
    t->next = !t->next;
    return shape;
}

static tx_tensor push(tx_ctx *c, tx_tensor shape)
{
    if (shape.n_dims) shape.data = tx_push1(&c->acts, shape.dtype, tx_numel(shape)).data;
    return shape;
}

/* ---- groups: layers of the stage count from 0 ---- */

static bool is_again(const tx_client_net *n, int i)
{
    return i < n->n_layers && i < n->base.recompute.n_layers;
}

static int group_first(const tx_client_net *n, int i)
{
    return is_again(n, i) ? i - i % (int)n->base.recompute.group : i;
}

static int group_end(const tx_client_net *n, int i)
{
    int group = (int)n->base.recompute.group, most = n->n_layers;
    if (!is_again(n, i)) return i + 1;
    if (n->base.recompute.n_layers < most) most = (int)n->base.recompute.n_layers;
    int end = group_first(n, i) + group;
    return end < most ? end : most;
}

/* The unit of the first layer that has one, of i and those behind it in a direction, in front of `end`; or -1. */
static int unit_from(const tx_client_net *n, int i, int end, int step)
{
    while (i != end && !n->place[i].n_units) i += step;
    return i != end ? n->place[i].unit->unit : -1;
}

/* ---- one layer ---- */

static const tx_tensor no_input[TX_MAX_INPUTS];

static tx_layer_call call_of(const tx_client_net *n, tx_batch *batch, int i, bool train)
{
    const tx_layer *l = &n->spec.layer[n->first + i];
    tx_layer_saved *s = &n->slot[batch->slot].layer[i];
    int at = n->first + i;
    bool ends = at == 0 || at + 1 == n->spec.n_layers;
    return (tx_layer_call){
        .user = l->user,
        .weight = n->weight + n->place[i].weight,
        .input = ends ? batch->input : no_input,
        .x = s->x,
        .y = s->y,
        .loss = at + 1 == n->spec.n_layers ? batch->loss : (tx_tensor){ 0 },
        .loss_weight = at + 1 == n->spec.n_layers ? batch->weight : (tx_tensor){ 0 },
        .saved = s->saved,
        .b = batch->n_samples,
        .train = train,
        .layer = at,
        .name = l->name,
        .dtype = n->base.dtype,
        .seed = batch->dropout.seed,
        .sample = batch->dropout.sample,
        .step = batch->dropout.iteration,
    };
}

static void at_layer(tx_ctx *c, const tx_client_net *n, int i)
{
    tx_at_layer(c, n->first + i + 1);
    tx_at_part(c, n->spec.layer[n->first + i].name);
}

/* next: the unit that is used behind layer i's. */
static tx_status use_units(const tx_client_net *n, tx_batch *batch, int i, int next)
{
    const tx_layer_place *p = &n->place[i];
    for (int k = 0; k < p->n_units; k++)
        TX_TRY(tx_unit_gather(batch, p->unit[k].unit, k + 1 < p->n_units ? p->unit[k + 1].unit : next));
    return TX_OK;
}

static tx_status leave_units(const tx_client_net *n, tx_batch *batch, int i, bool again)
{
    const tx_layer_place *p = &n->place[i];
    for (int k = 0; k < p->n_units; k++) TX_TRY(tx_unit_release(batch, p->unit[k].unit, again));
    return TX_OK;
}

/* Tied weights are where those are that they are tied to. */
static void see_ties(const tx_client_net *n, int i)
{
    int first = n->place[i].weight, end = first + n->spec.layer[n->first + i].n_params;
    for (int k = first; k < end; k++) n->weight[k] = n->weight[n->home[k]];
}

/* next: the unit that is used behind it. keeps: what it pushes stays, and so does its unit, for a backward that follows
 * at once. */
static tx_status layer_fwd(tx_ctx *c, const tx_client_net *n, tx_batch *batch, int i, int next, bool train, bool keeps)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_layer_call k = call_of(n, batch, i, train);
    at_layer(c, n, i);
    TX_TRY(use_units(n, batch, i, next));
    see_ties(n, i);
    TX_TRY(n->spec.layer[k.layer].forward(c, &k));
    if (!train) tx_arena_pop(&c->acts, mark);
    return keeps ? TX_OK : leave_units(n, batch, i, train);
}

/* used: its unit is, since forward. */
static tx_status layer_bwd(tx_ctx *c, const tx_client_net *n, tx_batch *batch, int i, tx_tensor dy, tx_tensor dx,
                           bool used)
{
    const tx_layer_place *p = &n->place[i];
    tx_layer_call k = call_of(n, batch, i, true);
    k.dy = dy;
    k.dx = dx;
    at_layer(c, n, i);
    if (!used) TX_TRY(use_units(n, batch, i, unit_from(n, i - 1, -1, -1)));
    for (int u = 0; u < p->n_units; u++) TX_TRY(tx_unit_pre_backward(batch, p->unit[u].unit));
    see_ties(n, i);
    TX_TRY(n->spec.layer[k.layer].backward(c, &k));
    tx_arena_pop(&c->acts, n->slot[batch->slot].layer[i].mark);
    TX_TRY(leave_units(n, batch, i, false));
    for (int u = 0; u < p->n_units; u++)
        if (p->unit[u].completes) TX_TRY(tx_unit_post_backward(batch, p->unit[u].unit));
    return TX_OK;
}

/* ---- forward ---- */

/* The layers [first, end) with what backward needs of them, or without: then only y of the last one stays.
 * @y room for that, where it has one   @x of the first one */
static tx_status run_layers(tx_ctx *c, const tx_client_net *n, tx_batch *batch, int first, int end, tx_tensor x,
                            tx_tensor y, bool train, bool keeps)
{
    tx_client_saved *a = &n->slot[batch->slot];
    for (int i = first; i < end; i++) {
        tx_layer_saved *s = &a->layer[i];
        s->mark = tx_arena_mark(&c->acts);
        s->x = x;
        s->y = i + 1 < end ? push(c, tx_client_between(n, n->first + i, batch->n_samples)) : y;
        int next = unit_from(n, i + 1, keeps ? end : n->n_layers, 1);
        if (keeps && next < 0) next = unit_from(n, first - 1, -1, -1); /* backward goes on there */
        TX_TRY(layer_fwd(c, n, batch, i, next, train, keeps));
        x = s->y;
    }
    return TX_OK;
}

/* Where y of the layers that end in front of layer `end` goes. */
static tx_tensor room_for(tx_ctx *c, const tx_client_net *n, const tx_batch *batch, int end, turns *t)
{
    tx_tensor shape = tx_client_between(n, n->first + end - 1, batch->n_samples);
    if (end == n->n_layers) return batch->y;
    return t->room[0].data && is_again(n, end) ? take_turn(t, shape) : push(c, shape);
}

/* Where the gradient of the stage's y is put, and at last that of its x. */
static tx_tensor room_for_gradient(tx_ctx *c, const tx_client_net *n, const tx_batch *batch)
{
    tx_tensor d = batch->y.data ? batch->y : batch->x;
    if (d.data) d.data = tx_push1(&c->acts, d.dtype, batch->n_samples * n->widest).data;
    return d;
}

tx_status tx__client_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train)
{
    const tx_client_net *n = (tx_client_net *)m;
    tx_client_saved *a = &n->slot[batch->slot];
    size_t lent = tx_arena_mark(&c->scratch);
    a->mark = tx_arena_mark(&c->acts);
    a->host_mark = tx_arena_mark(&c->host);
    batch->reweighted = false;
    batch->y = push(c, tx_client_between(n, n->first + n->n_layers - 1, batch->n_samples));
    if (train) batch->d = room_for_gradient(c, n, batch);
    turns t = lend(c, n, batch, train && tx_inputs_move(&m->recompute));
    tx_tensor x = batch->x, y;
    for (int i = 0, end; i < n->n_layers; i = end, x = y) {
        bool again = train && is_again(n, i);
        tx_tensor kept = x;
        end = group_end(n, i);
        if (again && x.data) TX_TRY(tx_keep_input(c, &m->recompute, &kept, x));
        y = room_for(c, n, batch, end, &t);
        size_t mark = tx_arena_mark(&c->acts);
        TX_TRY(run_layers(c, n, batch, i, end, x, y, train, false));
        if (!again) continue;
        tx_arena_pop(&c->acts, mark);
        a->layer[i].x = kept;
    }
    tx_arena_pop(&c->scratch, lent);
    return TX_OK;
}

/* ---- backward ---- */

/* A group's forward once more. */
static tx_status run_again(tx_ctx *c, const tx_client_net *n, tx_batch *batch, int first, int end)
{
    const tx_recompute *how = &n->base.recompute;
    tx_tensor kept = n->slot[batch->slot].layer[first].x, x = kept;
    if (kept.data && tx_inputs_move(how)) {
        x = push(c, tx_client_between(n, n->first + first - 1, batch->n_samples));
        TX_TRY(tx_fetch_input(c, how, x, kept));
    }
    tx_tensor y = push(c, tx_client_between(n, n->first + end - 1, batch->n_samples));
    return run_layers(c, n, batch, first, end, x, y, true, true);
}

/* The last layer's forward once more, whose losses' weights are others now; what it pushed is on top of the stack. In a
 * group that is computed again it comes anyway. Memory is that of the first time. */
static tx_status last_again(tx_ctx *c, const tx_client_net *n, tx_batch *batch, bool *done)
{
    int last = n->n_layers - 1;
    *done = batch->reweighted && n->first + n->n_layers == n->spec.n_layers && !is_again(n, last);
    if (!*done) return TX_OK;
    tx_at_backward(c, true);
    tx_arena_pop(&c->acts, n->slot[batch->slot].layer[last].mark);
    return layer_fwd(c, n, batch, last, unit_from(n, last - 1, -1, -1), true, true);
}

tx_status tx__client_bwd(tx_ctx *c, tx_model *m, tx_batch *batch)
{
    const tx_client_net *n = (tx_client_net *)m;
    const tx_client_saved *a = &n->slot[batch->slot];
    bool last_is_used;
    TX_TRY(last_again(c, n, batch, &last_is_used));
    size_t lent = tx_arena_mark(&c->scratch);
    turns t = lend(c, n, batch, true);
    tx_tensor dy = { 0 }, dx;
    if (batch->y.data) dy = batch->d;
    for (int end = n->n_layers, first; end > 0; end = first) {
        size_t mark = tx_arena_mark(&c->acts);
        first = group_first(n, end - 1);
        bool again = is_again(n, first);
        tx_at_backward(c, true);
        if (again) TX_TRY(run_again(c, n, batch, first, end));
        for (int i = end - 1; i >= first; i--, dy = dx) {
            dx = tx_client_between(n, n->first + i - 1, batch->n_samples);
            if (dx.n_dims) dx = take_turn(&t, dx);
            TX_TRY(layer_bwd(c, n, batch, i, dy, dx, again || (last_is_used && i == n->n_layers - 1)));
        }
        if (again) tx_arena_pop(&c->acts, mark);
    }
    if (dy.data) {
        void *data = batch->d.data;
        batch->d = dy;
        batch->d.data = data;
        TX_RUN(c, copy, .y = batch->d, .x = dy);
    }
    tx_at_backward(c, false);
    tx_arena_pop(&c->acts, a->mark);
    tx_arena_pop(&c->host, a->host_mark);
    tx_arena_pop(&c->scratch, lent);
    return TX_OK;
}
