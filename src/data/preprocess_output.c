/* preprocess_output.c - builders, and joining their parts. */
#include "data/preprocess_output.h"

#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

static size_t at(const tx_output *o, int key, int part)
{
    return (size_t)key * (size_t)o->n_parts + (size_t)part;
}

static tx_status check_keys(const char *const *keys, int n_keys)
{
    for (int k = 0; k < n_keys; k++) {
        for (int i = 0; i < k; i++)
            if (!strcmp(keys[i], keys[k])) return TX_FAIL(TX_ERR_ARG, "--json-keys names \"%s\" twice", keys[k]);
        if (strchr(keys[k], '/'))
            return TX_FAIL(TX_ERR_ARG,
                           "--json-keys \"%s\": a key becomes part of a file's name and cannot have a slash", keys[k]);
    }
    return TX_OK;
}

tx_status tx__output_has_folder(const char *prefix)
{
    const char *slash = strrchr(prefix, '/');
    tx_str folder = { 0 };
    if (!slash) return TX_OK;
    TX_TRY(tx_str_append(&folder, prefix, (size_t)(slash - prefix) + 1));
    tx_status st = tx_path_is_dir(folder.data) ? TX_OK
                                               : TX_FAIL(TX_ERR_NOTFOUND,
                                                         "--output-prefix %s: the folder %s is not a directory or "
                                                         "does not exist",
                                                         prefix, folder.data);
    tx_str_free(&folder);
    return st;
}

static tx_status open_key(tx_output *o, int key, const char *prefix, const char *level, int64_t vocab_size)
{
    tx_str s = { 0 };
    tx_status st;
    TX_GOTO(tx_str_printf(&s, "%s_%s_%s", prefix, o->key[key], level));
    TX_GOTO(tx_memdup0(&o->name[key], s.data, s.len, "a path"));
    if (o->n_parts == 1) TX_GOTO(tx_indexed_create(&o->part[key], s.data, vocab_size));
    for (int i = 0; i < o->n_parts && o->n_parts > 1; i++) {
        s.len = 0;
        TX_GOTO(tx_str_printf(&s, "%s.part-%ld-%d", o->name[key], (long)getpid(), i));
        TX_GOTO(tx_memdup0(&o->part_name[at(o, key, i)], s.data, s.len, "a path"));
        TX_GOTO(tx_indexed_create(&o->part[at(o, key, i)], s.data, vocab_size));
    }
out:
    tx_str_free(&s);
    return st;
}

tx_status tx__output_open(tx_output *o, const tx_output_spec *spec)
{
    int n_keys = spec->n_keys, n_parts = spec->n_parts;
    size_t n = (size_t)n_keys * (size_t)n_parts;
    TX_TRY(check_keys(spec->key, n_keys));
    TX_TRY(tx__output_has_folder(spec->prefix));
    o->n_parts = n_parts;
    o->key = spec->key;
    TX_TRY(tx_alloc(&o->name, (size_t)n_keys, sizeof *o->name, "datasets"));
    TX_TRY(tx_alloc(&o->part, n, sizeof *o->part, "datasets"));
    if (n_parts > 1) {
        TX_TRY(tx_alloc(&o->part_name, n, sizeof *o->part_name, "datasets"));
        TX_TRY(tx_alloc(&o->joined, (size_t)n_keys, sizeof *o->joined, "datasets"));
        TX_TRY(tx_alloc(&o->source, n, sizeof *o->source, "datasets"));
    }
    o->n_keys = n_keys;
    for (int k = 0; k < n_keys; k++) TX_TRY(open_key(o, k, spec->prefix, spec->level, spec->vocab_size));
    return TX_OK;
}

tx_status tx__output_add(tx_output *o, int key, int part, const int32_t *ids, const size_t *sizes, size_t n)
{
    tx_indexed_builder *b = o->part[at(o, key, part)];
    for (size_t i = 0; i < n; ids += sizes[i++]) TX_TRY(tx_indexed_add_item(b, ids, (int64_t)sizes[i]));
    return tx_indexed_end_document(b);
}

int64_t tx__output_docs(const tx_output *o, int key)
{
    int64_t n = 0;
    for (int i = 0; i < o->n_parts; i++) n += tx_indexed_builder_docs(o->part[at(o, key, i)]);
    return n;
}

int64_t tx__output_tokens(const tx_output *o)
{
    int64_t n = 0;
    for (int i = 0; i < o->n_keys * o->n_parts; i++) n += tx_indexed_builder_tokens(o->part[i]);
    return n;
}

/* ---- the end ---- */

/* The parts with documents, one behind the other; an empty one if none has any. */
static tx_status join_parts(tx_output *o, int key)
{
    tx_indexed *first = &o->source[at(o, key, 0)];
    size_t n = 0;
    for (int i = 0; i < o->n_parts; i++) {
        tx_indexed_builder *b = o->part[at(o, key, i)];
        if (!tx_indexed_builder_docs(b) && (n || i + 1 < o->n_parts)) continue;
        TX_TRY(tx_indexed_commit(b));
        TX_TRY(tx_indexed_open(&first[n], o->part_name[at(o, key, i)]));
        n++;
    }
    TX_TRY(tx_indexed_join(&o->joined[key], o->name[key], first, n));
    return tx_indexed_seal(o->joined[key]);
}

tx_status tx__output_publish(tx_output *o)
{
    tx_indexed_builder **result = o->n_parts > 1 ? o->joined : o->part;
    for (int k = 0; k < o->n_keys; k++) TX_TRY(o->n_parts > 1 ? join_parts(o, k) : tx_indexed_seal(o->part[k]));
    for (int k = 0; k < o->n_keys; k++) TX_TRY(tx_indexed_commit(result[k]));
    for (int k = 0; k < o->n_keys; k++) tx_info("Wrote %s.bin and .idx", o->name[k]);
    return TX_OK;
}

static void remove_part(const char *name)
{
    static const char *const ext[] = { ".bin", ".idx" };
    char path[4096];
    for (int i = 0; i < 2; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s", name, ext[i]) < sizeof path) unlink(path);
}

void tx__output_discard(tx_output *o)
{
    for (int i = 0; i < o->n_keys * o->n_parts; i++) {
        if (o->source) tx_indexed_close(&o->source[i]);
        tx_indexed_destroy(o->part[i]);
        if (o->part_name && o->part_name[i]) remove_part(o->part_name[i]);
        if (o->part_name) tx_free(o->part_name[i]);
    }
    for (int k = 0; k < o->n_keys; k++) {
        if (o->joined) tx_indexed_destroy(o->joined[k]);
        tx_free(o->name[k]);
    }
    tx_free(o->part_name);
    tx_free(o->joined);
    tx_free(o->source);
    tx_free(o->part);
    tx_free(o->name);
    *o = (tx_output){ 0 };
}
