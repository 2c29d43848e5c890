/* aio_uring.c - a ring shared with the kernel: many pieces under way, one thread that sleeps meanwhile. */
#include <errno.h>

#include "base/aio_engine.h"

#ifdef TX_URING

#include <liburing.h>
#include <sched.h>

#include "base/alloc.h"

/* A container may let a ring be made and not be used, and kernels before 5.6 lack the plain read and write. */
static int try_ring(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    int e = !probe ? ENOSYS : 0;
    if (probe &&
        !(io_uring_opcode_supported(probe, IORING_OP_READ) && io_uring_opcode_supported(probe, IORING_OP_WRITE)))
        e = ENOSYS;
    if (probe) io_uring_free_probe(probe);
    if (e) return e;
    io_uring_prep_nop(io_uring_get_sqe(ring));
    int n = io_uring_submit_and_wait(ring, 1);
    if (n < 0) return -n;
    n = io_uring_peek_cqe(ring, &cqe);
    if (n < 0) return -n;
    io_uring_cqe_seen(ring, cqe);
    return 0;
}

static void close_ring(void *engine)
{
    io_uring_queue_exit(engine);
    tx_free(engine);
}

static int open_ring(void **out, int depth)
{
    struct io_uring *ring;
    if (tx_alloc(&ring, 1, sizeof *ring, "reading and writing a file")) return ENOMEM;
    int e = -io_uring_queue_init((unsigned)depth, ring, 0);
    if (e) {
        tx_free(ring);
        return e;
    }
    e = try_ring(ring);
    if (e)
        close_ring(ring);
    else
        *out = ring;
    return e;
}

static void start(void *engine, int fd, tx__aio_piece *p)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(engine);
    TX_ASSERT(sqe); /* the ring is as deep as the worker */
    if (p->write)
        io_uring_prep_write(sqe, fd, p->buf, (unsigned)p->n, p->at);
    else
        io_uring_prep_read(sqe, fd, p->buf, (unsigned)p->n, p->at);
    io_uring_sqe_set_data(sqe, p);
}

static int wait_done(void *engine, int least, tx__aio_piece **done)
{
    struct io_uring *ring = engine;
    struct io_uring_cqe *cqe;
    int n = 0, e;
    while ((e = io_uring_submit_and_wait(ring, (unsigned)least)) < 0) {
        if (e != -EINTR && e != -EAGAIN && e != -EBUSY) return e;
        sched_yield(); /* short of memory, or signalled */
    }
    for (; !io_uring_peek_cqe(ring, &cqe); n++) {
        done[n] = io_uring_cqe_get_data(cqe);
        done[n]->result = cqe->res;
        io_uring_cqe_seen(ring, cqe);
    }
    return n;
}

const tx__aio_engine tx__aio_uring = {
    .how = { "io_uring, page cache", "io_uring, O_DIRECT" },
    .open = open_ring,
    .start = start,
    .wait = wait_done,
    .close = close_ring,
};

#else /* built without liburing */

static int open_ring(void **out, int depth)
{
    (void)out, (void)depth;
    return ENOSYS;
}

const tx__aio_engine tx__aio_uring = { .open = open_ring };

#endif
