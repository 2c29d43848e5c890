/* py_json.c - values as JSON and back. */
#include <math.h>
#include <string.h>

#include "torch/py.h"
#include "torch/py_room.h"

/* Left out (*out NULL) or not; false when memory is short. */
static bool to_json(const tx_py *v, size_t *left, json_t **out);

static bool list_to_json(const tx_py *v, size_t *left, json_t **out)
{
    json_t *array = json_array();
    bool ok = array;
    for (size_t i = 0; ok && *left && i < v->as.list.n; i++) {
        json_t *item;
        ok = to_json(v->as.list.item[i], left, &item);
        ok = ok && !json_array_append_new(array, item ? item : json_null());
    }
    *out = array;
    return ok;
}

static bool dict_to_json(const tx_py *v, size_t *left, json_t **out)
{
    json_t *object = json_object();
    bool ok = object;
    for (size_t i = 0; ok && *left && i < v->as.dict.n; i++) {
        const char *key = tx_py_str(v->as.dict.key[i]);
        json_t *item = NULL;
        if (key) ok = to_json(v->as.dict.value[i], left, &item);
        if (ok && item) ok = !json_object_set_new(object, key, item);
    }
    *out = object;
    return ok;
}

static bool text_to_json(const char *text, size_t n, json_t **out)
{
    *out = json_stringn(text, n);
    return *out;
}

static bool to_json(const tx_py *v, size_t *left, json_t **out)
{
    *out = NULL;
    if (!*left) return true;
    --*left;
    switch (v->kind) {
    case TX_PY_NONE:
        *out = json_null();
        return true;
    case TX_PY_BOOL:
        *out = json_boolean(v->as.b);
        return true;
    case TX_PY_INT:
        *out = json_integer(v->as.i);
        return *out;
    case TX_PY_FLOAT:
        if (!isfinite(v->as.f)) return true;
        *out = json_real(v->as.f);
        return *out;
    case TX_PY_STR:
        return text_to_json(v->as.str.text, v->as.str.n, out);
    case TX_PY_LIST:
    case TX_PY_TUPLE:
    case TX_PY_SET:
        return list_to_json(v, left, out);
    case TX_PY_DICT:
        return dict_to_json(v, left, out);
    case TX_PY_GLOBAL:
        if (strcmp(v->as.global.module, "torch") != 0) return true;
        return text_to_json(v->as.global.name, strlen(v->as.global.name), out);
    default:
        return true;
    }
}

json_t *tx_py_to_json(const tx_py *v)
{
    size_t left = TX_PY_MAX_JSON;
    json_t *out = NULL;
    if (v && !to_json(v, &left, &out)) {
        json_decref(out);
        return NULL;
    }
    return out ? out : json_null();
}

tx_py *tx_py_of_json(tx_py_arena *a, const json_t *v)
{
    tx_py *out;
    const char *key;
    json_t *item;
    size_t i;
    if (!v) return NULL;
    switch (json_typeof(v)) {
    case JSON_TRUE:
    case JSON_FALSE:
        return tx_py_of_bool(a, json_is_true(v));
    case JSON_INTEGER:
        return tx_py_of_int(a, json_integer_value(v));
    case JSON_REAL:
        return tx_py_of_float(a, json_real_value(v));
    case JSON_STRING:
        return tx__py_string(a, TX_PY_STR, json_string_value(v), json_string_length(v));
    case JSON_ARRAY:
        out = tx_py_list(a);
        json_array_foreach(v, i, item) out = tx_py_append(a, out, tx_py_of_json(a, item));
        return out;
    case JSON_OBJECT: /* keys are unique already */
        out = tx_py_dict(a);
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            const tx_py *k = tx_py_of_str(a, key), *value = tx_py_of_json(a, item);
            if (!out || !k || !value || !tx__py_push_pair(a, out, k, value)) return NULL;
        }
        return out;
    default:
        return tx_py_none(a);
    }
}
