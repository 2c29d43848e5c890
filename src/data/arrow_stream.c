/* arrow_stream.c - see the header. A table of a flatbuffer is found by a signed offset to its list of fields:
 *
 *      table:   | back to the list (i32) | fields ... |
 *      list:    | bytes of the list (u16) | of the table (u16) | place of field 0 in the table (u16; 0: left out) | ...
 */
#include "data/arrow_stream.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/half.h"
#include "data/json_quote.h"

enum {
    MAX_COLUMNS = 4096, /* with those inside of lists and structs */
    MAX_DEPTH = 16,
    MAX_MESSAGE = 1 << 24, /* bytes without a body */
    HEADER_SCHEMA = 1,
    HEADER_DICTIONARY = 2,
    HEADER_BATCH = 3
};

/* Types of Arrow's schema, by their numbers there. */
typedef enum arrow_type {
    ARROW_NULL = 1,
    ARROW_INT,
    ARROW_FLOAT,
    ARROW_BINARY,
    ARROW_UTF8,
    ARROW_BOOL,
    ARROW_DECIMAL,
    ARROW_DATE,
    ARROW_TIME,
    ARROW_TIMESTAMP,
    ARROW_INTERVAL,
    ARROW_LIST,
    ARROW_STRUCT,
    ARROW_UNION,
    ARROW_FIXED_BINARY,
    ARROW_FIXED_LIST,
    ARROW_MAP,
    ARROW_DURATION,
    ARROW_LARGE_BINARY,
    ARROW_LARGE_UTF8,
    ARROW_LARGE_LIST
} arrow_type;

/* A column, and what the batch has of it. Those inside of it follow it. */
typedef struct column {
    tx_str name; /* as JSON, with quotes */
    arrow_type type;
    int bits;          /* of an integer or a float */
    bool is_signed;    /* of an integer */
    bool indexed;      /* its values are in a dictionary */
    int64_t list_size; /* of a list whose entries have the same size */
    int end;           /* index after those inside */
    int64_t n;
    const unsigned char *valid, *offsets, *data; /* valid NULL: no value is missing */
    int64_t n_data;                              /* bytes */
} column;

struct tx_arrow {
    char *path;
    tx_map map;
    size_t at, taken; /* next message; after the batch */
    column *column;   /* owned */
    int n;
    int64_t row, n_rows; /* of the batch */
};

/* ---- flatbuffers ---- */

/* Part of a message; what would lie outside of it reads as nothing. */
typedef struct buffer {
    const unsigned char *data;
    size_t n;
} buffer;

static uint64_t number_at(const buffer *b, size_t at, size_t bytes)
{
    uint64_t v = 0;
    if (at > b->n || bytes > b->n - at) return 0;
    memcpy(&v, b->data + at, bytes);
    return v;
}

/* Where field `i` of a table is; 0: it has none. */
static size_t field_at(const buffer *b, size_t table, int i)
{
    int64_t list = (int64_t)table - (int32_t)number_at(b, table, 4);
    size_t place = 4 + 2 * (size_t)i;
    if (!table || list < 0 || (uint64_t)list + place + 2 > b->n) return 0;
    if (number_at(b, (size_t)list, 2) < place + 2) return 0;
    uint64_t in = number_at(b, (size_t)list + place, 2);
    return in ? table + (size_t)in : 0;
}

static uint64_t field(const buffer *b, size_t table, int i, size_t bytes)
{
    size_t at = field_at(b, table, i);
    return at ? number_at(b, at, bytes) : 0;
}

/* What a field refers to: a table, a list, a text; 0: nothing. */
static size_t referred(const buffer *b, size_t at)
{
    uint64_t off = at ? number_at(b, at, 4) : 0;
    return off && at + off < b->n ? at + (size_t)off : 0;
}

/* A list of `bytes` each; *n entries, all of which lie in the message. */
static size_t list_of(const buffer *b, size_t table, int i, size_t bytes, size_t *n)
{
    size_t at = referred(b, field_at(b, table, i));
    *n = at ? (size_t)number_at(b, at, 4) : 0;
    if (at && *n > (b->n - at) / bytes) *n = 0;
    if (!at || at + 4 + *n * bytes > b->n) *n = 0;
    return at + 4;
}

/* ---- schema ---- */

#define FAIL(code, ...) arrow_fail(a, TX_FAIL(code, __VA_ARGS__))
static tx_status arrow_fail(const tx_arrow *a, tx_status st)
{
    return tx_fail_prefix(st, "%s", a->path);
}

static bool is_list(arrow_type t)
{
    return t == ARROW_LIST || t == ARROW_LARGE_LIST || t == ARROW_FIXED_LIST || t == ARROW_MAP;
}

static tx_status add_column(tx_arrow *a, const buffer *b, size_t table, int depth);

static tx_status add_columns(tx_arrow *a, const buffer *b, size_t table, int member, int depth, size_t *n)
{
    size_t at = list_of(b, table, member, 4, n);
    for (size_t i = 0; i < *n; i++) {
        size_t one = referred(b, at + 4 * i);
        if (!one) return FAIL(TX_ERR_FORMAT, "its schema names a column that is not there");
        TX_TRY(add_column(a, b, one, depth));
    }
    return TX_OK;
}

static tx_status read_type(tx_arrow *a, const buffer *b, size_t table, column *c)
{
    static const int float_bits[] = { 16, 32, 64 };
    size_t type = referred(b, field_at(b, table, 3));
    c->type = (arrow_type)field(b, table, 2, 1);
    c->indexed = field_at(b, table, 4) != 0;
    if (c->type < ARROW_NULL || c->type > ARROW_LARGE_LIST || c->type == ARROW_UNION)
        return FAIL(TX_ERR_UNSUPPORTED,
                    "column %s is of a type that is not read (%d: a union, or one of Arrow's later ones); cast it to "
                    "strings",
                    c->name.data, (int)c->type);
    if (c->type == ARROW_INT) {
        c->bits = (int)field(b, type, 0, 4);
        c->is_signed = field(b, type, 1, 1) != 0;
        if (c->bits != 8 && c->bits != 16 && c->bits != 32 && c->bits != 64)
            return FAIL(TX_ERR_FORMAT, "column %s has integers of %d bits", c->name.data, c->bits);
    }
    if (c->type == ARROW_FLOAT) {
        uint64_t precision = field(b, type, 0, 2);
        if (precision > 2) return FAIL(TX_ERR_FORMAT, "column %s has an unknown precision", c->name.data);
        c->bits = float_bits[precision];
    }
    if (c->type == ARROW_FIXED_LIST) {
        c->list_size = (int32_t)field(b, type, 0, 4);
        if (c->list_size < 0) return FAIL(TX_ERR_FORMAT, "column %s has lists of %" PRId64, c->name.data, c->list_size);
    }
    return TX_OK;
}

static tx_status add_column(tx_arrow *a, const buffer *b, size_t table, int depth)
{
    size_t n_name, n_inside, name = list_of(b, table, 0, 1, &n_name);
    if (a->n == MAX_COLUMNS || depth == MAX_DEPTH)
        return FAIL(TX_ERR_UNSUPPORTED, "has more than %d columns, or columns inside of more than %d others",
                    MAX_COLUMNS, MAX_DEPTH);
    int me = a->n++;
    column *c = &a->column[me];
    TX_TRY(tx_json_quote(&c->name, n_name ? (const char *)b->data + name : "", n_name));
    TX_TRY(read_type(a, b, table, c));
    TX_TRY(add_columns(a, b, table, 5, depth + 1, &n_inside));
    c->end = a->n;
    bool nests = is_list(c->type) || c->type == ARROW_STRUCT;
    if ((is_list(c->type) && n_inside != 1) || (!nests && n_inside) || (nests && c->indexed))
        return FAIL(TX_ERR_FORMAT, "column %s has %zu columns inside, which its type has not", c->name.data, n_inside);
    return TX_OK;
}

/* ---- messages ---- */

typedef struct message {
    buffer head; /* the flatbuffer */
    size_t root, kind, table, body, n_body;
} message;

/* *end: there is none more. */
static tx_status next_message(tx_arrow *a, message *m, bool *end)
{
    const buffer all = { a->map.data, a->map.size };
    *end = a->at == all.n;
    if (*end) return TX_OK;
    size_t at = a->at;
    if (number_at(&all, at, 4) == 0xffffffff) at += 4; /* since version 0.15 */
    if (at + 4 > all.n) return FAIL(TX_ERR_FORMAT, "is cut off at byte %zu", a->at);
    uint64_t n = number_at(&all, at, 4);
    at += 4;
    *end = !n;
    if (!n) return TX_OK;
    if (n > MAX_MESSAGE || n > all.n - at) return FAIL(TX_ERR_FORMAT, "is cut off at byte %zu, or damaged", a->at);
    m->head = (buffer){ all.data + at, (size_t)n };
    at += (size_t)n;
    m->root = (size_t)number_at(&m->head, 0, 4);
    m->kind = (size_t)field(&m->head, m->root, 1, 1);
    m->table = referred(&m->head, field_at(&m->head, m->root, 2));
    uint64_t body = field(&m->head, m->root, 3, 8);
    if (!m->table) return FAIL(TX_ERR_FORMAT, "has a message without a content at byte %zu", a->at);
    if (body > all.n - at) return FAIL(TX_ERR_FORMAT, "is cut off in the batch at byte %zu: get it again", a->at);
    m->body = at;
    m->n_body = (size_t)body;
    a->at = at + (size_t)body;
    return TX_OK;
}

/* Where a batch's lists of nodes and buffers are read. */
typedef struct cursor {
    const message *m;
    size_t node, n_nodes, place, n_places;
} cursor;

static tx_status next_buffer(const tx_arrow *a, cursor *c, const unsigned char **data, int64_t *n)
{
    if (!c->n_places) return FAIL(TX_ERR_FORMAT, "has a batch with too few buffers");
    uint64_t at = number_at(&c->m->head, c->place, 8), size = number_at(&c->m->head, c->place + 8, 8);
    c->place += 16;
    c->n_places--;
    if (at > c->m->n_body || size > c->m->n_body - at)
        return FAIL(TX_ERR_FORMAT, "has a batch with a buffer outside of it");
    *data = a->map.data + c->m->body + at;
    *n = (int64_t)size;
    return TX_OK;
}

static int64_t offset_of(const column *c, int64_t i)
{
    int32_t small;
    int64_t large;
    if (c->type == ARROW_LARGE_LIST || c->type == ARROW_LARGE_UTF8 || c->type == ARROW_LARGE_BINARY) {
        memcpy(&large, c->offsets + 8 * i, 8);
        return large;
    }
    memcpy(&small, c->offsets + 4 * i, 4);
    return small;
}

/* n + 1 offsets that do not decrease. */
static tx_status check_offsets(const tx_arrow *a, const column *c, int64_t bytes, int64_t limit)
{
    int64_t each = c->type == ARROW_LARGE_LIST || c->type == ARROW_LARGE_UTF8 || c->type == ARROW_LARGE_BINARY ? 8 : 4;
    if (!c->n) return TX_OK;
    if (c->n >= bytes / each) return FAIL(TX_ERR_FORMAT, "column %s has too few offsets", c->name.data);
    for (int64_t i = 0, last = 0; i <= c->n; i++) {
        int64_t now = offset_of(c, i);
        if (now < last || now > limit)
            return FAIL(TX_ERR_FORMAT, "column %s has an offset that is out of order, or too large", c->name.data);
        last = now;
    }
    return TX_OK;
}

static int64_t fixed_bits(const column *c)
{
    return c->type == ARROW_BOOL ? 1 : c->type == ARROW_INT || c->type == ARROW_FLOAT ? c->bits : 0;
}

static tx_status place_column(tx_arrow *a, int me, cursor *at, int64_t parent_n);

/* @n entries that the columns inside must have */
static tx_status place_inside(tx_arrow *a, int me, cursor *at, int64_t n)
{
    for (int i = me + 1; i < a->column[me].end; i = a->column[i].end) TX_TRY(place_column(a, i, at, n));
    return TX_OK;
}

static tx_status place_buffers(tx_arrow *a, int me, cursor *at)
{
    column *c = &a->column[me];
    int64_t bytes = 0;
    const bool text = c->type == ARROW_UTF8 || c->type == ARROW_LARGE_UTF8 || c->type == ARROW_BINARY ||
                      c->type == ARROW_LARGE_BINARY;
    if (c->indexed) return next_buffer(a, at, &c->data, &c->n_data);
    if (c->type == ARROW_STRUCT) return place_inside(a, me, at, c->n);
    if (c->type == ARROW_FIXED_LIST) {
        int64_t n;
        if (__builtin_mul_overflow(c->n, c->list_size, &n))
            return FAIL(TX_ERR_FORMAT, "column %s has too many entries", c->name.data);
        return place_inside(a, me, at, n);
    }
    if (text || is_list(c->type)) TX_TRY(next_buffer(a, at, &c->offsets, &bytes));
    if (is_list(c->type)) {
        TX_TRY(check_offsets(a, c, bytes, INT64_MAX / 2));
        return place_inside(a, me, at, c->n ? offset_of(c, c->n) : 0);
    }
    TX_TRY(next_buffer(a, at, &c->data, &c->n_data));
    if (text) return check_offsets(a, c, bytes, c->n_data);
    int64_t bits = fixed_bits(c);
    if (bits && c->n > c->n_data * 8 / bits)
        return FAIL(TX_ERR_FORMAT, "column %s has %" PRId64 " bytes for %" PRId64 " values", c->name.data, c->n_data,
                    c->n);
    return TX_OK;
}

/* What the batch has of a column: at least as many values as the list or struct around it needs. */
static tx_status place_column(tx_arrow *a, int me, cursor *at, int64_t parent_n)
{
    column *c = &a->column[me];
    int64_t bytes;
    if (!at->n_nodes) return FAIL(TX_ERR_FORMAT, "has a batch with too few columns");
    int64_t n = (int64_t)number_at(&at->m->head, at->node, 8),
            missing = (int64_t)number_at(&at->m->head, at->node + 8, 8);
    at->node += 16;
    at->n_nodes--;
    if (n < parent_n || n < 0 || n / 8 > (int64_t)a->map.size) /* a bit for each value is the least */
        return FAIL(TX_ERR_FORMAT, "column %s has %" PRId64 " values in a batch that needs %" PRId64, c->name.data, n,
                    parent_n);
    c->n = n;
    c->valid = NULL;
    if (c->type == ARROW_NULL) return TX_OK;
    TX_TRY(next_buffer(a, at, &c->valid, &bytes));
    if (!missing || !bytes)
        c->valid = NULL;
    else if (n > bytes * 8)
        return FAIL(TX_ERR_FORMAT, "column %s does not say of all values whether they are there", c->name.data);
    return place_buffers(a, me, at);
}

static tx_status read_batch(tx_arrow *a, const message *m)
{
    cursor at = { .m = m };
    at.node = list_of(&m->head, m->table, 1, 16, &at.n_nodes);
    at.place = list_of(&m->head, m->table, 2, 16, &at.n_places);
    a->n_rows = (int64_t)field(&m->head, m->table, 0, 8);
    a->row = 0;
    if (field_at(&m->head, m->table, 3))
        return FAIL(TX_ERR_UNSUPPORTED,
                    "its batches are compressed; write it without compression, as save_to_disk does");
    if (a->n_rows < 0) return FAIL(TX_ERR_FORMAT, "has a batch of %" PRId64 " rows", a->n_rows);
    for (int i = 0; i < a->n; i = a->column[i].end) TX_TRY(place_column(a, i, &at, a->n_rows));
    if (!a->n) a->n_rows = 0;
    a->taken = a->at;
    return TX_OK;
}

static tx_status read_schema(tx_arrow *a)
{
    message m;
    bool end;
    size_t n;
    TX_TRY(next_message(a, &m, &end));
    if (end || m.kind != HEADER_SCHEMA) return FAIL(TX_ERR_FORMAT, "does not begin with a schema");
    if (field(&m.head, m.table, 0, 2)) return FAIL(TX_ERR_UNSUPPORTED, "was written on a big-endian machine");
    TX_TRY(tx_alloc(&a->column, MAX_COLUMNS, sizeof *a->column, "the columns of an Arrow file"));
    return add_columns(a, &m.head, m.table, 1, 0, &n);
}

/* ---- rows ---- */

static bool is_missing(const column *c, int64_t i)
{
    return c->type == ARROW_NULL || (c->valid && !(c->valid[i / 8] >> i % 8 & 1));
}

/* Whether JSON has a word for it. */
static bool has_word(const tx_arrow *a, int me)
{
    const column *c = &a->column[me];
    if (c->indexed) return false;
    if (c->type == ARROW_LIST || c->type == ARROW_LARGE_LIST || c->type == ARROW_FIXED_LIST) return has_word(a, me + 1);
    return c->type == ARROW_NULL || c->type == ARROW_INT || c->type == ARROW_FLOAT || c->type == ARROW_UTF8 ||
           c->type == ARROW_LARGE_UTF8 || c->type == ARROW_BOOL || c->type == ARROW_STRUCT;
}

static tx_status put_int(tx_str *out, const column *c, int64_t i)
{
    char text[32];
    uint64_t v = 0;
    memcpy(&v, c->data + c->bits / 8 * i, (size_t)c->bits / 8);
    int64_t s = (int64_t)(v << (64 - c->bits)) >> (64 - c->bits);
    int n = c->is_signed ? snprintf(text, sizeof text, "%" PRId64, s) : snprintf(text, sizeof text, "%" PRIu64, v);
    return tx_str_append(out, text, (size_t)n);
}

static tx_status put_float(tx_str *out, const column *c, int64_t i)
{
    char text[64];
    uint16_t half;
    float single;
    double v;
    if (c->bits == 16) {
        memcpy(&half, c->data + 2 * i, 2);
        v = (double)tx_f16_to_f32(half);
    } else if (c->bits == 32) {
        memcpy(&single, c->data + 4 * i, 4);
        v = (double)single;
    } else {
        memcpy(&v, c->data + 8 * i, 8);
    }
    if (!isfinite(v)) return tx_str_puts(out, "null");
    return tx_str_append(out, text, (size_t)snprintf(text, sizeof text, "%.17g", v));
}

static tx_status put_value(const tx_arrow *a, tx_str *out, int me, int64_t i);

static tx_status put_entries(const tx_arrow *a, tx_str *out, int me, int64_t from, int64_t to)
{
    TX_TRY(tx_str_puts(out, "["));
    for (int64_t k = from; k < to; k++) {
        if (k > from) TX_TRY(tx_str_puts(out, ","));
        TX_TRY(put_value(a, out, me + 1, k));
    }
    return tx_str_puts(out, "]");
}

static tx_status put_members(const tx_arrow *a, tx_str *out, int first, int end, int64_t i)
{
    bool any = false;
    TX_TRY(tx_str_puts(out, "{"));
    for (int k = first; k < end; k = a->column[k].end) {
        if (!has_word(a, k)) continue;
        if (any) TX_TRY(tx_str_puts(out, ","));
        TX_TRY(tx_str_append(out, a->column[k].name.data, a->column[k].name.len));
        TX_TRY(tx_str_puts(out, ":"));
        TX_TRY(put_value(a, out, k, i));
        any = true;
    }
    return tx_str_puts(out, "}");
}

static tx_status put_value(const tx_arrow *a, tx_str *out, int me, int64_t i)
{
    const column *c = &a->column[me];
    if (is_missing(c, i)) return tx_str_puts(out, "null");
    if (c->type == ARROW_INT) return put_int(out, c, i);
    if (c->type == ARROW_FLOAT) return put_float(out, c, i);
    if (c->type == ARROW_BOOL) return tx_str_puts(out, c->data[i / 8] >> i % 8 & 1 ? "true" : "false");
    if (c->type == ARROW_STRUCT) return put_members(a, out, me + 1, c->end, i);
    if (c->type == ARROW_FIXED_LIST) return put_entries(a, out, me, i * c->list_size, (i + 1) * c->list_size);
    int64_t from = offset_of(c, i), to = offset_of(c, i + 1);
    if (is_list(c->type)) return put_entries(a, out, me, from, to);
    return tx_json_quote(out, (const char *)c->data + from, (size_t)(to - from));
}

/* *more = false: there is no batch after this one. */
static tx_status next_batch(tx_arrow *a, bool *more)
{
    message m;
    bool end;
    a->row = a->n_rows = 0;
    do {
        TX_TRY(next_message(a, &m, &end));
        *more = !end;
        if (end) return TX_OK;
        if (m.kind != HEADER_BATCH && m.kind != HEADER_DICTIONARY)
            return FAIL(TX_ERR_FORMAT, "has a message of kind %zu where batches are", m.kind);
    } while (m.kind == HEADER_DICTIONARY); /* which is of columns that are left out */
    return read_batch(a, &m);
}

tx_status tx__arrow_next(tx_arrow *a, tx_str *line, bool *more)
{
    *more = true;
    while (a->row == a->n_rows && *more) TX_TRY(next_batch(a, more));
    return *more ? put_members(a, line, 0, a->n, a->row++) : TX_OK;
}

tx_status tx__arrow_skip(tx_arrow *a, int64_t *n, bool *more)
{
    *more = true;
    if (a->row == a->n_rows) TX_TRY(next_batch(a, more));
    *n = a->n_rows - a->row;
    a->row = a->n_rows;
    return TX_OK;
}

bool tx__arrow_column(const tx_arrow *a, int i, tx_str *out)
{
    static const char *const word[] = { "",     "null", "integer",  "float",    "bytes", "text",   "boolean", "decimal",
                                        "date", "time", "moment",   "interval", "list",  "struct", "union",   "bytes",
                                        "list", "map",  "duration", "bytes",    "text",  "list" };
    int at = 0;
    while (at < a->n && i--) at = a->column[at].end;
    if (at >= a->n) return false;
    const column *c = &a->column[at];
    const char *left = has_word(a, at) ? "" : c->indexed ? " (of a dictionary: left out)" : " (left out)";
    return !tx_str_puts(out, c->name.data) && !tx_str_puts(out, ": ") && !tx_str_puts(out, word[c->type]) &&
           !tx_str_puts(out, left);
}

/* ---- files ---- */

static const char magic[] = "ARROW1";

bool tx__arrow_is(const char *head, size_t n)
{
    if (n >= 8 && !memcmp(head, magic, 6)) return true;
    return n >= 8 && !memcmp(head, "\xff\xff\xff\xff", 4) && !head[7]; /* a size that is none of a text's */
}

tx_status tx__arrow_open(tx_arrow **out, const char *path)
{
    tx_arrow *a;
    TX_TRY(tx_alloc(&a, 1, sizeof *a, "an Arrow file"));
    tx_status st;
    TX_GOTO(tx_memdup0(&a->path, path, strlen(path), "a path"));
    TX_GOTO(tx_map_open(&a->map, path));
    if (a->map.size >= 8 && !memcmp(a->map.data, magic, 6)) a->at = 8; /* a stream, and then a list of its places */
    TX_GOTO(read_schema(a));
    *out = a;
    a = NULL;
out:
    tx__arrow_close(a);
    return st;
}

int64_t tx__arrow_taken(const tx_arrow *a)
{
    return (int64_t)a->taken;
}

void tx__arrow_close(tx_arrow *a)
{
    if (!a) return;
    for (int i = 0; i < a->n; i++) tx_str_free(&a->column[i].name);
    tx_free(a->column);
    tx_map_close(&a->map);
    tx_free(a->path);
    tx_free(a);
}
