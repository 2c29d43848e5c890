/* pp_simulate.c - all stages of a pipeline together: whether their instruction lists fit, how long they take, and what
 * that looks like. */
#include <stdio.h>

#include "base/alloc.h"
#include "parallel/pp_schedule.h"

/* A micro-batch in a virtual stage. */
typedef struct unit {
    int arrived[2]; /* when its input, and the gradient of its output, are there; -1: not yet */
    bool taken[2], done[2], sent[2];
} unit;

enum { FWD, BWD };

typedef struct holder {
    int micro, chunk;
    bool held;
} holder;

typedef struct lane {
    const tx_pp_list *list;
    int at, time; /* the instruction that is next, and when it may begin */
    int *start;   /* [list->n] */
    holder *slot; /* [list->n_slots] */
} lane;

typedef struct simulation {
    const tx_pp_shape *s;
    int cost[2];
    lane *stage;   /* [p] */
    unit *unit;    /* [p n_chunks, m] */
    int *sent[2];  /* [p n_chunks] messages that have come, in the order of micro-batches */
    int *taken[2]; /* those that have been taken */
    int *ended;    /* backwards that have been done */
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

static tx_status hold_slot(simulation *f, int stage, const tx_pp_instr *i)
{
    holder *h = &f->stage[stage].slot[i->slot];
    if (h->held) return wrong(f, stage, "its slot is in use");
    *h = (holder){ .micro = i->micro, .chunk = i->chunk, .held = true };
    return TX_OK;
}

static tx_status check_slot(const simulation *f, int stage, const tx_pp_instr *i)
{
    const holder *h = &f->stage[stage].slot[i->slot];
    if (h->held && h->micro == i->micro && h->chunk == i->chunk) return TX_OK;
    return wrong(f, stage, "its slot holds something else");
}

/* Direction `d`: FWD takes the input, BWD the gradient. *waits: the message is not there yet. */
static tx_status receive(simulation *f, int stage, const tx_pp_instr *i, int d, bool *waits)
{
    int at = virtual_of(f, stage, i), from = d == FWD ? at - 1 : at + 1;
    unit *u = unit_of(f, at, i->micro);
    if (from < 0 || from >= f->s->p * f->s->n_chunks || i->peer != from % f->s->p)
        return wrong(f, stage, "nobody there sends it");
    if (u->taken[d]) return wrong(f, stage, "it has been taken before");
    if (u->arrived[d] < 0) {
        *waits = true;
        return TX_OK;
    }
    if (f->taken[d][at]++ != i->micro) return wrong(f, stage, "messages are not taken in the order they were sent");
    u->taken[d] = true;
    if (f->stage[stage].time < u->arrived[d]) f->stage[stage].time = u->arrived[d];
    return d == FWD ? hold_slot(f, stage, i) : check_slot(f, stage, i);
}

static tx_status send(simulation *f, int stage, const tx_pp_instr *i, int d)
{
    int at = virtual_of(f, stage, i), to = d == FWD ? at + 1 : at - 1;
    unit *u = unit_of(f, at, i->micro);
    if (to < 0 || to >= f->s->p * f->s->n_chunks || i->peer != to % f->s->p)
        return wrong(f, stage, "nobody there takes it");
    if (!u->done[d]) return wrong(f, stage, "it is not computed yet");
    if (u->sent[d]) return wrong(f, stage, "it has been sent before");
    if (f->sent[d][to]++ != i->micro) return wrong(f, stage, "messages are not sent in the order of micro-batches");
    u->sent[d] = true;
    unit_of(f, to, i->micro)->arrived[d] = f->stage[stage].time;
    return TX_OK;
}

static tx_status compute(simulation *f, int stage, const tx_pp_instr *i, int d)
{
    int at = virtual_of(f, stage, i), end = d == FWD ? 0 : f->s->p * f->s->n_chunks - 1;
    unit *u = unit_of(f, at, i->micro);
    if (u->done[d]) return wrong(f, stage, "it has been done before");
    if (d == BWD && !u->done[FWD]) return wrong(f, stage, "its forward has not been done");
    if (at == end && d == FWD) TX_TRY(hold_slot(f, stage, i));
    if (at != end && !u->taken[d]) return wrong(f, stage, "what it needs has not been received");
    TX_TRY(check_slot(f, stage, i));
    u->done[d] = true;
    f->stage[stage].time += f->cost[d];
    if (d == BWD || f->s->kind == TX_PP_FORWARD) f->stage[stage].slot[i->slot].held = false;
    if (d == FWD) return TX_OK;
    bool last = ++f->ended[at] == f->s->m;
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
    s->start[s->at] = s->time;
    switch (i->op) {
    case TX_PP_RECV_FWD:
        return receive(f, stage, i, FWD, waits);
    case TX_PP_FWD:
        return compute(f, stage, i, FWD);
    case TX_PP_SEND_FWD:
        return send(f, stage, i, FWD);
    case TX_PP_RECV_BWD:
        return receive(f, stage, i, BWD, waits);
    case TX_PP_BWD:
        return compute(f, stage, i, BWD);
    default:
        return send(f, stage, i, BWD);
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
    for (int d = 0; d < 2; d++)
        if (u->arrived[d] >= 0 && !u->taken[d]) return "is sent what nobody takes";
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

/* ---------------------------------------------------------------- the picture */

static int n_digits(int n)
{
    return snprintf(NULL, 0, "%d", n);
}

static tx_status fill(tx_str *out, const char *with, int n)
{
    for (int i = 0; i < n; i++) TX_TRY(tx_str_puts(out, with));
    return TX_OK;
}

/* A column is one unit of time; what takes several is drawn out: B3----. */
static tx_status draw_stage(const simulation *f, int at, tx_str *out)
{
    const lane *s = &f->stage[at];
    int n_chunks = f->s->n_chunks, now = 0;
    int column = 2 + n_digits(f->s->m - 1) + (n_chunks > 1 ? 1 + n_digits(n_chunks - 1) : 0);
    TX_TRY(tx_str_printf(out, "stage %-*d   ", n_digits(f->s->p - 1), at));
    for (int k = 0; k < s->list->n; k++) {
        const tx_pp_instr *i = &s->list->instr[k];
        int d = i->op == TX_PP_FWD ? FWD : BWD;
        if (i->op != TX_PP_FWD && i->op != TX_PP_BWD) continue;
        for (bool begun = now > 0; now < s->start[k]; now++)
            TX_TRY(tx_str_printf(out, "%-*s", column, begun ? ".." : ""));
        size_t from = out->len;
        TX_TRY(tx_str_printf(out, "%c%d", d == FWD ? 'F' : 'B', i->micro));
        if (n_chunks > 1) TX_TRY(tx_str_printf(out, ".%d", i->chunk));
        TX_TRY(fill(out, f->cost[d] > 1 ? "-" : " ", column * f->cost[d] - 1 - (int)(out->len - from)));
        TX_TRY(tx_str_puts(out, " "));
        now += f->cost[d];
    }
    while (out->data[out->len - 1] == ' ') out->data[--out->len] = 0;
    return tx_str_puts(out, "\n");
}

/* ---------------------------------------------------------------- life */

static tx_status begin(simulation *f, const tx_pp_list *lists)
{
    const char *what = "a pipeline's simulation";
    size_t n_virtual = (size_t)f->s->p * (size_t)f->s->n_chunks;
    TX_TRY(tx_alloc(&f->stage, (size_t)f->s->p, sizeof *f->stage, what));
    TX_TRY(tx_alloc(&f->unit, n_virtual * (size_t)f->s->m, sizeof *f->unit, what));
    for (int d = 0; d < 2; d++) {
        TX_TRY(tx_alloc(&f->sent[d], n_virtual, sizeof *f->sent[d], what));
        TX_TRY(tx_alloc(&f->taken[d], n_virtual, sizeof *f->taken[d], what));
    }
    TX_TRY(tx_alloc(&f->ended, n_virtual, sizeof *f->ended, what));
    for (size_t i = 0; i < n_virtual * (size_t)f->s->m; i++) f->unit[i].arrived[FWD] = f->unit[i].arrived[BWD] = -1;
    for (int i = 0; i < f->s->p; i++) {
        f->stage[i].list = &lists[i];
        TX_TRY(tx_alloc(&f->stage[i].start, (size_t)lists[i].n + 1, sizeof *f->stage[i].start, what));
        TX_TRY(tx_alloc(&f->stage[i].slot, (size_t)lists[i].n_slots + 1, sizeof *f->stage[i].slot, what));
    }
    return TX_OK;
}

static void end(simulation *f)
{
    for (int i = 0; i < f->s->p && f->stage; i++) {
        tx_free(f->stage[i].start);
        tx_free(f->stage[i].slot);
    }
    tx_free(f->stage);
    tx_free(f->unit);
    for (int d = 0; d < 2; d++) {
        tx_free(f->sent[d]);
        tx_free(f->taken[d]);
    }
    tx_free(f->ended);
}

tx_status tx_pp_simulate_lists(const tx_pp_shape *shape, const tx_pp_list *lists, int fwd, int bwd, int *makespan,
                               tx_str *picture)
{
    simulation f = { .s = shape, .cost = { fwd, bwd } };
    int longest = 0;
    tx_status st;
    TX_GOTO(begin(&f, lists));
    TX_GOTO(run(&f));
    TX_GOTO(check_end(&f));
    for (int i = 0; i < shape->p; i++) {
        if (f.stage[i].time > longest) longest = f.stage[i].time;
        if (picture) TX_GOTO(draw_stage(&f, i, picture));
    }
    if (makespan) *makespan = longest;
out:
    end(&f);
    return st;
}

tx_status tx_pp_simulate(const tx_pp_shape *shape, int fwd, int bwd, int *makespan, tx_str *picture)
{
    tx_pp_list *lists = NULL;
    tx_status st;
    if (shape->p < 1) return TX_FAIL(TX_ERR_ARG, "a pipeline of %d stages", shape->p);
    TX_GOTO(tx_alloc(&lists, (size_t)shape->p, sizeof *lists, "a pipeline's schedules"));
    for (int i = 0; i < shape->p; i++) TX_GOTO(tx_pp_schedule(&lists[i], shape, i));
    TX_GOTO(tx_pp_simulate_lists(shape, lists, fwd, bwd, makespan, picture));
out:
    for (int i = 0; i < shape->p && lists; i++) tx_pp_list_free(&lists[i]);
    tx_free(lists);
    return st;
}
