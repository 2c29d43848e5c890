/* transport.h - a table of functions that move bytes between two ranks of different hosts.
 *
 * It comes from a module that is loaded on demand (mpi_plugin/), because the ABIs of Open MPI and MPICH differ, and a
 * single rank needs neither. The module uses nothing from triax. One thread calls it. */
#ifndef TX_COMM_TRANSPORT_H
#define TX_COMM_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

/* Distinguishes modules of another build. */
#define TX_TRANSPORT_VERSION 2

/* A message in progress; 0: none. */
typedef uint64_t tx__move;

/* Calls that can fail return 0, or an error number, which `explain` turns into text. */
typedef struct tx__transport {
    int version, rank, size;
    int64_t largest_tag;
    char name[128]; /* "Open MPI v4.1.4" */
    char note[256]; /* a note for users about how MPI was started; "": none */

    /* Messages of one (channel, tag) between two ranks arrive in the order they were sent. @channel 0 or 1 */
    int (*send)(tx__move *m, const void *data, size_t bytes, int to, int channel, int tag);
    int (*receive)(tx__move *m, void *data, size_t bytes, int from, int channel, int tag);

    /* Whether the message is finished; *m is then 0, and *bytes is the number of bytes received (for a receive). Also
     * advances other messages. */
    int (*test)(tx__move *m, int *done, size_t *bytes);

    void (*explain)(int error, char *text, size_t cap);
    void (*abort)(int exit_code); /* ends all ranks; does not return */
    void (*close)(void);          /* collective */

    /* For comparison, in bench/: the library's own sum of n floats, in place. */
    int (*all_reduce)(float *x, size_t n);
} tx__transport;

/* The module's only symbol. NULL on failure, with the reason in `why`. */
typedef const tx__transport *tx__transport_open(char *why, size_t cap);
#define TX_TRANSPORT_SYMBOL "tx_transport_open"

#endif
