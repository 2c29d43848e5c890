/* shared.h - memory that other processes of this host can read and write in place.
 *
 *  Off, as it is until a world of several processes turns it on, this is tx_alloc. On, each block is an unnamed file in
 *  memory (memfd) that others open through /proc: a process that is killed leaves nothing, and the size
 *  of /dev/shm, 64 MB in many containers, is no limit.
 *
 * Processes find out whether they can share by trying: tx_shared_map fails if they cannot see each other. */
#ifndef TX_BASE_SHARED_H
#define TX_BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Turns sharing on or off for later blocks; existing ones do not change. */
void tx_shared_enable(bool on);

/* Allocates `bytes` of memory, zeroed and 64-byte aligned, into *out (a pointer to any pointer type); shared if
 * sharing is on. TX_ERR_NOMEM names `what`. */
tx_status tx_shared_alloc(void *out, size_t bytes, const char *what);

/* Frees memory from tx_shared_alloc; NULL allowed. Other processes must not use it any more: they would read zeros. */
void tx_shared_free(void *p);

/* Where another process finds a range of shared memory. */
typedef struct tx_shared_place {
    uint64_t pid, fd, key; /* key: a number by which it is known to be the same memory */
    uint64_t bytes;        /* of the block */
    uint64_t offset;       /* of the piece in it */
} tx_shared_place;

/* False: [p, p + bytes) is not inside one shared block. */
bool tx_shared_find(tx_shared_place *out, const void *p, size_t bytes);

/* Maps another process's range (or this one's own) and returns its address here. It is mapped on first use and kept as
 * long as its owner keeps it. TX_ERR_NOTFOUND: this process cannot access it. */
tx_status tx_shared_map(void *out, const tx_shared_place *place);

#endif
