/* tier.h - where numbers are kept that are not needed now: a range of optimizer state or of parameters is fetched
 * before it is computed with, and stored after.
 *
 *      store, n_arrays = 3     |==== array 0 ====|==== array 1 ====|==== array 2 ====|
 *                                    [at, at + n) of one array  <->  a buffer of the caller's
 *
 *  TX_TIER_CPU is memory of the host other than what is computed in; TX_TIER_NVME is a scratch file (base/aio.h), and
 *  needs no memory of its own. Each array is padded to whole blocks of TX_TIER_BLOCK elements, and all begin as zeros.
 *
 *      for each part:   start fetching part i + 1;  wait for part i;  compute;  start storing part i
 *
 *  A tier is one rank's. Operations under way together must not touch the same elements unless all fetch: whoever
 *  fetches what was stored waits for that first. */
#ifndef TX_ZERO_TIER_H
#define TX_ZERO_TIER_H

#include "backend/tensor.h"
#include "base/aio.h"

/* Ranges begin and end at multiples of it, so that in any dtype they are whole blocks of a disk. */
#define TX_TIER_BLOCK 2048

typedef enum tx_tier_kind { TX_TIER_CPU, TX_TIER_NVME } tx_tier_kind;

typedef struct tx_tier_config {
    tx_tier_kind kind;
    int n_arrays;
    int64_t numel;    /* of each */
    tx_dtype dtype;   /* of all */
    const char *what; /* for messages: "the optimizer state"; static */
    /* TX_TIER_NVME: the folder, a name in it that no other rank or run has, and how to go about it */
    const char *dir, *name;
    tx_aio_options aio;
} tx_tier_config;

typedef struct tx_tier tx_tier;

/* Elements of an array with its padding, and bytes of the whole store, in memory or in the file: for plans. */
int64_t tx_tier_padded(int64_t numel);
uint64_t tx_tier_bytes(const tx_tier_config *c);

/* TX_ERR_NOMEM; TX_TIER_NVME: what tx_aio_open refuses. */
tx_status tx_tier_open(tx_tier **out, const tx_tier_config *c);

/* Waits for all that is under way; the numbers are gone. NULL allowed. */
void tx_tier_close(tx_tier *t);

/* Zeroed at first; in one place until waited for. */
typedef struct tx_tier_request {
    tx_tier *tier;
    tx_aio_request aio;
} tx_tier_request;

/* Starts a copy of elements [at, at + n) of an array to or from `buf`, which is the request's until waited for and is
 * aligned to TX_AIO_ALIGN (tx_aio_alloc). at and n are multiples of TX_TIER_BLOCK, in the padded array. With
 * TX_TIER_CPU all of it happens here; callers wait all the same. */
void tx_tier_fetch_start(tx_tier *t, int array, int64_t at, int64_t n, void *buf, tx_tier_request *r);
void tx_tier_store_start(tx_tier *t, int array, int64_t at, int64_t n, const void *buf, tx_tier_request *r);

/* TX_ERR_IO: the disk failed. A request that is not under way is fine. */
tx_status tx_tier_wait(tx_tier_request *r);

/* Bytes fetched and stored since it was opened. */
void tx_tier_moved(const tx_tier *t, uint64_t *fetched, uint64_t *stored);

/* The numbers themselves from `at` on, for computing where they lie; NULL where they are not in memory. */
void *tx_tier_direct(tx_tier *t, int array, int64_t at);

#endif
