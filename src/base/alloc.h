/* alloc.h - the only place that allocates heap memory.
 *
 * The allocator can be replaced, so that tests can make the N-th allocation fail and count what a training step
 * allocates (nothing). */
#ifndef TX_BASE_ALLOC_H
#define TX_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The allocator in use. `user` is passed to each call. realloc(NULL) allocates; free(NULL) is allowed. Alignment is 64
 * bytes for `alloc`, malloc's for `realloc`. */
typedef struct tx_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void *(*realloc)(void *user, void *p, size_t bytes);
    void (*free)(void *user, void *p);
    void *user;
} tx_allocator;

/* Replaces the allocator (NULL: the C library's). Call it only while nothing is allocated through the old one.
 * for tests: the N-th allocation fails, or bytes are counted */
void tx_allocator_set(const tx_allocator *a);

/* Number of tx_alloc and tx_realloc calls so far in the process.
 * for tests: a step allocates nothing */
uint64_t tx_alloc_count(void);

/* Allocates n × size bytes, zeroed and 64-byte aligned, into *out (a pointer to any pointer type). TX_ERR_NOMEM names
 * `what`; overflow of n × size counts as out of memory. */
tx_status tx_alloc(void *out, size_t n, size_t size, const char *what);

/* Grows or shrinks an array that came from tx_realloc (or is NULL). New memory is not zeroed. On failure *inout is
 * unchanged. */
tx_status tx_realloc(void *inout, size_t n, size_t size, const char *what);

void tx_free(void *p); /* for tx_alloc and tx_realloc alike; NULL allowed */

/* Copies n bytes and appends a NUL; freed with tx_free. */
tx_status tx_memdup0(char **out, const void *bytes, size_t n, const char *what);

#endif
