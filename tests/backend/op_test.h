/* op_test.h - what the op tests share: tensors of reproducible numbers, contexts that run at once, a count of calls. */
#ifndef TX_TESTS_BACKEND_OP_TEST_H
#define TX_TESTS_BACKEND_OP_TEST_H

#include "support.h"

#include "backend/backend.h"
#include "backend/ref/ref.h"

#define RUN(c, op, ...) ASSERT_OK(tx_op_##op((c), &(tx_##op##_args){ __VA_ARGS__ }))

/* ---- tensors: contiguous, freed all together ---- */

static void *pool[512];
static int n_pool;
static uint64_t next_number; /* where the next tensor's random numbers begin */

/* A device that has to reach the tensors, too; NULL: there is none. Not changed while there are tensors. */
static tx_device *op_device;

static inline void pool_free(void)
{
    while (n_pool > 0) tx_device_give_host(op_device, pool[--n_pool]);
    next_number = 0;
}

static inline tx_tensor zeros(tx_dtype t, int n_dims, const int64_t *dim)
{
    tx_tensor x = { .dtype = t, .n_dims = n_dims };
    int64_t n = 1;
    for (int i = n_dims - 1; i >= 0; i--) {
        x.dim[i] = dim[i];
        x.stride[i] = n;
        n *= dim[i];
    }
    assert_true(n_pool < 512);
    ASSERT_OK(tx_device_take_host(op_device, &pool[n_pool], (size_t)n * tx_dtype_size(t) + !n, "a test's tensor"));
    x.data = pool[n_pool++];
    return x;
}

/* Every case begins with the same ones again, and they take longer than many an op: kept. */
static inline double normal_number(uint64_t at)
{
    static double kept[1 << 20];
    static uint64_t n_kept;
    const tx_rng rng = { .seed = 1234, .stream = 7 };
    if (at >= sizeof kept / sizeof *kept) return tx_rng_normal(&rng, at);
    for (; n_kept <= at; n_kept++) kept[n_kept] = tx_rng_normal(&rng, n_kept);
    return kept[at];
}

static inline tx_tensor normals(tx_dtype t, int n_dims, const int64_t *dim)
{
    tx_tensor x = zeros(t, n_dims, dim);
    for (int64_t i = 0, n = tx_numel(x); i < n; i++) tx__ref_store(x, i, normal_number(next_number++));
    return x;
}

/* Positions [r, b] below `length`: of each column all different, and rising. */
static inline tx_tensor some_positions(int64_t r, int64_t b, int64_t length)
{
    tx_tensor x = zeros(TX_I32, 2, (const int64_t[]){ r, b });
    int64_t each = length / r;
    for (int64_t i = 0; i < r * b; i++) ((int32_t *)x.data)[i] = (int32_t)(i / b * each + (i / b + i % b * 7) % each);
    return x;
}

#define DIMS(...)                                                                  \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                              \
        __VA_ARGS__                                                                \
    }
#define ZEROS(t, ...) zeros((t), DIMS(__VA_ARGS__))
#define RAND(t, ...)  normals((t), DIMS(__VA_ARGS__))

/* int32 in [lo, hi), of any shape. */
static inline tx_tensor indices(tx_tensor x, int32_t lo, int32_t hi)
{
    const tx_rng rng = { .seed = 99 };
    for (int64_t i = 0; i < tx_numel(x); i++)
        ((int32_t *)x.data)[i] = lo + (int32_t)(tx_rng_uniform(&rng, next_number++) * (double)(hi - lo));
    return x;
}

static inline tx_tensor view4(tx_tensor x, int64_t first, int64_t d0, int64_t d1, int64_t d2, int64_t d3, int64_t s0,
                              int64_t s1, int64_t s2)
{
    void *data = (char *)x.data + (size_t)first * tx_dtype_size(x.dtype);
    return (tx_tensor){ data, x.dtype, 4, { d0, d1, d2, d3 }, { s0, s1, s2, 1 } };
}

static inline tx_tensor view5(tx_tensor x, int64_t first, const int64_t dim[5], int64_t s0, int64_t s1, int64_t s2,
                              int64_t s3)
{
    void *data = (char *)x.data + (size_t)first * tx_dtype_size(x.dtype);
    return (tx_tensor){ data, x.dtype, 5, { dim[0], dim[1], dim[2], dim[3], dim[4] }, { s0, s1, s2, s3, 1 } };
}

/* q, k and v (and their gradients) as views of one [s, b, groups, r + 2, d], as Megatron's query_key_value gives them.
 */
typedef struct qkv {
    tx_tensor all, q, k, v;
} qkv;

static inline qkv fused_qkv(tx_tensor all, int64_t s, int64_t b, int64_t groups, int64_t r, int64_t d)
{
    int64_t s2 = (r + 2) * d, s1 = groups * s2, s0 = b * s1;
    qkv x = { .all = all };
    x.q = view5(all, 0, (const int64_t[]){ s, b, groups, r, d }, s0, s1, s2, d);
    x.k = view4(all, r * d, s, b, groups, d, s0, s1, s2);
    x.v = view4(all, (r + 1) * d, s, b, groups, d, s0, s1, s2);
    return x;
}

/* ---- contexts that run at once: scratch is taken generously instead of being planned ---- */

static inline tx_ctx open_ctx(const char *backend, int n_threads)
{
    tx_ctx c;
    ASSERT_OK(tx_ctx_init(&c, backend, n_threads));
    ASSERT_OK(tx_arena_reserve(&c.scratch, (size_t)96 << 20));
    c.dry = false;
    return c;
}

/* ---- every op counts its calls ---- */

#define OP(op, ...)                                                                    \
    static int calls_##op;                                                             \
    static tx_status (*real_##op)(tx_ctx * c, const tx_##op##_args *a, void *scratch); \
    static tx_status count_##op(tx_ctx *c, const tx_##op##_args *a, void *scratch)     \
    {                                                                                  \
        calls_##op++;                                                                  \
        return real_##op(c, a, scratch);                                               \
    }
#include "backend/ops.def"

static inline void count_calls(tx_ctx *c)
{
#define OP(op, ...)             \
    real_##op = c->ops->op.run; \
    c->ops->op.run = count_##op;
#include "backend/ops.def"
}

static inline void assert_every_op_called(void)
{
#define OP(op, ...) \
    if (!calls_##op) fail_msg("no test ran %s", #op);
#include "backend/ops.def"
}

#endif
