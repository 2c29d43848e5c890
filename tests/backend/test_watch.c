/* labels: unit op */
/* The watch: it names the op, the tensor and the element of the first value that is not finite. */
#include "backend/op_test.h"

static tx_ctx ctx;
static tx_watch watch;

static int setup(void **state)
{
    (void)state;
    ctx = open_ctx("cpu", 1);
    watch = (tx_watch){ 0 };
    ctx.watch = &watch;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tx_ctx_deinit(&ctx);
    pool_free();
    return 0;
}

static void assert_hit(const char *op, const char *output, int64_t i, int64_t j)
{
    if (!watch.op) fail_msg("%s: nothing was found", op);
    assert_string_equal(watch.op, op);
    assert_string_equal(watch.output, output);
    assert_int_equal(watch.index[0], i);
    if (j >= 0) assert_int_equal(watch.index[1], j);
}

static void finite_values_are_no_hit(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 6, 8), g = RAND(TX_F32, 8), y = ZEROS(TX_F32, 6, 8), r = ZEROS(TX_F32, 6);
    tx_tensor token = indices(ZEROS(TX_I32, 3, 2), 0, 5);
    RUN(&ctx, rmsnorm_fwd, .y = y, .rs = r, .x = x, .gamma = g, .eps = 1e-5);
    RUN(&ctx, gemm, .c = ZEROS(TX_F32, 6, 6), .a = x, .b = x, .trans_b = true);
    RUN(&ctx, fill, .x = token, .value = 1); /* integers */
    RUN(&ctx, embedding_fwd, .y = ZEROS(TX_F32, 3, 2, 8), .token = token, .position = token, .word = x);
    assert_null(watch.op);
}

static void the_first_one_is_kept(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 4, 8), g = RAND(TX_F32, 8), b = RAND(TX_F32, 8), y = ZEROS(TX_F32, 4, 8);
    ((float *)b.data)[5] = INFINITY;
    tx_at_layer(&ctx, 3);
    tx_at_part(&ctx, "here");
    RUN(&ctx, layernorm_fwd, .y = y, .mu = ZEROS(TX_F32, 4), .rs = ZEROS(TX_F32, 4), .x = x, .gamma = g, .beta = b,
        .eps = 1e-5);
    assert_hit("layernorm_fwd", "y", 0, 5);
    assert_true(watch.value == INFINITY && watch.where.layer == 3 && !strcmp(watch.where.part, "here"));
    ((float *)x.data)[0] = NAN;
    tx_at_part(&ctx, "later");
    RUN(&ctx, activation_fwd, .y = y, .x = x);
    assert_hit("layernorm_fwd", "y", 0, 5);
    assert_string_equal(watch.where.part, "here");
}

static void it_looks_only_while_it_is_set(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 4, 8);
    ((float *)x.data)[17] = NAN;
    ctx.watch = NULL;
    RUN(&ctx, activation_fwd, .y = x, .x = x);
    assert_null(watch.op);
    ctx.watch = &watch;
    RUN(&ctx, activation_fwd, .y = x, .x = x);
    assert_hit("activation_fwd", "y", 2, 1);
    assert_true(isnan(watch.value));
}

static void strides_and_16_bits(void **state)
{
    (void)state;
    static const tx_dtype type[] = { TX_F32, TX_BF16, TX_F16 };
    for (int i = 0; i < 3; i++) {
        tx_tensor whole = ZEROS(type[i], 4, 10), x = RAND(TX_F32, 4, 6), y = whole;
        tx__ref_store(whole, 29, NAN); /* row 2, column 9: beside y */
        y.dim[1] = 6;
        ((float *)x.data)[3 * 6 + 4] = -INFINITY;
        watch = (tx_watch){ 0 };
        RUN(&ctx, cast, .y = y, .x = x);
        assert_hit("cast", "y", 3, 4);
        assert_true(watch.value == -INFINITY);
    }
    tx_tensor x = RAND(TX_F32, 3, 4);
    tx__ref_store(x, 7, 1e6); /* beyond fp16 */
    watch = (tx_watch){ 0 };
    RUN(&ctx, cast, .y = ZEROS(TX_F16, 3, 4), .x = x);
    assert_hit("cast", "y", 1, 3);
}

static void gradients_too(void **state)
{
    (void)state;
    tx_tensor dy = RAND(TX_F32, 6, 8), x = RAND(TX_F32, 6, 8), dword = ZEROS(TX_F32, 5, 8);
    tx_tensor token = indices(ZEROS(TX_I32, 3, 2), 0, 5);
    tx_tensor y = ZEROS(TX_F32, 8);
    ((float *)dy.data)[5 * 8 + 2] = NAN;
    RUN(&ctx, col_sum, .y = y, .x = dy);
    assert_hit("col_sum", "y", 2, -1);
    watch = (tx_watch){ 0 };
    RUN(&ctx, embedding_bwd, .dword = dword, .dy = tx_tensor3(dy.data, TX_F32, 3, 2, 8), .token = token,
        .position = token);
    assert_hit("embedding_bwd", "dword", ((int32_t *)token.data)[5], 2);
    watch = (tx_watch){ 0 };
    RUN(&ctx, activation_bwd, .dx = dy, .dy = dy, .x = x);
    assert_hit("activation_bwd", "dx", 5, 2);
}

/* A composed op's parts are looked at one by one. */
static void head_and_loss(void **state)
{
    (void)state;
    tx_tensor x = RAND(TX_F32, 6, 4), w = RAND(TX_F32, 8, 4), y = indices(ZEROS(TX_I32, 6), 0, 8);
    tx_tensor weight = ZEROS(TX_F32, 6), loss = ZEROS(TX_F32, 6), dx = ZEROS(TX_F32, 6, 4), dw = ZEROS(TX_F32, 8, 4);
    ((float *)weight.data)[4] = INFINITY;
    RUN(&ctx, head_loss, .loss = loss, .dx = dx, .dw = dw, .x = x, .w = w, .y = y, .weight = weight, .n_valid = 8);
    assert_hit("cross_entropy", "z", 4, 0);
    assert_int_equal(watch.where.n_rows, 6);
    watch = (tx_watch){ 0 };
    ((float *)w.data)[7 * 4] = NAN;
    RUN(&ctx, head_loss, .loss = loss, .dx = dx, .dw = dw, .x = x, .w = w, .y = y, .weight = weight, .n_valid = 8);
    assert_hit("gemm", "c", 0, 7);
    assert_false(watch.where.backward);
}

/* What lies in a GPU's memory is looked at in a copy, with what is between its rows. */
static void on_a_gpu(void **state)
{
    (void)state;
    const char *module = getenv("TX_GPU_MODULE_32");
    if (!module || !strcmp(module, "none")) skip();
    setenv("TX_GPU_MODULE", module, 1);
    tx_ctx gpu = open_ctx("gpu", 1);
    unsetenv("TX_GPU_MODULE");
    float host[4 * 10] = { 0 }, *memory;
    gpu.watch = &watch;
    ASSERT_OK(tx_device_take(gpu.device, &memory, 2 * sizeof host, false, "the tensors of a test"));
    tx_tensor x = tx_tensor2(memory, TX_F32, 4, 10), y = tx_tensor2(memory + 40, TX_F32, 4, 10);
    x.dim[1] = y.dim[1] = 6;
    host[29] = NAN; /* row 2, column 9: beside both */
    ASSERT_OK(tx_device_write(gpu.device, memory, host, sizeof host));
    ASSERT_OK(tx_device_write(gpu.device, memory + 40, host, sizeof host));
    RUN(&gpu, cast, .y = y, .x = x);
    assert_null(watch.op);
    host[3 * 10 + 4] = -INFINITY;
    ASSERT_OK(tx_device_write(gpu.device, memory, host, sizeof host));
    RUN(&gpu, cast, .y = y, .x = x);
    assert_hit("cast", "y", 3, 4);
    assert_true(watch.value == -INFINITY);
    tx_device_give(gpu.device, memory);
    tx_ctx_deinit(&gpu);
}

static void every_op_has_an_output(void **state)
{
    (void)state;
#define OUT(tensor)          +1
#define EACH_OUT(tensors)    +1
#define OP(op, outputs, ...) assert_true(0 outputs > 0);
#include "backend/ops.def"
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(finite_values_are_no_hit),
        TEST(the_first_one_is_kept),
        TEST(it_looks_only_while_it_is_set),
        TEST(strides_and_16_bits),
        TEST(gradients_too),
        TEST(head_and_loss),
        TEST(on_a_gpu),
        TEST(every_op_has_an_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
