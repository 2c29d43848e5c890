/* shared.h - memory that other processes of this host can read and write in place.
 *
 *  Off, as it is until a world of several processes turns it on, this is tx_alloc. On, each block is an unnamed file in
 *  memory (memfd) that others open through /proc: a process that is killed leaves nothing, and the size
 *  of /dev/shm, 64 MB in many containers, is no limit.
 *
 *  Two processes find out whether they can share by trying: tx_shared_map fails where they cannot see each other. */
#ifndef TX_BASE_SHARED_H
#define TX_BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Whether later blocks are shared; those that exist stay what they are. */
void tx_shared_enable(bool on);

/* `bytes` of memory, zeroed, 64-byte aligned, into *out (a pointer to any pointer type), shared where that is on.
 * TX_ERR_NOMEM names `what`. */
tx_status tx_shared_alloc(void *out, size_t bytes, const char *what);

/* Frees memory from tx_shared_alloc; NULL allowed. Other processes must not use it any more: they would read zeros. */
void tx_shared_free(void *p);

/* Where a piece of shared memory is found by another process. */
typedef struct tx_shared_place {
    uint64_t pid, fd, key; /* key: a number by which it is known to be the same memory */
    uint64_t bytes;        /* of the block */
    uint64_t offset;       /* of the piece in it */
} tx_shared_place;

/* False: [p, p + bytes) is not inside one shared block. */
bool tx_shared_find(tx_shared_place *out, const void *p, size_t bytes);

/* The address of another process's piece (or one's own) here, mapped on first use and kept as long as its owner keeps
 * it. TX_ERR_NOTFOUND: this process cannot reach it. */
tx_status tx_shared_map(void *out, const tx_shared_place *place);

#endif
