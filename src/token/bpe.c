/* bpe.c - byte-pair merging: as long as some pair of neighbours is a merge, apply the strongest such merge, and of
 * equal ones the leftmost. That is Hugging Face's rule. OpenAI's encoder.py works in rounds: it applies the strongest
 * merge everywhere in the piece, from left to right, before it looks at the symbols that this made. The two differ only
 * where a merge makes a symbol that a stronger merge takes, which hardly ever happens in a list as it was learned.
 *
 *  Short pieces (nearly all) do just that in arrays on the stack. Long ones (a line of dashes, a genome, base64) keep
 *  their symbols in a linked list and all mergeable pairs in a heap by (rank, place): n log n instead of n². */
#include "token/bpe.h"

#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"

#define SHORT     64 /* bytes; below it looking at everything beats a heap */
#define ID_BITS   21
#define PAIR_MASK (((uint64_t)1 << 2 * ID_BITS) - 1)
#define FREE      UINT64_MAX

/* ---- the table of merges ---- */

static inline uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << ID_BITS | (uint32_t)right;
}

static inline uint64_t hash_of(uint64_t pair)
{
    return pair * 0x9E3779B97F4A7C15u;
}

static inline uint32_t rank_of(const tx__merges *m, int32_t left, int32_t right)
{
    uint64_t pair = pair_of(left, right), h = hash_of(pair), bit = h >> (m->shift - 3);
    if (!(m->maybe[bit / 64] >> bit % 64 & 1)) return TX__NO_PAIR;
    for (uint64_t at = h >> m->shift; m->slot[at] != FREE; at = (at + 1) & m->mask)
        if ((m->slot[at] & PAIR_MASK) == pair) return (uint32_t)(m->slot[at] >> 2 * ID_BITS);
    return TX__NO_PAIR;
}

static void add_merge(tx__merges *m, const tx__vocab *v, int32_t left, int32_t right, uint32_t rank)
{
    size_t n_left, n_right;
    const char *a = tx__strings_at(&v->token, (uint32_t)left, &n_left);
    const char *b = tx__strings_at(&v->token, (uint32_t)right, &n_right);
    if (n_left == 1 && n_right == 1) m->byte_rank[(unsigned char)*a][(unsigned char)*b] = rank;
    uint64_t pair = pair_of(left, right);
    uint64_t h = hash_of(pair), bit = h >> (m->shift - 3), at = h >> m->shift;
    m->maybe[bit / 64] |= (uint64_t)1 << bit % 64;
    while (m->slot[at] != FREE) at = (at + 1) & m->mask;
    m->slot[at] = (uint64_t)rank << 2 * ID_BITS | pair;
}

tx_status tx__merges_build(tx__merges *out, tx__vocab *v)
{
    tx__merges m = { .shift = 64 - 10, .in_rounds = v->in_rounds };
    tx_status st;
    if (v->token.n >= 1 << ID_BITS || v->rank.n >= 1 << ID_BITS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "a vocabulary of %u tokens and %zu merges is too large: at most %d of each",
                       v->token.n, v->rank.n, (1 << ID_BITS) - 1);
    while ((size_t)1 << (64 - m.shift) < 2 * v->rank.n) m.shift--;
    size_t n_slots = (size_t)1 << (64 - m.shift);
    m.mask = n_slots - 1;
    TX_GOTO(tx_alloc(&m.slot, n_slots, sizeof *m.slot, "a vocabulary"));
    TX_GOTO(tx_alloc(&m.maybe, n_slots / 8, sizeof *m.maybe, "a vocabulary"));
    TX_GOTO(tx_alloc(&m.byte_rank, 256, sizeof *m.byte_rank, "a vocabulary"));
    memset(m.slot, 0xFF, n_slots * sizeof *m.slot);
    memset(m.byte_rank, 0xFF, 256 * sizeof *m.byte_rank);
    for (size_t i = 0; v->rank.slot && i <= v->rank.mask; i++) {
        uint64_t pair = v->rank.slot[i].key - 1;
        if (v->rank.slot[i].key)
            add_merge(&m, v, (int32_t)(pair >> 32), (int32_t)(uint32_t)pair, v->rank.slot[i].value);
    }
    memcpy(m.byte_id, v->byte_id, sizeof m.byte_id);
    m.merged = v->merged;
    v->merged = NULL;
    tx__pairs_free(&v->rank);
    *out = m;
    return TX_OK;
out:
    tx__merges_free(&m);
    return st;
}

uint64_t tx__merges_hash(const tx__merges *m)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; m->slot && i <= m->mask; i++)
        if (m->slot[i] != FREE) sum += XXH3_64bits(&m->slot[i], sizeof m->slot[i]);
    return sum;
}

void tx__merges_free(tx__merges *m)
{
    tx_free(m->slot);
    tx_free(m->maybe);
    tx_free(m->byte_rank);
    tx_free(m->merged);
    *m = (tx__merges){ 0 };
}

/* ---- short pieces ---- */

/* rank << 6 | place. Of no merge it is NO_KEY at least, without a branch: what is a merge cannot be guessed. */
#define NO_KEY (INT32_MAX - 63)

static inline int32_t key_of(uint32_t rank, size_t place)
{
    return (int32_t)((rank << 6 | (uint32_t)place) & INT32_MAX);
}

/* Symbols stay where they are, and a bit in `live` says where one begins:
 *
 *      token  h   e   l   l   o        merge at 2        h   e   ll  .   o
 *      live   1   1   1   1   1        ---------->       1   1   1   0   1
 *
 *  key[i] = rank << 6 | i of the pair that begins at i, so that the least of them is the strongest merge and its first
 * place; it is found by looking at all of them, which for so few is faster than any order kept. */
static inline size_t merge_keys(const tx__merges *m, int32_t token[SHORT], int32_t key[SHORT], int32_t *id, size_t n)
{
    _Static_assert(SHORT == 64 && ID_BITS + 6 < 31, "a bit for every place; rank and place in a key");
    uint64_t live = UINT64_MAX >> (64 - n);
    size_t n_keys = (n + 7) / 8 * 8;
    for (size_t i = n - 1; i < n_keys; i++) key[i] = NO_KEY;
    for (;;) {
        int32_t best = NO_KEY;
#pragma omp simd reduction(min : best)
        for (size_t i = 0; i < n_keys; i++) best = key[i] < best ? key[i] : best;
        if (best >= NO_KEY) break;
        size_t at = (size_t)best % 64, gone = at + 1 + (size_t)__builtin_ctzll(live >> at >> 1);
        live &= ~((uint64_t)1 << gone);
        uint64_t after = live >> at >> 1, before = live & (((uint64_t)1 << at) - 1);
        token[at] = m->merged[best >> 6];
        key[gone] = NO_KEY;
        key[at] = after ? key_of(rank_of(m, token[at], token[at + 1 + (size_t)__builtin_ctzll(after)]), at) : NO_KEY;
        if (before) {
            size_t p = 63 - (size_t)__builtin_clzll(before);
            key[p] = key_of(rank_of(m, token[p], token[at]), p);
        }
    }
    size_t n_ids = 0;
    for (; live; live &= live - 1) id[n_ids++] = token[__builtin_ctzll(live)];
    return n_ids;
}

static size_t merge_short(const tx__merges *m, const unsigned char *piece, int32_t *id, size_t n)
{
    int32_t token[SHORT], key[SHORT];
    for (size_t i = 0; i < n; i++) token[i] = m->byte_id[piece[i]];
    for (size_t i = 0; i + 1 < n; i++) key[i] = key_of(m->byte_rank[piece[i]][piece[i + 1]], i);
    return merge_keys(m, token, key, id, n);
}

static size_t merge_short_ids(const tx__merges *m, int32_t *id, size_t n)
{
    int32_t token[SHORT], key[SHORT];
    memcpy(token, id, n * sizeof *token);
    for (size_t i = 0; i + 1 < n; i++) key[i] = key_of(rank_of(m, id[i], id[i + 1]), i);
    return merge_keys(m, token, key, id, n);
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
 * equal pairs, and a merge never makes the pair it merges, so in rounds the pairs that one makes can wait for its end.
 */
static size_t merge_long(const tx__merges *m, tx__bpe_scratch *s, int32_t *id, int32_t n)
{
    size_t n_heap = 0;
    for (int32_t i = 0; i < n; i++) {
        s->prev[i] = i - 1;
        s->next[i] = i + 1 < n ? i + 1 : -1;
        s->rank[i] = i + 1 < n ? rank_of(m, id[i], id[i + 1]) : TX__NO_PAIR;
        if (s->rank[i] != TX__NO_PAIR) heap_push(s->heap, &n_heap, (uint64_t)s->rank[i] << 32 | (uint32_t)i);
    }
    while (n_heap) {
        uint32_t best = (uint32_t)(s->heap[0] >> 32);
        size_t n_fresh = 0;
        do {
            int32_t at = (int32_t)(uint32_t)heap_pop(s->heap, &n_heap);
            if (s->rank[at] != best) continue; /* stale */
            int32_t gone = s->next[at], after = s->next[gone], before = s->prev[at];
            id[at] = m->merged[best];
            s->next[at] = after;
            s->rank[at] = s->rank[gone] = TX__NO_PAIR;
            if (after >= 0) {
                s->prev[after] = at;
                s->rank[at] = rank_of(m, id[at], id[after]);
                s->fresh[n_fresh++] = (uint32_t)at;
            }
            if (before >= 0) {
                s->rank[before] = rank_of(m, id[before], id[at]);
                s->fresh[n_fresh++] = (uint32_t)before;
            }
        } while (m->in_rounds && n_heap && s->heap[0] >> 32 == best);
        for (size_t i = 0; i < n_fresh; i++) {
            uint32_t at = s->fresh[i];
            if (s->rank[at] != TX__NO_PAIR) heap_push(s->heap, &n_heap, (uint64_t)s->rank[at] << 32 | at);
        }
    }
    size_t n_ids = 0;
    for (int32_t i = 0; i >= 0; i = s->next[i]) id[n_ids++] = id[i];
    return n_ids;
}

static tx_status merge_long_ids(const tx__merges *m, tx__bpe_scratch *s, int32_t *id, size_t *n_ids)
{
    if (*n_ids > INT32_MAX)
        return TX_FAIL(TX_ERR_ARG, "a word of %zu bytes: at most %d are possible", *n_ids, INT32_MAX);
    TX_TRY(scratch_reserve(s, *n_ids));
    *n_ids = merge_long(m, s, id, (int32_t)*n_ids);
    return TX_OK;
}

tx_status tx__bpe_merge(const tx__merges *m, tx__bpe_scratch *s, const unsigned char *piece, int32_t *id, size_t *n_ids)
{
    size_t n = *n_ids;
    if (n <= SHORT && !m->in_rounds) {
        *n_ids = merge_short(m, piece, id, n);
        return TX_OK;
    }
    for (size_t i = 0; i < n; i++) id[i] = m->byte_id[piece[i]];
    return merge_long_ids(m, s, id, n_ids);
}

tx_status tx__bpe_merge_ids(const tx__merges *m, tx__bpe_scratch *s, int32_t *id, size_t *n_ids)
{
    if (!*n_ids) return TX_OK;
    if (*n_ids > SHORT || m->in_rounds) return merge_long_ids(m, s, id, n_ids);
    *n_ids = merge_short_ids(m, id, *n_ids);
    return TX_OK;
}
