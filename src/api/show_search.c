/* show_search.c - the fastest layouts, for people and as JSON. */
#include "api/show_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/show_layout.h"
#include "api/show_time.h"
#include "base/alloc.h"
#include "base/cores.h"
#include "train/fit.h"

static const double DAY = 86400, HOUR = 3600;

typedef struct search_view {
    const tx__layout_job *job;
    tx_search_args args;
    tx_search_result found;
    bool enough; /* --gpus-for: so many ranks are */
} search_view;

static int64_t nodes_of(const search_view *v, int64_t ranks)
{
    return (int64_t)ceil((double)ranks / v->job->machine->ranks_per_node);
}

/* Days that the run takes at so many seconds an iteration. */
static double days_of(const search_view *v, double seconds)
{
    const tx_config *cfg = v->job->cfg;
    return v->job->tokens / ((double)cfg->global_batch_size * (double)cfg->seq_length) * seconds / DAY;
}

/* ---- where there is none ---- */

/* How far from fitting the nearest is. */
static tx_status add_least(tx_str *text, const search_view *v)
{
    char need[24], have[24], all[24];
    const tx_found_layout *f = &v->found.least;
    TX_TRY(tx_str_printf(text, "of %s's %s a run can have %s, and the least that a rank takes are %s, with ",
                         v->job->machine->name, tx_bytes_text(all, v->job->machine->memory),
                         tx_bytes_text(have, (double)v->args.room),
                         tx_bytes_text(need, (double)tx_memory_limited(&f->memory))));
    return tx_choice_words(text, &f->is);
}

/* A multiple of the ranks on which one fits; 0: none that was tried. */
static tx_status find_more_ranks(const search_view *v, int64_t *out)
{
    enum { TIMES = 64 };
    tx_search_result *r;
    *out = 0;
    TX_TRY(tx_alloc(&r, 1, sizeof *r, "a search for layouts"));
    tx_status st = TX_OK;
    for (int64_t times = 2; times <= TIMES && !st && !*out; times *= 2) {
        st = tx_search_layouts(r, &v->args, times * v->found.ranks);
        if (r->n) *out = times * v->found.ranks;
    }
    tx_free(r);
    return st;
}

static tx_status refuse_all(const search_view *v)
{
    tx_str text = { 0 };
    int64_t more = 0;
    tx_status st;
    if (!v->found.least.is.ranks)
        return TX_FAIL(TX_ERR_ARG, "on %lld ranks of %s no layout can be planned: the run's other flags allow none",
                       (long long)v->found.ranks, v->job->machine->name);
    TX_GOTO(add_least(&text, v));
    if (v->job->cfg->search) TX_GOTO(find_more_ranks(v, &more));
    if (more)
        TX_GOTO(tx_str_printf(&text, "; on %lld ranks some fit", (long long)more));
    else
        TX_GOTO(tx_str_puts(&text, v->job->cfg->search ? "; more ranks are not enough: take a smaller model"
                                                       : ": take a smaller model"));
    st = TX_FAIL(TX_ERR_ARG, "on %lld ranks no layout fits: %s", (long long)v->found.ranks, text.data);
out:
    tx_str_free(&text);
    return st;
}

/* The nearest number of ranks, in that direction, for which there is a layout; 0: none. */
static tx_status nearest_ranks(const search_view *v, int step, int64_t *out)
{
    enum { FAR = 4096 };
    tx_config base = tx_without_layout(v->job->cfg);
    *out = 0;
    for (int64_t n = v->found.ranks + step; n > 0 && llabs(n - v->found.ranks) <= FAR && !*out; n += step) {
        tx_choice_list l;
        tx_status st = tx_choice_list_make(&l, &base, n, (int64_t)v->job->machine->ranks_per_node, false);
        if (l.n) *out = n;
        tx_choice_list_free(&l);
        TX_TRY(st);
    }
    return TX_OK;
}

static tx_status refuse_ranks(const search_view *v)
{
    const tx_config *cfg = v->job->cfg;
    char near[64] = "take another number";
    int64_t fewer, more;
    TX_TRY(nearest_ranks(v, -1, &fewer));
    TX_TRY(nearest_ranks(v, 1, &more));
    if (fewer && more)
        snprintf(near, sizeof near, "%lld and %lld ranks have one", (long long)fewer, (long long)more);
    else if (fewer || more)
        snprintf(near, sizeof near, "%lld ranks have one", (long long)(fewer ? fewer : more));
    return TX_FAIL(TX_ERR_ARG,
                   "%lld ranks have no layout: tensor parallelism divides %lld heads, there are at most %lld pipeline "
                   "stages, and the data-parallel size divides --global-batch-size %lld; %s",
                   (long long)v->found.ranks, (long long)cfg->num_attention_heads, (long long)cfg->num_layers,
                   (long long)cfg->global_batch_size, near);
}

static tx_status refuse_days(const search_view *v)
{
    tx_str words = { 0 };
    const tx_found_layout *f = &v->found.best[0];
    tx_status st = tx_choice_words(&words, &f->is);
    if (!st)
        st = TX_FAIL(TX_ERR_ARG,
                     "--gpus-for %g: no number of %s is enough; the fastest found are %lld ranks with %.3g days, %s",
                     v->job->cfg->gpus_for, v->job->machine->name, (long long)v->found.ranks,
                     days_of(v, f->time.iteration), words.data);
    tx_str_free(&words);
    return st;
}

static tx_status refuse(const search_view *v)
{
    if (v->job->cfg->search && !v->found.n_layouts) return refuse_ranks(v);
    if (!v->found.n) return refuse_all(v);
    return v->enough ? TX_OK : refuse_days(v);
}

/* ---- searching ---- */

static tx_status search(search_view *v)
{
    const tx__layout_job *job = v->job;
    int n_threads;
    TX_TRY(tx_default_threads(&n_threads));
    tx_memory_limit limit = tx_memory_limit_of(job->cfg, tx_machine_room(job->machine), "");
    v->args = (tx_search_args){ .cfg = job->cfg,
                                .vocab_size = job->vocab_size,
                                .machine = job->machine,
                                .room = limit.bytes ? limit.bytes : SIZE_MAX,
                                .gpu = tx_machine_is_gpu(job->machine),
                                .n_threads = n_threads };
    v->enough = true;
    if (job->cfg->search) return tx_search_layouts(&v->found, &v->args, job->cfg->world_size);
    return tx_search_ranks(&v->found, &v->enough, &v->args, job->cfg->gpus_for / days_of(v, 1));
}

/* A found layout as the plan of it has its time. */
static tx_plan_time time_of(const search_view *v, const tx_found_layout *f)
{
    const tx_config *cfg = v->job->cfg;
    tx_plan_time t = { .machine = *v->job->machine, .time = f->time, .tokens = v->job->tokens };
    t.work.world_size = f->is.ranks;
    t.work.tokens = cfg->global_batch_size * cfg->seq_length;
    t.work.layout.size[TX_AXIS_TENSOR] = (int)f->is.tp;
    t.work.layout.size[TX_AXIS_CONTEXT] = (int)tx_choice_context(&f->is);
    t.work.stage[0].plan.flops_2021 = f->flops_2021;
    return t;
}

/* All flags of a run in that layout, for a shell. */
static tx_status add_all_flags(tx_str *out, const search_view *v, const tx_layout_choice *c)
{
    static const char *const not_of_run[] = { "machine",        "search", "gpus_for",     "gpus_per_node",
                                              "node_bandwidth", "json",   "memory_limit", NULL };
    tx_config base = tx_without_layout(v->job->cfg), *cfg;
    json_t *flags, *flag;
    size_t i;
    TX_TRY(tx_choice_config(&cfg, &base, c));
    tx_status st = tx_config_to_flags(cfg, not_of_run, &flags);
    tx_config_free(cfg);
    TX_TRY(st);
    json_array_foreach(flags, i, flag)
    {
        if (!st && i) st = tx_str_puts(out, " ");
        if (!st) st = tx_str_put_word(out, json_string_value(flag));
    }
    json_decref(flags);
    return st;
}

/* ---- for people ---- */

static tx_status show_head(tx__report *r, const search_view *v)
{
    char have[24], all[24], a[32], b[32];
    const tx_search_result *f = &v->found;
    long long nodes = nodes_of(v, f->ranks), node = (long long)v->job->machine->ranks_per_node;
    TX_TRY(tx__report_line(r, "the fastest layouts on %s, %lld rank%s on %lld node%s of %lld:", v->job->machine->name,
                           (long long)f->ranks, f->ranks > 1 ? "s" : "", nodes, nodes > 1 ? "s" : "", node));
    return tx__report_line(r, "    of %s that there are %s were planned whole; of %s a run can have %s%s",
                           tx__grouped(a, f->n_layouts), tx__grouped(b, f->n_planned),
                           tx_bytes_text(all, v->job->machine->memory), tx_bytes_text(have, (double)v->args.room),
                           f->offload ? "; without --offload-optimizer none fits" : "");
}

static tx_status show_layout(tx__report *r, const search_view *v, int i)
{
    char memory[24], tokens[32];
    const tx_found_layout *f = &v->found.best[i];
    tx_str words = { 0 };
    double s = f->time.iteration;
    tx_status st = tx_choice_words(&words, &f->is);
    if (!st)
        st = tx__report_line(r, "    %2d  %9.4g %-2s  %11s  %8.4g  %10s  %s", i + 1, s < 1 ? 1e3 * s : s,
                             s < 1 ? "ms" : "s", tx__grouped(tokens, llround(f->time.tokens_per_s)),
                             f->time.flops_per_s / 1e12, tx_bytes_text(memory, (double)tx_memory_limited(&f->memory)),
                             words.data);
    tx_str_free(&words);
    return st;
}

static tx_status show_reason(tx__report *r, const search_view *v)
{
    char why[96];
    const tx_time *a = &v->found.best[0].time, *b = &v->found.best[1].time;
    double more = b->iteration / a->iteration - 1;
    if (v->found.n < 2) return TX_OK;
    if (more < 1e-4) return tx__report_line(r, "    1 and 2 take the same time");
    return tx__report_line(r, "    1 is %.2g %% faster than 2: %s", 100 * more, tx_search_reason(why, a, b));
}

static tx_status show_other_way(tx__report *r, const search_view *v)
{
    char memory[24];
    const tx_found_layout *f = &v->found.other_way;
    double s = f->time.iteration;
    if (!f->is.ranks) return TX_OK;
    return tx__report_line(r, "    1 with --cp-comm-type %s takes %.4g %s and %s", tx_cp_comm_word(f->is.how),
                           s < 1 ? 1e3 * s : s, s < 1 ? "ms" : "s",
                           tx_bytes_text(memory, (double)tx_memory_limited(&f->memory)));
}

static tx_status show_flags(tx__report *r, const search_view *v)
{
    tx_str text = { 0 };
    tx_status st = add_all_flags(&text, v, &v->found.best[0].is);
    if (!st) st = tx__report_line(r, "flags of 1, all of the run's: %s", text.data);
    if (!st && v->found.n > 1) st = tx__report_line(r, "flags of the others' layouts:");
    for (int i = 1; i < v->found.n && !st; i++) {
        text.len = 0;
        st = tx_choice_flags(&text, &v->found.best[i].is);
        if (!st) st = tx__report_line(r, "    %2d  %s", i + 1, text.data);
    }
    tx_str_free(&text);
    return st;
}

static bool gives_layout(const tx_config *cfg)
{
    const tx_config base = tx_without_layout(cfg);
    tx_config_given given = cfg->given;
    given.search = given.gpus_for = false;
    return memcmp(&given, &base.given, sizeof given) != 0;
}

static tx_status show_days(tx__report *r, const search_view *v)
{
    char tokens[32], hours[32], low[32], high[32];
    const tx_time *t = &v->found.best[0].time;
    if (v->job->tokens < 1) return TX_OK;
    double days = days_of(v, t->iteration);
    snprintf(low, sizeof low, "%.3g", days_of(v, t->low));
    snprintf(high, sizeof high, "%.3g", days_of(v, t->high));
    return tx__report_line(r, "    with 1 the run's %s tokens take %.3g days (%s .. %s) and %s GPU-hours",
                           tx__grouped(tokens, (int64_t)v->job->tokens), days, low, high,
                           tx__grouped(hours, llround(days * DAY / HOUR * (double)v->found.ranks)));
}

static tx_status show(tx__report *r, const search_view *v)
{
    const tx_config *cfg = v->job->cfg;
    if (!cfg->search)
        TX_TRY(tx__report_line(r, "the fewest ranks of %s that end the run in %g day%s: %lld", v->job->machine->name,
                               cfg->gpus_for, cfg->gpus_for == 1 ? "" : "s", (long long)v->found.ranks));
    TX_TRY(show_head(r, v));
    TX_TRY(tx__report_line(r, "        iteration     tokens/s   TFLOP/s      memory"));
    for (int i = 0; i < v->found.n; i++) TX_TRY(show_layout(r, v, i));
    TX_TRY(show_reason(r, v));
    TX_TRY(show_other_way(r, v));
    TX_TRY(show_days(r, v));
    TX_TRY(tx__report_line(
        r, "    tokens/s, TFLOP/s (the model's, without what is computed again) and memory are a rank's"));
    if (gives_layout(cfg))
        TX_TRY(tx__report_line(r, "    flags of a layout that were given do not count: all layouts were compared"));
    if (cfg->deepspeed_config)
        TX_TRY(
            tx__report_line(r, "    the flags stand for the file of --deepspeed_config, too: leave it out with them"));
    return show_flags(r, v);
}

/* ---- for programs ---- */

static json_t *choice_to_json(const tx_layout_choice *c)
{
    static const char *const again[] = { "none", "selective", "full" };
    bool divided = tx_choice_context(c) > 1;
    return json_pack("{s:I, s:I, s:s?, s:I, s:I, s:I, s:b, s:I, s:i, s:s, s:b}", "tensor", (json_int_t)c->tp, "context",
                     (json_int_t)tx_choice_context(c), "cp_comm_type", divided ? tx_cp_comm_word(c->how) : NULL,
                     "pipeline", (json_int_t)c->pp, "data", (json_int_t)tx_choice_data_parallel(c), "layers_per_chunk",
                     (json_int_t)c->chunk_layers, "sequence_parallel", c->sequence, "micro_batch_size",
                     (json_int_t)c->micro_batch, "zero_stage", c->zero, "recompute", again[c->again],
                     "offload_optimizer", c->offload);
}

static json_t *layout_to_json(const search_view *v, const tx_found_layout *f)
{
    tx_str words = { 0 }, flags = { 0 }, all = { 0 };
    tx_plan_time t = time_of(v, f);
    json_t *time = NULL;
    if (!tx_choice_words(&words, &f->is) && !tx_choice_flags(&flags, &f->is) && !add_all_flags(&all, v, &f->is)) {
        json_t *its = json_pack("{s:o, s:s, s:s, s:s, s:I, s:o}", "layout", choice_to_json(&f->is), "words", words.data,
                                "flags", flags.data, "all_flags", all.data, "memory_bytes",
                                (json_int_t)tx_memory_limited(&f->memory), "memory", tx__memory_to_json(&f->memory));
        time = tx__time_to_json(&t);
        if (!its || !time || json_object_update(time, its)) {
            json_decref(time);
            time = NULL;
        }
        json_decref(its);
    }
    tx_str_free(&words);
    tx_str_free(&flags);
    tx_str_free(&all);
    return time;
}

static tx_status show_json(tx__report *r, const search_view *v)
{
    char why[96];
    const tx_search_result *f = &v->found;
    bool many = f->n > 1;
    json_t *list = json_array();
    for (int i = 0; i < f->n && list; i++) {
        if (!json_array_append_new(list, layout_to_json(v, &f->best[i]))) continue;
        json_decref(list);
        list = NULL;
    }
    json_t *all =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o}", "machine", v->job->machine->name, "world_size",
                  (json_int_t)f->ranks, "nodes", (json_int_t)nodes_of(v, f->ranks), "layouts", (json_int_t)f->n_layouts,
                  "planned", (json_int_t)f->n_planned, "offload", f->offload, "first_wins_by",
                  many ? json_string(tx_search_reason(why, &f->best[0].time, &f->best[1].time)) : json_null(),
                  "other_way", f->other_way.is.ranks ? layout_to_json(v, &f->other_way) : json_null(), "search", list);
    return tx__report_json(r, all, "the layouts");
}

tx_status tx__show_search(tx__report *r, const tx__layout_job *job)
{
    search_view *v;
    TX_TRY(tx_alloc(&v, 1, sizeof *v, "a search for layouts"));
    v->job = job;
    tx_status st = search(v);
    if (!st) st = refuse(v);
    if (!st) st = job->cfg->json ? show_json(r, v) : show(r, v);
    tx_free(v);
    return st;
}
