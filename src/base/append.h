/* append.h - a file that grows while a run keeps running. What was put is handed to the system at once, so that a
 * reader sees it and a kill loses nothing. */
#ifndef TX_BASE_APPEND_H
#define TX_BASE_APPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_append {
    char *path; /* owned; NULL: closed */
    int fd;
    uint64_t n_put; /* bytes so far */
    size_t n_torn;  /* bytes at the end left by a failed put */
} tx_append;

/* Opens the file for appending, or creates it. With `fresh`, an existing file is TX_ERR_STATE. */
tx_status tx_append_open(tx_append *a, const char *path, bool fresh);

/* Appends all of the bytes, or on failure none: a part that was written is cut off again, so that a later put follows
 * the last whole one. If that cut fails, later puts try it again first, and fail if it fails. */
tx_status tx_append_put(tx_append *a, const void *bytes, size_t n);

/* Cuts off what follows the last newline: a line that a killed process did not finish. */
tx_status tx_append_cut_half_line(tx_append *a);

void tx_append_close(tx_append *a); /* a zeroed or closed one is fine */

#endif
