/* tensor.c - shapes and views. */
#include "backend/tensor.h"

#include <stdio.h>

size_t tx_dtype_size(tx_dtype t)
{
    static const size_t size[TX_N_DTYPES] = {
        [TX_F32] = 4, [TX_F64] = 8, [TX_BF16] = 2, [TX_F16] = 2, [TX_I32] = 4, [TX_I64] = 8
    };
    return size[t];
}

tx_dtype tx_wide(tx_dtype t)
{
    return t == TX_F64 ? TX_F64 : TX_F32;
}

const char *tx_dtype_name(tx_dtype t)
{
    static const char *const name[TX_N_DTYPES] = { [TX_F32] = "fp32", [TX_F64] = "fp64",  [TX_BF16] = "bf16",
                                                   [TX_F16] = "fp16", [TX_I32] = "int32", [TX_I64] = "int64" };
    return name[t];
}

tx_tensor tx_tensor1(void *data, tx_dtype t, int64_t d0)
{
    return (tx_tensor){ .data = data, .dtype = t, .n_dims = 1, .dim = { d0 }, .stride = { 1 } };
}

tx_tensor tx_tensor2(void *data, tx_dtype t, int64_t d0, int64_t d1)
{
    return (tx_tensor){ .data = data, .dtype = t, .n_dims = 2, .dim = { d0, d1 }, .stride = { d1, 1 } };
}

tx_tensor tx_tensor3(void *data, tx_dtype t, int64_t d0, int64_t d1, int64_t d2)
{
    return (tx_tensor){ .data = data, .dtype = t, .n_dims = 3, .dim = { d0, d1, d2 }, .stride = { d1 * d2, d2, 1 } };
}

tx_tensor tx_tensor_of(void *data, tx_dtype t, int n_dims, const int64_t *dim)
{
    tx_tensor x = { .data = data, .dtype = t, .n_dims = n_dims };
    int64_t stride = 1;
    TX_ASSERT(n_dims >= 1 && n_dims <= TX_MAX_DIMS);
    for (int i = n_dims - 1; i >= 0; i--) {
        x.dim[i] = dim[i];
        x.stride[i] = stride;
        stride *= dim[i];
    }
    return x;
}

tx_tensor tx_push1(tx_arena *a, tx_dtype t, int64_t d0)
{
    return tx_tensor1(tx_arena_push(a, (size_t)d0 * tx_dtype_size(t)), t, d0);
}

tx_tensor tx_push2(tx_arena *a, tx_dtype t, int64_t d0, int64_t d1)
{
    return tx_tensor2(tx_arena_push(a, (size_t)(d0 * d1) * tx_dtype_size(t)), t, d0, d1);
}

tx_tensor tx_push3(tx_arena *a, tx_dtype t, int64_t d0, int64_t d1, int64_t d2)
{
    return tx_tensor3(tx_arena_push(a, (size_t)(d0 * d1 * d2) * tx_dtype_size(t)), t, d0, d1, d2);
}

tx_tensor tx_push_like(tx_arena *a, tx_dtype t, tx_tensor x)
{
    return tx_tensor_of(tx_push1(a, t, tx_numel(x)).data, t, x.n_dims, x.dim);
}

int64_t tx_numel(tx_tensor x)
{
    int64_t n = 1;
    for (int i = 0; i < x.n_dims; i++) n *= x.dim[i];
    return n;
}

bool tx_is_contiguous(tx_tensor x)
{
    int64_t expect = 1;
    for (int i = x.n_dims - 1; i >= 0; i--) {
        if (x.dim[i] != 1 && x.stride[i] != expect) return false;
        expect *= x.dim[i];
    }
    return true;
}

bool tx_same_shape(tx_tensor a, tx_tensor b)
{
    if (a.n_dims != b.n_dims) return false;
    for (int i = 0; i < a.n_dims; i++)
        if (a.dim[i] != b.dim[i]) return false;
    return true;
}

int64_t tx_row_offset(tx_tensor x, int64_t row)
{
    int64_t at = 0;
    for (int i = x.n_dims - 2; i >= 0; i--) {
        at += row % x.dim[i] * x.stride[i];
        row /= x.dim[i];
    }
    return at;
}

tx_tensor tx_as_rows(tx_tensor x)
{
    TX_ASSERT(x.n_dims >= 1 && tx_is_contiguous(x));
    int64_t last = x.dim[x.n_dims - 1];
    return tx_tensor2(x.data, x.dtype, last ? tx_numel(x) / last : 0, last);
}

tx_tensor tx_slice1(tx_tensor x, int64_t first, int64_t n)
{
    TX_ASSERT(tx_is_contiguous(x) && first >= 0 && n >= 0 && first + n <= tx_numel(x));
    return tx_tensor1((char *)x.data + (size_t)first * tx_dtype_size(x.dtype), x.dtype, n);
}

tx_tensor tx_slice_rows(tx_tensor x, int64_t first, int64_t n)
{
    TX_ASSERT(x.n_dims >= 1 && first >= 0 && n >= 0 && first + n <= x.dim[0]);
    x.data = (char *)x.data + (size_t)(first * x.stride[0]) * tx_dtype_size(x.dtype);
    x.dim[0] = n;
    return x;
}

const char *tx_tensor_describe(tx_tensor x, char *buf, size_t cap)
{
    size_t at = 0;
    int n = snprintf(buf, cap, "%s[", tx_dtype_name(x.dtype));
    for (int i = 0; n > 0; i++) {
        at += (size_t)n;
        if (at >= cap || i == x.n_dims) break;
        n = snprintf(buf + at, cap - at, "%s%lld", i ? "," : "", (long long)x.dim[i]);
    }
    if (at < cap) snprintf(buf + at, cap - at, "]");
    return buf;
}
