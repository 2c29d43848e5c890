/* merge_learner.c - learning merges without looking at the text again.
 *
 *  For every pair of neighbours there is a record: how often it occurs, weighted by its words' counts, and where.
 *
 *      place    0  1  2  3  4  5  6              pair record        count   occurrences
 *      symbol   l  o  w  l  o  g  o              (l,o)              w0+w1   0 3
 *      word     0  0  0  1  1  1  1              (o,w)              w0      1
 *
 *  A merge visits the occurrences of its pair, and so all merges together cost about text + n log n, however long the
 *  words are. A merged symbol stays at its first place. The places of the others are absorbed; the second and the
 *  last place of a merged symbol hold how many places it has, so that both neighbours are one step away:
 *
 *      after (l,o) -> A:   A -2  w  A -2  g  o        then (A,w) -> B:   B -3 -3  A -2  g  o
 *
 *  All occurrences of a pair come into being at once, with the younger of its two symbols. After that its count only
 *  falls. So a pair that is too rare when it appears needs no record; occurrences are a stretch of one array; those
 *  that another merge has taken are recognized by their symbols; and a heap entry whose count has fallen is pushed
 *  again with the true count.
 *
 *  Hugging Face's trainer takes pairs in the same order: by count, then by the smaller left, then right id. */
#include "token/merge_learner.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "token/pairs.h"

#define NONE             UINT32_MAX
#define SECONDS_PER_LINE 30 /* in the log; the live line comes more often */
#define WHAT             "pairs of tokens"

typedef struct record {
    uint64_t pair;
    int64_t count;
    uint32_t first, n; /* its stretch of occurrences */
} record;

typedef struct heap_entry {
    int64_t count;
    uint64_t pair;
    uint32_t record;
} heap_entry;

/* What a merge does to the pairs on one side of it, by the neighbour's symbol. */
typedef struct side {
    int64_t *dropped, *added; /* [symbol] counts; 0, 0: untouched */
    uint32_t *n_added;        /* [symbol] occurrences */
    int32_t *touched;
    size_t n_touched;
    tx__word_place *occurrence; /* of the new pairs: the neighbour's symbol, and the place instead of a word */
    size_t n_occurrences, cap;
} side;

typedef struct learner {
    tx__word_place *place;
    size_t n_places;
    const int64_t *count; /* [word] */
    int64_t min_frequency;
    tx__pairs index; /* pair -> record */
    record *record;
    size_t n_records, cap_records;
    uint32_t *occurrence;
    size_t n_occurrences, cap_occurrences;
    heap_entry *heap;
    size_t n_heap, cap_heap;
    side left, right;
} learner;

static void side_deinit(side *s)
{
    tx_free(s->dropped);
    tx_free(s->added);
    tx_free(s->n_added);
    tx_free(s->touched);
    tx_free(s->occurrence);
}

static void learner_deinit(learner *l)
{
    tx__pairs_free(&l->index);
    tx_free(l->record);
    tx_free(l->occurrence);
    tx_free(l->heap);
    side_deinit(&l->left);
    side_deinit(&l->right);
}

/* Room for one more element in an array from tx_realloc. */
static tx_status grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return TX_OK;
    size_t more = *cap ? *cap + *cap / 2 : 1024;
    TX_TRY(tx_realloc(array, more, size, WHAT));
    *cap = more;
    return TX_OK;
}

/* ---- neighbours ---- */

static inline uint32_t next_of(const learner *l, uint32_t at)
{
    size_t next = (size_t)at + 1;
    if (next < l->n_places && l->place[next].symbol < 0) next = at + (size_t)-l->place[next].symbol;
    return next < l->n_places && l->place[next].word == l->place[at].word ? (uint32_t)next : NONE;
}

static inline uint32_t prev_of(const learner *l, uint32_t at)
{
    if (!at || l->place[at - 1].word != l->place[at].word) return NONE;
    return l->place[at - 1].symbol < 0 ? at - (uint32_t)-l->place[at - 1].symbol : at - 1;
}

/* The symbol at `at` and the one at `gone` become `id`. */
static inline void join(learner *l, uint32_t at, uint32_t gone, int32_t id)
{
    uint32_t end = gone + 1;
    if (end < l->n_places && l->place[end].symbol < 0) end = gone + (uint32_t)-l->place[end].symbol;
    l->place[at].symbol = id;
    l->place[at + 1].symbol = l->place[end - 1].symbol = l->place[gone].symbol = -(int32_t)(end - at);
}

/* ---- records ---- */

static tx_status add_record(learner *l, uint64_t pair, int64_t count, uint32_t first, uint32_t n)
{
    TX_TRY(grow(&l->record, l->n_records, &l->cap_records, sizeof *l->record));
    l->record[l->n_records++] = (record){ pair, count, first, n };
    return TX_OK;
}

static inline bool is_at(const learner *l, uint64_t pair, uint32_t at)
{
    if (l->place[at].symbol != (int32_t)(pair >> 32)) return false;
    uint32_t next = next_of(l, at);
    return next != NONE && l->place[next].symbol == (int32_t)(uint32_t)pair;
}

/* Moves the occurrences that still count together. Records are in the order of their stretches. */
static void compact(learner *l)
{
    size_t n = 0;
    for (size_t r = 0; r < l->n_records; r++) {
        record *rec = &l->record[r];
        size_t first = n;
        for (uint32_t i = 0; rec->count >= l->min_frequency && i < rec->n; i++) {
            uint32_t at = l->occurrence[rec->first + i];
            if (is_at(l, rec->pair, at)) l->occurrence[n++] = at;
        }
        rec->first = (uint32_t)first;
        rec->n = (uint32_t)(n - first);
    }
    l->n_occurrences = n;
}

static tx_status reserve_occurrences(learner *l, size_t more)
{
    if (more <= l->cap_occurrences - l->n_occurrences) return TX_OK;
    compact(l);
    size_t cap = l->n_occurrences + more;
    if (cap <= l->cap_occurrences - l->cap_occurrences / 8) return TX_OK; /* and not soon again */
    cap += cap / 4;
    if (cap > NONE) return TX_FAIL(TX_ERR_NOMEM, "too much distinct text: give less at once");
    TX_TRY(tx_realloc(&l->occurrence, cap, sizeof *l->occurrence, WHAT));
    l->cap_occurrences = cap;
    return TX_OK;
}

/* ---- the most frequent pair ---- */

static inline bool before(heap_entry a, heap_entry b)
{
    return a.count != b.count ? a.count > b.count : a.pair < b.pair;
}

static tx_status heap_push(learner *l, uint32_t number)
{
    TX_TRY(grow(&l->heap, l->n_heap, &l->cap_heap, sizeof *l->heap));
    heap_entry x = { l->record[number].count, l->record[number].pair, number };
    size_t i = l->n_heap++;
    for (; i > 0 && before(x, l->heap[(i - 1) / 2]); i = (i - 1) / 2) l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = x;
    return TX_OK;
}

static heap_entry heap_pop(learner *l)
{
    heap_entry top = l->heap[0], x = l->heap[--l->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < l->n_heap; i = child) {
        if (child + 1 < l->n_heap && before(l->heap[child + 1], l->heap[child])) child++;
        if (!before(l->heap[child], x)) break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = x;
    return top;
}

/* ---- the pairs of the text ---- */

static tx_status count_pairs(learner *l)
{
    uint32_t *r;
    for (size_t i = 0; i + 1 < l->n_places; i++) {
        const tx__word_place *p = &l->place[i];
        if (p[1].word != p[0].word) continue;
        uint64_t pair = tx__pair(p[0].symbol, p[1].symbol);
        TX_TRY(tx__pairs_at(&l->index, pair, &r));
        if (*r == TX__NO_PAIR) {
            TX_TRY(add_record(l, pair, 0, 0, 0));
            *r = (uint32_t)l->n_records - 1;
        }
        l->record[*r].count += l->count[p->word];
        l->record[*r].n++;
    }
    return TX_OK;
}

static tx_status learner_init(learner *l)
{
    size_t n = 0;
    TX_TRY(count_pairs(l));
    for (size_t r = 0; r < l->n_records; r++)
        if (l->record[r].count >= l->min_frequency) n += l->record[r].n;
    l->cap_occurrences = n + n / 4 + 1024;
    TX_TRY(tx_realloc(&l->occurrence, l->cap_occurrences, sizeof *l->occurrence, WHAT));
    for (size_t r = 0; r < l->n_records; r++) {
        record *rec = &l->record[r];
        rec->first = (uint32_t)l->n_occurrences;
        if (rec->count >= l->min_frequency) {
            TX_TRY(heap_push(l, (uint32_t)r));
            l->n_occurrences += rec->n;
        }
        rec->n = 0;
    }
    for (uint32_t i = 0; i + 1 < l->n_places; i++) {
        const tx__word_place *p = &l->place[i];
        if (p[1].word != p[0].word) continue;
        record *rec = &l->record[tx__pairs_find(&l->index, tx__pair(p[0].symbol, p[1].symbol))];
        if (rec->count >= l->min_frequency) l->occurrence[rec->first + rec->n++] = i;
    }
    return TX_OK;
}

static tx_status side_init(side *s, size_t n_symbols)
{
    TX_TRY(tx_alloc(&s->dropped, n_symbols, sizeof *s->dropped, WHAT));
    TX_TRY(tx_alloc(&s->added, n_symbols, sizeof *s->added, WHAT));
    TX_TRY(tx_alloc(&s->n_added, n_symbols, sizeof *s->n_added, WHAT));
    return tx_alloc(&s->touched, n_symbols, sizeof *s->touched, WHAT);
}

/* ---- merging ---- */

/* The neighbour's pair with the old symbol occurs c times less, with the new symbol c times more, first at `place`. */
static inline void touch(side *s, int32_t symbol, int64_t dropped, int64_t added, uint32_t place)
{
    if (!s->dropped[symbol] && !s->added[symbol]) s->touched[s->n_touched++] = symbol;
    s->dropped[symbol] += dropped;
    s->added[symbol] += added;
    if (!added) return;
    s->n_added[symbol]++;
    s->occurrence[s->n_occurrences++] = (tx__word_place){ symbol, place };
}

/* Replaces the pair by `id` wherever it still is; the sides collect what that means for its neighbours. Occurrences
 * come in the order of their places. */
static void replace_pair(learner *l, const record *rec, int32_t id)
{
    int32_t first = (int32_t)(rec->pair >> 32);
    for (uint32_t i = 0; i < rec->n; i++) {
        uint32_t at = l->occurrence[rec->first + i];
        if (!is_at(l, rec->pair, at)) continue;
        uint32_t gone = next_of(l, at), earlier = prev_of(l, at), later = next_of(l, gone);
        int64_t c = l->count[l->place[at].word];
        if (earlier != NONE) { /* where it is new, its pair with this one's first symbol has never been added */
            int32_t p = l->place[earlier].symbol;
            touch(&l->left, p, p == id ? 0 : c, c, earlier);
        }
        if (later != NONE) {
            int32_t p = l->place[later].symbol;
            bool is_next = p == first && is_at(l, rec->pair, later);
            touch(&l->right, p, c, is_next ? 0 : c, at);
        }
        join(l, at, gone, id);
    }
}

/* Books what a side has collected: `old` is the symbol that the neighbours lost, `id` the one they got. */
static tx_status book(learner *l, side *s, int32_t old, int32_t id)
{
    bool is_left = s == &l->left;
    TX_TRY(reserve_occurrences(l, s->n_occurrences));
    for (size_t i = 0; i < s->n_touched; i++) {
        int32_t p = s->touched[i];
        uint32_t n = s->n_added[p], *number;
        if (s->dropped[p]) {
            uint32_t r = tx__pairs_find(&l->index, is_left ? tx__pair(p, old) : tx__pair(old, p));
            if (r != TX__NO_PAIR) l->record[r].count -= s->dropped[p];
        }
        s->n_added[p] = NONE; /* from here on: where its next occurrence goes */
        if (s->added[p] >= l->min_frequency) {
            uint64_t pair = is_left ? tx__pair(p, id) : tx__pair(id, p);
            s->n_added[p] = (uint32_t)l->n_occurrences;
            TX_TRY(add_record(l, pair, s->added[p], (uint32_t)l->n_occurrences, n));
            TX_TRY(tx__pairs_at(&l->index, pair, &number));
            *number = (uint32_t)l->n_records - 1;
            TX_TRY(heap_push(l, *number));
            l->n_occurrences += n;
        }
    }
    for (size_t i = 0; i < s->n_occurrences; i++) {
        uint32_t *to = &s->n_added[s->occurrence[i].symbol];
        if (*to != NONE) l->occurrence[(*to)++] = s->occurrence[i].word;
    }
    for (size_t i = 0; i < s->n_touched; i++) {
        int32_t p = s->touched[i];
        s->dropped[p] = s->added[p] = 0;
        s->n_added[p] = 0;
    }
    s->n_touched = s->n_occurrences = 0;
    return TX_OK;
}

static tx_status side_reserve(side *s, size_t n)
{
    if (n <= s->cap) return TX_OK;
    n += n / 4;
    TX_TRY(tx_realloc(&s->occurrence, n, sizeof *s->occurrence, WHAT));
    s->cap = n;
    return TX_OK;
}

static tx_status merge_pair(learner *l, uint32_t number, int32_t id)
{
    record *rec = &l->record[number];
    uint64_t pair = rec->pair;
    TX_TRY(side_reserve(&l->left, rec->n));
    TX_TRY(side_reserve(&l->right, rec->n));
    replace_pair(l, rec, id);
    rec->n = 0;
    TX_TRY(book(l, &l->left, (int32_t)(pair >> 32), id));
    TX_TRY(book(l, &l->right, (int32_t)(uint32_t)pair, id));
    l->record[number].count = 0; /* a pair of equals has also dropped itself as its own neighbour */
    return TX_OK;
}

typedef struct progress {
    double shown, logged;
} progress;

static void show_progress(progress *p, size_t n, size_t n_max)
{
    double now;
    if (n % 64 || (now = tx_clock()) - p->shown < TX_PROGRESS_SECONDS) return;
    p->shown = now;
    tx_log(TX_LOG_PROGRESS, "learning: %zu/%zu merges", n, n_max);
    if (now - p->logged < SECONDS_PER_LINE) return;
    p->logged = now;
    tx_info("Learned %zu of at most %zu merges", n, n_max);
}

static tx_status learn(learner *l, const tx__learn_opts *o, uint64_t *merge, size_t n_max, size_t *n)
{
    progress p = { .logged = tx_clock() };
    while (*n < n_max && l->n_heap) {
        heap_entry top = heap_pop(l);
        const record *rec = &l->record[top.record];
        if (rec->count < l->min_frequency) continue;
        if (rec->count != top.count) {
            TX_TRY(heap_push(l, top.record));
            continue;
        }
        merge[*n] = top.pair;
        TX_TRY(merge_pair(l, top.record, o->n_symbols + (int32_t)*n));
        ++*n;
        show_progress(&p, *n, n_max);
    }
    return TX_OK;
}

tx_status tx__learn_merges(tx__word_place *place, size_t n, const tx__learn_opts *o, uint64_t **merges,
                           size_t *n_merges)
{
    tx_status st;
    learner l = { .place = place, .n_places = n, .count = o->count, .min_frequency = o->min_frequency };
    uint64_t *merge = NULL;
    size_t n_max = o->max_merges < 0 ? 0 : (size_t)o->max_merges, n_learned = 0;
    if (l.min_frequency < 1) l.min_frequency = 1;
    if (n_max > n) n_max = n; /* every merge swallows a place */
    if (n > INT32_MAX) return TX_FAIL(TX_ERR_NOMEM, "more than 2 GiB of distinct words: give less text at once");
    TX_GOTO(tx_realloc(&merge, n_max + 1, sizeof *merge, "merges"));
    TX_GOTO(side_init(&l.left, (size_t)o->n_symbols + n_max));
    TX_GOTO(side_init(&l.right, (size_t)o->n_symbols + n_max));
    TX_GOTO(learner_init(&l));
    TX_GOTO(learn(&l, o, merge, n_max, &n_learned));
    *merges = merge;
    *n_merges = n_learned;
    merge = NULL;
out:
    tx_free(merge);
    learner_deinit(&l);
    return st;
}
