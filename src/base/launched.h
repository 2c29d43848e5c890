/* launched.h - the rank and number of processes, from the launcher that started them. */
#ifndef TX_BASE_LAUNCHED_H
#define TX_BASE_LAUNCHED_H

typedef struct tx_launched {
    int rank, size;          /* among all; size 1: not started by a launcher */
    int local_rank, n_local; /* among those of this host; n_local 1: unknown */
    const char *by;          /* "Open MPI's mpirun"; NULL: no launcher */
    int lone; /* > 1: one of so many tasks that srun has started without anything to find each other by */
} tx_launched;

/* From the environment: Open MPI (OMPI_COMM_WORLD_*), MPICH's hydra and its kin (PMI_*, MPI_LOCAL*), Slurm (Cray's,
 * too) where a step's tasks were given a PMI (PMIX_RANK or PMI_*). The shell of a Slurm job knows SLURM_NTASKS, too,
 * and is no rank.
 */
tx_launched tx_launched_find(void);

#endif
