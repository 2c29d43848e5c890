/* hash_table.h - maps a hash to the indices stored under it; the caller compares what they stand for.
 *
 * Hashes have a random seed (tx_hash), so that no file can be crafted to make them collide. All zero means empty. */
#ifndef TX_BASE_HASH_TABLE_H
#define TX_BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx_hash_table {
    struct tx_hash_slot {
        uint64_t hash;
        uint32_t index; /* + 1; 0: free */
    } * slot;
    size_t n, cap; /* cap: 0 or a power of two */
} tx_hash_table;

uint64_t tx_hash(const void *bytes, size_t n, uint64_t more); /* more: hashed along, such as another hash */

tx_status tx_hash_add(tx_hash_table *t, uint64_t hash, size_t index);

/* The next index under `hash`. *at is 0 at first and belongs to the table afterwards. False: there are no more. */
bool tx_hash_next(const tx_hash_table *t, uint64_t hash, size_t *at, size_t *index);

void tx_hash_free(tx_hash_table *t);

#endif
