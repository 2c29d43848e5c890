/* cpu_gemm.c - matrix products by oneDNN: the one file that knows it, in its 2.x and its 3.x form.
 *
 *  A primitive is made for exact sizes and strides, with its code generated for them, which takes milliseconds; so each
 * is kept, together with its memory objects, of which a call changes only the addresses. The row's scratch callback
 * makes it, which the dry run calls too: the first real step finds everything ready and allocates nothing.
 *
 *      key = (dtypes, m, n, k, row strides, transposes, accumulate, bias, threads)  ->  slot[hash % SLOTS], linear
 * probing
 *
 *  A run has some dozens of shapes. Generation of texts of all lengths could have any number, so a full table is
 * emptied.
 *
 *  bf16 and fp16 are oneDNN's where it is fast with them, and where it is not or has no such product they go by way of
 * fp32 (cpu_gemm_widened.c). */
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"

typedef struct key {
    int64_t m, n, k, lda, ldb, ldc;
    int64_t trans_a, trans_b, accumulate, bias; /* wide, so that there is no padding to hash */
    int64_t dtype, c_dtype, threads;
} key;

enum { SLOTS = 1024, FULL = SLOTS / 4 * 3, A = 0, B, C, BIAS, SCRATCH, N_MEMORIES };
static const int arg_of[N_MEMORIES] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS,
                                        DNNL_ARG_SCRATCHPAD };

typedef struct product {
    key key;
    bool taken;                       /* the slot */
    dnnl_primitive_t primitive;       /* NULL: oneDNN has no such product */
    dnnl_memory_t memory[N_MEMORIES]; /* NULL: this product has none */
    size_t scratch_bytes;
} product;

struct tx__cpu_gemm {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    size_t granted; /* scratch bytes that the next call will have */
    int n_products;
    product slot[SLOTS];
};

/* ---- the two forms of the API ---- */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t layout; /* a handle */

static const_dnnl_memory_desc_t desc(const layout *l)
{
    return *l;
}

static dnnl_status_t make_layout(layout *l, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(l, 2, dims, type, strides);
}

static void free_layout(layout *l)
{
    if (*l) dnnl_memory_desc_destroy(*l);
}

static dnnl_status_t make_matmul(dnnl_primitive_desc_t *pd, const layout l[4], bool bias,
                                 const_dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    return dnnl_matmul_primitive_desc_create(pd, engine, l[A], l[B], bias ? l[BIAS] : NULL, l[C], attr);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

#else

typedef dnnl_memory_desc_t layout; /* a struct */
typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

static const_dnnl_memory_desc_t desc(const layout *l)
{
    return l;
}

static dnnl_status_t make_layout(layout *l, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(l, 2, dims, type, strides);
}

static void free_layout(layout *l)
{
    (void)l;
}

static dnnl_status_t make_matmul(dnnl_primitive_desc_t *pd, const layout l[4], bool bias,
                                 const_dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t bad = dnnl_matmul_desc_init(&d, &l[A], &l[B], bias ? &l[BIAS] : NULL, &l[C]);
    return bad ? bad : dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f);
}

#endif

/* ---- making products ---- */

static key key_of(const tx_ctx *c, const tx_gemm_args *a)
{
    key k = { .m = a->c.dim[0],
              .n = a->c.dim[1],
              .k = a->a.dim[a->trans_a ? 0 : 1],
              /* the stride of a single row is anything; one spelling of it makes one product */
              .lda = a->a.dim[0] == 1 ? a->a.dim[1] : a->a.stride[0],
              .ldb = a->b.dim[0] == 1 ? a->b.dim[1] : a->b.stride[0],
              .ldc = a->c.dim[0] == 1 ? a->c.dim[1] : a->c.stride[0],
              .trans_a = a->trans_a,
              .trans_b = a->trans_b,
              .accumulate = a->accumulate,
              .bias = a->bias.data != NULL,
              .dtype = a->a.dtype,
              .c_dtype = a->c.dtype,
              .threads = tx__crew_threads(c) };
    return k;
}

static void free_product(product *p)
{
    for (int i = 0; i < N_MEMORIES; i++)
        if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    *p = (product){ 0 };
}

/* C = A B, with beta as a sum after it, and scratch memory of the caller's. */
static dnnl_status_t make_attributes(dnnl_primitive_attr_t *attr, bool accumulate)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t bad = dnnl_primitive_attr_create(attr);
    if (!bad) bad = dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user);
    if (!bad && accumulate) {
        bad = dnnl_post_ops_create(&ops);
        if (!bad) bad = append_sum(ops);
        if (!bad) bad = dnnl_primitive_attr_set_post_ops(*attr, ops);
        if (ops) dnnl_post_ops_destroy(ops);
    }
    return bad;
}

static dnnl_data_type_t type_of(int64_t t)
{
    return t == TX_BF16 ? dnnl_bf16 : t == TX_F16 ? dnnl_f16 : dnnl_f32;
}

static dnnl_status_t make_layouts(layout l[4], const key *k)
{
    const dnnl_dims_t size[4] = { { k->m, k->k }, { k->k, k->n }, { k->m, k->n }, { 1, k->n } };
    const dnnl_dims_t stride[4] = { { k->trans_a ? 1 : k->lda, k->trans_a ? k->lda : 1 },
                                    { k->trans_b ? 1 : k->ldb, k->trans_b ? k->ldb : 1 },
                                    { k->ldc, 1 },
                                    { k->n, 1 } };
    for (int i = 0; i < (k->bias ? 4 : 3); i++) {
        dnnl_status_t bad = make_layout(&l[i], size[i], type_of(i == C ? k->c_dtype : k->dtype), stride[i]);
        if (bad) return bad;
    }
    return dnnl_success;
}

static dnnl_status_t make_product(struct tx__cpu_gemm *g, product *p, const key *k)
{
    layout l[4];
    memset(l, 0, sizeof l);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t bad = make_layouts(l, k);
    if (!bad) bad = make_attributes(&attr, k->accumulate);
    if (!bad) bad = make_matmul(&pd, l, k->bias, attr, g->engine);
    if (!bad) bad = dnnl_primitive_create(&p->primitive, pd);
    for (int i = 0; !bad && i < (k->bias ? 4 : 3); i++)
        bad = dnnl_memory_create(&p->memory[i], desc(&l[i]), g->engine, DNNL_MEMORY_NONE);
    if (!bad) {
        const_dnnl_memory_desc_t need = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
        p->scratch_bytes = need ? dnnl_memory_desc_get_size(need) : 0;
        if (p->scratch_bytes) bad = dnnl_memory_create(&p->memory[SCRATCH], need, g->engine, DNNL_MEMORY_NONE);
    }
    if (pd) dnnl_primitive_desc_destroy(pd);
    if (attr) dnnl_primitive_attr_destroy(attr);
    for (int i = 0; i < 4; i++) free_layout(&l[i]);
    if (bad) free_product(p);
    p->key = *k;
    return bad;
}

/* oneDNN takes as many threads as OpenMP would give this thread now, both when it plans and when it runs. */
static int enter(const tx_ctx *c)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(tx__crew_threads(c));
    return before;
}

/* ---- a few rows ---- */

/* Whether the product is a linear layer of so few rows that what counts is how fast its matrix is read. */
static bool is_few(const tx_gemm_args *a)
{
    return a->trans_b && !a->trans_a && !a->accumulate && a->c.dim[0] <= TX__CPU_FEW;
}

static size_t few_work(const tx_gemm_args *a)
{
    return tx__few_work(a->c.dim[0], a->a.dim[1], tx_dtype_size(a->a.dtype));
}

/* A product of few rows, as its threads see it. */
typedef struct few_call {
    const tx__cpu_kernels *k;
    tx__few f;
    void *work;
    int64_t n;
} few_call;

/* TX__LANES columns are a unit. */
static void few_units(const void *arg, int64_t first, int64_t end, int thread)
{
    const few_call *call = arg;
    (void)thread;
    call->k->few(&call->f, first * TX__LANES, tx__cpu_min(end * TX__LANES, call->n), call->work);
}

static void few_rows(const tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    enum { TAKEN = 49152 }; /* bytes of the matrix at once */
    const few_call call = { .k = tx__cpu_k(c),
                            .f = { .t = a->a.dtype,
                                   .c_type = a->c.dtype,
                                   .a = a->a.data,
                                   .b = a->b.data,
                                   .bias = a->bias.data,
                                   .c = a->c.data,
                                   .m = a->c.dim[0],
                                   .k = a->a.dim[1],
                                   .lda = a->a.stride[0],
                                   .ldb = a->b.stride[0],
                                   .ldc = a->c.stride[0] },
                            .work = scratch,
                            .n = a->c.dim[1] };
    int64_t units = (call.n + TX__LANES - 1) / TX__LANES;
    size_t row = (size_t)call.f.ldb * tx_dtype_size(a->b.dtype), unit_bytes = TX__LANES * row;
    tx__crew *crew = tx__crew_of(c);
    call.k->few_pack(&call.f, scratch);
    if (crew) {
        tx__crew_share(crew, &(tx__crew_job){ .unit = few_units,
                                              .arg = &call,
                                              .n = units,
                                              .step = TAKEN / (int64_t)unit_bytes,
                                              .reads = a->b.data,
                                              .bytes = (size_t)(call.n - 1) * row,
                                              .unit_bytes = unit_bytes });
        return;
    }
    int parts = tx__cpu_parts(c, call.n, call.f.k);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) few_units(&call, units * t / parts, units * (t + 1) / parts, t);
}

/* ---- bf16 and fp16 ---- */

bool tx__cpu_gemm_is_own(tx_dtype t)
{
    static _Atomic int known; /* of the process: asking takes longer than finding a product */
    if (!known) known = (int)dnnl_get_effective_cpu_isa();
    int isa = known, need = dnnl_cpu_isa_avx512_core_bf16;
#if DNNL_VERSION_MAJOR >= 3
    if (t == TX_F16) need = dnnl_cpu_isa_avx512_core_fp16;
#else
    if (t == TX_F16) return false;
#endif
    return (isa & need) == need;
}

/* Whether oneDNN is asked for this product. Where it only imitates bf16 (avx512) it multiplies at a quarter of fp32's
 * speed, but need not write down in fp32 a matrix that is read only a few times. */
static bool is_onednns(const tx_gemm_args *a)
{
    enum { FEW = 32 };
    tx_dtype t = a->a.dtype;
    if (t == TX_F32 || tx__cpu_gemm_is_own(t)) return true;
    return t == TX_BF16 && (a->c.dim[0] <= FEW || a->c.dim[1] <= FEW);
}

/* The product of a call, made if it is new. NULL: it goes by way of fp32. */
static tx_status find(const tx_ctx *c, const tx_gemm_args *a, product **out)
{
    struct tx__cpu_gemm *g = ((const tx__cpu *)c->backend_state)->gemm;
    *out = NULL;
    if (!is_onednns(a)) return TX_OK;
    const key k = key_of(c, a);
    if (g->n_products == FULL) {
        for (int i = 0; i < SLOTS; i++) free_product(&g->slot[i]);
        g->n_products = 0;
    }
    size_t i = XXH3_64bits(&k, sizeof k) % SLOTS;
    for (; g->slot[i].taken; i = (i + 1) % SLOTS)
        if (!memcmp(&g->slot[i].key, &k, sizeof k)) {
            *out = g->slot[i].primitive ? &g->slot[i] : NULL;
            return TX_OK;
        }
    int before = enter(c);
    dnnl_status_t bad = make_product(g, &g->slot[i], &k);
    omp_set_num_threads(before);
    if (bad && (k.dtype == TX_F32 || bad == dnnl_out_of_memory))
        return TX_FAIL(bad == dnnl_out_of_memory ? TX_ERR_NOMEM : TX_ERR_UNSUPPORTED,
                       "gemm: oneDNN has no product of m=%lld n=%lld k=%lld (status %d)", (long long)k.m,
                       (long long)k.n, (long long)k.k, (int)bad);
    g->slot[i].taken = true;
    g->n_products++;
    *out = bad ? NULL : &g->slot[i];
    return TX_OK;
}

size_t tx__cpu_gemm_scratch(const tx_ctx *c, const tx_gemm_args *a)
{
    product *p;
    size_t rooms = 0, onednns = 0;
    if (tx__cpu_gemm_panels(a) > 1) {
        size_t granted = 0, most = 0;
        for (int i = 0; i < tx__cpu_gemm_panels(a); i++) {
            const tx_gemm_args panel = tx__cpu_gemm_panel(a, i);
            size_t bytes = tx__cpu_gemm_scratch(c, &panel), *now = &((const tx__cpu *)c->backend_state)->gemm->granted;
            if (bytes > most) most = bytes;
            if (*now > granted) granted = *now;
            *now = granted;
        }
        return most;
    }
    if (is_few(a)) return few_work(a);
    if (!tx__cpu_need_float("gemm", a->a) && !find(c, a, &p)) /* an error is met again by the run */
        onednns = p ? p->scratch_bytes : tx__cpu_gemm_widened_scratch(c, a, &rooms);
    ((const tx__cpu *)c->backend_state)->gemm->granted = onednns;
    return rooms + onednns;
}

tx_status tx__cpu_gemm(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("gemm", a->a));
    if (tx__cpu_gemm_panels(a) > 1) return tx__cpu_gemm_symmetric(c, a, scratch);
    struct tx__cpu_gemm *g = ((tx__cpu *)c->backend_state)->gemm;
    product *p;
    if (is_few(a)) {
        if (!c->dry) few_rows(c, a, scratch);
        return TX_OK;
    }
    TX_TRY(find(c, a, &p));
    if (c->dry) return TX_OK;
    if (!p) return tx__cpu_gemm_widened(c, a, scratch);
    if (p->scratch_bytes > g->granted) /* made only now: the first attempt had no memory */
        return TX_FAIL(TX_ERR_NOMEM, "gemm: no memory for oneDNN's workspace of %zu bytes", p->scratch_bytes);
    void *const data[N_MEMORIES] = { a->a.data, a->b.data, a->c.data, a->bias.data, scratch };
    dnnl_exec_arg_t args[N_MEMORIES];
    int n = 0;
    dnnl_status_t bad = dnnl_success;
    for (int i = 0; !bad && i < N_MEMORIES; i++) {
        if (!p->memory[i]) continue;
        bad = dnnl_memory_set_data_handle(p->memory[i], data[i]);
        args[n++] = (dnnl_exec_arg_t){ arg_of[i], p->memory[i] };
    }
    int before = enter(c);
    if (!bad) bad = dnnl_primitive_execute(p->primitive, g->stream, n, args);
    if (!bad) bad = dnnl_stream_wait(g->stream);
    omp_set_num_threads(before);
    if (bad) return TX_FAIL(TX_ERR_UNSUPPORTED, "gemm: oneDNN failed (status %d)", (int)bad);
    return TX_OK;
}

/* ---- life ---- */

tx_status tx__cpu_gemm_open(struct tx__cpu_gemm **out)
{
    struct tx__cpu_gemm *g;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "oneDNN's products"));
    dnnl_status_t bad = dnnl_engine_create(&g->engine, dnnl_cpu, 0);
    if (!bad) bad = dnnl_stream_create(&g->stream, g->engine, dnnl_stream_default_flags);
    if (bad) {
        tx__cpu_gemm_close(g);
        return TX_FAIL(TX_ERR_UNSUPPORTED, "oneDNN does not start (status %d)", (int)bad);
    }
    *out = g;
    return TX_OK;
}

void tx__cpu_gemm_close(struct tx__cpu_gemm *g)
{
    if (!g) return;
    for (int i = 0; i < SLOTS; i++) free_product(&g->slot[i]);
    if (g->stream) dnnl_stream_destroy(g->stream);
    if (g->engine) dnnl_engine_destroy(g->engine);
    tx_free(g);
}

const char *tx__cpu_gemm_version(char *buf, size_t cap)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(buf, cap, "oneDNN %d.%d.%d, bf16 products %s", v->major, v->minor, v->patch,
             tx__cpu_gemm_is_own(TX_BF16) ? "of its own" : "by way of fp32");
    return buf;
}
