/* fuzz_pt.c - a hostile .pt file. Every value and number that it claims to hold is looked at, up to a bound. */
#include "torch/pt.h"

#include "../torch/pt_i64.h"

#include "fuzz.h"

enum { MAX_VALUES = 20000, MAX_NUMBERS = 1 << 21 };

static int values_left;
static int64_t numbers_left;

static void look_at_tensor(const tx_pt *f, const tx_pt_tensor *t)
{
    int64_t n = tx_pt_numel(t), half = n / 2;
    FUZZ_CHECK(t->storage->data && t->n_dims <= TX_PT_MAX_DIMS && n >= 0);
    if (n > numbers_left) return;
    numbers_left -= n;
    void *x = malloc((size_t)n * 8 + 1);
    FUZZ_CHECK(x);
    if (t->storage->dtype < TX_PT_I64) {
        fuzz_ok(tx_pt_read_f32(f, t, 0, half, x));
        fuzz_ok(tx_pt_read_f32(f, t, half, n - half, x));
    } else {
        fuzz_ok(pt_read_i64(f, t, half, n - half, x));
        fuzz_ok(pt_read_i64(f, t, 0, half, x));
    }
    free(x);
}

static void look_at(const tx_pt *f, const tx_py *v, int depth)
{
    int64_t i;
    double x;
    if (!v || --values_left < 0) return;
    FUZZ_CHECK(depth <= TX_PT_MAX_DEPTH);
    (void)tx_py_int(v, &i);
    (void)tx_py_float(v, &x);
    (void)tx_py_at(v, "a.b");
    if (tx_py_tensor(v)) look_at_tensor(f, v->as.tensor);
    if (v->kind == TX_PY_STR) fuzz_check_utf8(v->as.str.text, v->as.str.n);
    if (v->kind == TX_PY_STR || v->kind == TX_PY_BYTES) FUZZ_CHECK(!v->as.str.text[v->as.str.n]);
    if (v->kind == TX_PY_GLOBAL) FUZZ_CHECK(*v->as.global.module && *v->as.global.name);
    for (size_t k = 0; v->kind != TX_PY_DICT && k < tx_py_len(v); k++) look_at(f, tx_py_item(v, k), depth + 1);
    for (size_t k = 0; v->kind == TX_PY_DICT && k < v->as.dict.n; k++) {
        look_at(f, v->as.dict.key[k], depth + 1);
        look_at(f, v->as.dict.value[k], depth + 1);
    }
    if (v->kind != TX_PY_OBJECT) return;
    FUZZ_CHECK(v->as.object.type->kind == TX_PY_GLOBAL && v->as.object.args->kind == TX_PY_TUPLE);
    look_at(f, v->as.object.args, depth + 1);
    look_at(f, v->as.object.state, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tx_pt *f;
    values_left = MAX_VALUES;
    numbers_left = MAX_NUMBERS;
    if (!fuzz_ok(tx_pt_open_unchecked(&f, fuzz_file("model.pt", data, size)))) return 0;
    look_at(f, tx_pt_root(f), 0);
    fuzz_ok(tx_pt_verify(f, NULL));
    tx_pt_forget(f);
    json_t *j = tx_py_to_json(tx_pt_root(f));
    FUZZ_CHECK(j);
    json_decref(j);
    tx_pt_close(f);
    return 0;
}
