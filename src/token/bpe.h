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

/* The merges in the form that the inner loop reads: one slot answers whether a pair is a merge, and nothing branches on
 * that, for it cannot be guessed. A slot is rank << 42 | left << 21 | right, or all ones: free. Pairs with the same
 * first hash share a seed, found when the table is made, with which each pair has a second hash of its own: its slot.
 */
typedef struct tx__merges {
    uint64_t *slot;             /* by the second hash */
    uint16_t *seed;             /* by the first */
    uint32_t (*byte_rank)[256]; /* [left][right] rank of the tokens of two bytes */
    int32_t byte_id[256];
    int32_t *merged;       /* [rank] id of the pair's bytes */
    int shift, seed_shift; /* 64 - log2 of slots and of seeds */
    bool in_rounds;        /* see bpe.c; matters only where a merge makes what a stronger one takes */
} tx__merges;

/* Moves the merges out of v: v->rank and v->merged are empty afterwards, except on failure. Errors: TX_ERR_NOMEM;
 * TX_ERR_UNSUPPORTED beyond 2 million tokens or merges. */
tx_status tx__merges_build(tx__merges *out, tx__vocab *v);
void tx__merges_free(tx__merges *m); /* a zeroed one is fine */

/* A hash of all merges with their ranks. It does not depend on the order in which they were added. */
uint64_t tx__merges_hash(const tx__merges *m);

/* A piece of text, and where its ids go. */
typedef struct tx__bpe_piece {
    const unsigned char *text;
    size_t n;    /* bytes, at least 1 */
    int32_t *id; /* room for one per byte */
    size_t n_ids;
} tx__bpe_piece;

/* Sets the ids of n pieces and their numbers. Several at a time take less time than one after the other. */
tx_status tx__bpe_merge(const tx__merges *m, tx__bpe_scratch *s, tx__bpe_piece *piece, size_t n);

/* Merges *n_ids symbols that are ids already, in place. */
tx_status tx__bpe_merge_ids(const tx__merges *m, tx__bpe_scratch *s, int32_t *id, size_t *n_ids);

#endif
