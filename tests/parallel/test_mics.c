/* labels: parallel threads resume. MiCS: rows of near ranks that each have all of the state train what one rank trains;
 * the sums over near ranks, then over rows, have the same bits at every stage, and a checkpoint goes on in rows of
 * another length. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { STEPS = 10, SAVED = 6 };

#define MICS(n) " --mics-shard-size " #n

/* @words of layout_cases.h   @more flags   @load, @save folders, or NULL   @ref NULL: with nothing to compare */
static void run(layout_run *r, const char *words, const char *more, const char *load, const char *save,
                const reference *ref)
{
    layout_case c = case_of(words);
    char flags[4096];
    sizes l = sizes_of(&c);
    what_flags(flags, sizeof flags, &c);
    how_flags(flags + strlen(flags), sizeof flags - strlen(flags), &c);
    snprintf(flags + strlen(flags), sizeof flags - strlen(flags), " %s", more);
    *r = (layout_run){ .vocab = vocab_of(&c),
                       .n_ranks = n_ranks_of(&c),
                       .tp = l.tp,
                       .pp = l.pp,
                       .until = save ? SAVED : STEPS,
                       .load = load,
                       .save = save,
                       .ref = ref };
    if (run_layout(r, flags)) fail_msg("%s %s: %s", words, more, tx_last_error());
}

static outcome train(const char *words, const char *more, const char *load, const char *save)
{
    static layout_run r;
    run(&r, words, more, load, save, NULL);
    return of_all_ranks(&r);
}

/* Losses, norms and weights, of rows of all lengths, at all stages. */
static void rows_train_what_one_rank_trains(void **state)
{
    (void)state;
    static const struct {
        const char *words, *more;
    } runs[] = { { "1x1x4", "--zero-stage 3" MICS(2) },
                 { "1x1x8 llama lamb", "--zero-stage 2 --reduce-every-micro-batch" MICS(4) },
                 { "1x1x6 adafactor dropout", "--zero-stage 1" MICS(3) },
                 { "2x2x2 sequence interleaved", "--zero-stage 3 --zero-param-persistence-threshold 0" MICS(1) },
                 { "2x1x4 muon even", "--zero-stage 3 --zero-param-persistence-threshold 200" MICS(2) },
                 { "1x2x4 bf16", "--zero-stage 2" MICS(2) },
                 { "1x1x4 bf16-sums bert", "--zero-stage 1" MICS(2) },
                 { "1x1x4 mixtral", "--zero-stage 1" MICS(2) } };
    for (int i = 0; i < LENGTH(runs); i++) {
        static layout_run r;
        char what[2048];
        const reference *ref = NULL;
        layout_case c = case_of(runs[i].words);
        what_flags(what, sizeof what, &c);
        ASSERT_OK(reference_of(&ref, what, vocab_of(&c)));
        run(&r, runs[i].words, runs[i].more, NULL, NULL, ref);
        if (is_within(&r, ref, 0, bounds_of_sums(c.at[DTYPE], sums_rows(&c))))
            fail_msg("%s %s: %s", runs[i].words, runs[i].more, tx_last_error());
    }
    forget_references();
}

static void have_the_same_bits(const char *words, const char *more, const char *as)
{
    outcome a = train(words, more, NULL, NULL), b = train(words, as, NULL, NULL);
    if (has_the_bits_of(&a, &b, 0, STEPS, as)) fail_msg("%s %s: %s", words, more, tx_last_error());
}

/* One row is ZeRO without rows. Rows of one rank are summed in the order of the ranks: as stage 0 does, with several
 * micro-batches where layers add these up, too. */
static void the_ends_are_known(void **state)
{
    (void)state;
    have_the_same_bits("1x1x4 many", "--zero-stage 3" MICS(4), "--zero-stage 3");
    have_the_same_bits("1x1x3 bf16 many", "--zero-stage 2" MICS(3), "--zero-stage 2");
    have_the_same_bits("1x1x4 one llama", "--zero-stage 3" MICS(1), "");
    have_the_same_bits("2x1x2 fp16 sequence one", "--zero-stage 2" MICS(1), "");
    have_the_same_bits("1x2x2 adam-l2 many", "--zero-stage 1" MICS(1), "");
}

/* The order of sums is that of the rows, not of the stage. */
static void stages_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x4 one", "2x1x4 one bf16-grads gqa", "1x1x6 one fp32-sums bert" };
    for (int i = 0; i < LENGTH(words); i++) {
        have_the_same_bits(words[i], "--zero-stage 2" MICS(2), "--zero-stage 1" MICS(2));
        have_the_same_bits(words[i], "--zero-stage 3 --zero-param-persistence-threshold 0" MICS(2),
                           "--zero-stage 1 --no-zero-reduce-scatter" MICS(2));
    }
    have_the_same_bits("1x1x4 many", "--zero-stage 3" MICS(2), "--zero-stage 1 --reduce-every-micro-batch" MICS(2));
}

static void goes_on(void **state)
{
    (void)state;
    static const struct {
        const char *words, *of, *in;
        bool bits; /* the order of sums is the same, too */
    } runs[] = { { "1x1x4 many", "--zero-stage 3" MICS(2), "--zero-stage 3" MICS(2), true },
                 { "2x1x4 one bf16", "--zero-stage 3 --zero-param-persistence-threshold 0" MICS(2),
                   "--zero-stage 1" MICS(2), true },
                 { "1x2x4 one fp16", "--zero-stage 1" MICS(4), "--zero-stage 2", true },
                 { "1x1x4 one", "--zero-stage 0", "--zero-stage 3" MICS(1), true },
                 { "1x1x8 one llama", "--zero-stage 3" MICS(2), "--zero-stage 2" MICS(4), false } };
    for (int i = 0; i < LENGTH(runs); i++) {
        const char *dir = in_scratch("begun%d", i);
        outcome whole = train(runs[i].words, runs[i].in, NULL, NULL);
        train(runs[i].words, runs[i].of, NULL, dir);
        outcome again = train(runs[i].words, runs[i].in, dir, NULL);
        if (runs[i].bits && has_the_bits_of(&again, &whole, SAVED, STEPS, "of one run"))
            fail_msg("%s %s: %s", runs[i].words, runs[i].of, tx_last_error());
        bounds off = distance(&again, &whole, SAVED, STEPS);
        if (!(off.loss <= fp32_bounds.loss && off.norm <= fp32_bounds.norm))
            fail_msg("%s %s: a loss is off by %.1e, a norm by %.1e", runs[i].words, runs[i].of, off.loss, off.norm);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(rows_train_what_one_rank_trains),
        SCRATCH_TEST(the_ends_are_known),
        SCRATCH_TEST(stages_have_the_same_bits),
        SCRATCH_TEST(goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
