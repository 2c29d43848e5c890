/* py.c - element types, and looking into values. */
#include "torch/py.h"

#include <string.h>

#include "base/half.h"

/* ---- element types ---- */

static const struct {
    const char *name;
    size_t size;
} dtypes[TX_PT_N_DTYPES] = {
    [TX_PT_F64] = { "float64", 8 },   [TX_PT_F32] = { "float32", 4 }, [TX_PT_F16] = { "float16", 2 },
    [TX_PT_BF16] = { "bfloat16", 2 }, [TX_PT_I64] = { "int64", 8 },   [TX_PT_I32] = { "int32", 4 },
    [TX_PT_I16] = { "int16", 2 },     [TX_PT_I8] = { "int8", 1 },     [TX_PT_U8] = { "uint8", 1 },
    [TX_PT_BOOL] = { "bool", 1 },
};

size_t tx_pt_dtype_size(tx_pt_dtype t)
{
    return dtypes[t].size;
}

const char *tx_pt_dtype_name(tx_pt_dtype t)
{
    return dtypes[t].name;
}

/* ---- looking ---- */

static const tx_py *dict_get(const tx_py *v, const char *key)
{
    if (!v || v->kind != TX_PY_DICT) return NULL;
    size_t n = strlen(key);
    for (size_t i = 0; i < v->as.dict.n; i++) {
        const tx_py *k = v->as.dict.key[i];
        if (k->kind == TX_PY_STR && k->as.str.n == n && !memcmp(k->as.str.text, key, n)) return v->as.dict.value[i];
    }
    return NULL;
}

/* A class with __slots__ has a tuple of two dicts for its state. */
const tx_py *tx_py_get(const tx_py *v, const char *key)
{
    if (v && v->kind == TX_PY_OBJECT) v = v->as.object.state;
    if (!v || v->kind != TX_PY_TUPLE || v->as.list.n != 2) return dict_get(v, key);
    const tx_py *found = dict_get(v->as.list.item[0], key);
    return found ? found : dict_get(v->as.list.item[1], key);
}

const tx_py *tx_py_get_int(const tx_py *v, int64_t key)
{
    int64_t k;
    for (size_t i = 0; v && v->kind == TX_PY_DICT && i < v->as.dict.n; i++)
        if (tx_py_int(v->as.dict.key[i], &k) && k == key) return v->as.dict.value[i];
    return NULL;
}

const tx_py *tx_py_at(const tx_py *v, const char *path)
{
    char key[256];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        if (n >= sizeof key) return NULL;
        memcpy(key, path, n);
        key[n] = 0;
        v = tx_py_get(v, key);
        path += n + (path[n] == '.');
    }
    return v;
}

static bool is_list(const tx_py *v)
{
    return v && (v->kind == TX_PY_LIST || v->kind == TX_PY_TUPLE || v->kind == TX_PY_SET);
}

size_t tx_py_len(const tx_py *v)
{
    if (is_list(v)) return v->as.list.n;
    return v && v->kind == TX_PY_DICT ? v->as.dict.n : 0;
}

const tx_py *tx_py_item(const tx_py *v, size_t i)
{
    return is_list(v) && i < v->as.list.n ? v->as.list.item[i] : NULL;
}

const char *tx_py_str(const tx_py *v)
{
    return v && v->kind == TX_PY_STR && !memchr(v->as.str.text, 0, v->as.str.n) ? v->as.str.text : NULL;
}

const tx_pt_tensor *tx_py_tensor(const tx_py *v)
{
    return v && v->kind == TX_PY_TENSOR ? v->as.tensor : NULL;
}

bool tx_py_true(const tx_py *v)
{
    return v && v->kind == TX_PY_BOOL && v->as.b;
}

bool tx_py_is_global(const tx_py *v, const char *module, const char *name)
{
    return v && v->kind == TX_PY_GLOBAL && !strcmp(v->as.global.module, module) && !strcmp(v->as.global.name, name);
}

/* Where the number of a tensor of one number lies; NULL if it is none, or its numbers are not at hand. */
static const unsigned char *only_element(const tx_py *v, tx_pt_dtype *dtype)
{
    const tx_pt_tensor *t = tx_py_tensor(v);
    if (!t || !t->storage->data) return NULL;
    for (int i = 0; i < t->n_dims; i++)
        if (t->dim[i] != 1) return NULL;
    *dtype = t->storage->dtype;
    return t->storage->data + (size_t)t->offset * dtypes[*dtype].size;
}

bool tx_py_int(const tx_py *v, int64_t *out)
{
    if (v && (v->kind == TX_PY_INT || v->kind == TX_PY_BOOL)) {
        *out = v->kind == TX_PY_INT ? v->as.i : v->as.b;
        return true;
    }
    tx_pt_dtype dtype;
    const unsigned char *p = only_element(v, &dtype);
    if (!p || dtype < TX_PT_I64) return false;
    uint64_t bits = 0;
    memcpy(&bits, p, dtypes[dtype].size); /* little-endian, as the machines are that triax runs on */
    if (dtype == TX_PT_U8)
        *out = (int64_t)bits;
    else if (dtype == TX_PT_BOOL)
        *out = bits != 0;
    else {
        int unused = 64 - 8 * (int)dtypes[dtype].size;
        *out = (int64_t)(bits << unused) >> unused;
    }
    return true;
}

bool tx_py_float(const tx_py *v, double *out)
{
    int64_t i;
    uint16_t half;
    float single;
    tx_pt_dtype dtype;
    if (v && v->kind == TX_PY_FLOAT) {
        *out = v->as.f;
        return true;
    }
    if (v && v->kind == TX_PY_BOOL) return false;
    if (tx_py_int(v, &i)) {
        *out = (double)i;
        return true;
    }
    const unsigned char *p = only_element(v, &dtype);
    if (!p) return false;
    switch (dtype) {
    case TX_PT_F64:
        memcpy(out, p, 8);
        return true;
    case TX_PT_F32:
        memcpy(&single, p, 4);
        *out = (double)single;
        return true;
    default:
        memcpy(&half, p, 2);
        *out = (double)(dtype == TX_PT_BF16 ? tx_bf16_to_f32(half) : tx_f16_to_f32(half));
        return true;
    }
}
