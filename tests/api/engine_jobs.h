/* engine_jobs.h - a job of engines: ranks that are threads train STEPS iterations of a layout, whose losses are
 * compared with another's. What a rank does is the test's: rank_of. */
#ifndef TX_TESTS_ENGINE_JOBS_H
#define TX_TESTS_ENGINE_JOBS_H

#include "support.h"

#include <omp.h>

#include "triax/engine.h"

enum { STEPS = 6 };

typedef struct job {
    int n, tp, pp;
    const char *flags, *load, *save;
    int until;                               /* 0: STEPS */
    double loss[STEPS], norm[STEPS], scored; /* of rank 0, as the next one */
    int64_t micro_steps;
    int fails_at;                 /* iteration in which rank 1 has no data; 0: none */
    const tx_client_model *model; /* NULL: the test's usual one */
    int turned;                   /* 1: ranks have places of their own, in another order; 2: two have the same;
                                   * 3: places of no size */
} job;

static inline tx_status rank_of(tx_world *world, void *user); /* user: the job, which all ranks share */

static inline job run(job j)
{
    j.until = j.until ? j.until : STEPS;
    tx_status st = tx_world_threads(j.n, rank_of, &j);
    if (st) fail_msg("%d ranks, %d x %d, %s: %s", j.n, j.tp, j.pp, j.flags, tx_last_error());
    return j;
}

/* From iteration `from` on. */
static inline void same(const job *a, const job *b, int from, double bound)
{
    for (int i = from; i < STEPS; i++) {
        ASSERT_NEAR(a->loss[i], b->loss[i], bound * b->loss[i], a->flags);
        ASSERT_NEAR(a->norm[i], b->norm[i], 20 * bound * b->norm[i], a->flags);
    }
    ASSERT_NEAR(a->scored, b->scored, bound * b->scored, a->flags);
}

#endif
