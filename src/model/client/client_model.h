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

/* A unit of the table that a layer uses. */
typedef struct tx_layer_unit {
    int unit;
    bool completes; /* no layer of the stage in front of it does: behind its backward the gradients are complete */
} tx_layer_unit;

typedef struct tx_layer_place {
    int weight;          /* where the layer's begin in tx_client_net.weight */
    tx_layer_unit *unit; /* [n_units]; its own first */
    int n_units;         /* 0: it has no parameters */
    size_t saved;        /* where its part of tx_client_saved.memory begins */
} tx_layer_place;

typedef struct tx_client_net {
    tx_model base;         /* first: a tx_model * is a tx_client_net * */
    tx_client_model spec;  /* its layers and what they point to are the client's */
    int first, n_layers;   /* of this stage */
    tx_layer_place *place; /* [n_layers] */
    tx_weight *weight;     /* of the stage's layers, one behind the other */
    int *home;             /* of each weight the one that has its numbers: of a tied one another */
    tx_layer_unit *unit;   /* of the layers, likewise */
    size_t saved_size;     /* of a slot */
    int64_t widest;        /* elements of the largest tensor between the stage's layers, of one sample */
    tx_client_saved *slot;
} tx_client_net;

/* client_names.c: parameters of all layers, in the order in which they were added; found by "<layer>.<name>". */
typedef struct tx_client_place {
    int layer, param;
} tx_client_place;

typedef struct tx_client_names {
    const tx_client_model *model; /* borrowed; the caller's to set, the rest zeroed */
    tx_client_place *at;          /* [n] */
    int n, cap;
    tx_hash_table by_name;
} tx_client_names;

/* Adds one whose name has been checked. TX_ERR_ARG: another has that name already. */
tx_status tx_client_names_add(tx_client_names *names, int layer, int param);
int tx_client_names_find(const tx_client_names *names, const char *full); /* -1: there is none */
void tx_client_names_free(tx_client_names *names);

/* client_params.c: the table of the stage, and what knows its way in it. TX_ERR_NOMEM. */
tx_status tx_client_declare(tx_client_net *n, const tx_grid *grid);

/* client_check.c: TX_ERR_ARG unless it can be trained with these options on such a grid. */
tx_status tx_client_check(const tx_client_model *m, const tx_config *cfg, const tx_grid *grid);

/* client_run.c: tx_model_type's. */
tx_status tx__client_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train);
tx_status tx__client_bwd(tx_ctx *c, tx_model *m, tx_batch *batch);

/* What layer i of the model gives for b samples; absent of the last one, and in front of the first (i = -1). */
tx_tensor tx_client_between(const tx_client_net *n, int i, int64_t b);

#endif
