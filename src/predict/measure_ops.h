/* measure_ops.h - how long ops took, gathered from the profiles of steps (backend/profile.h): what a step's ops cost
 * with the caches as the ops before them left them. */
#ifndef TX_PREDICT_MEASURE_OPS_H
#define TX_PREDICT_MEASURE_OPS_H

#include "backend/profile.h"
#include "predict/machine.h"

/* One run of an op. */
typedef struct tx_op_time {
    const char *op, *part; /* literals; the part of the model */
    bool backward;
    tx_cost_kind bound;
    tx_dtype dtype;
    double m, n, k; /* of a product; of attention: positions, head dimension, heads of all samples */
    double size;    /* bytes that it reads and writes */
    double amount;  /* of a product and of attention FLOPs, of others bytes */
    double seconds;
} tx_op_time;

typedef struct tx_op_times { /* zeroed: empty */
    tx_op_time *run;         /* owned */
    int64_t n, cap;
} tx_op_times;

/* Adds what a profile has seen of ops; calls to other ranks are passed over. TX_ERR_NOMEM. */
tx_status tx_op_times_add(tx_op_times *t, const tx_profile *p);
void tx_op_times_free(tx_op_times *t); /* a zeroed one is fine */

/* Appends an entry to m->product or m->op for each op, type and size that is there: its rate by the median time of each
 * part of the model, weighted by how often the part does it. Sorts the times.
 * @n_ranks that computed at the same time   TX_ERR_NOMEM */
tx_status tx_op_times_rates(tx_op_times *t, int n_ranks, tx_machine *m);

#endif
