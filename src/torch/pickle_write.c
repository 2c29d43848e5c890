/* pickle_write.c - values as a pickle of protocol 2, with the opcodes in the order in which Python's own pickler and
 * torch.save put them: a value that stands in several places is written once and fetched from the memo. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "torch/pickle.h"

enum { BATCH = 1000 }; /* items between a mark and the opcode that takes them, as Python does it */

/* What a memo's entry stands for: a value by its address, a text or a name by what it says. */
typedef struct kept {
    const tx_py *value;
    const char *a, *b;
    size_t n_a;
    bool open; /* not all of it is written */
} kept;

typedef struct pickler {
    tx_str *out;
    tx__storage_list *storages;
    const char *path;
    kept *memo;
    size_t n, cap;
    tx_hash_table by_hash;
} pickler;

static tx_status write_value(pickler *w, const tx_py *v, int depth);

/* ---- bytes ---- */

static tx_status op(pickler *w, unsigned char code)
{
    return tx_str_append(w->out, &code, 1);
}

static tx_status number(pickler *w, unsigned char code, uint64_t v, size_t n)
{
    unsigned char b[9] = { code };
    for (size_t i = 0; i < n; i++) b[i + 1] = (unsigned char)(v >> (8 * i));
    return tx_str_append(w->out, b, n + 1);
}

/* ---- memo ---- */

static uint64_t hash_of(const kept *k)
{
    if (k->value) return tx_hash(&k->value, sizeof k->value, 1);
    return tx_hash(k->a, k->n_a, k->b ? tx_hash(k->b, strlen(k->b), 2) : 3);
}

static bool is_same(const kept *x, const kept *y)
{
    if (x->value || y->value) return x->value == y->value;
    if (!x->b != !y->b || x->n_a != y->n_a || memcmp(x->a, y->a, x->n_a) != 0) return false;
    return !x->b || !strcmp(x->b, y->b);
}

/* Fetches what is there (*found). */
static tx_status get(pickler *w, const kept *k, bool *found)
{
    size_t at = 0, i;
    uint64_t hash = hash_of(k);
    *found = false;
    while (tx_hash_next(&w->by_hash, hash, &at, &i)) {
        if (!is_same(&w->memo[i], k)) continue;
        if (w->memo[i].open) return TX_FAIL(TX_ERR_ARG, "%s: a value that contains itself cannot be saved", w->path);
        *found = true;
        return i < 256 ? number(w, 'h', i, 1) : number(w, 'j', i, 4);
    }
    return TX_OK;
}

static tx_status put(pickler *w, const kept *k, size_t *index)
{
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 256;
        TX_TRY(tx_realloc(&w->memo, cap, sizeof *w->memo, "the memo of a pickle"));
        w->cap = cap;
    }
    TX_TRY(tx_hash_add(&w->by_hash, hash_of(k), w->n));
    *index = w->n;
    w->memo[w->n++] = *k;
    return *index < 256 ? number(w, 'q', *index, 1) : number(w, 'r', *index, 4);
}

static tx_status put_value(pickler *w, const tx_py *v)
{
    size_t i;
    return put(w, &(kept){ .value = v }, &i);
}

/* ---- what holds nothing ---- */

static tx_status write_text(pickler *w, const char *text, size_t n)
{
    kept k = { .a = text, .n_a = n };
    bool found;
    size_t i;
    TX_TRY(get(w, &k, &found));
    if (found) return TX_OK;
    if (n > UINT32_MAX) return TX_FAIL(TX_ERR_ARG, "%s: a text of %zu bytes cannot be saved", w->path, n);
    TX_TRY(number(w, 'X', n, 4));
    TX_TRY(tx_str_append(w->out, text, n));
    return put(w, &k, &i);
}

static bool is_name(const char *s)
{
    for (const char *c = s; *c; c++)
        if (*c < 0x21 || *c > 0x7E) return false;
    return *s;
}

/* Python 3's pickler gives protocol 2 the names that Python 2 has for these. */
static tx_status write_global(pickler *w, const char *module, const char *name)
{
    if (!strcmp(module, "builtins")) module = "__builtin__";
    if (!strcmp(module, "copyreg")) module = "copy_reg";
    kept k = { .a = module, .n_a = strlen(module), .b = name };
    bool found;
    size_t i;
    TX_TRY(get(w, &k, &found));
    if (found) return TX_OK;
    if (!is_name(module) || !is_name(name))
        return TX_FAIL(TX_ERR_ARG, "%s: \"%s.%s\" is no name of a class or function", w->path, module, name);
    TX_TRY(tx_str_printf(w->out, "c%s\n%s\n", module, name));
    return put(w, &k, &i);
}

static tx_status write_int(pickler *w, int64_t i)
{
    if (i >= 0 && i < 256) return number(w, 'K', (uint64_t)i, 1);
    if (i >= 0 && i < 65536) return number(w, 'M', (uint64_t)i, 2);
    if (i >= INT32_MIN && i <= INT32_MAX) return number(w, 'J', (uint32_t)i, 4);
    uint64_t n = 8; /* without the bytes that only repeat the sign */
    while (i >> (8 * n - 9) == 0 || i >> (8 * n - 9) == -1) n--;
    TX_TRY(number(w, 0x8A, n, 1));
    unsigned char b[8];
    for (size_t k = 0; k < n; k++) b[k] = (unsigned char)((uint64_t)i >> (8 * k));
    return tx_str_append(w->out, b, (size_t)n);
}

static tx_status write_float(pickler *w, double f)
{
    uint64_t bits;
    unsigned char b[9] = { 'G' };
    memcpy(&bits, &f, 8);
    for (int i = 0; i < 8; i++) b[i + 1] = (unsigned char)(bits >> (56 - 8 * i));
    return tx_str_append(w->out, b, 9);
}

/* Protocol 2 has no bytes: a text of the characters 0 to 255 is encoded by a call; an integer is a long one. */
static tx_status write_bytes(pickler *w, const tx_py *v)
{
    const unsigned char *b = (const unsigned char *)v->as.str.text;
    size_t n = v->as.str.n;
    if (v->big) {
        if (n > INT32_MAX) return TX_FAIL(TX_ERR_ARG, "%s: an integer of %zu bytes cannot be saved", w->path, n);
        TX_TRY(n < 256 ? number(w, 0x8A, n, 1) : number(w, 0x8B, n, 4));
        return tx_str_append(w->out, b, n);
    }
    if (!n) {
        TX_TRY(write_global(w, "__builtin__", "bytes"));
        return tx_str_puts(w->out, ")R");
    }
    tx_str text = { 0 };
    tx_status st = TX_OK;
    TX_TRY(write_global(w, "_codecs", "encode"));
    for (size_t i = 0; i < n; i++) {
        unsigned char two[2] = { (unsigned char)(0xC0 | b[i] >> 6), (unsigned char)(0x80 | (b[i] & 0x3F)) };
        TX_GOTO(b[i] < 0x80 ? tx_str_append(&text, b + i, 1) : tx_str_append(&text, two, 2));
    }
    if (text.len > UINT32_MAX) st = TX_FAIL(TX_ERR_ARG, "%s: %zu bytes cannot be saved", w->path, n);
    if (st) goto out;
    TX_GOTO(number(w, 'X', text.len, 4));
    TX_GOTO(tx_str_append(w->out, text.data, text.len));
    TX_GOTO(write_text(w, "latin1", 6));
    TX_GOTO(tx_str_puts(w->out, "\x86R"));
out:
    tx_str_free(&text);
    return st;
}

/* ---- what holds others ---- */

/* (item ... e, or item a for a single one. */
static tx_status write_items(pickler *w, const tx_py *const *item, size_t n, int depth)
{
    for (size_t from = 0; from < n; from += BATCH) {
        size_t k = n - from < BATCH ? n - from : BATCH;
        if (k > 1) TX_TRY(op(w, '('));
        for (size_t i = 0; i < k; i++) TX_TRY(write_value(w, item[from + i], depth));
        TX_TRY(op(w, k > 1 ? 'e' : 'a'));
    }
    return TX_OK;
}

static tx_status write_pairs(pickler *w, const tx_py *v, int depth)
{
    size_t n = v->as.dict.n;
    for (size_t from = 0; from < n; from += BATCH) {
        size_t k = n - from < BATCH ? n - from : BATCH;
        if (k > 1) TX_TRY(op(w, '('));
        for (size_t i = from; i < from + k; i++) {
            TX_TRY(write_value(w, v->as.dict.key[i], depth));
            TX_TRY(write_value(w, v->as.dict.value[i], depth));
        }
        TX_TRY(op(w, k > 1 ? 'u' : 's'));
    }
    return TX_OK;
}

static tx_status write_list(pickler *w, const tx_py *v, int depth)
{
    size_t index;
    TX_TRY(op(w, ']'));
    TX_TRY(put(w, &(kept){ .value = v, .open = true }, &index));
    TX_TRY(write_items(w, v->as.list.item, v->as.list.n, depth));
    w->memo[index].open = false;
    return TX_OK;
}

static tx_status write_dict(pickler *w, const tx_py *v, int depth)
{
    size_t index;
    if (v->as.dict.ordered) {
        TX_TRY(write_global(w, "collections", "OrderedDict"));
        TX_TRY(tx_str_puts(w->out, ")R"));
    } else
        TX_TRY(op(w, '}'));
    TX_TRY(put(w, &(kept){ .value = v, .open = true }, &index));
    TX_TRY(write_pairs(w, v, depth));
    w->memo[index].open = false;
    return TX_OK;
}

static tx_status write_tuple(pickler *w, const tx_py *v, int depth)
{
    static const unsigned char close[] = { ')', 0x85, 0x86, 0x87 };
    size_t n = v->as.list.n;
    if (n > 3) TX_TRY(op(w, '('));
    for (size_t i = 0; i < n; i++) TX_TRY(write_value(w, v->as.list.item[i], depth));
    TX_TRY(op(w, n > 3 ? 't' : close[n]));
    return n ? put_value(w, v) : TX_OK;
}

/* set([...]) */
static tx_status write_set(pickler *w, const tx_py *v, int depth)
{
    TX_TRY(write_global(w, "__builtin__", "set"));
    TX_TRY(op(w, ']'));
    TX_TRY(write_items(w, v->as.list.item, v->as.list.n, depth));
    TX_TRY(tx_str_puts(w->out, "\x85R"));
    return put_value(w, v);
}

/* cls.__new__(cls) where nothing is handed over, as copyreg does for a class that has only attributes; else a call. */
static tx_status write_object(pickler *w, const tx_py *v, int depth)
{
    const tx_py *type = v->as.object.type, *args = v->as.object.args, *state = v->as.object.state;
    TX_TRY(write_global(w, type->as.global.module, type->as.global.name));
    if (tx_py_len(args)) {
        TX_TRY(write_value(w, args, depth));
        TX_TRY(op(w, 'R'));
    } else
        TX_TRY(tx_str_puts(w->out, ")\x81"));
    TX_TRY(put_value(w, v));
    if (!state) return TX_OK;
    TX_TRY(write_value(w, state, depth));
    return op(w, 'b');
}

/* ---- tensors ---- */

static const char *const storage_names[TX_PT_N_DTYPES] = {
    [TX_PT_F64] = "DoubleStorage",    [TX_PT_F32] = "FloatStorage", [TX_PT_F16] = "HalfStorage",
    [TX_PT_BF16] = "BFloat16Storage", [TX_PT_I64] = "LongStorage",  [TX_PT_I32] = "IntStorage",
    [TX_PT_I16] = "ShortStorage",     [TX_PT_I8] = "CharStorage",   [TX_PT_U8] = "ByteStorage",
    [TX_PT_BOOL] = "BoolStorage",
};

static tx_status storage_index(tx__storage_list *l, const tx_pt_storage *s, size_t *index)
{
    size_t at = 0;
    uint64_t hash = tx_hash(&s, sizeof s, 0);
    while (tx_hash_next(&l->by_address, hash, &at, index))
        if (l->item[*index] == s) return TX_OK;
    if (l->n == 0 || (l->n & (l->n - 1)) == 0)
        TX_TRY(tx_realloc(&l->item, l->n ? 2 * l->n : 1, sizeof *l->item, "the storages of a .pt file"));
    TX_TRY(tx_hash_add(&l->by_address, hash, l->n));
    *index = l->n;
    l->item[l->n++] = s;
    return TX_OK;
}

/* ('storage', class, key, 'cpu', numel), which torch.load turns into the storage. */
static tx_status write_storage(pickler *w, const tx_pt_storage *s)
{
    size_t index;
    char key[24];
    TX_TRY(storage_index(w->storages, s, &index));
    int n = snprintf(key, sizeof key, "%zu", index);
    TX_TRY(op(w, '('));
    TX_TRY(write_text(w, "storage", 7));
    TX_TRY(write_global(w, "torch", storage_names[s->dtype]));
    TX_TRY(number(w, 'X', (uint64_t)n, 4));
    TX_TRY(tx_str_append(w->out, key, (size_t)n));
    TX_TRY(write_text(w, "cpu", 3));
    TX_TRY(write_int(w, s->numel));
    return tx_str_puts(w->out, "tQ");
}

static tx_status write_sizes(pickler *w, const int64_t *size, int n)
{
    static const unsigned char close[] = { ')', 0x85, 0x86, 0x87 };
    if (n > 3) TX_TRY(op(w, '('));
    for (int i = 0; i < n; i++) TX_TRY(write_int(w, size[i]));
    return op(w, n > 3 ? 't' : close[n]);
}

static tx_status write_hooks(pickler *w)
{
    TX_TRY(write_global(w, "collections", "OrderedDict"));
    return tx_str_puts(w->out, ")R");
}

static tx_status write_tensor(pickler *w, const tx_py *v)
{
    const tx_pt_tensor *t = v->as.tensor;
    if (t->parameter) {
        TX_TRY(write_global(w, "torch._utils", "_rebuild_parameter"));
        TX_TRY(op(w, '('));
    }
    TX_TRY(write_global(w, "torch._utils", "_rebuild_tensor_v2"));
    TX_TRY(op(w, '('));
    TX_TRY(write_storage(w, t->storage));
    TX_TRY(write_int(w, t->offset));
    TX_TRY(write_sizes(w, t->dim, t->n_dims));
    TX_TRY(write_sizes(w, t->stride, t->n_dims));
    TX_TRY(op(w, t->requires_grad && !t->parameter ? 0x88 : 0x89));
    TX_TRY(write_hooks(w));
    TX_TRY(tx_str_puts(w->out, "tR"));
    if (t->parameter) {
        TX_TRY(op(w, t->requires_grad ? 0x88 : 0x89));
        TX_TRY(write_hooks(w));
        TX_TRY(tx_str_puts(w->out, "tR"));
    }
    return put_value(w, v);
}

/* ---- all ---- */

static tx_status write_container(pickler *w, const tx_py *v, int depth)
{
    bool found;
    if (depth >= TX_PT_MAX_DEPTH)
        return TX_FAIL(TX_ERR_ARG, "%s: values nested deeper than %d cannot be saved", w->path, TX_PT_MAX_DEPTH);
    TX_TRY(get(w, &(kept){ .value = v }, &found));
    if (found) return TX_OK;
    switch (v->kind) {
    case TX_PY_LIST:
        return write_list(w, v, depth + 1);
    case TX_PY_TUPLE:
        return write_tuple(w, v, depth + 1);
    case TX_PY_SET:
        return write_set(w, v, depth + 1);
    case TX_PY_DICT:
        return write_dict(w, v, depth + 1);
    case TX_PY_OBJECT:
        return write_object(w, v, depth + 1);
    default:
        return write_tensor(w, v);
    }
}

static tx_status write_value(pickler *w, const tx_py *v, int depth)
{
    switch (v->kind) {
    case TX_PY_NONE:
        return op(w, 'N');
    case TX_PY_BOOL:
        return op(w, v->as.b ? 0x88 : 0x89);
    case TX_PY_INT:
        return write_int(w, v->as.i);
    case TX_PY_FLOAT:
        return write_float(w, v->as.f);
    case TX_PY_STR:
        return write_text(w, v->as.str.text, v->as.str.n);
    case TX_PY_BYTES:
        return write_bytes(w, v);
    case TX_PY_GLOBAL:
        return write_global(w, v->as.global.module, v->as.global.name);
    default:
        return write_container(w, v, depth);
    }
}

tx_status tx__pickle_write(tx_str *out, tx__storage_list *storages, const char *path, const tx_py *root)
{
    pickler w = { .out = out, .storages = storages, .path = path };
    tx_status st;
    TX_GOTO(tx_str_append(out, "\x80\x02", 2));
    TX_GOTO(write_value(&w, root, 0));
    TX_GOTO(op(&w, '.'));
out:
    tx_free(w.memo);
    tx_hash_free(&w.by_hash);
    return st;
}

void tx__storage_list_free(tx__storage_list *l)
{
    tx_free(l->item);
    tx_hash_free(&l->by_address);
}
