/* mapped_file.h - memory that is a scratch file (scratch_file.h): the kernel reads a page when it is touched, and
 * writes those that are settled while the process goes on. What is not touched takes no memory of the process; the
 * kernel may keep pages in its cache while memory is free. A disk that fails ends the process with SIGBUS. */
#ifndef TX_BASE_MAPPED_FILE_H
#define TX_BASE_MAPPED_FILE_H

#include <stddef.h>

#include "base/scratch_file.h"

typedef struct tx_mapped_file {
    tx_scratch_file file;
    unsigned char *base; /* NULL: there is none */
    size_t bytes;
} tx_mapped_file;

/* All zeros; its name in `dir` is of no account. `bytes` may be 0. TX_ERR_IO as tx_scratch_open; TX_ERR_NOMEM: no
 * addresses are left. TX_AIO_IN_MEMORY=1 allows a folder in memory, for tests. */
tx_status tx_mapped_file_open(tx_mapped_file *out, const char *dir, size_t bytes);

/* The process needs [p, p + n) no longer for now: whole pages in it leave its memory, and are written if they have
 * changed. The content stays. */
void tx_mapped_file_settle(const tx_mapped_file *f, const void *p, size_t n);

/* It will be read soon: the kernel may begin to. */
void tx_mapped_file_expect(const tx_mapped_file *f, const void *p, size_t n);

void tx_mapped_file_close(tx_mapped_file *f); /* safe on a zeroed one */

#endif
