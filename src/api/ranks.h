/* ranks.h - the ranks of a job: found, compared, shown, and ended together. */
#ifndef TX_API_RANKS_H
#define TX_API_RANKS_H

#include "config/config.h"
#include "parallel/grid.h"
#include "triax/jobs.h"

typedef struct tx_ranks {
    tx_world *world;
    bool owned; /* the world is closed with it */
    tx_grid grid;
    FILE *log; /* --log-dir's */
} tx_ranks;

/* A world: the caller's, or NULL for this process's as the launcher has started it, which then also has the log's lines
 * marked by rank. Collective: all ranks have to have been given the same options (TX_ERR_ARG names the first that
 * differs). */
tx_status tx_ranks_join(tx_ranks *r, const tx_config *cfg, tx_world *world);

/* The same, and the groups of the layout in it.   @place a client's, or NULL */
tx_status tx_ranks_open(tx_ranks *r, const tx_config *cfg, tx_world *world, const tx_rank_place *place);

/* `st` is what the job came to on this rank. With several ranks in a world that was opened here a failed one says why,
 * once, and ends the job: its processes do not come back from here. */
tx_status tx_ranks_close(tx_ranks *r, tx_status st);

/* The same without a word; collective where they are in step. If not, MPI is left as it is, so that its launcher sees a
 * process that ends without goodbye and ends the others. */
void tx_ranks_leave(tx_ranks *r, bool in_step);

/* Which rank sits where, and on which GPU, line by line into the log. Collective.
 *  @threads what this rank's are   @d its GPU, or NULL */
tx_status tx_ranks_show(const tx_ranks *r, const char *threads, const tx_device *d);

#endif
