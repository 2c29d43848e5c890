/* world.h - the ranks of a job: processes that a launcher (mpirun, srun, triax torchrun) has started, or threads.
 *
 *      static tx_status rank_of(tx_world *world, void *user)      // a training on each of 4 threads
 *      {
 *          ... tx_engine_initialize(&e, &(tx_engine_args){ .size = sizeof(tx_engine_args), .world = world, ... }) ...
 *      }
 *      tx_world_threads(4, rank_of, user);
 *
 *  A rank uses its world in one thread. Collective calls are made by all ranks, in the same order. When one fails, the
 * ranks may no longer be in step: what is left to do is to say why and to end the job. */
#ifndef TRIAX_WORLD_H
#define TRIAX_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tx_world tx_world;

/* A rank's place on the axes of parallelism, as the user's own program counts them (Megatron's mpu). How many ranks
 * there are along each axis is what the options say. */
typedef struct tx_rank_place {
    size_t size; /* sizeof(tx_rank_place) */
    int tensor, pipeline, data;
} tx_rank_place;

/* Runs fn(world, user) on n threads, rank i on the i-th, and comes back when all have. The status and message are those
 * of the first rank that failed of itself; a rank that fails ends the others' calls. */
typedef tx_status tx_rank_fn(tx_world *world, void *user);
TX_API tx_status tx_world_threads(int n, tx_rank_fn *fn, void *user);

/* This process as a rank of the MPI job that a launcher has started it in, or alone when no launcher has. Loads the
 * plug-in for MPI only for more than one rank. Collective. TX_ERR_COMM when MPI counts other ranks than the launcher
 * says it started (a job of N times one rank); TX_ERR_NOTFOUND when the plug-in cannot be loaded, with the reason.
 * MPI can be started once in a process.   @shared_memory false: processes of one host are treated as those of several
 */
TX_API tx_status tx_world_open(tx_world **out, bool shared_memory);
TX_API void tx_world_close(tx_world *w); /* NULL allowed; collective, unless the job has been aborted */

TX_API int tx_world_rank(const tx_world *w);
TX_API int tx_world_size(const tx_world *w);

/* Ends the job: for a rank that cannot go on and has said why. Other ranks' calls return TX_ERR_COMM; under MPI the
 * launcher ends their processes, and this one does not come back. Threads: comes back.
 * `why` goes into the others' message. */
TX_API void tx_world_abort(tx_world *w, const char *why);

#ifdef __cplusplus
}
#endif
#endif
