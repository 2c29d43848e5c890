/* staging.c - calls on tensors that lie in a device's memory, by way of the host's.
 *
 *      compute stream   ..ops that write x..|start                            ..wait.|..ops that read it..
 *      copy stream                          wait.|x goes down|down    |y goes up|up
 *      the host                                               request, as ever
 *
 *  A request is begun by putting its copy into a stream, and is the kind's (local, remote) when that is done. Until
 * then it stands in its group's row `coming`, and all that are started behind it with it, so that all members give
 * their requests to the kind in one order. Copies need no other rank, so that nobody waits for long. They have the copy
 * stream, because what is in the communication stream may wait for others.
 *
 *  Buffers are pinned and kept for the next request. One is used again before its last copy is done: the next one
 * stands behind it in the same stream. */
#include "base/alloc.h"
#include "comm/comm_state.h"

/* ---- buffers ---- */

static void stage_free(tx_device *d, tx__staged_copy *t)
{
    tx_device_event_free(d, t->down);
    tx_device_event_free(d, t->up);
    tx_device_give_host(d, t->host);
    tx_free(t);
}

static void side_close(tx_device_guest *guest)
{
    tx__side *s = (tx__side *)guest, **at = &s->world->sides;
    tx__flights_close(s); /* first: what waits for others in a stream must not be waited for */
    for (tx__staged_copy *t = s->stages, *next; t; t = next) {
        next = t->next;
        stage_free(s->device, t);
    }
    tx_device_event_free(s->device, s->start);
    tx_device_leave(s->device, guest);
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    tx_free(s);
}

void tx__sides_close(tx_world *w)
{
    while (w->sides) side_close(&w->sides->guest);
}

tx_status tx__side_of(tx__side **out, tx_world *w, tx_device *d)
{
    tx__side *s = w->sides;
    while (s && s->device != d) s = s->next;
    *out = s;
    if (s) return TX_OK;
    TX_TRY(tx_alloc(&s, 1, sizeof *s, "calls on a device's memory"));
    tx_status st = tx_device_event_make(d, &s->start);
    if (st) {
        tx_free(s);
        return st;
    }
    s->guest.leave = side_close;
    s->world = w;
    s->device = d;
    s->next = w->sides;
    w->sides = *out = s;
    tx_device_enter(d, &s->guest);
    return TX_OK;
}

static tx_status stage_new(tx__staged_copy **out, tx__side *s, size_t bytes)
{
    static const char what[] = "calls between ranks on a device's memory";
    tx__staged_copy *t;
    tx_status st;
    TX_TRY(tx_alloc(&t, 1, sizeof *t, what));
    TX_GOTO(tx_device_event_make(s->device, &t->down));
    TX_GOTO(tx_device_event_make(s->device, &t->up));
    TX_GOTO(tx_device_take_host(s->device, &t->host, bytes, what));
    t->bytes = bytes;
    t->next = s->stages;
    s->stages = *out = t;
out:
    if (st) stage_free(s->device, t);
    return st;
}

/* The smallest that is free and large enough. None is given back for a larger one: that would wait for all streams. */
static tx_status stage_for(tx__staged_copy **out, tx__side *s, size_t bytes)
{
    enum { UNIT = 65536 };
    tx__staged_copy *best = NULL;
    for (tx__staged_copy *t = s->stages; t; t = t->next)
        if (!t->used && t->bytes >= bytes && (!best || t->bytes < best->bytes)) best = t;
    if (!best) TX_TRY(stage_new(&best, s, bytes ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT));
    best->used = true;
    *out = best;
    return TX_OK;
}

/* ---- down ---- */

/* Which bytes go down, and where the request finds and leaves its own. */
typedef struct journey {
    void *to;
    const void *from;
    size_t bytes;
} journey;

/* Of an all-to-all, whose rows come behind those that it sends. */
static journey redirect_rows(tx_request *r, const tx_device *d)
{
    size_t size = tx__size_of(r->dtype), sent = (size_t)r->n * size;
    unsigned char *all = r->stage->host;
    void *x = r->x, *y = r->y;
    bool dx = tx_device_owns(d, x), dy = tx_device_owns(d, y);
    r->back_bytes = (size_t)tx__elements(r, r->recv_rows, r->g->size) * size;
    if (dx) r->x = all;
    if (dy) r->y = all + sent;
    if (dy && r->back_bytes) {
        r->back = y;
        r->back_from = r->y;
    }
    return dx ? (journey){ all, x, sent } : (journey){ 0 };
}

/* x and y, each of the device's memory or not, become those of the buffer. */
static journey redirect(tx_request *r, const tx_device *d)
{
    tx_comm *g = r->g;
    size_t part = (size_t)r->n * tx__size_of(r->dtype), whole = part * (size_t)g->size;
    unsigned char *all = r->stage->host, *own = all + part * (size_t)g->rank;
    void *x = r->x, *y = r->y;
    bool dx = tx_device_owns(d, x), dy = tx_device_owns(d, y);
    bool scatters = r->how == TX__REDUCE_SCATTER, gathers = r->how == TX__ALL_GATHER;
    bool gives = r->how != TX__RECV && (r->how != TX__BROADCAST || r->peer == g->rank);
    bool takes = r->how == TX__ALL_REDUCE || r->how == TX__RECV || (r->how == TX__BROADCAST && !gives);
    if (dx) r->x = gathers ? own : all;
    if (dy) r->y = gathers ? all : own;
    if (takes || dy) {
        r->back = takes ? x : y;
        r->back_from = scatters ? own : all;
        r->back_bytes = gathers ? whole : part;
    }
    if (!dx || !gives) return (journey){ 0 };
    return (journey){ r->x, x, scatters ? whole : part };
}

static tx_status begin(tx__side *s, tx_request *r)
{
    tx_device *d = s->device;
    size_t part = (size_t)r->n * tx__size_of(r->dtype);
    bool parts = r->how == TX__REDUCE_SCATTER || r->how == TX__ALL_GATHER, rows = r->how == TX__ALL_TO_ALL;
    size_t got = rows ? (size_t)tx__elements(r, r->recv_rows, r->g->size) * tx__size_of(r->dtype) : 0;
    TX_TRY(stage_for(&r->stage, s, parts ? part * (size_t)r->g->size : part + got));
    journey down = rows ? redirect_rows(r, d) : redirect(r, d);
    /* also of what only goes up: ops that read the tensor's old values stand before it */
    TX_TRY(tx_device_record(d, s->start, TX_STREAM_COMPUTE));
    TX_TRY(tx_device_stream_wait(d, TX_STREAM_COPY, s->start));
    if (down.bytes) TX_TRY(tx_device_copy(d, TX_STREAM_COPY, down.to, down.from, down.bytes));
    return tx_device_record(d, r->stage->down, TX_STREAM_COPY);
}

tx_status tx__stage_begin(tx_ctx *c, tx_request *r)
{
    tx__side *s;
    tx_world *w = r->g->world;
    TX_TRY(tx__side_of(&s, w, c->device));
    tx_status st = begin(s, r);
    if (st && r->stage) r->stage->used = false;
    if (st) return st;
    r->device = c->device;
    r->next_device = w->on_device;
    w->on_device = r;
    return TX_OK;
}

tx_status tx__coming_progress(tx_comm *g)
{
    for (tx_request *r; (r = g->coming.head);) {
        bool come = true;
        if (r->stage) TX_TRY(tx_device_event_done(r->device, r->stage->down, &come));
        if (!come) return TX_OK;
        tx__remove(&g->coming, r);
        g->kind->start(g, r);
        g->world->moves++;
    }
    return TX_OK;
}

/* ---- up ---- */

static tx_status land(tx_request *r)
{
    r->landed = true;
    if (!r->back) return TX_OK;
    r->g->world->moves++;
    TX_TRY(tx_device_copy(r->device, TX_STREAM_COPY, r->back, r->back_from, r->back_bytes));
    return tx_device_record(r->device, r->stage->up, TX_STREAM_COPY);
}

tx_status tx__landing_progress(tx_world *w)
{
    for (tx_request *r = w->on_device; r; r = r->next_device)
        if (r->finished && !r->landed) TX_TRY(land(r));
    return TX_OK;
}

tx_status tx__stage_end(tx_request *r)
{
    tx_request **at = &r->g->world->on_device;
    while (*at != r) at = &(*at)->next_device;
    *at = r->next_device;
    if (!r->finished) return TX_OK;
    if (!r->landed) TX_TRY(land(r));
    if (r->back) TX_TRY(tx_device_stream_wait(r->device, TX_STREAM_COMPUTE, r->stage->up));
    r->stage->used = false;
    return TX_OK;
}
