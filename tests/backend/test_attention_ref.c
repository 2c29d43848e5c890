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

/* The same with a window, a cap and a sink, which are written out again; and what is refused. */
static void test_attention_kind(void **state)
{
    (void)state;
    enum { S = 6, D = 4, WINDOW = 2 };
    const double cap = 0.6;
    tx_tensor q = RAND(TX_F64, S, 1, 1, 1, D), k = RAND(TX_F64, S, 1, 1, D), v = RAND(TX_F64, S, 1, 1, D);
    tx_tensor o = ZEROS(TX_F64, S, 1, 1, 1, D), lse = ZEROS(TX_F64, 1, 1, 1, S), sink = RAND(TX_F64, 1);
    for (int off_by_one = 0; off_by_one < 2; off_by_one++) {
        tx_attention_kind kind = { .window = WINDOW, .softcap = cap, .sink = sink, .off_by_one = off_by_one };
        if (off_by_one) kind.sink.data = NULL;
        RUN(&ctx, attention_fwd, .o = o, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true,
            .kind = kind);
        for (int i = 0; i < S; i++) {
            double p[S], sum = exp(off_by_one ? 0 : tx__ref_load(sink, 0));
            int first = i > WINDOW ? i - WINDOW : 0;
            for (int j = first; j <= i; j++) {
                double dot = 0;
                for (int x = 0; x < D; x++) dot += tx__ref_load(q, i * D + x) * tx__ref_load(k, j * D + x);
                sum += p[j] = exp(cap * tanh(0.5 * dot / cap));
            }
            ASSERT_NEAR(tx__ref_load(lse, i), log(sum), 1e-12, "log of the sum");
            for (int x = 0; x < D; x++) {
                double expect = 0;
                for (int j = first; j <= i; j++) expect += p[j] / sum * tx__ref_load(v, j * D + x);
                ASSERT_NEAR(tx__ref_load(o, i * D + x), expect, 1e-12, "attention");
            }
        }
    }
    tx_attention_fwd_args a = { .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .kind.window = 1 };
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "a window of 1 tokens: it is at least 0, and needs causal");
    a.kind = (tx_attention_kind){ .softcap = -1 };
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "a softcap of -1 is not at least 0");
    a.kind = (tx_attention_kind){ .sink = sink, .off_by_one = true };
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "sinks and off_by_one");
    a.kind = (tx_attention_kind){ .sink = RAND(TX_F64, 2) };
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_SHAPE, "sink [groups r]");
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
    ASSERT_OK(tx_op_attention_fwd(&ctx, &a));
    mask.sample = 1;
    RUN(&ctx, attention_fwd, .o = alone, .q = view5(q, D, alone.dim, B * D, 0, 0, D),
        .k = view4(k, D, N, 1, 1, D, B * D, 0, D), .v = view4(v, D, N, 1, 1, D, B * D, 0, D), .scale = 0.5,
        .mask = mask);
    for (int i = 0; i < N * D; i++) assert_true(tx__ref_load(alone, i) == tx__ref_load(o, (i / D * B + 1) * D + i % D));

    ((int32_t *)n_keys.data)[1] = 0;
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "attention_fwd: n_keys[1] is 0; it has to be in 1..7");
    ((int32_t *)n_keys.data)[1] = S + 1;
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "n_keys[1] is 8");
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
    ASSERT_FAILS(tx_op_attention_bwd(&ctx, &g), TX_ERR_ARG, "attention_bwd: n_keys[1] is 8");
    g.causal = a.causal = true;
    ASSERT_FAILS(tx_op_attention_bwd(&ctx, &g), TX_ERR_SHAPE, "neither causal nor a past");
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_SHAPE, "neither causal nor a past");
    a.causal = false;
    a.n_keys = tx_slice1(n_keys, 0, 1);
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_SHAPE, "n_keys [b] int32");
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

/* The slopes of ALiBi's authors: those of a power of two heads, and for others what they take of twice the power below,
 * as the published programs print them. */
static void test_slopes(void **state)
{
    (void)state;
    static const struct {
        int64_t n_heads, i;
        double slope;
    } published[] = { { 1, 0, 0.00390625 },
                      { 2, 0, 0.0625 },
                      { 8, 0, 0.5 },
                      { 8, 7, 0.00390625 },
                      { 3, 2, 0.25 },
                      { 6, 3, 0.00390625 },
                      { 6, 4, 0.5 },
                      { 6, 5, 0.125 },
                      { 12, 7, 0.00390625 },
                      { 12, 8, 0.7071067811865476 },
                      { 12, 11, 0.08838834764831849 },
                      { 16, 0, 0.7071067811865476 },
                      { 112, 63, 0.00390625 },
                      { 112, 64, 0.9576032806985737 },
                      { 112, 111, 0.016316777850428427 } };
    for (size_t k = 0; k < sizeof published / sizeof *published; k++) {
        int64_t n = published[k].n_heads, i = published[k].i;
        ASSERT_NEAR(exp2(tx_alibi_log2_slope(&(tx_alibi){ .n_heads = n }, i)), published[k].slope, 1e-14, "slope");
        ASSERT_NEAR(exp2(tx_alibi_log2_slope(&(tx_alibi){ .n_heads = n, .first_head = i }, 0)), published[k].slope,
                    1e-14, "slope");
    }
}

/* Biases of positions are upstream's: slope j is added to the scaled scores. They do not see where a sample begins, and
 * need a direction. */
static void test_attention_leans(void **state)
{
    (void)state;
    enum { S = 6, N = 3, D = 4 };
    static const double slope[N] = { 0.0625, 0.00390625, 0.25 };
    tx_tensor q = RAND(TX_F64, S, 1, N, 1, D), k = RAND(TX_F64, S, 1, N, D), v = RAND(TX_F64, S, 1, N, D);
    tx_tensor o = ZEROS(TX_F64, S, 1, N, 1, D), alone = ZEROS(TX_F64, S - 2, 1, N, 1, D);
    tx_attention_fwd_args a = {
        .o = o, .q = q, .k = k, .v = v, .scale = 0.5, .causal = true, .alibi = { .n_heads = N }
    };
    ASSERT_OK(tx_op_attention_fwd(&ctx, &a));
    for (int n = 0; n < N; n++)
        for (int i = 0; i < S; i++) {
            double p[S], sum = 0;
            for (int j = 0; j <= i; j++) {
                double dot = 0;
                for (int x = 0; x < D; x++)
                    dot += tx__ref_load(q, (i * N + n) * D + x) * tx__ref_load(k, (j * N + n) * D + x);
                sum += p[j] = exp(0.5 * dot + slope[n] * j);
            }
            for (int x = 0; x < D; x++) {
                double expect = 0;
                for (int j = 0; j <= i; j++) expect += p[j] / sum * tx__ref_load(v, (j * N + n) * D + x);
                ASSERT_NEAR(tx__ref_load(o, (i * N + n) * D + x), expect, 1e-12, "attention");
            }
        }
    tx_tensor first_key = ZEROS(TX_I32, S, 1);
    for (int i = 2; i < S; i++) ((int32_t *)first_key.data)[i] = 2;
    a.first_key = first_key;
    ASSERT_OK(tx_op_attention_fwd(&ctx, &a));
    RUN(&ctx, attention_fwd, .o = alone, .q = tx_slice_rows(q, 2, S - 2), .k = tx_slice_rows(k, 2, S - 2),
        .v = tx_slice_rows(v, 2, S - 2), .scale = 0.5, .causal = true, .alibi = { .n_heads = N });
    for (int i = 0; i < (S - 2) * N * D; i++) assert_true(tx__ref_load(alone, i) == tx__ref_load(o, 2 * N * D + i));

    a.alibi.first_head = 1;
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_SHAPE, "heads 1 + 3 do not lie in the biases' 3");
    a.alibi.first_head = 0;
    a.causal = false;
    ASSERT_FAILS(tx_op_attention_fwd(&ctx, &a), TX_ERR_ARG, "biases of positions need causal attention");
    tx_attention_bwd_args g = { .dq = q,
                                .dk = k,
                                .dv = v,
                                .do_ = o,
                                .o = o,
                                .lse = ZEROS(TX_F64, 1, N, 1, S),
                                .q = q,
                                .k = k,
                                .v = v,
                                .scale = 0.5,
                                .alibi = { .n_heads = N } };
    ASSERT_FAILS(tx_op_attention_bwd(&ctx, &g), TX_ERR_ARG, "attention_bwd: linear biases");
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
        cmocka_unit_test(test_attention_values),    cmocka_unit_test(test_attention_kind),
        cmocka_unit_test(test_attention_documents), cmocka_unit_test(test_attention_padding),
        cmocka_unit_test(test_attention_mask),      cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_attention_leans),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
