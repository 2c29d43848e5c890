/* pickle.c - the machine: opcodes, a stack, marks in it, and a memo. Source: the opcodes' descriptions in Python's
 * pickletools; protocols 2 to 5, and of the older ones what Python 2 writes into a pickle of protocol 2. */
#include "torch/pickle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"

enum { MAX_NAME = 255, MAX_LINE = 64 }; /* bytes of a module or name; of a number written out */

tx_status tx__pickle_fail(const tx__pickle *p, tx_status code)
{
    return tx_fail_prefix(code, "%s: %s, byte %zu", p->in->path, p->in->part, p->op);
}

#define FAIL(...) TX__PICKLE_FAIL(p, TX_ERR_FORMAT, __VA_ARGS__)

tx_status tx__pickle_no_memory(const tx__pickle *p)
{
    return TX__PICKLE_FAIL(p, TX_ERR_NOMEM, "not enough memory for the values of the file");
}

tx_status tx__pickle_new(tx__pickle *p, tx_py **out, tx_py_kind kind)
{
    if (*p->in->n_values >= TX_PT_MAX_VALUES)
        return TX__PICKLE_FAIL(p, TX_ERR_UNSUPPORTED, "more than %zu values in one file", TX_PT_MAX_VALUES);
    ++*p->in->n_values;
    *out = tx__py_new(p->arena, kind);
    return *out ? TX_OK : tx__pickle_no_memory(p);
}

/* ---- arguments of opcodes ---- */

static tx_status take(tx__pickle *p, const unsigned char **out, uint64_t n)
{
    if (n > p->in->size - p->at)
        return FAIL("the pickle ends within an opcode that needs %" PRIu64 " bytes more", n - (p->in->size - p->at));
    *out = p->in->data + p->at;
    p->at += (size_t)n;
    return TX_OK;
}

/* n <= 8 bytes, little-endian. */
static tx_status take_number(tx__pickle *p, uint64_t *out, size_t n)
{
    const unsigned char *b;
    TX_TRY(take(p, &b, n));
    *out = 0;
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)b[i] << (8 * i);
    return TX_OK;
}

/* Up to a line end, which is taken, too. */
static tx_status take_line(tx__pickle *p, char *out, size_t cap, const char *what)
{
    size_t left = p->in->size - p->at;
    const unsigned char *b = p->in->data + p->at, *end = memchr(b, '\n', left < cap ? left : cap);
    if (!end) return FAIL("%s that has no end, or is longer than %zu bytes", what, cap - 1);
    size_t n = (size_t)(end - b);
    for (size_t i = 0; i < n; i++)
        if (b[i] < 0x21 || b[i] > 0x7E) return FAIL("%s that is not plain ASCII", what);
    memcpy(out, b, n);
    out[n] = 0;
    p->at += n + 1;
    return TX_OK;
}

/* ---- stack, marks, memo ---- */

static tx_status grow(const tx__pickle *p, void *inout, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return TX_OK;
    size_t more = *cap ? 2 * *cap : 256;
    tx_status st = tx_realloc(inout, more, size, "the stack of a pickle");
    if (st) return tx__pickle_fail(p, st);
    *cap = more;
    return TX_OK;
}

static tx_status push(tx__pickle *p, const tx_py *v)
{
    TX_TRY(grow(p, &p->stack, p->n, &p->cap, sizeof(void *)));
    p->stack[p->n++] = v;
    return TX_OK;
}

static size_t bottom(const tx__pickle *p)
{
    return p->n_marks ? p->mark[p->n_marks - 1] : 0;
}

static tx_status pop(tx__pickle *p, const tx_py **out)
{
    if (p->n == bottom(p)) return FAIL("an opcode takes a value from an empty stack");
    *out = p->stack[--p->n];
    return TX_OK;
}

static tx_status top(tx__pickle *p, const tx_py **out)
{
    if (p->n == bottom(p)) return FAIL("an opcode looks at a value on an empty stack");
    *out = p->stack[p->n - 1];
    return TX_OK;
}

static tx_status push_mark(tx__pickle *p)
{
    TX_TRY(grow(p, &p->mark, p->n_marks, &p->cap_marks, sizeof *p->mark));
    p->mark[p->n_marks++] = p->n;
    return TX_OK;
}

/* What was pushed since the last mark; it lies there until the next push. */
static tx_status pop_mark(tx__pickle *p, const tx_py ***item, size_t *n)
{
    if (!p->n_marks) return FAIL("an opcode looks for a mark and there is none");
    size_t from = p->mark[--p->n_marks];
    *item = p->stack ? p->stack + from : NULL;
    *n = p->n - from;
    p->n = from;
    return TX_OK;
}

/* An index is smaller than the number of bytes: each that is used takes some. */
static tx_status put(tx__pickle *p, uint64_t i)
{
    const tx_py *v;
    TX_TRY(top(p, &v));
    if (i >= p->in->size) return FAIL("a memo index of %" PRIu64 " in a pickle of %zu bytes", i, p->in->size);
    if (i >= p->cap_memo) {
        size_t cap = p->cap_memo ? p->cap_memo : 256;
        while (cap <= i) cap *= 2;
        tx_status st = tx_realloc(&p->memo, cap, sizeof *p->memo, "the memo of a pickle");
        if (st) return tx__pickle_fail(p, st);
        memset(p->memo + p->cap_memo, 0, (cap - p->cap_memo) * sizeof *p->memo);
        p->cap_memo = cap;
    }
    p->memo[i] = v;
    p->n_puts++;
    return TX_OK;
}

static tx_status get(tx__pickle *p, uint64_t i)
{
    if (i >= p->cap_memo || !p->memo[i]) return FAIL("memo entry %" PRIu64 " is asked for before it is made", i);
    return push(p, p->memo[i]);
}

/* ---- values that hold nothing else ---- */

static tx_status push_small(tx__pickle *p, tx_py_kind kind, int64_t i)
{
    return push(p, tx__py_small(kind, i));
}

static tx_status push_int(tx__pickle *p, int64_t i)
{
    tx_py *v;
    if (tx__py_small(TX_PY_INT, i)) return push_small(p, TX_PY_INT, i);
    TX_TRY(tx__pickle_new(p, &v, TX_PY_INT));
    v->as.i = i;
    return push(p, v);
}

static tx_status push_float(tx__pickle *p)
{
    tx_py *v;
    const unsigned char *b;
    uint64_t bits = 0;
    TX_TRY(take(p, &b, 8));
    for (int i = 0; i < 8; i++) bits = bits << 8 | b[i];
    TX_TRY(tx__pickle_new(p, &v, TX_PY_FLOAT));
    memcpy(&v->as.f, &bits, 8);
    return push(p, v);
}

static bool is_utf8(const unsigned char *b, size_t n)
{
    utf8proc_int32_t c;
    while (n) {
        utf8proc_ssize_t k = utf8proc_iterate(b, n > 4 ? 4 : (utf8proc_ssize_t)n, &c);
        if (k <= 0) return false;
        b += k;
        n -= (size_t)k;
    }
    return true;
}

/* Python 2's texts (`old`) are bytes as well; what is UTF-8 is taken for text. */
static tx_status push_string(tx__pickle *p, tx_py_kind kind, size_t n_length, bool old)
{
    const unsigned char *b;
    uint64_t n;
    tx_py *v;
    TX_TRY(take_number(p, &n, n_length));
    TX_TRY(take(p, &b, n));
    bool text = kind == TX_PY_STR && is_utf8(b, (size_t)n);
    if (kind == TX_PY_STR && !text && !old) return FAIL("a text that is not UTF-8");
    TX_TRY(tx__pickle_new(p, &v, text ? TX_PY_STR : TX_PY_BYTES));
    v->as.str.text = tx__py_text(p->arena, b, (size_t)n);
    v->as.str.n = (size_t)n;
    return v->as.str.text ? push(p, v) : tx__pickle_no_memory(p);
}

/* Two's complement of any length. */
static tx_status push_long(tx__pickle *p, size_t n_length)
{
    const unsigned char *b;
    uint64_t n;
    tx_py *v;
    TX_TRY(take_number(p, &n, n_length));
    if (n_length == 4 && n > INT32_MAX) return FAIL("an integer of a negative number of bytes");
    TX_TRY(take(p, &b, n));
    unsigned char sign = n && b[n - 1] & 0x80 ? 0xFF : 0;
    while (n > 8 && b[n - 1] == sign && (b[n - 2] & 0x80) == (sign & 0x80)) n--;
    if (n <= 8) {
        uint64_t bits = sign ? UINT64_MAX : 0;
        for (size_t i = 0; i < n; i++) bits = (bits & ~((uint64_t)0xFF << (8 * i))) | (uint64_t)b[i] << (8 * i);
        return push_int(p, (int64_t)bits);
    }
    TX_TRY(tx__pickle_new(p, &v, TX_PY_BYTES));
    v->big = true;
    v->as.str.text = tx__py_text(p->arena, b, (size_t)n);
    v->as.str.n = (size_t)n;
    return v->as.str.text ? push(p, v) : tx__pickle_no_memory(p);
}

/* Python 2 writes integers of more than 32 bits, and few more, as a line of digits. */
static tx_status push_digits(tx__pickle *p)
{
    char line[MAX_LINE], *end;
    TX_TRY(take_line(p, line, sizeof line, "an integer"));
    if (!strcmp(line, "00") || !strcmp(line, "01")) return push_small(p, TX_PY_BOOL, line[1] == '1');
    size_t n = strlen(line);
    if (n && line[n - 1] == 'L') line[n - 1] = 0;
    errno = 0;
    int64_t i = strtoll(line, &end, 10);
    if (errno || end == line || *end) return FAIL("\"%s\" is no integer of 64 bits", line);
    return push_int(p, i);
}

/* ---- names ---- */

static tx_status push_global(tx__pickle *p, const char *module, const char *name)
{
    tx_py *v;
    if (!tx__name_find(module, name))
        return TX__PICKLE_FAIL(
            p, TX_ERR_UNSUPPORTED,
            "the file asks for %s.%s, which is not among the names that a checkpoint may hold; nothing "
            "was run",
            module, name);
    TX_TRY(tx__pickle_new(p, &v, TX_PY_GLOBAL));
    v->as.global.module = tx__py_text(p->arena, module, strlen(module));
    v->as.global.name = tx__py_text(p->arena, name, strlen(name));
    return v->as.global.module && v->as.global.name ? push(p, v) : tx__pickle_no_memory(p);
}

static tx_status global_lines(tx__pickle *p)
{
    char module[MAX_NAME + 1], name[MAX_NAME + 1];
    TX_TRY(take_line(p, module, sizeof module, "a module's name"));
    TX_TRY(take_line(p, name, sizeof name, "a name"));
    return push_global(p, module, name);
}

static tx_status global_from_stack(tx__pickle *p)
{
    const tx_py *module, *name;
    TX_TRY(pop(p, &name));
    TX_TRY(pop(p, &module));
    if (!tx_py_str(module) || !tx_py_str(name) || module->as.str.n > MAX_NAME || name->as.str.n > MAX_NAME)
        return FAIL("the name of a class or function is not a text of at most %d bytes", MAX_NAME);
    return push_global(p, tx_py_str(module), tx_py_str(name));
}

/* ---- containers ---- */

static tx_status push_new(tx__pickle *p, tx_py_kind kind)
{
    tx_py *v;
    TX_TRY(tx__pickle_new(p, &v, kind));
    return push(p, v);
}

/* A list, tuple or set of exactly these. */
static tx_status push_items(tx__pickle *p, tx_py_kind kind, const tx_py **item, size_t n)
{
    tx_py *v;
    if (kind == TX_PY_TUPLE && !n) return push_small(p, TX_PY_TUPLE, 0);
    TX_TRY(tx__pickle_new(p, &v, kind));
    if (kind == TX_PY_TUPLE) { /* nothing is appended to one, so it has no more memory than it needs */
        v->as.list.item = tx__py_memory(p->arena, n * sizeof *item);
        if (!v->as.list.item) return tx__pickle_no_memory(p);
        memcpy(v->as.list.item, item, n * sizeof *item);
        v->as.list.n = n;
    } else
        for (size_t i = 0; i < n; i++)
            if (!tx__py_push(p->arena, v, item[i])) return tx__pickle_no_memory(p);
    return push(p, v);
}

static tx_status push_marked(tx__pickle *p, tx_py_kind kind)
{
    const tx_py **item;
    size_t n;
    TX_TRY(pop_mark(p, &item, &n));
    return push_items(p, kind, item, n);
}

/* TUPLE1 to TUPLE3. */
static tx_status push_tuple(tx__pickle *p, size_t n)
{
    if (p->n - bottom(p) < n) return FAIL("an opcode takes %zu values and there are fewer", n);
    p->n -= n;
    return push_items(p, TX_PY_TUPLE, p->stack + p->n, n);
}

static tx_status append(tx__pickle *p, tx_py_kind kind, const tx_py **item, size_t n)
{
    const tx_py *v;
    TX_TRY(top(p, &v));
    if (v->kind != kind) return FAIL("items are added to something that is no %s", kind == TX_PY_SET ? "set" : "list");
    for (size_t i = 0; i < n; i++)
        if (!tx__py_push(p->arena, (tx_py *)(uintptr_t)v, item[i])) return tx__pickle_no_memory(p);
    return TX_OK;
}

static tx_status append_one(tx__pickle *p)
{
    const tx_py *item;
    TX_TRY(pop(p, &item));
    return append(p, TX_PY_LIST, &item, 1);
}

static tx_status append_marked(tx__pickle *p, tx_py_kind kind)
{
    const tx_py **item;
    size_t n;
    TX_TRY(pop_mark(p, &item, &n));
    return append(p, kind, item, n);
}

/* Into the dict on top, or into the state of an object whose class is a dict. */
static tx_status set_items(tx__pickle *p, const tx_py **item, size_t n)
{
    const tx_py *v;
    TX_TRY(top(p, &v));
    if (n % 2) return FAIL("a key of a dict without a value");
    if (v->kind == TX_PY_OBJECT) {
        tx_py *object = (tx_py *)(uintptr_t)v, *dict;
        if (!v->as.object.state) {
            TX_TRY(tx__pickle_new(p, &dict, TX_PY_DICT));
            object->as.object.state = dict;
        }
        v = v->as.object.state;
    }
    if (v->kind != TX_PY_DICT) return FAIL("keys are set in something that is no dict");
    for (size_t i = 0; i < n; i += 2) TX_TRY(tx__pickle_set_item(p, (tx_py *)(uintptr_t)v, item[i], item[i + 1]));
    return TX_OK;
}

static tx_status set_one(tx__pickle *p)
{
    const tx_py *pair[2];
    TX_TRY(pop(p, &pair[1]));
    TX_TRY(pop(p, &pair[0]));
    return set_items(p, pair, 2);
}

static tx_status set_marked(tx__pickle *p)
{
    const tx_py **item;
    size_t n;
    TX_TRY(pop_mark(p, &item, &n));
    return set_items(p, item, n);
}

static tx_status dict_marked(tx__pickle *p)
{
    const tx_py **item;
    size_t n;
    tx_py *v;
    TX_TRY(pop_mark(p, &item, &n));
    if (n % 2) return FAIL("a key of a dict without a value");
    TX_TRY(tx__pickle_new(p, &v, TX_PY_DICT));
    for (size_t i = 0; i < n; i += 2) TX_TRY(tx__pickle_set_item(p, v, item[i], item[i + 1]));
    return push(p, v);
}

/* ---- calls ---- */

static tx_status reduce(tx__pickle *p, bool keywords)
{
    const tx_py *function, *args, *named = NULL, *v;
    if (keywords) TX_TRY(pop(p, &named));
    if (named && (named->kind != TX_PY_DICT || named->as.dict.n))
        return TX__PICKLE_FAIL(p, TX_ERR_UNSUPPORTED, "a class is made with named arguments");
    TX_TRY(pop(p, &args));
    TX_TRY(pop(p, &function));
    TX_TRY(tx__pickle_call(p, function, args, &v));
    return push(p, v);
}

static tx_status build(tx__pickle *p)
{
    const tx_py *state, *v;
    TX_TRY(pop(p, &state));
    TX_TRY(top(p, &v));
    return tx__pickle_build(p, v, state);
}

static tx_status load(tx__pickle *p)
{
    const tx_py *id, *v;
    TX_TRY(pop(p, &id));
    TX_TRY(tx__pickle_load(p, id, &v));
    return push(p, v);
}

/* ---- the opcodes ---- */

static tx_status protocol(tx__pickle *p)
{
    uint64_t n;
    TX_TRY(take_number(p, &n, 1));
    return n <= 5 ? TX_OK : TX__PICKLE_FAIL(p, TX_ERR_UNSUPPORTED, "pickle protocol %" PRIu64 "; 2 to 5 are known", n);
}

/* A frame says how many bytes belong together; they must be there. */
static tx_status frame(tx__pickle *p)
{
    uint64_t n;
    TX_TRY(take_number(p, &n, 8));
    return n <= p->in->size - p->at ? TX_OK : FAIL("a frame of %" PRIu64 " bytes is larger than the pickle", n);
}

static tx_status number_then(tx__pickle *p, size_t n_bytes, tx_status (*then)(tx__pickle *, uint64_t))
{
    uint64_t n;
    TX_TRY(take_number(p, &n, n_bytes));
    return then(p, n);
}

static tx_status push_unsigned(tx__pickle *p, uint64_t n)
{
    return push_int(p, (int64_t)n);
}

static tx_status push_signed32(tx__pickle *p, uint64_t n)
{
    return push_int(p, (int32_t)(uint32_t)n);
}

static tx_status drop(tx__pickle *p)
{
    const tx_py *v;
    if (p->n_marks && p->n == bottom(p)) { /* Python's POP takes a mark, too */
        p->n_marks--;
        return TX_OK;
    }
    return pop(p, &v);
}

static tx_status drop_marked(tx__pickle *p)
{
    const tx_py **item;
    size_t n;
    return pop_mark(p, &item, &n);
}

static tx_status again(tx__pickle *p)
{
    const tx_py *v;
    TX_TRY(top(p, &v));
    return push(p, v);
}

static tx_status unknown(tx__pickle *p, unsigned char op)
{
    const char *what = "is none";
    if (op == 'i' || op == 'o') what = "calls a class as Python 1 did";
    if (op == 0x82 || op == 0x83 || op == 0x84) what = "refers to a registry of the program that wrote the file";
    if (op == 0x97 || op == 0x98) what = "refers to a buffer outside of the file";
    if (memchr("SVFPgp", op, 6)) what = "is of the text protocol; save the file again with protocol 2";
    return TX__PICKLE_FAIL(p, TX_ERR_UNSUPPORTED, "opcode 0x%02x %s, and is refused", op, what);
}

/* Numbers, texts, bytes and names; *known false: the opcode is another. */
static tx_status step_value(tx__pickle *p, unsigned char op, bool *known)
{
    switch (op) {
        /* clang-format off */
    case 'N':  return push_small(p, TX_PY_NONE, 0);
    case 0x88: return push_small(p, TX_PY_BOOL, 1);
    case 0x89: return push_small(p, TX_PY_BOOL, 0);
    case 'K':  return number_then(p, 1, push_unsigned);
    case 'M':  return number_then(p, 2, push_unsigned);
    case 'J':  return number_then(p, 4, push_signed32);
    case 0x8A: return push_long(p, 1);
    case 0x8B: return push_long(p, 4);
    case 'I': case 'L': return push_digits(p);
    case 'G':  return push_float(p);
    case 'X':  return push_string(p, TX_PY_STR, 4, false);
    case 0x8C: return push_string(p, TX_PY_STR, 1, false);
    case 0x8D: return push_string(p, TX_PY_STR, 8, false);
    case 'U':  return push_string(p, TX_PY_STR, 1, true);
    case 'T':  return push_string(p, TX_PY_STR, 4, true);
    case 'C':  return push_string(p, TX_PY_BYTES, 1, false);
    case 'B':  return push_string(p, TX_PY_BYTES, 4, false);
    case 0x8E: case 0x96: return push_string(p, TX_PY_BYTES, 8, false);
    case 'c':  return global_lines(p);
    case 0x93: return global_from_stack(p);
    default:   *known = false; return TX_OK;
        /* clang-format on */
    }
}

/* Lists, tuples, sets and dicts; likewise. */
static tx_status step_container(tx__pickle *p, unsigned char op, bool *known)
{
    switch (op) {
        /* clang-format off */
    case '(':  return push_mark(p);
    case ')':  return push_small(p, TX_PY_TUPLE, 0);
    case 0x85: return push_tuple(p, 1);
    case 0x86: return push_tuple(p, 2);
    case 0x87: return push_tuple(p, 3);
    case 't':  return push_marked(p, TX_PY_TUPLE);
    case ']':  return push_new(p, TX_PY_LIST);
    case 'l':  return push_marked(p, TX_PY_LIST);
    case 'a':  return append_one(p);
    case 'e':  return append_marked(p, TX_PY_LIST);
    case 0x8F: return push_new(p, TX_PY_SET);
    case 0x90: return append_marked(p, TX_PY_SET);
    case 0x91: return push_marked(p, TX_PY_SET);
    case '}':  return push_new(p, TX_PY_DICT);
    case 'd':  return dict_marked(p);
    case 's':  return set_one(p);
    case 'u':  return set_marked(p);
    default:   *known = false; return TX_OK;
        /* clang-format on */
    }
}

static tx_status step(tx__pickle *p, unsigned char op)
{
    bool known = true;
    tx_status st = step_value(p, op, &known);
    if (known) return st;
    known = true;
    st = step_container(p, op, &known);
    if (known) return st;
    switch (op) {
        /* clang-format off */
    case 0x80: return protocol(p);
    case 0x95: return frame(p);
    /* memo and stack */
    case 'q':  return number_then(p, 1, put);
    case 'r':  return number_then(p, 4, put);
    case 0x94: return put(p, p->n_puts);
    case 'h':  return number_then(p, 1, get);
    case 'j':  return number_then(p, 4, get);
    case '0':  return drop(p);
    case '1':  return drop_marked(p);
    case '2':  return again(p);
    /* what Python would call */
    case 'R': case 0x81: return reduce(p, false);
    case 0x92: return reduce(p, true);
    case 'b':  return build(p);
    case 'Q':  return load(p);
    default:   return unknown(p, op);
        /* clang-format on */
    }
}

/* ---- what came out ---- */

enum { OPEN = 255 }; /* tx_py.mark of a value that is being looked at; else how deep it is, when it is known */

static tx_status check_tree(tx__pickle *p, const tx_py *v, int depth, unsigned char *height);

static tx_status check_all(tx__pickle *p, const tx_py *const *item, size_t n, int depth, unsigned char *height)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char h = 0;
        TX_TRY(check_tree(p, item[i], depth + 1, &h));
        if (h + 1 > *height) *height = (unsigned char)(h + 1);
    }
    return TX_OK;
}

/* No value holds itself, and none is too deep: each is looked at once, so that sharing costs nothing. */
static tx_status check_tree(tx__pickle *p, const tx_py *v, int depth, unsigned char *height)
{
    const tx_py *parts[2] = { 0 };
    if (!v || v->kind < TX_PY_LIST || v->kind == TX_PY_TENSOR || v->kind == TX_PY_GLOBAL || !tx_py_len(v)) {
        if (!v || v->kind != TX_PY_OBJECT) return TX_OK;
    }
    if (v->mark == OPEN) return FAIL("a value that contains itself");
    if (!v->mark) {
        tx_py *w = (tx_py *)(uintptr_t)v;
        unsigned char h = 1;
        if (depth >= TX_PT_MAX_DEPTH) return FAIL("values are nested deeper than %d", TX_PT_MAX_DEPTH);
        w->mark = OPEN;
        if (v->kind == TX_PY_DICT) {
            TX_TRY(check_all(p, v->as.dict.key, v->as.dict.n, depth, &h));
            TX_TRY(check_all(p, v->as.dict.value, v->as.dict.n, depth, &h));
        } else if (v->kind == TX_PY_OBJECT) {
            parts[0] = v->as.object.args;
            parts[1] = v->as.object.state;
            TX_TRY(check_all(p, parts, 2, depth, &h));
        } else
            TX_TRY(check_all(p, v->as.list.item, v->as.list.n, depth, &h));
        w->mark = h;
    }
    if (depth + v->mark > TX_PT_MAX_DEPTH) return FAIL("values are nested deeper than %d", TX_PT_MAX_DEPTH);
    *height = v->mark;
    return TX_OK;
}

static tx_status run(tx__pickle *p, const tx_py **out)
{
    const unsigned char *op;
    for (;;) {
        p->op = p->at;
        TX_TRY(take(p, &op, 1));
        if (*op == '.') break;
        TX_TRY(step(p, *op));
    }
    const tx_py *root;
    TX_TRY(pop(p, &root));
    if (p->n || p->n_marks) return FAIL("the pickle ends and leaves values behind");
    unsigned char height = 0;
    TX_TRY(check_tree(p, root, 0, &height));
    *out = root;
    return TX_OK;
}

tx_status tx__pickle_read(const tx_py **out, size_t *taken, tx_py_arena *a, const tx__pickle_in *in)
{
    tx__pickle p = { .in = in, .arena = a };
    tx_status st = run(&p, out);
    *taken = p.at;
    tx_free(p.stack);
    tx_free(p.mark);
    tx_free(p.memo);
    tx_hash_free(&p.keys);
    return st;
}
