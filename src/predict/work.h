/* work.h - what the stages of a run do in an iteration, as data: for each kind of pipeline stage the trace of its dry
 * run, cut into the instructions of the schedule. It is made once and can be timed on any number of machines. */
#ifndef TX_PREDICT_WORK_H
#define TX_PREDICT_WORK_H

#include "backend/trace.h"
#include "train/plan.h"

typedef struct tx_work_event {
    tx_trace_kind kind; /* no TX_TRACE_MARK */
    const char *op;
    tx_cost_kind bound;
    bool backward;
    tx_dtype dtype;
    double flops, bytes;
    double m, n, k; /* of a product; of attention: positions, head dimension, heads of all samples */
    int group;      /* of a call: TX_GROUP_...; -1: to another stage, which the schedule times */
    int request;    /* of a call, a copy and a wait: its number in the stage */
} tx_work_event;

/* A part of the step: events [first, end). */
typedef struct tx_work_piece {
    tx_step_part part;
    int micro, chunk;
    bool last;
    int64_t first, end;
} tx_work_piece;

typedef struct tx_stage_work {
    int stage;
    tx_run_plan plan;
    tx_work_event *event; /* owned */
    tx_work_piece *piece; /* owned; those of an iteration of n_micro micro-batches */
    int64_t n_events, n_pieces, n_requests, n_micro;
    double message[2]; /* bytes that it sends to the next stage, and to the one before it, for a micro-batch */
} tx_stage_work;

typedef struct tx_run_work {
    tx_stage_work stage[TX__PLAN_STAGES]; /* the first, the second, the last */
    int n;
    int most; /* of these the one that takes the most memory */
    tx_layout layout;
    tx_pp_shape shape; /* of the pipeline, with the run's own number of micro-batches */
    tx_dtype dtype;    /* of its products */
    bool measures;     /* the optimizer needs norms of tensors before it updates them */
    int64_t world_size, tokens;
    double flops, flops_again, flops_told; /* of all ranks */
} tx_run_work;

/* Plans the run (train/plan.h) and keeps what its stages do. The caller frees it, also after a failure. Errors as
 * tx_plan_stage. */
tx_status tx_run_work_make(tx_run_work *out, const tx_config *cfg, int64_t vocab_size);
void tx_run_work_free(tx_run_work *w); /* a zeroed one is fine */

/* Which of w->stage does what stage i of the pipeline does. */
const tx_stage_work *tx_work_of_stage(const tx_run_work *w, int i);

#endif
