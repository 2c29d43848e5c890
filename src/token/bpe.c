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

#define PLACES    64           /* of symbols that are not in a list */
#define SHORT     (PLACES - 2) /* bytes; below it looking at everything beats a heap */
#define TOGETHER  8            /* short pieces */
#define ID_BITS   21
#define NO_TOKEN  ((1 << ID_BITS) - 1) /* of no merge */
#define PAIR_MASK (((uint64_t)1 << 2 * ID_BITS) - 1)
#define FREE      UINT64_MAX

/* ---- the table of merges ---- */

static inline uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << ID_BITS | (uint32_t)right;
}

static inline uint64_t first_hash(uint64_t pair)
{
    return pair * 0x9E3779B97F4A7C15u;
}

static inline uint64_t second_hash(uint64_t first, uint64_t seed)
{
    return (first ^ seed << 32) * 0xD6E8FEB86659FD93u;
}

static inline const uint64_t *slot_of(const tx__merges *m, int32_t left, int32_t right)
{
    uint64_t h = first_hash(pair_of(left, right));
    return &m->slot[second_hash(h, m->seed[h >> m->seed_shift]) >> m->shift];
}

static inline uint32_t rank_of(const tx__merges *m, int32_t left, int32_t right)
{
    uint64_t pair = pair_of(left, right), slot = *slot_of(m, left, right);
    return (slot & PAIR_MASK) == pair ? (uint32_t)(slot >> 2 * ID_BITS) : TX__NO_PAIR;
}

/* ---- making it ---- */

/* Merges as they are in slots, sorted by their first hash. */
typedef struct sorted {
    uint64_t *merge;
    uint32_t *begin; /* [seeds + 1] of a hash's merges */
} sorted;

static size_t n_seeds(const tx__merges *m)
{
    return (size_t)1 << (64 - m->seed_shift);
}

static tx_status sort_merges(sorted *s, const tx__merges *m, const tx__vocab *v)
{
    TX_TRY(tx_alloc(&s->merge, v->rank.n + 1, sizeof *s->merge, "a vocabulary"));
    TX_TRY(tx_alloc(&s->begin, n_seeds(m) + 2, sizeof *s->begin, "a vocabulary"));
    for (int put = 0; put < 2; put++) { /* counts, then places: begin[h + 1] goes from the beginning of h to its end */
        for (size_t i = 0; v->rank.slot && i <= v->rank.mask; i++) {
            if (!v->rank.slot[i].key) continue;
            uint64_t key = v->rank.slot[i].key - 1, pair = pair_of((int32_t)(key >> 32), (int32_t)(uint32_t)key);
            uint64_t hash = first_hash(pair) >> m->seed_shift;
            if (put)
                s->merge[s->begin[hash + 1]++] = (uint64_t)v->rank.slot[i].value << 2 * ID_BITS | pair;
            else
                s->begin[hash + 2]++;
        }
        for (size_t h = 0; !put && h < n_seeds(m); h++) s->begin[h + 2] += s->begin[h + 1];
    }
    return TX_OK;
}

/* Whether the merges get free slots with this seed; if so they have them. */
static bool place_with(tx__merges *m, const uint64_t *merge, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *slot = &m->slot[second_hash(first_hash(merge[i] & PAIR_MASK), seed) >> m->shift];
        if (*slot == FREE) {
            *slot = merge[i];
            continue;
        }
        while (i-- > 0) m->slot[second_hash(first_hash(merge[i] & PAIR_MASK), seed) >> m->shift] = FREE;
        return false;
    }
    return true;
}

/* Large groups choose first, while much is free. False: there are too few slots. */
static bool place_all(tx__merges *m, const sorted *s)
{
    uint32_t largest = 0;
    memset(m->slot, 0xFF, sizeof *m->slot << (64 - m->shift));
    for (size_t h = 0; h < n_seeds(m); h++)
        if (s->begin[h + 1] - s->begin[h] > largest) largest = s->begin[h + 1] - s->begin[h];
    for (uint32_t n = largest; n > 0; n--)
        for (size_t h = 0; h < n_seeds(m); h++) {
            uint32_t seed = 0;
            if (s->begin[h + 1] - s->begin[h] != n) continue;
            while (seed <= UINT16_MAX && !place_with(m, s->merge + s->begin[h], n, seed)) seed++;
            if (seed > UINT16_MAX) return false;
            m->seed[h] = (uint16_t)seed;
        }
    return true;
}

static tx_status place_merges(tx__merges *m, const tx__vocab *v)
{
    sorted s = { 0 };
    tx_status st;
    m->shift = 64 - 10;
    while ((size_t)1 << (64 - m->shift) < v->rank.n / 4 * 5) m->shift--;
    m->seed_shift = m->shift + 2;
    int fewest = m->shift;
    TX_GOTO(tx_alloc(&m->seed, n_seeds(m), sizeof *m->seed, "a vocabulary"));
    TX_GOTO(sort_merges(&s, m, v));
    for (;; m->shift--) {
        if (m->shift < fewest - 6)
            TX_GOTO(
                TX_FAIL(TX_ERR_UNSUPPORTED, "the merges cannot be told apart: too many of them have the same hash"));
        TX_GOTO(tx_alloc(&m->slot, (size_t)1 << (64 - m->shift), sizeof *m->slot, "a vocabulary"));
        if (place_all(m, &s)) break;
        tx_free(m->slot);
        m->slot = NULL;
    }
out:
    tx_free(s.merge);
    tx_free(s.begin);
    return st;
}

/* Ranks of the tokens of two bytes. */
static void note_bytes(tx__merges *m, const tx__vocab *v)
{
    memset(m->byte_rank, 0xFF, 256 * sizeof *m->byte_rank);
    for (unsigned left = 0; left < 256; left++)
        for (unsigned right = 0; right < 256; right++)
            m->byte_rank[left][right] = rank_of(m, v->byte_id[left], v->byte_id[right]);
}

tx_status tx__merges_build(tx__merges *out, tx__vocab *v)
{
    tx__merges m = { .in_rounds = v->in_rounds };
    tx_status st;
    if (v->token.n >= 1 << ID_BITS || v->rank.n >= 1 << ID_BITS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "a vocabulary of %u tokens and %zu merges is too large: at most %d of each",
                       v->token.n, v->rank.n, (1 << ID_BITS) - 1);
    TX_GOTO(place_merges(&m, v));
    TX_GOTO(tx_alloc(&m.byte_rank, 256, sizeof *m.byte_rank, "a vocabulary"));
    note_bytes(&m, v);
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
    for (uint64_t i = 0; m->slot && i < (uint64_t)1 << (64 - m->shift); i++)
        if (m->slot[i] != FREE) sum += XXH3_64bits(&m->slot[i], sizeof m->slot[i]);
    return sum;
}

void tx__merges_free(tx__merges *m)
{
    tx_free(m->slot);
    tx_free(m->seed);
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

/* A short piece while it is merged. Symbols stay where they are, between two that no merge takes, and a bit in `live`
 * says where one begins:
 *
 *      token  -  h   e   l   l   o  -      merge at 3       -  h   e   ll  .   o  -
 *      live   1  1   1   1   1   1  1      ---------->      1  1   1   1   0   1  1
 *
 *  key[i] = rank << 6 | i of the pair that begins at i, so that the least of them is the strongest merge and its first
 * place; it is found by looking at all of them, which for so few is faster than any order kept.
 *
 *  Looking up a pair waits for memory. So a merge has two halves, and a piece does the first (merge_next), which names
 * the pairs, while others of the pieces that are merged together wait for the second (look_up). */
typedef struct short_piece {
    int32_t token[PLACES], key[PLACES];
    uint64_t live;
    size_t n_keys;
    size_t before, at, after; /* of the last merge, and the symbols beside it */
} short_piece;

static void begin(short_piece *p, size_t n)
{
    _Static_assert(PLACES == 64 && ID_BITS + 6 < 31, "a bit for every place; rank and place in a key");
    p->live = UINT64_MAX >> (SHORT - n);
    p->n_keys = (n + 8) / 8 * 8;
    p->token[0] = p->token[n + 1] = NO_TOKEN;
    p->key[0] = NO_KEY;
    for (size_t i = n; i < p->n_keys; i++) p->key[i] = NO_KEY;
}

static void begin_bytes(const tx__merges *m, short_piece *p, const unsigned char *piece, size_t n)
{
    begin(p, n);
    for (size_t i = 0; i < n; i++) p->token[i + 1] = m->byte_id[piece[i]];
    for (size_t i = 0; i + 1 < n; i++) p->key[i + 1] = key_of(m->byte_rank[piece[i]][piece[i + 1]], i + 1);
}

/* Applies the strongest merge; false: there is none. */
static inline bool merge_next(const tx__merges *m, short_piece *p)
{
    int32_t best = NO_KEY;
#pragma omp simd reduction(min : best)
    for (size_t i = 0; i < p->n_keys; i++) best = p->key[i] < best ? p->key[i] : best;
    if (best >= NO_KEY) return false;
    size_t at = (size_t)best % PLACES, gone = at + 1 + (size_t)__builtin_ctzll(p->live >> at >> 1);
    p->live &= ~((uint64_t)1 << gone);
    p->key[gone] = NO_KEY;
    p->token[at] = m->merged[best / PLACES];
    p->at = at;
    p->after = gone + 1 + (size_t)__builtin_ctzll(p->live >> gone >> 1);
    p->before = PLACES - 1 - (size_t)__builtin_clzll(p->live & (((uint64_t)1 << at) - 1));
    __builtin_prefetch(slot_of(m, p->token[at], p->token[p->after]));
    __builtin_prefetch(slot_of(m, p->token[p->before], p->token[at]));
    return true;
}

static inline void look_up(const tx__merges *m, short_piece *p)
{
    size_t at = p->at;
    p->key[at] = key_of(rank_of(m, p->token[at], p->token[p->after]), at);
    p->key[p->before] = key_of(rank_of(m, p->token[p->before], p->token[at]), p->before);
}

/* Writes the ids; returns their number. */
static size_t finish(const short_piece *p, int32_t *id)
{
    size_t n_ids = 0;
    uint64_t live = p->live & ~(uint64_t)1; /* the symbols and the one after them */
    for (; live & (live - 1); live &= live - 1) id[n_ids++] = p->token[__builtin_ctzll(live)];
    return n_ids;
}

static size_t merge_short_ids(const tx__merges *m, int32_t *id, size_t n)
{
    short_piece p;
    begin(&p, n);
    memcpy(p.token + 1, id, n * sizeof *id);
    for (size_t i = 0; i + 1 < n; i++) p.key[i + 1] = key_of(rank_of(m, id[i], id[i + 1]), i + 1);
    while (merge_next(m, &p)) look_up(m, &p);
    return finish(&p, id);
}

static void merge_together(const tx__merges *m, tx__bpe_piece *const piece[], size_t n)
{
    short_piece shorts[TOGETHER];
    size_t running[TOGETHER], n_running = n;
    for (size_t i = 0; i < n; i++) {
        begin_bytes(m, &shorts[i], piece[i]->text, piece[i]->n);
        running[i] = i;
    }
    while (n_running) {
        size_t n_left = 0;
        for (size_t k = 0; k < n_running; k++) {
            size_t i = running[k];
            if (merge_next(m, &shorts[i]))
                running[n_left++] = i;
            else
                piece[i]->n_ids = finish(&shorts[i], piece[i]->id);
        }
        n_running = n_left;
        for (size_t k = 0; k < n_running; k++) look_up(m, &shorts[running[k]]);
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

tx_status tx__bpe_merge(const tx__merges *m, tx__bpe_scratch *s, tx__bpe_piece *piece, size_t n)
{
    tx__bpe_piece *together[TOGETHER];
    size_t n_together = 0;
    for (tx__bpe_piece *p = piece; p < piece + n; p++) {
        if (p->n <= SHORT && !m->in_rounds) {
            together[n_together++] = p;
            if (n_together < TOGETHER) continue;
            merge_together(m, together, n_together);
            n_together = 0;
        } else {
            p->n_ids = p->n;
            for (size_t i = 0; i < p->n; i++) p->id[i] = m->byte_id[p->text[i]];
            TX_TRY(merge_long_ids(m, s, p->id, &p->n_ids));
        }
    }
    merge_together(m, together, n_together);
    return TX_OK;
}

tx_status tx__bpe_merge_ids(const tx__merges *m, tx__bpe_scratch *s, int32_t *id, size_t *n_ids)
{
    if (!*n_ids) return TX_OK;
    if (*n_ids > SHORT || m->in_rounds) return merge_long_ids(m, s, id, n_ids);
    *n_ids = merge_short_ids(m, id, *n_ids);
    return TX_OK;
}
