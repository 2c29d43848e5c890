/* protobuf.c - a field is a varint of its number << 3 | type, then its value. */
#include "token/protobuf.h"

#include <string.h>

static tx_status broken(const tx__pb *m, const unsigned char *at, const char *why)
{
    return TX_FAIL(TX_ERR_FORMAT, "%s: byte %zu: %s: the file is damaged, or not a SentencePiece model", m->file,
                   (size_t)(at - m->begin), why);
}

static tx_status read_varint(tx__pb *m, const unsigned char *start, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (m->at == m->end) return broken(m, start, "a field is cut off");
        uint64_t byte = *m->at++;
        if (shift == 63 && byte > 1) break;
        *value |= (byte & 0x7F) << shift;
        if (byte < 0x80) return TX_OK;
    }
    return broken(m, start, "a number has more than 64 bits");
}

static tx_status read_fixed(tx__pb *m, tx__pb_field *f, size_t n)
{
    if ((size_t)(m->end - m->at) < n) return broken(m, f->start, "a field is cut off");
    f->value = 0;
    for (size_t i = 0; i < n; i++) f->value |= (uint64_t)*m->at++ << 8 * i;
    return TX_OK;
}

static tx_status read_bytes(tx__pb *m, tx__pb_field *f)
{
    uint64_t n;
    TX_TRY(read_varint(m, f->start, &n));
    if (n > (uint64_t)(m->end - m->at)) return broken(m, f->start, "a field is longer than what it is in");
    f->bytes = (tx__pb){ m->file, m->begin, m->at, m->at + n };
    m->at += n;
    return TX_OK;
}

tx_status tx__pb_next(tx__pb *m, tx__pb_field *f, bool *more)
{
    uint64_t tag;
    *more = m->at < m->end;
    if (!*more) return TX_OK;
    *f = (tx__pb_field){ .start = m->at, .bytes = *m };
    TX_TRY(read_varint(m, f->start, &tag));
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) return broken(m, f->start, "a field has no valid number");
    f->number = (uint32_t)(tag >> 3);
    f->type = (tx__pb_type)(tag & 7);
    switch (tag & 7) {
    case TX__PB_VARINT:
        return read_varint(m, f->start, &f->value);
    case TX__PB_FIXED64:
        return read_fixed(m, f, 8);
    case TX__PB_BYTES:
        return read_bytes(m, f);
    case TX__PB_FIXED32:
        return read_fixed(m, f, 4);
    default:
        return broken(m, f->start, "a field has no valid type");
    }
}

static tx_status expect(const tx__pb_field *f, tx__pb_type type, const char *name)
{
    if (f->type == type) return TX_OK;
    return TX_FAIL(TX_ERR_FORMAT, "%s: byte %zu: %s has the wire type %d, not %d", f->bytes.file,
                   (size_t)(f->start - f->bytes.begin), name, (int)f->type, (int)type);
}

tx_status tx__pb_bytes(const tx__pb_field *f, const char *name, tx__pb *out)
{
    TX_TRY(expect(f, TX__PB_BYTES, name));
    *out = f->bytes;
    return TX_OK;
}

tx_status tx__pb_bool(const tx__pb_field *f, const char *name, bool *out)
{
    TX_TRY(expect(f, TX__PB_VARINT, name));
    *out = f->value != 0;
    return TX_OK;
}

tx_status tx__pb_int32(const tx__pb_field *f, const char *name, int32_t *out)
{
    TX_TRY(expect(f, TX__PB_VARINT, name));
    *out = (int32_t)(uint32_t)f->value; /* negative ones have 64 bits */
    return TX_OK;
}

tx_status tx__pb_float(const tx__pb_field *f, const char *name, float *out)
{
    uint32_t bits = (uint32_t)f->value;
    TX_TRY(expect(f, TX__PB_FIXED32, name));
    memcpy(out, &bits, sizeof *out);
    return TX_OK;
}

/* ---- writing ---- */

static tx_status put_number(tx_str *s, uint64_t value)
{
    unsigned char byte[10];
    size_t n = 0;
    do {
        byte[n] = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        value >>= 7;
        n++;
    } while (value);
    return tx_str_append(s, byte, n);
}

tx_status tx__pb_put_varint(tx_str *s, uint32_t number, uint64_t value)
{
    TX_TRY(put_number(s, (uint64_t)number << 3 | TX__PB_VARINT));
    return put_number(s, value);
}

tx_status tx__pb_put_float(tx_str *s, uint32_t number, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    unsigned char byte[4] = { (unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
                              (unsigned char)(bits >> 24) };
    TX_TRY(put_number(s, (uint64_t)number << 3 | TX__PB_FIXED32));
    return tx_str_append(s, byte, sizeof byte);
}

tx_status tx__pb_put_bytes(tx_str *s, uint32_t number, const void *bytes, size_t n)
{
    TX_TRY(put_number(s, (uint64_t)number << 3 | TX__PB_BYTES));
    TX_TRY(put_number(s, n));
    return tx_str_append(s, bytes, n);
}
