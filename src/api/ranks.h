/* ranks.h - the ranks of a job: found, compared, shown, and ended together. */
#ifndef TX_API_RANKS_H
#define TX_API_RANKS_H

#include "config/config.h"
#include "parallel/grid.h"
#include "triax/run.h"

typedef struct tx_ranks {
    tx_world *world;
    tx_grid grid;
    FILE *log; /* --log-dir's */
} tx_ranks;

/* This process's world, as the launcher has started it, and the groups of the layout. Collective: all ranks have to
 * have been given the same options (TX_ERR_ARG names the first that differs). */
tx_status tx_ranks_open(tx_ranks *r, const tx_config *cfg);

/* `st` is what the job came to on this rank. With several ranks a failed one says why, once, and ends the job: its
 * processes do not come back from here. */
tx_status tx_ranks_close(tx_ranks *r, tx_status st);

/* Which rank sits where, and on which GPU, line by line into the log. Collective.
 *  @threads what this rank's are   @d its GPU, or NULL */
tx_status tx_ranks_show(const tx_ranks *r, const char *threads, const tx_device *d);

#endif
