/* nccl_emulated.cu - NCCL's calls between emulated GPUs, whose ranks are threads of this process. Whatever is in a
 * stream waits in its turn for the other ranks, as a kernel of NCCL's does; sums are made in the order of ranks, in
 * fp32 and rounded once, so that a test can compare bits with comm/'s own.
 *
 *  Here it is the host that waits for the others, as it does all work of its streams. Who does not come within
 * TX_NCCL_EMULATED_PATIENCE seconds (60) is taken for dead, and the others are told of a remote error. */
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <unistd.h>

#include "backend/gpu/nccl_api.h"

/* What the ranks of a communicator share. */
struct team {
    std::mutex lock;
    std::condition_variable changed;
    int size, here, arrived;
    uint64_t generation;
    bool aborted;
    std::vector<const void *> from;
    std::map<std::pair<int, int>, std::deque<std::vector<unsigned char>>> mail; /* from, to */
};

struct nccl_comm {
    std::shared_ptr<team> shared; /* work that is in a stream holds it, too */
    int rank;
    bool finalized;
};

static std::mutex all_lock;
static std::map<std::string, std::weak_ptr<team>> all;

static std::shared_ptr<team> team_of(const nccl_id &id, int size)
{
    std::lock_guard<std::mutex> hold(all_lock);
    std::weak_ptr<team> &known = all[std::string(id.bytes, sizeof id.bytes)];
    std::shared_ptr<team> t = known.lock();
    if (t) return t;
    t = std::make_shared<team>();
    t->size = size;
    t->from.resize((size_t)size);
    known = t;
    return t;
}

static void leave(nccl_comm *c, bool abort)
{
    {
        std::lock_guard<std::mutex> hold(c->shared->lock);
        c->shared->aborted = c->shared->aborted || abort;
        c->shared->changed.notify_all();
    }
    delete c;
}

/* Until when others are waited for. */
static std::chrono::steady_clock::time_point patience()
{
    const char *told = getenv("TX_NCCL_EMULATED_PATIENCE");
    return std::chrono::steady_clock::now() + std::chrono::seconds(told ? atoi(told) : 60);
}

/* All ranks are here; false: the team has ended. */
static bool barrier(team *t)
{
    std::unique_lock<std::mutex> hold(t->lock);
    uint64_t now = t->generation;
    if (t->aborted) return false;
    if (++t->arrived == t->size) {
        t->arrived = 0;
        t->generation++;
        t->changed.notify_all();
    }
    auto end = patience();
    while (t->generation == now && !t->aborted)
        if (t->changed.wait_until(hold, end) == std::cv_status::timeout) t->aborted = true;
    t->changed.notify_all();
    return t->generation != now;
}

/* ---- arithmetic ---- */

template <class T> struct wide {
    typedef float type;
};
template <> struct wide<double> {
    typedef double type;
};
template <> struct wide<int32_t> {
    typedef int64_t type;
};
template <> struct wide<int64_t> {
    typedef int64_t type;
};
static float up(float x)
{
    return x;
}
static float up(bf16 x)
{
    return f32(x);
}
static float up(fp16 x)
{
    return f32(x);
}
static double up(double x)
{
    return x;
}
static int64_t up(int32_t x)
{
    return x;
}
static int64_t up(int64_t x)
{
    return x;
}
template <class T, class W> static T down(W x)
{
    return (T)x;
}
template <> bf16 down<bf16, float>(float x)
{
    return to<bf16>(x);
}
template <> fp16 down<fp16, float>(float x)
{
    return to<fp16>(x);
}

template <class T> static void reduce(void *out, const team *t, size_t skip, size_t n, int op)
{
    for (size_t i = 0; i < n; i++) {
        typename wide<T>::type sum = up(((const T *)t->from[0])[skip + i]);
        for (int r = 1; r < t->size; r++) {
            typename wide<T>::type x = up(((const T *)t->from[(size_t)r])[skip + i]);
            sum = op == NCCL_SUM ? sum + x : op == NCCL_MAX ? (x > sum ? x : sum) : (x < sum ? x : sum);
        }
        ((T *)out)[i] = down<T>(sum);
    }
}

static void reduce_of(int type, void *out, const team *t, size_t skip, size_t n, int op)
{
    switch (type) {
    case NCCL_FLOAT64:
        return reduce<double>(out, t, skip, n, op);
    case NCCL_BFLOAT16:
        return reduce<bf16>(out, t, skip, n, op);
    case NCCL_FLOAT16:
        return reduce<fp16>(out, t, skip, n, op);
    case NCCL_INT32:
        return reduce<int32_t>(out, t, skip, n, op);
    case NCCL_INT64:
        return reduce<int64_t>(out, t, skip, n, op);
    default:
        return reduce<float>(out, t, skip, n, op);
    }
}

static size_t size_of(int type)
{
    return type == NCCL_FLOAT64 || type == NCCL_INT64 ? 8 : type == NCCL_FLOAT32 || type == NCCL_INT32 ? 4 : 2;
}

/* Reads everybody's x into memory of its own, and writes y when all have read. */
static int put(nccl_comm *c, const void *x, void *y, size_t out_bytes, gpuStream_t s,
               std::function<void(void *out, const team *t)> make)
{
    std::shared_ptr<team> t = c->shared;
    int rank = c->rank;
    if (t->aborted) return NCCL_INVALID_USAGE;
    emulate_host(s, [=]() {
        std::vector<unsigned char> result(out_bytes);
        t->from[(size_t)rank] = x;
        if (!barrier(t.get())) return;
        make(result.data(), t.get());
        if (barrier(t.get()) && y) memcpy(y, result.data(), out_bytes);
    });
    return NCCL_SUCCESS;
}

/* ---- the calls ---- */

static int get_version(int *version)
{
    *version = 21400;
    return NCCL_SUCCESS;
}

static int get_id(nccl_id *id)
{
    static uint64_t n;
    std::lock_guard<std::mutex> hold(all_lock);
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "emulated by %lld: %llu", (long long)getpid(), (unsigned long long)n++);
    return NCCL_SUCCESS;
}

static int init(nccl_comm **out, int size, nccl_id id, int rank, nccl_config *config)
{
    char here[sizeof id.bytes]; /* ranks are threads of one process: another's can only be waited for in vain */
    int n_here = snprintf(here, sizeof here, "emulated by %lld: ", (long long)getpid());
    if (strncmp(id.bytes, here, (size_t)n_here)) return NCCL_INVALID_USAGE;
    if (config->magic != NCCL_CONFIG_MAGIC || config->blocking || rank < 0 || rank >= size)
        return NCCL_INVALID_ARGUMENT;
    *out = new nccl_comm();
    (*out)->shared = team_of(id, size);
    (*out)->rank = rank;
    std::lock_guard<std::mutex> hold((*out)->shared->lock);
    (*out)->shared->here++;
    return NCCL_IN_PROGRESS;
}

static int finalize(nccl_comm *c)
{
    c->finalized = true;
    return NCCL_IN_PROGRESS;
}

static int destroy(nccl_comm *c)
{
    if (!c->finalized) return NCCL_INVALID_USAGE;
    leave(c, false);
    return NCCL_SUCCESS;
}

static int abort_comm(nccl_comm *c)
{
    leave(c, true);
    return NCCL_SUCCESS;
}

static int async_error(nccl_comm *c, int *error)
{
    team *t = c->shared.get();
    std::lock_guard<std::mutex> hold(t->lock);
    *error = t->aborted ? NCCL_REMOTE_ERROR : t->here < t->size ? NCCL_IN_PROGRESS : NCCL_SUCCESS;
    return NCCL_SUCCESS;
}

static const char *error_string(int error)
{
    return error == NCCL_REMOTE_ERROR ? "remote process exited or there was a network error" : "emulated error";
}

static const char *last_error(nccl_comm *c)
{
    (void)c;
    return "";
}

static int all_reduce(const void *x, void *y, size_t n, int type, int op, nccl_comm *c, gpuStream_t s)
{
    return put(c, x, y, n * size_of(type), s, [=](void *out, const team *t) { reduce_of(type, out, t, 0, n, op); });
}

static int reduce_scatter(const void *x, void *y, size_t n, int type, int op, nccl_comm *c, gpuStream_t s)
{
    size_t skip = (size_t)c->rank * n;
    return put(c, x, y, n * size_of(type), s, [=](void *out, const team *t) { reduce_of(type, out, t, skip, n, op); });
}

static int all_gather(const void *x, void *y, size_t n, int type, nccl_comm *c, gpuStream_t s)
{
    size_t bytes = n * size_of(type);
    return put(c, x, y, bytes * (size_t)c->shared->size, s, [=](void *out, const team *t) {
        for (size_t r = 0; r < t->from.size(); r++) memcpy((unsigned char *)out + r * bytes, t->from[r], bytes);
    });
}

static int broadcast(const void *x, void *y, size_t n, int type, int root, nccl_comm *c, gpuStream_t s)
{
    size_t bytes = n * size_of(type);
    return put(c, x, y, bytes, s, [=](void *out, const team *t) { memcpy(out, t->from[(size_t)root], bytes); });
}

/* ---- messages: those of a group are sent when it ends, then what the group receives is waited for ---- */

struct message {
    nccl_comm *c;
    const void *x; /* of a send */
    void *y;       /* of a receive */
    size_t bytes;
    int peer;
    gpuStream_t stream;
};
static thread_local std::vector<message> grouped;
static thread_local bool in_group;

static void post(team *t, int rank, const message &m)
{
    const unsigned char *x = (const unsigned char *)m.x;
    std::lock_guard<std::mutex> hold(t->lock);
    t->mail[{ rank, m.peer }].emplace_back(x, x + m.bytes);
    t->changed.notify_all();
}

/* Sizes that differ end the team, where NCCL waits for ever. */
static bool take(team *t, int rank, const message &m)
{
    std::unique_lock<std::mutex> hold(t->lock);
    auto &box = t->mail[{ m.peer, rank }];
    auto end = patience();
    while (box.empty() && !t->aborted)
        if (t->changed.wait_until(hold, end) == std::cv_status::timeout) t->aborted = true;
    if (!t->aborted && box.front().size() != m.bytes) t->aborted = true;
    t->changed.notify_all();
    if (t->aborted) return false;
    memcpy(m.y, box.front().data(), m.bytes);
    box.pop_front();
    return true;
}

static int add(message m)
{
    if (!in_group || m.c->shared->aborted) return NCCL_INVALID_USAGE;
    grouped.push_back(m);
    return NCCL_SUCCESS;
}

static int send(const void *x, size_t n, int type, int to, nccl_comm *c, gpuStream_t s)
{
    return add({ c, x, NULL, n * size_of(type), to, s });
}

static int receive(void *y, size_t n, int type, int from, nccl_comm *c, gpuStream_t s)
{
    return add({ c, NULL, y, n * size_of(type), from, s });
}

static int group_start(void)
{
    in_group = true;
    grouped.clear();
    return NCCL_SUCCESS;
}

static int group_end(void)
{
    std::vector<message> all = grouped;
    in_group = false;
    grouped.clear();
    if (all.empty()) return NCCL_SUCCESS;
    std::shared_ptr<team> t = all[0].c->shared;
    int rank = all[0].c->rank;
    emulate_host(all[0].stream, [=]() {
        for (const message &m : all)
            if (m.x) post(t.get(), rank, m);
        for (const message &m : all)
            if (m.y && !take(t.get(), rank, m)) return;
    });
    return NCCL_SUCCESS;
}

tx_status tx__nccl_find(const nccl_calls **out)
{
    static const nccl_calls calls = { "emulated NCCL", get_version,    get_id,      init,         finalize,
                                      destroy,         abort_comm,     async_error, error_string, last_error,
                                      all_reduce,      reduce_scatter, all_gather,  broadcast,    send,
                                      receive,         group_start,    group_end };
    *out = &calls;
    return TX_OK;
}
