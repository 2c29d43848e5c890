/* labels: unit fault */
/* The measured peak: who has one, what the measuring loops compute, and that they count their operations. */
#include "support.h"

#include "backend/cpu/cpu.h"

static void only_backends_that_know_have_a_peak(void **state)
{
    (void)state;
    tx_ctx c;
    tx_dtype half = TX_F16, brain = TX_BF16;
    ASSERT_OK(tx_ctx_init(&c, "cpu", 2));
    assert_true(isfinite(c.backend->peak_flops(&c, TX_F32)) && c.backend->peak_flops(&c, TX_F32) > 0);
    assert_true(c.backend->peak_flops(&c, TX_F16) == 0 && c.backend->peak_flops(&c, TX_I32) == 0);
    assert_true(tx_peak_flops(&c, &half) > 0);
    assert_int_equal(half, TX_F32); /* sums of fp16 are made in fp32 */
    bool has_bf16 = c.backend->peak_flops(&c, TX_BF16) > 0;
    assert_true(tx_peak_flops(&c, &brain) > 0);
    assert_int_equal(brain, has_bf16 ? TX_BF16 : TX_F32);
    tx_ctx_deinit(&c);
    ASSERT_OK(tx_ctx_init(&c, "ref", 1));
    assert_true(tx_peak_flops(&c, &brain) == 0);
    tx_ctx_deinit(&c);
}

static void a_gpu_has_its_vendors_figure(void **state)
{
    (void)state;
    assert_true(tx__gpu_peak_flops("NVIDIA H100 80GB HBM3", TX_BF16) == 989e12);
    assert_true(tx__gpu_peak_flops("NVIDIA H100 PCIe", TX_F16) == 756e12);
    assert_true(tx__gpu_peak_flops("NVIDIA A100-SXM4-80GB", TX_F32) == 19.5e12);
    assert_true(tx__gpu_peak_flops("Tesla V100-SXM2-16GB", TX_F16) == 125e12);
    assert_true(tx__gpu_peak_flops("Tesla V100-SXM2-16GB", TX_BF16) == 0); /* it has no such instructions */
    assert_true(tx__gpu_peak_flops("AMD Instinct MI210", TX_BF16) == 181e12);
    assert_true(tx__gpu_peak_flops("AMD Instinct MI250X", TX_F16) == 191.5e12);
    assert_true(tx__gpu_peak_flops("some other GPU", TX_BF16) == 0);
}

static void chains_compute_and_count(void **state)
{
    (void)state;
    enum { ROOM = TX__PEAK_CHAINS * TX__LANES };
    float sums[ROOM], x[100], y[100];
    for (int i = 0; i < ROOM; i++) sums[i] = 17;
    const tx__cpu_kernels *k = tx__cpu_best_kernels();
    double flops = k->fma_chains(sums, 3); /* 17 -> 9 -> 5 -> 3 */
    int n = 0;
    while (n < ROOM && sums[n] == 3) n++;
    for (int i = n; i < ROOM; i++) assert_true(sums[i] == 17);
    assert_true(n > 0 && flops == 2.0 * 3 * n);
    for (int i = 0; i < 100; i++) x[i] = (float)i;
    assert_true(k->sum(x, 100) == 4950);
    k->triad(y, x, sums, 100);
    assert_true(y[7] == 7 + 0.5f * sums[7] && y[99] == 99 + 0.5f * sums[99]);
}

static void bandwidth_survives_a_failing_allocation(void **state)
{
    (void)state;
    tx_ctx c;
    tx_bandwidth b = { 0 };
    ASSERT_OK(tx_ctx_init(&c, "cpu", 2));
    allocation_fails_at(0);
    tx_status st = c.backend->bandwidth(&c, &b);
    allocations_succeed();
    assert_int_equal(st, TX_ERR_NOMEM);
    ASSERT_OK(c.backend->bandwidth(&c, &b));
    assert_true(b.read > 0 && b.copy > 0 && b.triad > 0 && b.array_bytes >= (size_t)64 << 20);
    tx_ctx_deinit(&c);
}

static void arrays_are_beyond_the_cache_and_within_reason(void **state)
{
    (void)state;
    const size_t mib = 1 << 20;
    assert_int_equal(tx__cpu_bandwidth_array(0, 0), 64 * mib);
    assert_int_equal(tx__cpu_bandwidth_array(40 << 20, 0), 80 * mib);
    assert_int_equal(tx__cpu_bandwidth_array(480L << 20, 0), 256 * mib);
    assert_int_equal(tx__cpu_bandwidth_array(480L << 20, 1600 * mib), 100 * mib);
    assert_int_equal(tx__cpu_bandwidth_array(480L << 20, 1), 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_backends_that_know_have_a_peak),
        cmocka_unit_test(a_gpu_has_its_vendors_figure),
        cmocka_unit_test(chains_compute_and_count),
        cmocka_unit_test(arrays_are_beyond_the_cache_and_within_reason),
        cmocka_unit_test(bandwidth_survives_a_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
