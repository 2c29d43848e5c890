/* fit.h - the parts of fit_machines: published runs beside what the time model says of them.
 *
 *      rows.c    machines/published.csv as runs, each planned once
 *      judge.c   how far predictions are off: by row, set and machine, and within sweeps
 *      search.c  the machines' fitted numbers
 *      page.c    docs/howto/predict-runs.md and its picture (picture.c)
 *      dump.c    what the time of one run consists of
 *      main.c    the command line */
#ifndef TX_TOOLS_FIT_H
#define TX_TOOLS_FIT_H

#include <stdio.h>

#include "base/str.h"
#include "config/config.h"
#include "predict/predict.h"

enum { FIT_MACHINES = 16, FIT_SETS = 32 };

/* A published run. Texts lie in fit_data.text. */
typedef struct fit_row {
    int id, machine, set; /* the last two: of fit_data */
    const char *source, *sweep, *derived, *flags, *notes;
    double gpus_per_node, node_bandwidth; /* 0: the machine file's */
    double measured, memory_gb;           /* seconds; 0: not known */
    long long world_size;
    tx_config *cfg;
    tx_run_work work;
    tx_time time;
    double log_error; /* log(predicted / measured) */
} fit_row;

typedef struct fit_data {
    tx_str text;
    fit_row *row;
    int n;
    tx_machine machine[FIT_MACHINES];
    char *name[FIT_MACHINES]; /* of their files, without the ending */
    const char *set[FIT_SETS];
    int n_machines, n_sets;
    const char *folder; /* of the machine files */
} fit_data;

/* Reads the runs and the machines that they name and plans each run.   @only a set, a machine or an id; NULL: all */
tx_status fit_read(fit_data *d, const char *csv, const char *folder, const char *only);
void fit_free(fit_data *d);

/* Which machine file's numbers are fitted together with those of this one: the same kind of GPU. */
int fit_kind(const char *machine);

/* Likewise of the numbers that all kinds of one maker share. */
int fit_maker(const char *machine);

/* ---- judge.c ---- */

typedef bool fit_takes(const fit_row *row, const void *user);

/* Predicts the rows that `takes` takes (NULL: all), on all cores. */
tx_status fit_predict(fit_data *d, fit_takes *takes, const void *user);

/* Relative errors of seconds, or of memory. */
typedef struct fit_judgement {
    int n, within, worst_id;          /* within: rows that are off by at most 5 % */
    double mean, median, worst, bias; /* of |predicted / measured - 1|; the mean of that with its sign */
} fit_judgement;
fit_judgement fit_judge(const fit_data *d, fit_takes *takes, const void *user);

bool fit_of_set(const fit_row *row, const void *set);         /* const int * */
bool fit_of_machine(const fit_row *row, const void *machine); /* const int * */
bool fit_is_pooled(const fit_row *row, const void *d);        /* const fit_data *: of a set that the pool has */
bool fit_set_is_pooled(const char *set);

/* GiB of a GPU, by the plan of the stage that takes most. */
double fit_memory(const fit_row *row);

/* Of a set's rows whose memory is known; n 0: there are none. */
fit_judgement fit_judge_memory(const fit_data *d, int set);

/* Rows of a sweep: all that vary one run. */
typedef struct fit_sweep {
    const char *name;
    int set, n, *row;  /* owned */
    double rank;       /* Spearman's correlation of predicted and measured rates, FLOP/s of a GPU */
    int choices;       /* models and numbers of GPUs in it of which there are several layouts */
    double lost, most; /* time that the layout chosen by prediction takes more than the best: mean and most of them */
} fit_sweep;
tx_status fit_sweeps(const fit_data *d, fit_sweep **out, int *n);
void fit_sweeps_free(fit_sweep *s, int n);

double fit_rate(const fit_row *row, double seconds); /* model FLOP/s of a GPU */

/* ---- search.c ---- */

/* Finds the fitted numbers of all machines; those of one kind of GPU are the same. */
tx_status fit_find(fit_data *d);

/* Judges each set by numbers that were fitted to the others; rows keep these predictions. Machines are as before
 * afterwards.   @pooled only the pooled sets */
tx_status fit_leave_one_out(fit_data *d, fit_judgement *of_set, bool pooled);

tx_status fit_write(const fit_data *d);

/* ---- page.c, picture.c, dump.c ---- */

/* @left_out of each set, fit_leave_one_out's; NULL: not told */
tx_status fit_page(tx_str *out, const fit_data *d, const fit_judgement *left_out);

/* The mean error of all rows of the pooled sets. */
double fit_mean_left_out(const fit_data *d, const fit_judgement *left_out);
tx_status fit_picture(tx_str *out, const fit_data *d);
tx_status fit_dump(fit_data *d, FILE *out);

/* The layout in words. */
const char *fit_layout(char buf[160], const fit_row *row);

/* The machine of a row, with what its cluster differs in; shares its arrays. */
tx_machine fit_machine_of(const fit_data *d, const fit_row *row);

#endif
