/* bpe.h - the merging of one piece of text. */
#ifndef TX_TOKEN_BPE_H
#define TX_TOKEN_BPE_H

#include "token/vocab.h"

/* Memory for pieces too long for the stack, kept between pieces of one text. Zeroed = none. */
typedef struct tx__bpe_scratch {
    int32_t *prev, *next;
    uint32_t *rank, *fresh;
    uint64_t *heap;
    size_t cap; /* pieces of up to cap bytes fit */
} tx__bpe_scratch;
void tx__bpe_scratch_free(tx__bpe_scratch *s);

/* Writes the ids of piece[0..*n_ids) to id, which has room for one per byte, and their number to *n_ids. */
tx_status tx__bpe_merge(const tx__vocab *v, tx__bpe_scratch *s, const unsigned char *piece, int32_t *id, size_t *n_ids);

#endif
