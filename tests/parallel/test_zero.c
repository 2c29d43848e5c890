/* labels: parallel threads. ZeRO trains what plain data parallelism trains, bit for bit: every stage, whatever is
 * offloaded, with every layout of ranks, as threads.
 *
 *      test_zero                       what CTest runs
 *      test_zero case WORDS...         one combination: 2x2x2 stage3 bf16 nothing sequence interleaved
 *      test_zero all [PART PARTS]      every combination, or of every PARTS-th the PART-th (all.sh) */
#include <limits.h>

#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

enum { STEPS = 10 };

/* ---- a run ---- */

typedef struct result {
    uint64_t key;
    outcome o;
} result;

static tx_status run_case(outcome *o, const layout_case *c, const char *flags)
{
    static layout_run r;
    sizes l = sizes_of(c);
    r = (layout_run){ .vocab = vocab_of(c), .n_ranks = n_ranks_of(c), .tp = l.tp, .pp = l.pp, .until = STEPS };
    TX_TRY(run_layout(&r, flags));
    *o = of_all_ranks(&r);
    return TX_OK;
}

static void base_flags(char *text, size_t cap, const layout_case *c)
{
    char what[2048], how[512];
    what_flags(what, sizeof what, c);
    how_flags(how, sizeof how, c);
    snprintf(text, cap, "%s%s", what, how);
}

/* ---- stage 0, of which each run is made once ---- */

static result *known_results;
static size_t n_results;

static tx_status stage_0(outcome *o, layout_case c, bool every_micro_batch)
{
    char flags[4096];
    for (int a = STAGE; a < N_AXES; a++) c.at[a] = 0;
    base_flags(flags, sizeof flags, &c);
    if (every_micro_batch) strcat(flags, " --reduce-every-micro-batch");
    uint64_t key = XXH3_64bits_withSeed(flags, strlen(flags), (uint64_t)c.at[LAYOUT]);
    for (size_t i = 0; i < n_results; i++)
        if (known_results[i].key == key) {
            *o = known_results[i].o;
            return TX_OK;
        }
    TX_TRY(run_case(o, &c, flags));
    TX_TRY(tx_realloc(&known_results, n_results + 1, sizeof *known_results, "test"));
    known_results[n_results++] = (result){ key, *o };
    return TX_OK;
}

static void forget_results(void)
{
    tx_free(known_results);
    known_results = NULL;
    n_results = 0;
}

/* ---- a combination ---- */

/* Stages 2 and 3 sum each micro-batch over the ranks, plain stage 0 those of a rank first: other roundings. */
#define OTHER_SUMS 1e-6

static tx_status is_near(const outcome *o, const outcome *base, const layout_case *c)
{
    bounds off = distance(o, base, 0, STEPS), allowed = bounds_of_sums(c->at[DTYPE], sums_rows(c));
    if (off.loss <= allowed.loss && off.norm <= allowed.norm) return TX_OK;
    return TX_FAIL(TX_ERR_NUMERIC, "a loss is off by %.1e, allowed %.1e, a gradient norm by %.1e, allowed %.1e",
                   off.loss, allowed.loss, off.norm, allowed.norm);
}

/* @off  the most that a loss is off from plain stage 0's */
static tx_status case_is_stage_0(const layout_case *c, double *off)
{
    char flags[4096], zero[1024];
    outcome o, base;
    bool every = !c->at[MICRO] && c->at[STAGE] >= 2;
    base_flags(flags, sizeof flags, c);
    zero_flags(zero, sizeof zero, c, scratch_dir);
    strcat(flags, zero);
    *off = 0;
    TX_TRY(stage_0(&base, *c, every));
    TX_TRY(run_case(&o, c, flags));
    if (sums_rows(c)) return is_near(&o, &base, c);
    TX_TRY(has_the_bits_of(&o, &base, 0, STEPS, "at stage 0"));
    if (!every || c->at[DTYPE]) return TX_OK;
    TX_TRY(stage_0(&base, *c, false));
    *off = distance(&o, &base, 0, STEPS).loss;
    if (!(*off <= OTHER_SUMS))
        return TX_FAIL(TX_ERR_NUMERIC, "a loss is off from plain stage 0's by %.1e, allowed %.1e", *off, OTHER_SUMS);
    return TX_OK;
}

static bool passes(const layout_case *c, double *most)
{
    char words[256];
    double off;
    tx_status st = case_is_stage_0(c, &off);
    words_of(words, sizeof words, c);
    if (st) print_error("FAILED: test_zero case %s: %s\n", words, tx_last_error());
    if (off > *most) *most = off;
    return !st;
}

/* ---- what CTest runs ---- */

static const int first[N_AXES] = { [STAGE] = 1 };
static const int taken[N_AXES] = {
    [LAYOUT] = 99,  [SEQUENCE] = 99, [SCHEDULE] = 99, [RECOMPUTE] = 99, [EXPERTS] = 99, [DROPOUT] = 99, [RAMP] = 99,
    [RATE] = 99,    [LAYERS] = 99,   [VOCAB] = 99,    [MODEL] = 99,     [MICRO] = 99,   [DTYPE] = 99,   [STAGE] = 99,
    [BUCKETS] = 99, [STAYS] = 99,    [OFFLOAD] = 99,  [OPTIMIZER] = 99, [CLIP] = 99,
};

static void every_stage_is_stage_0(void **state)
{
    (void)state;
    static pairs p;
    const tx_rng rng = { .seed = 11 + sample_seed() };
    uint64_t drawn = 0;
    double most = 0;
    int n = 0, failed = 0;
    pairs_begin(&p, first, taken);
    int all = p.left;
    for (; p.left && n < as_many(INT_MAX, 12); n++) {
        layout_case c = next_of_sample(&p, &rng, &drawn);
        failed += !passes(&c, &most);
    }
    print_message(
        "seed %llu: %d combinations with %d of %d pairs of choices; summed in another order: loss off by at most "
        "%.1e\n",
        (unsigned long long)sample_seed(), n, all - p.left, all, most);
    forget_results();
    if (failed) fail_msg("%d of %d combinations are not as stage 0", failed, n);
}

/* Which is stage 0's with the same flag, and not what it is without. */
static void stage_1_may_sum_every_micro_batch(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x3 stage1 dropout", "2x2x2 stage1 bf16 sequence interleaved even small" };
    for (int i = 0; i < LENGTH(words); i++) {
        char flags[4096], zero[1024];
        outcome o, base, plain;
        layout_case c = case_of(words[i]);
        base_flags(flags, sizeof flags, &c);
        zero_flags(zero, sizeof zero, &c, scratch_dir);
        strcat(flags, zero);
        strcat(flags, "--reduce-every-micro-batch");
        ASSERT_OK(stage_0(&base, c, true));
        ASSERT_OK(stage_0(&plain, c, false));
        ASSERT_OK(run_case(&o, &c, flags));
        ASSERT_OK(has_the_bits_of(&o, &base, 0, STEPS, "at stage 0"));
        assert_int_not_equal(base.weights, plain.weights);
    }
    forget_results();
}

/* Updates of whole matrices, which ranks take turns at. */
static void whole_matrices(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x3 stage1 muon",
                                         "1x1x5 stage2 muon llama small",
                                         "2x1x2 stage3 muon nothing",
                                         "1x2x4 stage3 muon norms bf16",
                                         "2x1x2 stage1 muon-parts gqa all-reduce",
                                         "2x1x2 stage2 muon mixtral ep2",
                                         "1x1x2 stage1 muon fp16 broadcast",
                                         "1x1x2 stage1 muon cpu",
                                         "2x1x2 stage2 muon nvme bf16",
                                         "1x2x2 stage3 muon-parts params-nvme nothing",
                                         "1x1x3 stage1 adafactor",
                                         "1x1x5 stage2 adafactor llama small",
                                         "2x1x2 stage3 adafactor nothing",
                                         "1x2x4 stage3 adafactor norms bf16",
                                         "2x1x2 stage1 adafactor gqa all-reduce",
                                         "2x1x2 stage2 adafactor mixtral ep2",
                                         "1x1x2 stage1 adafactor fp16 broadcast" };
    double most = 0;
    int failed = 0;
    for (int i = 0; i < LENGTH(words); i++) {
        layout_case c = case_of(words[i]);
        assert_true(is_possible(&c));
        failed += !passes(&c, &most);
    }
    forget_results();
    assert_int_equal(failed, 0);
}

/* What is not trained has values alone, which stage 3 divides. */
static void low_rank_adapters(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x3 stage1 lora",
                                         "2x1x2 stage2 lora-dropout sequence bf16 small",
                                         "1x1x4 stage3 lora nothing",
                                         "1x2x2 stage3 lora few bf16-grads",
                                         "1x1x2 stage3 llama lora-parts late",
                                         "1x1x4 near lora nothing",
                                         "2x1x4 mics lora-few reused",
                                         "1x1x3 stage2 lora lamb wait",
                                         "1x1x2 stage3 lora muon norms fp16",
                                         "1x1x2 stage1 lora adafactor broadcast" };
    double most = 0;
    int failed = 0;
    for (int i = 0; i < LENGTH(words); i++) {
        layout_case c = case_of(words[i]);
        failed += !passes(&c, &most);
    }
    forget_results();
    assert_int_equal(failed, 0);
}

/* ---- all combinations ---- */

/* The choices [0, n) of each axis, all with all: what the issue of ZeRO is, then what it must not matter to. */
static const int all_of[][N_AXES] = {
    { [LAYOUT] = 99, [SEQUENCE] = 2, [SCHEDULE] = 3, [MICRO] = 2, [DTYPE] = 3, [STAGE] = 4, [OFFLOAD] = 99 },
    { [LAYOUT] = 99, [MODEL] = 3, [STAGE] = 4, [BUCKETS] = 99, [STAYS] = 99 },
    { [LAYOUT] = 99, [SCHEDULE] = 3, [RECOMPUTE] = 4, [STAGE] = 4, [STAYS] = 99 },
};

static int run_all(int part, int parts)
{
    double most = 0;
    int n = 0, done = 0, failed = 0;
    for (int k = 0; k < LENGTH(all_of); k++) {
        layout_case c = { 0 };
        do {
            if (!c.at[STAGE] || !is_possible(&c) || n++ % parts != part) continue;
            done++;
            failed += !passes(&c, &most);
        } while (next_case(&c, all_of[k]));
    }
    printf("%d of %d combinations: %d passed, %d failed; summed in another order: loss off by at most %.1e\n", done, n,
           done - failed, failed, most);
    forget_results();
    return failed != 0;
}

static int run_one(int n, char *const *word)
{
    layout_case c;
    double off = 0;
    if (!case_from_words(&c, n, word) || !is_possible(&c) || !c.at[STAGE]) return 2;
    bool good = passes(&c, &off);
    if (good) printf("the bits of stage 0; summed in another order: loss off by at most %.1e\n", off);
    forget_results();
    return !good;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_is_stage_0),
        cmocka_unit_test(stage_1_may_sum_every_micro_batch),
        cmocka_unit_test(whole_matrices),
        cmocka_unit_test(low_rank_adapters),
    };
    int code = 2;
    setenv("TX_AIO_IN_MEMORY", "1", 1); /* the scratch folder may be no disk's */
    if (argc == 1) return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
    if (scratch_setup(NULL)) return 1;
    if (!strcmp(argv[1], "all")) code = run_all(argc > 2 ? atoi(argv[2]) : 0, argc > 3 ? atoi(argv[3]) : 1);
    if (!strcmp(argv[1], "case")) code = run_one(argc - 2, argv + 2);
    if (scratch_teardown(NULL)) return 1;
    if (code == 2)
        fprintf(stderr, "usage: test_zero [case WORDS... | all [PART PARTS]]; one of the words is a stage\n");
    return code;
}
