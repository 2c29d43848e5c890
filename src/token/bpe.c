/* bpe.c - byte-pair merging. The rule, from OpenAI's encoder.py: as long as some pair of neighbours is a merge, take
 * the strongest such merge and apply it everywhere in the piece, from left to right.
 *
 *  Short pieces (nearly all) do just that in arrays on the stack. Long ones (a line of dashes, a genome, base64) keep
 *  their symbols in a linked list and all mergeable pairs in a heap by (rank, place): n log n instead of n². */
#include "token/bpe.h"

#include "base/alloc.h"

#define SHORT 64 /* bytes; below it moving arrays beats a heap */

static inline uint32_t rank_of(const tx__vocab *v, int32_t left, int32_t right)
{
    return tx__pairs_find(&v->rank, tx__pair(left, right));
}

/* ---- short pieces ---- */

static size_t merge_short(const tx__vocab *v, int32_t *id, size_t n)
{
    uint32_t rank[SHORT]; /* [i] of the pair i, i+1 */
    for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(v, id[i], id[i + 1]);
    for (;;) {
        uint32_t best = TX__NO_PAIR;
        for (size_t i = 0; i + 1 < n; i++)
            if (rank[i] < best) best = rank[i];
        if (best == TX__NO_PAIR) return n;
        for (size_t i = 0; i + 1 < n; i++) {
            if (rank[i] != best) continue;
            id[i] = v->merged[best];
            n--;
            for (size_t j = i + 1; j < n; j++) id[j] = id[j + 1];
            for (size_t j = i + 1; j + 1 < n; j++) rank[j] = rank[j + 1];
            if (i > 0) rank[i - 1] = rank_of(v, id[i - 1], id[i]);
            if (i + 1 < n) rank[i] = rank_of(v, id[i], id[i + 1]);
        }
    }
}

/* ---- long pieces ---- */

static tx_status scratch_reserve(tx__bpe_scratch *s, size_t n)
{
    if (n <= s->cap) return TX_OK;
    tx__bpe_scratch_free(s);
    TX_TRY(tx_realloc(&s->prev, n, sizeof *s->prev, "a long word"));
    TX_TRY(tx_realloc(&s->next, n, sizeof *s->next, "a long word"));
    TX_TRY(tx_realloc(&s->rank, n, sizeof *s->rank, "a long word"));
    /* one merge gives at most two new pairs, and there are less than n merges and less than n pairs at first */
    TX_TRY(tx_realloc(&s->fresh, n, 2 * sizeof *s->fresh, "a long word"));
    TX_TRY(tx_realloc(&s->heap, n, 3 * sizeof *s->heap, "a long word"));
    s->cap = n;
    return TX_OK;
}

void tx__bpe_scratch_free(tx__bpe_scratch *s)
{
    tx_free(s->prev);
    tx_free(s->next);
    tx_free(s->rank);
    tx_free(s->fresh);
    tx_free(s->heap);
    *s = (tx__bpe_scratch){ 0 };
}

static void heap_push(uint64_t *heap, size_t *n, uint64_t x)
{
    size_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > x; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], x = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= x) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
    return top;
}

/* The symbols stay where they are; those swallowed by their left neighbour drop out of the list.
 *
 *      id    h   e   l   l   o          merge at 2         h   e   ll  .   o
 *      next  1   2   3   4   -1         ---------->        1   2   4       -1
 *
 *  A heap entry is rank << 32 | place, and stale if the pair at that place has another rank by now. Equal ranks are
 *  equal pairs, and a merge never makes the pair it merges, so pairs made in a round can wait until the round is over;
 *  they must, for the rule says "everywhere" before anything stronger that they may be. */
static size_t merge_long(const tx__vocab *v, tx__bpe_scratch *s, int32_t *id, int32_t n)
{
    size_t n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        s->prev[i] = i - 1;
        s->next[i] = i + 1 < n ? i + 1 : -1;
        s->rank[i] = i + 1 < n ? rank_of(v, id[i], id[i + 1]) : TX__NO_PAIR;
        if (s->rank[i] != TX__NO_PAIR) heap_push(s->heap, &n_heap, (uint64_t)s->rank[i] << 32 | (uint32_t)i);
    }
    while (n_heap) {
        uint32_t best = (uint32_t)(s->heap[0] >> 32);
        size_t n_fresh = 0;
        while (n_heap && s->heap[0] >> 32 == best) {
            int32_t at = (int32_t)(uint32_t)heap_pop(s->heap, &n_heap);
            if (s->rank[at] != best) continue;
            int32_t gone = s->next[at], after = s->next[gone], before = s->prev[at];
            id[at] = v->merged[best];
            s->next[at] = after;
            s->rank[at] = s->rank[gone] = TX__NO_PAIR;
            if (after >= 0) {
                s->prev[after] = at;
                s->rank[at] = rank_of(v, id[at], id[after]);
                s->fresh[n_fresh++] = (uint32_t)at;
            }
            if (before >= 0) {
                s->rank[before] = rank_of(v, id[before], id[at]);
                s->fresh[n_fresh++] = (uint32_t)before;
            }
        }
        for (size_t i = 0; i < n_fresh; i++) {
            uint32_t at = s->fresh[i];
            if (s->rank[at] != TX__NO_PAIR) heap_push(s->heap, &n_heap, (uint64_t)s->rank[at] << 32 | at);
        }
    }
    size_t n_ids = 0;
    for (int32_t i = 0; i >= 0; i = s->next[i]) id[n_ids++] = id[i];
    return n_ids;
}

tx_status tx__bpe_merge(const tx__vocab *v, tx__bpe_scratch *s, const unsigned char *piece, int32_t *id, size_t *n_ids)
{
    size_t n = *n_ids;
    for (size_t i = 0; i < n; i++) id[i] = v->byte_id[piece[i]];
    if (n <= SHORT) {
        *n_ids = merge_short(v, id, n);
        return TX_OK;
    }
    if (n > INT32_MAX) return TX_FAIL(TX_ERR_ARG, "a word of %zu bytes: at most %d are possible", n, INT32_MAX);
    TX_TRY(scratch_reserve(s, n));
    *n_ids = merge_long(v, s, id, (int32_t)n);
    return TX_OK;
}
