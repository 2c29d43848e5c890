/* profile.h - times every op. While ctx->profile is set, each op in which no other op runs is timed, and
 * counted to the row of its kind: same op, same part of the model, same direction. Composed ops are counted as their
 * parts, and so are calls to other ranks (comm/comm.h: tx_world_profile). The first TX_PROFILE_MAX_EVENTS runs are
 * kept one by one as well. Without a profile an op costs one test of a pointer more; with one it computes the same.
 *
 *      tx_profile p = { 0 };
 *      c->profile = &p;  ... forward, backward, update ...  c->profile = NULL;
 *      ... p.row[0 .. p.n_rows), p.event[0 .. p.n_events) ...
 *      tx_profile_free(&p); */
#ifndef TX_BACKEND_PROFILE_H
#define TX_BACKEND_PROFILE_H

#include "backend/ctx.h"
#include "backend/tensor.h"

enum { TX_PROFILE_MAX_EVENTS = 200000 };

/* What bounds an op. */
typedef enum tx_cost_kind {
    TX_COST_PRODUCT,
    TX_COST_ATTENTION,
    TX_COST_MEMORY,
    TX_COST_MESSAGES, /* what ranks move and sum (comm/comm.h): op "all-reduce", part the group's name */
    TX_COST_WAITING,  /* the same calls while they wait for another rank */
    TX_N_COST_KINDS
} tx_cost_kind;

/* What one run of an op costs. */
typedef struct tx_cost {
    tx_cost_kind kind;
    double flops, bytes; /* multiply-adds count two; every tensor read and written once */
    tx_tensor shape;     /* without data: of the tensor that determines the size; of a gemm [m, n, k] */
} tx_cost;

typedef struct tx_profile_row {
    const char *op, *part; /* literals; part "" where the model names none */
    bool backward;
    tx_cost_kind kind;
    int64_t calls;
    double seconds, flops, bytes;
} tx_profile_row;

typedef struct tx_profile_event {
    const char *op;
    tx_model_place at;
    double start, seconds; /* start: tx_clock's */
    tx_cost cost;
} tx_profile_event;

typedef struct tx_profile { /* zeroed, then set in a ctx */
    tx_profile_row *row;
    tx_profile_event *event;
    int64_t n_rows, n_events, row_cap, event_cap;
    int64_t n_runs;     /* counted so far */
    int64_t n_left_out; /* runs beyond the events kept; the rows have them */
} tx_profile;

/* Counts one run. TX_ERR_NOMEM. */
tx_status tx_profile_add(tx_profile *p, const char *op, const tx_model_place *at, double start, double seconds,
                         const tx_cost *cost);

void tx_profile_free(tx_profile *p); /* back to zero */

#endif
