/* step_profile.c - which iterations are profiled, and the tables for the log. */
#include "train/step_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

tx_status tx_step_profile_open(tx_step_profile *p, const tx_trainer *t, double peak_flops)
{
    const tx_backend *be = t->ctx.backend;
    int64_t first, last;
    if (!t->cfg->given.profile) return TX_OK;
    if (!tx_config_profiled(t->cfg, t->iteration, &first, &last)) {
        tx_warn_once("--profile: nothing is profiled, the run goes on at iteration %lld, behind what was asked for",
                     (long long)t->iteration);
        return TX_OK;
    }
    int64_t n = last - first + 1;
    TX_TRY(tx_alloc(&p->start, (size_t)n, sizeof *p->start, "the profile"));
    TX_TRY(tx_alloc(&p->seconds, (size_t)n, sizeof *p->seconds, "the profile"));
    tx_bandwidth b = { 0 };
    if (be->bandwidth) TX_TRY(be->bandwidth(&t->ctx, &b));
    p->bandwidth = fmax(b.read, fmax(b.copy, b.triad));
    p->peak_flops = peak_flops;
    p->peak_is_given = t->cfg->given.peak_tflops;
    p->first = first;
    p->last = last;
    return TX_OK;
}

static void watch_ranks(const tx_trainer *t, tx_ctx *c)
{
    tx_world *w = tx_comm_world(tx_grid_group(t->grid, TX_GROUP_WORLD));
    if (w) tx_world_profile(w, c);
}

void tx_step_profile_close(tx_step_profile *p, tx_trainer *t)
{
    watch_ranks(t, NULL);
    t->ctx.profile = NULL;
    tx_profile_free(&p->ops);
    tx_free(p->start);
    tx_free(p->seconds);
    *p = (tx_step_profile){ 0 };
}

void tx_step_profile_begin(tx_step_profile *p, tx_trainer *t)
{
    if (!p->last || t->iteration + 1 < p->first) return;
    t->ctx.profile = &p->ops;
    watch_ranks(t, &t->ctx);
    tx_volume_read(&p->volume, t->grid);
    p->start[p->n] = tx_clock();
}

void tx_step_profile_end(tx_step_profile *p, tx_trainer *t)
{
    if (!t->ctx.profile) return;
    p->seconds[p->n] = tx_clock() - p->start[p->n];
    p->n++;
    watch_ranks(t, NULL);
    t->ctx.profile = NULL;
    tx_volume before = p->volume;
    tx_volume_read(&p->volume, t->grid);
    tx_volume_subtract(&p->volume, &before);
}

/* ---- the tables ---- */

typedef struct line {
    char label[64];
    double calls, seconds, flops, bytes;
    bool messages; /* between ranks: not through this one's memory alone */
} line;

static bool is_message(const tx_profile_row *r)
{
    return r->kind == TX_COST_MESSAGES || r->kind == TX_COST_WAITING;
}

static void add(line *l, const tx_profile_row *r)
{
    l->calls += (double)r->calls;
    l->seconds += r->seconds;
    l->flops += r->flops;
    l->bytes += r->bytes;
    l->messages = is_message(r);
}

static int by_time(const void *a, const void *b)
{
    const line *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : strcmp(x->label, y->label);
}

static void label_of(char label[64], const tx_profile_row *r, bool by_part)
{
    if (by_part)
        snprintf(label, 64, "%s%s", *r->part ? r->part : "(no part)", r->backward ? ", backward" : "");
    else
        snprintf(label, 64, is_message(r) ? "%s (%s)" : "%s", r->op, r->part);
}

/* "12.3" and, where `most` is known, "45.6%"; "-" for nothing. */
static void rate_text(char rate[16], char share[16], double per_second, double most)
{
    snprintf(rate, 16, per_second > 0 ? "%.1f" : "-", per_second * 1e-9);
    snprintf(share, 16, per_second > 0 && most > 0 ? "%.1f%%" : "-", 100 * per_second / most);
}

static void show(const tx_step_profile *p, const line *l, double whole)
{
    char calls[24] = "", flops[16], of_peak[16], bytes[16], of_memory[16];
    double n = (double)p->n;
    if (l->calls > 0) snprintf(calls, sizeof calls, "%.0f", l->calls / n);
    rate_text(flops, of_peak, l->flops > 0 ? l->flops / l->seconds : 0, p->peak_flops);
    rate_text(bytes, of_memory, l->flops > 0 || l->bytes <= 0 ? 0 : l->bytes / l->seconds,
              l->messages ? 0 : p->bandwidth);
    tx_info("    %-42s %6s %10.3f %6.1f%% %9s %7s %8s %9s", l->label, calls, 1e3 * l->seconds / n,
            100 * l->seconds / whole, flops, of_peak, bytes, of_memory);
}

/* @l room for a line more than there are rows; @whole the iterations' seconds */
static void table(const tx_step_profile *p, line *l, bool by_part, double whole)
{
    line outside = { .label = "outside ops", .seconds = whole }, all = { .label = "iteration", .seconds = whole };
    int64_t n = 0, i;
    for (const tx_profile_row *r = p->ops.row; r < p->ops.row + p->ops.n_rows; r++) {
        char label[64];
        label_of(label, r, by_part);
        for (i = 0; i < n && strcmp(l[i].label, label) != 0;) i++;
        if (i == n) {
            l[n] = (line){ 0 };
            memcpy(l[n++].label, label, sizeof label);
        }
        add(&l[i], r);
        outside.seconds -= r->seconds;
    }
    l[n++] = outside;
    qsort(l, (size_t)n, sizeof *l, by_time);
    tx_info("    %-42s %6s %10s %7s %9s %7s %8s %9s", by_part ? "by part of the model" : "by op", "calls", "ms",
            "share", "GFLOP/s", "of peak", "GB/s", "of memory");
    for (i = 0; i < n; i++) show(p, &l[i], whole);
    show(p, &all, whole);
}

static void totals(const tx_step_profile *p, const tx_grid *g, double whole)
{
    char messages[80] = "";
    double kind[TX_N_COST_KINDS] = { 0 }, rest = whole;
    for (const tx_profile_row *r = p->ops.row; r < p->ops.row + p->ops.n_rows; r++) {
        kind[r->kind] += r->seconds;
        rest -= r->seconds;
    }
    if (g->size > 1)
        snprintf(messages, sizeof messages, " | between ranks %.1f%% | waiting for ranks %.1f%%",
                 100 * kind[TX_COST_MESSAGES] / whole, 100 * kind[TX_COST_WAITING] / whole);
    tx_info("    matrix products %.1f%% | attention %.1f%% | memory-bound ops %.1f%%%s | outside ops %.1f%%",
            100 * kind[TX_COST_PRODUCT] / whole, 100 * kind[TX_COST_ATTENTION] / whole,
            100 * kind[TX_COST_MEMORY] / whole, messages, 100 * rest / whole);
}

static tx_status show_tables(const tx_step_profile *p, const tx_grid *g, int64_t last)
{
    double whole = 0;
    line *l = NULL;
    for (int64_t i = 0; i < p->n; i++) whole += p->seconds[i];
    TX_TRY(tx_alloc(&l, (size_t)p->ops.n_rows + 1, sizeof *l, "the profile's table"));
    tx_info(" > profile of iterations %lld to %lld, %.3f ms each:", (long long)p->first, (long long)last,
            1e3 * whole / (double)p->n);
    totals(p, g, whole);
    table(p, l, false, whole);
    table(p, l, true, whole);
    tx_free(l);
    if (p->peak_flops > 0 && p->bandwidth > 0)
        tx_info("    %s: peak %.1f GFLOP/s, memory %.1f GB/s; what lay in a cache goes beyond it",
                p->peak_is_given ? "by --peak-tflops, and measured here" : "measured here", p->peak_flops * 1e-9,
                p->bandwidth * 1e-9);
    return TX_OK;
}

/* ---- what was moved ---- */

/* One rank's, as it travels to the others. */
typedef struct account {
    tx_volume counted;
    tx_volume_sizes sizes;
} account;

typedef struct verdict {
    double sent;
    int64_t differs; /* from the formulas */
} verdict;

static verdict judge(const account *a)
{
    return (verdict){ .sent = tx_volume_sent(&a->counted, &a->sizes),
                      .differs = !tx_volume_agrees(&a->counted, &a->sizes) };
}

static void log_lines(char *text)
{
    for (char *at = text, *rest; at && *at; at = rest) {
        rest = at + strcspn(at, "\n");
        if (*rest) *rest++ = 0;
        tx_info("%s", at);
    }
}

/* The table of the rank that sends most, the first of them; all know then whose account comes. */
static tx_status show_most(account *a, const verdict *all, const tx_grid *g, int64_t iteration)
{
    tx_str table = { 0 };
    int most = 0, n_different = 0;
    for (int i = 0; i < g->size; i++) {
        if (all[i].sent > all[most].sent) most = i;
        n_different += all[i].differs != 0;
    }
    TX_TRY(tx_comm_spread(tx_grid_group(g, TX_GROUP_WORLD), a, sizeof *a, most));
    tx_info(" > messages of rank %d, which sends most, in iteration %lld:", most, (long long)iteration);
    tx_status st = tx_volume_table(&table, &a->counted, &a->sizes);
    if (!st) log_lines(table.data);
    tx_str_free(&table);
    if (n_different)
        tx_warn_once("what %d of %d ranks have sent is not what the formulas say", n_different, g->size);
    else
        tx_info("    so are those of all %d ranks", g->size);
    return st;
}

static tx_status show_volume(const tx_step_profile *p, const tx_trainer *t, int64_t iteration)
{
    const tx_grid *g = t->grid;
    account a = { p->volume, tx__plan_volume_sizes(t->model, t->cfg, g, t->n_micro, t->length, &t->zero) };
    a.sizes.teacher = tx__plan_teacher_volume(&t->stage.teacher, t->grid, t->length);
    a.sizes.skips = t->last_step != TX_STEP_TAKEN;
    verdict mine = judge(&a), *all;
    TX_TRY(tx_alloc(&all, (size_t)g->size, sizeof *all, "the ranks' messages"));
    tx_status st = tx_comm_gather(tx_grid_group(g, TX_GROUP_WORLD), all, &mine, sizeof mine);
    if (!st) st = show_most(&a, all, g, iteration);
    tx_free(all);
    return st;
}

/* Beside what the run leaves: in the folder of --save, else of --tensorboard-dir, else the current one. */
static tx_status write_trace(const tx_step_profile *p, const tx_config *cfg, int64_t last)
{
    const char *dir = cfg->save ? cfg->save : cfg->tensorboard_dir ? cfg->tensorboard_dir : ".";
    char name[80], path[4096];
    snprintf(name, sizeof name, "profile-iteration-%lld-%lld.json", (long long)p->first, (long long)last);
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(tx_make_dirs(dir));
    TX_TRY(tx__profile_trace_write(p, path));
    tx_info("    trace for chrome://tracing or ui.perfetto.dev: %s", path);
    if (p->ops.n_left_out)
        tx_info("    the trace has the first %d ops; %lld later ones are only in the table", TX_PROFILE_MAX_EVENTS,
                (long long)p->ops.n_left_out);
    return TX_OK;
}

tx_status tx_step_profile_tell(tx_step_profile *p, const tx_trainer *t, bool over)
{
    int64_t asked = p->last - p->first + 1, last = p->first + p->n - 1;
    if (!p->last || (p->n < asked && !over)) return TX_OK;
    p->last = 0;
    if (!p->n) {
        tx_warn_once("--profile %lld: nothing is profiled, the run ended at iteration %lld, before %lld",
                     (long long)asked, (long long)t->iteration, (long long)p->first);
        return TX_OK;
    }
    if (p->n < asked)
        tx_warn_once("--profile %lld: the run ended after %lld of the iterations", (long long)asked, (long long)p->n);
    TX_TRY(show_tables(p, t->grid, last));
    if (t->grid->size > 1 && !tx__trainer_sums_all(t))
        tx_info(" > messages of iteration %lld are not compared with the formulas, in which every layer computes all "
                "tokens: some are passed by (--random-ltd, --progressive-layer-drop)",
                (long long)last);
    else if (t->grid->size > 1 && !t->client->model) /* the formulas are those of transformers */
        TX_TRY(show_volume(p, t, last));
    if (t->grid->rank == 0 && write_trace(p, t->cfg, last))
        tx_warn("%s; there is no trace of the profile", tx_last_error());
    return TX_OK;
}
