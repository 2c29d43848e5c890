/* py.c - values: their memory, the makers, and looking into them. */
#include "torch/py.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "torch/py_room.h"

/* ---- memory: blocks in a list, filled from the front ---- */

#define BLOCK_BYTES ((size_t)64 << 10)

typedef struct block {
    struct block *next;
    size_t used, cap; /* bytes of what follows */
    _Alignas(16) unsigned char byte[];
} block;

struct tx_py_arena {
    block *head;
};

tx_status tx_py_arena_create(tx_py_arena **out)
{
    return tx_alloc(out, 1, sizeof **out, "values of a .pt file");
}

void tx_py_arena_destroy(tx_py_arena *a)
{
    if (!a) return;
    for (block *b = a->head, *next; b; b = next) {
        next = b->next;
        tx_free(b);
    }
    tx_free(a);
}

/* Something large gets a block for itself, behind the one that is being filled. */
void *tx__py_memory(tx_py_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    block *b = a->head;
    if (!b || b->cap - b->used < bytes) {
        bool large = bytes > BLOCK_BYTES / 4;
        size_t cap = large ? bytes : BLOCK_BYTES;
        if (tx_alloc(&b, 1, sizeof *b + cap, "values of a .pt file")) return NULL;
        b->cap = cap;
        if (large && a->head) {
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    void *p = b->byte + b->used;
    b->used += bytes;
    return p;
}

char *tx__py_text(tx_py_arena *a, const void *bytes, size_t n)
{
    char *p = tx__py_memory(a, n + 1);
    if (p && n) memcpy(p, bytes, n);
    return p;
}

tx_py *tx__py_new(tx_py_arena *a, tx_py_kind kind)
{
    tx_py *v = tx__py_memory(a, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

tx_py *tx__py_string(tx_py_arena *a, tx_py_kind kind, const void *bytes, size_t n)
{
    tx_py *v = tx__py_new(a, kind);
    if (!v) return NULL;
    v->as.str.text = tx__py_text(a, bytes, n);
    v->as.str.n = n;
    return v->as.str.text ? v : NULL;
}

#define INT1(n)                        \
    {                                  \
        .kind = TX_PY_INT, .as.i = (n) \
    }
#define INT4(n)  INT1(n), INT1((n) + 1), INT1((n) + 2), INT1((n) + 3)
#define INT16(n) INT4(n), INT4((n) + 4), INT4((n) + 8), INT4((n) + 12)
#define INT64(n) INT16(n), INT16((n) + 16), INT16((n) + 32), INT16((n) + 48)

const tx_py *tx__py_small(tx_py_kind kind, int64_t i)
{
    static const tx_py none = { .kind = TX_PY_NONE }, empty = { .kind = TX_PY_TUPLE };
    static const tx_py truth[2] = { { .kind = TX_PY_BOOL, .as.b = false }, { .kind = TX_PY_BOOL, .as.b = true } };
    static const tx_py number[257] = { INT1(-1), INT64(0), INT64(64), INT64(128), INT64(192) };
    switch (kind) {
    case TX_PY_NONE:
        return &none;
    case TX_PY_BOOL:
        return &truth[i != 0];
    case TX_PY_TUPLE:
        return &empty;
    case TX_PY_INT:
        return i >= -1 && i <= 255 ? &number[i + 1] : NULL;
    default:
        return NULL;
    }
}

/* An array doubles when its number of items is 4, 8, 16, ..., so that its capacity need not be kept. */
static bool is_full(size_t n)
{
    return n == 0 || (n >= 4 && (n & (n - 1)) == 0);
}

static bool grow(tx_py_arena *a, const tx_py ***item, size_t n)
{
    if (!is_full(n)) return true;
    const tx_py **more = n > SIZE_MAX / 64 ? NULL : tx__py_memory(a, (n ? 2 * n : 4) * sizeof *more);
    if (!more) return false;
    if (n) memcpy(more, *item, n * sizeof *more);
    *item = more;
    return true;
}

bool tx__py_push(tx_py_arena *a, tx_py *list, const tx_py *item)
{
    if (!grow(a, &list->as.list.item, list->as.list.n)) return false;
    list->as.list.item[list->as.list.n++] = item;
    return true;
}

bool tx__py_push_pair(tx_py_arena *a, tx_py *dict, const tx_py *key, const tx_py *value)
{
    if (!grow(a, &dict->as.dict.key, dict->as.dict.n) || !grow(a, &dict->as.dict.value, dict->as.dict.n)) return false;
    dict->as.dict.key[dict->as.dict.n] = key;
    dict->as.dict.value[dict->as.dict.n++] = value;
    return true;
}

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

/* ---- making ---- */

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
    TX_ASSERT(is_list(list_or_tuple));
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
