/* aio.h - asynchronous reads and writes of one scratch file (scratch_file.h).
 *
 *      caller     start ------------ computes ------------ wait
 *                   |                                        ^
 *      requests   [======= n bytes =======] [=====] ...      |  in the order in which they were started
 *                   | cut into blocks                        |
 *      workers    [==] [==] [==] [==]  at most queue_depth each are submitted to the kernel
 *
 * Workers are threads, so requests make progress without calls. With io_uring each has a ring, and sleeps while the
 * disk works. Without io_uring (not built in, an old kernel, a container that forbids it) there are more threads
 * instead, each with one pread or pwrite at a time. Nothing else differs.
 *
 * Several threads may use one tx_aio at once, but only one thread at a time a request. Concurrent requests must not
 * touch the same bytes of the file unless all are reads: wait for a write before reading what it wrote. */
#ifndef TX_BASE_AIO_H
#define TX_BASE_AIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scratch_file.h"

/* Addresses, offsets and sizes are multiples of it. */
#define TX_AIO_ALIGN TX_DISK_BLOCK

/* As in DeepSpeed's section "aio". */
typedef struct tx_aio_options {
    size_t block_size;   /* bytes of one request to the kernel: a multiple of 4096, at most 1 GiB */
    int queue_depth;     /* requests submitted at once, for each of... */
    int n_threads;       /* "intra_op_parallelism" */
    bool single_submit;  /* submit each by itself, not all waiting ones together */
    bool overlap_events; /* submit new ones as others finish; off: when all have finished */
    bool plain;          /* without io_uring; the environment's TX_AIO=plain does the same */
    bool in_memory;      /* for tests: a folder on tmpfs will do; TX_AIO_IN_MEMORY=1 does the same */
} tx_aio_options;

/* 1 MiB, 8, 1, off, on: DeepSpeed's. */
tx_aio_options tx_aio_defaults(void);

typedef struct tx_aio tx_aio;

/* Bytes [offset, offset + n) of the file being read or written. The caller owns the struct, zeroes it before the first
 * use, and does not move it until tx_aio_wait returns. */
typedef struct tx_aio_request {
    tx_aio *aio; /* NULL: nothing is in progress */
    struct tx_aio_request *next;
    unsigned char *buf;
    uint64_t offset;
    size_t n; /* these three: the part that no worker has taken yet */
    int n_pending;
    bool write;
    int error; /* errno of the first place that failed; 0: none */
    uint64_t error_at;
} tx_aio_request;

/* Makes the file and starts the workers. Logs when the file system does not support O_DIRECT (info) and when
 * io_uring is not available (debug). TX_ERR_IO as tx_scratch_open; TX_ERR_ARG: options out of range; TX_ERR_NOMEM. */
tx_status tx_aio_open(tx_aio **out, const char *dir, const char *name, uint64_t bytes, const tx_aio_options *o);

/* Waits for all requests, and frees the disk space. NULL allowed. */
void tx_aio_close(tx_aio *a);

/* Starts to move n bytes between buf and the file; n = 0 is allowed. buf belongs to the request until tx_aio_wait.
 * Does not block. */
void tx_aio_read_start(tx_aio *a, void *buf, uint64_t offset, size_t n, tx_aio_request *r);
void tx_aio_write_start(tx_aio *a, const void *buf, uint64_t offset, size_t n, tx_aio_request *r);

/* Waits until the request is finished. TX_ERR_IO names the file, the place and the system's reason; the content of the
 * buffer or the range is then undefined. A request that was never started is fine. */
tx_status tx_aio_wait(tx_aio_request *r);

/* "io_uring, O_DIRECT", for the log. Static. */
const char *tx_aio_how(const tx_aio *a);

/* The file, for tests and for measuring the disk by other means. */
int tx_aio_fd(const tx_aio *a);

/* Allocates zeroed memory with the alignment that requests need. TX_ERR_NOMEM names `what`. */
tx_status tx_aio_alloc(void *out, size_t bytes, const char *what);
void tx_aio_free(void *p); /* NULL allowed */

#endif
