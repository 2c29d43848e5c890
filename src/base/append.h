/* append.h - a file that grows during a run.
 *
 * Each put is written at once, so that a reader sees it and nothing is lost if the process is killed. */
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

/* Appends all of the bytes, or none on failure: a partial write is cut off again. If that fails, too, later puts fail
 * until they have cut it off. */
tx_status tx_append_put(tx_append *a, const void *bytes, size_t n);

/* Cuts off what follows the last newline: a line that a killed process did not finish. */
tx_status tx_append_cut_half_line(tx_append *a);

void tx_append_close(tx_append *a); /* a zeroed or closed one is fine */

#endif
