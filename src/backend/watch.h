/* watch.h - looks for the first value that is not finite. While ctx->watch is set, every op's outputs (the
 * column of ops.def) are checked after it has run, also those of the parts of composed ops. The first hit is kept.
 * Without a watch an op costs one test of a pointer more.
 *
 *      tx_watch w = { 0 };
 *      c->watch = &w;  ... forward, backward ...  c->watch = NULL;
 *      if (w.op) ...                                                      // there was one, at w.index of w.tensor
 *
 *  The op alone does not identify the place in the model; the model's code records that (tx_at_part, ctx.h). */
#ifndef TX_BACKEND_WATCH_H
#define TX_BACKEND_WATCH_H

#include "backend/ctx.h"
#include "backend/tensor.h"

typedef struct tx_watch {
    /* the first value that was not finite */
    const char *op, *output; /* names; NULL: none so far */
    tx_model_place where;
    tx_tensor tensor; /* its memory may hold something else by now */
    int64_t index[TX_MAX_DIMS];
    double value;
} tx_watch;

/* Whether x, of ctx's, holds a value that is not finite; the first one, rows in order. Absent tensors and integers hold
 * none. Of a device's memory a copy is checked; false where it cannot be copied. */
bool tx_find_not_finite(const tx_ctx *c, tx_tensor x, int64_t index[TX_MAX_DIMS], double *value);

#endif
