/* labels: parallel threads. ZB-H1, which puts off the gradients of weights (--enable-zbh1-pipeline): a run has the bits
 * of 1F1B's, whatever the layout, and takes the memory that is planned.
 *
 *      test_zero_bubble                  what CTest runs
 *      test_zero_bubble case WORDS...    one combination: 2x2x2 stage2 bf16 sequence dropout */
#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"
#include "rank_memory.h"

enum { STEPS = 10 };

/* ---- the bits of 1F1B ---- */

static tx_status run_with(outcome *o, layout_case c, int schedule, const char *more)
{
    static layout_run r;
    char flags[8000], how[512], zero[1024];
    sizes l = sizes_of(&c);
    c.at[SCHEDULE] = schedule;
    what_flags(flags, sizeof flags, &c);
    how_flags(how, sizeof how, &c);
    zero_flags(zero, sizeof zero, &c, scratch_dir);
    size_t n = strlen(flags);
    snprintf(flags + n, sizeof flags - n, "%s%s%s", how, zero, more);
    r = (layout_run){ .vocab = vocab_of(&c), .n_ranks = n_ranks_of(&c), .tp = l.tp, .pp = l.pp, .until = STEPS };
    TX_TRY(run_layout(&r, flags));
    *o = of_all_ranks(&r);
    return TX_OK;
}

static bool passes(const layout_case *c, const char *more)
{
    char words[256];
    outcome o, base;
    tx_status st = run_with(&base, *c, ONE_F_ONE_B, more);
    if (!st) st = run_with(&o, *c, ZBH1, more);
    if (!st) st = has_the_bits_of(&o, &base, 0, STEPS, "with 1F1B");
    words_of(words, sizeof words, c);
    if (st) print_error("FAILED: test_zero_bubble case %s %s: %s\n", words, more, tx_last_error());
    return !st;
}

/* Layouts, recomputation, types; and each sort of what a layer puts off, with memory for gradients all the time and
 * without. */
static void each_layer_has_the_bits_of_1f1b(void **state)
{
    (void)state;
    static const char *const words[] = {
        "1x2x1 dropout",
        "1x4x1 uniform ramp-up",
        "2x2x1 sequence selective uneven",
        "2x4x1 bf16 block one",
        "1x4x2 stage2 uniform fp16",
        "2x2x2 stage2 small sequence qk-norm",
        "1x2x4 stage3 nothing bf16",
        "1x2x2 fp16-grads llama buckets",
        "2x2x2 mixtral ep2-whole stage2",
        "2x2x1 shared sequence",
        "1x2x2 residual stage1 no-overlap",
        "2x2x2 windows stage2 bf16",
        "2x2x2 lora-dropout drops sequence stage2",
        "1x2x2 llama lora-parts bf16-grads",
        "1x2x2 fades stage2",
        "1x4x2 fades fp16",
        "1x4x2 bert stage2",
        "1x2x2 bert-post bf16-grads selective",
        "2x2x1 phi",
        "1x2x2 neox stage1",
        "2x2x2 whole-norm stage2",
        "1x2x2 muon stage2 gemma2",
        "1x2x2 olmo2 stage3 norms",
        "1x2x1 chunks dropout",
        "2x2x1 small-chunks windows uniform bf16-grads",
        "1x2x2 ulysses2 chunks-host gqa stage3 nothing",
    };
    int failed = 0;
    for (int i = 0; i < LENGTH(words); i++) {
        layout_case c = case_of(words[i]);
        failed += !passes(&c, "");
    }
    assert_int_equal(failed, 0);
}

/* Of losses that overflow at first: their steps are skipped. */
static void skipped_steps_are_the_same(void **state)
{
    (void)state;
    const char *more = " --initial-loss-scale 1e30 --hysteresis 1";
    layout_case c = case_of("1x4x2 fp16 stage2 dropout");
    outcome o;
    ASSERT_OK(run_with(&o, c, ZBH1, more));
    assert_true(!isfinite(o.norm[0]));
    assert_true(passes(&c, more));
}

static void a_sample_has_the_bits_of_1f1b(void **state)
{
    (void)state;
    static const int first[N_AXES] = { [SCHEDULE] = ZBH1 };
    static const int taken[N_AXES] = {
        [LAYOUT] = 99, [SEQUENCE] = 99, [SCHEDULE] = ZBH1 + 1, [RECOMPUTE] = 99, [EXPERTS] = 99, [CHUNKS] = 99,
        [SUMS] = 99,   [DROPOUT] = 99,  [RAMP] = 99,           [LAYERS] = 99,    [MODEL] = 99,   [MICRO] = 99,
        [DTYPE] = 99,  [CLIP] = 99,     [ADAPTERS] = 99,       [ROUTING] = 99,   [STAGE] = 99,   [BUCKETS] = 99,
        [STAYS] = 99,  [OFFLOAD] = 99,  [OPTIMIZER] = 99
    };
    static pairs p;
    const tx_rng rng = { .seed = 13 + sample_seed() };
    uint64_t drawn = 0;
    int failed = 0, n = as_many(150, 4);
    pairs_begin(&p, first, taken);
    for (int i = 0; i < n; i++) {
        layout_case c = next_of_sample(&p, &rng, &drawn);
        failed += !passes(&c, "");
    }
    print_message("seed %llu: %d combinations\n", (unsigned long long)sample_seed(), n);
    assert_int_equal(failed, 0);
}

/* ---- memory ---- */

/* Bytes that eight more layers add to the activations of a stage. */
static size_t of_layers(const char *flags, int pp, int stage)
{
    return memory_of_stage(flags, 16, pp, stage).activations - memory_of_stage(flags, 8, pp, stage).activations;
}

/* Layers that are computed again leave their input in a slot. What the weights' part needs is, of the inputs of
 * products, those of q, k and v, of the next one, and of the two of an MLP, h, h, h and 4 h wide, and the gradients of
 * their outputs: 3 h, h, 4 h and h. The first stage does it at once. */
static void stores_take_what_products_need(void **state)
{
    (void)state;
    if (UNDER_TSAN) skip();
    const size_t bsh = 2 * 16 * 32 * sizeof(float);
    for (int pp = 2; pp <= 4; pp *= 2) {
        const char *flags = " --recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
        char divided[256];
        size_t layers = 8 / (size_t)pp;
        snprintf(divided, sizeof divided, "%s --enable-zbh1-pipeline", flags);
        for (int stage = 0; stage < pp; stage++) {
            size_t slots = (size_t)(pp - stage), stores = stage ? (size_t)stage + 1 : 0;
            assert_int_equal(of_layers(flags, pp, stage), slots * layers * bsh);
            assert_int_equal(of_layers(divided, pp, stage), (slots + 16 * stores) * layers * bsh);
        }
    }
}

/* What a layer keeps more of in the last of two stages, of t tensor ranks with sequence parallelism: a t-th of all but
 * the gradients of the outputs of the second matrices, h and h wide; of inputs a rank's positions. */
static void ranks_keep_their_own_positions(void **state)
{
    (void)state;
    if (UNDER_TSAN) skip();
    const size_t bsh = 2 * 16 * 32 * sizeof(float), stores = 2, slots = 1;
    for (size_t t = 2; t <= 4; t *= 2) {
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            tx_run_plan plan;
            tx_config *cfg = parse_sizes(" --recompute-granularity full --recompute-method uniform --sequence-parallel "
                                         "--recompute-num-layers 1 --enable-zbh1-pipeline",
                                         8 + 2 * i, (int)t, 2);
            ASSERT_OK(tx_plan_stage(&plan, cfg, 512, 1));
            bytes[i] = plan.memory.activations;
            tx_config_free(cfg);
        }
        assert_int_equal(bytes[1] - bytes[0], slots * bsh / t + stores * (2 * bsh + 14 * bsh / t));
    }
}

/* Of each stage; memory_of compares. */
static void memory_is_as_planned(void **state)
{
    (void)state;
    static const char *const flags[] = { "", " --bf16 --recompute-activations",
                                         " --swiglu --qk-layernorm --zero-stage 2 --sequence-parallel",
                                         " --num-experts 4 --moe-router-topk 2 --disable-moe-token-dropping",
                                         " --global-batch-size 6" };
    if (UNDER_TSAN) skip();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        char all[512];
        snprintf(all, sizeof all, " --enable-zbh1-pipeline%s", flags[i]);
        memory_of(all, 8, 2, 4, true);
        memory_of(all, 5, 1, 2, true);
    }
}

int main(int argc, char **argv)
{
    layout_case c;
    int code = 2;
    setenv("TX_AIO_IN_MEMORY", "1", 1); /* the scratch folder may be no disk's */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_layer_has_the_bits_of_1f1b), cmocka_unit_test(skipped_steps_are_the_same),
        cmocka_unit_test(a_sample_has_the_bits_of_1f1b),   cmocka_unit_test(stores_take_what_products_need),
        cmocka_unit_test(ranks_keep_their_own_positions),  cmocka_unit_test(memory_is_as_planned),
    };
    if (argc == 1) return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
    if (scratch_setup(NULL)) return 1;
    if (!strcmp(argv[1], "case") && case_from_words(&c, argc - 2, argv + 2) && is_possible(&c)) code = !passes(&c, "");
    if (scratch_teardown(NULL)) return 1;
    if (code == 2) fprintf(stderr, "usage: test_zero_bubble [case WORDS...]\n");
    return code;
}
