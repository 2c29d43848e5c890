/* crew.h - threads that stay together for a whole step of generation. A step is a hundred short calls, in each of which
 * a large matrix is read once; what counts is that memory is never idle. So for the step's length the context's threads
 * are one parallel region: the first runs the step's code, and the others take work from it. A thread that has nothing
 * to do asks for the matrix that comes next, which it knows from the step before:
 *
 *      thread 0   norm, attention ...   | its columns, from their first on ->          | norm ...
 *      thread 1   fetches its columns   | its columns ->   then from the end of thread 0's <-   | fetches of the next
 *
 *  Units of work are taken as they are reached, and every unit's numbers are the same whoever computes them. */
#ifndef TX_BACKEND_CPU_CREW_H
#define TX_BACKEND_CPU_CREW_H

#include "backend/backend.h"

typedef struct tx__crew tx__crew;

tx_status tx__crew_open(tx__crew **out, int n_threads);
void tx__crew_close(tx__crew *w); /* NULL allowed */

/* backend.h's `together`. */
tx_status tx__cpu_together(tx_ctx *c, tx_status (*run)(void *user), void *user);

/* The context's crew, if the caller is in its `together`; else NULL. */
tx__crew *tx__crew_of(const tx_ctx *c);

/* How many threads a parallel region of the caller's has: in `together`, where all threads are taken, one. A dry run of
 * it says the same, so that what it makes for so many threads fits the run. */
int tx__crew_threads(const tx_ctx *c);

/* Work on units 0 .. n, `step` of which are taken at once, at least one. */
typedef struct tx__crew_job {
    void (*unit)(const void *arg, int64_t first, int64_t end, int thread);
    const void *arg;
    int64_t n, step;
    /* what the units read, one after the other, the last of them perhaps less; it is still there in the next step.
     * NULL: nothing that is foreseen */
    const void *reads;
    size_t bytes, unit_bytes;
} tx__crew_job;

/* Returns when all is done. Up to 2^31 units. */
void tx__crew_share(tx__crew *w, const tx__crew_job *job);

#endif
