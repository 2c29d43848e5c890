/* labels: extended parallel. Ranks with a GPU each, whose groups go from GPU to GPU, and ranks that share one, train
 * the model that one rank trains on one GPU: GPUs are emulated, and ranks are threads. With TX_TEST_GPU_MODULE on real
 * ones. */
#include "support.h"

#include "backend/gpu_module.h"
#include "base/clock.h"
#include "layout_cases.h"
#include "layout_run.h"

/* What makes all calls that a step has: sums of gradients and of norms, halves of layers, messages between stages,
 * parameters that are gathered, rows that go to their experts. */
static const char *const cases[] = {
    "2x1x1 one dropout",
    "1x2x1 one dropout",
    "1x1x2 one dropout",
    "1x1x2 one mixtral ep2",
    "1x1x2 one dropout stage1",
    "1x1x2 one dropout stage2",
    "1x1x2 one dropout stage3 nothing",
    "2x2x1 interleaved sequence uniform",
    "2x1x2 one stage3 nothing llama sequence selective",
    "1x2x2 one stage2 gpipe cpu",
    "2x1x2 one stage3 params-cpu",
    "2x2x1 one bert",
    "1x1x2 one dropout stage1 bf16-grads",
    "1x1x2 one stage2 cpu fp16-grads",
    "1x1x2 one stage3 params-cpu fp32-sums",
    "2x1x1 one residual sequence",
    "2x1x1 one gemma2 sequence selective",
    "1x2x1 one phi dropout",
    "2x1x2 one mixtral ep4-whole stage3",
    "1x2x2 one shared ep2 stage2 uniform",
    "2x1x1 one qk-clip",
    "1x1x2 one qk-clip stage2 cpu bf16-grads",
    "1x2x2 one qk-clip stage3 params-cpu gqa",
    "2x1x1 one drops dropout sequence llama",
    "1x2x2 one fades dropout stage3",
    "2x1x1 one bert drops",
    "2x1x1 one windows sequence",
    "1x2x1 one whole-norm dropout",
    "2x1x2 one neighbours stage1",
    "1x2x1 one neox selective",
    "1x2x1 zbh1 dropout",
    "1x2x2 one zbh1 stage2 mixtral",
    "1x1x2 one chunks-host dropout stage3",
    "1x2x1 one chunks-host llama uniform",
    "1x1x2 ring2 dropout",
    "1x1x4 both4 llama dropout",
    "2x1x2 ulysses2 sequence windows",
    "1x1x2 gather2 documents stage2",
    "1x1x4 ring4 alibi selective",
    "1x1x2 ring2 mixtral ep2 dropout",
    "2x1x2 ring2 drops sequence dropout llama",
    "2x1x2 ulysses2 shared ep2-whole sequence stage2",
};
enum { FEW = 4, STEPS = 3 };

static tx_status case_equals_one_rank(const layout_case *c, bounds *off)
{
    static layout_run r;
    const reference *ref = NULL;
    char what[2048], flags[4096], how[512], zero[1024];
    sizes l = sizes_of(c);
    what_flags(what, sizeof what, c);
    strcat(what, " --device gpu");
    how_flags(how, sizeof how, c);
    zero_flags(zero, sizeof zero, c, scratch_dir);
    TX_TRY(reference_of(&ref, what, vocab_of(c)));
    snprintf(flags, sizeof flags, "%s %s %s", what, how, zero);
    r = (layout_run){
        .vocab = vocab_of(c), .n_ranks = n_ranks_of(c), .tp = l.tp, .pp = l.pp, .until = STEPS, .ref = ref
    };
    TX_TRY(run_layout(&r, flags));
    *off = distance(&r.rank[0], &ref->o, 0, STEPS);
    return is_within(&r, ref, 0, bounds_of_sums(c->at[DTYPE], sums_rows(c)));
}

static void try_cases(int n, const char *how)
{
    int failed = 0;
    double loss = 0;
    for (int i = 0; i < n; i++) {
        bounds off = { 0 };
        layout_case c = case_of(cases[i]);
        assert_true(is_possible(&c));
        double start = tx_clock();
        tx_status st = case_equals_one_rank(&c, &off);
        print_message("  %-50s %5.1f s, loss off by %.1e\n", cases[i], tx_clock() - start, off.loss);
        if (st) print_error("FAILED: %s, %s: %s\n", cases[i], how, tx_last_error());
        failed += st != TX_OK;
        if (off.loss > loss) loss = off.loss;
    }
    print_message("%d layouts, %s: losses off by at most %.1e\n", n, how, loss);
    forget_references();
    if (failed) fail_msg("%d of %d layouts are not as one rank", failed, n);
}

/* Real GPUs are those there are. */
static bool are_enough(int n)
{
    const tx_gpu_module *m;
    tx_gpu_info gpu[TX_GPU_MAX];
    int here = 0;
    ASSERT_OK(tx_gpu_module_get(&m));
    ASSERT_OK(m->list(gpu, &here));
    return here >= n;
}

static void ranks_with_a_gpu_each(void **state)
{
    (void)state;
    setenv("TX_GPU_EMULATED_COUNT", "8", 1);
    if (!are_enough(4)) {
        unsetenv("TX_GPU_EMULATED_COUNT");
        print_message("skipped: fewer than four GPUs\n");
        skip();
    }
    setenv("TX_GPU_COMM", "nccl", 1); /* or it fails */
    try_cases(LENGTH(cases), "a GPU each");
    unsetenv("TX_GPU_COMM");
    unsetenv("TX_GPU_EMULATED_COUNT");
}

static void ranks_that_share_a_gpu(void **state)
{
    (void)state;
    try_cases(as_many(LENGTH(cases), FEW), "one GPU for all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_a_gpu_each),
        cmocka_unit_test(ranks_that_share_a_gpu),
    };
    reference_steps = STEPS;
    const char *module = getenv("TX_TEST_GPU_MODULE");
    if (!module) module = getenv("TX_GPU_MODULE_32");
    if (!module || !strcmp(module, "none")) {
        print_message("skipped: no emulated GPU was built\n");
        return 77;
    }
    setenv("TX_GPU_MODULE", module, 1);
    setenv("TX_AIO_IN_MEMORY", "1", 1);
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
