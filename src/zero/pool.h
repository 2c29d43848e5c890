/* pool.h - memory that one bucket after the other uses. A dry run finds out how many buffers are needed at the same
 * time; after it they are taken once, and a step only finds free ones. */
#ifndef TX_ZERO_POOL_H
#define TX_ZERO_POOL_H

#include <stdint.h>

#include "base/arena.h"
#include "base/device.h"

typedef struct tx_pool_buffer {
    int kind;   /* which buckets, or units, it is for */
    int bucket; /* that uses it, or the unit; -1: free */
    int64_t numel;
    void *data; /* aligned for a disk */
    void *base; /* shared; owned */
} tx_pool_buffer;

typedef struct tx_pool {
    tx_pool_buffer *buffer; /* owned */
    int n;
    size_t size; /* of an element */
} tx_pool;

int tx__pool_find(const tx_pool *t, int kind); /* a free buffer, or -1 */

/* Frees buffer number *buffer, if there is one; *buffer becomes -1. */
void tx__pool_release(tx_pool *t, int *buffer);

/* In a dry run: a buffer more, which is free. TX_ERR_NOMEM. */
tx_status tx__pool_add(tx_pool *t, int kind, int64_t numel, int *out);

/* After the dry run: takes the memory of all buffers. TX_ERR_NOMEM. */
tx_status tx__pool_take(tx_pool *t, tx_device *d, const char *what);
void tx__pool_close(tx_pool *t, tx_device *d);
size_t tx__pool_bytes(const tx_pool *t);

/* Memory of the device, or of the host shared and so that a disk can read into it.   @base what is to be given back */
tx_status tx__take_aligned(tx_device *d, void **base, void **data, size_t bytes, const char *what);

#endif
