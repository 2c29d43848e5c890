/* client_check.c - whether a user-defined model can be trained. */
#include <string.h>

#include "model/client/client_model.h"

/* A tensor's dimensions, of one sample. */
static tx_status check_dims(const char *what, const char *name, int n_dims, const int64_t *dim)
{
    double numel = 1;
    if (n_dims < 1 || n_dims > TX_MAX_DIMS - 1)
        return TX_FAIL(TX_ERR_ARG, "%s of %s has %d dimensions: 1 to %d are possible", what, name, n_dims,
                       TX_MAX_DIMS - 1);
    for (int i = 0; i < n_dims; i++) {
        if (dim[i] < 1) return TX_FAIL(TX_ERR_ARG, "%s of %s: dimension %d is %lld", what, name, i, (long long)dim[i]);
        numel *= (double)dim[i];
    }
    return numel < 1e15 ? TX_OK : TX_FAIL(TX_ERR_ARG, "%s of %s has about %.0e numbers", what, name, numel);
}

static tx_status check_param(const tx_client_model *m, const tx_layer *l, const tx_param_spec *p, int n_tp)
{
    if (!p->name || !*p->name) return TX_FAIL(TX_ERR_ARG, "a parameter of layer %s has no name", l->name);
    if (strlen(l->name) + 1 + strlen(p->name) >= TX_PARAM_NAME_MAX)
        return TX_FAIL(TX_ERR_ARG, "%.60s.%.60s: a name has at most %d characters", l->name, p->name,
                       TX_PARAM_NAME_MAX - 1);
    if (p->dim[0] < 1 || p->dim[1] < 0 || (double)p->dim[0] * (double)(p->dim[1] ? p->dim[1] : 1) > 1e15)
        return TX_FAIL(TX_ERR_ARG, "%s.%s cannot be of %lld x %lld numbers", l->name, p->name, (long long)p->dim[0],
                       (long long)p->dim[1]);
    if (p->tied) return TX_OK; /* the rest is the other's */
    if ((unsigned)p->init > TX_INIT_OWN || (unsigned)p->decay > TX_DECAY || (unsigned)p->division > TX_COLUMNS)
        return TX_FAIL(TX_ERR_ARG, "%s.%s: init, decay or division is none that there is", l->name, p->name);
    if (p->init == TX_INIT_OWN && !m->initial)
        return TX_FAIL(TX_ERR_ARG, "%s.%s is TX_INIT_OWN, but the model has no `initial`", l->name, p->name);
    if (p->division == TX_WHOLE) return TX_OK;
    int64_t n = p->dim[p->division == TX_COLUMNS];
    if (n && n % n_tp == 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s.%s: %lld %s are not divisible by the tensor-parallel size %d", l->name, p->name,
                   (long long)n, p->division == TX_COLUMNS ? "columns" : "rows", n_tp);
}

static int stage_of(const tx_client_model *m, int layer, const tx_grid *grid)
{
    const tx_pp_division d = { .n_layers = m->n_layers, .p = tx_grid_size(grid, TX_AXIS_PIPELINE), .n_chunks = 1 };
    int stage = 0;
    while (layer >= tx_pp_layers(&d, stage, 0).end) stage++;
    return stage;
}

/* Parameter p of layer i to what it is tied to.   @names: those of the layers in front among them */
static tx_status check_tie(const tx_client_names *names, int i, const tx_param_spec *p, const tx_grid *grid)
{
    const tx_client_model *m = names->model;
    const char *name = m->layer[i].name;
    int found = tx_client_names_find(names, p->tied);
    const tx_client_place *source = found >= 0 && names->at[found].layer < i ? &names->at[found] : NULL;
    const tx_param_spec *to = source ? &m->layer[source->layer].param[source->param] : NULL;
    if (!to) return TX_FAIL(TX_ERR_ARG, "%s.%s is tied to %s, which no layer in front has", name, p->name, p->tied);
    if (to->tied)
        return TX_FAIL(TX_ERR_ARG, "%s.%s is tied to %s, which is tied itself: tie it to %s", name, p->name, p->tied,
                       to->tied);
    if (to->dim[0] != p->dim[0] || to->dim[1] != p->dim[1])
        return TX_FAIL(TX_ERR_ARG, "%s.%s of %lld x %lld is tied to %s of %lld x %lld", name, p->name,
                       (long long)p->dim[0], (long long)p->dim[1], p->tied, (long long)to->dim[0],
                       (long long)to->dim[1]);
    int from = stage_of(m, source->layer, grid), at = stage_of(m, i, grid);
    if (from == at || (!from && at == tx_grid_size(grid, TX_AXIS_PIPELINE) - 1)) return TX_OK;
    return TX_FAIL(
        TX_ERR_UNSUPPORTED,
        "%s.%s on pipeline stage %d is tied to %s on stage %d: both have to be on one stage, or on the first "
        "and the last",
        name, p->name, at, p->tied, from);
}

/* Layer i has a name, which none in front has.   @layers: theirs */
static tx_status check_name(const tx_client_model *m, int i, tx_hash_table *layers)
{
    const char *name = m->layer[i].name;
    size_t at = 0, k;
    if (!name || !*name) return TX_FAIL(TX_ERR_ARG, "layer %d of the model %s has no name", i, m->name);
    uint64_t hash = tx_hash(name, strlen(name), 0);
    while (tx_hash_next(layers, hash, &at, &k))
        if (!strcmp(m->layer[k].name, name))
            return TX_FAIL(TX_ERR_ARG, "layers %d and %d of the model %s are both called %s", (int)k, i, m->name, name);
    return tx_hash_add(layers, hash, (size_t)i);
}

static tx_status check_layer(tx_client_names *names, int i, const tx_grid *grid)
{
    const tx_client_model *m = names->model;
    const tx_layer *l = &m->layer[i];
    if (!l->forward || !l->backward)
        return TX_FAIL(TX_ERR_ARG, "layer %s has no %s", l->name, l->forward ? "backward" : "forward");
    if (i + 1 < m->n_layers) TX_TRY(check_dims("the output", l->name, l->n_dims, l->dim));
    if (l->n_params < 0 || (l->n_params && !l->param))
        return TX_FAIL(TX_ERR_ARG, "layer %s says that it has %d parameters, and names none", l->name, l->n_params);
    for (int k = 0; k < l->n_params; k++) {
        TX_TRY(check_param(m, l, &l->param[k], tx_grid_size(grid, TX_AXIS_TENSOR)));
        if (l->param[k].tied) TX_TRY(check_tie(names, i, &l->param[k], grid));
        TX_TRY(tx_client_names_add(names, i, k));
    }
    return TX_OK;
}

static tx_status check_inputs(const tx_client_model *m)
{
    if (m->n_inputs < 0 || m->n_inputs > TX_MAX_INPUTS)
        return TX_FAIL(TX_ERR_ARG, "the model %s has %d inputs: 0 to %d are possible", m->name, m->n_inputs,
                       TX_MAX_INPUTS);
    for (int i = 0; i < m->n_inputs; i++) {
        if ((unsigned)m->input[i].dtype >= TX_N_DTYPES)
            return TX_FAIL(TX_ERR_ARG, "input %d of the model %s is of a type that there is not", i, m->name);
        TX_TRY(check_dims("an input", m->name, m->input[i].n_dims, m->input[i].dim));
    }
    return TX_OK;
}

/* What of the layout needs to know more of a model than there is to know. */
static tx_status check_layout(const tx_client_model *m, const tx_config *cfg, const tx_grid *grid)
{
    if (tx_grid_size(grid, TX_AXIS_PIPELINE) > m->n_layers)
        return TX_FAIL(TX_ERR_ARG, "--pipeline-model-parallel-size %d: the model %s has %d layers",
                       tx_grid_size(grid, TX_AXIS_PIPELINE), m->name, m->n_layers);
    if (cfg->num_layers_per_virtual_pipeline_stage)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--num-layers-per-virtual-pipeline-stage is for GPT and BERT alone");
    if (cfg->standalone_embedding_stage)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--standalone-embedding-stage is for GPT and BERT alone");
    if (cfg->enable_zbh1_pipeline)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "--enable-zbh1-pipeline is for GPT and BERT alone");
    if (grid->sequence) return TX_FAIL(TX_ERR_UNSUPPORTED, "--sequence-parallel is for GPT and BERT alone");
    return TX_OK;
}

/* One layer after the other; each is seen beside those in front of it. */
static tx_status check_layers(const tx_client_model *m, const tx_grid *grid)
{
    tx_client_names names = { .model = m };
    tx_hash_table layers = { 0 };
    tx_status st = TX_OK;
    for (int i = 0; i < m->n_layers && !st; i++) {
        st = check_name(m, i, &layers);
        if (!st) st = check_layer(&names, i, grid);
    }
    if (!st && !names.n) st = TX_FAIL(TX_ERR_ARG, "the model %s has no parameters", m->name);
    tx_client_names_free(&names);
    tx_hash_free(&layers);
    return st;
}

tx_status tx_client_check(const tx_client_model *m, const tx_config *cfg, const tx_grid *grid)
{
    if (!m->name || !*m->name) return TX_FAIL(TX_ERR_ARG, "a model needs a name");
    if (m->n_layers < 1 || !m->layer) return TX_FAIL(TX_ERR_ARG, "the model %s has no layers", m->name);
    if (m->losses_per_sample < 0)
        return TX_FAIL(TX_ERR_ARG, "the model %s has %lld losses a sample", m->name, (long long)m->losses_per_sample);
    TX_TRY(check_inputs(m));
    TX_TRY(check_layout(m, cfg, grid));
    return check_layers(m, grid);
}
