/* client_params.c - the parameters of a client's model in the table. Those of a layer are a unit. One that others are
 * tied to is a unit by itself, as GPT's words are: all layers that have it use it, and its gradients are complete
 * behind the backward of the first of them. Where they are on both ends of a pipeline the last stage has a copy. */
#include <string.h>

#include "base/alloc.h"
#include "model/client/client_model.h"

bool tx_client_is_tied(const tx_param_spec *p, const tx_layer *source, const tx_param_spec *to)
{
    size_t n = strlen(source->name);
    return p->tied && !strncmp(p->tied, source->name, n) && p->tied[n] == '.' && !strcmp(p->tied + n + 1, to->name);
}

/* The next of the model's parameters that is tied to parameter k of layer j, behind that or the one before. */
static bool next_tied(const tx_client_net *n, int j, int k, int *layer, int *param)
{
    const tx_layer *source = &n->spec.layer[j];
    for (; *layer < n->spec.n_layers; ++*layer, *param = -1)
        while (++*param < n->spec.layer[*layer].n_params)
            if (tx_client_is_tied(&n->spec.layer[*layer].param[*param], source, &source->param[k])) return true;
    return false;
}

static bool is_shared(const tx_client_net *n, int j, int k)
{
    int layer = j, param = k;
    return next_tied(n, j, k, &layer, &param);
}

/* Where each layer of the stage has its weights and units, and its part of what is saved. */
static tx_status place_layers(tx_client_net *n)
{
    static const char what[] = "the model's layers";
    int n_weights = 0;
    TX_TRY(tx_alloc(&n->place, (size_t)n->n_layers, sizeof *n->place, what));
    for (int i = 0; i < n->n_layers; i++) {
        const tx_layer *l = &n->spec.layer[n->first + i];
        n->place[i] = (tx_layer_place){ .weight = n_weights, .saved = n->saved_size };
        n_weights += l->n_params;
        n->saved_size += (l->saved_size + 63) / 64 * 64;
    }
    TX_TRY(tx_alloc(&n->weight, (size_t)n_weights + 1, sizeof *n->weight, what));
    TX_TRY(tx_alloc(&n->home, (size_t)n_weights + 1, sizeof *n->home, what));
    TX_TRY(tx_alloc(&n->unit, (size_t)n_weights + 1, sizeof *n->unit, what));
    for (int i = 0; i < n_weights; i++) n->home[i] = i;
    for (int i = 0; i < n->n_layers; i++) n->place[i].unit = n->unit + n->place[i].weight;
    return TX_OK;
}

/* The unit that was begun last is one of layer i's. */
static void add_unit(tx_client_net *n, int i, bool completes)
{
    tx_layer_place *p = &n->place[i];
    int unit = n->base.params.n_units - 1;
    if (p->n_units && p->unit[p->n_units - 1].unit == unit) return; /* tied to it twice */
    p->unit[p->n_units++] = (tx_layer_unit){ unit, completes };
}

/* The parameters of layer i of the stage that are its alone. */
static tx_status declare_layer(tx_client_net *n, int i, const tx_dims *dims)
{
    tx_params *ps = &n->base.params;
    const tx_layer *l = &n->spec.layer[n->first + i];
    bool begun = false;
    for (int k = 0; k < l->n_params; k++) {
        if (l->param[k].tied || is_shared(n, n->first + i, k)) continue;
        if (!begun) TX_TRY(tx_params_begin_unit(ps, TX_UNIT_LAYER, 0));
        if (!begun) add_unit(n, i, true);
        begun = true;
        TX_TRY(tx_params_add(ps, l->name, &l->param[k], &n->weight[n->place[i].weight + k], dims));
    }
    return TX_OK;
}

/* Parameter k of layer j, which others are tied to, if the stage has one of them all. */
static tx_status declare_shared(tx_client_net *n, int j, int k, tx_dims dims)
{
    tx_params *ps = &n->base.params;
    const tx_layer *source = &n->spec.layer[j];
    int layer = j, param = k, home = -1;
    do {
        int i = layer - n->first;
        bool here = i >= 0 && i < n->n_layers;
        dims.tied = dims.tied || !here;
        if (!here) continue;
        int slot = n->place[i].weight + param;
        if (home < 0) TX_TRY(tx_params_begin_unit(ps, TX_UNIT_WORDS, 0));
        add_unit(n, i, home < 0);
        if (home < 0) home = slot;
        n->home[slot] = home;
    } while (next_tied(n, j, k, &layer, &param));
    dims.copy = j < n->first;
    return home < 0 ? TX_OK : tx_params_add(ps, source->name, &source->param[k], &n->weight[home], &dims);
}

tx_status tx_client_declare(tx_client_net *n, const tx_grid *grid)
{
    const tx_dims dims = { .n_tp = grid->tp.size, .tp_rank = grid->tp.rank };
    TX_TRY(place_layers(n));
    for (int i = 0; i < n->n_layers; i++) TX_TRY(declare_layer(n, i, &dims));
    for (int j = 0; j < n->spec.n_layers; j++)
        for (int k = 0; k < n->spec.layer[j].n_params; k++)
            if (!n->spec.layer[j].param[k].tied && is_shared(n, j, k)) TX_TRY(declare_shared(n, j, k, dims));
    return TX_OK;
}
