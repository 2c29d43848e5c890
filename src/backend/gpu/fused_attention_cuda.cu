/* fused_attention_cuda.cu - attention by cuDNN: plans kept by shape, and what it needs beside our tensors.
 */
#include "backend/gpu/fused_attention.h"

#include "backend/gpu/fused_attention_case.h"

/* A case that there was, and its plan if there is one. */
typedef struct kept {
    struct kept *next;
    tx__sdpa of;
    tx__sdpa_plan plan;
} kept;

struct tx__gpu_attention {
    bool off, nondeterministic; /* the environment's */
    bool opened;                /* it was tried */
    tx__cudnn *cudnn;           /* NULL: there is none */
    kept *plans;
};

static bool is_set(const char *name, char to)
{
    const char *value = getenv(name);
    return value && *value == to;
}

tx_status tx__gpu_fused_attention_open(tx__gpu *g)
{
    TX_TRY(tx_alloc(&g->attention, 1, sizeof *g->attention, "backend gpu"));
    g->attention->off = is_set("TX_GPU_CUDNN", '0');
    g->attention->nondeterministic = is_set("TX_GPU_CUDNN_NONDETERMINISTIC", '1');
    return TX_OK;
}

void tx__gpu_fused_attention_close(tx__gpu *g)
{
    struct tx__gpu_attention *f = g->attention;
    if (!f) return;
    while (f->plans) {
        kept *k = f->plans;
        f->plans = k->next;
        tx__sdpa_free(f->cudnn, &k->plan);
        tx_free(k);
    }
    tx__cudnn_close(f->cudnn);
    tx_free(f);
    g->attention = NULL;
}

/* ---- plans ---- */

/* cuDNN on this device, opened by the first case there is for it. */
static bool have_cudnn(tx__gpu *g)
{
    struct tx__gpu_attention *f = g->attention;
    char trouble[256];
    if (f->opened) return f->cudnn;
    f->opened = true;
    f->cudnn = tx__cudnn_open(trouble, sizeof trouble);
    if (f->cudnn && !tx__cudnn_on_device(f->cudnn, g->stream[TX_STREAM_COMPUTE], trouble, sizeof trouble)) {
        tx__cudnn_close(f->cudnn);
        f->cudnn = NULL;
    }
    return f->cudnn;
}

/* NULL: cuDNN does not do it. */
static const kept *find(const tx_ctx *ctx, const ask *a)
{
    tx__gpu *g = tx__gpu_of(ctx);
    struct tx__gpu_attention *f = g->attention;
    tx__sdpa c;
    if (f->off || !make_case(a, f->nondeterministic, &c) || !have_cudnn(g)) return NULL;
    /* Up to Hopper; cuDNN's own front end takes other ways to it on later devices. */
    if (c.deterministic && g->major > 9) return NULL;
    for (const kept *k = f->plans; k; k = k->next)
        if (!memcmp(&k->of, &c, sizeof c)) return k->plan.plan ? k : NULL;

    kept *k;
    if (tx_alloc(&k, 1, sizeof *k, "a plan of cuDNN's")) return NULL;
    memcpy(&k->of, &c, sizeof c); /* padding as well */
    k->next = f->plans;
    f->plans = k;
    if (tx__sdpa_make(f->cudnn, &c, &k->plan)) return k;
    tx__sdpa_free(f->cudnn, &k->plan);
    return NULL;
}

/* ---- scratch ---- */

/* Memory that is neither an argument nor cuDNN's workspace lies before that. */
static size_t lay_out(const kept *k, char *scratch, void *at[TX__SDPA_N_ROLES], void **workspace)
{
    size_t rows = (size_t)(k->of.b * k->of.heads * k->of.s) * 4, lengths = (size_t)k->of.b * 4;
    static const int roles[] = { TX__SDPA_N_QUERIES, TX__SDPA_N_KEYS, TX__SDPA_ROW_SUM, TX__SDPA_DQ_SUM };
    size_t bytes[] = { lengths, lengths, rows, rows * (size_t)k->of.d };
    size_t used = (256 - (uintptr_t)scratch % 256) % 256;
    for (int i = 0; i < 4; i++) {
        if (!(k->plan.uses >> roles[i] & 1)) continue;
        at[roles[i]] = scratch + used;
        used += (bytes[i] + 255) / 256 * 256;
    }
    *workspace = scratch + used;
    return used + (size_t)k->plan.workspace;
}

static size_t scratch_of(const tx_ctx *c, const ask *a)
{
    const kept *k = find(c, a);
    void *at[TX__SDPA_N_ROLES], *workspace;
    return k ? lay_out(k, NULL, at, &workspace) + 256 : 0; /* wherever it will begin */
}

size_t tx__gpu_fused_attention_fwd_scratch(const tx_ctx *c, const tx_attention_fwd_args *a)
{
    ask k = ask_fwd(a);
    return scratch_of(c, &k);
}

size_t tx__gpu_fused_attention_bwd_scratch(const tx_ctx *c, const tx_attention_bwd_args *a)
{
    ask k = ask_bwd(a);
    return scratch_of(c, &k);
}

/* ---- runs ---- */

/* cuDNN's lengths, of n samples of its own, of which `each` are one of ours: all queries count, those that pad as well.
 */
__global__ void lengths_kernel(int32_t *n_queries, int32_t *n_keys, const int32_t *given, int64_t n, int64_t each,
                               int32_t s, tx__fault *fault)
{
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        int32_t keys = given ? given[i / each] : s;
        if (keys < 1 || keys > s) {
            tx__gpu_fault(fault, TX__FAULT_KEYS, i / each, keys, s + 1);
            keys = keys < 1 ? 1 : s;
        }
        n_queries[i] = s;
        n_keys[i] = keys;
    }
}

/* The gradients of keys and values that pad are 0, whether or not cuDNN writes them.  @n_keys cuDNN's */
typedef struct pads {
    uint16_t *dk, *dv;
    int64_t dk_stride[3], dv_stride[3]; /* of positions, samples, groups */
    const int32_t *n_keys;
    int64_t s, b, groups, packs, each;
} pads;

__global__ void zero_pads_kernel(pads a)
{
    const pack<uint16_t, 8> zero = {};
    int64_t n = a.s * a.b * a.groups * a.packs;
    for (int64_t i = grid_thread(); i < n; i += grid_threads()) {
        int64_t at = i % a.packs * 8, row = i / a.packs, g = row % a.groups, b = row / a.groups % a.b,
                j = row / a.groups / a.b;
        if (j < a.n_keys[b * a.each]) continue;
        store_pack(a.dk + j * a.dk_stride[0] + b * a.dk_stride[1] + g * a.dk_stride[2] + at, zero);
        store_pack(a.dv + j * a.dv_stride[0] + b * a.dv_stride[1] + g * a.dv_stride[2] + at, zero);
    }
}

static void zero_pads(const tx_ctx *c, const ask *a, const int32_t *n_keys, int64_t each)
{
    const tx_tensor *dk = &a->x[TX__SDPA_DK], *dv = &a->x[TX__SDPA_DV];
    pads p = { (uint16_t *)dk->data,
               (uint16_t *)dv->data,
               { dk->stride[0], dk->stride[1], dk->stride[2] },
               { dv->stride[0], dv->stride[1], dv->stride[2] },
               n_keys,
               dk->dim[0],
               dk->dim[1],
               dk->dim[2],
               dk->dim[3] / 8,
               each };
    GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, p.s * p.b * p.groups * p.packs, 256), 256, 0, zero_pads_kernel, p);
}

static tx_status run(tx_ctx *c, const ask *a, double scale, void *scratch, bool *done)
{
    const kept *k = find(c, a);
    *done = k;
    if (!k) return TX_OK;
    void *at[TX__SDPA_N_ROLES] = {}, *workspace;
    lay_out(k, (char *)scratch, at, &workspace);
    for (int i = 0; i < n_values(a); i++) at[i] = a->x[i].data;
    at[TX__SDPA_LSE] = a->lse.data;

    int64_t each = k->of.b / a->x[TX__SDPA_Q].dim[1];
    int32_t *n_keys = (int32_t *)at[TX__SDPA_N_KEYS];
    if (k->of.padded)
        GPU_LAUNCH(tx__gpu_compute(c), tx__gpu_blocks(c, k->of.b, 256), 256, 0, lengths_kernel,
                   (int32_t *)at[TX__SDPA_N_QUERIES], n_keys, (const int32_t *)a->n_keys.data, k->of.b, each,
                   (int32_t)k->of.s, tx__gpu_of(c)->fault);
    char trouble[256];
    if (!tx__sdpa_run(tx__gpu_of(c)->attention->cudnn, &k->plan, (float)scale, at, workspace, trouble, sizeof trouble))
        return TX_FAIL(TX_ERR_DEVICE, "cuDNN's attention failed: %s (TX_GPU_CUDNN=0 does without it)", trouble);
    if (a->backward && a->n_keys.data) zero_pads(c, a, n_keys, each);
    return tx__gpu_launched(c, a->backward ? "attention_bwd" : "attention_fwd");
}

tx_status tx__gpu_fused_attention_fwd(tx_ctx *c, const tx_attention_fwd_args *a, void *scratch, bool *done)
{
    ask k = ask_fwd(a);
    return run(c, &k, a->scale, scratch, done);
}

tx_status tx__gpu_fused_attention_bwd(tx_ctx *c, const tx_attention_bwd_args *a, void *scratch, bool *done)
{
    ask k = ask_bwd(a);
    return run(c, &k, a->scale, scratch, done);
}
