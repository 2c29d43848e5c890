/* ref.h - the specification backend: plain loops over doubles. Each op loads any dtype to double, computes in double
 * and rounds when it stores. Nothing here is fast, and nothing should be: it is what the other backends are tested
 * against. */
#ifndef TX_BACKEND_REF_REF_H
#define TX_BACKEND_REF_REF_H

#include "backend/backend.h"
#include "base/half.h"

static inline double tx__ref_number(const void *data, tx_dtype dtype, int64_t at)
{
    switch (dtype) {
    case TX_F32:
        return (double)((const float *)data)[at];
    case TX_F64:
        return ((const double *)data)[at];
    case TX_BF16:
        return (double)tx_bf16_to_f32(((const uint16_t *)data)[at]);
    case TX_F16:
        return (double)tx_f16_to_f32(((const uint16_t *)data)[at]);
    case TX_I32:
        return (double)((const int32_t *)data)[at];
    case TX_I64:
        return (double)((const int64_t *)data)[at];
    case TX_N_DTYPES:
        break;
    }
    TX_ASSERT(false);
    return 0;
}

/* The number `at` elements after x's first one. Inlined at any -O, because a tensor is long to hand over. */
static inline __attribute__((always_inline)) double tx__ref_load(tx_tensor x, int64_t at)
{
    return tx__ref_number(x.data, x.dtype, at);
}

/* Rounds to x's dtype; to integers towards zero, what does not fit and NaN to the nearest end and 0. */
static inline void tx__ref_store(tx_tensor x, int64_t at, double v)
{
    switch (x.dtype) {
    case TX_F32:
        ((float *)x.data)[at] = (float)v;
        return;
    case TX_F64:
        ((double *)x.data)[at] = v;
        return;
    case TX_BF16:
        ((uint16_t *)x.data)[at] = tx_f32_to_bf16((float)v);
        return;
    case TX_F16:
        ((uint16_t *)x.data)[at] = tx_f32_to_f16((float)v);
        return;
    case TX_I32:
        ((int32_t *)x.data)[at] = !(v > -0x1p31) ? (v < 0 ? INT32_MIN : 0) : v < 0x1p31 ? (int32_t)v : INT32_MAX;
        return;
    case TX_I64:
        ((int64_t *)x.data)[at] = !(v > -0x1p63) ? (v < 0 ? INT64_MIN : 0) : v < 0x1p63 ? (int64_t)v : INT64_MAX;
        return;
    case TX_N_DTYPES:
        break;
    }
    TX_ASSERT(false);
}

/* What dropout multiplies element e with: 0 or 1/keep. */
static inline double tx__ref_keep(const tx_dropout *m, uint64_t e)
{
    if (m->drop == 0) return 1;
    return tx_rng_u16(&m->rng, e) >= m->drop ? tx_dropout_scale(m) : 0;
}

#define ROW(op) tx_status tx__ref_##op(tx_ctx *c, const tx_##op##_args *a, void *scratch);
#include "backend/ref/rows.def"

#define OP(op, outputs, cost, scratch) scratch
#define REF_SCRATCH(op)                size_t tx__ref_##op##_scratch(const tx_ctx *c, const tx_##op##_args *a);
#include "backend/ops.def"

#endif
