/* alloc.c - the one door to the heap. */
#include "base/alloc.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Large blocks ask for huge pages: a model's buffers are gigabytes, and a fault for every 4 KiB of them costs seconds.
 */
static void *libc_alloc(void *user, size_t bytes)
{
    (void)user;
    bool large = bytes >= 2 * HUGE_PAGE;
    size_t align = large ? HUGE_PAGE : 64, rounded;
    if (__builtin_add_overflow(bytes, align - 1, &rounded)) return NULL;
    rounded -= rounded % align;
    void *p = aligned_alloc(align, rounded);
    if (p && large) madvise(p, rounded, MADV_HUGEPAGE); /* a wish; where it is not granted nothing changes */
    return p;
}

static void *libc_realloc(void *user, void *p, size_t bytes)
{
    (void)user;
    return realloc(p, bytes);
}

static void libc_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static const tx_allocator libc_allocator = { libc_alloc, libc_realloc, libc_free, NULL };
static tx_allocator current = { libc_alloc, libc_realloc, libc_free, NULL };
static _Atomic uint64_t n_allocs;

void tx_allocator_set(const tx_allocator *a)
{
    current = a ? *a : libc_allocator;
}

uint64_t tx_alloc_count(void)
{
    return atomic_load(&n_allocs);
}

static tx_status no_memory(size_t n, size_t size, const char *what)
{
    return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s (%zu x %zu bytes)", what, n, size);
}

/* Large blocks are touched first by the threads that will work on them, each its part of the whole as the backend's
 * loops cut it, so that its pages lie in memory beside its core; and several threads take the page faults. */
static void zero(unsigned char *p, size_t bytes)
{
    if (bytes < 2 * HUGE_PAGE) {
        memset(p, 0, bytes);
        return;
    }
    size_t pages = (bytes + HUGE_PAGE - 1) / HUGE_PAGE;
#pragma omp parallel
    {
        size_t n = (size_t)omp_get_num_threads(), t = (size_t)omp_get_thread_num();
        size_t lo = pages * t / n * HUGE_PAGE, hi = pages * (t + 1) / n * HUGE_PAGE;
        if (hi > bytes) hi = bytes;
        if (lo < hi) memset(p + lo, 0, hi - lo);
    }
}

tx_status tx_alloc(void *out, size_t n, size_t size, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - 64) return no_memory(n, size, what);
    atomic_fetch_add(&n_allocs, 1);
    void *p = current.alloc(current.user, bytes ? bytes : 1);
    if (!p) return no_memory(n, size, what);
    zero(p, bytes ? bytes : 1);
    memcpy(out, &p, sizeof p); /* the caller's pointer has its own type: no aliasing through void * */
    return TX_OK;
}

tx_status tx_realloc(void *inout, size_t n, size_t size, const char *what)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return no_memory(n, size, what);
    atomic_fetch_add(&n_allocs, 1);
    void *p;
    memcpy(&p, inout, sizeof p);
    p = current.realloc(current.user, p, bytes ? bytes : 1);
    if (!p) return no_memory(n, size, what);
    memcpy(inout, &p, sizeof p);
    return TX_OK;
}

void tx_free(void *p)
{
    current.free(current.user, p);
}

tx_status tx_memdup0(char **out, const void *bytes, size_t n, const char *what)
{
    char *p;
    if (n == SIZE_MAX) return no_memory(n, 1, what);
    TX_TRY(tx_alloc(&p, n + 1, 1, what));
    if (n) memcpy(p, bytes, n);
    *out = p;
    return TX_OK;
}
