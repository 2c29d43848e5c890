/* indexed_format.h - constants of the .idx format, shared by its reader and its writer only. */
#ifndef TX_DATA_INDEXED_FORMAT_H
#define TX_DATA_INDEXED_FORMAT_H

#include <stddef.h>

static const unsigned char TX_IDX_MAGIC[9] = { 'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0 };

enum {
    TX_IDX_HEADER = 34, /* magic 9, version 8, type 1, N 8, M 8 */
    TX_IDX_INT32 = 4,
    TX_IDX_UINT16 = 8,
    TX_IDX_UINT16_VOCAB = 65500 /* vocabularies below this are stored as uint16 */
};

/* Bytes of one id; 0 for a code that is not an integer type. */
size_t tx__indexed_dtype_bytes(int dtype);

#endif
