/* pt_open.c - opening a .pt file: which container it is, and torch's zip archives. */
#include "torch/pt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "torch/pt_file.h"

/* ---- storages by key ---- */

tx__pt_stored *tx__pt_storage_get(const tx_pt *f, const char *key)
{
    size_t at = 0, i;
    uint64_t hash = tx_hash(key, strlen(key), 0);
    while (tx_hash_next(&f->by_key, hash, &at, &i))
        if (!strcmp(f->stored[i]->key, key)) return f->stored[i];
    return NULL;
}

static tx_status add_storage(tx_pt *f, tx__pt_stored *s)
{
    if (f->n_stored == f->cap_stored) {
        size_t cap = f->cap_stored ? 2 * f->cap_stored : 64;
        TX_TRY(tx_realloc(&f->stored, cap, sizeof(void *), "the storages of a .pt file"));
        f->cap_stored = cap;
    }
    TX_TRY(tx_hash_add(&f->by_key, tx_hash(s->key, strlen(s->key), 0), f->n_stored));
    f->stored[f->n_stored++] = s;
    return TX_OK;
}

tx_status tx__pt_storage_put(tx_pt *f, const char *key, tx_pt_dtype dtype, int64_t numel, tx__pt_stored **out)
{
    tx__pt_stored *s = tx__pt_storage_get(f, key);
    if (s && (s->storage->dtype != dtype || s->storage->numel != numel))
        return TX_FAIL(TX_ERR_FORMAT, "storage %s is %" PRId64 " of %s, and elsewhere %" PRId64 " of %s", key,
                       s->storage->numel, tx_pt_dtype_name(s->storage->dtype), numel, tx_pt_dtype_name(dtype));
    if (!s) {
        s = tx__py_memory(f->arena, sizeof *s);
        tx_pt_storage *storage = tx__py_memory(f->arena, sizeof *storage);
        char *name = tx__py_text(f->arena, key, strlen(key));
        if (!s || !storage || !name) return TX_FAIL(TX_ERR_NOMEM, "not enough memory for the storages of the file");
        *storage = (tx_pt_storage){ .dtype = dtype, .numel = numel };
        *s = (tx__pt_stored){ .key = name, .storage = storage };
        TX_TRY(add_storage(f, s));
    }
    *out = s;
    return TX_OK;
}

/* ---- zip ---- */

static tx_status find_in_archive(void *user, const tx__storage_id *id, const tx_pt_storage **out)
{
    tx_pt *f = user;
    tx__pt_stored *s;
    char name[300];
    uint64_t bytes;
    if (id->view) return TX_FAIL(TX_ERR_FORMAT, "storage %s: views are of the older container", id->key);
    TX_TRY(tx__pt_storage_put(f, id->key, id->dtype, id->numel, &s));
    *out = s->storage;
    if (s->storage->data) return TX_OK;
    snprintf(name, sizeof name, "data/%s", id->key);
    const tx__zip_entry *e = tx__zip_find(&f->zip, f->folder, f->n_folder, name);
    if (!e) return TX_FAIL(TX_ERR_FORMAT, "storage %s is not in the archive", id->key);
    if (__builtin_mul_overflow((uint64_t)id->numel, (uint64_t)tx_pt_dtype_size(id->dtype), &bytes) || bytes != e->size)
        return TX_FAIL(TX_ERR_FORMAT, "storage %s has %" PRId64 " elements of %s, and %" PRIu64 " bytes", id->key,
                       id->numel, tx_pt_dtype_name(id->dtype), e->size);
    s->storage->data = e->data;
    s->storage->entry = f->checks && e->crc ? (size_t)(e - f->zip.entry) + 1 : 0;
    return TX_OK;
}

static tx_status check_in_archive(void *user, const tx_pt_storage *s)
{
    return tx__pt_check_storage(user, s);
}

static const tx__zip_entry *entry(const tx_pt *f, const char *name)
{
    return tx__zip_find(&f->zip, f->folder, f->n_folder, name);
}

static bool holds(const tx__zip_entry *e, const char *text)
{
    return e->size == strlen(text) && !memcmp(e->data, text, (size_t)e->size);
}

/* 1 to 10, perhaps with a line end. */
static bool is_known_version(const tx__zip_entry *e)
{
    size_t n = (size_t)e->size;
    if (n && n < 4 && e->data[n - 1] == '\n') n--;
    return (n == 1 && e->data[0] >= '1' && e->data[0] <= '9') || (n == 2 && !memcmp(e->data, "10", 2));
}

static tx_status check_kind(const tx_pt *f)
{
    const tx__zip_entry *order = entry(f, "byteorder"), *version = entry(f, "version");
    if (f->checks && order) TX_TRY(tx__pt_check_entry(f, order));
    if (entry(f, "constants.pkl"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: a program of TorchScript, not a file of torch.save", f->path);
    if (!version) version = entry(f, ".data/version");
    if (f->checks && version) TX_TRY(tx__pt_check_entry(f, version));
    if (!version || !is_known_version(version))
        return TX_FAIL(version ? TX_ERR_UNSUPPORTED : TX_ERR_FORMAT, "%s: %s", f->path,
                       version ? "a version of the archive other than 1 to 10"
                               : "no entry that says its version: not a file of torch.save");
    if (order && holds(order, "big"))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: written on a big-endian machine", f->path);
    if (order && !holds(order, "little"))
        return TX_FAIL(TX_ERR_FORMAT, "%s: byteorder is neither little nor big", f->path);
    return TX_OK;
}

tx_status tx__pt_open_zip(tx_pt *f)
{
    TX_TRY(tx__zip_open(&f->zip, f->path, f->map.data, f->map.size));
    const char *slash = f->zip.n ? memchr(f->zip.entry[0].name, '/', f->zip.entry[0].n_name) : NULL;
    if (!slash) return TX_FAIL(TX_ERR_FORMAT, "%s: a zip archive, but not one of torch.save", f->path);
    f->folder = f->zip.entry[0].name;
    f->n_folder = (size_t)(slash - f->folder);
    const tx__zip_entry *e = entry(f, "data.pkl");
    if (!e) return TX_FAIL(TX_ERR_FORMAT, "%s: a zip archive without data.pkl: not a file of torch.save", f->path);
    TX_TRY(check_kind(f));
    if (e->size > TX_PT_MAX_PICKLE)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: data.pkl has %" PRIu64 " bytes; at most %zu are read", f->path, e->size,
                       TX_PT_MAX_PICKLE);
    if (f->checks) TX_TRY(tx__pt_check_entry(f, e));
    size_t taken;
    TX_TRY(tx__pickle_read(&f->root, &taken, f->arena,
                           &(tx__pickle_in){ f->path, "data.pkl", e->data, (size_t)e->size, find_in_archive, f,
                                             &f->n_values, check_in_archive }));
    if (taken != e->size)
        return TX_FAIL(TX_ERR_FORMAT, "%s: data.pkl goes on for %" PRIu64 " bytes after its end", f->path,
                       e->size - taken);
    return TX_OK;
}

/* ---- both ---- */

static tx_status open_container(tx_pt *f)
{
    const unsigned char *b = f->map.data;
    size_t n = f->map.size;
    if (tx__zip_is(b, n)) return tx__pt_open_zip(f);
    if (n > 262 && !memcmp(b + 257, "ustar", 5))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "%s: a tar archive, as torch.save wrote before 2017; load it with PyTorch and save it again",
                       f->path);
    if (n >= 2 && b[0] == 0x80) return tx__pt_open_legacy(f);
    return TX_FAIL(TX_ERR_FORMAT, "%s: not a file of torch.save: neither a zip archive nor a pickle", f->path);
}

static tx_status open_bare_pickle(tx_pt *f)
{
    size_t taken;
    if (f->map.size > TX_PT_MAX_PICKLE)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: has %zu bytes; at most %zu are read", f->path, f->map.size,
                       TX_PT_MAX_PICKLE);
    return tx__pickle_read(
        &f->root, &taken, f->arena,
        &(tx__pickle_in){ f->path, "the pickle", f->map.data, f->map.size, NULL, NULL, &f->n_values, NULL });
}

/* What is to be opened of a file. */
typedef struct part {
    uint64_t at, size; /* size 0: all of it */
    bool checks, pickle;
} part;

static tx_status open_part(tx_pt **out, const char *path, const part *r)
{
    tx_pt *f;
    TX_TRY(tx_alloc(&f, 1, sizeof *f, "a .pt file"));
    tx_status st;
    f->checks = r->checks;
    TX_GOTO(tx_memdup0(&f->path, path, strlen(path), "a path"));
    TX_GOTO(tx_map_open(&f->file, path));
    f->map = f->file;
    if (r->size) {
        if (r->at > f->file.size || r->size > f->file.size - r->at) {
            st = TX_FAIL(TX_ERR_FORMAT,
                         "%s: has %zu bytes, and a tensor in bytes %" PRIu64 " to %" PRIu64 ": it is cut off", path,
                         f->file.size, r->at, r->at + r->size);
            goto out;
        }
        f->map = (tx_map){ f->file.data + r->at, (size_t)r->size };
    }
    TX_GOTO(tx_py_arena_create(&f->arena));
    TX_GOTO(r->pickle ? open_bare_pickle(f) : open_container(f));
    *out = f;
    f = NULL;
out:
    tx_pt_close(f);
    return st;
}

tx_status tx_pt_open(tx_pt **out, const char *path)
{
    return open_part(out, path, &(part){ .checks = true });
}

tx_status tx_pt_open_unchecked(tx_pt **out, const char *path)
{
    return open_part(out, path, &(part){ .checks = false });
}

tx_status tx_pt_open_part(tx_pt **out, const char *path, uint64_t at, uint64_t size, bool checked)
{
    if (!size) return TX_FAIL(TX_ERR_FORMAT, "%s: a tensor of no bytes", path);
    return open_part(out, path, &(part){ at, size, checked, false });
}

tx_status tx_pt_open_pickle(tx_pt **out, const char *path)
{
    return open_part(out, path, &(part){ .pickle = true });
}

void tx_pt_close(tx_pt *f)
{
    if (!f) return;
    tx__zip_close(&f->zip);
    tx_hash_free(&f->by_key);
    tx_free(f->stored);
    tx_py_arena_destroy(f->arena);
    tx_map_close(&f->file);
    tx_free(f->path);
    tx_free(f);
}

const char *tx_pt_path(const tx_pt *f)
{
    return f->path;
}

const tx_py *tx_pt_root(const tx_pt *f)
{
    return f->root;
}

/* The map is read-only, so no page of it can be lost. */
void tx_pt_forget(const tx_pt *f)
{
    if (f->file.data) (void)madvise((void *)(uintptr_t)f->file.data, f->file.size, MADV_DONTNEED);
}
