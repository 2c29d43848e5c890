/* trainer_feed.c - samples into batches, and mean losses out of them. */
#include "train/trainer_feed.h"

#include <string.h>

#include "parallel/cp.h"

const tx_samples *tx_trainer_samples(const tx_trainer *t)
{
    return t->cfg->finetune_data.n ? tx_samples_of(t->cfg) : t->model->type->samples;
}

int64_t tx_trainer_row_len(const tx_trainer *t)
{
    return tx_trainer_samples(t)->row_len(t->s);
}

double tx__trainer_scale(const tx_trainer *t)
{
    return t->scaler.scale / (double)(t->n_micro * tx_grid_size(t->grid, TX_AXIS_DATA));
}

tx_status tx__trainer_fill_batch(const tx_trainer *t, tx_batch *batch, const void *rows)
{
    const tx_batch_rule rule = { .s = t->s,
                                 .places = t->cfg->finetune_data.n > 0,
                                 .n_parts = tx_grid_size(t->grid, TX_AXIS_CONTEXT),
                                 .at = tx_cp_positions(t->grid, t->stage.s),
                                 .eod = t->eod,
                                 .eod_mask_loss = t->cfg->eod_mask_loss,
                                 .reset_position_ids = t->cfg->reset_position_ids,
                                 .scale = tx__trainer_scale(t) };
    return t->model->type->collate(t->model, batch, rows, &rule);
}

/* --dump-step: what of the samples is trained on. */
static void keep_tokens(const tx_trainer *t, int64_t micro, const int32_t *rows)
{
    int64_t whole = tx_trainer_row_len(t), n = tx_trainer_samples(t)->row_len(t->length);
    for (int64_t j = 0; j < t->b; j++)
        memcpy(t->dump_tokens + (micro * t->b + j) * n, rows + j * whole, (size_t)n * sizeof *t->dump_tokens);
}

/* The samples of a chunk that looks at them. */
static tx_status fill_samples(const tx_trainer_feed *f, int64_t micro, tx_batch *batch)
{
    tx_trainer *t = f->t;
    const tx_pp_chunk *chunk = &t->model->chunk[batch->chunk];
    const void *rows = f->rows;
    int64_t data = tx_grid_size(t->grid, TX_AXIS_DATA);
    if (!chunk->pre && !chunk->post && !batch->first_key.data && !batch->n_keys.data) return TX_OK;
    if (f->n_samples && micro * data * t->b >= f->n_samples) micro = (f->n_samples - 1) / (data * t->b);
    if (f->read) {
        tx__trainer_note(t, "reading data");
        TX_TRY(f->read(f->read_user, micro, &rows));
        tx__trainer_note(t, "at a micro-batch");
    }
    if (t->dump_iteration == t->iteration + 1 && batch->dropout.on) keep_tokens(t, micro, rows);
    return tx__trainer_fill_batch(t, batch, rows);
}

/* A tx_feed.fill. */
static tx_status fill(void *user, int64_t micro, tx_batch *batch)
{
    tx_trainer_feed *f = user;
    tx_trainer *t = f->t;
    int64_t data = tx_grid_size(t->grid, TX_AXIS_DATA);
    micro += f->first;
    batch->dropout = (tx_dropout_key){
        .seed = (uint64_t)t->cfg->seed,
        .iteration = (uint32_t)(t->iteration + 1),
        .sample = (uint64_t)(t->consumed_train_samples + (micro * data + tx_grid_rank(t->grid, TX_AXIS_DATA)) * t->b),
        .s_global = t->stage.s,
        .layer_drop = 1 - tx_config_layer_theta(t->cfg, t->iteration + 1),
        .on = !f->n_samples,
    };
    batch->scale = tx__trainer_scale(t);
    TX_TRY(fill_samples(f, micro, batch));
    tx_routing_draw(t->model, t->cfg, batch);
    return TX_OK;
}

void tx__trainer_feed_init(tx_trainer_feed *f, tx_trainer *t)
{
    *f = (tx_trainer_feed){ .is = { .fill = fill, .user = f, .units = &t->zero.hooks }, .t = t };
}

tx_status tx__trainer_losses_of(const tx_trainer *t, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum)
{
    const tx_model *m = t->model;
    int n = tx_grid_size(t->grid, TX_AXIS_CONTEXT);
    tx_loss_sum own[TX_MAX_LOSSES], *all = t->part_losses;
    m->type->losses(m, batch, n_samples, sum);
    if (n == 1) return TX_OK;
    size_t bytes = (size_t)m->n_losses * sizeof *own;
    memcpy(own, sum, bytes);
    memset(sum, 0, bytes);
    TX_TRY(tx_comm_gather(tx_grid_group(t->grid, TX_GROUP_CONTEXT), all, own, bytes));
    for (int i = 0; i < n * m->n_losses; i++) {
        sum[i % m->n_losses].sum += all[i].sum;
        sum[i % m->n_losses].n += all[i].n;
    }
    return TX_OK;
}

tx_status tx__trainer_feed_add(tx_trainer_feed *f, const tx_batch *batch, int64_t n_samples, double weight)
{
    tx_loss_sum sum[TX_MAX_LOSSES];
    TX_TRY(tx__trainer_losses_of(f->t, batch, n_samples, sum));
    for (int k = 0; k < f->t->model->n_losses; k++)
        if (sum[k].n) f->sum[k] += weight * (sum[k].sum / (double)sum[k].n);
    return TX_OK;
}

double tx__trainer_total(const tx_trainer *t, const double *losses)
{
    double sum = 0;
    for (int k = 0; k < t->model->n_losses; k++) sum += losses[k];
    return sum;
}

tx_status tx__trainer_no_pipeline(const tx_trainer *t)
{
    if (tx_grid_size(t->grid, TX_AXIS_PIPELINE) == 1) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "with %d pipeline stages a whole iteration is trained at a time",
                   tx_grid_size(t->grid, TX_AXIS_PIPELINE));
}
