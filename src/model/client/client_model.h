/* client_model.h - a user-defined model (triax/model.h): its declaration checked, its parameters in the table, and its
 * layers as a list (nn/stack.h). */
#ifndef TX_MODEL_CLIENT_CLIENT_MODEL_H
#define TX_MODEL_CLIENT_CLIENT_MODEL_H

#include "model/model.h"

/* What a layer of the stage has: its weights, and the units that they are in, its own first. A unit that several layers
 * use is done after the backward of the first one of the stage. */
typedef struct tx_client_layer {
    int weight;          /* where the layer's begin in tx_client_net.weight */
    tx_stack_unit *unit; /* [n_units] */
    int n_units;         /* 0: it has no parameters */
} tx_client_layer;

typedef struct tx_client_net {
    tx_model base;          /* first: a tx_model * is a tx_client_net * */
    tx_client_model spec;   /* its layers and what they point to are the user's */
    int first, n_layers;    /* of this stage */
    tx_client_layer *layer; /* [n_layers] */
    tx_weight *weight;      /* of the stage's layers, one after the other */
    int *home;              /* of each weight the one that has its numbers: of a tied one another */
    tx_stack_unit *unit;    /* of the layers, likewise */
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

/* client_run.c: makes the list of the stage's layers, whose parameters are declared. TX_ERR_NOMEM */
tx_status tx_client_list(tx_client_net *n);

/* The output of layer i of the model for b samples, without data; absent of the last one, and before the first
 * (i = -1). */
tx_tensor tx_client_between(const tx_client_net *n, int i, int64_t b);

#endif
