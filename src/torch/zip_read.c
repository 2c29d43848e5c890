/* zip_read.c - zip archives: finding and checking what is in them. Format: PKWARE APPNOTE 6.3. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "torch/zip.h"

enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR = 20 }; /* bytes without names */

typedef struct bytes {
    const char *path;
    const unsigned char *data;
    size_t size;
} bytes;

static uint16_t u16(const unsigned char *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const unsigned char *p)
{
    return u16(p) | (uint32_t)u16(p + 2) << 16;
}

static uint64_t u64(const unsigned char *p)
{
    return u32(p) | (uint64_t)u32(p + 4) << 32;
}

static bool is_mark(const unsigned char *p, unsigned char a, unsigned char b)
{
    return p[0] == 'P' && p[1] == 'K' && p[2] == a && p[3] == b;
}

bool tx__zip_is(const unsigned char *data, size_t size)
{
    return size >= 4 && (is_mark(data, 3, 4) || is_mark(data, 5, 6));
}

/* ---- where the directory is ---- */

typedef struct directory {
    uint64_t at, size, n; /* bytes, bytes, entries */
    uint64_t end;         /* where it has to end: the first of the records behind it */
} directory;

static tx_status read_end64(const bytes *b, uint64_t end, directory *d)
{
    if (end < LOCATOR + END64 || !is_mark(b->data + end - LOCATOR, 6, 7))
        return TX_FAIL(TX_ERR_FORMAT, "%s: the archive needs a zip64 end record and has none", b->path);
    const unsigned char *locator = b->data + end - LOCATOR, *p = NULL;
    uint64_t at = u64(locator + 8);
    if (at <= end - LOCATOR - END64) p = b->data + at;
    if (!p || !is_mark(p, 6, 6) || u64(p + 4) != end - LOCATOR - at - 12)
        return TX_FAIL(TX_ERR_FORMAT, "%s: the zip64 end record is not where it should be", b->path);
    if (u32(locator + 4) || u32(locator + 16) > 1 || u32(p + 16) || u32(p + 20) || u64(p + 24) != u64(p + 32))
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: an archive in several parts", b->path);
    *d = (directory){ .n = u64(p + 32), .size = u64(p + 40), .at = u64(p + 48), .end = at };
    return TX_OK;
}

/* torch writes a zip64 record always; what it says must agree with the short one where that says something. */
static tx_status find_directory(const bytes *b, directory *d)
{
    const unsigned char *p = b->size < END ? NULL : b->data + b->size - END;
    if (!p || !is_mark(p, 5, 6) || u16(p + 20))
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: a zip archive without an end record at its end: cut off, or something was appended",
                       b->path);
    uint64_t end = b->size - END, n = u16(p + 10), size = u32(p + 12), at = u32(p + 16);
    if (u16(p + 4) || u16(p + 6) || u16(p + 8) != n)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: an archive in several parts", b->path);
    *d = (directory){ at, size, n, end };
    bool wide = n == 0xFFFF || size == 0xFFFFFFFF || at == 0xFFFFFFFF;
    if (wide || (end >= LOCATOR && is_mark(b->data + end - LOCATOR, 6, 7))) TX_TRY(read_end64(b, end, d));
    if ((n != 0xFFFF && n != d->n) || (size != 0xFFFFFFFF && size != d->size) || (at != 0xFFFFFFFF && at != d->at))
        return TX_FAIL(TX_ERR_FORMAT, "%s: the two end records of the archive differ", b->path);
    if (d->at > d->end || d->size != d->end - d->at)
        return TX_FAIL(TX_ERR_FORMAT,
                       "%s: the archive's directory (%" PRIu64 " bytes from %" PRIu64 ") does not end where the end "
                       "record begins (%" PRIu64 ")",
                       b->path, d->size, d->at, d->end);
    if (d->n > d->size / CENTRAL)
        return TX_FAIL(TX_ERR_FORMAT, "%s: a directory of %" PRIu64 " bytes cannot have %" PRIu64 " entries", b->path,
                       d->size, d->n);
    return TX_OK;
}

/* ---- entries ---- */

/* Names are shown in messages and never used as paths; one that would lead out of a folder has no honest reason. */
static const char *name_fault(const char *name, size_t n)
{
    if (n == 0 || n > TX__ZIP_MAX_NAME) return "an entry's name is empty or too long";
    if (name[0] == '/' || (n > 1 && name[1] == ':')) return "an entry's name is an absolute path";
    size_t part = 0; /* where it begins */
    for (size_t i = 0; i <= n; i++) {
        if (i < n && ((unsigned char)name[i] < 0x20 || name[i] == 0x7F))
            return "an entry's name has control characters";
        if (i < n && name[i] == '\\') return "an entry's name has a backslash";
        if (i < n && name[i] != '/') continue;
        if (i - part == 2 && !memcmp(name + part, "..", 2)) return "an entry's name leads out of the archive (..)";
        part = i + 1;
    }
    return NULL;
}

/* The extra fields of a header are a list of (id, length, bytes); 1 is zip64's: the numbers that did not fit, in order.
 * NULL when the list is damaged; an empty field when there is none. */
static const unsigned char *zip64_field(const unsigned char *extra, size_t n, size_t *n_field)
{
    const unsigned char *found = extra;
    *n_field = 0;
    while (n) {
        if (n < 4 || u16(extra + 2) > n - 4) return NULL;
        size_t len = u16(extra + 2);
        if (u16(extra) == 1) {
            found = extra + 4;
            *n_field = len;
        }
        extra += 4 + len;
        n -= 4 + len;
    }
    return found;
}

/* What the 32-bit field holds, or, where that is full, the next number of the zip64 field. */
static bool wide_field(uint64_t *out, uint32_t narrow, const unsigned char **field, size_t *n_field)
{
    *out = narrow;
    if (narrow != 0xFFFFFFFF) return true;
    if (*n_field < 8) return false;
    *out = u64(*field);
    *field += 8;
    *n_field -= 8;
    return true;
}

#define ENTRY_FAIL(code, e, ...) entry_fail(code, b, e, __VA_ARGS__)
static tx_status entry_fail(tx_status code, const bytes *b, const tx__zip_entry *e, const char *what)
{
    int n = (int)(e->n_name < 200 ? e->n_name : 200);
    return TX_FAIL(code, "%s: entry %.*s: %s", b->path, n, e->name, what);
}

/* Behind the data, where the header says so: CRC and sizes, of 4 or of 8 bytes each, after a mark or without one.
 * torch writes 8 bytes from 4 GiB on. */
static bool descriptor_agrees(const bytes *b, tx__zip_entry *e, uint64_t limit)
{
    for (int form = 0; form < 4; form++) {
        size_t mark = form & 1 ? 0 : 4, wide = form & 2 ? 8 : 4, n = mark + 4 + 2 * wide;
        const unsigned char *p = b->data + e->end;
        if (limit - e->end < n || (mark && !is_mark(p, 7, 8)) || u32(p + mark) != e->crc) continue;
        p += mark + 4;
        uint64_t packed = wide == 8 ? u64(p) : u32(p), size = wide == 8 ? u64(p + 8) : u32(p + 4);
        if (packed != e->size || size != e->size) continue;
        e->end += n;
        return true;
    }
    return false;
}

/* The header in front of the data against what the directory said. */
static tx_status check_local(const bytes *b, tx__zip_entry *e, const unsigned char *central, uint64_t limit)
{
    if (e->header > limit || limit - e->header < LOCAL)
        return ENTRY_FAIL(TX_ERR_FORMAT, e, "lies outside the file, or inside the directory");
    const unsigned char *p = b->data + e->header;
    if (!is_mark(p, 3, 4)) return ENTRY_FAIL(TX_ERR_FORMAT, e, "no header where the directory says it begins");
    size_t n_name = u16(p + 26), n_extra = u16(p + 28), n_field;
    uint64_t at = e->header + LOCAL + n_name + n_extra, size, packed;
    if (at > limit || e->size > limit - at)
        return ENTRY_FAIL(TX_ERR_FORMAT, e, "is larger than the file, or reaches into the directory");
    if (n_name != e->n_name || memcmp(p + LOCAL, e->name, n_name) != 0 || memcmp(p + 6, central + 8, 4) != 0)
        return ENTRY_FAIL(TX_ERR_FORMAT, e, "its header and the directory differ");
    const unsigned char *field = zip64_field(p + LOCAL + n_name, n_extra, &n_field);
    if (!field) return ENTRY_FAIL(TX_ERR_FORMAT, e, "its header's extra fields are damaged");
    bool later = u16(p + 6) & 8; /* sizes and CRC follow the data, and may be 0 here */
    if (!wide_field(&size, u32(p + 22), &field, &n_field) || !wide_field(&packed, u32(p + 18), &field, &n_field))
        return ENTRY_FAIL(TX_ERR_FORMAT, e, "its header's zip64 field is too short");
    bool same = size == e->size && packed == e->size && u32(p + 14) == e->crc;
    bool zero = later && !size && !packed && !u32(p + 14);
    if (!same && !zero) return ENTRY_FAIL(TX_ERR_FORMAT, e, "its header and the directory differ");
    e->data = b->data + at;
    e->end = at + e->size;
    if (later && !descriptor_agrees(b, e, limit))
        return ENTRY_FAIL(TX_ERR_FORMAT, e, "what follows its data and the directory differ");
    return TX_OK;
}

static tx_status read_entry(const bytes *b, const directory *d, uint64_t *at, tx__zip_entry *e)
{
    const unsigned char *p = b->data + *at, *field;
    uint64_t left = d->end - *at, packed;
    size_t n_field;
    if (left < CENTRAL || !is_mark(p, 1, 2) || left - CENTRAL < (uint64_t)u16(p + 28) + u16(p + 30) + u16(p + 32))
        return TX_FAIL(TX_ERR_FORMAT, "%s: the archive's directory is damaged at byte %" PRIu64, b->path, *at);
    *e = (tx__zip_entry){ .name = (const char *)p + CENTRAL, .n_name = u16(p + 28), .crc = u32(p + 16) };
    const char *fault = name_fault(e->name, e->n_name);
    if (fault) return TX_FAIL(TX_ERR_FORMAT, "%s: %s", b->path, fault);
    if (u16(p + 8) & 0x2041) return ENTRY_FAIL(TX_ERR_UNSUPPORTED, e, "is encrypted");
    if (u16(p + 10) != 0)
        return ENTRY_FAIL(TX_ERR_UNSUPPORTED, e, "is compressed; torch.save stores, so save the file again with it");
    field = zip64_field(p + CENTRAL + e->n_name, u16(p + 30), &n_field);
    if (!field || !wide_field(&e->size, u32(p + 24), &field, &n_field) ||
        !wide_field(&packed, u32(p + 20), &field, &n_field) || !wide_field(&e->header, u32(p + 42), &field, &n_field))
        return ENTRY_FAIL(TX_ERR_FORMAT, e, "its extra fields are damaged");
    if (u16(p + 34) != 0) return ENTRY_FAIL(TX_ERR_UNSUPPORTED, e, "lies in another part of the archive");
    if (packed != e->size) return ENTRY_FAIL(TX_ERR_FORMAT, e, "is not compressed and has two sizes");
    TX_TRY(check_local(b, e, p, d->at));
    *at += CENTRAL + e->n_name + u16(p + 30) + u16(p + 32);
    return TX_OK;
}

/* ---- all of them ---- */

static int by_place(const void *a, const void *b)
{
    const tx__zip_entry *x = *(const tx__zip_entry *const *)a, *y = *(const tx__zip_entry *const *)b;
    return x->header < y->header ? -1 : x->header > y->header;
}

static tx_status check_apart(const bytes *b, const tx__zip *z)
{
    const tx__zip_entry **order;
    TX_TRY(tx_alloc(&order, z->n, sizeof *order, "an archive's entries"));
    for (size_t i = 0; i < z->n; i++) order[i] = &z->entry[i];
    if (z->n) qsort(order, z->n, sizeof *order, by_place);
    tx_status st = TX_OK;
    for (size_t i = 1; i < z->n && !st; i++)
        if (order[i]->header < order[i - 1]->end) st = ENTRY_FAIL(TX_ERR_FORMAT, order[i], "overlaps another entry");
    tx_free(order);
    return st;
}

static const tx__zip_entry *find(const tx__zip *z, const char *name, size_t n, uint64_t hash)
{
    size_t at = 0, i;
    while (tx_hash_next(&z->by_name, hash, &at, &i))
        if (z->entry[i].n_name == n && !memcmp(z->entry[i].name, name, n)) return &z->entry[i];
    return NULL;
}

static tx_status read_entries(tx__zip *z, const bytes *b)
{
    directory d;
    TX_TRY(find_directory(b, &d));
    TX_TRY(tx_alloc(&z->entry, (size_t)d.n, sizeof *z->entry, "an archive's entries"));
    uint64_t at = d.at;
    for (; z->n < d.n; z->n++) {
        tx__zip_entry *e = &z->entry[z->n];
        TX_TRY(read_entry(b, &d, &at, e));
        uint64_t hash = tx_hash(e->name, e->n_name, 0);
        if (find(z, e->name, e->n_name, hash)) return ENTRY_FAIL(TX_ERR_FORMAT, e, "is there twice");
        TX_TRY(tx_hash_add(&z->by_name, hash, z->n));
    }
    if (at != d.end)
        return TX_FAIL(TX_ERR_FORMAT, "%s: the archive's directory has more entries than its end record says", b->path);
    return check_apart(b, z);
}

tx_status tx__zip_open(tx__zip *z, const char *path, const unsigned char *data, size_t size)
{
    *z = (tx__zip){ 0 };
    tx_status st = read_entries(z, &(bytes){ path, data, size });
    if (st) tx__zip_close(z);
    return st;
}

void tx__zip_close(tx__zip *z)
{
    tx_free(z->entry);
    tx_hash_free(&z->by_name);
    *z = (tx__zip){ 0 };
}

const tx__zip_entry *tx__zip_find(const tx__zip *z, const char *folder, size_t n_folder, const char *name)
{
    char text[TX__ZIP_MAX_NAME];
    size_t n = strlen(name);
    if (n_folder >= sizeof text || n > sizeof text - n_folder - 1) return NULL;
    memcpy(text, folder, n_folder);
    text[n_folder] = '/';
    memcpy(text + n_folder + 1, name, n);
    n += n_folder + 1;
    return find(z, text, n, tx_hash(text, n, 0));
}
