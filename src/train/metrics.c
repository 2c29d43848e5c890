/* metrics.c - the log lines of training. Their wording and order are Megatron-LM's, so that scripts which read its logs
 * read these; what triax adds stands behind them. */
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

void tx_metrics_start(tx_metrics *m, const tx_trainer *t)
{
    double now = tx_clock();
    *m = (tx_metrics){ .interval_start = now, .run_start = now, .first_iteration = t->iteration, .last_progress = now };
}

void tx_metrics_exclude(tx_metrics *m, double since)
{
    double spent = tx_clock() - since;
    m->interval_start += spent;
    m->run_start += spent;
}

static void log_line(tx_metrics *m, const tx_trainer *t)
{
    int64_t n = m->advanced + m->skipped, batch = t->b * t->n_micro;
    double seconds = (tx_clock() - m->interval_start) / (double)n;
    char loss[64] = "", norm[64] = "";
    if (m->advanced) snprintf(loss, sizeof loss, " lm loss: %.6E |", m->loss_sum / (double)m->advanced);
    if (t->cfg->log_params_norm) snprintf(norm, sizeof norm, " params norm: %.3f |", t->params_norm);
    tx_info(" iteration %8lld/%8lld | consumed samples: %12lld | elapsed time per iteration (ms): %.1f |"
            " learning rate: %.3E | global batch size: %5lld |%s loss scale: 1.0 | grad norm: %.3f |%s"
            " number of skipped iterations: %3lld | number of nan iterations: %3lld |"
            " samples per second: %.3f | tokens per second: %.1f | TFLOPs: %.3f |",
            (long long)t->iteration, (long long)t->cfg->train_iters, (long long)t->consumed_train_samples,
            1e3 * seconds, t->lr, (long long)batch, loss, t->grad_norm, norm, (long long)m->skipped, (long long)m->nan,
            (double)batch / seconds, (double)(batch * t->s) / seconds,
            tx_model_flops(t->model, t->s, batch) / seconds * 1e-12);
    m->advanced = m->skipped = m->nan = 0;
    m->loss_sum = 0;
    m->interval_start = tx_clock();
}

static void progress_line(tx_metrics *m, const tx_trainer *t)
{
    double now = tx_clock();
    int64_t done = t->iteration - m->first_iteration, left = t->cfg->train_iters - t->iteration;
    if (!tx_log_wants(TX_LOG_PROGRESS) || now - m->last_progress < TX_PROGRESS_SECONDS) return;
    m->last_progress = now;
    double per_step = (now - m->run_start) / (double)done;
    int seconds = (int)(per_step * (double)left + 0.5);
    tx_log(TX_LOG_PROGRESS, "iteration %lld/%lld (%.0f %%) | lm loss %.4f | %.0f tokens/s | %d:%02d left",
           (long long)t->iteration, (long long)t->cfg->train_iters,
           100.0 * (double)t->iteration / (double)t->cfg->train_iters, t->iteration_loss,
           (double)(t->b * t->n_micro * t->s) / per_step, seconds / 60, seconds % 60);
}

void tx_metrics_step(tx_metrics *m, const tx_trainer *t)
{
    bool skipped = t->consecutive_skips > 0;
    m->advanced += !skipped;
    m->skipped += skipped;
    m->nan += skipped && !isfinite(t->iteration_loss);
    if (!skipped) m->loss_sum += t->iteration_loss;
    progress_line(m, t);
    if (t->iteration % t->cfg->log_interval == 0) log_line(m, t);
}

void tx_metrics_phase(const char *text)
{
    char date[20];
    tx_clock_date(date);
    tx_info("[%s] datetime: %s ", text, date);
}

void tx_metrics_evaluation(const char *name, const char *where, double loss)
{
    char line[512], rule[512];
    int n = snprintf(line, sizeof line, " %s loss at %s | lm loss value: %.6E | lm loss PPL: %.6E | ",
                     name ? name : "validation", where, loss, exp(fmin(20, loss)));
    n = n < 0 ? 0 : n >= (int)sizeof rule - 2 ? (int)sizeof rule - 2 : n;
    memset(rule, '-', (size_t)n + 1);
    rule[n + 1] = 0;
    tx_info("%s", rule);
    tx_info("%s", line);
    tx_info("%s", rule);
}
