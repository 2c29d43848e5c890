/* wgrad_store.h - the weights' part of a backward, put off: what gradients of weights are made of is kept until a
 * pipeline's schedule has time for it (zero bubble: arXiv:2401.10241 §2; upstream's WeightGradStore).
 *
 *      backward of the input     dx = dy W      copies of dy and x are pushed on the store's arena, a row each
 *      the weights' part         dW += dyᵀ x    of each row, in the order of the backward; then the store is empty
 *
 *  Copies, because memory of activations and gradients serves other layers and micro-batches meanwhile. A layer's
 * functions call what is here in the place of the ops, and the stack says whether it is put off (tx_ctx.wgrads) and
 * when it is done (tx_stack_weights). Gradients of vectors that an op makes along with dx, as a norm's does, are made
 * at once: where those have no memory between backward and the weights' part, on the arena.
 *  Opened in a dry run, which counts; tx_wgrad_store_take then allocates that. */
#ifndef TX_NN_WGRAD_STORE_H
#define TX_NN_WGRAD_STORE_H

#include "backend/ops.h"
#include "nn/param.h"
#include "triax/model.h"

/* What is added to the gradients of a weight. */
typedef struct tx_wgrad {
    const tx_weight *w; /* w += dyᵀ x, or NULL */
    const tx_weight *b; /* b += Σ dy, or NULL */
    tx_tensor dy, x;
    tx_tensor made; /* in the place of dy and x: w += made */
    bool gathers;   /* x is this tensor rank's positions */
    bool adds;      /* to what the layer has made of w before, also where w was fresh */
    int n_experts;  /* w and b are the first one's, and these are the rows of all; else 0 */
    int count;      /* of experts: where the rows of each are counted */
    size_t stride;  /* likewise: between their weights */
    tx_model_place at;
} tx_wgrad;

typedef struct tx_wgrad_layer {
    int layer; /* of the stack */
    int end;   /* of its rows */
} tx_wgrad_layer;

/* Of one micro-batch in one chunk. Zeroed, then opened. */
typedef struct tx_wgrad_store {
    tx_arena arena;
    tx_wgrad *row; /* owned, as the next two */
    tx_wgrad_layer *layer;
    int32_t *count; /* of experts' rows */
    int n, cap, n_layers, layers_cap, n_counts, counts_cap;
    bool vectors; /* those of vectors have no memory now */
    bool adds;    /* rows that follow do, of this layer's */
} tx_wgrad_store;

/* Counts from now on.   @like whose device, and whether shared, the arena takes */
void tx_wgrad_store_open(tx_wgrad_store *s, const tx_arena *like);
void tx_wgrad_store_close(tx_wgrad_store *s); /* a zeroed one is fine */

/* Ends the dry run: takes so much memory, and room for as many rows as `like` has, which has been used in it.
 * TX_ERR_NOMEM */
tx_status tx_wgrad_store_take(tx_wgrad_store *s, size_t bytes, const tx_wgrad_store *like);

void tx_wgrad_store_clear(tx_wgrad_store *s);

/* For the stack: rows that follow are of this layer. TX_ERR_NOMEM */
tx_status tx_wgrad_store_layer(tx_ctx *c, int layer);

/* For the stack: the rows of the k-th layer, counted from 0, are added to the gradients, which have memory now. */
tx_status tx_wgrad_store_add(tx_ctx *c, const tx_wgrad_store *s, int k);

/* ---- for layers ---- */

static inline bool tx_wgrad_is_put_off(const tx_ctx *c)
{
    return c->wgrads != NULL;
}

/* dW += dyᵀ x,  db += Σ dy; not of frozen ones.   @w, @b NULL or without a value: there is none
 * @x  where it is put off (tx_wgrad_is_put_off) it may be of the positions alone that this tensor rank has with
 * sequence parallelism: it is kept so, and gathered when the gradients are made */
tx_status tx_wgrad_linear(tx_ctx *c, const tx_weight *w, const tx_weight *b, tx_tensor dy, tx_tensor x);

/* The same of experts, each with its rows of dy and x.   @w, @b the first one's   @count rows of each, in host memory
 * @stride between their weights   @room rows that there may be */
typedef struct tx_wgrad_experts {
    const tx_weight *w, *b;
    tx_tensor count;
    size_t stride;
    int64_t room;
} tx_wgrad_experts;
tx_status tx_wgrad_grouped(tx_ctx *c, const tx_wgrad_experts *e, tx_tensor dy, tx_tensor x);

/* For a layer that computes its positions in chunks: it has contributed to the gradients of rows [first, end) of the
 * table, which are all of its own, and will again. */
void tx_wgrad_contributed(tx_ctx *c, const tx_params *ps, int first, int end);

/* Where an op adds the gradient of a vector; absent where w has none.   TX_ERR_NOMEM */
tx_status tx_wgrad_vector(tx_ctx *c, const tx_weight *w, tx_tensor *to);

#endif
