/* symbol_bpe.c - short texts look for the strongest pair each time, long ones keep pairs in a heap. */
#include "token/symbol_bpe.h"

#include <string.h>

#include "base/alloc.h"

enum { SHORT = 48 };

/* ---- rules ---- */

tx_status tx__symbol_bpe_build(tx__symbol_bpe *b, const tx__symbol_rule *rule, size_t n)
{
    int bits = 6;
    while ((size_t)1 << bits < 2 * n) bits++;
    TX_TRY(tx_alloc(&b->slot, (size_t)1 << bits, sizeof *b->slot, "the merges"));
    b->mask = ((uint64_t)1 << bits) - 1;
    b->shift = 64 - bits;
    for (size_t k = 0; k < n; k++) {
        uint64_t key = ((uint64_t)(uint32_t)rule[k].left << 32 | (uint32_t)rule[k].right) + 1;
        uint64_t i = key * 0x9E3779B97F4A7C15u >> b->shift;
        while (b->slot[i].key && b->slot[i].key != key) i = (i + 1) & b->mask;
        if (!b->slot[i].key) b->slot[i] = (tx__rule_slot){ key, rule[k].rank, rule[k].into };
    }
    return TX_OK;
}

void tx__symbol_bpe_free(tx__symbol_bpe *b)
{
    tx_free(b->slot);
    *b = (tx__symbol_bpe){ 0 };
}

void tx__symbol_scratch_free(tx__symbol_scratch *s)
{
    tx_free(s->prev);
    tx_free(s->next);
    tx_free(s->rank);
    tx_free(s->heap);
    *s = (tx__symbol_scratch){ 0 };
}

static inline uint32_t rank_of(const tx__symbol_bpe *b, const tx__pair_seen *watch, int32_t left, int32_t right)
{
    const tx__rule_slot *rule = tx__symbol_rule_of(b, left, right);
    if (!rule) return TX__NO_RULE;
    if (watch) watch->seen(watch->user, left, right, rule->into);
    return rule->rank;
}

/* ---- short texts ---- */

static void merge_short(const tx__symbol_bpe *b, const tx__pair_seen *watch, int32_t *symbol, size_t *n_symbols)
{
    uint32_t rank[SHORT]; /* of the symbol and its right neighbour */
    size_t n = *n_symbols;
    for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(b, watch, symbol[i], symbol[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == TX__NO_RULE) break;
        symbol[best] = tx__symbol_rule_of(b, symbol[best], symbol[best + 1])->into;
        n--;
        memmove(symbol + best + 1, symbol + best + 2, (n - best - 1) * sizeof *symbol);
        memmove(rank + best, rank + best + 1, (n - best) * sizeof *rank);
        if (best) rank[best - 1] = rank_of(b, watch, symbol[best - 1], symbol[best]);
        if (best + 1 < n) rank[best] = rank_of(b, watch, symbol[best], symbol[best + 1]);
    }
    *n_symbols = n;
}

/* ---- long texts: an entry of the heap is rank << 32 | place; it is out of date if the pair there has another rank
 * ---- */

static tx_status heap_push(tx__symbol_scratch *s, uint64_t entry)
{
    if (s->n_heap == s->cap_heap) {
        size_t cap = 2 * s->cap_heap + 256;
        TX_TRY(tx_realloc(&s->heap, cap, sizeof *s->heap, "the merges of a text"));
        s->cap_heap = cap;
    }
    size_t i = s->n_heap++;
    for (; i && s->heap[(i - 1) / 2] > entry; i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = entry;
    return TX_OK;
}

static uint64_t heap_pop(tx__symbol_scratch *s)
{
    uint64_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
        if (child + 1 < s->n_heap && s->heap[child + 1] < s->heap[child]) child++;
        if (s->heap[child] >= last) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

static tx_status reserve(tx__symbol_scratch *s, size_t n)
{
    if (n <= s->cap) return TX_OK;
    TX_TRY(tx_realloc(&s->prev, n, sizeof *s->prev, "the merges of a text"));
    TX_TRY(tx_realloc(&s->next, n, sizeof *s->next, "the merges of a text"));
    TX_TRY(tx_realloc(&s->rank, n, sizeof *s->rank, "the merges of a text"));
    s->cap = n;
    return TX_OK;
}

static tx_status set_rank(const tx__symbol_bpe *b, tx__symbol_scratch *s, const tx__pair_seen *watch,
                          const int32_t *symbol, int32_t left)
{
    s->rank[left] = s->next[left] < 0 ? TX__NO_RULE : rank_of(b, watch, symbol[left], symbol[s->next[left]]);
    return s->rank[left] == TX__NO_RULE ? TX_OK : heap_push(s, (uint64_t)s->rank[left] << 32 | (uint32_t)left);
}

static tx_status merge_long(const tx__symbol_bpe *b, tx__symbol_scratch *s, const tx__pair_seen *watch, int32_t *symbol,
                            size_t *n)
{
    if (*n > INT32_MAX) return TX_FAIL(TX_ERR_UNSUPPORTED, "a text of more than 2 GiB: give it in parts");
    int32_t end = (int32_t)*n;
    TX_TRY(reserve(s, *n));
    s->n_heap = 0;
    for (int32_t i = 0; i < end; i++) {
        s->prev[i] = i - 1;
        s->next[i] = i + 1 < end ? i + 1 : -1;
    }
    for (int32_t i = 0; i < end; i++) TX_TRY(set_rank(b, s, watch, symbol, i));
    while (s->n_heap) {
        uint64_t top = heap_pop(s);
        int32_t left = (int32_t)(uint32_t)top, right = s->next[left];
        if (s->rank[left] != (uint32_t)(top >> 32)) continue;
        symbol[left] = tx__symbol_rule_of(b, symbol[left], symbol[right])->into;
        s->next[left] = s->next[right];
        if (s->next[left] >= 0) s->prev[s->next[left]] = left;
        s->rank[right] = TX__NO_RULE;
        if (s->prev[left] >= 0) TX_TRY(set_rank(b, s, watch, symbol, s->prev[left]));
        TX_TRY(set_rank(b, s, watch, symbol, left));
    }
    *n = 0;
    for (int32_t i = 0; i >= 0 && i < end; i = s->next[i]) symbol[(*n)++] = symbol[i];
    return TX_OK;
}

tx_status tx__symbol_bpe_merge(const tx__symbol_bpe *b, tx__symbol_scratch *s, const tx__pair_seen *watch,
                               int32_t *symbol, size_t *n)
{
    if (*n > SHORT) return merge_long(b, s, watch, symbol, n);
    merge_short(b, watch, symbol, n);
    return TX_OK;
}
