/* pt_i64.h - the integers of a tensor, which triax carries from file to file but never computes with. */
#ifndef TX_TESTS_TORCH_PT_I64_H
#define TX_TESTS_TORCH_PT_I64_H

#include <string.h>

#include "torch/pt.h"

static inline int64_t pt_i64_at(const tx_pt_storage *s, int64_t i)
{
    size_t size = tx_pt_dtype_size(s->dtype);
    int64_t x = 0;
    memcpy(&x, s->data + (size_t)i * size, size); /* little-endian */
    switch (s->dtype) {
    case TX_PT_I32:
        return (int32_t)x;
    case TX_PT_I16:
        return (int16_t)x;
    case TX_PT_I8:
        return (int8_t)x;
    case TX_PT_BOOL:
        return x != 0;
    default:
        return x;
    }
}

/* Elements [first, first + n) of a tensor of integers or bools in row-major order, compared with their CRC-32. */
static inline tx_status pt_read_i64(const tx_pt *f, const tx_pt_tensor *t, int64_t first, int64_t n, int64_t *dst)
{
    if (n) TX_TRY(tx_pt_check(f, t));
    for (int64_t k = 0; k < n; k++) {
        int64_t rest = first + k, at = t->offset;
        for (int i = t->n_dims - 1; i >= 0; i--) {
            at += rest % t->dim[i] * t->stride[i];
            rest /= t->dim[i];
        }
        dst[k] = pt_i64_at(t->storage, at);
    }
    return TX_OK;
}

#endif
