/* run_sinks.c - TensorBoard's files and the metrics file of a run. */
#include "api/run_sinks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/processor_name.h"
#include "api/show_layout.h"
#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "triax/token.h"

/* ---- the first line of a metrics file ---- */

/* Text of an option, which may hold any bytes. */
static tx_status set_text(json_t *object, const char *name, const char *text)
{
    tx_bytes clean = { 0 };
    TX_TRY(tx_text_replace_invalid(text, strlen(text), &clean));
    json_t *value = json_stringn(clean.n ? clean.data : "", clean.n);
    tx_bytes_free(&clean);
    if (!json_object_set_new(object, name, value)) return TX_OK;
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a run");
}

static tx_status set_option(void *user, const char *name, const char *value)
{
    return set_text(user, name, value);
}

/* Of the whole model: each rank counts what it is the first to have. */
static tx_status count_parameters(const tx_trainer *t, int64_t *sum)
{
    const tx_params *ps = &t->model->params;
    tx_comm *world = tx_grid_group(t->grid, TX_GROUP_WORLD);
    int64_t mine = 0, *each;
    int n = tx_comm_size(world);
    for (int i = 0; i < ps->n; i++)
        if (tx_zero_first(&t->zero, &ps->param[i])) mine += tx_param_n_real(&ps->param[i]);
    TX_TRY(tx_alloc(&each, (size_t)n, sizeof *each, "the ranks' numbers of parameters"));
    tx_status st = tx_comm_gather(world, each, &mine, sizeof mine);
    *sum = 0;
    for (int i = 0; i < n && !st; i++) *sum += each[i];
    tx_free(each);
    return st;
}

static tx_status run_line(json_t **out, const tx_trainer *t, int64_t n_params)
{
    tx_memory m = tx_trainer_memory(t);
    char host[128] = "", cpu[128], date[20];
    gethostname(host, sizeof host - 1);
    tx__processor_name(cpu, sizeof cpu);
    tx_clock_date(date);
    json_t *arguments = json_object();
    json_t *line = json_pack("{s:s, s:s, s:f, s:s, s:I, s:I, s:I}", "kind", "run", "triax", tx_version(), "time",
                             tx_clock_unix(), "date", date, "iteration", (json_int_t)t->iteration, "train_iters",
                             (json_int_t)t->cfg->train_iters, "parameters", (json_int_t)n_params);
    json_t *machine = json_pack("{s:I, s:I}", "cores", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memory_bytes",
                                (json_int_t)(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)));
    const tx_grid *g = t->grid;
    json_t *layout =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "ranks", g->size, "tensor", tx_grid_size(g, TX_AXIS_TENSOR),
                  "pipeline", tx_grid_size(g, TX_AXIS_PIPELINE), "data", tx_grid_size(g, TX_AXIS_DATA), "context",
                  tx_grid_size(g, TX_AXIS_CONTEXT), "zero_stage", t->zero.stage);
    json_t *memory = tx__memory_to_json(&m);
    tx_status st = line && machine && layout && memory && arguments
                       ? TX_OK
                       : TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a run");
    if (!st) st = set_text(machine, "host", host);
    if (!st) st = set_text(machine, "processor", cpu);
    if (!st) st = set_text(machine, "backend", t->ctx.backend->describe());
    if (!st) st = tx_config_each(t->cfg, set_option, arguments);
    if (!st && (json_object_set(line, "machine", machine) || json_object_set(line, "layout", layout) ||
                json_object_set(line, "memory", memory) || json_object_set(line, "arguments", arguments)))
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the options of a run");
    json_decref(machine);
    json_decref(layout);
    json_decref(memory);
    json_decref(arguments);
    if (st)
        json_decref(line);
    else
        *out = line;
    return st;
}

static tx_status open_metrics_file(tx_metrics_file *f, const tx_trainer *t, int64_t n_params)
{
    const tx_config *cfg = t->cfg;
    char path[4096];
    json_t *line;
    if (!cfg->metrics_file) {
        tx_status made = tx_make_dirs(cfg->save);
        if (made) return TX_FAIL(made, "--save %s: %s", cfg->save, tx_last_error());
        TX_TRY(tx_path_join(path, sizeof path, cfg->save, TX_METRICS_FILE));
    }
    TX_TRY(run_line(&line, t, n_params));
    tx_status st = tx_metrics_file_open(f, cfg->metrics_file ? cfg->metrics_file : path, line);
    json_decref(line);
    return st;
}

/* ---- watching ---- */

/* What came of a record for a file. @wrote: something was; not all records have something for every file
 * @from the first iteration in a row at which it could not be written; 0: it can */
static void note(tx_status st, bool wrote, const char *name, int64_t *from, int64_t iteration)
{
    if (st && !*from) {
        tx_warn("%s; %s misses iteration %lld and those that follow until it can be written", tx_last_error(), name,
                (long long)iteration);
        *from = iteration > 0 ? iteration : 1;
    } else if (!st && wrote && *from) {
        tx_info("%s can be written again; it misses what came from iteration %lld on", name, (long long)*from);
        *from = 0;
    }
}

static void to_tensorboard(void *user, const tx_step_record *r)
{
    tx__run_sinks *s = user;
    const tx_append *file = &s->tensorboard.file;
    uint64_t before = file->n_put;
    tx_status st = tx_tensorboard_put(&s->tensorboard, r);
    note(st, file->n_put > before, "TensorBoard's file", &s->tensorboard_from, r->iteration);
}

static void to_metrics_file(void *user, const tx_step_record *r)
{
    tx__run_sinks *s = user;
    const tx_append *file = &s->metrics_file.file;
    uint64_t before = file->n_put;
    tx_status st = tx_metrics_file_put(&s->metrics_file, r);
    note(st, file->n_put > before, "the metrics file", &s->metrics_from, r->iteration);
}

static void to_csv(void *user, const tx_step_record *r)
{
    tx__run_sinks *s = user;
    uint64_t before = s->csv.n_put;
    tx_status st = tx_csv_monitor_record(&s->csv, r);
    note(st, s->csv.n_put > before, "a file of --csv-monitor-dir", &s->csv_from, r->iteration);
}

/* What the run writes, and where: one line before the first step. */
static void say_where(const tx__run_sinks *s, const tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    const char *save = cfg->skip_train ? NULL : cfg->save;
    const char *metrics = s->metrics_file.file.path, *tensorboard = s->tensorboard.file.path;
    char when[64] = "";
    if (save && cfg->given.save_interval)
        snprintf(when, sizeof when, " every %lld iterations and at the end", (long long)cfg->save_interval);
    else if (save)
        snprintf(when, sizeof when, " at the end and on exits");
    bool of_one = t->grid->size > 1 && !cfg->log_dir && tx_log_wants(TX_LOG_DEBUG);
    tx_info(" > log: standard output%s%s%s%s | checkpoints: %s%s | metrics: %s | TensorBoard: %s%s%s",
            of_one ? " of rank 0 (--log-dir DIR has each rank's)" : "", cfg->log_dir ? " and " : "",
            cfg->log_dir ? cfg->log_dir : "", cfg->log_dir ? "/rank_NNNNN.log" : "",
            save              ? save
            : cfg->skip_train ? "none (--skip-train)"
                              : "none (no --save)",
            when, metrics ? metrics : "none (no --save or --metrics-file)",
            tensorboard ? tensorboard : "none (no --tensorboard-dir)", cfg->csv_monitor_dir ? " | CSV: " : "",
            cfg->csv_monitor_dir ? cfg->csv_monitor_dir : "");
}

tx_status tx__run_sinks_open(tx__run_sinks *s, tx_metrics *m, const tx_trainer *t)
{
    const tx_config *cfg = t->cfg;
    int64_t n_params;
    TX_TRY(count_parameters(t, &n_params));
    if (t->grid->rank) return TX_OK;
    if (cfg->tensorboard_dir) {
        TX_TRY(tx_tensorboard_open(&s->tensorboard, cfg, t->iteration));
        tx_metrics_watch(m, to_tensorboard, s);
    }
    if (cfg->csv_monitor_dir) {
        TX_TRY(tx_csv_monitor_open(&s->csv, cfg));
        tx_metrics_watch(m, to_csv, s);
    }
    if (cfg->metrics_file || cfg->save) {
        TX_TRY(open_metrics_file(&s->metrics_file, t, n_params));
        tx_metrics_watch(m, to_metrics_file, s);
    }
    say_where(s, t);
    return TX_OK;
}

void tx__run_sinks_close(tx__run_sinks *s)
{
    tx_tensorboard_close(&s->tensorboard);
    tx_metrics_file_close(&s->metrics_file);
    tx_csv_monitor_close(&s->csv);
}
