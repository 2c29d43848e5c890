/* profile.c - counts timed ops; what each of them costs: op_costs.c. */
#include "backend/profile.h"

#include <string.h>

#include "base/alloc.h"

static tx_status find_row(tx_profile *p, tx_profile_row **out, const char *op, const tx_model_place *at,
                          tx_cost_kind kind)
{
    const char *part = at->part ? at->part : "";
    for (int64_t i = 0; i < p->n_rows; i++) {
        tx_profile_row *r = &p->row[i];
        if (r->backward != at->backward || strcmp(r->op, op) || strcmp(r->part, part)) continue;
        *out = r;
        return TX_OK;
    }
    if (p->n_rows == p->row_cap) {
        int64_t cap = p->row_cap ? 2 * p->row_cap : 64;
        TX_TRY(tx_realloc(&p->row, (size_t)cap, sizeof *p->row, "the profile"));
        p->row_cap = cap;
    }
    *out = &p->row[p->n_rows++];
    **out = (tx_profile_row){ .op = op, .part = part, .backward = at->backward, .kind = kind };
    return TX_OK;
}

static tx_status next_event(tx_profile *p, tx_profile_event **out)
{
    if (p->n_events == p->event_cap) {
        int64_t cap = p->event_cap ? 2 * p->event_cap : 1024;
        if (cap > TX_PROFILE_MAX_EVENTS) cap = TX_PROFILE_MAX_EVENTS;
        TX_TRY(tx_realloc(&p->event, (size_t)cap, sizeof *p->event, "the profile"));
        p->event_cap = cap;
    }
    *out = &p->event[p->n_events++];
    return TX_OK;
}

tx_status tx_profile_add(tx_profile *p, const char *op, const tx_model_place *at, double start, double seconds,
                         const tx_cost *cost)
{
    tx_profile_row *row;
    TX_TRY(find_row(p, &row, op, at, cost->kind));
    p->n_runs++;
    row->calls++;
    row->seconds += seconds;
    row->flops += cost->flops;
    row->bytes += cost->bytes;
    if (p->n_events == TX_PROFILE_MAX_EVENTS) {
        p->n_left_out++;
        return TX_OK;
    }
    tx_profile_event *e;
    TX_TRY(next_event(p, &e));
    *e = (tx_profile_event){ .op = op, .at = *at, .start = start, .seconds = seconds, .cost = *cost };
    e->cost.shape.data = NULL; /* its memory may hold something else by now */
    return TX_OK;
}

void tx_profile_free(tx_profile *p)
{
    tx_free(p->row);
    tx_free(p->event);
    *p = (tx_profile){ 0 };
}
