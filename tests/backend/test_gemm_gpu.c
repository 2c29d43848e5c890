/* labels: extended op */
/* test_gemm_gpu.c - how backend gpu calls cuBLASLt for products: against ref, with a library of loops in its place
 * (blaslt_stand_in.c), on the emulated GPU; that a shape is looked at once; and that a run goes on with the algorithms
 * of another. */
#include <dlfcn.h>

#include "backend/blaslt_stand_in.h"
#include "backend/gpu_module.h"
#include "backend/op_cases.h"

static blaslt_stand_in_counts *counts;

static const tx_gpu_module *module(void)
{
    const tx_gpu_module *m;
    ASSERT_OK(tx_gpu_module_get(&m));
    return m;
}

/* ---- against ref ---- */

static void run_types(tx_dtype values, tx_dtype stream, bool timing)
{
    setenv("TX_GPU_GEMM_TIMING", timing ? "1" : "0", 1); /* the trial runs take most of the time */
    (void)run_all, (void)run_padding;
    V = values;
    S = stream;
    run_gemms("gpu");
    unsetenv("TX_GPU_GEMM_TIMING");
    assert_int_equal(counts->objects, 0);
}

static void test_fp32(void **state)
{
    (void)state;
    run_types(TX_F32, TX_F32, true);
}

/* C is fp32 and the bias is not: no epilogue of the library's. */
static void test_bf16_wide(void **state)
{
    (void)state;
    run_types(TX_BF16, TX_F32, false);
}

static void test_bf16(void **state)
{
    (void)state;
    run_types(TX_BF16, TX_BF16, false);
}

static void test_fp16(void **state)
{
    (void)state;
    run_types(TX_F16, TX_F16, false);
}

/* ---- what is kept of a shape ---- */

enum { M = 24, N = 40, K = 200 };

typedef struct operands {
    tx_tensor a, b, c;
} operands;

static operands make_operands(void)
{
    next_number = 0;
    return (operands){ .a = RAND(TX_F32, M, K), .b = RAND(TX_F32, K, N), .c = RAND(TX_F32, M, N) };
}

static void multiply(tx_ctx *c, const operands *x, bool accumulate)
{
    RUN(c, gemm, .c = x->c, .a = x->a, .b = x->b, .accumulate = accumulate);
}

static void test_once_per_shape(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("gpu", 1);
    operands x = make_operands(), y = make_operands();
    multiply(&c, &x, false);
    blaslt_stand_in_counts before = *counts;
    assert_int_equal(before.asked, 1);
    for (int i = 0; i < 3; i++) multiply(&c, &y, false); /* other addresses */
    assert_int_equal(counts->asked, before.asked);
    assert_int_equal(counts->made, before.made);
    assert_int_equal(counts->products, before.products + 3);
    multiply(&c, &x, true);
    assert_int_equal(counts->asked, before.asked + 1); /* another shape: so is an operand at an odd address */
    y.a.data = (float *)y.a.data + 1;
    y.a.dim[0]--, y.c.dim[0]--;
    multiply(&c, &y, false);
    assert_int_equal(counts->asked, before.asked + 2);
    x.a.dim[0]--, x.c.dim[0]--;
    multiply(&c, &x, false);
    assert_int_equal(counts->asked, before.asked + 3);
    tx_ctx_deinit(&c);
    assert_int_equal(counts->objects, 0);
    pool_free();
}

/* More shapes than the table begins with. */
static void test_many_shapes(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("gpu", 1);
    tx_tensor a = RAND(TX_F32, 1, 1), b = RAND(TX_F32, 1, 400), y = ZEROS(TX_F32, 1, 400);
    for (int round = 0; round < 2; round++)
        for (int64_t n = 1; n <= 400; n++) {
            b.dim[1] = y.dim[1] = n;
            RUN(&c, gemm, .c = y, .a = a, .b = b);
            assert_true(((float *)y.data)[n - 1] == *(float *)a.data * ((float *)b.data)[n - 1]);
        }
    assert_int_equal(counts->asked, 400);
    tx_ctx_deinit(&c);
    assert_int_equal(counts->objects, 0);
    pool_free();
}

/* Rows of groups are cut into pieces that a dry run has shown, whatever the groups have. */
static void test_pieces_of_groups(void **state)
{
    (void)state;
    enum { GROUPS = 3, ROWS = 13, SIZES = 7 }; /* 12 8 6 4 3 2 1 */
    static const int32_t rows[][GROUPS] = { { 5, 0, 8 }, { 13, 0, 0 }, { 1, 11, 1 } };
    tx_ctx c = open_ctx("gpu", 1);
    tx_tensor w[GROUPS], dw[GROUPS], count = ZEROS(TX_I32, GROUPS);
    for (int g = 0; g < GROUPS; g++) w[g] = RAND(TX_F32, K, N), dw[g] = ZEROS(TX_F32, K, N);
    tx_tensor x = RAND(TX_F32, ROWS, K), y = ZEROS(TX_F32, ROWS, N);
    const tx_grouped_gemm_args product = { .c = y, .a = x, .b = { w, sizeof *w }, .count = count };
    const tx_grouped_dw_args gradient = { .dw = { dw, sizeof *dw }, .dy = x, .x = y, .count = count };
    c.dry = true;
    ASSERT_OK(tx_op_grouped_gemm(&c, &product));
    assert_int_equal(module()->n_open_choices(&c), SIZES);
    ASSERT_OK(tx_op_grouped_dw(&c, &gradient));
    assert_int_equal(module()->n_open_choices(&c), 3 * SIZES); /* with and without what is there */
    c.dry = false;
    ASSERT_OK(module()->choose(&c));
    int asked = counts->asked;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(count.data, rows[i], sizeof rows[i]);
        ASSERT_OK(tx_op_grouped_gemm(&c, &product));
        ASSERT_OK(tx_op_grouped_dw(&c, &gradient));
    }
    assert_int_equal(counts->asked, asked);
    tx_ctx_deinit(&c);
    assert_int_equal(counts->objects, 0);
    pool_free();
}

/* The slow one is the library's first guess; backwards is what is quicker, and has other last places. */
static void test_goes_on_with_choices(void **state)
{
    (void)state;
    char *text, *again;
    int n_used, n_other;
    setenv("BLASLT_STAND_IN_SLEEP_US", "20000", 1);
    operands x = make_operands();
    x.a.data = (float *)x.a.data + 1, x.a.dim[0]--, x.c.dim[0]--; /* so that no packed algorithm can be */
    size_t bytes = (size_t)tx_numel(x.c) * sizeof(float);
    float chosen[M * N], first[M * N];

    setenv("TX_GPU_GEMM_TIMING", "1", 1);
    tx_ctx c = open_ctx("gpu", 1);
    multiply(&c, &x, false);
    assert_int_equal(counts->last_algo, STAND_IN_BACKWARDS);
    memcpy(chosen, x.c.data, bytes);
    ASSERT_OK(module()->save_choices(&c, &text));
    tx_ctx_deinit(&c);

    unsetenv("TX_GPU_GEMM_TIMING"); /* not unless it is asked for */
    c = open_ctx("gpu", 1);
    multiply(&c, &x, false);
    assert_int_equal(counts->last_algo, STAND_IN_SLOW);
    memcpy(first, x.c.data, bytes);
    assert_memory_not_equal(first, chosen, bytes);
    ASSERT_OK(module()->load_choices(&c, text, &n_used, &n_other)); /* also of a shape that has its own */
    multiply(&c, &x, false);
    assert_memory_equal(x.c.data, chosen, bytes);
    tx_ctx_deinit(&c);

    c = open_ctx("gpu", 1);
    ASSERT_OK(module()->load_choices(&c, text, &n_used, &n_other));
    assert_int_equal(n_used, 1);
    assert_int_equal(n_other, 0);
    int asked = counts->asked;
    multiply(&c, &x, false);
    assert_int_equal(counts->asked, asked);
    assert_memory_equal(x.c.data, chosen, bytes);
    ASSERT_OK(module()->save_choices(&c, &again));
    assert_string_equal(again, text);
    tx_ctx_deinit(&c);
    unsetenv("BLASLT_STAND_IN_SLEEP_US");
    tx_free(text);
    tx_free(again);
    pool_free();
}

static void test_texts(void **state)
{
    (void)state;
    char *text, other[1024];
    int n_used, n_other;
    tx_ctx c = open_ctx("gpu", 1);
    ASSERT_OK(module()->save_choices(&c, &text));
    assert_string_equal(text, "");
    tx_free(text);
    operands x = make_operands();
    multiply(&c, &x, true);
    ASSERT_OK(module()->save_choices(&c, &text));
    assert_non_null(strstr(text, "\tcuBLASLt 13.1.2\temulated GPU"));
    assert_int_equal(strlen(text), strcspn(text, "\n") + 1);

    snprintf(other, sizeof other, "%s", text); /* of another version, then of another GPU */
    strstr(other, "13.1.2")[5]++;
    ASSERT_OK(module()->load_choices(&c, other, &n_used, &n_other));
    assert_int_equal(n_used, 0);
    assert_int_equal(n_other, 1);
    snprintf(other, sizeof other, "%s", text);
    memcpy(strstr(other, "emulated"), "imagined", 8);
    ASSERT_OK(module()->load_choices(&c, other, &n_used, &n_other));
    assert_int_equal(n_other, 1);

    static const char *const bad[] = { "x", "gemm", "gemm 1 2 3\n", "\n",
                                       "gemm 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 x" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(module()->load_choices(&c, bad[i], &n_used, &n_other), TX_ERR_FORMAT);
        assert_non_null(strstr(tx_last_error(), "line 1"));
    }
    for (size_t cut = strlen(text) - 2; cut > strlen(text) - 100; cut--) { /* a file that was cut off */
        snprintf(other, sizeof other, "%.*s", (int)cut, text);
        assert_int_equal(module()->load_choices(&c, other, &n_used, &n_other), TX_ERR_FORMAT);
    }
    tx_free(text);
    tx_ctx_deinit(&c);
    pool_free();
}

/* ---- without it ---- */

static void test_missing(void **state)
{
    (void)state;
    char there[1024];
    tx_gpu_library lib[TX_GPU_MAX_LIBRARIES];
    int n = 0;
    tx_ctx c;
    module()->libraries(lib, &n);
    assert_string_equal(lib[0].name, "cuBLASLt");
    assert_string_equal(lib[0].version, "13.1.2");
    assert_string_equal(lib[0].trouble, "");
    snprintf(there, sizeof there, "%s", getenv("TX_BLASLT_LIBRARY"));
    setenv("TX_BLASLT_LIBRARY", "/nowhere/libcublasLt.so", 1);
    assert_int_equal(tx_ctx_init(&c, "gpu", 1), TX_ERR_NOTFOUND);
    assert_non_null(strstr(tx_last_error(), "without cuBLASLt: TX_BLASLT_LIBRARY=/nowhere/libcublasLt.so: "));
    module()->libraries(lib, &n);
    assert_non_null(strstr(lib[0].trouble, "/nowhere/libcublasLt.so"));
    setenv("TX_BLASLT_LIBRARY", getenv("TX_GPU_MODULE"), 1); /* a library, but another one */
    assert_int_equal(tx_ctx_init(&c, "gpu", 1), TX_ERR_NOTFOUND);
    assert_non_null(strstr(tx_last_error(), "it has no cublasLt"));
    setenv("TX_BLASLT_LIBRARY", there, 1);
}

static int setup(void **state)
{
    (void)state;
    memset(counts, 0, sizeof *counts);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_fp32, setup),
        cmocka_unit_test_setup(test_bf16_wide, setup),
        cmocka_unit_test_setup(test_bf16, setup),
        cmocka_unit_test_setup(test_fp16, setup),
        cmocka_unit_test_setup(test_once_per_shape, setup),
        cmocka_unit_test_setup(test_many_shapes, setup),
        cmocka_unit_test_setup(test_pieces_of_groups, setup),
        cmocka_unit_test_setup(test_goes_on_with_choices, setup),
        cmocka_unit_test_setup(test_texts, setup),
        cmocka_unit_test_setup(test_missing, setup),
    };
    const char *emulated = getenv("TX_GPU_MODULE_LT"), *library = getenv("TX_BLASLT_STAND_IN");
    if (!emulated || !strcmp(emulated, "none") || !library) {
        printf("skipped: the emulated GPU was not built\n");
        return 77;
    }
    void *stand_in = dlopen(library, RTLD_NOW);
    counts = stand_in ? dlsym(stand_in, BLASLT_STAND_IN_COUNTS) : NULL;
    if (!counts) return 1;
    setenv("TX_GPU_MODULE", emulated, 1);
    setenv("TX_BLASLT_LIBRARY", library, 1);
    setenv("TX_GPU_BLOCKING", "1", 1); /* a product is done when its call is back */
    return cmocka_run_group_tests_name("products of backend gpu", tests, NULL, NULL);
}
