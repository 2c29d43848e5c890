/* module.cu - the module's one symbol, its backend, and what stands in it for functions of the program's. */
#include "backend/gpu/fused_attention.h"
#include "backend/gpu/gpu.h"

#include <stdarg.h>

const tx_gpu_host *tx__gpu_host;

/* ---- functions of base/, by way of the program: its error sentence and its heap are the only ones ---- */

extern "C" {

tx_status tx__fail(tx_status code, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tx__gpu_host->fail(code, text);
}

void tx__assert_failed(const char *cond, const char *file, int line)
{
    fprintf(stderr, "triax: bug at %s:%d: %s\n", file, line, cond);
    abort();
}

tx_status tx_alloc(void *out, size_t n, size_t size, const char *what)
{
    return tx__gpu_host->alloc(out, n, size, what);
}

tx_status tx_realloc(void *inout, size_t n, size_t size, const char *what)
{
    return tx__gpu_host->realloc(inout, n, size, what);
}

void tx_free(void *p)
{
    tx__gpu_host->free(p);
}
}

/* ---- the backend ---- */

tx_status tx__gpu_error(gpuError_t e, const char *what)
{
    if (e == gpuErrorMemoryAllocation) return TX_FAIL(TX_ERR_NOMEM, "the GPU has not enough memory");
    return TX_FAIL(TX_ERR_DEVICE, "the GPU failed: %s (%s)", gpuGetErrorString(e), what);
}

tx_status tx__gpu_launched(const tx_ctx *c, const char *op)
{
    gpuError_t e = gpuGetLastError();
    if (e) return tx__gpu_error(e, op);
    if (!tx__gpu_of(c)->blocking) return TX_OK;
    return c->device->call->sync(c->device, TX_STREAM_COMPUTE);
}

tx_status tx__gpu_need_float(const char *op, tx_tensor x)
{
    if (!x.data || x.dtype == TX_F32 || x.dtype == TX_BF16 || x.dtype == TX_F16) return TX_OK;
    return TX_FAIL(TX_ERR_UNSUPPORTED, "%s: backend gpu takes fp32, bf16 and fp16, not %s", op, tx_dtype_name(x.dtype));
}

static const char *describe(void)
{
    static thread_local char line[256];
    tx_gpu_info info[TX_GPU_MAX];
    int n = 0;
    if (tx__gpu_list(info, &n))
        snprintf(line, sizeof line, "%s", tx__gpu_host->last_error());
    else
        snprintf(line, sizeof line, "%d x %s (%s), %.0f GiB", n, info[0].name, info[0].arch,
                 (double)info[0].memory / (1 << 30));
    return line;
}

static void close_gpu(tx_ctx *c)
{
    tx__gpu *g = (tx__gpu *)c->backend_state;
    if (!g) return;
    tx__gpu_fused_attention_close(g);
    tx__gpu_gemm_close(g);
    tx__gpu_device_close(g);
    tx_free(g);
    c->backend_state = NULL;
    c->device = NULL;
}

static tx_status open_gpu(tx_ctx *c)
{
    tx_status st;
    TX_TRY(tx_alloc(&c->backend_state, 1, sizeof(tx__gpu), "backend gpu"));
    tx__gpu *g = (tx__gpu *)c->backend_state;
    const char *blocking = getenv("TX_GPU_BLOCKING"), *graphs = getenv("TX_GPU_GRAPHS");
    g->blocking = blocking && *blocking == '1';
    g->keeps_graphs = !g->blocking && !(graphs && *graphs == '0');
    c->device = &g->device;
    TX_GOTO(tx__gpu_device_open(g, c->device_number));
    TX_GOTO(tx__gpu_gemm_open(g));
    TX_GOTO(tx__gpu_fused_attention_open(g));
out:
    if (st) close_gpu(c);
    return st;
}

static void fill_ops(tx_ops *ops)
{
#define ROW(op) ops->op.run = tx__gpu_##op;
#include "backend/gpu/rows.def"
#define OP(op, outputs, cost, scratch) scratch
#define GPU_SCRATCH(op)                ops->op.scratch = tx__gpu_##op##_scratch;
#include "backend/ops.def"
}

extern "C" __attribute__((visibility("default"))) const tx_gpu_module *tx_gpu_module_open(const tx_gpu_host *host)
{
    static tx_gpu_module module;
    if (host->size != sizeof *host || host->ctx_size != sizeof(tx_ctx) || host->ops_size != sizeof(tx_ops) ||
        host->tensor_size != sizeof(tx_tensor) || host->backend_size != sizeof(tx_backend) ||
        strcmp(host->version, TX_VERSION) != 0)
        return NULL;
    tx__gpu_host = host;
    module.size = sizeof module;
    module.kind = TX_GPU_KIND;
    module.backend.name = "gpu";
    module.backend.describe = describe;
    module.backend.open = open_gpu;
    module.backend.close = close_gpu;
    module.backend.fill_ops = fill_ops;
    module.list = tx__gpu_list;
    module.libraries = tx__gpu_libraries;
    module.n_open_choices = tx__gpu_gemm_n_open;
    module.choose = tx__gpu_gemm_choose;
    module.load_choices = tx__gpu_gemm_load;
    module.save_choices = tx__gpu_gemm_save;
    module.collectives = &tx__gpu_collectives;
    return &module;
}
