/* tensor.h - tensors with memory of an arena's; what a tensor is: triax/tensor.h. */
#ifndef TX_BACKEND_TENSOR_H
#define TX_BACKEND_TENSOR_H

#include "base/arena.h"
#include "base/status.h"
#include "triax/tensor.h"

tx_tensor tx_push1(tx_arena *a, tx_dtype t, int64_t d0);
tx_tensor tx_push2(tx_arena *a, tx_dtype t, int64_t d0, int64_t d1);
tx_tensor tx_push3(tx_arena *a, tx_dtype t, int64_t d0, int64_t d1, int64_t d2);
tx_tensor tx_push_like(tx_arena *a, tx_dtype t, tx_tensor x); /* of x's shape, contiguous */

/* Offset in elements of the row-th vector along the last dimension, rows counted over all other dimensions. */
int64_t tx_row_offset(tx_tensor x, int64_t row);

#endif
