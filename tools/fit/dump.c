/* dump.c - what the time of a run consists of: its parts, and of each stage every kind of op and message. */
#include <string.h>

#include "base/alloc.h"
#include "fit.h"
#include "predict/op_time.h"

enum { MAX_KINDS = 400 };

/* Events of one kind and size, and how often an iteration has them. */
typedef struct kind {
    const tx_work_event *e;
    double times, seconds; /* seconds: of one */
} kind;

static void dump_time(const fit_row *r, FILE *out)
{
    const tx_time *t = &r->time;
    char layout[160];
    fprintf(out, "row %d, %s: %s, %lld GPUs, %d micro-batches\n", r->id, r->source, fit_layout(layout, r),
            r->world_size, r->work.shape.m);
    fprintf(out, "    measured %.4g s (%s), predicted %.4g s, %+.1f %%; %.1f and %.1f TFLOP/s\n", r->measured,
            r->derived, t->iteration, 100 * (t->iteration / r->measured - 1), fit_rate(r, r->measured) / 1e12,
            fit_rate(r, t->iteration) / 1e12);
    const struct {
        const char *name;
        double s;
    } part[] = { { "products", t->products }, { "attention", t->attention }, { "memory-bound", t->memory_bound },
                 { "copies", t->copies },     { "bubble", t->bubble },       { "update", t->update },
                 { "other", t->other } };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        fprintf(out, "    %-28s %10.4f s %5.1f %%\n", part[i].name, part[i].s, 100 * part[i].s / t->iteration);
    for (int g = 0; g < TX_N_STEP_GROUPS; g++)
        if (t->exposed[g] > 0)
            fprintf(out, "    %-28s %10.4f s %5.1f %% exposed\n", tx_group_names[g], t->exposed[g],
                    100 * t->exposed[g] / t->iteration);
    double memory = (double)tx_memory_total(&r->work.stage[r->work.most].plan.memory) / (1 << 30);
    fprintf(out, "    memory %.1f GiB", memory);
    if (r->memory_gb > 0) fprintf(out, ", %.1f GB published", r->memory_gb);
    fprintf(out, "\n");
}

/* How often the piece stands for one of the iteration; of traced micro-batches the second for all but the last. */
static double times_of(const tx_run_work *w, const tx_stage_work *s, const tx_work_piece *p)
{
    int usual = s->n_micro > 2 ? 1 : 0;
    if (p->part == TX_STEP_FORWARD) return p->micro == usual ? w->shape.m : 0;
    if (p->part != TX_STEP_BACKWARD) return 1;
    return p->last ? 1 : p->micro == usual ? w->shape.m - 1 : 0;
}

static bool is_same(const tx_work_event *a, const tx_work_event *b)
{
    return a->kind == b->kind && a->backward == b->backward && a->bytes == b->bytes && a->flops == b->flops &&
           a->m == b->m && a->n == b->n && a->k == b->k && a->group == b->group && !strcmp(a->op, b->op);
}

static double seconds_of(const tx_run_work *w, const tx_machine *m, const tx_work_event *e)
{
    int ranks = (double)w->world_size < m->ranks_per_node ? (int)w->world_size : (int)m->ranks_per_node;
    if (e->kind == TX_TRACE_OP) return tx_op_seconds(m, e, ranks);
    if (e->kind == TX_TRACE_CALL && e->group >= 0)
        return tx_call_seconds(m, tx_group_span(&w->layout, e->group, m), e->op, e->bytes);
    return 0;
}

static int gather(kind *kinds, const tx_run_work *w, const tx_stage_work *s, const tx_machine *m)
{
    int n = 0;
    for (int64_t i = 0; i < s->n_pieces; i++) {
        double times = times_of(w, s, &s->piece[i]);
        for (int64_t j = s->piece[i].first; j < s->piece[i].end && times > 0; j++) {
            const tx_work_event *e = &s->event[j];
            int at = 0;
            if (e->kind != TX_TRACE_OP && e->kind != TX_TRACE_CALL && e->kind != TX_TRACE_COPY) continue;
            while (at < n && !is_same(kinds[at].e, e)) at++;
            if (at == MAX_KINDS) continue;
            if (at == n) kinds[n++] = (kind){ e, 0, seconds_of(w, m, e) };
            kinds[at].times += times;
        }
    }
    return n;
}

static void dump_stage(const fit_row *r, const tx_stage_work *s, const tx_machine *m, FILE *out)
{
    kind kinds[MAX_KINDS];
    int n = gather(kinds, &r->work, s, m);
    fprintf(out, "  stage %d, %lld layers, %lld micro-batches traced, %lld events; messages %.1f and %.1f MB\n",
            s->stage, (long long)s->plan.n_layers, (long long)s->n_micro, (long long)s->n_events, s->message[0] / 1e6,
            s->message[1] / 1e6);
    fprintf(out, "    %-22s %-8s %9s %9s %9s  %s\n", "op", "", "times", "us", "s in all", "");
    for (int i = 0; i < n; i++) {
        const tx_work_event *e = kinds[i].e;
        double us = kinds[i].seconds;
        fprintf(out, "    %-22s %-8s %9.0f %9.1f %9.4f  ", e->op,
                e->kind != TX_TRACE_OP ? ""
                : e->backward          ? "backward"
                                       : "",
                kinds[i].times, 1e6 * us, us * kinds[i].times);
        if (e->kind == TX_TRACE_CALL)
            fprintf(out, "%s, %.2f MB, %.1f GB/s\n", e->group >= 0 ? tx_group_names[e->group] : "stages",
                    e->bytes / 1e6, us > 0 ? e->bytes / us / 1e9 : 0);
        else if (e->m > 0)
            fprintf(out, "%.0f x %.0f x %.0f, %.1f TFLOP/s\n", e->m, e->n, e->k, us > 0 ? e->flops / us / 1e12 : 0);
        else
            fprintf(out, "%.2f MB, %.0f GB/s\n", e->bytes / 1e6, us > 0 ? e->bytes / us / 1e9 : 0);
    }
}

tx_status fit_dump(fit_data *d, FILE *out)
{
    TX_TRY(fit_predict(d, NULL, NULL));
    for (int i = 0; i < d->n; i++) {
        const fit_row *r = &d->row[i];
        tx_machine m = fit_machine_of(d, r);
        dump_time(r, out);
        for (int k = 0; k < r->work.n; k++) dump_stage(r, &r->work.stage[k], &m, out);
    }
    return TX_OK;
}
