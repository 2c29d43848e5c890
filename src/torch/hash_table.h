/* hash_table.h - from a hash to the indices that were put under it; who looks compares what they stand for. The hashes
 * are seeded by chance (tx__hash), so that no file can be made in which they collide. Zeroed = empty. */
#ifndef TX_TORCH_HASH_TABLE_H
#define TX_TORCH_HASH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct tx__hash_table {
    struct tx__hash_slot {
        uint64_t hash;
        uint32_t index; /* + 1; 0: free */
    } * slot;
    size_t n, cap; /* cap: 0 or a power of two */
} tx__hash_table;

uint64_t tx__hash(const void *bytes, size_t n, uint64_t more); /* more: hashed along, such as another hash */

tx_status tx__hash_add(tx__hash_table *t, uint64_t hash, size_t index);

/* The next index under `hash`: *at begins as 0 and is the table's own. False when there are no more. */
bool tx__hash_next(const tx__hash_table *t, uint64_t hash, size_t *at, size_t *index);

void tx__hash_free(tx__hash_table *t);

#endif
