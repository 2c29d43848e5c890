/* sp_cut.c - the four kinds of SentencePiece models: unigram, BPE, chars and words. */
#include "token/sp_cut.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "token/sp_normalize.h"
#include "token/vocab.h"

enum { MAX_BPE_PIECE = 2048 /* bytes: 512 characters, the most that SentencePiece's trainer allows */ };

static bool is_blank(const unsigned char *p, size_t n)
{
    return n >= 3 && p[0] == 0xE2 && p[1] == 0x96 && p[2] == 0x81;
}

static const unsigned char *piece_at(const tx__sp_model *m, uint32_t id, size_t *n)
{
    return (const unsigned char *)tx__strings_at(&m->piece, id, n);
}

/* Whether text may be made of it. */
static bool is_of_text(const tx__sp_model *m, uint32_t id)
{
    return m->type[id] == TX__SP_NORMAL || m->type[id] == TX__SP_USER_DEFINED || m->type[id] == TX__SP_UNUSED;
}

/* ---- opening ---- */

/* A trie of the pieces of these types. */
static tx_status build_trie(tx__byte_trie *t, const tx__sp_model *m, unsigned types, size_t *n_keys)
{
    tx_status st;
    tx__trie_key *key = NULL;
    size_t k = 0;
    TX_GOTO(tx_alloc(&key, m->piece.n, sizeof *key, "the pieces of a model"));
    for (uint32_t id = 0; id < m->piece.n; id++) {
        size_t n;
        const unsigned char *bytes = piece_at(m, id, &n);
        if (types >> m->type[id] & 1) key[k++] = (tx__trie_key){ bytes, (uint32_t)n, (int32_t)id };
    }
    TX_GOTO(tx__byte_trie_build(t, key, k));
    if (n_keys) *n_keys = k;
out:
    tx_free(key);
    return st;
}

static void find_words(tx__sp_cutter *c)
{
    const tx__sp_model *m = c->model;
    bool before = true, after = true; /* no piece has another character before, after a blank */
    for (uint32_t id = 0; id < m->piece.n; id++) {
        size_t n;
        const unsigned char *p = piece_at(m, id, &n);
        for (size_t i = 0; i < n && is_of_text(m, id);) {
            size_t len = tx__lead_length(p[i]);
            bool blank = is_blank(p + i, n - i), next = is_blank(p + i + len, i + len < n ? n - i - len : 0);
            if (i + len < n && !blank && next) before = false;
            if (i + len < n && blank && !next) after = false;
            i += len;
        }
    }
    if (m->kind == TX__SP_UNIGRAM || (m->kind == TX__SP_BPE && !c->any_unused))
        c->words = before ? TX__SP_BEFORE_BLANKS : after ? TX__SP_AFTER_BLANKS : TX__SP_WHOLE;
}

/* Scores as the library uses them: those of the file, but of user-defined symbols nearly 0, more than any other. */
static tx_status open_unigram(tx__sp_cutter *c)
{
    const tx__sp_model *m = c->model;
    tx__unigram *u = &c->unigram;
    float least = FLT_MAX, most = FLT_MIN;
    TX_TRY(build_trie(&u->trie, m, 1u << TX__SP_NORMAL | 1u << TX__SP_USER_DEFINED, NULL));
    TX_TRY(tx_alloc(&u->score, m->piece.n, sizeof *u->score, "the scores of a model"));
    for (uint32_t id = 0; id < m->piece.n; id++) {
        if (m->type[id] != TX__SP_NORMAL) continue;
        least = fminf(least, m->score[id]);
        most = fmaxf(most, m->score[id]);
    }
    u->unk = m->unk;
    u->unk_score = least - 10.0f;
    u->in_float = true;
    u->largest = fabs(u->unk_score);
    for (uint32_t id = 0; id < m->piece.n; id++) {
        size_t n;
        piece_at(m, id, &n);
        u->score[id] = m->type[id] == TX__SP_USER_DEFINED ? (double)((float)n * most) - 0.1 : (double)m->score[id];
        if (fabs(u->score[id]) > u->largest) u->largest = fabs(u->score[id]);
    }
    return TX_OK;
}

/* ---- opening BPE: a rule for every two symbols that make a piece ---- */

typedef struct rules {
    const tx__sp_model *m;
    tx__strings extra; /* characters that are in pieces without being one */
    uint32_t *rank;    /* [id] of the piece's score: the highest first, equal ones alike */
    tx__symbol_rule *rule;
    size_t n, cap;
} rules;

typedef struct scored {
    float score;
    uint32_t id;
} scored;

static int compare_scores(const void *pa, const void *pb)
{
    const scored *a = pa, *b = pb;
    return a->score > b->score ? -1 : a->score < b->score;
}

static tx_status rank_pieces(rules *r)
{
    tx_status st;
    uint32_t n = r->m->piece.n, rank = 0;
    scored *s = NULL;
    TX_GOTO(tx_alloc(&s, n, sizeof *s, "the scores of a model"));
    TX_GOTO(tx_alloc(&r->rank, n, sizeof *r->rank, "the scores of a model"));
    for (uint32_t id = 0; id < n; id++) s[id] = (scored){ r->m->score[id], id };
    qsort(s, n, sizeof *s, compare_scores);
    for (uint32_t i = 0; i < n; i++) r->rank[s[i].id] = i && s[i].score < s[i - 1].score ? ++rank : rank;
out:
    tx_free(s);
    return st;
}

/* The symbol of p[0..n), -1: there is none. */
static int32_t symbol_of(const rules *r, const unsigned char *p, size_t n)
{
    int64_t id = tx__strings_find(&r->m->piece, p, n);
    if (id >= 0 && is_of_text(r->m, (uint32_t)id)) return (int32_t)id;
    if (n > 4) return -1;
    id = tx__strings_find(&r->extra, p, n);
    return id >= 0 ? (int32_t)((int64_t)r->m->piece.n + id) : -1;
}

static tx_status add_chars(rules *r)
{
    for (uint32_t id = 0; id < r->m->piece.n; id++) {
        size_t n;
        const unsigned char *p = piece_at(r->m, id, &n);
        for (size_t i = 0, len; i < n && is_of_text(r->m, id); i += len) {
            uint32_t number;
            int fresh;
            len = tx__lead_length(p[i]);
            if (symbol_of(r, p + i, len) < 0) TX_TRY(tx__strings_add(&r->extra, p + i, len, &number, &fresh));
        }
    }
    return TX_OK;
}

static tx_status add_rules(rules *r, uint32_t id, const unsigned char *p, size_t n)
{
    for (size_t at = tx__lead_length(p[0]); at < n; at += tx__lead_length(p[at])) {
        int32_t left = symbol_of(r, p, at), right = left < 0 ? -1 : symbol_of(r, p + at, n - at);
        if (right < 0) continue;
        if (r->n == r->cap) {
            size_t cap = 2 * r->cap + 1024;
            TX_TRY(tx_realloc(&r->rule, cap, sizeof *r->rule, "the merges of a model"));
            r->cap = cap;
        }
        r->rule[r->n++] = (tx__symbol_rule){ left, right, (int32_t)id, r->rank[id] };
    }
    return TX_OK;
}

/* The trie of all characters that are symbols. */
static tx_status build_chars(tx__sp_cutter *c, const rules *r)
{
    tx_status st;
    tx__trie_key *key = NULL;
    size_t k = 0, n;
    TX_GOTO(tx_alloc(&key, (size_t)r->m->piece.n + r->extra.n, sizeof *key, "the characters of a model"));
    for (uint32_t id = 0; id < r->m->piece.n; id++) {
        const unsigned char *p = piece_at(r->m, id, &n);
        if (is_of_text(r->m, id) && n == tx__lead_length(p[0]))
            key[k++] = (tx__trie_key){ p, (uint32_t)n, (int32_t)id };
    }
    for (uint32_t i = 0; i < r->extra.n; i++) {
        const char *p = tx__strings_at(&r->extra, i, &n);
        key[k++] = (tx__trie_key){ (const unsigned char *)p, (uint32_t)n, (int32_t)(r->m->piece.n + i) };
    }
    TX_GOTO(tx__byte_trie_build(&c->chars, key, k));
out:
    tx_free(key);
    return st;
}

static tx_status open_bpe(tx__sp_cutter *c, const char *file)
{
    tx_status st;
    rules r = { .m = c->model };
    TX_GOTO(rank_pieces(&r));
    TX_GOTO(add_chars(&r));
    for (uint32_t id = 0; id < r.m->piece.n; id++) {
        size_t n;
        const unsigned char *p = piece_at(r.m, id, &n);
        if (!is_of_text(r.m, id)) continue;
        if (n > MAX_BPE_PIECE && r.m->type[id] != TX__SP_USER_DEFINED) {
            st = TX_FAIL(TX_ERR_UNSUPPORTED, "%s: piece %u, \"%s\", has %zu bytes; triax reads pieces of up to %d",
                         file, id, tx__show((const char *)p, n).text, n, MAX_BPE_PIECE);
            goto out;
        }
        c->any_unused |= r.m->type[id] == TX__SP_UNUSED;
        if (n <= MAX_BPE_PIECE) TX_GOTO(add_rules(&r, id, p, n));
    }
    TX_GOTO(tx__symbol_bpe_build(&c->bpe, r.rule, r.n));
    TX_GOTO(build_chars(c, &r));
out:
    tx__strings_free(&r.extra);
    tx_free(r.rank);
    tx_free(r.rule);
    return st;
}

tx_status tx__sp_cutter_open(tx__sp_cutter *c, const tx__sp_model *m, const char *file)
{
    size_t n_user;
    *c = (tx__sp_cutter){ .model = m };
    TX_TRY(build_trie(&c->user, m, 1u << TX__SP_USER_DEFINED, &n_user));
    c->any_user = n_user > 0;
    switch (m->kind) {
    case TX__SP_UNIGRAM:
        TX_TRY(open_unigram(c));
        break;
    case TX__SP_BPE:
        TX_TRY(open_bpe(c, file));
        break;
    case TX__SP_WORD:
    case TX__SP_CHAR:
        break;
    }
    find_words(c);
    return TX_OK;
}

void tx__sp_cutter_close(tx__sp_cutter *c)
{
    tx__byte_trie_free(&c->user);
    tx__byte_trie_free(&c->unigram.trie);
    tx_free(c->unigram.score);
    tx__symbol_bpe_free(&c->bpe);
    tx__byte_trie_free(&c->chars);
    *c = (tx__sp_cutter){ 0 };
}

/* ---- cutting ---- */

void tx__sp_scratch_free(tx__sp_scratch *s)
{
    tx__unigram_scratch_free(&s->ways);
    tx__symbol_scratch_free(&s->merges);
    tx_free(s->symbol);
    tx_free(s->seen);
    tx_free(s->stack);
    *s = (tx__sp_scratch){ 0 };
}

static void put_span(tx__sp_scratch *s, int32_t id, size_t n)
{
    s->ways.span[s->ways.n_spans++] = (tx__unigram_span){ id, (uint32_t)n };
}

/* A character at text[0..n), n > 0, or a user-defined symbol. */
static size_t next_char(const tx__sp_cutter *c, const unsigned char *text, size_t n, int32_t *user)
{
    size_t len = 0;
    *user = -1;
    if (c->any_user) len = tx__trie_longest(&c->user, text, n, user);
    if (len) return len;
    len = tx__lead_length(text[0]);
    return len < n ? len : n;
}

static int32_t piece_id(const tx__sp_model *m, const unsigned char *p, size_t n)
{
    int64_t id = tx__strings_find(&m->piece, p, n);
    return id >= 0 && is_of_text(m, (uint32_t)id) ? (int32_t)id : m->unk;
}

/* A word is a blank and what comes before the next one. */
static size_t blank_word(const unsigned char *text, size_t n)
{
    size_t len = tx__lead_length(text[0]);
    while (len < n && !is_blank(text + len, n - len)) len += tx__lead_length(text[len]);
    return len < n ? len : n;
}

static void cut_simply(const tx__sp_cutter *c, tx__sp_scratch *s, const unsigned char *text, size_t n)
{
    bool words = c->model->kind == TX__SP_WORD;
    for (size_t at = 0, len; at < n; at += len) {
        int32_t user;
        len = words ? blank_word(text + at, n - at) : next_char(c, text + at, n - at, &user);
        put_span(s, piece_id(c->model, text + at, len), len);
    }
}

/* ---- BPE ---- */

/* User-defined symbols do not merge: as a symbol they are negative, as are unknown characters. */
enum { UNKNOWN = -1 };

static int32_t frozen(int32_t id)
{
    return -2 - id;
}

typedef struct watcher {
    tx__sp_scratch *s;
    const tx__sp_model *m;
} watcher;

/* The library takes a piece that is not used apart into the two symbols of which it last thought. */
static void remember(void *user, int32_t left, int32_t right, int32_t into)
{
    const watcher *w = user;
    if (w->m->type[into] != TX__SP_UNUSED) return;
    w->s->seen[into][0] = left;
    w->s->seen[into][1] = right;
}

static size_t symbol_length(const tx__sp_model *m, int32_t symbol, unsigned char lead, size_t left)
{
    size_t n = tx__lead_length(lead);
    int32_t id = symbol >= 0 ? symbol : frozen(symbol);
    if (symbol == UNKNOWN || id >= (int32_t)m->piece.n) return n < left ? n : left;
    (void)piece_at(m, (uint32_t)id, &n);
    return n;
}

/* The symbols of a piece that is not used, in order, after what has been put. */
static tx_status take_apart(const tx__sp_model *m, tx__sp_scratch *s, int32_t symbol, const unsigned char *text,
                            size_t n)
{
    size_t n_stack = 0, at = 0;
    for (;;) {
        bool unused = symbol >= 0 && symbol < (int32_t)m->piece.n && m->type[symbol] == TX__SP_UNUSED;
        if (unused && s->seen[symbol][0] >= 0) {
            if (n_stack == s->cap_stack) {
                size_t cap = 2 * s->cap_stack + 64;
                TX_TRY(tx_realloc(&s->stack, cap, sizeof *s->stack, "the merges of a text"));
                s->cap_stack = cap;
            }
            s->stack[n_stack++] = s->seen[symbol][1];
            symbol = s->seen[symbol][0];
            continue;
        }
        size_t len = symbol_length(m, symbol, text[at], n - at);
        put_span(s, symbol >= 0 && symbol < (int32_t)m->piece.n ? symbol : m->unk, len);
        at += len;
        if (!n_stack) return TX_OK;
        symbol = s->stack[--n_stack];
    }
}

static tx_status cut_bpe(const tx__sp_cutter *c, tx__sp_scratch *s, const unsigned char *text, size_t n)
{
    const tx__sp_model *m = c->model;
    watcher w = { s, m };
    const tx__pair_seen watch = { remember, &w };
    size_t k = 0;
    if (n > s->cap) {
        TX_TRY(tx_realloc(&s->symbol, n + n / 2, sizeof *s->symbol, "the symbols of a text"));
        s->cap = n + n / 2;
    }
    if (c->any_unused && !s->cap_seen) {
        TX_TRY(tx_realloc(&s->seen, m->piece.n, sizeof *s->seen, "the merges of a text"));
        s->cap_seen = m->piece.n;
    }
    if (c->any_unused) memset(s->seen, 0xFF, s->cap_seen * sizeof *s->seen); /* -1 */
    for (size_t at = 0, len; at < n; at += len) {
        int32_t user, symbol = UNKNOWN;
        len = next_char(c, text + at, n - at, &user);
        if (user < 0) tx__trie_longest(&c->chars, text + at, len, &symbol);
        s->symbol[k++] = user < 0 ? symbol : frozen(user);
    }
    TX_TRY(tx__symbol_bpe_merge(&c->bpe, &s->merges, c->any_unused ? &watch : NULL, s->symbol, &k));
    for (size_t i = 0, at = 0, len; i < k; i++, at += len) {
        int32_t symbol = s->symbol[i];
        len = symbol_length(m, symbol, text[at], n - at);
        if (symbol >= 0 && symbol < (int32_t)m->piece.n && m->type[symbol] == TX__SP_UNUSED)
            TX_TRY(take_apart(m, s, symbol, text + at, len));
        else if (symbol < UNKNOWN)
            put_span(s, frozen(symbol), len);
        else
            put_span(s, symbol >= 0 && symbol < (int32_t)m->piece.n ? symbol : m->unk, len);
    }
    return TX_OK;
}

tx_status tx__sp_cut(const tx__sp_cutter *c, tx__sp_scratch *s, const unsigned char *text, size_t n, double *sum,
                     double *margin)
{
    if (c->model->kind == TX__SP_UNIGRAM) return tx__unigram_cut(&c->unigram, &s->ways, text, n, sum, margin);
    *margin = INFINITY;
    TX_TRY(tx__unigram_reserve(&s->ways, n));
    s->ways.n_spans = 0;
    if (c->model->kind == TX__SP_BPE) return cut_bpe(c, s, text, n);
    cut_simply(c, s, text, n);
    return TX_OK;
}

size_t tx__sp_word(const tx__sp_cutter *c, const unsigned char *text, size_t n)
{
    size_t at = 0;
    bool blanks_first = c->words == TX__SP_BEFORE_BLANKS;
    if (c->words == TX__SP_WHOLE) return n;
    if (blanks_first)
        while (is_blank(text + at, n - at)) at += 3;
    while (at < n && !is_blank(text + at, n - at)) at++;
    if (!blanks_first)
        while (is_blank(text + at, n - at)) at += 3;
    return at;
}
