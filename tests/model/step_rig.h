/* step_rig.h - a model by itself, whose gradients of two micro-batches are compared: what is done otherwise must not
 * change them. */
#ifndef TEST_STEP_RIG_H
#define TEST_STEP_RIG_H

#include "support.h"

#include "../nn/whole_table.h"
#include "base/half.h"
#include "base/rng.h"
#include "data/bert_dataset.h"
#include "model/model.h"

#define FLAGS                                                                                                        \
    "--num-attention-heads 2 --max-position-embeddings 1024 --lr 1 --train-iters 1 --data-path none "                \
    "--tokenizer-type NullTokenizer --vocab-size 99 --make-vocab-size-divisible-by 4 --seed 5 --hidden-dropout 0.2 " \
    "--attention-dropout 0.1 "
#define SMALL "--num-layers 5 --hidden-size 16 --seq-length 12 --micro-batch-size 2 "

#define BERT \
    "--model-type BERT --tokenizer-type BertWordPieceLowerCase --vocab-file none --mask-prob 0.3333333333333333333 "

enum { N_MICRO = 2 };

/* A model by itself: its parameters, one micro-batch's buffers, the arenas that a dry step asks for. */
typedef struct rig {
    tx_config *cfg;
    tx_model *model;
    tx_ctx ctx;
    tx_batch batch;
    void *value;
    float *master, *grad;
    int32_t *rows;
} rig;

static void *zeros(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    assert_non_null(p);
    return p;
}

/* Token k of micro-batch i, made up; some end a document. */
static int32_t token_of(int i, int64_t k)
{
    const tx_rng rng = { .seed = 3, .stream = (uint32_t)i };
    return (int32_t)(100 * tx_rng_uniform(&rng, (uint64_t)k));
}

/* Sample j of micro-batch i of a BERT: shorter than s, in two segments; of micro-batch 0 the first third of its tokens
 * are to be predicted, as many as there may be, of the other none. */
static void pair_of(int32_t *row, int64_t s, int i, int64_t j)
{
    const tx_bert_ids out = tx_bert_ids_of(row, s);
    *out.n_tokens = (int32_t)(s - 1 - 2 * j);
    *out.is_random = (int32_t)j % 2;
    for (int64_t k = 0; k < s; k++) {
        out.tokens[k] = token_of(i, j * s + k);
        out.types[k] = k > s / 2;
        out.labels[k] = i == 0 && k < s / 3 ? token_of(i, (j + 10) * s + k) : -1;
    }
}

static void fill(rig *r, int i)
{
    const tx_model_type *type = r->model->type;
    const tx_batch_rule rule = { .eod = 99, .reset_position_ids = r->cfg->reset_position_ids, .scale = 1.0 / N_MICRO };
    int64_t s = r->cfg->seq_length, b = r->cfg->micro_batch_size, n = type->samples->row_len(s);
    for (int64_t k = 0; k < b * n && !type->samples->masked; k++) r->rows[k] = token_of(i, k);
    for (int64_t j = 0; j < b && type->samples->masked; j++) pair_of(r->rows + j * n, s, i, j);
    ASSERT_OK(type->collate(r->model, &r->batch, r->rows, &rule));
    r->batch.dropout =
        (tx_dropout_key){ .seed = 5, .iteration = 1, .sample = (uint64_t)(i * b), .s_global = s, .b = b, .on = true };
}

static tx_status step(rig *r, int micro)
{
    if (micro == 0) TX_TRY(tx_params_zero_grad(&r->ctx, &r->model->params, 0, r->model->params.n));
    TX_TRY(tx_model_fwd(&r->ctx, r->model, &r->batch, true));
    return tx_model_bwd(&r->ctx, r->model, &r->batch);
}

static void make_params(rig *r, tx_dtype dtype)
{
    tx_params *ps = &r->model->params;
    r->value = zeros(ps->numel, sizeof(float));
    r->master = zeros(ps->numel, sizeof(float));
    r->grad = zeros(ps->numel, sizeof(float));
    init_whole(ps, r->master, 5, (tx_init_method){ .std = 0.1, .n_layers = (int)r->cfg->num_layers });
    for (int64_t i = 0; i < ps->numel; i++)
        if (dtype == TX_BF16)
            ((uint16_t *)r->value)[i] = tx_f32_to_bf16(r->master[i]);
        else
            ((float *)r->value)[i] = r->master[i];
    tx_params_bind(ps, r->value, dtype, r->grad);
}

/* Runs the step dry; then the arenas have what it needs.   @dtype in the place of the flags' fp32 */
static void build(rig *r, const char *flags, const char *more, tx_dtype dtype)
{
    char all[2048];
    tx_tensor *own[TX_BATCH_BUFFERS];
    *r = (rig){ 0 };
    snprintf(all, sizeof all, FLAGS "%s %s", flags, more);
    ASSERT_OK(tx_config_parse_string(&r->cfg, strstr(all, "BERT") ? "pretrain-bert" : "pretrain-gpt", all));
    int64_t s = r->cfg->seq_length, b = r->cfg->micro_batch_size;
    ASSERT_OK(tx_ctx_init(&r->ctx, tx_device_choice_word(r->cfg->device), (int)r->cfg->threads));
    r->ctx.host.dir = r->cfg->fpdt_nvme_path;
    const tx_model_type *type = tx_model_type_of(r->cfg);
    ASSERT_OK(type->create(&r->model, r->cfg, 100, NULL));
    r->model->dtype = dtype; /* with the residual stream in fp32, as it is made, but where the norms are behind it */
    bool reads_stream = r->cfg->post_layernorm || r->cfg->norm_placement == TX_NORM_PLACEMENT_BRANCH;
    if (reads_stream) r->model->stream = dtype;
    make_params(r, dtype);
    r->rows = zeros(b * type->samples->row_len(s), sizeof *r->rows);
    type->shape(r->model, r->cfg, &r->batch, s, b);
    tx_batch_buffers(&r->batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++)
        if (own[i]->data) own[i]->data = zeros(tx_numel(*own[i]), tx_dtype_size(own[i]->dtype));
    fill(r, 0);
    ASSERT_OK(step(r, 0));
    assert_true(r->ctx.acts.used == 0 && r->ctx.host.used == 0); /* backward has popped what forward pushed */
}

static void demolish(rig *r)
{
    tx_tensor *own[TX_BATCH_BUFFERS];
    tx_batch_buffers(&r->batch, own);
    for (int i = 0; i < TX_BATCH_BUFFERS; i++) free(own[i]->data);
    r->model->type->destroy(r->model);
    tx_ctx_deinit(&r->ctx);
    tx_config_free(r->cfg);
    free(r->value);
    free(r->master);
    free(r->grad);
    free(r->rows);
}

/* Two micro-batches into one gradient, and the loss of the second. Arenas and gradients begin as noise, so that nothing
 * is read which was not written. */
static void gradients(rig *r, const char *flags, const char *more, tx_dtype dtype)
{
    build(r, flags, more, dtype);
    ASSERT_OK(tx_ctx_take_memory(&r->ctx));
    memset(r->ctx.acts.base, 0xff, r->ctx.acts.cap);
    memset(r->ctx.host.base, 0xff, r->ctx.host.cap);
    for (int i = 0; i < r->model->params.n; i++) {
        const tx_param *p = &r->model->params.param[i];
        memset(r->grad + p->offset, 0xff, (size_t)p->numel * sizeof *r->grad);
    }
    for (int i = 0; i < N_MICRO; i++) {
        fill(r, i);
        ASSERT_OK(step(r, i));
        assert_true(r->ctx.acts.used == 0 && r->ctx.host.used == 0);
    }
    assert_int_equal(r->ctx.acts.peak, r->ctx.acts.cap); /* no more is taken than is used */
    assert_int_equal(r->ctx.host.peak, r->ctx.host.cap);
}

#endif
