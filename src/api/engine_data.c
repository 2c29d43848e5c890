/* engine_data.c - which samples a micro-batch has, and what the client makes of them. Sample number p of the run,
 * counted over all epochs, is place p % n of epoch p / n: so a run that is resumed, with any number of ranks, goes on
 * with what it has not seen. */
#include "api/engine_data.h"

#include "base/alloc.h"
#include "base/args.h"
#include "data/keyed_order.h"

static tx_status add_input(tx_engine_data *d, tx_dtype dtype, int n_dims, const int64_t *dim)
{
    static const char what[] = "a micro-batch of the training data";
    tx_tensor x = tx_tensor_of(NULL, dtype, n_dims, dim);
    unsigned char *data;
    TX_TRY(tx_alloc(&data, (size_t)tx_numel(x), tx_dtype_size(dtype), what));
    x.data = data;
    d->at[d->n_inputs] = data;
    d->input[d->n_inputs++] = x;
    return TX_OK;
}

/* As the model declares them; of GPT and BERT rows of ids. */
static tx_status make_inputs(tx_engine_data *d)
{
    const tx_client_model *own = d->t->client->model;
    int64_t dim[TX_MAX_DIMS] = { d->t->b, tx_trainer_row_len(d->t) };
    if (!own) return add_input(d, TX_I32, 2, dim);
    for (int i = 0; i < own->n_inputs; i++) {
        for (int k = 0; k < own->input[i].n_dims; k++) dim[k + 1] = own->input[i].dim[k];
        TX_TRY(add_input(d, own->input[i].dtype, own->input[i].n_dims + 1, dim));
    }
    return TX_OK;
}

tx_status tx__engine_data_open(tx_engine_data **out, const tx_training_data *from, const tx_trainer *t)
{
    tx_engine_data *d;
    tx_status st;
    TX_TRY(tx_alloc(&d, 1, sizeof *d, "the training data"));
    d->t = t;
    TX_GOTO(TX_ARGS_TAKE(&d->from, from, tx_training_data, user));
    if (d->from.n_samples < 1 || !d->from.collate) {
        st = TX_FAIL(TX_ERR_ARG, "training data need samples, not %lld, and a function collate",
                     (long long)d->from.n_samples);
        goto out;
    }
    TX_GOTO(tx_alloc(&d->sample, (size_t)t->b, sizeof *d->sample, "the training data"));
    TX_GOTO(make_inputs(d));
    *out = d;
out:
    if (st) tx__engine_data_close(d);
    return st;
}

void tx__engine_data_close(tx_engine_data *d)
{
    if (!d) return;
    for (int i = 0; i < d->n_inputs; i++) tx_free(d->input[i].data);
    tx_free(d->sample);
    tx_free(d);
}

tx_status tx__engine_data_read(void *data, int64_t micro, const void **batch)
{
    tx_engine_data *d = data;
    const tx_trainer *t = d->t;
    int64_t n = d->from.n_samples;
    int64_t first = t->consumed_train_samples +
                    (micro * tx_grid_size(t->grid, TX_AXIS_DATA) + tx_grid_rank(t->grid, TX_AXIS_DATA)) * t->b;
    for (int64_t j = 0; j < t->b; j++) {
        int64_t epoch = (first + j) / n, at = (first + j) % n;
        d->sample[j] = d->from.in_order ? at : tx_keyed_order((uint64_t)t->cfg->seed, (uint32_t)epoch, n, at);
    }
    TX_TRY(d->from.collate(d->from.user, d->sample, t->b, d->input));
    *batch = t->client->model ? (const void *)d->at : d->at[0];
    return TX_OK;
}
