/* main.c - fit_machines: published runs beside the time model, and its machines fitted to them.
 *
 *      fit_machines                        each row, and how far predictions are off by set, machine and sweep
 *      fit_machines --fit                  fits the machine files and writes them
 *      fit_machines --leave-one-out        judges each set by numbers that are fitted to the others
 *      fit_machines --page FILE.md         writes the page, with --leave-one-out also its errors, and predicted.svg
 *      fit_machines --check FILE.md        whether the page's errors are those of the machine files, to half a per cent
 *      fit_machines --dump                 what the time of each row consists of
 *
 *      --only X            a set, a machine or a row
 *      --with path=value   a number of all machines, in the unit of their files: matrix.share=0.7
 *      --data FILE         published.csv; --machines DIR: the machine files; else those of machines/ */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "fit.h"
#include "predict/machine_rows.h"
#include "triax/log.h"

typedef struct options {
    bool fit, leave_one_out, dump, quiet;
    const char *page, *check, *only, *data, *machines;
    const char *with[32];
    int n_with;
} options;

static int usage(void)
{
    fprintf(stderr,
            "usage: fit_machines [--fit] [--leave-one-out] [--page FILE.md] [--check FILE.md] [--dump] [--quiet]\n"
            "                    [--only SET|MACHINE|ID] [--with path=value]... [--data FILE] [--machines DIR]\n");
    return 2;
}

static bool read_options(options *o, int argc, char **argv)
{
    *o = (options){ .data = "machines/published.csv", .machines = "machines" };
    const struct {
        const char *name;
        bool *flag;
        const char **text;
    } known[] = { { "--fit", &o->fit, NULL },   { "--leave-one-out", &o->leave_one_out, NULL },
                  { "--dump", &o->dump, NULL }, { "--quiet", &o->quiet, NULL },
                  { "--page", NULL, &o->page }, { "--check", NULL, &o->check },
                  { "--only", NULL, &o->only }, { "--with", NULL, NULL },
                  { "--data", NULL, &o->data }, { "--machines", NULL, &o->machines } };
    const size_t n = sizeof known / sizeof *known;
    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < n && strcmp(argv[i], known[k].name)) k++;
        if (k == n || (!known[k].flag && i + 1 == argc)) return false;
        if (known[k].flag)
            *known[k].flag = true;
        else if (known[k].text)
            *known[k].text = argv[++i];
        else if (o->n_with < 32)
            o->with[o->n_with++] = argv[++i];
    }
    return true;
}

static tx_status set_numbers(fit_data *d, const options *o)
{
    for (int i = 0; i < o->n_with; i++) {
        const char *value = strchr(o->with[i], '=');
        const tx__machine_row *r = tx__machine_rows;
        size_t n = value ? (size_t)(value - o->with[i]) : 0;
        while (r->path && (strlen(r->path) != n || memcmp(r->path, o->with[i], n))) r++;
        if (!r->path)
            return TX_FAIL(TX_ERR_ARG, "--with %s: no path of docs/formats/machine.md and its value", o->with[i]);
        for (int k = 0; k < d->n_machines; k++) *tx__machine_number_at(&d->machine[k], r) = atof(value + 1) * r->unit;
    }
    return TX_OK;
}

static void show_rows(const fit_data *d)
{
    char layout[160];
    printf("%4s %-14s %-10s %6s %10s %10s %7s  %-7s %s\n", "row", "set", "machine", "GPUs", "measured", "predicted",
           "off", "TFLOP/s", "model and layout");
    for (int i = 0; i < d->n; i++) {
        const fit_row *r = &d->row[i];
        const tx_config *c = r->cfg;
        printf("%4d %-14s %-10s %6lld %10.4g %10.4g %+6.1f%%  %6.1f  %lld x %lld, %lld heads, s %lld; %s\n", r->id,
               d->set[r->set], d->name[r->machine], r->world_size, r->measured, r->time.iteration,
               100 * (exp(r->log_error) - 1), fit_rate(r, r->measured) / 1e12, (long long)c->num_layers,
               (long long)c->hidden_size, (long long)c->num_attention_heads, (long long)c->seq_length,
               fit_layout(layout, r));
    }
}

static void show_judgement(const char *name, const fit_judgement *j)
{
    if (j->n)
        printf("    %-24s %4d rows  mean %5.1f %%  median %5.1f %%  worst %6.1f %% (row %d)  bias %+5.1f %%\n", name,
               j->n, 100 * j->mean, 100 * j->median, 100 * j->worst, j->worst_id, 100 * j->bias);
}

static double mean_of_pooled(const fit_data *d)
{
    double sum = 0;
    int n = 0;
    for (int i = 0; i < d->n_sets; i++) {
        if (!fit_set_is_pooled(d->set[i])) continue;
        sum += fit_judge(d, fit_of_set, &i).mean;
        n++;
    }
    return n ? sum / n : 0;
}

static void show_judgements(const fit_data *d)
{
    fit_judgement j;
    printf("by set:\n");
    for (int i = 0; i < d->n_sets; i++) {
        j = fit_judge(d, fit_of_set, &i);
        show_judgement(d->set[i], &j);
    }
    printf("by machine:\n");
    for (int i = 0; i < d->n_machines; i++) {
        j = fit_judge(d, fit_of_machine, &i);
        show_judgement(d->name[i], &j);
    }
    printf("memory, by set:\n");
    for (int i = 0; i < d->n_sets; i++) {
        j = fit_judge_memory(d, i);
        show_judgement(d->set[i], &j);
    }
    printf("all:\n");
    j = fit_judge(d, NULL, NULL);
    show_judgement("all rows", &j);
    j = fit_judge(d, fit_is_pooled, d);
    show_judgement("the five sets", &j);
    printf("    %-24s            mean %5.1f %%\n", "mean of the five sets", 100 * mean_of_pooled(d));
}

static tx_status show_sweeps(const fit_data *d)
{
    fit_sweep *s;
    int n;
    TX_TRY(fit_sweeps(d, &s, &n));
    printf("sweeps: rank correlation of rates, and the time that the layout chosen takes more than the best\n");
    for (int i = 0; i < n; i++) {
        printf("    %-14s %-38s %3d rows  rank %5.2f", d->set[s[i].set], s[i].name, s[i].n, s[i].rank);
        if (s[i].choices)
            printf("  %d choices lose %4.1f %%, most %4.1f %%", s[i].choices, 100 * s[i].lost, 100 * s[i].most);
        printf("\n");
    }
    fit_sweeps_free(s, n);
    return TX_OK;
}

static tx_status show(const fit_data *d, bool rows)
{
    if (rows) show_rows(d);
    show_judgements(d);
    return show_sweeps(d);
}

/* The picture lies beside the page. */
static tx_status write_page(const fit_data *d, const options *o, const fit_judgement *left_out)
{
    tx_str page = { 0 }, picture = { 0 }, path = { 0 };
    tx_status st;
    const char *name = strrchr(o->page, '/');
    int folder = name ? (int)(name + 1 - o->page) : 0;
    TX_GOTO(tx_str_printf(&path, "%.*spredicted.svg", folder, o->page));
    TX_GOTO(fit_page(&page, d, left_out));
    TX_GOTO(fit_picture(&picture, d));
    TX_GOTO(tx_file_publish(o->page, page.data, page.len));
    st = tx_file_publish(path.data, picture.data, picture.len);
out:
    tx_str_free(&page);
    tx_str_free(&picture);
    tx_str_free(&path);
    return st;
}

/* What is told behind `before` against what is so, in per cent. */
static tx_status check_told(const char *file, const char *page, const char *before, double is, double bound)
{
    const char *at = strstr(page, before);
    double told = at ? atof(at + strlen(before)) : -1;
    if (fabs(told - 100 * is) <= bound) return TX_OK;
    return TX_FAIL(
        TX_ERR_FORMAT,
        "%s: \"%s%.1f %%\", but by the machine files it is %.1f %%: tools/fit_machines --leave-one-out --page %s "
        "writes the page anew",
        file, before, told, 100 * is, file);
}

/* What was left out is found by a search, whose end compilers differ in. */
static tx_status check_page(const fit_data *d, const char *file, const fit_judgement *left_out)
{
    tx_str page = { 0 };
    tx_status st;
    TX_GOTO(tx_file_read(file, 4 << 20, &page));
    TX_GOTO(
        check_told(file, page.data, "The mean error of these five is **", fit_judge(d, fit_is_pooled, d).mean, 0.5));
    if (left_out) st = check_told(file, page.data, "left out it is **", fit_mean_left_out(d, left_out), 1.5);
out:
    tx_str_free(&page);
    return st;
}

static tx_status work_on(fit_data *d, const options *o)
{
    fit_judgement left_out[FIT_SETS] = { 0 };
    TX_TRY(set_numbers(d, o));
    if (o->dump) return fit_dump(d, stdout);
    double start = tx_clock();
    if (o->fit) {
        TX_TRY(fit_find(d));
        TX_TRY(fit_write(d));
    }
    if (o->leave_one_out) {
        TX_TRY(fit_leave_one_out(d, left_out, true));
        printf("each set by numbers that are fitted to the others\n");
        if (!o->check) TX_TRY(show(d, !o->quiet));
    }
    if (!o->leave_one_out || o->page || o->check) TX_TRY(fit_predict(d, NULL, NULL));
    if (!o->leave_one_out) TX_TRY(show(d, !o->quiet));
    printf("%.2f s\n", tx_clock() - start);
    if (o->page) TX_TRY(write_page(d, o, o->leave_one_out ? left_out : NULL));
    return o->check ? check_page(d, o->check, o->leave_one_out ? left_out : NULL) : TX_OK;
}

int main(int argc, char **argv)
{
    options o;
    fit_data d = { 0 };
    if (!read_options(&o, argc, argv)) return usage();
    tx_log_set(NULL, NULL, TX_LOG_WARN);
    double start = tx_clock();
    tx_status st = fit_read(&d, o.data, o.machines, o.only);
    if (!st) {
        fprintf(stderr, "%d runs planned in %.1f s\n", d.n, tx_clock() - start);
        st = work_on(&d, &o);
    }
    if (st) fprintf(stderr, "fit_machines: %s\n", tx_last_error());
    fit_free(&d);
    return st ? 1 : 0;
}
