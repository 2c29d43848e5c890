/* indexed_meant.c - the dataset that somebody meant who named none: preprocess-data appends to --output-prefix, files
 * have endings, folders hold datasets, and words are mistyped. */
#include "data/indexed_meant.h"

#include <stdbool.h>
#include <string.h>

#include "base/file.h"

enum { MAX_DISTANCE = 64 };

/* Of `name` from what was typed, n bytes: 0 it is that, 1 it goes on behind it (ts: ts_text_document), 2 within a word,
 * more for names that are like it. */
static int distance(const char *typed, size_t n, const char *name)
{
    bool begins = !strncmp(typed, name, n);
    if (begins && (!n || !name[n] || name[n] == '_')) return name[n] != 0;
    int d = tx_str_distance(typed, name);
    if (begins && n > 2) return 2;
    return d < tx_str_another(n) ? 2 + d : MAX_DISTANCE;
}

/* Appends the nearest datasets of a folder, "a or b". @shown the folder as it was typed, with its slash */
static tx_status add_nearest(tx_str *out, const char *folder, const char *shown, const char *typed)
{
    tx_names names = { 0 };
    char path[4096];
    int least = MAX_DISTANCE - 1;
    tx_status st = TX_OK;
    if (tx_dir_list(folder, &names)) return TX_OK; /* what cannot be looked into has nothing to offer */
    for (size_t i = 0; i < names.n && !st; i++) {
        char *name = names.name[i];
        size_t n = strlen(name);
        if (n < 5 || strcmp(name + n - 4, ".bin") != 0) continue;
        memcpy(name + n - 4, ".idx", 4);
        if (tx_path_join(path, sizeof path, folder, name) || !tx_path_exists(path)) continue;
        name[n - 4] = 0;
        int d = distance(typed, strlen(typed), name);
        if (d > least) continue;
        if (d < least) out->len = 0;
        least = d;
        st = tx_str_printf(out, "%s%s%s", out->len ? " or " : "", shown, name);
    }
    tx_names_free(&names);
    return st;
}

tx_status tx_indexed_meant(tx_str *out, const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    size_t n = strlen(prefix), n_folder = slash ? (size_t)(slash + 1 - prefix) : 0;
    tx_str folder = { 0 }, typed = { 0 };
    tx_status st;
    if (tx_path_is_dir(prefix)) {
        TX_GOTO(tx_str_printf(&folder, "%s%s", prefix, n == n_folder ? "" : "/"));
        TX_GOTO(add_nearest(out, prefix, folder.data, ""));
    } else {
        if (n > n_folder + 4 && (!strcmp(prefix + n - 4, ".idx") || !strcmp(prefix + n - 4, ".bin"))) n -= 4;
        TX_GOTO(tx_str_append(&folder, prefix, n_folder));
        TX_GOTO(tx_str_append(&typed, prefix + n_folder, n - n_folder));
        const char *where = n_folder ? folder.data : ".";
        if (n > n_folder && tx_path_is_dir(where)) TX_GOTO(add_nearest(out, where, folder.data, typed.data));
    }
    st = TX_OK;
out:
    tx_str_free(&folder);
    tx_str_free(&typed);
    return st;
}
