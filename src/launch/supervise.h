/* supervise.h - one child and the signals around it.
 *
 *  SIGTERM, SIGINT, SIGHUP:
 *    the first         of ranks that listen (tx__command_listens) SIGUSR1 to the child, which mpirun and srun hand to
 *                      every one; after `grace` seconds SIGTERM, ten seconds later SIGKILL to its process group. Of
 *                      others SIGTERM now, three seconds later SIGKILL
 *    a second one      SIGKILL to the ranks of this host, SIGTERM to their starter, three seconds later SIGKILL
 *    a third one       SIGKILL
 *  SIGUSR1             SIGUSR1 to the child, once each, and nothing else
 *  this process dies   the child is killed by the kernel
 *
 *  What the child leaves behind when it ends is ended as well. Process-wide: signals are blocked between open and
 * close. */
#ifndef TX_LAUNCH_SUPERVISE_H
#define TX_LAUNCH_SUPERVISE_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "launch/mpi_output.h"
#include "launch/starter.h"

typedef struct tx_supervisor {
    double grace;
    int signal_fd;
    sigset_t before;
    pid_t pid;               /* of the child; 0: none runs */
    const char *command;     /* what its ranks do */
    bool is_rank;            /* it is the one rank itself, ... */
    bool ranks_below;        /* ... or the ranks of this host are its children */
    int code;                /* of the last child: its exit code, or 128 + signal */
    bool leaves_daemons;     /* what the child leaves behind is meant to stay */
    bool only_counts;        /* signals to stop are only counted: somebody else decides about the child */
    int n_stops;             /* signals that asked to stop, so far */
    bool forced;             /* the child was not left to end by itself after a signal to stop */
    int stop_signal;         /* the first of them */
    double start_within;     /* seconds that mpirun has to start a daemon on every host; 0: any time */
    double start_by;         /* tx_clock; 0: not awaited */
    double term_at, kill_at; /* tx_clock; 0: not planned */
    int err_fd;              /* what mpirun writes to standard error; -1: not read */
    tx_mpi_output output;
} tx_supervisor;

enum { TX_SUPERVISOR_FDS = 2 };

tx_status tx__supervisor_open(tx_supervisor *s, double grace);
void tx__supervisor_close(tx_supervisor *s); /* kills a child that still runs; safe on a zeroed one */

/* Starts a child. `is_starter`: its standard error is read, and mpirun's and srun's own words are taken out. It reads
 * nothing: standard input is /dev/null. */
tx_status tx__supervisor_start(tx_supervisor *s, const tx_launch_command *what, bool is_starter);

/* Waits until something happens to the child, a signal, one of the caller's descriptors, or for so many seconds (< 0:
 * as long as it takes). fds[0 .. TX_SUPERVISOR_FDS-1] are the supervisor's, the caller's n follow. */
tx_status tx__supervisor_wait(tx_supervisor *s, struct pollfd *fds, int n, double seconds);

/* As if that signal to stop had come. */
void tx__supervisor_stop(tx_supervisor *s, int number);

/* Nobody's wish, but there is no going on: SIGTERM, and three seconds later SIGKILL. */
void tx__supervisor_end(tx_supervisor *s);

/* tx__supervisor_end, and waits for it. */
void tx__supervisor_finish(tx_supervisor *s);

/* Runs one child from its start to its end. */
tx_status tx__supervisor_run(tx_supervisor *s, const tx_launch_command *what, bool is_starter);

/* Says in the log how the child ended when no rank can have said it: killed by a signal, a host lost. */
void tx__supervisor_tell(const tx_supervisor *s);

/* The launcher's exit code: the child's, or 128 + the signal where the child died of our asking it to stop. */
int tx__supervisor_code(const tx_supervisor *s);

#endif
