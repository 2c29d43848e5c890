/* check.h - what the shape rules of ops are made of: check.c, check_attention.c. */
#ifndef TX_BACKEND_CHECK_H
#define TX_BACKEND_CHECK_H

#include <stdio.h>

#include "backend/backend.h"

typedef struct named {
    const char *name;
    tx_tensor x;
} named;

static inline tx_status refuse(const char *op, const char *rule, const named *t, size_t n)
{
    char text[1200] = "", one[160];
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        const char *shape = t[i].x.data ? tx_tensor_describe(t[i].x, one, sizeof one) : "absent";
        const char *note = t[i].x.data && !tx_is_contiguous(t[i].x) ? " (strided)" : "";
        int w = snprintf(text + at, sizeof text - at, "%s %s=%s%s", i ? "," : "", t[i].name, shape, note);
        if (w < 0 || (size_t)w >= sizeof text - at) break;
        at += (size_t)w;
    }
    return TX_FAIL(TX_ERR_SHAPE, "%s: needs %s; given%s", op, rule, text);
}

#define T(field)         \
    {                    \
#field, a->field \
    }
#define REFUSE(op, rule, ...) \
    refuse(op, rule, (named[]){ __VA_ARGS__ }, sizeof((named[]){ __VA_ARGS__ }) / sizeof(named))

static inline bool is_float(tx_dtype t)
{
    return t == TX_F32 || t == TX_F64 || t == TX_BF16 || t == TX_F16;
}

/* Contiguous and of any shape; no element at all is fine, so that an empty part of a split needs no test. */
static inline bool flat(tx_tensor x)
{
    if (!x.data || x.n_dims < 1 || x.n_dims > TX_MAX_DIMS) return false;
    for (int i = 0; i < x.n_dims; i++)
        if (x.dim[i] < 0) return false;
    return tx_is_contiguous(x);
}

static inline bool dense(tx_tensor x, tx_dtype t, int n_dims)
{
    return flat(x) && x.dtype == t && x.n_dims == n_dims && tx_numel(x) > 0;
}

static inline bool vec(tx_tensor x, tx_dtype t, int64_t n)
{
    return dense(x, t, 1) && x.dim[0] == n;
}

static inline bool mat(tx_tensor x, tx_dtype t, int64_t m, int64_t n)
{
    return dense(x, t, 2) && x.dim[0] == m && x.dim[1] == n;
}

/* A view whose last dimension is contiguous; any other stride may be what it is. */
static inline bool view(tx_tensor x, tx_dtype t, int n_dims)
{
    if (!x.data || x.dtype != t || x.n_dims != n_dims) return false;
    for (int i = 0; i < n_dims; i++)
        if (x.dim[i] < 1) return false;
    return x.dim[n_dims - 1] == 1 || x.stride[n_dims - 1] == 1;
}

#endif
