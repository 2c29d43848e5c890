/* device.cu - tx_device on the runtime: memory, streams, events, and the fault that kernels leave. */
#include "backend/gpu/gpu.h"

void tx__gpu_use(const tx__gpu *g)
{
    static thread_local int current = -1;
    if (current == g->device.number) return;
    current = g->device.number;
    gpuSetDevice(current); /* whether that goes shows in what is called next */
}

static tx__gpu *of(tx_device *d)
{
    tx__gpu *g = (tx__gpu *)d;
    tx__gpu_use(g);
    return g;
}

/* ---- the blocks that are taken, few and large ---- */

static tx_status make_room(tx__gpu *g)
{
    if (g->n_blocks < g->max_blocks) return TX_OK;
    int n = g->max_blocks ? 2 * g->max_blocks : 32;
    TX_TRY(tx_realloc(&g->block, (size_t)n, sizeof *g->block, "the list of a GPU's memory"));
    g->max_blocks = n;
    return TX_OK;
}

static bool owns(const tx_device *d, const void *p)
{
    const tx__gpu *g = (const tx__gpu *)d;
    uintptr_t at = (uintptr_t)p;
    for (int i = 0; i < g->n_blocks; i++)
        if (at - (uintptr_t)g->block[i].base < g->block[i].bytes) return true;
    return false;
}

static tx_status take(tx_device *d, void **out, size_t bytes)
{
    tx__gpu *g = of(d);
    TX_TRY(make_room(g));
    GPU_TRY(gpuMalloc(out, bytes));
    g->block[g->n_blocks].base = (const unsigned char *)*out;
    g->block[g->n_blocks++].bytes = bytes;
    GPU_TRY(gpuMemsetAsync(*out, 0, bytes, g->stream[TX_STREAM_COMPUTE]));
    GPU_TRY(gpuStreamSynchronize(g->stream[TX_STREAM_COMPUTE]));
    return TX_OK;
}

static void give(tx_device *d, void *p)
{
    tx__gpu *g = of(d);
    for (int s = 0; s < TX_N_STREAMS; s++) gpuStreamSynchronize(g->stream[s]);
    gpuFree(p);
    for (int i = 0; i < g->n_blocks; i++)
        if (g->block[i].base == p) g->block[i] = g->block[--g->n_blocks];
}

static tx_status take_host(tx_device *d, void **out, size_t bytes)
{
    of(d);
    gpuError_t e = gpuHostAlloc(out, bytes);
    if (e == gpuErrorMemoryAllocation)
        return TX_FAIL(TX_ERR_NOMEM, "not enough memory for %zu bytes that the GPU reaches", bytes);
    if (e) return tx__gpu_error(e, "memory of the host's");
    memset(*out, 0, bytes);
    return TX_OK;
}

static void give_host(tx_device *d, void *p)
{
    for (int s = 0; s < TX_N_STREAMS; s++) gpuStreamSynchronize(of(d)->stream[s]);
    gpuFreeHost(p);
}

static tx_status copy(tx_device *d, tx_stream s, void *to, const void *from, size_t bytes)
{
    GPU_TRY(gpuMemcpyAsync(to, from, bytes, of(d)->stream[s]));
    return TX_OK;
}

static tx_status tell_fault(const tx__fault *f)
{
    static const char *const what[TX__N_FAULTS] = {
        "", "token id", "token type", "position", "label", "number of keys", "number of choices that are not dropped"
    };
    return TX_FAIL(TX_ERR_ARG, "%s %lld at place %lld: it has to be below %lld and not negative", what[f->kind],
                   f->value, f->index, f->limit);
}

static tx_status sync(tx_device *d, tx_stream s)
{
    tx__gpu *g = of(d);
    if (s == TX_STREAM_COMPUTE) GPU_TRY(gpuMemcpyAsync(g->seen, g->fault, sizeof *g->seen, g->stream[s]));
    GPU_TRY(gpuStreamSynchronize(g->stream[s]));
    if (!g->seen->kind) return TX_OK;
    tx__fault f = *g->seen;
    memset(g->seen, 0, sizeof *g->seen);
    GPU_TRY(gpuMemsetAsync(g->fault, 0, sizeof *g->fault, g->stream[TX_STREAM_COMPUTE]));
    return tell_fault(&f);
}

static tx_status event_make(tx_device *d, tx_event **out)
{
    of(d);
    gpuEvent_t e;
    GPU_TRY(gpuEventCreate(&e));
    *out = (tx_event *)e;
    return TX_OK;
}

static void event_free(tx_device *d, tx_event *e)
{
    (void)d;
    gpuEventDestroy((gpuEvent_t)e);
}

static tx_status record(tx_device *d, tx_event *e, tx_stream s)
{
    GPU_TRY(gpuEventRecord((gpuEvent_t)e, of(d)->stream[s]));
    return TX_OK;
}

static tx_status stream_wait(tx_device *d, tx_stream s, tx_event *e)
{
    GPU_TRY(gpuStreamWaitEvent(of(d)->stream[s], (gpuEvent_t)e));
    return TX_OK;
}

static tx_status event_wait(tx_device *d, tx_event *e)
{
    (void)d;
    GPU_TRY(gpuEventSynchronize((gpuEvent_t)e));
    return TX_OK;
}

static tx_status event_done(tx_device *d, tx_event *e, bool *done)
{
    (void)d;
    gpuError_t st = gpuEventQuery((gpuEvent_t)e);
    *done = st == gpuSuccess;
    if (st == gpuErrorNotReady) {
        gpuGetLastError(); /* it is no error of the next launch's */
        return TX_OK;
    }
    GPU_TRY(st);
    return TX_OK;
}

static tx_status memory(tx_device *d, size_t *free_bytes, size_t *all_bytes)
{
    of(d);
    GPU_TRY(gpuMemGetInfo(free_bytes, all_bytes));
    return TX_OK;
}

/* ---- graphs ---- */

static tx_status graph_begin(tx_device *d)
{
    tx__gpu *g = of(d);
    if (g->keeps_graphs) GPU_TRY(gpuStreamBeginCapture(g->stream[TX_STREAM_COMPUTE]));
    return TX_OK;
}

static tx_status graph_end(tx_device *d, tx_graph **out)
{
    tx__gpu *g = of(d);
    gpuGraph_t kept;
    gpuGraphExec_t ready;
    if (!g->keeps_graphs) return TX_OK;
    GPU_TRY(gpuStreamEndCapture(g->stream[TX_STREAM_COMPUTE], &kept));
    gpuError_t e = gpuGraphInstantiate(&ready, kept);
    gpuGraphDestroy(kept);
    GPU_TRY(e);
    *out = (tx_graph *)ready;
    return TX_OK;
}

static tx_status graph_run(tx_device *d, tx_graph *x)
{
    GPU_TRY(gpuGraphLaunch((gpuGraphExec_t)x, of(d)->stream[TX_STREAM_COMPUTE]));
    return TX_OK;
}

static void graph_free(tx_device *d, tx_graph *x)
{
    of(d);
    gpuGraphExecDestroy((gpuGraphExec_t)x);
}

static const tx_device_calls device_calls = { take,        give,       take_host, give_host,   copy,       sync,
                                              event_make,  event_free, record,    stream_wait, event_wait, event_done,
                                              graph_begin, graph_end,  graph_run, graph_free,  memory,     owns };

static tx_status read_properties(tx__gpu *g, int number)
{
    gpuDeviceProp p;
    GPU_TRY(gpuGetDeviceProperties(&p, number));
    GPU_TRY(gpuDeviceGetPCIBusId(g->device.bus, sizeof g->device.bus, number));
    snprintf(g->device.name, sizeof g->device.name, "%.127s", p.name);
    g->n_sm = p.multiProcessorCount;
    g->warp = p.warpSize;
    g->major = p.major;
    g->minor = p.minor;
    g->shared_bytes = gpuSharedMost(&p);
    return TX_OK;
}

tx_status tx__gpu_device_open(tx__gpu *g, int number)
{
    g->device.call = &device_calls;
    g->device.number = number;
    GPU_TRY(gpuSetDevice(number));
    tx__gpu_use(g);
    TX_TRY(read_properties(g, number));
    for (int s = 0; s < TX_N_STREAMS; s++)
        GPU_TRY(gpuStreamCreateWithPriority(&g->stream[s], s == TX_STREAM_COMPUTE ? 0 : -1));
    TX_TRY(take(&g->device, (void **)&g->fault, sizeof *g->fault));
    return take_host(&g->device, (void **)&g->seen, sizeof *g->seen);
}

void tx__gpu_device_close(tx__gpu *g)
{
    tx__gpu_use(g);
    for (int s = 0; s < TX_N_STREAMS; s++)
        if (g->stream[s]) gpuStreamSynchronize(g->stream[s]);
    if (g->fault) gpuFree(g->fault);
    if (g->seen) gpuFreeHost(g->seen);
    for (int s = 0; s < TX_N_STREAMS; s++)
        if (g->stream[s]) gpuStreamDestroy(g->stream[s]);
    tx_free(g->block);
}

tx_status tx__gpu_list(tx_gpu_info *out, int *n)
{
    gpuError_t e = gpuGetDeviceCount(n);
    if (e || *n == 0) {
        gpuGetLastError();
        *n = 0;
        return TX_FAIL(TX_ERR_NOTFOUND, "there is no GPU to use: %s",
                       e ? gpuWhyNone(e) : "the driver shows none; " TX_GPU_VISIBLE " may hide them");
    }
    if (*n > TX_GPU_MAX) *n = TX_GPU_MAX;
    for (int i = 0; i < *n; i++) {
        gpuDeviceProp p;
        GPU_TRY(gpuGetDeviceProperties(&p, i));
        memset(&out[i], 0, sizeof out[i]);
        snprintf(out[i].name, sizeof out[i].name, "%.127s", p.name);
        GPU_TRY(gpuDeviceGetPCIBusId(out[i].bus, sizeof out[i].bus, i));
#if defined(__HIP_PLATFORM_AMD__)
        snprintf(out[i].arch, sizeof out[i].arch, "%.15s", p.gcnArchName);
#else
        snprintf(out[i].arch, sizeof out[i].arch, "sm_%d%d", p.major, p.minor);
#endif
        out[i].memory = p.totalGlobalMem;
        out[i].n_multiprocessors = p.multiProcessorCount;
        out[i].warp = p.warpSize;
    }
    return TX_OK;
}
