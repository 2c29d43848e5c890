/* zip_write.c - zip archives as torch.save's own writer lays them out, byte for byte but for the file's name: sizes and
 * CRC after the data (flag 8), names as UTF-8 (flag 0x800), data on multiples of 64 by means of an extra field "FB",
 * zip64 fields where a number needs them, and a zip64 end record always. */
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

#include "torch/zip.h"

enum { FLAGS = 0x0808 };
#define WIDE 0xFFFFFFFFu /* this or more goes into a zip64 field */

/* Numbers are appended as the format has them, little-endian. */
static tx_status put(tx_str *s, uint64_t v, size_t n)
{
    unsigned char b[8];
    for (size_t i = 0; i < n; i++) b[i] = (unsigned char)(v >> (8 * i));
    return tx_str_append(s, b, n);
}

/* { (number, bytes), ... } */
typedef struct field {
    uint64_t value;
    size_t n;
} field;

static tx_status put_all(tx_str *s, const field *f, size_t n)
{
    for (size_t i = 0; i < n; i++) TX_TRY(put(s, f[i].value, f[i].n));
    return TX_OK;
}
#define PUT(s, ...) put_all(s, (const field[]){ __VA_ARGS__ }, sizeof((const field[]){ __VA_ARGS__ }) / sizeof(field))

static uint64_t narrow(uint64_t v)
{
    return v < WIDE ? v : WIDE;
}

static size_t zip64_bytes(uint64_t size, uint64_t header)
{
    size_t n = (size >= WIDE ? 16u : 0u) + (header >= WIDE ? 8u : 0u);
    return n ? n + 4 : 0;
}

static tx_status put_zip64(tx_str *s, uint64_t size, uint64_t header)
{
    size_t n = zip64_bytes(size, header);
    if (!n) return TX_OK;
    TX_TRY(PUT(s, { 1, 2 }, { n - 4, 2 }));
    if (size >= WIDE) TX_TRY(PUT(s, { size, 8 }, { size, 8 }));
    return header >= WIDE ? put(s, header, 8) : TX_OK;
}

tx_status tx__zip_begin(tx__zip_writer *z, const char *name, uint64_t size)
{
    static const char filling[TX__ZIP_ALIGN] = "ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ";
    tx_str head = { 0 };
    size_t n_name = strlen(name), n64;
    z->header = z->file->written;
    n64 = zip64_bytes(size, z->header);
    uint64_t before = z->header + 30 + n_name + n64 + 4; /* where the data would be without filling */
    size_t fill = (size_t)((TX__ZIP_ALIGN - before % TX__ZIP_ALIGN) % TX__ZIP_ALIGN);
    tx_status st;
    z->name.len = 0;
    TX_GOTO(tx_str_append(&z->name, name, n_name));
    TX_GOTO(PUT(&head, { 0x04034b50, 4 }, { 0, 2 }, { FLAGS, 2 }, { 0, 2 }, { 0, 4 }, { 0, 4 }, { 0, 4 }, { 0, 4 },
                { n_name, 2 }, { n64 + 4 + fill, 2 }));
    TX_GOTO(tx_str_append(&head, name, n_name));
    TX_GOTO(put_zip64(&head, size, z->header));
    TX_GOTO(PUT(&head, { 0x4246, 2 }, { fill, 2 }));
    TX_GOTO(tx_str_append(&head, filling, fill));
    TX_GOTO(tx_writer_put(z->file, head.data, head.len));
    z->at = z->file->written;
    z->to = z->at + size;
    z->crc = 0;
out:
    tx_str_free(&head);
    return st;
}

tx_status tx__zip_put(tx__zip_writer *z, const void *bytes, size_t n)
{
    TX_ASSERT(n <= z->to - z->file->written);
    if (n) z->crc = (uint32_t)crc32_z(z->crc, bytes, n);
    return tx_writer_put(z->file, bytes, n);
}

tx_status tx__zip_end(tx__zip_writer *z)
{
    TX_ASSERT(z->file->written == z->to);
    uint64_t size = z->to - z->at, hashed[3] = { XXH3_64bits(z->name.data, z->name.len), size, z->crc };
    size_t n_size = size >= WIDE ? 8 : 4;
    tx_str tail = { 0 };
    tx_status st;
    TX_GOTO(PUT(&tail, { 0x08074b50, 4 }, { z->crc, 4 }, { size, n_size }, { size, n_size }));
    TX_GOTO(tx_writer_put(z->file, tail.data, tail.len));
    TX_GOTO(PUT(&z->directory, { 0x02014b50, 4 }, { 0, 2 }, { 0, 2 }, { FLAGS, 2 }, { 0, 2 }, { 0, 4 }, { z->crc, 4 },
                { narrow(size), 4 }, { narrow(size), 4 }, { z->name.len, 2 }, { zip64_bytes(size, z->header), 2 },
                { 0, 2 }, { 0, 2 }, { 0, 2 }, { 0, 4 }, { narrow(z->header), 4 }));
    TX_GOTO(tx_str_append(&z->directory, z->name.data, z->name.len));
    TX_GOTO(put_zip64(&z->directory, size, z->header));
    z->n++;
    z->all = XXH3_64bits_withSeed(hashed, sizeof hashed, z->all);
out:
    tx_str_free(&tail);
    return st;
}

tx_status tx__zip_add(tx__zip_writer *z, const char *name, const void *bytes, size_t n)
{
    TX_TRY(tx__zip_begin(z, name, n));
    TX_TRY(tx__zip_put(z, bytes, n));
    return tx__zip_end(z);
}

tx_status tx__zip_finish(tx__zip_writer *z)
{
    uint64_t at = z->file->written, size = z->directory.len, n = z->n, few = n < 0xFFFF ? n : 0xFFFF;
    tx_str *d = &z->directory;
    TX_TRY(PUT(d, { 0x06064b50, 4 }, { 44, 8 }, { 0x031e, 2 }, { 45, 2 }, { 0, 4 }, { 0, 4 }, { n, 8 }, { n, 8 },
               { size, 8 }, { at, 8 }));
    TX_TRY(PUT(d, { 0x07064b50, 4 }, { 0, 4 }, { at + size, 8 }, { 1, 4 }));
    TX_TRY(PUT(d, { 0x06054b50, 4 }, { 0, 2 }, { 0, 2 }, { few, 2 }, { few, 2 }, { narrow(size), 4 }, { narrow(at), 4 },
               { 0, 2 }));
    return tx_writer_put(z->file, d->data, d->len);
}

void tx__zip_writer_free(tx__zip_writer *z)
{
    tx_str_free(&z->directory);
    tx_str_free(&z->name);
}
