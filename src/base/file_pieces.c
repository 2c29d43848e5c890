/* file_pieces.c - readers of a file: threads that take the next piece, one after the other. */
#include "base/file_pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

/* A virtual disk of 3 GB/s gives 2.8 to one reader of 4 MiB at a time, and 3.0 to eight of 1 MiB. */
enum { MAX_READERS = 8 };

typedef struct reading {
    const tx_file_pieces *p;
    int fd;
    unsigned char *buf; /* MAX_READERS pieces */
    atomic_int n_readers;
    _Atomic uint64_t taken; /* pieces */
    atomic_int error;       /* errno of the first one that failed, or ENDED; 0: none */
} reading;

enum { ENDED = -1 };

/* errno, ENDED, or 0. */
static int read_piece(int fd, unsigned char *to, uint64_t at, size_t n)
{
    while (n) {
        ssize_t k = TX_RETRY(pread(fd, to, n, (off_t)at));
        if (k <= 0) return k ? errno : ENDED;
        to += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static void *read_pieces(void *user)
{
    reading *r = user;
    const tx_file_pieces *p = r->p;
    unsigned char *buf = r->buf + (size_t)atomic_fetch_add(&r->n_readers, 1) * p->piece;
    while (!atomic_load(&r->error)) {
        uint64_t at = p->first + atomic_fetch_add(&r->taken, 1) * p->piece;
        if (at >= p->end) break;
        size_t n = p->end - at < p->piece ? (size_t)(p->end - at) : p->piece;
        int e = read_piece(r->fd, buf, at, n), none = 0;
        if (e)
            atomic_compare_exchange_strong(&r->error, &none, e);
        else
            p->look(p->user, buf, at, n);
    }
    return NULL;
}

/* The caller reads, too, so nothing is lost but time where the system starts no threads. Signals are for the threads
 * that the program knows of. */
static void read_together(reading *r, int n)
{
    pthread_t thread[MAX_READERS];
    int started = 0;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (started < n - 1 && !pthread_create(&thread[started], NULL, read_pieces, r)) started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    read_pieces(r);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

tx_status tx_file_pieces_read(const tx_file_pieces *p)
{
    reading r = { .p = p };
    TX_ASSERT(p->piece);
    if (p->first >= p->end) return TX_OK;
    uint64_t pieces = (p->end - p->first - 1) / p->piece + 1;
    int n = pieces < MAX_READERS ? (int)pieces : MAX_READERS, e;
    TX_TRY(tx_alloc(&r.buf, (size_t)n, p->piece, "pieces of a file"));
    r.fd = TX_RETRY(open(p->path, O_RDONLY | O_CLOEXEC));
    e = r.fd < 0 ? errno : 0;
    if (!e) {
        read_together(&r, n);
        close(r.fd);
        e = r.error;
    }
    tx_free(r.buf);
    if (!e) return TX_OK;
    return TX_FAIL(e == ENOENT ? TX_ERR_NOTFOUND : TX_ERR_IO, "%s: cannot read: %s", p->path,
                   e == ENDED ? "it has become shorter" : strerror(e));
}
