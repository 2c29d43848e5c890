/* search_run.c - times layouts in the order of their bounds. */
#include "predict/search.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "predict/search_run.h"

enum { AT_ONCE = 16, MAX_THREADS = 16 };

/* What is silent for so long does not seem to hang. */
static const double SILENT_SECONDS = 2;

/* ---- one layout ---- */

static const tx_memory *most_of(tx_run_work *w, const tx_search_args *a)
{
    const tx_memory *most = NULL;
    for (int i = 0; i < w->n; i++) {
        tx_memory *m = &w->stage[i].plan.memory;
        m->gpu_free = !a->gpu ? 0 : a->room ? a->room : 1;
        if (!most || tx_memory_limited(m) > tx_memory_limited(most)) most = m;
    }
    return most;
}

static tx_status time_layout(const tx__search *s, tx__trial *t)
{
    tx_config *cfg;
    tx_run_work w = { 0 };
    t->outcome = TX__REFUSED;
    TX_TRY(tx_choice_config(&cfg, &s->base, &t->found.is));
    if (!cfg) return TX_OK;
    tx_status st = tx_run_work_make(&w, cfg, s->args->vocab_size);
    if (!st) {
        t->found.memory = *most_of(&w, s->args);
        t->found.flops_2021 = w.stage[0].plan.flops_2021;
        t->outcome = tx_memory_limited(&t->found.memory) <= s->args->room ? TX__TIMED : TX__TOO_LARGE;
        if (t->outcome == TX__TIMED) st = s->bounds.predict(&t->found.time, &w, s->args->machine);
    }
    tx_run_work_free(&w);
    tx_config_free(cfg);
    return st == TX_ERR_ARG || st == TX_ERR_UNSUPPORTED ? TX_OK : st;
}

/* ---- several at once ---- */

typedef struct crew {
    const tx__search *s;
    tx__trial *trial;
    int n;
    atomic_int next;
} crew;

static void *work(void *user)
{
    crew *c = user;
    for (int i; (i = atomic_fetch_add(&c->next, 1)) < c->n;) {
        tx__trial *t = &c->trial[i];
        t->status = time_layout(c->s, t);
        if (t->status) snprintf(t->error, sizeof t->error, "%s", tx_last_error());
    }
    return NULL;
}

/* Threads that the system does not start are missed by nobody: the caller works, too. */
static tx_status time_trials(const tx__search *s, tx__trial *trial, int n)
{
    crew c = { .s = s, .trial = trial, .n = n };
    pthread_t thread[MAX_THREADS];
    int n_threads = 0, wanted = s->args->n_threads < n ? s->args->n_threads : n;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the threads that ask for them */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (int i = 1; i < wanted && i < MAX_THREADS; i++)
        if (!pthread_create(&thread[n_threads], NULL, work, &c)) n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(&c);
    for (int i = 0; i < n_threads; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < n; i++)
        if (trial[i].status) return TX_FAIL(trial[i].status, "%s", trial[i].error);
    return TX_OK;
}

/* ---- what is kept ---- */

/* Of equal times the one that divides less. */
static bool is_better(const tx_found_layout *a, const tx_found_layout *b)
{
    double x = a->time.iteration, y = b->time.iteration;
    return x != y ? x < y : a->is.zero < b->is.zero;
}

static void keep(tx_search_result *r, const tx_found_layout *f, int most)
{
    int at = r->n;
    while (at > 0 && is_better(f, &r->best[at - 1])) at--;
    if (at == most) return;
    r->n += r->n < most;
    for (int i = r->n - 1; i > at; i--) r->best[i] = r->best[i - 1];
    r->best[at] = *f;
}

static void take(tx__search *s, tx_search_result *r, const tx__trial *t)
{
    r->n_planned++;
    if (t->outcome == TX__TIMED) keep(r, &t->found, s->most);
    if (t->outcome != TX__TOO_LARGE) return;
    if (!r->least.is.ranks || tx_memory_limited(&t->found.memory) < tx_memory_limited(&r->least.memory))
        r->least = t->found;
}

static void show_progress(tx__search *s, const tx_search_result *r, int64_t done, int64_t n)
{
    double now = tx_clock();
    if (!tx_log_wants(TX_LOG_PROGRESS) || now - s->start < SILENT_SECONDS || now - s->told < TX_PROGRESS_SECONDS)
        return;
    s->told = now;
    char best[48] = "none fits yet";
    if (r->n) snprintf(best, sizeof best, "best %.4g s", r->best[0].time.iteration);
    tx_log(TX_LOG_PROGRESS, "searching on %lld ranks: %lld/%lld layouts | %s", (long long)r->ranks, (long long)done,
           (long long)n, best);
}

/* ---- all of them ---- */

static int compare(const void *a, const void *b)
{
    const tx__bounded *x = a, *y = b;
    if (x->seconds != y->seconds) return x->seconds < y->seconds ? -1 : 1;
    return (x->i > y->i) - (x->i < y->i);
}

/* Those that may fit, and may be fast enough, the fastest first; *smallest the one that needs least memory. */
static tx_status list_bounded(tx__search *s, const tx_choice_list *l, tx__bounded *out, int64_t *n, int64_t *smallest)
{
    double least = INFINITY, bytes;
    *n = 0;
    *smallest = -1;
    for (int64_t i = 0; i < l->n; i++) {
        tx__bounded b = { .i = i };
        TX_TRY(tx_layout_bound(&s->bounds, &l->choice[i], &b.seconds, &bytes));
        if (bytes < least) least = bytes, *smallest = i;
        if (bytes <= (double)s->args->room && b.seconds < s->within) out[(*n)++] = b;
    }
    qsort(out, (size_t)*n, sizeof *out, compare);
    return TX_OK;
}

/* The time that a layout has to stay below. */
static double to_beat(const tx__search *s, const tx_search_result *r)
{
    return r->n == s->most ? r->best[r->n - 1].time.iteration : s->within;
}

static tx_status time_bounded(tx__search *s, tx_search_result *r, const tx_choice_list *l, const tx__bounded *b,
                              int64_t n)
{
    tx__trial trial[AT_ONCE];
    for (int64_t i = 0; i < n && b[i].seconds < to_beat(s, r); i += AT_ONCE) {
        int some = n - i < AT_ONCE ? (int)(n - i) : AT_ONCE;
        for (int k = 0; k < some; k++) trial[k] = (tx__trial){ .found.is = l->choice[b[i + k].i] };
        TX_TRY(time_trials(s, trial, some));
        for (int k = 0; k < some; k++) take(s, r, &trial[k]);
        show_progress(s, r, i + some, n);
    }
    return TX_OK;
}

/* Where no bound lets one through, nobody knows yet how far it is from fitting. */
static tx_status plan_smallest(tx__search *s, tx_search_result *r, const tx_layout_choice *c)
{
    tx__trial t = { .found.is = *c };
    TX_TRY(time_layout(s, &t));
    take(s, r, &t);
    return TX_OK;
}

/* The fastest, around a ring instead of by heads, or the other way. */
static tx_status time_other_way(tx__search *s, tx_search_result *r)
{
    tx__trial t = { .found.is = r->best[0].is };
    if (!r->n || tx_choice_context(&t.found.is) == 1) return TX_OK;
    t.found.is.how = t.found.is.how == TX_CP_COMM_A2A ? TX_CP_COMM_P2P : TX_CP_COMM_A2A;
    TX_TRY(time_layout(s, &t));
    if (t.outcome == TX__TIMED) r->other_way = t.found;
    return TX_OK;
}

static tx_status search_one(tx__search *s, tx_search_result *r, bool offload)
{
    tx_choice_list l = { 0 };
    tx__bounded *b = NULL;
    int64_t n, smallest;
    double node = s->args->machine->ranks_per_node;
    tx_status st;
    TX_GOTO(tx_choice_list_make(&l, &s->base, r->ranks, (int64_t)node, offload));
    TX_GOTO(tx_alloc(&b, (size_t)l.n + 1, sizeof *b, "the bounds of layouts"));
    TX_GOTO(list_bounded(s, &l, b, &n, &smallest));
    r->n_layouts += l.n;
    TX_GOTO(time_bounded(s, r, &l, b, n));
    if (!r->n && smallest >= 0 && s->within == INFINITY) TX_GOTO(plan_smallest(s, r, &l.choice[smallest]));
out:
    tx_free(b);
    tx_choice_list_free(&l);
    return st;
}

void tx__search_open(tx__search *s, const tx_search_args *a)
{
    *s = (tx__search){ .args = a, .most = TX_SEARCH_BEST, .within = INFINITY, .start = tx_clock() };
    s->base = tx_without_layout(a->cfg);
    s->bounds = (tx_layout_bounds){ .base = &s->base,
                                    .machine = a->machine,
                                    .predict = a->predict ? a->predict : tx_predict,
                                    .vocab_size = a->vocab_size };
}

void tx__search_close(tx__search *s)
{
    tx_layout_bounds_free(&s->bounds);
}

tx_status tx__search_on(tx__search *s, tx_search_result *out, int64_t ranks)
{
    *out = (tx_search_result){ .ranks = ranks };
    TX_TRY(search_one(s, out, false));
    if (out->n || !s->args->gpu) return TX_OK;
    TX_TRY(search_one(s, out, true));
    out->offload = out->n > 0;
    return TX_OK;
}

tx_status tx_search_layouts(tx_search_result *out, const tx_search_args *a, int64_t ranks)
{
    tx__search *s;
    TX_TRY(tx_alloc(&s, 1, sizeof *s, "a search for layouts"));
    tx__search_open(s, a);
    tx_status st = tx__search_on(s, out, ranks);
    if (!st) st = time_other_way(s, out);
    tx__search_close(s);
    tx_free(s);
    return st;
}
