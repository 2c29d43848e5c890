/* trainer_experts.c - what the routers of layers with experts did in an iteration, or in an evaluation. Each stage adds
 * up its own layers' in the context's memory (nn/moe.h); here they become one table of the whole model. */
#include <string.h>

#include "base/alloc.h"
#include "nn/moe.h"
#include "train/trainer.h"

/* Numbers of a layer, in the table: as many as the one with most experts has. */
static int64_t row_len(const tx_trainer *t)
{
    int64_t most = 0;
    for (int k = 0; k < t->n_expert_layers; k++)
        if (t->expert[k].n_experts > most) most = t->expert[k].n_experts;
    return tx_moe_n_sums(most);
}

/* The table's rows; load is set later. */
static tx_status list_layers(tx_trainer *t, int64_t layers)
{
    int64_t n = tx_config_expert_layers(t->cfg, layers);
    TX_TRY(tx_alloc(&t->expert, (size_t)n, sizeof *t->expert, "the layers with experts"));
    for (int64_t i = 0; i < layers; i++) {
        int64_t n_experts = tx_config_moe(t->cfg, i).n_experts;
        if (n_experts > 1)
            t->expert[t->n_expert_layers++] = (tx_expert_record){ .layer = i + 1, .n_experts = n_experts };
    }
    return TX_OK;
}

tx_status tx__trainer_take_experts(tx_trainer *t)
{
    if (t->client->model || !tx_config_has_experts(t->cfg)) return TX_OK;
    TX_TRY(list_layers(t, t->cfg->num_layers));
    int data = tx_grid_sharers(t->grid), stages = tx_grid_size(t->grid, TX_AXIS_PIPELINE);
    int64_t len = row_len(t);
    size_t table = (size_t)(t->n_expert_layers * len), parts = (size_t)(data > stages ? data : stages);
    TX_TRY(tx_alloc(&t->expert_sums, table * (parts + 1), sizeof *t->expert_sums, "the loads of experts"));
    for (int k = 0; k < t->n_expert_layers; k++) t->expert[k].load = t->expert_sums + k * len + TX_MOE_LOAD;
    return TX_OK;
}

tx_status tx__trainer_begin_experts(tx_trainer *t)
{
    tx_tensor sums = t->model->expert_sums;
    if (sums.data) TX_RUN(&t->ctx, fill, .x = sums);
    return TX_OK;
}

/* The table's row of layer i, from 0, or NULL. */
static double *row_of(const tx_trainer *t, int64_t i, int64_t len)
{
    for (int k = 0; k < t->n_expert_layers; k++)
        if (t->expert[k].layer == i + 1) return t->expert_sums + k * len;
    return NULL;
}

/* This rank's, in the table; 0 of other stages' layers. They come by way of the room behind it. */
static tx_status read_own(tx_trainer *t)
{
    const tx_tensor sums = t->model->expert_sums;
    int64_t len = row_len(t), n = t->n_expert_layers * len;
    float *next = (float *)(t->expert_sums + n);
    memset(t->expert_sums, 0, (size_t)n * sizeof *t->expert_sums);
    if (!sums.data) return TX_OK;
    TX_TRY(tx_device_read(t->ctx.device, next, sums.data, (size_t)tx_numel(sums) * sizeof *next));
    for (int k = 0; k < t->model->n_chunks; k++)
        for (int64_t i = t->model->chunk[k].first; i < t->model->chunk[k].end; i++) {
            double *row = row_of(t, i, len);
            for (int64_t e = 0; e < sums.dim[1] && row; e++) row[e] = (double)*next++;
        }
    return TX_OK;
}

/* The table becomes the sum of the members' tables. */
static tx_status sum_over(tx_trainer *t, int group)
{
    tx_comm *g = tx_grid_group(t->grid, group);
    int64_t n = t->n_expert_layers * row_len(t);
    double *sum = t->expert_sums, *all = sum + n;
    if (tx_comm_size(g) == 1) return TX_OK;
    TX_TRY(tx_comm_gather(g, all, sum, (size_t)n * sizeof *sum));
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int r = 0; r < tx_comm_size(g); r++)
        for (int64_t i = 0; i < n; i++) sum[i] += all[r * n + i];
    return TX_OK;
}

tx_status tx__trainer_sum_experts(tx_trainer *t, int64_t n_micro)
{
    t->moe_loss = 0;
    if (!t->expert) return TX_OK;
    double micro_batches = (double)(n_micro * tx_grid_size(t->grid, TX_AXIS_DATA));
    int64_t n = row_len(t);
    TX_TRY(read_own(t));
    TX_TRY(sum_over(t, TX_GROUP_DATA));
    TX_TRY(sum_over(t, TX_GROUP_PIPELINE));
    TX_TRY(tx_comm_spread(tx_grid_group(t->grid, TX_GROUP_TENSOR), t->expert_sums,
                          (size_t)(t->n_expert_layers * n) * sizeof *t->expert_sums, 0));
    for (int k = 0; k < t->n_expert_layers; k++) {
        tx_expert_record *r = &t->expert[k];
        const double *row = t->expert_sums + k * n;
        const tx_moe_shape is = tx_config_moe(t->cfg, r->layer - 1);
        r->aux_loss = row[TX_MOE_AUX] / micro_batches;
        r->z_loss = row[TX_MOE_Z] / micro_batches;
        r->dropped = row[TX_MOE_DROPPED];
        t->moe_loss += is.aux_coeff * r->aux_loss + is.z_coeff * r->z_loss;
    }
    t->expert_means = tx_expert_means_of(t->expert, t->n_expert_layers);
    return TX_OK;
}
