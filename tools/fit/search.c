/* search.c - the numbers of machine files that published runs tell. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fit.h"
#include "predict/machine_rows.h"

enum { MAX_NUMBERS = 48 };

/* How much a number's distance from its usual value counts against errors: off by a factor of e as much as runs that
 * are off by 0.2 %. */
#define PULL       0.002
#define WELL_KNOWN 12 /* times that, of numbers that differ little between GPUs */

/* A number to find: one kind's, or of all kinds of a maker. */
typedef struct variable {
    const tx__machine_row *number;
    int kind; /* -1: of all */
} variable;

/* The numbers that are found together: those of a maker's GPUs. Each moves on a scale of log(number + shift), so that 0
 * is near. */
typedef struct search {
    fit_data *d;
    int maker, without; /* without: the set that is left out; -1: none */
    int only;           /* of this kind alone; -1: of all */
    variable of[MAX_NUMBERS];
    int n;
    double weight[FIT_SETS], total; /* of a row of the set; of all rows */
} search;

static double shift(const tx__machine_row *r)
{
    if (r->lo > 0) return 0;
    return r->otherwise > 0 ? 0.1 * r->otherwise : fmin(0.002 * r->hi, 1);
}

/* Where the search begins, and what it is pulled to. */
static double usual(const tx__machine_row *r)
{
    return log(r->otherwise + shift(r));
}

static double from_scale(const tx__machine_row *r, double x)
{
    double v = exp(x) - shift(r), most = r->hi > 1 && r->hi < 2 ? 1 : r->hi; /* a share ends at all of it */
    return v < 0.01 * shift(r) ? r->unit * r->lo : r->unit * fmin(fmax(v, r->lo), most);
}

/* Whether a set can be fitted to: those of other programs whose flags do not say what they did cannot. */
static double trust(const char *set)
{
    return strcmp(set, "megascale-own") != 0 && strcmp(set, "jeanzay-hf") != 0;
}

static int kind_of(const fit_data *d, int machine)
{
    return fit_kind(d->name[machine]);
}

static bool is_makers(const search *s, int machine)
{
    return fit_maker(s->d->name[machine]) == s->maker;
}

static bool counts(const fit_row *row, const void *user)
{
    const search *s = user;
    return is_makers(s, row->machine) && row->set != s->without && s->weight[row->set] > 0;
}

static bool is_asked(const fit_row *row, const void *user)
{
    const search *s = user;
    return counts(row, user) && (s->only < 0 || kind_of(s->d, row->machine) == s->only);
}

/* What the arithmetic of a kind of GPU reaches; all else is its maker's libraries, the host's and the network's. */
static bool is_of_kind(const tx__machine_row *r)
{
    static const char *const its[] = { "matrix.share", "attention.share", "attention.backward_share", "memory.share" };
    for (size_t i = 0; i < sizeof its / sizeof *its; i++)
        if (!strcmp(r->path, its[i])) return true;
    return false;
}

static bool is_new_kind(const fit_data *d, int machine)
{
    for (int i = 0; i < machine; i++)
        if (kind_of(d, i) == kind_of(d, machine)) return false;
    return true;
}

static void add_variable(search *s, const tx__machine_row *r, int kind)
{
    if (s->n < MAX_NUMBERS) s->of[s->n++] = (variable){ r, kind };
}

static void list_variables(search *s)
{
    for (const tx__machine_row *r = tx__machine_rows; r->path; r++) {
        if (!r->fitted || !strcmp(r->path, "spread")) continue;
        if (!is_of_kind(r)) add_variable(s, r, -1);
        for (int i = 0; i < s->d->n_machines && is_of_kind(r); i++)
            if (is_makers(s, i) && is_new_kind(s->d, i)) add_variable(s, r, kind_of(s->d, i));
    }
}

/* All sets of a maker count the same, however many rows they have. */
static void open(search *s, fit_data *d, int maker, int without)
{
    int rows[FIT_SETS] = { 0 };
    *s = (search){ .d = d, .maker = maker, .without = without, .only = -1 };
    list_variables(s);
    for (int i = 0; i < d->n; i++) rows[d->row[i].set] += is_makers(s, d->row[i].machine);
    for (int i = 0; i < d->n_sets; i++) s->weight[i] = rows[i] ? trust(d->set[i]) / rows[i] : 0;
    for (int i = 0; i < d->n; i++) s->total += counts(&d->row[i], s) ? s->weight[d->row[i].set] : 0;
}

static void put(const search *s, const double *x)
{
    for (int i = 0; i < s->d->n_machines; i++)
        for (int k = 0; k < s->n && is_makers(s, i); k++) {
            const variable *v = &s->of[k];
            if (v->kind < 0 || v->kind == kind_of(s->d, i))
                *tx__machine_number_at(&s->d->machine[i], v->number) = from_scale(v->number, x[k]);
        }
}

/* Small errors are alike. */
static double cost_of(double log_error)
{
    return sqrt(log_error * log_error + 4e-4);
}

/* What libraries reach of a peak, within some 20 % on every GPU. */
static bool is_well_known(const tx__machine_row *r)
{
    static const char *const its[] = { "matrix.share", "matrix.half_tile_share", "memory.share", "node.share" };
    for (size_t i = 0; i < sizeof its / sizeof *its; i++)
        if (!strcmp(r->path, its[i])) return true;
    return false;
}

/* The weighted mean of the errors' logarithms, and the pull.   @kind whose predictions alone have changed; -1: all */
static double loss(search *s, const double *x, int kind)
{
    double sum = 0, pull = 0;
    put(s, x);
    s->only = kind;
    if (fit_predict(s->d, is_asked, s)) return INFINITY;
    for (int i = 0; i < s->d->n; i++) {
        const fit_row *r = &s->d->row[i];
        if (counts(r, s)) sum += s->weight[r->set] * cost_of(r->log_error);
    }
    for (int k = 0; k < s->n; k++) {
        double off = x[k] - usual(s->of[k].number);
        pull += (is_well_known(s->of[k].number) ? WELL_KNOWN : 1) * off * off;
    }
    return sum / s->total + PULL * pull;
}

/* Steps along an axis to the side of *step, else to the other, and keeps what is better; the next step is longer where
 * one helped and shorter where none did. */
static void step_along(search *s, double *x, int k, double *step, double *best)
{
    double old = x[k];
    int kind = s->of[k].kind;
    for (int side = 0; side < 2; side++) {
        x[k] = old + (side ? -*step : *step);
        double now = loss(s, x, kind);
        if (now >= *best) continue;
        *best = now;
        *step = fmin(fmax(*step * (side ? -1.6 : 1.6), -1), 1);
        return;
    }
    x[k] = old;
    loss(s, x, kind); /* the rows' predictions as they were */
    *step *= 0.45;
}

/* Steps along each axis, then once more as all of them together went. */
static void descend(search *s, double *x)
{
    double step[MAX_NUMBERS], was[MAX_NUMBERS], further[MAX_NUMBERS], best = loss(s, x, -1), before;
    for (int k = 0; k < s->n; k++) step[k] = 0.3;
    for (int round = 0; round < 60; round++) {
        before = best;
        memcpy(was, x, sizeof was);
        for (int k = 0; k < s->n; k++)
            if (fabs(step[k]) > 0.004) step_along(s, x, k, &step[k], &best);
        for (int k = 0; k < s->n; k++) further[k] = 2 * x[k] - was[k];
        double then = loss(s, further, -1);
        if (then < best) {
            best = then;
            memcpy(x, further, sizeof further);
        } else {
            loss(s, x, -1);
        }
        if (before - best < 1e-5) break;
    }
    put(s, x);
}

static void fit_maker_of(fit_data *d, int maker, int without)
{
    search s;
    double x[MAX_NUMBERS] = { 0 };
    open(&s, d, maker, without);
    for (int k = 0; k < s.n; k++) x[k] = usual(s.of[k].number);
    if (s.total > 0)
        descend(&s, x);
    else
        put(&s, x); /* nothing is known of it */
}

/* Half of the runs lie within it. */
static void set_spread(fit_data *d, int kind)
{
    search s;
    for (int i = 0; i < d->n_machines; i++)
        if (kind_of(d, i) == kind) open(&s, d, fit_maker(d->name[i]), -1);
    s.only = kind;
    fit_judgement j = fit_judge(d, is_asked, &s);
    for (int i = 0; i < d->n_machines; i++)
        if (j.n && kind_of(d, i) == kind) d->machine[i].spread = fmax(j.median, 0.03);
}

/* Three digits are more than is known. */
static void round_numbers(fit_data *d, int machine)
{
    for (const tx__machine_row *r = tx__machine_rows; r->path; r++) {
        char text[32];
        double *v = tx__machine_number_at(&d->machine[machine], r);
        if (!r->fitted) continue;
        snprintf(text, sizeof text, "%.3g", *v / r->unit);
        *v = atof(text) * r->unit;
    }
}

static bool is_new_maker(const fit_data *d, int machine)
{
    for (int i = 0; i < machine; i++)
        if (fit_maker(d->name[i]) == fit_maker(d->name[machine])) return false;
    return true;
}

tx_status fit_find(fit_data *d)
{
    for (int i = 0; i < d->n_machines; i++)
        if (is_new_maker(d, i)) fit_maker_of(d, fit_maker(d->name[i]), -1);
    for (int i = 0; i < d->n_machines; i++) round_numbers(d, i);
    TX_TRY(fit_predict(d, NULL, NULL));
    for (int i = 0; i < d->n_machines; i++)
        if (is_new_kind(d, i)) set_spread(d, kind_of(d, i));
    for (int i = 0; i < d->n_machines; i++) round_numbers(d, i);
    return fit_predict(d, NULL, NULL);
}

static bool set_has_maker(const fit_data *d, int set, int maker)
{
    for (int i = 0; i < d->n; i++)
        if (d->row[i].set == set && fit_maker(d->name[d->row[i].machine]) == maker) return true;
    return false;
}

tx_status fit_leave_one_out(fit_data *d, fit_judgement *of_set, bool pooled)
{
    tx_machine was[FIT_MACHINES];
    tx_time *time = NULL;
    double *log_error = NULL;
    tx_status st;
    memcpy(was, d->machine, sizeof was);
    TX_GOTO(tx_alloc(&time, (size_t)d->n + 1, sizeof *time, "predictions"));
    TX_GOTO(tx_alloc(&log_error, (size_t)d->n + 1, sizeof *log_error, "predictions"));
    for (int set = 0; set < d->n_sets; set++) {
        if (pooled && !fit_set_is_pooled(d->set[set])) continue;
        for (int i = 0; i < d->n_machines; i++)
            if (is_new_maker(d, i) && set_has_maker(d, set, fit_maker(d->name[i])))
                fit_maker_of(d, fit_maker(d->name[i]), set);
        TX_GOTO(fit_predict(d, fit_of_set, &set));
        of_set[set] = fit_judge(d, fit_of_set, &set);
        for (int i = 0; i < d->n; i++)
            if (d->row[i].set == set) {
                time[i] = d->row[i].time;
                log_error[i] = d->row[i].log_error;
            }
        memcpy(d->machine, was, sizeof was);
    }
    for (int i = 0; i < d->n; i++) {
        d->row[i].time = time[i];
        d->row[i].log_error = log_error[i];
    }
out:
    memcpy(d->machine, was, sizeof was);
    tx_free(log_error);
    tx_free(time);
    return st;
}

/* A machine's file of the same kind that has no runs of its own gets the numbers, too. */
static tx_status write_one(const fit_data *d, int from, const char *name)
{
    tx_str path = { 0 };
    tx_machine m = { 0 };
    tx_status st;
    TX_GOTO(tx_str_printf(&path, "%s/%s.json", d->folder, name));
    TX_GOTO(tx_machine_read(&m, path.data));
    for (const tx__machine_row *r = tx__machine_rows; r->path; r++)
        if (r->fitted) *tx_machine_number(&m, r->path) = *tx__machine_number_at((void *)&d->machine[from], r);
    st = tx_machine_write(&m, path.data, NULL);
out:
    tx_machine_free(&m);
    tx_str_free(&path);
    return st;
}

tx_status fit_write(const fit_data *d)
{
    for (const char *const *name = tx_machine_names; *name; name++)
        for (int i = 0; i < d->n_machines; i++) {
            if (fit_kind(*name) != fit_kind(d->name[i])) continue;
            TX_TRY(write_one(d, i, *name));
            break;
        }
    return TX_OK;
}
