/* train_unigram.c - learns a unigram model: begins with all frequent strings of up to 16 characters, and again and
 * again finds their probabilities (two steps of expectation maximization) and keeps those 3/4 without which the text
 * would become least probable. One thread, in the order of the words' bytes: sums are the same every time.
 *
 *  Scores are rounded to 1/128, so that a text's sum is exact in float and in double, and every program that adds
 * them up takes the same way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "token/byte_trie.h"
#include "token/train_sentencepiece.h"

enum { MAX_SEEDS = 1000000, SUB_STEPS = 2 };

#define SHRINK    0.75
#define OVER      1.1  /* of the pieces asked for; the last cut takes the most probable */
#define LEAST     0.5  /* expected occurrences of a piece that stays */
#define UNK_BELOW 10.0 /* an unknown character's score below the least piece's */
#define GRAIN     128.0
#define NOWHERE   (-1e300)
#define MAX_WORD  4096 /* bytes; the rest of a longer word is not looked at */

typedef struct piece {
    const char *bytes;
    uint32_t n;
    bool single; /* one character: always stays */
    double score, freq;
} piece;

typedef struct edge {
    uint32_t start, end;
    int32_t id; /* -1: unknown */
    double score;
} edge;

typedef struct learner {
    const tx__sp_corpus *c;
    tx__strings seed; /* the bytes of all pieces */
    piece *p;
    size_t n;
    tx__byte_trie trie;
    double least;
    edge *edge; /* of one word, by start */
    size_t n_edges, cap_edges;
    double *alpha, *beta; /* [MAX_WORD + 1] */
    uint32_t *last;       /* [MAX_WORD + 1] edge of the best way */
    int32_t *way;         /* [MAX_WORD] */
} learner;

static size_t lead(unsigned char c)
{
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* ---- seeds ---- */

typedef struct seed {
    uint32_t number;
    int64_t worth; /* occurrences × characters */
} seed;

static int compare_seeds(const void *pa, const void *pb)
{
    const seed *a = pa, *b = pb;
    if (a->worth != b->worth) return a->worth > b->worth ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* All strings in words, with how often they occur. */
static tx_status count_strings(const tx__sp_corpus *c, tx__strings *all, int64_t **count)
{
    size_t cap = 0;
    for (uint32_t w = 0; w < c->word.n; w++) {
        size_t n, len;
        const char *word = tx__strings_at(&c->word, w, &n);
        if (n > MAX_WORD) n = MAX_WORD;
        for (size_t i = 0; i < n; i += lead((unsigned char)word[i])) {
            int chars = 1;
            for (size_t end = i + lead((unsigned char)word[i]); end < n && chars < TX__SP_LONGEST; chars++) {
                uint32_t number;
                int fresh;
                len = lead((unsigned char)word[end]);
                end += len;
                if (end > n) break;
                TX_TRY(tx__strings_add(all, word + i, end - i, &number, &fresh));
                if (number >= cap) {
                    cap = 2 * (size_t)number + 4096;
                    TX_TRY(tx_realloc(count, cap, sizeof **count, "frequent strings"));
                }
                (*count)[number] = (fresh ? 0 : (*count)[number]) + c->count[w];
            }
        }
    }
    return TX_OK;
}

static int64_t chars_of(const char *bytes, size_t n)
{
    int64_t chars = 0;
    for (size_t i = 0; i < n; i++) chars += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return chars;
}

static tx_status make_pieces(learner *l, const tx__strings *all, const seed *s, size_t n_seeds)
{
    double sum = 0;
    uint32_t number;
    int fresh;
    size_t n;
    l->n = l->c->ch.n + n_seeds;
    TX_TRY(tx_alloc(&l->p, l->n + 1, sizeof *l->p, "the pieces of a model"));
    for (size_t i = 0; i < l->n; i++) {
        bool single = i < l->c->ch.n;
        const char *bytes =
            single ? tx__strings_at(&l->c->ch, (uint32_t)i, &n) : tx__strings_at(all, s[i - l->c->ch.n].number, &n);
        TX_TRY(tx__strings_add(&l->seed, bytes, n, &number, &fresh));
        l->p[i] = (piece){ .n = (uint32_t)n,
                           .single = single,
                           .score = (double)(single ? l->c->ch_count[i] : s[i - l->c->ch.n].worth) };
        sum += l->p[i].score;
    }
    for (size_t i = 0; i < l->n; i++) {
        l->p[i].bytes = tx__strings_at(&l->seed, (uint32_t)i, &n);
        l->p[i].score = log(l->p[i].score / sum);
    }
    return TX_OK;
}

static tx_status choose_seeds(learner *l, int64_t min_frequency)
{
    tx_status st;
    tx__strings all = { 0 };
    int64_t *count = NULL, least = min_frequency > 2 ? min_frequency : 2;
    seed *s = NULL;
    size_t k = 0;
    TX_GOTO(count_strings(l->c, &all, &count));
    TX_GOTO(tx_alloc(&s, (size_t)all.n + 1, sizeof *s, "frequent strings"));
    for (uint32_t i = 0; i < all.n; i++) {
        size_t n;
        const char *bytes = tx__strings_at(&all, i, &n);
        if (count[i] >= least) s[k++] = (seed){ i, count[i] * chars_of(bytes, n) };
    }
    qsort(s, k, sizeof *s, compare_seeds);
    TX_GOTO(make_pieces(l, &all, s, k < MAX_SEEDS ? k : MAX_SEEDS));
out:
    tx__strings_free(&all);
    tx_free(count);
    tx_free(s);
    return st;
}

/* ---- ways through a word ---- */

static tx_status set_pieces(learner *l)
{
    tx_status st;
    tx__trie_key *key = NULL;
    tx__byte_trie_free(&l->trie);
    l->least = 0;
    TX_GOTO(tx_alloc(&key, l->n + 1, sizeof *key, "the pieces of a model"));
    for (size_t i = 0; i < l->n; i++) {
        key[i] = (tx__trie_key){ (const unsigned char *)l->p[i].bytes, l->p[i].n, (int32_t)i };
        l->least = fmin(l->least, l->p[i].score);
    }
    TX_GOTO(tx__byte_trie_build(&l->trie, key, l->n));
out:
    tx_free(key);
    return st;
}

static tx_status add_edge(learner *l, edge e)
{
    if (l->n_edges == l->cap_edges) {
        size_t cap = 2 * l->cap_edges + 256;
        TX_TRY(tx_realloc(&l->edge, cap, sizeof *l->edge, "the ways through a word"));
        l->cap_edges = cap;
    }
    l->edge[l->n_edges++] = e;
    return TX_OK;
}

/* All pieces in word[0..n) but number `without`. */
static tx_status find_edges(learner *l, const char *word, size_t n, int32_t without)
{
    l->n_edges = 0;
    for (size_t start = 0, len; start < n; start += len) {
        uint32_t at = 0;
        bool single = false;
        len = lead((unsigned char)word[start]);
        if (len > n - start) len = n - start;
        for (size_t end = start; end < n && (at = tx__trie_step(&l->trie, at, (unsigned char)word[end]));) {
            int32_t id = tx__trie_value(&l->trie, at);
            end++;
            if (id < 0 || id == without) continue;
            single |= end - start == len;
            TX_TRY(add_edge(l, (edge){ (uint32_t)start, (uint32_t)end, id, l->p[id].score }));
        }
        if (!single) TX_TRY(add_edge(l, (edge){ (uint32_t)start, (uint32_t)(start + len), -1, l->least - UNK_BELOW }));
    }
    return TX_OK;
}

static double log_add(double a, double b)
{
    double more = a > b ? a : b, less = a > b ? b : a;
    return less - more < -50 ? more : more + log1p(exp(less - more));
}

/* Adds how often each piece is expected in a word that occurs `count` times. */
static void expect(learner *l, size_t n, double count)
{
    for (size_t i = 0; i <= n; i++) l->alpha[i] = l->beta[i] = NOWHERE;
    l->alpha[0] = l->beta[n] = 0;
    for (size_t i = 0; i < l->n_edges; i++) {
        const edge *e = &l->edge[i];
        l->alpha[e->end] = log_add(l->alpha[e->end], l->alpha[e->start] + e->score);
    }
    for (size_t i = l->n_edges; i-- > 0;) {
        const edge *e = &l->edge[i];
        l->beta[e->start] = log_add(l->beta[e->start], l->beta[e->end] + e->score);
    }
    for (size_t i = 0; i < l->n_edges; i++) {
        const edge *e = &l->edge[i];
        if (e->id >= 0) l->p[e->id].freq += count * exp(l->alpha[e->start] + e->score + l->beta[e->end] - l->alpha[n]);
    }
}

/* The best way: its pieces into l->way. Returns their number. */
static size_t best_way(learner *l, size_t n)
{
    size_t k = 0;
    for (size_t i = 1; i <= n; i++) l->alpha[i] = NOWHERE;
    l->alpha[0] = 0;
    for (size_t i = 0; i < l->n_edges; i++) {
        const edge *e = &l->edge[i];
        double sum = l->alpha[e->start] + e->score;
        if (sum <= l->alpha[e->end]) continue;
        l->alpha[e->end] = sum;
        l->last[e->end] = (uint32_t)i;
    }
    for (size_t end = n; end > 0; end = l->edge[l->last[end]].start) l->way[k++] = l->edge[l->last[end]].id;
    return k;
}

/* ---- probabilities ---- */

static double digamma(double x)
{
    double sum = 0;
    for (; x < 7; x++) sum -= 1 / x;
    x -= 0.5;
    double y = 1 / (x * x);
    return sum + log(x) + y / 24 - 7 * y * y / 960 + 31 * y * y * y / 8064 - 127 * y * y * y * y / 30720;
}

static tx_status each_word(learner *l, void (*of_word)(learner *l, size_t n, double count))
{
    for (size_t i = 0; i < l->n; i++) l->p[i].freq = 0;
    for (uint32_t w = 0; w < l->c->word.n; w++) {
        size_t n;
        const char *word = tx__strings_at(&l->c->word, w, &n);
        if (n > MAX_WORD) n = MAX_WORD;
        TX_TRY(find_edges(l, word, n, -1));
        of_word(l, n, (double)l->c->count[w]);
    }
    return TX_OK;
}

/* Pieces that are hardly expected go; the others get the scores that a sparse prior gives them (Liang and Klein,
 * "Structured Bayesian Nonparametric Models with Variational Inference", 2007). */
static tx_status improve(learner *l)
{
    size_t k = 0;
    double sum = 0;
    TX_TRY(each_word(l, expect));
    for (size_t i = 0; i < l->n; i++) {
        piece p = l->p[i];
        if (p.freq < LEAST && !p.single) continue;
        p.freq = fmax(p.freq, LEAST);
        sum += p.freq;
        l->p[k++] = p;
    }
    l->n = k;
    for (size_t i = 0; i < l->n; i++) l->p[i].score = digamma(l->p[i].freq) - digamma(sum);
    return set_pieces(l);
}

/* ---- pruning ---- */

typedef struct ranked {
    double loss;
    uint32_t i;
    bool always; /* stays */
} ranked;

static int compare_losses(const void *pa, const void *pb)
{
    const ranked *a = pa, *b = pb;
    if (a->always != b->always) return a->always ? -1 : 1;
    if (a->loss != b->loss) return a->loss > b->loss ? -1 : 1;
    return a->i < b->i ? -1 : a->i > b->i;
}

static void count_best(learner *l, size_t n, double count)
{
    size_t k = best_way(l, n);
    for (size_t i = 0; i < k; i++)
        if (l->way[i] >= 0) l->p[l->way[i]].freq += count;
}

/* How much less probable the text becomes without the piece; *stays is false if it never was on a best way. */
static tx_status loss_of(learner *l, size_t i, double sum, double words, ranked *out)
{
    const piece *p = &l->p[i];
    *out = (ranked){ .loss = -1, .i = (uint32_t)i, .always = p->single };
    if (p->single || p->freq == 0) return TX_OK;
    TX_TRY(find_edges(l, p->bytes, p->n, -1));
    if (best_way(l, p->n) > 1) return TX_OK;
    TX_TRY(find_edges(l, p->bytes, p->n, (int32_t)i));
    size_t k = best_way(l, p->n);
    double with = log(p->freq) - log(sum), without = 0, sum_without = log(sum + p->freq * (double)(k - 1));
    for (size_t a = 0; a < k; a++) without += log((l->way[a] < 0 ? 0 : l->p[l->way[a]].freq) + p->freq) - sum_without;
    out->loss = p->freq / words * (with - without);
    return TX_OK;
}

static tx_status prune(learner *l, size_t desired)
{
    tx_status st;
    ranked *r = NULL;
    piece *kept = NULL;
    size_t n_kept = 0, most = (size_t)(SHRINK * (double)l->n);
    double sum = 0, words = 0;
    if (most < desired) most = desired;
    TX_GOTO(each_word(l, count_best));
    for (size_t i = 0; i < l->n; i++) sum += l->p[i].freq;
    for (uint32_t w = 0; w < l->c->word.n; w++) words += (double)l->c->count[w];
    TX_GOTO(tx_alloc(&r, l->n, sizeof *r, "the pieces of a model"));
    TX_GOTO(tx_alloc(&kept, l->n, sizeof *kept, "the pieces of a model"));
    for (size_t i = 0; i < l->n; i++) TX_GOTO(loss_of(l, i, sum, words, &r[i]));
    qsort(r, l->n, sizeof *r, compare_losses);
    for (size_t i = 0; i < l->n && n_kept < most; i++)
        if (r[i].always || r[i].loss >= 0) kept[n_kept++] = l->p[r[i].i];
    memcpy(l->p, kept, n_kept * sizeof *kept);
    l->n = n_kept;
    st = set_pieces(l);
out:
    tx_free(r);
    tx_free(kept);
    return st;
}

/* ---- the result ---- */

static int compare_pieces(const void *pa, const void *pb)
{
    const piece *a = pa, *b = pb;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    int c = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);
    return c ? c : a->n < b->n ? -1 : a->n > b->n;
}

static tx_status add_best(learner *l, tx_vocab_trainer *t)
{
    size_t room = (size_t)tx__sp_room(t), others = room - l->c->ch.n;
    for (size_t i = 0; i < l->n; i++) l->p[i].score = nearbyint(l->p[i].score * GRAIN) / GRAIN;
    qsort(l->p, l->n, sizeof *l->p, compare_pieces);
    for (size_t i = 0; i < l->n; i++) {
        const piece *p = &l->p[i];
        if (!p->single && !others) continue;
        others -= !p->single;
        TX_TRY(tx__sp_add_piece(t, p->bytes, p->n, (float)p->score));
    }
    return TX_OK;
}

tx_status tx__sp_learn_unigram(tx_vocab_trainer *t, const tx__sp_corpus *c)
{
    learner l = { .c = c };
    size_t desired = (size_t)(OVER * t->vocab_size);
    tx_status st;
    TX_GOTO(tx_alloc(&l.alpha, MAX_WORD + 1, sizeof *l.alpha, "the ways through a word"));
    TX_GOTO(tx_alloc(&l.beta, MAX_WORD + 1, sizeof *l.beta, "the ways through a word"));
    TX_GOTO(tx_alloc(&l.last, MAX_WORD + 1, sizeof *l.last, "the ways through a word"));
    TX_GOTO(tx_alloc(&l.way, MAX_WORD + 1, sizeof *l.way, "the ways through a word"));
    TX_GOTO(choose_seeds(&l, t->min_frequency));
    TX_GOTO(set_pieces(&l));
    for (;;) {
        for (int i = 0; i < SUB_STEPS; i++) TX_GOTO(improve(&l));
        tx_debug("unigram model: %zu pieces", l.n);
        if (l.n <= desired) break;
        size_t before = l.n;
        TX_GOTO(prune(&l, desired));
        if (l.n == before) break;
    }
    st = add_best(&l, t);
out:
    tx__strings_free(&l.seed);
    tx__byte_trie_free(&l.trie);
    tx_free(l.p);
    tx_free(l.edge);
    tx_free(l.alpha);
    tx_free(l.beta);
    tx_free(l.last);
    tx_free(l.way);
    return st;
}
