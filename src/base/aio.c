/* aio.c - requests, and the workers that carry them out in pieces. */
#include "base/aio.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/aio_engine.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

enum {
    MAX_DEPTH = 4096,
    MAX_THREADS = 64,
    PLAIN_THREADS = 16, /* at most: what more would be under way does not make a disk faster */
    TRIES = 1000        /* of a piece that the kernel does not get on with, a millisecond apart */
};
#define MAX_BLOCK ((size_t)1 << 30)

typedef struct worker {
    tx_aio *aio;
    pthread_t thread;
    void *engine;
    tx__aio_piece *piece;                 /* depth of them */
    tx__aio_piece **idle, **next, **done; /* depth each: free, to be started, back from the kernel */
    int n_idle, n_next;
    int broken; /* errno: the kernel takes no more */
} worker;

struct tx_aio {
    tx_scratch_file file;
    char path[PATH_MAX]; /* for messages */
    uint64_t bytes;
    tx_aio_options o;
    const tx__aio_engine *engine;
    worker *worker;
    int n_workers, n_started, depth;
    pthread_mutex_t lock;         /* over what follows, and over the requests under way */
    pthread_cond_t more, done;    /* something to do; a request is complete */
    tx_aio_request *first, *last; /* those of which pieces are still to be taken */
    bool ending;
};

/* ---- a worker ---- */

static bool unfinished(const tx_aio_request *r)
{
    return r->n || r->n_pending;
}

static void drop_first(tx_aio *a)
{
    a->first = a->first->next;
    if (!a->first) a->last = NULL;
}

/* The next block of the oldest request. */
static void cut(tx_aio *a, tx__aio_piece *p)
{
    tx_aio_request *r = a->first;
    size_t n = r->n < a->o.block_size ? r->n : a->o.block_size;
    *p = (tx__aio_piece){ .request = r, .buf = r->buf, .at = r->offset, .n = n, .write = r->write };
    r->buf += n;
    r->offset += n;
    r->n -= n;
    r->n_pending++;
    if (!r->n) drop_first(a);
}

static void take(worker *w)
{
    tx_aio *a = w->aio;
    if (!a->o.overlap_events && w->n_idle < a->depth) return;
    while (w->n_idle && a->first) {
        tx__aio_piece *p = w->idle[--w->n_idle];
        cut(a, p);
        w->next[w->n_next++] = p;
    }
}

/* Waits for `least` pieces more, which go to w->done behind the n that are there. Their number, or -errno: n < 0
 * already was one. */
static int wait_done(worker *w, int n, int least)
{
    int more = n < 0 ? n : w->aio->engine->wait(w->engine, least, w->done + n);
    return more < 0 ? more : n + more;
}

/* Without the lock. Returns how many pieces are done, or -errno. */
static int carry_out(worker *w)
{
    tx_aio *a = w->aio;
    int n = -w->broken;
    for (int i = 0; i < w->n_next && n >= 0; i++) {
        if (w->next[i]->n_tries) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        a->engine->start(w->engine, a->file.fd, w->next[i]);
        if (a->o.single_submit) n = wait_done(w, n, 0);
    }
    w->n_next = 0;
    return wait_done(w, n, n == 0);
}

/* What the result of a piece means: 0: all of it is done; EAGAIN: it is cut down to what is still to be done; else the
 * error. */
static int outcome(tx__aio_piece *p)
{
    int e = p->result < 0 ? -p->result : 0;
    size_t moved = e ? 0 : (size_t)p->result;
    if (moved == p->n) return 0;
    if (!e && !moved) return p->write ? EIO : ENODATA;
    if (e && e != EINTR && e != EAGAIN) return e;
    moved -= moved % TX_AIO_ALIGN; /* O_DIRECT goes on at a block */
    p->buf += moved;
    p->at += moved;
    p->n -= moved;
    p->n_tries = moved ? 0 : p->n_tries + 1;
    return p->n_tries <= TRIES ? EAGAIN : EIO;
}

static void finish(worker *w, tx__aio_piece *p, int error)
{
    tx_aio *a = w->aio;
    tx_aio_request *r = p->request;
    p->request = NULL;
    w->idle[w->n_idle++] = p;
    r->n_pending--;
    if (error && (!r->error || p->at < r->error_at)) {
        r->error = error;
        r->error_at = p->at;
    }
    if (error && r->n) { /* the rest is not begun. It is the first, as no other is half taken */
        r->n = 0;
        drop_first(a);
    }
    if (!unfinished(r)) pthread_cond_broadcast(&a->done);
}

static void settle(worker *w, int n_done)
{
    if (n_done < 0) w->broken = -n_done;
    for (int i = 0; i < n_done; i++) {
        int e = outcome(w->done[i]);
        if (e == EAGAIN)
            w->next[w->n_next++] = w->done[i];
        else
            finish(w, w->done[i], e);
    }
    for (int i = 0; i < w->aio->depth && w->broken; i++)
        if (w->piece[i].request) finish(w, &w->piece[i], w->broken);
}

static void *work(void *user)
{
    worker *w = user;
    tx_aio *a = w->aio;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->first && w->n_idle == a->depth && !a->ending) pthread_cond_wait(&a->more, &a->lock);
        take(w);
        if (w->n_idle == a->depth) break; /* ending, and nothing is left */
        pthread_mutex_unlock(&a->lock);
        int n = carry_out(w);
        pthread_mutex_lock(&a->lock);
        settle(w, n);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- opening and closing ---- */

tx_aio_options tx_aio_defaults(void)
{
    return (tx_aio_options){ .block_size = (size_t)1 << 20, .queue_depth = 8, .n_threads = 1, .overlap_events = true };
}

/* What a variable of the environment says: `yes`, `no`, or nothing. */
static tx_status read_wish(const char *variable, const char *yes, const char *no, bool *wished)
{
    const char *set = getenv(variable);
    if (!set || !*set || !strcmp(set, no)) return TX_OK;
    if (strcmp(set, yes) != 0)
        return TX_FAIL(TX_ERR_ARG, "%s is \"%.60s\": it can be %s or %s", variable, set, yes, no);
    *wished = true;
    return TX_OK;
}

static tx_status check_options(const tx_aio_options *o)
{
    if (!o->block_size || o->block_size % TX_AIO_ALIGN || o->block_size > MAX_BLOCK)
        return TX_FAIL(TX_ERR_ARG, "aio: block_size is %zu: has to be a multiple of %d, at most 1 GiB", o->block_size,
                       TX_AIO_ALIGN);
    if (o->queue_depth < 1 || o->queue_depth > MAX_DEPTH)
        return TX_FAIL(TX_ERR_ARG, "aio: queue_depth is %d: has to be 1 to %d", o->queue_depth, MAX_DEPTH);
    if (o->n_threads < 1 || o->n_threads > MAX_THREADS)
        return TX_FAIL(TX_ERR_ARG, "aio: intra_op_parallelism is %d: has to be 1 to %d", o->n_threads, MAX_THREADS);
    return TX_OK;
}

static void close_workers(tx_aio *a)
{
    for (int i = 0; i < a->n_workers; i++) {
        worker *w = &a->worker[i];
        if (w->engine) a->engine->close(w->engine);
        tx_free(w->piece);
        tx_free(w->idle);
    }
    tx_free(a->worker);
    a->worker = NULL;
    a->n_workers = 0;
}

static tx_status open_worker(worker *w, tx_aio *a)
{
    size_t depth = (size_t)a->depth;
    w->aio = a;
    TX_TRY(tx_alloc(&w->piece, depth, sizeof *w->piece, "reading and writing a file"));
    TX_TRY(tx_alloc(&w->idle, 3 * depth, sizeof(tx__aio_piece *), "reading and writing a file"));
    w->next = w->idle + depth;
    w->done = w->next + depth;
    for (; w->n_idle < a->depth; w->n_idle++) w->idle[w->n_idle] = &w->piece[w->n_idle];
    return TX_OK;
}

/* *e is the system's reason where there is no such engine here. */
static tx_status open_workers(tx_aio *a, const tx__aio_engine *engine, int n, int depth, int *e)
{
    *e = 0;
    a->engine = engine;
    a->depth = depth;
    TX_TRY(tx_alloc(&a->worker, (size_t)n, sizeof *a->worker, "reading and writing a file"));
    a->n_workers = n;
    for (int i = 0; i < n && !*e; i++) {
        TX_TRY(open_worker(&a->worker[i], a));
        *e = engine->open(&a->worker[i].engine, depth);
    }
    if (*e) close_workers(a);
    return TX_OK;
}

static tx_status choose_engine(tx_aio *a)
{
    int e = 0, together = a->o.n_threads * a->o.queue_depth;
    if (!a->o.plain) {
        TX_TRY(open_workers(a, &tx__aio_uring, a->o.n_threads, a->o.queue_depth, &e));
        if (!e) return TX_OK;
        tx_debug("io_uring is not to be had (%s): threads read and write %s", strerror(e), a->path);
    }
    TX_TRY(open_workers(a, &tx__aio_plain, together < PLAIN_THREADS ? together : PLAIN_THREADS, 1, &e));
    return e ? TX_FAIL(TX_ERR_NOMEM, "not enough memory for reading and writing %s", a->path) : TX_OK;
}

/* Signals are for the threads that the program knows of. */
static tx_status start_workers(tx_aio *a)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (a->n_started < a->n_workers &&
           !pthread_create(&a->worker[a->n_started].thread, NULL, work, &a->worker[a->n_started]))
        a->n_started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (a->n_started == a->n_workers) return TX_OK;
    return TX_FAIL(TX_ERR_NOMEM, "%s: the system starts no more than %d threads for it", a->path, a->n_started);
}

tx_status tx_aio_open(tx_aio **out, const char *dir, const char *name, uint64_t bytes, const tx_aio_options *o)
{
    tx_aio *a;
    tx_status st;
    TX_TRY(check_options(o));
    TX_TRY(tx_alloc(&a, 1, sizeof *a, "reading and writing a file"));
    a->file.fd = -1;
    a->o = *o;
    a->bytes = bytes;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->more, NULL);
    pthread_cond_init(&a->done, NULL);
    TX_GOTO(read_wish("TX_AIO", "plain", "auto", &a->o.plain));
    TX_GOTO(read_wish("TX_AIO_IN_MEMORY", "1", "0", &a->o.in_memory));
    TX_GOTO(tx_path_join(a->path, sizeof a->path, dir, name));
    TX_GOTO(tx_scratch_open(&a->file, dir, name, bytes, a->o.in_memory));
    TX_GOTO(choose_engine(a));
    TX_GOTO(start_workers(a));
    if (!a->file.direct) tx_info("%s: the file system takes no O_DIRECT, and keeps copies in memory", dir);
    *out = a;
out:
    if (st) tx_aio_close(a);
    return st;
}

void tx_aio_close(tx_aio *a)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    pthread_cond_broadcast(&a->more);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->n_started; i++) pthread_join(a->worker[i].thread, NULL);
    close_workers(a);
    tx_scratch_close(&a->file);
    pthread_cond_destroy(&a->done);
    pthread_cond_destroy(&a->more);
    pthread_mutex_destroy(&a->lock);
    tx_free(a);
}

/* ---- requests ---- */

static void start(tx_aio *a, void *buf, uint64_t offset, size_t n, bool write, tx_aio_request *r)
{
    TX_ASSERT(!r->aio); /* else it is still under way */
    TX_ASSERT((uintptr_t)buf % TX_AIO_ALIGN == 0 && offset % TX_AIO_ALIGN == 0 && n % TX_AIO_ALIGN == 0);
    TX_ASSERT(offset <= a->bytes && n <= a->bytes - offset);
    *r = (tx_aio_request){ .aio = a, .buf = buf, .offset = offset, .n = n, .write = write };
    if (!n) return;
    pthread_mutex_lock(&a->lock);
    if (a->last)
        a->last->next = r;
    else
        a->first = r;
    a->last = r;
    pthread_cond_broadcast(&a->more);
    pthread_mutex_unlock(&a->lock);
}

void tx_aio_read_start(tx_aio *a, void *buf, uint64_t offset, size_t n, tx_aio_request *r)
{
    start(a, buf, offset, n, false, r);
}

void tx_aio_write_start(tx_aio *a, const void *buf, uint64_t offset, size_t n, tx_aio_request *r)
{
    start(a, (void *)(uintptr_t)buf, offset, n, true, r);
}

tx_status tx_aio_wait(tx_aio_request *r)
{
    tx_aio *a = r->aio;
    if (!a) return TX_OK;
    pthread_mutex_lock(&a->lock);
    while (unfinished(r)) pthread_cond_wait(&a->done, &a->lock);
    pthread_mutex_unlock(&a->lock);
    r->aio = NULL;
    if (!r->error) return TX_OK;
    return TX_FAIL(TX_ERR_IO, "%s: cannot %s at byte %llu: %s", a->path, r->write ? "write" : "read",
                   (unsigned long long)r->error_at, strerror(r->error));
}

const char *tx_aio_how(const tx_aio *a)
{
    return a->engine->how[a->file.direct];
}

int tx_aio_fd(const tx_aio *a)
{
    return a->file.fd;
}

/* ---- memory ---- */

/*      |.... |pointer to the start|======== bytes ========|      tx_alloc's alignment is less than the disk's */
tx_status tx_aio_alloc(void *out, size_t bytes, const char *what)
{
    unsigned char *all;
    size_t more = TX_AIO_ALIGN + sizeof all;
    if (bytes > SIZE_MAX - more) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s (%zu bytes)", what, bytes);
    TX_TRY(tx_alloc(&all, bytes + more, 1, what));
    uintptr_t at = ((uintptr_t)all + more - 1) / TX_AIO_ALIGN * TX_AIO_ALIGN;
    unsigned char *p = all + (at - (uintptr_t)all);
    memcpy(p - sizeof all, &all, sizeof all);
    memcpy(out, &p, sizeof p);
    return TX_OK;
}

void tx_aio_free(void *p)
{
    void *all;
    if (!p) return;
    memcpy(&all, (unsigned char *)p - sizeof all, sizeof all);
    tx_free(all);
}
