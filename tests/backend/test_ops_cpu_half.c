/* labels: op */
/* test_ops_cpu_half.c - backend cpu in bf16 and fp16 against ref, with the residual stream in the same type and in
 * fp32, for each instruction set of this processor. */
#include <sys/wait.h>
#include <unistd.h>

#include "backend/op_cases.h"

#include "backend/documents_cases.h"

static const tx_dtype half[] = { TX_BF16, TX_F16 };

/* All cases, for both types, with a stream of fp32 or of the values' type. */
static void run_halves(const char *isa, int n_threads, bool wide_stream)
{
    for (int i = 0; i < 2; i++) {
        V = half[i];
        S = wide_stream ? TX_F32 : V;
        run_all(isa, n_threads);
    }
}

static void test_generic(void **state)
{
    (void)state;
    run_halves("generic", 1, true);
}

static void test_avx2(void **state)
{
    (void)state;
    run_halves("avx2", 2, false);
}

static void test_avx512(void **state)
{
    (void)state;
    run_halves("avx512", 2, true);
}

static void test_avx512_bf16(void **state)
{
    (void)state;
    V = S = TX_BF16;
    rounds_probabilities = true;
    run_all("avx512_bf16", 2);
    rounds_probabilities = false;
    V = S = TX_F16;
    run_all("avx512_bf16", 2);
}

static void test_padding(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        V = half[i];
        run_padding("generic");
        run_padding("avx2");
        run_padding("avx512");
        run_padding("avx512_bf16");
    }
}

static void test_documents(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        V = half[i];
        run_documents("generic");
        run_documents("avx2");
        run_documents("avx512");
        run_documents("avx512_bf16");
    }
}

static void test_gemm(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        V = half[i / 2];
        S = i % 2 ? TX_F32 : V;
        run_gemms("cpu");
    }
}

/* Products that are cut into pieces, along each axis. */
static void test_gemm_pieces(void **state)
{
    (void)state;
    static const op_case cut[] = { { "n of 2x60001x40", gemm, { 2, 60001, 40, 0, 1, 1, 0, 3 } },
                                   { "m of 60001x2x40", gemm, { 60001, 2, 40, 1, 0, 0, 1, 3 } },
                                   { "k of 2x40x60001", gemm, { 2, 40, 60001, 0, 1, 1, 0, 3 } },
                                   { "k of 40x2x60001, transposed", gemm, { 40, 2, 60001, 1, 0, 0, 1, 0 } } };
    tx_ctx ref = open_ctx("ref", 1), cpu = open_ctx("cpu", 2);
    V = TX_F16;
    for (size_t i = 0; i < 2 * sizeof cut / sizeof *cut; i++) {
        S = i % 2 ? TX_F32 : V;
        run_case(&ref, &cpu, &cut[i / 2], "fp16");
    }
    tx_ctx_deinit(&ref);
    tx_ctx_deinit(&cpu);
}

/* The pieces in the middle of a sum over k add, unlike the first, and are longer than the last: oneDNN may need a
 * workspace for them alone. */
static void test_gemm_middle_pieces(void **state)
{
    (void)state;
    enum { M = 2048, N = 1024, K = 8192 };
    tx_ctx cpu = open_ctx("cpu", 2);
    tx_gemm_args a = { .c = ZEROS(TX_F16, M, N), .a = ZEROS(TX_F16, M, K), .b = ZEROS(TX_F16, K, N) };
    ASSERT_OK(tx_op_gemm(&cpu, &a));
    tx_ctx_deinit(&cpu);
    pool_free();
}

/* Every bf16 and fp16, and fp32 of all exponents, around and between what rounds to them: the bits of base/half.h. */
static void check_conversions(const char *isa)
{
    tx_ctx c;
    if (!open_isa(&c, isa, 1)) return;
    enum { ALL = 65536, MANY = 1 << 20 };
    tx_tensor narrow = ZEROS(TX_F16, ALL), wide = ZEROS(TX_F32, ALL), x = ZEROS(TX_F32, MANY), y = ZEROS(TX_F16, MANY);
    uint32_t *bits = x.data;
    const uint16_t *got = y.data;
    for (uint32_t i = 0; i < ALL; i++) ((uint16_t *)narrow.data)[i] = (uint16_t)i;
    for (uint32_t i = 0; i < MANY; i++) /* half of them next to the middle between two fp16, half anywhere */
        bits[i] = i % 2 ? i << 12 : ((i << 12) & ~0x1fffu) + 0x1000u + (i >> 1) % 3 - 1;
    for (int t = 0; t < 2; t++) {
        narrow.dtype = y.dtype = half[t];
        RUN(&c, cast, .y = wide, .x = narrow);
        for (uint32_t i = 0; i < ALL; i++) {
            float want = t ? tx_f16_to_f32((uint16_t)i) : tx_bf16_to_f32((uint16_t)i);
            if (memcmp(&want, (float *)wide.data + i, 4)) fail_msg("%s: %s %04x", isa, tx_dtype_name(half[t]), i);
        }
        RUN(&c, cast, .y = y, .x = x);
        for (uint32_t i = 0; i < MANY; i++) {
            float f = tx_f32_of_bits(bits[i]);
            uint16_t want = t ? tx_f32_to_f16(f) : tx_f32_to_bf16(f);
            if (got[i] != want)
                fail_msg("%s: fp32 %08x is %s %04x, not %04x", isa, bits[i], tx_dtype_name(half[t]), want, got[i]);
        }
    }
    tx_ctx_deinit(&c);
    pool_free();
}

static void test_conversions(void **state)
{
    (void)state;
    check_conversions("generic");
    check_conversions("avx2");
    check_conversions("avx512");
    check_conversions("avx512_bf16");
}

static void assert_not_finite(tx_tensor x, int64_t at, const char *what)
{
    if (isfinite(tx__ref_load(x, at))) fail_msg("%s in %s is %g", what, tx_dtype_name(V), tx__ref_load(x, at));
}

/* NaN and infinity are passed on, and what does not fit fp16 becomes infinite. */
static void test_special_values(void **state)
{
    (void)state;
    tx_ctx c = open_ctx("cpu", 1);
    for (int i = 0; i < 4; i++) {
        const tx_dtype t = V = half[i / 2];
        tx_tensor x = RAND(t, 40, 40), y = ZEROS(t, 40, 40), w = RAND(t, 40, 40), gamma = RAND(t, 40);
        tx_tensor mu = ZEROS(TX_F32, 40), rs = ZEROS(TX_F32, 40), f = ZEROS(TX_F32, 40, 40);
        tx__ref_store(x, 41, i % 2 ? INFINITY : NAN);
        for (tx_activation kind = TX_GELU_TANH; kind <= TX_SQUARED_RELU; kind++) {
            RUN(&c, activation_fwd, .y = y, .x = x, .kind = kind);
            assert_not_finite(y, 41, "activation");
        }
        RUN(&c, activation_fwd, .y = y, .x = x, .kind = TX_TANH);
        assert_true(i % 2 ? tx__ref_load(y, 41) == 1 : isnan(tx__ref_load(y, 41)));
        RUN(&c, layernorm_fwd, .y = y, .mu = mu, .rs = rs, .x = x, .gamma = gamma, .beta = gamma, .eps = 1e-5);
        assert_not_finite(y, 41, "layernorm");
        RUN(&c, gemm, .c = y, .a = x, .b = w);
        assert_not_finite(y, 40, "gemm");
        RUN(&c, gemm, .c = tx_slice_rows(y, 0, 3), .a = tx_slice_rows(x, 0, 3), .b = w);
        assert_not_finite(y, 40, "gemm of few rows");
        RUN(&c, cast, .y = f, .x = x);
        assert_not_finite(f, 41, "cast up");
        RUN(&c, cast, .y = y, .x = f);
        assert_not_finite(y, 41, "cast down");
        tx__ref_store(x, 41, 60000);
        RUN(&c, activation_fwd, .y = y, .x = x, .kind = TX_SQUARED_RELU);
        if (t == TX_F16) assert_not_finite(y, 41, "a square");
    }
    tx_ctx_deinit(&c);
    pool_free();
}

static void test_every_op_ran(void **state)
{
    (void)state;
    assert_every_op_called();
}

/* Products once more in a process whose oneDNN takes this processor for one without avx512, so that it has no bf16. */
static int without_avx512(void)
{
    pid_t child = fork();
    if (child == 0) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_gemm) };
        setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
        setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
        exit(cmocka_run_group_tests_name("without avx512", tests, NULL, NULL));
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generic),
        cmocka_unit_test(test_avx2),
        cmocka_unit_test(test_avx512),
        cmocka_unit_test(test_avx512_bf16),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_pieces),
        cmocka_unit_test(test_gemm_middle_pieces),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_every_op_ran), /* last */
    };
    int failed = without_avx512();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
