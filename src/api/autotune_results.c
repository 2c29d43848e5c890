/* autotune_results.c - the folders of DeepSpeed's autotuner: autotuning_exps has a description of each experiment,
 * autotuning_results a folder of each, the summary, and the best one as configuration and command. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/autotune.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

enum { MAX_EXPERIMENT = 16 << 20 };

/* ---- files ---- */

static tx_status path_in(char **out, const char *folder, const char *name, const char *end)
{
    tx_str path = { 0 };
    tx_status st = tx_str_printf(&path, "%s/%s%s", folder, name, end);
    if (!st) st = tx_memdup0(out, path.data, path.len, "a path");
    tx_str_free(&path);
    return st;
}

/* @folder, @name its file, with `end` behind it */
static tx_status publish(const char *folder, const char *name, const char *end, const tx_str *text)
{
    char *path = NULL;
    tx_status st = path_in(&path, folder, name, end);
    if (!st) st = tx_file_publish(path, text->data, text->len);
    tx_free(path);
    return st;
}

/* Takes the value, which is NULL where there was no memory. */
static tx_status publish_json(const char *folder, const char *name, const char *end, json_t *value)
{
    char *dump = value ? json_dumps(value, JSON_INDENT(4) | JSON_REAL_PRECISION(12)) : NULL;
    tx_str text = { 0 };
    tx_status st = dump ? tx_str_printf(&text, "%s\n", dump) : TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", name);
    if (!st) st = publish(folder, name, end, &text);
    tx_str_free(&text);
    free(dump);
    json_decref(value);
    return st;
}

tx_status tx__tuning_folder(char **out, const tx__tuning_job *j, const tx__tuned *l)
{
    return path_in(out, j->set.results_dir, l->name, "");
}

/* The command line as one would type it. */
static tx_status command_text(tx_str *out, const tx__tuning_job *j, const tx__tuned *l, const char *folder)
{
    json_t *words, *word;
    char **argv = NULL;
    size_t i;
    TX_TRY(tx__tuning_line(&words, j, l, folder));
    tx_status st = tx_alloc(&argv, json_array_size(words) + 1, sizeof *argv, "a command line");
    if (!st) {
        json_array_foreach(words, i, word) argv[i] = (char *)json_string_value(word);
        st = tx_short_run_text(out, argv, (int)json_array_size(words));
    }
    tx_free(argv);
    json_decref(words);
    return st;
}

/* ---- DeepSpeed's JSON of a layout ---- */

static int set_new(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value);
}

static int set_precision(json_t *out, const char *name, bool enabled)
{
    json_t *section = json_object_get(out, name);
    if (!enabled && !section) return 0;
    if (!json_is_object(section)) {
        section = json_object();
        if (set_new(out, name, section)) return -1;
    }
    return set_new(section, "enabled", json_boolean(enabled));
}

static int set_zero(json_t *out, const tx_config *cfg)
{
    json_t *zero = json_object_get(out, "zero_optimization");
    if (!json_is_object(zero)) {
        zero = json_object();
        if (set_new(out, "zero_optimization", zero)) return -1;
    }
    static const char *const others[] = { "cpu_offload", "cpu_offload_params", "cpu_offload_param", "offload_param",
                                          "offload_optimizer" };
    bool keeps = cfg->offload_optimizer == TX_OFFLOAD_NVME || cfg->offload_param == TX_OFFLOAD_CPU ||
                 cfg->offload_param == TX_OFFLOAD_NVME;
    for (size_t i = 0; i < sizeof others / sizeof *others && !keeps; i++) json_object_del(zero, others[i]);
    int failed = set_new(zero, "stage", json_integer(cfg->zero_stage));
    if (!keeps && cfg->offload_optimizer == TX_OFFLOAD_CPU)
        failed |= set_new(zero, "offload_optimizer",
                          json_pack("{s:s,s:f}", "device", "cpu", "ratio", cfg->offload_optimizer_ratio));
    return failed;
}

/* What the user's file says, but for the layout; NULL: there was no memory. */
static json_t *ds_config(const tx__tuning_job *j, const tx__tuned *l)
{
    tx_config *cfg = NULL;
    json_t *out = j->set.file ? json_deep_copy(j->set.file) : json_object();
    int failed = !out || tx__tuning_config(&cfg, j, l) || !cfg;
    if (!failed) {
        int64_t micro = cfg->micro_batch_size, all = cfg->global_batch_size, dp = tx_config_data_parallel(cfg);
        json_object_del(out, "autotuning");
        json_object_del(out, "tensor_parallel");
        json_object_del(out, "data_parallel_size");
        if (!l->as_given) json_object_del(out, "activation_checkpointing");
        failed = set_new(out, "train_batch_size", json_integer(all)) |
                 set_new(out, "train_micro_batch_size_per_gpu", json_integer(micro)) |
                 set_new(out, "gradient_accumulation_steps", json_integer(all / (micro * dp))) |
                 set_precision(out, "fp16", cfg->fp16) | set_precision(out, "bf16", cfg->bf16) | set_zero(out, cfg);
    }
    tx_config_free(cfg);
    if (!failed) return out;
    json_decref(out);
    return NULL;
}

/* ---- one experiment ---- */

static json_t *experiment(const tx__tuning_job *j, const tx__tuned *l, const char *command)
{
    json_t *out = json_pack("{s:s, s:o*, s:i, s:i, s:s}", "name", l->name, "ds_config", ds_config(j, l), "num_gpus",
                            j->line.n_ranks / j->line.n_hosts, "num_nodes", j->line.n_hosts, "cmd", command);
    int failed = !out;
    if (!failed && l->predicted > 0) failed |= set_new(out, "predicted_ms", json_real(1e3 * l->predicted));
    if (!failed && l->measured > 0) failed |= set_new(out, "latency", json_real(1e3 * l->measured));
    if (!failed && l->measured > 0) failed |= set_new(out, "spread", json_real(l->spread));
    if (!failed && l->measured > 0) failed |= set_new(out, "tflops", json_real(l->tflops));
    if (!failed && l->why) failed |= set_new(out, "error", json_string(l->why));
    if (!failed) return out;
    json_decref(out);
    return NULL;
}

static tx_status write_experiment(const tx__tuning_job *j, const tx__tuned *l, bool first)
{
    char *folder = NULL;
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx__tuning_folder(&folder, j, l));
    TX_GOTO(command_text(&text, j, l, folder));
    TX_GOTO(publish_json(folder, "exp", ".json", experiment(j, l, text.data)));
    if (!first) goto out;
    TX_GOTO(publish_json(j->set.exps_dir, l->name, ".json", experiment(j, l, text.data)));
    TX_GOTO(publish_json(folder, "ds_config", ".json", ds_config(j, l)));
    TX_GOTO(tx_str_puts(&text, "\n"));
    TX_GOTO(publish(folder, "cmd", ".txt", &text));
out:
    tx_str_free(&text);
    tx_free(folder);
    return st;
}

tx_status tx__tuning_describe(const tx__tuning_job *j, const tx__tuned *l)
{
    return write_experiment(j, l, true);
}

tx_status tx__tuning_keep(const tx__tuning_job *j, const tx__tuned *l)
{
    char *folder = NULL;
    TX_TRY(write_experiment(j, l, false));
    if (!(l->measured > 0)) return TX_OK;
    tx_status st = tx__tuning_folder(&folder, j, l);
    if (!st)
        st = publish_json(folder, "metrics", ".json",
                          json_pack("{s:f, s:f, s:f}", "latency", 1e3 * l->measured, "throughput",
                                    (double)l->global_batch / l->measured, "FLOPS_per_gpu", 1e12 * l->tflops));
    tx_free(folder);
    return st;
}

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* exp.json of the same command; NULL: there is none that can be read. */
static json_t *read_experiment(const char *folder, const char *command)
{
    char *path = NULL;
    tx_str text = { 0 };
    json_error_t e;
    json_t *exp = NULL;
    if (!path_in(&path, folder, "exp", ".json") && tx_path_exists(path) && !tx_file_read(path, MAX_EXPERIMENT, &text))
        exp = tx_json_load(text.data ? text.data : "", text.len, 0, &e);
    const char *cmd = json_string_value(json_object_get(exp, "cmd"));
    if (!cmd || strcmp(cmd, command) != 0) {
        json_decref(exp);
        exp = NULL;
    }
    tx_str_free(&text);
    tx_free(path);
    return exp;
}

tx_status tx__tuning_recall(tx__tuning_job *j, tx__tuned *l)
{
    char *folder = NULL;
    tx_str command = { 0 };
    json_t *exp = NULL;
    tx_status st;
    TX_GOTO(tx__tuning_folder(&folder, j, l));
    if (!tx_path_is_dir(folder)) goto out;
    TX_GOTO(command_text(&command, j, l, folder));
    exp = read_experiment(folder, command.data);
    const char *why = json_string_value(json_object_get(exp, "error"));
    if (number(exp, "latency") > 0) {
        l->measured = number(exp, "latency") / 1e3;
        l->spread = number(exp, "spread");
        l->tflops = number(exp, "tflops");
        l->tried = true;
    } else if (why) {
        TX_GOTO(tx_memdup0(&l->why, why, strlen(why), "why a trial failed"));
        l->tried = true;
    }
out:
    json_decref(exp);
    tx_str_free(&command);
    tx_free(folder);
    return st;
}

/* ---- all of them ---- */

static tx_status measure_machine(tx__tuning_job *j, const char *path)
{
    int code = 0;
    json_t *words = json_pack("[s, o]", "doctor", json_sprintf("--machine-file=%s", path));
    if (!words) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for a command line");
    tx_info("this machine is measured for the predictions, which takes some minutes: %s", path);
    tx_status st = tx__tuning_child(j, words, j->set.results_dir, &code);
    json_decref(words);
    if (st || j->stopped) return st;
    if (!code && tx_path_exists(path)) return TX_OK;
    return TX_FAIL(TX_ERR_STATE, "this machine could not be measured (exit code %d): see %s/stderr.log", code,
                   j->set.results_dir);
}

/* As many ranks in a node as the run has; they divide the host's memory, where that is theirs. */
static void adapt(tx_machine *m, double ranks_per_node)
{
    if (!tx_machine_is_gpu(m)) m->memory *= m->ranks_per_node / ranks_per_node;
    m->ranks_per_node = ranks_per_node;
}

tx_status tx__tuning_open(tx__tuning_job *j)
{
    char *machine = NULL;
    tx_status st;
    if (j->set.overwrite) {
        TX_TRY(tx_remove_tree(j->set.exps_dir));
        TX_TRY(tx_remove_tree(j->set.results_dir));
    }
    TX_TRY(tx_make_dirs(j->set.exps_dir));
    TX_TRY(tx_make_dirs(j->set.results_dir));
    TX_GOTO(path_in(&machine, j->set.results_dir, "machine", ".json"));
    if (!tx_path_exists(machine)) TX_GOTO(measure_machine(j, machine));
    if (j->stopped) goto out;
    TX_GOTO(tx_machine_read(&j->machine, machine));
    adapt(&j->machine, (double)j->line.n_ranks / j->line.n_hosts);
out:
    tx_free(machine);
    return st;
}

/* ---- what is known at the end ---- */

/* Measured ones first, the fastest above. */
static int by_result(const void *a, const void *b)
{
    const tx__tuned *x = *(const tx__tuned *const *)a, *y = *(const tx__tuned *const *)b;
    double s = x->measured > 0 ? x->measured / (double)x->global_batch : INFINITY;
    double t = y->measured > 0 ? y->measured / (double)y->global_batch : INFINITY;
    return (s > t) - (s < t);
}

static tx_status table_row(tx_str *out, const tx__tuned *l, int width)
{
    char predicted[32] = "", off[32] = "";
    if (l->predicted > 0) snprintf(predicted, sizeof predicted, "%.1f", 1e3 * l->predicted);
    if (!(l->measured > 0))
        return tx_str_printf(out, "| %-*s | %12s | failed: %s\n", width, l->name, predicted, l->why);
    if (l->predicted > 0) snprintf(off, sizeof off, "%+.1f %%", 100 * (l->predicted / l->measured - 1));
    return tx_str_printf(out, "| %-*s | %12s | %11.1f | %9s | %13.4g |\n", width, l->name, predicted, 1e3 * l->measured,
                         off, (double)l->global_batch / l->measured);
}

static tx_status table_rows(tx_str *out, const tx__tuned *const *l, int n)
{
    static const char line[] = "----------------------------------------------------------------------------------";
    int width = 8;
    for (int i = 0; i < n; i++)
        if ((int)strlen(l[i]->name) > width) width = (int)strlen(l[i]->name);
    TX_TRY(
        tx_str_printf(out, "| %-*s | predicted ms | measured ms |    off by | samples a sec |\n", width, "exp_name"));
    TX_TRY(tx_str_printf(out, "|:%.*s-|-------------:|------------:|----------:|--------------:|\n", width, line));
    for (int i = 0; i < n; i++) TX_TRY(table_row(out, l[i], width));
    return TX_OK;
}

static tx_status table_end(tx_str *out, const tx__tuning_job *j)
{
    double worst = 0, sum = 0;
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        const tx__tuned *l = &j->layout[i];
        if (!(l->measured > 0) || !(l->predicted > 0)) continue;
        double off = fabs(l->predicted / l->measured - 1);
        worst = off > worst ? off : worst;
        sum += off;
        n++;
    }
    if (n)
        TX_TRY(tx_str_printf(out, "\nThe model was off by %.1f %% in the mean, %.1f %% at worst", 100 * sum / n,
                             100 * worst));
    bool any = false;
    for (int k = 0; n && k < TX_N_OFF; k++) {
        double off = 100 * (exp(j->correction.mean[k]) - 1);
        if (fabs(off) < 1) continue;
        TX_TRY(tx_str_printf(out, "%s %s %+.0f %%",
                             any ? "," : ". What they took beside what was predicted:", tx_correction_names[k], off));
        any = true;
    }
    if (n) TX_TRY(tx_str_puts(out, ".\n"));
    int seconds = (int)(tx_clock() - j->start);
    return tx_str_printf(out, "\nTuning completed in %d:%02d:%02d. Total number of experiments: %d.\n", seconds / 3600,
                         seconds / 60 % 60, seconds % 60, j->n_tried);
}

tx_status tx__tuning_table(tx_str *out, const tx__tuning_job *j)
{
    const tx__tuned **tried = NULL;
    int n = 0;
    TX_TRY(tx_alloc(&tried, (size_t)j->n, sizeof *tried, "the table"));
    for (int i = 0; i < j->n; i++)
        if (j->layout[i].tried) tried[n++] = &j->layout[i];
    qsort(tried, (size_t)n, sizeof *tried, by_result);
    tx_status st = table_rows(out, tried, n);
    if (!st) st = table_end(out, j);
    tx_free(tried);
    return st;
}

tx_status tx__tuning_publish(tx__tuning_job *j)
{
    const tx__tuned *best = tx__tuning_best(j);
    tx_str text = { 0 };
    tx_status st;
    TX_GOTO(tx__tuning_table(&text, j));
    TX_GOTO(publish(j->set.results_dir, "summary", ".txt", &text));
    if (!best) goto out;
    text.len = 0;
    TX_GOTO(command_text(&text, j, best, NULL));
    TX_GOTO(tx_str_puts(&text, "\n"));
    TX_GOTO(publish(j->set.results_dir, "cmd_optimal", ".txt", &text));
    TX_GOTO(publish_json(j->set.results_dir, "ds_config_optimal", ".json", ds_config(j, best)));
out:
    tx_str_free(&text);
    return st;
}
