/* labels: unit */
/* Merges of words whose counts no text of this world gives, and next to a learner that counts everything anew. */
#include "token_test.h"

#include "base/alloc.h"
#include "token/merge_learner.h"
#include "token/pairs.h"

enum { N_WORDS = 60, N_SYMBOLS = 3, N_MERGES = 40, MAX_PLACES = N_WORDS * 12 };

static void counts_beyond_32_bits(void **state)
{
    /* words "ab", "cd", "ce": (c,d) is 1 ahead of (a,b), which 32 bits would not show */
    tx__word_place place[] = { { 0, 0 }, { 1, 0 }, { 2, 1 }, { 3, 1 }, { 2, 2 }, { 4, 2 } };
    const int64_t count[] = { (int64_t)1 << 40, ((int64_t)1 << 40) + 1, (int64_t)3 << 60 >> 1 };
    tx__learn_opts o = { count, 5, 10, (int64_t)1 << 33 };
    uint64_t *merge;
    size_t n;
    (void)state;
    ASSERT_OK(tx__learn_merges(place, 6, &o, &merge, &n));
    assert_int_equal(n, 3);
    assert_true(merge[0] == tx__pair(2, 4) && merge[1] == tx__pair(2, 3) && merge[2] == tx__pair(0, 1));
    tx_free(merge);
}

/* ---- the slow way ---- */

typedef struct text {
    int32_t symbol[N_WORDS][12];
    int n[N_WORDS];
    int64_t count[N_WORDS];
} text;

static uint64_t best_pair(const text *t, int64_t min_frequency)
{
    static int64_t count[N_SYMBOLS + N_MERGES][N_SYMBOLS + N_MERGES];
    memset(count, 0, sizeof count);
    for (int w = 0; w < N_WORDS; w++)
        for (int i = 0; i + 1 < t->n[w]; i++) count[t->symbol[w][i]][t->symbol[w][i + 1]] += t->count[w];
    int64_t best = min_frequency - 1;
    uint64_t pair = UINT64_MAX;
    for (int32_t a = 0; a < N_SYMBOLS + N_MERGES; a++)
        for (int32_t b = 0; b < N_SYMBOLS + N_MERGES; b++)
            if (count[a][b] > best) {
                best = count[a][b];
                pair = tx__pair(a, b);
            }
    return pair;
}

static void merge_all(text *t, uint64_t pair, int32_t id)
{
    for (int w = 0; w < N_WORDS; w++) {
        int n = 0;
        for (int i = 0; i < t->n[w]; i++, n++) {
            int32_t *s = t->symbol[w];
            bool is = i + 1 < t->n[w] && tx__pair(s[i], s[i + 1]) == pair;
            s[n] = is ? id : s[i];
            i += is;
        }
        t->n[w] = n;
    }
}

/* Few symbols and short words: runs, ties and overlaps of every kind. */
static void as_the_slow_way(void **state)
{
    uint32_t x = 12345;
    (void)state;
    for (int round = 0; round < 300; round++) {
        text t;
        tx__word_place place[MAX_PLACES];
        size_t n_places = 0, n, want = 0;
        uint64_t *merge;
        for (int w = 0; w < N_WORDS; w++) {
            x = x * 1664525 + 1013904223;
            t.n[w] = 1 + (int)((x >> 24) % 12);
            t.count[w] = 1 + (x >> 16) % 3;
            for (int i = 0; i < t.n[w]; i++) {
                x = x * 1664525 + 1013904223;
                t.symbol[w][i] = (int32_t)((x >> 24) % N_SYMBOLS);
                place[n_places++] = (tx__word_place){ t.symbol[w][i], (uint32_t)w };
            }
        }
        int64_t min_frequency = round % 3;
        tx__learn_opts o = { t.count, N_SYMBOLS, N_MERGES, min_frequency };
        ASSERT_OK(tx__learn_merges(place, n_places, &o, &merge, &n));
        for (; want < N_MERGES; want++) {
            uint64_t pair = best_pair(&t, min_frequency > 1 ? min_frequency : 1);
            if (pair == UINT64_MAX) break;
            assert_true(want < n && merge[want] == pair);
            merge_all(&t, pair, N_SYMBOLS + (int32_t)want);
        }
        assert_int_equal(n, want);
        tx_free(merge);
    }
}

static void nothing_to_learn(void **state)
{
    tx__word_place place[] = { { 0, 0 }, { 1, 1 } };
    const int64_t count[] = { 5, 5 };
    uint64_t *merge;
    size_t n;
    (void)state;
    for (int32_t max_merges = -1; max_merges < 5; max_merges++) {
        tx__learn_opts o = { count, 2, max_merges, 0 };
        for (size_t n_places = 0; n_places <= 2; n_places++) {
            ASSERT_OK(tx__learn_merges(place, n_places, &o, &merge, &n));
            assert_int_equal(n, 0);
            tx_free(merge);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_beyond_32_bits),
        cmocka_unit_test(as_the_slow_way),
        cmocka_unit_test(nothing_to_learn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
