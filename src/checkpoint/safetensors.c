/* safetensors.c - reading and writing files of named tensors. Knows no model and no folder. Format:
 * huggingface/safetensors, README "Format". */
#include "checkpoint/safetensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file_pieces.h"
#include "base/half.h"
#include "checkpoint/json_text.h"

#define PUT_BYTES  ((size_t)1 << 20)
#define PULL_BYTES ((uint64_t)32 << 20) /* that are read at once, or a larger tensor */
#define PULL_PIECE ((size_t)1 << 20)

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors lie in files and in memory alike, little-endian");

static const struct {
    const char *name;
    size_t size;
} dtypes[TX_ST_N_DTYPES] = {
    [TX_ST_BOOL] = { "BOOL", 1 },       [TX_ST_U8] = { "U8", 1 },   [TX_ST_I8] = { "I8", 1 },
    [TX_ST_F8_E5M2] = { "F8_E5M2", 1 }, [TX_ST_I16] = { "I16", 2 }, [TX_ST_F8_E4M3] = { "F8_E4M3", 1 },
    [TX_ST_U16] = { "U16", 2 },         [TX_ST_F16] = { "F16", 2 }, [TX_ST_BF16] = { "BF16", 2 },
    [TX_ST_I32] = { "I32", 4 },         [TX_ST_U32] = { "U32", 4 }, [TX_ST_F32] = { "F32", 4 },
    [TX_ST_F64] = { "F64", 8 },         [TX_ST_I64] = { "I64", 8 }, [TX_ST_U64] = { "U64", 8 },
};

size_t tx_st_dtype_size(tx_st_dtype t)
{
    return dtypes[t].size;
}

/* ---- reading ---- */

struct tx_safetensors {
    tx_map map;
    char *path;
    json_t *header; /* owns the names */
    tx_st_tensor *tensor;
    const tx_st_tensor **by_name;
    size_t n;
};

/* One entry of the header. Where its data lies is only noted here (data, bytes): check_layout looks at all together. */
static tx_status read_entry(tx_safetensors *f, const char *name, const json_t *v, size_t data_start)
{
    tx_st_tensor t = { .file = f->path, .name = name };
    if (!tx__is_printable(name, TX_ST_MAX_NAME))
        return TX_FAIL(TX_ERR_FORMAT, "%s: a tensor's name is empty, longer than %d bytes or has control characters",
                       f->path, TX_ST_MAX_NAME);
    const char *dtype = json_string_value(json_object_get(v, "dtype"));
    const json_t *shape = json_object_get(v, "shape");
    int64_t at[2];
    int n_at = 0;
    if (json_object_size(v) != 3 || !dtype || !json_is_array(shape) ||
        !tx__json_sizes(json_object_get(v, "data_offsets"), 2, 2, at, &n_at))
        return TX_FAIL(TX_ERR_FORMAT, "%s: tensor %.200s: needs exactly dtype, shape and data_offsets [begin, end]",
                       f->path, name);
    for (t.dtype = 0; t.dtype < TX_ST_N_DTYPES; t.dtype++)
        if (!strcmp(dtype, dtypes[t.dtype].name)) break;
    if (t.dtype == TX_ST_N_DTYPES)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: tensor %.200s: dtype %s is not known", f->path, name,
                       tx__is_printable(dtype, 32) ? dtype : "(unprintable)");
    if (json_array_size(shape) > TX_ST_MAX_DIMS)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: tensor %.200s: %zu dimensions, at most %d are supported", f->path, name,
                       json_array_size(shape), TX_ST_MAX_DIMS);
    uint64_t bytes = dtypes[t.dtype].size;
    if (!tx__json_sizes(shape, 0, TX_ST_MAX_DIMS, t.dim, &t.n_dims))
        return TX_FAIL(TX_ERR_FORMAT, "%s: tensor %.200s: shape is not a list of integers >= 0", f->path, name);
    for (int i = 0; i < t.n_dims; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)t.dim[i], &bytes))
            return TX_FAIL(TX_ERR_FORMAT, "%s: tensor %.200s: its shape is larger than any file", f->path, name);
    if (at[0] > at[1] || (uint64_t)at[1] > f->map.size - data_start)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: tensor %.200s: bytes %" PRId64 " to %" PRId64 " are not inside the %zu of data", f->path,
                       name, at[0], at[1], f->map.size - data_start);
    if ((uint64_t)(at[1] - at[0]) != bytes)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: tensor %.200s: dtype and shape need %" PRIu64 " bytes, data_offsets give %" PRId64, f->path,
                       name, bytes, at[1] - at[0]);
    t.data = f->map.data + data_start + at[0];
    t.bytes = (size_t)bytes;
    t.at = data_start + (uint64_t)at[0];
    t.file_bytes = f->map.size;
    f->tensor[f->n++] = t;
    return TX_OK;
}

static int by_place(const void *a, const void *b)
{
    const tx_st_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* empty ones before the one that starts there */
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const tx_st_tensor *const *)a)->name, (*(const tx_st_tensor *const *)b)->name);
}

/* No hole, no overlap, nothing left over: in order, each starts where the one before ended. */
static tx_status check_layout(tx_safetensors *f, size_t data_start)
{
    const unsigned char *base = f->map.data + data_start, *expect = base;
    if (f->n) qsort(f->tensor, f->n, sizeof *f->tensor, by_place);
    for (size_t i = 0; i < f->n; i++) {
        const tx_st_tensor *t = &f->tensor[i];
        if (t->data != expect)
            return TX_FAIL(TX_ERR_FORMAT, "%s: tensor %.200s: starts at byte %zu of the data, %s byte %zu", f->path,
                           t->name, (size_t)(t->data - base),
                           t->data < expect ? "inside the tensor that ends at" : "leaving a hole from",
                           (size_t)(expect - base));
        expect = t->data + t->bytes;
    }
    if (expect != f->map.data + f->map.size)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %zu bytes after the last tensor belong to none", f->path,
                       f->map.size - (size_t)(expect - f->map.data));
    return TX_OK;
}

static tx_status check_metadata(const tx_safetensors *f, json_t *meta)
{
    const char *key;
    json_t *v;
    if (!json_is_object(meta)) return TX_FAIL(TX_ERR_FORMAT, "%s: __metadata__ is not an object of texts", f->path);
    json_object_foreach(meta, key, v)
    {
        if (!json_is_string(v))
            return TX_FAIL(TX_ERR_FORMAT, "%s: __metadata__ holds a value that is not a text", f->path);
    }
    return TX_OK;
}

static tx_status read_header(tx_safetensors *f)
{
    uint64_t n;
    if (f->map.size < 8 + 2)
        return TX_FAIL(TX_ERR_FORMAT, "%s: %zu bytes are too few for a safetensors file", f->path, f->map.size);
    memcpy(&n, f->map.data, 8);
    if (n > TX_ST_MAX_HEADER || n > f->map.size - 8)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: header length %" PRIu64 " is more than the %s: not a safetensors file or cut off", f->path,
                       n, n > TX_ST_MAX_HEADER ? "100 MB allowed" : "file holds");
    if (n == 0 || f->map.data[8] != '{')
        return TX_FAIL(TX_ERR_FORMAT, "%s: the header does not begin with '{': not a safetensors file", f->path);
    size_t header = (size_t)n, data_start = 8 + header;
    TX_TRY(tx__json_parse(&f->header, f->path, (const char *)f->map.data + 8, header));
    size_t cap = json_object_size(f->header);
    TX_TRY(tx_alloc(&f->tensor, cap, sizeof *f->tensor, "a list of tensors"));
    TX_TRY(tx_alloc(&f->by_name, cap, sizeof *f->by_name, "a list of tensors"));
    const char *name;
    json_t *v;
    json_object_foreach(f->header, name, v)
    {
        if (!strcmp(name, "__metadata__"))
            TX_TRY(check_metadata(f, v));
        else
            TX_TRY(read_entry(f, name, v, data_start));
    }
    TX_TRY(check_layout(f, data_start));
    for (size_t i = 0; i < f->n; i++) f->by_name[i] = &f->tensor[i];
    if (f->n) qsort(f->by_name, f->n, sizeof *f->by_name, by_name);
    return TX_OK;
}

tx_status tx_safetensors_open_map(tx_safetensors **out, const char *path, tx_map *map)
{
    tx_safetensors *f;
    TX_TRY(tx_alloc(&f, 1, sizeof *f, "a safetensors file"));
    f->map = *map;
    tx_status st = tx_memdup0(&f->path, path, strlen(path), "a path");
    if (!st) st = read_header(f);
    if (st) {
        f->map = (tx_map){ 0 }; /* not taken */
        tx_safetensors_close(f);
        return st;
    }
    *map = (tx_map){ 0 };
    *out = f;
    return TX_OK;
}

tx_status tx_safetensors_open(tx_safetensors **out, const char *path)
{
    tx_map map;
    TX_TRY(tx_map_open(&map, path));
    tx_status st = tx_safetensors_open_map(out, path, &map);
    tx_map_close(&map);
    return st;
}

void tx_safetensors_close(tx_safetensors *f)
{
    if (!f) return;
    tx_map_close(&f->map);
    json_decref(f->header);
    tx_free(f->tensor);
    tx_free(f->by_name);
    tx_free(f->path);
    tx_free(f);
}

size_t tx_safetensors_count(const tx_safetensors *f)
{
    return f->n;
}

const tx_st_tensor *tx_safetensors_at(const tx_safetensors *f, size_t i)
{
    TX_ASSERT(i < f->n);
    return &f->tensor[i];
}

const tx_st_tensor *tx_safetensors_find(const tx_safetensors *f, const char *name)
{
    tx_st_tensor key = { .name = name };
    const tx_st_tensor *k = &key, **hit = NULL;
    if (f->n) hit = bsearch(&k, f->by_name, f->n, sizeof *f->by_name, by_name);
    return hit ? *hit : NULL;
}

const char *tx_st_describe(const tx_st_tensor *t, char *buf, size_t cap)
{
    size_t at = (size_t)snprintf(buf, cap, "%s[", dtypes[t->dtype].name);
    for (int i = 0; i < t->n_dims && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%" PRId64, i ? "," : "", t->dim[i]);
    if (at < cap) snprintf(buf + at, cap - at, "]");
    return buf;
}

/* ---- conversion ---- */

static bool is_float(tx_st_dtype t)
{
    return t == TX_ST_F16 || t == TX_ST_BF16 || t == TX_ST_F32 || t == TX_ST_F64;
}

static bool became_infinite(double before, double after)
{
    return isinf(after) && !isinf(before);
}

/* n numbers to float32; how many finite ones did not fit. src may be unaligned. */
static size_t to_f32(tx_st_dtype t, const unsigned char *src, float *dst, size_t n)
{
    size_t n_lost = 0;
    uint16_t half;
    double wide;
    switch (t) {
    case TX_ST_F32:
        memcpy(dst, src, n * 4);
        break;
    case TX_ST_BF16:
        for (size_t i = 0; i < n; i++) {
            memcpy(&half, src + 2 * i, 2);
            dst[i] = tx_bf16_to_f32(half);
        }
        break;
    case TX_ST_F16:
        for (size_t i = 0; i < n; i++) {
            memcpy(&half, src + 2 * i, 2);
            dst[i] = tx_f16_to_f32(half);
        }
        break;
    case TX_ST_F64:
        for (size_t i = 0; i < n; i++) {
            memcpy(&wide, src + 8 * i, 8);
            dst[i] = (float)wide;
            n_lost += became_infinite(wide, dst[i]);
        }
        break;
    default:
        TX_ASSERT(is_float(t)); /* the caller has checked */
    }
    return n_lost;
}

#define TILE 64

/* Converts a tile at a time into a small square that stays in cache, then writes its columns as rows. */
static size_t read_transposed(const tx_st_tensor *t, float *dst)
{
    int64_t rows = t->dim[0], cols = t->dim[1];
    size_t size = dtypes[t->dtype].size, n_lost = 0;
#pragma omp parallel for collapse(2) schedule(static) reduction(+ : n_lost)
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < cols; c0 += TILE) {
            float tile[TILE][TILE];
            int64_t nr = rows - r0 < TILE ? rows - r0 : TILE, nc = cols - c0 < TILE ? cols - c0 : TILE;
            for (int64_t r = 0; r < nr; r++)
                n_lost += to_f32(t->dtype, t->data + (size_t)((r0 + r) * cols + c0) * size, tile[r], (size_t)nc);
            for (int64_t c = 0; c < nc; c++)
                for (int64_t r = 0; r < nr; r++) dst[(c0 + c) * rows + r0 + r] = tile[r][c];
        }
    return n_lost;
}

static size_t read_straight(const tx_st_tensor *t, float *dst)
{
    const int64_t chunk = 1 << 16;
    size_t size = dtypes[t->dtype].size, n_lost = 0;
    int64_t n = (int64_t)(t->bytes / size);
#pragma omp parallel for schedule(static) reduction(+ : n_lost)
    for (int64_t i = 0; i < n; i += chunk)
        n_lost += to_f32(t->dtype, t->data + (size_t)i * size, dst + i, (size_t)(n - i < chunk ? n - i : chunk));
    return n_lost;
}

/* Whether the last page of a tensor is in the system's cache. Where that cannot be told it is taken to be. */
static bool is_cached(const tx_st_tensor *t)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), last = ((uintptr_t)t->data + t->bytes - 1) / page * page;
    unsigned char there = 1;
    return mincore((void *)last, 1, &there) || there & 1;
}

static void look_at_nothing(void *user, const unsigned char *bytes, uint64_t at, size_t n)
{
    (void)user, (void)bytes, (void)at, (void)n;
}

/* Numbers are converted from the map, whose pages would be asked of the disk one stretch after the other. So a tensor
 * that is not there yet is first read by several readers, and with it those that follow it in the file, which are the
 * next ones as a rule. */
static tx_status pull(const tx_st_tensor *t)
{
    if (!t->file_bytes || is_cached(t)) return TX_OK;
    uint64_t end = t->at + (t->bytes > PULL_BYTES ? t->bytes : PULL_BYTES);
    return tx_file_pieces_read(&(tx_file_pieces){ .path = t->file,
                                                  .first = t->at,
                                                  .end = end < t->file_bytes ? end : t->file_bytes,
                                                  .piece = PULL_PIECE,
                                                  .look = look_at_nothing });
}

tx_status tx_st_read_f32(const tx_st_tensor *t, float *dst, bool transpose)
{
    if (!is_float(t->dtype))
        return TX_FAIL(TX_ERR_FORMAT, "%s: tensor %.200s is %s; F32, F16, BF16 or F64 is needed here", t->file, t->name,
                       dtypes[t->dtype].name);
    if (transpose && t->n_dims != 2)
        return TX_FAIL(TX_ERR_SHAPE, "%s: tensor %.200s has %d dimensions, a matrix is needed here", t->file, t->name,
                       t->n_dims);
    if (t->bytes == 0) return TX_OK;
    TX_TRY(pull(t));
    size_t n_lost = transpose ? read_transposed(t, dst) : read_straight(t, dst);
    if (n_lost)
        return TX_FAIL(TX_ERR_NUMERIC, "%s: tensor %.200s: %zu numbers are too large for float32", t->file, t->name,
                       n_lost);
    return TX_OK;
}

/* n float32 to another dtype; how many finite ones did not fit. */
static size_t from_f32(tx_st_dtype t, const float *src, unsigned char *dst, size_t n)
{
    size_t n_lost = 0;
    for (size_t i = 0; i < n; i++) {
        if (t == TX_ST_F64) {
            double wide = src[i];
            memcpy(dst + 8 * i, &wide, 8);
            continue;
        }
        uint16_t half = t == TX_ST_BF16 ? tx_f32_to_bf16(src[i]) : tx_f32_to_f16(src[i]);
        n_lost += became_infinite(src[i], t == TX_ST_BF16 ? tx_bf16_to_f32(half) : tx_f16_to_f32(half));
        memcpy(dst + 2 * i, &half, 2);
    }
    return n_lost;
}

void tx_st_forget(const tx_st_tensor *t)
{
    const tx_map bytes = { t->data, t->bytes };
    tx_map_forget(&bytes, 0, t->bytes);
}

/* ---- writing ---- */

tx_status tx_st_spec_bytes(const tx_st_spec *spec, uint64_t *bytes)
{
    uint64_t n = dtypes[spec->dtype].size;
    bool fits = spec->n_dims >= 0 && spec->n_dims <= TX_ST_MAX_DIMS;
    for (int i = 0; fits && i < spec->n_dims; i++)
        fits = spec->dim[i] >= 0 && !__builtin_mul_overflow(n, (uint64_t)spec->dim[i], &n);
    if (!fits || n > INT64_MAX) return TX_FAIL(TX_ERR_SHAPE, "tensor %s has no shape that can be saved", spec->name);
    *bytes = n;
    return TX_OK;
}

int tx_st_spec_order(const void *a, const void *b)
{
    const tx_st_spec *x = a, *y = b;
    size_t nx = dtypes[x->dtype].size, ny = dtypes[y->dtype].size;
    if (nx != ny) return nx > ny ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* One entry of the header, its data at [*at, *at + bytes). */
static tx_status add_entry(json_t *header, const tx_st_spec *spec, uint64_t *at)
{
    uint64_t bytes, end;
    TX_TRY(tx_st_spec_bytes(spec, &bytes));
    if (__builtin_add_overflow(*at, bytes, &end) || end > INT64_MAX)
        return TX_FAIL(TX_ERR_SHAPE, "tensor %s does not fit into the file", spec->name);
    if (!tx__is_printable(spec->name, TX_ST_MAX_NAME) || !strcmp(spec->name, "__metadata__") ||
        json_object_get(header, spec->name))
        return TX_FAIL(TX_ERR_ARG, "tensor %s cannot be saved: its name is reserved, unprintable or given twice",
                       spec->name);
    json_t *shape = json_array();
    for (int i = 0; i < spec->n_dims; i++) json_array_append_new(shape, json_integer(spec->dim[i]));
    json_t *v = json_pack("{s:s, s:o, s:[I,I]}", "dtype", dtypes[spec->dtype].name, "shape", shape, "data_offsets",
                          (json_int_t)*at, (json_int_t)end);
    if (json_object_set_new(header, spec->name, v))
        return TX_FAIL(TX_ERR_ARG, "tensor %s cannot be saved: its name is not UTF-8, or memory is short", spec->name);
    *at = end;
    return TX_OK;
}

/* A stretch at a time, so that what is written is still in the processor's caches when the tap looks at it, and the
 * disk has work meanwhile. */
static tx_status put_through(tx_st_writer *w, const void *bytes, size_t n)
{
    const char *p = bytes;
    for (size_t k; n; p += k, n -= k) {
        k = n < PUT_BYTES ? n : PUT_BYTES;
        TX_TRY(tx_writer_put(w->file, p, k));
        if (w->tap) w->tap(w->user, p, k);
    }
    return TX_OK;
}

tx_status tx_st_writer_begin(tx_st_writer *w, tx_writer *file, const tx_st_spec *spec, size_t n, tx_st_tap *tap,
                             void *user)
{
    static const char spaces[8] = "        ";
    *w = (tx_st_writer){ .file = file, .tap = tap, .user = user };
    tx_status st = TX_OK;
    char *text = NULL;
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    for (size_t i = 0; i < n; i++) TX_GOTO(add_entry(header, &spec[i], &w->left));
    text = json_dumps(header, JSON_COMPACT);
    if (!text) {
        st = TX_FAIL(TX_ERR_NOMEM, "not enough memory for the header of %s", file->path);
        goto out;
    }
    size_t len = strlen(text), pad = (8 - len % 8) % 8;
    uint64_t total = len + pad;
    if (total > TX_ST_MAX_HEADER) {
        st = TX_FAIL(TX_ERR_UNSUPPORTED, "%s: a header of %zu bytes is more than the 100 MB allowed", file->path, len);
        goto out;
    }
    TX_GOTO(put_through(w, &total, 8));
    TX_GOTO(put_through(w, text, len));
    TX_GOTO(put_through(w, spaces, pad));
out:
    free(text); /* Jansson's */
    json_decref(header);
    return st;
}

tx_status tx_st_writer_put(tx_st_writer *w, const void *bytes, size_t n)
{
    TX_ASSERT(n <= w->left);
    w->left -= n;
    return put_through(w, bytes, n);
}

tx_status tx_st_writer_put_f32(tx_st_writer *w, const float *x, size_t n, tx_st_dtype to)
{
    TX_ASSERT(is_float(to));
    if (to == TX_ST_F32) return tx_st_writer_put(w, x, n * 4);
    unsigned char buf[8 * 2048];
    size_t size = dtypes[to].size, n_lost = 0;
    while (n) {
        size_t k = n < 2048 ? n : 2048;
        n_lost += from_f32(to, x, buf, k);
        TX_TRY(tx_st_writer_put(w, buf, k * size));
        x += k;
        n -= k;
    }
    if (n_lost)
        return TX_FAIL(TX_ERR_NUMERIC, "%s: %zu numbers are too large for %s; save as F32", w->file->path, n_lost,
                       dtypes[to].name);
    return TX_OK;
}

void tx_st_writer_end(const tx_st_writer *w)
{
    TX_ASSERT(w->left == 0);
}
