/* safetensors.h - files of named tensors, as Hugging Face writes them.
 *
 *      0        8            8+N                                  end
 *      | u64 N  | JSON, N B  | tensor | tensor | ... | tensor     |
 *                            ^ data_offsets count from here; no hole, no overlap, nothing left over
 *
 *  Reading maps the file; tensors point into the map. Everything the header claims is checked before it is believed.
 *  Writing streams: the header first (all shapes are known), then the bytes in the same order. */
#ifndef TX_CHECKPOINT_SAFETENSORS_H
#define TX_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/status.h"

#define TX_ST_MAX_DIMS   8
#define TX_ST_MAX_HEADER 100000000 /* bytes; the reference reader's bound */
#define TX_ST_MAX_NAME   1024      /* bytes of a tensor's name */

typedef enum tx_st_dtype {
    TX_ST_BOOL,
    TX_ST_U8,
    TX_ST_I8,
    TX_ST_F8_E5M2,
    TX_ST_F8_E4M3,
    TX_ST_I16,
    TX_ST_U16,
    TX_ST_F16,
    TX_ST_BF16,
    TX_ST_I32,
    TX_ST_U32,
    TX_ST_F32,
    TX_ST_F64,
    TX_ST_I64,
    TX_ST_U64,
    TX_ST_N_DTYPES
} tx_st_dtype;

size_t tx_st_dtype_size(tx_st_dtype t); /* bytes */

/* ---- reading ---- */

typedef struct tx_safetensors tx_safetensors;

/* One tensor of an open file; everything it points to lives as long as the file is open. */
typedef struct tx_st_tensor {
    const char *file; /* path, for messages */
    const char *name;
    tx_st_dtype dtype;
    int n_dims; /* 0 for a single number */
    int64_t dim[TX_ST_MAX_DIMS];
    const unsigned char *data; /* row-major, little-endian, possibly unaligned */
    size_t bytes;
    uint64_t at, file_bytes; /* of a map of `file`: where data lies in it, and its length; else 0 */
} tx_st_tensor;

/* Maps and checks a file. Errors: TX_ERR_NOTFOUND, TX_ERR_IO, TX_ERR_FORMAT (names the tensor and the rule),
 * TX_ERR_UNSUPPORTED (a dtype or more dimensions than we know). */
tx_status tx_safetensors_open(tx_safetensors **out, const char *path);

/* The same over a map that is open already, which is taken on success (and zeroed). */
tx_status tx_safetensors_open_map(tx_safetensors **out, const char *path, tx_map *map);

void tx_safetensors_close(tx_safetensors *f); /* NULL allowed */

size_t tx_safetensors_count(const tx_safetensors *f);
const tx_st_tensor *tx_safetensors_at(const tx_safetensors *f, size_t i);           /* in the order of the data */
const tx_st_tensor *tx_safetensors_find(const tx_safetensors *f, const char *name); /* NULL if there is none */

/* The numbers of an F16, BF16, F32 or F64 tensor as float32 in dst (bytes / dtype size of them).
 * transpose: a 2-D tensor [r,c] is written as [c,r]. Errors: TX_ERR_FORMAT for other dtypes, TX_ERR_SHAPE for a
 * transpose of what is not 2-D, TX_ERR_NUMERIC when a finite F64 is too large for float32. */
tx_status tx_st_read_f32(const tx_st_tensor *t, float *dst, bool transpose);

/* Its bytes are not needed again soon: see tx_map_forget. */
void tx_st_forget(const tx_st_tensor *t);

/* "F32[50257,768]" into buf; returns buf. */
const char *tx_st_describe(const tx_st_tensor *t, char *buf, size_t cap);

/* ---- writing ---- */

typedef struct tx_st_spec {
    const char *name; /* borrowed */
    tx_st_dtype dtype;
    int n_dims;
    int64_t dim[TX_ST_MAX_DIMS];
} tx_st_spec;

/* Bytes of a tensor; TX_ERR_SHAPE when they cannot be counted or the shape is not a shape. */
tx_status tx_st_spec_bytes(const tx_st_spec *spec, uint64_t *bytes);

/* qsort comparison: the reference writer's order, larger dtypes first, then names bytewise. First member only is looked
 * at, so an array of structs that begin with a tx_st_spec sorts as well. */
int tx_st_spec_order(const void *a, const void *b);

/* Sees every byte of a file, header included, as it is written. */
typedef void tx_st_tap(void *user, const void *bytes, size_t n);

typedef struct tx_st_writer {
    tx_writer *file; /* borrowed: the caller opens and commits or aborts it */
    tx_st_tap *tap;
    void *user;
    uint64_t left; /* bytes of tensors still to come */
} tx_st_writer;

/* Writes the header: __metadata__ {"format":"pt"}, then the n tensors in the order given; padded with spaces so that
 * the data starts on a multiple of 8. tap may be NULL. Errors: TX_ERR_ARG (a name twice, not UTF-8), TX_ERR_SHAPE,
 * TX_ERR_IO. */
tx_status tx_st_writer_begin(tx_st_writer *w, tx_writer *file, const tx_st_spec *spec, size_t n, tx_st_tap *tap,
                             void *user);

/* The next bytes of the tensors, in any portions. */
tx_status tx_st_writer_put(tx_st_writer *w, const void *bytes, size_t n);

/* The next n numbers, converted from float32 to F16, BF16, F32 or F64. TX_ERR_NUMERIC when a finite number would become
 * infinite. */
tx_status tx_st_writer_put_f32(tx_st_writer *w, const float *x, size_t n, tx_st_dtype to);

/* All bytes have come; the file can be committed. */
void tx_st_writer_end(const tx_st_writer *w);

#endif
