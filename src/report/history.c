/* history.c - reading a run's metrics file. */
#include "report/history.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"

#define MAX_FILE  ((size_t)2 << 30)
#define MAX_STEPS 9007199254740992.0 /* 2^53 */

static const char *const names[TX_N_COLUMNS] = {
#define X(name, value) #name,
    TX_STEP_NUMBERS(X)
#undef X
#define X(id, name, level, key) key,
        TX_TIMERS(X)
#undef X
            "time",
    "sop_loss", "moe_loss",
#define X(name, value) #name,
    TX_EXPERT_NUMBERS(X)
#undef X
};

const char *tx_column_name(int column)
{
    return names[column];
}

/* The line at hand. */
typedef struct place {
    const char *path;
    size_t line;
} place;

/* obj[name] as a number, NaN for null or a missing one. */
static tx_status number(const place *p, const json_t *obj, const char *name, double *out)
{
    const json_t *v = json_object_get(obj, name);
    *out = NAN;
    if (!v || json_is_null(v)) return TX_OK;
    if (!json_is_number(v)) return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"%s\" is not a number", p->path, p->line, name);
    *out = json_number_value(v);
    return TX_OK;
}

static tx_status count(const place *p, const json_t *obj, const char *name, double *out)
{
    TX_TRY(number(p, obj, name, out));
    if (*out >= 0 && *out <= MAX_STEPS && *out == floor(*out)) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"%s\" is not a count", p->path, p->line, name);
}

/* Room for one more item. */
static tx_status grow(void *items, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return TX_OK;
    size_t more = *cap ? 2 * *cap : 64;
    TX_TRY(tx_realloc(items, more, size, "a run's numbers"));
    *cap = more;
    return TX_OK;
}

/* Forgets what stands behind an iteration: a run that was resumed there did it again. */
static void go_back(tx_history *h, double iteration)
{
    while (h->n_steps && h->step[h->n_steps - 1][TX_COLUMN_iteration] > iteration) h->n_steps--;
    while (h->n_evaluations && h->evaluation[h->n_evaluations - 1].iteration > iteration)
        json_decref(h->evaluation[--h->n_evaluations].name);
}

static double train_iters(const tx_history *h)
{
    return json_number_value(json_object_get(h->run, "train_iters"));
}

/* Written when files had neither the layout nor which evaluation is the final one. */
static bool is_old(const tx_history *h)
{
    return !json_object_get(h->run, "layout");
}

static tx_status take_run(tx_history *h, const place *p, json_t *line)
{
    double iteration, n;
    TX_TRY(count(p, line, "iteration", &iteration));
    TX_TRY(count(p, line, "train_iters", &n));
    if (!json_is_object(json_object_get(line, "arguments")))
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"arguments\" is not an object", p->path, p->line);
    tx_run_start s = { .line = line, .iteration = iteration, .before = h->last_time };
    TX_TRY(number(p, line, "time", &s.time));
    TX_TRY(grow(&h->start, h->n_starts, &h->cap_starts, sizeof *h->start));
    go_back(h, iteration);
    h->run = json_incref(line);
    h->start[h->n_starts++] = s;
    return TX_OK;
}

/* ---- loads of experts ---- */

enum { MAX_EXPERTS = 1 << 22 };

/* The layers, as the first line that has some lists them; steps before it have none. */
static tx_status take_expert_layers(tx_history *h, const place *p, const json_t *layers)
{
    size_t n = json_array_size(layers), sum = 0;
    bool without = false;
    TX_TRY(tx_alloc(&h->expert_layer, n + 1, sizeof *h->expert_layer, "the layers with experts"));
    for (size_t i = 0; i < n; i++) {
        const json_t *layer = json_array_get(layers, i);
        int64_t experts = (int64_t)json_array_size(json_object_get(layer, "load"));
        without = without || !experts;
        h->expert_layer[i] = (tx_load_layer){ json_integer_value(json_object_get(layer, "layer")), experts };
        sum += (size_t)experts;
    }
    if (!sum || sum > MAX_EXPERTS)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"experts\" has %zu loads, not 1 to %d", p->path, p->line, sum,
                       MAX_EXPERTS);
    if (without) return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"experts\" has a layer without loads", p->path, p->line);
    h->n_expert_layers = n;
    h->n_experts = sum;
    return TX_OK;
}

static tx_status take_layer_loads(float *row, const tx_load_layer *is, const place *p, const json_t *layer)
{
    const json_t *loads = json_object_get(layer, "load");
    double sum = 0;
    if ((int64_t)json_array_size(loads) != is->n_experts ||
        json_integer_value(json_object_get(layer, "layer")) != is->layer)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"experts\" are not those of the lines above", p->path, p->line);
    for (int64_t e = 0; e < is->n_experts; e++) {
        const json_t *load = json_array_get(loads, (size_t)e);
        if (!json_is_number(load) || json_number_value(load) < 0)
            return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: a load of an expert is no count", p->path, p->line);
        sum += json_number_value(load);
    }
    for (int64_t e = 0; e < is->n_experts; e++)
        row[e] = (float)(json_number_value(json_array_get(loads, (size_t)e)) * (double)is->n_experts / sum);
    return TX_OK;
}

/* Those of the step to come. */
static tx_status take_loads(tx_history *h, const place *p, const json_t *layers)
{
    if (json_array_size(layers) && !h->n_experts) {
        TX_TRY(take_expert_layers(h, p, layers));
    } else if (layers && json_array_size(layers) != h->n_expert_layers) {
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"experts\" are not those of the lines above", p->path, p->line);
    }
    if (!h->n_experts) return TX_OK;
    while (h->cap_loads <= h->n_steps) {
        size_t begin = h->cap_loads * h->n_experts;
        TX_TRY(grow(&h->load, h->cap_loads, &h->cap_loads, h->n_experts * sizeof *h->load));
        for (size_t i = begin; i < h->cap_loads * h->n_experts; i++) h->load[i] = NAN;
    }
    float *row = h->load + h->n_steps * h->n_experts;
    for (size_t e = 0; e < h->n_experts; e++) row[e] = NAN;
    for (size_t i = 0; i < h->n_expert_layers && layers; row += h->expert_layer[i++].n_experts)
        TX_TRY(take_layer_loads(row, &h->expert_layer[i], p, json_array_get(layers, i)));
    return TX_OK;
}

static tx_status take_step(tx_history *h, const place *p, const json_t *line)
{
    const json_t *parts = json_object_get(line, "time_ms");
    double at;
    if (!json_is_object(parts)) return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"time_ms\" is not an object", p->path, p->line);
    TX_TRY(count(p, line, "iteration", &at));
    if (h->n_steps && at <= h->step[h->n_steps - 1][TX_COLUMN_iteration])
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: iteration %.0f does not follow iteration %.0f", p->path, p->line, at,
                       h->step[h->n_steps - 1][TX_COLUMN_iteration]);
    TX_TRY(grow(&h->step, h->n_steps, &h->cap_steps, sizeof *h->step));
    double *row = h->step[h->n_steps];
    for (int i = 0; i < TX_N_COLUMNS; i++) {
        bool part = i > TX_COLUMN_peak_resident_bytes && i < TX_COLUMN_time;
        row[i] = NAN;
        if (names[i]) TX_TRY(number(p, part ? parts : line, names[i], &row[i]));
    }
    TX_TRY(take_loads(h, p, json_object_get(line, "experts")));
    h->n_steps++;
    return TX_OK;
}

static tx_status take_evaluation(tx_history *h, const place *p, const json_t *line)
{
    tx_evaluation e = { .name = json_object_get(line, "name"), .task = json_is_true(json_object_get(line, "task")) };
    if (!json_is_string(e.name)) return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: \"name\" is not a text", p->path, p->line);
    TX_TRY(count(p, line, "iteration", &e.iteration));
    e.final = json_is_true(json_object_get(line, "final")) || (is_old(h) && e.iteration >= train_iters(h));
    if (h->n_evaluations && e.iteration < h->evaluation[h->n_evaluations - 1].iteration)
        return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: iteration %.0f comes after iteration %.0f", p->path, p->line,
                       e.iteration, h->evaluation[h->n_evaluations - 1].iteration);
    TX_TRY(number(p, line, "consumed_tokens", &e.consumed_tokens));
    TX_TRY(number(p, line, "time", &e.time));
    TX_TRY(number(p, line, "loss", &e.loss));
    TX_TRY(number(p, line, "sop_loss", &e.sop_loss));
    TX_TRY(grow(&h->evaluation, h->n_evaluations, &h->cap_evaluations, sizeof *h->evaluation));
    json_incref(e.name);
    h->evaluation[h->n_evaluations++] = e;
    return TX_OK;
}

static tx_status take_line(tx_history *h, const place *p, const char *text, size_t n)
{
    json_error_t e;
    json_t *line = tx_json_load(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!line) return TX_FAIL(TX_ERR_FORMAT, "%s:%zu: is not JSON: %s", p->path, p->line, e.text);
    const char *kind = json_string_value(json_object_get(line, "kind"));
    tx_status st;
    double time;
    if (!kind) kind = "";
    TX_GOTO(number(p, line, "time", &time));
    if (p->line == 1 && strcmp(kind, "run") != 0)
        st = TX_FAIL(TX_ERR_FORMAT, "%s: is no metrics file: its first line is not of the kind \"run\"", p->path);
    else if (!strcmp(kind, "run"))
        st = take_run(h, p, line);
    else if (!strcmp(kind, "step"))
        st = take_step(h, p, line);
    else if (!strcmp(kind, "evaluation"))
        st = take_evaluation(h, p, line);
    else
        st = TX_FAIL(TX_ERR_FORMAT, "%s:%zu: the kind is \"%.32s\", not run, step or evaluation", p->path, p->line,
                     kind);
    if (p->line == 1) h->first_time = time;
    if (!isnan(time)) h->last_time = time;
out:
    json_decref(line);
    return st;
}

tx_status tx_history_read(tx_history *h, const char *path)
{
    *h = (tx_history){ .first_time = NAN, .last_time = NAN };
    tx_str text = { 0 };
    place p = { .path = path };
    tx_status st;
    TX_GOTO(tx_file_read(path, MAX_FILE, &text));
    for (const char *at = text.data, *end; text.len && (end = memchr(at, '\n', (size_t)(text.data + text.len - at)));
         at = end + 1) {
        p.line++;
        TX_GOTO(take_line(h, &p, at, (size_t)(end - at)));
    }
    if (!h->run) st = TX_FAIL(TX_ERR_FORMAT, "%s: is no metrics file: it holds no whole line", path);
out:
    tx_str_free(&text);
    if (st) tx_history_free(h);
    return st;
}

void tx_history_free(tx_history *h)
{
    for (size_t i = 0; i < h->n_starts; i++) json_decref(h->start[i].line);
    tx_free(h->start);
    for (size_t i = 0; i < h->n_evaluations; i++) json_decref(h->evaluation[i].name);
    tx_free(h->step);
    tx_free(h->expert_layer);
    tx_free(h->load);
    tx_free(h->evaluation);
    *h = (tx_history){ 0 };
}
