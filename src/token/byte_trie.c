/* byte_trie.c - building a double-array trie, level by level. Places for children are looked for in the last few blocks
 * only, so that building takes time in proportion to the nodes. */
#include "token/byte_trie.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { BLOCK = 256, N_OPEN = 16, MAX_FAILURES = 16, FREE_LABEL = 0x100 };

typedef struct open_block {
    uint32_t first; /* its first unit */
    int failures;
    uint64_t taken[4], based[4]; /* bit of each unit; bit of each `child` in it that a node has */
} open_block;

/* Keys [begin, end) share their first `depth` bytes, which lead to `node`. */
typedef struct range {
    uint32_t node, depth;
    size_t begin, end;
} range;

typedef struct builder {
    tx__byte_trie *t;
    const tx__trie_key *key;
    open_block open[N_OPEN];
    size_t n_blocks;
    range *queue;
    size_t head, tail, cap;
} builder;

static int compare_keys(const void *pa, const void *pb)
{
    const tx__trie_key *a = pa, *b = pb;
    uint32_t n = a->n < b->n ? a->n : b->n;
    int c = memcmp(a->bytes, b->bytes, n);
    if (c || a->n != b->n) return c ? c : a->n < b->n ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

static bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> i % 64 & 1;
}

static void set_bit(uint64_t *set, uint32_t i)
{
    set[i / 64] |= (uint64_t)1 << i % 64;
}

static tx_status add_block(builder *b)
{
    if (b->t->n + BLOCK > UINT32_MAX) return TX_FAIL(TX_ERR_NOMEM, "too many distinct words for one table");
    if (!(b->n_blocks & (b->n_blocks - 1)))
        TX_TRY(tx_realloc(&b->t->unit, (b->n_blocks ? 2 * b->n_blocks : 1) * BLOCK, sizeof *b->t->unit, "a trie"));
    open_block *o = &b->open[b->n_blocks++ % N_OPEN];
    *o = (open_block){ .first = (uint32_t)b->t->n };
    for (size_t i = 0; i < BLOCK; i++)
        b->t->unit[b->t->n++] = (tx__trie_unit){ 0, (uint32_t)TX__TRIE_VALUES << 9 | FREE_LABEL };
    return TX_OK;
}

/* A place in the block for children with these labels, as `child` relative to the block; -1: none. */
static int place_in(const open_block *o, const unsigned char *label, int n)
{
    for (int w = 0; w < 4; w++)
        for (uint64_t left = ~o->taken[w]; left; left &= left - 1) {
            uint32_t base = (uint32_t)(64 * w + __builtin_ctzll(left)) ^ label[0];
            int k = 1;
            if (bit(o->based, base)) continue;
            while (k < n && !bit(o->taken, base ^ label[k])) k++;
            if (k == n) return (int)base;
        }
    return -1;
}

static tx_status place(builder *b, const unsigned char *label, int n, uint32_t *child)
{
    for (;;) {
        size_t n_open = b->n_blocks < N_OPEN ? b->n_blocks : N_OPEN;
        for (size_t i = 0; i < n_open; i++) {
            open_block *o = &b->open[i];
            if (o->failures >= MAX_FAILURES) continue;
            int base = place_in(o, label, n);
            if (base < 0) {
                o->failures++;
                continue;
            }
            for (int k = 0; k < n; k++) set_bit(o->taken, (uint32_t)base ^ label[k]);
            set_bit(o->based, (uint32_t)base);
            *child = o->first + (uint32_t)base;
            return TX_OK;
        }
        TX_TRY(add_block(b));
    }
}

static tx_status push(builder *b, range r)
{
    if (b->tail == b->cap) {
        size_t cap = 2 * b->cap + 256;
        TX_TRY(tx_realloc(&b->queue, cap, sizeof *b->queue, "a trie"));
        b->cap = cap;
    }
    b->queue[b->tail++] = r;
    return TX_OK;
}

static tx_status add_children(builder *b, range r)
{
    unsigned char label[BLOCK];
    int n = 0;
    uint32_t child;
    if (b->key[r.begin].n == r.depth) {
        uint32_t *v = &b->t->unit[r.node].value_label;
        *v = (uint32_t)b->key[r.begin].value << 9 | (*v & 0x1FF);
        while (r.begin < r.end && b->key[r.begin].n == r.depth) r.begin++;
    }
    for (size_t i = r.begin; i < r.end; i++) {
        unsigned char c = b->key[i].bytes[r.depth];
        if (!n || label[n - 1] != c) label[n++] = c;
    }
    if (!n) return TX_OK;
    TX_TRY(place(b, label, n, &child));
    b->t->unit[r.node].child = child;
    for (int k = 0; k < n; k++) {
        range below = { child ^ label[k], r.depth + 1, r.begin, r.begin };
        while (below.end < r.end && b->key[below.end].bytes[r.depth] == label[k]) below.end++;
        b->t->unit[below.node].value_label = (uint32_t)TX__TRIE_VALUES << 9 | label[k];
        r.begin = below.end;
        TX_TRY(push(b, below));
    }
    return TX_OK;
}

tx_status tx__byte_trie_build(tx__byte_trie *t, tx__trie_key *key, size_t n_keys)
{
    builder b = { .t = t, .key = key };
    tx_status st;
    if (n_keys) qsort(key, n_keys, sizeof *key, compare_keys);
    TX_GOTO(add_block(&b));
    set_bit(b.open[0].taken, 0); /* the root */
    set_bit(b.open[0].based, 0); /* 0 means no children */
    if (n_keys) TX_GOTO(push(&b, (range){ .end = n_keys }));
    while (b.head < b.tail) TX_GOTO(add_children(&b, b.queue[b.head++]));
out:
    tx_free(b.queue);
    if (st) tx__byte_trie_free(t);
    return st;
}

void tx__byte_trie_free(tx__byte_trie *t)
{
    tx_free(t->unit);
    *t = (tx__byte_trie){ 0 };
}
