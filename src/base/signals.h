/* signals.h - catches signals that ask a job to stop; jobs check for them between steps. Ignored signals stay ignored.
 * Process-wide. */
#ifndef TX_BASE_SIGNALS_H
#define TX_BASE_SIGNALS_H

#include <stdbool.h>

/* Whether a signal has arrived since this process's jobs began to hold or watch them. */
bool tx_signals_seen(void);

/* The name of the first signal, "SIGTERM"; "" if there was none. Static. */
const char *tx_signals_name(void);

/* ---- a job that removes its unfinished files, a server ---- */

/* Catches SIGTERM, SIGINT and SIGHUP: the first one sets the flag and ends a blocking read; a second one has its usual
 * effect. With `warning` also SIGUSR1, any number of times. Clears the flag at the start; tx_signals_release restores
 * everything. */
void tx_signals_hold(bool warning);
void tx_signals_release(void);

/* ---- a training run ----
 *
 *            tx_signals_watch            tx_signals_take          tx_signals_unwatch
 *  as before | the first one ends the    | the first one is noted | as before
 *            | process                   | a second one ends it   |
 *
 *  These are SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGPIPE, where nobody else handles them. SIGUSR1 (which is what
 * mpirun can hand to its ranks, and Slurm sends as a warning with --signal=USR1@120) and SIGPIPE (a terminal's Ctrl-C
 * has ended the `tee` that reads the log) may come again and again: they are never the second one. What the first one
 * means is said at once in the log, as a warning "SIGINT: <text>", by a thread that waits for it.
 */

typedef struct tx_signal_watch {
    bool speaks;      /* this process logs what a signal means */
    bool several;     /* it is one of several ranks: a launcher may forward what the terminal has already sent to all
                       * of them, so signals within a second of the first one count as the same */
    bool silent_term; /* SIGTERM is not explained: mpirun also ends ranks with it when one of them has failed */
} tx_signal_watch;

/* Calls nest: only the first one and the last tx_signals_unwatch have an effect. @text static: the rest of the log
 * line's sentence */
void tx_signals_watch(const tx_signal_watch *w, const char *text);
void tx_signals_take(const char *text); /* without effect where nobody watches */
void tx_signals_unwatch(void);

#endif
