/* bpe.h - merges the symbols of one piece of text. */
#ifndef TX_TOKEN_BPE_H
#define TX_TOKEN_BPE_H

#include <stdbool.h>

#include "token/vocab.h"

/* Memory for pieces too long for the stack, kept between pieces of one text. Zeroed = none. */
typedef struct tx__bpe_scratch {
    int32_t *prev, *next;
    uint32_t *rank, *fresh;
    uint64_t *heap;
    size_t cap; /* pieces of up to cap bytes fit */
} tx__bpe_scratch;
void tx__bpe_scratch_free(tx__bpe_scratch *s);

/* The merges in the form that the inner loop reads. A slot is rank << 42 | left << 21 | right, or all ones: free. Most
 * pairs are no merge. `maybe` answers that at less cost than the table: its bit at the pair's hash is set if some merge
 * has that hash. */
typedef struct tx__merges {
    uint64_t *slot;                /* open addressing, linear probing, at most half full */
    uint64_t *maybe;               /* 8 bits a slot */
    uint32_t (*byte_rank)[256];    /* [left][right] rank of the tokens of two bytes */
    int32_t byte_id[256], *merged; /* [rank] id of the pair's bytes */
    uint64_t mask;                 /* slots - 1 */
    int shift;                     /* 64 - log2(slots) */
    bool in_rounds;                /* see bpe.c; matters only where a merge makes what a stronger one takes */
} tx__merges;

/* Moves the merges out of v: v->rank and v->merged are empty afterwards, except on failure. Errors: TX_ERR_NOMEM;
 * TX_ERR_UNSUPPORTED beyond 2 million tokens or merges. */
tx_status tx__merges_build(tx__merges *out, tx__vocab *v);
void tx__merges_free(tx__merges *m); /* a zeroed one is fine */

/* A hash of all merges with their ranks. It does not depend on the order in which they were added. */
uint64_t tx__merges_hash(const tx__merges *m);

/* Writes the ids of piece[0..*n_ids), to id, which has room for one per byte, and their number to
 * *n_ids. */
tx_status tx__bpe_merge(const tx__merges *m, tx__bpe_scratch *s, const unsigned char *piece, int32_t *id,
                        size_t *n_ids);

/* The same of *n_ids symbols that are ids already, in place. */
tx_status tx__bpe_merge_ids(const tx__merges *m, tx__bpe_scratch *s, int32_t *id, size_t *n_ids);

#endif
