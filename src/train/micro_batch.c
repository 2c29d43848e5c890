/* micro_batch.c - what the model sees of a micro-batch's tokens, and what is made of its losses. */
#include "train/trainer.h"

/* Rows of s+1 ids to s-major inputs, labels and weights. A weight is mask / Σ mask / n_micro, so that the objective is
 * the mean over all ranks' micro-batches of each one's mean loss: Megatron's loss averaging. Times the loss scale. */
tx_status tx__micro_batch_fill(const tx_trainer *t, tx_batch *batch, const int32_t *tokens)
{
    int64_t s = t->s, b = t->b;
    int32_t *token = batch->token.data, *position = batch->position.data, *label = batch->label.data;
    int32_t *first_key = batch->first_key.data;
    float *weight = batch->weight.data;
    int64_t n_counted = 0;
    for (int64_t j = 0; j < b; j++) {
        int64_t begin = 0; /* of the document */
        for (int64_t i = 0; i <= s; i++) {
            int32_t id = tokens[j * (s + 1) + i];
            if (id < 0 || id >= t->model->vocab_size)
                return TX_FAIL(TX_ERR_FORMAT,
                               "the data holds token id %d, but the vocabulary has %lld tokens: was it made with "
                               "another tokenizer?",
                               id, (long long)t->model->vocab_size);
            if (i > 0) label[(i - 1) * b + j] = id;
            if (i == s) continue;
            bool counted = !(t->cfg->eod_mask_loss && id == t->eod);
            token[i * b + j] = id;
            position[i * b + j] = (int32_t)(t->cfg->reset_position_ids ? i - begin : i);
            if (first_key) first_key[i * b + j] = (int32_t)begin;
            if (id == t->eod) begin = i + 1; /* which itself ends the document before */
            weight[i * b + j] = counted;
            n_counted += counted;
        }
    }
    double n_micro = (double)(t->n_micro * t->grid->dp.size);
    float each = n_counted ? (float)(t->scaler.scale / (double)n_counted / n_micro) : 0;
    for (int64_t i = 0; i < s * b; i++) weight[i] *= each;
    return TX_OK;
}

/* Loss summed over the counted tokens of the first n_samples samples. */
double tx__micro_batch_sum(const tx_trainer *t, const tx_batch *batch, int64_t n_samples, int64_t *n_tokens)
{
    const float *weight = batch->weight.data, *loss = batch->loss.data;
    double sum = 0;
    *n_tokens = 0;
    for (int64_t i = 0; i < t->s * t->b; i++) {
        if (weight[i] == 0 || i % t->b >= n_samples) continue;
        sum += (double)loss[i];
        ++*n_tokens;
    }
    return sum;
}

double tx__micro_batch_loss(const tx_trainer *t, const tx_batch *batch, int64_t n_samples)
{
    int64_t n;
    double sum = tx__micro_batch_sum(t, batch, n_samples, &n);
    return n ? sum / (double)n : 0;
}
