/* pp_times.h - a pipeline in time: how long its stages' instruction lists (pp_schedule.h) take, when each forward and
 * backward begins and ends. pp_picture.h draws it.
 *
 *      stage 0   F0 F1 .. .. B0 B1          makespan: until the last of them has ended
 *      stage 1      F0 B0 F1 B1             busy: F, B and W alone, without waiting
 *
 *  A computation starts when the one before it in its stage has ended and its message is there. Sending takes the
 *  sender no time, unless it has to wait for room. Times are in seconds, or in any other unit. */
#ifndef TX_PARALLEL_PP_TIMES_H
#define TX_PARALLEL_PP_TIMES_H

#include "parallel/pp_schedule.h"

/* Arrays of the p n_chunks virtual stages: entry c p + i is of chunk c in stage i. None is negative. */
typedef struct tx_pp_times {
    const double *fwd, *bwd; /* of a micro-batch */
    const double *bwd_last;  /* of the last micro-batch of the chunk; NULL: bwd */
    const double *wgt;      /* with ZB-H1: the weights' part of a backward, of which bwd is then without; else unused */
    const double *wgt_last; /* NULL: wgt */
    const double *message[2]; /* from virtual stage v to v + 1 (forward), from v to v - 1 (backward): from the end of
                                 the computation until it has arrived; NULL: no time */
    int outgoing;             /* as in tx_pp_units; tx_pp_makespan knows 0 alone */
    bool meets; /* that time begins when the message has been sent and its receive is posted, as a transport's does that
                 * has no memory for it before; else, and in tx_pp_makespan, it begins when it has been sent */
} tx_pp_times;

typedef struct tx_pp_span {
    double start, end;
    int micro, chunk;
    tx_pp_op op; /* FWD, BWD, WGT */
} tx_pp_span;

typedef struct tx_pp_lane {
    tx_pp_span *span; /* owned; in the order of time */
    int n;
    double end, busy;
} tx_pp_lane;

typedef struct tx_pp_timeline {
    tx_pp_lane *stage; /* [p], owned */
    int p, m, n_chunks;
    double makespan;
} tx_pp_timeline;

/* Runs all stages' instruction lists with all checks of tx_pp_simulate. TX_ERR_ARG: no such shape, or a time that is
 * negative or no number. */
tx_status tx_pp_simulate_times(const tx_pp_shape *shape, const tx_pp_times *times, tx_pp_timeline *out);
void tx_pp_timeline_free(tx_pp_timeline *t); /* a zeroed one is fine */

/* TX_ERR_ARG as of tx_pp_simulate_times. */
tx_status tx_pp_check_times(const tx_pp_shape *shape, const tx_pp_times *times);

/* The same makespan, quickly: nothing is checked but the arguments, and once each stage repeats itself all repetitions
 * but the last are skipped. Relative error at most 1e-9.
 * @end [p] when each stage has ended; NULL allowed */
tx_status tx_pp_makespan(const tx_pp_shape *shape, const tx_pp_times *times, double *makespan, double *end);

#endif
