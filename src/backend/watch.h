/* watch.h - looks for the first value that is not finite. While ctx->watch is set, every op's outputs are looked at
 * when it has run, as ops.def has it also those of the parts of composed ops. The first hit is kept. Without a watch an
 * op pays one test of a pointer.
 *
 *      tx_watch w = { 0 };
 *      c->watch = &w;  ... forward, backward ...  c->watch = NULL;
 *      if (w.op) ...                                                      // there was one, at w.index of w.tensor
 *
 *  Which op it was says little; where in the model it ran, the model's code says as it goes (tx_watch_at). */
#ifndef TX_BACKEND_WATCH_H
#define TX_BACKEND_WATCH_H

#include "backend/ctx.h"
#include "backend/tensor.h"

/* Where the model is. */
typedef struct tx_watch_place {
    int layer;                 /* from 1; 0: outside the layers */
    const char *part;          /* "mlp.dense_h_to_4h", a literal */
    bool backward;             /* what is written are gradients */
    int64_t first_row, n_rows; /* an op works on these rows of s*b alone; n_rows 0: on all */
} tx_watch_place;

typedef struct tx_watch {
    tx_watch_place at;
    /* the first value that was not finite */
    const char *op, *output; /* names; NULL: none so far */
    tx_watch_place where;
    tx_tensor tensor; /* its memory may hold something else by now */
    int64_t index[TX_MAX_DIMS];
    double value;
} tx_watch;

/* What follows belongs to this part, until the next call. */
static inline void tx_watch_at(const tx_ctx *c, const char *part)
{
    if (c->watch) c->watch->at.part = part;
}

static inline void tx_watch_layer(const tx_ctx *c, int layer)
{
    if (c->watch) c->watch->at.layer = layer;
}

static inline void tx_watch_backward(const tx_ctx *c, bool backward)
{
    if (c->watch) c->watch->at.backward = backward;
}

static inline void tx_watch_rows(const tx_ctx *c, int64_t first, int64_t n)
{
    if (!c->watch) return;
    c->watch->at.first_row = first;
    c->watch->at.n_rows = n;
}

/* Whether x holds a value that is not finite; the first one, rows in order. Absent tensors and integers hold none. */
bool tx_find_not_finite(tx_tensor x, int64_t index[TX_MAX_DIMS], double *value);

#endif
