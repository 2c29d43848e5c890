/* collectives.cu - teams of GPUs by NCCL or RCCL, and what their errors mean. Communicators do not block: what waits
 * for others on the host is asked for again and again by whoever waits, with an eye on the time. */
#include <time.h>

#include "backend/gpu/nccl_api.h"

extern "C" {
#include "backend/gpu_collectives.h"
}

struct tx_gpu_team {
    const nccl_calls *call;
    nccl_comm *comm;
    gpuStream_t stream;
};

/* ---- errors ---- */

/* What to look at, in a user's words. */
static const char *advice(int error)
{
    switch (error) {
    case NCCL_CUDA_ERROR:
        return "a GPU or its driver failed under it; dmesg and nvidia-smi (rocm-smi) tell of the machine";
    case NCCL_SYSTEM_ERROR:
        return "the system refused it something: often /dev/shm is too small (df -h /dev/shm; a container needs "
               "--shm-size=1g or --ipc=host), or hosts do not reach each other by the network interface it chose "
               "(NCCL_SOCKET_IFNAME names the right one)";
    case NCCL_INTERNAL_ERROR:
        return "a mistake in the library, or memory overwritten";
    case NCCL_INVALID_ARGUMENT:
    case NCCL_INVALID_USAGE:
        return "it was called with what it does not take: two ranks on one GPU, or another version of it on another "
               "host";
    case NCCL_REMOTE_ERROR:
        return "another rank has ended, or the network to it is broken: its own message says why";
    default:
        return "an error that it does not explain";
    }
}

static tx_status failed(const nccl_calls *call, nccl_comm *comm, int error)
{
    const char *last = call->GetLastError(comm);
    return TX_FAIL(TX_ERR_COMM, "%s: %s%s%s%s: %s. NCCL_DEBUG=INFO shows what it did", call->name,
                   call->GetErrorString(error), last && *last ? " (" : "", last && *last ? last : "",
                   last && *last ? ")" : "", advice(error));
}

static tx_status verdict(const tx_gpu_team *t, int error)
{
    return error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS ? TX_OK : failed(t->call, t->comm, error);
}

/* ---- teams ---- */

static tx_status library(char *out, size_t cap)
{
    const nccl_calls *call;
    int version = 0;
    TX_TRY(tx__nccl_find(&call));
    int e = call->GetVersion(&version);
    if (e) return failed(call, NULL, e);
    snprintf(out, cap, "%s %d.%d.%d", call->name, version / 10000, version / 100 % 100, version % 100);
    return TX_OK;
}

static tx_status make_id(unsigned char *id)
{
    const nccl_calls *call;
    TX_TRY(tx__nccl_find(&call));
    nccl_id made;
    int e = call->GetUniqueId(&made);
    if (e) return failed(call, NULL, e);
    static_assert(sizeof made == TX_GPU_ID_BYTES, "ids");
    memcpy(id, &made, sizeof made);
    return TX_OK;
}

static tx_status open_team(tx_gpu_team **out, tx_device *d, const unsigned char *id, int size, int rank)
{
    const nccl_calls *call;
    tx_gpu_team *t;
    nccl_config config = { sizeof config, NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 0, 0 };
    nccl_id made;
    TX_TRY(tx__nccl_find(&call));
    tx__gpu_use((tx__gpu *)d);
    TX_TRY(tx_alloc(&t, 1, sizeof *t, "a team of GPUs"));
    t->call = call;
    t->stream = ((tx__gpu *)d)->stream[TX_STREAM_COMM];
    memcpy(&made, id, sizeof made);
    int e = call->CommInitRankConfig(&t->comm, size, made, rank, &config);
    tx_status st = verdict(t, e);
    if (st)
        tx_free(t);
    else
        *out = t;
    return st;
}

static tx_status settled(tx_gpu_team *t, bool *done)
{
    int state, e = t->call->CommGetAsyncError(t->comm, &state);
    *done = false;
    if (e) return failed(t->call, t->comm, e);
    *done = state == NCCL_SUCCESS;
    return verdict(t, state);
}

static void abort_team(tx_gpu_team *t)
{
    t->call->CommAbort(t->comm);
    tx_free(t);
}

/* Gives it some seconds to say goodbye to the others. */
static void close_team(tx_gpu_team *t)
{
    bool done = false;
    tx_status st = verdict(t, t->call->CommFinalize(t->comm));
    for (int i = 0; !st && !done && i < 5000; i++) {
        st = settled(t, &done);
        struct timespec nap = { 0, 1000000 };
        if (!done) nanosleep(&nap, NULL);
    }
    if (st || !done) {
        abort_team(t);
        return;
    }
    t->call->CommDestroy(t->comm);
    tx_free(t);
}

/* ---- calls ---- */

static int type_of(tx_dtype type)
{
    switch (type) {
    case TX_F64:
        return NCCL_FLOAT64;
    case TX_BF16:
        return NCCL_BFLOAT16;
    case TX_F16:
        return NCCL_FLOAT16;
    case TX_I32:
        return NCCL_INT32;
    case TX_I64:
        return NCCL_INT64;
    default:
        return NCCL_FLOAT32;
    }
}

static tx_status all_reduce(tx_gpu_team *t, void *x, int64_t n, tx_dtype type, int reduce)
{
    static const int op[] = { NCCL_SUM, NCCL_MAX, NCCL_MIN };
    return verdict(t, t->call->AllReduce(x, x, (size_t)n, type_of(type), op[reduce], t->comm, t->stream));
}

static tx_status reduce_scatter(tx_gpu_team *t, void *y, const void *x, int64_t n, tx_dtype type)
{
    return verdict(t, t->call->ReduceScatter(x, y, (size_t)n, type_of(type), NCCL_SUM, t->comm, t->stream));
}

static tx_status all_gather(tx_gpu_team *t, void *y, const void *x, int64_t n, tx_dtype type)
{
    return verdict(t, t->call->AllGather(x, y, (size_t)n, type_of(type), t->comm, t->stream));
}

static tx_status broadcast(tx_gpu_team *t, void *x, int64_t n, tx_dtype type, int root)
{
    return verdict(t, t->call->Broadcast(x, x, (size_t)n, type_of(type), root, t->comm, t->stream));
}

/* What goes to and comes from one rank; 0 elements are no message. */
static int trade(tx_gpu_team *t, const tx_gpu_rows *r, int i, int type, size_t size)
{
    int64_t before = 0, behind = 0;
    for (int k = 0; k < i; k++) {
        before += r->send_rows[k];
        behind += r->recv_rows[k];
    }
    const char *x = (const char *)r->x + (size_t)(before * r->width) * size;
    char *y = (char *)r->y + (size_t)(behind * r->width) * size;
    size_t sent = (size_t)(r->send_rows[i] * r->width), got = (size_t)(r->recv_rows[i] * r->width);
    int e = sent ? t->call->Send(x, sent, type, i, t->comm, t->stream) : NCCL_SUCCESS;
    if ((e == NCCL_SUCCESS || e == NCCL_IN_PROGRESS) && got) e = t->call->Recv(y, got, type, i, t->comm, t->stream);
    return e;
}

/* A group that has been started is ended whatever happens in it. */
static tx_status all_to_all(tx_gpu_team *t, const tx_gpu_rows *r, tx_dtype type)
{
    int e = t->call->GroupStart();
    if (e != NCCL_SUCCESS) return failed(t->call, t->comm, e);
    for (int i = 0; (e == NCCL_SUCCESS || e == NCCL_IN_PROGRESS) && i < r->n; i++)
        e = trade(t, r, i, type_of(type), tx_dtype_size(type));
    int end = t->call->GroupEnd();
    return verdict(t, e == NCCL_SUCCESS || e == NCCL_IN_PROGRESS ? end : e);
}

tx_gpu_collectives tx__gpu_collectives = { library,    make_id,   open_team,  settled,    all_reduce, reduce_scatter,
                                           all_gather, broadcast, all_to_all, close_team, abort_team };
