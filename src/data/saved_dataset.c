/* saved_dataset.c - see the header. state.json has {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], ...}.
 */
#include "data/saved_dataset.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"

enum { PATH_CAP = 4096 };

/* *root NULL: there is no such file. */
static tx_status load(const char *dir, const char *name, json_t **root)
{
    char path[PATH_CAP];
    tx_str text = { 0 };
    json_error_t e;
    *root = NULL;
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    if (!tx_path_exists(path)) return TX_OK;
    tx_status st = tx_file_read(path, (size_t)1 << 24, &text);
    if (!st && !(*root = tx_json_load(text.data ? text.data : "", text.len, 0, &e)))
        st = TX_FAIL(TX_ERR_FORMAT, "%s: line %d: %s", path, e.line, e.text);
    tx_str_free(&text);
    return st;
}

static tx_status fail_splits(const char *dir, const json_t *root)
{
    char list[256] = "";
    size_t at = 0;
    const json_t *splits = json_object_get(root, "splits");
    for (size_t i = 0; i < json_array_size(splits) && at + 64 < sizeof list; i++)
        at += (size_t)snprintf(
            list + at, sizeof list - at, "%s%.40s", i ? ", " : "",
            json_string_value(json_array_get(splits, i)) ? json_string_value(json_array_get(splits, i)) : "?");
    return TX_FAIL(
        TX_ERR_ARG, "%s: is a dataset of several splits (%s); give the folder of one, such as %s/%.40s", dir, list, dir,
        json_string_value(json_array_get(splits, 0)) ? json_string_value(json_array_get(splits, 0)) : "train");
}

static tx_status add_file(const char *dir, const json_t *entry, tx_names *out)
{
    char path[PATH_CAP];
    const char *name = json_string_value(json_object_get(entry, "filename"));
    if (!name || !*name || *name == '.' || strchr(name, '/'))
        return TX_FAIL(TX_ERR_FORMAT, "%s/state.json: an entry of _data_files has no name of a file in the folder",
                       dir);
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    if (!tx_path_exists(path))
        return TX_FAIL(TX_ERR_NOTFOUND, "%s: state.json names %s, and there is no such file", dir, name);
    TX_TRY(tx_realloc(&out->name, out->n + 1, sizeof *out->name, "the files of a dataset"));
    TX_TRY(tx_memdup0(&out->name[out->n], path, strlen(path), "a path"));
    out->n++;
    return TX_OK;
}

tx_status tx__saved_dataset_files(const char *dir, tx_names *out)
{
    json_t *state = NULL, *splits = NULL;
    tx_status st;
    *out = (tx_names){ 0 };
    TX_GOTO(load(dir, "dataset_dict.json", &splits));
    if (splits) {
        st = fail_splits(dir, splits);
        goto out;
    }
    TX_GOTO(load(dir, "state.json", &state));
    const json_t *files = json_object_get(state, "_data_files");
    if (json_array_size(json_object_get(state, "_indices_data_files"))) {
        st = TX_FAIL(TX_ERR_UNSUPPORTED,
                     "%s: its rows are in an order of their own (_indices_data_files); save it again after "
                     "flatten_indices()",
                     dir);
        goto out;
    }
    for (size_t i = 0; i < json_array_size(files) && !st; i++) st = add_file(dir, json_array_get(files, i), out);
out:
    json_decref(state);
    json_decref(splits);
    if (st) tx_names_free(out);
    return st;
}
