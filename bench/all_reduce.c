/* all_reduce.c - all-reduce of floats: triax's next to MPI_Allreduce of the MPI that started the ranks, in one run, in
 * turns; median milliseconds and the ratio. On one host triax sums in place in shared memory. On several hosts with
 * several ranks each it goes host by host, and a third column has what it takes from each rank to each other. Of two
 * ranks of one host it is the sum alone: each adds its half of both buffers in place, between two barriers.
 *
 *      mpirun -n 2 all_reduce [REPETITIONS, 21] [MIB of the largest sum, 64] [MIB of the smallest, 0]
 *
 * MPI's buffer is ordinary memory. The slowest rank's time counts. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/shared.h"
#include "comm/comm.h"
#include "comm/plugin.h"
#include "comm/reduce.h"

enum { MAX_REPETITIONS = 1001 };

static void check(tx_status st)
{
    if (!st) return;
    fprintf(stderr, "all_reduce: %s\n", tx_last_error());
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct bench {
    tx_comm *g, *flat; /* flat NULL: it would do the same */
    float *both[2];    /* buffers of two ranks; NULL: there are more, or they cannot share memory */
    const tx__transport *mpi;
    float *shared, *private;
    double ours[MAX_REPETITIONS], theirs[MAX_REPETITIONS], from_each[MAX_REPETITIONS], alone[MAX_REPETITIONS];
} bench;

static double slowest(bench *b, double s)
{
    check(tx_all_reduce(NULL, b->g, tx_tensor1(&s, TX_F64, 1), TX_MAX));
    return s;
}

static double time_ours(bench *b, tx_comm *g, int64_t n)
{
    check(tx_comm_barrier(b->g));
    double t = tx_clock();
    check(tx_all_reduce(NULL, g, tx_tensor1(b->shared, TX_F32, n), TX_SUM));
    return slowest(b, tx_clock() - t);
}

static double time_theirs(bench *b, int64_t n)
{
    check(tx_comm_barrier(b->g));
    double t = tx_clock();
    if (b->mpi->all_reduce(b->private, (size_t)n)) exit(1);
    return slowest(b, tx_clock() - t);
}

/* Of two ranks on one host: what the sum takes where nobody says where anything is. */
static double time_sum(bench *b, int64_t n)
{
    void *const buffers[] = { b->both[0], b->both[1] };
    const tx__reduction sum = { buffers, 2, buffers, 2, TX_F32, TX_SUM, false, false };
    check(tx_comm_barrier(b->g));
    double t = tx_clock();
    tx__reduce(&sum, tx_comm_rank(b->g) * (n / 2), tx_comm_rank(b->g) ? n - n / 2 : n / 2);
    check(tx_comm_barrier(b->g));
    return slowest(b, tx_clock() - t);
}

static void find_both(bench *b, size_t bytes)
{
    tx_shared_place mine = { 0 }, all[2];
    int size = tx_comm_size(b->g), found = size == 2 && tx_shared_find(&mine, b->shared, bytes);
    check(tx_all_reduce(NULL, b->g, tx_tensor1(&found, TX_I32, 1), TX_MIN));
    if (!found) return;
    check(tx_comm_gather(b->g, all, &mine, sizeof mine));
    for (int i = 0; i < 2; i++) {
        bool own = i == tx_comm_rank(b->g);
        if (!own && tx_shared_map(&b->both[i], &all[i])) found = 0;
        if (own) b->both[i] = b->shared;
    }
    check(tx_all_reduce(NULL, b->g, tx_tensor1(&found, TX_I32, 1), TX_MIN));
    if (!found) b->both[0] = NULL;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return x[n / 2];
}

static void measure(bench *b, int64_t n, int repetitions)
{
    for (int i = -2; i < repetitions; i++) { /* two to warm up */
        double ours = time_ours(b, b->g, n), theirs = time_theirs(b, n), flat = b->flat ? time_ours(b, b->flat, n) : 0;
        double alone = b->both[0] ? time_sum(b, n) : 0;
        if (b->both[0]) (void)time_theirs(b, n); /* ours has the caches that the sum alone had, too */
        if (i < 0) continue;
        b->ours[i] = ours;
        b->theirs[i] = theirs;
        b->from_each[i] = flat;
        b->alone[i] = alone;
    }
    double ours = median(b->ours, repetitions), theirs = median(b->theirs, repetitions);
    double flat = median(b->from_each, repetitions), alone = median(b->alone, repetitions);
    if (tx_comm_rank(b->g)) return;
    printf("%8.3f MiB  triax %8.3f ms  %5.1f GB/s   MPI %8.3f ms  %5.1f GB/s   ratio %.2f", (double)n * 4 / 1048576,
           ours * 1e3, (double)n * 4e-9 / ours, theirs * 1e3, (double)n * 4e-9 / theirs, theirs / ours);
    if (b->flat) printf("   from each rank %8.3f ms   ratio %.2f", flat * 1e3, flat / ours);
    if (b->both[0]) printf("   the sum alone %8.3f ms   %3.0f %%", alone * 1e3, 100 * alone / ours);
    printf("\n");
    fflush(stdout);
}

static void open_flat(bench *b, tx_world *w)
{
    const tx_seat *last = tx_world_seat(w, tx_world_size(w) - 1);
    if (!last->host || last->host == tx_world_size(w) - 1) return;
    tx_world_by_hosts(w, false);
    check(tx_comm_split(&b->flat, b->g, 0, "flat"));
    if (!tx_world_rank(w)) printf("%d hosts: host by host, and from each rank to each other\n", last->host + 1);
}

int main(int argc, char **argv)
{
    static bench b;
    int repetitions = argc > 1 ? atoi(argv[1]) : 21;
    const int64_t most = (argc > 2 ? atoll(argv[2]) : 64) << 18, least = (argc > 3 ? atoll(argv[3]) : 0) << 18;
    tx_world *w;
    if (repetitions < 1 || repetitions > MAX_REPETITIONS || most < 1) {
        fprintf(stderr, "usage: mpirun -n 2 all_reduce [REPETITIONS, up to %d] [MIB] [MIB]\n", MAX_REPETITIONS);
        return 2;
    }
    check(tx_world_open(&w, true));
    if (tx_world_size(w) < 2) {
        fprintf(stderr, "all_reduce: start it as several ranks: mpirun -n 2 all_reduce\n");
        return 2;
    }
    check(tx__plugin_open(&b.mpi));
    b.g = tx_world_comm(w);
    check(tx_shared_alloc(&b.shared, (size_t)most * 4, "a benchmark"));
    check(tx_alloc(&b.private, (size_t)most, 4, "a benchmark"));
    if (!tx_world_rank(w)) printf("%d ranks, %s\n", tx_world_size(w), b.mpi->name);
    open_flat(&b, w);
    find_both(&b, (size_t)most * 4);
    static const int64_t sizes[] = { 1, 1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && sizes[i] <= most; i++)
        if (sizes[i] >= least) measure(&b, sizes[i], repetitions);
    tx_world_close(w);
    return 0;
}
