/* ctx.h - everything one rank carries with it; it takes the place of globals, because ranks may be threads.
 *
 *   acts     activation stack: forward pushes what backward needs, backward pops it
 *   scratch  lives only inside one op call
 *   dry      the plan: code runs, arenas count, no number is touched (DESIGN idea 8)
 *   watch    set while a value that is not finite is looked for (watch.h)  */
#ifndef TX_BACKEND_CTX_H
#define TX_BACKEND_CTX_H

#include <stdbool.h>

#include "backend/tensor.h"
#include "base/arena.h"

typedef struct tx_ctx {
    const struct tx_backend *backend; /* borrowed */
    struct tx_ops *ops;               /* its finished table */
    void *backend_state;              /* the backend's own; opened and closed by it */
    tx_arena acts, scratch;
    bool dry;
    struct tx_watch *watch; /* borrowed; NULL: off */
    int n_threads;
} tx_ctx;

/* Opens the named backend ("ref", "cpu") with arenas in counting mode and ctx->dry set.
 * n_threads 0: as many as OpenMP would use. TX_ERR_NOTFOUND lists the backends there are. */
tx_status tx_ctx_init(tx_ctx *c, const char *backend, int n_threads);

/* Ends the dry run: takes the arenas at the sizes counted so far and clears ctx->dry. TX_ERR_NOMEM. */
tx_status tx_ctx_take_memory(tx_ctx *c);

void tx_ctx_deinit(tx_ctx *c); /* safe on a zeroed ctx */

#endif
