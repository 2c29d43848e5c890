/* trainer_balance.c - experts' loads are balanced without a loss (arXiv:2408.15664): a number of each expert, which is
 * added to its scores where experts are chosen, goes up by a rate where its load was below the mean of the iteration,
 * and down where it was above:
 *
 *      b_e += rate * sign(mean load - load_e)      loads over all micro-batches and ranks
 *
 *  It is a row of the parameter table, so checkpoints and layouts know it; its gradient is 0 and no optimizer changes
 * it. All ranks know all loads and come to the same numbers by themselves; the masters are set before the update, which
 * brings them wherever values go. Layers read a copy in fp32, since a bf16 would swallow such steps. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "train/trainer.h"

bool tx__trainer_balances(const tx_trainer *t)
{
    return t->expert && t->cfg->moe_router_enable_expert_bias;
}

/* A layer of this stage that has one. */
typedef struct biased {
    int row; /* of the table */
    const tx_expert_record *record;
    double rate;
} biased;

/* The k-th of them, in the order of the model's expert_bias; false: there are no more. */
static bool find(const tx_trainer *t, int k, biased *out)
{
    const tx_model *m = t->model;
    for (int c = 0; c < m->n_chunks; c++)
        for (int64_t i = m->chunk[c].first; i < m->chunk[c].end; i++) {
            char name[TX_PARAM_NAME_MAX];
            snprintf(name, sizeof name, "encoder.layers.%lld.mlp.router.expert_bias", (long long)i);
            const tx_param *p = tx_params_find(&m->params, name);
            if (!p || k--) continue;
            *out = (biased){ .row = (int)(p - m->params.param), .rate = tx_config_moe(t->cfg, i).bias_rate };
            for (int r = 0; r < t->n_expert_layers; r++)
                if (t->expert[r].layer == i + 1) out->record = &t->expert[r];
            return true;
        }
    return false;
}

static float *row_of(const tx_trainer *t, int k)
{
    return t->expert_bias + k * t->model->expert_bias.dim[1];
}

static tx_status to_model(tx_trainer *t)
{
    const tx_tensor bias = t->model->expert_bias;
    return tx_device_write(t->ctx.device, bias.data, t->expert_bias, (size_t)tx_numel(bias) * sizeof(float));
}

/* Of what ZeRO divides each rank has read its part, and zeros elsewhere. */
static tx_status add_parts(tx_trainer *t, int group)
{
    tx_comm *g = tx_grid_group(t->grid, group);
    size_t n = (size_t)tx_numel(t->model->expert_bias);
    float *all;
    if (!t->zero.stage || tx_comm_size(g) == 1) return TX_OK;
    TX_TRY(tx_alloc(&all, n * (size_t)tx_comm_size(g), sizeof *all, "the bias of experts"));
    tx_status st = tx_comm_gather(g, all, t->expert_bias, n * sizeof *all);
    memset(t->expert_bias, 0, n * sizeof *all);
    for (size_t i = 0; i < n * (size_t)tx_comm_size(g); i++) t->expert_bias[i % n] += all[i];
    tx_free(all);
    return st;
}

/* Where there are no masters the host has the weights. */
static tx_status read_masters(tx_trainer *t)
{
    biased b;
    for (int k = 0; find(t, k, &b); k++) TX_TRY(tx_zero_load_row(&t->zero, b.row, row_of(t, k)));
    return find(t, 0, &b) ? add_parts(t, t->model->params.param[b.row].reduce_group) : TX_OK;
}

tx_status tx__trainer_read_bias(tx_trainer *t, const float *weights)
{
    const tx_tensor bias = t->model->expert_bias;
    if (!bias.n_dims) return TX_OK;
    size_t n = (size_t)tx_numel(bias);
    if (!t->expert_bias) TX_TRY(tx_alloc(&t->expert_bias, n, sizeof *t->expert_bias, "the bias of experts"));
    memset(t->expert_bias, 0, n * sizeof *t->expert_bias);
    if (weights)
        tx_model_read_bias(t->model, t->expert_bias, weights);
    else
        TX_TRY(read_masters(t));
    return to_model(t);
}

/* Of one layer. */
static void move(float *bias, const tx_expert_record *r, float rate)
{
    double sum = 0;
    for (int64_t e = 0; e < r->n_experts; e++) sum += r->load[e];
    for (int64_t e = 0; e < r->n_experts; e++) {
        double less = sum - r->load[e] * (double)r->n_experts;
        bias[e] += less > 0 ? rate : less < 0 ? -rate : 0;
    }
}

tx_status tx__trainer_balance(tx_trainer *t)
{
    biased b;
    if (!t->expert_bias) return TX_OK; /* this stage has none */
    for (int k = 0; find(t, k, &b); k++) {
        move(row_of(t, k), b.record, (float)b.rate);
        TX_TRY(tx_zero_store_row(&t->zero, b.row, row_of(t, k)));
    }
    return to_model(t);
}
