/* beam.c - candidates, hypotheses, and the slots of those that are continued. */
#include "infer/beam.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

/* A continuation: `token` behind the running one number `parent`. */
typedef struct candidate {
    double sum;
    int parent;
    int32_t token;
} candidate;

/* One that is running. */
typedef struct beam {
    double sum;
    int slot;
    int32_t *token; /* [max_new] */
} beam;

typedef struct search {
    tx_decoder *d;
    const tx_beam_opts *o;
    int64_t vocab;
    int n_live;
    beam *live, *next; /* [width] */
    candidate *best;   /* [2 width], likeliest first */
    int n_best;
    tx_hypothesis *ended; /* [width], best first; the caller's */
    int n_ended;
    int *slot; /* [2 width], as the two behind it */
    bool *in_use;
    int32_t *token; /* a step's */
} search;

void tx_hypotheses_free(tx_hypothesis *h, int n)
{
    for (int i = 0; h && i < n; i++) {
        tx_free(h[i].token);
        h[i] = (tx_hypothesis){ 0 };
    }
}

static void deinit(search *s)
{
    for (int i = 0; i < s->o->width; i++) {
        if (s->live) tx_free(s->live[i].token);
        if (s->next) tx_free(s->next[i].token);
    }
    tx_free(s->live);
    tx_free(s->next);
    tx_free(s->best);
    tx_free(s->slot);
    tx_free(s->in_use);
    tx_free(s->token);
}

static tx_status init(search *s)
{
    size_t width = (size_t)s->o->width, max_new = (size_t)s->o->max_new;
    TX_TRY(tx_alloc(&s->live, width, sizeof *s->live, "the beams"));
    TX_TRY(tx_alloc(&s->next, width, sizeof *s->next, "the beams"));
    TX_TRY(tx_alloc(&s->best, 2 * width, sizeof *s->best, "the beams"));
    TX_TRY(tx_alloc(&s->slot, 2 * width, sizeof *s->slot, "the beams"));
    TX_TRY(tx_alloc(&s->in_use, 2 * width, sizeof *s->in_use, "the beams"));
    TX_TRY(tx_alloc(&s->token, 2 * width, sizeof *s->token, "the beams"));
    for (size_t i = 0; i < width; i++) {
        TX_TRY(tx_alloc(&s->live[i].token, max_new, sizeof(int32_t), "the beams"));
        TX_TRY(tx_alloc(&s->next[i].token, max_new, sizeof(int32_t), "the beams"));
    }
    return TX_OK;
}

/* ---- candidates ---- */

static void offer(search *s, candidate c)
{
    int cap = 2 * s->o->width;
    if (s->n_best == cap && !(c.sum > s->best[cap - 1].sum)) return;
    int at = s->n_best < cap ? s->n_best++ : cap - 1;
    for (; at > 0 && c.sum > s->best[at - 1].sum; at--) s->best[at] = s->best[at - 1];
    s->best[at] = c;
}

/* All tokens behind the running one `parent`, whose last token was `last`. */
static void offer_all(search *s, int parent, double sum, int32_t last, const float *logits)
{
    const tx_beam_opts *o = s->o;
    int32_t not = o->prevent && last == o->after ? o->then : -1;
    double max = -INFINITY, total = 0;
    for (int64_t v = 0; v < s->vocab; v++)
        if (v != not ) max = fmax(max, logits[v]);
    for (int64_t v = 0; v < s->vocab; v++)
        if (v != not ) total += exp(logits[v] - max);
    double log_total = max + log(total);
    for (int64_t v = 0; v < s->vocab; v++)
        if (v != not )
            offer(s, (candidate){ .sum = sum + logits[v] - log_total, .parent = parent, .token = (int32_t)v });
}

/* ---- hypotheses ---- */

static double score(const search *s, double sum, int64_t length)
{
    return sum / pow((double)length, s->o->length_penalty);
}

/* @length with `stop`, where it came. */
static tx_status add_ended(search *s, const int32_t *token, int64_t n, double sum, int64_t length)
{
    tx_hypothesis h = { .n = n, .score = score(s, sum, length), .stopped = n < length };
    if (s->n_ended == s->o->width && !(h.score > s->ended[s->n_ended - 1].score)) return TX_OK;
    TX_TRY(tx_alloc(&h.token, (size_t)n + 1, sizeof *h.token, "a hypothesis"));
    memcpy(h.token, token, (size_t)n * sizeof *token);
    if (s->n_ended == s->o->width) tx_free(s->ended[--s->n_ended].token);
    int at = s->n_ended++;
    for (; at > 0 && h.score > s->ended[at - 1].score; at--) s->ended[at] = s->ended[at - 1];
    s->ended[at] = h;
    return TX_OK;
}

/* ---- steps ---- */

/* A slot for each of the next ones: the parent's for its first child, a copy of it for the others. */
static tx_status place(search *s, const int *parent, int n_next)
{
    for (int i = 0; i < 2 * s->o->width; i++) s->in_use[i] = false;
    for (int i = 0; i < n_next; i++) s->in_use[s->live[parent[i]].slot] = true;
    for (int i = 0, slot = 0; i < n_next; i++) {
        int from = s->live[parent[i]].slot;
        bool first = true;
        for (int j = 0; j < i; j++) first = first && parent[j] != parent[i];
        s->next[i].slot = from;
        if (first) continue;
        while (s->in_use[slot]) slot++;
        s->in_use[slot] = true;
        s->next[i].slot = slot;
        TX_TRY(tx_decoder_copy(s->d, slot, from));
    }
    return TX_OK;
}

/* From the candidates of new token number `at`: hypotheses that end, and those that run on. *done: the search is. */
static tx_status choose(search *s, int64_t at, bool *done)
{
    int n_next = 0, *parent = s->slot;
    for (int i = 0; i < s->n_best && n_next < s->o->width; i++) {
        const candidate *c = &s->best[i];
        const beam *from = &s->live[c->parent];
        if (c->token == s->o->stop) {
            if (i < s->o->width) TX_TRY(add_ended(s, from->token, at, c->sum, at + 1));
            continue;
        }
        beam *to = &s->next[n_next];
        memcpy(to->token, from->token, (size_t)at * sizeof *to->token);
        to->token[at] = c->token;
        to->sum = c->sum;
        parent[n_next++] = c->parent;
    }
    *done = s->n_ended == s->o->width && s->ended[s->n_ended - 1].score >= score(s, s->best[0].sum, at + 1);
    if (*done) return TX_OK;
    TX_TRY(place(s, parent, n_next));
    beam *swap = s->live;
    s->live = s->next;
    s->next = swap;
    s->n_live = n_next;
    return TX_OK;
}

/* The running ones' last tokens into the model, and all their continuations offered. */
static tx_status step(search *s, int64_t at)
{
    const float *logits;
    int64_t stride;
    for (int i = 0; i < s->n_live; i++) {
        s->slot[i] = s->live[i].slot;
        s->token[i] = s->live[i].token[at - 1];
    }
    TX_TRY(tx_decoder_step(s->d, s->slot, s->token, s->n_live, &logits, &stride));
    s->n_best = 0;
    for (int i = 0; i < s->n_live; i++) offer_all(s, i, s->live[i].sum, s->token[i], logits + i * stride);
    return TX_OK;
}

typedef struct first_step {
    search *s;
    int32_t last;
} first_step;

static tx_status first_logits(void *user, int64_t first, int64_t n_rows, const float *logits, int64_t stride)
{
    const first_step *f = user;
    (void)first;
    offer_all(f->s, 0, 0, f->last, logits + (n_rows - 1) * stride);
    return TX_OK;
}

static tx_status run(search *s, const int32_t *prompt, int64_t n_prompt)
{
    first_step f = { .s = s, .last = prompt[n_prompt - 1] };
    bool done = false;
    s->n_live = 1; /* the prompt, in slot 0 */
    TX_TRY(tx_decoder_append(s->d, 0, prompt, n_prompt, &(tx_logits_wanted){ n_prompt - 1, first_logits, &f }));
    for (int64_t at = 0; at < s->o->max_new; at++) {
        if (at && s->o->cancelled && s->o->cancelled(s->o->user)) {
            tx_hypotheses_free(s->ended, s->n_ended);
            return TX_OK;
        }
        if (at) TX_TRY(step(s, at));
        TX_TRY(choose(s, at, &done));
        if (done) return TX_OK;
    }
    for (int i = 0; i < s->n_live; i++)
        TX_TRY(add_ended(s, s->live[i].token, s->o->max_new, s->live[i].sum, s->o->max_new));
    return TX_OK;
}

tx_status tx_beam_search(tx_decoder *d, const int32_t *prompt, int64_t n_prompt, const tx_beam_opts *o,
                         tx_hypothesis *out)
{
    search s = { .d = d, .o = o, .vocab = tx_decoder_vocab(d), .ended = out };
    if (o->width < 1 || 2 * (int64_t)o->width > s.vocab || 2 * (int64_t)o->width > tx_decoder_slots(d))
        return TX_FAIL(TX_ERR_ARG, "a beam of %d: at least 1, and at most half of the %lld tokens of the vocabulary",
                       o->width, (long long)s.vocab);
    if (n_prompt < 1 || o->max_new < 1) return TX_FAIL(TX_ERR_ARG, "a beam search needs a prompt and new tokens");
    if (n_prompt + o->max_new > tx_decoder_max_len(d))
        return TX_FAIL(TX_ERR_ARG, "prompt and new tokens together are %lld, there is room for %lld",
                       (long long)(n_prompt + o->max_new), (long long)tx_decoder_max_len(d));
    memset(out, 0, (size_t)o->width * sizeof *out);
    tx_status st = init(&s);
    if (!st) st = run(&s, prompt, n_prompt);
    for (int i = 0; i < 2 * o->width; i++) tx_decoder_truncate(d, i, 0);
    if (st) tx_hypotheses_free(out, o->width);
    deinit(&s);
    return st;
}
