/* gpt_batch.c - what a GPT sees of samples of s + 1 tokens, and what its losses sum to. */
#include "data/finetune_dataset.h"
#include "model/gpt/gpt.h"

void tx__gpt_shape(const tx_model *m, const tx_config *cfg, tx_batch *batch, int64_t s, int64_t b)
{
    void *dry = TX_DRY_ADDRESS;
    batch->token = batch->position = tx_tensor2(dry, TX_I32, s, b);
    batch->label = tx_tensor1(dry, TX_I32, s * b);
    batch->weight = batch->loss = tx_tensor1(dry, TX_F32, s * b);
    if (m->z_weight > 0) batch->other_loss = batch->loss;
    if (m->is_taught) batch->taught = batch->loss;
    if (cfg->reset_attention_mask || (cfg->finetune_data.n && cfg->finetune_packing))
        batch->first_key = tx_tensor2(dry, TX_I32, s * cfg->context_parallel_size, b);
}

/* A weight is mask / Σ mask, so that the objective is the micro-batch's mean loss. */
static void share_weight(tx_batch *batch, int64_t n_counted, double scale)
{
    float *weight = batch->weight.data, each = n_counted ? (float)(scale / (double)n_counted) : 0;
    for (int64_t i = 0; i < batch->weight.dim[0]; i++) weight[i] *= each;
}

/* What a row of the batch is. */
typedef struct seen_token {
    int32_t id, position, label;
    bool counted;
} seen_token;

static void put_token(tx_batch *batch, int64_t row, int64_t j, seen_token t)
{
    int64_t at = row * batch->token.dim[1] + j;
    ((int32_t *)batch->token.data)[at] = t.id;
    ((int32_t *)batch->position.data)[at] = t.position;
    ((int32_t *)batch->label.data)[at] = t.label;
    ((float *)batch->weight.data)[at] = t.counted;
}

/* Rows of conversations. What has no label has the token itself, of weight 0. */
static tx_status collate_places(const tx_model *m, tx_batch *batch, const tx_finetune_place *rows,
                                const tx_batch_rule *rule)
{
    int64_t n = batch->token.dim[0], b = batch->token.dim[1], s = tx_batch_whole(rule, n), n_counted = 0;
    int64_t row = rule->s ? rule->s : s;
    int32_t *first_key = batch->first_key.data;
    for (int64_t j = 0; j < b; j++)
        for (int64_t i = 0; i < s; i++) {
            const tx_finetune_place *p = &rows[j * row + i];
            int64_t at = tx_batch_row(rule, n, i);
            bool counted = p->label >= 0;
            int32_t label = counted ? p->label : p->id;
            TX_TRY(tx_check_id(m, p->id));
            TX_TRY(tx_check_id(m, label));
            if (at >= 0) put_token(batch, at, j, (seen_token){ p->id, p->position, label, counted });
            if (first_key) first_key[i * b + j] = (int32_t)i - p->position;
            n_counted += counted;
        }
    share_weight(batch, n_counted, rule->scale);
    return TX_OK;
}

/* Rows of s+1 ids, or of more of which the first are taken, to s-major inputs, labels and weights. */
tx_status tx__gpt_collate(const tx_model *m, tx_batch *batch, const void *rows, const tx_batch_rule *rule)
{
    if (rule->places) return collate_places(m, batch, rows, rule);
    int64_t n = batch->token.dim[0], b = batch->token.dim[1], s = tx_batch_whole(rule, n), n_counted = 0;
    int64_t row = rule->s ? rule->s + 1 : s + 1;
    int32_t *first_key = batch->first_key.data;
    for (int64_t j = 0; j < b; j++) {
        const int32_t *ids = (const int32_t *)rows + j * row;
        int64_t begin = 0; /* of the document */
        TX_TRY(tx_check_id(m, ids[0]));
        for (int64_t i = 0; i < s; i++) {
            int32_t id = ids[i], position = (int32_t)(rule->reset_position_ids ? i - begin : i);
            bool counted = !(rule->eod_mask_loss && id == rule->eod);
            int64_t at = tx_batch_row(rule, n, i);
            TX_TRY(tx_check_id(m, ids[i + 1]));
            if (at >= 0) put_token(batch, at, j, (seen_token){ id, position, ids[i + 1], counted });
            if (first_key) first_key[i * b + j] = (int32_t)begin;
            if (id == rule->eod) begin = i + 1; /* which itself ends the document before */
            n_counted += counted;
        }
    }
    share_weight(batch, n_counted, rule->scale);
    return TX_OK;
}

void tx__gpt_losses(const tx_model *m, const tx_batch *batch, int64_t n_samples, tx_loss_sum *sum)
{
    int64_t s = batch->token.dim[0], b = batch->token.dim[1];
    const float *weight = batch->weight.data;
    const float *loss[] = { batch->loss.data, batch->other_loss.data };
    int n_labels = m->n_losses - m->is_taught; /* those of labels; the teacher's is of all tokens */
    if (m->is_taught) {
        const float *taught = batch->taught.data;
        sum[n_labels] = (tx_loss_sum){ .n = n_samples * m->kd_counted };
        for (int64_t i = 0; i < s * b; i++)
            if (i % b < n_samples) sum[n_labels].sum += (double)taught[i];
    }
    for (int k = 0; k < n_labels; k++) {
        sum[k] = (tx_loss_sum){ 0 };
        for (int64_t i = 0; i < s * b; i++) {
            if (weight[i] == 0 || i % b >= n_samples) continue;
            sum[k].sum += (double)loss[k][i];
            sum[k].n++;
        }
    }
}
