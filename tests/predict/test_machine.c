/* labels: unit */
/* Machine files: those that come with triax are read, what is written is read back to the last bit, and whatever a file
 * may have wrong is told in one line that names the file, the key and what is allowed. */
#include "support.h"

#include "predict/machine_rows.h"

/* ---- files ---- */

/* A machine file, changed: `key` is a path in dots, `value` JSON, or NULL to leave the key out. */
static const char *changed(const char *key, const char *value)
{
    tx_machine m;
    ASSERT_OK(tx_machine_read(&m, "a100-80g"));
    ASSERT_OK(tx_machine_write(&m, in_scratch("m.json"), NULL));
    tx_machine_free(&m);
    json_t *root = load_json(in_scratch("m.json")), *at = root;
    char path[128], *name = path;
    snprintf(path, sizeof path, "%s", key);
    for (char *dot; (dot = strchr(name, '.')); name = dot + 1) {
        *dot = 0;
        if (!json_object_get(at, name)) json_object_set_new(at, name, json_object());
        at = json_object_get(at, name);
    }
    if (value)
        json_object_set_new(at, name, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(at, name);
    assert_int_equal(json_dump_file(root, in_scratch("m.json"), 0), 0);
    json_decref(root);
    return in_scratch("m.json");
}

/* ---- what is right ---- */

static void those_that_come_with_triax_are_read(void **state)
{
    (void)state;
    static const char *const promised[] = { "a100-40g",   "a100-80g", "h100",     "h200",    "mi210",
                                            "mi250x-gcd", "mi300x",   "pvc-tile", "v100-32g" };
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
        tx_machine m;
        ASSERT_OK(tx_machine_read(&m, promised[i]));
        assert_string_equal(m.name, promised[i]);
        assert_string_equal(tx_machine_names[i], promised[i]);
        assert_true(m.n_sources > 1);
        assert_true(m.fp16_peak >= m.bf16_peak && m.bf16_peak >= m.fp32_peak);
        assert_true(m.node_all >= m.node_pair);
        /* as it is in the repository: fitting changes numbers and nothing else of a file */
        ASSERT_OK(tx_machine_write(&m, in_scratch("written"), NULL));
        tx_machine_free(&m);
        char stored[128];
        snprintf(stored, sizeof stored, "../../machines/%s.json", promised[i]);
        assert_same_file(data_path(stored), in_scratch("written"));
    }
    assert_null(tx_machine_names[sizeof promised / sizeof *promised]);
}

static void units_are_si(void **state)
{
    (void)state;
    tx_machine m;
    ASSERT_OK(tx_machine_read(&m, changed("op_us", "3")));
    ASSERT_NEAR(m.memory, 80 * 1073741824.0, 0, "memory");
    ASSERT_NEAR(m.bf16_peak, 312e12, 0, "bf16");
    ASSERT_NEAR(m.op_seconds, 3e-6, 0, "time of an op");
    ASSERT_NEAR(m.ranks_per_node, 8, 0, "ranks a node");
    assert_ptr_equal(tx_machine_number(&m, "matrix.bf16.peak_tflops"), &m.bf16_peak);
    assert_null(tx_machine_number(&m, "matrix.bf16"));
    tx_machine_free(&m);
}

static void what_is_left_out_has_its_other_value(void **state)
{
    (void)state;
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) {
        tx_machine m;
        if (isnan(row->otherwise)) continue;
        ASSERT_OK(tx_machine_read(&m, changed(row->path, NULL)));
        ASSERT_NEAR(*tx_machine_number(&m, row->path), row->otherwise * row->unit, 0, row->path);
        tx_machine_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(those_that_come_with_triax_are_read),
        SCRATCH_TEST(units_are_si),
        SCRATCH_TEST(what_is_left_out_has_its_other_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
