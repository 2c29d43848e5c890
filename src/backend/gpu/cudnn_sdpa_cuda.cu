/* cudnn_sdpa_cuda.cu - cuDNN's attention, by its C interface: a graph of plain operations (products, masks, a
 * softmax), in which cuDNN recognizes its fused kernels. That takes the operations that it expects, in the order in
 * which it expects them; tests/backend/test_cudnn_sdpa_plans.sh sees whether it still does.
 *
 *  Of the header only types are used. Without it, or without the library, there is no fused attention. */
#include "backend/gpu/cudnn_sdpa.h"

#include <stdio.h>

#if __has_include(<cudnn_graph.h>)

#include <cudnn_graph.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

// clang-format off
#define FUNCTIONS(F)                                                                                              \
    F(Create) F(Destroy) F(SetStream) F(GetVersion) F(GetErrorString) F(GetLastErrorString)                       \
    F(BackendCreateDescriptor) F(BackendDestroyDescriptor) F(BackendSetAttribute) F(BackendGetAttribute)          \
    F(BackendFinalize) F(BackendExecute)
// clang-format on

typedef cudnnBackendDescriptor_t part; /* a tensor, an operation, a graph, a plan, ... */

struct tx__cudnn {
    void *library;
    cudnnHandle_t handle; /* of a device */
    part described;       /* instead of it */
#define F(name) decltype(&cudnn##name) name;
    FUNCTIONS(F)
#undef F
};

/* Of 9.0 to 9.9 padding needs graphs of its own. */
enum { OLDEST = 91000, NEXT_MAJOR = 100000 };

void tx__cudnn_close(tx__cudnn *l)
{
    if (!l) return;
    if (l->described) l->BackendDestroyDescriptor(l->described);
    if (l->handle) l->Destroy(l->handle);
    free(l); /* the library stays: others are loaded by it */
}

static tx__cudnn *refuse(tx__cudnn *l)
{
    tx__cudnn_close(l);
    return NULL;
}

tx__cudnn *tx__cudnn_open(char *trouble, size_t cap)
{
    tx__cudnn *l = (tx__cudnn *)calloc(1, sizeof *l);
    if (!l) {
        snprintf(trouble, cap, "out of memory");
        return NULL;
    }
    l->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!l->library) {
        snprintf(trouble, cap, "%s", dlerror());
        return refuse(l);
    }
#define F(name)                                                                 \
    l->name = (decltype(&cudnn##name))dlsym(l->library, "cudnn" #name);         \
    if (!l->name) {                                                             \
        snprintf(trouble, cap, "libcudnn.so.9 has no function cudnn%s", #name); \
        return refuse(l);                                                       \
    }
    FUNCTIONS(F)
#undef F
    if (l->GetVersion() < OLDEST || l->GetVersion() >= NEXT_MAJOR) {
        char version[32];
        tx__cudnn_version(l, version, sizeof version);
        snprintf(trouble, cap, "libcudnn.so.9 is version %s: 9.10 or a later 9 is needed", version);
        return refuse(l);
    }
    return l;
}

void tx__cudnn_version(const tx__cudnn *l, char *out, size_t cap)
{
    size_t v = l->GetVersion();
    snprintf(out, cap, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

/* cuDNN's words for what went wrong last. */
static bool tell(const tx__cudnn *l, cudnnStatus_t st, char *trouble, size_t cap)
{
    char words[200] = "";
    l->GetLastErrorString(words, sizeof words);
    snprintf(trouble, cap, "%s%s%s", l->GetErrorString(st), *words ? ": " : "", words);
    for (char *p = trouble; *p; p++)
        if (*p == '\n') *p = ' ';
    return false;
}

bool tx__cudnn_on_device(tx__cudnn *l, void *stream, char *trouble, size_t cap)
{
    cudnnStatus_t st = l->Create(&l->handle);
    if (!st) st = l->SetStream(l->handle, (cudaStream_t)stream);
    return st ? tell(l, st, trouble, cap) : true;
}

bool tx__cudnn_on_description(tx__cudnn *l, const char *json, char *trouble, size_t cap)
{
    cudnnStatus_t st = l->BackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &l->described);
    if (!st)
        st = l->BackendSetAttribute(l->described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                    (int64_t)strlen(json), json);
    if (!st) st = l->BackendFinalize(l->described);
    return st ? tell(l, st, trouble, cap) : true;
}

/* ---- parts of a graph: after the first that cannot be made the others are not tried ---- */

struct graph {
    tx__cudnn *l;
    const tx__sdpa *c;
    tx__sdpa_plan *out; /* owns the parts */
    part ops[40];
    int n_ops;
    int64_t n_inner; /* tensors without memory, so far */
    cudnnDataType_t value;
    part masked; /* -inf, once it is needed */
    bool bad;
};

static void check(graph *g, cudnnStatus_t st)
{
    if (!st || g->bad) return;
    g->bad = true;
    tell(g->l, st, g->out->trouble, sizeof g->out->trouble);
}

static part make(graph *g, cudnnBackendDescriptorType_t type)
{
    part p = NULL;
    if (g->bad) return p;
    if (g->out->n_parts == (int)(sizeof g->out->parts / sizeof *g->out->parts)) {
        g->bad = true;
        snprintf(g->out->trouble, sizeof g->out->trouble, "a graph of too many parts");
        return p;
    }
    check(g, g->l->BackendCreateDescriptor(type, &p));
    g->out->parts[g->out->n_parts++] = p;
    return p;
}

static void set(graph *g, part p, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                const void *value)
{
    if (!g->bad) check(g, g->l->BackendSetAttribute(p, name, type, n, value));
}

static void set_part(graph *g, part p, cudnnBackendAttributeName_t name, part value)
{
    set(g, p, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(graph *g, part p)
{
    if (!g->bad) check(g, g->l->BackendFinalize(p));
}

/* ---- tensors ---- */

enum kind { MEMORY, INNER, NUMBER };

static part tensor(graph *g, kind k, int64_t id, cudnnDataType_t type, const int64_t dim[4], const int64_t stride[4])
{
    part t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t alignment = 16;
    bool yes = true;
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (k == INNER) set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (k == NUMBER) set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finish(g, t);
    return t;
}

static int64_t id_of(graph *g, tx__sdpa_role r)
{
    g->out->uses |= 1u << r;
    return 1 + r;
}

static int64_t inner_id(graph *g)
{
    return 1 + TX__SDPA_N_ROLES + g->n_inner++;
}

static part contiguous(graph *g, kind k, int64_t id, cudnnDataType_t type, int64_t b, int64_t h, int64_t m, int64_t n)
{
    int64_t dim[4] = { b, h, m, n }, stride[4] = { h * m * n, m * n, n, 1 };
    return tensor(g, k, id, type, dim, stride);
}

/* Values in the caller's memory, [s, d] or as [d, s]. */
static part view(graph *g, tx__sdpa_role r, bool transposed, kind k, int64_t id)
{
    const tx__sdpa *c = g->c;
    const int64_t *s = c->stride[r];
    bool of_keys = r == TX__SDPA_K || r == TX__SDPA_V || r == TX__SDPA_DK || r == TX__SDPA_DV;
    int64_t h = of_keys ? c->key_heads : c->heads, dim[4] = { c->b, h, c->s, c->d },
            stride[4] = { s[0], s[1], s[2], 1 }, dim_t[4] = { c->b, h, c->d, c->s },
            stride_t[4] = { s[0], s[1], 1, s[2] };
    return transposed ? tensor(g, k, id, g->value, dim_t, stride_t) : tensor(g, k, id, g->value, dim, stride);
}

static part values(graph *g, tx__sdpa_role r)
{
    return view(g, r, false, MEMORY, id_of(g, r));
}
static part transposed(graph *g, tx__sdpa_role r)
{
    return view(g, r, true, MEMORY, id_of(g, r));
}

static part number(graph *g, tx__sdpa_role r)
{
    return contiguous(g, NUMBER, id_of(g, r), CUDNN_DATA_FLOAT, 1, 1, 1, 1);
}

static part lengths(graph *g, tx__sdpa_role r)
{
    return g->c->padded ? contiguous(g, MEMORY, id_of(g, r), CUDNN_DATA_INT32, g->c->b, 1, 1, 1) : NULL;
}

static part rows(graph *g, tx__sdpa_role r) /* [b, heads, s, 1] */
{
    return contiguous(g, MEMORY, id_of(g, r), CUDNN_DATA_FLOAT, g->c->b, g->c->heads, g->c->s, 1);
}
static part inner_rows(graph *g)
{
    return contiguous(g, INNER, inner_id(g), CUDNN_DATA_FLOAT, g->c->b, g->c->heads, g->c->s, 1);
}

static part scores(graph *g, cudnnDataType_t type) /* [b, heads, s, s] */
{
    return contiguous(g, INNER, inner_id(g), type, g->c->b, g->c->heads, g->c->s, g->c->s);
}
static part scores(graph *g)
{
    return scores(g, CUDNN_DATA_FLOAT);
}

/* ---- operations, each of which gives what it was told to write ---- */

static part add_op(graph *g, part op, part y)
{
    finish(g, op);
    if (!g->bad) g->ops[g->n_ops++] = op;
    return y;
}

/* y = a b, of which only m rows, n columns and k terms of the sums count, where these are given. */
static part matmul(graph *g, part a, part b, part y, part m, part n, part k)
{
    part how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR), op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    cudnnDataType_t f = CUDNN_DATA_FLOAT;
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f);
    finish(g, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    if (m) set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, m);
    if (n) set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, n);
    if (k) set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, k);
    return add_op(g, op, y);
}

/* y = mode(x, b, t) element by element, computed as `type`; an axis of -1 is none. */
static part pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type, int64_t axis, part x, part b, part t,
                      part y)
{
    part how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0) set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(g, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t) set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return add_op(g, op, y);
}

static part apply(graph *g, cudnnPointwiseMode_t mode, part x, part b, part y)
{
    return pointwise(g, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, y);
}

static part reduce(graph *g, cudnnReduceTensorOp_t by, part x, part y)
{
    part how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR), op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    cudnnDataType_t f = CUDNN_DATA_FLOAT;
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f);
    finish(g, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    return add_op(g, op, y);
}

static part reshape(graph *g, part x, part y)
{
    part op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return add_op(g, op, y);
}

/* The number of each element's row (axis 2) or column (axis 3). */
static part places(graph *g, part s, int64_t axis)
{
    return pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, s, NULL, NULL, scores(g, CUDNN_DATA_INT32));
}

static part logical(graph *g, cudnnPointwiseMode_t mode, part a, part b)
{
    return pointwise(g, mode, CUDNN_DATA_BOOLEAN, -1, a, b, NULL, scores(g, CUDNN_DATA_BOOLEAN));
}

static part where(graph *g, part seen, part s)
{
    if (!g->masked) g->masked = number(g, TX__SDPA_MASKED);
    return pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, s, g->masked, seen, scores(g));
}

static part mask_causal(graph *g, part s)
{
    part row = places(g, s, 2), column = places(g, s, 3);
    return where(g, logical(g, CUDNN_POINTWISE_CMP_GE, row, column), s);
}

static part mask_padding(graph *g, part s, part n_queries, part n_keys)
{
    part row = places(g, s, 2), column = places(g, s, 3), in_rows = logical(g, CUDNN_POINTWISE_CMP_LT, row, n_queries),
         in_columns = logical(g, CUDNN_POINTWISE_CMP_LT, column, n_keys);
    return where(g, logical(g, CUDNN_POINTWISE_LOGICAL_AND, in_rows, in_columns), s);
}

/* ---- the graphs ---- */

/* o = softmax(scale q kᵀ, masked) v, and log Σ exp of its rows. */
static void forward(graph *g)
{
    const tx__sdpa *c = g->c;
    part nq = lengths(g, TX__SDPA_N_QUERIES), nk = lengths(g, TX__SDPA_N_KEYS);
    part s = matmul(g, values(g, TX__SDPA_Q), transposed(g, TX__SDPA_K), scores(g), nq, nk, NULL);
    s = apply(g, CUDNN_POINTWISE_MUL, s, number(g, TX__SDPA_SCALE), scores(g));
    if (c->padded) s = mask_padding(g, s, nq, nk);
    if (c->causal) s = mask_causal(g, s);

    part most = reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, inner_rows(g));
    part above = apply(g, CUDNN_POINTWISE_SUB, s, most, scores(g));
    part e = apply(g, CUDNN_POINTWISE_EXP, above, NULL, scores(g));
    part sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, inner_rows(g));
    part log_sum = apply(g, CUDNN_POINTWISE_LOG, sum, NULL, inner_rows(g));
    apply(g, CUDNN_POINTWISE_ADD, most, log_sum, rows(g, TX__SDPA_LSE));
    part p = apply(g, CUDNN_POINTWISE_DIV, e, sum, scores(g, g->value));
    matmul(g, p, values(g, TX__SDPA_V), values(g, TX__SDPA_O), nq, NULL, nk);
}

/* scoresᵀ, rounded to values. */
static part turned(graph *g, part s)
{
    const tx__sdpa *c = g->c;
    int64_t n = c->s, dim[4] = { c->b, c->heads, n, n }, stride[4] = { c->heads * n * n, n * n, 1, n };
    return reshape(g, s, tensor(g, INNER, inner_id(g), g->value, dim, stride));
}

/* dk or dv = pᵀ x: of grouped queries the sum over a group's heads. */
static void key_gradient(graph *g, tx__sdpa_role dy, part p, part x, part nq, part nk)
{
    const tx__sdpa *c = g->c;
    part pt = turned(g, p);
    if (c->heads == c->key_heads) {
        matmul(g, pt, x, values(g, dy), nk, NULL, nq);
        return;
    }
    part each = contiguous(g, INNER, inner_id(g), g->value, c->b, c->heads, c->s, c->d);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, matmul(g, pt, x, each, nk, NULL, nq), values(g, dy));
}

/* ops.h has the formulas. Deterministic is what writes dq at once, by way of a workspace of dS's size; the other adds
 * up parts of dq in whichever order they come. */
static void backward(graph *g)
{
    const tx__sdpa *c = g->c;
    part nq = lengths(g, TX__SDPA_N_QUERIES), nk = lengths(g, TX__SDPA_N_KEYS), scale = number(g, TX__SDPA_SCALE);
    part q = values(g, TX__SDPA_Q), kt = transposed(g, TX__SDPA_K), d_o = values(g, TX__SDPA_DO);

    /* D = Σ_d do o */
    int64_t dim[4] = { c->b, c->heads, c->s, c->d },
            stride[4] = { c->heads * c->s * c->d, c->s * c->d, c->heads * c->d, 1 };
    part product = tensor(g, INNER, inner_id(g), CUDNN_DATA_FLOAT, dim, stride);
    apply(g, CUDNN_POINTWISE_MUL, d_o, values(g, TX__SDPA_O), product);
    part d = reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, inner_rows(g));
    d = apply(g, CUDNN_POINTWISE_MUL, d, number(g, TX__SDPA_ONE), rows(g, TX__SDPA_ROW_SUM));

    /* p = exp(scale q kᵀ - lse), dv = pᵀ do */
    part s = matmul(g, q, kt, scores(g), nq, nk, NULL);
    s = apply(g, CUDNN_POINTWISE_MUL, s, scale, scores(g));
    if (c->padded) s = mask_padding(g, s, nq, nk);
    s = apply(g, CUDNN_POINTWISE_SUB, s, rows(g, TX__SDPA_LSE), scores(g));
    if (c->causal) s = mask_causal(g, s);
    part p = apply(g, CUDNN_POINTWISE_EXP, s, NULL, scores(g));
    key_gradient(g, TX__SDPA_DV, p, d_o, nq, nk);

    /* dS = p (do vᵀ - D) scale, dk = dSᵀ q */
    part ds = matmul(g, d_o, transposed(g, TX__SDPA_V), scores(g), nq, nk, NULL);
    ds = apply(g, CUDNN_POINTWISE_SUB, ds, d, scores(g));
    ds = apply(g, CUDNN_POINTWISE_MUL, ds, p, scores(g));
    ds = apply(g, CUDNN_POINTWISE_MUL, ds, scale, scores(g));
    key_gradient(g, TX__SDPA_DK, ds, q, nq, nk);

    /* dq = dS k */
    part k = reshape(g, kt, view(g, TX__SDPA_K, false, INNER, inner_id(g)));
    if (c->deterministic) {
        matmul(g, ds, k, values(g, TX__SDPA_DQ), nq, NULL, nk);
        return;
    }
    part sum = contiguous(g, MEMORY, id_of(g, TX__SDPA_DQ_SUM), CUDNN_DATA_FLOAT, c->b, c->heads, c->s, c->d);
    matmul(g, ds, k, sum, nq, NULL, nk);
    apply(g, CUDNN_POINTWISE_IDENTITY, sum, NULL, values(g, TX__SDPA_DQ));
}

/* ---- plans ---- */

static part operation_graph(graph *g)
{
    part p = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, p, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops, g->ops);
    if (g->l->handle) set(g, p, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->l->handle);
    finish(g, p);
    return p;
}

/* cuDNN's proposals, the best first. */
static const int64_t most_proposals = 8;
static int64_t propose(graph *g, part ops, part out[most_proposals])
{
    part h = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    set_part(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, ops);
    set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (g->l->described) set_part(g, h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, g->l->described);
    finish(g, h);
    for (int i = 0; i < most_proposals; i++) out[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!g->bad)
        check(g, g->l->BackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                           most_proposals, &n, out));
    return g->bad ? 0 : n < most_proposals ? n : most_proposals;
}

/* A proposal made ready to run: compiled. What goes wrong here is only this proposal's trouble. */
static bool accept(graph *g, part proposal)
{
    const tx__sdpa *c = g->c;
    tx__sdpa_plan *out = g->out;
    int64_t n, bytes = 0;
    part p = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_part(g, p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal);
    if (g->l->handle) set(g, p, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->l->handle);
    finish(g, p);
    if (!g->bad)
        check(g,
              g->l->BackendGetAttribute(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes));
    if (g->bad) {
        g->bad = false;
        return false;
    }
    if (bytes > c->most_workspace) {
        snprintf(out->trouble, sizeof out->trouble, "its workspace would be %.1f GiB", (double)bytes / (1 << 30));
        return false;
    }
    /* Engines do not tell whether they add in a fixed order; those that keep dS do. */
    if (c->deterministic && bytes < 2 * c->b * c->heads * c->s * c->s) {
        snprintf(out->trouble, sizeof out->trouble, "its backward does not keep dS, so it may not be deterministic");
        return false;
    }
    out->workspace = bytes;
    out->plan = p;
    return true;
}

bool tx__sdpa_make(tx__cudnn *l, const tx__sdpa *c, tx__sdpa_plan *out)
{
    memset(out, 0, sizeof *out);
    graph g = {};
    g.l = l;
    g.c = c;
    g.out = out;
    g.value = c->bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    (c->backward ? backward : forward)(&g);
    part proposals[most_proposals];
    int64_t n = propose(&g, operation_graph(&g), proposals);
    if (!g.bad && !n) snprintf(out->trouble, sizeof out->trouble, "cuDNN has no engine for it");
    for (int64_t i = 0; i < n; i++)
        if (accept(&g, proposals[i])) return true;
    return false;
}

void tx__sdpa_free(tx__cudnn *l, tx__sdpa_plan *p)
{
    while (p->n_parts)
        if (p->parts[--p->n_parts]) l->BackendDestroyDescriptor((part)p->parts[p->n_parts]);
    p->plan = NULL;
}

bool tx__sdpa_run(tx__cudnn *l, const tx__sdpa_plan *p, float scale, void *const at[TX__SDPA_N_ROLES], void *workspace,
                  char *trouble, size_t cap)
{
    float masked = -INFINITY, one = 1;
    int64_t id[TX__SDPA_N_ROLES];
    const void *data[TX__SDPA_N_ROLES];
    int64_t n = 0;
    for (int r = 0; r < TX__SDPA_N_ROLES; r++) {
        if (!(p->uses >> r & 1)) continue;
        data[n] = r == TX__SDPA_SCALE ? &scale : r == TX__SDPA_MASKED ? &masked : r == TX__SDPA_ONE ? &one : at[r];
        id[n++] = 1 + r;
    }
    part pack = NULL;
    cudnnStatus_t st = l->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (!st) st = l->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, id);
    if (!st) st = l->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, data);
    if (!st) st = l->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!st) st = l->BackendFinalize(pack);
    if (!st) st = l->BackendExecute(l->handle, (part)p->plan, pack);
    if (st) tell(l, st, trouble, cap);
    if (pack) l->BackendDestroyDescriptor(pack);
    return !st;
}

#else

tx__cudnn *tx__cudnn_open(char *trouble, size_t cap)
{
    snprintf(trouble, cap, "this triax was built without cuDNN's headers");
    return NULL;
}

/* Nothing to do without what the first gives. */
// clang-format off
void tx__cudnn_close(tx__cudnn *) {}
void tx__cudnn_version(const tx__cudnn *, char *, size_t) {}
bool tx__cudnn_on_device(tx__cudnn *, void *, char *, size_t) { return false; }
bool tx__cudnn_on_description(tx__cudnn *, const char *, char *, size_t) { return false; }
bool tx__sdpa_make(tx__cudnn *, const tx__sdpa *, tx__sdpa_plan *) { return false; }
void tx__sdpa_free(tx__cudnn *, tx__sdpa_plan *) {}
bool tx__sdpa_run(tx__cudnn *, const tx__sdpa_plan *, float, void *const *, void *, char *, size_t) { return false; }
// clang-format on

#endif
