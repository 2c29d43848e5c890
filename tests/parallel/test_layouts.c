/* labels: parallel threads. Every layout of ranks trains the model that one rank trains: ranks as threads.
 *
 *      test_layouts                                 what CTest runs
 *      test_layouts case WORDS...                   one combination: 2x2x2 sequence interleaved uniform dropout 509
 *      test_layouts all [PART PARTS]                every combination, or of every PARTS-th the PART-th (all.sh) */
#include <limits.h>

#include "support.h"

#include "layout_cases.h"
#include "layout_run.h"

/* ---- one combination ---- */

static tx_status run_case(layout_run *r, const reference **ref, const layout_case *c)
{
    char what[2048], both[4096], how[512];
    sizes l = sizes_of(c);
    what_flags(what, sizeof what, c);
    how_flags(how, sizeof how, c);
    TX_TRY(reference_of(ref, what, vocab_of(c)));
    snprintf(both, sizeof both, "%s %s", what, how);
    *r = (layout_run){
        .vocab = vocab_of(c), .n_ranks = n_ranks_of(c), .tp = l.tp, .pp = l.pp, .until = 10, .ref = *ref
    };
    return run_layout(r, both);
}

/* A weight that takes a step the other way is off by as much as a bias has become in ten of them. The most seen is a
 * loss 1.6e-5 off and a norm 2.6e-4, where the same layout with Adam is 6.7e-9 and 2.1e-7 off. */
static const bounds of_signs = { 1e-4, 1e-3, 0.5 };

static bounds bounds_of(const layout_case *c)
{
    bounds b = bounds_of_sums(c->at[DTYPE], sums_rows(c));
    if (has_signs(c))
        b = (bounds){ fmax(b.loss, of_signs.loss), fmax(b.norm, of_signs.norm), fmax(b.weights, of_signs.weights) };
    return b;
}

/* Initial weights have the same bits (run_layout); dropout masks are the same, or the first loss would not be.
 * @alike how many tokens each expert had, in each layer and iteration */
static tx_status case_equals_one_rank(const layout_case *c, bounds *off, bool *alike)
{
    static layout_run r;
    const reference *ref = NULL;
    *alike = true;
    TX_TRY(run_case(&r, &ref, c));
    *alike = r.rank[0].routed == ref->o.routed;
    *off = distance(&r.rank[0], &ref->o, 0, 10);
    for (int i = 0; i < r.n_ranks; i++)
        if (r.off[i] > off->weights) off->weights = r.off[i];
    double first = fabs(r.rank[0].loss[0] / ref->o.loss[0] - 1);
    if (!(first <= (c->at[DTYPE] ? half_bounds.loss : FIRST_LOSS)))
        return TX_FAIL(TX_ERR_NUMERIC, "the first loss is off by %.2e, allowed %.1e", first, FIRST_LOSS);
    return is_within(&r, ref, 0, bounds_of(c));
}

/* A token whose experts are nearly even may go to another of them when sums are rounded in another order, and all that
 * follows is off: such a run says nothing. Tokens of experts are not those of one rank then, and two runs in which that
 * is so are a defect.   @off results of the last run */
static tx_status case_equals_one_rank_if_routed_alike(const layout_case *c, bounds *off)
{
    bool alike;
    tx_status st = case_equals_one_rank(c, off, &alike);
    if (!st || alike) return st;
    print_message("test_layouts: %s, with other experts for some tokens; again with other weights\n", tx_last_error());
    layout_seed++;
    st = case_equals_one_rank(c, off, &alike);
    layout_seed--;
    return st;
}

static bool passes(const layout_case *c, bounds *most)
{
    char words[256];
    bounds off = { 0 };
    tx_status st = case_equals_one_rank_if_routed_alike(c, &off);
    words_of(words, sizeof words, c);
    if (st) print_error("FAILED: test_layouts case %s: %s\n", words, tx_last_error());
    if (off.loss > most->loss) most->loss = off.loss;
    if (off.norm > most->norm) most->norm = off.norm;
    if (off.weights > most->weights) most->weights = off.weights;
    return !st;
}

/* Returns how far off they were. */
static bounds all_pass(const char *const *words, int n)
{
    bounds most = { 0 };
    int failed = 0;
    for (int i = 0; i < n; i++) {
        layout_case c = case_of(words[i]);
        assert_true(is_possible(&c));
        failed += !passes(&c, &most);
    }
    print_message("most off: loss %.1e, gradient norm %.1e, weights %.1e\n", most.loss, most.norm, most.weights);
    forget_references();
    assert_int_equal(failed, 0);
    return most;
}

/* Gradients that are kept in two bytes, and summed in as many or in four. */
static void gradients_of_two_bytes(void **state)
{
    (void)state;
    static const char *const words[] = {
        "1x1x4 bf16-grads dropout",         "1x1x8 fp16-grads",           "2x2x2 bf16-grads sequence interleaved",
        "2x1x3 fp32-sums sequence uniform", "1x2x4 bf16-sums no-overlap", "4x2x1 fp16-grads llama sequence",
        "1x2x2 fp16-grads bert buckets"
    };
    all_pass(words, LENGTH(words));
}

/* Updates of whole matrices: each way to split them, experts, and BERT. */
static void whole_matrices(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x3 muon",
                                         "2x2x2 muon sequence interleaved",
                                         "4x1x2 muon gqa",
                                         "2x1x2 muon mixtral ep2",
                                         "2x1x2 muon mixtral ep2-whole",
                                         "1x2x2 muon bert",
                                         "4x1x1 muon-parts llama",
                                         "2x2x1 muon-parts mixtral",
                                         "1x1x3 adafactor",
                                         "2x2x2 adafactor sequence interleaved",
                                         "4x1x2 adafactor gqa",
                                         "2x1x2 adafactor mixtral ep2",
                                         "1x2x2 adafactor bert",
                                         "4x1x1 adafactor llama" };
    bounds most = all_pass(words, LENGTH(words));
    assert_true(most.weights < 1e-5);
}

/* Queries and keys that are scaled down after an update. */
static void clipped_queries_and_keys(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x3 qk-clip",
                                         "2x2x2 qk-clip gqa sequence interleaved dropout",
                                         "4x1x2 qk-clip llama uniform muon",
                                         "1x2x2 qk-clip bert",
                                         "2x1x2 qk-clip alibi",
                                         "4x1x1 qk-clip windows sequence",
                                         "2x1x2 qk-clip mixtral ep2 lamb" };
    bounds most = all_pass(words, LENGTH(words));
    assert_true(most.weights < 3e-5);
}

/* The first stage has no layer. */
static void an_embedding_of_its_own_stage(void **state)
{
    (void)state;
    static const char *const words[] = { "1x2x2 embedding", "1x4x2 embedding uneven dropout",
                                         "2x2x2 embedding sequence bert-words",
                                         "2x4x1 embedding sequence llama uniform" };
    all_pass(words, LENGTH(words));
}

/* Adapters of a model that is not trained, divided as its matrices are. */
static void low_rank_adapters(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x3 lora",
                                         "2x2x2 lora-dropout sequence interleaved dropout",
                                         "4x1x2 llama lora-parts uniform sequence",
                                         "4x1x1 gqa lora-parts selective",
                                         "2x1x2 windows lora",
                                         "2x2x1 lora-few muon documents",
                                         "2x1x2 qk-norm lora-dropout lamb block",
                                         "2x2x2 lora-dropout drops sequence",
                                         "1x2x2 lora adafactor ramp-up" };
    bounds most = all_pass(words, LENGTH(words));
    assert_true(most.weights < 1e-5);
}

/* Positions of samples divided among ranks, with all that is of whole samples: documents, windows, biases, a clipped
 * score, lengths of rotary positions, a BERT's first and masked tokens, loads of experts. */
static void divided_positions(void **state)
{
    (void)state;
    static const char *const words[] = { "1x1x2 ulysses2 dropout",
                                         "2x2x2 ulysses2 sequence interleaved llama dropout ramp-up",
                                         "1x1x8 ulysses4 documents uniform",
                                         "2x1x2 ulysses2 sequence windows qk-clip dropout",
                                         "1x1x4 ulysses4 alibi dropout",
                                         "1x2x4 ulysses2 neighbours selective",
                                         "1x1x4 ulysses4 bert dropout",
                                         "2x2x2 ulysses2 bert-post sequence one",
                                         "1x1x4 ulysses2 gqa lora-dropout block muon",
                                         "1x1x4 ring4 mixtral ep4 dropout",
                                         "2x2x2 ulysses2 sequence shared ep4-whole uniform",
                                         "1x2x4 both4 residual ep2 zbh1 dropout" };
    all_pass(words, LENGTH(words));
}

/* Layers that tokens or micro-batches pass by; test_routing_layouts has more of fp32. */
static void layers_that_are_passed_by(void **state)
{
    (void)state;
    static const char *const words[] = { "2x2x2 sequence drops bf16 dropout",
                                         "1x2x3 interleaved fades dropout ramp-up",
                                         "2x1x2 drops qk-clip gqa uniform",
                                         "1x2x2 fades qk-clip block muon",
                                         "2x4x1 sequence drops embed-norm fp16 adafactor",
                                         "2x1x4 ring4 sequence drops qk-clip dropout",
                                         "1x4x2 drops documents one uneven one-cycle",
                                         "1x1x5 fades lamb bert-words selective",
                                         "2x2x1 fades llama fp16-grads sequence selective" };
    all_pass(words, LENGTH(words));
}

/* All of the axes of layouts, none of ZeRO's, and none of layers that are passed by. */
static const int taken[N_AXES] = {
    [LAYOUT] = 99,  [SEQUENCE] = 99, [CONTEXT] = 99,   [SCHEDULE] = 99, [RECOMPUTE] = 99, [CHUNKS] = 99,
    [EXPERTS] = 99, [SUMS] = 99,     [DROPOUT] = 99,   [RAMP] = 99,     [RATE] = 99,      [LAYERS] = 99,
    [VOCAB] = 99,   [MODEL] = 99,    [OPTIMIZER] = 99, [CLIP] = 99,     [ADAPTERS] = 99,
};

static void layouts_equal_one_rank(void **state)
{
    (void)state;
    static pairs p;
    const tx_rng rng = { .seed = 7 + sample_seed() };
    uint64_t drawn = 0;
    bounds most = { 0 };
    int n = 0, failed = 0;
    pairs_begin(&p, (int[N_AXES]){ 0 }, taken);
    int all = p.left;
    for (; p.left && n < as_many(INT_MAX, 25); n++) { /* the first of the sample have most pairs */
        layout_case c = next_of_sample(&p, &rng, &drawn);
        failed += !passes(&c, &most);
    }
    print_message("seed %llu: %d combinations with %d of %d pairs of choices; most off: loss %.1e, gradient norm %.1e, "
                  "weights %.1e\n",
                  (unsigned long long)sample_seed(), n, all - p.left, all, most.loss, most.norm, most.weights);
    forget_references();
    if (failed) fail_msg("%d of %d combinations are not as one rank", failed, n);
}

/* ---- all combinations ---- */

/* The choices [0, n) of each axis, all with all: what the issue of ranks is, then what it must not matter to. */
static const int all_of[][N_AXES] = {
    { [LAYOUT] = 99,
      [SEQUENCE] = 2,
      [SCHEDULE] = 3,
      [RECOMPUTE] = 4,
      [DROPOUT] = 2,
      [RAMP] = 2,
      [LAYERS] = 2,
      [VOCAB] = 2 },
    { [LAYOUT] = 99, [SEQUENCE] = 2, [SCHEDULE] = 3, [SUMS] = 3, [VOCAB] = 4, [MODEL] = 99 },
};

static int run_all(int part, int parts)
{
    bounds most = { 0 };
    int n = 0, done = 0, failed = 0;
    for (int k = 0; k < LENGTH(all_of); k++) {
        layout_case c = { 0 };
        do {
            if (!is_possible(&c) || n++ % parts != part) continue;
            done++;
            failed += !passes(&c, &most);
        } while (next_case(&c, all_of[k]));
    }
    printf("%d of %d combinations: %d passed, %d failed; most off: loss %.1e, gradient norm %.1e, weights %.1e\n", done,
           n, done - failed, failed, most.loss, most.norm, most.weights);
    forget_references();
    return failed != 0;
}

int main(int argc, char **argv)
{
    layout_case c;
    bounds off = { 0 };
    if (argc > 1 && !strcmp(argv[1], "all")) return run_all(argc > 2 ? atoi(argv[2]) : 0, argc > 3 ? atoi(argv[3]) : 1);
    if (argc > 2 && !strcmp(argv[1], "case") && case_from_words(&c, argc - 2, argv + 2) && is_possible(&c)) {
        bool good = passes(&c, &off);
        printf("off: loss %.1e, gradient norm %.1e, weights %.1e\n", off.loss, off.norm, off.weights);
        return !good;
    }
    if (argc > 1) {
        fprintf(stderr, "usage: test_layouts [case WORDS... | all [PART PARTS]]\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_equal_one_rank),
        cmocka_unit_test(gradients_of_two_bytes),
        cmocka_unit_test(whole_matrices),
        cmocka_unit_test(clipped_queries_and_keys),
        cmocka_unit_test(an_embedding_of_its_own_stage),
        cmocka_unit_test(divided_positions),
        cmocka_unit_test(low_rank_adapters),
        cmocka_unit_test(layers_that_are_passed_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
