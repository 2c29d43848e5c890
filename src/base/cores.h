/* cores.h - the processor cores that are for this process, and the team of threads that works on them.
 *
 *  A core is physical: its hyperthreads are one core here. Which cores, in this order of restriction: the process's
 *  affinity mask (taskset, Slurm, a control group's cpuset); among processes that a launcher started side by side with
 *  the same mask (OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID, LOCAL_RANK), an even share each. A mask
 * that is not the whole machine is taken for a process's own share, unless it is the launcher's own mask
 * (TX_LAUNCHER_CPUS). */
#ifndef TX_BASE_CORES_H
#define TX_BASE_CORES_H

#include <stdbool.h>

#include "base/str.h"

enum { TX_CORE_PROCESSORS = 8 };

typedef struct tx_core {
    int processor[TX_CORE_PROCESSORS]; /* the kernel's numbers of its hyperthreads, as taskset takes them */
    int n_processors;
} tx_core;

typedef struct tx_cores {
    tx_core *core; /* owned; neighbours share a NUMA node and a package */
    int n;         /* at least 1 */
    int n_threads; /* suitable number: n, or fewer if a control group allows less processor time */
    bool shared;   /* the launcher's other processes have the other cores */
    bool crowded;  /* they are more than the cores: some of them have these, too */
} tx_cores;

/* The one of the launcher's processes on this machine that this is, and how many there are; n <= 1: unknown. */
typedef struct tx_local_rank {
    int rank, n;
} tx_local_rank;

tx_local_rank tx_local_rank_find(void);

/* Finds the cores. `mask`, for tests, is a list such as "0-3,8" in place of the process's own; NULL: its own.
 * cgroup_root: control_group.h. TX_ERR_NOTFOUND: hwloc cannot read the machine's topology. */
tx_status tx_cores_find(tx_cores *out, const char *mask, tx_local_rank local, const char *cgroup_root);
void tx_cores_free(tx_cores *c);

/* The processors that this process may run on, "0-55"; nothing if they are all of the machine's. */
tx_status tx_cores_mask(tx_str *out);

/* The share of one of several processes among n_cores cores: lo to hi - 1. If there are fewer cores than processes,
 * some share a core. */
void tx_cores_share(int *lo, int *hi, int n_cores, tx_local_rank local);

/* Whether to bind each of n threads to a core: there are enough cores, and no other program is likely to choose the
 * same, because all are used or a launcher has divided them. Processes that are more than the cores stay free: while
 * one waits, another takes its core, whichever that is. */
bool tx_cores_bind(const tx_cores *c, int n_threads);

/* For a thread that is one of several ranks of this process: binds it and the n_threads - 1 that it will compute with
 * to cores of their own, the rank's share, as processes of a launcher are. Where ranks have more threads than there are
 * cores, or the user has said where OpenMP's threads go, they stay free to move. TX_ERR_NOMEM. */
tx_status tx_cores_bind_team(tx_local_rank local, int n_threads);

/* The first n cores in the format of OMP_PLACES: "{0,4},{1,5}". */
tx_status tx_cores_places(tx_str *out, const tx_cores *c, int n);

/* The number of threads for a program that does not set it: what the environment sets for OpenMP (OMP_NUM_THREADS,
 * OMP_PLACES, ...) or the caller (omp_set_num_threads), else one a core. TX_ERR_NOMEM. */
tx_status tx_default_threads(int *out);

/* For a background thread: from now on it may run on any of the team's cores (otherwise it is bound to that of the
 * thread that created it), with the processor time that the team leaves, or a tenth. */
void tx_thread_stand_back(void);

/* What is in effect, as in "2 threads on cores 0-1, node 0" or "2 threads, free to move among 2 processors". */
void tx_threads_describe(char *buf, size_t cap, int n_threads);

#endif
