/* gemm_vendor.cu - matrix products by cuBLASLt or hipBLASLt, and which of their algorithms makes them.
 *
 *  Columns for rows. The libraries keep a column's elements side by side, ops.h a row's: our X is their Xᵀ, without a
 * byte moved. So they are asked for Cᵀ = op(B)ᵀ op(A)ᵀ, B being their first factor: our n is their m.
 *
 *      ours      C [m, n]         A [m, k] or [k, m]ᵀ        B [k, n] or [n, k]ᵀ
 *      theirs    n x m, ld        second: k x m, or m x k T   first: n x k, or k x n T
 *
 *  Same bits. A product of a shape is made by one algorithm, always (gpu_module.h has
 * the contract of what is kept), in the compute stream with its
 * own workspace; cuBLASLt's are then the same from run to run (its documentation, "Results reproducibility"). Where it
 * cuts k into parts these are added up in fp32, in an own step: the other schemes add in C's type, which ops.h does not
 * allow. hipBLASLt has no such choice; its split products add up in their workspace by default.
 *
 *  Choosing. It is the library's first guess, which another process makes as well. With TX_GPU_GEMM_TIMING=1 its
 * guesses are timed; then a dry run shows the shapes, and candidates are tried on zeros in memory that is free then. A
 * shape that nobody foresaw is tried on the product's own numbers when it is first made. Without accumulation they may
 * write C itself, which the product overwrites; else they write memory beside it, as large as C, taken for that time: C
 * is read and stays.
 *
 *  GELU and its gradient are no epilogues of ours yet: ops.h has no op to ask for them. */
#include "backend/gpu/gpu.h"

#include <dlfcn.h>

#include "backend/gpu/blaslt.h"
#include "backend/gpu/libraries.h"

enum {
    N_CANDIDATES = 8,
    N_ROUNDS = 3, /* of so many runs behind a first one; the quickest round counts */
    N_RUNS = 4,
    ALIGNMENT = 256 /* of a workspace */
};
static const size_t WORKSPACE = (size_t)32 << 20; /* what both vendors advise for their largest GPUs */

struct calls {
#define CALL(name, arguments) int(*name) arguments;
    BLASLT_CALLS(CALL)
#undef CALL
};

/* All that an algorithm depends on; all 64 bits wide, so that it is compared and written as numbers. */
struct shape {
    int64_t m, n, k, lda, ldb, ldc, trans_a, trans_b, value, out, bias, accumulate; /* types: the library's numbers */
    int64_t align_a, align_b, align_c, align_bias;                                  /* bytes, of the addresses */
};
enum { SHAPE_NUMBERS = sizeof(shape) / sizeof(int64_t) };

struct product {
    shape s;
    void *desc, *a, *b, *c; /* of our matrices; NULL until it is made the first time */
    blaslt_algo algo;
    bool chosen, bias_apart; /* an own kernel adds the bias: the library has no way to, or rounds twice */
};

struct tx__gpu_products {
    calls call;
    void *library, *handle;
    char version[64]; /* "cuBLASLt 13.1.0" */
    product *all;     /* [n] */
    int *slot;        /* [n_slots], a power of 2, at most half of them in use: a product's number, or -1 */
    int n, max, n_slots;
    gpuEvent_t begin, end;
    bool timing;
};

/* ---- the library ---- */

static const char *words(int status)
{
#if defined(__HIP_PLATFORM_AMD__)
    static const char *const text[] = { "success",        "not initialized",  "no memory",      "invalid value",
                                        "mapping error",  "execution failed", "internal error", "not supported",
                                        "other hardware", "no handle",        "invalid enum",   "unknown" };
#else
    static const char *const text[] = { "success",
                                        "not initialized",
                                        NULL,
                                        "no memory",
                                        NULL,
                                        NULL,
                                        NULL,
                                        "invalid value",
                                        "other hardware",
                                        NULL,
                                        NULL,
                                        "mapping error",
                                        NULL,
                                        "execution failed",
                                        "internal error",
                                        "not supported",
                                        "license error" };
#endif
    bool known = status >= 0 && status < (int)(sizeof text / sizeof *text) && text[status];
    return known ? text[status] : "unknown error";
}

static tx_status failed(int status, const char *what)
{
    return TX_FAIL(TX_ERR_DEVICE, BLASLT_NAME " failed: %s (%d) in %s", words(status), status, what);
}
#define LT_TRY(call)                                \
    do {                                            \
        int lt_try_ = (call);                       \
        if (lt_try_) return failed(lt_try_, #call); \
    } while (0)

static void *open_library(calls *call, char *trouble, size_t cap)
{
    static const char *const files[] = { BLASLT_FILES, NULL };
    void *library = tx__gpu_open_library("TX_BLASLT_LIBRARY", files, trouble, cap);
    if (!library) return NULL;
#define CALL(name, arguments)                                    \
    call->name = (int(*) arguments)dlsym(library, BLASLT(name)); \
    if (!call->name) snprintf(trouble, cap, BLASLT_NAME " is too old: it has no " BLASLT(name));
    BLASLT_CALLS(CALL)
#undef CALL
    if (!*trouble) return library;
    dlclose(library);
    return NULL;
}

/* @out "13.1.0"; a handle is needed by AMD's only, and may be NULL. */
static void write_version(char *out, size_t cap, void *library, void *handle)
{
    *out = 0;
#if defined(__HIP_PLATFORM_AMD__)
    int v = 0;
    int (*version)(void *, int *) = (int (*)(void *, int *))dlsym(library, BLASLT(GetVersion));
    if (!version || !handle || version(handle, &v)) return;
    snprintf(out, cap, "%d.%d.%d", v / 100000, v / 100 % 1000, v % 100);
#else
    (void)handle;
    size_t (*version)(void) = (size_t(*)(void))dlsym(library, BLASLT(GetVersion));
    size_t v = version ? version() : 0;
    if (v) snprintf(out, cap, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
#endif
}

void tx__gpu_blaslt_describe(tx_gpu_library *out)
{
    calls call;
    void *handle = NULL;
    snprintf(out->name, sizeof out->name, BLASLT_NAME);
    void *library = open_library(&call, out->trouble, sizeof out->trouble);
    if (!library) return;
    int status = call.Create(&handle);
    if (status) snprintf(out->trouble, sizeof out->trouble, "it cannot start: %s (%d)", words(status), status);
    write_version(out->version, sizeof out->version, library, handle);
    if (handle) call.Destroy(handle);
    dlclose(library);
}

tx_status tx__gpu_gemm_open(tx__gpu *g)
{
    char trouble[256], version[32];
    const char *timing = getenv("TX_GPU_GEMM_TIMING");
    TX_TRY(tx_alloc(&g->products, 1, sizeof *g->products, "matrix products"));
    tx__gpu_products *p = g->products;
    p->timing = timing && *timing == '1';
    p->library = open_library(&p->call, trouble, sizeof trouble);
    if (!p->library)
        return TX_FAIL(TX_ERR_NOTFOUND,
                       "the GPU cannot be used without " BLASLT_NAME ": %s; install it, or let TX_BLASLT_LIBRARY name "
                       "its file or LD_LIBRARY_PATH its folder",
                       trouble);
    int status = p->call.Create(&p->handle);
    if (status) return failed(status, "its start");
    write_version(version, sizeof version, p->library, p->handle);
    snprintf(p->version, sizeof p->version, BLASLT_NAME " %s", version);
    GPU_TRY(gpuEventCreate(&p->begin));
    GPU_TRY(gpuEventCreate(&p->end));
    return TX_OK;
}

static void drop(tx__gpu_products *p, product *x)
{
    if (x->desc) p->call.MatmulDescDestroy(x->desc);
    if (x->a) p->call.MatrixLayoutDestroy(x->a);
    if (x->b) p->call.MatrixLayoutDestroy(x->b);
    if (x->c) p->call.MatrixLayoutDestroy(x->c);
}

void tx__gpu_gemm_close(tx__gpu *g)
{
    tx__gpu_products *p = g->products;
    if (!p) return;
    for (int s = 0; s < TX_N_STREAMS; s++) /* what is under way uses the workspace, not us; but its library is closed */
        if (g->stream[s]) gpuStreamSynchronize(g->stream[s]);
    for (int i = 0; i < p->n; i++) drop(p, &p->all[i]);
    if (p->begin) gpuEventDestroy(p->begin);
    if (p->end) gpuEventDestroy(p->end);
    if (p->handle) p->call.Destroy(p->handle);
    if (p->library) dlclose(p->library);
    tx_free(p->all);
    tx_free(p->slot);
    tx_free(p);
    g->products = NULL;
}

/* ---- shapes, and the table of products ---- */

static int type_of(tx_dtype t)
{
    return t == TX_F32 ? BLASLT_R_32F : t == TX_BF16 ? BLASLT_R_16BF : BLASLT_R_16F;
}

/* 16 bytes are all that a kernel can make use of; more would only tell equal products apart. */
static int64_t alignment_of(const void *p)
{
    uintptr_t at = (uintptr_t)p | 16;
    return (int64_t)(at & (~at + 1));
}

static int64_t row_length(tx_tensor x)
{
    return x.stride[0] > x.dim[1] && x.dim[0] > 1 ? x.stride[0] : x.dim[1];
}

static shape shape_of(const tx_gemm_args *a)
{
    shape s;
    s.m = a->c.dim[0];
    s.n = a->c.dim[1];
    s.k = a->a.dim[a->trans_a ? 0 : 1];
    s.lda = row_length(a->a);
    s.ldb = row_length(a->b);
    s.ldc = row_length(a->c);
    s.trans_a = a->trans_a;
    s.trans_b = a->trans_b;
    s.value = type_of(a->a.dtype);
    s.out = type_of(a->c.dtype);
    s.bias = a->bias.data != NULL;
    s.accumulate = a->accumulate;
    s.align_a = alignment_of(a->a.data);
    s.align_b = alignment_of(a->b.data);
    s.align_c = alignment_of(a->c.data);
    s.align_bias = a->bias.data ? alignment_of(a->bias.data) : 0;
    return s;
}

/* Where it is, or would be. */
static int *find_slot(const tx__gpu_products *p, const shape *s)
{
    const unsigned char *byte = (const unsigned char *)s;
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *s; i++) hash = (hash ^ byte[i]) * 1099511628211u;
    unsigned at = (unsigned)(hash ^ hash >> 32) & (unsigned)(p->n_slots - 1);
    while (p->slot[at] >= 0 && memcmp(&p->all[p->slot[at]].s, s, sizeof *s)) at = (at + 1) & (unsigned)(p->n_slots - 1);
    return &p->slot[at];
}

static tx_status make_room(tx__gpu_products *p)
{
    if (p->n < p->max) return TX_OK;
    int max = p->max ? 2 * p->max : 64;
    TX_TRY(tx_realloc(&p->all, (size_t)max, sizeof *p->all, "matrix products"));
    TX_TRY(tx_realloc(&p->slot, 2 * (size_t)max, sizeof *p->slot, "matrix products"));
    p->max = max;
    p->n_slots = 2 * max;
    for (int i = 0; i < p->n_slots; i++) p->slot[i] = -1;
    for (int i = 0; i < p->n; i++) *find_slot(p, &p->all[i].s) = i;
    return TX_OK;
}

/* cuBLASLt 13.1 on an H200 rounds a product to bf16 or fp16 before it adds the bias where rows of C are no multiples of
 * 16 bytes (17 x 33 x 1041). */
static bool rounds_twice(const shape *s)
{
    return s->bias && s->out != BLASLT_R_32F && (s->ldc % 8 || s->n % 8);
}

/* The product of that shape, new or known. */
static tx_status find(tx__gpu_products *p, const shape *s, product **out)
{
    TX_TRY(make_room(p));
    int *slot = find_slot(p, s);
    if (*slot < 0) {
        *slot = p->n++;
        memset(&p->all[*slot], 0, sizeof *p->all);
        p->all[*slot].s = *s;
        p->all[*slot].bias_apart = rounds_twice(s);
    }
    *out = &p->all[*slot];
    return TX_OK;
}

/* ---- what the library is told ---- */

static int set_desc(const tx__gpu_products *p, const product *x, int attribute, int32_t value)
{
    return p->call.MatmulDescSetAttribute(x->desc, attribute, &value, sizeof value);
}

static tx_status describe(tx__gpu_products *p, product *x)
{
    const shape *s = &x->s;
    uint64_t a_rows = (uint64_t)(s->trans_a ? s->k : s->m), a_cols = (uint64_t)(s->trans_a ? s->m : s->k);
    uint64_t b_rows = (uint64_t)(s->trans_b ? s->n : s->k), b_cols = (uint64_t)(s->trans_b ? s->k : s->n);
    int value = (int)s->value, out = (int)s->out;
    bool bias = s->bias && !x->bias_apart;
    LT_TRY(p->call.MatmulDescCreate(&x->desc, BLASLT_COMPUTE_32F, BLASLT_R_32F)); /* of fp32 too: true fp32, no TF32 */
    LT_TRY(set_desc(p, x, BLASLT_DESC_TRANSA, s->trans_b ? BLASLT_OP_T : BLASLT_OP_N));
    LT_TRY(set_desc(p, x, BLASLT_DESC_TRANSB, s->trans_a ? BLASLT_OP_T : BLASLT_OP_N));
    LT_TRY(set_desc(p, x, BLASLT_DESC_EPILOGUE, bias ? BLASLT_EPILOGUE_BIAS : BLASLT_EPILOGUE_DEFAULT));
    if (bias) LT_TRY(set_desc(p, x, BLASLT_DESC_BIAS_DATA_TYPE, value));
    LT_TRY(p->call.MatrixLayoutCreate(&x->a, value, a_cols, a_rows, s->lda));
    LT_TRY(p->call.MatrixLayoutCreate(&x->b, value, b_cols, b_rows, s->ldb));
    LT_TRY(p->call.MatrixLayoutCreate(&x->c, out, (uint64_t)s->n, (uint64_t)s->m, s->ldc));
    return TX_OK;
}

static tx_status set_bias(const tx__gpu_products *p, const product *x, const tx_gemm_args *a)
{
    if (!a->bias.data || x->bias_apart) return TX_OK;
    LT_TRY(p->call.MatmulDescSetAttribute(x->desc, BLASLT_DESC_BIAS_POINTER, &a->bias.data, sizeof a->bias.data));
    return TX_OK;
}

static tx_status describe_again(tx__gpu_products *p, product *x)
{
    drop(p, x);
    x->desc = x->a = x->b = x->c = NULL;
    return describe(p, x);
}

static int set_preference(const tx__gpu_products *p, void *pref, const product *x)
{
    uint64_t bytes = WORKSPACE;
    int status = p->call.MatmulPreferenceSetAttribute(pref, BLASLT_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
#if defined(__HIP_PLATFORM_AMD__)
    (void)x;
#else
    const struct {
        int attribute;
        uint32_t value;
    } more[] = { { BLASLT_PREF_REDUCTION_SCHEME_MASK, BLASLT_REDUCTION_COMPUTE_TYPE },
                 { BLASLT_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)x->s.align_b },
                 { BLASLT_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)x->s.align_a },
                 { BLASLT_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)x->s.align_c },
                 { BLASLT_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)x->s.align_c } };
    for (size_t i = 0; i < sizeof more / sizeof *more && !status; i++)
        status = p->call.MatmulPreferenceSetAttribute(pref, more[i].attribute, &more[i].value, sizeof more[i].value);
#endif
    return status;
}

/* The library's best guesses, those first that it takes for the fastest.  @out [N_CANDIDATES]   @n 0: it has none */
static tx_status guess(const tx__gpu_products *p, const product *x, blaslt_algo *out, int *n)
{
    blaslt_heuristic found[N_CANDIDATES];
    void *pref = NULL;
    int n_found = 0;
    *n = 0;
    memset(found, 0, sizeof found);
    LT_TRY(p->call.MatmulPreferenceCreate(&pref));
    int set = set_preference(p, pref, x), status = set;
    if (!set)
        status = p->call.MatmulAlgoGetHeuristic(p->handle, x->desc, x->b, x->a, x->c, x->c, pref, N_CANDIDATES, found,
                                                &n_found);
    p->call.MatmulPreferenceDestroy(pref);
    if (set) return failed(set, "preferences");
    for (int i = 0; i < n_found && !status; i++)
        if (!found[i].state && found[i].workspace_bytes <= WORKSPACE) out[(*n)++] = found[i].algo;
    return TX_OK; /* its status says no more than that there is none */
}

/* A product as it is made once: of which matrices, written where. */
struct making {
    const product *x;
    const tx_gemm_args *a;
    void *to, *workspace;
    bool adds; /* to what is there: the call's accumulate, or a bias that was written before it */
};

static int multiply(const tx__gpu *g, const making *m, const blaslt_algo *algo)
{
    const tx__gpu_products *p = g->products;
    const product *x = m->x;
    const tx_gemm_args *a = m->a;
    float one = 1, beta = m->adds ? 1.0f : 0.0f;
    return p->call.Matmul(p->handle, x->desc, &one, a->b.data, x->b, a->a.data, x->a, &beta,
                          m->adds ? a->c.data : m->to, x->c, m->to, x->c, algo, m->workspace, WORKSPACE,
                          g->stream[TX_STREAM_COMPUTE]);
}

/* ---- which algorithm ---- */

/* Of one run.  @out infinite: it cannot */
static tx_status time_one(const tx__gpu *g, const making *m, const blaslt_algo *algo, float *out)
{
    tx__gpu_products *p = g->products;
    gpuStream_t stream = g->stream[TX_STREAM_COMPUTE];
    *out = INFINITY;
    if (multiply(g, m, algo)) return TX_OK;
    for (int round = 0; round < N_ROUNDS; round++) {
        float ms;
        GPU_TRY(gpuEventRecord(p->begin, stream));
        for (int i = 0; i < N_RUNS; i++)
            if (multiply(g, m, algo)) return TX_OK;
        GPU_TRY(gpuEventRecord(p->end, stream));
        GPU_TRY(gpuEventSynchronize(p->end));
        GPU_TRY(gpuEventElapsedTime(&ms, p->begin, p->end));
        if (ms < *out) *out = ms;
    }
    return TX_OK;
}

/* The quickest; of those that are about as quick the one that the library put first. */
static tx_status time_all(const tx__gpu *g, const making *m, const blaslt_algo *candidate, int n, blaslt_algo *out)
{
    float least = INFINITY;
    for (int i = 0; i < n; i++) {
        float ms;
        TX_TRY(time_one(g, m, &candidate[i], &ms));
        if (!(ms < 0.98f * least)) continue;
        least = ms;
        *out = candidate[i];
    }
    return TX_OK;
}

static tx_status choose(const tx__gpu *g, product *x, const tx_gemm_args *a, void *workspace)
{
    tx__gpu_products *p = g->products;
    blaslt_algo candidate[N_CANDIDATES];
    void *beside = NULL;
    int n;
    TX_TRY(set_bias(p, x, a));
    TX_TRY(guess(p, x, candidate, &n));
    if (!n && x->s.bias && !x->bias_apart) {
        x->bias_apart = true;
        TX_TRY(describe_again(p, x));
        TX_TRY(guess(p, x, candidate, &n));
    }
    if (!n)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s has no way to make a product of %lldx%lldx%lld of %s", p->version,
                       (long long)x->s.m, (long long)x->s.n, (long long)x->s.k, tx_dtype_name(a->a.dtype));
    x->algo = candidate[0];
    x->chosen = true;
    if (n == 1 || !p->timing || gpuCapturing(g->stream[TX_STREAM_COMPUTE])) return TX_OK;
    if (a->accumulate) {
        size_t bytes = (size_t)((x->s.m - 1) * x->s.ldc + x->s.n) * tx_dtype_size(a->c.dtype);
        if (gpuMalloc(&beside, bytes)) { /* no room to try them: the first */
            gpuGetLastError();
            return TX_OK;
        }
    }
    const making m = { x, a, beside ? beside : a->c.data, workspace, a->accumulate };
    tx_status st = time_all(g, &m, candidate, n, &x->algo);
    if (beside) {
        gpuStreamSynchronize(g->stream[TX_STREAM_COMPUTE]);
        gpuFree(beside);
    }
    return st;
}

/* ---- ahead of the run ---- */

static tx_dtype dtype_of(int64_t type)
{
    return type == BLASLT_R_32F ? TX_F32 : type == BLASLT_R_16BF ? TX_BF16 : TX_F16;
}

/* A matrix of `rows` rows, ld apart. */
struct matrix {
    int64_t rows, n, ld, type, align;
};

/* A matrix at the next place of its alignment.   @base NULL: only counted */
static tx_tensor place(unsigned char *base, size_t *used, matrix m)
{
    tx_tensor x = tx_tensor2(NULL, dtype_of(m.type), m.rows, m.n);
    size_t at = (*used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + (size_t)(m.align < 16 ? m.align : 0);
    *used = at + (size_t)(m.rows * m.ld) * tx_dtype_size(x.dtype);
    x.stride[0] = m.ld;
    x.data = base + at;
    return x;
}

/* A product of the shape in memory at base, which takes *used bytes. */
static tx_gemm_args args_of(const shape *s, unsigned char *base, size_t *used)
{
    tx_gemm_args a;
    memset(&a, 0, sizeof a);
    *used = 0;
    a.trans_a = s->trans_a;
    a.trans_b = s->trans_b;
    a.accumulate = s->accumulate;
    a.a = place(base, used, { s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k, s->lda, s->value, s->align_a });
    a.b = place(base, used, { s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, s->ldb, s->value, s->align_b });
    a.c = place(base, used, { s->m, s->n, s->ldc, s->out, s->align_c });
    if (s->bias) a.bias = place(base, used, { 1, s->n, s->n, s->value, s->align_bias });
    return a;
}

static tx_status choose_ahead(tx__gpu *g, product *x)
{
    unsigned char *base = NULL;
    size_t used;
    args_of(&x->s, base, &used);
    size_t matrices = (used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (gpuMalloc((void **)&base, matrices + WORKSPACE)) { /* no room: then when it is made */
        gpuGetLastError();
        return TX_OK;
    }
    tx_gemm_args a = args_of(&x->s, base, &used);
    gpuError_t e = gpuMemsetAsync(base, 0, matrices, g->stream[TX_STREAM_COMPUTE]);
    tx_status st = e ? tx__gpu_error(e, "zeros") : TX_OK;
    if (!st && !x->desc) st = describe(g->products, x);
    if (!st) st = choose(g, x, &a, base + matrices);
    gpuStreamSynchronize(g->stream[TX_STREAM_COMPUTE]);
    gpuFree(base);
    return st;
}

TX_GPU_ROW int tx__gpu_gemm_n_open(const tx_ctx *c)
{
    const tx__gpu_products *p = tx__gpu_of(c)->products;
    int n = 0;
    for (int i = 0; i < p->n; i++) n += !p->all[i].chosen;
    return n;
}

TX_GPU_ROW tx_status tx__gpu_gemm_choose(tx_ctx *c)
{
    tx__gpu *g = tx__gpu_of(c);
    for (int i = 0; i < g->products->n; i++)
        if (!g->products->all[i].chosen) TX_TRY(choose_ahead(g, &g->products->all[i]));
    return TX_OK;
}

/* ---- the row ---- */

template <class C, class B>
__global__ void bias_kernel(C *c, int64_t ld, const B *bias, int64_t m, int64_t n, bool adds)
{
    for (int64_t i = grid_thread(); i < m * n; i += grid_threads()) {
        int64_t row = i / n, j = i - row * n;
        c[row * ld + j] = to<C>((adds ? f32(c[row * ld + j]) : 0) + f32(bias[j]));
    }
}

/* Adds it to C, or writes it there. */
static void put_bias(const tx_ctx *c, const shape *s, const tx_gemm_args *a, bool adds)
{
    GPU_FLOAT(a->c.dtype, C,
              GPU_FLOAT(a->bias.dtype, B,
                        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, s->m * s->n, 256), 256, 0, (bias_kernel<C, B>),
                                   (C *)a->c.data, s->ldc, (const B *)a->bias.data, s->m, s->n, adds)));
}

TX_GPU_ROW size_t tx__gpu_gemm_scratch(const tx_ctx *c, const tx_gemm_args *a)
{
    product *x;
    shape s = shape_of(a);
    if (c->dry) (void)find(tx__gpu_of(c)->products, &s, &x); /* for choose; one that is not noted is chosen later */
    return WORKSPACE + ALIGNMENT;
}

TX_GPU_ROW tx_status tx__gpu_gemm(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    tx__gpu *g = tx__gpu_of(c);
    void *workspace = (void *)(((uintptr_t)scratch + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    product *x;
    TX_TRY(tx__gpu_need_float("gemm", a->a));
    shape s = shape_of(a);
    TX_TRY(find(g->products, &s, &x));
    if (!x->desc) TX_TRY(describe(g->products, x));
    if (!x->chosen) TX_TRY(choose(g, x, a, workspace));
    TX_TRY(set_bias(g->products, x, a));
    /* A sum is rounded once: where C is not fp32 the product is added to the bias. */
    bool apart = s.bias && x->bias_apart, before = apart && s.out != BLASLT_R_32F;
    if (before) put_bias(c, &s, a, false);
    const making m = { x, a, a->c.data, workspace, s.accumulate || before };
    LT_TRY(multiply(g, &m, &x->algo));
    if (apart && !before) put_bias(c, &s, a, true);
    return tx__gpu_launched(c, "gemm");
}

/* ---- choices as text: "gemm", the shape, bias apart or not; the library; the GPU; the algorithm's bytes ---- */

TX_GPU_ROW tx_status tx__gpu_gemm_save(const tx_ctx *c, char **out)
{
    const tx__gpu *g = tx__gpu_of(c);
    const tx__gpu_products *p = g->products;
    const size_t most =
        22 * (SHAPE_NUMBERS + 1) + sizeof p->version + sizeof g->device.name + 2 * sizeof(blaslt_algo) + 16;
    char *text = NULL;
    TX_TRY(tx_alloc(&text, (size_t)p->n * most + 1, 1, "the list of matrix products"));
    char *at = text;
    for (int i = 0; i < p->n; i++) {
        const product *x = &p->all[i];
        const int64_t *number = (const int64_t *)&x->s;
        if (!x->chosen) continue;
        at += sprintf(at, "gemm");
        for (int k = 0; k < SHAPE_NUMBERS; k++) at += sprintf(at, " %lld", (long long)number[k]);
        at += sprintf(at, " %d\t%s\t%s\t", x->bias_apart, p->version, g->device.name);
        for (size_t k = 0; k < sizeof x->algo; k++) at += sprintf(at, "%02x", ((const unsigned char *)&x->algo)[k]);
        *at++ = '\n';
    }
    *at = 0;
    *out = text;
    return TX_OK;
}

/* Whether `word` begins at *at; then *at is behind it. */
static bool skip(const char **at, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n)) return false;
    *at += n;
    return true;
}

/* A number behind a blank. */
static bool read_number(const char **at, int64_t *out)
{
    char *end;
    if (**at != ' ') return false;
    *out = strtoll(*at + 1, &end, 10);
    bool some = end > *at + 1;
    *at = end;
    return some;
}

static bool read_algo(const char **at, blaslt_algo *out)
{
    for (size_t i = 0; i < sizeof *out; i++) {
        unsigned byte = 0;
        for (int k = 0; k < 2; k++) {
            const char *digits = "0123456789abcdef", *digit = **at ? strchr(digits, **at) : NULL;
            if (!digit) return false;
            byte = byte * 16 + (unsigned)(digit - digits);
            ++*at;
        }
        ((unsigned char *)out)[i] = (unsigned char)byte;
    }
    return **at == '\n' || !**at;
}

/* A line, of which the algorithm is only read if it is for this library and GPU.  False: none of ours */
static bool read_line(const tx__gpu *g, const char *line, product *out, bool *ours)
{
    const char *at = line;
    int64_t apart = 0;
    memset(out, 0, sizeof *out);
    if (!skip(&at, "gemm")) return false;
    for (int k = 0; k < SHAPE_NUMBERS; k++)
        if (!read_number(&at, (int64_t *)&out->s + k)) return false;
    if (!read_number(&at, &apart) || *at != '\t') return false;
    out->bias_apart = apart;
    out->chosen = true;
    *ours = skip(&at, "\t") && skip(&at, g->products->version) && skip(&at, "\t") && skip(&at, g->device.name) &&
            skip(&at, "\t");
    return !*ours || read_algo(&at, &out->algo);
}

TX_GPU_ROW tx_status tx__gpu_gemm_load(tx_ctx *c, const char *text, int *n_used, int *n_other)
{
    const tx__gpu *g = tx__gpu_of(c);
    *n_used = *n_other = 0;
    for (int line = 1; *text; line++) {
        product got, *x;
        bool ours;
        if (!read_line(g, text, &got, &ours))
            return TX_FAIL(TX_ERR_FORMAT, "the list of matrix products: line %d is not one of ours", line);
        ++*(ours ? n_used : n_other);
        if (ours) TX_TRY(find(g->products, &got.s, &x));
        if (ours) {
            drop(g->products, x); /* it is described anew, because its bias may now be added otherwise */
            *x = got;
        }
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return TX_OK;
}
