/* predict_grid.c - predictions against measured times, and what is left of the error when a few numbers are fitted.
 *
 *      predict_grid MACHINE MEASURED [FITTED]
 *
 *  MACHINE is what plan --machine takes, MEASURED what predict_grid.sh writes: a line a run, with its name, its
 * milliseconds and, last, its flags of `triax plan`. Prints each run's time, measured and predicted; then factors of
 * the machine's rates are fitted on the runs of even number, and the others show what that is worth. The machine with
 * these factors is written to FITTED. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "model/model.h"
#include "predict/predict.h"
#include "triax/config.h"

enum { MAX_FILE = 1 << 20, N_ROUNDS = 40 };

typedef struct run {
    const char *name;
    double ms;
    tx_run_work work;
} run;

typedef struct grid {
    run *run;
    int n;
    const tx_machine *machine;
} grid;

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "predict_grid: %s\n", tx_last_error());
    exit(1);
}

/* ---- what was measured ---- */

static void plan(run *r, const char *flags)
{
    tx_config *cfg;
    check(tx_config_parse_string(&cfg, "plan", flags));
    check(tx_run_work_make(&r->work, cfg, cfg->vocab_size ? cfg->vocab_size + 1 : tx_model_type_of(cfg)->usual_tokens));
    tx_config_free(cfg);
}

/* Cuts the text into its lines, behind the first, which names the columns. */
static void read_runs(grid *g, char *text)
{
    char *rest = strchr(text, '\n');
    for (char *line = rest ? strtok_r(rest, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
        char *ms = strchr(line, ','), *flags = strrchr(line, ',');
        check(tx_realloc(&g->run, (size_t)g->n + 1, sizeof *g->run, "runs"));
        run *r = &g->run[g->n++];
        *r = (run){ .name = line };
        if (!ms || (r->ms = atof(ms + 1)) <= 0) check(TX_FAIL(TX_ERR_FORMAT, "no time in the line \"%s\"", line));
        *ms = 0;
        plan(r, flags + 1);
    }
}

/* ---- what is fitted: a factor of all rates of a sort, and seconds of each step ---- */

typedef enum number { PRODUCTS, ATTENTION, MEMORY_BOUND, MESSAGES, PER_STEP, N_NUMBERS } number;

static number sort_of(const char *op)
{
    if (!strncmp(op, "attention", strlen("attention"))) return ATTENTION;
    for (int i = 0; i < TX_N_COMM_OPS; i++)
        if (!strcmp(op, tx_comm_op_names[i])) return MESSAGES;
    return MEMORY_BOUND;
}

/* The machine with these factors, without its sources; the caller frees it. */
static tx_machine with(const tx_machine *m, const double f[N_NUMBERS])
{
    tx_machine x = *m;
    x.source = NULL;
    x.n_sources = 0;
    check(tx_alloc(&x.product, (size_t)m->n_products + 1, sizeof *x.product, "products"));
    check(tx_alloc(&x.op, (size_t)m->n_ops + 1, sizeof *x.op, "ops"));
    for (int i = 0; i < m->n_products; i++) {
        x.product[i] = m->product[i];
        x.product[i].flops_per_s *= f[PRODUCTS];
    }
    for (int i = 0; i < m->n_ops; i++) {
        x.op[i] = m->op[i];
        x.op[i].per_s *= f[sort_of(m->op[i].op)];
    }
    x.matrix_share *= f[PRODUCTS];
    x.attention_share *= f[ATTENTION];
    x.attention_bwd_share *= f[ATTENTION];
    x.bandwidth_share *= f[MEMORY_BOUND];
    x.node_share *= f[MESSAGES];
    x.overhead += f[PER_STEP];
    return x;
}

/* All ranks on one node, as with --gpus-per-node. */
static double predicted_ms(const run *r, const tx_machine *m)
{
    tx_machine node = *m;
    tx_time t;
    node.ranks_per_node = (double)r->work.world_size;
    check(tx_predict(&t, &r->work, &node));
    return 1e3 * t.iteration;
}

/* Mean square of the logarithms of predicted by measured, over the even runs. A number that moves by a factor of e
 * counts as runs that are off by 3 %: few runs tell little of some numbers. */
static double loss(const grid *g, const double f[N_NUMBERS])
{
    tx_machine m = with(g->machine, f);
    double sum = 0;
    for (int i = 0; i < g->n; i += 2) {
        double e = log(predicted_ms(&g->run[i], &m) / g->run[i].ms);
        sum += e * e / ((g->n + 1) / 2);
    }
    for (int k = 0; k < PER_STEP; k++) sum += 1e-3 * log(f[k]) * log(f[k]);
    tx_machine_free(&m);
    return sum;
}

/* One number after the other, by steps that become smaller. */
static void fit(const grid *g, double f[N_NUMBERS])
{
    double best = loss(g, f), step = 0.2;
    for (int i = 0; i < N_ROUNDS && step > 1e-3; i++) {
        double before = best;
        for (int k = 0; k < 2 * N_NUMBERS; k++) {
            double was = f[k / 2], sign = k % 2 ? -1 : 1;
            f[k / 2] =
                k / 2 == PER_STEP ? fmax(-g->machine->overhead, was + sign * 0.01 * step) : was * exp(sign * step);
            double l = loss(g, f);
            if (l < best)
                best = l;
            else
                f[k / 2] = was;
        }
        if (best == before) step /= 2;
    }
}

/* ---- what is told ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Runs first, first + by, ...: in percent of what was measured. */
static void tell_errors(const grid *g, const tx_machine *m, int first, int by, const char *which)
{
    double *error, worst = 0, sum = 0;
    int n = 0, at = first;
    check(tx_alloc(&error, (size_t)g->n + 1, sizeof *error, "errors"));
    for (int i = first; i < g->n; i += by) {
        double e = 100 * (predicted_ms(&g->run[i], m) / g->run[i].ms - 1);
        error[n++] = fabs(e);
        sum += e;
        if (fabs(e) <= worst) continue;
        worst = fabs(e);
        at = i;
    }
    qsort(error, (size_t)n, sizeof *error, by_size);
    if (n)
        printf("%s: %d runs, median error %.1f %%, worst %.1f %% (%s), mean %+.1f %%\n", which, n,
               (error[(n - 1) / 2] + error[n / 2]) / 2, worst, g->run[at].name, sum / n);
    tx_free(error);
}

static void tell_runs(const grid *g, const tx_machine *fitted)
{
    printf("%-36s %12s %13s %9s %13s %9s\n", "run", "measured ms", "predicted ms", "error", "fitted ms", "error");
    for (int i = 0; i < g->n; i++) {
        const run *r = &g->run[i];
        double a = predicted_ms(r, g->machine), b = predicted_ms(r, fitted);
        printf("%-36s %12.1f %13.1f %+7.1f %% %13.1f %+7.1f %% %s\n", r->name, r->ms, a, 100 * (a / r->ms - 1), b,
               100 * (b / r->ms - 1), i % 2 ? "judged" : "fitted");
    }
}

int main(int argc, char **argv)
{
    tx_machine m;
    tx_str text = { 0 };
    double f[N_NUMBERS] = { 1, 1, 1, 1, 0 };
    if (argc < 3) {
        fprintf(stderr, "usage: predict_grid MACHINE MEASURED [FITTED]\n");
        return 2;
    }
    check(tx_machine_read(&m, argv[1]));
    check(tx_file_read(argv[2], MAX_FILE, &text));
    grid g = { .machine = &m };
    read_runs(&g, text.data);
    fit(&g, f);
    tx_machine fitted = with(&m, f);
    tell_runs(&g, &fitted);
    tell_errors(&g, &m, 0, 1, "as the machine's file is");
    printf("fitted: products x %.3f, attention x %.3f, ops bound by memory x %.3f, messages x %.3f, %.2f ms a step\n",
           f[PRODUCTS], f[ATTENTION], f[MEMORY_BOUND], f[MESSAGES], 1e3 * f[PER_STEP]);
    tell_errors(&g, &fitted, 0, 2, "those it was fitted on");
    tell_errors(&g, &fitted, 1, 2, "those it was not");
    if (argc > 3) check(tx_machine_write(&fitted, argv[3], "predict_grid.sh: fitted on short runs"));
    for (int i = 0; i < g.n; i++) tx_run_work_free(&g.run[i].work);
    tx_machine_free(&fitted);
    tx_machine_free(&m);
    tx_free(g.run);
    tx_str_free(&text);
    return 0;
}
