/* pp_schedule.c - the instruction lists of pipeline stages, and the division of layers among them. */
#include "parallel/pp_schedule.h"

#include <limits.h>
#include <math.h>

#include "base/alloc.h"

const char *const tx_pp_op_names[TX_N_PP_OPS] = { "receive the input",    "forward",         "send the output",
                                                  "receive the gradient", "backward",        "send the gradient",
                                                  "weights' gradients",   "await the input", "await the gradient" };

/* ---------------------------------------------------------------- instruction lists */

/* A unit is a micro-batch in a chunk. Units are numbered in the order of their forwards, and again in that of their
 * backwards; both orders are the same in all stages. */
typedef struct builder {
    const tx_pp_shape *s;
    int stage;
    tx_pp_list *list;
    int *slot_of; /* [m n_chunks] of (micro, chunk) */
    bool *used;   /* [m n_chunks] slots */
} builder;

typedef struct unit {
    int micro, chunk;
} unit;

/* p micro-batches pass all chunks before the next p do:
 *
 *      p = 2, two chunks      k       0  1  2  3   4  5  6  7
 *                             micro   0  1  0  1   2  3  2  3
 *                             chunk   0  0  1  1   0  0  1  1  */
static unit forward_unit(const tx_pp_shape *s, int k)
{
    int round = k / (s->p * s->n_chunks), rest = k % (s->p * s->n_chunks);
    return (unit){ .micro = round * s->p + rest % s->p, .chunk = rest / s->p };
}

static unit backward_unit(const tx_pp_shape *s, int k)
{
    unit u = forward_unit(s, k);
    u.chunk = s->n_chunks - 1 - u.chunk;
    return u;
}

static int *slot_of(builder *b, unit u)
{
    return &b->slot_of[(size_t)u.chunk * (size_t)b->s->m + (size_t)u.micro];
}

static int take_slot(builder *b)
{
    int slot = 0;
    while (b->used[slot]) slot++;
    b->used[slot] = true;
    if (slot + 1 > b->list->n_slots) b->list->n_slots = slot + 1;
    return slot;
}

static void put(builder *b, tx_pp_op op, unit u, int peer)
{
    int p = b->s->p;
    tx_pp_op adds = b->s->kind == TX_PP_ZBH1 ? TX_PP_WGT : TX_PP_BWD;
    b->list->instr[b->list->n++] = (tx_pp_instr){ .op = op,
                                                  .micro = u.micro,
                                                  .chunk = u.chunk,
                                                  .slot = *slot_of(b, u),
                                                  .peer = (peer + p) % p,
                                                  .last_of_chunk = op == adds && u.micro == b->s->m - 1 };
}

static void put_forward(builder *b, int k)
{
    unit u = forward_unit(b->s, k);
    int at = u.chunk * b->s->p + b->stage, last = b->s->p * b->s->n_chunks - 1;
    int slot = *slot_of(b, u) = take_slot(b);
    if (at > 0) put(b, TX_PP_RECV_FWD, u, b->stage - 1);
    put(b, TX_PP_FWD, u, b->stage);
    if (at < last) put(b, TX_PP_SEND_FWD, u, b->stage + 1);
    if (b->s->kind == TX_PP_FORWARD) b->used[slot] = false;
}

static void put_backward(builder *b, int k)
{
    unit u = backward_unit(b->s, k);
    int at = u.chunk * b->s->p + b->stage, last = b->s->p * b->s->n_chunks - 1;
    if (at < last) put(b, TX_PP_RECV_BWD, u, b->stage + 1);
    put(b, TX_PP_BWD, u, b->stage);
    if (at > 0) put(b, TX_PP_SEND_BWD, u, b->stage - 1);
    if (b->s->kind != TX_PP_ZBH1) b->used[*slot_of(b, u)] = false;
}

static void put_weights(builder *b, int k)
{
    unit u = backward_unit(b->s, k);
    put(b, TX_PP_WGT, u, b->stage);
    b->used[*slot_of(b, u)] = false;
}

/* Forwards before the first backward, the one that goes with it not counted: 1F1B holds no more activations than it
 * needs to never wait in the middle. */
static int n_ahead(const tx_pp_shape *s, int stage, int total)
{
    int n = s->p - 1 - stage;
    if (s->kind != TX_PP_1F1B && s->kind != TX_PP_ZBH1) return total;
    if (s->n_chunks > 1) n = 2 * n + (s->n_chunks - 1) * s->p;
    return n < total ? n : total;
}

static void put_all(builder *b)
{
    const tx_pp_shape *s = b->s;
    int total = s->m * s->n_chunks, ahead = n_ahead(s, b->stage, total), late = s->kind == TX_PP_ZBH1 ? b->stage : 0;
    for (int k = 0; k < ahead; k++) put_forward(b, k);
    if (s->kind == TX_PP_FORWARD) return;
    for (int k = 0; k < total + late; k++) {
        if (ahead + k < total) put_forward(b, ahead + k);
        if (k < total) put_backward(b, k);
        if (s->kind == TX_PP_ZBH1 && k >= late) put_weights(b, k - late);
    }
}

tx_pp_kind tx_pp_training_kind(const tx_config *cfg)
{
    if (cfg->enable_zbh1_pipeline) return TX_PP_ZBH1;
    return cfg->pipeline_schedule == TX_PIPELINE_GPIPE ? TX_PP_GPIPE : TX_PP_1F1B;
}

/* At most: of a unit. */
static int n_instr(const tx_pp_shape *s)
{
    return s->kind == TX_PP_ZBH1 ? 7 : 6;
}

tx_status tx_pp_check_shape(const tx_pp_shape *s)
{
    if (s->p < 1 || s->m < 1 || s->n_chunks < 1)
        return TX_FAIL(TX_ERR_ARG, "a pipeline of %d stages with %d chunks each, and %d micro-batches", s->p,
                       s->n_chunks, s->m);
    if (s->n_chunks > 1 && (s->kind == TX_PP_GPIPE || s->kind == TX_PP_ZBH1))
        return TX_FAIL(TX_ERR_ARG, "%s has one chunk of layers in a stage, not %d",
                       s->kind == TX_PP_GPIPE ? "GPipe" : "ZB-H1", s->n_chunks);
    if (s->n_chunks > 1 && (s->p < 2 || s->m % s->p))
        return TX_FAIL(TX_ERR_ARG,
                       "an interleaved pipeline has at least 2 stages and a multiple of them of micro-batches, not %d "
                       "and %d",
                       s->p, s->m);
    if ((int64_t)s->m * s->n_chunks > INT_MAX / n_instr(s) || (int64_t)s->p * s->n_chunks > INT_MAX / n_instr(s))
        return TX_FAIL(TX_ERR_ARG, "%d micro-batches in %d chunks of %d stages are more than can be counted", s->m,
                       s->n_chunks, s->p);
    return TX_OK;
}

tx_status tx_pp_schedule(tx_pp_list *out, const tx_pp_shape *shape, int stage)
{
    tx_pp_list list = { 0 };
    builder b = { .s = shape, .stage = stage, .list = &list };
    tx_status st;
    TX_TRY(tx_pp_check_shape(shape));
    TX_ASSERT(stage >= 0 && stage < shape->p);
    size_t n_units = (size_t)shape->m * (size_t)shape->n_chunks, cap = (size_t)n_instr(shape) * n_units;
    TX_GOTO(tx_alloc(&list.instr, cap, sizeof *list.instr, "a pipeline's schedule"));
    list.cap = (int)cap;
    TX_GOTO(tx_alloc(&b.slot_of, n_units, sizeof *b.slot_of, "a pipeline's schedule"));
    TX_GOTO(tx_alloc(&b.used, n_units, sizeof *b.used, "a pipeline's schedule"));
    put_all(&b);
    *out = list;
    list = (tx_pp_list){ 0 };
out:
    tx_pp_list_free(&list);
    tx_free(b.slot_of);
    tx_free(b.used);
    return st;
}

void tx_pp_list_free(tx_pp_list *l)
{
    tx_free(l->instr);
    *l = (tx_pp_list){ 0 };
}

double tx_pp_bubble(const tx_pp_shape *shape, tx_pp_units units)
{
    double stages = shape->p - 1, f = units.fwd, b = units.bwd, w = units.wgt;
    double ideal = (double)shape->n_chunks * (double)shape->m;
    if (shape->kind != TX_PP_ZBH1) return stages / ideal;
    return (stages * (f + b) - fmin(stages, shape->m - 1) * w) / (ideal * (f + b + w));
}

/* ---------------------------------------------------------------- which layers a chunk has */

static int64_t n_parts(const tx_pp_division *d)
{
    return (int64_t)d->p * d->n_chunks;
}

static double extra_cost(const tx_pp_division *d, int64_t part)
{
    return (part == 0 ? d->pre_cost : 0) + (part == n_parts(d) - 1 ? d->post_cost : 0);
}

/* Layers that a part takes at most when none may cost more than `cost`. */
static int64_t most_layers(const tx_pp_division *d, double cost, int64_t part)
{
    return (int64_t)floor(cost - extra_cost(d, part) + 1e-9);
}

/* Whether parts of at most this cost, each with a layer, hold all layers. */
static bool suffices(const tx_pp_division *d, double cost)
{
    int64_t last = n_parts(d) - 1, first_n = most_layers(d, cost, 0), last_n = last ? most_layers(d, cost, last) : 1;
    int64_t inner_n = last > 1 ? most_layers(d, cost, 1) : 1;
    if (first_n < 1 || last_n < 1 || inner_n < 1) return false;
    return first_n + (last ? last_n : 0) + (last > 1 ? (last - 1) * inner_n : 0) >= d->n_layers;
}

/* The least cost of the costliest part: some part's extra cost and a whole number of layers. */
static double least_cost(const tx_pp_division *d)
{
    const double extra[] = { 0, extra_cost(d, 0), extra_cost(d, n_parts(d) - 1) };
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        int64_t n = 1;
        while (!suffices(d, (double)n + extra[i])) n++;
        best = fmin(best, (double)n + extra[i]);
    }
    return best;
}

/* The first stage has no layer, the others divide them. */
static tx_pp_chunk layers_without_pre(const tx_pp_division *d, int stage)
{
    TX_ASSERT(d->n_chunks == 1 && d->p > 1);
    if (!stage) return (tx_pp_chunk){ .pre = true };
    const tx_pp_division rest = { .n_layers = d->n_layers, .p = d->p - 1, .n_chunks = 1, .post_cost = d->post_cost };
    tx_pp_chunk out = tx_pp_layers(&rest, stage - 1, 0);
    out.pre = false;
    return out;
}

tx_pp_chunk tx_pp_layers(const tx_pp_division *d, int stage, int chunk)
{
    if (d->pre_alone) return layers_without_pre(d, stage);
    int64_t n_all = n_parts(d), at = (int64_t)chunk * d->p + stage;
    tx_pp_chunk out = { .pre = at == 0, .post = at == n_all - 1 };
    TX_ASSERT(d->n_layers >= n_all && stage >= 0 && stage < d->p && chunk >= 0 && chunk < d->n_chunks);
    if (d->n_layers % n_all == 0) {
        int64_t each = d->n_layers / n_all;
        out.first = at * each;
        out.end = out.first + each;
        return out;
    }
    double cost = least_cost(d);
    for (int64_t part = 0; part <= at; part++) {
        int64_t after = n_all - 1 - part, n = most_layers(d, cost, part), left = d->n_layers - out.end - after;
        out.first = out.end;
        out.end += n < left ? n : left; /* each part after it has at least one */
    }
    return out;
}
