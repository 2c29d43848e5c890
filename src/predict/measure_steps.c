/* measure_steps.c - trains a small model under the profiler, by one rank or by several at once, each alone. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "predict/measure.h"
#include "train/trainer.h"

/* A rank's. */
typedef struct step_rank {
    tx_trainer *trainer;
    tx_profile profile;
    int32_t *rows;
    double whole[TX__MOST_STEPS], in_ops[TX__MOST_STEPS]; /* seconds of iterations; of ops in them */
    int n;
} step_rank;

typedef struct step_run {
    const tx__step_job *job;
    tx_config *cfg;
    step_rank *rank; /* [n_ranks] */
} step_run;

tx_status tx__step_config(tx_config **out, const tx__step_job *job)
{
    const tx_step_model *m = job->model;
    tx_str flags = { 0 };
    tx_status st = tx_str_printf(
        &flags,
        "--num-layers %d --hidden-size %d --num-attention-heads %d --seq-length %d --max-position-embeddings %d "
        "--micro-batch-size %d --global-batch-size %d --vocab-size %d --tokenizer-type NullTokenizer --data-path none "
        "--train-iters 1000000 "
        "--lr 1e-4 --lr-decay-style constant --clip-grad 1 --world-size 1 --device %s --threads %d %s %s",
        m->layers, m->hidden, m->heads, m->seq, m->seq, m->batch, m->batch * m->micro, m->vocab - 1, job->device,
        job->n_threads,
        job->dtype == TX_BF16  ? "--bf16"
        : job->dtype == TX_F16 ? "--fp16 --loss-scale 128"
                               : "",
        m->more ? m->more : "");
    if (!st) st = tx_config_parse_string(out, "pretrain-gpt", flags.data);
    tx_str_free(&flags);
    return st;
}

/* ---- a rank ---- */

static tx_status same_rows(void *user, int64_t micro, const void **rows)
{
    (void)micro;
    *rows = user;
    return TX_OK;
}

static tx_status open_rank(step_rank *r, const step_run *run, int number)
{
    const tx_step_model *m = run->job->model;
    const tx_rng rng = { .seed = 1, .stream = tx_rng_stream("measure"), .step = (uint32_t)number };
    TX_TRY(tx_trainer_create(&r->trainer, run->cfg, m->vocab, -1, true, NULL));
    int64_t n = m->batch * tx_trainer_row_len(r->trainer);
    TX_TRY(tx_alloc(&r->rows, (size_t)n, sizeof *r->rows, "samples"));
    for (int64_t i = 0; i < n; i++) r->rows[i] = (int32_t)(tx_rng_uniform(&rng, (uint64_t)i) * (m->vocab - 1));
    return TX_OK;
}

static void close_rank(step_rank *r)
{
    tx_trainer_destroy(r->trainer);
    tx_free(r->rows);
}

static tx_status train(step_rank *r, double *seconds)
{
    double start = tx_clock();
    TX_TRY(tx_trainer_train(r->trainer, same_rows, r->rows));
    TX_TRY(tx_device_sync(r->trainer->ctx.device, TX_STREAM_COMPUTE));
    *seconds = tx_clock() - start;
    return TX_OK;
}

/* Of the events from `first` on. */
static double seconds_of(const tx_profile *p, int64_t first)
{
    double s = 0;
    for (int64_t i = first; i < p->n_events; i++) s += p->event[i].seconds;
    return s;
}

/* An iteration with a profile, after one without where those are wanted. */
static tx_status step(step_rank *r, bool plain)
{
    int64_t before = r->profile.n_events;
    double seconds = 0;
    if (plain) TX_TRY(train(r, &r->whole[r->n]));
    r->trainer->ctx.profile = &r->profile;
    tx_status st = train(r, &seconds);
    r->trainer->ctx.profile = NULL;
    if (!plain) r->whole[r->n] = seconds;
    r->in_ops[r->n++] = seconds_of(&r->profile, before);
    return st;
}

/* Ranks begin each iteration together, and rank 0's clock says whether there is another. */
static tx_status run_steps(step_rank *r, const tx__step_job *job, tx_comm *all)
{
    double unused;
    bool more = true;
    TX_TRY(train(r, &unused)); /* touches memory for the first time */
    for (double start = tx_clock(); more;) {
        TX_TRY(tx_comm_barrier(all));
        TX_TRY(step(r, job->plain));
        more = r->n < job->n_least || (r->n < TX__MOST_STEPS && tx_clock() - start < job->seconds);
        TX_TRY(tx_comm_spread(all, &more, sizeof more, 0));
    }
    return TX_OK;
}

static tx_status run_rank(tx_world *world, void *user)
{
    const step_run *run = user;
    const tx__step_job *job = run->job;
    int number = tx_world_rank(world);
    step_rank *r = &run->rank[number];
    tx_status st;
    TX_GOTO(tx_cores_bind_team((tx_local_rank){ number, job->n_ranks }, job->n_threads));
    TX_GOTO(open_rank(r, run, number));
    TX_GOTO(run_steps(r, job, tx_world_comm(world)));
out:
    close_rank(r);
    return st;
}

/* ---- all of them ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

static tx_status take_results(tx_op_times *times, tx__step_result *out, const step_run *run)
{
    step_rank *first = run->rank;
    *out = (tx__step_result){ .iteration = median(first->whole, first->n),
                              .ops = median(first->in_ops, first->n),
                              .n_ops = (double)first->profile.n_runs / first->n };
    for (int i = 0; i < run->job->n_ranks; i++) TX_TRY(tx_op_times_add(times, &run->rank[i].profile));
    return TX_OK;
}

tx_status tx__measure_steps(tx_op_times *times, tx__step_result *out, const tx__step_job *job)
{
    step_run run = { .job = job };
    tx_status st;
    TX_GOTO(tx__step_config(&run.cfg, job));
    TX_GOTO(tx_alloc(&run.rank, (size_t)job->n_ranks, sizeof *run.rank, "ranks that measure"));
    TX_GOTO(tx_world_threads(job->n_ranks, run_rank, &run));
    TX_GOTO(take_results(times, out, &run));
out:
    for (int i = 0; run.rank && i < job->n_ranks; i++) tx_profile_free(&run.rank[i].profile);
    tx_free(run.rank);
    tx_config_free(run.cfg);
    return st;
}
