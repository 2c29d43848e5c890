/* history.h - a run as its metrics file reports it. The file may hold anything, and may grow meanwhile. */
#ifndef TX_REPORT_HISTORY_H
#define TX_REPORT_HISTORY_H

#include "report/metrics_file.h"

/* A step's numbers. */
enum {
#define X(name, value) TX_COLUMN_##name,
    TX_STEP_NUMBERS(X)
#undef X
#define X(id, name, level, key) TX_COLUMN_MS_##id,
        TX_TIMERS(X)
#undef X
            TX_COLUMN_time,
    TX_COLUMN_sop_loss, /* a BERT's */
    TX_COLUMN_moe_loss, /* what follows: of a model with experts */
#define X(name, value) TX_COLUMN_##name,
    TX_EXPERT_NUMBERS(X)
#undef X
        TX_N_COLUMNS
};

/* What stands in the file for a column; NULL for a timer that is a sum of others. */
const char *tx_column_name(int column);

typedef struct tx_evaluation {
    json_t *name; /* a string; owned */
    double iteration, consumed_tokens, time, loss;
    double sop_loss; /* NaN: the model has none */
    bool task;       /* of --eval-tasks: no validation loss */
    bool final;      /* the closing one; in older files, which do not mark it, the one at the end */
} tx_evaluation;

/* The run began, or was resumed. */
typedef struct tx_run_start {
    json_t *line; /* owned */
    double iteration;
    double time, before; /* of its line and of the one above it, when the run was last seen; NaN: none */
} tx_run_start;

/* A layer with experts. */
typedef struct tx_load_layer {
    int64_t layer, n_experts; /* its number, from 1 */
} tx_load_layer;

typedef struct tx_history {
    json_t *run; /* the last start's line; borrowed */
    tx_run_start *start;
    size_t n_starts, cap_starts;
    double first_time, last_time;
    double (*step)[TX_N_COLUMNS]; /* by iteration; NaN where there is no number */
    size_t n_steps, cap_steps;
    tx_load_layer *expert_layer;
    size_t n_expert_layers, n_experts; /* of all of these; 0: there are none */
    float *load;                       /* [n_steps, n_experts] by the mean load of the layer; NaN: a step has none */
    size_t cap_loads;
    tx_evaluation *evaluation;
    size_t n_evaluations, cap_evaluations;
} tx_history;

/* Reads a metrics file; what a resumed run did again stands once. A last line without its end is left out: the run is
 * still going. TX_ERR_FORMAT names file and line of what cannot be. */
tx_status tx_history_read(tx_history *h, const char *path);
void tx_history_free(tx_history *h); /* a zeroed one is fine */

#endif
