/* py_make.c - values for a file to be written. */
#include <string.h>

#include "torch/py.h"
#include "torch/py_room.h"

tx_py *tx_py_none(tx_py_arena *a)
{
    return tx__py_new(a, TX_PY_NONE);
}

tx_py *tx_py_of_bool(tx_py_arena *a, bool b)
{
    tx_py *v = tx__py_new(a, TX_PY_BOOL);
    if (v) v->as.b = b;
    return v;
}

tx_py *tx_py_of_int(tx_py_arena *a, int64_t i)
{
    tx_py *v = tx__py_new(a, TX_PY_INT);
    if (v) v->as.i = i;
    return v;
}

tx_py *tx_py_of_float(tx_py_arena *a, double f)
{
    tx_py *v = tx__py_new(a, TX_PY_FLOAT);
    if (v) v->as.f = f;
    return v;
}

tx_py *tx_py_of_str(tx_py_arena *a, const char *text)
{
    return tx__py_string(a, TX_PY_STR, text, strlen(text));
}

tx_py *tx_py_list(tx_py_arena *a)
{
    return tx__py_new(a, TX_PY_LIST);
}

tx_py *tx_py_tuple(tx_py_arena *a)
{
    return tx__py_new(a, TX_PY_TUPLE);
}

tx_py *tx_py_dict(tx_py_arena *a)
{
    return tx__py_new(a, TX_PY_DICT);
}

tx_py *tx_py_ordered_dict(tx_py_arena *a)
{
    tx_py *v = tx_py_dict(a);
    if (v) v->as.dict.ordered = true;
    return v;
}

tx_py *tx_py_of_global(tx_py_arena *a, const char *module, const char *name)
{
    tx_py *v = tx__py_new(a, TX_PY_GLOBAL);
    if (!v) return NULL;
    v->as.global.module = tx__py_text(a, module, strlen(module));
    v->as.global.name = tx__py_text(a, name, strlen(name));
    return v->as.global.module && v->as.global.name ? v : NULL;
}

tx_py *tx_py_object(tx_py_arena *a, const char *module, const char *name, const tx_py *args, const tx_py *state)
{
    tx_py *v = tx__py_new(a, TX_PY_OBJECT);
    if (!v || !args) return NULL;
    TX_ASSERT(args->kind == TX_PY_TUPLE);
    v->as.object.type = tx_py_of_global(a, module, name);
    v->as.object.args = args;
    v->as.object.state = state;
    return v->as.object.type ? v : NULL;
}

tx_py *tx_py_append(tx_py_arena *a, tx_py *list_or_tuple, const tx_py *item)
{
    if (!list_or_tuple || !item) return NULL;
    TX_ASSERT(list_or_tuple->kind == TX_PY_LIST || list_or_tuple->kind == TX_PY_TUPLE);
    return tx__py_push(a, list_or_tuple, item) ? list_or_tuple : NULL;
}

tx_py *tx_py_set(tx_py_arena *a, tx_py *dict, const char *key, const tx_py *value)
{
    if (!dict || !value) return NULL;
    TX_ASSERT(dict->kind == TX_PY_DICT);
    size_t n = strlen(key);
    for (size_t i = 0; i < dict->as.dict.n; i++) {
        const tx_py *k = dict->as.dict.key[i];
        if (k->kind == TX_PY_STR && k->as.str.n == n && !memcmp(k->as.str.text, key, n)) {
            dict->as.dict.value[i] = value;
            return dict;
        }
    }
    const tx_py *k = tx_py_of_str(a, key);
    return k && tx__py_push_pair(a, dict, k, value) ? dict : NULL;
}

tx_py *tx_py_set_int(tx_py_arena *a, tx_py *dict, int64_t key, const tx_py *value)
{
    if (!dict || !value) return NULL;
    TX_ASSERT(dict->kind == TX_PY_DICT);
    for (size_t i = 0; i < dict->as.dict.n; i++) {
        const tx_py *k = dict->as.dict.key[i];
        if (k->kind == TX_PY_INT && k->as.i == key) {
            dict->as.dict.value[i] = value;
            return dict;
        }
    }
    const tx_py *k = tx_py_of_int(a, key);
    return k && tx__py_push_pair(a, dict, k, value) ? dict : NULL;
}

tx_pt_storage *tx_py_storage(tx_py_arena *a, tx_pt_dtype dtype, int64_t numel, const void *source)
{
    TX_ASSERT(numel >= 0);
    tx_pt_storage *s = tx__py_memory(a, sizeof *s);
    if (s) *s = (tx_pt_storage){ .dtype = dtype, .numel = numel, .source = source };
    return s;
}

tx_py *tx_py_of_tensor(tx_py_arena *a, const tx_pt_storage *s, int64_t offset, int n_dims, const int64_t *dim)
{
    TX_ASSERT(n_dims >= 0 && n_dims <= TX_PT_MAX_DIMS);
    tx_py *v = tx__py_new(a, TX_PY_TENSOR);
    tx_pt_tensor *t = tx__py_memory(a, sizeof *t);
    if (!v || !t || !s) return NULL;
    *t = (tx_pt_tensor){ .storage = s, .offset = offset, .n_dims = n_dims };
    int64_t stride = 1;
    bool empty = false;
    for (int i = n_dims - 1; i >= 0; i--) { /* strides of an empty tensor are those that torch gives it */
        bool overflow = __builtin_mul_overflow(stride, dim[i] ? dim[i] : 1, &stride);
        TX_ASSERT(dim[i] >= 0 && !overflow);
        t->dim[i] = dim[i];
        t->stride[i] = dim[i] ? stride / dim[i] : stride;
        if (!dim[i]) empty = true;
    }
    int64_t numel = empty ? 0 : stride;
    TX_ASSERT(offset >= 0 && offset <= s->numel && numel <= s->numel - offset);
    v->as.tensor = t;
    return v;
}
