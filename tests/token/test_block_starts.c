/* labels: unit */
/* Blocks of text are cut where the functions cut that see one piece at a time. */
#include "support.h"

#include "base/rng.h"
#include "token/block_starts.h"
#include "token/split_pattern.h"

enum { LENGTH = 512 };

static uint32_t draw(uint64_t *n_drawn, uint32_t below)
{
    tx_rng rng = { 11, 9, 0 };
    return (uint32_t)(tx_rng_uniform_at(&rng, (*n_drawn)++) * below);
}

/* What rules distinguish, often enough side by side. Odd numbers of `kind` have more than ASCII. */
static size_t make_text(unsigned char *text, unsigned kind, uint64_t *n_drawn)
{
    static const char *const atoms[] = {
        " ",    " ",  "\n", "\r", "\t", "'", "s",  "t", "re",       "ve",       "ll",           "d",    "m",
        "L",    "'S", "Ve", "x",  "Q",  "7", "12", "!", "/",        "_",        "\"",           "{",    "word",
        "Caps", "  ", "'s", "'t", "é",  "٣", "日", "Ж", "\xC2\xA0", "\xC5\xBF", "\xE3\x80\x80", "\xFF", "\xE2\x82",
    };
    size_t n = 0, n_atoms = sizeof atoms / sizeof *atoms - (kind % 2 ? 0 : 9);
    while (n < LENGTH - 4) {
        const char *atom = atoms[draw(n_drawn, (uint32_t)n_atoms)];
        uint32_t times = draw(n_drawn, 8) ? 1 : 1 + draw(n_drawn, 12);
        for (; times && n < LENGTH - 4; times--) {
            memcpy(text + n, atom, strlen(atom));
            n += strlen(atom);
        }
    }
    return n;
}

static void all_classes_are_the_same(void **state)
{
    (void)state;
    tx__classify_fn *all[TX__CLASSIFY_MAX];
    tx__classify_all(all);
    for (unsigned first = 0; first < 256; first++) {
        unsigned char text[TX__BLOCK];
        for (unsigned i = 0; i < TX__BLOCK; i++) text[i] = (unsigned char)(first + i * 67);
        tx__byte_classes want = { 0 }, got;
        for (unsigned i = 0; i < TX__BLOCK; i++) {
            uint64_t bit = (uint64_t)1 << i;
            unsigned char c = text[i];
            if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) want.letter |= bit;
            if (c >= '0' && c <= '9') want.number |= bit;
            if (c == ' ' || (c >= '\t' && c <= '\r')) want.space |= bit;
            if (c == ' ') want.blank |= bit;
            if (c == '\n' || c == '\r') want.newline |= bit;
            if (c == '\'') want.apostrophe |= bit;
            if (c >= 0x80) want.wide |= bit;
        }
        for (size_t k = 0; all[k]; k++) {
            all[k](&got, text);
            assert_memory_equal(&got, &want, sizeof got);
        }
    }
}

/* The block at text[at..): every bit is the start of a piece, and none of them before the last is left out. */
static void check_block(tx__split_fn *split, const unsigned char *text, size_t n, size_t at)
{
    tx__byte_classes classes;
    tx__classify_best()(&classes, text + at);
    uint64_t got = tx__starts_of(split)(&classes, text + at), want = 0;
    size_t n_pieces = 0;
    for (size_t end = at; (end += split(text + end, n - end)) < at + TX__BLOCK; n_pieces++)
        want |= (uint64_t)1 << (end - at);
    uint64_t up_to_last = got ? UINT64_MAX >> __builtin_clzll(got) : 0;
    if (got != (want & up_to_last))
        fail_msg("at %zu of \"%.*s\": %016llx, not %016llx", at, (int)TX__BLOCK, text + at, (unsigned long long)got,
                 (unsigned long long)want);
    if (!classes.wide && n_pieces > 3) assert_true(got != 0);
}

static void blocks_are_cut_as_pieces(void **state)
{
    (void)state;
    uint64_t n_drawn = 0;
    unsigned n_patterns = 0;
    for (const tx__split_pattern *p = tx__split_patterns; p->regex; p++) {
        if (!tx__starts_of(p->split)) continue;
        n_patterns++;
        for (unsigned round = 0; round < 400; round++) {
            unsigned char text[LENGTH];
            size_t n = make_text(text, round, &n_drawn);
            for (size_t at = 0; at + TX__BLOCK <= n; at += p->split(text + at, n - at))
                check_block(p->split, text, n, at);
        }
    }
    assert_true(n_patterns > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_classes_are_the_same),
        cmocka_unit_test(blocks_are_cut_as_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
