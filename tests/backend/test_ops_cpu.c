/* labels: op */
/* test_ops_cpu.c - backend cpu in fp32 against ref, op by op, for each instruction set of this processor and several
 * thread counts; and what does not depend on a dtype. */
#include "backend/op_cases.h"

#include "backend/documents_cases.h"

static void test_generic(void **state)
{
    (void)state;
    run_all("generic", 1);
}

static void test_avx2(void **state)
{
    (void)state;
    run_all("avx2", 2);
}

static void test_avx512(void **state)
{
    (void)state;
    run_all("avx512", 2);
}

static void test_avx512_bf16(void **state)
{
    (void)state;
    run_all("avx512_bf16", 1);
}

/* More threads than cores and than heads or rows. */
static void test_many_threads(void **state)
{
    (void)state;
    run_all("generic", 5);
}

static void test_padding(void **state)
{
    (void)state;
    run_padding("generic");
    run_padding("avx2");
    run_padding("avx512");
}

static void test_documents(void **state)
{
    (void)state;
    run_documents("generic");
    run_documents("avx2");
    run_documents("avx512");
}

static void test_gemm(void **state)
{
    (void)state;
    run_gemms("cpu");
}

/* More shapes than the cache of products holds. */
static void test_gemm_many_shapes(void **state)
{
    (void)state;
    tx_ctx ref = open_ctx("ref", 1), cpu = open_ctx("cpu", 1);
    for (int64_t m = 1; m <= 30; m++)
        for (int64_t n = 1; n <= 30; n++) {
            op_case k = { "gemm of many shapes", gemm, { m, n, 3 } };
            run_case(&ref, &cpu, &k, "1 thread");
        }
    tx_ctx_deinit(&ref);
    tx_ctx_deinit(&cpu);
}

/* exp over its whole range through a softmax of two: loss = log(1 + exp(x)). NaN and infinities are passed on. */
static void test_special_values(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("cpu", 1);
    tx_tensor z = ZEROS(TX_F32, 1, 2), loss = ZEROS(TX_F32, 1), y = ZEROS(TX_I32, 1), one = ZEROS(TX_F32, 1);
    ((float *)one.data)[0] = 1;
    for (double x = -120; x <= 0; x += 0.37) {
        tx__ref_store(z, 0, 0);
        tx__ref_store(z, 1, x);
        x = tx__ref_load(z, 1);
        RUN(&c, cross_entropy, .loss = loss, .z = z, .y = y, .weight = one, .n_valid = 2);
        double expect = exp(x) / (1 + exp(x)); /* below 2^-126 it may be 0 */
        ASSERT_NEAR(tx__ref_load(z, 1), expect, 3e-7 * expect + 0x1p-125, "a small probability");
    }
    static const float special[] = { NAN, INFINITY };
    for (int i = 0; i < 2; i++) {
        tx__ref_store(z, 0, 0);
        ((float *)z.data)[1] = special[i];
        RUN(&c, cross_entropy, .loss = loss, .z = z, .y = y, .n_valid = 2);
        assert_true(!isfinite(tx__ref_load(loss, 0)));
        for (tx_activation kind = TX_GELU_TANH; kind <= TX_SQUARED_RELU; kind++) {
            tx_tensor f = ZEROS(TX_F32, 2);
            RUN(&c, activation_fwd, .y = f, .x = tx_slice1(z, 0, 2), .kind = kind);
            assert_true(!isfinite(tx__ref_load(f, 1)));
        }
        tx_tensor f = ZEROS(TX_F32, 2), slope = ZEROS(TX_F32, 2), ones = ZEROS(TX_F32, 2);
        RUN(&c, fill, .x = ones, .value = 1);
        RUN(&c, activation_fwd, .y = f, .x = tx_slice1(z, 0, 2), .kind = TX_TANH);
        RUN(&c, activation_bwd, .dx = slope, .dy = ones, .x = tx_slice1(z, 0, 2), .kind = TX_TANH);
        double limit = tx__ref_load(f, 1), flat = tx__ref_load(slope, 1);
        assert_true(i ? limit == 1 && fabs(flat) < 1e-36 : isnan(limit) && isnan(flat));
    }
    tx_ctx_deinit(&c);
    pool_free();
}

/* ---- the functions, densely ---- */

static double gelu_tanh(double x, double *slope)
{
    double a = sqrt(2 / acos(-1)), u = a * (x + 0.044715 * x * x * x), s = 1 / (1 + exp(-2 * u)),
           r = 1 / (1 + exp(2 * u));
    *slope = s + x * s * r * 2 * a * (1 + 3 * 0.044715 * x * x);
    return x * s;
}

static double gelu_erf(double x, double *slope)
{
    double cdf = 0.5 * erfc(-x / sqrt(2));
    *slope = cdf + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
    return x * cdf;
}

static double silu(double x, double *slope)
{
    double s = 1 / (1 + exp(-x));
    *slope = s * (1 + x / (1 + exp(x)));
    return x * s;
}

static double plain_tanh(double x, double *slope)
{
    *slope = 1 / (cosh(x) * cosh(x));
    return tanh(x);
}

/* Relative to itself a value is wrong by some roundings, and by those of the exponent, which grow with it; a slope has
 * a zero, near which what counts is the size of what it is a sum of. */
static void check_function(const char *isa, const char *name, double (*f)(double, double *), tx_ctx *c, int kind)
{
    enum { N = 1 << 18 };
    tx_tensor x = ZEROS(TX_F32, N, 2), y = ZEROS(TX_F32, N), dy = ZEROS(TX_F32, N), dx = ZEROS(TX_F32, N, 2);
    int glu = f == silu;
    for (int64_t i = 0; i < N; i++) { /* evenly over ±24, and every exponent from 2^-30 on */
        double v =
            i % 2 ? 48.0 * (double)i / N - 24 : ldexp(1 + (double)(i / 256) / N * 256, (int)(i / 2 % 64) / 2 - 30);
        if (!(i % 2) && i % 4) v = -v;
        ((float *)x.data)[glu ? 2 * i : i] = (float)v;
        if (glu) ((float *)x.data)[2 * i + 1] = 1;
        ((float *)dy.data)[i] = 1;
    }
    if (glu) {
        tx_tensor rows = tx_tensor2(y.data, TX_F32, N, 1), drows = tx_tensor2(dy.data, TX_F32, N, 1);
        RUN(c, glu_fwd, .y = rows, .x = x, .kind = (tx_glu)kind);
        RUN(c, glu_bwd, .dx = dx, .dy = drows, .x = x, .kind = (tx_glu)kind);
    } else {
        RUN(c, activation_fwd, .y = y, .x = tx_tensor1(x.data, TX_F32, N), .kind = (tx_activation)kind);
        RUN(c, activation_bwd, .dx = tx_tensor1(dx.data, TX_F32, N), .dy = dy, .x = tx_tensor1(x.data, TX_F32, N),
            .kind = (tx_activation)kind);
    }
    double worst = 0, worst_slope = 0;
    for (int64_t i = 0; i < N; i++) {
        double v = ((float *)x.data)[glu ? 2 * i : i], slope, want = f(v, &slope);
        double grown = 1 + (glu ? fabs(v) : v * v), eps = 0x1p-23;
        double off = fabs(((float *)y.data)[i] - want) - 1e-33;
        double off_slope = fabs(((float *)dx.data)[glu ? 2 * i : i] - slope) - 1e-31;
        worst = fmax(worst, off / (eps * grown * fabs(want)));
        worst_slope = fmax(worst_slope, off_slope / (eps * grown * fmax(fabs(slope), v < 0 ? fabs(want) : 0)));
    }
    if (!(worst <= 6 && worst_slope <= 7))
        fail_msg("%s, %s: off by %.2f, its slope by %.2f units", isa, name, worst, worst_slope);
}

static void test_functions(void **state)
{
    (void)state;
    static const char *isas[] = { "generic", "avx2", "avx512" };
    for (int i = 0; i < 3; i++) {
        tx_ctx c;
        if (!open_isa(&c, isas[i], 2)) continue;
        check_function(isas[i], "gelu tanh", gelu_tanh, &c, TX_GELU_TANH);
        check_function(isas[i], "gelu erf", gelu_erf, &c, TX_GELU_ERF);
        check_function(isas[i], "tanh", plain_tanh, &c, TX_TANH);
        check_function(isas[i], "silu", silu, &c, TX_GLU_SILU);
        tx_ctx_deinit(&c);
        pool_free();
    }
}

static void test_refuses_other_types(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("cpu", 1);
    tx_tensor a = ZEROS(TX_F64, 4, 4), p = ZEROS(TX_F32, 4), low = ZEROS(TX_F64, 4);
    ASSERT_FAILS(tx_op_gemm(&c, &(tx_gemm_args){ .c = a, .a = a, .b = a }), TX_ERR_UNSUPPORTED, "gemm");
    ASSERT_CONTAINS(tx_last_error(), "fp64");
    assert_int_equal(tx_op_activation_fwd(&c, &(tx_activation_fwd_args){ .y = a, .x = a }), TX_ERR_UNSUPPORTED);
    ASSERT_FAILS(tx_op_adam(&c, &(tx_adam_args){ .p = p, .m = p, .v = p, .g = p, .low = low, .t = 1 }),
                 TX_ERR_UNSUPPORTED, "fp64");
    tx_ctx_deinit(&c);
    pool_free();
}

/* One small training step's ops over given tensors, so that nothing but the ops themselves could allocate. */
typedef struct step {
    tx_tensor x, w, y, mu, rs, gamma, beta, lse, loss, label, weight, dx, dw;
} step;

static tx_status run_step(tx_ctx *c, const step *t)
{
    qkv in = fused_qkv(t->x, 40, 1, 2, 1, 16), g = fused_qkv(t->dx, 40, 1, 2, 1, 16);
    tx_tensor o = t->y, x = tx_tensor2(t->x.data, TX_F32, 40, 96), y = tx_tensor2(t->y.data, TX_F32, 40, 32);
    tx_tensor dx = tx_tensor2(t->dx.data, TX_F32, 40, 96), gamma = t->gamma;
    TX_RUN(c, layernorm_fwd, .y = x, .mu = t->mu, .rs = t->rs, .x = x, .gamma = gamma, .beta = t->beta, .eps = 1e-5);
    TX_RUN(c, attention_fwd, .o = o, .lse = t->lse, .q = in.q, .k = in.k, .v = in.v, .scale = 0.25, .causal = true);
    TX_RUN(c, gemm, .c = x, .a = y, .b = t->w, .trans_b = true, .bias = gamma);
    TX_RUN(c, head_loss, .loss = t->loss, .dx = dx, .dw = t->dw, .x = x, .w = t->dw, .y = t->label, .weight = t->weight,
           .n_valid = 30);
    TX_RUN(c, attention_bwd, .dq = g.q, .dk = g.k, .dv = g.v, .do_ = o, .o = o, .lse = t->lse, .q = in.q, .k = in.k,
           .v = in.v, .scale = 0.25, .causal = true);
    TX_RUN(c, layernorm_bwd, .dx = dx, .dgamma = gamma, .dbeta = t->beta, .dy = dx, .x = x, .gamma = gamma, .mu = t->mu,
           .rs = t->rs);
    return TX_OK;
}

/* A dry run touches no number and finds all the scratch that the real one needs; the real one allocates nothing. */
static void test_plan(void **state)
{
    (void)state;
    tx_ctx c;
    ASSERT_OK(tx_ctx_init(&c, "cpu", 2));
    step t = { .x = RAND(TX_F32, 40, 1, 2, 3, 16),
               .w = RAND(TX_F32, 96, 32),
               .y = ZEROS(TX_F32, 40, 1, 2, 1, 16),
               .mu = ZEROS(TX_F32, 40),
               .rs = ZEROS(TX_F32, 40),
               .gamma = RAND(TX_F32, 96),
               .beta = RAND(TX_F32, 96),
               .lse = ZEROS(TX_F32, 1, 2, 1, 40),
               .loss = ZEROS(TX_F32, 40),
               .label = ZEROS(TX_I32, 40),
               .weight = RAND(TX_F32, 40),
               .dx = ZEROS(TX_F32, 40, 1, 2, 3, 16),
               .dw = RAND(TX_F32, 32, 96) };
    ASSERT_OK(run_step(&c, &t));
    assert_true(tx__ref_load(t.loss, 0) == 0 && c.scratch.peak > 0);
    ASSERT_OK(tx_ctx_take_memory(&c));
    uint64_t before = tx_alloc_count();
    ASSERT_OK(run_step(&c, &t));
    assert_true(tx_alloc_count() == before);
    assert_true(tx__ref_load(t.loss, 0) != 0);
    tx_ctx_deinit(&c);
    pool_free();
}

/* A product that there is not is an error of the plan, not of the first step. */
static void test_plan_refuses(void **state)
{
    (void)state;
    tx_ctx c;
    tx_tensor a = tx_tensor2(TX_DRY_ADDRESS, TX_F64, 4, 4);
    ASSERT_OK(tx_ctx_init(&c, "cpu", 1));
    ASSERT_FAILS(tx_op_gemm(&c, &(tx_gemm_args){ .c = a, .a = a, .b = a }), TX_ERR_UNSUPPORTED, "gemm");
    tx_ctx_deinit(&c);
}

static void test_every_op_ran(void **state)
{
    (void)state;
    assert_every_op_called();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512_bf16),
        cmocka_unit_test(test_many_threads),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_many_shapes),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_refuses_other_types),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_plan_refuses),
        cmocka_unit_test(test_every_op_ran), /* last */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
