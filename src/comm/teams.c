/* teams.c - calls between GPUs by the vendor's library, in groups whose members have one each.
 *
 *      compute stream   ..ops that write x..|start                                   ..wait.|..ops that read it..
 *      comm stream                          wait.|a team's call: waits for other ranks|done
 *
 *  The host waits for none of it. Who waits elsewhere, for another rank or for the device, looks on meanwhile
 * (tx__teams_watch): a call that never ends is ended here when it takes too long, when the library reports an error, or
 * when another rank has ended the job. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/gpu_collectives.h"
#include "backend/gpu_module.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/comm_state.h"

/* What a rank tells the others of its GPU. */
typedef struct tx__team_card {
    int device;    /* its number, -1: none */
    char bus[16];  /* "" where there is none: the number tells it from others */
    int told;      /* TX_GPU_COMM */
    bool library;  /* there is one that can be used */
    char why[256]; /* if not */
} tx__team_card;

enum { BY_ITSELF, STAGED, TEAMS };

/* ---- on its way ---- */

/* Those that are done and awaited can be used again. */
static tx_status retire(tx__side *s)
{
    for (tx__flight **at = &s->flights, *f; (f = *at);) {
        bool done;
        TX_TRY(tx_device_event_done(s->device, f->done, &done));
        if (!done) return TX_OK;
        if (!f->awaited) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        f->next = s->idle;
        s->idle = f;
    }
    return TX_OK;
}

static tx_status flight_for(tx__flight **out, tx__side *s)
{
    tx__flight *f = s->idle;
    if (f) {
        s->idle = f->next;
    } else {
        TX_TRY(tx_alloc(&f, 1, sizeof *f, "calls between GPUs"));
        tx_status st = tx_device_event_make(s->device, &f->done);
        if (st) tx_free(f);
        if (st) return st;
    }
    f->next = NULL;
    f->awaited = false;
    *out = f;
    return TX_OK;
}

/* The first of the group's that is not done, NULL: all are.   @g NULL: of all groups' */
static tx_status first_of(tx__flight **out, tx__side *s, const tx_comm *g)
{
    tx__flight *f = s->flights;
    for (bool done = true; f; f = f->next) {
        if (g && f->r.g != g) continue;
        TX_TRY(tx_device_event_done(s->device, f->done, &done));
        if (!done) break;
    }
    *out = f;
    return TX_OK;
}

/* ---- looking on ---- */

/* Ends all teams on the device, and with them what waits in its stream. */
static tx_status give_up(tx__side *s, tx_status st)
{
    tx_world *w = s->world;
    tx__job_end(w, tx_last_error());
    for (tx_comm *g = w->groups; g; g = g->next) {
        if (!g->team || g->team_side != s) continue;
        w->collectives->abort(g->team);
        g->team = NULL;
    }
    return st;
}

static tx_status too_late(const tx__side *s, const tx__flight *f)
{
    char what[160] = "a call of a group that has been closed";
    if (f->r.g) tx__request_describe(what, sizeof what, &f->r);
    return TX_FAIL(TX_ERR_COMM,
                   "%s is not done on the GPU of rank %d within %g s: another rank has not come to it, or has come to "
                   "another call. NCCL_DEBUG=INFO shows what the library did",
                   what, s->world->rank, s->world->timeout);
}

static tx_status look(tx__side *s, double step)
{
    tx_world *w = s->world;
    tx__flight *first;
    bool done;
    TX_TRY(retire(s));
    for (tx_comm *g = w->groups; g; g = g->next)
        if (g->team && g->team_side == s) TX_TRY(w->collectives->settled(g->team, &done));
    TX_TRY(first_of(&first, s, NULL));
    s->waited = first == s->first ? s->waited + (step < 1 ? step : 1) : 0;
    s->first = first;
    if (!first) return TX_OK;
    TX_TRY(tx__job_check(w));
    return w->timeout > 0 && s->waited > w->timeout ? too_late(s, first) : TX_OK;
}

tx_status tx__teams_watch(tx_world *w)
{
    const double often = 0.005; /* seconds */
    tx__side *s = w->team_side;
    double now = tx_clock(), step = now - s->looked;
    if (step < often) return TX_OK;
    s->looked = now;
    tx_status st = look(s, step);
    return st ? give_up(s, st) : TX_OK;
}

/* While the host waits for the device. What it waits for may need another rank, which may wait for what this one has
 * under way by way of the host. */
static tx_status watch(tx_device_guest *guest)
{
    return tx__progress(((tx__side *)guest)->world);
}

/* What the library does by itself before more may be called. */
static tx_status settle(tx_comm *g, const char *what)
{
    tx_world *w = g->world;
    double last = tx_clock(), waited = 0;
    for (bool done = false;;) {
        TX_TRY(w->collectives->settled(g->team, &done));
        if (done) return TX_OK;
        TX_TRY(tx__job_check(w));
        double now = tx_clock();
        waited += now - last < 1 ? now - last : 1;
        last = now;
        if (w->timeout > 0 && waited > w->timeout)
            return TX_FAIL(TX_ERR_COMM,
                           "the GPUs of the %s group have not found each other for %s within %g s: NCCL_DEBUG=INFO "
                           "shows what the library waits for",
                           g->name, what, w->timeout);
        sched_yield();
    }
}

/* ---- calls ---- */

bool tx__flies(const tx_ctx *c, const tx_request *r)
{
    const tx_comm *g = r->g;
    if (!c || !g->team || g->team_side->device != c->device || r->how == TX__SEND || r->how == TX__RECV) return false;
    if (r->how == TX__ALL_TO_ALL) return tx_device_owns(c->device, r->x) && tx_device_owns(c->device, r->y);
    if (!r->n) return true; /* nothing lies anywhere; the host does not wait for that, either */
    return tx_device_owns(c->device, r->x) && (!r->y || tx_device_owns(c->device, r->y));
}

static tx_status all_to_all(const tx_request *r)
{
    const tx_gpu_rows rows = { r->y, r->x, r->send_rows, r->recv_rows, r->width, r->g->size };
    return r->g->world->collectives->all_to_all(r->g->team, &rows, (tx_dtype)r->dtype);
}

static tx_status call(const tx_request *r)
{
    static const int reduce[] = {
        [TX_SUM] = TX_GPU_REDUCE_SUM, [TX_MAX] = TX_GPU_REDUCE_MAX, [TX_MIN] = TX_GPU_REDUCE_MIN
    };
    const tx_gpu_collectives *by = r->g->world->collectives;
    tx_gpu_team *t = r->g->team;
    switch (r->how) {
    case TX__ALL_REDUCE:
        return by->all_reduce(t, r->x, r->n, (tx_dtype)r->dtype, reduce[r->reduce]);
    case TX__REDUCE_SCATTER:
        return by->reduce_scatter(t, r->y, r->x, r->n, (tx_dtype)r->dtype);
    case TX__ALL_GATHER:
        return by->all_gather(t, r->y, r->x, r->n, (tx_dtype)r->dtype);
    case TX__ALL_TO_ALL:
        return all_to_all(r);
    default:
        return by->broadcast(t, r->x, r->n, (tx_dtype)r->dtype, r->peer);
    }
}

static tx_status fly(tx__side *s, const tx_request *r, tx__flight *f)
{
    TX_TRY(tx_device_record(s->device, s->start, TX_STREAM_COMPUTE));
    TX_TRY(tx_device_stream_wait(s->device, TX_STREAM_COMM, s->start));
    TX_TRY(call(r));
    TX_TRY(settle(r->g, tx__call_names[r->what]));
    return tx_device_record(s->device, f->done, TX_STREAM_COMM);
}

tx_status tx__flight_begin(tx_request *r)
{
    tx__side *s = r->g->team_side;
    tx__flight *f, **at = &s->flights;
    r->finished = true; /* the host has no more to do */
    if (!r->n && r->how != TX__ALL_TO_ALL) return TX_OK;
    TX_TRY(retire(s));
    TX_TRY(flight_for(&f, s));
    tx_status st = fly(s, r, f);
    if (st) {
        f->next = s->idle;
        s->idle = f;
        return give_up(s, st);
    }
    f->r = *r;
    while (*at) at = &(*at)->next;
    *at = f;
    r->device = s->device;
    r->flight = f;
    return TX_OK;
}

tx_status tx__flight_end(tx_request *r)
{
    r->flight->awaited = true;
    return tx_device_stream_wait(r->device, TX_STREAM_COMPUTE, r->flight->done);
}

/* ---- which groups have one ---- */

static tx_status told(int *out)
{
    const char *way = getenv("TX_GPU_COMM");
    *out = BY_ITSELF;
    if (!way || !*way) return TX_OK;
    if (!strcmp(way, "staged")) *out = STAGED;
    if (!strcmp(way, "nccl") || !strcmp(way, "rccl")) *out = TEAMS;
    if (*out == BY_ITSELF) return TX_FAIL(TX_ERR_ARG, "TX_GPU_COMM is \"%s\": it can be nccl, rccl or staged", way);
    return TX_OK;
}

static void fill_card(tx__team_card *card, const tx_device *d, const tx_gpu_collectives **by)
{
    const tx_gpu_module *module;
    char name[64];
    memcpy(card->bus, d->bus, sizeof card->bus);
    card->device = d->number;
    if (tx_gpu_module_get(&module) || !module->collectives) {
        snprintf(card->why, sizeof card->why, "the module for GPUs was built without a library for it");
        return;
    }
    *by = module->collectives;
    card->library = !(*by)->library(name, sizeof name);
    if (!card->library) snprintf(card->why, sizeof card->why, "%s", tx_last_error());
}

static bool same_gpu(const tx_world *w, int a, int b)
{
    const tx__team_card *x = &w->cards[a], *y = &w->cards[b];
    if (strcmp(w->seats[a].host_name, w->seats[b].host_name) != 0 || strcmp(x->bus, y->bus) != 0) return false;
    return x->bus[0] || x->device == y->device;
}

/* The same in all members. If not, why. */
static bool can_have_team(const tx_comm *g, char *why, size_t cap)
{
    const tx_world *w = g->world;
    for (int i = 0; i < g->size; i++) {
        int a = g->world_rank[i];
        const tx__team_card *card = &w->cards[a];
        snprintf(why, cap, "rank %d: %s", a, card->device < 0 ? "it has no GPU" : card->why);
        if (card->device < 0 || !card->library) return false;
        for (int k = 0; k < i; k++) {
            int b = g->world_rank[k];
            snprintf(why, cap, "ranks %d and %d share GPU %d of %s", b, a, card->device, w->seats[a].host_name);
            if (same_gpu(w, a, b)) return false;
        }
    }
    return true;
}

static tx_status open_team(tx_comm *g)
{
    tx_world *w = g->world;
    unsigned char id[TX_GPU_ID_BYTES] = { 0 };
    tx_status st = g->rank ? TX_OK : w->collectives->id(id);
    TX_TRY(tx_comm_agree(g, st));
    TX_TRY(tx_comm_spread(g, id, sizeof id, 0));
    TX_TRY(w->collectives->open(&g->team, w->team_side->device, id, g->size, g->rank));
    g->team_side = w->team_side;
    return settle(g, "the first time");
}

tx_status tx__team_open(tx_comm *g)
{
    tx_world *w = g->world;
    char why[512];
    int way = w->cards[g->world_rank[0]].told;
    if (way == STAGED) return TX_OK;
    if (!can_have_team(g, why, sizeof why)) {
        if (way == TEAMS)
            return TX_FAIL(TX_ERR_UNSUPPORTED,
                           "TX_GPU_COMM asks for it, but the %s group cannot go from GPU to GPU: %s", g->name, why);
        tx_info("calls of the %s group go by way of the host's memory: %s", g->name, why);
        return TX_OK;
    }
    tx_status st = open_team(g);
    return st ? give_up(w->team_side, st) : TX_OK;
}

bool tx_comm_has_team(const tx_comm *g)
{
    return g->team;
}

/* In the order in which all ranks have made their groups; w->groups has the last one first. */
static tx_status open_all(tx_world *w)
{
    tx_comm **all = NULL;
    int n = 0, i = 0;
    for (tx_comm *g = w->groups; g; g = g->next) n++;
    TX_TRY(tx_alloc(&all, (size_t)n, sizeof *all, "the groups of GPUs"));
    for (tx_comm *g = w->groups; g; g = g->next) all[n - ++i] = g;
    tx_status st = TX_OK;
    for (i = 0; i < n && !st; i++)
        if (all[i]->size > 1 && !all[i]->team) st = tx__team_open(all[i]);
    tx_free(all);
    return st;
}

static tx_status deal_cards(tx_world *w, const tx_device *d)
{
    tx__team_card mine = { .device = -1 };
    tx_status st = told(&mine.told);
    if (!st && !w->cards) st = tx_alloc(&w->cards, (size_t)w->size, sizeof *w->cards, "the ranks' GPUs");
    TX_TRY(tx_comm_agree(w->all, st));
    if (d) fill_card(&mine, d, &w->collectives);
    TX_TRY(tx_comm_gather(w->all, w->cards, &mine, sizeof mine));
    for (int i = 1; i < w->size; i++)
        if (w->cards[i].told != w->cards[0].told)
            return TX_FAIL(TX_ERR_ARG, "TX_GPU_COMM is not the same for ranks 0 and %d", i);
    return TX_OK;
}

tx_status tx_world_use_device(tx_world *w, tx_device *d)
{
    tx__side *s;
    if (w->size == 1) return TX_OK;
    TX_TRY(deal_cards(w, d));
    if (!d) return TX_OK;
    TX_TRY(tx__side_of(&s, w, d));
    if (!s->guest.watch) {
        TX_TRY(tx_device_event_make(d, &s->guest.mark));
        s->guest.watch = watch;
    }
    s->looked = tx_clock();
    w->team_side = s;
    return open_all(w);
}

/* ---- the end ---- */

/* Whether nothing is on its way that other ranks may never come to. */
static bool at_rest(tx__side *s, const tx_comm *g)
{
    const tx_world *w = s->world;
    tx__flight *first = NULL;
    return !(w->job && atomic_load(&w->job->ended_by)) && !first_of(&first, s, g) && !first;
}

void tx__team_close(tx_comm *g)
{
    tx__side *s = g->team_side;
    if (at_rest(s, g)) {
        g->world->collectives->close(g->team);
    } else { /* a rank that has failed: it says so before the others notice */
        tx__job_end(g->world, tx_last_error());
        g->world->collectives->abort(g->team);
    }
    g->team = NULL;
    for (tx__flight *f = s->flights; f; f = f->next)
        if (f->r.g == g) f->r.g = NULL;
}

static void free_flights(tx_device *d, tx__flight *f)
{
    for (tx__flight *next; f; f = next) {
        next = f->next;
        tx_device_event_free(d, f->done);
        tx_free(f);
    }
}

void tx__flights_close(tx__side *s)
{
    for (tx_comm *g = s->world->groups; g; g = g->next)
        if (g->team && g->team_side == s) tx__team_close(g);
    free_flights(s->device, s->flights);
    free_flights(s->device, s->idle);
    s->flights = s->idle = NULL;
    tx_device_event_free(s->device, s->guest.mark);
    if (s->world->team_side == s) s->world->team_side = NULL;
}
