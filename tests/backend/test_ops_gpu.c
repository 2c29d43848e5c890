/* labels: op */
/* test_ops_gpu.c - backend gpu against ref, op by op, in fp32, bf16 and fp16. Without a GPU its kernels are emulated,
 * at both widths of a warp; with TX_TEST_GPU_MODULE another module is tried, a real one. TX_TEST_CASES names the begin
 * of the names of the cases to run, or is "padding". Tensors are in memory that both the host and the device reach, so
 * that the cases are those of the other backends. */
#include <sys/wait.h>
#include <unistd.h>

#include "backend/gpu_module.h"
#include "backend/op_cases.h"

/* All of it with values of one type and a residual stream of another. */
static void run_gpu(tx_dtype values, tx_dtype stream)
{
    V = values;
    S = stream;
    rounds_probabilities = V != TX_F32;
    const char *only = getenv("TX_TEST_CASES");
    run_all("gpu", 1);
    if (!only) run_gemms("gpu");
    if (!only || !strcmp(only, "padding")) run_padding("gpu");
}

static void test_fp32(void **state)
{
    (void)state;
    run_gpu(TX_F32, TX_F32);
}

static void test_bf16(void **state)
{
    (void)state;
    run_gpu(TX_BF16, TX_F32);
}

static void test_fp16(void **state)
{
    (void)state;
    run_gpu(TX_F16, TX_F16);
}

/* What only the device can see is found there: nothing out of bounds is read, and the call says what was wrong. */
static void test_wrong_numbers_of_keys(void **state)
{
    (void)state;
    static const int32_t wrong[] = { 0, 6, -1 };
    tx_ctx c = open_ctx("gpu", 1);
    tx_tensor q = RAND(TX_BF16, 5, 2, 1, 1, 16), k = RAND(TX_BF16, 5, 2, 1, 16), n = ZEROS(TX_I32, 2);
    for (int i = 0; i < 3; i++) {
        ((int32_t *)n.data)[0] = 5;
        ((int32_t *)n.data)[1] = wrong[i];
        tx_attention_fwd_args a = { .o = q, .q = q, .k = k, .v = k, .scale = 1, .n_keys = n };
        assert_int_equal(tx_op_attention_fwd(&c, &a), TX_ERR_ARG);
        ASSERT_CONTAINS(tx_last_error(), "number of keys");
        tx_attention_fwd_args behind = {
            .o = q, .q = q, .k = k, .v = k, .scale = 1, .causal = true, .past = { .n = n, .slot = n }
        };
        assert_int_equal(tx_op_attention_fwd(&c, &behind), TX_ERR_ARG);
        ASSERT_CONTAINS(tx_last_error(), "number of keys");
    }
    pool_free();
    tx_ctx_deinit(&c);
}

static void test_every_op_ran(void **state)
{
    (void)state;
    if (!getenv("TX_TEST_CASES")) assert_every_op_called();
}

static tx_ctx keeper; /* of the device that tensors are pinned for */

static int set_up(void **state)
{
    (void)state;
    keeper = open_ctx("gpu", 1);
    op_device = keeper.device;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pool_free();
    op_device = NULL;
    tx_ctx_deinit(&keeper);
    return 0;
}

static int run_with(const char *module)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp32),         cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_fp16),         cmocka_unit_test(test_wrong_numbers_of_keys),
        cmocka_unit_test(test_every_op_ran), /* last */
    };
    setenv("TX_GPU_MODULE", module, 1);
    setenv("TX_GPU_BLOCKING", "1", 1); /* every op is done when its call is back */
    return cmocka_run_group_tests_name("backend gpu", tests, set_up, tear_down);
}

/* A process can open one module. */
static pid_t start(const char *module)
{
    if (!module || !strcmp(module, "none")) return 0;
    pid_t child = fork();
    if (child == 0) exit(run_with(module));
    return child;
}

static int result_of(pid_t child)
{
    int status = 0;
    if (child == 0) return 77;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    const char *real = getenv("TX_TEST_GPU_MODULE");
    if (real) return result_of(start(real));
    pid_t narrow = start(getenv("TX_GPU_MODULE_32")), wide = start(getenv("TX_GPU_MODULE_64"));
    int of_narrow = result_of(narrow), of_wide = result_of(wide);
    return of_narrow || of_wide == 77 ? of_narrow : of_wide;
}
