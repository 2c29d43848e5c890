/* reweigh.c - an objective that is not the mean of a client's model's losses. What is changed is the weight of each
 * loss, which the last layer reads; its forward then comes once more (model/client/client_run.c). */
#include "base/alloc.h"
#include "train/trainer_feed.h"

/* Losses of a micro-batch. */
static int64_t n_losses(const tx_trainer *t)
{
    int64_t each = t->client->model->losses_per_sample;
    return t->b * (each ? each : 1);
}

tx_status tx__trainer_take_losses(tx_trainer *t)
{
    if (!t->client->model) return TX_OK;
    return tx_alloc(&t->own_losses, (size_t)n_losses(t) * 3, sizeof *t->own_losses, "the losses of a micro-batch");
}

static tx_status require_losses(const tx_trainer *t)
{
    if (!t->client->model)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "the losses of a %s are its own: they are known and changed of a client's model",
                       tx_model_kind_word(t->cfg->model_type));
    if (t->want != TX_WANT_BACKWARD)
        return TX_FAIL(TX_ERR_STATE, "the losses of a micro-batch are known and changed between forward and backward");
    return TX_OK;
}

tx_status tx__trainer_losses(tx_trainer *t, float *loss)
{
    TX_TRY(require_losses(t));
    const tx_batch *batch = &t->stage.slot[0].batch;
    return tx_device_read(t->ctx.device, loss, batch->loss.data, (size_t)n_losses(t) * sizeof *loss);
}

/* The batch's weights are others now.   @dloss NULL: the mean's */
static tx_status set_weights(tx_trainer *t, tx_batch *batch, double factor, const float *dloss)
{
    int64_t n = n_losses(t);
    float *weight = t->own_losses + 2 * n;
    double scale = tx__trainer_scale(t);
    for (int64_t i = 0; i < n; i++) weight[i] = (float)(dloss ? scale * (double)dloss[i] : scale * factor / (double)n);
    batch->reweighted = true;
    return tx_device_write(t->ctx.device, batch->weight.data, weight, (size_t)n * sizeof *weight);
}

tx_status tx__trainer_reweigh(tx_trainer *t, double factor, const float *dloss)
{
    TX_TRY(require_losses(t));
    return set_weights(t, &t->stage.slot[0].batch, factor, dloss);
}

/* A tx_feed.look, of training. */
tx_status tx__trainer_ask_gradient(void *user, int64_t micro, const tx_batch *batch, const tx_batch *host)
{
    tx_trainer *t = ((tx_trainer_feed *)user)->t;
    int64_t n = n_losses(t);
    float *loss = t->own_losses, *dloss = loss + n;
    (void)host;
    TX_TRY(tx_device_read(t->ctx.device, loss, batch->loss.data, (size_t)n * sizeof *loss));
    for (int64_t i = 0; i < n; i++) dloss[i] = (float)(1 / (double)n);
    TX_TRY(t->client->loss_gradient(t->client->loss_user, micro, loss, n, dloss));
    return set_weights(t, &t->stage.slot[batch->slot].batch, 1, dloss);
}
