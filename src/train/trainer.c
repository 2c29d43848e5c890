/* trainer.c - forward, backward, step: one rank's training state machine. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"

#define MAX_CONSECUTIVE_SKIPS 20

/* Learning rate and weight decay of the next update. */
static void move_schedule(tx_trainer *t)
{
    t->lr = tx_schedule_lr(&t->schedule, (double)t->schedule_samples);
    t->weight_decay = tx_schedule_wd(&t->schedule, (double)t->schedule_samples);
}

/* ---- creation: declare, plan dry, take memory, initialise ---- */

static tx_status bind_buffers(tx_trainer *t, bool train)
{
    tx_params *ps = &t->model->params;
    TX_TRY(tx_alloc(&t->value, (size_t)ps->numel, sizeof(float), "the parameters"));
    tx_params_bind(ps, t->value, NULL);
    if (!train) return TX_OK;
    TX_TRY(tx_alloc(&t->grad, (size_t)ps->numel, sizeof(float), "the gradients"));
    tx_params_bind(ps, t->value, t->grad);

    tx_optim_range *range;
    TX_TRY(tx_alloc(&range, (size_t)ps->n, sizeof *range, "the optimizer's groups"));
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        range[i] =
            (tx_optim_range){ .offset = p->offset, .numel = p->numel, .decay = p->decay == TX_DECAY, .name = p->name };
    }
    const tx_config *cfg = t->cfg;
    tx_status st = tx_adam_init(&t->adam, range, ps->n, t->value, t->grad, ps->numel, cfg->adam_beta1, cfg->adam_beta2,
                                cfg->adam_eps);
    tx_free(range);
    return st;
}

static tx_status make_batch(tx_trainer *t)
{
    int64_t s = t->s, b = t->b;
    size_t n = (size_t)(s * b);
    int32_t *token, *position, *first_key, *label;
    float *weight, *loss;
    TX_TRY(tx_alloc(&token, n, sizeof *token, "a batch"));
    t->batch.token = tx_tensor2(token, TX_I32, s, b);
    TX_TRY(tx_alloc(&position, n, sizeof *position, "a batch"));
    t->batch.position = tx_tensor2(position, TX_I32, s, b);
    if (t->cfg->reset_attention_mask) {
        TX_TRY(tx_alloc(&first_key, n, sizeof *first_key, "a batch"));
        t->batch.first_key = tx_tensor2(first_key, TX_I32, s, b);
    }
    TX_TRY(tx_alloc(&label, n, sizeof *label, "a batch"));
    t->batch.label = tx_tensor1(label, TX_I32, s * b);
    TX_TRY(tx_alloc(&weight, n, sizeof *weight, "a batch"));
    t->batch.weight = tx_tensor1(weight, TX_F32, s * b);
    TX_TRY(tx_alloc(&loss, n, sizeof *loss, "a batch"));
    t->batch.loss = tx_tensor1(loss, TX_F32, s * b);
    return TX_OK;
}

/* The step itself, run dry: what it would push is what will be taken. */
static tx_status plan_and_take(tx_trainer *t, bool train)
{
    tx_ctx *c = &t->ctx;
    const tx_model_type *type = t->model->type;
    double norm;
    const char *bad;
    TX_TRY(type->fwd(c, t->model, &t->batch, false));
    if (!train) return tx_ctx_take_memory(c);
    t->batch.dropout = (tx_dropout_key){ .on = true, .s_global = t->s };
    TX_TRY(type->fwd(c, t->model, &t->batch, true));
    TX_TRY(type->bwd(c, t->model, &t->batch));
    TX_TRY(tx_adam_zero_grad(c, &t->adam));
    TX_TRY(tx_adam_grad_norm(c, &t->adam, &norm, &bad));
    TX_TRY(tx_adam_step(c, &t->adam, 0, 0, 1));
    return tx_ctx_take_memory(c);
}

const char *tx_trainer_eod_flag(const tx_config *cfg)
{
    if (cfg->eod_mask_loss) return "--eod-mask-loss";
    if (cfg->reset_position_ids) return "--reset-position-ids";
    return cfg->reset_attention_mask ? "--reset-attention-mask" : NULL;
}

tx_status tx_trainer_create(tx_trainer **out, const tx_config *cfg, int64_t vocab_size, int32_t eod, bool train)
{
    tx_trainer *t;
    const char *eod_flag = tx_trainer_eod_flag(cfg);
    if (eod < 0 && eod_flag) return TX_FAIL(TX_ERR_ARG, "%s: the vocabulary has no <|endoftext|>", eod_flag);
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "the trainer"));
    tx_status st;
    t->cfg = cfg;
    t->s = cfg->seq_length;
    t->b = cfg->micro_batch_size;
    t->n_micro = train ? cfg->global_batch_size / cfg->micro_batch_size : 1;
    t->eod = eod;
    t->lr_override = -1;
    if (train) {
        t->schedule = tx_schedule_from_config(cfg);
        move_schedule(t);
    }
    TX_GOTO(tx_ctx_init(&t->ctx, cfg->backend, (int)cfg->threads));
    TX_GOTO(tx_model_type_find("gpt")->create(&t->model, cfg, vocab_size));
    TX_GOTO(bind_buffers(t, train));
    TX_GOTO(make_batch(t));
    if (train && cfg->given.dump_step) {
        t->dump_iteration = atoll(cfg->dump_step.item[0]);
        TX_GOTO(
            tx_alloc(&t->dump_tokens, (size_t)(cfg->global_batch_size * (t->s + 1)), sizeof(int32_t), "--dump-step"));
    }
    TX_GOTO(plan_and_take(t, train));
    if (train) tx_params_init(&t->model->params, (uint64_t)cfg->seed, cfg->init_method_std, (int)cfg->num_layers);
    *out = t;
out:
    if (st) tx_trainer_destroy(t);
    return st;
}

void tx_trainer_destroy(tx_trainer *t)
{
    if (!t) return;
    tx_adam_deinit(&t->adam);
    if (t->model) t->model->type->destroy(t->model);
    tx_ctx_deinit(&t->ctx);
    tx_free(t->batch.token.data);
    tx_free(t->batch.position.data);
    tx_free(t->batch.first_key.data);
    tx_free(t->batch.label.data);
    tx_free(t->batch.weight.data);
    tx_free(t->batch.loss.data);
    tx_free(t->dump_tokens);
    json_decref(t->blend_phase);
    tx_free(t->value);
    tx_free(t->grad);
    tx_free(t);
}

/* ---- one micro-batch ---- */

/* Rows of s+1 ids to s-major inputs, labels and weights. A weight is mask / Σ mask / n_micro, so that the objective is
 * the mean over micro-batches of each one's mean loss: Megatron's loss averaging. */
static tx_status fill_batch(tx_trainer *t, const int32_t *tokens)
{
    int64_t s = t->s, b = t->b;
    int32_t *token = t->batch.token.data, *position = t->batch.position.data, *label = t->batch.label.data;
    int32_t *first_key = t->batch.first_key.data;
    float *weight = t->batch.weight.data;
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
    float each = n_counted ? (float)(1.0 / (double)n_counted / (double)t->n_micro) : 0;
    for (int64_t i = 0; i < s * b; i++) weight[i] *= each;
    return TX_OK;
}

/* Loss summed over the counted tokens of the first n_samples samples. */
static double sum_loss(const tx_trainer *t, int64_t n_samples, int64_t *n_tokens)
{
    const float *weight = t->batch.weight.data, *loss = t->batch.loss.data;
    double sum = 0;
    *n_tokens = 0;
    for (int64_t i = 0; i < t->s * t->b; i++) {
        if (weight[i] == 0 || i % t->b >= n_samples) continue;
        sum += (double)loss[i];
        ++*n_tokens;
    }
    return sum;
}

tx_status tx_trainer_forward(tx_trainer *t, const int32_t *tokens, double *loss)
{
    if (t->want != TX_WANT_FORWARD)
        return TX_FAIL(TX_ERR_STATE, "forward was called where %s is due",
                       t->want == TX_WANT_BACKWARD ? "backward" : "step");
    if (t->micro == 0) {
        TX_TRY(tx_adam_zero_grad(&t->ctx, &t->adam));
        t->iteration_loss = 0;
    }
    TX_TRY(fill_batch(t, tokens));
    if (t->dump_iteration == t->iteration + 1)
        memcpy(t->dump_tokens + t->micro * t->b * (t->s + 1), tokens, (size_t)(t->b * (t->s + 1)) * sizeof *tokens);
    t->batch.dropout = (tx_dropout_key){
        .seed = (uint64_t)t->cfg->seed,
        .iteration = (uint32_t)(t->iteration + 1),
        .sample = (uint64_t)(t->consumed_train_samples + t->micro * t->b),
        .s_global = t->s,
        .on = true,
    };
    TX_TRY(t->model->type->fwd(&t->ctx, t->model, &t->batch, true));
    int64_t n_tokens;
    double sum = sum_loss(t, t->b, &n_tokens);
    *loss = n_tokens ? sum / (double)n_tokens : 0;
    t->iteration_loss += *loss / (double)t->n_micro;
    t->want = TX_WANT_BACKWARD;
    return TX_OK;
}

tx_status tx_trainer_backward(tx_trainer *t)
{
    if (t->want != TX_WANT_BACKWARD) return TX_FAIL(TX_ERR_STATE, "backward was called before forward");
    TX_TRY(t->model->type->bwd(&t->ctx, t->model, &t->batch));
    t->want = TX_WANT_STEP;
    return TX_OK;
}

tx_status tx_trainer_evaluate(tx_trainer *t, const int32_t *tokens, int64_t n_samples, double *loss_sum,
                              int64_t *n_tokens)
{
    if (t->want != TX_WANT_FORWARD) return TX_FAIL(TX_ERR_STATE, "evaluate was called between forward and step");
    TX_TRY(fill_batch(t, tokens));
    t->batch.dropout = (tx_dropout_key){ 0 };
    TX_TRY(t->model->type->fwd(&t->ctx, t->model, &t->batch, false));
    *loss_sum = sum_loss(t, n_samples, n_tokens);
    return TX_OK;
}

bool tx_trainer_at_boundary(const tx_trainer *t)
{
    return t->micro + 1 == t->n_micro;
}

/* ---- the update ---- */

/* A step whose gradients are not finite is skipped and counted: the schedule does not move either. */
static tx_status skip_update(tx_trainer *t, const char *bad)
{
    t->skipped++;
    t->consecutive_skips++;
    t->nan += !isfinite(t->iteration_loss);
    tx_warn("iteration %lld skipped: the gradient of %s is not finite (loss %g)", (long long)t->iteration, bad,
            t->iteration_loss);
    if (t->consecutive_skips < MAX_CONSECUTIVE_SKIPS) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC,
                   "%d iterations in a row had gradients that are not finite, first in %s: "
                   "lower --lr, or look at the data of iteration %lld",
                   MAX_CONSECUTIVE_SKIPS, bad, (long long)(t->iteration - MAX_CONSECUTIVE_SKIPS + 1));
}

static tx_status update(tx_trainer *t)
{
    const char *bad;
    TX_TRY(tx_adam_grad_norm(&t->ctx, &t->adam, &t->grad_norm, &bad));
    if (t->dump_iteration == t->iteration + 1) TX_TRY(tx__trainer_dump(t, t->grad_norm));
    int64_t batch = t->n_micro * t->b;
    double lr = t->lr_override >= 0 ? t->lr_override : t->lr;
    if (!bad) { /* Megatron's clip_grad_norm: coefficient clip / (norm + 1e-6), if below 1 */
        double clip = t->cfg->clip_grad / (t->grad_norm + 1e-6);
        TX_TRY(tx_adam_step(&t->ctx, &t->adam, lr, t->weight_decay, t->cfg->clip_grad > 0 && clip < 1 ? clip : 1));
        t->schedule_samples += batch;
    }
    t->iteration++;
    t->consumed_train_samples += batch;
    t->lr_override = -1;
    move_schedule(t);
    if (t->cfg->log_params_norm) TX_TRY(tx_adam_value_norm(&t->ctx, &t->adam, &t->params_norm));
    if (bad) return skip_update(t, bad);
    t->consecutive_skips = 0;
    return TX_OK;
}

tx_status tx_trainer_step(tx_trainer *t)
{
    if (t->want != TX_WANT_STEP) return TX_FAIL(TX_ERR_STATE, "step was called before backward");
    t->want = TX_WANT_FORWARD;
    if (!tx_trainer_at_boundary(t)) {
        t->micro++;
        return TX_OK;
    }
    t->micro = 0;
    return update(t);
}

/* ---- checkpoints ---- */

tx_status tx_trainer_require_idle(const tx_trainer *t, const char *verb)
{
    if (!t->micro && t->want == TX_WANT_FORWARD) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "a checkpoint can only be %s between iterations", verb);
}

tx_status tx_trainer_save(tx_trainer *t, const char *dir)
{
    TX_TRY(tx_trainer_require_idle(t, "saved"));
    json_t *config;
    TX_TRY(tx_config_to_json(t->cfg, &config));
    if (t->blend_phase && json_object_set(config, "blend_phase", t->blend_phase)) {
        json_decref(config);
        return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the blend of a checkpoint");
    }
    tx_ckpt_state state = {
        .iteration = t->iteration,
        .consumed_train_samples = t->consumed_train_samples,
        .consumed_valid_samples = t->consumed_valid_samples,
        .schedule_samples = t->schedule_samples,
        .optim_step = t->adam.t,
        .skipped = t->skipped,
        .seed = (uint64_t)t->cfg->seed,
        .vocab_size = t->model->vocab_size,
    };
    bool optim = !t->cfg->no_save_optim;
    tx_status st = tx_checkpoint_save(dir, &state, config, &t->model->params, t->value, optim ? t->adam.m : NULL,
                                      optim ? t->adam.v : NULL);
    json_decref(config);
    return st;
}

tx_status tx_trainer_load(tx_trainer *t, tx_checkpoint *from)
{
    TX_TRY(tx_trainer_require_idle(t, "loaded"));
    const tx_config *cfg = t->cfg;
    bool optim = t->adam.m && !cfg->finetune && !cfg->no_load_optim;
    TX_TRY(tx_checkpoint_read(from, &t->model->params, t->value, optim ? t->adam.m : NULL, optim ? t->adam.v : NULL));
    if (cfg->finetune) return TX_OK;
    const tx_ckpt_state *s = tx_checkpoint_state(from);
    t->iteration = s->iteration;
    t->consumed_train_samples = s->consumed_train_samples;
    t->consumed_valid_samples = s->consumed_valid_samples;
    t->skipped = s->skipped;
    json_decref(t->blend_phase);
    t->blend_phase = json_deep_copy(json_object_get(tx_checkpoint_config(from), "blend_phase"));
    if (optim) {
        t->adam.t = s->optim_step;
        t->schedule_samples = s->schedule_samples;
    }
    move_schedule(t);
    return TX_OK;
}

tx_memory tx_trainer_memory(const tx_trainer *t)
{
    size_t flat = (size_t)t->model->params.numel * sizeof(float), train = t->grad ? flat : 0;
    return (tx_memory){ .params = flat,
                        .grads = train,
                        .optimizer = 2 * train,
                        .activations = t->ctx.acts.cap,
                        .workspace = t->ctx.scratch.cap };
}
