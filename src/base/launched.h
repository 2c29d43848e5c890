/* launched.h - the rank and number of processes, from the launcher that started them. */
#ifndef TX_BASE_LAUNCHED_H
#define TX_BASE_LAUNCHED_H

typedef struct tx_launched {
    int rank, size;          /* among all; size 1: not started by a launcher */
    int local_rank, n_local; /* among those of this host; n_local 1: unknown */
    const char *by;          /* "Open MPI's mpirun"; NULL: no launcher */
    int lone; /* > 1: one of this many tasks that srun started without a PMI by which they could find each other */
} tx_launched;

/* Reads the environment: Open MPI (OMPI_COMM_WORLD_*), MPICH's hydra and similar (PMI_*, MPI_LOCAL*), Slurm (including
 * Cray's) if a step's tasks have a PMI (PMIX_RANK or PMI_*). The shell of a Slurm job has SLURM_NTASKS, too, but is
 * not a rank. */
tx_launched tx_launched_find(void);

#endif
