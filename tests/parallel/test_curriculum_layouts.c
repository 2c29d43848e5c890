/* labels: parallel threads resume. Curriculum learning: an iteration trains on the first tokens of its samples, and on
 * samples that are drawn by their difficulty, with any layout of ranks as with one, and goes on with the same bits
 * after a checkpoint. */
#include "support.h"

#include "metric_files.h"
#include "worded_run.h"

enum { N = 10 }; /* iterations */

/* 4, 4, 4, 8, 8, 8, 12, 12, 12, 16 of 16 tokens */
#define RISES                                                                                           \
    " --curriculum-schedule fixed_linear --curriculum-min-difficulty 4 --curriculum-max-difficulty 16 " \
    "--curriculum-total-step 10 --curriculum-difficulty-step 4"
#define STANDS                                                                                         \
    " --curriculum-schedule fixed_linear --curriculum-min-difficulty 8 --curriculum-max-difficulty 8 " \
    "--curriculum-total-step 10 --curriculum-difficulty-step 8"

/* What draws by a value, which rises all the time, and by a percentile; with `RISES` more. 2 samples are in no cluster
 * of iteration 1 for each that is. */
static const char *draws(void)
{
    static char flags[2048];
    static const char metric[] = "\"%s\":{\"difficulty_type\":\"%s\",\"clustering_type\":\"schedule_based\","
                                 "\"index_to_sample_path\":\"%s_index_to_sample%s\",\"index_to_metric_path\":\""
                                 "%s_index_to_metric\",\"min_difficulty\":%d,\"max_difficulty\":%d,"
                                 "\"schedule_type\":\"fixed_linear\",\"schedule_config\":{"
                                 "\"total_curriculum_step\":8,\"difficulty_step\":1}}";
    const formula rare = { { 0, 7, 3, 50 } }, long_ones = { { 10, 3, 1, 20 } };
    char a[256], b[256];
    snprintf(a, sizeof a, "%s", in_scratch("rare"));
    snprintf(b, sizeof b, "%s", in_scratch("long"));
    write_metric(a, N_DRAWN, value_by_formula, &rare);
    write_metric(b, N_DRAWN, value_by_formula, &long_ones);
    int n = snprintf(flags, sizeof flags,
                     RISES " --data-efficiency-curriculum-learning --data-cluster-path %s --curriculum-metrics {",
                     in_scratch("clusters"));
    n += snprintf(flags + n, sizeof flags - (size_t)n, metric, "rare", "value", a, "", a, 20, 49);
    n += snprintf(flags + n, sizeof flags - (size_t)n, ",");
    n += snprintf(flags + n, sizeof flags - (size_t)n, metric, "long", "percentile", b, "_percentile_merged", b, 60,
                  100);
    snprintf(flags + n, sizeof flags - (size_t)n, "}");
    return flags;
}

static const char *const layouts_of_lengths[] = {
    "2x2x2 sequence dropout", "1x2x2 interleaved dropout uniform llama",
    "1x1x4 dropout stage3",   "4x1x2 sequence block mixtral",
    "1x4x1 gpipe documents",  "2x1x2 sequence selective stage2 embed-norm",
    "1x2x1 alibi dropout",    "1x1x2 stage1 gqa smooth",
};

static void layouts_train_what_one_rank_trains_by(const char *flags)
{
    for (int i = 0; i < as_many(LENGTH(layouts_of_lengths), 4); i++) {
        static layout_run r;
        const reference *ref;
        r = (layout_run){ .until = N };
        tx_status st = run_words(&r, &ref, layouts_of_lengths[i], flags, NULL, N);
        if (!st) st = is_within(&r, ref, 0, fp32_bounds);
        if (st) fail_msg("%s: %s", layouts_of_lengths[i], tx_last_error());
    }
    forget_references();
}

static void layouts_train_what_one_rank_trains(void **state)
{
    (void)state;
    layouts_train_what_one_rank_trains_by(RISES);
}

static void layouts_draw_what_one_rank_draws(void **state)
{
    (void)state;
    layouts_train_what_one_rank_trains_by(draws());
}

/* What is cut off is as if it had never been there. */
static void cut_samples_are_short_samples(void **state)
{
    (void)state;
    static layout_run cut, whole;
    char flags[4096], what[2048];
    layout_case c = case_of("1x1x1 dropout");
    what_flags(what, sizeof what, &c);
    cut = whole = (layout_run){ .vocab = vocab_of(&c), .n_ranks = 1, .tp = 1, .pp = 1, .until = N };
    snprintf(flags, sizeof flags, "%s" STANDS, what);
    ASSERT_OK(run_layout(&cut, flags));
    snprintf(flags, sizeof flags, "%s --seq-length 8", what);
    ASSERT_OK(run_layout(&whole, flags));
    assert_memory_equal(cut.rank[0].loss, whole.rank[0].loss, N * sizeof(double));
    assert_memory_equal(cut.rank[0].norm, whole.rank[0].norm, N * sizeof(double));
    assert_int_equal(cut.rank[0].weights, whole.rank[0].weights);
    assert_true(cut.rank[0].scored[0] != whole.rank[0].scored[0]); /* of 16 tokens */
}

/* What the run has consumed is saved, and the length follows from the iteration. */
static void tokens_are_those_of_the_lengths(tx_trainer *t)
{
    static const int64_t length[N] = { 4, 4, 4, 8, 8, 8, 12, 12, 12, 16 };
    int64_t tokens = 0;
    for (int64_t i = 0; i < t->iteration; i++) tokens += length[i] * t->cfg->global_batch_size;
    if (t->consumed_train_tokens != tokens || t->length != length[t->iteration - 1])
        fprintf(stderr, "%lld tokens, not %lld\n", (long long)t->consumed_train_tokens, (long long)tokens), abort();
}

static void a_run_goes_on_in_the_middle_of(const char *flags)
{
    static const char *const words[] = { "1x1x1 dropout", "2x2x1 sequence dropout", "1x1x2 dropout stage3" };
    for (int i = 0; i < as_many(LENGTH(words), 2); i++) {
        static layout_run whole, first, rest;
        char dir[512];
        snprintf(dir, sizeof dir, "%s", in_scratch(i ? i == 1 ? "b" : "c" : "a"));
        whole = (layout_run){ .save = in_scratch("end"), .tamper = tokens_are_those_of_the_lengths };
        first = (layout_run){ .save = dir, .tamper = tokens_are_those_of_the_lengths };
        rest = (layout_run){ .load = dir, .save = in_scratch("end"), .tamper = tokens_are_those_of_the_lengths };
        ASSERT_OK(run_words(&whole, NULL, words[i], flags, NULL, N));
        ASSERT_OK(run_words(&first, NULL, words[i], flags, NULL, 5));
        ASSERT_OK(run_words(&rest, NULL, words[i], flags, NULL, N));
        const outcome a = of_all_ranks(&rest), b = of_all_ranks(&whole);
        ASSERT_OK(has_the_bits_of(&a, &b, 5, N, "of a run that was not interrupted"));
    }
}

static void a_run_goes_on_in_the_middle_of_it(void **state)
{
    (void)state;
    a_run_goes_on_in_the_middle_of(RISES);
}

static void a_run_goes_on_drawing(void **state)
{
    (void)state;
    a_run_goes_on_in_the_middle_of(draws());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_samples_are_short_samples),
        cmocka_unit_test(layouts_train_what_one_rank_trains),
        SCRATCH_TEST(layouts_draw_what_one_rank_draws),
        SCRATCH_TEST(a_run_goes_on_in_the_middle_of_it),
        SCRATCH_TEST(a_run_goes_on_drawing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
