/* show_plan.c - the job plan: the figures of a run that does not take place, for people or as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/report.h"
#include "api/run_common.h"
#include "api/show_layout.h"
#include "api/show_schedule.h"
#include "api/show_search.h"
#include "api/show_time.h"
#include "api/tokenizer_of.h"
#include "train/fit.h"
#include "train/metrics.h"

typedef struct plan_view {
    const tx_config *cfg;
    int64_t vocab_size;
    char vocab_from[80]; /* why this size */
    tx_stage_plans stages;
    tx_run_plan plan; /* of the stage that takes most */
    tx_memory_limit limit;
    bool fits, asked;  /* asked: --memory-limit was given, so that the answer decides about success */
    tx_fit fit;        /* where it does not fit and was asked */
    tx_plan_time time; /* with --machine */
} plan_view;

/* ---- what there is to show ---- */

static tx_status find_vocabulary(plan_view *v, const tx_source *src)
{
    const tx_config *cfg = v->cfg;
    const tx_model_type *type = tx_model_type_of(cfg);
    const char *from;
    tx_tokenizer *tok;
    bool numbers = tx_tokenizer_traits_of(cfg->tokenizer_type).numbers;
    if (src->vocab_size) {
        v->vocab_size = src->vocab_size;
        from = "the checkpoint's";
    } else if (cfg->vocab_file || cfg->merge_file || cfg->tokenizer_model || (numbers && cfg->vocab_size)) {
        TX_TRY(tx__tokenizer_of(cfg, NULL, &tok));
        v->vocab_size = tx_tokenizer_vocab_size(tok);
        from = numbers ? "NullTokenizer's: --vocab-size and one for the end of a document" : "the tokenizer's";
        tx_tokenizer_close(tok);
    } else {
        v->vocab_size = cfg->vocab_size ? cfg->vocab_size : type->usual_tokens;
        from = cfg->vocab_size ? "--vocab-size" : type->usual_tokenizer;
    }
    snprintf(v->vocab_from, sizeof v->vocab_from, "%s%s", from,
             from == type->usual_tokenizer ? ", as no tokenizer and no --vocab-size is given" : "");
    return TX_OK;
}

/* Tokens of the whole run; 0: its length is not given. */
static double run_tokens(const tx_config *cfg)
{
    double samples = cfg->given.train_samples ? (double)cfg->train_samples
                                              : (double)cfg->train_iters * (double)cfg->global_batch_size;
    double iterations = samples / (double)cfg->global_batch_size;
    bool varies = cfg->curriculum_schedule || cfg->random_ltd;
    double tokens = varies ? tx_config_tokens(cfg, (int64_t)iterations) : samples * (double)cfg->seq_length;
    double end = (double)cfg->train_tokens;
    return end > 0 && (end < tokens || tokens < 1) ? end : tokens;
}

/* Of the machine that the plan is for. */
static tx_memory_limit limit_of(const plan_view *v)
{
    const tx_machine *m = &v->time.machine;
    const char *whose;
    char text[128], all[24];
    if (!v->cfg->machine) {
        size_t here = tx_memory_here(&v->plan.memory, &whose);
        return tx_memory_limit_of(v->cfg, here, whose);
    }
    snprintf(text, sizeof text, "of %s's %s a run can have", m->name, tx_bytes_text(all, m->memory));
    return tx_memory_limit_of(v->cfg, tx_machine_room(m), text);
}

static tx_status make_view(plan_view *v, tx_config *cfg)
{
    tx_source src = { 0 };
    tx_status st;
    size_t gpu = 0;
    *v = (plan_view){ .cfg = cfg };
    if (cfg->machine) TX_GOTO(tx_plan_time_open(&v->time, cfg));
    if (cfg->machine && tx_machine_is_gpu(&v->time.machine)) gpu = tx_machine_room(&v->time.machine);
    TX_GOTO(tx_source_open_for_run(&src, cfg, &tx_comm_self));
    TX_GOTO(tx_source_options(&src, cfg, false));
    TX_GOTO(tx_source_teacher(cfg, "", &tx_comm_self));
    TX_GOTO(find_vocabulary(v, &src));
    if (tx_config_searches(cfg)) goto out;
    TX_GOTO(tx_stage_plans_make(&v->stages, cfg, v->vocab_size, gpu));
    if (cfg->machine) TX_GOTO(tx_plan_time_predict(&v->time, cfg, v->vocab_size, run_tokens(cfg)));
    v->plan = v->stages.stage[v->stages.most];
    for (int i = 0; i < v->stages.n; i++)
        if (v->stages.stage[i].sent > v->plan.sent) v->plan.sent = v->stages.stage[i].sent;
    v->limit = limit_of(v);
    v->fits = !v->limit.bytes || tx_memory_limited(&v->plan.memory) <= v->limit.bytes;
    v->asked = cfg->given.memory_limit;
    if (!v->fits && v->asked) TX_GOTO(tx_fit_find(&v->fit, cfg, v->vocab_size, &v->plan, v->limit.bytes));
out:
    tx_source_close(&src);
    return st;
}

static int64_t n_params(const tx_run_plan *p)
{
    int64_t n = 0;
    for (int i = 0; i < TX_N_PARAM_KINDS; i++) n += p->n_params[i];
    return n;
}

/* ---- for people ---- */

static const char *flops_text(char buf[32], double flops)
{
    static const char unit[] = " KMGTPEZY";
    int i = 0;
    for (; flops >= 1000 && i < 8; i++) flops /= 1000;
    snprintf(buf, 32, "%.2f %.*sFLOPs", flops, i ? 1 : 0, unit + i);
    return buf;
}

static tx_status show_parameters(tx__report *r, const tx_run_plan *p)
{
    char n[32];
    TX_TRY(tx__report_line(r, "parameters: %s", tx__grouped(n, n_params(p))));
    for (int i = 0; i < TX_N_PARAM_KINDS; i++)
        if (p->n_params[i])
            TX_TRY(tx__report_line(r, "    %-12s %20s", tx_param_kind_names[i], tx__grouped(n, p->n_params[i])));
    if (!p->n_padding) return TX_OK;
    return tx__report_line(r, "    and %s that pad the vocabulary: zero, not trained", tx__grouped(n, p->n_padding));
}

static tx_status show_work(tx__report *r, const tx_config *cfg, const tx_run_plan *p)
{
    char samples[32], n[32], all[32], each[32], again[64] = "";
    if (p->flops_told != p->flops)
        snprintf(again, sizeof again, ", by --flops-formula %s", tx_flops_formula_word(cfg->flops_formula));
    else if (p->flops_again > 0)
        snprintf(again, sizeof again, "; %s with what is computed again", flops_text(all, p->flops + p->flops_again));
    TX_TRY(tx__report_line(r, "iteration: %s samples in micro-batches of %lld, %s tokens; %s, %s a token%s",
                           tx__grouped(samples, cfg->global_batch_size), (long long)cfg->micro_batch_size,
                           tx__grouped(n, p->tokens), flops_text(all, p->flops_told),
                           flops_text(each, p->flops_told / (double)p->tokens), again));
    double tokens = run_tokens(cfg);
    if (tokens < 1) return TX_OK;
    return tx__report_line(r, "run: %s tokens; %s", tx__grouped(n, (int64_t)tokens),
                           flops_text(all, tokens * p->flops_told / (double)p->tokens));
}

static tx_status show_limit(tx__report *r, const plan_view *v)
{
    char need[24], have[24];
    if (!v->limit.bytes) return TX_OK;
    size_t total = tx_memory_limited(&v->plan.memory);
    tx_bytes_text(need, (double)total);
    tx_bytes_text(have, (double)v->limit.bytes);
    const char *it = v->cfg->world_size > 1 ? "a rank" : "it";
    if (v->fits)
        return tx__report_line(r, "it fits: %s takes %s, and %s %s: %zu MiB are left", it, need, v->limit.whose, have,
                               (v->limit.bytes - total) >> 20);
    if (v->asked) return TX_OK; /* the message of the failure tells */
    if (v->cfg->machine)
        return tx__report_line(r,
                               "it does not fit on %s: %s takes %s, and %s %s; --memory-limit auto shows what makes it "
                               "fit, --search the fastest layout that fits",
                               v->time.machine.name, it, need, v->limit.whose, have);
    return tx__report_line(r,
                           "it does not fit here: %s takes %s, and %s %s; --memory-limit auto, or a size, shows what "
                           "makes it fit",
                           it, need, v->limit.whose, have);
}

static void memory_line(void *user, const char *text)
{
    tx__report *r = user;
    r->line(r->user, text);
}

/* Of a curriculum, in the run. */
static int64_t longest(const tx_config *cfg)
{
    int64_t most = 0, last;
    for (int64_t i = 1; !cfg->train_iters || i <= cfg->train_iters; i = last + 1) {
        int64_t length = tx_config_sample_length(cfg, i, &last);
        if (length > most) most = length;
        if (last == INT64_MAX) break;
    }
    return most;
}

static tx_status show_model(tx__report *r, const plan_view *v)
{
    const tx_config *cfg = v->cfg;
    int64_t last;
    TX_TRY(tx__report_line(r, "model: %s%lld layers, hidden size %lld, %lld heads, MLP %lld, sequence length %lld",
                           tx_model_type_of(cfg)->prefix, (long long)cfg->num_layers, (long long)cfg->hidden_size,
                           (long long)cfg->num_attention_heads, (long long)cfg->ffn_hidden_size,
                           (long long)cfg->seq_length));
    if (cfg->curriculum_schedule)
        TX_TRY(
            tx__report_line(r,
                            "curriculum: samples of %lld to %lld tokens; what follows is of an iteration at the full "
                            "sequence length, and the run's tokens are those of its lengths",
                            (long long)tx_config_sample_length(cfg, 1, &last), (long long)longest(cfg)));
    if (!cfg->random_ltd) return TX_OK;
    return tx__report_line(
        r,
        "random-LTD: %lld layers compute %lld tokens of a sample to begin with, and up to %lld; what "
        "follows is of an iteration with all of them, and the run's tokens are those of its layers",
        (long long)tx_config_n_dropping(cfg), (long long)tx_config_reserved_length(cfg, 1, &last),
        (long long)cfg->random_ltd_max_value);
}

static tx_status show(tx__report *r, const plan_view *v)
{
    const tx_config *cfg = v->cfg;
    TX_TRY(show_model(r, v));
    char padded[48] = "";
    if (v->plan.vocab_padded != v->vocab_size)
        snprintf(padded, sizeof padded, ", padded to %lld", (long long)v->plan.vocab_padded);
    TX_TRY(tx__report_line(r, "vocabulary: %lld tokens%s (%s)", (long long)v->vocab_size, padded, v->vocab_from));
    TX_TRY(show_parameters(r, &v->plan));
    TX_TRY(tx__show_ranks(r, cfg, &v->stages));
    tx_memory_table(&v->plan.memory, &v->plan.formula, memory_line, r);
    TX_TRY(tx__show_messages(r, cfg, &v->plan));
    TX_TRY(show_work(r, cfg, &v->plan));
    if (cfg->machine) TX_TRY(tx__show_time(r, &v->time));
    if (cfg->schedule_picture) TX_TRY(tx__show_schedule(r, cfg, cfg->machine ? &v->time : NULL));
    return show_limit(r, v);
}

/* ---- for programs ---- */

/* Those on the run's ranks, then the one on more of them. */
static json_t *json_changes(const tx_fit *f)
{
    json_t *all = json_array();
    for (int i = 0; i < f->n + (f->more.ranks > 0) && all; i++) {
        const tx_change *c = i < f->n ? &f->change[i] : &f->more;
        json_t *one = json_pack("{s:s, s:o, s:s, s:I, s:f, s:f, s:b}", "flags", c->flags, "memory",
                                tx__memory_to_json(&c->memory), "without", c->without, "ranks", (json_int_t)c->ranks,
                                "extra_compute", c->extra_compute, "messages", c->messages, "disk", c->disk);
        if (!json_array_append_new(all, one)) continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

static tx_status show_json(tx__report *r, const plan_view *v)
{
    const tx_run_plan *p = &v->plan;
    const tx_config *cfg = v->cfg;
    json_t *params = json_pack("{s:I, s:I}", "total", (json_int_t)n_params(p), "padding", (json_int_t)p->n_padding);
    bool ok = params != NULL;
    for (int i = 0; i < TX_N_PARAM_KINDS && ok; i++)
        ok = !p->n_params[i] || !json_object_set_new(params, tx_param_kind_names[i], json_integer(p->n_params[i]));
    json_t *all = json_pack("{s:{s:I, s:I, s:s}, s:o, s:o, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:o, s:b, s:o}",
                            "vocabulary", "tokens", (json_int_t)v->vocab_size, "padded", (json_int_t)p->vocab_padded,
                            "from", v->vocab_from, "parameters", params, "memory", tx__memory_to_json(&p->memory),
                            "micro_batch_size", (json_int_t)cfg->micro_batch_size, "global_batch_size",
                            (json_int_t)cfg->global_batch_size, "tokens_per_iteration", (json_int_t)p->tokens,
                            "flops_per_iteration", p->flops_told, "flops_per_token", p->flops_told / (double)p->tokens,
                            "hardware_flops_per_iteration", p->flops + p->flops_again, "tokens_of_run", run_tokens(cfg),
                            "memory_limit", v->limit.bytes ? json_integer((json_int_t)v->limit.bytes) : json_null(),
                            "fits", v->fits, "changes", json_changes(&v->fit));
    json_t *ranks = tx__layout_to_json(cfg, &v->stages);
    ok = ok && all && ranks && !json_object_update(all, ranks);
    json_decref(ranks);
    ok = ok && (!cfg->machine || !json_object_set_new(all, "time", tx__time_to_json(&v->time)));
    if (ok) return tx__report_json(r, all, "the plan");
    json_decref(all);
    return tx__report_json(r, NULL, "the plan");
}

/* The fastest layouts, in place of the plan of one. */
static tx_status show_search(tx__report *r, const plan_view *v)
{
    const tx__layout_job job = {
        .cfg = v->cfg, .vocab_size = v->vocab_size, .machine = &v->time.machine, .tokens = run_tokens(v->cfg)
    };
    if (!v->cfg->json) TX_TRY(show_model(r, v));
    return tx__show_search(r, &job);
}

tx_status tx_plan(tx_config *cfg, tx_line_fn *line, void *user)
{
    tx__report r = { .line = line, .user = user };
    plan_view v;
    bool searches = tx_config_searches(cfg);
    tx_status st = make_view(&v, cfg);
    if (!st) st = searches ? show_search(&r, &v) : cfg->json ? show_json(&r, &v) : show(&r, &v);
    if (!st && !searches && cfg->schedule_svg) st = tx__write_schedule(&r, cfg, cfg->machine ? &v.time : NULL);
    tx_str_free(&r.text);
    tx_stage_plans_free(&v.stages);
    tx_plan_time_free(&v.time);
    if (st || searches || v.fits || !v.asked) return st;
    return tx_fit_refuse(&v.fit, &v.plan.memory, v.limit);
}
