/* measure_calls.c - times calls on a group of ranks of this host: all begin together, and the slowest counts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "comm/comm.h"
#include "predict/measure.h"

enum { LEAST_CALLS = 7, MOST_CALLS = 2000, FIRST_CALLS = 2 }; /* the first ones touch memory */
enum { MOST_RANKS = 64 };

/* Types whose sums a step makes. */
static const tx_dtype dtypes[] = { TX_F32, TX_BF16 };
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* A rank's. */
typedef struct call_rank {
    tx_ctx ctx;
    tx_comm *group;
    char *x; /* the largest tensor */
} call_rank;

typedef struct call_run {
    const tx__call_job *job;
    double *seconds; /* [N_DTYPES, n_bytes, TX_N_COMM_OPS]; rank 0 writes them */
} call_run;

/* ---- a call ---- */

static tx_tensor part_of(tx_tensor x, int n, int i)
{
    return tx_tensor1((char *)x.data + (size_t)(i * (x.dim[0] / n)) * tx_dtype_size(x.dtype), x.dtype, x.dim[0] / n);
}

/* Ranks with an even number send to the next one. */
static tx_status send(call_rank *r, tx_tensor x)
{
    int rank = tx_comm_rank(r->group);
    tx_request request = { 0 };
    if (rank % 2) return tx_recv(&r->ctx, r->group, x, rank - 1, 0);
    TX_TRY(tx_send_start(&r->ctx, r->group, x, rank + 1, 0, &request));
    return tx_wait(&r->ctx, &request);
}

/* Each rank has its part of the tensor, and as much of that for each rank. */
static tx_status all_to_all(call_rank *r, tx_tensor x)
{
    int64_t each[MOST_RANKS];
    int n = tx_comm_size(r->group);
    for (int i = 0; i < n; i++) each[i] = x.dim[0] / n / n;
    tx_all_to_all_rows rows = { each, each, each[0] * n * n };
    return tx_all_to_all(&r->ctx, r->group, part_of(x, n, 1), part_of(x, n, 0), &rows);
}

static tx_status call(call_rank *r, tx_comm_op op, tx_tensor x)
{
    tx_tensor mine = part_of(x, tx_comm_size(r->group), tx_comm_rank(r->group));
    switch (op) {
    case TX_COMM_ALL_REDUCE:
        return tx_all_reduce(&r->ctx, r->group, x, TX_SUM);
    case TX_COMM_REDUCE_SCATTER:
        return tx_reduce_scatter(&r->ctx, r->group, mine, x);
    case TX_COMM_ALL_GATHER:
        return tx_all_gather(&r->ctx, r->group, x, mine);
    case TX_COMM_BROADCAST:
        return tx_broadcast(&r->ctx, r->group, x, 0);
    case TX_COMM_SEND:
        return send(r, x);
    case TX_COMM_ALL_TO_ALL:
        return all_to_all(r, x);
    case TX_N_COMM_OPS:
        break;
    }
    return TX_OK;
}

/* The slowest rank's time, on all. */
static tx_status timed_call(call_rank *r, tx_comm_op op, tx_tensor x, double *seconds)
{
    TX_TRY(tx_comm_barrier(r->group));
    double start = tx_clock();
    TX_TRY(call(r, op, x));
    TX_TRY(tx_device_sync(r->ctx.device, TX_STREAM_COMPUTE));
    *seconds = tx_clock() - start;
    return tx_all_reduce(NULL, r->group, tx_tensor1(seconds, TX_F64, 1), TX_MAX);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median of as many calls as go into the time; all ranks count the same seconds. */
static tx_status time_calls(call_rank *r, tx_comm_op op, tx_tensor x, double most_seconds, double *out)
{
    double all[MOST_CALLS], one, sum = 0;
    int n = 0;
    for (int i = 0; i < FIRST_CALLS; i++) TX_TRY(timed_call(r, op, x, &one));
    for (; n < LEAST_CALLS || (n < MOST_CALLS && sum < most_seconds); n++) {
        TX_TRY(timed_call(r, op, x, &all[n]));
        sum += all[n];
    }
    qsort(all, (size_t)n, sizeof *all, by_size);
    *out = all[n / 2];
    return TX_OK;
}

/* ---- a rank ---- */

static tx_status open_rank(call_rank *r, tx_world *w, const call_run *run)
{
    const tx__call_job *job = run->job;
    double most = 0;
    r->group = tx_world_comm(w);
    for (int i = 0; i < job->n_bytes; i++) most = fmax(most, job->bytes[i]);
    TX_TRY(tx_cores_bind_team((tx_local_rank){ tx_world_rank(w), job->n_ranks }, job->n_threads));
    TX_TRY(tx_ctx_init_on(&r->ctx, job->device, job->n_threads, tx_world_rank(w)));
    TX_TRY(tx_ctx_take_memory(&r->ctx));
    TX_TRY(tx_world_use_device(w, r->ctx.device));
    return tx_device_take(r->ctx.device, &r->x, (size_t)most, true, "tensors to send");
}

static tx_status run_calls(call_rank *r, const call_run *run)
{
    const tx__call_job *job = run->job;
    double *to = run->seconds, seconds;
    for (int t = 0; t < N_DTYPES; t++)
        for (int i = 0; i < job->n_bytes; i++)
            for (int op = 0; op < TX_N_COMM_OPS; op++) {
                int64_t n = (int64_t)(job->bytes[i] / (double)tx_dtype_size(dtypes[t]));
                TX_TRY(time_calls(r, (tx_comm_op)op, tx_tensor1(r->x, dtypes[t], n), job->seconds, &seconds));
                if (tx_comm_rank(r->group) == 0) *to++ = seconds;
            }
    return TX_OK;
}

static tx_status run_rank(tx_world *w, void *user)
{
    call_rank r = { 0 };
    tx_status st = open_rank(&r, w, user);
    if (!st) st = run_calls(&r, user);
    tx_device_give(r.ctx.device, r.x);
    if (!st) st = tx_world_use_device(w, NULL);
    tx_ctx_deinit(&r.ctx);
    return st;
}

/* ---- all of them ---- */

static tx_status append(tx_machine *m, const call_run *run)
{
    const tx__call_job *job = run->job;
    const double *seconds = run->seconds;
    int n = N_DTYPES * job->n_bytes * TX_N_COMM_OPS;
    TX_TRY(tx_realloc(&m->op, (size_t)(m->n_ops + n), sizeof *m->op, "measured ops"));
    for (int t = 0; t < N_DTYPES; t++)
        for (int i = 0; i < job->n_bytes; i++)
            for (int op = 0; op < TX_N_COMM_OPS; op++) {
                tx_measured_op *to = &m->op[m->n_ops++];
                *to = (tx_measured_op){ .dtype = dtypes[t], .size = job->bytes[i], .ranks = job->n_ranks };
                to->per_s = job->bytes[i] / fmax(*seconds++, 1e-9);
                snprintf(to->op, sizeof to->op, "%s", tx_comm_op_names[op]);
            }
    return TX_OK;
}

tx_status tx__measure_calls(tx_machine *m, const tx__call_job *job)
{
    call_run run = { .job = job };
    TX_ASSERT(job->n_ranks % 2 == 0 && job->n_ranks <= MOST_RANKS);
    TX_TRY(tx_alloc(&run.seconds, (size_t)(N_DTYPES * job->n_bytes * TX_N_COMM_OPS), sizeof *run.seconds,
                    "times of calls"));
    tx_status st = tx_world_threads(job->n_ranks, run_rank, &run);
    if (!st) st = append(m, &run);
    tx_free(run.seconds);
    return st;
}

/* ---- an empty call ---- */

enum { N_BARRIERS = 2000 };

static tx_status run_barriers(tx_world *w, void *user)
{
    tx_comm *all = tx_world_comm(w);
    TX_TRY(tx_cores_bind_team((tx_local_rank){ tx_comm_rank(all), tx_comm_size(all) }, 1));
    TX_TRY(tx_comm_barrier(all));
    double start = tx_clock();
    for (int i = 0; i < N_BARRIERS; i++) TX_TRY(tx_comm_barrier(all));
    if (tx_comm_rank(all) == 0) *(double *)user = (tx_clock() - start) / N_BARRIERS;
    return TX_OK;
}

tx_status tx__measure_barrier(double *seconds, int n_ranks)
{
    return tx_world_threads(n_ranks, run_barriers, seconds);
}
