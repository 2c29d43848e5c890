/* labels: unit */
/* Short and long pieces, in turn and in rounds, against the rules written out naively, with merges that real files
 * would not hold: pairs that become mergeable late but are stronger, runs of one letter, tokens that merges never
 * reach. */
#include "token_test.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "token/bpe.h"

/* The 256 bytes and `merges` (pairs of ASCII parts; results are added in order, strongest first). */
static void make_vocab(tx__vocab *v, const char *const (*merges)[2], size_t n)
{
    uint32_t id[3], *rank;
    int fresh;
    *v = (tx__vocab){ .eod = -1, .merged = NULL };
    for (unsigned b = 0; b < 256; b++) {
        char c = (char)b;
        ASSERT_OK(tx__strings_add(&v->token, &c, 1, &id[0], &fresh));
        v->byte_id[b] = (int32_t)id[0];
    }
    for (size_t i = 0; i < n; i++) {
        char both[64];
        snprintf(both, sizeof both, "%s%s", merges[i][0], merges[i][1]);
        ASSERT_OK(tx__strings_add(&v->token, both, strlen(both), &id[2], &fresh));
    }
    ASSERT_OK(tx_alloc(&v->merged, n, sizeof *v->merged, "merges"));
    for (size_t i = 0; i < n; i++) {
        char both[64];
        snprintf(both, sizeof both, "%s%s", merges[i][0], merges[i][1]);
        int64_t left = tx__strings_find(&v->token, merges[i][0], strlen(merges[i][0]));
        int64_t right = tx__strings_find(&v->token, merges[i][1], strlen(merges[i][1]));
        assert_true(left >= 0 && right >= 0);
        ASSERT_OK(tx__pairs_at(&v->rank, tx__pair((int32_t)left, (int32_t)right), &rank));
        *rank = (uint32_t)i;
        v->merged[i] = (int32_t)tx__strings_find(&v->token, both, strlen(both));
    }
}

/* OpenAI's loop: find the strongest pair, rebuild the word with it merged everywhere. Hugging Face's: only its first
 * place. */
static size_t merge_naively(const tx__vocab *v, bool in_rounds, const unsigned char *piece, size_t n, int32_t *id)
{
    for (size_t i = 0; i < n; i++) id[i] = v->byte_id[piece[i]];
    for (;;) {
        uint32_t best = TX__NO_PAIR;
        for (size_t i = 0; i + 1 < n; i++) {
            uint32_t r = tx__pairs_find(&v->rank, tx__pair(id[i], id[i + 1]));
            if (r < best) best = r;
        }
        if (best == TX__NO_PAIR) return n;
        size_t m = 0;
        bool done = false;
        for (size_t i = 0; i < n; m++) {
            bool hit = !done && i + 1 < n && tx__pairs_find(&v->rank, tx__pair(id[i], id[i + 1])) == best;
            id[m] = hit ? v->merged[best] : id[i];
            i += hit ? 2 : 1;
            done |= hit && !in_rounds;
        }
        n = m;
    }
}

static void check_words(const tx__vocab *v, const tx__merges *m, const char *alphabet)
{
    enum { MOST = 30 }; /* at a time */
    static unsigned char word[MOST][400];
    static int32_t want[400], got[MOST][400];
    tx__bpe_scratch scratch = { 0 };
    tx__bpe_piece piece[MOST];
    for (uint32_t seed = 0, together; seed < 3000; seed += together) {
        together = 1 + seed % MOST;
        for (uint32_t k = 0; k < together; k++) {
            tx_rng r = { seed + k, 9, 0 };
            size_t n = 1 + (seed + k) % ((seed + k) % 3 ? 40 : 400); /* both sides of the line between short and long */
            for (size_t i = 0; i < n; i++) word[k][i] = (unsigned char)alphabet[tx_rng_u16(&r, i) % strlen(alphabet)];
            piece[k] = (tx__bpe_piece){ .text = word[k], .n = n, .id = got[k] };
        }
        ASSERT_OK(tx__bpe_merge(m, &scratch, piece, together));
        for (uint32_t k = 0; k < together; k++) {
            size_t n_want = merge_naively(v, m->in_rounds, word[k], piece[k].n, want);
            assert_int_equal(piece[k].n_ids, n_want);
            assert_memory_equal(got[k], want, n_want * sizeof **got);
        }
    }
    tx__bpe_scratch_free(&scratch);
}

/* Over three alphabets, in turn and in rounds. */
static void check_merges(const char *const (*merges)[2], size_t n, const char *const alphabet[3])
{
    for (int in_rounds = 0; in_rounds < 2; in_rounds++) {
        tx__vocab v, given;
        tx__merges m;
        make_vocab(&v, merges, n); /* kept for the naive way */
        make_vocab(&given, merges, n);
        ASSERT_OK(tx__merges_build(&m, &given));
        m.in_rounds = in_rounds;
        for (int i = 0; i < 3; i++) check_words(&v, &m, alphabet[i]);
        tx__merges_free(&m);
        tx__vocab_free(&given);
        tx__vocab_free(&v);
    }
}

static void natural_merges(void **state)
{
    static const char *const m[][2] = { { "a", "b" },  { "ab", "ab" }, { "a", "a" },
                                        { "aa", "a" }, { "b", "b" },   { "bb", "ab" } };
    (void)state;
    check_merges(m, 6, (const char *const[]){ "ab", "aab ", "b" });
}

static void merges_out_of_order(void **state)
{
    static const char *const m[][2] = { { "ab", "a" }, { "b", "aba" }, { "aa", "aa" },
                                        { "a", "b" },  { "a", "a" },   { "aba", "ab" } };
    (void)state;
    check_merges(m, 6, (const char *const[]){ "ab", "aaab", "a" });
}

static void nothing_to_merge(void **state)
{
    (void)state;
    check_merges(NULL, 0, (const char *const[]){ "abc", "a", "ab" });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(natural_merges),
        cmocka_unit_test(merges_out_of_order),
        cmocka_unit_test(nothing_to_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
