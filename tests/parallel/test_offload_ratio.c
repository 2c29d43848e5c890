/* labels: parallel threads resume. Whatever part of the optimizer's state is offloaded, a run has the same bits, and a
 * run of any part goes on with any other. */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { HALF = 3, STEPS = 6 };

static const char *const ratios[] = { "0", "0.3", "0.7", "1" };

/* `words`: a layout case, of which OFFLOAD is the tier; ratio NULL: nothing is offloaded. r's folders are the caller's.
 */
static tx_status run_ratio(layout_run *r, const char *words, const char *ratio)
{
    char flags[4096], how[512], zero[1024];
    layout_case c = case_of(words);
    sizes l = sizes_of(&c);
    if (!ratio) c.at[OFFLOAD] = 0;
    what_flags(flags, sizeof flags, &c);
    how_flags(how, sizeof how, &c);
    zero_flags(zero, sizeof zero, &c, scratch_dir);
    strcat(flags, how);
    strcat(flags, zero);
    if (ratio) strcat(strcat(flags, " --offload-optimizer-ratio "), ratio);
    r->vocab = vocab_of(&c);
    r->n_ranks = n_ranks_of(&c);
    r->tp = l.tp;
    r->pp = l.pp;
    return run_layout(r, flags);
}

static const char *const runs[] = {
    "1x1x2 stage1 cpu",
    "1x1x2 stage1 nvme bf16",
    "1x1x3 stage2 cpu bf16",
    "2x1x2 stage2 nvme",
    "1x1x2 stage3 cpu bf16 nothing",
    "1x1x2 stage3 nvme fp16 pieces",
    "1x2x2 stage3 params-cpu",
    "1x1x2 stage3 params-nvme bf16",
    "1x1x2 stage2 nvme lamb",
    "1x1x2 stage3 params-cpu lamb bf16",
    "1x1x3 stage1 cpu muon bf16",
    "2x1x2 stage2 nvme muon",
    "1x1x2 stage3 params-nvme muon-parts llama bf16",
};

static void any_ratio_has_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < LENGTH(runs); i++) {
        static layout_run whole, some;
        whole = (layout_run){ .until = STEPS };
        ASSERT_OK(run_ratio(&whole, runs[i], NULL));
        outcome expected = of_all_ranks(&whole);
        for (int k = 0; k < LENGTH(ratios); k++) {
            some = (layout_run){ .until = STEPS };
            ASSERT_OK(run_ratio(&some, runs[i], ratios[k]));
            outcome o = of_all_ranks(&some);
            if (has_the_bits_of(&o, &expected, 0, STEPS, "without offload"))
                fail_msg("%s, a ratio of %s: %s", runs[i], ratios[k], tx_last_error());
        }
    }
}

/* Each goes on from the one before. */
static void any_ratio_goes_on_with_any_other(void **state)
{
    (void)state;
    for (int i = 0; i < LENGTH(runs); i++) {
        static layout_run straight, begun, resumed;
        straight = (layout_run){ .until = STEPS };
        ASSERT_OK(run_ratio(&straight, runs[i], ratios[i % 4]));
        begun = (layout_run){ .until = HALF, .save = in_scratch("begun") };
        ASSERT_OK(run_ratio(&begun, runs[i], ratios[(i + 1) % 4]));
        resumed = (layout_run){ .until = STEPS, .load = begun.save };
        ASSERT_OK(run_ratio(&resumed, runs[i], ratios[(i + 3) % 4]));
        outcome o = of_all_ranks(&resumed), expected = of_all_ranks(&straight);
        if (has_the_bits_of(&o, &expected, HALF, STEPS, "of a run that was not stopped"))
            fail_msg("%s: %s", runs[i], tx_last_error());
        ASSERT_OK(tx_remove_tree(begun.save));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_ratio_has_the_same_bits),
        cmocka_unit_test(any_ratio_goes_on_with_any_other),
    };
    setenv("TX_AIO_IN_MEMORY", "1", 1); /* the scratch folder may be no disk's */
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
