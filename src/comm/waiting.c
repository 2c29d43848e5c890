/* waiting.c - how a request starts, and the loop in which a rank waits for others. Everything that any of its groups
 * has under way moves on in it: another rank may need that before it comes to what this one waits for. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "comm/comm_state.h"

/* Turns of the loop: at first without giving up the core, because what is waited for usually comes within a
 * microsecond; then the core is offered to others each time; at last it sleeps. Where ranks are more than processors it
 * sleeps soon: those who wait would only hand the processors round among themselves. */
enum { SPINS = 200, YIELDS = 5000, CROWDED_SPINS = 20, CROWDED_YIELDS = 4, NAP_NS = 50000 };

/* Whether all that is under way is changed by ranks of this host, who wake those they change something for. Another
 * host's messages and a device's copies are only found by looking. */
static bool will_be_woken(const tx_world *w)
{
    if (!w->job || w->on_device || w->team_side) return false;
    for (const tx_comm *g = w->groups; g; g = g->next) {
        if ((g->coming.head || tx__is_busy(g)) && g->kind != &tx__local_kind) return false;
    }
    return true;
}

static tx_status pause_for(int64_t turn, tx_world *w, const tx_request *r)
{
    int64_t spins = w->crowded ? CROWDED_SPINS : SPINS;
    if (turn < spins) return TX_OK;
    if (turn < spins + (w->crowded ? CROWDED_YIELDS : YIELDS))
        sched_yield();
    else if (will_be_woken(w))
        return tx__sleep(w, r);
    else
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    return TX_OK;
}

/* Whether it moves what the host cannot read. */
static bool on_device(const tx_ctx *c, const tx_request *r)
{
    return c && (r->n || r->how == TX__ALL_TO_ALL) &&
           (tx_device_owns(c->device, r->x) || tx_device_owns(c->device, r->y));
}

tx_status tx__start(tx_ctx *c, tx_comm *g, tx_request *r)
{
    TX_ASSERT(g->kind); /* a plan has dry runs only */
    r->g = g;
    r->call = g->n_calls[r->what]++;
    r->n_threads = c ? c->n_threads : 1;
    r->layer = c ? c->at.layer : 0;
    r->backward = c && c->at.backward;
    r->slot = -1;
    tx__presence_start(g->world, r);
    bool flies = tx__flies(c, r);
    tx_status st = flies ? tx__flight_begin(r) : on_device(c, r) ? tx__stage_begin(c, r) : TX_OK;
    if (!st && flies) return TX_OK;
    if (st)
        *r = (tx_request){ 0 };
    else if (r->stage || g->coming.head)
        tx__push(&g->coming, r);
    else
        g->kind->start(g, r);
    return st;
}

tx_status tx__progress(tx_world *w)
{
    for (tx_comm *g = w->groups; g; g = g->next) {
        if (g->coming.head) TX_TRY(tx__coming_progress(g));
        if (g->kind && tx__is_busy(g)) TX_TRY(g->kind->progress(g));
    }
    if (w->on_device) TX_TRY(tx__landing_progress(w));
    return w->team_side ? tx__teams_watch(w) : TX_OK;
}

/* ---- after too long a time ---- */

static tx_status list_ranks(tx_str *s, const tx_comm *g, const bool *absent, int n)
{
    TX_TRY(tx_str_printf(s, n == 1 ? "rank" : "ranks"));
    for (int i = 0, seen = 0; i < g->size; i++)
        if (absent[i]) {
            TX_TRY(tx_str_printf(s, "%s %d", !seen ? "" : seen == n - 1 ? " and" : ",", tx_comm_world_rank(g, i)));
            seen++;
        }
    return TX_OK;
}

/* What the ranks that are waited for have not done. */
static const char *verb(const tx_request *r, int n)
{
    if (r->how == TX__RECV) return "has not sent what is waited for in";
    if (r->how == TX__SEND) return "has not taken";
    if (r->published && r->worked == r->n_chunks) return n == 1 ? "has not finished" : "have not finished";
    return n == 1 ? "has not reached" : "have not reached";
}

static tx_status accuse(tx_str *s, tx_world *w, const tx_request *r, const bool *absent)
{
    const tx_comm *g = r->g;
    char text[256];
    int n = 0, told = 0;
    for (int i = 0; i < g->size; i++) n += absent[i];
    TX_TRY(list_ranks(s, g, absent, n));
    tx__request_describe(text, sizeof text, r);
    TX_TRY(tx_str_printf(s, " %s %s within %g s; ", verb(r, n), text, w->timeout));
    for (int i = 0; i < g->size && told < 8; i++) {
        int rank = tx_comm_world_rank(g, i);
        if (!absent[i]) continue;
        tx__presence_describe(text, sizeof text, w, rank);
        const char *seen = tx__local_rank(w, rank) < 0 ? " is" : " was last seen";
        TX_TRY(tx_str_printf(s, "%srank %d%s %s", told ? ", " : "", rank, told ? "" : seen, text));
        told++;
    }
    return n > told ? tx_str_printf(s, ", ...") : TX_OK;
}

/* Whether its own rank has not come to it. */
static bool is_coming(const tx_request *r)
{
    const tx_request *q = r->g->coming.head;
    while (q && q != r) q = q->next;
    return q;
}

/* The call that others have not come to: the first of its group that is under way. */
static const tx_request *accused_of(const tx_request *waited_for)
{
    if (waited_for->how == TX__SEND || waited_for->how == TX__RECV) return waited_for;
    const tx_comm *g = waited_for->g;
    const tx_request *first = waited_for->by_hosts ? g->by_hosts.head : g->collectives.head;
    return first ? first : waited_for;
}

/* No rank is: this one's own device does not come to what it is to send. */
static tx_status device_late(tx_world *w, const tx_request *r)
{
    char text[256];
    tx__request_describe(text, sizeof text, r);
    tx_status st = TX_FAIL(TX_ERR_COMM, "the device of rank %d has not finished what %s waits for within %g s", w->rank,
                           text, w->timeout);
    return tx__job_end(w, tx_last_error()) ? st : tx__job_check(w);
}

static tx_status late(tx_world *w, const tx_request *waited_for)
{
    tx_comm *g = waited_for->g;
    const tx_request *r = accused_of(waited_for);
    bool *absent = NULL;
    tx_str s = { 0 };
    tx_status st;
    if (is_coming(r)) return device_late(w, r);
    TX_GOTO(tx_alloc(&absent, (size_t)g->size, sizeof *absent, "the ranks that are waited for"));
    g->kind->absent(g, r, absent);
    TX_GOTO(accuse(&s, w, r, absent));
    st = tx__job_end(w, s.data) ? TX_FAIL(TX_ERR_COMM, "%s", s.data) : tx__job_check(w);
out:
    tx_str_free(&s);
    tx_free(absent);
    return st;
}

/* ---- the loop ---- */

/* Time that a rank has waited. A rank that was stopped itself (with the whole job, say) has not waited meanwhile. */
typedef struct stopwatch {
    double last, waited;
    double looked; /* when it was last looked at who else waits */
} stopwatch;

static double waited(stopwatch *s)
{
    double now = tx_clock(), step = now - s->last;
    s->waited += step < 1 ? step : 1;
    s->last = now;
    return s->waited;
}

/* Ranks that wait for the same one notice together. The lowest of a host tells it, and the first host; the others leave
 * them the time to. */
static bool time_is_up(tx_world *w, stopwatch *s)
{
    tx__presence_still(w);
    double over = waited(s) - w->timeout, first = 0.3 * w->seats[w->rank].host;
    if (first > 5) first = 5;
    if (!(w->timeout > 0) || over < first) return false;
    return over > first + 1 || !tx__lower_rank_waits(w, s->last - 0.8 * w->timeout);
}

/* Whether all who are late wait for others themselves: those others are the cause, and whoever waits for them says so.
 * Not for ever: ranks may wait for each other in a circle. */
static bool others_know(tx_world *w, const tx_request *waited_for, stopwatch *s)
{
    enum { PATIENCE = 5 };
    tx_comm *g = waited_for->g;
    bool *absent, all = true;
    const tx_request *r = accused_of(waited_for);
    if (is_coming(r) || s->waited > w->timeout + PATIENCE) return false;
    if (s->last - s->looked < 0.2) return true;
    s->looked = s->last;
    if (tx_alloc(&absent, (size_t)g->size, sizeof *absent, "the ranks that are waited for")) return false;
    g->kind->absent(g, r, absent);
    for (int i = 0; i < g->size; i++) {
        int rank = tx_comm_world_rank(g, i);
        bool far = r->by_hosts && tx__local_rank(w, rank) < 0; /* it hands on what its host has come to */
        all = all && (!absent[i] || far || tx__presence_waits(w, rank));
    }
    tx_free(absent);
    return all;
}

/* A turn for the profile: others are waited for when nothing of one's own was there to do. */
typedef struct turn_timer {
    double last;
    int64_t moves;
} turn_timer;

static void time_turn(tx_world *w, turn_timer *t)
{
    if (!w->profiled) return;
    double now = tx_clock();
    if (w->moves == t->moves) w->idle += now - t->last;
    *t = (turn_timer){ now, w->moves };
}

static tx_status loop(tx_world *w, tx_request *r)
{
    stopwatch s = { .last = tx_clock() };
    turn_timer timer = { s.last, w->moves };
    for (int64_t turn = 0; !r->finished; turn++) {
        TX_TRY(tx__progress(w));
        time_turn(w, &timer);
        if (r->finished) break;
        TX_TRY(tx__job_check(w));
        if (turn > SPINS && time_is_up(w, &s) && !others_know(w, r, &s)) return late(w, r);
        TX_TRY(pause_for(turn, w, r));
    }
    return TX_OK;
}

tx_status tx__wait_for(tx_request *r)
{
    tx_world *w = r->g->world;
    TX_TRY(tx__progress(w));
    if (r->finished) return TX_OK;
    tx__presence_wait(w, r);
    tx_status st = loop(w, r);
    tx__presence_wait(w, NULL);
    return st;
}
