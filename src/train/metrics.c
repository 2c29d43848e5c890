/* metrics.c - counts, times and tells the steps of a run. */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"

void tx_metrics_watch(tx_metrics *m, tx_record_fn *fn, void *user)
{
    TX_ASSERT(m->n_watchers < TX_MAX_WATCHERS);
    m->watcher[m->n_watchers].fn = fn;
    m->watcher[m->n_watchers++].user = user;
}

static void tell(const tx_metrics *m, const tx_step_record *r)
{
    for (int i = 0; i < m->n_watchers; i++) m->watcher[i].fn(m->watcher[i].user, r);
}

static void start_interval(tx_metrics *m, const tx_trainer *t)
{
    memcpy(m->groups, t->model->stack.group_seconds, sizeof m->groups);
    m->n_timed = 0;
    memset(m->timer, 0, sizeof m->timer);
    m->interval_start = tx_clock();
}

/* Of a rank's device or of its share of one. The model's weights have the type that its products are made in. */
static void find_peak(tx_metrics *m, const tx_trainer *t)
{
    const tx_device *d = t->ctx.device;
    int n_sharing = t->grid->work.n_sharing;
    if (t->cfg->skip_train) return;
    tx_dtype type = t->model->params.param[0].weight->value.dtype;
    if (t->cfg->given.peak_tflops) {
        m->peak_flops = 1e12 * t->cfg->peak_tflops;
        tx_info(" > peak of a rank's device by --peak-tflops: %g TFLOP/s", t->cfg->peak_tflops);
        return;
    }
    m->peak_flops = tx_peak_flops(&t->ctx, &type);
    if (d && n_sharing > 1) m->peak_flops /= n_sharing;
    if (d && m->peak_flops > 0)
        tx_info(" > peak of %s products by the vendor's figure for %s: %.1f TFLOP/s%s", tx_dtype_name(type), d->name,
                m->peak_flops * 1e-12, n_sharing > 1 ? ", of a GPU that ranks share" : "");
    else if (d)
        tx_info(" > the peak of %s products on %s is not known here: --peak-tflops X shows the share of it",
                tx_dtype_name(type), d->name);
    else if (m->peak_flops > 0)
        tx_info(" > measured peak of %s multiply-adds on %d threads: %.1f GFLOP/s", tx_dtype_name(type),
                t->ctx.n_threads, m->peak_flops * 1e-9);
}

void tx_metrics_start(tx_metrics *m, const tx_trainer *t)
{
    find_peak(m, t);
    start_interval(m, t);
    m->run_start = m->last_progress = m->interval_start;
    m->first_iteration = t->iteration;
    m->first_tokens = t->consumed_train_tokens;
}

void tx_metrics_pause(tx_metrics *m, double since)
{
    double seconds = tx_clock() - since;
    m->interval_start += seconds;
    m->run_start += seconds;
}

double tx_metrics_time(tx_metrics *m, tx_timer timer, double since)
{
    double now = tx_clock();
    m->timer[timer] += now - since;
    if (timer == TX_TIMER_EVALUATE || timer == TX_TIMER_SAVE) tx_metrics_pause(m, since);
    return now;
}

/* ---- records ---- */

/* @loss [n_losses] of the model, each to be divided by n */
static void set_losses(tx_step_record *r, const tx_model *m, const double *loss, double n)
{
    r->loss = loss[0] / n;
    r->n_other_losses = m->n_losses - 1;
    for (int k = 1; k < m->n_losses; k++) r->other_loss[k - 1] = (tx_named_number){ m->loss_name[k], loss[k] / n };
}

static void set_experts(tx_step_record *r, const tx_trainer *t)
{
    r->expert = t->expert;
    r->n_expert_layers = t->n_expert_layers;
    r->experts = t->expert_means;
}

/* Behind those: what layers with experts have added to the objective. */
static void add_moe_loss(tx_step_record *r, const tx_trainer *t, double loss)
{
    if (!t->expert) return;
    set_experts(r, t);
    r->other_loss[r->n_other_losses++] = (tx_named_number){ TX_MOE_LOSS, loss };
}

/* Where the run stands. */
static tx_step_record stand(const tx_trainer *t, tx_record_kind kind, const double *loss)
{
    tx_step_record r = {
        .kind = kind,
        .iteration = t->iteration,
        .train_iters = t->cfg->train_iters,
        .consumed_samples = t->consumed_train_samples,
        .consumed_tokens = t->consumed_train_tokens,
        .global_batch_size = tx_trainer_batch_size(t),
        .seq_length = tx_config_layer_tokens(t->cfg, t->length, t->kept),
        .curriculum_length = t->cfg->curriculum_schedule || t->cfg->data_efficiency_curriculum_learning ? t->length : 0,
        .reserved_length = t->cfg->random_ltd ? t->kept : 0,
        .layer_theta = t->cfg->progressive_layer_drop ? tx_config_layer_theta(t->cfg, t->iteration) : 0,
        .lr = t->lr,
        .decoupled_lr = t->decoupled_lr,
        .weight_decay = t->weight_decay,
        .grad_norm = t->grad_norm,
        .loss_scale = t->scaler.scale,
        .params_norm = t->cfg->log_params_norm ? t->params_norm : -1,
        .num_zeros = -1,
        .max_attention_logit = -1,
        .optim = kind == TX_RECORD_STEP && tx_trainer_has_states(t) ? &t->states : NULL,
    };
    set_losses(&r, t->model, loss, 1);
    return r;
}

/* How many of a micro-batch's layers --progressive-layer-drop passes by in the mean. */
static double dropped_share(const tx_trainer *t)
{
    double n = (double)t->model->n_layers;
    return t->cfg->progressive_layer_drop ? (1 - tx_config_layer_theta(t->cfg, t->iteration)) * (n - 1) / (2 * n) : 0;
}

/* Model FLOPs of an iteration, those that are reported, and those that are done again, of which layers with
 * --random-ltd have as large a part as of all. */
static double flops(const tx_trainer *t, double *told, double *again)
{
    const tx_model *m = t->model;
    int64_t s = t->length, b = tx_trainer_batch_size(t), mean = tx_config_layer_tokens(t->cfg, s, t->kept);
    double all = tx_model_flops(m, s, b), spared = tx_model_flops_spared(m, s, t->kept, b);
    bool exact = t->cfg->flops_formula == TX_FLOPS_EXACT;
    double layers = (all - spared - 6 * (double)s * (double)b * m->head_products) * dropped_share(t);
    *again = tx_model_flops_again(m, s, b);
    if (spared > 0) *again -= spared / 3 * (double)m->n_again / (double)m->n_layers;
    if (layers > 0) *again *= 1 - dropped_share(t);
    all -= spared;
    *told = exact ? all - layers : tx_flops_told(t->cfg, m, mean, b) * (1 - layers / all);
    return all - layers;
}

/* Means and counts are those of all iterations since the last line, also of a process that ended in between; times and
 * speeds are those of this one's. */
static tx_step_record interval(const tx_metrics *m, const tx_step_record *last, const tx_trainer *t)
{
    tx_step_record r = *last;
    const tx_interval *v = &t->interval;
    double n = (double)m->n_timed, seconds = (tx_clock() - m->interval_start) / n;
    tx_memory memory = tx_trainer_memory(t);
    r.kind = TX_RECORD_INTERVAL;
    set_losses(&r, t->model, v->loss_sum, v->taken ? (double)v->taken : NAN);
    add_moe_loss(&r, t, v->moe_loss_sum / (v->taken ? (double)v->taken : NAN));
    r.skipped = v->skipped;
    r.nan = v->nan;
    r.elapsed_ms = 1e3 * seconds;
    r.samples_per_second = (double)r.global_batch_size / seconds;
    r.tokens_per_second = (double)(r.global_batch_size * r.seq_length) / seconds;
    double rate = 1e-12 / seconds / t->grid->size, told, again, model = flops(t, &told, &again);
    r.tflops = told * rate;
    r.hardware_tflops = again > 0 && told == model ? (model + again) * rate : NAN;
    r.peak_share = m->peak_flops > 0 ? r.tflops * 1e12 / m->peak_flops : NAN;
    for (int i = 0; i < TX_N_TIMERS; i++) r.time_ms[i] = 1e3 * m->timer[i] / n;
    r.memory_bytes = (int64_t)tx_memory_total(&memory);
    r.peak_resident_bytes = tx_peak_resident_bytes();
    return r;
}

static void progress_line(tx_metrics *m, const tx_trainer *t)
{
    double now = tx_clock();
    int64_t done = t->iteration - m->first_iteration, left = t->cfg->train_iters - t->iteration;
    if (!tx_log_wants(TX_LOG_PROGRESS) || now - m->last_progress < TX_PROGRESS_SECONDS) return;
    m->last_progress = now;
    double per_step = (now - m->run_start) / (double)done;
    char time[32];
    tx_log(TX_LOG_PROGRESS, "iteration %lld/%lld (%.0f %%) | lm loss %.4f | %.0f tokens/s | %s left",
           (long long)t->iteration, (long long)t->cfg->train_iters,
           100.0 * (double)t->iteration / (double)t->cfg->train_iters, t->losses[0],
           (double)(t->consumed_train_tokens - m->first_tokens) / (now - m->run_start),
           tx_duration_text(time, per_step * (double)left));
}

/* The arenas' own high water against their plan, and what the system counts for the whole process. */
static void log_memory_used(const tx_trainer *t)
{
    tx_memory m = tx_trainer_memory(t);
    size_t planned = tx_memory_total(&m);
    size_t peak, stacks = tx_stage_stacks(&t->stage, &peak), host_peak, host;
    host = tx_stage_host_stacks(&t->stage, &host_peak);
    if (m.nvme_activations) host_peak = host; /* in a file */
    size_t used = planned - (stacks - peak) - (host - host_peak) - (m.workspace - t->ctx.scratch.peak);
    tx_info(
        " > memory after the first step (MB): predicted %.1f, used %.1f | the whole process, with its libraries and "
        "the data it read: %.1f",
        (double)planned / 1048576.0, (double)used / 1048576.0, (double)tx_peak_resident_bytes() / 1048576.0);
}

void tx_metrics_step(tx_metrics *m, const tx_trainer *t)
{
    bool skipped = t->last_step != TX_STEP_TAKEN;
    static const double none[TX_MAX_LOSSES] = { NAN, NAN, NAN };
    tx_step_record r = stand(t, TX_RECORD_STEP, skipped ? none : t->losses);
    add_moe_loss(&r, t, skipped ? NAN : t->moe_loss);
    for (int i = 0; i < TX_N_TIMERS; i++) m->timer[i] += t->seconds[i];
    m->n_timed++;
    r.skipped = skipped;
    r.nan = skipped && !isfinite(t->iteration_loss);
    if (t->cfg->log_num_zeros_in_grad) r.num_zeros = t->num_zeros;
    if (t->cfg->log_max_attention_logit) r.max_attention_logit = t->max_attention_logit;
    tell(m, &r);
    progress_line(m, t);
    if (t->iteration == m->first_iteration + 1) log_memory_used(t);
    if (!t->interval.complete) return;
    r = interval(m, &r, t);
    tx_log_interval(t->cfg, &r);
    for (int i = 0; i < TX_N_GROUP_TIMES; i++) m->groups[i] = t->model->stack.group_seconds[i] - m->groups[i];
    tx_log_group_times(t->cfg, m->groups, (double)m->n_timed);
    tell(m, &r);
    start_interval(m, t);
}

void tx_metrics_evaluated(tx_metrics *m, const tx_trainer *t, const char *split, const char *name, const double *loss)
{
    tx_step_record r = stand(t, TX_RECORD_EVALUATION, loss);
    r.n_other_losses = tx_model_n_scored(t->model) - 1;
    set_experts(&r, t);
    r.name = name ? name : split;
    r.final = m->closing;
    tell(m, &r);
}

void tx_metrics_scored(tx_metrics *m, const tx_trainer *t, const char *name, double loss, const tx_named_number *more,
                       int n_more)
{
    const double losses[TX_MAX_LOSSES] = { loss };
    tx_step_record r = stand(t, TX_RECORD_EVALUATION, losses);
    r.n_other_losses = 0;
    r.name = name;
    r.final = m->closing;
    r.more = more;
    r.n_more = n_more;
    tell(m, &r);
}

void tx_metrics_phase(const char *text)
{
    char date[20];
    tx_clock_date(date);
    tx_info("[%s] datetime: %s ", text, date);
}
