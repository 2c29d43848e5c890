/* log_line.c - the log lines of training. Their wording and order are Megatron's, so that scripts which read its logs
 * read these; what triax adds stands behind them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "train/metrics.h"

/* ---- the training line ---- */

__attribute__((format(printf, 2, 3))) static void add(char line[1024], const char *fmt, ...)
{
    size_t n = strlen(line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, 1024 - n, fmt, ap);
    va_end(ap);
}

static void add_norms_and_length(char line[1024], const tx_step_record *r)
{
    add(line, " grad norm: %.3f |", r->grad_norm);
    if (r->num_zeros >= 0) add(line, " num zeros: %.1f |", r->num_zeros);
    if (r->params_norm >= 0) add(line, " params norm: %.3f |", r->params_norm);
    if (r->max_attention_logit >= 0) add(line, " max attention logit: %.3f |", r->max_attention_logit);
    if (r->curriculum_length) add(line, " curriculum seqlen: %5lld |", (long long)r->curriculum_length);
    if (r->reserved_length) add(line, " random ltd reserved length: %5lld |", (long long)r->reserved_length);
    if (r->layer_theta > 0) add(line, " progressive layer drop theta: %.6f |", r->layer_theta);
}

/* Of layers with experts, which Megatron logs in part, under these names. */
static void add_experts(char line[1024], const tx_step_record *r)
{
    const tx_expert_means *m = &r->experts;
    if (!r->expert || isnan(r->loss)) return;
    add(line, " load balancing loss: %.6E | z loss: %.6E | dropped tokens: %.2f%% | load imbalance: %.3f |",
        m->aux_loss, m->z_loss, 100 * m->dropped, m->imbalance);
}

/* Megatron-LM's. */
static void megatron(char line[1024], const tx_step_record *r)
{
    add(line, " loss scale: %.1f |", r->loss_scale);
    add_norms_and_length(line, r);
    add(line, " number of skipped iterations: %3lld | number of nan iterations: %3lld |", (long long)r->skipped,
        (long long)r->nan);
    add(line, " samples per second: %.3f | tokens per second: %.1f | TFLOPs: %.3f |", r->samples_per_second,
        r->tokens_per_second, r->tflops);
}

/* Megatron-DeepSpeed's: a loss scale only where there is a scaler. */
static void megatron_deepspeed(char line[1024], const tx_config *cfg, const tx_step_record *r)
{
    if (tx_loss_scaler_from_config(cfg).kind != TX_SCALE_NONE) add(line, " loss scale: %.1f |", r->loss_scale);
    add_norms_and_length(line, r);
    add(line, " actual seqlen: %5lld |", (long long)r->seq_length);
    add(line, " number of skipped iterations: %3lld | number of nan iterations: %3lld |", (long long)r->skipped,
        (long long)r->nan);
    add(line, " samples per second: %.3f | tokens per gpu per second (tgs): %.3f | TFLOPs: %.2f |",
        r->samples_per_second, r->tokens_per_second, r->tflops);
}

void tx_log_interval(const tx_config *cfg, const tx_step_record *r)
{
    bool deepspeed = cfg->log_dialect == TX_DIALECT_MEGATRON_DEEPSPEED;
    char line[1024] = "";
    add(line, " iteration %8lld/%8lld | consumed samples: %12lld |", (long long)r->iteration, (long long)r->train_iters,
        (long long)r->consumed_samples);
    if (deepspeed) add(line, " consumed tokens: %12lld |", (long long)r->consumed_tokens);
    add(line, " elapsed time per iteration (ms): %.1f | learning rate: %.3E |", r->elapsed_ms, r->lr);
    if (r->decoupled_lr >= 0) add(line, " decoupled learning rate: %.3E |", r->decoupled_lr);
    add(line, " global batch size: %5lld |", (long long)r->global_batch_size);
    if (!isnan(r->loss)) add(line, " lm loss: %.6E |", r->loss);
    for (int i = 0; i < r->n_other_losses; i++)
        if (!isnan(r->other_loss[i].value)) add(line, " %s: %.6E |", r->other_loss[i].name, r->other_loss[i].value);
    if (deepspeed)
        megatron_deepspeed(line, cfg, r);
    else
        megatron(line, r);
    if (!isnan(r->hardware_tflops)) add(line, " hardware TFLOPs: %.3f |", r->hardware_tflops);
    if (!isnan(r->peak_share)) add(line, " peak share: %.1f%% |", 100 * r->peak_share);
    add_experts(line, r);
    tx_info("%s", line);

    static const char *const name[] = {
#define X(id, text, level, key) text,
        TX_TIMERS(X)
#undef X
    };
    static const int level[] = {
#define X(id, text, lvl, key) lvl,
        TX_TIMERS(X)
#undef X
    };
    double ms[TX_N_TIMERS];
    for (int i = 0; i < TX_N_TIMERS; i++)
        ms[i] =
            level[i] > 0 && level[i] <= cfg->timing_log_level ? r->time_ms[i] : 0; /* level 0: told when it is over */
    tx_log_timers(cfg, TX_N_TIMERS, name, ms);
}

/* ---- timers ---- */

void tx_log_timers(const tx_config *cfg, int n, const char *const *name, const double *ms)
{
    enum { WIDTH = 48 };
    bool all = cfg->timing_log_option == TX_TIMING_LOG_ALL, begun = false;
    for (int i = 0; i < n; i++) {
        if (!(ms[i] > 0)) continue;
        if (!begun) tx_info(all ? "times across ranks (ms):" : "(min, max) time across ranks (ms):");
        begun = true;
        if (all) {
            tx_info("  %s:", name[i]);
            tx_info("     rank %2d: %.2f", 0, ms[i]);
            continue;
        }
        char dots[WIDTH + 1];
        int used = snprintf(dots, sizeof dots, "%s ", name[i]);
        memset(dots + used, '.', (size_t)(WIDTH - used)); /* names are shorter */
        dots[WIDTH] = 0;
        if (cfg->timing_log_option == TX_TIMING_LOG_MAX)
            tx_info("    %s: %.2f", dots, ms[i]);
        else
            tx_info("    %s: (%.2f, %.2f)", dots, ms[i], ms[i]);
    }
}

void tx_log_group_times(const tx_config *cfg, const double seconds[TX_N_GROUP_TIMES], double n)
{
    static const char *const name[] = { "checkpointed-layers-forward", "checkpointed-layers-forward-again",
                                        "checkpointed-layers-backward" };
    double ms[TX_N_GROUP_TIMES];
    if (!cfg->profile_backward) return;
    for (int i = 0; i < TX_N_GROUP_TIMES; i++) ms[i] = 1e3 * seconds[i] / n;
    tx_log_timers(cfg, TX_N_GROUP_TIMES, name, ms);
}

/* ---- memory ---- */

static void to_log(void *user, const char *text)
{
    (void)user;
    tx_info("%s", text);
}

/* What the paper says of the rows parameters, gradients and optimizer, and what they are: parts and buckets have to be
 * even, which takes a little. */
static void formula_line(const tx_memory *m, const tx_zero_formula *f, void (*line)(void *user, const char *text),
                         void *user)
{
    char text[400], whole[24] = "", experts[64] = "", some[96] = "", frozen[64] = "";
    double bytes = tx_zero_formula_bytes(f), planned = (double)tx_memory_states(m);
    if (f->whole) snprintf(whole, sizeof whole, "%d Psi + ", f->whole);
    if (f->n_expert_params)
        snprintf(experts, sizeof experts, " (of experts, %lld, %d Psi / %d)", (long long)f->n_expert_params, f->divided,
                 f->n_expert_ranks);
    int n = f->n_each ? snprintf(some, sizeof some, " + 4 x %lld", (long long)f->n_each) : 0;
    if (f->n_some) snprintf(some + n, sizeof some - (size_t)n, " + 4 x %lld / %d", (long long)f->n_some, f->n_ranks);
    if (f->n_frozen && f->stage == 3)
        snprintf(frozen, sizeof frozen, " + %d x %lld / %d", f->frozen, (long long)f->n_frozen, f->n_ranks);
    else if (f->n_frozen)
        snprintf(frozen, sizeof frozen, " + %d x %lld", f->frozen, (long long)f->n_frozen);
    snprintf(
        text, sizeof text,
        "    model states by the ZeRO formula: %s%d Psi / %d%s%s%s = %.1f MB, Psi = %lld; planned %.1f MB (%+.1f %%)",
        whole, f->divided, f->n_ranks, experts, some, frozen, bytes / 1048576, (long long)f->n_params,
        planned / 1048576, 100 * (planned / bytes - 1));
    line(user, text);
}

void tx_memory_table(const tx_memory *m, const tx_zero_formula *f, void (*line)(void *user, const char *text),
                     void *user)
{
    size_t total = tx_memory_total(m);
    const struct {
        const char *name;
        size_t bytes;
        bool if_any;
    } row[] = { { .name = "parameters", .bytes = m->params },
                { .name = "persistent", .bytes = m->persistent, .if_any = true },
                { .name = "gathered", .bytes = m->gathered, .if_any = true },
                { .name = "gradients", .bytes = m->grads },
                { .name = "grad buckets", .bytes = m->buckets, .if_any = true },
                { .name = "optimizer", .bytes = m->optimizer },
                { .name = "teacher", .bytes = m->teacher, .if_any = true },
                { .name = "activations", .bytes = m->activations },
                { .name = "host inputs", .bytes = m->host_activations, .if_any = true },
                { .name = "offloaded", .bytes = m->host, .if_any = true },
                { .name = "disk buffers", .bytes = m->passing, .if_any = true },
                { .name = "saved copy", .bytes = m->saving, .if_any = true },
                { .name = "workspace", .bytes = m->workspace },
                { .name = "total", .bytes = total },
                { .name = "of it on GPU", .bytes = tx_memory_gpu(m), .if_any = true },
                { .name = "on a disk", .bytes = tx_memory_disk(m), .if_any = true } };
    const char *heading = " > memory (MB), predicted:";
    line ? line(user, heading + 3) : to_log(user, heading);
    if (!line) line = to_log;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[96], size[24];
        if (row[i].if_any && !row[i].bytes) continue;
        int n = snprintf(text, sizeof text, "    %-12s %12.1f", row[i].name, (double)row[i].bytes / 1048576.0);
        if (row[i].bytes == total && total >= (size_t)1 << 30)
            snprintf(text + n, sizeof text - (size_t)n, "  (%s)", tx_bytes_text(size, (double)total));
        line(user, text);
    }
    if (f->stage) formula_line(m, f, line, user);
}

/* ---- evaluation ---- */

void tx_boxed_lines(const char *text, void (*line)(void *user, const char *text), void *user)
{
    char rule[512];
    size_t n = strlen(text);
    n = n < sizeof rule - 2 ? n : sizeof rule - 2;
    memset(rule, '-', n + 1);
    rule[n + 1] = 0;
    if (!line) line = to_log;
    line(user, rule);
    line(user, text);
    line(user, rule);
}

void tx_evaluation_line(char *buf, size_t cap, const tx_trainer *t, const char *name, const char *where,
                        const double *loss)
{
    const tx_model *m = t->model;
    snprintf(buf, cap, " %s loss at %s | ", name ? name : "validation", where);
    for (int k = 0; k < tx_model_n_scored(m); k++) {
        size_t n = strlen(buf);
        snprintf(buf + n, cap - n, "%s value: %.6E | %s PPL: %.6E | ", m->loss_name[k], loss[k], m->loss_name[k],
                 exp(fmin(20, loss[k])));
    }
    if (!tx_evaluation_drops(t)) return;
    size_t n = strlen(buf);
    snprintf(buf + n, cap - n, "dropped tokens: %.2f%% | ", 100 * t->expert_means.dropped);
}

void tx_metrics_evaluation(const tx_trainer *t, const char *name, const char *where, const double *loss)
{
    char text[512];
    tx_evaluation_line(text, sizeof text, t, name, where, loss);
    tx_boxed_lines(text, NULL, NULL);
}
