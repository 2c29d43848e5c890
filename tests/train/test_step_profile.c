/* labels: unit fault */
/* The trace of a profile, read back as JSON; tests/cli/test_profile.sh has the rest. */
#include "support.h"

#include "train/step_profile.h"

static tx_step_profile profile;
static double start[2] = { 100, 101 }, seconds[2] = { 0.5, 0.25 };

static int setup(void **state)
{
    profile = (tx_step_profile){ .first = 3, .last = 4, .n = 2, .start = start, .seconds = seconds };
    tx_cost product = { TX_COST_PRODUCT, 3e9, 10, { .dtype = TX_BF16, .n_dims = 3, .dim = { 2, 3, 4 } } };
    tx_cost memory = { TX_COST_MEMORY, 0, 1e9, { .dtype = TX_F32, .n_dims = 1, .dim = { 7 } } };
    tx_model_place hostile = { .layer = 2, .part = "a\"b\\\n\x01", .backward = true }, none = { 0 };
    ASSERT_OK(tx_profile_add(&profile.ops, "gemm", &hostile, 100.1, 0.25, &product));
    ASSERT_OK(tx_profile_add(&profile.ops, "fill", &none, 101.000000001, 0.5, &memory));
    ASSERT_OK(tx_profile_add(&profile.ops, "cast", &none, 101.2, 0, &memory)); /* a clock that did not move */
    return scratch_setup(state);
}

static int teardown(void **state)
{
    tx_profile_free(&profile.ops);
    return scratch_teardown(state);
}

static const char *text(const json_t *event, const char *name)
{
    return json_string_value(json_object_get(event, name));
}

static double number(const json_t *event, const char *name)
{
    return json_number_value(json_object_get(event, name));
}

static void the_trace_is_json(void **state)
{
    (void)state;
    const char *path = in_scratch("trace.json");
    ASSERT_OK(tx__profile_trace_write(&profile, path));
    assert_n_files(scratch_dir, 1);
    json_t *root = load_json(path), *events = json_object_get(root, "traceEvents");
    assert_int_equal(json_array_size(events), 5);
    for (size_t i = 0; i < 5; i++) assert_string_equal(text(json_array_get(events, i), "ph"), "X");
    const json_t *second = json_array_get(events, 1), *gemm = json_array_get(events, 2);
    const json_t *fill = json_array_get(events, 3), *cast = json_array_get(events, 4);
    assert_string_equal(text(second, "name"), "iteration 4");
    ASSERT_NEAR(number(second, "ts"), 1e6, 0, "ts");
    ASSERT_NEAR(number(second, "dur"), 0.25e6, 0, "dur");
    assert_string_equal(text(gemm, "name"), "gemm");
    assert_string_equal(text(gemm, "cat"), "product");
    ASSERT_NEAR(number(gemm, "ts"), 0.1e6, 1e-6, "ts");
    const json_t *args = json_object_get(gemm, "args");
    assert_string_equal(text(args, "part"), "a\"b\\\n\x01");
    assert_string_equal(text(args, "pass"), "backward");
    assert_string_equal(text(args, "shape"), "bf16[2,3,4]");
    ASSERT_NEAR(number(args, "layer"), 2, 0, "layer");
    ASSERT_NEAR(number(args, "GFLOP/s"), 12, 0, "GFLOP/s");
    ASSERT_NEAR(number(fill, "ts"), 1000000.001, 1e-4, "a nanosecond of seconds");
    args = json_object_get(fill, "args");
    ASSERT_NEAR(number(args, "GB/s"), 2, 0, "GB/s");
    assert_string_equal(text(args, "part"), "");
    assert_null(json_object_get(json_object_get(cast, "args"), "GB/s"));
    json_decref(root);
}

static void a_trace_that_cannot_be_written_leaves_nothing(void **state)
{
    (void)state;
    ASSERT_FAILS(tx__profile_trace_write(&profile, in_scratch("none/trace.json")), TX_ERR_NOTFOUND, "none/trace.json");
    assert_n_files(scratch_dir, 0);
    allocation_fails_at(0);
    tx_status st = tx__profile_trace_write(&profile, in_scratch("trace.json"));
    allocations_succeed();
    assert_int_equal(st, TX_ERR_NOMEM);
    assert_n_files(scratch_dir, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_trace_is_json, setup, teardown),
        cmocka_unit_test_setup_teardown(a_trace_that_cannot_be_written_leaves_nothing, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
