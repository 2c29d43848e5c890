/* device.c - the calls, and what they are on the host. */
#include "base/device.h"

#include <sched.h>
#include <string.h>

#include "base/alloc.h"
#include "base/shared.h"

static tx_status named(tx_status st, const char *what)
{
    return st ? tx_fail_prefix(st, "%s", what) : TX_OK;
}

/* A pointer of any type through one of void's. */
static tx_status give_out(void *out, void *p)
{
    memcpy(out, &p, sizeof p);
    return TX_OK;
}

tx_status tx_device_take(tx_device *d, void *out, size_t bytes, bool shared, const char *what)
{
    void *p = NULL;
    if (!d) return shared ? tx_shared_alloc(out, bytes, what) : tx_alloc(out, bytes, 1, what);
    if (bytes) TX_TRY(named(d->call->take(d, &p, bytes), what));
    return give_out(out, p);
}

void tx_device_give(tx_device *d, void *p)
{
    if (!d)
        tx_shared_free(p); /* either kind's */
    else if (p)
        d->call->give(d, p);
}

tx_status tx_device_take_host(tx_device *d, void *out, size_t bytes, const char *what)
{
    void *p = NULL;
    if (!d) return tx_alloc(out, bytes, 1, what);
    if (bytes) TX_TRY(named(d->call->take_host(d, &p, bytes), what));
    return give_out(out, p);
}

void tx_device_give_host(tx_device *d, void *p)
{
    if (!d)
        tx_free(p);
    else if (p)
        d->call->give_host(d, p);
}

tx_status tx_device_memory(tx_device *d, size_t *free_bytes, size_t *all_bytes)
{
    *free_bytes = *all_bytes = 0;
    return d ? d->call->memory(d, free_bytes, all_bytes) : TX_OK;
}

bool tx_device_owns(const tx_device *d, const void *p)
{
    return d && p && d->call->owns(d, p);
}

tx_status tx_device_copy(tx_device *d, tx_stream s, void *to, const void *from, size_t bytes)
{
    if (!bytes) return TX_OK;
    if (d) return d->call->copy(d, s, to, from, bytes);
    memcpy(to, from, bytes);
    return TX_OK;
}

tx_status tx_device_read(tx_device *d, void *host, const void *from, size_t bytes)
{
    TX_TRY(tx_device_copy(d, TX_STREAM_COMPUTE, host, from, bytes));
    return tx_device_sync(d, TX_STREAM_COMPUTE);
}

tx_status tx_device_write(tx_device *d, void *to, const void *host, size_t bytes)
{
    return tx_device_read(d, to, host, bytes);
}

static tx_device_guest *watcher(const tx_device *d)
{
    tx_device_guest *g = d->guests;
    while (g && !g->watch) g = g->next;
    return g;
}

/* Until it is done, with all guests looking on. */
static tx_status watch_until(tx_device *d, tx_event *e)
{
    for (bool done = false;;) {
        TX_TRY(d->call->event_done(d, e, &done));
        for (tx_device_guest *g = d->guests; g; g = g->next)
            if (g->watch) TX_TRY(g->watch(g)); /* also of what has ended without a result */
        if (done) return TX_OK;
        sched_yield();
    }
}

tx_status tx_device_sync(tx_device *d, tx_stream s)
{
    if (!d) return TX_OK;
    tx_device_guest *g = watcher(d);
    if (g) {
        TX_TRY(d->call->record(d, g->mark, s));
        TX_TRY(watch_until(d, g->mark));
    }
    return d->call->sync(d, s);
}

tx_status tx_device_event_make(tx_device *d, tx_event **out)
{
    *out = NULL;
    return d ? d->call->event_make(d, out) : TX_OK;
}

void tx_device_event_free(tx_device *d, tx_event *e)
{
    if (e) d->call->event_free(d, e);
}

tx_status tx_device_record(tx_device *d, tx_event *e, tx_stream s)
{
    return d ? d->call->record(d, e, s) : TX_OK;
}

tx_status tx_device_stream_wait(tx_device *d, tx_stream s, tx_event *e)
{
    return d ? d->call->stream_wait(d, s, e) : TX_OK;
}

tx_status tx_device_event_wait(tx_device *d, tx_event *e)
{
    if (!d) return TX_OK;
    return watcher(d) ? watch_until(d, e) : d->call->event_wait(d, e);
}

tx_status tx_device_event_done(tx_device *d, tx_event *e, bool *done)
{
    *done = true;
    return d ? d->call->event_done(d, e, done) : TX_OK;
}

tx_status tx_device_graph_begin(tx_device *d)
{
    return d ? d->call->graph_begin(d) : TX_OK;
}

tx_status tx_device_graph_end(tx_device *d, tx_graph **out)
{
    *out = NULL;
    return d ? d->call->graph_end(d, out) : TX_OK;
}

tx_status tx_device_graph_run(tx_device *d, tx_graph *g)
{
    return d->call->graph_run(d, g);
}

void tx_device_graph_free(tx_device *d, tx_graph *g)
{
    if (g) d->call->graph_free(d, g);
}

void tx_device_enter(tx_device *d, tx_device_guest *g)
{
    g->next = d->guests;
    d->guests = g;
}

void tx_device_leave(tx_device *d, tx_device_guest *g)
{
    tx_device_guest **at = &d->guests;
    while (*at != g) at = &(*at)->next;
    *at = g->next;
}

void tx_device_dismiss(tx_device *d)
{
    while (d && d->guests) d->guests->leave(d->guests);
}
