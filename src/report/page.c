/* page.c - fills page.html. */
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "triax/token.h"

enum { MAX_ROWS = 4000 };
static const char marker[] = "@DATA@"; /* where the numbers go */

/* Text inside <script>: no '<', so that nothing in it can end the element. In JSON it only stands in strings. */
static tx_status put_json(tx_str *out, const char *json)
{
    for (; *json; json++) TX_TRY(*json == '<' ? tx_str_puts(out, "\\u003c") : tx_str_append(out, json, 1));
    return TX_OK;
}

static tx_status put_value(tx_str *out, const json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;
    tx_status st = text ? put_json(out, text) : TX_FAIL(TX_ERR_NOMEM, "not enough memory for the page");
    free(text);
    return st;
}

static tx_status put_text(tx_str *out, const char *text)
{
    tx_bytes clean = { 0 };
    TX_TRY(tx_text_replace_invalid(text, strlen(text), &clean));
    json_t *string = json_stringn(clean.n ? clean.data : "", clean.n);
    tx_status st = put_value(out, string);
    json_decref(string);
    tx_bytes_free(&clean);
    return st;
}

static tx_status put_number(tx_str *out, double x)
{
    if (!isfinite(x)) return tx_str_puts(out, "null");
    return tx_str_printf(out, fabs(x) < 1e15 && x == floor(x) ? "%.0f" : "%.7g", x);
}

/* ,"name":seconds since 1970, which need more digits than other numbers; left out where it is not known */
static tx_status put_time(tx_str *out, const char *name, double time)
{
    return isfinite(time) ? tx_str_printf(out, ",\"%s\":%.3f", name, time) : TX_OK;
}

size_t tx__page_rows(const tx_history *h, size_t max, size_t *row)
{
    size_t n = 0, stretches = max / 2;
    if (h->n_steps <= max) {
        for (; n < h->n_steps; n++) row[n] = n;
        return n;
    }
    for (size_t i = 0; i < stretches; i++) {
        size_t from = h->n_steps * i / stretches, to = h->n_steps * (i + 1) / stretches, low = from, high = from;
        for (size_t k = from + 1; k < to; k++) {
            if (h->step[k][TX_COLUMN_loss] < h->step[low][TX_COLUMN_loss]) low = k;
            if (h->step[k][TX_COLUMN_loss] > h->step[high][TX_COLUMN_loss]) high = k;
        }
        row[n++] = low < high ? low : high;
        if (low != high) row[n++] = low < high ? high : low;
    }
    if (row[n - 1] != h->n_steps - 1) row[n++] = h->n_steps - 1;
    return n;
}

/* "columns":{"iteration":[...], ...} without those that hold no number */
static tx_status put_columns(tx_str *out, const tx_history *h, const size_t *row, size_t n)
{
    bool any = false;
    TX_TRY(tx_str_puts(out, ",\"columns\":{"));
    for (int c = 0; c < TX_N_COLUMNS; c++) {
        bool empty = true;
        for (size_t i = 0; i < n && empty; i++) empty = isnan(h->step[row[i]][c]);
        if (empty && c != TX_COLUMN_iteration) continue;
        bool exact = c == TX_COLUMN_time; /* seconds since 1970 need more digits */
        TX_TRY(tx_str_printf(out, "%s\"%s\":[", any ? "," : "", tx_column_name(c)));
        any = true;
        for (size_t i = 0; i < n; i++) {
            double x = h->step[row[i]][c];
            if (i) TX_TRY(tx_str_puts(out, ","));
            TX_TRY(exact && isfinite(x) ? tx_str_printf(out, "%.3f", x) : put_number(out, x));
        }
        TX_TRY(tx_str_puts(out, "]"));
    }
    return tx_str_puts(out, "}");
}

/* ,"changed":{"option":["before","after"], ...} */
static tx_status put_changed(tx_str *out, json_t *before, json_t *after)
{
    const char *name, *comma = "";
    json_t *value;
    TX_TRY(tx_str_puts(out, ",\"changed\":{"));
    json_object_foreach(after, name, value)
    {
        json_t *old = json_object_get(before, name);
        if (!old || json_equal(old, value)) continue;
        TX_TRY(tx_str_puts(out, comma));
        TX_TRY(put_text(out, name));
        TX_TRY(tx_str_puts(out, ":["));
        TX_TRY(put_value(out, old));
        TX_TRY(tx_str_puts(out, ","));
        TX_TRY(put_value(out, value));
        TX_TRY(tx_str_puts(out, "]"));
        comma = ",";
    }
    return tx_str_puts(out, "}");
}

static tx_status put_starts(tx_str *out, const tx_history *h)
{
    TX_TRY(tx_str_puts(out, ",\"starts\":["));
    for (size_t i = 0; i < h->n_starts; i++) {
        const tx_run_start *s = &h->start[i], *last = i ? s - 1 : s;
        json_t *layout = json_object_get(s->line, "layout");
        TX_TRY(tx_str_puts(out, i ? ",{\"iteration\":" : "{\"iteration\":"));
        TX_TRY(put_number(out, s->iteration));
        TX_TRY(put_time(out, "time", s->time));
        TX_TRY(put_time(out, "before", s->before));
        if (layout) {
            TX_TRY(tx_str_puts(out, ",\"layout\":"));
            TX_TRY(put_value(out, layout));
        }
        TX_TRY(put_changed(out, json_object_get(last->line, "arguments"), json_object_get(s->line, "arguments")));
        TX_TRY(tx_str_puts(out, "}"));
    }
    return tx_str_puts(out, "]");
}

static tx_status put_evaluations(tx_str *out, const tx_history *h)
{
    TX_TRY(tx_str_puts(out, ",\"evaluations\":["));
    for (size_t i = 0; i < h->n_evaluations; i++) {
        const tx_evaluation *e = &h->evaluation[i];
        TX_TRY(tx_str_puts(out, i ? ",{\"name\":" : "{\"name\":"));
        TX_TRY(put_value(out, e->name));
        TX_TRY(tx_str_puts(out, ",\"iteration\":"));
        TX_TRY(put_number(out, e->iteration));
        TX_TRY(tx_str_puts(out, ",\"consumed_tokens\":"));
        TX_TRY(put_number(out, e->consumed_tokens));
        TX_TRY(put_time(out, "time", e->time));
        TX_TRY(tx_str_puts(out, ",\"loss\":"));
        TX_TRY(put_number(out, e->loss));
        if (!isnan(e->sop_loss)) {
            TX_TRY(tx_str_puts(out, ",\"sop_loss\":"));
            TX_TRY(put_number(out, e->sop_loss));
        }
        if (e->final) TX_TRY(tx_str_puts(out, ",\"final\":true"));
        TX_TRY(tx_str_puts(out, e->task ? ",\"task\":true}" : "}"));
    }
    return tx_str_puts(out, "]");
}

/* ---- loads of experts ---- */

enum { MAX_STRETCHES = 160, MAX_LOADS = 400000 }; /* of a picture's columns; of numbers in all pictures of a run */

/* [load of each expert]: the mean over steps [from, to), of those that have some.   @at of the layer's first expert */
static tx_status put_load(tx_str *out, const tx_history *h, size_t at, int64_t n_experts, size_t from, size_t to)
{
    for (int64_t e = 0; e < n_experts; e++) {
        double sum = 0, n = 0;
        for (size_t i = from; i < to; i++) {
            float x = h->load[i * h->n_experts + at + (size_t)e];
            if (isfinite(x)) sum += x, n++;
        }
        TX_TRY(tx_str_puts(out, e ? "," : "["));
        TX_TRY(n > 0 ? tx_str_printf(out, "%.3g", sum / n) : tx_str_puts(out, "null"));
    }
    return tx_str_puts(out, "]");
}

/* "loads":{"until":[last iteration of each stretch],"layers":[{"layer":2,"load":[[of each expert], ...]}, ...]} */
static tx_status put_loads(tx_str *out, const tx_history *h)
{
    if (!h->n_experts || !h->n_steps) return TX_OK;
    size_t n = h->n_steps < MAX_STRETCHES ? h->n_steps : MAX_STRETCHES, most = MAX_LOADS / h->n_experts + 1, at = 0;
    if (n > most) n = most;
    TX_TRY(tx_str_puts(out, ",\"loads\":{\"until\":["));
    for (size_t i = 0; i < n; i++) {
        if (i) TX_TRY(tx_str_puts(out, ","));
        TX_TRY(put_number(out, h->step[h->n_steps * (i + 1) / n - 1][TX_COLUMN_iteration]));
    }
    TX_TRY(tx_str_puts(out, "],\"layers\":["));
    for (size_t k = 0; k < h->n_expert_layers; at += (size_t)h->expert_layer[k++].n_experts) {
        const tx_load_layer *layer = &h->expert_layer[k];
        TX_TRY(tx_str_printf(out, "%s{\"layer\":%lld,\"load\":[", k ? "," : "", (long long)layer->layer));
        for (size_t i = 0; i < n; i++) {
            if (i) TX_TRY(tx_str_puts(out, ","));
            TX_TRY(put_load(out, h, at, layer->n_experts, h->n_steps * i / n, h->n_steps * (i + 1) / n));
        }
        TX_TRY(tx_str_puts(out, "]}"));
    }
    return tx_str_puts(out, "]}");
}

static tx_status put_run(tx_str *out, const char *name, const tx_history *h)
{
    size_t *row = NULL;
    tx_status st;
    TX_GOTO(tx_alloc(&row, MAX_ROWS + 1, sizeof *row, "the page"));
    size_t n = tx__page_rows(h, MAX_ROWS, row);
    TX_GOTO(tx_str_puts(out, "{\"name\":"));
    TX_GOTO(put_text(out, name));
    TX_GOTO(tx_str_puts(out, ",\"run\":"));
    TX_GOTO(put_value(out, h->run));
    TX_GOTO(put_time(out, "first_time", h->first_time));
    TX_GOTO(put_time(out, "last_time", h->last_time));
    TX_GOTO(put_starts(out, h));
    TX_GOTO(put_columns(out, h, row, n));
    TX_GOTO(put_evaluations(out, h));
    TX_GOTO(put_loads(out, h));
    TX_GOTO(tx_str_puts(out, "}"));
out:
    tx_free(row);
    return st;
}

tx_status tx__page_text(tx_str *out, int n_runs, const char *const *name, const tx_history *run)
{
    const char *html = (const char *)tx__page_html, *at = strstr(html, marker);
    TX_ASSERT(at);
    TX_TRY(tx_str_append(out, html, (size_t)(at - html)));
    TX_TRY(tx_str_printf(out, "{\"triax\":\"%s\",\"made\":%.3f,\"runs\":[", tx_version(), tx_clock_unix()));
    for (int i = 0; i < n_runs; i++) {
        TX_TRY(tx_str_puts(out, i ? ",\n" : "\n"));
        TX_TRY(put_run(out, name[i], &run[i]));
    }
    TX_TRY(tx_str_puts(out, "]}"));
    return tx_str_puts(out, at + sizeof marker - 1);
}

tx_status tx_page_write(const char *path, int n_runs, const char *const *name, const tx_history *run)
{
    tx_str page = { 0 };
    tx_status st = tx__page_text(&page, n_runs, name, run);
    if (!st) st = tx_file_publish(path, page.data, page.len);
    tx_str_free(&page);
    return st;
}
