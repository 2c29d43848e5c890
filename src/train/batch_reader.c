/* batch_reader.c - from the number of consumed samples to the rows of a micro-batch. */
#include "train/batch_reader.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"

int64_t tx_train_position(const tx_config *cfg, int64_t iteration, int64_t consumed)
{
    int64_t last;
    return consumed + tx_config_skipped_iterations(cfg, iteration, &last) * cfg->global_batch_size;
}

tx_status tx_batch_reader_open(tx_batch_reader *r, const tx_trainer *t, const tx_blend *data)
{
    *r = (tx_batch_reader){ .data = data };
    r->sampler = (tx_order){
        .n_samples = data->keyed ? INT64_MAX : data->n_samples, /* keyed order has no end to go around at */
        .micro_batch = t->b,
        .rank = tx_grid_rank(t->grid, TX_AXIS_DATA),
        .n_ranks = tx_grid_size(t->grid, TX_AXIS_DATA),
        .cyclic = t->cfg->dataloader_type == TX_DATALOADER_CYCLIC,
        .sharded = t->cfg->data_sharding,
    };
    TX_TRY(tx_order_open(&r->sampler));
    TX_TRY(tx_alloc(&r->sample, (size_t)t->b, sizeof *r->sample, "a batch"));
    TX_TRY(tx_alloc(&r->scratch, (size_t)(tx_trainer_samples(t)->n_scratch * t->s), sizeof *r->scratch, "a batch"));
    return tx_alloc(&r->rows, (size_t)(t->b * tx_trainer_row_len(t)), sizeof *r->rows, "a batch");
}

tx_status tx_batch_reader_draw(tx_batch_reader *r, const tx_trainer *t)
{
    r->sampler.n_samples = INT64_MAX; /* positions of the run, whose data has no end then */
    return tx_draws_open(&r->draws, t->cfg, r->data->n_samples, tx_blend_path(r->data, 0));
}

void tx_batch_reader_close(tx_batch_reader *r)
{
    tx_draws_close(r->draws);
    tx_order_close(&r->sampler);
    tx_free(r->sample);
    tx_free(r->scratch);
    tx_free(r->rows);
    *r = (tx_batch_reader){ 0 };
}

/* A micro-batch's: each sample's number in its dataset, which is named where it is another than before. */
static void tell_samples(const tx_batch_reader *r, int64_t b, int64_t consumed)
{
    char text[1024] = "";
    int n = 0, last = -1;
    for (int64_t j = 0; j < b && n < (int)sizeof text - 320; j++) {
        int64_t number;
        int d = tx_blend_find(r->data, r->sample[j], &number);
        n += d == last ? snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)number)
                       : snprintf(text + n, sizeof text - (size_t)n, "%s%.250s %lld", j ? "; " : "",
                                  tx_blend_path(r->data, d), (long long)number);
        last = d;
    }
    tx_trace("data: micro-batch of %lld behind %lld samples: %s", (long long)b, (long long)consumed, text);
}

/* From positions of the run to the samples that are drawn for them; a micro-batch is of one batch. */
static tx_status draw(tx_batch_reader *r, const tx_trainer *t)
{
    const uint32_t *batch;
    int64_t size = t->cfg->global_batch_size;
    TX_TRY(tx_draws_batch(r->draws, &batch, r->sample[0] / size + 1));
    for (int64_t j = 0; j < t->b; j++) r->sample[j] = batch[r->sample[j] % size];
    return TX_OK;
}

tx_status tx_batch_reader_read(tx_batch_reader *r, const tx_trainer *t, int64_t consumed)
{
    TX_TRY(tx_order_get(&r->sampler, r->sample, consumed));
    if (r->draws) TX_TRY(draw(r, t));
    if (tx_log_wants(TX_LOG_TRACE)) tell_samples(r, t->b, consumed);
    for (int64_t j = 0; j < t->b; j++)
        TX_TRY(tx_blend_get(r->data, r->scratch, r->rows + j * tx_trainer_row_len(t), r->sample[j]));
    return TX_OK;
}
