/* plain_ref.h - test_ops_ref.c's tests of ops that have no gradient, behind its context. */
#ifndef TX_TESTS_BACKEND_PLAIN_REF_H
#define TX_TESTS_BACKEND_PLAIN_REF_H

static void test_gemm(void **state)
{
    (void)state;
    const int64_t m = 3, n = 4, k = 5;
    const tx_gemm_args both = { .c = RAND(TX_F64, 2, 2),
                                .a = RAND(TX_F64, 2, 2),
                                .b = RAND(TX_F64, 2, 2),
                                .bias = RAND(TX_F64, 2),
                                .accumulate = true };
    ASSERT_FAILS(tx_op_gemm(&ctx, &both), TX_ERR_ARG, "has no bias");
    for (int variant = 0; variant < 16; variant++) {
        bool ta = variant & 1, tb = variant & 2, acc = variant & 4, with_bias = variant & 8;
        if (acc && with_bias) continue; /* refused */
        tx_tensor a = ta ? RAND(TX_F64, k, m + 2) : RAND(TX_F64, m, k + 2), bias = RAND(TX_F64, n);
        tx_tensor b = tb ? RAND(TX_F64, n, k + 1) : RAND(TX_F64, k, n + 1), c = RAND(TX_F64, m, n + 3),
                  was = ZEROS(TX_F64, m, n + 3);
        a.dim[1] -= 2, b.dim[1] -= 1, c.dim[1] -= 3; /* rows lie further apart than they are long */
        if (!with_bias) bias.data = NULL;
        if (!acc) ((double *)c.data)[0] = NAN;
        memcpy(was.data, c.data, (size_t)(m * (n + 3)) * sizeof(double));
        RUN(&ctx, gemm, .c = c, .a = a, .b = b, .bias = bias, .trans_a = ta, .trans_b = tb, .accumulate = acc);
        const double *pa = a.data, *pb = b.data;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n + 3; j++) {
                double expect = acc || j >= n ? tx__ref_load(was, i * (n + 3) + j) : 0;
                if (j < n && with_bias) expect += tx__ref_load(bias, j);
                for (int64_t p = 0; j < n && p < k; p++)
                    expect += pa[ta ? p * (m + 2) + i : i * (k + 2) + p] * pb[tb ? j * (k + 1) + p : p * (n + 1) + j];
                ASSERT_NEAR(tx__ref_load(c, i * (n + 3) + j), expect, 1e-12, "gemm");
            }
    }
    pool_free();
}

/* ---- add ---- */

typedef struct add_case {
    tx_tensor y, a, b, dy;
} add_case;

static double add_loss(void *user)
{
    add_case *k = user;
    RUN(&ctx, add, .y = k->y, .a = k->a, .b = k->b);
    return weighted(k->y, k->dy);
}

static void test_add(void **state)
{
    (void)state;
    add_case k = { ZEROS(TX_F64, 3, 5), RAND(TX_F64, 3, 5), RAND(TX_F64, 3, 5), RAND(TX_F64, 3, 5) };
    add_loss(&k);
    for (int64_t i = 0; i < 15; i++) assert_true(tx__ref_load(k.y, i) == tx__ref_load(k.a, i) + tx__ref_load(k.b, i));
    check_grad("da", k.a, k.dy, add_loss, &k);
    check_grad("db", k.b, k.dy, add_loss, &k);
    pool_free();
}

static void test_fill_cast_sums(void **state)
{
    (void)state;
    static const tx_dtype type[] = { TX_F32, TX_F64, TX_BF16, TX_F16, TX_I32 };
    for (int i = 0; i < 5; i++) {
        tx_tensor x = RAND(type[i], 3, 2), y = ZEROS(TX_F64, 3, 2), z = ZEROS(TX_F64, 3, 2);
        RUN(&ctx, fill, .x = x, .value = -2.5);
        RUN(&ctx, cast, .y = y, .x = x);
        RUN(&ctx, copy, .y = z, .x = y);
        for (int64_t j = 0; j < 6; j++) assert_true(tx__ref_load(z, j) == (type[i] == TX_I32 ? -2 : -2.5));
    }
    /* rounding to nearest even: 1 + 2^-8 lies between two bf16, 1 + 2^-11 between two fp16 */
    tx_tensor x = ZEROS(TX_F64, 2), bf = ZEROS(TX_BF16, 2), half = ZEROS(TX_F16, 2);
    tx__ref_store(x, 0, 1 + 0x1p-8);
    tx__ref_store(x, 1, 1 + 0x1p-11);
    RUN(&ctx, cast, .y = bf, .x = x);
    RUN(&ctx, cast, .y = half, .x = x);
    assert_true(tx__ref_load(bf, 0) == 1 && tx__ref_load(half, 0) == 1 + 0x1p-8 && tx__ref_load(half, 1) == 1);

    tx_tensor m = RAND(TX_F64, 4, 3), sum = ZEROS(TX_F64, 3);
    RUN(&ctx, fill, .x = sum, .value = 10);
    RUN(&ctx, col_sum, .y = sum, .x = m);
    for (int64_t j = 0; j < 3; j++) {
        double expect = 10;
        for (int64_t i = 0; i < 4; i++) expect += tx__ref_load(m, i * 3 + j);
        ASSERT_NEAR(tx__ref_load(sum, j), expect, 1e-14, "sum");
    }

    tx_tensor big = ZEROS(TX_BF16, TX_SUMSQ_BLOCK + 3), out = ZEROS(TX_F64, 2);
    RUN(&ctx, fill, .x = big, .value = 3);
    RUN(&ctx, sumsq, .out = out, .x = big);
    assert_true(tx__ref_load(out, 0) == 9.0 * TX_SUMSQ_BLOCK && tx__ref_load(out, 1) == 27);

    tx_tensor sizes = ZEROS(TX_F64, 2, 4);
    RUN(&ctx, fill, .x = big, .value = -4);
    tx__ref_store(big, TX_SUMSQ_BLOCK + 1, 9);
    RUN(&ctx, magnitudes, .out = sizes, .x = big);
    static const double expect[8] = {
        4.0 * TX_SUMSQ_BLOCK, 16.0 * TX_SUMSQ_BLOCK, 2.0 * TX_SUMSQ_BLOCK, 4, 17, 113, 7, 9
    };
    for (int i = 0; i < 8; i++) assert_true(tx__ref_load(sizes, i) == expect[i]);
    pool_free();
}

static void test_count_zeros(void **state)
{
    (void)state;
    tx_tensor x = ZEROS(TX_BF16, 10), out = ZEROS(TX_F64, 1);
    tx__ref_store(x, 3, -1);
    tx__ref_store(x, 7, -0.0);
    tx__ref_store(x, 9, 1e-30);
    RUN(&ctx, count_zeros, .out = out, .x = x);
    assert_true(tx__ref_load(out, 0) == 8);
    pool_free();
}

/* clip's three numbers, and what a closed gate stops. */
static void test_clip(void **state)
{
    (void)state;
    tx_tensor x = ZEROS(TX_F64, 3), sum = ZEROS(TX_I64, TX_EXACT_WORDS), gate = ZEROS(TX_F64, 3);
    const double *of = gate.data;
    for (int i = 0; i < 3; i++) tx__ref_store(x, i, i == 2 ? 0x1p-250 : 8);
    RUN(&ctx, exact_add, .sum = sum, .x = x);
    RUN(&ctx, clip, .out = gate, .sum = sum, .loss_scale = 2, .max_norm = 1);
    ASSERT_NEAR(of[0], 2, 0, "norm");
    ASSERT_NEAR(of[1], 1 / (2 + 1e-6) / 2, 1e-16, "factor");
    assert_true(of[2] == 1);
    RUN(&ctx, clip, .out = gate, .sum = sum, .loss_scale = 2, .max_norm = 3);
    ASSERT_NEAR(of[1], 0.5, 0, "factor of a small norm");
    RUN(&ctx, clip, .out = gate, .sum = sum, .loss_scale = 2);
    ASSERT_NEAR(of[1], 0.5, 0, "factor without clipping");
    tx__ref_store(x, 0, NAN);
    RUN(&ctx, exact_add, .sum = sum, .x = x);
    RUN(&ctx, clip, .out = gate, .sum = sum, .loss_scale = 2, .max_norm = 3);
    assert_true(of[2] == 0 && isnan(of[0]));
    tx_tensor p = ZEROS(TX_F64, 1), m = ZEROS(TX_F64, 1), v = ZEROS(TX_F64, 1), g = ZEROS(TX_F64, 1);
    tx__ref_store(g, 0, 1);
    RUN(&ctx, adam, .p = p, .m = m, .v = v, .g = g, .lr = 1, .grad_scale = 1, .gate = gate, .t = 1);
    RUN(&ctx, sgd, .p = p, .m = m, .g = g, .lr = 1, .grad_scale = 1, .gate = gate);
    RUN(&ctx, lion, .p = p, .m = m, .g = g, .lr = 1, .grad_scale = 1, .gate = gate);
    RUN(&ctx, adagrad, .p = p, .v = m, .g = g, .lr = 1, .eps = 1, .grad_scale = 1, .gate = gate);
    tx_tensor sums = ZEROS(TX_F64, 2, 1), ratio = ZEROS(TX_F64, 1);
    const tx_lamb_rule rule = { .eps = 1, .correct1 = 1, .correct2 = 1, .weight_decay = 1 };
    tx__ref_store(sums, 0, 5);
    tx__ref_store(ratio, 0, 1);
    RUN(&ctx, lamb_moments, .m = m, .v = v, .p = p, .g = g, .sums = sums, .rule = rule, .grad_scale = 1, .gate = gate);
    RUN(&ctx, lamb_update, .p = p, .m = m, .v = v, .ratio = ratio, .rule = rule, .lr = 1, .gate = gate);
    assert_true(tx__ref_load(p, 0) == 0 && tx__ref_load(m, 0) == 0 && tx__ref_load(sums, 0) == 0);
    pool_free();
}

#endif
