/* gpu_all_reduce.c - all-reduce of floats between the GPUs of this machine, in place: by NCCL or RCCL, and by way of
 * the host with TX_GPU_COMM=staged. Median of several, and what each GPU's link carries then, 2 (n - 1) / n of the
 * bytes.
 *
 *      gpu_all_reduce GPUS [MIB, 64] [RUNS, 9]
 *
 *  A rank is a thread with a GPU of its own. `make bench` in the build folder builds it. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "comm/comm.h"

enum { MAX_RUNS = 99 };

typedef struct sizes {
    int n_gpus, runs;
    int64_t n;
} sizes;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static tx_status run(tx_world *w, void *user)
{
    const sizes *z = user;
    tx_ctx c = { 0 };
    tx_comm *g = tx_world_comm(w);
    double seconds[MAX_RUNS];
    float *x = NULL;
    tx_status st;
    TX_TRY(tx_ctx_init_on(&c, "gpu", 1, tx_world_rank(w)));
    c.dry = false;
    TX_GOTO(tx_world_use_device(w, c.device));
    TX_GOTO(tx_device_take(c.device, &x, (size_t)z->n * sizeof *x, false, "what is summed"));
    for (int i = -2; i < z->runs; i++) {
        TX_GOTO(tx_comm_barrier(g));
        double start = tx_clock();
        TX_GOTO(tx_all_reduce(&c, g, tx_tensor1(x, TX_F32, z->n), TX_SUM));
        TX_GOTO(tx_device_sync(c.device, TX_STREAM_COMPUTE));
        if (i >= 0) seconds[i] = tx_clock() - start;
    }
    qsort(seconds, (size_t)z->runs, sizeof *seconds, by_size);
    double s = seconds[z->runs / 2], bytes = (double)z->n * sizeof *x;
    if (!tx_world_rank(w))
        printf("all_reduce of %.0f MiB between %d GPUs, %s %9.3f ms  %7.1f GB/s\n", bytes / 0x1p20, z->n_gpus,
               tx_comm_has_team(g) ? "among themselves" : "by way of the host", 1e3 * s,
               2e-9 * (z->n_gpus - 1) / z->n_gpus * bytes / s);
    TX_GOTO(tx_comm_barrier(g));
out:
    tx_device_dismiss(c.device);
    tx_device_give(c.device, x);
    tx_ctx_deinit(&c);
    return st;
}

int main(int argc, char **argv)
{
    sizes z = { argc > 1 ? atoi(argv[1]) : 0, argc > 3 ? atoi(argv[3]) : 9, (argc > 2 ? atoll(argv[2]) : 64) << 18 };
    if (z.n_gpus < 2 || z.runs < 1 || z.runs > MAX_RUNS || z.n < 1) {
        fprintf(stderr, "usage: %s GPUS [MIB, 64] [RUNS, 9], of two GPUs or more\n", argv[0]);
        return 2;
    }
    if (tx_world_threads(z.n_gpus, run, &z)) {
        fprintf(stderr, "gpu_all_reduce: %s\n", tx_last_error());
        return 1;
    }
    return 0;
}
