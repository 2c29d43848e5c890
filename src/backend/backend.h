/* backend.h - what a backend is, and the list of them. A backend is a name and rows of the op table; adding one is a
 * folder and a line in registry.c. */
#ifndef TX_BACKEND_BACKEND_H
#define TX_BACKEND_BACKEND_H

#include "backend/ops.h"
#include "backend/profile.h"
#include "backend/watch.h"

/* Memory traffic over arrays of array_bytes each, bytes/s; what is written counts once, as in STREAM. */
typedef struct tx_bandwidth {
    double read, copy, triad; /* sum += a;  b = a;  c = a + k b */
    size_t array_bytes;
} tx_bandwidth;

typedef struct tx_backend {
    const char *name;
    const char *(*describe)(void); /* one line for `doctor` and the log: instruction set, libraries */
    tx_status (*open)(tx_ctx *c);  /* sets c->backend_state; optional */
    void (*close)(tx_ctx *c);
    void (*fill_ops)(tx_ops *ops); /* overrides its own rows, keeps the others */
    /* What the machine can do at most with c->n_threads threads, measured by the call; NULL: unknown.
     *  peak_flops: multiply-adds on values of t, two operations each, a second, in some tens of milliseconds; 0 where
     *              there are no instructions for t. */
    double (*peak_flops)(const tx_ctx *c, tx_dtype t);
    tx_status (*bandwidth)(const tx_ctx *c, tx_bandwidth *out);
    /* Runs a step of many short calls so that they cost least; not for work that is large, whose calls may have one
     * thread alone here. NULL: there is nothing to be gained. */
    tx_status (*together)(tx_ctx *c, tx_status (*run)(void *user), void *user);
    const char *base; /* the backend whose rows it starts from, or NULL */
} tx_backend;

/* The backends that are always there, NULL at the end; "gpu" is a module's (gpu_module.h). */
extern const tx_backend *const tx_backends[];
/* TX_ERR_NOTFOUND lists the backends, or gives the reason why there is no GPU. */
tx_status tx_backend_find(const tx_backend **out, const char *name);
const char *tx_backend_auto(void); /* "gpu" where there is one that can be used, else "cpu" */
/* The finished table of a backend: compose.c's rows, then its base's, then its own. */
void tx_backend_ops(const tx_backend *be, tx_ops *out);

/* watch.c: looks at what an op has written. op_costs.c: what a run of it costs. accesses.c: tells ThreadSanitizer,
 * where there is one, what it will read and write. */
#define OP(name, ...)                                                  \
    void tx__watch_##name(const tx_ctx *c, const tx_##name##_args *a); \
    void tx__tell_##name(const tx_ctx *c, const tx_##name##_args *a);  \
    tx_cost tx__cost_##name(const tx_##name##_args *a);
#include "backend/ops.def"

/* The peak of a run whose values are *t, flop/s; 0: not known. A CPU's is measured, and *t becomes fp32 where there are
 * no instructions for it and the sums are made in fp32; a GPU's is the vendor's figure. */
double tx_peak_flops(const tx_ctx *c, tx_dtype *t);

/* gpu_peak.c: the vendor's figure for dense products of t on a GPU of that name, flop/s; 0: not known. */
double tx__gpu_peak_flops(const char *name, tx_dtype t);

/* How fast a backend multiplies two matrices of n x n values of t: the best of ten runs, flop/s. n_threads as
 * tx_ctx_init's. */
tx_status tx_product_rate(double *out, const char *backend, int n_threads, int64_t n, tx_dtype t);

/* compose.c: the ops that are made of other ops. */
void tx__compose_ops(tx_ops *ops);

/* check.c, for rows whose data the host can read: every element of an i32 tensor is in [lo, hi), else TX_ERR_ARG
 * naming op, tensor, place and value. */
tx_status tx__check_index(const char *op, const char *name, tx_tensor x, int64_t lo, int64_t hi);

/* The same for the rows that groups have: TX_ERR_ARG unless they are `rows` in sum. */
static inline tx_status tx__check_groups(const char *op, tx_tensor count, int64_t rows)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < count.dim[0]; i++) {
        int32_t n = ((const int32_t *)count.data)[i];
        if (n < 0) return TX_FAIL(TX_ERR_ARG, "%s: group %lld has %d rows", op, (long long)i, (int)n);
        sum += n;
    }
    if (sum == rows) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: groups have %lld rows, of %lld", op, (long long)sum, (long long)rows);
}

/* The same for a past: the s positions after it fit into the cache. */
tx_status tx__check_past(const char *op, tx_past past, int64_t s, tx_tensor cache);

/* Where the rows of attention's call are, if it has a part of a sequence. */
typedef struct tx__seq_part {
    int64_t q_at, k_at;
    bool is; /* false: both are 0, and the rest of the call says where its queries are */
} tx__seq_part;
static inline tx__seq_part tx__seq_part_at(int64_t q_at, int64_t k_at, bool part)
{
    tx__seq_part p = { q_at, k_at, part || q_at || k_at };
    return p;
}
#define TX__SEQ_PART_OF(a) tx__seq_part_at((a)->q_at, (a)->k_at, (a)->part)

/* An optional n_keys of attention: 1 .. the keys there are, of a part any number from 1 on. */
tx_status tx__check_n_keys(const char *op, tx_tensor n_keys, tx_tensor k, tx__seq_part part);

/* Sample i_b's place in k's second dimension. */
static inline int64_t tx__slot_of(tx_past past, int64_t i_b)
{
    return past.n.data ? ((const int32_t *)past.slot.data)[i_b] : i_b;
}

/* What says which keys the queries of a call see, but for first_key and windows. Positions are counted from the call's
 * key 0, so that queries of a part may be before 0. */
typedef struct tx__call_keys {
    tx_past past;
    tx_tensor n_keys, k;
    int64_t sq;
    tx__seq_part part;
    bool causal;
} tx__call_keys;

/* How many keys sample i_b has, and where its query 0 is. */
static inline int64_t tx__keys_of(const tx__call_keys *a, int64_t i_b)
{
    int64_t all = a->k.dim[0];
    if (a->n_keys.data) {
        int64_t n = ((const int32_t *)a->n_keys.data)[i_b] - a->part.k_at;
        return n < 0 ? 0 : n < all ? n : all;
    }
    return a->past.n.data ? ((const int32_t *)a->past.n.data)[i_b] + a->sq : all;
}
static inline int64_t tx__query_at(const tx__call_keys *a, int64_t i_b)
{
    if (a->part.is) return a->part.q_at - a->part.k_at;
    return (a->n_keys.data ? a->k.dim[0] : tx__keys_of(a, i_b)) - a->sq;
}
/* Before which key those end that the query at `position` sees. */
static inline int64_t tx__keys_end(const tx__call_keys *a, int64_t i_b, int64_t position)
{
    int64_t n = tx__keys_of(a, i_b);
    return !a->causal || position >= n ? n : position < 0 ? 0 : position + 1;
}

/* The first key that a window lets the query at `position` see. */
static inline int64_t tx__window_begin(int64_t window, int64_t position)
{
    return window && position > window ? position - window : 0;
}

/* An update's gate, for rows whose data the host can read: multiplies its factor to *grad_scale; false: nothing is to
 * be changed. */
bool tx__update_gate(tx_tensor gate, double *grad_scale);

/* blend's α; false: nothing is to be changed. Reads the host's memory. */
bool tx__blend_alpha(const tx_blend_args *a, double *alpha);

/* Rows of the whole of a table. */
static inline int64_t tx__rows_of(tx_table_shard shard, tx_tensor table)
{
    return shard.whole ? shard.whole : table.dim[0];
}

#endif
