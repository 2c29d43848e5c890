/* pt_legacy.c - the container of PyTorch before 1.6: pickles one after the other, then the storages.
 *
 *      | magic | 1001 | {'little_endian': ...} | the object | ['key', ...] | u64 n, n elements | u64 n, n elements |
 * ...
 */
#include <inttypes.h>
#include <string.h>

#include "torch/pt_file.h"

static const unsigned char magic[10] = { 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };

/* A view is registered with the storage that it is a part of, whose size is known from here, too. */
static tx_status find_in_file(void *user, const tx__storage_id *id, const tx_pt_storage **out)
{
    tx_pt *f = user;
    tx__pt_stored *whole, *view;
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)id->numel, (uint64_t)tx_pt_dtype_size(id->dtype), &bytes) ||
        bytes > f->map.size)
        return TX_FAIL(TX_ERR_FORMAT, "storage %s of %" PRId64 " elements is larger than the file", id->key, id->numel);
    TX_TRY(tx__pt_storage_put(f, id->key, id->dtype, id->numel, &whole));
    *out = whole->storage;
    if (!id->view) return TX_OK;
    TX_TRY(tx__pt_storage_put(f, id->view, id->dtype, id->view_numel, &view));
    if (view == whole || whole->whole || (view->whole && (view->whole != whole || view->at != id->view_at)))
        return TX_FAIL(TX_ERR_FORMAT, "storage %s: view %s is a view of several", id->key, id->view);
    view->whole = whole;
    view->at = id->view_at;
    *out = view->storage;
    return TX_OK;
}

/* The next pickle of the file. */
static tx_status next(tx_pt *f, size_t *at, const char *part, const tx_py **out)
{
    size_t left = f->map.size - *at, taken;
    TX_TRY(tx__pickle_read(out, &taken, f->arena,
                           &(tx__pickle_in){ f->path, part, f->map.data + *at,
                                             left < TX_PT_MAX_PICKLE ? left : TX_PT_MAX_PICKLE, find_in_file, f,
                                             &f->n_values, NULL }));
    *at += taken;
    return TX_OK;
}

static tx_status check_head(tx_pt *f, size_t *at)
{
    const tx_py *v;
    int64_t protocol;
    TX_TRY(next(f, at, "the magic number", &v));
    if (v->kind != TX_PY_BYTES || !v->big || v->as.str.n != sizeof magic ||
        memcmp(v->as.str.text, magic, sizeof magic) != 0)
        return TX_FAIL(TX_ERR_FORMAT, "%s: a pickle, but not a file of torch.save", f->path);
    TX_TRY(next(f, at, "the protocol", &v));
    if (!tx_py_int(v, &protocol) || protocol != 1001)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: its container has a protocol other than 1001", f->path);
    TX_TRY(next(f, at, "the system's description", &v));
    const tx_py *little = tx_py_get(v, "little_endian");
    if (!little || little->kind != TX_PY_BOOL)
        return TX_FAIL(TX_ERR_FORMAT, "%s: it does not say in which order its bytes are", f->path);
    if (!tx_py_true(little)) return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: written on a big-endian machine", f->path);
    return TX_OK;
}

static tx_status read_storage(tx_pt *f, const tx_py *name, size_t *at)
{
    const char *key = tx_py_str(name);
    tx__pt_stored *s = key ? tx__pt_storage_get(f, key) : NULL;
    uint64_t n, bytes;
    if (!s || s->whole || s->storage->data)
        return TX_FAIL(TX_ERR_FORMAT, "%s: storage %.100s is listed, and not used or there twice", f->path,
                       key ? key : "(no text)");
    if (f->map.size - *at < 8) return TX_FAIL(TX_ERR_FORMAT, "%s: cut off before storage %.100s", f->path, key);
    memcpy(&n, f->map.data + *at, 8);
    *at += 8;
    if (n != (uint64_t)s->storage->numel)
        return TX_FAIL(TX_ERR_FORMAT, "%s: storage %.100s has %" PRIu64 " elements, and %" PRId64 " are used", f->path,
                       key, n, s->storage->numel);
    bytes = n * tx_pt_dtype_size(s->storage->dtype); /* find_in_file has seen that this can be counted */
    if (bytes > f->map.size - *at)
        return TX_FAIL(TX_ERR_FORMAT, "%s: storage %.100s needs %" PRIu64 " bytes, the file has %zu more", f->path, key,
                       bytes, f->map.size - *at);
    s->storage->data = f->map.data + *at;
    *at += (size_t)bytes;
    return TX_OK;
}

tx_status tx__pt_open_legacy(tx_pt *f)
{
    const tx_py *keys;
    size_t at = 0;
    TX_TRY(check_head(f, &at));
    TX_TRY(next(f, &at, "the object", &f->root));
    TX_TRY(next(f, &at, "the list of storages", &keys));
    if (keys->kind != TX_PY_LIST) return TX_FAIL(TX_ERR_FORMAT, "%s: its list of storages is no list", f->path);
    for (size_t i = 0; i < tx_py_len(keys); i++) TX_TRY(read_storage(f, tx_py_item(keys, i), &at));
    if (at != f->map.size)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %zu bytes after the last storage belong to none", f->path, f->map.size - at);
    for (size_t i = 0; i < f->n_stored; i++) {
        tx__pt_stored *s = f->stored[i];
        const tx__pt_stored *whole = s->whole;
        if (whole) s->storage->data = whole->storage->data + (size_t)s->at * tx_pt_dtype_size(s->storage->dtype);
        if (!(whole ? whole : s)->storage->data)
            return TX_FAIL(TX_ERR_FORMAT, "%s: storage %s is not in the file", f->path, s->key);
    }
    return TX_OK;
}
