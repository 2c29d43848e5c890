/* merge.c - the job merge-datasets. Source: Megatron-LM tools/merge_datasets.py (--input), bigscience-workshop
 * tools/merge_preprocessed_data.py (--datasets). */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/config.h"
#include "data/indexed.h"
#include "data/preprocess_output.h"
#include "triax/data.h"

typedef struct merge {
    tx_names prefixes; /* in the order of the result; owned here, though the list of a folder starts it */
    tx_indexed *part;  /* one for each */
} merge;

/* ---- which datasets ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool ends_in(const char *name, const char *ending)
{
    size_t n = strlen(name), k = strlen(ending);
    return n > k && !strcmp(name + n - k, ending);
}

static tx_status add_prefix(merge *m, const char *path, size_t n)
{
    TX_TRY(tx_memdup0(&m->prefixes.name[m->prefixes.n], path, n, "a path"));
    m->prefixes.n++;
    return TX_OK;
}

/* One file of the folder: an .idx names a dataset, its .bin must be there, and the other way round. */
static tx_status take_file(merge *m, const char *dir, const char *name)
{
    char path[4096], other[4096];
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    if (tx_path_is_dir(path)) {
        tx_info("Skipping the folder %s", path);
        return TX_OK;
    }
    bool idx = ends_in(name, ".idx");
    if (!idx && !ends_in(name, ".bin"))
        return TX_FAIL(TX_ERR_ARG,
                       "%s: is no .bin or .idx file, and --input must hold nothing else; move it away, or name the "
                       "datasets with --datasets",
                       path);
    size_t n = strlen(path) - 4;
    memcpy(other, path, n);
    memcpy(other + n, idx ? ".bin" : ".idx", 5);
    if (!tx_path_exists(other))
        return TX_FAIL(TX_ERR_NOTFOUND, "%s: its other half %s is missing; copy the pair again", path, other);
    return idx ? add_prefix(m, path, n) : TX_OK;
}

static tx_status take_folder(merge *m, const char *dir)
{
    tx_names files = { 0 };
    tx_status st;
    if (!tx_path_is_dir(dir))
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "--input %s: is not a directory or does not exist; it takes the folder with "
                       "the .bin and .idx files",
                       dir);
    TX_TRY(tx_dir_list(dir, &files));
    TX_GOTO(tx_alloc(&m->prefixes.name, files.n + 1, sizeof *m->prefixes.name, "the datasets"));
    for (size_t i = 0; i < files.n; i++) TX_GOTO(take_file(m, dir, files.name[i]));
    if (!m->prefixes.n) {
        st = TX_FAIL(TX_ERR_NOTFOUND, "--input %s: holds no .bin and .idx files", dir);
        goto out;
    }
    /* "a" before "a-b", which the names with their endings are not */
    qsort(m->prefixes.name, m->prefixes.n, sizeof *m->prefixes.name, by_bytes);
out:
    tx_names_free(&files);
    return st;
}

static tx_status take_list(merge *m, const tx_list *list)
{
    TX_TRY(tx_alloc(&m->prefixes.name, (size_t)list->n + 1, sizeof *m->prefixes.name, "the datasets"));
    for (int i = 0; i < list->n; i++) TX_TRY(add_prefix(m, list->item[i], strlen(list->item[i])));
    return TX_OK;
}

/* ---- the result's place ---- */

/* Its folder must be there, and it must not be one of its parts: a second run would take the result of the first in. */
static tx_status check_output(const merge *m, const char *prefix)
{
    tx_str bin = { 0 };
    const char *slash = strrchr(prefix, '/');
    char *old = NULL;
    tx_status st;
    if (!*prefix || (slash && !slash[1]))
        return TX_FAIL(TX_ERR_ARG, "--output-prefix \"%s\": the name of the dataset is missing behind the folder",
                       prefix);
    TX_TRY(tx__output_has_folder(prefix));
    TX_GOTO(tx_str_printf(&bin, "%s.bin", prefix));
    old = realpath(bin.data, NULL);
    for (size_t i = 0; old && i < m->prefixes.n && !st; i++) {
        bin.len = 0;
        TX_GOTO(tx_str_printf(&bin, "%s.bin", m->prefixes.name[i]));
        char *part = realpath(bin.data, NULL);
        if (part && !strcmp(part, old))
            st = TX_FAIL(TX_ERR_ARG, "--output-prefix %s: is one of the datasets to merge; give another name", prefix);
        free(part);
    }
out:
    free(old);
    tx_str_free(&bin);
    return st;
}

/* ---- the job ---- */

static tx_status open_parts(merge *m)
{
    TX_TRY(tx_alloc(&m->part, m->prefixes.n, sizeof *m->part, "the datasets"));
    for (size_t i = 0; i < m->prefixes.n; i++) {
        TX_TRY(tx_indexed_open(&m->part[i], m->prefixes.name[i]));
        tx_info("%s: %lld documents, %lld tokens", m->prefixes.name[i], (long long)m->part[i].n_docs,
                (long long)m->part[i].n_tokens);
    }
    return TX_OK;
}

static tx_status write_result(const merge *m, const char *prefix)
{
    tx_indexed_builder *b;
    int64_t docs = 0, tokens = 0;
    for (size_t i = 0; i < m->prefixes.n; i++) docs += m->part[i].n_docs, tokens += m->part[i].n_tokens;
    TX_TRY(tx_indexed_join(&b, prefix, m->part, m->prefixes.n));
    tx_status st = tx_indexed_commit(b);
    tx_indexed_destroy(b);
    if (!st)
        tx_info("Merged %zu datasets, %lld documents, %lld tokens, into %s", m->prefixes.n, (long long)docs,
                (long long)tokens, prefix);
    return st;
}

tx_status tx_merge_datasets(const tx_config *cfg)
{
    merge m = { 0 };
    tx_status st;
    TX_GOTO(cfg->merge_input ? take_folder(&m, cfg->merge_input) : take_list(&m, &cfg->datasets));
    TX_GOTO(check_output(&m, cfg->merge_output_prefix));
    TX_GOTO(open_parts(&m));
    TX_GOTO(write_result(&m, cfg->merge_output_prefix));
out:
    for (size_t i = 0; m.part && i < m.prefixes.n; i++) tx_indexed_close(&m.part[i]);
    tx_free(m.part);
    tx_names_free(&m.prefixes);
    return st;
}
