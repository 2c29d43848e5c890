/* trainer.c - forward, backward, step: one rank's training state machine. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/hf_format.h"
#include "train/fit.h"

#define SCHEDULE_KEY "opt_param_scheduler" /* upstream's names for them */
#define SCALER_KEY   "grad_scaler"

/* Learning rate and weight decay of the next update. */
static void move_schedule(tx_trainer *t)
{
    t->lr = tx_schedule_lr(&t->schedule, &t->place);
    t->weight_decay = tx_schedule_wd(&t->schedule, &t->place);
}

/* Micro-batches of the iteration that comes after what is consumed. */
static int64_t n_micro_now(const tx_trainer *t)
{
    return tx_config_batch_size(t->cfg, t->consumed_train_samples) / t->b;
}

/* ---- creation: declare, plan, take memory, initialise ---- */

static tx_status bind_buffers(tx_trainer *t, bool train)
{
    tx_params *ps = &t->model->params;
    tx_dtype dtype = t->model->dtype;
    tx_tensor low = { 0 };
    TX_TRY(tx_alloc(&t->value, (size_t)ps->numel, tx_dtype_size(dtype), "the parameters"));
    if (dtype == TX_F32) t->master = t->value;
    tx_params_bind(ps, t->value, dtype, NULL);
    if (!train) return TX_OK;
    if (dtype != TX_F32) {
        TX_TRY(tx_alloc(&t->master, (size_t)ps->numel, sizeof(float), "the master weights"));
        low = tx_tensor1(t->value, dtype, ps->numel);
    }
    TX_TRY(tx_alloc(&t->grad, (size_t)ps->numel, sizeof(float), "the gradients"));
    tx_params_bind(ps, t->value, dtype, t->grad);

    tx_optim_range *range;
    TX_TRY(tx__plan_optim_ranges(&range, ps));
    tx_status st = tx_optim_init(&t->optim, t->cfg, range, ps->n, t->master, low, t->grad, ps->numel);
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
    tx_memory planned;
    tx_status st;
    t->cfg = cfg;
    t->s = cfg->seq_length;
    t->b = cfg->micro_batch_size;
    t->n_micro = train ? n_micro_now(t) : 1;
    t->eod = eod;
    t->lr_override = -1;
    t->grads_begin = true;
    t->scaler = tx_loss_scaler_from_config(cfg);
    if (train) {
        t->schedule = tx_schedule_from_config(cfg);
        move_schedule(t);
    }
    TX_GOTO(tx__plan_open(&t->ctx, &t->model, cfg, vocab_size));
    TX_GOTO(tx__plan_step(&planned, &t->ctx, t->model, cfg, train));
    if (train) TX_GOTO(tx_fit_check(cfg, vocab_size, &planned));
    TX_GOTO(bind_buffers(t, train));
    TX_GOTO(make_batch(t));
    if (train && cfg->given.dump_step) {
        const tx_hf_format *format; /* whether there is one: better now than at the step */
        TX_GOTO(tx_hf_format_of(&format, t->model));
        t->dump_iteration = atoll(cfg->dump_step.item[0]);
        TX_GOTO(
            tx_alloc(&t->dump_tokens, (size_t)(cfg->global_batch_size * (t->s + 1)), sizeof(int32_t), "--dump-step"));
    }
    TX_GOTO(tx_ctx_take_memory(&t->ctx));
    if (train) {
        tx_params_init(&t->model->params, t->master, (uint64_t)cfg->seed,
                       (tx_init_method){ .std = cfg->init_method_std,
                                         .n_layers = (int)cfg->num_layers,
                                         .xavier_uniform = cfg->init_method_xavier_uniform });
        tx_trainer_weights_filled(t);
    }
    *out = t;
out:
    if (st) tx_trainer_destroy(t);
    return st;
}

void tx_trainer_destroy(tx_trainer *t)
{
    if (!t) return;
    tx_optim_deinit(&t->optim);
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
    if (t->master != t->value) tx_free(t->master);
    tx_free(t->origin);
    tx_free(t->value);
    tx_free(t->grad);
    tx_free(t);
}

tx_status tx_trainer_weights(tx_trainer *t, float **out)
{
    if (!t->master) TX_TRY(tx_alloc(&t->master, (size_t)t->model->params.numel, sizeof(float), "the weights in fp32"));
    *out = t->master;
    return TX_OK;
}

void tx_trainer_weights_filled(tx_trainer *t)
{
    if (t->model->dtype == TX_F32) return;
    tx_params_round(&t->model->params, t->value, t->model->dtype, t->master);
    if (t->grad) return;
    tx_free(t->master); /* only the optimizer needs it further */
    t->master = NULL;
}

/* ---- one micro-batch ---- */

/* Rows of s+1 ids to s-major inputs, labels and weights. A weight is mask / Σ mask / n_micro, so that the objective is
 * the mean over micro-batches of each one's mean loss: Megatron's loss averaging. Times the loss scale. */
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
    float each = n_counted ? (float)(t->scaler.scale / (double)n_counted / (double)t->n_micro) : 0;
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
    TX_TRY(tx_params_zero_grad(&t->ctx, &t->model->params, t->grads_begin));
    if (t->micro == 0) {
        t->n_micro = n_micro_now(t);
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
    t->grads_begin = false;
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
    return t->micro + 1 == n_micro_now(t);
}

/* ---- the update ---- */

/* A step whose gradients are not finite is skipped and counted: the schedule does not move either. An overflow that a
 * lower loss scale cures is no more than that. */
static tx_status skip_update(tx_trainer *t, const char *bad)
{
    bool finite = isfinite(t->iteration_loss), curable = finite && tx_loss_scaler_can_fall(&t->scaler);
    double before = t->scaler.scale;
    t->skipped++;
    t->nan += !finite;
    tx_loss_scaler_update(&t->scaler, true);
    t->last_step = curable ? TX_STEP_OVERFLOWED : TX_STEP_FAULTY;
    if (curable) {
        tx_info("iteration %lld skipped: a gradient overflowed at loss scale %.1f, the next one is %.1f",
                (long long)t->iteration, before, t->scaler.scale);
        return TX_OK;
    }
    t->consecutive_skips++;
    tx_warn("iteration %lld skipped: the gradient of %s is not finite (loss %g)", (long long)t->iteration, bad,
            isnan(t->iteration_loss) ? NAN : t->iteration_loss);
    if (t->consecutive_skips < t->cfg->max_consecutive_skips) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC,
                   "--max-consecutive-skips %lld: so many iterations in a row had gradients that are not finite, first "
                   "in %s: lower --lr, or look at the data of iteration %lld",
                   (long long)t->consecutive_skips, bad, (long long)(t->iteration - t->consecutive_skips + 1));
}

bool tx_trainer_has_states(const tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    return cfg->log_optimizer_states_to_tensorboard && cfg->tensorboard_dir &&
           t->iteration % cfg->tensorboard_log_interval == 0;
}

/* What was done since `since` is a part of the update; gives back the clock. */
static double part_done(tx_trainer *t, tx_timer part, double since)
{
    double now = tx_clock();
    t->seconds[part] = now - since;
    return now;
}

static tx_status update(tx_trainer *t)
{
    const char *bad;
    double norm, scale = t->scaler.scale, now = tx_clock();
    memset(t->seconds, 0, sizeof t->seconds);
    TX_TRY(tx_optim_grad_norm(&t->ctx, &t->optim, &norm, &bad));
    t->grad_norm = norm / scale;
    part_done(t, t->cfg->clip_grad > 0 ? TX_TIMER_CLIP : TX_TIMER_CHECK, now);
    if (t->dump_iteration == t->iteration + 1) TX_TRY(tx__trainer_dump(t, t->grad_norm));
    now = tx_clock();
    if (t->cfg->log_num_zeros_in_grad) {
        TX_TRY(tx_optim_count_zeros(&t->ctx, &t->optim, &t->num_zeros));
        now = part_done(t, TX_TIMER_COUNT_ZEROS, now);
    }
    int64_t batch = t->n_micro * t->b;
    double lr = t->lr_override >= 0 ? t->lr_override : t->lr;
    if (!bad) { /* Megatron's clip_grad_norm: coefficient clip / (norm + 1e-6), if below 1 */
        double clip = t->cfg->clip_grad / (t->grad_norm + 1e-6), keep = t->cfg->clip_grad > 0 && clip < 1 ? clip : 1;
        TX_TRY(tx_optim_step_all(&t->ctx, &t->optim, lr, t->weight_decay, keep / scale));
        part_done(t, TX_TIMER_INNER_STEP, now);
        tx_schedule_advance(&t->schedule, &t->place, batch, t->consumed_train_tokens);
    }
    t->iteration++;
    t->consumed_train_samples += batch;
    t->consumed_train_tokens += batch * t->s;
    t->lr_override = -1;
    move_schedule(t);
    const char *none;
    if (t->cfg->log_params_norm) TX_TRY(tx_optim_value_norm(&t->ctx, &t->optim, &t->params_norm, &none));
    if (tx_trainer_has_states(t)) TX_TRY(tx_optim_states_of(&t->ctx, &t->optim, &t->states));
    if (bad) return skip_update(t, bad);
    tx_loss_scaler_update(&t->scaler, false);
    t->last_step = TX_STEP_TAKEN;
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
    t->grads_begin = true;
    return update(t);
}

/* ---- checkpoints ---- */

tx_status tx_trainer_require_idle(const tx_trainer *t, const char *verb)
{
    if (!t->micro && t->want == TX_WANT_FORWARD) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "a checkpoint can only be %s between iterations", verb);
}

/* The optimizer's buffers as checkpoints name them; their number. */
static int optim_parts(const tx_optim *o, tx_ckpt_part *part)
{
    int n = o->type ? o->type->n_state : 0;
    for (int i = 0; i < n; i++) part[i] = (tx_ckpt_part){ o->type->state_name[i], o->state[i] };
    return n;
}

/* The options that are kept, and beside them what this room and the data room keep. */
static tx_status config_to_save(const tx_trainer *t, json_t **out)
{
    json_t *config, *schedule = NULL, *scaler = NULL;
    TX_TRY(tx_config_to_json(t->cfg, &config));
    tx_status st;
    TX_GOTO(tx_schedule_to_json(&t->schedule, &schedule));
    if (t->scaler.kind == TX_SCALE_DYNAMIC) TX_GOTO(tx_loss_scaler_to_json(&t->scaler, &scaler));
    if (json_object_set(config, SCHEDULE_KEY, schedule) || (scaler && json_object_set(config, SCALER_KEY, scaler)) ||
        (t->blend_phase && json_object_set(config, "blend_phase", t->blend_phase)))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a checkpoint");
out:
    json_decref(schedule);
    json_decref(scaler);
    if (st)
        json_decref(config);
    else
        *out = config;
    return st;
}

/* A checkpoint of parameters that went bad would be the one that the run goes on from. */
static tx_status require_finite(tx_trainer *t)
{
    double norm;
    const char *bad;
    TX_TRY(tx_optim_value_norm(&t->ctx, &t->optim, &norm, &bad));
    if (!bad) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC,
                   "iteration %lld is not saved: %s is not finite; go on from an older checkpoint with a lower --lr",
                   (long long)t->iteration, bad);
}

/* Takes `path`. */
static void set_origin(tx_trainer *t, char *path, bool own)
{
    tx_free(t->origin);
    t->origin = path;
    t->origin_own = own;
}

tx_status tx_trainer_set_origin(tx_trainer *t, const char *path)
{
    char *copy;
    TX_TRY(tx_memdup0(&copy, path, strlen(path), "a path"));
    set_origin(t, copy, false);
    return TX_OK;
}

tx_status tx_trainer_save(tx_trainer *t, const char *dir)
{
    char path[4096], *origin = NULL;
    json_t *config = NULL;
    tx_status st;
    TX_TRY(tx_trainer_require_idle(t, "saved"));
    TX_TRY(require_finite(t));
    TX_TRY(tx_checkpoint_iter_path(path, sizeof path, dir, t->iteration));
    TX_GOTO(tx_memdup0(&origin, path, strlen(path), "a path"));
    TX_GOTO(config_to_save(t, &config));
    tx_ckpt_state state = {
        .iteration = t->iteration,
        .consumed_train_samples = t->consumed_train_samples,
        .consumed_valid_samples = t->consumed_valid_samples,
        .consumed_train_tokens = t->consumed_train_tokens,
        .schedule_samples = t->place.samples,
        .schedule_tokens = t->place.tokens,
        .schedule_warmup_tokens = t->place.warmup_tokens,
        .optim_step = t->optim.t,
        .skipped = t->skipped,
        .seed = (uint64_t)t->cfg->seed,
        .vocab_size = t->model->vocab_size,
    };
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    int n = t->cfg->no_save_optim ? 0 : optim_parts(&t->optim, part);
    TX_GOTO(tx_checkpoint_save(dir, &state, config, &t->model->params, t->master, part, n));
    if (!t->cfg->no_save_optim) { /* else the run cannot go on from it */
        set_origin(t, origin, true);
        origin = NULL;
    }
out:
    tx_free(origin);
    json_decref(config);
    return st;
}

/* The schedule of a run that goes on, as the options choose between the flags' and the saved one. */
static tx_status resumed_schedule(const tx_trainer *t, const tx_checkpoint *from, tx_schedule *out)
{
    const json_t *saved = json_object_get(tx_checkpoint_config(from), SCHEDULE_KEY);
    tx_schedule_choice choice = t->cfg->override_opt_param_scheduler         ? TX_SCHEDULE_OWN
                                : t->cfg->use_checkpoint_opt_param_scheduler ? TX_SCHEDULE_SAVED
                                                                             : TX_SCHEDULE_SAME;
    *out = t->schedule;
    return tx_schedule_resume(out, saved, choice);
}

/* Where the run stands in itself and in its data. */
static void resume_place(tx_trainer *t, const tx_checkpoint *from)
{
    const tx_ckpt_state *s = tx_checkpoint_state(from);
    t->iteration = s->iteration;
    t->consumed_train_samples = s->consumed_train_samples;
    t->consumed_valid_samples = s->consumed_valid_samples;
    t->consumed_train_tokens = s->consumed_train_tokens;
    t->skipped = s->skipped;
    json_decref(t->blend_phase);
    t->blend_phase = json_deep_copy(json_object_get(tx_checkpoint_config(from), "blend_phase"));
}

tx_status tx_trainer_load(tx_trainer *t, tx_checkpoint *from)
{
    TX_TRY(tx_trainer_require_idle(t, "loaded"));
    const tx_config *cfg = t->cfg;
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    tx_schedule schedule = t->schedule;
    bool optim = t->grad && !cfg->finetune && !cfg->no_load_optim, lr_state = optim && !cfg->no_load_lr_state;
    if (lr_state) TX_TRY(resumed_schedule(t, from, &schedule));
    tx_loss_scaler scaler = t->scaler;
    if (optim) TX_TRY(tx_loss_scaler_from_json(&scaler, json_object_get(tx_checkpoint_config(from), SCALER_KEY)));
    int n = optim ? optim_parts(&t->optim, part) : 0;
    float *weights;
    char *origin;
    const char *path = tx_checkpoint_path(from);
    TX_TRY(tx_trainer_weights(t, &weights));
    TX_TRY(tx_memdup0(&origin, path, strlen(path), "a path"));
    tx_status st = tx_checkpoint_read(from, &t->model->params, weights, part, n);
    if (st) {
        tx_free(origin);
        return st;
    }
    set_origin(t, origin, false);
    tx_trainer_weights_filled(t);
    t->scaler = scaler;
    if (cfg->finetune) return TX_OK;
    const tx_ckpt_state *s = tx_checkpoint_state(from);
    if (!cfg->reset_iteration) resume_place(t, from);
    if (optim) t->optim.t = s->optim_step;
    if (lr_state) {
        t->schedule = schedule;
        t->place = (tx_schedule_place){ s->schedule_samples, s->schedule_tokens, s->schedule_warmup_tokens };
    }
    if (t->grad) t->n_micro = n_micro_now(t);
    move_schedule(t);
    return TX_OK;
}

tx_memory tx_trainer_memory(const tx_trainer *t)
{
    return tx__plan_memory(t->model, t->optim.type, t->ctx.acts.cap, t->ctx.scratch.cap);
}
