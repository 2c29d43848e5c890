/* layout_bound.c - bounds of layouts from small runs. */
#include "predict/layout_bound.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "parallel/pp_schedule.h"
#include "predict/op_time.h"

enum { FEW_LAYERS = 1, MORE_LAYERS = 3, MICRO_BATCHES = 3, USUAL = 1 };

/* ---- a small run ---- */

typedef struct measures {
    tx_memory memory;
    double busy, update;
    double data[2][TX_BOUND_OPS];
} measures;

static int op_of(const tx_work_event *e)
{
    int op = 0;
    while (op < TX_BOUND_OPS && strcmp(e->op, tx_comm_op_names[op])) op++;
    return op;
}

/* What the data-parallel ranks send each other: all of it, less what is of micro-batches. */
static void count_data(measures *out, const tx_stage_work *w)
{
    for (const tx_work_piece *p = w->piece; p < w->piece + w->n_pieces; p++)
        for (const tx_work_event *e = w->event + p->first; e < w->event + p->end; e++) {
            bool usual = (p->part == TX_STEP_FORWARD || p->part == TX_STEP_BACKWARD) && p->micro == USUAL;
            if (e->kind != TX_TRACE_CALL || e->group != TX_GROUP_DATA || op_of(e) == TX_BOUND_OPS) continue;
            out->data[0][op_of(e)] += usual ? e->bytes : 0;
            out->data[1][op_of(e)] += usual ? (1 - MICRO_BATCHES) * e->bytes : e->bytes;
        }
}

static double busy_of(const tx_time *t)
{
    return t->products + t->attention + t->memory_bound + t->exposed[TX_GROUP_TENSOR] + t->exposed[TX_GROUP_CONTEXT];
}

/* Of one micro-batch more, which is neither the first nor the last. */
static tx_status time_small(const tx_layout_bounds *b, tx_run_work *w, measures *out)
{
    tx_time few, more;
    TX_TRY(b->predict(&few, w, b->machine));
    w->shape.m++;
    TX_TRY(b->predict(&more, w, b->machine));
    out->busy = busy_of(&more) - busy_of(&few);
    out->update = few.update;
    return TX_OK;
}

/* *possible: the rules take the options, and the backend has the ops. */
static tx_status run_small(const tx_layout_bounds *b, const tx_layout_choice *c, int64_t n_layers, measures *out,
                           bool *possible)
{
    tx_config base = *b->base;
    tx_config *cfg;
    tx_run_work w = { 0 };
    base.num_layers = n_layers;
    base.global_batch_size = MICRO_BATCHES * c->micro_batch * tx_choice_data_parallel(c);
    base.rampup_batch_size = (tx_list){ 0 };
    base.given.rampup_batch_size = false;
    *possible = false;
    *out = (measures){ 0 };
    TX_TRY(tx_choice_config(&cfg, &base, c));
    if (!cfg) return TX_OK;
    tx_status st = tx_run_work_make(&w, cfg, b->vocab_size);
    if (!st) st = time_small(b, &w, out);
    if (!st) {
        *possible = true;
        out->memory = w.stage[0].plan.memory;
        count_data(out, &w.stage[0]);
    }
    tx_run_work_free(&w);
    tx_config_free(cfg);
    return st == TX_ERR_ARG || st == TX_ERR_UNSUPPORTED ? TX_OK : st;
}

/* All micro-batches' activations are kept until the first backward. */
static bool is_gpipe(const tx_layout_bounds *b)
{
    return tx_pp_training_kind(b->base) == TX_PP_GPIPE;
}

static double of_a_layer(double few, double more)
{
    return fmax(0, (more - few) / (MORE_LAYERS - FEW_LAYERS));
}

static tx_status make(const tx_layout_bounds *b, tx_small_run *r)
{
    measures few, more;
    TX_TRY(run_small(b, &r->is, FEW_LAYERS, &few, &r->possible));
    if (!r->possible) return TX_OK;
    TX_TRY(run_small(b, &r->is, MORE_LAYERS, &more, &r->possible));
    r->seconds[0] = of_a_layer(few.busy, more.busy);
    r->seconds[1] = fmax(0, few.busy - FEW_LAYERS * r->seconds[0]);
    r->update = of_a_layer(few.update, more.update);
    r->params = of_a_layer((double)few.memory.params, (double)more.memory.params);
    r->grads = of_a_layer((double)few.memory.grads, (double)more.memory.grads);
    r->optimizer = of_a_layer((double)few.memory.optimizer, (double)more.memory.optimizer);
    r->acts = of_a_layer((double)few.memory.activations, (double)more.memory.activations);
    if (is_gpipe(b)) r->acts /= MICRO_BATCHES;
    for (int once = 0; once < 2; once++)
        for (int op = 0; op < TX_BOUND_OPS; op++)
            r->data[once][op] = of_a_layer(few.data[once][op], more.data[once][op]);
    return TX_OK;
}

static bool is_same(const tx_layout_choice *a, const tx_layout_choice *b)
{
    return a->ranks == b->ranks && a->tp == b->tp && a->cp == b->cp && a->how == b->how && a->sequence == b->sequence &&
           a->micro_batch == b->micro_batch && a->again == b->again && a->zero == b->zero;
}

/* Of what is computed. As many ranks as a node has share what there is of it. */
static tx_layout_choice of_work(const tx_layout_bounds *b, const tx_layout_choice *c)
{
    int64_t model = c->tp * tx_choice_context(c),
            groups = (int64_t)fmin(b->machine->ranks_per_node, (double)c->ranks) / model;
    return (tx_layout_choice){ .ranks = model * (groups > 1 ? groups : 1),
                               .tp = c->tp,
                               .cp = c->cp,
                               .how = c->how,
                               .pp = 1,
                               .micro_batch = c->micro_batch,
                               .sequence = c->sequence,
                               .again = c->again };
}

/* Of what data-parallel ranks send. */
static tx_layout_choice of_state(const tx_layout_choice *c)
{
    return (tx_layout_choice){ .ranks = 2 * c->tp, .tp = c->tp, .pp = 1, .micro_batch = 1, .zero = c->zero };
}

/* Layouts come sorted, so the newest are asked first. */
static tx_status find(tx_layout_bounds *b, const tx_layout_choice *its, tx_small_run *out)
{
    for (int i = b->n - 1; i >= 0; i--)
        if (is_same(&b->run[i].is, its)) {
            *out = b->run[i];
            return TX_OK;
        }
    if (b->n == b->cap) {
        int cap = b->cap ? 2 * b->cap : 64;
        TX_TRY(tx_realloc(&b->run, (size_t)cap, sizeof *b->run, "small runs"));
        b->cap = cap;
    }
    *out = (tx_small_run){ .is = *its };
    TX_TRY(make(b, out));
    b->run[b->n++] = *out;
    return TX_OK;
}

/* ---- the bounds ---- */

/* Micro-batches times chunks that the first stage holds at the same time (parallel/pp_schedule.h). */
static double in_flight(const tx_layout_bounds *b, const tx_layout_choice *c, double n_micro, double n_chunks)
{
    double p = (double)c->pp;
    if (is_gpipe(b)) return n_micro;
    if (n_chunks == 1) return fmin(n_micro, p);
    return fmin(n_micro * n_chunks, 2 * (p - 1) + (n_chunks - 1) * p + 1);
}

/* Of so many layers. */
static double data_seconds(const tx_layout_bounds *b, const tx_layout_choice *c, const tx_small_run *r, double n_micro,
                           double layers)
{
    const tx_layout l = { .size = { [TX_AXIS_TENSOR] = (int)c->tp,
                                    [TX_AXIS_CONTEXT] = (int)tx_choice_context(c),
                                    [TX_AXIS_PIPELINE] = (int)c->pp,
                                    [TX_AXIS_DATA] = (int)tx_choice_data_parallel(c) } };
    tx_span span = tx_group_span(&l, TX_GROUP_DATA, b->machine);
    double s = 0;
    for (int op = 0; op < TX_BOUND_OPS; op++)
        for (int once = 0; once < 2; once++)
            if (r->data[once][op] > 0)
                s += (once ? 1 : n_micro) *
                     tx_call_seconds(b->machine, span, tx_comm_op_names[op], layers * r->data[once][op]);
    return s;
}

tx_status tx_layout_bound(tx_layout_bounds *b, const tx_layout_choice *c, double *seconds, double *bytes)
{
    const tx_layout_choice work = of_work(b, c), state = of_state(c);
    tx_small_run r, sent;
    *seconds = *bytes = 0;
    if (b->base->moe_expert_parallel_size > 1 || b->base->expert_tensor_parallel_size == 1 ||
        tx_layout_of(b->base).near || b->base->zero_quantized_gradients)
        return TX_OK; /* small runs have too few ranks for such experts, and for near ones */
    *seconds = *bytes = INFINITY;
    TX_TRY(find(b, &work, &r));
    TX_TRY(find(b, &state, &sent));
    if (!r.possible) return TX_OK;
    double p = (double)c->pp, sharers = (double)tx_choice_sharers(c), layers = (double)b->base->num_layers;
    double n_micro = (double)b->base->global_batch_size / (double)(c->micro_batch * tx_choice_data_parallel(c));
    double most = ceil(layers / p), least = b->base->standalone_embedding_stage ? 0 : floor(layers / p);
    double n_chunks = c->chunk_layers ? layers / p / (double)c->chunk_layers : 1;
    double mean = (layers * r.seconds[0] + r.seconds[1]) / p, its = fmax(most * r.seconds[0], mean);
    *seconds = n_micro * its;
    if (tx_pp_training_kind(b->base) != TX_PP_ZBH1) *seconds += (p - 1) * least * r.seconds[0] / n_chunks;
    if (!c->offload) *seconds += most * r.update / (c->zero ? sharers : 1);
    if (sent.possible && sharers > 1) *seconds = fmax(*seconds, data_seconds(b, c, &sent, n_micro, least));
    *bytes = least * (r.params / (c->zero > 2 ? sharers : 1) + r.grads / (c->zero > 1 ? sharers : 1)) +
             least / n_chunks * r.acts * in_flight(b, c, n_micro, n_chunks);
    if (!c->offload) *bytes += least * r.optimizer / (c->zero ? sharers : 1);
    return TX_OK;
}

void tx_layout_bounds_free(tx_layout_bounds *b)
{
    tx_free(b->run);
    b->run = NULL;
    b->n = b->cap = 0;
}
