/* labels: unit */
/* Ways through short texts next to all ways there are, and merges of symbols in a short and in a long text. */
#include "token_test.h"

#include <math.h>

#include "base/alloc.h"
#include "token/symbol_bpe.h"
#include "token/unigram.h"

enum { N_PIECES = 40, MAX_PIECE = 5, N_TEXTS = 3000, MAX_TEXT = 14 };

static uint64_t state = 1;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

typedef struct model {
    unsigned char piece[N_PIECES][MAX_PIECE];
    uint32_t n[N_PIECES];
    double score[N_PIECES];
    tx__unigram u;
} model;

/* Pieces of a and b; "c" is in none. Scores are multiples of `step`. */
static void make_model(model *m, double step, bool in_float)
{
    tx__trie_key key[N_PIECES];
    memset(m, 0, sizeof *m);
    for (int i = 0; i < N_PIECES; i++) {
        m->n[i] = i < 2 ? 1 : 2 + draw(MAX_PIECE - 1);
        for (uint32_t k = 0; k < m->n[i]; k++) m->piece[i][k] = (unsigned char)(i < 2 ? 'a' + i : 'a' + (int)draw(2));
        m->score[i] = -(double)(1 + draw(60)) * step;
        key[i] = (tx__trie_key){ m->piece[i], m->n[i], i };
    }
    m->u = (tx__unigram){ .score = m->score, .unk = N_PIECES, .unk_score = -100, .largest = 100, .in_float = in_float };
    ASSERT_OK(tx__byte_trie_build(&m->u.trie, key, N_PIECES));
}

static double best_sum(const model *m, const unsigned char *text, size_t n)
{
    double best = n ? -INFINITY : 0;
    bool single = false;
    for (uint32_t len = 1; len <= n && len <= MAX_PIECE; len++) {
        int32_t found = -1;
        for (int i = N_PIECES - 1; i >= 0; i--)
            if (m->n[i] == len && !memcmp(m->piece[i], text, len)) found = i;
        if (found < 0) continue;
        single |= len == 1;
        best = fmax(best, m->score[found] + best_sum(m, text + len, n - len));
    }
    return n && !single ? fmax(best, m->u.unk_score + best_sum(m, text + 1, n - 1)) : best;
}

static void ways_are_the_best(void **unused)
{
    model m;
    tx__unigram_scratch s = { 0 };
    (void)unused;
    make_model(&m, 0.125, false);
    for (int i = 0; i < N_TEXTS; i++) {
        unsigned char text[MAX_TEXT];
        size_t n = draw(MAX_TEXT + 1), at = 0;
        double sum = 0, margin, added = 0;
        for (size_t k = 0; k < n; k++) text[k] = (unsigned char)('a' + (draw(12) ? draw(2) : 2));
        ASSERT_OK(tx__unigram_cut(&m.u, &s, text, n, &sum, &margin));
        for (size_t k = 0; k < s.n_spans; at += s.span[k++].n) {
            added = tx__unigram_add(&m.u, added, s.span[k].id);
            if (s.span[k].id == N_PIECES) assert_int_equal(text[at], 'c');
        }
        assert_int_equal(at, n);
        assert_true(added == sum && sum == best_sum(&m, text, n) && margin >= 0);
    }
    tx__unigram_scratch_free(&s);
    tx__byte_trie_free(&m.u.trie);
}

/* What is within its limit is cut alike after any text. */
static void limits_hold(void **unused)
{
    model m;
    tx__unigram_scratch s = { 0 }, t = { 0 };
    int within = 0, differ = 0;
    (void)unused;
    make_model(&m, 0.1, true);
    for (int i = 0; i < N_TEXTS; i++) {
        unsigned char text[MAX_TEXT];
        size_t n = 1 + draw(MAX_TEXT);
        double sum = 0, margin, before = -(double)draw(90000) * (draw(2) ? 1 : 1e-3) - 0.3, end;
        for (size_t k = 0; k < n; k++) text[k] = (unsigned char)('a' + draw(2));
        ASSERT_OK(tx__unigram_cut(&m.u, &s, text, n, &sum, &margin));
        end = before = (float)before;
        ASSERT_OK(tx__unigram_cut(&m.u, &t, text, n, &end, NULL));
        bool same = s.n_spans == t.n_spans && !memcmp(s.span, t.span, s.n_spans * sizeof *s.span);
        bool is_within = -before <= tx__unigram_limit(&m.u, n, margin);
        assert_true(same || !is_within);
        within += is_within;
        differ += !same;
    }
    assert_true(within > N_TEXTS / 8 && differ > 10); /* both happen */
    tx__unigram_scratch_free(&s);
    tx__unigram_scratch_free(&t);
    tx__byte_trie_free(&m.u.trie);
}

/* The same symbols as one short text and in front of one that needs the heap. */
static void merges_short_and_long(void **unused)
{
    tx__symbol_rule rule[60];
    tx__symbol_bpe b = { 0 };
    tx__symbol_scratch s = { 0 };
    (void)unused;
    for (int i = 0; i < 60; i++)
        rule[i] = (tx__symbol_rule){ (int32_t)draw(3 + (uint32_t)i / 2), (int32_t)draw(3 + (uint32_t)i / 2), 3 + i,
                                     draw(40) };
    ASSERT_OK(tx__symbol_bpe_build(&b, rule, 60));
    for (int i = 0; i < N_TEXTS; i++) {
        int32_t a[40], both[140];
        size_t n = 1 + draw(40), n_both = 140;
        for (int k = 0; k < 140; k++) both[k] = draw(20) ? (int32_t)draw(3) : -5;
        both[n] = -1; /* nothing crosses it */
        memcpy(a, both, n * sizeof *a);
        ASSERT_OK(tx__symbol_bpe_merge(&b, &s, NULL, a, &n));
        ASSERT_OK(tx__symbol_bpe_merge(&b, &s, NULL, both, &n_both));
        assert_memory_equal(a, both, n * sizeof *a);
        assert_int_equal(both[n], -1);
    }
    tx__symbol_scratch_free(&s);
    tx__symbol_bpe_free(&b);
}

/* A trie of many random strings finds these and no others. */
static void trie_finds_what_is_in_it(void **unused)
{
    enum { N = 20000 };
    static unsigned char bytes[N][8];
    static tx__trie_key key[N];
    tx__byte_trie t = { 0 };
    (void)unused;
    for (int i = 0; i < N; i++) {
        uint32_t n = 1 + draw(8);
        for (uint32_t k = 0; k < n; k++) bytes[i][k] = (unsigned char)draw(k < 2 ? 256 : 3);
        key[i] = (tx__trie_key){ bytes[i], n, i };
    }
    ASSERT_OK(tx__byte_trie_build(&t, key, N));
    for (int i = 0; i < N; i++) {
        uint32_t node = 0;
        for (uint32_t k = 0; k < key[i].n; k++) assert_true((node = tx__trie_step(&t, node, key[i].bytes[k])));
        int32_t value = tx__trie_value(&t, node);
        assert_true(value >= 0 && value <= key[i].value); /* of equal ones the first */
        assert_memory_equal(bytes[value], key[i].bytes, key[i].n);
    }
    for (int i = 0; i < N; i++) {
        unsigned char text[8];
        uint32_t node = 0, n = 0;
        for (int k = 0; k < 8; k++) text[k] = (unsigned char)draw(k < 2 ? 256 : 3);
        while (n < 8 && (node = tx__trie_step(&t, node, text[n]))) n++;
        bool begins = false; /* some key does with one byte more */
        for (int k = 0; n < 8 && k < N && !begins; k++) begins = key[k].n > n && !memcmp(key[k].bytes, text, n + 1);
        assert_false(begins);
        if (i > 300) break;
    }
    tx__byte_trie_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_are_the_best),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(merges_short_and_long),
        cmocka_unit_test(trie_finds_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
