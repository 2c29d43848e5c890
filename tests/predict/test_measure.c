/* labels: unit parallel extended */
/* Measuring a machine: rates from profiles, that a run's dry work finds all of its ops in what was measured, calls
 * between ranks, and a whole machine file with tiny sizes. */
#include "support.h"

#include "backend/gpu_module.h"
#include "comm/comm.h"
#include "predict/measure.h"
#include "predict/work.h"

static const tx_step_model gpt = { 2, 32, 2, 16, 2, 64, 1, "--log-num-zeros-in-grad --log-params-norm", true, true };
static const tx_step_model llama = {
    1,    32,  4, 16, 1, 64, 2, "--swiglu --normalization rmsnorm --use-rotary-position-embeddings --optimizer sgd",
    true, true
};

static int setup(void **state)
{
    const char *module = getenv("TX_GPU_MODULE_32"); /* there where the build has one */
    if (module && strcmp(module, "none")) setenv("TX_GPU_MODULE", module, 1);
    return scratch_setup(state);
}

/* ---- rates ---- */

static void add(tx_profile *p, const char *part, double seconds, tx_cost cost, const char *op)
{
    const tx_model_place at = { .layer = 1, .part = part };
    ASSERT_OK(tx_profile_add(p, op, &at, 0, seconds, &cost));
}

static void a_rate_is_by_the_median_of_each_part(void **state)
{
    (void)state;
    tx_profile p = { 0 };
    tx_op_times t = { 0 };
    tx_machine m = { 0 };
    const tx_cost copy = { TX_COST_MEMORY, 0, 100, { .dtype = TX_BF16, .n_dims = 1, .dim = { 50 } } };
    const tx_cost product = { TX_COST_PRODUCT, 48, 7, { .dtype = TX_F32, .n_dims = 3, .dim = { 2, 3, 4 } } };
    const tx_cost wait = { .kind = TX_COST_WAITING };
    const tx_cost heads = { TX_COST_ATTENTION, 600, 9, { .dtype = TX_F32, .n_dims = 5, .dim = { 16, 2, 1, 2, 64 } } };
    static const double slow[] = { 2, 1000, 2 }, quick[] = { 1, 1, 0.001 }; /* one of each is no such time */
    for (int i = 0; i < 3; i++) add(&p, "a", slow[i], copy, "copy");
    for (int i = 0; i < 3; i++) add(&p, "b", quick[i], copy, "copy");
    add(&p, "b", 3, product, "gemm");
    add(&p, "b", 5, wait, "waiting");
    add(&p, "b", 2, heads, "attention_fwd");
    ASSERT_OK(tx_op_times_add(&t, &p));
    ASSERT_OK(tx_op_times_rates(&t, 2, &m));
    assert_int_equal(m.n_products, 1);
    assert_int_equal(m.n_ops, 2);
    const tx_measured_op *fwd = &m.op[0], *moved = &m.op[1];
    assert_string_equal(moved->op, "copy");
    assert_true(moved->dtype == TX_BF16 && moved->ranks == 2);
    ASSERT_NEAR(moved->size, 100, 0, "bytes");
    ASSERT_NEAR(moved->per_s, 600.0 / 9, 1e-9, "600 bytes in 3 times 2 s and 3 times 1 s");
    assert_string_equal(fwd->op, "attention_fwd");
    ASSERT_NEAR(fwd->size, 16, 0, "positions");
    ASSERT_NEAR(fwd->head, 64, 0, "head dimension");
    ASSERT_NEAR(fwd->per_s, 300, 0, "FLOP/s");
    assert_true(m.product->m == 2 && m.product->n == 3 && m.product->k == 4 && m.product->ranks == 2);
    ASSERT_NEAR(m.product->flops_per_s, 16, 0, "FLOP/s");
    tx_profile_free(&p);
    tx_op_times_free(&t);
    tx_machine_free(&m);
}

/* ---- steps ---- */

static bool is_measured(const tx_machine *m, const tx_work_event *e, int n_ranks)
{
    for (int i = 0; e->bound == TX_COST_PRODUCT && i < m->n_products; i++) {
        const tx_measured_product *p = &m->product[i];
        if (p->dtype == e->dtype && p->m == e->m && p->n == e->n && p->k == e->k && p->ranks == n_ranks) return true;
    }
    for (int i = 0; e->bound != TX_COST_PRODUCT && i < m->n_ops; i++) {
        const tx_measured_op *o = &m->op[i];
        if (strcmp(o->op, e->op) || o->dtype != e->dtype || o->ranks != n_ranks) continue;
        if (e->bound == TX_COST_MEMORY ? o->size == e->bytes : o->size == e->m && o->head == e->n) return true;
    }
    return false;
}

/* What a step of the model does by its dry run is what was measured of it, by the same names and sizes. */
static void check_steps(const tx__step_job *job)
{
    tx_op_times times = { 0 };
    tx__step_result result;
    tx_machine m = { 0 };
    tx_run_work w;
    tx_config *cfg;
    ASSERT_OK(tx__measure_steps(&times, &result, job));
    assert_true(result.iteration > 0 && result.ops > 0 && result.n_ops > 20);
    ASSERT_OK(tx_op_times_rates(&times, job->n_ranks, &m));
    ASSERT_OK(tx__step_config(&cfg, job));
    ASSERT_OK(tx_run_work_make(&w, cfg, job->model->vocab));
    int n = 0;
    for (int64_t i = 0; i < w.stage[0].n_events; i++) {
        const tx_work_event *e = &w.stage[0].event[i];
        if (e->kind != TX_TRACE_OP || e->bytes <= 0) continue;
        if (!is_measured(&m, e, job->n_ranks))
            fail_msg("%s %s of %.0f bytes, %.0f x %.0f x %.0f, is not measured", e->op, tx_dtype_name(e->dtype),
                     e->bytes, e->m, e->n, e->k);
        n++;
    }
    assert_true(n > 20);
    tx_run_work_free(&w);
    tx_config_free(cfg);
    tx_machine_free(&m);
    tx_op_times_free(&times);
}

static void all_that_a_step_does_is_measured(void **state)
{
    (void)state;
    check_steps(&(tx__step_job){ &gpt, "cpu", TX_F32, 1, 2, true, 2, 0 });
    check_steps(&(tx__step_job){ &llama, "cpu", TX_BF16, 1, 1, false, 2, 0 });
    check_steps(&(tx__step_job){ &gpt, "cpu", TX_F16, 1, 1, false, 2, 0 });
}

static void several_ranks_measure_at_once(void **state)
{
    (void)state;
    check_steps(&(tx__step_job){ &gpt, "cpu", TX_BF16, 2, 1, true, 2, 0 });
    check_steps(&(tx__step_job){ &llama, "cpu", TX_F32, 4, 1, false, 2, 0 });
}

static void a_gpu_is_measured_by_its_own_ops(void **state)
{
    (void)state;
    if (strcmp(tx_backend_auto(), "gpu")) skip();
    check_steps(&(tx__step_job){ &gpt, "gpu", TX_BF16, 1, 1, true, 2, 0 });
}

static void a_model_that_cannot_be_is_refused(void **state)
{
    (void)state;
    tx_op_times times = { 0 };
    tx__step_result result;
    tx_step_model odd = gpt;
    odd.heads = 3;
    ASSERT_FAILS_LINES(tx__measure_steps(&times, &result, &(tx__step_job){ &odd, "cpu", TX_F32, 1, 1, false, 2, 0 }),
                       TX_ERR_ARG, "hidden-size");
    tx_op_times_free(&times);
}

/* ---- calls ---- */

static void every_call_is_measured_at_every_size(void **state)
{
    (void)state;
    static const double bytes[] = { 64, 4096 };
    for (int n = 2; n <= 4; n += 2) {
        tx_machine m = { 0 };
        ASSERT_OK(tx__measure_calls(&m, &(tx__call_job){ "cpu", n, 1, bytes, 2, 0 }));
        assert_int_equal(m.n_ops, 2 * 2 * TX_N_COMM_OPS);
        for (int op = 0; op < TX_N_COMM_OPS; op++)
            for (int i = 0; i < 4; i++) {
                const tx_measured_op *e = &m.op[i * TX_N_COMM_OPS + op];
                assert_string_equal(e->op, tx_comm_op_names[op]);
                assert_true(e->per_s > 0 && isfinite(e->per_s) && e->ranks == n && e->head == 0);
                ASSERT_NEAR(e->size, bytes[i % 2], 0, "bytes");
                assert_int_equal(e->dtype, i < 2 ? TX_F32 : TX_BF16);
            }
        tx_machine_free(&m);
    }
    double seconds = 0;
    ASSERT_OK(tx__measure_barrier(&seconds, 2));
    assert_true(seconds > 0);
}

/* ---- all of it ---- */

static void check_machine(const char *device)
{
    static const double bytes[] = { 256 };
    const tx_step_model models[] = { gpt, llama };
    const tx_measure_sizes tiny = { models, bytes, 2, 1, 0, 1 << 20 };
    char flags[64];
    tx_config *cfg;
    tx_machine m, again;
    tx_str source = { 0 };
    snprintf(flags, sizeof flags, "--device %s --threads 2", device);
    ASSERT_OK(tx_config_parse_string(&cfg, "doctor", flags));
    ASSERT_OK(tx_machine_measure(&m, &source, cfg, scratch_dir, &tiny));
    assert_n_files(scratch_dir, 0); /* what storage was measured with is gone */
    snprintf(m.name, sizeof m.name, "this");
    ASSERT_OK(tx_machine_write(&m, in_scratch("m.json"), source.data));
    ASSERT_OK(tx_machine_read(&again, in_scratch("m.json"))); /* so all numbers are within their bounds */
    assert_int_equal(again.n_products, m.n_products);
    assert_int_equal(again.n_ops, m.n_ops);
    ASSERT_NEAR(again.op[again.n_ops - 1].per_s, m.op[m.n_ops - 1].per_s, 1e-9 * m.op[m.n_ops - 1].per_s, "a rate");
    tx_machine_free(&again);
    tx_machine_free(&m);
    tx_str_free(&source);
    tx_config_free(cfg);
    ASSERT_OK(tx_remove_tree(in_scratch("m.json")));
}

static void a_whole_file_can_be_read_back(void **state)
{
    (void)state;
    check_machine("cpu");
    if (!strcmp(tx_backend_auto(), "gpu")) check_machine("gpu");
}

static void a_folder_that_is_not_there_is_told_before_anything_is_measured(void **state)
{
    (void)state;
    tx_config *cfg;
    tx_machine m;
    tx_str source = { 0 };
    ASSERT_OK(tx_config_parse_string(&cfg, "doctor", "--device cpu --threads 1"));
    ASSERT_FAILS(tx_machine_measure(&m, &source, cfg, "/nowhere/at/all", NULL), TX_ERR_IO, "/nowhere/at");
    assert_int_equal(m.n_ops, 0);
    tx_machine_free(&m);
    tx_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_by_the_median_of_each_part),
        cmocka_unit_test(all_that_a_step_does_is_measured),
        cmocka_unit_test(several_ranks_measure_at_once),
        cmocka_unit_test(a_gpu_is_measured_by_its_own_ops),
        cmocka_unit_test(a_model_that_cannot_be_is_refused),
        cmocka_unit_test(every_call_is_measured_at_every_size),
        cmocka_unit_test(a_whole_file_can_be_read_back),
        cmocka_unit_test(a_folder_that_is_not_there_is_told_before_anything_is_measured),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
