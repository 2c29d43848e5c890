/* pt_text.h - a .pt file's values as one line of text, the same that describe.py makes of what torch.load gives: for
 * comparing every value, number, view and flag of two readings.
 *
 *      N T F i-12 I0x<bytes> f<bits> s'text' b'bytes' [list] (tuple) {set} d{k:v } o{k:v } g:module.name
 *      O:module.name(args)state     tfloat32[2,3]@storage+offset/3,1=<bytes of the elements in order>
 */
#ifndef TX_TESTS_TORCH_PT_TEXT_H
#define TX_TESTS_TORCH_PT_TEXT_H

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/str.h"
#include "pt_i64.h"
#include "torch/pt.h"

typedef struct pt_text {
    tx_str *out;
    const tx_pt *file; /* NULL: made values, whose numbers are fetched */
    tx_pt_fetch *fetch;
    bool brief; /* of a tensor's numbers a hash alone */
    const tx_pt_storage *storage[4096];
    size_t n_storages;
} pt_text;

static void pt_text_of(pt_text *p, const tx_py *v);

#define PT_PUT(...) ((void)tx_str_printf(p->out, __VA_ARGS__))

static inline void pt_text_bytes(pt_text *p, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    for (size_t i = 0; i < n; i++) PT_PUT("%02x", b[i]);
}

static inline void pt_text_quoted(pt_text *p, char kind, const char *text, size_t n)
{
    PT_PUT("%c'", kind);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.')
            PT_PUT("%c", c);
        else
            PT_PUT("\\%02x", c);
    }
    PT_PUT("'");
}

/* Floats as float32, integers as int64: what the readers give. */
static inline void pt_text_numbers(pt_text *p, const tx_pt_tensor *t)
{
    int64_t n = tx_pt_numel(t);
    bool is_float = t->storage->dtype < TX_PT_I64;
    size_t size = is_float ? 4 : 8;
    char *x = malloc((size_t)n * size + 1);
    tx_status st;
    if (!p->file)
        st = p->fetch(NULL, t->storage, t->offset, n, x);
    else if (is_float)
        st = tx_pt_read_f32(p->file, t, 0, n, (float *)(void *)x);
    else
        st = pt_read_i64(p->file, t, 0, n, (int64_t *)(void *)x);
    if (st)
        PT_PUT("ERROR %s", tx_last_error());
    else if (p->brief)
        PT_PUT("%016" PRIx64, (uint64_t)XXH3_64bits(x, (size_t)n * size));
    else
        pt_text_bytes(p, x, (size_t)n * size);
    free(x);
}

static inline void pt_text_tensor(pt_text *p, const tx_pt_tensor *t)
{
    size_t s = 0;
    while (s < p->n_storages && p->storage[s] != t->storage) s++;
    if (s == p->n_storages && s < 4096) p->storage[p->n_storages++] = t->storage;
    PT_PUT("t%s%s%s[", tx_pt_dtype_name(t->storage->dtype), t->parameter ? "P" : "", t->requires_grad ? "R" : "");
    for (int i = 0; i < t->n_dims; i++) PT_PUT("%s%" PRId64, i ? "," : "", t->dim[i]);
    PT_PUT("]@%zu+%" PRId64 "/", s, t->offset);
    for (int i = 0; i < t->n_dims; i++) PT_PUT("%s%" PRId64, i ? "," : "", t->stride[i]);
    PT_PUT("=");
    pt_text_numbers(p, t);
}

static int pt_text_order(const void *a, const void *b)
{
    return strcmp(((const tx_str *)a)->data, ((const tx_str *)b)->data);
}

/* In the order of their texts: Python's order of a set is its own. */
static inline void pt_text_set(pt_text *p, const tx_py *v)
{
    tx_str item[256] = { 0 }, *out = p->out;
    size_t n = tx_py_len(v) < 256 ? tx_py_len(v) : 256;
    for (size_t i = 0; i < n; i++) {
        p->out = &item[i];
        pt_text_of(p, tx_py_item(v, i));
    }
    p->out = out;
    if (n) qsort(item, n, sizeof *item, pt_text_order);
    PT_PUT("{");
    for (size_t i = 0; i < n; i++) {
        PT_PUT("%s ", item[i].data);
        tx_str_free(&item[i]);
    }
    PT_PUT("}");
}

static inline void pt_text_items(pt_text *p, const tx_py *v)
{
    for (size_t i = 0; i < tx_py_len(v); i++) {
        pt_text_of(p, tx_py_item(v, i));
        PT_PUT(" ");
    }
}

static inline void pt_text_dict(pt_text *p, const tx_py *v)
{
    PT_PUT("%s{", v->as.dict.ordered ? "o" : "d");
    for (size_t i = 0; i < v->as.dict.n; i++) {
        pt_text_of(p, v->as.dict.key[i]);
        PT_PUT(":");
        pt_text_of(p, v->as.dict.value[i]);
        PT_PUT(" ");
    }
    PT_PUT("}");
}

static void pt_text_of(pt_text *p, const tx_py *v)
{
    uint64_t bits;
    switch (v->kind) {
    case TX_PY_NONE:
        PT_PUT("N");
        break;
    case TX_PY_BOOL:
        PT_PUT(v->as.b ? "T" : "F");
        break;
    case TX_PY_INT:
        PT_PUT("i%" PRId64, v->as.i);
        break;
    case TX_PY_FLOAT:
        memcpy(&bits, &v->as.f, 8);
        PT_PUT("f%016" PRIx64, bits);
        break;
    case TX_PY_STR:
        pt_text_quoted(p, 's', v->as.str.text, v->as.str.n);
        break;
    case TX_PY_BYTES:
        if (v->big) {
            PT_PUT("I0x");
            pt_text_bytes(p, v->as.str.text, v->as.str.n);
        } else
            pt_text_quoted(p, 'b', v->as.str.text, v->as.str.n);
        break;
    case TX_PY_LIST:
        PT_PUT("[");
        pt_text_items(p, v);
        PT_PUT("]");
        break;
    case TX_PY_TUPLE:
        PT_PUT("(");
        pt_text_items(p, v);
        PT_PUT(")");
        break;
    case TX_PY_SET:
        pt_text_set(p, v);
        break;
    case TX_PY_DICT:
        pt_text_dict(p, v);
        break;
    case TX_PY_TENSOR:
        pt_text_tensor(p, v->as.tensor);
        break;
    case TX_PY_GLOBAL:
        PT_PUT("g:%s.%s", v->as.global.module, v->as.global.name);
        break;
    case TX_PY_OBJECT:
        PT_PUT("O:%s.%s", v->as.object.type->as.global.module, v->as.object.type->as.global.name);
        pt_text_of(p, v->as.object.args);
        if (v->as.object.state) pt_text_of(p, v->as.object.state);
        break;
    }
}

/* The whole file's; freed with tx_str_free. */
static inline tx_str pt_text_of_file(const tx_pt *f, bool brief)
{
    tx_str out = { 0 };
    pt_text *p = calloc(1, sizeof *p);
    p->out = &out;
    p->file = f;
    p->brief = brief;
    pt_text_of(p, tx_pt_root(f));
    free(p);
    return out;
}

static inline tx_str pt_text_file(const tx_pt *f)
{
    return pt_text_of_file(f, false);
}

#endif
