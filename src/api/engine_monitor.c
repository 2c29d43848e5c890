/* engine_monitor.c - DeepSpeed's lines and events of a client's own loop. Sources: deepspeed/runtime/engine.py
 * (_report_progress, _write_monitor), utils/timer.py, runtime/pipe/engine.py; DeepSpeed 0.19. */
#include "api/engine_monitor.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* DeepSpeed leaves the first iterations out of its speeds: they warm up. */
enum { START_STEP = 2 };

/* What wall_clock_breakdown's line shows, and its events' names. Sums between ranks are hidden behind backward but for
 * what is left of them in front of the update. */
static const struct {
    const char *name, *event;
    int first, second; /* timers that it is the sum of; -1: none */
} shown[] = {
    { "fwd", "Train/Samples/elapsed_time_ms_forward", TX_MONITOR_FORWARD, -1 },
    { "bwd", "Train/Samples/elapsed_time_ms_backward", TX_MONITOR_BACKWARD, TX_MONITOR_REDUCE },
    { "bwd_inner", "Train/Samples/elapsed_time_ms_backward_inner", TX_MONITOR_BACKWARD, -1 },
    { "bwd_allreduce", "Train/Samples/elapsed_time_ms_backward_allreduce", TX_MONITOR_REDUCE, -1 },
    { "step", "Train/Samples/elapsed_time_ms_step", TX_MONITOR_STEP, -1 },
};
enum { N_SHOWN = sizeof shown / sizeof *shown };

static double shown_ms(const double seconds[TX_MONITOR_TIMERS], int i)
{
    double sum = seconds[shown[i].first];
    if (shown[i].second >= 0) sum += seconds[shown[i].second];
    return 1e3 * sum;
}

static tx_status open_files(tx__engine_monitor *m, const tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    if (t->grid->rank) return TX_OK;
    m->prints = cfg->given.log_interval;
    m->breaks = cfg->timing_log_level == 2;
    if (cfg->tensorboard_dir) TX_TRY(tx_tensorboard_open(&m->tensorboard, cfg, t->iteration));
    return cfg->csv_monitor_dir ? tx_csv_monitor_open(&m->csv, cfg) : TX_OK;
}

tx_status tx__engine_monitor_begin(tx__engine_monitor *m, const tx_trainer *t)
{
    if (m->begun) return TX_OK;
    m->begun = true;
    return tx_comm_agree(tx_grid_group(t->grid, TX_GROUP_WORLD), open_files(m, t));
}

void tx__engine_monitor_time(tx__engine_monitor *m, int timer, double since)
{
    m->seconds[timer] += tx_clock() - since;
}

/* ---- events ---- */

static tx_status write_events(tx__engine_monitor *m, const tx_trainer *t)
{
    const tx_step_record r = { .loss = t->last_step == TX_STEP_TAKEN ? t->iteration_loss : NAN,
                               .lr = tx_trainer_lr(t),
                               .decoupled_lr = -1,
                               .loss_scale = t->scaler.scale };
    tx_named_number event[TX_MONITOR_EVENTS + N_SHOWN];
    int n = tx_monitor_events(&r, t->cfg->fp16, event);
    int64_t step = t->consumed_train_samples;
    for (int i = 0; i < N_SHOWN && m->breaks; i++)
        event[n++] = (tx_named_number){ shown[i].event, shown_ms(m->seconds, i) };
    if (m->csv.dir) TX_TRY(tx_csv_monitor_put(&m->csv, event, n, step));
    return m->tensorboard.cfg ? tx_tensorboard_scalars(&m->tensorboard, event, n, step) : TX_OK;
}

/* The loop goes on where they cannot be written. */
static void tell_events(tx__engine_monitor *m, const tx_trainer *t)
{
    tx_status st = write_events(m, t);
    if (st && !m->failed_from) {
        m->failed_from = t->iteration;
        tx_warn("%s; the monitors' files miss iteration %lld and those that follow until they can be written",
                tx_last_error(), (long long)t->iteration);
    } else if (!st && m->failed_from) {
        tx_info("the monitors' files can be written again; they miss what came from iteration %lld on",
                (long long)m->failed_from);
        m->failed_from = 0;
    }
}

/* ---- lines ---- */

/* Python's list of what each group has. */
static tx_status put_groups(tx__engine_monitor *m, const tx_trainer *t, bool momentum)
{
    const tx_optim *o = &t->zero.optim;
    tx_optim_step all = tx_optim_next(o, tx_trainer_lr(t), t->weight_decay);
    bool betas = !t->client->optimizer && tx_optimizer_traits(t->cfg->optimizer) & TX_OPTIMIZER_BETAS;
    int n = t->client->n_groups;
    for (int i = 0; i <= n; i++) {
        bool others = i == n;
        const tx_optim_range range = { .group = others ? 0 : i + 1,
                                       .lr_scale = others ? 1 : t->client->group[i].lr_scale };
        TX_TRY(tx_str_puts(&m->line, i ? ", " : "["));
        if (!momentum) {
            TX_TRY(tx_str_put_f64(&m->line, tx_optim_step_of(&all, &range).lr));
        } else if (betas) {
            TX_TRY(tx_str_puts(&m->line, "("));
            TX_TRY(tx_str_put_f64(&m->line, o->betas[0]));
            TX_TRY(tx_str_puts(&m->line, ", "));
            TX_TRY(tx_str_put_f64(&m->line, o->betas[1]));
            TX_TRY(tx_str_puts(&m->line, ")"));
        } else {
            TX_TRY(tx_str_put_f64(&m->line, o->momentum));
        }
    }
    return tx_str_puts(&m->line, "]");
}

static tx_status report_progress(tx__engine_monitor *m, const tx_trainer *t)
{
    m->line.len = 0;
    TX_TRY(tx_str_printf(&m->line, "step=%lld, skipped=%lld, lr=", (long long)t->iteration, (long long)t->skipped));
    TX_TRY(put_groups(m, t, false));
    TX_TRY(tx_str_puts(&m->line, ", mom="));
    TX_TRY(put_groups(m, t, true));
    tx_info("%s", m->line.data);
    return TX_OK;
}

static tx_status report_times(tx__engine_monitor *m)
{
    m->line.len = 0;
    TX_TRY(tx_str_puts(&m->line, "time (ms)"));
    for (int i = 0; i < N_SHOWN; i++)
        TX_TRY(tx_str_printf(&m->line, " | %s: %.2f", shown[i].name,
                             shown_ms(m->since_print, i) / (double)m->n_since_print));
    tx_info("%s", m->line.data);
    return TX_OK;
}

static double sum_of(const double seconds[TX_MONITOR_TIMERS])
{
    double sum = 0;
    for (int i = 0; i < TX_MONITOR_TIMERS; i++) sum += seconds[i];
    return sum;
}

static void report_speed(const tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps)
{
    tx_memory memory = tx_trainer_memory(t);
    double batch = (double)tx_trainer_batch_size(t), gib = 1073741824.0;
    if (!m->n_since_second) return;
    tx_info("epoch=0/micro_step=%lld/global_step=%lld, RunningAvgSamplesPerSec=%.6g, CurrSamplesPerSec=%.6g, "
            "MemAllocated=%.2fGB, MaxMemAllocated=%.2fGB",
            (long long)micro_steps, (long long)t->iteration, batch * (double)m->n_since_second / m->since_second,
            batch / sum_of(m->seconds), (double)tx_memory_total(&memory) / gib, (double)tx_peak_resident_bytes() / gib);
}

/* Of what DeepSpeed's pipeline engine trains as a whole. */
static void report_batch(const tx__engine_monitor *m, const tx_trainer *t)
{
    double seconds = sum_of(m->since_print) / (double)m->n_since_print;
    tx_info("steps: %lld loss: %0.4f iter time (s): %0.3f samples/sec: %0.3f", (long long)t->iteration,
            t->iteration_loss, seconds, (double)tx_trainer_batch_size(t) / seconds);
}

/* ---- an iteration's end ---- */

static tx_status tell_lines(tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps, bool whole)
{
    TX_TRY(report_progress(m, t));
    if (whole) report_batch(m, t);
    if (!whole) report_speed(m, t, micro_steps);
    if (m->breaks) TX_TRY(report_times(m));
    memset(m->since_print, 0, sizeof m->since_print);
    m->n_since_print = 0;
    return TX_OK;
}

static void end(tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps, bool whole)
{
    m->n++;
    m->n_since_print++;
    for (int i = 0; i < TX_MONITOR_TIMERS; i++) m->since_print[i] += m->seconds[i];
    if (m->n > START_STEP) {
        m->n_since_second++;
        m->since_second += sum_of(m->seconds);
    }
    if (m->csv.dir || m->tensorboard.cfg) tell_events(m, t);
    bool due = t->iteration % t->cfg->log_interval == 0;
    if (m->prints && due && tell_lines(m, t, micro_steps, whole)) tx_warn("%s", tx_last_error());
    memset(m->seconds, 0, sizeof m->seconds);
}

void tx__engine_monitor_step(tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps)
{
    double sums = t->seconds[TX_TIMER_SUMS]; /* was counted with the step */
    m->seconds[TX_MONITOR_STEP] -= sums;
    m->seconds[TX_MONITOR_REDUCE] += sums;
    end(m, t, micro_steps, false);
}

void tx__engine_monitor_batch(tx__engine_monitor *m, const tx_trainer *t, int64_t micro_steps)
{
    m->seconds[TX_MONITOR_FORWARD] = t->seconds[TX_TIMER_BATCH] + t->seconds[TX_TIMER_FORWARD];
    m->seconds[TX_MONITOR_BACKWARD] = t->seconds[TX_TIMER_BACKWARD];
    m->seconds[TX_MONITOR_REDUCE] = t->seconds[TX_TIMER_SUMS];
    m->seconds[TX_MONITOR_STEP] = t->seconds[TX_TIMER_OPTIMIZER];
    end(m, t, micro_steps, true);
}

void tx__engine_monitor_close(tx__engine_monitor *m)
{
    tx_tensorboard_close(&m->tensorboard);
    tx_csv_monitor_close(&m->csv);
    tx_str_free(&m->line);
}
