/* labels: unit fault */
/* Machine files: those that come with triax are read, what is written is read back to the last bit, and whatever a file
 * may have wrong is told in one line that names the file, the key and what is allowed. */
#include "support.h"

#include "comm/comm.h"
#include "config/option_table.h"
#include "predict/machine_rows.h"

/* ---- files ---- */

/* A machine file, changed: `key` is a path in dots, `value` JSON, or NULL to leave the key out. */
static const char *changed(const char *key, const char *value)
{
    tx_machine m;
    ASSERT_OK(tx_machine_read(&m, "a100-80g"));
    tx_str text = { 0 };
    ASSERT_OK(tx__machine_text(&text, &m, NULL));
    tx_machine_free(&m);
    json_t *root = json_loads(text.data, 0, NULL), *at = root;
    tx_str_free(&text);
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

static void same_bits(const tx_machine *a, const tx_machine *b)
{
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
        if (memcmp((const char *)a + row->at, (const char *)b + row->at, sizeof(double))) fail_msg("%s", row->path);
    assert_string_equal(a->name, b->name);
    for (int i = 0; i < a->n_sources; i++) assert_string_equal(a->source[i], b->source[i]);
    assert_int_equal(a->n_products, b->n_products);
    assert_int_equal(a->n_ops, b->n_ops);
    for (int i = 0; i < a->n_products; i++) {
        const tx_measured_product *p = &a->product[i], *q = &b->product[i];
        assert_true(p->dtype == q->dtype && p->m == q->m && p->n == q->n && p->k == q->k);
        assert_true(p->flops_per_s == q->flops_per_s && p->ranks == q->ranks);
    }
    for (int i = 0; i < a->n_ops; i++) {
        const tx_measured_op *p = &a->op[i], *q = &b->op[i];
        assert_string_equal(p->op, q->op);
        assert_true(p->dtype == q->dtype && p->size == q->size && p->per_s == q->per_s && p->ranks == q->ranks);
        assert_true(p->head == q->head);
    }
}

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
        tx_machine back; /* fitting changes numbers and nothing else of a file */
        ASSERT_OK(tx_machine_write(&m, in_scratch("a.json"), NULL));
        ASSERT_OK(tx_machine_read(&back, in_scratch("a.json")));
        same_bits(&m, &back);
        assert_int_equal(m.n_sources, back.n_sources);
        ASSERT_OK(tx_machine_write(&back, in_scratch("b.json"), NULL));
        assert_same_file(in_scratch("a.json"), in_scratch("b.json"));
        tx_machine_free(&m);
        tx_machine_free(&back);
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

/* ---- what is wrong ---- */

static void refuses(const char *path, const char *part)
{
    tx_machine m;
    char whole[400];
    ASSERT_FAILS(tx_machine_read(&m, path), TX_ERR_FORMAT, part);
    snprintf(whole, sizeof whole, "%s: %s", path, part);
    assert_string_equal(tx_last_error(), whole);
    tx_machine_free(&m);
}

static void a_wrong_value_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says; /* value NULL: left out */
    } row[] = {
        { "memory.gib", NULL,
          "\"memory.gib\" is missing; it takes a number from 0.001 to 1e+06: Memory of a rank, in GiB." },
        { "node", NULL,
          "\"node.pair_gb_per_s\" is missing; it takes a number from 0.001 to 1e+06: What two ranks of a node send "
          "each "
          "other, one way." },
        { "name", NULL, "\"name\" is missing; it takes a name for people, as \"a100-80g\"" },
        { "memory.gib", "-80", "\"memory.gib\" is -80; it takes a number from 0.001 to 1e+06" },
        { "memory.gib", "0", "\"memory.gib\" is 0; it takes a number from 0.001 to 1e+06" },
        { "memory.share", "1.25", "\"memory.share\" is 1.25; it takes a number from 0.01 to 1.2" },
        { "memory.gib", "\"80\"", "\"memory.gib\" is \"80\"; it takes a number from 0.001 to 1e+06" },
        { "memory.gib", "null", "\"memory.gib\" is null; it takes a number from 0.001 to 1e+06" },
        { "matrix.bf16.peak_tflops", "[312, 312]",
          "\"matrix.bf16.peak_tflops\" is [312,312]; it takes a number from 1e-06 to 1e+06" },
        { "ranks_per_node", "7.5", "\"ranks_per_node\" is 7.5; it takes a whole number from 1 to 4096" },
        { "matrix.units", "0", "\"matrix.units\" is 0; it takes a whole number from 1 to 100000" },
        { "matrix.bf16", "312", "\"matrix.bf16\" is 312; it takes an object { ... }" },
        { "memory.gb", "80", "unknown key \"memory.gb\"; did you mean \"memory.gib\"?" },
        { "memory.gb_per_sec", "80", "unknown key \"memory.gb_per_sec\"; did you mean \"memory.gb_per_s\"?" },
        { "memroy", "{}", "unknown key \"memroy\"; did you mean \"memory\"?" },
        { "matrix.fp8", "{}", "unknown key \"matrix.fp8\"; docs/formats/machine.md lists the keys" },
        { "peak_tflops", "1", "unknown key \"peak_tflops\"; did you mean \"matrix.fp32.peak_tflops\"?" },
        { "source", "[]", "unknown key \"source\"; did you mean \"sources\"?" },
        { "watts", "400", "unknown key \"watts\"; docs/formats/machine.md lists the keys" },
        { "name", "7", "\"name\" is 7; it takes a text of 1 to 63 bytes without control characters" },
        { "name", "\"\"", "\"name\" is \"\"; it takes a text of 1 to 63 bytes without control characters" },
        { "name", "\"a\\nb\"", "\"name\" is \"a\\nb\"; it takes a text of 1 to 63 bytes without control characters" },
        { "sources", "\"a\"", "\"sources\" is \"a\"; it takes an array of texts" },
        { "sources", "[\"a\", 1]", "\"sources[1]\" is 1; it takes a text" },
        { "measured", "[]", "\"measured\" is []; it takes an object { ... }" },
        { "measured.product", "[]", "unknown key \"measured.product\"; did you mean \"measured.products\"?" },
        { "measured.products", "{}", "\"measured.products\" is {}; it takes an array" },
        { "measured.products", "[7]", "\"measured.products[0]\" is 7; it takes an object { \"dtype\": ... }" },
        { "measured.ops", "7", "\"measured.ops\" is 7; it takes an array" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) refuses(changed(row[i].key, row[i].value), row[i].says);
}

#define ENTRY "\"dtype\": \"bf16\", \"m\": 8, \"n\": 8, \"k\": 8, \"tflops\": 1, \"ranks\": 1"
#define OP    "\"op\": \"add\", \"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": 2, \"ranks\": 2"

static void a_wrong_entry_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *list, *entry, *says;
    } row[] = {
        { "products", "\"dtype\": \"bf16\", \"m\": 8, \"n\": 8, \"tflops\": 1, \"ranks\": 1",
          "\"measured.products[1].k\" is missing; it takes a whole number from 1 to 1e+09: The inner dimension." },
        { "products", "\"m\": 8, \"n\": 8, \"k\": 8, \"tflops\": 1, \"ranks\": 1",
          "\"measured.products[1].dtype\" is missing; it takes fp32, fp64, bf16, fp16, int32, int64" },
        { "products", "\"dtype\": \"bf61\", \"m\": 8, \"n\": 8, \"k\": 8, \"tflops\": 1, \"ranks\": 1",
          "\"measured.products[1].dtype\" is \"bf61\"; did you mean \"bf16\"?" },
        { "products", "\"dtype\": \"float\", \"m\": 8, \"n\": 8, \"k\": 8, \"tflops\": 1, \"ranks\": 1",
          "\"measured.products[1].dtype\" is \"float\"; it takes fp32, fp64, bf16, fp16, int32, int64" },
        { "products", "\"dtype\": \"bf16\", \"m\": 8.5, \"n\": 8, \"k\": 8, \"tflops\": 1, \"ranks\": 1",
          "\"measured.products[1].m\" is 8.5; it takes a whole number from 1 to 1e+09" },
        { "products", ENTRY ", \"tflop\": 1", "unknown key \"measured.products[1].tflop\"; did you mean \"tflops\"?" },
        { "products", ENTRY ", \"seconds\": 1",
          "unknown key \"measured.products[1].seconds\"; an entry has dtype, m, n, k, tflops, ranks" },
        { "ops", "\"op\": \"ad\", \"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": 2, \"ranks\": 2",
          "\"measured.ops[1].op\" is \"ad\"; did you mean \"add\"?" },
        { "ops", "\"op\": \"convolution\", \"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": 2, \"ranks\": 2",
          "\"measured.ops[1].op\" is \"convolution\"; it takes one of those in docs/formats/machine.md" },
        { "ops", "\"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": 2, \"ranks\": 2",
          "\"measured.ops[1].op\" is missing; it takes one of those in docs/formats/machine.md" },
        { "ops", "\"op\": \"attention_fwd\", \"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": 2, \"ranks\": 2",
          "unknown key \"measured.ops[1].gb_per_s\"; an entry has op, dtype, size, head, tflops, ranks" },
        { "ops", "\"op\": \"all-reduce\", \"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": -2, \"ranks\": 2",
          "\"measured.ops[1].gb_per_s\" is -2; it takes a number from 1e-06 to 1e+06" },
        { "ops", "\"op\": \"add\", \"dtype\": \"fp32\", \"size\": 64, \"gb_per_s\": 2, \"ranks\": 1.5",
          "\"measured.ops[1].ranks\" is 1.5; it takes a whole number from 1 to 4096" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char key[40], value[400];
        snprintf(key, sizeof key, "measured.%s", row[i].list);
        snprintf(value, sizeof value, "[{%s}, {%s}]", strcmp(row[i].list, "ops") ? ENTRY : OP, row[i].entry);
        refuses(changed(key, value), row[i].says);
    }
}

static void a_wrong_text_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } row[] = {
        { "", "line 1, column 1: it is empty" },
        { "[]", "holds an array, not an object { ... }" },
        { "name: x", "line 1, column 1: JSON begins with { or [, this does not" },
        { "{\"memory\": {\"gib\": 80,\n\"gib\": 40}}", "line 2, column 5: the key \"memory.gib\" is given twice" },
        { "{\"memory\": {\"gib\": 80 \"share\": 1}}", "line 1, column 22: a comma is missing before \"share\"" },
        { "{\"memory\": {\"gib\": 1e999}}", "line 1, column 24: real number overflow near '1e999'" },
        { "{\"memory.gib\": 80}", "the key \"memory.gib\" has a dot; write { \"a\": { \"b\": ... } } for a.b" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        refuses(write_text(in_scratch("m.json"), row[i].text), row[i].says);
}

static void an_unknown_name_lists_those_there_are(void **state)
{
    (void)state;
    tx_machine m;
    ASSERT_FAILS(tx_machine_read(&m, "h10"), TX_ERR_NOTFOUND, "did you mean \"h100\"? There are a100-40g, ");
    ASSERT_FAILS(tx_machine_read(&m, "abacus"), TX_ERR_NOTFOUND,
                 "abacus: no machine and no file has this name; there are a100-40g, a100-80g, h100, h200,");
    tx_machine_free(&m);
    ASSERT_FAILS(tx_machine_read(&m, scratch_dir), TX_ERR_IO, "is a directory");
    tx_machine_free(&m);
    /* those that the option names */
    const tx_option *o = tx__option_find(tx_command_find("plan"), "machine", strlen("machine"), NULL);
    assert_non_null(o);
    for (int i = 0; tx_machine_names[i]; i++) ASSERT_CONTAINS(o->text, tx_machine_names[i]);
}

/* ---- what is written ---- */

/* Numbers with all digits, of many sizes. */
static double next_number(uint64_t *x, const tx__machine_row *row)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    double share = (double)(*x >> 11) * 0x1p-53,
           v = row->lo > 0 ? row->lo * pow(row->hi / row->lo, share) : row->hi * share;
    return row->whole ? floor(v) : v;
}

static void what_is_written_is_read_to_the_last_bit(void **state)
{
    (void)state;
    uint64_t x = sample_seed();
    tx_str text = { 0 };
    for (int i = 0; i < 50; i++) {
        tx_machine m, back;
        double product_rate = next_number(&x, tx__machine_rows), op_rate = next_number(&x, tx__machine_rows);
        text.len = 0;
        ASSERT_OK(tx_str_printf(
            &text,
            "{\"products\": [{%s}, {\"dtype\": \"fp32\", \"m\": 1, \"n\": 50304, \"k\": 1e9, "
            "\"tflops\": %.17g, \"ranks\": 4}], \"ops\": [{%s}, {\"op\": \"attention_bwd\", \"dtype\": \"fp16\", "
            "\"size\": 1024, \"head\": 80, \"tflops\": %.17g, \"ranks\": 1}]}",
            ENTRY, product_rate, OP, op_rate));
        ASSERT_OK(tx_machine_read(&m, changed("measured", text.data)));
        for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
            *tx_machine_number(&m, row->path) = next_number(&x, row) * row->unit;
        ASSERT_OK(tx_machine_write(&m, in_scratch("a.json"), "one \"more\"\n\xc3\xa9"));
        ASSERT_OK(tx_machine_read(&back, in_scratch("a.json")));
        assert_int_equal(m.n_products, 2);
        assert_int_equal(m.n_ops, 2);
        same_bits(&m, &back);
        assert_int_equal(back.n_sources, m.n_sources + 1);
        assert_string_equal(back.source[m.n_sources], "one \"more\"\n\xc3\xa9");
        tx_machine_free(&m);
        tx_machine_free(&back);
    }
    tx_str_free(&text);
}

static void allocations_may_fail(void **state)
{
    (void)state;
    const char *path = changed("measured", "{\"products\": [{" ENTRY "}], \"ops\": [{" OP "}]}");
    tx_status st = TX_ERR_NOMEM;
    for (int n = 0; st == TX_ERR_NOMEM; n++) {
        tx_machine m;
        allocation_fails_at(n);
        st = tx_machine_read(&m, path);
        if (!st) st = tx_machine_write(&m, in_scratch("written"), NULL);
        tx_machine_free(&m);
        allocations_succeed();
        assert_true(n < 1000);
    }
    assert_int_equal(st, TX_OK);
}

/* ---- the page ---- */

static void the_page_is_current(void **state)
{
    (void)state;
    tx_str made = { 0 };
    ASSERT_OK(tx__machine_markdown(&made));
    write_file(in_scratch("machine.md"), made.data, made.len);
    assert_same_file(data_path("../../docs/formats/machine.md"), in_scratch("machine.md"));
    /* its example is the file that it says */
    char *example = strstr(made.data, "    {\n");
    assert_non_null(example);
    tx_machine m;
    ASSERT_OK(tx_machine_read(&m, write_text(in_scratch("example"), example)));
    assert_int_equal(m.n_products, 1);
    assert_int_equal(m.n_ops, 2);
    ASSERT_NEAR(m.op[1].per_s, 70e12, 0, "attention's rate");
    tx_machine_free(&m);
    tx_str_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(those_that_come_with_triax_are_read),
        SCRATCH_TEST(units_are_si),
        SCRATCH_TEST(what_is_left_out_has_its_other_value),
        SCRATCH_TEST(a_wrong_value_is_told),
        SCRATCH_TEST(a_wrong_entry_is_told),
        SCRATCH_TEST(a_wrong_text_is_told),
        SCRATCH_TEST(an_unknown_name_lists_those_there_are),
        SCRATCH_TEST(what_is_written_is_read_to_the_last_bit),
        SCRATCH_TEST(allocations_may_fail),
        SCRATCH_TEST(the_page_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
