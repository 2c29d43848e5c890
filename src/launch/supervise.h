/* supervise.h - runs one child process, and handles signals while it runs.
 *
 *  SIGTERM, SIGINT, SIGHUP:
 *    the first         if the ranks handle SIGUSR1 (tx__command_listens): SIGUSR1 to the child, which mpirun and srun
 *                      forward to every rank; after `grace` seconds SIGTERM, ten seconds later SIGKILL to its process
 *                      group. Otherwise SIGTERM at once, three seconds later SIGKILL
 *    a second one      SIGKILL to the ranks of this host, SIGTERM to their starter, three seconds later SIGKILL
 *    a third one       SIGKILL
 *  SIGUSR1             forwarded to the child, once each; nothing else happens
 *  this process dies   the child is killed by the kernel
 *
 *  Processes that the child leaves when it ends are ended as well. Signals are blocked in the whole process between
 * open and close. */
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
    const char *command;     /* the ranks' sub-command */
    bool is_rank;            /* the child is the only rank, ... */
    bool ranks_below;        /* ... or this host's ranks are its children */
    int code;                /* of the last child: its exit code, or 128 + signal */
    bool leaves_daemons;     /* processes that the child leaves are not ended */
    bool only_counts;        /* stop signals are only counted; the caller decides about the child */
    int n_stops;             /* stop signals so far */
    bool forced;             /* after a stop signal the child did not end by itself and was ended */
    int stop_signal;         /* the first stop signal */
    double start_within;     /* seconds within which mpirun must start a daemon on every host; 0: no limit */
    double start_by;         /* tx_clock; 0: not waited for */
    double term_at, kill_at; /* tx_clock; 0: not planned */
    int err_fd;              /* mpirun's standard error; -1: not read */
    tx_mpi_output output;
} tx_supervisor;

enum { TX_SUPERVISOR_FDS = 2 };

tx_status tx__supervisor_open(tx_supervisor *s, double grace);
void tx__supervisor_close(tx_supervisor *s); /* kills a child that still runs; safe on a zeroed one */

/* Starts a child, whose standard input is /dev/null. `is_starter`: its standard error is read, and mpirun's and srun's
 * own messages are removed. */
tx_status tx__supervisor_start(tx_supervisor *s, const tx_launch_command *what, bool is_starter);

/* Waits for the child, a signal, one of the caller's descriptors, or at most this many seconds (< 0: no limit). fds[0
 * .. TX_SUPERVISOR_FDS-1] are the supervisor's; the caller's n follow. */
tx_status tx__supervisor_wait(tx_supervisor *s, struct pollfd *fds, int n, double seconds);

/* Acts as if that stop signal had arrived. */
void tx__supervisor_stop(tx_supervisor *s, int number);

/* Ends a child that cannot continue, although nobody asked for it: SIGTERM, and three seconds later SIGKILL. */
void tx__supervisor_end(tx_supervisor *s);

/* tx__supervisor_end, and waits for it. */
void tx__supervisor_finish(tx_supervisor *s);

/* Runs one child from its start to its end. */
tx_status tx__supervisor_run(tx_supervisor *s, const tx_launch_command *what, bool is_starter);

/* Logs how the child ended if no rank can have reported it: killed by a signal, a lost host. */
void tx__supervisor_tell(const tx_supervisor *s);

/* The launcher's exit code: the child's, or 128 + the signal if the child died because it was asked to stop. */
int tx__supervisor_code(const tx_supervisor *s);

#endif
