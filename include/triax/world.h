/* world.h - the ranks of a job: processes started by a launcher (mpirun, srun, triax torchrun), or threads.
 *
 *      static tx_status rank_of(tx_world *world, void *user)      // trains on each of 4 threads
 *      {
 *          ... tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .world = world, ... }) ...
 *      }
 *      tx_world_threads(4, rank_of, user);
 *
 * A rank uses its world from one thread. All ranks make the collective calls, in the same order. After a collective
 * call has failed, the ranks may be out of step: report the error and end the job. */
#ifndef TRIAX_WORLD_H
#define TRIAX_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_world tx_world;

/* A rank's coordinates on the axes of parallelism, as the user's own program assigns them (Megatron's mpu). The
 * options give the size of each axis. */
typedef struct tx_rank_place {
    size_t size; /* sizeof(tx_rank_place) */
    int tensor, pipeline, data;
    int context; /* which part of each sample's positions it has */
} tx_rank_place;

/* Runs fn(world, user) on n threads, one per rank, and returns when all have returned. Returns the status and message
 * of the rank that failed first by itself. When a rank fails, the pending calls of the others end too. */
typedef tx_status tx_rank_fn(tx_world *world, void *user);
TX_API tx_status tx_world_threads(int n, tx_rank_fn *fn, void *user);

/* Opens the MPI job in which a launcher started this process, or a world of one rank if no launcher did. Loads the MPI
 * plug-in only if there is more than one rank. MPI can be started only once in a process. Collective.
 * TX_ERR_COMM: MPI counts a different number of ranks than the launcher started (such as N jobs of one rank each).
 * TX_ERR_NOTFOUND: the plug-in cannot be loaded; the message has the reason.
 * @shared_memory false: processes on one host are treated as if they were on several */
TX_API tx_status tx_world_open(tx_world **out, bool shared_memory);
TX_API void tx_world_close(tx_world *w); /* NULL allowed; collective, unless the job has been aborted */

TX_API int tx_world_rank(const tx_world *w);
TX_API int tx_world_size(const tx_world *w);

/* Ends the job, for a rank that cannot continue and has reported why. Calls of the other ranks return TX_ERR_COMM.
 * Under MPI the launcher ends their processes, and this call does not return; with threads it returns.
 * @why becomes part of the other ranks' message */
TX_API void tx_world_abort(tx_world *w, const char *why);

#ifdef __cplusplus
}
#endif
#endif
