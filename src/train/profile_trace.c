/* profile_trace.c - a profile as Chrome's trace format: an object whose "traceEvents" are complete events ("ph": "X")
 * with start and duration in microseconds. All are on one thread: an iteration's event holds those of its ops. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "train/step_profile.h"

static const char *const kinds[TX_N_COST_KINDS] = { "product", "attention", "memory", "messages", "waiting" };

/* To the nanosecond: that is what a person can read. */
static double microseconds(double seconds)
{
    return round(seconds * 1e9) * 1e-3;
}

/* Writes `event`, which it takes. */
static tx_status put(tx_writer *w, json_t *event, bool first)
{
    char *text = event ? json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    tx_status st;
    json_decref(event);
    if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", w->path);
    TX_GOTO(tx_writer_put(w, first ? "\n" : ",\n", first ? 1 : 2));
    TX_GOTO(tx_writer_put(w, text, strlen(text)));
out:
    free(text);
    return st;
}

static json_t *complete(const char *name, const char *category, double start, double seconds, json_t *args)
{
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:o}", "name", name, "cat", category, "ph", "X", "ts",
                     microseconds(start), "dur", microseconds(seconds), "pid", 1, "tid", 1, "args", args);
}

static json_t *op_event(const tx_profile_event *e, double zero)
{
    char shape[160];
    tx_tensor_describe(e->cost.shape, shape, sizeof shape);
    json_t *args = json_pack("{s:i, s:s, s:s, s:s}", "layer", e->at.layer, "part", e->at.part ? e->at.part : "", "pass",
                             e->at.backward ? "backward" : "forward", "shape", shape);
    if (!args) return NULL;
    const char *amount = e->cost.flops > 0 ? "GFLOP/s" : "GB/s";
    double rate = (e->cost.flops > 0 ? e->cost.flops : e->cost.bytes) / e->seconds * 1e-9;
    if (isfinite(rate) && e->cost.kind != TX_COST_WAITING)
        json_object_set_new(args, amount, json_real(round(rate * 10) / 10));
    return complete(e->op, kinds[e->cost.kind], e->start - zero, e->seconds, args);
}

static tx_status put_all(tx_writer *w, const tx_step_profile *p)
{
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", tail[] = "\n]}\n";
    double zero = p->start[0];
    char name[40];
    TX_TRY(tx_writer_put(w, head, sizeof head - 1));
    for (int64_t i = 0; i < p->n; i++) {
        snprintf(name, sizeof name, "iteration %lld", (long long)(p->first + i));
        TX_TRY(put(w, complete(name, "iteration", p->start[i] - zero, p->seconds[i], json_object()), i == 0));
    }
    for (int64_t i = 0; i < p->ops.n_events; i++) TX_TRY(put(w, op_event(&p->ops.event[i], zero), false));
    return tx_writer_put(w, tail, sizeof tail - 1);
}

tx_status tx__profile_trace_write(const tx_step_profile *p, const char *path)
{
    tx_writer w = { 0 };
    TX_TRY(tx_writer_open(&w, path));
    tx_status st = put_all(&w, p);
    if (!st) return tx_writer_commit(&w);
    tx_writer_abort(&w);
    return st;
}
