/* judge.c - predictions beside what was measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fit.h"

/* Sets of which the pooled error is told: other sources have too much guessed in them. */
static const char *const pooled[] = { "bloom", "narayanan", "korthikanti", "megascale", "nanotron" };

bool fit_set_is_pooled(const char *set)
{
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++)
        if (!strcmp(set, pooled[i])) return true;
    return false;
}

bool fit_is_pooled(const fit_row *row, const void *d)
{
    return fit_set_is_pooled(((const fit_data *)d)->set[row->set]);
}

bool fit_of_set(const fit_row *row, const void *set)
{
    return row->set == *(const int *)set;
}

bool fit_of_machine(const fit_row *row, const void *machine)
{
    return row->machine == *(const int *)machine;
}

tx_status fit_predict(fit_data *d, fit_takes *takes, const void *user)
{
    tx_status worst = TX_OK;
#pragma omp parallel for schedule(dynamic, 4)
    for (int i = 0; i < d->n; i++) {
        fit_row *r = &d->row[i];
        if (takes && !takes(r, user)) continue;
        tx_machine m = fit_machine_of(d, r);
        tx_status st = tx_predict(&r->time, &r->work, &m);
        r->log_error = log(r->time.iteration / r->measured);
        if (st) {
#pragma omp atomic write
            worst = st;
        }
    }
    return worst ? TX_FAIL(worst, "a run has no prediction") : TX_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef double error_of(const fit_row *row);

static double seconds_error(const fit_row *r)
{
    return exp(r->log_error) - 1;
}

static double memory_error(const fit_row *r)
{
    return fit_memory(r) / r->memory_gb - 1;
}

static fit_judgement judge(const fit_data *d, fit_takes *takes, const void *user, error_of *error)
{
    fit_judgement j = { 0 };
    double *off = malloc((size_t)(d->n + 1) * sizeof *off);
    if (!off) return j;
    for (int i = 0; i < d->n; i++) {
        const fit_row *r = &d->row[i];
        if (takes && !takes(r, user)) continue;
        double e = error(r);
        j.within += fabs(e) <= 0.05;
        off[j.n++] = fabs(e);
        j.mean += fabs(e);
        j.bias += e;
        if (fabs(e) <= j.worst) continue;
        j.worst = fabs(e);
        j.worst_id = r->id;
    }
    if (j.n) {
        qsort(off, (size_t)j.n, sizeof *off, by_value);
        j.median = (off[(j.n - 1) / 2] + off[j.n / 2]) / 2;
        j.mean /= j.n;
        j.bias /= j.n;
    }
    free(off);
    return j;
}

fit_judgement fit_judge(const fit_data *d, fit_takes *takes, const void *user)
{
    return judge(d, takes, user, seconds_error);
}

static bool has_memory(const fit_row *row, const void *set)
{
    return fit_of_set(row, set) && row->memory_gb > 0;
}

fit_judgement fit_judge_memory(const fit_data *d, int set)
{
    return judge(d, has_memory, &set, memory_error);
}

double fit_memory(const fit_row *row)
{
    const tx_memory *m = &row->work.stage[row->work.most].plan.memory;
    return (double)(tx_memory_total(m) - m->host_activations - m->host - m->passing - m->saving) / (1 << 30);
}

double fit_rate(const fit_row *row, double seconds)
{
    return row->work.flops / (double)row->world_size / seconds;
}

/* ---- sweeps ---- */

static double rate(const fit_data *d, int i, bool predicted)
{
    const fit_row *r = &d->row[i];
    return fit_rate(r, predicted ? r->time.iteration : r->measured);
}

/* Rank of the i-th of a sweep, equal ones sharing theirs. */
static double rank_of(const fit_data *d, const fit_sweep *s, int i, bool predicted)
{
    double rank = 0, mine = rate(d, s->row[i], predicted);
    for (int j = 0; j < s->n; j++) {
        double other = rate(d, s->row[j], predicted);
        if (j != i) rank += other < mine ? 1 : other == mine ? 0.5 : 0;
    }
    return rank;
}

static double spearman(const fit_data *d, const fit_sweep *s)
{
    double mean = (s->n - 1) / 2.0, xy = 0, xx = 0, yy = 0;
    for (int i = 0; i < s->n; i++) {
        double x = rank_of(d, s, i, true) - mean, y = rank_of(d, s, i, false) - mean;
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

/* Batches that differ by a few samples, as they have to for some numbers of replicas, are the same. */
static bool is_same_model(const fit_row *a, const fit_row *b)
{
    const tx_config *x = a->cfg, *y = b->cfg;
    return x->num_layers == y->num_layers && x->hidden_size == y->hidden_size &&
           x->num_attention_heads == y->num_attention_heads && x->seq_length == y->seq_length && x->bf16 == y->bf16 &&
           a->machine == b->machine && a->world_size == b->world_size &&
           fabs(log((double)x->global_batch_size / (double)y->global_batch_size)) < 0.1;
}

/* Of each model and number of GPUs: what the choice by prediction loses. */
static void judge_choices(const fit_data *d, fit_sweep *s)
{
    for (int i = 0; i < s->n; i++) {
        const fit_row *r = &d->row[s->row[i]];
        int chosen = s->row[i], best = chosen, n = 0, earlier = 0;
        for (int j = 0; j < s->n; j++) {
            int at = s->row[j];
            if (!is_same_model(r, &d->row[at])) continue;
            n++;
            earlier += j < i;
            if (rate(d, at, true) > rate(d, chosen, true)) chosen = at;
            if (rate(d, at, false) > rate(d, best, false)) best = at;
        }
        if (n < 2 || earlier) continue;
        double lost = rate(d, best, false) / rate(d, chosen, false) - 1;
        s->lost = (s->lost * s->choices + lost) / (s->choices + 1);
        s->choices++;
        if (lost > s->most) s->most = lost;
    }
}

/* "A | B" has both. */
static bool has_name(const char *names, const char *name, size_t n)
{
    for (const char *p = names; p; p = strstr(p, " | ")) {
        if (p != names) p += 3;
        size_t len = strstr(p, " | ") ? (size_t)(strstr(p, " | ") - p) : strlen(p);
        if (len == n && !memcmp(p, name, n)) return true;
    }
    return false;
}

static tx_status add_sweep(const fit_data *d, fit_sweep *out, int *n, const char *name, size_t len)
{
    int set = out[*n].set;
    fit_sweep s = { .set = set };
    for (int i = 0; i < *n; i++)
        if (out[i].set == set && has_name(out[i].name, name, len)) return TX_OK;
    char *copy;
    TX_TRY(tx_alloc(&s.row, (size_t)d->n, sizeof *s.row, "a sweep"));
    for (int i = 0; i < d->n; i++)
        if (d->row[i].set == set && has_name(d->row[i].sweep, name, len)) s.row[s.n++] = i;
    if (s.n < 3 || tx_alloc(&copy, len + 1, 1, "a name")) {
        tx_free(s.row);
        return TX_OK;
    }
    memcpy(copy, name, len);
    s.name = copy;
    s.rank = spearman(d, &s);
    judge_choices(d, &s);
    out[(*n)++] = s;
    return TX_OK;
}

tx_status fit_sweeps(const fit_data *d, fit_sweep **out, int *n)
{
    *n = 0;
    TX_TRY(tx_alloc(out, 4 * (size_t)d->n + 1, sizeof **out, "sweeps"));
    for (int i = 0; i < d->n; i++) {
        for (const char *p = d->row[i].sweep; p;) {
            const char *end = strstr(p, " | ");
            (*out)[*n].set = d->row[i].set;
            TX_TRY(add_sweep(d, *out, n, p, end ? (size_t)(end - p) : strlen(p)));
            p = end ? end + 3 : NULL;
        }
    }
    return TX_OK;
}

void fit_sweeps_free(fit_sweep *s, int n)
{
    for (int i = 0; i < n; i++) {
        tx_free(s[i].row);
        tx_free((char *)s[i].name);
    }
    tx_free(s);
}
