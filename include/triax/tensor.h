/* tensor.h - a view of numbers in memory.
 *
 * A tx_tensor is a plain value: it owns no memory and is passed by copy. data == NULL means "absent" (an optional
 * argument that was left out). Sizes and strides count elements; the last dimension is contiguous.
 *
 * The data are in host memory or in GPU memory, according to the tx_ctx that the tensor is used with. */
#ifndef TRIAX_TENSOR_H
#define TRIAX_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TX_MAX_DIMS 5

typedef enum tx_dtype { TX_F32, TX_F64, TX_BF16, TX_F16, TX_I32, TX_I64, TX_N_DTYPES } tx_dtype;

TX_API size_t tx_dtype_size(tx_dtype t);      /* bytes */
TX_API const char *tx_dtype_name(tx_dtype t); /* "fp32", "fp64", "bf16", "fp16", "int32", "int64" */

/* The dtype in which values of dtype t are summed: fp64 for fp64, else fp32. */
TX_API tx_dtype tx_wide(tx_dtype t);

typedef struct tx_tensor {
    void *data;
    tx_dtype dtype;
    int n_dims;
    int64_t dim[TX_MAX_DIMS];
    int64_t stride[TX_MAX_DIMS];
} tx_tensor;

/* Contiguous views of memory that the caller owns. */
TX_API tx_tensor tx_tensor1(void *data, tx_dtype t, int64_t d0);
TX_API tx_tensor tx_tensor2(void *data, tx_dtype t, int64_t d0, int64_t d1);
TX_API tx_tensor tx_tensor3(void *data, tx_dtype t, int64_t d0, int64_t d1, int64_t d2);
TX_API tx_tensor tx_tensor_of(void *data, tx_dtype t, int n_dims, const int64_t *dim); /* 1 to TX_MAX_DIMS */

TX_API int64_t tx_numel(tx_tensor x);
TX_API bool tx_is_contiguous(tx_tensor x);
TX_API bool tx_same_shape(tx_tensor a, tx_tensor b);

/* A contiguous tensor viewed as [rows, last dimension]. */
TX_API tx_tensor tx_as_rows(tx_tensor x);
/* Elements [first, first + n) of a contiguous tensor, as one dimension. */
TX_API tx_tensor tx_slice1(tx_tensor x, int64_t first, int64_t n);
/* Rows [first, first + n) of a tensor, along its first dimension. */
TX_API tx_tensor tx_slice_rows(tx_tensor x, int64_t first, int64_t n);

/* Writes a description such as "fp32[64,4,256]" into buf; returns buf. */
TX_API const char *tx_tensor_describe(tx_tensor x, char *buf, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
