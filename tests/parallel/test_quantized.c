/* labels: parallel threads. ZeRO++: a second copy and the number of hops that do nothing change no bit; what is rounded
 * changes little, and is the same after a restart, with every layout. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { STEPS = 10, SAVED = 6 };

#define WEIGHTS   "--zero-quantized-weights "
#define GRADIENTS "--zero-quantized-gradients "
#define NEAR(n)   "--zero-hpz-partition-size " #n " "

/* What the words say (layout_cases.h), at stage 3, with more flags.   @load, @save folders, or NULL */
static outcome train(const char *words, const char *more, const char *load, const char *save)
{
    static layout_run r;
    layout_case c = case_of(words);
    char flags[4096];
    sizes l = sizes_of(&c);
    what_flags(flags, sizeof flags, &c);
    how_flags(flags + strlen(flags), sizeof flags - strlen(flags), &c);
    snprintf(flags + strlen(flags), sizeof flags - strlen(flags),
             " --zero-stage 3 --zero-param-persistence-threshold 200 %s", more);
    r = (layout_run){ .vocab = vocab_of(&c),
                      .n_ranks = n_ranks_of(&c),
                      .tp = l.tp,
                      .pp = l.pp,
                      .until = save ? SAVED : STEPS,
                      .load = load,
                      .save = save };
    ASSERT_OK(run_layout(&r, flags));
    return of_all_ranks(&r);
}

static void has_the_same_bits(const char *words, const char *more, const char *as)
{
    outcome a = train(words, more, NULL, NULL), b = train(words, as, NULL, NULL);
    if (has_the_bits_of(&a, &b, 0, STEPS, as)) fail_msg("%s %s: %s", words, more, tx_last_error());
}

static void second_copies_change_no_bit(void **state)
{
    (void)state;
    has_the_same_bits("1x1x4 many", WEIGHTS NEAR(2), WEIGHTS);
    has_the_same_bits("1x1x6 bf16 llama", WEIGHTS NEAR(3) "--zero-max-reuse-distance 1e9 ", WEIGHTS);
    has_the_same_bits("2x1x2 sequence fp16 uniform", WEIGHTS NEAR(2), WEIGHTS);
    has_the_same_bits("1x2x4 interleaved bf16-grads", WEIGHTS NEAR(2), WEIGHTS);
    has_the_same_bits("1x1x4 bert dropout", WEIGHTS NEAR(4) "--zero-max-live-parameters 1 ", WEIGHTS);
}

/* In one row, or in rows of one, there is one hop. */
static void one_hop_is_one_hop(void **state)
{
    (void)state;
    has_the_same_bits("1x1x4 many", GRADIENTS NEAR(4), GRADIENTS);
    has_the_same_bits("2x1x3 bf16-grads one", GRADIENTS NEAR(3), GRADIENTS "--no-overlap-grad-reduce ");
    has_the_same_bits("1x1x2 fp16 muon", WEIGHTS GRADIENTS NEAR(2), WEIGHTS GRADIENTS);
}

/* 8 bits move a loss by less than 4 do; and both move it. */
static void rounding_changes_little(void **state)
{
    (void)state;
    static const struct {
        const char *words, *more;
        double loss;
    } runs[] = { { "1x1x4", WEIGHTS, 2e-3 },
                 { "1x1x4", GRADIENTS NEAR(2), 2e-2 },
                 { "1x1x6 bf16 llama", WEIGHTS GRADIENTS NEAR(3), 2e-2 },
                 { "2x2x2 sequence shared", WEIGHTS GRADIENTS NEAR(2), 2e-2 } };
    for (int i = 0; i < LENGTH(runs); i++) {
        outcome plain = train(runs[i].words, "", NULL, NULL), o = train(runs[i].words, runs[i].more, NULL, NULL);
        double off = distance(&o, &plain, 0, STEPS).loss;
        print_message("%s %s: losses off by at most %.1e\n", runs[i].words, runs[i].more, off);
        if (!(off <= runs[i].loss) || o.weights == plain.weights)
            fail_msg("%s %s: a loss is off by %.1e, allowed %.1e and not 0", runs[i].words, runs[i].more, off,
                     runs[i].loss);
    }
}

static void goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const runs[] = { "1x1x4", "2x1x2 bf16", "1x2x2 fp16-grads" };
    for (int i = 0; i < LENGTH(runs); i++) {
        char dir[512];
        snprintf(dir, sizeof dir, "%s/%d", scratch_dir, i);
        const char *how = WEIGHTS GRADIENTS NEAR(2);
        outcome whole = train(runs[i], how, NULL, NULL);
        train(runs[i], how, NULL, dir);
        outcome again = train(runs[i], how, dir, NULL);
        if (has_the_bits_of(&again, &whole, SAVED, STEPS, "of one run")) fail_msg("%s: %s", runs[i], tx_last_error());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_copies_change_no_bit),
        cmocka_unit_test(one_hop_is_one_hop),
        cmocka_unit_test(rounding_changes_little),
        cmocka_unit_test(goes_on_with_the_same_bits),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
