/* byte_bpe.h - text to ids by byte-level BPE, whichever files the vocabulary was read from: the text is cut into
 * pieces; ids of pieces that were seen before come from a cache (piece_cache.h), the others are merged (bpe.h). */
#ifndef TX_TOKEN_BYTE_BPE_H
#define TX_TOKEN_BYTE_BPE_H

#include <stdbool.h>

#include "token/block_starts.h"
#include "token/bpe.h"
#include "token/piece_cache.h"
#include "triax/token.h"

/* Zeroed = empty. vocab, split and ignore_merges are set by the owner, then tx__byte_bpe_prepare does the rest; after
 * that it is const, and any number of threads may encode with it. */
typedef struct tx__byte_bpe {
    tx__vocab vocab; /* owned; its merges move to: */
    tx__merges merges;
    tx__split_fn *split;
    tx__starts_fn *starts; /* the same for blocks of text, or NULL */
    tx__classify_fn *classify;
    bool ignore_merges; /* a piece that is a token is that token, even where merging would not make it (Llama 3) */
    tx__piece_caches *caches;
} tx__byte_bpe;

tx_status tx__byte_bpe_prepare(tx__byte_bpe *b);

/* Appends the ids of text[0..n). After a failure *out may hold some of them. */
tx_status tx__byte_bpe_encode(const tx__byte_bpe *b, const unsigned char *text, size_t n, tx_ids *out);

/* The same with a cache that the caller has taken, and its scratch. */
tx_status tx__byte_bpe_encode_with(const tx__byte_bpe *b, tx__piece_cache *cache, tx__bpe_scratch *scratch,
                                   const unsigned char *text, size_t n, tx_ids *out);

void tx__byte_bpe_free(tx__byte_bpe *b);

#endif
