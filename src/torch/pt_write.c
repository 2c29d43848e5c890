/* pt_write.c - writing .pt files: the pickle, then each storage in pieces. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "torch/pickle.h"
#include "torch/zip.h"

enum { RAW_CHUNK = 1 << 22 }; /* bytes of a storage that is copied */

typedef struct saver {
    const char *path;
    tx_pt_fetch *fetch;
    void *user;
    tx__zip_writer zip;
    tx_str folder, name;
    void *in, *out; /* a piece as it is fetched, and as it is written */
} saver;

/* ---- numbers; how many did not fit ---- */

static size_t from_f32(tx_pt_dtype t, const float *x, int64_t n, unsigned char *dst)
{
    size_t n_lost = 0;
    for (int64_t i = 0; i < n; i++) {
        if (t == TX_PT_F64) {
            double wide = (double)x[i];
            memcpy(dst + 8 * i, &wide, 8);
            continue;
        }
        uint16_t half = t == TX_PT_BF16 ? tx_f32_to_bf16(x[i]) : tx_f32_to_f16(x[i]);
        n_lost += isinf(t == TX_PT_BF16 ? tx_bf16_to_f32(half) : tx_f16_to_f32(half)) && !isinf(x[i]);
        memcpy(dst + 2 * i, &half, 2);
    }
    return n_lost;
}

/* Little-endian, so an integer's first bytes are what a shorter one has. */
static size_t from_i64(tx_pt_dtype t, const int64_t *x, int64_t n, unsigned char *dst)
{
    size_t size = tx_pt_dtype_size(t), n_lost = 0;
    int64_t lo = -((int64_t)1 << (8 * size - 1)), hi = -(lo + 1);
    if (t == TX_PT_U8 || t == TX_PT_BOOL) {
        lo = 0;
        hi = t == TX_PT_U8 ? 255 : 1;
    }
    for (int64_t i = 0; i < n; i++) {
        n_lost += x[i] < lo || x[i] > hi;
        memcpy(dst + (size_t)i * size, x + i, size);
    }
    return n_lost;
}

static tx_status write_piece(saver *s, const tx_pt_storage *storage, int64_t first, int64_t n)
{
    tx_pt_dtype t = storage->dtype;
    size_t n_lost = 0;
    TX_TRY(s->fetch(s->user, storage, first, n, s->in));
    const void *bytes = s->in;
    if (t != TX_PT_F32 && t != TX_PT_I64) {
        n_lost = t < TX_PT_I64 ? from_f32(t, s->in, n, s->out) : from_i64(t, s->in, n, s->out);
        bytes = s->out;
    }
    if (n_lost)
        return TX_FAIL(TX_ERR_NUMERIC, "%s: %zu numbers are too large for %s", s->path, n_lost, tx_pt_dtype_name(t));
    return tx__zip_put(&s->zip, bytes, (size_t)n * tx_pt_dtype_size(t));
}

static tx_status write_storage(saver *s, const tx_pt_storage *storage)
{
    uint64_t bytes = (uint64_t)storage->numel * tx_pt_dtype_size(storage->dtype);
    TX_TRY(tx__zip_begin(&s->zip, s->name.data, bytes));
    if (storage->data) {
        for (uint64_t at = 0; at < bytes; at += RAW_CHUNK)
            TX_TRY(tx__zip_put(&s->zip, storage->data + at, (size_t)(bytes - at < RAW_CHUNK ? bytes - at : RAW_CHUNK)));
    } else {
        TX_ASSERT(s->fetch);
        for (int64_t i = 0; i < storage->numel; i += TX_PT_CHUNK)
            TX_TRY(write_piece(s, storage, i, storage->numel - i < TX_PT_CHUNK ? storage->numel - i : TX_PT_CHUNK));
    }
    return tx__zip_end(&s->zip);
}

/* ---- entries ---- */

/* The file's own name without what follows its last dot, as torch does it; a name that no reader should meet in an
 * archive becomes torch's "archive", too. */
static tx_status name_folder(saver *s)
{
    const char *slash = strrchr(s->path, '/'), *base = slash ? slash + 1 : s->path, *dot = strrchr(base, '.');
    size_t n = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    bool plain = n > 0 && !(n == 2 && !memcmp(base, "..", 2)) && base[n > 1] != ':';
    for (size_t i = 0; i < n; i++)
        if (base[i] < 0x20 || base[i] > 0x7E || base[i] == '\\') plain = false;
    return plain ? tx_str_append(&s->folder, base, n) : tx_str_puts(&s->folder, "archive");
}

static tx_status name_entry(saver *s, const char *name)
{
    s->name.len = 0;
    TX_TRY(tx_str_append(&s->name, s->folder.data, s->folder.len));
    return tx_str_puts(&s->name, name);
}

static tx_status add(saver *s, const char *name, const void *bytes, size_t n)
{
    TX_TRY(name_entry(s, name));
    return tx__zip_add(&s->zip, s->name.data, bytes, n);
}

static tx_status write_entries(saver *s, const tx_str *pickle, const tx__storage_list *storages)
{
    char text[48];
    TX_TRY(name_folder(s));
    TX_TRY(add(s, "/data.pkl", pickle->data, pickle->len));
    TX_TRY(add(s, "/.format_version", "1", 1));
    TX_TRY(add(s, "/.storage_alignment", "64", 2));
    TX_TRY(add(s, "/byteorder", "little", 6));
    for (size_t i = 0; i < storages->n; i++) {
        snprintf(text, sizeof text, "/data/%zu", i);
        TX_TRY(name_entry(s, text));
        TX_TRY(write_storage(s, storages->item[i]));
    }
    TX_TRY(add(s, "/version", "3\n", 2));
    /* torch puts hashes of the names and of the data here; readers do not look at them */
    snprintf(text, sizeof text, "%020" PRIu64 "%020" PRIu64, s->zip.n, s->zip.all);
    TX_TRY(add(s, "/.data/serialization_id", text, 40));
    return tx__zip_finish(&s->zip);
}

tx_status tx_pt_write(const char *path, const tx_py *root, tx_pt_fetch *fetch, void *user)
{
    saver s = { .path = path, .fetch = fetch, .user = user };
    tx_str pickle = { 0 };
    tx__storage_list storages = { 0 };
    tx_writer file = { .fd = -1 };
    tx_status st;
    if (!root) return TX_FAIL(TX_ERR_NOMEM, "%s: not enough memory for the values to be saved", path);
    TX_GOTO(tx__pickle_write(&pickle, &storages, path, root));
    TX_GOTO(tx_alloc(&s.in, TX_PT_CHUNK, 8, "a piece of a .pt file"));
    TX_GOTO(tx_alloc(&s.out, TX_PT_CHUNK, 8, "a piece of a .pt file"));
    TX_GOTO(tx_writer_open(&file, path));
    s.zip.file = &file;
    TX_GOTO(write_entries(&s, &pickle, &storages));
    TX_GOTO(tx_writer_commit(&file));
out:
    if (st) tx_writer_abort(&file);
    tx__zip_writer_free(&s.zip);
    tx_str_free(&s.folder);
    tx_str_free(&s.name);
    tx_str_free(&pickle);
    tx__storage_list_free(&storages);
    tx_free(s.in);
    tx_free(s.out);
    return st;
}
