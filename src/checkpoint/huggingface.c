/* huggingface.c - reading and writing Hugging Face model folders. */
#include "checkpoint/huggingface.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "checkpoint/json_text.h"
#include "checkpoint/place.h"

#define MAX_CONFIG ((size_t)16 << 20)  /* bytes of config.json */
#define MAX_INDEX  ((size_t)256 << 20) /* bytes of the index */

struct tx_huggingface {
    json_t *config;
    tx_safetensors **file;
    size_t n_files;
    const tx_st_tensor **tensor; /* of all files, sorted by name */
    size_t n;
};

/* ---- reading ---- */

static tx_status add_file(tx_huggingface *hf, const char *dir, const char *name)
{
    char path[TX__PATH_CAP];
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(tx_realloc(&hf->file, hf->n_files + 1, sizeof *hf->file, "a list of files"));
    TX_TRY(tx_safetensors_open(&hf->file[hf->n_files], path));
    hf->n_files++;
    return TX_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const tx_st_tensor *const *)a)->name, (*(const tx_st_tensor *const *)b)->name);
}

static tx_status merge_files(tx_huggingface *hf)
{
    size_t cap = 0;
    for (size_t i = 0; i < hf->n_files; i++) cap += tx_safetensors_count(hf->file[i]);
    TX_TRY(tx_alloc(&hf->tensor, cap, sizeof *hf->tensor, "a list of tensors"));
    for (size_t i = 0; i < hf->n_files; i++)
        for (size_t k = 0; k < tx_safetensors_count(hf->file[i]); k++)
            hf->tensor[hf->n++] = tx_safetensors_at(hf->file[i], k);
    if (hf->n) qsort(hf->tensor, hf->n, sizeof *hf->tensor, by_name);
    for (size_t i = 1; i < hf->n; i++)
        if (!strcmp(hf->tensor[i - 1]->name, hf->tensor[i]->name))
            return TX_FAIL(TX_ERR_FORMAT, "%s: tensor %.200s is also in %s; one of them must go",
                           hf->tensor[i - 1]->file, hf->tensor[i]->name, hf->tensor[i]->file);
    return TX_OK;
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Opens each file that the index names, once. */
static tx_status open_indexed_files(tx_huggingface *hf, const char *dir, const char *index, json_t *map)
{
    const char **name = NULL, *tensor;
    size_t n = 0;
    json_t *v;
    tx_status st;
    TX_GOTO(tx_alloc(&name, json_object_size(map), sizeof *name, "a list of files"));
    json_object_foreach(map, tensor, v)
    {
        name[n] = json_string_value(v);
        if (!name[n] || !tx__is_plain_file_name(name[n])) {
            st = TX_FAIL(TX_ERR_FORMAT, "%s: weight_map holds something that is not the plain name of a file beside it",
                         index);
            goto out;
        }
        n++;
    }
    if (n) qsort(name, n, sizeof *name, text_order);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(name[i - 1], name[i])) TX_GOTO(add_file(hf, dir, name[i]));
out:
    tx_free(name);
    return st;
}

static tx_status open_sharded(tx_huggingface *hf, const char *dir, const char *index)
{
    json_t *root, *map, *v;
    const char *name;
    TX_TRY(tx__json_load(&root, index, MAX_INDEX));
    tx_status st = TX_OK;
    map = json_object_get(root, "weight_map");
    if (json_object_size(map) == 0) {
        st = TX_FAIL(TX_ERR_FORMAT, "%s: holds no \"weight_map\" {tensor: file}", index);
        goto out;
    }
    TX_GOTO(open_indexed_files(hf, dir, index, map));
    TX_GOTO(merge_files(hf));
    json_object_foreach(map, name, v)
    {
        const tx_st_tensor *t = tx_huggingface_find(hf, name);
        const char *slash = t ? strrchr(t->file, '/') : NULL;
        if (slash && !strcmp(slash + 1, json_string_value(v))) continue;
        st = TX_FAIL(TX_ERR_FORMAT, "%s: %s does not hold tensor %.200s", index, json_string_value(v),
                     tx__is_printable(name, TX_ST_MAX_NAME) ? name : "(unprintable)");
        break;
    }
out:
    json_decref(root);
    return st;
}

tx_status tx_huggingface_open(tx_huggingface **out, const char *dir)
{
    char path[TX__PATH_CAP];
    tx_huggingface *hf;
    TX_TRY(tx_alloc(&hf, 1, sizeof *hf, "a Hugging Face model"));
    tx_status st;
    TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_CONFIG));
    TX_GOTO(tx__json_load(&hf->config, path, MAX_CONFIG));
    TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_WEIGHTS));
    if (tx_path_exists(path)) {
        TX_GOTO(add_file(hf, dir, TX_HF_WEIGHTS));
        TX_GOTO(merge_files(hf));
    } else {
        TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_INDEX));
        if (!tx_path_exists(path)) {
            st = TX_FAIL(TX_ERR_NOTFOUND, "%s: holds neither " TX_HF_WEIGHTS " nor " TX_HF_INDEX, dir);
            goto out;
        }
        TX_GOTO(open_sharded(hf, dir, path));
    }
    *out = hf;
    hf = NULL;
out:
    tx_huggingface_close(hf);
    return st;
}

void tx_huggingface_close(tx_huggingface *hf)
{
    if (!hf) return;
    for (size_t i = 0; i < hf->n_files; i++) tx_safetensors_close(hf->file[i]);
    tx_free(hf->file);
    tx_free(hf->tensor);
    json_decref(hf->config);
    tx_free(hf);
}

const json_t *tx_huggingface_config(const tx_huggingface *hf)
{
    return hf->config;
}

size_t tx_huggingface_count(const tx_huggingface *hf)
{
    return hf->n;
}

const tx_st_tensor *tx_huggingface_at(const tx_huggingface *hf, size_t i)
{
    TX_ASSERT(i < hf->n);
    return hf->tensor[i];
}

const tx_st_tensor *tx_huggingface_find(const tx_huggingface *hf, const char *name)
{
    tx_st_tensor want = { .name = name };
    const tx_st_tensor *key = &want, **hit = NULL;
    if (hf->n) hit = bsearch(&key, hf->tensor, hf->n, sizeof *hf->tensor, by_name);
    return hit ? *hit : NULL;
}

/* ---- writing ---- */

/* Opens `path` beside itself and writes everything; the caller commits or aborts. */
static tx_status put_weights(tx_writer *file, const char *path, tx_hf_tensor *tensor, size_t n, tx_hf_fetch *fetch,
                             void *user)
{
    tx_st_writer w;
    tx_st_spec *spec = NULL;
    float *x = NULL;
    uint64_t bytes;
    size_t most = 0;
    tx_status st;
    if (n) qsort(tensor, n, sizeof *tensor, tx_st_spec_order);
    TX_GOTO(tx_alloc(&spec, n, sizeof *spec, "a list of tensors"));
    for (size_t i = 0; i < n; i++) {
        spec[i] = tensor[i].spec;
        TX_GOTO(tx_st_spec_bytes(&spec[i], &bytes));
        size_t numbers = (size_t)bytes / tx_st_dtype_size(spec[i].dtype);
        if (numbers > most) most = numbers;
    }
    TX_GOTO(tx_alloc(&x, most, sizeof *x, "a tensor"));
    TX_GOTO(tx_writer_open(file, path));
    TX_GOTO(tx_st_writer_begin(&w, file, spec, n, NULL, NULL));
    for (size_t i = 0; i < n; i++) {
        TX_GOTO(tx_st_spec_bytes(&spec[i], &bytes));
        fetch(user, &tensor[i], x);
        TX_GOTO(tx_st_writer_put_f32(&w, x, (size_t)bytes / tx_st_dtype_size(spec[i].dtype), spec[i].dtype));
    }
    tx_st_writer_end(&w);
out:
    tx_free(spec);
    tx_free(x);
    return st;
}

tx_status tx_huggingface_write_tensors(const char *path, tx_hf_tensor *tensor, size_t n, tx_hf_fetch *fetch, void *user)
{
    tx_writer file = { 0 };
    tx_status st = put_weights(&file, path, tensor, n, fetch, user);
    if (!st) return tx_writer_commit(&file);
    tx_writer_abort(&file);
    return st;
}

static tx_status put_config(tx_writer *file, const json_t *config)
{
    char *text = json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (!text) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %s", file->path);
    tx_status st = tx_writer_put(file, text, strlen(text));
    if (!st) st = tx_writer_put(file, "\n", 1);
    free(text); /* Jansson's */
    return st;
}

tx_status tx_huggingface_write(const char *dir, const json_t *config, tx_hf_tensor *tensor, size_t n,
                               tx_hf_fetch *fetch, void *user)
{
    char path[TX__PATH_CAP];
    tx_writer weights = { 0 }, settings = { 0 };
    tx_status st;
    TX_TRY(tx_make_dirs(dir));
    TX_TRY(tx_path_join(path, sizeof path, dir, TX_HF_INDEX));
    if (tx_path_exists(path))
        return TX_FAIL(TX_ERR_ARG, "%s: the folder holds a sharded model; choose another or empty it", path);
    TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_WEIGHTS));
    TX_GOTO(put_weights(&weights, path, tensor, n, fetch, user));
    TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_CONFIG));
    TX_GOTO(tx_writer_open(&settings, path));
    TX_GOTO(put_config(&settings, config));
    TX_GOTO(tx_writer_seal(&weights));
    TX_GOTO(tx_writer_seal(&settings));
    if (unlink(path) && errno != ENOENT) {
        st = TX_FAIL(TX_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
        goto out;
    }
    TX_GOTO(tx_writer_commit(&weights));
    TX_GOTO(tx_writer_commit(&settings));
out:
    tx_writer_abort(&weights);
    tx_writer_abort(&settings);
    return st;
}
