/* rank_hello.c - what the tests of the launchers start in the place of triax (TX_LAUNCH_PROGRAM): each rank says where
 * it is and what it was given, then does what its flags say.
 *
 *      rank_hello COMMAND [--sleep SECONDS] [--fail RANK CODE] [--saves FILE]
 *
 *  --fail: that rank says so on standard error and exits with the code, the others sleep. --saves: on SIGUSR1 rank 0
 *  appends a line to FILE and all exit with 0. Started without MPI it is one rank. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    (void)number;
    asked = 1;
}

static const char *or_none(const char *text)
{
    return text ? text : "none";
}

static void save(const char *path, int rank)
{
    FILE *f = rank == 0 ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "saved\n");
    fclose(f);
}

int main(int argc, char **argv)
{
    int rank = 0, n = 1, sum = 0, fail_rank = -1, fail_code = 0;
    double seconds = 0;
    const char *saves = NULL;
    char host[256] = "", folder[4096] = "";
    bool mpi = getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--sleep") && i + 1 < argc) seconds = atof(argv[i + 1]);
        if (!strcmp(argv[i], "--fail") && i + 2 < argc) fail_rank = atoi(argv[i + 1]), fail_code = atoi(argv[i + 2]);
        if (!strcmp(argv[i], "--saves") && i + 1 < argc) saves = argv[i + 1];
    }
    if (saves) signal(SIGUSR1, on_signal);
    if (mpi) {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &n);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    gethostname(host, sizeof host - 1);
    if (!getcwd(folder, sizeof folder)) return 1;
    printf("rank %d of %d on %s local %s sum %d cwd %s OMP_NUM_THREADS %s OMP_PLACES %s HANDED %s DEVICES %s args",
           rank, n, host, or_none(getenv("OMPI_COMM_WORLD_LOCAL_RANK")), sum, folder,
           or_none(getenv("OMP_NUM_THREADS")), or_none(getenv("OMP_PLACES")), or_none(getenv("HANDED")),
           or_none(getenv("CUDA_VISIBLE_DEVICES")));
    for (int i = 1; i < argc; i++) printf(" [%s]", argv[i]);
    printf("\n");
    fflush(stdout);
    if (rank == fail_rank) {
        fprintf(stderr, "rank %d fails on purpose\n", rank);
        exit(fail_code);
    }
    for (double t = 0; t < seconds && !asked; t += 0.05) usleep(50000);
    if (asked) save(saves, rank);
    if (mpi) MPI_Finalize();
    return 0;
}
