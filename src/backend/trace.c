/* trace.c - the events of a dry run. */
#include "backend/trace.h"

#include "base/alloc.h"

static bool traces(const tx_ctx *c)
{
    return c && c->dry && c->trace;
}

static tx_status append(tx_ctx *c, tx_trace_event e)
{
    tx_trace *t = c->trace;
    if (t->n == t->cap) {
        int64_t cap = t->cap ? 2 * t->cap : 1024;
        TX_TRY(tx_realloc(&t->event, (size_t)cap, sizeof *t->event, "the trace of a step"));
        t->cap = cap;
    }
    e.what = c->at.part ? c->at.part : "";
    e.backward = c->at.backward;
    t->event[t->n++] = e;
    return TX_OK;
}

static tx_status open_request(tx_ctx *c, const void *at, int *number)
{
    tx_trace *t = c->trace;
    if (t->n_open == t->cap_open) {
        int cap = t->cap_open ? 2 * t->cap_open : 16;
        TX_TRY(tx_realloc(&t->open, (size_t)cap, sizeof *t->open, "the trace of a step"));
        t->cap_open = cap;
    }
    *number = t->n_requests++;
    t->open[t->n_open++] = (tx_trace_request){ at, *number };
    return TX_OK;
}

tx_status tx_trace_op(tx_ctx *c, const char *op, const tx_cost *cost)
{
    if (!traces(c)) return TX_OK;
    tx_trace_event e = { .kind = TX_TRACE_OP, .op = op, .cost = *cost };
    e.cost.shape.data = NULL;
    return append(c, e);
}

tx_status tx_trace_call(tx_ctx *c, const char *op, const void *group, double bytes, const void *request)
{
    tx_trace_event e = {
        .kind = TX_TRACE_CALL, .op = op, .cost = { .kind = TX_COST_MESSAGES, .bytes = bytes }, .group = group
    };
    if (!traces(c)) return TX_OK;
    TX_TRY(open_request(c, request, &e.request));
    return append(c, e);
}

tx_status tx_trace_wait(tx_ctx *c, const void *request)
{
    if (!traces(c)) return TX_OK;
    for (int i = c->trace->n_open - 1; i >= 0; i--) {
        tx_trace_request *r = &c->trace->open[i];
        if (r->at != request) continue;
        int number = r->number;
        *r = c->trace->open[--c->trace->n_open];
        return append(c, (tx_trace_event){ .kind = TX_TRACE_WAIT, .op = "wait", .request = number });
    }
    return TX_OK;
}

tx_status tx_trace_copy(tx_ctx *c, const char *op, double bytes, const void *request)
{
    tx_trace_event e = { .kind = TX_TRACE_COPY, .op = op, .cost = { .kind = TX_COST_MESSAGES, .bytes = bytes } };
    if (!traces(c)) return TX_OK;
    TX_TRY(open_request(c, request, &e.request));
    return append(c, e);
}

tx_status tx_trace_mark(tx_ctx *c, tx_step_part part, int micro, int chunk, bool last)
{
    if (!traces(c)) return TX_OK;
    return append(c, (tx_trace_event){
                         .kind = TX_TRACE_MARK, .op = "", .part = part, .micro = micro, .chunk = chunk, .last = last });
}

void tx_trace_free(tx_trace *t)
{
    tx_free(t->event);
    tx_free(t->open);
    *t = (tx_trace){ 0 };
}
