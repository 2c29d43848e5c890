/* autotune_trial.c - a short run of the real program in a layout, and what it took. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/autotune.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "report/history.h"

enum { MAX_LOG = 64 << 20 };

/* ---- the command line ---- */

/* What a trial leaves out: all that writes, reads a checkpoint, evaluates, or changes the iterations that are
 * measured. */
static const char *const not_in_trials[] = { "world_size",
                                             "save",
                                             "overwrite_run",
                                             "save_interval",
                                             "save_format",
                                             "async_save",
                                             "max_failed_saves",
                                             "keep_last",
                                             "load",
                                             "load_latest_good",
                                             "load_tag",
                                             "no_verify_load",
                                             "no_save_optim",
                                             "no_load_optim",
                                             "no_load_lr_state",
                                             "finetune",
                                             "reset_iteration",
                                             "exit_on_missing_checkpoint",
                                             "universal_checkpoint",
                                             "eval_iters",
                                             "eval_interval",
                                             "eval_tasks",
                                             "skip_train",
                                             "log_interval",
                                             "metrics_file",
                                             "tensorboard_dir",
                                             "csv_monitor_dir",
                                             "tensorboard_log_interval",
                                             "log_timers_to_tensorboard",
                                             "log_batch_size_to_tensorboard",
                                             "log_learning_rate_to_tensorboard",
                                             "log_loss_scale_to_tensorboard",
                                             "log_validation_ppl_to_tensorboard",
                                             "log_memory_to_tensorboard",
                                             "log_world_size_to_tensorboard",
                                             "log_optimizer_states_to_tensorboard",
                                             "profile",
                                             "profile_steps",
                                             "profile_step_start",
                                             "profile_step_end",
                                             "log_dir",
                                             "rampup_batch_size",
                                             "exit_interval",
                                             "exit_duration_in_mins",
                                             "kill_switch_file",
                                             "dump_step",
                                             "skip_train_iteration_range",
                                             NULL };

static tx_status no_memory(void)
{
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a command line");
}

static tx_status add(json_t *words, json_t *word)
{
    return json_array_append_new(words, word) ? no_memory() : TX_OK;
}

static tx_status add_flags(json_t *words, const tx_config *cfg, const char *const *without)
{
    json_t *flags;
    TX_TRY(tx_config_to_flags(cfg, without, &flags));
    tx_status st = json_array_extend(words, flags) ? no_memory() : TX_OK;
    json_decref(flags);
    return st;
}

/* @cfg of the layout */
static tx_status add_run(json_t *words, const tx__tuning_job *j, const tx_config *cfg, const char *folder)
{
    static const char *const in_training[] = { "world_size", NULL };
    TX_TRY(add(words, json_string(j->line.program[0])));
    TX_TRY(add_flags(words, cfg, folder ? not_in_trials : in_training));
    if (!folder) return TX_OK;
    TX_TRY(add(words, json_sprintf("--metrics-file=%s/" TX_METRICS_FILE, folder)));
    TX_TRY(add(words, json_sprintf("--exit-interval=%lld", (long long)j->set.end_profile_step)));
    TX_TRY(add(words, json_string("--log-interval=1")));
    return add(words, json_string("--eval-iters=0"));
}

tx_status tx__tuning_line(json_t **out, const tx__tuning_job *j, const tx__tuned *l, const char *folder)
{
    static const char *const without[] = { "autotuning", "script", "grace", NULL };
    json_t *words = json_array();
    tx_config *cfg = NULL;
    tx_status st = words ? TX_OK : no_memory();
    if (!st) st = tx__tuning_config(&cfg, j, l);
    TX_ASSERT(st || cfg); /* it was planned */
    if (!st) st = add(words, json_string("deepspeed"));
    if (!st) st = add_flags(words, j->line.cfg, without);
    if (!st && folder) st = add(words, json_string("--grace=1"));
    if (!st && !folder && j->line.cfg->given.grace)
        st = add(words, json_sprintf("--grace=%lld", (long long)j->line.cfg->grace));
    if (!st) st = add_run(words, j, cfg, folder);
    tx_config_free(cfg);
    if (st)
        json_decref(words);
    else
        *out = words;
    return st;
}

/* ---- the run ---- */

tx_status tx__tuning_child(tx__tuning_job *j, const json_t *words, const char *folder, int *code)
{
    tx_str out = { 0 }, err = { 0 };
    char **word = NULL;
    size_t i;
    const json_t *one;
    tx_status st;
    TX_GOTO(tx_alloc(&word, json_array_size(words) + 1, sizeof *word, "a command line"));
    json_array_foreach(words, i, one) word[i] = (char *)json_string_value(one);
    TX_GOTO(tx_str_printf(&out, "%s/stdout.log", folder));
    TX_GOTO(tx_str_printf(&err, "%s/stderr.log", folder));
    tx_short_run run = { .word = word, .n = (int)json_array_size(words), .out_path = out.data, .err_path = err.data };
    TX_GOTO(tx_short_run_do(&run));
    *code = run.code;
    j->stopped = run.stopped;
out:
    tx_str_free(&out);
    tx_str_free(&err);
    tx_free(word);
    return st;
}

/* ---- what it took ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* The median of the distances from it. */
static double spread(double *x, int n, double middle)
{
    for (int i = 0; i < n; i++) x[i] = fabs(x[i] - middle);
    return median(x, n);
}

/* *n_steps: iterations that were measured. */
static tx_status read_metrics(const tx__tuning_job *j, tx__tuned *l, const char *path, int *n_steps)
{
    tx_history h = { 0 };
    double *ms = NULL, *tflops = NULL;
    int n = 0;
    tx_status st;
    *n_steps = 0;
    if (!tx_path_exists(path)) return TX_OK;
    TX_GOTO(tx_history_read(&h, path));
    TX_GOTO(tx_alloc(&ms, h.n_steps + 1, sizeof *ms, "the iterations of a trial"));
    TX_GOTO(tx_alloc(&tflops, h.n_steps + 1, sizeof *tflops, "the iterations of a trial"));
    for (size_t i = 0; i < h.n_steps; i++) {
        const double *step = h.step[i];
        bool in = step[TX_COLUMN_iteration] >= (double)j->set.start_profile_step;
        if (!in || !(step[TX_COLUMN_elapsed_ms] > 0)) continue;
        tflops[n] = isnan(step[TX_COLUMN_tflops]) ? 0 : step[TX_COLUMN_tflops];
        ms[n++] = step[TX_COLUMN_elapsed_ms];
    }
    if (n) {
        l->measured = median(ms, n) / 1e3;
        l->spread = spread(ms, n, 1e3 * l->measured) / (1e3 * l->measured);
        l->tflops = median(tflops, n);
    }
    *n_steps = n;
out:
    tx_free(ms);
    tx_free(tflops);
    tx_history_free(&h);
    return st;
}

/* The line in which a program said why it ended; else the last one. */
static tx_status find_reason(char **out, const char *path, int code)
{
    tx_str text = { 0 };
    const char *line = NULL;
    size_t n = 0;
    if (tx_path_exists(path)) TX_TRY(tx_file_read(path, MAX_LOG, &text));
    for (const char *at = text.data; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
        size_t length = strcspn(at, "\n");
        if (!length || (line && !strncmp(line, "triax ", 6))) continue;
        line = at, n = length;
    }
    tx_str reason = { 0 };
    tx_status st =
        line ? tx_str_append(&reason, line, n < 400 ? n : 400) : tx_str_printf(&reason, "exit code %d", code);
    if (!st) st = tx_str_printable(&reason);
    if (!st) st = tx_memdup0(out, reason.data, reason.len, "why a trial failed");
    tx_str_free(&reason);
    tx_str_free(&text);
    return st;
}

static tx_status take_result(const tx__tuning_job *j, tx__tuned *l, const char *folder, int code)
{
    tx_str path = { 0 };
    int n = 0;
    tx_status st = tx_str_printf(&path, "%s/" TX_METRICS_FILE, folder);
    if (!st && !code) st = read_metrics(j, l, path.data, &n);
    path.len = 0;
    if (!st && code) {
        st = tx_str_printf(&path, "%s/stderr.log", folder);
        if (!st) st = find_reason(&l->why, path.data, code);
    } else if (!st && !n) {
        st = tx_str_printf(&path, "it ended before iteration %lld, start_profile_step",
                           (long long)j->set.start_profile_step);
        if (!st) st = tx_memdup0(&l->why, path.data, path.len, "why a trial failed");
    }
    tx_str_free(&path);
    return st;
}

tx_status tx__tuning_measure(tx__tuning_job *j, tx__tuned *l)
{
    char *folder = NULL;
    json_t *words = NULL;
    int code = 0;
    tx_status st;
    TX_GOTO(tx__tuning_folder(&folder, j, l));
    TX_GOTO(tx_remove_tree(folder));
    TX_GOTO(tx_make_dirs(folder));
    TX_GOTO(tx__tuning_describe(j, l));
    TX_GOTO(tx__tuning_line(&words, j, l, folder));
    TX_GOTO(tx__tuning_child(j, words, folder, &code));
    if (j->stopped) goto out;
    TX_GOTO(take_result(j, l, folder, code));
    l->tried = true;
    TX_GOTO(tx__tuning_keep(j, l));
out:
    json_decref(words);
    tx_free(folder);
    return st;
}
