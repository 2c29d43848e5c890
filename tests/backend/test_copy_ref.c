/* labels: op */
/* test_copy_ref.c - the specification of copy, add and cast where it is a question of bits: what is moved, what is
 * rounded, what does not fit. */
#include "backend/op_test.h"

static tx_ctx ctx;

/* Every bit of every type, of a NaN as well. */
static void test_copy(void **state)
{
    (void)state;
    for (tx_dtype t = 0; t < TX_N_DTYPES; t++) {
        tx_tensor x = ZEROS(t, 4, 6), y = ZEROS(t, 4, 6), part = y;
        unsigned char *bits = x.data, *got = y.data;
        size_t size = tx_dtype_size(t), n = 24 * size;
        for (size_t i = 0; i < n; i++) bits[i] = (unsigned char)(0x7f + 0x55 * i);
        memset(bits, 0xff, size);
        RUN(&ctx, copy, .y = y, .x = x);
        assert_memory_equal(got, bits, n);
        memset(got, 0, n);
        part.dim[1] = x.dim[1] = 4; /* the last two columns stay */
        RUN(&ctx, copy, .y = part, .x = x);
        for (size_t i = 0; i < n; i++) assert_int_equal(got[i], i / size % 6 < 4 ? bits[i] : 0);
    }
    pool_free();
}

/* In place, and rounded once. */
static void test_add(void **state)
{
    (void)state;
    tx_tensor a = RAND(TX_F64, 3, 5), b = RAND(TX_F64, 3, 5), sum = ZEROS(TX_F64, 3, 5);
    RUN(&ctx, add, .y = sum, .a = a, .b = b);
    RUN(&ctx, add, .y = b, .a = a, .b = b);
    assert_memory_equal(b.data, sum.data, 15 * sizeof(double));
    /* the sum is rounded once */
    tx_tensor one = ZEROS(TX_F32, 1), tiny = ZEROS(TX_BF16, 1), y = ZEROS(TX_F32, 1), bf = ZEROS(TX_BF16, 1);
    tx__ref_store(one, 0, 1 + 0x1p-9);
    tx__ref_store(tiny, 0, 0x1p-9);
    RUN(&ctx, add, .y = y, .a = one, .b = tiny);
    RUN(&ctx, add, .y = bf, .a = one, .b = tiny);
    assert_true(tx__ref_load(y, 0) == 1 + 0x1p-8 && tx__ref_load(bf, 0) == 1);
    pool_free();
}

/* To the nearest integer towards 0 that there is; what is no number is 0. */
static void test_cast_int64(void **state)
{
    (void)state;
    static const double from[] = { 0, -2.75, 2.75, 0x1p53, 1e300, -1e300, INFINITY, -INFINITY, NAN, -0x1p63 };
    static const int64_t to[] = {
        0, -2, 2, (int64_t)1 << 53, INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, 0, INT64_MIN
    };
    enum { N = sizeof from / sizeof *from };
    tx_tensor x = ZEROS(TX_F64, N), y = ZEROS(TX_I64, N), z = ZEROS(TX_F64, N);
    memcpy(x.data, from, sizeof from);
    RUN(&ctx, cast, .y = y, .x = x);
    assert_memory_equal(y.data, to, sizeof to);
    RUN(&ctx, cast, .y = z, .x = y);
    for (int i = 0; i < N; i++) assert_true(((double *)z.data)[i] == (double)to[i]);
    pool_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_cast_int64),
    };
    ctx = open_ctx("ref", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tx_ctx_deinit(&ctx);
    return failed;
}
