/* aio_engine.h - for aio.c: how a worker submits pieces of requests to the kernel. */
#ifndef TX_BASE_AIO_ENGINE_H
#define TX_BASE_AIO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tx_aio_request; /* aio.h; an engine only carries it along */

/* One read or write that is submitted to the kernel. */
typedef struct tx__aio_piece {
    struct tx_aio_request *request;
    unsigned char *buf;
    uint64_t at;
    size_t n;
    bool write;
    int n_tries; /* consecutive tries that moved nothing */
    int result;  /* bytes moved, or -errno */
} tx__aio_piece;

typedef struct tx__aio_engine {
    const char *how[2]; /* tx_aio_how: page cache, O_DIRECT */
    /* For up to `depth` pieces at once; 0 or an errno. Used by one thread, which need not be the one that opens it. */
    int (*open)(void **out, int depth);
    void (*start)(void *engine, int fd, tx__aio_piece *p);
    /* Submits what was started and waits until at least `least` pieces are finished; `done` has room for all. Returns
     * their number, or -errno: the kernel accepts no more. */
    int (*wait)(void *engine, int least, tx__aio_piece **done);
    void (*close)(void *engine);
} tx__aio_engine;

extern const tx__aio_engine tx__aio_plain, tx__aio_uring;

#endif
