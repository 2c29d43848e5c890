/* symbol_bpe.h - merges neighbouring symbols, the strongest rule first and of equally strong ones the leftmost: BPE of
 * characters, SentencePiece's and Hugging Face's with byte fallback. (bpe.h is BPE of bytes.) Knows neither files nor
 * text: the caller makes symbols of characters. Source: Sennrich et al., arXiv:1508.07909. */
#ifndef TX_TOKEN_SYMBOL_BPE_H
#define TX_TOKEN_SYMBOL_BPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define TX__NO_RULE UINT32_MAX

/* `left` and `right`, neighbours in this order, become `into`; smaller ranks first. Symbols are not negative. */
typedef struct tx__symbol_rule {
    int32_t left, right, into;
    uint32_t rank; /* below TX__NO_RULE */
} tx__symbol_rule;

typedef struct tx__rule_slot {
    uint64_t key; /* left << 32 | right, plus 1; 0: free */
    uint32_t rank;
    int32_t into;
} tx__rule_slot;

/* Zeroed = no rules. Open addressing, linear probing, at most half full. */
typedef struct tx__symbol_bpe {
    tx__rule_slot *slot;
    uint64_t mask; /* slots - 1 */
    int shift;     /* 64 - log2(slots) */
} tx__symbol_bpe;

/* Of two rules for one pair the first counts. Errors: TX_ERR_NOMEM. */
tx_status tx__symbol_bpe_build(tx__symbol_bpe *b, const tx__symbol_rule *rule, size_t n);
void tx__symbol_bpe_free(tx__symbol_bpe *b);

/* The pair's slot; NULL: no rule. */
static inline const tx__rule_slot *tx__symbol_rule_of(const tx__symbol_bpe *b, int32_t left, int32_t right)
{
    if (left < 0 || right < 0 || !b->slot) return NULL;
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
    for (uint64_t i = key * 0x9E3779B97F4A7C15u >> b->shift;; i = (i + 1) & b->mask) {
        if (b->slot[i].key == key) return &b->slot[i];
        if (!b->slot[i].key) return NULL;
    }
}

/* Memory for long texts, kept between them. Zeroed = none. */
typedef struct tx__symbol_scratch {
    int32_t *prev, *next;
    uint32_t *rank;
    uint64_t *heap;
    size_t cap, n_heap, cap_heap;
} tx__symbol_scratch;
void tx__symbol_scratch_free(tx__symbol_scratch *s);

/* Told of every pair with a rule when it comes up: all pairs from left to right, then after each merge the new symbol's
 * with its left and with its right neighbour. */
typedef struct tx__pair_seen {
    void (*seen)(void *user, int32_t left, int32_t right, int32_t into);
    void *user;
} tx__pair_seen;

/* Merges symbol[0..*n) in place; a negative symbol stays as it is. watch: NULL allowed.
 * Errors: TX_ERR_NOMEM; TX_ERR_UNSUPPORTED for 2^31 symbols and more. */
tx_status tx__symbol_bpe_merge(const tx__symbol_bpe *b, tx__symbol_scratch *s, const tx__pair_seen *watch,
                               int32_t *symbol, size_t *n);

#endif
