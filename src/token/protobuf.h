/* protobuf.h - the wire format of protocol buffers: messages of numbered fields, read in place and written. Knows no
 * message. Source: protobuf.dev, "Encoding". */
#ifndef TX_TOKEN_PROTOBUF_H
#define TX_TOKEN_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

typedef enum tx__pb_type { TX__PB_VARINT = 0, TX__PB_FIXED64 = 1, TX__PB_BYTES = 2, TX__PB_FIXED32 = 5 } tx__pb_type;

/* A message, or what is left of it, inside a file. */
typedef struct tx__pb {
    const char *file;           /* path, for errors */
    const unsigned char *begin; /* of the file: errors name the byte counted from here */
    const unsigned char *at, *end;
} tx__pb;

typedef struct tx__pb_field {
    uint32_t number;
    tx__pb_type type;
    uint64_t value;             /* of a varint or fixed-size number */
    const unsigned char *start; /* of the field, for errors */
    tx__pb bytes;               /* of TX__PB_BYTES */
} tx__pb_field;

/* The next field into *f; *more is whether there was one. Errors: TX_ERR_FORMAT: cut off, a length beyond the end of
 * the message, a number of more than 64 bits, field 0, or a group, which nothing uses any more. */
tx_status tx__pb_next(tx__pb *m, tx__pb_field *f, bool *more);

/* Values of a field that must have this type; `name` is for the error: TX_ERR_FORMAT. */
tx_status tx__pb_bytes(const tx__pb_field *f, const char *name, tx__pb *out);
tx_status tx__pb_bool(const tx__pb_field *f, const char *name, bool *out);
tx_status tx__pb_int32(const tx__pb_field *f, const char *name, int32_t *out);
tx_status tx__pb_float(const tx__pb_field *f, const char *name, float *out);

/* Appends a field to a message. */
tx_status tx__pb_put_varint(tx_str *s, uint32_t number, uint64_t value);
tx_status tx__pb_put_float(tx_str *s, uint32_t number, float value);
tx_status tx__pb_put_bytes(tx_str *s, uint32_t number, const void *bytes, size_t n);

#endif
