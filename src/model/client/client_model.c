/* client_model.c - a user-defined model as the trainer sees one: sizes, parameters, batches. */
#include "model/client/client_model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/args.h"

extern const tx_model_type tx_model_client;

/* ---- shapes ---- */

tx_tensor tx_client_between(const tx_client_net *n, int i, int64_t b)
{
    int64_t dim[TX_MAX_DIMS] = { b };
    if (i < 0 || i + 1 >= n->spec.n_layers) return (tx_tensor){ 0 };
    const tx_layer *l = &n->spec.layer[i];
    memcpy(dim + 1, l->dim, (size_t)l->n_dims * sizeof *dim);
    return tx_tensor_of(NULL, n->base.dtype, l->n_dims + 1, dim);
}

static void between(const tx_model *m, int64_t b, tx_tensor *front, tx_tensor *behind)
{
    const tx_client_net *n = (const tx_client_net *)m;
    *front = tx_client_between(n, n->first - 1, b);
    *behind = tx_client_between(n, n->first + n->n_layers - 1, b);
}

static int64_t losses_per_sample(const tx_client_net *n)
{
    return n->spec.losses_per_sample ? n->spec.losses_per_sample : 1;
}

static void shape(const tx_model *m, const tx_config *cfg, tx_batch *batch, int64_t s, int64_t b)
{
    (void)cfg, (void)s;
    batch->n_samples = b;
    const tx_client_net *n = (const tx_client_net *)m;
    for (int i = 0; i < n->spec.n_inputs && (m->chunk[0].pre || m->chunk[0].post); i++) {
        const tx_input *in = &n->spec.input[i];
        int64_t dim[TX_MAX_DIMS] = { b };
        memcpy(dim + 1, in->dim, (size_t)in->n_dims * sizeof *dim);
        batch->input[i] = tx_tensor_of(TX_DRY_ADDRESS, in->dtype, in->n_dims + 1, dim);
    }
    if (m->chunk[0].post) batch->weight = batch->loss = tx_tensor2(TX_DRY_ADDRESS, TX_F32, b, losses_per_sample(n));
}

/* ---- batches ---- */

static tx_status collate(const tx_model *m, tx_batch *batch, const void *rows, const tx_batch_rule *rule)
{
    const tx_client_net *n = (const tx_client_net *)m;
    const void *const *from = rows;
    float *weight = batch->weight.data;
    for (int i = 0; i < n->spec.n_inputs; i++) {
        tx_tensor to = batch->input[i];
        if (!from || !from[i]) return TX_FAIL(TX_ERR_ARG, "input %d of the model %s is missing", i, n->spec.name);
        memcpy(to.data, from[i], (size_t)tx_numel(to) * tx_dtype_size(to.dtype));
    }
    for (int64_t i = 0, all = weight ? tx_numel(batch->weight) : 0; i < all; i++)
        weight[i] = (float)(rule->scale / (double)all);
    return TX_OK;
}

static void losses(const tx_model *m, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum)
{
    const tx_client_net *n = (const tx_client_net *)m;
    const float *loss = batch->loss.data;
    *sum = (tx_loss_sum){ .n = n_samples * losses_per_sample(n) };
    for (int64_t i = 0; i < sum->n; i++) sum->sum += (double)loss[i];
}

static void destroy(tx_model *m)
{
    tx_client_net *n = (tx_client_net *)m;
    if (!n) return;
    tx_stack_deinit(&m->stack);
    tx_free(n->weight);
    tx_free(n->home);
    tx_free(n->unit);
    tx_free(n->layer);
    tx_params_deinit(&m->params);
    tx_free(n);
}

/* ---- making one ---- */

/* What is computed again, of a model that has its own number of layers. */
static tx_recompute recompute_of(const tx_config *cfg, int n_layers)
{
    tx_config with = *cfg;
    with.num_layers = n_layers;
    tx_recompute r = tx_config_recompute(&with);
    return r.n_layers ? r : (tx_recompute){ 0 }; /* what is selective is inside layers */
}

/* Parts of inputs need sizes that divide. */
static tx_status check_divided(const tx_client_net *n, int n_tp)
{
    for (int i = 0; i + 1 < n->spec.n_layers && n->base.recompute.divided; i++)
        if (tx_numel(tx_client_between(n, i, 1)) % n_tp)
            return TX_FAIL(TX_ERR_ARG, "--partition-activations: the output of layer %s is not divisible by %d",
                           n->spec.layer[i].name, n_tp);
    return TX_OK;
}

tx_status tx_client_model_create(tx_model **out, const tx_config *cfg, const tx_client_model *client,
                                 const tx_grid *grid)
{
    tx_client_net *n;
    tx_client_model spec;
    TX_TRY(TX_ARGS_TAKE(&spec, client, tx_client_model, user));
    TX_TRY(tx_client_check(&spec, cfg, grid));
    if (tx_grid_size(grid, TX_AXIS_CONTEXT) > 1)
        return TX_FAIL(TX_ERR_ARG, "--context-parallel-size %d: a user-defined model's samples are whole: leave it out",
                       tx_grid_size(grid, TX_AXIS_CONTEXT));
    TX_TRY(tx_alloc(&n, 1, sizeof *n, "the model"));
    tx_model *m = &n->base;
    tx_dtype dtype = cfg->bf16 ? TX_BF16 : cfg->fp16 ? TX_F16 : TX_F32;
    tx_status st;
    n->spec = spec;
    *m = (tx_model){ .type = &tx_model_client,
                     .dtype = dtype,
                     .stream = dtype,
                     .n_layers = spec.n_layers,
                     .n_losses = 1,
                     .loss_name = { spec.loss_name ? spec.loss_name : "loss" },
                     .sample_flops = spec.flops_per_sample,
                     .initial = { spec.initial, spec.user },
                     .recompute = recompute_of(cfg, spec.n_layers),
                     .n_chunks = 1 };
    m->n_again = m->recompute.n_layers < m->n_layers ? m->recompute.n_layers : m->n_layers;
    const tx_pp_division d = { .n_layers = m->n_layers, .p = tx_grid_size(grid, TX_AXIS_PIPELINE), .n_chunks = 1 };
    m->chunk[0] = tx_pp_layers(&d, tx_grid_rank(grid, TX_AXIS_PIPELINE), 0);
    n->first = (int)m->chunk[0].first;
    n->n_layers = (int)(m->chunk[0].end - m->chunk[0].first);
    TX_GOTO(check_divided(n, tx_grid_size(grid, TX_AXIS_TENSOR)));
    TX_GOTO(tx_client_declare(n, grid));
    TX_GOTO(tx_client_list(n));
    TX_GOTO(tx_stack_hold(&m->stack, 1));
    *out = m;
out:
    if (st) destroy(m);
    return st;
}

const tx_model_type tx_model_client = {
    .name = "client",
    .samples = &tx_user_samples,
    .destroy = destroy,
    .between = between,
    .shape = shape,
    .collate = collate,
    .losses = losses,
};
