/* step_time.c - seconds of an iteration: each instruction of a stage with what hides behind it, then the schedule. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "parallel/pp_times.h"
#include "predict/measured_time.h"
#include "predict/op_time.h"
#include "predict/predict.h"

/* Where the time of a piece goes. */
typedef struct account {
    double all, products, attention, memory_bound, copies;
    double exposed[TX_N_STEP_GROUPS + 1]; /* the last: of all other groups */
} account;

typedef struct stage_times {
    account *fwd, *bwd, *bwd_last, *wgt, *wgt_last; /* [n_chunks] */
    account begin, finish, update;
} stage_times;

/* ---- one stage: ops one after the other, messages of each group beside them ---- */

enum { N_KEPT = 128 };

typedef struct kept_time {
    tx_work_event e;
    double seconds;
} kept_time;

typedef struct clock_of {
    const tx_run_work *w;
    const tx_machine *m;
    tx_span span[TX_N_GROUPS];
    double now, group_free[TX_N_GROUPS], copies_free;
    double *ends;  /* [n_requests] */
    int *group;    /* [n_requests]; TX_N_GROUPS: a copy, -1: nothing that is timed */
    int n_sharing; /* ranks of a node */
    kept_time kept[N_KEPT];
} clock_of;

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* Layers are alike: what is looked up in a machine's tables is kept. */
static double op_seconds(clock_of *c, const tx_work_event *e)
{
    if (!c->m->n_products && !c->m->n_ops) return tx_op_seconds(c->m, e, c->n_sharing);
    uint64_t hash = (uintptr_t)e->op / 8 + 31 * (uint64_t)e->m + 961 * (uint64_t)e->k + (uint64_t)e->bytes / 64;
    kept_time *k = &c->kept[hash % N_KEPT];
    if (k->e.op != e->op || k->e.dtype != e->dtype || k->e.m != e->m || k->e.n != e->n || k->e.k != e->k ||
        k->e.bytes != e->bytes || k->e.flops != e->flops)
        *k = (kept_time){ *e, tx_op_seconds(c->m, e, c->n_sharing) };
    return k->seconds;
}

static void compute(clock_of *c, const tx_work_event *e, account *a)
{
    double s = op_seconds(c, e);
    c->now += s;
    *(e->bound == TX_COST_PRODUCT     ? &a->products
      : e->bound == TX_COST_ATTENTION ? &a->attention
                                      : &a->memory_bound) += s;
}

static double *exposed_of(account *a, int group)
{
    return &a->exposed[group < TX_N_STEP_GROUPS ? group : TX_N_STEP_GROUPS];
}

/* Between tensor-parallel ranks go activations; what goes between others counts as fp32, which gradients are. Ranks
 * without GPUs move and sum what they send themselves: nothing hides it. */
static void call(clock_of *c, const tx_work_event *e, account *a)
{
    c->group[e->request] = e->group;
    if (e->group < 0) return;
    tx_dtype dtype = e->group == TX_GROUP_TENSOR ? c->w->dtype : TX_F32;
    double s = tx_typed_call_seconds(c->m, c->span[e->group], e->op, dtype, e->bytes);
    double start = later(c->now, c->group_free[e->group]);
    c->ends[e->request] = c->group_free[e->group] = start + s;
    if (c->m->cores == 0) return;
    c->now = start + s;
    *exposed_of(a, e->group) += s;
}

static void copy(clock_of *c, const tx_work_event *e)
{
    double rate = strstr(e->op, "disk") ? c->m->storage / c->n_sharing : c->m->host_bandwidth;
    c->group[e->request] = TX_N_GROUPS;
    c->ends[e->request] = c->copies_free = later(c->now, c->copies_free) + e->bytes / rate;
}

static void wait_for(clock_of *c, const tx_work_event *e, account *a)
{
    int group = c->group[e->request];
    double s = c->ends[e->request] - c->now;
    if (group < 0 || s <= 0) return;
    c->now += s;
    if (group == TX_N_GROUPS)
        a->copies += s;
    else
        *exposed_of(a, group) += s;
}

static account run_piece(clock_of *c, const tx_stage_work *w, const tx_work_piece *p)
{
    account a = { 0 };
    double start = c->now;
    for (const tx_work_event *e = w->event + p->first; e < w->event + p->end; e++) {
        if (e->kind == TX_TRACE_OP) compute(c, e, &a);
        if (e->kind == TX_TRACE_CALL) call(c, e, &a);
        if (e->kind == TX_TRACE_COPY) copy(c, e);
        if (e->kind == TX_TRACE_WAIT) wait_for(c, e, &a);
    }
    a.all = c->now - start;
    return a;
}

static void add(account *to, const account *a, double times)
{
    to->all += times * a->all;
    to->products += times * a->products;
    to->attention += times * a->attention;
    to->memory_bound += times * a->memory_bound;
    to->copies += times * a->copies;
    for (int g = 0; g <= TX_N_STEP_GROUPS; g++) to->exposed[g] += times * a->exposed[g];
}

static void put(account *to, const account *a, bool more)
{
    if (!more) *to = (account){ 0 };
    add(to, a, 1);
}

/* What the first forward waits for and no other: values that the update has left under way. */
static void add_waits(account *begin, const account *first, const account *second)
{
    for (int g = 0; g <= TX_N_STEP_GROUPS; g++) {
        double s = first->exposed[g] - second->exposed[g];
        if (s <= 0) continue;
        begin->exposed[g] += s;
        begin->all += s;
    }
}

/* Of the micro-batches that were traced the second one stands for all but the last.
 * @more the piece has been kept, and this comes to it */
static void keep_piece(stage_times *t, const tx_stage_work *w, const tx_work_piece *p, const account *a, bool more)
{
    int usual = w->n_micro > 2 ? 1 : 0;
    switch (p->part) {
    case TX_STEP_BEGIN:
        put(&t->begin, a, more);
        return;
    case TX_STEP_FORWARD:
        if (p->micro == 1 && usual && !more) add_waits(&t->begin, &t->fwd[p->chunk], a);
        if (p->micro <= usual) put(&t->fwd[p->chunk], a, more);
        return;
    case TX_STEP_BACKWARD:
        if (p->micro <= usual) put(&t->bwd[p->chunk], a, more);
        if (p->micro == w->n_micro - 1) put(&t->bwd_last[p->chunk], a, more);
        return;
    case TX_STEP_WEIGHTS:
        if (p->micro <= usual) put(&t->wgt[p->chunk], a, more);
        if (p->micro == w->n_micro - 1) put(&t->wgt_last[p->chunk], a, more);
        return;
    case TX_STEP_FINISH:
        put(&t->finish, a, more);
        return;
    case TX_STEP_UPDATE:
        put(&t->update, a, more);
        return;
    default:
        return;
    }
}

/* Copies of what is sent belong to the forward or backward before them. */
static void keep_pieces(stage_times *t, clock_of *c, const tx_stage_work *s)
{
    const tx_work_piece *before = NULL;
    for (const tx_work_piece *p = s->piece; p < s->piece + s->n_pieces; p++) {
        account a = run_piece(c, s, p);
        bool more = p->part == TX_STEP_MESSAGES;
        if (!more) before = p;
        if (before) keep_piece(t, s, before, &a, more);
    }
}

static int ranks_of_node(const tx_run_work *w, const tx_machine *m)
{
    return (double)w->world_size < m->ranks_per_node ? (int)w->world_size : (int)m->ranks_per_node;
}

/* The state of an optimizer that is offloaded is read and written once for an update, by all ranks of a node at a time;
 * twice if the update needs norms first.
 * Without GPUs what lies in the host's memory is used where all else is, and the update's ops have that time. */
static void move_optimizer(stage_times *t, const tx_stage_work *s, const clock_of *c)
{
    double host = tx_machine_is_gpu(c->m) ? (double)s->plan.memory.host / c->m->host_memory : 0;
    double disk = (double)s->plan.memory.nvme / c->m->storage;
    t->update.all += (c->w->measures ? 4 : 2) * c->n_sharing * (host + disk);
}

static tx_status time_stage(stage_times *t, const tx_run_work *w, const tx_stage_work *s, const tx_machine *m)
{
    clock_of c = { .w = w, .m = m, .n_sharing = ranks_of_node(w, m) };
    tx_status st;
    for (int g = 0; g < TX_N_GROUPS; g++) c.span[g] = tx_group_span(&w->layout, g, m);
    TX_GOTO(tx_alloc(&c.ends, (size_t)s->n_requests + 1, sizeof *c.ends, "the messages of a stage"));
    TX_GOTO(tx_alloc(&c.group, (size_t)s->n_requests + 1, sizeof *c.group, "the messages of a stage"));
    keep_pieces(t, &c, s);
    move_optimizer(t, s, &c);
out:
    tx_free(c.ends);
    tx_free(c.group);
    return st;
}

/* ---- all stages ---- */

typedef struct pipeline {
    const tx_run_work *w;
    const tx_machine *m;
    stage_times stage[TX__PLAN_STAGES];
    account *memory; /* of the stages' arrays */
} pipeline;

static tx_status time_stages(pipeline *q)
{
    size_t n = (size_t)q->w->shape.n_chunks;
    TX_TRY(tx_alloc(&q->memory, 5 * n * TX__PLAN_STAGES, sizeof *q->memory, "the times of stages"));
    for (int i = 0; i < q->w->n; i++) {
        stage_times *t = &q->stage[i];
        t->fwd = q->memory + 5 * n * (size_t)i;
        t->bwd = t->fwd + n;
        t->bwd_last = t->bwd + n;
        t->wgt = t->bwd_last + n;
        t->wgt_last = t->wgt + n;
        TX_TRY(time_stage(t, q->w, &q->w->stage[i], q->m));
    }
    return TX_OK;
}

static const stage_times *times_of(const pipeline *q, int i)
{
    return &q->stage[tx_work_of_stage(q->w, i) - q->w->stage];
}

static tx_status take_arrays(tx_pipeline_time *t, const tx_run_work *w)
{
    size_t p = (size_t)w->shape.p, n = p * (size_t)w->shape.n_chunks;
    TX_TRY(tx_alloc(&t->memory, 7 * n + 2 * p, sizeof *t->memory, "the times of a pipeline"));
    t->fwd = t->memory;
    t->bwd = t->fwd + n;
    t->bwd_last = t->bwd + n;
    t->wgt = t->bwd_last + n;
    t->wgt_last = t->wgt + n;
    t->message[0] = t->wgt_last + n;
    t->message[1] = t->message[0] + n;
    t->finish = t->message[1] + n;
    t->update = t->finish + p;
    return TX_OK;
}

static void fill_arrays(tx_pipeline_time *t, const pipeline *q)
{
    const tx_pp_shape *s = &q->w->shape;
    for (int i = 0; i < s->p; i++) {
        const tx_stage_work *w = tx_work_of_stage(q->w, i);
        const stage_times *from = times_of(q, i);
        t->finish[i] = from->finish.all;
        t->update[i] = from->update.all;
        for (int c = 0; c < s->n_chunks; c++) {
            int v = c * s->p + i;
            t->fwd[v] = from->fwd[c].all;
            t->bwd[v] = from->bwd[c].all;
            t->bwd_last[v] = from->bwd_last[c].all;
            t->wgt[v] = from->wgt[c].all;
            t->wgt_last[v] = from->wgt_last[c].all;
            for (int k = 0; k < 2; k++)
                t->message[k][v] = s->p > 1 ? tx_message_seconds(q->m, &q->w->layout, w->message[k]) : 0;
        }
    }
    t->begin = times_of(q, 0)->begin.all;
}

static tx_pp_times schedule_times(const tx_pipeline_time *t)
{
    return (tx_pp_times){ .fwd = t->fwd,
                          .bwd = t->bwd,
                          .bwd_last = t->bwd_last,
                          .wgt = t->wgt,
                          .wgt_last = t->wgt_last,
                          .message = { t->message[0], t->message[1] } };
}

static tx_status time_pipeline(tx_pipeline_time *out, pipeline *q)
{
    *out = (tx_pipeline_time){ 0 };
    TX_TRY(time_stages(q));
    TX_TRY(take_arrays(out, q->w));
    fill_arrays(out, q);
    out->times = schedule_times(out);
    return TX_OK;
}

tx_status tx_predict_pipeline(tx_pipeline_time *out, const tx_run_work *w, const tx_machine *m)
{
    pipeline q = { .w = w, .m = m };
    tx_status st = time_pipeline(out, &q);
    tx_free(q.memory);
    return st;
}

void tx_pipeline_time_free(tx_pipeline_time *t)
{
    tx_free(t->memory);
    *t = (tx_pipeline_time){ 0 };
}

/* ---- what it comes to ---- */

/* All that a stage does between begin and the end of its last backward. */
static account busy_of(const pipeline *q, const stage_times *t)
{
    account a = { 0 };
    double m = q->w->shape.m;
    for (int k = 0; k < q->w->shape.n_chunks; k++) {
        add(&a, &t->fwd[k], m);
        add(&a, &t->bwd[k], m - 1);
        add(&a, &t->bwd_last[k], 1);
        add(&a, &t->wgt[k], m - 1);
        add(&a, &t->wgt_last[k], 1);
    }
    return a;
}

/* A schedule whose stages take turns on cores: one that waits leaves its core to others. So times that hold while all
 * compute are too long for the way through the schedule, and all cores have work until the end or that way is longer.
 */
static double on_cores(const pipeline *q, double end)
{
    double slower = tx__ranks_a_core(q->m, ranks_of_node(q->w, q->m)), busy = 0;
    if (slower == 1) return end;
    for (int i = 0; i < q->w->shape.p; i++) busy += busy_of(q, times_of(q, i)).all / q->w->shape.p;
    return later(end / slower, busy);
}

/* The stage whose update ends last. */
static tx_status find_last(const pipeline *q, const tx_pipeline_time *t, int *last, double *end)
{
    double *ends, whole, most = -1;
    int p = q->w->shape.p;
    TX_TRY(tx_alloc(&ends, (size_t)p, sizeof *ends, "the ends of stages"));
    tx_status st = tx_pp_makespan(&q->w->shape, &t->times, &whole, ends);
    for (int i = 0; i < p && !st; i++) {
        ends[i] = on_cores(q, ends[i]);
        double all = ends[i] + t->finish[i] + t->update[i];
        if (all <= most) continue;
        most = all;
        *last = i;
        *end = ends[i];
    }
    tx_free(ends);
    return st;
}

static void tell(tx_time *t, const tx_run_work *w, const tx_machine *m)
{
    double ranks = (double)w->world_size, nodes = ceil(ranks / m->ranks_per_node);
    double lost = t->iteration * m->straggling * (nodes > 1 ? log2(nodes) : 0) + m->overhead;
    t->iteration += lost;
    t->other += lost;
    t->low = t->iteration * exp(-m->spread);
    t->high = t->iteration * exp(m->spread);
    t->tokens_per_s = (double)w->tokens / t->iteration / ranks;
    t->flops_per_s = w->flops / t->iteration / ranks;
    t->hardware_flops_per_s = (w->flops + w->flops_again) / t->iteration / ranks;
    t->told_flops_per_s = w->flops_told / t->iteration / ranks;
    t->peak_share = t->flops_per_s / tx_machine_peak(m, w->dtype);
}

tx_status tx_predict(tx_time *out, const tx_run_work *w, const tx_machine *m)
{
    pipeline q = { .w = w, .m = m };
    tx_pipeline_time t;
    int last = 0;
    double end = 0;
    tx_status st;
    TX_GOTO(time_pipeline(&t, &q));
    TX_GOTO(find_last(&q, &t, &last, &end));
    const stage_times *s = times_of(&q, last);
    account a = busy_of(&q, s);
    *out = (tx_time){ .bubble = end - a.all, .update = s->update.all };
    add(&a, &s->begin, 1);
    add(&a, &s->finish, 1);
    out->products = a.products;
    out->attention = a.attention;
    out->memory_bound = a.memory_bound;
    out->copies = a.copies;
    memcpy(out->exposed, a.exposed, sizeof out->exposed);
    out->other = a.exposed[TX_N_STEP_GROUPS];
    out->iteration = s->begin.all + end + s->finish.all + s->update.all;
    tell(out, w, m);
out:
    tx_pipeline_time_free(&t);
    tx_free(q.memory);
    return st;
}
