/* aio_plain.c - pread and pwrite, one at a time: the worker itself waits for the disk. */
#include <errno.h>
#include <unistd.h>

#include "base/aio_engine.h"
#include "base/alloc.h"

typedef struct plain {
    tx__aio_piece *done; /* NULL: none */
} plain;

static int open_plain(void **out, int depth)
{
    plain *e;
    TX_ASSERT(depth == 1);
    if (tx_alloc(&e, 1, sizeof *e, "reading and writing a file")) return ENOMEM;
    *out = e;
    return 0;
}

static void start(void *engine, int fd, tx__aio_piece *p)
{
    ssize_t n = p->write ? pwrite(fd, p->buf, p->n, (off_t)p->at) : pread(fd, p->buf, p->n, (off_t)p->at);
    p->result = n < 0 ? -errno : (int)n;
    ((plain *)engine)->done = p;
}

static int wait_done(void *engine, int least, tx__aio_piece **done)
{
    (void)least;
    plain *e = engine;
    int n = e->done != NULL;
    done[0] = e->done;
    e->done = NULL;
    return n;
}

const tx__aio_engine tx__aio_plain = {
    .how = { "threads, page cache", "threads, O_DIRECT" },
    .open = open_plain,
    .start = start,
    .wait = wait_done,
    .close = tx_free,
};
