/* mpi_output.h - what mpirun and srun write to standard error: the ranks' own lines go on at once, the starters' own
 * about a failed rank become facts, so that the rank's own message stays the last one. */
#ifndef TX_LAUNCH_MPI_OUTPUT_H
#define TX_LAUNCH_MPI_OUTPUT_H

#include "base/str.h"

typedef struct tx_mpi_output {
    tx_str held;    /* a line that may begin a paragraph, or one that has begun */
    int in_block;   /* after a paragraph's first line of dashes */
    int rank;       /* that was ended by a signal: its number, ... */
    int signal;     /* ... the signal (0: none was), ... */
    char host[256]; /* ... and its host */
    int code;       /* of the first task that srun saw fail; 0: none */
    int started;    /* the daemons of all hosts have reported */
    int no_daemon;  /* one could not be started */
    int no_start;   /* MPI_Init has ended a rank */
    char lost[256]; /* a host whose daemon does not answer any more; "": none */
} tx_mpi_output;

/* Appends to *out what is to be shown of these bytes. */
tx_status tx__mpi_output_feed(tx_mpi_output *o, tx_str *out, const char *bytes, size_t n);

/* The same for what is still held, at the end. */
tx_status tx__mpi_output_end(tx_mpi_output *o, tx_str *out);
void tx__mpi_output_free(tx_mpi_output *o);

#endif
