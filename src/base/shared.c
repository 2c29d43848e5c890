/* shared.c - blocks of shared memory: mine, and those of others that are mapped here.
 *
 *      |................. data .................| tail |      tail: a page with the key and whether it is still in use
 */
#include "base/shared.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define PAGE ((size_t)4096)

typedef struct tail {
    uint64_t key;
    _Atomic uint32_t freed;
} tail;

typedef struct block {
    unsigned char *base;
    size_t bytes; /* whole pages, without the tail */
    uint64_t pid, key;
    int fd; /* of mine; -1: another process's */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool enabled;
static block *blocks;
static size_t n_blocks, cap_blocks;

void tx_shared_enable(bool on)
{
    pthread_mutex_lock(&lock);
    enabled = on;
    pthread_mutex_unlock(&lock);
}

static tail *tail_of(const block *b)
{
    return (tail *)(b->base + b->bytes);
}

static void forget(size_t i)
{
    munmap(blocks[i].base, blocks[i].bytes + PAGE);
    blocks[i] = blocks[--n_blocks];
    if (n_blocks) return;
    tx_free(blocks);
    blocks = NULL;
    cap_blocks = 0;
}

static tx_status keep(block b)
{
    if (n_blocks == cap_blocks) {
        TX_TRY(tx_realloc(&blocks, cap_blocks + 16, sizeof *blocks, "the list of shared memory"));
        cap_blocks += 16;
    }
    blocks[n_blocks++] = b;
    return TX_OK;
}

static void *map(int fd, size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return NULL;
    madvise(p, bytes, MADV_HUGEPAGE); /* a wish; where it is not granted nothing changes */
    return p;
}

static tx_status make(block *out, size_t bytes, const char *what)
{
    if (bytes > SIZE_MAX / 2) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s (%zu bytes)", what, bytes);
    block b = { .bytes = (bytes + PAGE - 1) / PAGE * PAGE, .pid = (uint64_t)getpid(), .fd = -1 };
    tx_status st = TX_OK;
    b.fd = memfd_create("triax", MFD_CLOEXEC);
    if (b.fd >= 0 && !ftruncate(b.fd, (off_t)(b.bytes + PAGE))) b.base = map(b.fd, b.bytes + PAGE);
    if (!b.base || getrandom(&b.key, sizeof b.key, 0) != (ssize_t)sizeof b.key) {
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s (%zu bytes of shared memory)", what, bytes);
        goto out;
    }
    tail_of(&b)->key = b.key;
    TX_GOTO(keep(b));
    *out = b;
out:
    if (st && b.base) munmap(b.base, b.bytes + PAGE);
    if (st && b.fd >= 0) close(b.fd);
    return st;
}

tx_status tx_shared_alloc(void *out, size_t bytes, const char *what)
{
    block b = { 0 };
    pthread_mutex_lock(&lock);
    bool on = enabled;
    tx_status st = on ? make(&b, bytes ? bytes : 1, what) : TX_OK;
    pthread_mutex_unlock(&lock);
    if (!on) return tx_alloc(out, bytes ? bytes : 1, 1, what);
    if (!st) memcpy(out, &b.base, sizeof b.base); /* the caller's pointer has its own type */
    return st;
}

void tx_shared_free(void *p)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_blocks && (blocks[i].fd < 0 || blocks[i].base != p)) i++;
    bool mine = i < n_blocks;
    if (mine) {
        block b = blocks[i];
        atomic_store(&tail_of(&b)->freed, 1);
        /* others may have it mapped for a while yet: its memory goes back now, its tail stays to be read */
        fallocate(b.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)b.bytes);
        forget(i);
        close(b.fd);
    }
    pthread_mutex_unlock(&lock);
    if (!mine) tx_free(p);
}

bool tx_shared_find(tx_shared_place *out, const void *p, size_t bytes)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_blocks && !found; i++) {
        const block *b = &blocks[i];
        uintptr_t at = (uintptr_t)p - (uintptr_t)b->base; /* huge where p lies before it */
        if (b->fd < 0 || at >= b->bytes || bytes > b->bytes - at) continue;
        *out = (tx_shared_place){ b->pid, (uint64_t)b->fd, b->key, b->bytes, at };
        found = true;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Memory that its owner no longer has. */
static void sweep(void)
{
    for (size_t i = n_blocks; i-- > 0;)
        if (blocks[i].fd < 0 && atomic_load(&tail_of(&blocks[i])->freed)) forget(i);
}

/* The right block, or no block: a descriptor's number may mean another file by now, in another process's name. */
static tx_status open_other(block *out, const tx_shared_place *p)
{
    char path[64];
    struct stat s;
    snprintf(path, sizeof path, "/proc/%llu/fd/%llu", (unsigned long long)p->pid, (unsigned long long)p->fd);
    block b = { .bytes = p->bytes, .pid = p->pid, .key = p->key, .fd = -1 };
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !fstat(fd, &s) && S_ISREG(s.st_mode) && (uint64_t)s.st_size == p->bytes + PAGE)
        b.base = map(fd, b.bytes + PAGE);
    if (fd >= 0) close(fd);
    if (b.base && tail_of(&b)->key == p->key) {
        sweep();
        tx_status st = keep(b);
        if (st) munmap(b.base, b.bytes + PAGE);
        *out = b;
        return st;
    }
    if (b.base) munmap(b.base, b.bytes + PAGE);
    return TX_FAIL(TX_ERR_NOTFOUND, "the memory of process %llu cannot be shared with this one",
                   (unsigned long long)p->pid);
}

tx_status tx_shared_map(void *out, const tx_shared_place *p)
{
    tx_status st = TX_OK;
    block b = { 0 };
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n_blocks && !b.base; i++)
        if (blocks[i].key == p->key && blocks[i].pid == p->pid) b = blocks[i];
    if (!b.base) st = open_other(&b, p);
    pthread_mutex_unlock(&lock);
    if (st) return st;
    if (p->offset >= b.bytes)
        return TX_FAIL(TX_ERR_NOTFOUND, "the memory of process %llu cannot be shared with this one: it ends before",
                       (unsigned long long)p->pid);
    void *at = b.base + p->offset;
    memcpy(out, &at, sizeof at);
    return TX_OK;
}
