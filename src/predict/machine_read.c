/* machine_read.c - reads machine files. Every key is looked up in the tables of machine.def, so a file has those
 * keys and no others; the first thing that is wrong is the error. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "comm/comm.h"
#include "predict/machine_rows.h"

/* Keys beside the numbers. */
static const char *const other_keys[] = { "name", "sources", "measured", "measured.products", "measured.ops" };

enum { MAX_BYTES = 16 << 20, N_OTHER_KEYS = sizeof other_keys / sizeof *other_keys };

/* ---------------------------------------------------------------- what was meant */

/* Of words, the one that a mistyped word is nearest to. */
struct nearest {
    const char *typed;
    int distance; /* of the nearest so far, or that of another word */
    char found[64];
};

static struct nearest nearest_to(const char *typed)
{
    return (struct nearest){ .typed = typed, .distance = tx_str_another(strlen(typed)) };
}

static void try_word(struct nearest *n, const char *word, int farther)
{
    int d = tx_str_distance(n->typed, word);
    if (d >= n->distance - farther) return;
    n->distance = d + farther;
    snprintf(n->found, sizeof n->found, "%s", word);
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* A key of the same name elsewhere is as near as one letter. */
static void try_path(struct nearest *n, const char *typed, const char *path, size_t length)
{
    char candidate[64];
    size_t above = (size_t)(last_part(typed) - typed);
    snprintf(candidate, sizeof candidate, "%.*s", (int)length, path);
    size_t others = (size_t)(last_part(candidate) - candidate);
    bool beside = above == others && !strncmp(typed, candidate, above);
    int before = n->distance;
    try_word(n, last_part(candidate), !beside);
    if (n->distance < before) snprintf(n->found, sizeof n->found, "%s", candidate);
}

/* ---------------------------------------------------------------- numbers */

typedef struct machine_reading {
    const char *file;
    tx_machine *m;
} machine_reading;

static tx_status unknown_key(const machine_reading *r, const char *path)
{
    struct nearest n = nearest_to(last_part(path));
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
        for (const char *end = row->path; *end; end++)
            if (!end[1] || end[1] == '.') try_path(&n, path, row->path, (size_t)(end + 1 - row->path));
    for (int i = 0; i < N_OTHER_KEYS; i++) try_path(&n, path, other_keys[i], strlen(other_keys[i]));
    if (n.found[0])
        return TX_FAIL(TX_ERR_FORMAT, "%s: unknown key \"%.100s\"; did you mean \"%s\"?", r->file, path, n.found);
    return TX_FAIL(TX_ERR_FORMAT, "%s: unknown key \"%.100s\"; docs/formats/machine.md lists the keys", r->file, path);
}

static tx_status is_another(const machine_reading *r, const char *path, const json_t *v, const char *takes)
{
    char text[48];
    return TX_FAIL(TX_ERR_FORMAT, "%s: \"%s\" is %s; it takes %s", r->file, path, tx_json_shown(text, v), takes);
}

/* @v NULL: the key is missing, and there is no other value */
static tx_status read_number(const machine_reading *r, const char *path, const tx__machine_row *row, const json_t *v,
                             double *out)
{
    char takes[80];
    double x = json_number_value(v);
    if (json_is_number(v) && x >= row->lo && x <= row->hi && !(row->whole && x != floor(x))) {
        *out = x * row->unit;
        return TX_OK;
    }
    snprintf(takes, sizeof takes, "a %snumber from %g to %g", row->whole ? "whole " : "", row->lo, row->hi);
    if (v) return is_another(r, path, v, takes);
    return TX_FAIL(TX_ERR_FORMAT, "%s: \"%s\" is missing; it takes %s: %s", r->file, path, takes, row->meaning);
}

static tx_status fill_in(const machine_reading *r)
{
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) {
        double *number = tx__machine_number_at(r->m, row);
        if (!isnan(*number)) continue;
        if (isnan(row->otherwise)) return read_number(r, row->path, row, NULL, number);
        *number = row->otherwise * row->unit;
    }
    if (r->m->name[0]) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: \"name\" is missing; it takes a name for people, as \"a100-80g\"", r->file);
}

/* ---------------------------------------------------------------- what was measured */

struct entry {
    char path[40];
    const json_t *object;
    const tx__machine_row *row; /* of its numbers, */
    void *number;               /* which are put here */
    const char *op;             /* NULL: of a product */
    tx_dtype dtype;
};

static bool entry_has(const struct entry *e, const tx__machine_row *row)
{
    return !e->op || tx__op_has(e->op, row);
}

static tx_status unknown_in_entry(const machine_reading *r, const struct entry *e, const char *key)
{
    char keys[80];
    struct nearest n = nearest_to(key);
    snprintf(keys, sizeof keys, "%sdtype", e->op ? "op, " : "");
    for (const tx__machine_row *row = e->row; row->path; row++) {
        if (!entry_has(e, row)) continue;
        try_word(&n, row->path, 0);
        size_t at = strlen(keys);
        snprintf(keys + at, sizeof keys - at, ", %s", row->path);
    }
    try_word(&n, "dtype", 0);
    if (n.found[0])
        return TX_FAIL(TX_ERR_FORMAT, "%s: unknown key \"%s.%.60s\"; did you mean \"%s\"?", r->file, e->path, key,
                       n.found);
    return TX_FAIL(TX_ERR_FORMAT, "%s: unknown key \"%s.%.60s\"; an entry has %s", r->file, e->path, key, keys);
}

static tx_status check_keys(const machine_reading *r, const struct entry *e)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)e->object, key, v)
    {
        bool known = !strcmp(key, "dtype") || (e->op && !strcmp(key, "op"));
        for (const tx__machine_row *row = e->row; row->path && !known; row++)
            known = entry_has(e, row) && !strcmp(key, row->path);
        if (!known) return unknown_in_entry(r, e, key);
    }
    return TX_OK;
}

/* The text of a member, which is one of `word`, ended by NULL. */
static tx_status read_word(const machine_reading *r, const struct entry *e, const char *key, const char *const *word,
                           const char **out)
{
    char path[64], takes[80] = "", shown[48];
    const json_t *v = json_object_get(e->object, key);
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    struct nearest n = nearest_to(text);
    snprintf(path, sizeof path, "%s.%s", e->path, key);
    for (int i = 0; word[i]; i++) {
        if (!strcmp(word[i], text)) {
            *out = word[i];
            return TX_OK;
        }
        try_word(&n, word[i], 0);
        size_t at = strlen(takes);
        snprintf(takes + at, sizeof takes - at, "%s%s", i ? ", " : "", word[i]);
    }
    if (strlen(takes) + 1 == sizeof takes) snprintf(takes, sizeof takes, "one of those in docs/formats/machine.md");
    if (!v) return TX_FAIL(TX_ERR_FORMAT, "%s: \"%s\" is missing; it takes %s", r->file, path, takes);
    if (!*text || !n.found[0]) return is_another(r, path, v, takes);
    return TX_FAIL(TX_ERR_FORMAT, "%s: \"%s\" is %s; did you mean \"%s\"?", r->file, path, tx_json_shown(shown, v),
                   n.found);
}

static tx_status read_dtype(const machine_reading *r, struct entry *e)
{
    const char *word[TX_N_DTYPES + 1] = { NULL }, *dtype;
    for (int t = 0; t < TX_N_DTYPES; t++) word[t] = tx_dtype_name((tx_dtype)t);
    TX_TRY(read_word(r, e, "dtype", word, &dtype));
    for (int t = 0; t < TX_N_DTYPES; t++)
        if (word[t] == dtype) e->dtype = (tx_dtype)t;
    return TX_OK;
}

static tx_status read_op_name(const machine_reading *r, struct entry *e)
{
    const char *word[TX__N_TIMED_OPS + TX_N_COMM_OPS + 1] = { NULL };
    int n = 0;
    for (int i = 0; i < TX__N_TIMED_OPS; i++) word[n++] = tx__timed_ops[i].op;
    for (int i = 0; i < TX_N_COMM_OPS; i++) word[n++] = tx_comm_op_names[i];
    return read_word(r, e, "op", word, &e->op);
}

static tx_status read_entry(const machine_reading *r, struct entry *e)
{
    if (!json_is_object(e->object)) return is_another(r, e->path, e->object, "an object { \"dtype\": ... }");
    if (e->row == tx__op_rows) TX_TRY(read_op_name(r, e));
    TX_TRY(read_dtype(r, e));
    TX_TRY(check_keys(r, e));
    for (const tx__machine_row *row = e->row; row->path; row++) {
        char path[64];
        double *number = tx__machine_number_at(e->number, row);
        snprintf(path, sizeof path, "%s.%s", e->path, row->path);
        if (entry_has(e, row)) TX_TRY(read_number(r, path, row, json_object_get(e->object, row->path), number));
    }
    return TX_OK;
}

static void keep_op(tx_machine *m, const struct entry *e, const tx__op_numbers *number)
{
    tx_measured_op *op = &m->op[m->n_ops++];
    *op = (tx_measured_op){ .dtype = e->dtype, .size = number->size, .head = number->head, .per_s = number->per_s };
    op->ranks = (int)number->ranks;
    snprintf(op->op, sizeof op->op, "%s", e->op);
}

/* The products, or with tx__op_rows the ops. */
static tx_status read_entries(const machine_reading *r, const char *path, const json_t *list,
                              const tx__machine_row *row)
{
    tx_machine *m = r->m;
    bool ops = row == tx__op_rows;
    size_t n = json_array_size(list);
    if (!json_is_array(list)) return is_another(r, path, list, "an array");
    if (n && ops) TX_TRY(tx_alloc(&m->op, n, sizeof *m->op, "measured ops"));
    if (n && !ops) TX_TRY(tx_alloc(&m->product, n, sizeof *m->product, "measured products"));
    for (size_t i = 0; i < n; i++) {
        tx__op_numbers number = { 0 };
        struct entry e = { .object = json_array_get(list, i), .row = row };
        e.number = ops ? (void *)&number : &m->product[i];
        snprintf(e.path, sizeof e.path, "%s[%zu]", path, i);
        TX_TRY(read_entry(r, &e));
        if (ops)
            keep_op(m, &e, &number);
        else
            m->product[m->n_products++].dtype = e.dtype;
    }
    return TX_OK;
}

/* ---------------------------------------------------------------- a file */

static tx_status read_name(const machine_reading *r, const json_t *v)
{
    const char *text = json_is_string(v) ? json_string_value(v) : "";
    char shown[4 * sizeof r->m->name];
    if (!*text || strlen(text) >= sizeof r->m->name || strcmp(tx_printable(shown, sizeof shown, text), text) != 0)
        return is_another(r, "name", v, "a text of 1 to 63 bytes without control characters");
    memcpy(r->m->name, text, strlen(text) + 1);
    return TX_OK;
}

static tx_status read_sources(const machine_reading *r, const json_t *list)
{
    tx_machine *m = r->m;
    size_t n = json_array_size(list);
    if (!json_is_array(list)) return is_another(r, "sources", list, "an array of texts");
    if (n) TX_TRY(tx_alloc(&m->source, n, sizeof *m->source, "sources"));
    for (size_t i = 0; i < n; i++) {
        char path[40];
        const json_t *v = json_array_get(list, i);
        snprintf(path, sizeof path, "sources[%zu]", i);
        if (!json_is_string(v)) return is_another(r, path, v, "a text");
        TX_TRY(tx_memdup0(&m->source[i], json_string_value(v), json_string_length(v), "a source"));
        m->n_sources++;
    }
    return TX_OK;
}

/* Whether `path` is an object of the file: there are keys below it. */
static bool is_section(const char *path)
{
    size_t n = strlen(path);
    bool found = !strcmp(path, "measured");
    for (const tx__machine_row *row = tx__machine_rows; row->path && !found; row++)
        found = !strncmp(row->path, path, n) && row->path[n] == '.';
    return found;
}

static tx_status read_value(const machine_reading *r, const char *path, const json_t *v)
{
    if (!strcmp(path, "name")) return read_name(r, v);
    if (!strcmp(path, "sources")) return read_sources(r, v);
    if (!strcmp(path, "measured.products")) return read_entries(r, path, v, tx__product_rows);
    if (!strcmp(path, "measured.ops")) return read_entries(r, path, v, tx__op_rows);
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++)
        if (!strcmp(path, row->path)) return read_number(r, path, row, v, tx__machine_number_at(r->m, row));
    return unknown_key(r, path);
}

static tx_status read_object(const machine_reading *r, const char *above, const json_t *object)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)object, key, v)
    {
        char path[128];
        snprintf(path, sizeof path, "%s%s%.100s", above, *above ? "." : "", key);
        if (strchr(key, '.'))
            return TX_FAIL(TX_ERR_FORMAT, "%s: the key \"%.60s\" has a dot; write { \"a\": { \"b\": ... } } for a.b",
                           r->file, key);
        if (!is_section(path))
            TX_TRY(read_value(r, path, v));
        else if (json_is_object(v))
            TX_TRY(read_object(r, path, v));
        else
            return is_another(r, path, v, "an object { ... }");
    }
    return TX_OK;
}

static tx_status read_text(tx_machine *out, const char *file, const char *text, size_t n)
{
    const machine_reading r = { file, out };
    json_error_t e;
    json_t *root = tx_json_load(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!root)
        return TX_FAIL(TX_ERR_FORMAT, "%s: line %d, column %d: %s", file, e.line, e.column > 0 ? e.column : 1, e.text);
    for (const tx__machine_row *row = tx__machine_rows; row->path; row++) *tx__machine_number_at(out, row) = NAN;
    tx_status st = json_is_object(root) ? read_object(&r, "", root)
                                        : TX_FAIL(TX_ERR_FORMAT, "%s: holds an array, not an object { ... }", file);
    if (!st) st = fill_in(&r);
    json_decref(root);
    return st;
}

static tx_status no_such_machine(const char *name)
{
    tx_str names = { 0 };
    struct nearest n = nearest_to(name);
    tx_status st = TX_OK;
    for (int i = 0; tx_machine_names[i] && !st; i++) {
        try_word(&n, tx_machine_names[i], 0);
        st = tx_str_printf(&names, "%s%s", i ? ", " : "", tx_machine_names[i]);
    }
    if (!st && n.found[0])
        st = TX_FAIL(TX_ERR_NOTFOUND, "%s: no machine and no file has this name; did you mean \"%s\"? There are %s",
                     name, n.found, names.data);
    else if (!st)
        st = TX_FAIL(TX_ERR_NOTFOUND, "%s: no machine and no file has this name; there are %s", name, names.data);
    tx_str_free(&names);
    return st;
}

tx_status tx_machine_read(tx_machine *out, const char *name)
{
    *out = (tx_machine){ 0 };
    for (int i = 0; tx_machine_names[i]; i++) {
        const char *text = (const char *)tx__machine_texts[i];
        if (!strcmp(name, tx_machine_names[i])) return read_text(out, name, text, strlen(text));
    }
    if (!tx_path_exists(name)) return no_such_machine(name);
    tx_str text = { 0 };
    tx_status st = tx_file_read(name, MAX_BYTES, &text);
    if (!st) st = read_text(out, name, text.data ? text.data : "", text.len);
    tx_str_free(&text);
    return st;
}

void tx_machine_free(tx_machine *m)
{
    for (int i = 0; i < m->n_sources; i++) tx_free(m->source[i]);
    tx_free(m->source);
    tx_free(m->product);
    tx_free(m->op);
    *m = (tx_machine){ 0 };
}
