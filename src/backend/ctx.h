/* ctx.h - the state of one rank. It is used instead of globals, because ranks may be threads.
 *
 *   acts     activation stack: forward pushes what backward needs, backward pops it
 *   scratch  lives only inside one op call
 *   host     a second stack, in the host's memory: activations offloaded until backward (nn/kept_input.h)
 *   top      set where acts is one of several stacks, the slots of a pipeline: room that they share
 *   dry      a dry run: code runs, arenas count, and no data is read or written (DESIGN idea 8)
 *   at       where in the model the code is
 *   watch    set while a value that is not finite is looked for (watch.h)
 *   profile  set while ops are timed (profile.h)
 *   wgrads   set while gradients of weights are put off (nn/wgrad_store.h)
 *   trace    set while a dry run writes down what it would do (trace.h)
 *   grid     this rank's place among others (parallel/grid.h)
 *   device   where tensors are and ops run; NULL: the host (base/device.h). acts and scratch are there, host is not  */
#ifndef TX_BACKEND_CTX_H
#define TX_BACKEND_CTX_H

#include <stdbool.h>

#include "backend/tensor.h"
#include "base/arena.h"

/* Where in the model the code is. The model's code sets it as it runs; watch.h and profile.h
 * read it. */
typedef struct tx_model_place {
    int layer;                 /* from 1; 0: outside the layers */
    const char *part;          /* "mlp.dense_h_to_4h", a literal */
    bool backward;             /* what is written are gradients */
    int64_t first_row, n_rows; /* an op works on these rows of s*b alone; n_rows 0: on all */
} tx_model_place;

/* The top that several activation stacks share. What is pushed between tx_ctx_begin_top and tx_ctx_end_top is needed
 * no longer than until the latter, so it does not lie on the stack itself:
 *
 *      stack 0   | saved by forward .......... |
 *      stack 1   | saved by forward .......... |       top   | of the layers that are computed now ... |       */
typedef struct tx_top {
    tx_arena arena;        /* between the two calls this is the stack, and the context's acts is the top */
    bool on;               /* between the two calls */
    size_t peak, together; /* bytes: the most that lay on the top, and on a stack and the top above it */
} tx_top;

typedef struct tx_ctx {
    const struct tx_backend *backend; /* borrowed */
    struct tx_ops *ops;               /* its finished table */
    void *backend_state;              /* the backend's own; opened and closed by it */
    tx_arena acts, scratch, host;
    tx_top *top; /* borrowed; NULL: there is one stack, and its top is its own */
    bool dry;
    tx_model_place at;
    struct tx_watch *watch;     /* borrowed; NULL: off */
    struct tx_profile *profile; /* likewise */
    struct tx_trace *trace;     /* likewise */
    struct tx_wgrad_store *wgrads;
    const struct tx_grid *grid; /* borrowed; NULL: a rank alone */
    tx_device *device;          /* the backend's; NULL: the host */
    int device_number;          /* which of the machine's it is to be */
    int n_threads;
} tx_ctx;

/* The ops that follow belong to this part, until the next call. */
static inline void tx_at_part(tx_ctx *c, const char *part)
{
    c->at.part = part;
}

static inline void tx_at_layer(tx_ctx *c, int layer)
{
    c->at.layer = layer;
}

static inline void tx_at_backward(tx_ctx *c, bool backward)
{
    c->at.backward = backward;
}

static inline void tx_at_rows(tx_ctx *c, int64_t first, int64_t n)
{
    c->at.first_row = first;
    c->at.n_rows = n;
}

/* Opens the named backend ("cpu", "gpu", "ref"; "auto" is tx_backend_auto's) with arenas in counting mode and ctx->dry
 * set. n_threads 0: tx_default_threads() of them. TX_ERR_NOTFOUND lists the backends, or gives the reason why there is
 * no GPU. tx_ctx_init_on: on the device of that number. */
tx_status tx_ctx_init(tx_ctx *c, const char *backend, int n_threads);
tx_status tx_ctx_init_on(tx_ctx *c, const char *backend, int n_threads, int device_number);

/* Ends the dry run: takes the arenas at the sizes counted so far and clears ctx->dry. TX_ERR_NOMEM. */
tx_status tx_ctx_take_memory(tx_ctx *c);

void tx_ctx_deinit(tx_ctx *c); /* safe on a zeroed ctx */

/* From here on acts is the top, until tx_ctx_end_top, which is told whether it began here: false if there is none, or
 * it was begun before. The end drops what was pushed. After a failure in between, the owner of the top ends it. */
bool tx_ctx_begin_top(tx_ctx *c);
void tx_ctx_end_top(tx_ctx *c, bool began);

#endif
