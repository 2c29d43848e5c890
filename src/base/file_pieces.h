/* file_pieces.h - reads a stretch of a file piece by piece, and looks at each while the disk delivers the next ones.
 *
 *      readers   [read 0][look 0][read 4    ][look 4]        more of them than there are cores, since
 *                [read 1   ][look 1][read 5  ][look 5]       most of the time each waits for the disk:
 *                [read 2      ][look 2][read 6 ]             a few requests at once are what a disk
 *                [read 3        ][look 3][read 7 ]           needs for all of its bandwidth
 *
 * The bytes go through the system's cache and stay there, as far as memory is free, for whoever reads them next. Each
 * reader has one buffer of a piece, so the processor's caches still have it when it is looked at. */
#ifndef TX_BASE_FILE_PIECES_H
#define TX_BASE_FILE_PIECES_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_file_pieces {
    const char *path;
    uint64_t first, end; /* bytes [first, end) of the file, which has them */
    size_t piece;        /* bytes of a piece; the last one may have fewer */
    /* A piece of n bytes, which lie at `at` in the file. In any order, and in any thread. */
    void (*look)(void *user, const unsigned char *bytes, uint64_t at, size_t n);
    void *user;
} tx_file_pieces;

/* Returns when all pieces have been looked at. TX_ERR_IO: names the file and the reason, among which is that it has
 * become shorter; some pieces have not been looked at then. TX_ERR_NOTFOUND, TX_ERR_NOMEM. */
tx_status tx_file_pieces_read(const tx_file_pieces *p);

#endif
