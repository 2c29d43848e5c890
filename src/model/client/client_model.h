/* client_model.h - a client's own model (triax/model.h): its declaration checked, its parameters in the table, and what
 * the forward of a micro-batch leaves for its backward. */
#ifndef TX_MODEL_CLIENT_CLIENT_MODEL_H
#define TX_MODEL_CLIENT_CLIENT_MODEL_H

#include "model/model.h"
#include "nn/kept_input.h"

/* What the forward of a layer left. */
typedef struct tx_layer_saved {
    tx_tensor x, y; /* absent where the layer has none */
    size_t mark;    /* of the stack before y */
    void *saved;    /* the client's */
} tx_layer_saved;

/* The same of a chunk; where layers are computed again, x of a group's first one is what is kept of it. */
typedef struct tx_client_saved {
    size_t mark, host_mark;
    tx_layer_saved *layer; /* of the stage's; in one piece with all slots' */
    unsigned char *memory; /* the client's parts; likewise */
} tx_client_saved;

typedef struct tx_client_net {
    tx_model base;         /* first: a tx_model * is a tx_client_net * */
    tx_client_model spec;  /* its layers and what they point to are the client's */
    int first, n_layers;   /* of this stage */
    tx_weight *weight;     /* of the stage's layers, one behind the other */
    int *weight_at, *unit; /* [n_layers] where a layer's begin; its unit, or -1: it has no parameters */
    size_t *saved_at;      /* [n_layers] where a layer's part of `memory` begins */
    size_t saved_size;     /* of a slot */
    int64_t widest;        /* elements of the largest tensor between the stage's layers, of one sample */
    tx_client_saved *slot;
} tx_client_net;

/* client_check.c: TX_ERR_ARG unless it can be trained with these options on such a grid. */
tx_status tx_client_check(const tx_client_model *m, const tx_config *cfg, const tx_grid *grid);

/* client_run.c: tx_model_type's. */
tx_status tx__client_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train);
tx_status tx__client_bwd(tx_ctx *c, tx_model *m, tx_batch *batch);

/* What layer i of the model gives for b samples; absent of the last one, and in front of the first (i = -1). */
tx_tensor tx_client_between(const tx_client_net *n, int i, int64_t b);

#endif
