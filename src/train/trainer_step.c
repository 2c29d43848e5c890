/* trainer_step.c - forward, backward, step: one rank's training state machine. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/trainer_feed.h"
#include "zero/compressed.h"
#include "zero/loco.h"

void tx__trainer_move_schedule(tx_trainer *t)
{
    const tx_client *own = t->client;
    if (own->lr)
        t->lr = own->lr(own->lr_user, t->schedule_steps);
    else if (t->ds_schedule.kind)
        t->lr = tx_ds_schedule_lr(&t->ds_schedule, t->schedule_steps);
    else if (t->schedule.lr_style) /* one that only evaluates has none */
        t->lr = tx_schedule_lr(&t->schedule, &t->place);
    bool decoupled = t->schedule.lr_style && !tx_trainer_counts_steps(t);
    t->decoupled_lr = decoupled ? tx_schedule_decoupled_lr(&t->schedule, &t->place) : -1;
    if (t->ds_schedule.kind) tx_ds_schedule_betas(&t->ds_schedule, t->schedule_steps, t->zero.optim.betas);
    if (t->schedule.wd_style) t->weight_decay = tx_schedule_wd(&t->schedule, &t->place);
}

/* Micro-batches of the iteration that comes after what is consumed. */
int64_t tx__trainer_n_micro(const tx_trainer *t)
{
    return tx_config_batch_size(t->cfg, t->consumed_train_samples) / (t->b * tx_grid_size(t->grid, TX_AXIS_DATA));
}

void tx__trainer_forget_rates(tx_trainer *t)
{
    t->lr_override = -1;
    for (int i = 0; i <= t->client->n_groups; i++) t->setting[i].lr = -1;
}

void tx__trainer_note(const tx_trainer *t, const char *what)
{
    if (t->grid->size > 1) tx_world_note(tx_comm_world(tx_grid_group(t->grid, TX_GROUP_WORLD)), what);
}

/* ---- losses ---- */

/* A tx_feed.losses, of training. */
static tx_status add_loss(void *user, int64_t micro, const tx_batch *batch)
{
    tx_trainer_feed *f = user;
    tx_trainer *t = f->t;
    (void)micro;
    memset(f->sum, 0, sizeof f->sum);
    TX_TRY(tx__trainer_feed_add(f, batch, t->b, 1));
    for (int k = 0; k < t->model->n_losses; k++) t->losses[k] += f->sum[k] / (double)t->n_micro;
    t->iteration_loss = tx__trainer_total(t, t->losses);
    return TX_OK;
}

static void make_feed(tx_trainer_feed *f, tx_trainer *t)
{
    tx__trainer_feed_init(f, t);
    f->is.losses = add_loss;
    if (t->client->loss_gradient) f->is.look = tx__trainer_ask_gradient;
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
    for (int r = 0; r < tx_grid_sharers(g); r += tx_grid_size(g, TX_AXIS_CONTEXT)) /* whose ranks have the same */
        for (int k = 0; k < n; k++) x[k] += all[r * n + k];
    return tx_comm_spread(tx_grid_group(g, TX_GROUP_PIPELINE), x, bytes, tx_grid_size(g, TX_AXIS_PIPELINE) - 1);
}

tx_status tx_trainer_sum(const tx_trainer *t, double *x, int n)
{
    for (int i = 0; i < n && t->grid->size > 1; i += TX_MAX_LOSSES)
        TX_TRY(sum_few(t, x + i, n - i < TX_MAX_LOSSES ? n - i : TX_MAX_LOSSES));
    return TX_OK;
}

void tx__trainer_train_length(tx_trainer *t)
{
    int64_t last;
    t->length = tx_config_sample_length(t->cfg, t->iteration + 1, &last);
    t->kept = tx_config_kept(t->cfg, t->iteration + 1, &last);
    tx_stage_set_length(&t->stage, t->length, t->kept);
}

void tx__trainer_whole_length(tx_trainer *t)
{
    tx_stage_set_length(&t->stage, t->s, t->s);
}

bool tx__trainer_sums_all(const tx_trainer *t)
{
    bool all = t->kept >= t->length && !t->cfg->progressive_layer_drop;
    return all || (tx_grid_size(t->grid, TX_AXIS_TENSOR) == 1 && tx_grid_size(t->grid, TX_AXIS_CONTEXT) == 1);
}

static tx_status begin_iteration(tx_trainer *t)
{
    tx__trainer_train_length(t);
    if (t->grads_begin) TX_TRY(tx_zero_begin(&t->zero));
    t->grads_begin = false;
    if (t->micro) return TX_OK;
    t->n_micro = tx__trainer_n_micro(t);
    tx_zero_loco_scale(&t->zero, tx__trainer_scale(t));
    t->iteration_loss = 0;
    memset(t->losses, 0, sizeof t->losses);
    TX_TRY(tx__trainer_begin_logits(t));
    return tx__trainer_begin_experts(t);
}

tx_status tx_trainer_forward(tx_trainer *t, const void *rows, double *loss)
{
    TX_TRY(tx__trainer_no_pipeline(t));
    if (t->want != TX_WANT_FORWARD)
        return TX_FAIL(TX_ERR_STATE, "forward was called where %s is due",
                       t->want == TX_WANT_BACKWARD ? "backward" : "step");
    tx_trainer_feed f;
    make_feed(&f, t);
    f.rows = rows;
    TX_TRY(begin_iteration(t));
    tx_stage_begin(&t->stage, &f.is);
    TX_TRY(tx_stage_forward(&t->stage, t->micro, tx_trainer_at_boundary(t), true));
    TX_TRY(tx_stage_end(&t->stage));
    *loss = tx__trainer_total(t, f.sum);
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
    if (taken) v->moe_loss_sum += t->moe_loss;
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
    TX_TRY(tx_stage_end(&t->stage));
    TX_TRY(tx_trainer_sum(t, t->losses, t->model->n_losses));
    for (int k = 0; k < t->model->n_losses; k++) t->losses[k] /= tx_grid_size(t->grid, TX_AXIS_DATA);
    t->iteration_loss = tx__trainer_total(t, t->losses);
    return tx__trainer_sum_experts(t, t->n_micro);
}

/* --dump-step: everything as it stands before the update. */
static tx_status dump(tx_trainer *t)
{
    const char *bad;
    TX_TRY(tx_optim_clipped(&t->ctx, &t->zero.optim, &t->grad_norm, &bad));
    return tx__trainer_dump(t, t->grad_norm);
}

/* Where the step is taken, which brings what has changed to all ranks. */
static tx_status balance(tx_trainer *t)
{
    const char *bad;
    TX_TRY(tx_optim_clipped(&t->ctx, &t->zero.optim, &t->grad_norm, &bad));
    return bad ? TX_OK : tx__trainer_balance(t);
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
    TX_TRY(tx_zero_clip(&t->zero, t->scaler.scale, t->cfg->clip_grad));
    part_done(t, t->cfg->clip_grad > 0 ? TX_TIMER_CLIP : TX_TIMER_CHECK, now);
    bool dumps = t->dump_iteration == t->iteration + 1, balances = tx__trainer_balances(t);
    bool before = dumps || balances || !t->ctx.device; /* behind values that are under way losses would wait for them */
    if (before) TX_TRY(sum_losses(t));
    if (dumps) TX_TRY(dump(t));
    if (balances) TX_TRY(balance(t));
    now = tx_clock();
    if (t->cfg->log_num_zeros_in_grad) {
        TX_TRY(tx_optim_count_zeros(&t->ctx, &t->zero.optim, &t->num_zeros));
        now = part_done(t, TX_TIMER_COUNT_ZEROS, now);
    }
    int64_t batch = tx_trainer_batch_size(t);
    TX_TRY(tx__trainer_compare_logits(t));
    t->zero.optim.decoupled_lr = tx_trainer_decoupled_lr(t);
    TX_TRY(tx_zero_step(&t->zero, lr, t->weight_decay));
    if (!before) TX_TRY(sum_losses(t));
    TX_TRY(tx_zero_stepped(&t->zero, &t->grad_norm, &bad));
    part_done(t, TX_TIMER_INNER_STEP, now);
    if (!bad) tx_schedule_advance(&t->schedule, &t->place, batch, t->consumed_train_tokens);
    if (!bad) t->schedule_steps++;
    t->iteration++;
    t->consumed_train_samples += batch;
    t->consumed_train_tokens += batch * tx_config_layer_tokens(t->cfg, t->length, t->kept);
    count_iteration(t, !bad);
    tx__trainer_forget_rates(t);
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
    tx_trainer_feed f;
    make_feed(&f, t);
    f.read = read;
    f.read_user = user;
    TX_TRY(begin_iteration(t));
    tx_stage_begin(&t->stage, &f.is);
    TX_TRY(tx_stage_run(&t->stage, t->n_micro, true));
    double between = tx_clock();
    end_iteration(t);
    tx_status st = update(t);
    t->seconds[TX_TIMER_FORWARD_BACKWARD] = between - start;
    t->seconds[TX_TIMER_OPTIMIZER] = tx_clock() - between - t->seconds[TX_TIMER_SUMS];
    static const tx_timer timer[3] = { TX_TIMER_BATCH, TX_TIMER_FORWARD, TX_TIMER_BACKWARD };
    for (int i = 0; i < 3; i++) t->seconds[timer[i]] = t->stage.seconds[i];
    return st;
}
