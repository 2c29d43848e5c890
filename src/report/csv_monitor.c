/* csv_monitor.c - DeepSpeed's CSV files. */
#include "report/csv_monitor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

tx_status tx_csv_monitor_open(tx_csv_monitor *m, const tx_config *cfg)
{
    *m = (tx_csv_monitor){ .dir = cfg->csv_monitor_dir, .scaled = cfg->fp16 };
    tx_status st = tx_make_dirs(m->dir);
    return st ? TX_FAIL(st, "--csv-monitor-dir %s: %s", m->dir, tx_last_error()) : TX_OK;
}

/* The folder and the event's name with '_' for '/' and ' '. */
static tx_status path_of(char path[4096], const char *dir, const char *event)
{
    char name[80];
    snprintf(name, sizeof name, "%.64s.csv", event);
    for (char *p = name; *p; p++)
        if (*p == '/' || *p == ' ') *p = '_';
    return tx_path_join(path, 4096, dir, name);
}

static tx_status put_text(tx_csv_monitor *m, tx_append *file)
{
    TX_TRY(tx_append_put(file, m->text.data, m->text.len));
    m->n_put += m->text.len;
    return TX_OK;
}

static tx_status open_file(tx_csv_monitor *m, tx_append *file, const char *event)
{
    const char *slash = strrchr(event, '/');
    char path[4096];
    bool fresh;
    TX_TRY(path_of(path, m->dir, event));
    fresh = !tx_path_exists(path);
    TX_TRY(tx_append_open(file, path, false));
    tx_status st = TX_OK;
    m->text.len = 0;
    if (fresh) st = tx_str_printf(&m->text, "step,%s\r\n", slash ? slash + 1 : event);
    if (fresh && !st) st = put_text(m, file);
    if (!fresh) st = tx_append_cut_half_line(file);
    if (st) tx_append_close(file);
    return st;
}

/* *file: of the event's kind. */
static tx_status find_file(tx_csv_monitor *m, const char *event, tx_append **file)
{
    int i = 0;
    while (i < m->n && strcmp(m->of[i].name, event) != 0) i++;
    TX_ASSERT(i < TX_CSV_FILES);
    if (i == m->n) {
        TX_TRY(open_file(m, &m->of[i].file, event));
        snprintf(m->of[i].name, sizeof m->of[i].name, "%s", event);
        m->n++;
    }
    *file = &m->of[i].file;
    return TX_OK;
}

tx_status tx_csv_monitor_put(tx_csv_monitor *m, const tx_named_number *event, int n, int64_t step)
{
    for (int i = 0; i < n; i++) {
        tx_append *file;
        TX_TRY(find_file(m, event[i].name, &file));
        m->text.len = 0;
        TX_TRY(tx_str_printf(&m->text, "%lld,", (long long)step));
        TX_TRY(tx_str_put_f64(&m->text, event[i].value));
        TX_TRY(tx_str_puts(&m->text, "\r\n"));
        TX_TRY(put_text(m, file));
    }
    return TX_OK;
}

int tx_monitor_events(const tx_step_record *r, bool scaled, tx_named_number out[TX_MONITOR_EVENTS])
{
    int n = 0;
    double loss = r->loss;
    for (int i = 0; i < r->n_other_losses; i++) loss += r->other_loss[i].value;
    if (!isnan(loss)) out[n++] = (tx_named_number){ "Train/Samples/train_loss", loss };
    out[n++] = (tx_named_number){ "Train/Samples/lr", r->lr };
    if (scaled) out[n++] = (tx_named_number){ "Train/Samples/loss_scale", r->loss_scale };
    return n;
}

tx_status tx_csv_monitor_record(tx_csv_monitor *m, const tx_step_record *r)
{
    tx_named_number event[TX_MONITOR_EVENTS];
    if (r->kind == TX_RECORD_STEP)
        return tx_csv_monitor_put(m, event, tx_monitor_events(r, m->scaled, event), r->consumed_samples);
    if (r->kind != TX_RECORD_EVALUATION || strcmp(r->name, "validation") != 0) return TX_OK;
    event[0] = (tx_named_number){ "Train/Samples/eval_loss", r->loss };
    return tx_csv_monitor_put(m, event, 1, r->consumed_samples);
}

void tx_csv_monitor_close(tx_csv_monitor *m)
{
    for (int i = 0; i < m->n; i++) tx_append_close(&m->of[i].file);
    tx_str_free(&m->text);
    *m = (tx_csv_monitor){ 0 };
}
