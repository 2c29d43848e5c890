/* transport.h - what carries bytes between two ranks of different hosts: a table of functions, and no more than that.
 *
 *  It comes from a module that is loaded when it is needed (mpi_plugin/), because the binary interfaces of Open MPI and
 *  MPICH differ and a rank alone needs neither. The module uses nothing of triax. One thread calls it. */
#ifndef TX_COMM_TRANSPORT_H
#define TX_COMM_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

/* Tells modules of another build apart. */
#define TX_TRANSPORT_VERSION 2

/* A message under way; 0: none. */
typedef uint64_t tx__move;

/* Calls that can fail return 0, or another number, which `explain` puts into words. */
typedef struct tx__transport {
    int version, rank, size;
    int64_t largest_tag;
    char name[128]; /* "Open MPI v4.1.4" */
    char note[256]; /* what users are to know of how it was started; "" nothing */

    /* Messages of one (channel, tag) between two ranks arrive in the order they were sent. @channel 0 or 1 */
    int (*send)(tx__move *m, const void *data, size_t bytes, int to, int channel, int tag);
    int (*receive)(tx__move *m, void *data, size_t bytes, int from, int channel, int tag);

    /* Whether it has been done; then *m is 0, and *bytes is how many came (of a receive). Moves others on, too. */
    int (*test)(tx__move *m, int *done, size_t *bytes);

    void (*explain)(int error, char *text, size_t cap);
    void (*abort)(int exit_code); /* ends all ranks; does not return */
    void (*close)(void);          /* collective */

    /* For comparison, in bench/: the library's own sum of n floats, in place. */
    int (*all_reduce)(float *x, size_t n);
} tx__transport;

/* The module's one symbol. NULL, and why not in `why`. */
typedef const tx__transport *tx__transport_open(char *why, size_t cap);
#define TX_TRANSPORT_SYMBOL "tx_transport_open"

#endif
