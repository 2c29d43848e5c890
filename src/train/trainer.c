/* trainer.c - forward, backward, step: one rank's training state machine. */
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "train/fit.h"
#include "train/hf_export.h"
#include "train/products.h"

void tx__trainer_move_schedule(tx_trainer *t)
{
    const tx_client *own = t->client;
    if (own->lr)
        t->lr = own->lr(own->lr_user, t->schedule_steps);
    else if (t->ds_schedule.kind)
        t->lr = tx_ds_schedule_lr(&t->ds_schedule, t->schedule_steps);
    else if (t->schedule.lr_style) /* one that only evaluates has none */
        t->lr = tx_schedule_lr(&t->schedule, &t->place);
    if (t->ds_schedule.kind) tx_ds_schedule_betas(&t->ds_schedule, t->schedule_steps, t->zero.optim.betas);
    if (t->schedule.wd_style) t->weight_decay = tx_schedule_wd(&t->schedule, &t->place);
}

/* Micro-batches of the iteration that comes after what is consumed. */
int64_t tx__trainer_n_micro(const tx_trainer *t)
{
    return tx_config_batch_size(t->cfg, t->consumed_train_samples) / (t->b * tx_grid_size(t->grid, TX_AXIS_DATA));
}

/* ---- creation: declare, plan, take memory, initialise ---- */

const char *tx_trainer_eod_flag(const tx_config *cfg)
{
    if (cfg->eod_mask_loss) return "--eod-mask-loss";
    if (cfg->reset_position_ids) return "--reset-position-ids";
    return cfg->reset_attention_mask ? "--reset-attention-mask" : NULL;
}

/* What --dump-step needs. */
static tx_status prepare_dump(tx_trainer *t)
{
    if (t->client->model) return TX_FAIL(TX_ERR_UNSUPPORTED, "--dump-step is for GPT and BERT alone");
    TX_TRY(tx_hf_export_check(t->model, tx_grid_group(t->grid, TX_GROUP_WORLD))); /* better now than at the step */
    t->dump_iteration = atoll(t->cfg->dump_step.item[0]);
    return tx_alloc(&t->dump_tokens, (size_t)(t->cfg->global_batch_size * tx_trainer_row_len(t)), sizeof(int32_t),
                    "--dump-step");
}

tx_status tx__trainer_agree_products(tx_trainer *t)
{
    tx_free(t->products);
    return tx_products_agree(&t->ctx, tx_grid_group(t->grid, TX_GROUP_WORLD), &t->products);
}

/* While the memory of a GPU is free. */
static tx_status choose_products(tx_trainer *t)
{
    const char *dir = t->cfg->save;
    if (dir) TX_TRY(tx_products_read(&t->ctx, tx_grid_group(t->grid, TX_GROUP_WORLD), dir));
    TX_TRY(tx_products_choose(&t->ctx, tx_grid_group(t->grid, TX_GROUP_WORLD)));
    TX_TRY(tx__trainer_agree_products(t));
    bool writes = dir && t->products && *t->products && !t->grid->rank;
    return tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), writes ? tx_products_write(t->products, dir) : TX_OK);
}

static void forget_rates(tx_trainer *t)
{
    t->lr_override = -1;
    for (int i = 0; i <= t->client->n_groups; i++) t->setting[i].lr = -1;
}

static tx_status take_settings(tx_trainer *t)
{
    size_t n = (size_t)t->client->n_groups + 1;
    TX_TRY(tx_alloc(&t->setting, n, sizeof *t->setting, "the parameter groups' settings"));
    for (size_t i = 0; i < n; i++) t->setting[i].weight_decay = -1;
    forget_rates(t);
    t->zero.optim.setting = t->setting;
    return TX_OK;
}

tx_status tx_trainer_open(tx_trainer **out, const tx_trainer_args *args)
{
    const tx_config *cfg = args->cfg;
    tx_trainer *t;
    const char *eod_flag = tx_trainer_eod_flag(cfg);
    if (args->eod < 0 && eod_flag) return TX_FAIL(TX_ERR_ARG, "%s: the vocabulary has no <|endoftext|>", eod_flag);
    if (args->train && args->client && args->client->model && tx_save_kind(cfg) != TX_CKPT_NATIVE)
        return TX_FAIL(
            TX_ERR_UNSUPPORTED,
            "--save-format %s: Megatron and DeepSpeed have names for GPT and BERT alone, not for the model %s; "
            "save native",
            tx_checkpoint_format_word(cfg->save_format), args->client->model->name);
    if (args->train && args->client && args->client->optimizer && !cfg->no_save_optim &&
        tx_save_kind(cfg) != TX_CKPT_NATIVE)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "--save-format %s holds Adam's state only, not that of the optimizer %s; save native, or "
                       "--no-save-optim",
                       tx_checkpoint_format_word(cfg->save_format), args->client->optimizer->name);
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "the trainer"));
    bool train = args->train;
    tx_memory planned;
    tx_status st;
    t->cfg = cfg;
    t->grid = args->grid ? args->grid : &tx_grid_alone;
    t->client = args->client ? args->client : &tx_no_client;
    t->s = cfg->seq_length;
    t->b = cfg->micro_batch_size;
    t->n_micro = train ? tx__trainer_n_micro(t) : 1;
    t->eod = args->eod;
    t->lr_override = -1;
    t->grads_begin = true;
    t->scaler = tx_loss_scaler_from_config(cfg);
    if (train) {
        t->schedule = tx_schedule_from_config(cfg);
        if (!t->client->lr) t->ds_schedule = tx_ds_schedule_from_config(cfg);
    }
    TX_GOTO(tx__plan_open(&t->ctx, &t->model, cfg, args->vocab_size, t->grid, t->client));
    TX_GOTO(tx__plan_step(&planned, NULL, &t->ctx, t->model, cfg, train, &t->stage, &t->zero, t->client));
    t->gpu_free = planned.gpu_free;
    if (train) TX_GOTO(tx_fit_check(cfg, args->vocab_size, !t->client->model, &planned));
    if (train) TX_GOTO(choose_products(t));
    TX_GOTO(tx_zero_take(&t->zero));
    int64_t n_copy = tx__plan_copy_numel(&t->zero);
    if (n_copy) TX_GOTO(tx_alloc(&t->copy, (size_t)n_copy, sizeof *t->copy, "--async-save's copy of the state"));
    TX_GOTO(tx_alloc(&t->all_losses, (size_t)tx_grid_size(t->grid, TX_AXIS_DATA) * TX_MAX_LOSSES, sizeof *t->all_losses,
                     "the losses of all ranks"));
    if (train && cfg->given.dump_step) TX_GOTO(prepare_dump(t));
    TX_GOTO(tx_stage_take(&t->stage));
    if (train) {
        TX_GOTO(tx_zero_init(&t->zero, (uint64_t)cfg->seed,
                             (tx_init_method){ .std = cfg->init_method_std,
                                               .n_layers = (int)t->model->n_layers,
                                               .own = t->model->initial,
                                               .xavier_uniform = cfg->init_method_xavier_uniform }));
    }
    if (train) TX_GOTO(take_settings(t));
    if (train) TX_GOTO(tx__trainer_take_losses(t));
    if (train) tx__trainer_move_schedule(t);
    *out = t;
out:
    if (st) tx_trainer_destroy(t);
    return st;
}

tx_status tx_trainer_create(tx_trainer **out, const tx_config *cfg, int64_t vocab_size, int32_t eod, bool train,
                            const tx_grid *grid)
{
    return tx_trainer_open(
        out, &(tx_trainer_args){ .cfg = cfg, .vocab_size = vocab_size, .eod = eod, .train = train, .grid = grid });
}

void tx_trainer_destroy(tx_trainer *t)
{
    if (!t) return;
    tx_stage_close(&t->stage);
    tx_zero_close(&t->zero);
    if (t->model) t->model->type->destroy(t->model);
    tx_ctx_deinit(&t->ctx);
    tx_free(t->dump_tokens);
    tx_free(t->all_losses);
    tx_free(t->setting);
    tx_free(t->own_losses);
    json_decref(t->blend_phase);
    tx_free(t->origin);
    tx_free(t->loaded);
    tx_free(t->copy);
    tx_free(t->products);
    tx_free(t);
}

tx_status tx_trainer_fill(tx_trainer *t, tx_weights_fn *fill, void *user)
{
    const tx_params *ps = &t->model->params;
    float *whole;
    TX_TRY(tx_alloc(&whole, (size_t)ps->numel, sizeof *whole, "the weights in fp32"));
    tx_status st = fill(user, ps, whole);
    if (!st) st = tx_zero_set_weights(&t->zero, whole);
    tx_free(whole);
    return st;
}

/* ---- one micro-batch ---- */

void tx__trainer_note(const tx_trainer *t, const char *what)
{
    if (t->grid->size > 1) tx_world_note(tx_comm_world(tx_grid_group(t->grid, TX_GROUP_WORLD)), what);
}

int64_t tx_trainer_row_len(const tx_trainer *t)
{
    return t->model->type->samples->row_len(t->s);
}

/* The objective is the mean over all ranks' micro-batches of each one's mean losses: Megatron's loss averaging. Times
 * the loss scale. */
tx_status tx__trainer_fill(const tx_trainer *t, tx_batch *batch, const void *rows)
{
    const tx_batch_rule rule = { .eod = t->eod,
                                 .eod_mask_loss = t->cfg->eod_mask_loss,
                                 .reset_position_ids = t->cfg->reset_position_ids,
                                 .scale =
                                     t->scaler.scale / (double)(t->n_micro * tx_grid_size(t->grid, TX_AXIS_DATA)) };
    return t->model->type->collate(t->model, batch, rows, &rule);
}

/* A tx_stage_hooks.fill. */
static tx_status fill(void *user, int64_t micro, tx_batch *batch)
{
    tx_trainer *t = user;
    const tx_pp_chunk *chunk = &t->model->chunk[batch->chunk];
    const void *rows = t->run.rows;
    int64_t data = tx_grid_size(t->grid, TX_AXIS_DATA), n = t->b * tx_trainer_row_len(t);
    micro += t->run.first;
    batch->dropout = (tx_dropout_key){
        .seed = (uint64_t)t->cfg->seed,
        .iteration = (uint32_t)(t->iteration + 1),
        .sample = (uint64_t)(t->consumed_train_samples + (micro * data + tx_grid_rank(t->grid, TX_AXIS_DATA)) * t->b),
        .s_global = t->s,
        .on = !t->run.n_samples,
    };
    if (!chunk->pre && !chunk->post && !batch->first_key.data && !batch->n_keys.data) return TX_OK;
    if (t->run.n_samples && micro * data * t->b >= t->run.n_samples) micro = (t->run.n_samples - 1) / (data * t->b);
    if (t->run.read) {
        tx__trainer_note(t, "reading data");
        TX_TRY(t->run.read(t->run.user, micro, &rows));
        tx__trainer_note(t, "at a micro-batch");
    }
    if (t->dump_iteration == t->iteration + 1 && batch->dropout.on)
        memcpy(t->dump_tokens + micro * n, rows, (size_t)n * sizeof *t->dump_tokens);
    return tx__trainer_fill(t, batch, rows);
}

/* to[k] += weight times the mean of each of the batch's losses over its first n_samples. */
static void add_means(const tx_trainer *t, double *to, const tx_batch *batch, int64_t n_samples, double weight)
{
    tx_loss_sum sum[TX_MAX_LOSSES];
    t->model->type->losses(t->model, batch, n_samples, sum);
    for (int k = 0; k < t->model->n_losses; k++)
        if (sum[k].n) to[k] += weight * (sum[k].sum / (double)sum[k].n);
}

static double total(const tx_trainer *t, const double *losses)
{
    double sum = 0;
    for (int k = 0; k < t->model->n_losses; k++) sum += losses[k];
    return sum;
}

/* A tx_stage_hooks.loss, of training. */
static tx_status add_loss(void *user, int64_t micro, const tx_batch *batch)
{
    (void)micro;
    tx_trainer *t = user;
    memset(t->run.sum, 0, sizeof t->run.sum);
    add_means(t, t->run.sum, batch, t->b, 1);
    for (int k = 0; k < t->model->n_losses; k++) t->losses[k] += t->run.sum[k] / (double)t->n_micro;
    t->iteration_loss = total(t, t->losses);
    return TX_OK;
}

/* The same of an evaluation: micro-batches weigh as their samples do. */
static tx_status add_score(void *user, int64_t micro, const tx_batch *batch)
{
    tx_trainer *t = user;
    micro += t->run.first;
    int64_t left =
        t->run.n_samples - (micro * tx_grid_size(t->grid, TX_AXIS_DATA) + tx_grid_rank(t->grid, TX_AXIS_DATA)) * t->b;
    int64_t rows = left < 0 ? 0 : left < t->b ? left : t->b;
    if (rows) add_means(t, t->run.sum, batch, rows, (double)rows);
    return TX_OK;
}

/* The same, as sums of one micro-batch. */
static tx_status take_sums(void *user, int64_t micro, const tx_batch *batch)
{
    (void)micro;
    tx_trainer *t = user;
    t->model->type->losses(t->model, batch, t->run.n_samples, t->run.sums);
    return TX_OK;
}

static tx_stage_hooks hooks(tx_trainer *t, bool train)
{
    return (tx_stage_hooks){ .fill = fill,
                             .loss = train ? add_loss : add_score,
                             .behind = train && t->client->loss_gradient ? tx__trainer_ask_gradient : NULL,
                             .units = &t->zero.hooks,
                             .user = t };
}

/* tx_trainer_sum of at most TX_MAX_LOSSES numbers, for which there is room. */
static tx_status sum_few(const tx_trainer *t, double *x, int n)
{
    const tx_grid *g = t->grid;
    size_t bytes = (size_t)n * sizeof *x;
    double mine[TX_MAX_LOSSES], *all = t->all_losses;
    memcpy(mine, x, bytes);
    TX_TRY(tx_comm_gather(tx_grid_group(g, TX_GROUP_DATA), all, mine, bytes));
    memset(x, 0, bytes);
    for (int r = 0; r < tx_grid_size(g, TX_AXIS_DATA); r++)
        for (int k = 0; k < n; k++) x[k] += all[r * n + k];
    return tx_comm_spread(tx_grid_group(g, TX_GROUP_PIPELINE), x, bytes, tx_grid_size(g, TX_AXIS_PIPELINE) - 1);
}

tx_status tx_trainer_sum(const tx_trainer *t, double *x, int n)
{
    for (int i = 0; i < n && t->grid->size > 1; i += TX_MAX_LOSSES)
        TX_TRY(sum_few(t, x + i, n - i < TX_MAX_LOSSES ? n - i : TX_MAX_LOSSES));
    return TX_OK;
}

static tx_status begin_iteration(tx_trainer *t)
{
    if (t->grads_begin) TX_TRY(tx_zero_begin(&t->zero));
    t->grads_begin = false;
    if (t->micro) return TX_OK;
    t->n_micro = tx__trainer_n_micro(t);
    t->iteration_loss = 0;
    memset(t->losses, 0, sizeof t->losses);
    return TX_OK;
}

static tx_status no_pipeline(const tx_trainer *t)
{
    if (tx_grid_size(t->grid, TX_AXIS_PIPELINE) == 1) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "with %d pipeline stages a whole iteration is trained at a time",
                   tx_grid_size(t->grid, TX_AXIS_PIPELINE));
}

tx_status tx_trainer_forward(tx_trainer *t, const void *rows, double *loss)
{
    TX_TRY(no_pipeline(t));
    if (t->want != TX_WANT_FORWARD)
        return TX_FAIL(TX_ERR_STATE, "forward was called where %s is due",
                       t->want == TX_WANT_BACKWARD ? "backward" : "step");
    tx_stage_hooks h = hooks(t, true);
    TX_TRY(begin_iteration(t));
    t->run.rows = rows;
    TX_TRY(tx_stage_forward(&t->stage, t->micro, tx_trainer_at_boundary(t), true, &h));
    TX_TRY(tx_stage_settle(&t->stage, &h));
    *loss = total(t, t->run.sum);
    t->want = TX_WANT_BACKWARD;
    return TX_OK;
}

tx_status tx_trainer_backward(tx_trainer *t)
{
    if (t->want != TX_WANT_BACKWARD) return TX_FAIL(TX_ERR_STATE, "backward was called before forward");
    TX_TRY(tx_stage_backward(&t->stage, tx_trainer_at_boundary(t)));
    t->want = TX_WANT_STEP;
    return TX_OK;
}

tx_status tx_trainer_evaluate(tx_trainer *t, const void *rows, int64_t n_samples, tx_loss_sum *sum)
{
    TX_TRY(no_pipeline(t));
    if (t->want != TX_WANT_FORWARD) return TX_FAIL(TX_ERR_STATE, "evaluate was called between forward and step");
    tx_stage_hooks h = hooks(t, false);
    h.loss = take_sums;
    t->run.rows = rows;
    t->run.n_samples = n_samples;
    t->run.sums = sum;
    tx_status st = tx_stage_forward(&t->stage, 0, true, false, &h);
    if (!st) st = tx_stage_settle(&t->stage, &h);
    t->run.n_samples = 0;
    return st;
}

/* The n micro-batches of an evaluation; where it may be stopped, an iteration's worth at a time. */
static tx_status score(tx_trainer *t, int64_t n, tx_stop *stop)
{
    tx_stage_hooks h = hooks(t, false);
    for (int64_t each = stop ? t->n_micro : n; t->run.first < n; t->run.first += each) {
        int64_t left = n - t->run.first;
        if (stop && t->run.first) TX_TRY(stop->ask(stop, &stop->stopped));
        if (stop && stop->stopped) return TX_OK;
        TX_TRY(tx_stage_run(&t->stage, left < each ? left : each, false, &h));
        TX_TRY(tx_stage_settle(&t->stage, &h));
    }
    return TX_OK;
}

tx_status tx_trainer_score(tx_trainer *t, int64_t n_samples, tx_micro_batch_fn *read, void *user, double *mean,
                           tx_stop *stop)
{
    TX_ASSERT(t->want == TX_WANT_FORWARD && n_samples > 0);
    int64_t each = t->b * tx_grid_size(t->grid, TX_AXIS_DATA), n = (n_samples + each - 1) / each,
            p = tx_grid_size(t->grid, TX_AXIS_PIPELINE);
    if (t->model->n_chunks > 1) n = (n + p - 1) / p * p; /* the schedule's; what is too many has no samples */
    t->run.read = read;
    t->run.user = user;
    t->run.n_samples = n_samples;
    memset(t->run.sum, 0, sizeof t->run.sum);
    tx_status st = score(t, n, stop);
    t->run.read = NULL;
    t->run.n_samples = t->run.first = 0;
    TX_TRY(st);
    TX_TRY(tx_trainer_sum(t, t->run.sum, t->model->n_losses));
    for (int k = 0; k < t->model->n_losses; k++) mean[k] = t->run.sum[k] / (double)n_samples;
    return TX_OK;
}

int64_t tx_trainer_batch_size(const tx_trainer *t)
{
    return t->n_micro * t->b * tx_grid_size(t->grid, TX_AXIS_DATA);
}

bool tx_trainer_at_boundary(const tx_trainer *t)
{
    return t->micro + 1 == tx__trainer_n_micro(t);
}

/* ---- the update ---- */

/* A step whose gradients are not finite is skipped and counted: the schedule does not move either. An overflow that a
 * lower loss scale cures is no more than that. */
static tx_status skip_update(tx_trainer *t, const char *bad)
{
    bool finite = isfinite(t->iteration_loss), curable = finite && tx_loss_scaler_can_fall(&t->scaler);
    double before = t->scaler.scale;
    t->skipped++;
    tx_loss_scaler_update(&t->scaler, true);
    t->last_step = curable ? TX_STEP_OVERFLOWED : TX_STEP_FAULTY;
    if (curable) {
        tx_info("iteration %lld skipped: a gradient overflowed at loss scale %.1f, the next one is %.1f",
                (long long)t->iteration, before, t->scaler.scale);
        return TX_OK;
    }
    t->consecutive_skips++;
    tx_warn_once("iteration %lld skipped: the gradient of %s is not finite (loss %g)", (long long)t->iteration, bad,
                 isnan(t->iteration_loss) ? NAN : t->iteration_loss);
    if (t->consecutive_skips < t->cfg->max_consecutive_skips) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC,
                   "--max-consecutive-skips %lld: so many iterations in a row had gradients that are not finite, first "
                   "in %s: lower --lr, or look at the data of iteration %lld",
                   (long long)t->consecutive_skips, bad, (long long)(t->iteration - t->consecutive_skips + 1));
}

/* The iteration that has just ended, into the interval that it belongs to. An interval ends with an iteration that
 * --log-interval divides. It is emptied only by the next one, since the line is written in between. */
static void count_iteration(tx_trainer *t, bool taken)
{
    tx_interval *v = &t->interval;
    if (v->complete) *v = (tx_interval){ 0 };
    v->taken += taken;
    v->skipped += !taken;
    v->nan += !taken && !isfinite(t->iteration_loss);
    for (int k = 0; k < t->model->n_losses && taken; k++) v->loss_sum[k] += t->losses[k];
    v->complete = t->iteration % t->cfg->log_interval == 0;
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

/* The losses of the micro-batches so far, which a device may still be computing, and of all ranks. */
static tx_status sum_losses(tx_trainer *t)
{
    tx_stage_hooks h = hooks(t, true);
    TX_TRY(tx_stage_settle(&t->stage, &h));
    TX_TRY(tx_trainer_sum(t, t->losses, t->model->n_losses));
    for (int k = 0; k < t->model->n_losses; k++) t->losses[k] /= tx_grid_size(t->grid, TX_AXIS_DATA);
    t->iteration_loss = total(t, t->losses);
    return TX_OK;
}

/* --dump-step: everything as it stands before the update. */
static tx_status dump(tx_trainer *t)
{
    const char *bad;
    TX_TRY(tx_optim_clipped(&t->ctx, &t->zero.optim, &t->grad_norm, &bad));
    return tx__trainer_dump(t, t->grad_norm);
}

/* What is put into a device's queue comes first, what asks for its results behind that: so it never waits for the host.
 */
static tx_status update(tx_trainer *t)
{
    const char *bad;
    double now = tx_clock(), lr = tx_trainer_lr(t);
    memset(t->seconds, 0, sizeof t->seconds);
    if (!isfinite(lr) || lr < 0) return TX_FAIL(TX_ERR_ARG, "the schedule's learning rate is %g", lr);
    if (!(t->zero.optim.betas[0] < 1))
        return TX_FAIL(TX_ERR_ARG, "the schedule's momentum is %g", t->zero.optim.betas[0]);
    tx__trainer_note(t, "at the update");
    TX_TRY(tx_zero_finish(&t->zero));
    now = part_done(t, TX_TIMER_SUMS, now);
    TX_TRY(tx_optim_clip(&t->ctx, &t->zero.optim, t->scaler.scale, t->cfg->clip_grad));
    part_done(t, t->cfg->clip_grad > 0 ? TX_TIMER_CLIP : TX_TIMER_CHECK, now);
    bool dumps = t->dump_iteration == t->iteration + 1;
    if (dumps) TX_TRY(sum_losses(t));
    if (dumps) TX_TRY(dump(t));
    now = tx_clock();
    if (t->cfg->log_num_zeros_in_grad) {
        TX_TRY(tx_optim_count_zeros(&t->ctx, &t->zero.optim, &t->num_zeros));
        now = part_done(t, TX_TIMER_COUNT_ZEROS, now);
    }
    int64_t batch = tx_trainer_batch_size(t);
    TX_TRY(tx_zero_step(&t->zero, lr, t->weight_decay));
    if (!dumps) TX_TRY(sum_losses(t));
    TX_TRY(tx_zero_stepped(&t->zero, &t->grad_norm, &bad));
    part_done(t, TX_TIMER_INNER_STEP, now);
    if (!bad) tx_schedule_advance(&t->schedule, &t->place, batch, t->consumed_train_tokens);
    if (!bad) t->schedule_steps++;
    t->iteration++;
    t->consumed_train_samples += batch;
    t->consumed_train_tokens += batch * t->s;
    count_iteration(t, !bad);
    forget_rates(t);
    tx__trainer_move_schedule(t);
    const char *none;
    if (t->cfg->log_params_norm) TX_TRY(tx_optim_value_norm(&t->ctx, &t->zero.optim, &t->params_norm, &none));
    if (tx_trainer_has_states(t)) TX_TRY(tx_optim_states_of(&t->ctx, &t->zero.optim, &t->states));
    if (bad) return skip_update(t, bad);
    tx_loss_scaler_update(&t->scaler, false);
    t->last_step = TX_STEP_TAKEN;
    t->consecutive_skips = 0;
    return TX_OK;
}

static void end_iteration(tx_trainer *t)
{
    t->micro = 0;
    t->grads_begin = true;
    t->want = TX_WANT_FORWARD;
}

tx_status tx_trainer_step(tx_trainer *t)
{
    if (t->want != TX_WANT_STEP) return TX_FAIL(TX_ERR_STATE, "step was called before backward");
    t->want = TX_WANT_FORWARD;
    if (!tx_trainer_at_boundary(t)) {
        t->micro++;
        return TX_OK;
    }
    end_iteration(t);
    return update(t);
}

tx_status tx_trainer_train(tx_trainer *t, tx_micro_batch_fn *read, void *user)
{
    TX_ASSERT(!t->micro && t->want == TX_WANT_FORWARD);
    double start = tx_clock();
    tx_stage_hooks h = hooks(t, true);
    TX_TRY(begin_iteration(t));
    t->run.read = read;
    t->run.user = user;
    tx_status st = tx_stage_run(&t->stage, t->n_micro, true, &h);
    t->run.read = NULL;
    TX_TRY(st);
    double between = tx_clock();
    end_iteration(t);
    st = update(t);
    t->seconds[TX_TIMER_FORWARD_BACKWARD] = between - start;
    t->seconds[TX_TIMER_OPTIMIZER] = tx_clock() - between - t->seconds[TX_TIMER_SUMS];
    static const tx_timer timer[3] = { TX_TIMER_BATCH, TX_TIMER_FORWARD, TX_TIMER_BACKWARD };
    for (int i = 0; i < 3; i++) t->seconds[timer[i]] = t->stage.seconds[i];
    return st;
}

tx_memory tx_trainer_memory(const tx_trainer *t)
{
    size_t peak;
    tx_memory m = tx__plan_memory(&t->zero, tx_stage_stacks(&t->stage, &peak), t->ctx.scratch.cap);
    m.host_activations = tx_stage_host_stacks(&t->stage, &peak);
    m.gpu_free = t->gpu_free;
    return m;
}
