/* signals.h - noticing a signal without dying of it: jobs ask between steps. */
#ifndef TX_BASE_SIGNALS_H
#define TX_BASE_SIGNALS_H

#include <stdbool.h>

/* From now on SIGTERM, and SIGUSR1 (which is what mpirun can hand to its ranks, and Slurm sends as a warning with
 * --signal=USR1@120), only set a flag. Process-wide. */
void tx_signals_watch(void);

bool tx_signals_seen(void);

/* "SIGTERM": the last one seen; "" when none was. Static. */
const char *tx_signals_name(void);

/* SIGTERM, SIGINT and SIGHUP: the first one sets the flag and ends a read that waits, a second one is as before. For a
 * job that removes its unfinished files. What is ignored stays so. Process-wide; the flag is cleared at the start, and
 * tx_signals_release puts things back. */
void tx_signals_hold(void);
void tx_signals_release(void);

#endif
