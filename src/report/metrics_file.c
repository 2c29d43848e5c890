/* metrics_file.c - writing a run as JSON lines. */
#include "report/metrics_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static const char first[] = "{\"kind\":\"run\"";

/* Whether what is there is a metrics file: it begins as one, or is empty. */
static tx_status check_start(const tx_append *file)
{
    char start[sizeof first - 1];
    ssize_t n = pread(file->fd, start, sizeof start, 0);
    if (n == 0 || (n < 0 && errno == ESPIPE)) return TX_OK;
    if (n == (ssize_t)sizeof start && !memcmp(start, first, sizeof start)) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: is no metrics file and is not added to; name another with --metrics-file",
                   file->path);
}

tx_status tx_metrics_file_open(tx_metrics_file *f, const char *path, const json_t *run)
{
    *f = (tx_metrics_file){ 0 };
    tx_status st;
    char *line = NULL;
    TX_GOTO(tx_append_open(&f->file, path, false));
    TX_GOTO(check_start(&f->file));
    TX_GOTO(tx_append_cut_half_line(&f->file));
    line = json_dumps(run, JSON_COMPACT | JSON_REAL_PRECISION(15));
    TX_GOTO(line ? tx_str_printf(&f->line, "%s\n", line) : TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", path));
    TX_GOTO(tx_append_put(&f->file, f->line.data, f->line.len));
out:
    free(line);
    if (st) tx_metrics_file_close(f);
    return st;
}

void tx_metrics_file_close(tx_metrics_file *f)
{
    tx_append_close(&f->file);
    tx_str_free(&f->line);
    *f = (tx_metrics_file){ 0 };
}

/* ,"name":value */
static tx_status put_number(tx_str *line, const char *name, double x)
{
    TX_TRY(tx_str_printf(line, "%s\"%s\":", line->data[line->len - 1] == '{' ? "" : ",", name));
    if (!isfinite(x)) return tx_str_puts(line, "null");
    return tx_str_printf(line, fabs(x) < 1e15 && x == floor(x) ? "%.0f" : "%.9g", x);
}

/* Those that not every model has, where it has them: "sop loss" as "sop_loss". */
static tx_status put_other_losses(tx_str *line, const tx_step_record *r)
{
    for (int i = 0; i < r->n_other_losses; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s", r->other_loss[i].name);
        for (char *c = name; *c; c++)
            if (*c == ' ') *c = '_';
        TX_TRY(put_number(line, name, r->other_loss[i].value));
    }
    return TX_OK;
}

/* ,"experts":[{"layer":2,"load":[...]}, ...]: how many tokens of the last iteration chose each. */
static tx_status put_loads(tx_str *line, const tx_step_record *r)
{
    TX_TRY(tx_str_puts(line, ",\"experts\":["));
    for (int k = 0; k < r->n_expert_layers; k++) {
        const tx_expert_record *layer = &r->expert[k];
        TX_TRY(tx_str_printf(line, "%s{\"layer\":%lld", k ? "," : "", (long long)layer->layer));
        TX_TRY(put_number(line, "dropped", layer->dropped));
        for (int64_t e = 0; e < layer->n_experts; e++)
            TX_TRY(tx_str_printf(line, "%s%.0f", e ? "," : ",\"load\":[", layer->load[e]));
        TX_TRY(tx_str_puts(line, "]}"));
    }
    return tx_str_puts(line, "]");
}

static tx_status put_experts(tx_str *line, const tx_step_record *r)
{
    if (!r->expert) return TX_OK;
#define X(name, value) TX_TRY(put_number(line, #name, (double)(value)));
    TX_EXPERT_NUMBERS(X)
#undef X
    return put_loads(line, r);
}

static tx_status put_step(tx_str *line, const tx_step_record *r)
{
    static const char *const key[] = {
#define X(id, name, level, key_) key_,
        TX_TIMERS(X)
#undef X
    };
#define X(name, value) TX_TRY(put_number(line, #name, (double)(value)));
    TX_STEP_NUMBERS(X)
#undef X
    TX_TRY(put_other_losses(line, r));
    TX_TRY(put_experts(line, r));
    TX_TRY(tx_str_puts(line, ",\"time_ms\":{"));
    for (int i = 0; i < TX_N_TIMERS; i++)
        if (key[i]) TX_TRY(put_number(line, key[i], r->time_ms[i]));
    return tx_str_puts(line, "}");
}

static tx_status put_evaluation(tx_str *line, const tx_step_record *r)
{
    json_t *name = json_string(r->name);
    char *text = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    tx_status st =
        text ? tx_str_printf(line, ",\"name\":%s", text) : TX_FAIL(TX_ERR_NOMEM, "cannot write the name of a dataset");
    free(text);
    json_decref(name);
    if (!st) st = put_number(line, "iteration", (double)r->iteration);
    if (!st) st = put_number(line, "consumed_samples", (double)r->consumed_samples);
    if (!st) st = put_number(line, "consumed_tokens", (double)r->consumed_tokens);
    if (!st) st = put_number(line, "loss", r->loss);
    if (!st) st = put_number(line, "ppl", exp(fmin(20, r->loss)));
    if (!st) st = put_other_losses(line, r);
    if (!st && r->expert) st = put_number(line, "dropped_share", r->experts.dropped);
    if (!st && r->final) st = tx_str_puts(line, ",\"final\":true");
    if (!st && r->more) st = tx_str_puts(line, ",\"task\":true");
    for (int i = 0; i < r->n_more && !st; i++) st = put_number(line, r->more[i].name, r->more[i].value);
    return st;
}

tx_status tx_metrics_file_put(tx_metrics_file *f, const tx_step_record *r)
{
    if (r->kind == TX_RECORD_STEP) return TX_OK;
    bool step = r->kind == TX_RECORD_INTERVAL;
    f->line.len = 0;
    TX_TRY(tx_str_printf(&f->line, "{\"kind\":\"%s\",\"time\":%.3f", step ? "step" : "evaluation", tx_clock_unix()));
    TX_TRY(step ? put_step(&f->line, r) : put_evaluation(&f->line, r));
    TX_TRY(tx_str_puts(&f->line, "}\n"));
    return tx_append_put(&f->file, f->line.data, f->line.len);
}
