/* metric_index.c - reading and writing the files of a metric. */
#include "data/metric_index.h"

#include <string.h>

#include "base/alloc.h"
#include "data/indexed_format.h"

enum { U8 = 1, I8, I16, I32, I64, U16, U32, U64, N_TYPES };

static const size_t type_bytes[N_TYPES] = {
    [U8] = 1, [I8] = 1, [I16] = 2, [I32] = 4, [I64] = 8, [U16] = 2, [U32] = 4, [U64] = 8
};

/* ---- reading ---- */

static tx_status open_map(tx_map *out, const char *prefix, const char *ext)
{
    tx_str path = { 0 };
    tx_status st = tx_str_printf(&path, "%s.%s", prefix, ext);
    if (!st && !tx_path_exists(path.data))
        st = TX_FAIL(TX_ERR_NOTFOUND,
                     "%s: no such file; give what triax analyze-data has written, without .bin and .idx", path.data);
    if (!st) st = tx_map_open(out, path.data);
    tx_str_free(&path);
    return st;
}

static tx_status broken(const tx_metric_index *ix, const char *what)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s.idx: %s; repeat triax analyze-data", ix->prefix, what);
}

static tx_status check(tx_metric_index *ix)
{
    const unsigned char *p = ix->idx.data;
    uint64_t version, n, m;
    if (ix->idx.size < TX_IDX_HEADER || memcmp(p, TX_IDX_MAGIC, sizeof TX_IDX_MAGIC) != 0)
        return broken(ix, "is no index of a metric");
    memcpy(&version, p + 9, 8);
    ix->dtype = p[17];
    memcpy(&n, p + 18, 8);
    memcpy(&m, p + 26, 8);
    if (version != 1 || ix->dtype < U8 || ix->dtype >= N_TYPES) return broken(ix, "has a version or type unknown here");
    size_t rest = ix->idx.size - TX_IDX_HEADER;
    if (n > rest / 12 || m > rest / 8 || n * 12 + m * 8 != rest) return broken(ix, "is incomplete");
    ix->n_rows = (int64_t)n;
    for (int64_t i = 0; i < ix->n_rows; i++) {
        int64_t size = tx_metric_index_row(ix, i), pointer;
        memcpy(&pointer, p + TX_IDX_HEADER + n * 4 + (uint64_t)i * 8, 8);
        if (size < 0 || pointer != ix->n_values * (int64_t)type_bytes[ix->dtype])
            return broken(ix, "has rows that do not lie one after the other");
        ix->n_values += size;
        if ((uint64_t)ix->n_values > ix->bin.size) break; /* said below */
    }
    if ((uint64_t)ix->n_values * type_bytes[ix->dtype] != ix->bin.size)
        return TX_FAIL(TX_ERR_FORMAT, "%s.bin: has %zu bytes, and its .idx is of another size; copy both files again",
                       ix->prefix, ix->bin.size);
    return TX_OK;
}

tx_status tx_metric_index_open(tx_metric_index *out, const char *prefix)
{
    tx_metric_index ix = { 0 };
    tx_status st;
    TX_GOTO(tx_memdup0(&ix.prefix, prefix, strlen(prefix), "a path"));
    TX_GOTO(open_map(&ix.idx, prefix, "idx"));
    TX_GOTO(open_map(&ix.bin, prefix, "bin"));
    TX_GOTO(check(&ix));
    *out = ix;
    return TX_OK;
out:
    tx_metric_index_close(&ix);
    return st;
}

void tx_metric_index_close(tx_metric_index *ix)
{
    tx_map_close(&ix->idx);
    tx_map_close(&ix->bin);
    tx_free(ix->prefix);
    *ix = (tx_metric_index){ 0 };
}

int64_t tx_metric_index_row(const tx_metric_index *ix, int64_t i)
{
    int32_t n;
    memcpy(&n, ix->idx.data + TX_IDX_HEADER + i * 4, 4);
    return n;
}

#define READ(type)               \
    {                            \
        type x;                  \
        memcpy(&x, p, sizeof x); \
        return (int64_t)x;       \
    }

int64_t tx_metric_index_at(const tx_metric_index *ix, int64_t k)
{
    const unsigned char *p = ix->bin.data + (size_t)k * type_bytes[ix->dtype];
    switch (ix->dtype) {
    case U8:
        return *p;
    case I8:
        READ(int8_t)
    case I16:
        READ(int16_t)
    case U16:
        READ(uint16_t)
    case I32:
        READ(int32_t)
    case U32:
        READ(uint32_t)
    default:
        READ(int64_t)
    }
}

/* ---- writing ---- */

int tx_metric_index_type(int64_t lo, int64_t hi)
{
    if (lo >= 0) return hi <= UINT8_MAX ? U8 : hi <= UINT16_MAX ? U16 : hi <= UINT32_MAX ? U32 : U64;
    if (lo >= INT8_MIN && hi <= INT8_MAX) return I8;
    if (lo >= INT16_MIN && hi <= INT16_MAX) return I16;
    return lo >= INT32_MIN && hi <= INT32_MAX ? I32 : I64;
}

static int64_t row_of(const tx_metric_rows *r, int64_t i)
{
    return r->row ? r->row(r->user, i) : 1;
}

static tx_status open_writer(tx_writer *w, const char *prefix, const char *ext)
{
    tx_str path = { 0 };
    tx_status st = tx_str_printf(&path, "%s.%s", prefix, ext);
    if (!st) st = tx_writer_open(w, path.data);
    tx_str_free(&path);
    return st;
}

/* Numbers are little-endian: the narrow ones are the first bytes of the wide one. */
static tx_status put_values(tx_writer *w, const tx_metric_rows *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_rows; i++) n += row_of(r, i);
    for (int64_t k = 0; k < n; k++) {
        int64_t value = r->value(r->user, k);
        TX_TRY(tx_writer_put(w, &value, type_bytes[r->dtype]));
    }
    return TX_OK;
}

static tx_status put_index(tx_writer *w, const char *prefix, const tx_metric_rows *r)
{
    const int64_t version = 1, first = 0, m = r->merged ? 3 : 2;
    const unsigned char code = (unsigned char)r->dtype;
    TX_TRY(tx_writer_put(w, TX_IDX_MAGIC, sizeof TX_IDX_MAGIC));
    TX_TRY(tx_writer_put(w, &version, 8));
    TX_TRY(tx_writer_put(w, &code, 1));
    TX_TRY(tx_writer_put(w, &r->n_rows, 8));
    TX_TRY(tx_writer_put(w, &m, 8));
    for (int64_t i = 0; i < r->n_rows; i++) {
        int64_t n = row_of(r, i);
        int32_t size = (int32_t)n;
        if (n > INT32_MAX)
            return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: %lld samples have one value, and a row of the format ends at %d",
                           prefix, (long long)n, INT32_MAX);
        TX_TRY(tx_writer_put(w, &size, 4));
    }
    for (int64_t i = 0, pointer = 0; i < r->n_rows; i++) {
        TX_TRY(tx_writer_put(w, &pointer, 8));
        pointer += row_of(r, i) * (int64_t)type_bytes[r->dtype];
    }
    TX_TRY(tx_writer_put(w, &first, 8));
    for (int64_t d = 1; d < m; d++) TX_TRY(tx_writer_put(w, &r->n_rows, 8));
    return TX_OK;
}

tx_status tx_metric_index_write(const char *prefix, const tx_metric_rows *rows)
{
    tx_writer bin = { 0 }, idx = { 0 };
    tx_status st;
    TX_GOTO(open_writer(&bin, prefix, "bin"));
    TX_GOTO(open_writer(&idx, prefix, "idx"));
    TX_GOTO(put_values(&bin, rows));
    TX_GOTO(put_index(&idx, prefix, rows));
    TX_GOTO(tx_writer_seal(&bin));
    TX_GOTO(tx_writer_seal(&idx));
    TX_GOTO(tx_writer_commit(&bin));
    TX_GOTO(tx_writer_commit(&idx));
out:
    tx_writer_abort(&bin);
    tx_writer_abort(&idx);
    return st;
}
