/* trace.h - what a step does, one thing after the other, written down while nothing is done. While ctx->trace is set, a
 * dry run appends each op in which no other op runs, each call on a group of ranks, and each wait for one; whoever runs
 * the step marks which part of it follows. predict/ makes seconds of it.
 *
 *      tx_trace t = { 0 };
 *      c->trace = &t;  ... a dry run ...  c->trace = NULL;
 *      ... t.event[0 .. t.n) ...
 *      tx_trace_free(&t); */
#ifndef TX_BACKEND_TRACE_H
#define TX_BACKEND_TRACE_H

#include "backend/ctx.h"
#include "backend/profile.h"

typedef enum tx_trace_kind {
    TX_TRACE_OP,   /* computed at once */
    TX_TRACE_CALL, /* a call on a group is started; cost.bytes of the whole tensor */
    TX_TRACE_WAIT, /* nothing goes on before that call or copy has ended */
    TX_TRACE_COPY, /* between the memory of the device and the host's, or the host's and a disk: started, as a call */
    TX_TRACE_MARK  /* what follows belongs to `part` of the step */
} tx_trace_kind;

/* The parts of a step. */
typedef enum tx_step_part {
    TX_STEP_BEGIN,
    TX_STEP_FORWARD, /* of a micro-batch in a chunk of the pipeline, as the next one */
    TX_STEP_BACKWARD,
    TX_STEP_WEIGHTS,  /* what a backward has put off: gradients of weights */
    TX_STEP_MESSAGES, /* to and from other stages */
    TX_STEP_FINISH,   /* sums between ranks that backwards have started are waited for */
    TX_STEP_UPDATE,
    TX_STEP_END, /* of the trace */
    TX_N_STEP_PARTS
} tx_step_part;

typedef struct tx_trace_event {
    tx_trace_kind kind;
    const char *op; /* a literal: "gemm", "all-reduce"; of a COPY "to the host", "from the host", "to the disk", ... */
    const char *what;  /* the part of the model, "" where it names none */
    bool backward;     /* what is written are gradients */
    tx_cost cost;      /* of an OP and a CALL */
    const void *group; /* of a CALL: the tx_comm, as long as it lives */
    int request;       /* of a CALL, a COPY and a WAIT: its number, from 0 */
    tx_step_part part; /* of a MARK, as the next three */
    int micro, chunk;
    bool last; /* no later micro-batch of the chunk */
} tx_trace_event;

/* A request that has been started and not waited for. */
typedef struct tx_trace_request {
    const void *at;
    int number;
} tx_trace_request;

typedef struct tx_trace {  /* zeroed, then set in a ctx */
    tx_trace_event *event; /* owned */
    int64_t n, cap;
    tx_trace_request *open; /* owned */
    int n_open, cap_open, n_requests;
} tx_trace;

/* Appends; without a trace in the ctx, or outside a dry run, they do nothing. A wait for a request that is not open is
 * none. TX_ERR_NOMEM.
 * @request an address that tells it from others which are open at the same time */
tx_status tx_trace_op(tx_ctx *c, const char *op, const tx_cost *cost);
tx_status tx_trace_call(tx_ctx *c, const char *op, const void *group, double bytes, const void *request);
tx_status tx_trace_wait(tx_ctx *c, const void *request);
tx_status tx_trace_copy(tx_ctx *c, const char *op, double bytes, const void *request);
tx_status tx_trace_mark(tx_ctx *c, tx_step_part part, int micro, int chunk, bool last);

void tx_trace_free(tx_trace *t); /* back to zero */

#endif
