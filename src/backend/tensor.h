/* tensor.h - a view of numbers in memory. A value: it never owns, is passed by copy, and data == NULL means "absent"
 * (an optional argument left out). Sizes and strides count elements; the last dimension is the fastest. */
#ifndef TX_BACKEND_TENSOR_H
#define TX_BACKEND_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

#define TX_MAX_DIMS 5

typedef enum tx_dtype { TX_F32, TX_F64, TX_BF16, TX_F16, TX_I32, TX_I64, TX_N_DTYPES } tx_dtype;

size_t tx_dtype_size(tx_dtype t);      /* bytes */
const char *tx_dtype_name(tx_dtype t); /* "fp32", "fp64", "bf16", "fp16", "int32", "int64" */

/* What sums over values of dtype t are kept in: fp64 for fp64, else fp32. */
tx_dtype tx_wide(tx_dtype t);

typedef struct tx_tensor {
    void *data;
    tx_dtype dtype;
    int n_dims;
    int64_t dim[TX_MAX_DIMS];
    int64_t stride[TX_MAX_DIMS];
} tx_tensor;

/* Contiguous tensors over memory of the caller's. */
tx_tensor tx_tensor1(void *data, tx_dtype t, int64_t d0);
tx_tensor tx_tensor2(void *data, tx_dtype t, int64_t d0, int64_t d1);
tx_tensor tx_tensor3(void *data, tx_dtype t, int64_t d0, int64_t d1, int64_t d2);

/* The same, with memory pushed on an arena. */
tx_tensor tx_push1(tx_arena *a, tx_dtype t, int64_t d0);
tx_tensor tx_push2(tx_arena *a, tx_dtype t, int64_t d0, int64_t d1);
tx_tensor tx_push3(tx_arena *a, tx_dtype t, int64_t d0, int64_t d1, int64_t d2);

int64_t tx_numel(tx_tensor x);
bool tx_is_contiguous(tx_tensor x);
bool tx_same_shape(tx_tensor a, tx_tensor b);

/* Offset in elements of the row-th vector along the last dimension, rows counted over all other dimensions. */
int64_t tx_row_offset(tx_tensor x, int64_t row);

/* A contiguous tensor seen as [rows, last dimension]. */
tx_tensor tx_as_rows(tx_tensor x);
/* Elements [first, first + n) of a contiguous tensor, as one dimension. */
tx_tensor tx_slice1(tx_tensor x, int64_t first, int64_t n);
/* Rows [first, first + n) of a tensor, along its first dimension. */
tx_tensor tx_slice_rows(tx_tensor x, int64_t first, int64_t n);

/* "fp32[64,4,256]" into buf; returns buf. */
const char *tx_tensor_describe(tx_tensor x, char *buf, size_t cap);

#endif
