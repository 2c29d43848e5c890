/* byte_trie.h - byte strings with values, found by walking them byte by byte: a double-array trie.
 *
 *      node --byte b--> unit[node.child ^ b], if that unit's label is b
 *
 *  No two nodes have the same `child`, so that the label alone says whose child a unit is. Children of a node lie in
 * one block of 256 units. Source: Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array Structure"
 * (1989). */
#ifndef TX_TOKEN_BYTE_TRIE_H
#define TX_TOKEN_BYTE_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { TX__TRIE_VALUES = (1 << 23) - 1 }; /* values are below it */

typedef struct tx__trie_unit {
    uint32_t child;       /* 0: no children */
    uint32_t value_label; /* value << 9 | label; label 256: free or the root */
} tx__trie_unit;

/* Zeroed = empty; it must be built before it is walked. Node 0 is the root. */
typedef struct tx__byte_trie {
    tx__trie_unit *unit;
    size_t n; /* a multiple of 256 */
} tx__byte_trie;

typedef struct tx__trie_key {
    const unsigned char *bytes;
    uint32_t n; /* at least 1 */
    int32_t value;
} tx__trie_key;

/* Of equal keys the one with the smallest value counts. Sorts key[0..n_keys). Errors: TX_ERR_NOMEM. */
tx_status tx__byte_trie_build(tx__byte_trie *t, tx__trie_key *key, size_t n_keys);
void tx__byte_trie_free(tx__byte_trie *t);

/* The node that `byte` leads to; 0: none. */
static inline uint32_t tx__trie_step(const tx__byte_trie *t, uint32_t node, unsigned char byte)
{
    uint32_t at = t->unit[node].child ^ byte;
    return (t->unit[at].value_label & 0x1FF) == byte ? at : 0;
}

/* The value of the string that ends at the node; -1: none ends there. */
static inline int32_t tx__trie_value(const tx__byte_trie *t, uint32_t node)
{
    uint32_t value = t->unit[node].value_label >> 9;
    return value == TX__TRIE_VALUES ? -1 : (int32_t)value;
}

#endif
