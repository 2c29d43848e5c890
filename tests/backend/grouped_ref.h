/* grouped_ref.h - test_ops_ref.c's test of products of packed rows with each group's matrix, behind its context and
 * check_grad. */
#ifndef TX_TESTS_BACKEND_GROUPED_REF_H
#define TX_TESTS_BACKEND_GROUPED_REF_H

enum { GROUPED_N = 4, GROUPED_ROWS = 6, GROUPED_OUT = 3, GROUPED_IN = 5 };

typedef struct grouped_case {
    tx_tensor w, bias, x, y, dy, count;
} grouped_case;

/* The matrices or vectors of all groups as members of an array of structs. */
typedef struct grouped_member {
    int other;
    tx_tensor x;
} grouped_member;

static tx_tensors members_of(tx_tensor all, grouped_member each[GROUPED_N])
{
    for (int64_t g = 0; g < GROUPED_N; g++) {
        void *data = tx_slice_rows(all, g, 1).data;
        each[g].x = all.n_dims == 2 ? tx_tensor1(data, all.dtype, all.dim[1])
                                    : tx_tensor2(data, all.dtype, all.dim[1], all.dim[2]);
    }
    return (tx_tensors){ &each->x, sizeof *each };
}

static double grouped_loss(void *user)
{
    const grouped_case *k = user;
    grouped_member w[GROUPED_N], bias[GROUPED_N];
    RUN(&ctx, grouped_gemm, .c = k->y, .a = k->x, .b = members_of(k->w, w), .bias = members_of(k->bias, bias),
        .count = k->count, .trans_b = true);
    return weighted(k->y, k->dy);
}

static void test_grouped(void **state)
{
    (void)state;
    const tx_dtype t = TX_F64;
    grouped_case k = { .w = RAND(t, GROUPED_N, GROUPED_OUT, GROUPED_IN),
                       .bias = RAND(t, GROUPED_N, GROUPED_OUT),
                       .x = RAND(t, GROUPED_ROWS, GROUPED_IN),
                       .y = ZEROS(t, GROUPED_ROWS, GROUPED_OUT),
                       .dy = RAND(t, GROUPED_ROWS, GROUPED_OUT),
                       .count = ZEROS(TX_I32, GROUPED_N) };
    memcpy(k.count.data, (const int32_t[GROUPED_N]){ 2, 0, 3, 1 }, GROUPED_N * sizeof(int32_t));
    tx_tensor dx = ZEROS(t, GROUPED_ROWS, GROUPED_IN), dw = RAND(t, GROUPED_N, GROUPED_OUT, GROUPED_IN),
              dbias = ZEROS(t, GROUPED_N, GROUPED_OUT);
    grouped_member w[GROUPED_N], dw_of[GROUPED_N], dbias_of[GROUPED_N];
    ((double *)dw.data)[0] = NAN; /* written, not added to */
    tx_grouped_dw_args a = {
        .dw = members_of(dw, dw_of), .dbias = members_of(dbias, dbias_of), .dy = k.dy, .x = k.x, .count = k.count
    };
    ASSERT_OK(tx_op_grouped_dw(&ctx, &a));
    RUN(&ctx, grouped_gemm, .c = dx, .a = k.dy, .b = members_of(k.w, w), .count = k.count);
    check_grad("dw", k.w, dw, grouped_loss, &k);
    check_grad("dbias", k.bias, dbias, grouped_loss, &k);
    check_grad("dx", k.x, dx, grouped_loss, &k);

    /* what a group has is added to, and a group without rows stays */
    tx_tensor twice = ZEROS(t, GROUPED_N, GROUPED_OUT, GROUPED_IN);
    for (int64_t i = 0; i < tx_numel(dw); i++) tx__ref_store(twice, i, 2 * tx__ref_load(dw, i));
    a.accumulate = true;
    ASSERT_OK(tx_op_grouped_dw(&ctx, &a));
    for (int64_t i = 0; i < tx_numel(dw); i++)
        ASSERT_NEAR(tx__ref_load(dw, i), tx__ref_load(twice, i), 1e-12, "dw twice");
    ((int32_t *)k.count.data)[1] = 1;
    ASSERT_FAILS(tx_op_grouped_dw(&ctx, &a), TX_ERR_ARG, "groups have 7 rows, of 6");
    a.dw.first = NULL;
    ASSERT_FAILS(tx_op_grouped_dw(&ctx, &a), TX_ERR_SHAPE, "each dw [n,k]");
    pool_free();
}

#endif
