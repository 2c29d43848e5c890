/* numbers.h - tensors of every float type, a number at a time. */
#ifndef TX_TESTS_NN_NUMBERS_H
#define TX_TESTS_NN_NUMBERS_H

#include "base/half.h"
#include "base/rng.h"
#include "nn/param.h"

static const struct float_type {
    tx_dtype t;
    double epsilon;
} float_types[] = { { TX_F32, 0x1p-23 }, { TX_BF16, 0x1p-8 }, { TX_F16, 0x1p-11 } };
enum { N_FLOAT_TYPES = sizeof float_types / sizeof *float_types };

/* Number i of a tensor of any float type. */
static inline double get(tx_tensor x, int64_t i)
{
    switch (x.dtype) {
    case TX_F64:
        return ((double *)x.data)[i];
    case TX_F32:
        return (double)((float *)x.data)[i];
    case TX_BF16:
        return (double)tx_bf16_to_f32(((uint16_t *)x.data)[i]);
    default:
        return (double)tx_f16_to_f32(((uint16_t *)x.data)[i]);
    }
}

static inline void set(tx_tensor x, int64_t i, double v)
{
    switch (x.dtype) {
    case TX_F64:
        ((double *)x.data)[i] = v;
        break;
    case TX_F32:
        ((float *)x.data)[i] = (float)v;
        break;
    case TX_BF16:
        ((uint16_t *)x.data)[i] = tx_f32_to_bf16((float)v);
        break;
    default:
        ((uint16_t *)x.data)[i] = tx_f32_to_f16((float)v);
    }
}

/* Number i of a stream, in [-1, 1). */
static inline double draw(int stream, int64_t i)
{
    const tx_rng rng = { .seed = 17, .stream = (uint32_t)stream };
    return 2 * tx_rng_uniform(&rng, (uint64_t)i) - 1;
}

/* Zeros; free(data). Dimensions from the first that is 0 on are none. */
static inline tx_tensor make(tx_dtype t, int64_t d0, int64_t d1, int64_t d2)
{
    void *p = calloc((size_t)(d0 * (d1 ? d1 : 1) * (d2 ? d2 : 1)), tx_dtype_size(t));
    assert_non_null(p);
    return d2 ? tx_tensor3(p, t, d0, d1, d2) : d1 ? tx_tensor2(p, t, d0, d1) : tx_tensor1(p, t, d0);
}

/* The same numbers, in the type of x. */
static inline void fill_from(tx_tensor x, tx_tensor from)
{
    for (int64_t i = 0; i < tx_numel(x); i++) set(x, i, get(from, i));
}

static inline void fill_drawn(tx_tensor x, int stream)
{
    for (int64_t i = 0; i < tx_numel(x); i++) set(x, i, draw(stream, i));
}

static inline double dot(tx_tensor x, tx_tensor y)
{
    double sum = 0;
    for (int64_t i = 0; i < tx_numel(x); i++) sum += get(x, i) * get(y, i);
    return sum;
}

/* The norm of x - y by that of y. */
static inline double distance(tx_tensor x, tx_tensor y)
{
    double off = 0, size = 0;
    for (int64_t i = 0; i < tx_numel(y); i++) {
        off += pow(get(x, i) - get(y, i), 2);
        size += pow(get(y, i), 2);
    }
    return sqrt(off / (size > 0 ? size : 1));
}

#endif
