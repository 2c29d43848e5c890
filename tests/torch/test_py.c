/* labels: unit */
/* test_py.c - values: making them, looking into them, JSON. */
#include "support.h"

#include "torch/pt.h"

static tx_py_arena *arena;

static int arena_setup(void **state)
{
    (void)state;
    return tx_py_arena_create(&arena) ? -1 : 0;
}

static int arena_teardown(void **state)
{
    (void)state;
    tx_py_arena_destroy(arena);
    return 0;
}

static void makes_and_finds(void **state)
{
    (void)state;
    int64_t i;
    double x;
    tx_py *d = tx_py_dict(arena), *list = tx_py_list(arena);
    for (int k = 0; k < 100; k++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", k);
        d = tx_py_set(arena, d, key, tx_py_of_int(arena, k));
        d = tx_py_set_int(arena, d, k, tx_py_of_float(arena, k + 0.5));
        list = tx_py_append(arena, list, tx_py_of_bool(arena, k % 2));
    }
    d = tx_py_set(arena, d, "k7", tx_py_of_str(arena, "seven"));
    d = tx_py_set_int(arena, d, 8, list);
    assert_int_equal(tx_py_len(d), 200);
    assert_int_equal(tx_py_len(list), 100);
    assert_string_equal(tx_py_str(tx_py_get(d, "k7")), "seven");
    assert_true(tx_py_int(tx_py_get(d, "k99"), &i) && i == 99);
    assert_true(tx_py_float(tx_py_get(d, "k99"), &x) && x == 99);
    assert_true(tx_py_true(tx_py_item(list, 99)) && !tx_py_true(tx_py_item(list, 98)));
    assert_true(tx_py_int(tx_py_item(list, 99), &i) && i == 1);
    assert_null(tx_py_item(list, 100));
    assert_null(tx_py_get(d, "k100"));
    tx_py *o = tx_py_object(arena, "argparse", "Namespace", tx_py_tuple(arena), d);
    assert_true(tx_py_int(tx_py_get(o, "k3"), &i) && i == 3);
    assert_true(tx_py_is_global(o->as.object.type, "argparse", "Namespace"));
    tx_py *outer = tx_py_set(arena, tx_py_dict(arena), "o", o);
    assert_true(tx_py_int(tx_py_at(outer, "o.k3"), &i) && i == 3);
    assert_null(tx_py_at(outer, "o.k3.x"));
}

static void finds_nothing_in_nothing(void **state)
{
    (void)state;
    int64_t i;
    double x;
    const tx_py *kinds[] = { NULL, tx_py_none(arena), tx_py_of_str(arena, "x"), tx_py_list(arena), tx_py_dict(arena) };
    for (size_t k = 0; k < 5; k++) {
        assert_null(tx_py_get(kinds[k], "a"));
        assert_null(tx_py_at(kinds[k], "a.b"));
        assert_int_equal(tx_py_len(kinds[k]), 0);
        assert_null(tx_py_item(kinds[k], 0));
        assert_null(tx_py_tensor(kinds[k]));
        assert_true(k == 2 || !tx_py_str(kinds[k]));
        assert_false(tx_py_int(kinds[k], &i) || tx_py_float(kinds[k], &x) || tx_py_true(kinds[k]));
        assert_false(tx_py_is_global(kinds[k], "a", "b"));
    }
}

/* A tensor of one number is that number, of any type. */
static void takes_numbers_of_tensors(void **state)
{
    (void)state;
    static const unsigned char bytes[][8] = {
        [TX_PT_F64] = { 0, 0, 0, 0, 0, 0, 0xF8, 0xBF },
        [TX_PT_F32] = { 0, 0, 0xC0, 0xBF },
        [TX_PT_F16] = { 0, 0xBE },
        [TX_PT_BF16] = { 0xC0, 0xBF },
        [TX_PT_I64] = { 0xFE, 255, 255, 255, 255, 255, 255, 255 },
        [TX_PT_I32] = { 0xFE, 255, 255, 255 },
        [TX_PT_I16] = { 0xFE, 255 },
        [TX_PT_I8] = { 0xFE },
        [TX_PT_U8] = { 0xFE },
        [TX_PT_BOOL] = { 1 },
    };
    static const double want[] = { -1.5, -1.5, -1.5, -1.5, -2, -2, -2, -2, 254, 1 };
    for (int t = 0; t < TX_PT_N_DTYPES; t++) {
        const int64_t dim[2] = { 1, 1 };
        tx_pt_storage *s = tx_py_storage(arena, (tx_pt_dtype)t, 1, NULL);
        const tx_py *v = tx_py_of_tensor(arena, s, 0, t % 3, dim);
        double x;
        int64_t i;
        assert_false(tx_py_float(v, &x)); /* nothing is at hand */
        s->data = bytes[t];
        assert_true(tx_py_float(v, &x) && x == want[t]);
        assert_int_equal(tx_py_int(v, &i), t >= TX_PT_I64);
        if (t >= TX_PT_I64) assert_true(i == (int64_t)want[t]);
    }
    const int64_t two[1] = { 2 };
    double x;
    assert_false(tx_py_float(tx_py_of_tensor(arena, tx_py_storage(arena, TX_PT_F32, 2, NULL), 0, 1, two), &x));
}

static void json_and_back(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [1, 2.5, null, true, \"x\"], \"b\": {\"c\": {}}, \"d\": []}";
    json_t *j = json_loads(text, 0, NULL);
    tx_py *v = tx_py_of_json(arena, j);
    json_t *back = tx_py_to_json(v);
    assert_true(json_equal(j, back));
    json_decref(back);
    const int64_t dim[1] = { 1 };
    v = tx_py_set(arena, v, "tensor", tx_py_of_tensor(arena, tx_py_storage(arena, TX_PT_F32, 1, NULL), 0, 1, dim));
    v = tx_py_set(arena, v, "object",
                  tx_py_object(arena, "argparse", "Namespace", tx_py_tuple(arena), tx_py_dict(arena)));
    v = tx_py_set(arena, v, "infinite", tx_py_of_float(arena, INFINITY));
    v = tx_py_set(arena, v, "class", tx_py_of_global(arena, "numpy", "dtype"));
    v = tx_py_set_int(arena, v, 3, tx_py_none(arena));
    back = tx_py_to_json(v);
    assert_true(json_equal(j, back)); /* what JSON cannot say is left out */
    json_decref(back);
    json_decref(j);
    v = tx_py_set(arena, tx_py_dict(arena), "dtype", tx_py_of_global(arena, "torch", "float16"));
    back = tx_py_to_json(v);
    assert_string_equal(json_string_value(json_object_get(back, "dtype")), "float16");
    json_decref(back);
    back = tx_py_to_json(NULL);
    assert_true(json_is_null(back));
    json_decref(back);
    assert_null(tx_py_of_json(arena, NULL));
}

/* NULL in, NULL out: one look at the root is enough. */
static void passes_nothing_on(void **state)
{
    (void)state;
    assert_null(tx_py_append(arena, NULL, tx_py_none(arena)));
    assert_null(tx_py_append(arena, tx_py_list(arena), NULL));
    assert_null(tx_py_set(arena, tx_py_dict(arena), "a", NULL));
    assert_null(tx_py_set(arena, NULL, "a", tx_py_none(arena)));
    assert_null(tx_py_set_int(arena, tx_py_dict(arena), 1, NULL));
    assert_null(tx_py_object(arena, "a", "b", NULL, NULL));
    assert_null(tx_py_of_tensor(arena, NULL, 0, 0, NULL));
    allocations_fail_from(0);
    tx_py *v = NULL; /* a block is 64 KiB, so soon there is no memory */
    for (int i = 0; i < 3000; i++) v = tx_py_of_int(arena, i);
    json_t *j = json_pack("[[i]]", 1);
    tx_py *w = tx_py_of_json(arena, j);
    allocations_succeed();
    json_decref(j);
    assert_null(v);
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(makes_and_finds, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(finds_nothing_in_nothing, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(takes_numbers_of_tensors, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(json_and_back, arena_setup, arena_teardown),
        cmocka_unit_test_setup_teardown(passes_nothing_on, arena_setup, arena_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
