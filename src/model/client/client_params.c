/* client_params.c - the parameters of a user-defined model in the table. Those of a layer are a unit. One that others
 * are tied to is a unit by itself, as GPT's words are: all layers that have it use it, and its gradients are complete
 * after the backward of the first of them. Where they are on both ends of a pipeline the last stage has a copy. */
#include <string.h>

#include "base/alloc.h"
#include "model/client/client_model.h"

/* Which parameters of the model are tied to which, all numbered through. */
typedef struct ties {
    tx_client_names names; /* all */
    int *next; /* [names.n]: the next that is tied to the same, of the one that has the numbers the first; 0: none */
} ties;

static tx_status find_ties(ties *t, const tx_client_model *m)
{
    *t = (ties){ .names.model = m };
    for (int j = 0; j < m->n_layers; j++)
        for (int k = 0; k < m->layer[j].n_params; k++) TX_TRY(tx_client_names_add(&t->names, j, k));
    TX_TRY(tx_alloc(&t->next, (size_t)t->names.n, sizeof *t->next, "the model's ties"));
    for (int i = t->names.n - 1; i >= 0; i--) { /* so that each comes in front of those after it */
        const tx_client_place *at = &t->names.at[i];
        const char *to = m->layer[at->layer].param[at->param].tied;
        int source = to ? tx_client_names_find(&t->names, to) : -1;
        TX_ASSERT(!to || (source >= 0 && source < i)); /* as checked */
        if (!to) continue;
        t->next[i] = t->next[source];
        t->next[source] = i;
    }
    return TX_OK;
}

static void free_ties(ties *t)
{
    tx_client_names_free(&t->names);
    tx_free(t->next);
}

/* Where each layer of the stage has its weights and units. */
static tx_status place_layers(tx_client_net *n)
{
    static const char what[] = "the model's layers";
    int n_weights = 0;
    TX_TRY(tx_alloc(&n->layer, (size_t)n->n_layers, sizeof *n->layer, what));
    for (int i = 0; i < n->n_layers; i++) {
        const tx_layer *l = &n->spec.layer[n->first + i];
        n->layer[i].weight = n_weights;
        n_weights += l->n_params;
    }
    TX_TRY(tx_alloc(&n->weight, (size_t)n_weights + 1, sizeof *n->weight, what));
    TX_TRY(tx_alloc(&n->home, (size_t)n_weights + 1, sizeof *n->home, what));
    TX_TRY(tx_alloc(&n->unit, (size_t)n_weights + 1, sizeof *n->unit, what));
    for (int i = 0; i < n_weights; i++) n->home[i] = i;
    for (int i = 0; i < n->n_layers; i++) n->layer[i].unit = n->unit + n->layer[i].weight;
    return TX_OK;
}

/* The unit that was begun last is one of layer i's. */
static void add_unit(tx_client_net *n, int i, bool completes)
{
    tx_client_layer *p = &n->layer[i];
    int unit = n->base.params.n_units - 1;
    if (p->n_units && p->unit[p->n_units - 1].unit == unit) return; /* tied to it twice */
    unsigned own = TX_OWN_UNIT;
    p->unit[p->n_units++] = (tx_stack_unit){ unit, completes ? own : own & ~(unsigned)TX_COMPLETE_BWD };
}

/* The parameters of layer i of the stage that are its alone.   @number: of the layer's first */
static tx_status declare_layer(tx_client_net *n, int i, const ties *t, int number, const tx_dims *dims)
{
    tx_params *ps = &n->base.params;
    const tx_layer *l = &n->spec.layer[n->first + i];
    bool begun = false;
    for (int k = 0; k < l->n_params; k++) {
        if (l->param[k].tied || t->next[number + k]) continue;
        if (!begun) TX_TRY(tx_params_begin_unit(ps, TX_UNIT_LAYER, 0));
        if (!begun) add_unit(n, i, true);
        begun = true;
        TX_TRY(tx_params_add(ps, l->name, &l->param[k], &n->weight[n->layer[i].weight + k], dims));
    }
    return TX_OK;
}

/* Parameter number `of`, which others are tied to, if the stage has one of them all. */
static tx_status declare_shared(tx_client_net *n, const ties *t, int of, tx_dims dims)
{
    tx_params *ps = &n->base.params;
    const tx_client_place *source = &t->names.at[of];
    const tx_layer *l = &n->spec.layer[source->layer];
    int number = of, home = -1;
    do {
        int i = t->names.at[number].layer - n->first;
        bool here = i >= 0 && i < n->n_layers;
        dims.tied = dims.tied || !here;
        if (!here) continue;
        int slot = n->layer[i].weight + t->names.at[number].param;
        if (home < 0) TX_TRY(tx_params_begin_unit(ps, TX_UNIT_WORDS, 0));
        add_unit(n, i, home < 0);
        if (home < 0) home = slot;
        n->home[slot] = home;
    } while ((number = t->next[number]) != 0);
    dims.copy = source->layer < n->first;
    return home < 0 ? TX_OK : tx_params_add(ps, l->name, &l->param[source->param], &n->weight[home], &dims);
}

tx_status tx_client_declare(tx_client_net *n, const tx_grid *grid)
{
    const tx_dims dims = { .n_tp = tx_grid_size(grid, TX_AXIS_TENSOR), .tp_rank = tx_grid_rank(grid, TX_AXIS_TENSOR) };
    ties t;
    tx_status st;
    TX_GOTO(find_ties(&t, &n->spec));
    TX_GOTO(place_layers(n));
    for (int j = 0, number = 0; j < n->spec.n_layers; number += n->spec.layer[j++].n_params)
        if (j >= n->first && j < n->first + n->n_layers) TX_GOTO(declare_layer(n, j - n->first, &t, number, &dims));
    for (int i = 0; i < t.names.n; i++) {
        const tx_client_place *at = &t.names.at[i];
        if (!n->spec.layer[at->layer].param[at->param].tied && t.next[i]) TX_GOTO(declare_shared(n, &t, i, dims));
    }
out:
    free_ties(&t);
    return st;
}
