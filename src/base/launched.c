/* launched.c - launchers by the variables they set. */
#include "base/launched.h"

#include <stddef.h>
#include <stdlib.h>

static int number_of(const char *variable)
{
    const char *text = variable ? getenv(variable) : NULL;
    return text && *text ? atoi(text) : -1;
}

/* The first row whose first two variables are set counts. */
static const struct launcher {
    const char *by, *rank, *size, *local_rank, *n_local;
} launchers[] = {
    { "Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { "Slurm", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE" },
    { "mpiexec or srun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
};

/* Where only the place on this host is told, as torchrun does. */
static const char *const local_only[][2] = { { "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
                                             { "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE" },
                                             { "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE" },
                                             { "LOCAL_RANK", "LOCAL_WORLD_SIZE" } };

static void find_local(tx_launched *l, const char *rank, const char *n)
{
    int i = number_of(rank), of = number_of(n);
    if (l->n_local > 1 || i < 0 || of <= 1 || i >= of) return;
    l->local_rank = i;
    l->n_local = of;
}

tx_launched tx_launched_find(void)
{
    tx_launched l = { .size = 1, .n_local = 1 };
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0] && !l.by; i++) {
        int rank = number_of(launchers[i].rank), size = number_of(launchers[i].size);
        if (rank < 0 || size < 1 || rank >= size) continue;
        l.by = launchers[i].by;
        l.rank = rank;
        l.size = size;
        find_local(&l, launchers[i].local_rank, launchers[i].n_local);
    }
    for (size_t i = 0; i < sizeof local_only / sizeof local_only[0]; i++)
        find_local(&l, local_only[i][0], local_only[i][1]);
    int tasks = number_of("SLURM_STEP_NUM_TASKS");
    if (!l.by && tasks > 1 && number_of("SLURM_PROCID") >= 0) l.lone = tasks;
    return l;
}
