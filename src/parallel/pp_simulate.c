/* pp_simulate.c - all stages of a pipeline together: whether their instruction lists fit, and when each does what. */
#include "base/alloc.h"
#include "parallel/pp_picture.h"

/* A micro-batch in a virtual stage. */
typedef struct unit {
    double sent_at[2];   /* when its input, and the gradient of its output, set out to it; -1: not yet */
    double posted_at[2]; /* when it has begun to receive them; -1: not yet */
    double takes[2];     /* how long they are on their way */
    int input;           /* where its input lies */
    bool taken[2], done[3], sent[2];
} unit;

enum { FWD, BWD, WGT };

typedef struct holder {
    int micro, chunk;
    bool held;
} holder;

typedef struct lane {
    const tx_pp_list *list;
    int at;          /* the instruction that is next */
    double time;     /* when it may begin */
    tx_pp_lane *out; /* what has been computed */
    holder *slot;    /* [list->n_slots] */
    holder *input;   /* [list->n_inputs] */
    unit **sent[2];  /* [m n_chunks] whom its messages went to, in order */
    int n_sent[2];
} lane;

typedef struct simulation {
    const tx_pp_shape *s;
    const tx_pp_times *t;
    lane *stage;    /* [p] */
    unit *unit;     /* [p n_chunks, m] */
    int *sent[2];   /* [p n_chunks] messages that have come, in the order of micro-batches */
    int *taken[2];  /* those that have been taken */
    int *posted[2]; /* those that are, or have been, received */
    int *ended[3];  /* computations that have been done */
} simulation;

static int virtual_of(const simulation *f, int stage, const tx_pp_instr *i)
{
    return i->chunk * f->s->p + stage;
}

static unit *unit_of(const simulation *f, int at, int micro)
{
    return &f->unit[(size_t)at * (size_t)f->s->m + (size_t)micro];
}

static tx_status wrong(const simulation *f, int stage, const char *why)
{
    int at = f->stage[stage].at;
    const tx_pp_instr *i = &f->stage[stage].list->instr[at];
    return TX_FAIL(TX_ERR_STATE, "stage %d, instruction %d (%s of micro-batch %d in chunk %d): %s", stage, at,
                   tx_pp_op_names[i->op], i->micro, i->chunk, why);
}

/* ---------------------------------------------------------------- one instruction */

static tx_status hold(const simulation *f, int stage, holder *h, const char *in_use)
{
    int at = f->stage[stage].at;
    const tx_pp_instr *i = &f->stage[stage].list->instr[at];
    if (h->held) return wrong(f, stage, in_use);
    *h = (holder){ .micro = i->micro, .chunk = i->chunk, .held = true };
    return TX_OK;
}

static tx_status hold_slot(const simulation *f, int stage, const tx_pp_instr *i)
{
    return hold(f, stage, &f->stage[stage].slot[i->slot], "its slot is in use");
}

static bool holds(const holder *h, const tx_pp_instr *i)
{
    return h->held && h->micro == i->micro && h->chunk == i->chunk;
}

static tx_status check_slot(const simulation *f, int stage, const tx_pp_instr *i)
{
    if (holds(&f->stage[stage].slot[i->slot], i)) return TX_OK;
    return wrong(f, stage, "its slot holds something else");
}

/* Whether the stage's receives are posted before they are waited for. */
static bool posts(const simulation *f, int stage)
{
    return f->stage[stage].list->n_posts > 0;
}

/* When a message that has set out, and whose receive is posted, is there. */
static double there_at(const simulation *f, const unit *u, int d)
{
    double start = f->t->meets && u->posted_at[d] > u->sent_at[d] ? u->posted_at[d] : u->sent_at[d];
    double there = start + u->takes[d];
    return there > u->posted_at[d] ? there : u->posted_at[d];
}

static tx_status begin_receive(simulation *f, int stage, const tx_pp_instr *i, int d)
{
    int at = virtual_of(f, stage, i), from = d == FWD ? at - 1 : at + 1;
    lane *s = &f->stage[stage];
    unit *u = unit_of(f, at, i->micro);
    if (from < 0 || from >= f->s->p * f->s->n_chunks || i->peer != from % f->s->p)
        return wrong(f, stage, "nobody there sends it");
    if (u->posted_at[d] >= 0) return wrong(f, stage, "it is being received already");
    if (f->posted[d][at]++ != i->micro) return wrong(f, stage, "messages are not received in the order they are sent");
    u->posted_at[d] = s->time;
    if (!posts(f, stage)) return TX_OK;
    if (d == BWD && !u->sent[FWD]) return wrong(f, stage, "its place holds an output that has not been sent");
    if (d == BWD) return check_slot(f, stage, i);
    if (i->input < 0 || i->input >= s->list->n_inputs) return wrong(f, stage, "there is no such place for an input");
    u->input = i->input;
    return hold(f, stage, &s->input[i->input], "another input is in its place");
}

/* A computation needs the input where it was received, and may be the last that does. */
static tx_status use_input(simulation *f, int stage, const tx_pp_instr *i, int d)
{
    lane *s = &f->stage[stage];
    int at = virtual_of(f, stage, i);
    bool keeps = s->list->keeps_inputs;
    if (!at || !posts(f, stage) || d == WGT || (d == BWD && !keeps)) return TX_OK;
    holder *h = &s->input[unit_of(f, at, i->micro)->input];
    if (!holds(h, i)) return wrong(f, stage, "its input is not in its place any more");
    h->held = d == FWD && keeps;
    return TX_OK;
}

/* Direction `d`: FWD takes the input, BWD the gradient. *waits: the message is not there yet. */
static tx_status receive(simulation *f, int stage, const tx_pp_instr *i, int d, bool *waits)
{
    int at = virtual_of(f, stage, i), from = d == FWD ? at - 1 : at + 1;
    unit *u = unit_of(f, at, i->micro);
    if (from < 0 || from >= f->s->p * f->s->n_chunks || i->peer != from % f->s->p)
        return wrong(f, stage, "nobody there sends it");
    if (u->taken[d]) return wrong(f, stage, "it has been taken before");
    if (u->posted_at[d] < 0) {
        if (posts(f, stage)) return wrong(f, stage, "its receive has not been posted");
        TX_TRY(begin_receive(f, stage, i, d));
    }
    if (posts(f, stage) && d == FWD && i->input != u->input) return wrong(f, stage, "it lies in another place");
    if (u->sent_at[d] < 0) {
        *waits = true;
        return TX_OK;
    }
    if (f->taken[d][at]++ != i->micro) return wrong(f, stage, "messages are not taken in the order they were sent");
    u->taken[d] = true;
    if (f->stage[stage].time < there_at(f, u, d)) f->stage[stage].time = there_at(f, u, d);
    return d == FWD ? hold_slot(f, stage, i) : check_slot(f, stage, i);
}

/* Whether there is room for one more message of the stage; it waits until there is. */
static bool has_room(simulation *f, int stage, int d)
{
    lane *s = &f->stage[stage];
    if (!f->t->outgoing || s->n_sent[d] < f->t->outgoing) return true;
    const unit *before = s->sent[d][s->n_sent[d] - f->t->outgoing];
    if (before->posted_at[d] < 0) return false;
    if (s->time < there_at(f, before, d)) s->time = there_at(f, before, d);
    return true;
}

static tx_status send(simulation *f, int stage, const tx_pp_instr *i, int d, bool *waits)
{
    int at = virtual_of(f, stage, i), to = d == FWD ? at + 1 : at - 1;
    lane *s = &f->stage[stage];
    unit *u = unit_of(f, at, i->micro);
    if (to < 0 || to >= f->s->p * f->s->n_chunks || i->peer != to % f->s->p)
        return wrong(f, stage, "nobody there takes it");
    if (!u->done[d]) return wrong(f, stage, "it is not computed yet");
    if (u->sent[d]) return wrong(f, stage, "it has been sent before");
    *waits = !has_room(f, stage, d);
    if (*waits) return TX_OK;
    if (f->sent[d][to]++ != i->micro) return wrong(f, stage, "messages are not sent in the order of micro-batches");
    u->sent[d] = true;
    unit *receiver = s->sent[d][s->n_sent[d]++] = unit_of(f, to, i->micro);
    receiver->sent_at[d] = s->time;
    receiver->takes[d] = f->t->message[d] ? f->t->message[d][at] : 0;
    return TX_OK;
}

/* Lets the time of a computation pass. */
static void spend(simulation *f, int stage, const tx_pp_instr *i, int d)
{
    int at = virtual_of(f, stage, i);
    lane *s = &f->stage[stage];
    const double *usual[] = { f->t->fwd, f->t->bwd, f->t->wgt }, *last[] = { NULL, f->t->bwd_last, f->t->wgt_last };
    double cost = (i->micro == f->s->m - 1 && last[d] ? last[d] : usual[d])[at];
    tx_pp_span span = { s->time, s->time + cost, i->micro, i->chunk, i->op };
    s->out->span[s->out->n++] = span;
    s->out->busy += cost;
    s->time = span.end;
}

/* What is done last with a micro-batch in a virtual stage. */
static int last_part(const simulation *f)
{
    return f->s->kind == TX_PP_FORWARD ? FWD : f->s->kind == TX_PP_ZBH1 ? WGT : BWD;
}

static tx_status compute(simulation *f, int stage, const tx_pp_instr *i, int d)
{
    int at = virtual_of(f, stage, i), end = d == FWD ? 0 : f->s->p * f->s->n_chunks - 1;
    unit *u = unit_of(f, at, i->micro);
    if (u->done[d]) return wrong(f, stage, "it has been done before");
    if (d > last_part(f)) return wrong(f, stage, "this schedule has no such part");
    if (d == BWD && !u->done[FWD]) return wrong(f, stage, "its forward has not been done");
    if (d == WGT && !u->done[BWD]) return wrong(f, stage, "the gradient of its input has not been computed");
    if (at == end && d == FWD) TX_TRY(hold_slot(f, stage, i));
    if (at != end && d != WGT && !u->taken[d]) return wrong(f, stage, "what it needs has not been received");
    if (f->ended[d][at]++ != i->micro) return wrong(f, stage, "it is not done in the order of micro-batches");
    TX_TRY(check_slot(f, stage, i));
    TX_TRY(use_input(f, stage, i, d));
    u->done[d] = true;
    spend(f, stage, i, d);
    bool is_last_part = d == last_part(f), last = is_last_part && d != FWD && f->ended[d][at] == f->s->m;
    if (is_last_part) f->stage[stage].slot[i->slot].held = false;
    if (last != i->last_of_chunk) return wrong(f, stage, last ? "it is the last of its chunk" : "it is not the last");
    return TX_OK;
}

static tx_status take_step(simulation *f, int stage, bool *waits)
{
    const lane *s = &f->stage[stage];
    const tx_pp_instr *i = &s->list->instr[s->at];
    if (i->micro < 0 || i->micro >= f->s->m || i->chunk < 0 || i->chunk >= f->s->n_chunks || i->slot < 0 ||
        i->slot >= s->list->n_slots)
        return wrong(f, stage, "there is no such micro-batch, chunk or slot");
    switch (i->op) {
    case TX_PP_RECV_FWD:
        return receive(f, stage, i, FWD, waits);
    case TX_PP_FWD:
        return compute(f, stage, i, FWD);
    case TX_PP_SEND_FWD:
        return send(f, stage, i, FWD, waits);
    case TX_PP_RECV_BWD:
        return receive(f, stage, i, BWD, waits);
    case TX_PP_BWD:
        return compute(f, stage, i, BWD);
    case TX_PP_SEND_BWD:
        return send(f, stage, i, BWD, waits);
    case TX_PP_POST_FWD:
        return begin_receive(f, stage, i, FWD);
    case TX_PP_POST_BWD:
        return begin_receive(f, stage, i, BWD);
    default:
        return compute(f, stage, i, WGT);
    }
}

/* ---------------------------------------------------------------- all of them */

/* Goes around the stages, each as far as it comes. */
static tx_status run(simulation *f)
{
    int waiting = -1;
    for (bool moved = true; moved;) {
        moved = false;
        waiting = -1;
        for (int i = 0; i < f->s->p; i++) {
            for (lane *s = &f->stage[i]; s->at < s->list->n; s->at++) {
                bool waits = false;
                TX_TRY(take_step(f, i, &waits));
                if (waits) {
                    waiting = i;
                    break;
                }
                moved = true;
            }
        }
    }
    return waiting < 0 ? TX_OK : wrong(f, waiting, "it waits for ever");
}

/* NULL: all that is to be done with a micro-batch in a virtual stage has been done. */
static const char *what_is_left(const simulation *f, const unit *u)
{
    bool backward = f->s->kind != TX_PP_FORWARD;
    if (!u->done[FWD]) return "is not done forward";
    if (u->done[BWD] != backward) return backward ? "is not done backward" : "is done backward";
    if (f->s->kind == TX_PP_ZBH1 && !u->done[WGT]) return "gives its weights no gradients";
    for (int d = 0; d < 2; d++)
        if ((u->sent_at[d] >= 0 || u->posted_at[d] >= 0) && !u->taken[d]) return "is sent what nobody takes";
    return NULL;
}

static tx_status check_end(const simulation *f)
{
    for (int at = 0; at < f->s->p * f->s->n_chunks; at++)
        for (int micro = 0; micro < f->s->m; micro++) {
            const char *what = what_is_left(f, unit_of(f, at, micro));
            if (what)
                return TX_FAIL(TX_ERR_STATE, "stage %d: micro-batch %d in chunk %d %s", at % f->s->p, micro,
                               at / f->s->p, what);
        }
    return TX_OK;
}

/* ---------------------------------------------------------------- life */

static int n_computed(const tx_pp_list *l)
{
    int n = 0;
    for (int k = 0; k < l->n; k++)
        n += l->instr[k].op == TX_PP_FWD || l->instr[k].op == TX_PP_BWD || l->instr[k].op == TX_PP_WGT;
    return n;
}

static tx_status begin(simulation *f, const tx_pp_list *lists, tx_pp_timeline *out)
{
    const char *what = "a pipeline's simulation";
    size_t n_virtual = (size_t)f->s->p * (size_t)f->s->n_chunks;
    TX_TRY(tx_alloc(&f->stage, (size_t)f->s->p, sizeof *f->stage, what));
    TX_TRY(tx_alloc(&f->unit, n_virtual * (size_t)f->s->m, sizeof *f->unit, what));
    for (int d = 0; d < 2; d++) {
        TX_TRY(tx_alloc(&f->sent[d], n_virtual, sizeof *f->sent[d], what));
        TX_TRY(tx_alloc(&f->taken[d], n_virtual, sizeof *f->taken[d], what));
        TX_TRY(tx_alloc(&f->posted[d], n_virtual, sizeof *f->posted[d], what));
    }
    for (int d = 0; d < 3; d++) TX_TRY(tx_alloc(&f->ended[d], n_virtual, sizeof *f->ended[d], what));
    for (size_t i = 0; i < n_virtual * (size_t)f->s->m; i++)
        for (int d = 0; d < 2; d++) f->unit[i].sent_at[d] = f->unit[i].posted_at[d] = -1;
    *out = (tx_pp_timeline){ .p = f->s->p, .m = f->s->m, .n_chunks = f->s->n_chunks };
    TX_TRY(tx_alloc(&out->stage, (size_t)out->p, sizeof *out->stage, what));
    for (int i = 0; i < f->s->p; i++) {
        f->stage[i].list = &lists[i];
        f->stage[i].out = &out->stage[i];
        TX_TRY(tx_alloc(&out->stage[i].span, (size_t)n_computed(&lists[i]) + 1, sizeof *out->stage[i].span, what));
        for (int d = 0; d < 2; d++)
            TX_TRY(tx_alloc(&f->stage[i].sent[d], (size_t)f->s->m * (size_t)f->s->n_chunks, sizeof *f->stage[i].sent[d],
                            what));
        TX_TRY(tx_alloc(&f->stage[i].slot, (size_t)lists[i].n_slots + 1, sizeof *f->stage[i].slot, what));
        TX_TRY(tx_alloc(&f->stage[i].input, (size_t)lists[i].n_inputs + 1, sizeof *f->stage[i].input, what));
    }
    return TX_OK;
}

static void end(simulation *f)
{
    for (int i = 0; i < f->s->p && f->stage; i++) {
        tx_free(f->stage[i].slot);
        tx_free(f->stage[i].input);
        for (int d = 0; d < 2; d++) tx_free(f->stage[i].sent[d]);
    }
    tx_free(f->stage);
    tx_free(f->unit);
    for (int d = 0; d < 2; d++) {
        tx_free(f->sent[d]);
        tx_free(f->taken[d]);
        tx_free(f->posted[d]);
    }
    for (int d = 0; d < 3; d++) tx_free(f->ended[d]);
}

void tx_pp_timeline_free(tx_pp_timeline *t)
{
    for (int i = 0; i < t->p && t->stage; i++) tx_free(t->stage[i].span);
    tx_free(t->stage);
    *t = (tx_pp_timeline){ 0 };
}

static tx_status simulate(const tx_pp_shape *shape, const tx_pp_list *lists, const tx_pp_times *times,
                          tx_pp_timeline *out)
{
    simulation f = { .s = shape, .t = times };
    tx_pp_timeline t = { 0 };
    tx_status st;
    TX_GOTO(begin(&f, lists, &t));
    TX_GOTO(run(&f));
    TX_GOTO(check_end(&f));
    for (int i = 0; i < shape->p; i++) {
        t.stage[i].end = f.stage[i].time;
        if (t.makespan < f.stage[i].time) t.makespan = f.stage[i].time;
    }
    *out = t;
    t = (tx_pp_timeline){ 0 };
out:
    tx_pp_timeline_free(&t);
    end(&f);
    return st;
}

/* ---------------------------------------------------------------- with what is given */

typedef struct schedules {
    tx_pp_list *list; /* [n] */
    int n;
} schedules;

static void free_schedules(schedules *s)
{
    for (int i = 0; i < s->n && s->list; i++) tx_pp_list_free(&s->list[i]);
    tx_free(s->list);
}

static tx_status make_schedules(schedules *s, const tx_pp_shape *shape)
{
    TX_TRY(tx_pp_check_shape(shape));
    s->n = shape->p;
    TX_TRY(tx_alloc(&s->list, (size_t)shape->p, sizeof *s->list, "a pipeline's schedules"));
    for (int i = 0; i < shape->p; i++) TX_TRY(tx_pp_schedule(&s->list[i], shape, i));
    return TX_OK;
}

tx_status tx_pp_simulate_times(const tx_pp_shape *shape, const tx_pp_times *times, tx_pp_timeline *out)
{
    schedules s = { 0 };
    tx_status st;
    TX_GOTO(tx_pp_check_times(shape, times));
    TX_GOTO(make_schedules(&s, shape));
    TX_GOTO(simulate(shape, s.list, times, out));
out:
    free_schedules(&s);
    return st;
}

tx_status tx_pp_simulate_lists(const tx_pp_shape *shape, const tx_pp_list *lists, tx_pp_units units, int *makespan,
                               tx_str *picture)
{
    size_t n = (size_t)shape->p * (size_t)shape->n_chunks;
    tx_pp_timeline t = { 0 };
    double *cost = NULL;
    tx_status st;
    TX_GOTO(tx_alloc(&cost, 4 * n, sizeof *cost, "a pipeline's simulation"));
    for (size_t v = 0; v < n; v++) {
        cost[v] = units.fwd;
        cost[n + v] = units.bwd;
        cost[2 * n + v] = units.wgt;
        cost[3 * n + v] = units.message;
    }
    TX_GOTO(simulate(shape, lists,
                     &(tx_pp_times){ .fwd = cost,
                                     .bwd = cost + n,
                                     .wgt = cost + 2 * n,
                                     .message = { cost + 3 * n, cost + 3 * n },
                                     .outgoing = units.outgoing,
                                     .meets = units.meets },
                     &t));
    if (makespan) *makespan = (int)t.makespan;
    if (picture) TX_GOTO(tx_pp_draw_units(&t, picture));
out:
    tx_free(cost);
    tx_pp_timeline_free(&t);
    return st;
}

tx_status tx_pp_simulate(const tx_pp_shape *shape, tx_pp_units units, int *makespan, tx_str *picture)
{
    schedules s = { 0 };
    tx_status st;
    TX_GOTO(make_schedules(&s, shape));
    TX_GOTO(tx_pp_simulate_lists(shape, s.list, units, makespan, picture));
out:
    free_schedules(&s);
    return st;
}
