/* mpi_output.h - filters what mpirun and srun write to standard error.
 *
 * Lines of the ranks are passed on at once. What the starters themselves report about a failed rank is parsed and left
 * out, so that the rank's own message is the last one. */
#ifndef TX_LAUNCH_MPI_OUTPUT_H
#define TX_LAUNCH_MPI_OUTPUT_H

#include "base/str.h"

typedef struct tx_mpi_output {
    tx_str held;    /* a line that may begin a paragraph, or a paragraph that has begun */
    int in_block;   /* after a paragraph's first line of dashes */
    int rank;       /* the rank that a signal ended, ... */
    int signal;     /* ... the signal (0: there was none), ... */
    char host[256]; /* ... and its host */
    int code;       /* exit code of the first task that srun saw fail; 0: none */
    int started;    /* the daemons of all hosts have reported */
    int no_daemon;  /* a daemon could not be started */
    int no_start;   /* MPI_Init ended a rank */
    char lost[256]; /* a host whose daemon no longer answers; "": none */
} tx_mpi_output;

/* Appends to *out what is to be shown of these bytes. */
tx_status tx__mpi_output_feed(tx_mpi_output *o, tx_str *out, const char *bytes, size_t n);

/* At the end: appends what was held back. */
tx_status tx__mpi_output_end(tx_mpi_output *o, tx_str *out);
void tx__mpi_output_free(tx_mpi_output *o);

#endif
