/* client_run.c - a user-defined model as a list of layers: each calls the user's functions. */
#include "model/client/client_model.h"

/* Tied weights are where those are that they are tied to. */
static void see_ties(const tx_client_net *n, int i)
{
    int first = n->layer[i].weight, end = first + n->spec.layer[n->first + i].n_params;
    for (int k = first; k < end; k++) n->weight[k] = n->weight[n->home[k]];
}

/* The stack's call as the user sees it. The model's inputs are for its first and last layer. */
static tx_layer_call call_of(const tx_stack_call *k)
{
    static const tx_tensor no_input[TX_MAX_INPUTS];
    const tx_client_net *n = k->model;
    const tx_batch *batch = k->batch;
    int at = k->layer->number - 1;
    const tx_layer *l = &n->spec.layer[at];
    bool last = at + 1 == n->spec.n_layers;
    see_ties(n, at - n->first);
    return (tx_layer_call){
        .user = l->user,
        .weight = n->weight + n->layer[at - n->first].weight,
        .input = at == 0 || last ? batch->input : no_input,
        .x = k->x,
        .y = k->y,
        .dy = k->dy,
        .dx = k->dx,
        .loss = last ? batch->loss : (tx_tensor){ 0 },
        .loss_weight = last ? batch->weight : (tx_tensor){ 0 },
        .saved = k->saved,
        .b = batch->n_samples,
        .train = k->train,
        .layer = at,
        .name = l->name,
        .dtype = n->base.dtype,
        .seed = batch->dropout.seed,
        .sample = batch->dropout.sample,
        .step = batch->dropout.iteration,
    };
}

static tx_status layer_fwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_client_net *n = k->model;
    tx_layer_call call = call_of(k);
    return n->spec.layer[call.layer].forward(c, &call);
}

static tx_status layer_bwd(tx_ctx *c, const tx_stack_call *k)
{
    const tx_client_net *n = k->model;
    tx_layer_call call = call_of(k);
    return n->spec.layer[call.layer].backward(c, &call);
}

static tx_tensor layer_output(tx_ctx *c, const tx_stack_call *k)
{
    (void)c;
    return tx_client_between(k->model, k->layer->number - 1, ((const tx_batch *)k->batch)->n_samples);
}

static const tx_layer_kind layer_kind = {
    .part = TX_IN_BODY, .output = layer_output, .fwd = layer_fwd, .bwd = layer_bwd
};

tx_status tx_client_list(tx_client_net *n)
{
    tx_stack *s = &n->base.stack;
    *s = (tx_stack){ .model = n, .params = &n->base.params, .ahead_of_group = true };
    tx_stack_begin_chunk(s);
    for (int i = 0; i < n->n_layers; i++) {
        const tx_layer *l = &n->spec.layer[n->first + i];
        TX_TRY(tx_stack_add(s, &(tx_stack_layer){ .kind = &layer_kind,
                                                  .saved_size = l->saved_size,
                                                  .number = n->first + i + 1,
                                                  .name = l->name,
                                                  .unit = n->layer[i].unit,
                                                  .n_units = n->layer[i].n_units }));
    }
    return TX_OK;
}
