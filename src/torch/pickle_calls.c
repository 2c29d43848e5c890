/* pickle_calls.c - what a pickle would call: tensors, and the containers that Python makes by a call, are made;
 * anything else becomes a value that says what would have been called. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "torch/pickle.h"

#define FAIL(...)        TX__PICKLE_FAIL(p, TX_ERR_FORMAT, __VA_ARGS__)
#define UNSUPPORTED(...) TX__PICKLE_FAIL(p, TX_ERR_UNSUPPORTED, __VA_ARGS__)

/* ---- dicts: keys are equal where Python says so ---- */

enum { MAX_KEY = 1000 }; /* values in a key that is a tuple */

/* An integer, and whatever equals one. */
static bool whole(const tx_py *v, int64_t *out)
{
    if (v->kind == TX_PY_FLOAT) {
        if (v->as.f != floor(v->as.f) || fabs(v->as.f) >= 0x1p63) return false;
        *out = (int64_t)v->as.f;
        return true;
    }
    return v->kind != TX_PY_TENSOR && tx_py_int(v, out);
}

/* false: it is too large, or something that Python cannot hash. */
static bool hash_key(const tx_py *v, int *left, uint64_t *hash)
{
    int64_t i;
    if (--*left < 0) return false;
    uint64_t kind = (uint64_t)v->kind + *hash * 31;
    if (whole(v, &i)) {
        *hash = tx_hash(&i, sizeof i, TX_PY_INT + *hash * 31);
        return true;
    }
    switch (v->kind) {
    case TX_PY_NONE:
        *hash = tx_hash("", 0, kind);
        return true;
    case TX_PY_FLOAT:
        *hash = tx_hash(&v->as.f, sizeof v->as.f, kind);
        return true;
    case TX_PY_STR:
    case TX_PY_BYTES:
        *hash = tx_hash(v->as.str.text, v->as.str.n, kind);
        return true;
    case TX_PY_GLOBAL:
        *hash = tx_hash(v->as.global.name, strlen(v->as.global.name), kind);
        return true;
    case TX_PY_TUPLE:
        *hash = tx_hash(&v->as.list.n, sizeof v->as.list.n, kind);
        for (size_t k = 0; k < v->as.list.n; k++)
            if (!hash_key(v->as.list.item[k], left, hash)) return false;
        return true;
    case TX_PY_OBJECT:
    case TX_PY_SET: /* a frozen one; by its identity */
        *hash = tx_hash(&v, sizeof v, kind);
        return true;
    default:
        return false;
    }
}

static bool same_key(const tx_py *a, const tx_py *b)
{
    int64_t i, j;
    if (a == b) return true;
    bool x = whole(a, &i), y = whole(b, &j);
    if (x || y) return x && y && i == j;
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case TX_PY_NONE:
        return true;
    case TX_PY_FLOAT:
        return a->as.f == b->as.f;
    case TX_PY_STR:
    case TX_PY_BYTES:
        return a->big == b->big && a->as.str.n == b->as.str.n && !memcmp(a->as.str.text, b->as.str.text, a->as.str.n);
    case TX_PY_GLOBAL:
        return tx_py_is_global(a, b->as.global.module, b->as.global.name);
    case TX_PY_TUPLE: /* both were hashed, so both are small */
        if (a->as.list.n != b->as.list.n) return false;
        for (size_t k = 0; k < a->as.list.n; k++)
            if (!same_key(a->as.list.item[k], b->as.list.item[k])) return false;
        return true;
    default:
        return false;
    }
}

/* A key that is there keeps its place and gets the new value. */
tx_status tx__pickle_set_item(tx__pickle *p, tx_py *dict, const tx_py *key, const tx_py *value)
{
    int left = MAX_KEY;
    uint64_t hash = 0;
    size_t at = 0, i;
    if (!hash_key(key, &left, &hash))
        return left < 0 ? UNSUPPORTED("a key of a dict that holds more than %d values", MAX_KEY)
                        : FAIL("a key of a dict that is none: a list, a dict or a tensor");
    hash = tx_hash(&dict, sizeof dict, hash);
    while (tx_hash_next(&p->keys, hash, &at, &i))
        if (i < dict->as.dict.n && same_key(dict->as.dict.key[i], key)) {
            dict->as.dict.value[i] = value;
            return TX_OK;
        }
    tx_status st = tx_hash_add(&p->keys, hash, dict->as.dict.n);
    if (st) return tx__pickle_fail(p, st);
    return tx__py_push_pair(p->arena, dict, key, value) ? TX_OK : tx__pickle_no_memory(p);
}

/* ---- storages ---- */

static const char *storage_class(const tx_py *v, tx_pt_dtype *dtype)
{
    if (!v || v->kind != TX_PY_GLOBAL) return NULL;
    const tx__name *row = tx__name_find(v->as.global.module, v->as.global.name);
    if (!row || row->call != TX__CALL_STORAGE) return NULL;
    *dtype = row->dtype;
    return row->name;
}

/* Python 2 may have written a key as a number, or as bytes that are text. */
static bool small_int(const tx_py *v, int64_t *out)
{
    if (!v || v->kind != TX_PY_INT) return false;
    *out = v->as.i;
    return true;
}

/* The fields of ('storage', class, key, location, numel[, (view's key, offset, numel)]). */
static tx_status storage_id(tx__pickle *p, const tx_py *id, tx__storage_id *out)
{
    const char *kind = id->kind == TX_PY_TUPLE ? tx_py_str(tx_py_item(id, 0)) : NULL;
    size_t n = tx_py_len(id);
    if (!kind || strcmp(kind, "storage") != 0 || n < 5 || n > 6)
        return FAIL("something outside of the pickle that is no storage");
    *out = (tx__storage_id){ .key = tx_py_str(tx_py_item(id, 2)) };
    if (!storage_class(tx_py_item(id, 1), &out->dtype)) return FAIL("a storage of a class that is none");
    if (!out->key || !*out->key || strlen(out->key) > 255) return FAIL("a storage whose key is no text, or too long");
    if (!small_int(tx_py_item(id, 4), &out->numel) || out->numel < 0)
        return FAIL("storage %s: its number of elements is none", out->key);
    const tx_py *view = tx_py_item(id, 5);
    if (!view || view->kind == TX_PY_NONE) return TX_OK;
    out->view = tx_py_str(tx_py_item(view, 0));
    if (!out->view || !*out->view || strlen(out->view) > 255 || !small_int(tx_py_item(view, 1), &out->view_at) ||
        !small_int(tx_py_item(view, 2), &out->view_numel) || out->view_at < 0 || out->view_numel < 0 ||
        out->view_at > out->numel || out->view_numel > out->numel - out->view_at)
        return FAIL("storage %s: its view is damaged, or reaches beyond it", out->key);
    return TX_OK;
}

/* Before tx_py_float may look at it. */
static tx_status check_number(tx__pickle *p, const tx_pt_tensor *t)
{
    if (!p->in->check || tx_pt_numel(t) != 1) return TX_OK;
    return p->in->check(p->in->user, t->storage);
}

tx_status tx__pickle_load(tx__pickle *p, const tx_py *id, const tx_py **out)
{
    tx__storage_id what;
    const tx_pt_storage *s;
    tx_py *v;
    if (!p->in->find) return FAIL("a storage where there can be none");
    TX_TRY(storage_id(p, id, &what));
    tx_status st = p->in->find(p->in->user, &what, &s);
    if (st) return tx__pickle_fail(p, st);
    TX_TRY(tx__pickle_new(p, &v, TX_PY_TENSOR));
    tx_pt_tensor *t = tx__py_memory(p->arena, sizeof *t);
    if (!t) return tx__pickle_no_memory(p);
    *t = (tx_pt_tensor){ .storage = s, .n_dims = 1, .dim[0] = s->numel, .stride[0] = 1 };
    TX_TRY(check_number(p, t));
    v->as.tensor = t;
    v->mark = TX__MARK_STORAGE;
    *out = v;
    return TX_OK;
}

/* ---- tensors ---- */

static bool sizes(const tx_py *v, int64_t out[TX_PT_MAX_DIMS], int *n)
{
    if (!v || v->kind != TX_PY_TUPLE || v->as.list.n > TX_PT_MAX_DIMS) return false;
    for (size_t i = 0; i < v->as.list.n; i++)
        if (!small_int(v->as.list.item[i], &out[i]) || out[i] < 0) return false;
    *n = (int)v->as.list.n;
    return true;
}

/* Whether every element lies inside the storage, counted without overflow. */
static tx_status check_extent(tx__pickle *p, const tx_pt_tensor *t)
{
    int64_t last = t->offset, numel = 1, reach;
    bool empty = false;
    for (int i = 0; i < t->n_dims; i++)
        if (!t->dim[i]) empty = true;
    if (empty) return TX_OK;
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(numel, t->dim[i], &numel) ||
            __builtin_mul_overflow(t->dim[i] - 1, t->stride[i], &reach) || __builtin_add_overflow(last, reach, &last))
            return FAIL("a tensor that is larger than any file");
    if (last >= t->storage->numel)
        return FAIL("a tensor reaches to element %" PRId64 " of a storage of %" PRId64, last, t->storage->numel);
    if (numel > t->storage->numel && numel > TX_PT_MAX_REPEAT)
        return UNSUPPORTED("a tensor that repeats %" PRId64 " stored elements as %" PRId64
                           "; save it with .contiguous()",
                           t->storage->numel, numel);
    return TX_OK;
}

/* Python's lazily conjugated and negated tensors: the numbers in the file are not yet those of the tensor. */
static bool is_lazy(const tx_py *metadata)
{
    return tx_py_true(tx_py_get(metadata, "conj")) || tx_py_true(tx_py_get(metadata, "neg"));
}

static tx_status make_tensor(tx__pickle *p, const tx_py *args, const tx_py **out)
{
    const tx_py *storage = tx_py_item(args, 0);
    tx_pt_tensor *t = tx__py_memory(p->arena, sizeof *t);
    tx_py *v;
    int n_strides = 0;
    if (!t) return tx__pickle_no_memory(p);
    if (!storage || storage->kind != TX_PY_TENSOR || storage->mark != TX__MARK_STORAGE)
        return FAIL("a tensor without a storage");
    t->storage = storage->as.tensor->storage;
    if (!small_int(tx_py_item(args, 1), &t->offset) || t->offset < 0) return FAIL("a tensor whose offset is none");
    if (tx_py_len(tx_py_item(args, 2)) > TX_PT_MAX_DIMS)
        return UNSUPPORTED("a tensor of %zu dimensions; at most %d are supported", tx_py_len(tx_py_item(args, 2)),
                           TX_PT_MAX_DIMS);
    if (!sizes(tx_py_item(args, 2), t->dim, &t->n_dims) || !sizes(tx_py_item(args, 3), t->stride, &n_strides) ||
        t->n_dims != n_strides)
        return FAIL("a tensor whose sizes or strides are none, negative, or not as many");
    if (is_lazy(tx_py_item(args, 6)))
        return UNSUPPORTED("a tensor that is to be negated or conjugated; save it with .resolve_neg().resolve_conj()");
    TX_TRY(check_extent(p, t));
    TX_TRY(check_number(p, t));
    t->requires_grad = tx_py_true(tx_py_item(args, 4));
    TX_TRY(tx__pickle_new(p, &v, TX_PY_TENSOR));
    v->as.tensor = t;
    *out = v;
    return TX_OK;
}

static tx_status make_parameter(tx__pickle *p, const tx_py *args, const tx_py **out)
{
    const tx_py *data = tx_py_item(args, 0);
    tx_pt_tensor *t = tx__py_memory(p->arena, sizeof *t);
    tx_py *v;
    if (!t) return tx__pickle_no_memory(p);
    if (!tx_py_tensor(data) || data->mark == TX__MARK_STORAGE) return FAIL("a parameter without a tensor");
    *t = *data->as.tensor;
    t->parameter = true;
    t->requires_grad = tx_py_true(tx_py_item(args, 1));
    TX_TRY(tx__pickle_new(p, &v, TX_PY_TENSOR));
    v->as.tensor = t;
    *out = v;
    return TX_OK;
}

/* A tensor with attributes of its own, which are left out: (function, class, args, state). */
static tx_status rebuild(tx__pickle *p, const tx_py *args, const tx_py **out)
{
    const tx_py *f = tx_py_item(args, 0), *inner = tx_py_item(args, 2);
    const tx__name *row = f && f->kind == TX_PY_GLOBAL ? tx__name_find(f->as.global.module, f->as.global.name) : NULL;
    if (!inner || inner->kind != TX_PY_TUPLE) return FAIL("a tensor that is to be made of nothing");
    if (row && row->call == TX__CALL_TENSOR) return make_tensor(p, inner, out);
    if (row && row->call == TX__CALL_PARAMETER) return make_parameter(p, inner, out);
    return UNSUPPORTED("a tensor of a class of its own");
}

/* ---- containers ---- */

/* Pairs out of a dict, or a list of lists or tuples of two. */
static tx_status make_dict(tx__pickle *p, const tx_py *from, bool ordered, const tx_py **out)
{
    tx_py *v;
    TX_TRY(tx__pickle_new(p, &v, TX_PY_DICT));
    v->as.dict.ordered = ordered;
    *out = v;
    if (!from) return TX_OK;
    if (from->kind == TX_PY_DICT) {
        for (size_t i = 0; i < from->as.dict.n; i++)
            TX_TRY(tx__pickle_set_item(p, v, from->as.dict.key[i], from->as.dict.value[i]));
        return TX_OK;
    }
    if (from->kind != TX_PY_LIST && from->kind != TX_PY_TUPLE)
        return FAIL("a dict of something that is no list of pairs");
    for (size_t i = 0; i < from->as.list.n; i++) {
        const tx_py *pair = from->as.list.item[i];
        if (tx_py_len(pair) != 2 || pair->kind == TX_PY_DICT)
            return FAIL("a dict of something that is no list of pairs");
        TX_TRY(tx__pickle_set_item(p, v, tx_py_item(pair, 0), tx_py_item(pair, 1)));
    }
    return TX_OK;
}

static tx_status make_list(tx__pickle *p, tx_py_kind kind, const tx_py *from, const tx_py **out)
{
    tx_py *v;
    if (from && from->kind != TX_PY_LIST && from->kind != TX_PY_TUPLE && from->kind != TX_PY_SET)
        return FAIL("a list, tuple or set of something that is no list");
    TX_TRY(tx__pickle_new(p, &v, kind));
    *p->in->n_values += tx_py_len(from); /* a copy may be made of the same list again and again */
    for (size_t i = 0; i < tx_py_len(from); i++)
        if (!tx__py_push(p->arena, v, from->as.list.item[i])) return tx__pickle_no_memory(p);
    *out = v;
    return TX_OK;
}

/* Bytes that protocol 2 has no opcode for: a text whose characters are the bytes. */
static tx_status decode_latin1(tx__pickle *p, const tx_py *text, const tx_py *encoding, const tx_py **out)
{
    const char *name = tx_py_str(encoding);
    tx_py *v;
    if (!text || text->kind != TX_PY_STR || !name || (strcmp(name, "latin1") != 0 && strcmp(name, "latin-1") != 0))
        return UNSUPPORTED("bytes in an encoding other than latin1");
    char *b = tx__py_text(p->arena, NULL, 0);
    size_t n = 0;
    TX_TRY(tx__pickle_new(p, &v, TX_PY_BYTES));
    *p->in->n_values += text->as.str.n / 64; /* as make_list */
    if (text->as.str.n) b = tx__py_memory(p->arena, text->as.str.n + 1);
    if (!b) return tx__pickle_no_memory(p);
    for (size_t i = 0; i < text->as.str.n; i++) {
        unsigned char c =
            (unsigned char)text->as.str.text[i]; /* valid UTF-8: below U+100 is one byte, or C2, C3 and one */
        if (c >= 0x80) {
            if (c > 0xC3) return FAIL("bytes with a character above 255");
            c = (unsigned char)(c << 6 | ((unsigned char)text->as.str.text[++i] & 0x3F));
        }
        b[n++] = (char)c;
    }
    v->as.str.text = b;
    v->as.str.n = n;
    *out = v;
    return TX_OK;
}

/* bytes() and bytearray(): of nothing, of bytes, of a text and its encoding, of a list of numbers. */
static tx_status make_bytes(tx__pickle *p, const tx_py *args, const tx_py **out)
{
    const tx_py *from = tx_py_item(args, 0);
    tx_py *v;
    if (from && from->kind == TX_PY_STR) return decode_latin1(p, from, tx_py_item(args, 1), out);
    if (from && from->kind == TX_PY_BYTES && !from->big) {
        *out = from;
        return TX_OK;
    }
    if (from && from->kind != TX_PY_LIST) return FAIL("bytes of something that is no list of numbers");
    size_t n = tx_py_len(from);
    TX_TRY(tx__pickle_new(p, &v, TX_PY_BYTES));
    *p->in->n_values += n / 64;
    char *b = tx__py_memory(p->arena, n + 1);
    if (!b) return tx__pickle_no_memory(p);
    for (size_t i = 0; i < n; i++) {
        int64_t x;
        if (!small_int(from->as.list.item[i], &x) || x < 0 || x > 255) return FAIL("bytes of numbers that are none");
        b[i] = (char)x;
    }
    v->as.str.text = b;
    v->as.str.n = n;
    *out = v;
    return TX_OK;
}

/* ---- the call ---- */

static tx_status make_object(tx__pickle *p, const tx_py *type, const tx_py *args, const tx_py *state, const tx_py **out)
{
    tx_py *v;
    TX_TRY(tx__pickle_new(p, &v, TX_PY_OBJECT));
    v->as.object.type = type;
    v->as.object.args = args;
    v->as.object.state = state;
    *out = v;
    return TX_OK;
}

/* copy_reg._reconstructor(class, base, what the base holds): as old-fashioned as object.__new__. */
static tx_status reconstruct(tx__pickle *p, const tx_py *args, const tx_py **out)
{
    const tx_py *type = tx_py_item(args, 0), *base = tx_py_item(args, 1);
    if (tx_py_len(args) != 3 || type->kind != TX_PY_GLOBAL || base->kind != TX_PY_GLOBAL)
        return FAIL("copy_reg._reconstructor of something that is no class");
    const tx__name *row = tx__name_find(type->as.global.module, type->as.global.name);
    if (!row || row->call != TX__CALL_OBJECT)
        return UNSUPPORTED("%s.%s is made by copy_reg", type->as.global.module, type->as.global.name);
    if (strcmp(base->as.global.name, "object") == 0)
        return make_object(p, type, tx__py_small(TX_PY_TUPLE, 0), NULL, out);
    tx_py *only;
    TX_TRY(tx__pickle_new(p, &only, TX_PY_TUPLE));
    if (!tx__py_push(p->arena, only, tx_py_item(args, 2))) return tx__pickle_no_memory(p);
    return make_object(p, type, only, NULL, out);
}

tx_status tx__pickle_call(tx__pickle *p, const tx_py *function, const tx_py *args, const tx_py **out)
{
    if (function->kind != TX_PY_GLOBAL) return FAIL("something is called that has no name");
    if (args->kind != TX_PY_TUPLE) return FAIL("something is called with arguments that are no tuple");
    const tx__name *row = tx__name_find(function->as.global.module, function->as.global.name);
    const tx_py *first = tx_py_item(args, 0);
    TX_ASSERT(row); /* no other becomes a value */
    switch (row->call) {
    case TX__CALL_OBJECT:
        return make_object(p, function, args, NULL, out);
    case TX__CALL_TENSOR:
        return make_tensor(p, args, out);
    case TX__CALL_PARAMETER:
        return make_parameter(p, args, out);
    case TX__CALL_REBUILD:
        return rebuild(p, args, out);
    case TX__CALL_DICT:
    case TX__CALL_ORDERED:
        return make_dict(p, first, row->call == TX__CALL_ORDERED, out);
    case TX__CALL_DEFAULT_DICT:
        return make_dict(p, tx_py_item(args, 1), false, out);
    case TX__CALL_LIST:
        return make_list(p, TX_PY_LIST, first, out);
    case TX__CALL_TUPLE:
        return make_list(p, TX_PY_TUPLE, first, out);
    case TX__CALL_SET:
        return make_list(p, TX_PY_SET, first, out);
    case TX__CALL_ENCODE:
        return decode_latin1(p, first, tx_py_item(args, 1), out);
    case TX__CALL_BYTES:
        return make_bytes(p, args, out);
    case TX__CALL_RECONSTRUCT:
        return reconstruct(p, args, out);
    default:
        return FAIL("%s.%s is called, which cannot be", function->as.global.module, function->as.global.name);
    }
}

/* Attributes of a dict (a state_dict's versions) and of a tensor are nothing that a checkpoint needs. */
tx_status tx__pickle_build(tx__pickle *p, const tx_py *value, const tx_py *state)
{
    if (value->kind == TX_PY_OBJECT) {
        ((tx_py *)(uintptr_t)value)->as.object.state = state;
        return TX_OK;
    }
    if (value->kind == TX_PY_DICT || (value->kind == TX_PY_TENSOR && value->mark != TX__MARK_STORAGE)) return TX_OK;
    return FAIL("a state is set in something that has none");
}
