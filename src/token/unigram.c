/* unigram.c - Viterbi's algorithm over the bytes of a text. Whatever ends at a place is compared there, from the pieces
 * that begin first to those that begin last; a later one must be better, not equal. */
#include "token/unigram.h"

#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"

/* The best way to the place after a byte. */
struct tx__unigram_node {
    double sum, margin;
    int32_t id;
    uint32_t start; /* of its last piece; NOT_YET: nothing ends here */
};

#define NOT_YET UINT32_MAX

enum { LOWEST = 100000 /* a float's sum below minus this is taken off */ };

void tx__unigram_scratch_free(tx__unigram_scratch *s)
{
    tx_free(s->node);
    tx_free(s->span);
    *s = (tx__unigram_scratch){ 0 };
}

tx_status tx__unigram_reserve(tx__unigram_scratch *s, size_t n)
{
    if (n < s->cap) return TX_OK;
    size_t cap = n + n / 2 + 256;
    TX_TRY(tx_realloc(&s->node, cap, sizeof *s->node, "the ways through a text"));
    TX_TRY(tx_realloc(&s->span, cap, sizeof *s->span, "the ways through a text"));
    s->cap = cap;
    return TX_OK;
}

static inline void offer(struct tx__unigram_node *at, double sum, int32_t id, size_t start, bool in_float)
{
    if (in_float) sum = (double)(float)sum;
    if (at->start == NOT_YET || sum > at->sum) {
        at->margin = at->start == NOT_YET ? INFINITY : sum - at->sum;
        at->sum = sum;
        at->start = (uint32_t)start;
        at->id = id;
    } else if (at->sum - sum < at->margin) {
        at->margin = at->sum - sum;
    }
}

/* Everything that begins at `start`. Returns the length of the character there; *reach is the last place offered. */
static inline size_t offer_all(const tx__unigram *u, struct tx__unigram_node *node, const unsigned char *text,
                               size_t start, size_t n, size_t *reach)
{
    size_t length = tx__lead_length(text[start]), last = start;
    bool single = false;
    double sum = node[start].sum;
    if (length > n - start) length = n - start;
    uint32_t at = 0;
    for (size_t end = start; end < n;) {
        at = tx__trie_step(&u->trie, at, text[end++]);
        if (!at) break;
        int32_t id = tx__trie_value(&u->trie, at);
        if (id < 0) continue;
        offer(&node[end], sum + u->score[id], id, start, u->in_float);
        single |= end - start == length;
        last = end;
    }
    if (!single) offer(&node[start + length], sum + u->unk_score, u->unk, start, u->in_float);
    if (last < start + length) last = start + length;
    if (last > *reach) *reach = last;
    return length;
}

/* Takes the sum at `start` off all that there are from there on. */
static void take_off(struct tx__unigram_node *node, size_t start, size_t reach)
{
    double sum = node[start].sum;
    for (size_t i = start; i <= reach; i++)
        if (node[i].start != NOT_YET) node[i].sum -= sum;
}

tx_status tx__unigram_cut(const tx__unigram *u, tx__unigram_scratch *s, const unsigned char *text, size_t n,
                          double *sum, double *margin)
{
    if (n >= INT32_MAX) return TX_FAIL(TX_ERR_UNSUPPORTED, "a text of more than 2 GiB: give it in parts");
    TX_TRY(tx__unigram_reserve(s, n));
    double least = INFINITY;
    s->node[0] = (struct tx__unigram_node){ .sum = *sum };
    for (size_t i = 1; i <= n; i++) s->node[i].start = NOT_YET;
    for (size_t at = 0, reach = 0; at < n;) {
        if (u->in_float && s->node[at].sum < -LOWEST) take_off(s->node, at, reach);
        at += offer_all(u, s->node, text, at, n, &reach);
    }

    size_t k = 0;
    for (size_t end = n; end > 0; end = s->node[end].start) {
        const struct tx__unigram_node *at = &s->node[end];
        s->span[k++] = (tx__unigram_span){ at->id, (uint32_t)end - at->start };
        if (at->margin < least) least = at->margin;
    }
    for (size_t i = 0; i < k / 2; i++) {
        tx__unigram_span swap = s->span[i];
        s->span[i] = s->span[k - 1 - i];
        s->span[k - 1 - i] = swap;
    }
    s->n_spans = k;
    *sum = s->node[n].sum;
    if (margin) *margin = least;
    return TX_OK;
}

/* After at most n additions a sum of size |sum| + n times the largest score is off by n roundings, each of half a unit
 * in the last place; of two sums that are compared both are, and so is the margin, which was found from 0 on. */
float tx__unigram_limit(const tx__unigram *u, size_t n, double margin)
{
    double unit = u->in_float ? 0x1p-24 : 0x1p-53, steps = (double)n + 1;
    double bound = margin / (2 * steps * unit) - 2 * steps * u->largest;
    if (u->in_float) bound = fmin(bound, LOWEST - steps * u->largest);
    return bound > 3e38 ? INFINITY : bound > 0 ? (float)bound : 0;
}
