/* labels: unit */
/* Machines that were measured: ops and calls take what was measured at their sizes and counts of ranks, between sizes
 * something between; where ranks have cores and no GPUs nothing hides messages, and stages that wait leave their core
 * to others. */
#include "support.h"

#include "backend/profile.h"
#include "predict/op_time.h"
#include "predict/predict.h"

static const double tiny = 1e-9;

static tx_measured_product products[] = { { TX_F32, 512, 1024, 256, 1e11, 1 },
                                          { TX_F32, 4096, 1024, 256, 2e11, 1 },
                                          { TX_F32, 512, 1024, 256, 4e10, 2 } };
static tx_measured_op ops[] = {
    { "layernorm_fwd", TX_F32, 1e4, 0, 4e10, 1 },  { "layernorm_fwd", TX_F32, 1e6, 0, 1e10, 1 },
    { "attention_fwd", TX_F32, 128, 64, 5e10, 1 }, { "attention_fwd", TX_F32, 128, 128, 8e10, 1 },
    { "all-reduce", TX_F32, 1e6, 0, 2e9, 2 },
};

/* Two cores. The arrays are not the machine's to free. */
static tx_machine measured(void)
{
    tx_machine m;
    ASSERT_OK(tx_machine_read(&m, "a100-80g"));
    for (int i = 0; i < m.n_sources; i++) tx_free(m.source[i]);
    tx_free(m.source);
    m.source = NULL;
    m.n_sources = 0;
    m.product = products;
    m.n_products = sizeof products / sizeof *products;
    m.op = ops;
    m.n_ops = sizeof ops / sizeof *ops;
    m.cores = 2;
    m.op_seconds = m.launch_seconds = 0;
    return m;
}

static tx_work_event product_of(double m, double n, double k)
{
    return (tx_work_event){ .op = "gemm",
                            .bound = TX_COST_PRODUCT,
                            .dtype = TX_F32,
                            .flops = 2 * m * n * k,
                            .bytes = 4 * (m * n + n * k + m * k),
                            .m = m,
                            .n = n,
                            .k = k };
}

static void products_near_what_was_measured(void **state)
{
    (void)state;
    tx_machine m = measured();
    tx_work_event e = product_of(512, 1024, 256), far = product_of(4096, 1024, 256),
                  between = product_of(1448, 1024, 256);
    assert_true(fabs(tx_op_seconds(&m, &e, 1) / (e.flops / 1e11) - 1) < 0.01);
    assert_true(fabs(tx_op_seconds(&m, &far, 1) / (far.flops / 2e11) - 1) < 0.01);
    double rate = between.flops / tx_op_seconds(&m, &between, 1);
    assert_true(rate > 1.3e11 && rate < 1.6e11);
    /* two ranks at once were measured; four take turns on two cores */
    assert_true(fabs(tx_op_seconds(&m, &e, 2) - e.flops / 4e10) < tiny);
    assert_true(fabs(tx_op_seconds(&m, &e, 4) - 2 * e.flops / 4e10) < tiny);
}

static void what_more_ranks_than_cores_measured_does_not_count(void **state)
{
    (void)state;
    tx_machine m = measured();
    tx_measured_product both[] = { products[0],
                                   { TX_F32, 512, 1024, 256, 4e10, 2 },
                                   { TX_F32, 512, 1024, 256, 3.9e10, 4 } };
    tx_work_event e = product_of(512, 1024, 256);
    m.product = both;
    m.n_products = 3;
    assert_true(fabs(tx_op_seconds(&m, &e, 4) - 2 * e.flops / 4e10) < tiny);
    m.cores = 4;
    assert_true(fabs(tx_op_seconds(&m, &e, 4) - e.flops / 3.9e10) < tiny);
}

static void ops_between_sizes(void **state)
{
    (void)state;
    tx_machine m = measured();
    tx_work_event e = { .op = "layernorm_fwd", .bound = TX_COST_MEMORY, .dtype = TX_F32, .bytes = 1e6 };
    assert_true(fabs(tx_op_seconds(&m, &e, 1) - 1e6 / 1e10) < tiny);
    e.bytes = 1e5; /* halfway, as logarithms go */
    assert_true(fabs(tx_op_seconds(&m, &e, 1) - 1e5 / 2e10) < tiny);
    e.bytes = 1e8;
    assert_true(fabs(tx_op_seconds(&m, &e, 1) - 1e8 / 1e10) < 1e-6);
    e.op = "rope"; /* nothing is known of it */
    assert_true(fabs(tx_op_seconds(&m, &e, 1) - 1e8 / (m.bandwidth * m.bandwidth_share)) < 1e-6);
    tx_work_event a = { .op = "attention_fwd",
                        .bound = TX_COST_ATTENTION,
                        .dtype = TX_F32,
                        .flops = 1e9,
                        .bytes = 1e5,
                        .m = 128,
                        .n = 112 };
    assert_true(fabs(tx_op_seconds(&m, &a, 1) - 1e9 / 8e10) < tiny);
}

static void calls_as_measured(void **state)
{
    (void)state;
    tx_machine m = measured();
    tx_span pair = { .size = 2, .in_node = 2, .nodes = 1, .sharing = 1 };
    assert_true(fabs(tx_call_seconds(&m, pair, "all-reduce", 1e6) - 1e6 / 2e9) < tiny);
    pair.sharing = 2; /* two pairs on two cores */
    assert_true(fabs(tx_call_seconds(&m, pair, "all-reduce", 1e6) - 2 * 1e6 / 2e9) < tiny);
    assert_true(tx_call_seconds(&m, pair, "broadcast", 1e6) > 0);
}

/* 16 ranks on two nodes, of 1e8 bytes each: half of them cross, and all 8 ranks of a node send theirs. */
static void rows_to_all_ranks(void **state)
{
    (void)state;
    tx_machine m = measured();
    m.node_pair = m.node_all = 1e9;
    m.net_bandwidth = 1e10;
    m.node_share = m.net_share = m.net_group_share = 1;
    m.node_latency = m.net_latency = 0;
    tx_span s = { .size = 16, .in_node = 8, .nodes = 2, .sharing = 1 };
    assert_true(fabs(tx_call_seconds(&m, s, "all-to-all", 1.6e9) - 1e8 * 15 / 16 / 1e9) < tiny);
    m.node_all = 1e12;
    assert_true(fabs(tx_call_seconds(&m, s, "all-to-all", 1.6e9) - 8 * 5e7 / 1e10) < tiny);
    s = (tx_span){ .size = 2, .in_node = 1, .nodes = 2, .sharing = 4 }; /* four pairs at the same time */
    assert_true(fabs(tx_call_seconds(&m, s, "all-to-all", 2e8) - 4 * 5e7 / 1e10) < tiny);
}

/* Two nodes of 4 ranks that compute with their cores send a sum and its result once, where one by one they would send
 * 4 times that. Pairs of ranks of two nodes have nobody to save it for. */
static void sums_go_host_by_host(void **state)
{
    (void)state;
    const double bytes = 64 << 20, chunk = 1 << 20;
    tx_machine m = measured();
    m.cores = 4;
    m.net_bandwidth = 1.25e7;
    m.node_share = m.net_share = 1;
    m.node_latency = m.net_latency = 0;
    tx_span s = { .size = 8, .in_node = 4, .nodes = 2, .sharing = 1 };
    assert_true(fabs(tx_call_seconds(&m, s, "all-reduce", bytes) - (bytes + chunk) / 1.25e7) < tiny);
    assert_true(fabs(tx_typed_call_seconds(&m, s, "all-reduce", TX_BF16, bytes) - (2 * bytes + chunk) / 1.25e7) < tiny);
    assert_true(fabs(tx_call_seconds(&m, s, "all-gather", bytes) - bytes / 2 / 1.25e7) < tiny);
    assert_true(fabs(tx_call_seconds(&m, s, "all-reduce", 4096) - 4 * 4096 / 1.25e7) < tiny);
    s = (tx_span){ .size = 2, .in_node = 1, .nodes = 2, .sharing = 4 };
    assert_true(fabs(tx_call_seconds(&m, s, "all-reduce", bytes) - 4 * bytes / 1.25e7) < tiny);
    s = (tx_span){ .size = 12, .in_node = 4, .nodes = 3, .sharing = 1 }; /* the one between both sends both */
    assert_true(fabs(tx_call_seconds(&m, s, "all-reduce", bytes) - (2 * bytes + 3 * chunk) / 1.25e7) < tiny);
}

/* ---- a step ---- */

static tx_time predicted(const tx_machine *m, const char *flags)
{
    tx_config *cfg;
    tx_run_work w;
    tx_time t;
    char line[512];
    snprintf(line, sizeof line,
             "--num-layers 8 --hidden-size 64 --num-attention-heads 2 --seq-length 32 --max-position-embeddings 32 "
             "--micro-batch-size 2 %s",
             flags);
    ASSERT_OK(tx_config_parse_string(&cfg, "plan", line));
    ASSERT_OK(tx_run_work_make(&w, cfg, 500));
    ASSERT_OK(tx_predict(&t, &w, m));
    tx_run_work_free(&w);
    tx_config_free(cfg);
    return t;
}

static void ranks_with_cores_move_messages_themselves(void **state)
{
    (void)state;
    static const char *const flags = "--global-batch-size 4 --world-size 2";
    tx_machine m = measured();
    m.ranks_per_node = 2;
    tx_time cpu = predicted(&m, flags);
    m.cores = 0;
    tx_time gpu = predicted(&m, flags);
    assert_true(cpu.exposed[TX_GROUP_DATA] > gpu.exposed[TX_GROUP_DATA]);
    assert_true(cpu.iteration > gpu.iteration);
}

static void stages_that_wait_leave_their_core_to_others(void **state)
{
    (void)state;
    static const char *const flags = "--global-batch-size 8 --world-size 4 --pipeline-model-parallel-size 4";
    tx_machine m = measured();
    m.n_products = m.n_ops = 0;
    m.ranks_per_node = 4;
    tx_time two = predicted(&m, flags);
    m.cores = 4;
    tx_time four = predicted(&m, flags);
    assert_true(two.iteration > four.iteration);
    /* four stages wait for 3/7 of their schedule: half the cores do not take twice as long */
    assert_true(two.iteration < 1.6 * four.iteration);
    assert_true(two.bubble < 0.2 * two.iteration);
}

/* Offloaded state lies where all else does, unless there is a GPU, to which it is far. */
static void without_gpus_nothing_is_moved_to_the_host(void **state)
{
    (void)state;
    static const char *const flags = "--global-batch-size 4 --world-size 2 --zero-stage 1 --offload-optimizer cpu";
    for (int cores = 2; cores >= 0; cores -= 2) {
        tx_machine m = measured();
        m.cores = cores;
        tx_time fast = predicted(&m, flags);
        m.host_memory /= 100;
        tx_time slow = predicted(&m, flags);
        assert_true(cores ? slow.update == fast.update : slow.update > 2 * fast.update);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_near_what_was_measured),
        cmocka_unit_test(what_more_ranks_than_cores_measured_does_not_count),
        cmocka_unit_test(ops_between_sizes),
        cmocka_unit_test(calls_as_measured),
        cmocka_unit_test(rows_to_all_ranks),
        cmocka_unit_test(sums_go_host_by_host),
        cmocka_unit_test(ranks_with_cores_move_messages_themselves),
        cmocka_unit_test(stages_that_wait_leave_their_core_to_others),
        cmocka_unit_test(without_gpus_nothing_is_moved_to_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
