/* inspect_pt.c - what a file of torch.save holds: tensors with their shapes, other values as they are. */
#include <inttypes.h>
#include <stdio.h>

#include "api/report.h"
#include "torch/pt.h"

enum { NAME_CAP = 1024, MAX_DEPTH = 32 };

static tx_status show_tensor(tx__report *r, const char *name, const tx_pt_tensor *t)
{
    char shape[256];
    size_t n = 0;
    for (int i = 0; i < t->n_dims; i++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRId64, i ? ", " : "", t->dim[i]);
    shape[n] = 0;
    return tx__report_line(r, "[tensor] %s = %s [%s]", name, tx_pt_dtype_name(t->storage->dtype), shape);
}

static tx_status show_other(tx__report *r, const char *name, const tx_py *v)
{
    json_t *x = tx_py_to_json(v);
    char *text = x ? json_dumps(x, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    tx_status st = tx__report_line(r, "[other] %s = %s", name,
                                   text                      ? text
                                   : v->kind == TX_PY_GLOBAL ? v->as.global.name
                                   : v->kind == TX_PY_OBJECT ? "an object"
                                                             : "a value");
    free(text); /* Jansson's */
    json_decref(x);
    return st;
}

static tx_status show(tx__report *r, const char *name, const tx_py *v, int depth);

static tx_status show_dict(tx__report *r, const char *name, const tx_py *v, int depth)
{
    for (size_t i = 0; i < v->as.dict.n; i++) {
        char below[NAME_CAP];
        int64_t number;
        const char *key = tx_py_str(v->as.dict.key[i]), *dot = *name ? "." : "";
        if (key)
            snprintf(below, sizeof below, "%.800s%s%.200s", name, dot, key);
        else if (tx_py_int(v->as.dict.key[i], &number))
            snprintf(below, sizeof below, "%.800s%s%" PRId64, name, dot, number);
        else
            snprintf(below, sizeof below, "%.800s%s?", name, dot);
        TX_TRY(show(r, below, v->as.dict.value[i], depth));
    }
    return TX_OK;
}

/* An object is shown as its attributes. */
static tx_status show(tx__report *r, const char *name, const tx_py *v, int depth)
{
    if (depth == MAX_DEPTH) return tx__report_line(r, "[other] %s = ...", name);
    if (tx_py_tensor(v)) return show_tensor(r, name, tx_py_tensor(v));
    if (v->kind == TX_PY_DICT) return show_dict(r, name, v, depth + 1);
    if (v->kind == TX_PY_OBJECT && v->as.object.state && v->as.object.state->kind == TX_PY_DICT)
        return show_dict(r, name, v->as.object.state, depth + 1);
    if (v->kind != TX_PY_LIST && v->kind != TX_PY_TUPLE) return show_other(r, name, v);
    for (size_t i = 0; i < tx_py_len(v); i++) TX_TRY(show(r, name, tx_py_item(v, i), depth + 1));
    return TX_OK;
}

tx_status tx__inspect_pt(tx__report *r, const tx_config *cfg, const char *path)
{
    tx_pt *f;
    uint64_t bytes = 0;
    TX_TRY(tx_pt_open(&f, path));
    tx_status st = tx__report_line(r, "%s: a file of torch.save", path);
    if (!st) st = show(r, "", tx_pt_root(f), 0);
    if (!st && cfg->verify) st = tx_pt_verify(f, &bytes);
    if (!st && cfg->verify) st = tx__report_line(r, "verified: %" PRIu64 " bytes agree with their checksums", bytes);
    tx_pt_close(f);
    return st;
}
