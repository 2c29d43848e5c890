/* labels: parallel threads resume. Random layerwise token dropping: layers compute the tokens that are drawn for them,
 * with any layout of ranks as with one, and a run goes on with the same bits after a checkpoint. */
#include "support.h"

#include "worded_run.h"

enum { N = 10 }; /* iterations */

/* 4, 4, 4, 4, 8, 8, 8, 12, 12, 12 of 16 tokens, then all */
#define RISES                                                                                         \
    " --random-ltd --random-ltd-min-value 4 --random-ltd-max-value 16 --random-ltd-require-steps 10 " \
    "--random-ltd-seq-per-step 4 --random-ltd-layer-id 1 2"
#define STANDS                                                                                       \
    " --random-ltd --random-ltd-min-value 8 --random-ltd-max-value 8 --random-ltd-require-steps 10 " \
    "--random-ltd-seq-per-step 8 --random-ltd-layer-id 1 2"
#define FADES RISES " --progressive-layer-drop --pld-theta 0 --pld-gamma 0.3"
#define WITH_CURRICULUM                                                                                       \
    RISES " --curriculum-schedule fixed_linear --curriculum-min-difficulty 8 --curriculum-max-difficulty 16 " \
          "--curriculum-total-step 5 --curriculum-difficulty-step 8"

static const char *const layouts_that_drop[][2] = {
    { "2x2x2 sequence dropout", RISES },
    { "1x1x4 dropout stage3 llama", WITH_CURRICULUM },
    { "2x1x2 sequence selective stage2 embed-norm", RISES },
    { "1x2x2 interleaved dropout uniform llama", RISES },
    { "4x1x2 sequence block llama dropout", WITH_CURRICULUM },
    { "1x4x1 gpipe documents", RISES },
    { "2x1x1 bert dropout", RISES },
    { "1x2x1 bert-post uniform", RISES },
    { "1x1x2 stage1 gqa smooth", RISES },
    { "2x1x1 sequence bert dropout", STANDS },
    { "2x2x2 sequence dropout", FADES },
    { "1x1x4 dropout stage3 llama", FADES },
    { "1x2x2 interleaved uniform bert", FADES },
    { "2x1x2 selective stage2", FADES },
    { "1x1x4 ring2 dropout llama", RISES },
    { "2x1x4 ring4 sequence dropout documents", STANDS },
    { "1x1x4 ulysses4 bert dropout", RISES },
    { "2x2x2 ulysses2 sequence llama uniform stage2", WITH_CURRICULUM },
    { "1x2x4 both4 dropout gqa selective stage3", STANDS },
    { "1x1x2 gather2 bert dropout", FADES },
};

static void layouts_train_what_one_rank_trains(void **state)
{
    (void)state;
    for (int i = 0; i < as_many(LENGTH(layouts_that_drop), 5); i++) {
        static layout_run r;
        const reference *ref;
        r = (layout_run){ .until = N };
        tx_status st = run_words(&r, &ref, layouts_that_drop[i][0], layouts_that_drop[i][1], NULL, N);
        if (!st) st = is_within(&r, ref, 0, fp32_bounds);
        if (st) fail_msg("%s: %s", layouts_that_drop[i][0], tx_last_error());
    }
    forget_references();
}

/* Where all tokens are computed nothing is another; else the losses are, and evaluations before the first step are not.
 */
static void dropped_tokens_count_in_training_alone(void **state)
{
    (void)state;
    static layout_run plain, all, some;
    char flags[4096], what[2048];
    layout_case c = case_of("1x1x1 dropout");
    what_flags(what, sizeof what, &c);
    plain = all = some = (layout_run){ .vocab = vocab_of(&c), .n_ranks = 1, .tp = 1, .pp = 1, .until = N };
    ASSERT_OK(run_layout(&plain, what));
    snprintf(flags, sizeof flags, "%s" STANDS " --random-ltd-min-value 16 --random-ltd-max-value 16", what);
    ASSERT_OK(run_layout(&all, flags));
    assert_memory_equal(plain.rank[0].loss, all.rank[0].loss, N * sizeof(double));
    assert_int_equal(plain.rank[0].weights, all.rank[0].weights);
    snprintf(flags, sizeof flags, "%s" STANDS, what);
    ASSERT_OK(run_layout(&some, flags));
    assert_true(some.rank[0].loss[0] != plain.rank[0].loss[0]);
    assert_true(some.rank[0].scored[0] == plain.rank[0].scored[0]);
}

/* What the run has consumed is saved, as Megatron-DeepSpeed counts it, and the number follows from the iteration. */
static void tokens_are_those_of_the_layers(tx_trainer *t)
{
    static const int64_t kept[N] = { 4, 4, 4, 4, 8, 8, 8, 12, 12, 12 };
    int64_t tokens = 0, layers = t->cfg->num_layers;
    for (int64_t i = 0; i < t->iteration; i++)
        tokens += (16 * (layers - 2) + kept[i] * 2) / layers * t->cfg->global_batch_size;
    if (t->consumed_train_tokens != tokens || t->kept != kept[t->iteration - 1])
        fprintf(stderr, "%lld tokens, not %lld\n", (long long)t->consumed_train_tokens, (long long)tokens), abort();
}

static void a_run_goes_on_in_the_middle_of_it(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x1 dropout", "2x2x1 sequence dropout", "1x1x2 dropout stage3" };
    for (int i = 0; i < as_many(LENGTH(words), 2); i++) {
        static layout_run whole, first, rest;
        char dir[512];
        snprintf(dir, sizeof dir, "%s", in_scratch(i ? i == 1 ? "b" : "c" : "a"));
        whole = (layout_run){ .save = in_scratch("end"), .tamper = tokens_are_those_of_the_layers };
        first = (layout_run){ .save = dir, .tamper = tokens_are_those_of_the_layers };
        rest = (layout_run){ .load = dir, .save = in_scratch("end"), .tamper = tokens_are_those_of_the_layers };
        ASSERT_OK(run_words(&whole, NULL, words[i], RISES, NULL, N));
        ASSERT_OK(run_words(&first, NULL, words[i], RISES, NULL, 5));
        ASSERT_OK(run_words(&rest, NULL, words[i], RISES, NULL, N));
        const outcome a = of_all_ranks(&rest), b = of_all_ranks(&whole);
        ASSERT_OK(has_the_bits_of(&a, &b, 5, N, "of a run that was not interrupted"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dropped_tokens_count_in_training_alone),
        cmocka_unit_test(layouts_train_what_one_rank_trains),
        SCRATCH_TEST(a_run_goes_on_in_the_middle_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
