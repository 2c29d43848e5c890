/* huggingface.c - reading and writing Hugging Face model folders. */
#include "checkpoint/huggingface.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "checkpoint/json_text.h"
#include "checkpoint/place.h"
#include "torch/pt.h"

#define MAX_CONFIG ((size_t)16 << 20)  /* bytes of config.json */
#define MAX_INDEX  ((size_t)256 << 20) /* bytes of the index */

/* A file of tensors: safetensors, or what torch.save wrote. */
typedef struct weights_file {
    tx_safetensors *st;
    tx_pt *pt;
    tx_st_tensor *tensor;      /* pt's, as if they were the others'; owned */
    const tx_pt_tensor **from; /* [n]: what it is there; owned */
    size_t n;
    unsigned char **copy; /* [n]: of one that is no run of elements in its storage; owned */
} weights_file;

struct tx_huggingface {
    json_t *config;
    bool unchecked; /* .bin files are opened without their checksums */
    weights_file *file;
    size_t n_files;
    const tx_st_tensor **tensor; /* of all files, sorted by name */
    size_t n;
};

/* ---- reading ---- */

static const tx_st_dtype st_dtype_of[TX_PT_N_DTYPES] = {
    [TX_PT_F64] = TX_ST_F64, [TX_PT_F32] = TX_ST_F32,   [TX_PT_F16] = TX_ST_F16, [TX_PT_BF16] = TX_ST_BF16,
    [TX_PT_I64] = TX_ST_I64, [TX_PT_I32] = TX_ST_I32,   [TX_PT_I16] = TX_ST_I16, [TX_PT_I8] = TX_ST_I8,
    [TX_PT_U8] = TX_ST_U8,   [TX_PT_BOOL] = TX_ST_BOOL,
};

static bool is_contiguous(const tx_pt_tensor *t)
{
    int64_t step = 1;
    for (int i = t->n_dims; i-- > 0; step *= t->dim[i])
        if (t->dim[i] > 1 && t->stride[i] != step) return false;
    return true;
}

/* A tensor of a .bin file as one of safetensors: where it lies, or, of a transposed one say, a float32 copy. */
static tx_status take_tensor(weights_file *f, const char *path, const char *name, const tx_pt_tensor *t)
{
    tx_st_tensor *out = &f->tensor[f->n];
    f->from[f->n] = t;
    *out = (tx_st_tensor){ .file = path, .name = name, .n_dims = t->n_dims };
    out->dtype = st_dtype_of[t->storage->dtype];
    memcpy(out->dim, t->dim, sizeof out->dim);
    size_t n = (size_t)tx_pt_numel(t), size = tx_pt_dtype_size(t->storage->dtype);
    if (is_contiguous(t)) {
        out->data = t->storage->data + (size_t)t->offset * size;
        out->bytes = n * size;
    } else {
        TX_TRY(tx_alloc(&f->copy[f->n], n, sizeof(float), "a tensor"));
        TX_TRY(tx_pt_read_f32(f->pt, t, 0, (int64_t)n, (float *)(void *)f->copy[f->n]));
        out->dtype = TX_ST_F32;
        out->data = f->copy[f->n];
        out->bytes = n * sizeof(float);
    }
    f->n++;
    return TX_OK;
}

static tx_status open_bin(weights_file *f, const char *path, bool unchecked)
{
    TX_TRY((unchecked ? tx_pt_open_unchecked : tx_pt_open)(&f->pt, path));
    const tx_py *root = tx_pt_root(f->pt);
    if (!root || root->kind != TX_PY_DICT)
        return TX_FAIL(TX_ERR_FORMAT, "%s: holds no dict of tensors, as a Hugging Face model does", path);
    TX_TRY(tx_alloc(&f->tensor, root->as.dict.n, sizeof *f->tensor, "a list of tensors"));
    TX_TRY(tx_alloc(&f->from, root->as.dict.n, sizeof *f->from, "a list of tensors"));
    TX_TRY(tx_alloc(&f->copy, root->as.dict.n, sizeof *f->copy, "a list of tensors"));
    for (size_t i = 0; i < root->as.dict.n; i++) {
        const char *name = tx_py_str(root->as.dict.key[i]);
        const tx_pt_tensor *t = tx_py_tensor(root->as.dict.value[i]);
        if (!name || !t || !tx__is_printable(name, TX_ST_MAX_NAME))
            return TX_FAIL(TX_ERR_FORMAT, "%s: holds %.100s, which is no tensor", path,
                           name && tx__is_printable(name, 100) ? name : "something");
        TX_TRY(take_tensor(f, tx_pt_path(f->pt), name, t));
    }
    return TX_OK;
}

static size_t file_count(const weights_file *f)
{
    return f->st ? tx_safetensors_count(f->st) : f->n;
}

static const tx_st_tensor *file_at(const weights_file *f, size_t i)
{
    return f->st ? tx_safetensors_at(f->st, i) : &f->tensor[i];
}

static tx_status add_file(tx_huggingface *hf, const char *dir, const char *name)
{
    char path[TX__PATH_CAP];
    const char *dot = strrchr(name, '.');
    TX_TRY(tx_path_join(path, sizeof path, dir, name));
    TX_TRY(tx_realloc(&hf->file, hf->n_files + 1, sizeof *hf->file, "a list of files"));
    weights_file *f = &hf->file[hf->n_files++];
    *f = (weights_file){ .st = NULL };
    return dot && !strcmp(dot, ".bin") ? open_bin(f, path, hf->unchecked) : tx_safetensors_open(&f->st, path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const tx_st_tensor *const *)a)->name, (*(const tx_st_tensor *const *)b)->name);
}

static tx_status merge_files(tx_huggingface *hf)
{
    size_t cap = 0;
    for (size_t i = 0; i < hf->n_files; i++) cap += file_count(&hf->file[i]);
    TX_TRY(tx_alloc(&hf->tensor, cap, sizeof *hf->tensor, "a list of tensors"));
    for (size_t i = 0; i < hf->n_files; i++)
        for (size_t k = 0; k < file_count(&hf->file[i]); k++) hf->tensor[hf->n++] = file_at(&hf->file[i], k);
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

/* The forms in the order in which Hugging Face's own loader looks for them. */
static tx_status open_weights(tx_huggingface *hf, const char *dir)
{
    static const struct {
        const char *name;
        bool index;
    } form[] = { { TX_HF_WEIGHTS, false }, { TX_HF_INDEX, true }, { TX_HF_BIN, false }, { TX_HF_BIN_INDEX, true } };
    char path[TX__PATH_CAP];
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        TX_TRY(tx_path_join(path, sizeof path, dir, form[i].name));
        if (!tx_path_exists(path)) continue;
        if (form[i].index) return open_sharded(hf, dir, path);
        TX_TRY(add_file(hf, dir, form[i].name));
        return merge_files(hf);
    }
    return TX_FAIL(TX_ERR_NOTFOUND, "%s: holds neither " TX_HF_WEIGHTS " nor " TX_HF_BIN ", nor an index of either",
                   dir);
}

static tx_status open_folder(tx_huggingface **out, const char *dir, bool unchecked)
{
    char path[TX__PATH_CAP];
    tx_huggingface *hf;
    TX_TRY(tx_alloc(&hf, 1, sizeof *hf, "a Hugging Face model"));
    tx_status st;
    hf->unchecked = unchecked;
    TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_CONFIG));
    TX_GOTO(tx__json_load(&hf->config, path, MAX_CONFIG));
    TX_GOTO(open_weights(hf, dir));
    *out = hf;
    hf = NULL;
out:
    tx_huggingface_close(hf);
    return st;
}

tx_status tx_huggingface_open(tx_huggingface **out, const char *dir)
{
    return open_folder(out, dir, false);
}

tx_status tx_huggingface_open_unchecked(tx_huggingface **out, const char *dir)
{
    return open_folder(out, dir, true);
}

void tx_huggingface_close(tx_huggingface *hf)
{
    if (!hf) return;
    for (size_t i = 0; i < hf->n_files; i++) {
        weights_file *f = &hf->file[i];
        tx_safetensors_close(f->st);
        for (size_t k = 0; k < f->n; k++) tx_free(f->copy[k]);
        tx_free(f->copy);
        tx_free(f->from);
        tx_free(f->tensor);
        tx_pt_close(f->pt);
    }
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

static const tx_st_tensor **find(const tx_huggingface *hf, const char *name)
{
    tx_st_tensor want = { .name = name };
    const tx_st_tensor *key = &want;
    return hf->n ? bsearch(&key, hf->tensor, hf->n, sizeof *hf->tensor, by_name) : NULL;
}

const tx_st_tensor *tx_huggingface_find(const tx_huggingface *hf, const char *name)
{
    const tx_st_tensor **hit = find(hf, name);
    return hit ? *hit : NULL;
}

size_t tx_huggingface_index(const tx_huggingface *hf, const tx_st_tensor *t)
{
    const tx_st_tensor **hit = find(hf, t->name);
    TX_ASSERT(hit && *hit == t);
    return (size_t)(hit - hf->tensor);
}

/* ---- checksums ---- */

tx_status tx_huggingface_check(const tx_huggingface *hf, const tx_st_tensor *t)
{
    tx_status st = TX_OK;
    for (size_t i = 0; i < hf->n_files && !st; i++) {
        const weights_file *f = &hf->file[i];
        size_t k = ((uintptr_t)t - (uintptr_t)f->tensor) / sizeof *t; /* whichever file's it is */
        if (f->pt && (uintptr_t)t >= (uintptr_t)f->tensor && k < f->n) st = tx_pt_check(f->pt, f->from[k]);
    }
    return st ? tx_fail_prefix(st, "%s", t->name) : TX_OK;
}

size_t tx_huggingface_unchecked(const tx_huggingface *hf, const tx_pt **first)
{
    size_t n = 0;
    for (size_t i = hf->n_files; i-- > 0;)
        if (hf->file[i].pt && tx_pt_unchecked(hf->file[i].pt)) {
            *first = hf->file[i].pt;
            n++;
        }
    return n;
}

tx_status tx_huggingface_verify(const tx_huggingface *hf, uint64_t *bytes, size_t *n_files)
{
    for (size_t i = 0; i < hf->n_files; i++) {
        uint64_t before = *bytes;
        if (hf->file[i].pt) TX_TRY(tx_pt_verify(hf->file[i].pt, bytes));
        *n_files += *bytes > before;
    }
    return TX_OK;
}

/* ---- writing ---- */

/* Opens `path` beside itself and writes everything; the caller commits or aborts. */
static tx_status put_weights(tx_writer *file, const char *path, const tx_hf_tensors *t)
{
    tx_hf_tensor *tensor = t->tensor;
    size_t n = t->n;
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
        TX_GOTO(t->fetch(t->user, &tensor[i], x));
        TX_GOTO(tx_st_writer_put_f32(&w, x, (size_t)bytes / tx_st_dtype_size(spec[i].dtype), spec[i].dtype));
    }
    tx_st_writer_end(&w);
out:
    tx_free(spec);
    tx_free(x);
    return st;
}

tx_status tx_huggingface_write_tensors(const char *path, const tx_hf_tensors *t)
{
    tx_writer file = { 0 };
    tx_status st = put_weights(&file, path, t);
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

/* Where the file that begins with tensor `first` ends: as many as fit, at least one. *bytes is what they take. */
static tx_status end_of_shard(const tx_hf_tensor *tensor, size_t n, size_t first, int64_t most, size_t *end,
                              uint64_t *bytes)
{
    uint64_t one;
    *bytes = 0;
    for (*end = first; *end < n; ++*end) {
        TX_TRY(tx_st_spec_bytes(&tensor[*end].spec, &one));
        if (*end > first && most > 0 && *bytes + one > (uint64_t)most) break;
        *bytes += one;
    }
    return TX_OK;
}

/* A folder's files while they are written. */
typedef struct folder {
    const char *dir;
    tx_writer *file; /* [n], then the index where there are several, then config.json */
    size_t n;
    json_t *map; /* of the index */
    uint64_t total;
} folder;

static tx_status count_shards(folder *f, const tx_hf_tensor *tensor, size_t n, int64_t shard_bytes)
{
    uint64_t bytes;
    f->n = 0;
    for (size_t first = 0, end; first < n || !f->n; first = end, f->n++) {
        TX_TRY(end_of_shard(tensor, n, first, shard_bytes, &end, &bytes));
        f->total += bytes;
    }
    return tx_alloc(&f->file, f->n + 2, sizeof *f->file, "a list of files");
}

static tx_status put_shards(folder *f, const tx_hf_tensors *t, int64_t shard_bytes)
{
    char path[TX__PATH_CAP], name[64] = TX_HF_WEIGHTS;
    uint64_t bytes;
    for (size_t first = 0, end, k = 0; k < f->n; first = end, k++) {
        TX_TRY(end_of_shard(t->tensor, t->n, first, shard_bytes, &end, &bytes));
        if (f->n > 1) snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", k + 1, f->n);
        for (size_t i = first; i < end; i++) json_object_set_new(f->map, t->tensor[i].spec.name, json_string(name));
        TX_TRY(tx_path_join(path, sizeof path, f->dir, name));
        const tx_hf_tensors part = { t->tensor + first, end - first, t->fetch, t->user };
        TX_TRY(put_weights(&f->file[k], path, &part));
        TX_TRY(tx_writer_seal(&f->file[k]));
    }
    return TX_OK;
}

static tx_status put_index(const folder *f, tx_writer *file)
{
    char path[TX__PATH_CAP];
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)f->total, "weight_map", f->map);
    tx_status st = index ? TX_OK : TX_FAIL(TX_ERR_NOMEM, "not enough memory for an index");
    if (!st) st = tx_path_join(path, sizeof path, f->dir, TX_HF_INDEX);
    if (!st) st = tx_writer_open(file, path);
    if (!st) st = put_config(file, index);
    if (!st) st = tx_writer_seal(file);
    json_decref(index);
    return st;
}

/* A model of the other form in the folder would win, or be half overwritten. */
static tx_status check_folder(const folder *f)
{
    static const char *const one[] = { TX_HF_INDEX, TX_HF_BIN, TX_HF_BIN_INDEX };
    static const char *const many[] = { TX_HF_WEIGHTS, TX_HF_INDEX, TX_HF_BIN, TX_HF_BIN_INDEX };
    char path[TX__PATH_CAP];
    for (size_t i = 0; i < (f->n > 1 ? 4 : 3); i++) {
        TX_TRY(tx_path_join(path, sizeof path, f->dir, f->n > 1 ? many[i] : one[i]));
        if (tx_path_exists(path))
            return TX_FAIL(TX_ERR_ARG,
                           "%s: the folder holds a model in another form; choose another folder or empty it", path);
    }
    return TX_OK;
}

tx_status tx_huggingface_write(const char *dir, const json_t *config, const tx_hf_tensors *t, int64_t shard_bytes)
{
    char path[TX__PATH_CAP];
    folder f = { .dir = dir, .map = json_object() };
    tx_status st;
    TX_GOTO(tx_make_dirs(dir));
    TX_GOTO(count_shards(&f, t->tensor, t->n, shard_bytes));
    TX_GOTO(check_folder(&f));
    TX_GOTO(put_shards(&f, t, shard_bytes));
    tx_writer *index = &f.file[f.n], *settings = &f.file[f.n + 1];
    if (f.n > 1) TX_GOTO(put_index(&f, index));
    TX_GOTO(tx_path_join(path, sizeof path, dir, TX_HF_CONFIG));
    TX_GOTO(tx_writer_open(settings, path));
    TX_GOTO(put_config(settings, config));
    TX_GOTO(tx_writer_seal(settings));
    if (unlink(path) && errno != ENOENT) {
        st = TX_FAIL(TX_ERR_IO, "%s: cannot remove: %s", path, strerror(errno));
        goto out;
    }
    for (size_t k = 0; k < f.n; k++) TX_GOTO(tx_writer_commit(&f.file[k]));
    if (f.n > 1) TX_GOTO(tx_writer_commit(index));
    st = tx_writer_commit(settings);
out:
    for (size_t k = 0; f.file && k < f.n + 2; k++) tx_writer_abort(&f.file[k]);
    tx_free(f.file);
    json_decref(f.map);
    return st;
}
