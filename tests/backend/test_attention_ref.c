/* labels: op */
/* test_attention_ref.c - what the specification of attention says of masks: causal, documents, padding, dropout. Its
 * gradient is in test_ops_ref.c. */
#include "backend/op_test.h"

static tx_ctx ctx;

/* The formula again, for one head: o = softmax(scale q kᵀ) v; and the last queries alone give the same rows. */
static void test_attention_values(void **state)
{
    (void)state;
    enum { S = 6, D = 4 };
    tx_tensor q = RAND(TX_F64, S, 1, 1, 1, D), k = RAND(TX_F64, S, 1, 1, D), v = RAND(TX_F64, S, 1, 1, D);
    tx_tensor o = ZEROS(TX_F64, S, 1, 1, 1, D), lse = ZEROS(TX_F64, 1, 1, 1, S);
    RUN(&ctx, attention_fwd, .o = o, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true);
    for (int i = 0; i < S; i++) {
        double p[S], sum = 0;
        for (int j = 0; j <= i; j++) {
            double dot = 0;
            for (int x = 0; x < D; x++) dot += tx__ref_load(q, i * D + x) * tx__ref_load(k, j * D + x);
            sum += p[j] = exp(0.5 * dot);
        }
        ASSERT_NEAR(tx__ref_load(lse, i), log(sum), 1e-12, "log of the sum");
        for (int x = 0; x < D; x++) {
            double expect = 0;
            for (int j = 0; j <= i; j++) expect += p[j] / sum * tx__ref_load(v, j * D + x);
            ASSERT_NEAR(tx__ref_load(o, i * D + x), expect, 1e-12, "attention");
        }
    }
    tx_tensor last = ZEROS(TX_F64, 2, 1, 1, 1, D);
    RUN(&ctx, attention_fwd, .o = last, .q = tx_slice_rows(q, S - 2, 2), .k = k, .v = v, .scale = 0.5, .causal = true);
    for (int i = 0; i < 2 * D; i++) assert_true(tx__ref_load(last, i) == tx__ref_load(o, (S - 2) * D + i));
    pool_free();
}

/* A document kept apart is what it is alone. */
static void test_attention_documents(void **state)
{
    (void)state;
    enum { S = 7, D = 4, AT = 3 };
    tx_tensor q = RAND(TX_F64, S, 1, 1, 1, D), k = RAND(TX_F64, S, 1, 1, D), v = RAND(TX_F64, S, 1, 1, D);
    tx_tensor o = ZEROS(TX_F64, S, 1, 1, 1, D), alone = ZEROS(TX_F64, S - AT, 1, 1, 1, D);
    tx_tensor first_key = ZEROS(TX_I32, S, 1);
    for (int i = AT; i < S; i++) ((int32_t *)first_key.data)[i] = AT;
    RUN(&ctx, attention_fwd, .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true, .first_key = first_key);
    RUN(&ctx, attention_fwd, .o = alone, .q = tx_slice_rows(q, AT, S - AT), .k = tx_slice_rows(k, AT, S - AT),
        .v = tx_slice_rows(v, AT, S - AT), .scale = 0.5, .causal = true);
    for (int i = 0; i < (S - AT) * D; i++) assert_true(tx__ref_load(alone, i) == tx__ref_load(o, AT * D + i));
    RUN(&ctx, attention_fwd, .o = alone, .q = tx_slice_rows(q, AT, S - AT), .k = k, .v = v, .scale = 0.5,
        .causal = true, .first_key = tx_slice_rows(first_key, AT, S - AT)); /* the last queries, more keys */
    for (int i = 0; i < (S - AT) * D; i++) assert_true(tx__ref_load(alone, i) == tx__ref_load(o, AT * D + i));
    pool_free();
}

/* Without the keys that pad a sample is what it is with them, its mask, too; and what is refused. */
static void test_attention_padding(void **state)
{
    (void)state;
    enum { S = 7, B = 2, N = 4, D = 4 };
    tx_dtype t = TX_F64;
    tx_tensor q = RAND(t, S, B, 1, 1, D), k = RAND(t, S, B, 1, D), v = RAND(t, S, B, 1, D), o = ZEROS(t, S, B, 1, 1, D);
    tx_tensor alone = ZEROS(t, N, 1, 1, 1, D), n_keys = ZEROS(TX_I32, B);
    memcpy(n_keys.data, (const int32_t[]){ S, N }, 8);
    tx_dropout mask = { .rng = { 3, 2, 1 }, .drop = 30000, .s_global = 11, .n_heads = 1 };
    for (int64_t i = N * B + 1; i < S * B; i += B)
        for (int64_t x = 0; x < D; x++) ((double *)k.data)[i * D + x] = ((double *)v.data)[i * D + x] = NAN;
    tx_attention_fwd_args a = { .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .mask = mask, .n_keys = n_keys };
    ASSERT_OK(tx_run_attention_fwd(&ctx, &a));
    mask.sample = 1;
    RUN(&ctx, attention_fwd, .o = alone, .q = view5(q, D, alone.dim, B * D, 0, 0, D),
        .k = view4(k, D, N, 1, 1, D, B * D, 0, D), .v = view4(v, D, N, 1, 1, D, B * D, 0, D), .scale = 0.5,
        .mask = mask);
    for (int i = 0; i < N * D; i++) assert_true(tx__ref_load(alone, i) == tx__ref_load(o, (i / D * B + 1) * D + i % D));

    ((int32_t *)n_keys.data)[1] = 0;
    ASSERT_FAILS(tx_run_attention_fwd(&ctx, &a), TX_ERR_ARG, "attention_fwd: n_keys[1] is 0; it has to be in 1..7");
    ((int32_t *)n_keys.data)[1] = S + 1;
    ASSERT_FAILS(tx_run_attention_fwd(&ctx, &a), TX_ERR_ARG, "n_keys[1] is 8");
    tx_attention_bwd_args g = { .dq = q,
                                .dk = k,
                                .dv = v,
                                .do_ = o,
                                .o = o,
                                .lse = ZEROS(t, B, 1, 1, S),
                                .q = q,
                                .k = k,
                                .v = v,
                                .scale = 0.5,
                                .n_keys = n_keys };
    ASSERT_FAILS(tx_run_attention_bwd(&ctx, &g), TX_ERR_ARG, "attention_bwd: n_keys[1] is 8");
    g.causal = a.causal = true;
    ASSERT_FAILS(tx_run_attention_bwd(&ctx, &g), TX_ERR_SHAPE, "neither causal nor a past");
    ASSERT_FAILS(tx_run_attention_fwd(&ctx, &a), TX_ERR_SHAPE, "neither causal nor a past");
    a.causal = false;
    a.n_keys = tx_slice1(n_keys, 0, 1);
    ASSERT_FAILS(tx_run_attention_fwd(&ctx, &a), TX_ERR_SHAPE, "n_keys [b] int32");
    pool_free();
}

/* The dropout mask follows global coordinates: head 1 of sample 1 alone gives what it gives among all. */
static void test_attention_mask(void **state)
{
    (void)state;
    enum { S = 9, D = 4 };
    tx_dropout mask = {
        .rng = { 3, 2, 1 }, .drop = 30000, .sample = 10, .s_global = 11, .n_heads = 8, .first_head = 4
    };
    tx_tensor q = RAND(TX_F64, S, 2, 2, 1, D), k = RAND(TX_F64, S, 2, 2, D), v = RAND(TX_F64, S, 2, 2, D);
    tx_tensor o = ZEROS(TX_F64, S, 2, 2, 1, D), one = ZEROS(TX_F64, S, 1, 1, 1, D);
    RUN(&ctx, attention_fwd, .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true, .mask = mask);
    tx_tensor part[] = { q, k, v };
    for (int i = 0; i < 3; i++) {
        part[i].data = (double *)part[i].data + part[i].stride[1] + part[i].stride[2];
        part[i].dim[1] = part[i].dim[2] = 1;
    }
    mask.sample += 1;
    mask.first_head += 1;
    RUN(&ctx, attention_fwd, .o = one, .q = part[0], .k = part[1], .v = part[2], .scale = 0.5, .causal = true,
        .mask = mask);
    for (int i = 0; i < S; i++)
        for (int x = 0; x < D; x++)
            assert_true(tx__ref_load(one, i * D + x) ==
                        tx__ref_load(o, i * o.stride[0] + o.stride[1] + o.stride[2] + x));
    pool_free();
}

static int set_up(void **state)
{
    (void)state;
    ctx = open_ctx("ref", 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tx_ctx_deinit(&ctx);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_values),
        cmocka_unit_test(test_attention_documents),
        cmocka_unit_test(test_attention_padding),
        cmocka_unit_test(test_attention_mask),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
