/* labels: unit */
/* test_tensor.c - shapes, views and their descriptions. */
#include "backend/op_test.h"

static void test_contiguous(void **state)
{
    (void)state;
    float x[24];
    tx_tensor t = tx_tensor3(x, TX_F32, 2, 3, 4);
    assert_int_equal(tx_numel(t), 24);
    assert_true(tx_is_contiguous(t));
    t.stride[0] = 13;
    assert_false(tx_is_contiguous(t));
    t.dim[0] = 1; /* the stride of a single row says nothing */
    assert_true(tx_is_contiguous(t));
    assert_int_equal(tx_numel(tx_tensor1(x, TX_F32, 0)), 0);
}

static void test_views(void **state)
{
    (void)state;
    float x[24];
    tx_tensor t = tx_tensor3(x, TX_F32, 2, 3, 4), rows = tx_as_rows(t);
    assert_int_equal(rows.n_dims, 2);
    assert_int_equal(rows.dim[0], 6);
    assert_int_equal(rows.dim[1], 4);
    assert_ptr_equal(tx_slice1(t, 5, 3).data, x + 5);
    assert_int_equal(tx_slice1(t, 5, 3).dim[0], 3);
    assert_ptr_equal(tx_slice_rows(t, 1, 1).data, x + 12);
    assert_int_equal(tx_slice_rows(rows, 2, 3).dim[0], 3);
    assert_false(tx_same_shape(t, rows));
    assert_true(tx_same_shape(rows, tx_tensor2(NULL, TX_I32, 6, 4)));
}

static void test_describe(void **state)
{
    (void)state;
    char buf[64], small[8];
    assert_string_equal(tx_tensor_describe(tx_tensor3(NULL, TX_F32, 64, 4, 256), buf, sizeof buf), "fp32[64,4,256]");
    assert_string_equal(tx_tensor_describe(tx_tensor1(NULL, TX_I32, 7), buf, sizeof buf), "int32[7]");
    tx_tensor_describe(tx_tensor3(NULL, TX_BF16, 64, 4, 256), small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    assert_memory_equal(small, "bf16[", 5);
}

/* A shape that does not fit is refused before anything runs, by a sentence that names op and tensors. */
static void test_refusals(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("ref", 1);
    tx_tensor a = ZEROS(TX_F32, 3, 5), b = ZEROS(TX_F32, 4, 6), out = ZEROS(TX_F32, 3, 6);
    ASSERT_FAILS(tx_op_gemm(&c, &(tx_gemm_args){ .c = out, .a = a, .b = b }), TX_ERR_SHAPE, "gemm");
    ASSERT_CONTAINS(tx_last_error(), "b=fp32[4,6]");
    ASSERT_FAILS(tx_op_gemm(&c, &(tx_gemm_args){ .c = out, .a = a }), TX_ERR_SHAPE, "b=absent");
    /* dtypes are part of the shape */
    assert_int_equal(tx_op_activation_fwd(&c, &(tx_activation_fwd_args){ .y = ZEROS(TX_F64, 3, 5), .x = a }),
                     TX_ERR_SHAPE);
    /* a strided tensor where contiguity is needed */
    tx_tensor strided = out;
    strided.dim[1] = 5;
    ASSERT_FAILS(tx_op_activation_fwd(&c, &(tx_activation_fwd_args){ .y = strided, .x = a }), TX_ERR_SHAPE, "strided");
    /* a copy converts nothing, and what is added has one shape and one type of values */
    tx_tensor bf = ZEROS(TX_BF16, 3, 5), half = ZEROS(TX_F16, 3, 5);
    ASSERT_FAILS(tx_op_copy(&c, &(tx_copy_args){ .y = bf, .x = a }), TX_ERR_SHAPE, "of one shape and dtype");
    ASSERT_FAILS(tx_op_copy(&c, &(tx_copy_args){ .y = b, .x = a }), TX_ERR_SHAPE, "y=fp32[4,6]");
    ASSERT_FAILS(tx_op_add(&c, &(tx_add_args){ .y = a, .a = bf, .b = half }), TX_ERR_SHAPE, "of one float dtype");
    ASSERT_FAILS(tx_op_add(&c, &(tx_add_args){ .y = a, .a = bf, .b = b }), TX_ERR_SHAPE, "of one shape");
    ASSERT_FAILS(tx_op_add(&c, &(tx_add_args){ .y = strided, .a = a, .b = a }), TX_ERR_SHAPE, "contiguous");
    ASSERT_OK(tx_op_add(&c, &(tx_add_args){ .y = bf, .a = a, .b = bf }));
    /* a causal mask with fewer keys than queries */
    tx_tensor q = ZEROS(TX_F32, 4, 1, 1, 1, 8), k = ZEROS(TX_F32, 3, 1, 1, 8);
    tx_attention_fwd_args attn = { .o = q, .q = q, .k = k, .v = k, .scale = 1, .causal = true };
    assert_int_equal(tx_op_attention_fwd(&c, &attn), TX_ERR_SHAPE);
    attn.causal = false;
    ASSERT_OK(tx_op_attention_fwd(&c, &attn));
    attn.first_key = ZEROS(TX_I32, 3, 1); /* one a query */
    ASSERT_FAILS(tx_op_attention_fwd(&c, &attn), TX_ERR_SHAPE, "first_key [sq,b] int32");
    /* a dropout mask that does not reach as far as the tensor */
    tx_tensor x = ZEROS(TX_F32, 4, 1, 8);
    tx_dropout_add_fwd_args drop = { .y = x, .x = x, .mask = { .drop = 100, .s_global = 4, .at = { .first = 1 } } };
    assert_int_equal(tx_op_dropout_add_fwd(&c, &drop), TX_ERR_SHAPE);
    drop.mask.at.first = 0;
    ASSERT_OK(tx_op_dropout_add_fwd(&c, &drop));
    tx_ctx_deinit(&c);
    pool_free();
}

/* A value that only the run can see. */
static void test_bad_index(void **state)
{
    (void)state;
    const char *backend[] = { "ref", "cpu" };
    for (int i = 0; i < 2; i++) {
        tx_ctx c = open_ctx(backend[i], 1);
        tx_tensor token = ZEROS(TX_I32, 2, 2), word = ZEROS(TX_F32, 5, 4), y = ZEROS(TX_F32, 2, 2, 4);
        ((int32_t *)token.data)[3] = 5;
        assert_int_equal(tx_op_embedding_fwd(&c, &(tx_embedding_fwd_args){ .y = y, .token = token, .word = word }),
                         TX_ERR_ARG);
        ASSERT_CONTAINS(tx_last_error(), "token[3] is 5");
        tx_tensor z = ZEROS(TX_F32, 4, 8), loss = ZEROS(TX_F32, 4), label = ZEROS(TX_I32, 4);
        ((int32_t *)label.data)[1] = 7; /* a column that pads */
        tx_cross_entropy_args ce = { .loss = loss, .z = z, .y = label, .n_valid = 7 };
        assert_int_equal(tx_op_cross_entropy(&c, &ce), TX_ERR_ARG);
        ((int32_t *)label.data)[1] = -2;
        assert_int_equal(tx_op_cross_entropy(&c, &ce), TX_ERR_ARG);
        tx_ctx_deinit(&c);
        pool_free();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_contiguous), cmocka_unit_test(test_views),
                                        cmocka_unit_test(test_describe), cmocka_unit_test(test_refusals),
                                        cmocka_unit_test(test_bad_index) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
