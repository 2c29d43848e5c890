/* bert_batch.c - what a BERT sees of masked samples, and what its losses sum to. */
#include <math.h>

#include "data/bert_dataset.h"
#include "model/bert/bert.h"

/* Tokens of a sample that are predicted, at most, of the s positions that a rank has of it. */
static int64_t most_labels(const tx_config *cfg, int64_t s)
{
    int64_t n = (int64_t)ceil(cfg->mask_prob * (double)(s * cfg->context_parallel_size));
    return n < 1 ? 1 : n < s ? n : s;
}

void tx__bert_shape(const tx_model *m, const tx_config *cfg, tx_batch *batch, int64_t s, int64_t b)
{
    void *dry = TX_DRY_ADDRESS;
    int64_t n = b * most_labels(cfg, s);
    batch->token = batch->position = batch->type = tx_tensor2(dry, TX_I32, s, b);
    batch->n_keys = tx_tensor1(dry, TX_I32, b);
    batch->label = tx_tensor1(dry, TX_I32, n);
    batch->weight = batch->loss = tx_tensor1(dry, TX_F32, n);
    batch->row = tx_tensor1(dry, TX_I32, b + n);
    batch->n_labels = n;
    if (m->n_losses == 1) return;
    batch->pair_label = tx_tensor1(dry, TX_I32, b);
    batch->pair_weight = batch->other_loss = tx_tensor1(dry, TX_F32, b);
}

/* How many tokens are predicted: of the batch, and of whole samples. */
typedef struct label_counts {
    int64_t own, all;
} label_counts;

static tx_status check_sample(tx_bert_ids in, int64_t s)
{
    if (*in.n_tokens < 1 || *in.n_tokens > s)
        return TX_FAIL(TX_ERR_FORMAT, "a sample of %lld positions has %d tokens", (long long)s, *in.n_tokens);
    if (*in.is_random < 0 || *in.is_random > 1)
        return TX_FAIL(TX_ERR_FORMAT, "a sample's segments are in order %d, which is not 0 or 1", *in.is_random);
    return TX_OK;
}

/* The batch's row `at`, of sample j, which is position i. */
static tx_status fill_token(const tx_model *m, tx_batch *batch, tx_bert_ids in, int64_t at, int64_t i)
{
    int32_t type = i < *in.n_tokens ? in.types[i] : 0;
    TX_TRY(tx_check_id(m, in.tokens[i]));
    if (type < 0 || type > 1) return TX_FAIL(TX_ERR_FORMAT, "a token is of segment %d, which is not 0 or 1", type);
    ((int32_t *)batch->token.data)[at] = in.tokens[i];
    ((int32_t *)batch->type.data)[at] = type;
    ((int32_t *)batch->position.data)[at] = (int32_t)i;
    return TX_OK;
}

/* One sample, j of b, and its labels behind those of the samples before. */
static tx_status fill_sample(const tx_model *m, tx_batch *batch, tx_bert_ids in, int64_t j, const tx_batch_rule *rule,
                             label_counts *n)
{
    int64_t rows = batch->token.dim[0], b = batch->token.dim[1], most = batch->label.dim[0],
            s = tx_batch_whole(rule, rows);
    TX_TRY(check_sample(in, s));
    ((int32_t *)batch->n_keys.data)[j] = *in.n_tokens;
    ((int32_t *)batch->row.data)[j] = (int32_t)j;
    for (int64_t i = 0; i < s; i++) {
        int64_t row = tx_batch_row(rule, rows, i), at = row * b + j;
        n->all += in.labels[i] != -1;
        if (row < 0) continue;
        TX_TRY(fill_token(m, batch, in, at, i));
        if (in.labels[i] == -1) continue;
        TX_TRY(tx_check_id(m, in.labels[i]));
        if (n->own == most)
            return TX_FAIL(TX_ERR_FORMAT,
                           "a micro-batch has more than %lld tokens to predict, which is --mask-prob of all: raise it",
                           (long long)most);
        ((int32_t *)batch->label.data)[n->own] = in.labels[i];
        ((int32_t *)batch->row.data)[b + n->own++] = (int32_t)at;
    }
    if (batch->pair_label.data) ((int32_t *)batch->pair_label.data)[j] = *in.is_random;
    return TX_OK;
}

/* The head always reads as many rows as there may be: of one shape a product is made ready once, and its workspace is
 * what the dry run found. Rows that are too many are the first, with no label. */
tx_status tx__bert_collate(const tx_model *m, tx_batch *batch, const void *rows, const tx_batch_rule *rule)
{
    int64_t b = batch->token.dim[1], most = batch->label.dim[0], s = tx_batch_whole(rule, batch->token.dim[0]);
    float *weight = batch->weight.data, *pair_weight = batch->pair_weight.data;
    bool has_first = tx_batch_row(rule, batch->token.dim[0], 0) == 0; /* which the binary head reads */
    label_counts n = { 0 };
    for (int64_t j = 0; j < b; j++)
        TX_TRY(fill_sample(m, batch, tx_bert_ids_of((int32_t *)rows + j * tx_bert_row_len(s), s), j, rule, &n));
    batch->n_labels = n.own;
    for (int64_t i = 0; i < most; i++) weight[i] = i < n.own ? (float)(rule->scale / (double)n.all) : 0;
    for (int64_t i = n.own; i < most; i++) {
        ((int32_t *)batch->label.data)[i] = -1;
        ((int32_t *)batch->row.data)[b + i] = 0;
    }
    for (int64_t j = 0; pair_weight && j < b; j++) pair_weight[j] = has_first ? (float)(rule->scale / (double)b) : 0;
    return TX_OK;
}

void tx__bert_losses(const tx_model *m, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum)
{
    int64_t b = batch->token.dim[1];
    const int32_t *row = (const int32_t *)batch->row.data + b;
    const float *loss = batch->loss.data, *other_loss = batch->other_loss.data;
    sum[0] = (tx_loss_sum){ 0 };
    for (int64_t i = 0; i < batch->n_labels; i++) {
        if (row[i] % b >= n_samples) continue;
        sum[0].sum += (double)loss[i];
        sum[0].n++;
    }
    if (m->n_losses == 1) return;
    sum[1] = (tx_loss_sum){ 0 };
    if (*(const int32_t *)batch->position.data != 0) return; /* another rank has the samples' first positions */
    sum[1].n = n_samples;
    for (int64_t j = 0; j < n_samples; j++) sum[1].sum += (double)other_loss[j];
}
