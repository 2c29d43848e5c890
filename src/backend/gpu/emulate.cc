/* emulate.cc - fibers, streams and memory of the GPU that is not there. */
#include "backend/gpu/emulate.h"

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

static void die(const char *what)
{
    fprintf(stderr, "emulated GPU: %s (block %u,%u,%u thread %u)\n", what, blockIdx.x, blockIdx.y, blockIdx.z,
            threadIdx.x);
    abort();
}

/* ---- fibers ---- */

#define MAX_THREADS 1024
#define MAX_WARPS   (MAX_THREADS / WARP)
#ifdef WITH_ASAN
#define STACK_BYTES ((size_t)256 << 10)
#else
#define STACK_BYTES ((size_t)64 << 10)
#endif
#define SHARED_BYTES ((size_t)227 << 10) /* an H100's */

struct context {
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t u;
#endif
    void *fake; /* AddressSanitizer's */
    const void *stack;
    size_t stack_bytes;
};

struct async_copy {
    void *to;
    const void *from; /* NULL: zeros */
    size_t bytes;
};

struct fiber {
    context at;
    dim3 id;
    const void *mine; /* what it gives to its warp */
    std::vector<async_copy> copies;
};

struct barrier {
    unsigned at, live;
};

/* One block at a time is run. Of each of its threads a bit says whether it has not returned, and
 * whether it waits for nothing. */
struct machine {
    fiber thread[MAX_THREADS];
    context scheduler;
    unsigned n, self;
    uint64_t live[MAX_THREADS / 64], ready[MAX_THREADS / 64];
    barrier block, warp[MAX_WARPS];
    const std::function<void()> *body;
    unsigned char *stacks;
    alignas(16) unsigned char shared[SHARED_BYTES];
};
static machine *own_machine; /* under one_launch */
static std::mutex one_launch;

static machine *get_machine(void)
{
    if (own_machine) return own_machine;
    own_machine = new machine();
    void *p = mmap(NULL, STACK_BYTES * MAX_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) die("no memory for stacks");
    own_machine->stacks = (unsigned char *)p;
    return own_machine;
}

#if defined(__x86_64__)
/* Saves what a call keeps, and goes on where another stack was left. */
extern "C" void emulate_swap(void **save, void *load);
asm(".text\n"
    ".type emulate_swap,@function\n"
    "emulate_swap:\n"
    "    pushq %rbx\n    pushq %rbp\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbp\n    popq %rbx\n"
    "    ret\n"
    ".size emulate_swap,.-emulate_swap\n");
#endif

static void swap(context *from, context *to, bool ends)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(ends ? nullptr : &from->fake, to->stack, to->stack_bytes);
#else
    (void)ends;
#endif
#if defined(__x86_64__)
    emulate_swap(&from->sp, to->sp);
#else
    swapcontext(&from->u, &to->u);
#endif
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(from->fake, nullptr, nullptr);
#endif
}

/* The next one behind t that waits for nothing, t itself the last. */
static unsigned next_ready(const machine *m, unsigned t)
{
    const unsigned words = (m->n + 63) / 64;
    unsigned w = t / 64;
    uint64_t x = t % 64 < 63 ? m->ready[w] & ~(uint64_t)0 << (t % 64 + 1) : 0;
    for (unsigned k = 0; k <= words; k++) {
        if (x) return w * 64 + (unsigned)__builtin_ctzll(x);
        w = w + 1 < words ? w + 1 : 0;
        x = m->ready[w];
    }
    die("a barrier is reached by some threads only");
    return 0;
}

static void go_to(machine *m, unsigned t, context *from, bool ends)
{
    m->self = t;
    threadIdx = m->thread[t].id;
    swap(from, &m->thread[t].at, ends);
}

static uint64_t bit_of(unsigned t)
{
    return (uint64_t)1 << t % 64;
}

static uint64_t bits_of_warp(unsigned w)
{
    return WARP == 64 ? ~(uint64_t)0 : (uint64_t)0xffffffffu << w % 2 * 32;
}

/* All that live have come: they go on. */
static void open_block(machine *m)
{
    m->block.at = 0;
    memcpy(m->ready, m->live, sizeof m->ready);
}

static void open_warp(machine *m, unsigned w)
{
    m->warp[w].at = 0;
    m->ready[w * WARP / 64] |= m->live[w * WARP / 64] & bits_of_warp(w);
}

static void wait_here(machine *m)
{
    unsigned me = m->self;
    m->ready[me / 64] &= ~bit_of(me);
    go_to(m, next_ready(m, me), &m->thread[me].at, false);
}

void emulate_block_barrier(void)
{
    machine *m = own_machine;
    if (++m->block.at == m->block.live)
        open_block(m);
    else
        wait_here(m);
}

void emulate_warp_barrier(void)
{
    machine *m = own_machine;
    unsigned w = m->self / WARP;
    if (++m->warp[w].at == m->warp[w].live)
        open_warp(m, w);
    else
        wait_here(m);
}

void emulate_exchange(const void *mine, void *theirs, size_t bytes, int lane)
{
    machine *m = own_machine;
    unsigned me = m->self, other = me / WARP * WARP + (unsigned)lane;
    m->thread[me].mine = mine;
    emulate_warp_barrier();
    if (lane < 0 || lane >= WARP || other >= m->n || !(m->live[other / 64] & bit_of(other)))
        die("a lane is read that is not there, or has returned");
    memcpy(theirs, m->thread[other].mine, bytes);
    emulate_warp_barrier();
}

void emulate_together(void *mine, void (*work)(void *const *lane))
{
    machine *m = own_machine;
    unsigned me = m->self, first = me / WARP * WARP;
    barrier *b = &m->warp[me / WARP];
    m->thread[me].mine = mine;
    if (b->at + 1 == b->live) {
        void *lane[WARP];
        if (b->live != WARP) die("an instruction of the whole warp, of which some lanes have returned");
        for (unsigned l = 0; l < WARP; l++) lane[l] = const_cast<void *>(m->thread[first + l].mine);
        work(lane);
    }
    emulate_warp_barrier();
}

void emulate_copy(void *to, const void *from, size_t bytes)
{
    own_machine->thread[own_machine->self].copies.push_back((async_copy){ to, from, bytes });
}

void emulate_copies_wait(void)
{
    std::vector<async_copy> &copies = own_machine->thread[own_machine->self].copies;
    for (const async_copy &c : copies) {
        if (c.from)
            memcpy(c.to, c.from, c.bytes);
        else
            memset(c.to, 0, c.bytes);
    }
    copies.clear();
}

void emulate_die(const char *what)
{
    die(what);
}

unsigned char *emulate_shared(void)
{
    return own_machine->shared;
}

static void entry(void)
{
    machine *m = own_machine;
    unsigned me = m->self, w = me / WARP;
#ifdef WITH_ASAN
    /* thread 0 is the first of a block */
    __sanitizer_finish_switch_fiber(nullptr, me ? nullptr : &m->scheduler.stack,
                                    me ? nullptr : &m->scheduler.stack_bytes);
#endif
    (*m->body)();
    if (!m->thread[me].copies.empty()) die("a thread returns before its copies are there");
    m->live[me / 64] &= ~bit_of(me);
    m->ready[me / 64] &= ~bit_of(me);
    if (--m->warp[w].live && m->warp[w].at == m->warp[w].live) open_warp(m, w);
    if (--m->block.live && m->block.at == m->block.live) open_block(m);
    if (m->block.live)
        go_to(m, next_ready(m, me), &m->thread[me].at, true);
    else
        swap(&m->thread[me].at, &m->scheduler, true);
    abort();
}

static void prepare(machine *m, unsigned t)
{
    fiber *f = &m->thread[t];
    unsigned char *stack = m->stacks + STACK_BYTES * t;
    f->at.stack = stack;
    f->at.stack_bytes = STACK_BYTES;
    f->at.fake = nullptr;
    /* of the thread that was here last, entry() and what it went on from did not return: nobody took back redzones */
    ASAN_UNPOISON_MEMORY_REGION(stack + STACK_BYTES - 4096, 4096);
#if defined(__x86_64__)
    void **sp = (void **)(stack + STACK_BYTES) - 1; /* as a call leaves it: not on 16 bytes, but its caller was */
    *sp = nullptr;
    *--sp = (void *)entry;
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    f->at.sp = sp;
#else
    getcontext(&f->at.u);
    f->at.u.uc_stack.ss_sp = stack;
    f->at.u.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->at.u, entry, 0);
#endif
}

static void run_block(machine *m)
{
    m->block = (barrier){ 0, m->n };
    for (unsigned w = 0; w * WARP < m->n; w++)
        m->warp[w] = (barrier){ 0, m->n - w * WARP < WARP ? m->n - w * WARP : (unsigned)WARP };
    for (unsigned w = 0; w < MAX_THREADS / 64; w++)
        m->live[w] = m->n >= w * 64 + 64 ? ~(uint64_t)0 : m->n > w * 64 ? bit_of(m->n) - 1 : 0;
    memcpy(m->ready, m->live, sizeof m->ready);
    for (unsigned t = 0; t < m->n; t++) prepare(m, t);
    go_to(m, 0, &m->scheduler, false);
}

static void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body)
{
    std::lock_guard<std::mutex> hold(one_launch);
    machine *m = get_machine();
    m->n = block.x * block.y * block.z;
    m->body = &body;
    for (unsigned t = 0; t < m->n; t++)
        m->thread[t].id = dim3(t % block.x, t / block.x % block.y, t / block.x / block.y);
    gridDim = grid;
    blockDim = block;
    ASAN_UNPOISON_MEMORY_REGION(m->shared, shared_bytes);
    ASAN_POISON_MEMORY_REGION(m->shared + shared_bytes, SHARED_BYTES - shared_bytes);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y, z);
                run_block(m);
            }
}

/* ---- memory: pages that can be touched while work runs ---- */

static std::recursive_mutex lock;
static int running;
struct pages {
    unsigned char *base;
    size_t bytes;
};
static std::vector<pages> &device_blocks(void)
{
    static std::vector<pages> *all = new std::vector<pages>();
    return *all;
}
static std::vector<pages> &host_blocks(void)
{
    static std::vector<pages> *all = new std::vector<pages>();
    return *all;
}
static thread_local gpuError_t last_error;

static gpuError_t fail(gpuError_t e)
{
    if (e) last_error = e;
    return e;
}

static void protect_all(int how)
{
    for (const pages &b : device_blocks()) mprotect(b.base, b.bytes, how);
}

struct with_memory {
    with_memory()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        if (running++ == 0) protect_all(PROT_READ | PROT_WRITE);
    }
    ~with_memory()
    {
        std::lock_guard<std::recursive_mutex> hold(lock);
        if (--running == 0) protect_all(PROT_NONE);
    }
};

static size_t in_use, capacity = (size_t)8 << 30;

/* What a test says: TX_GPU_EMULATED_BYTES. */
static void read_capacity(void)
{
    const char *told = getenv("TX_GPU_EMULATED_BYTES");
    if (told) capacity = (size_t)strtoull(told, nullptr, 10);
}

gpuError_t gpuMalloc(void **out, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> hold(lock);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    read_capacity();
    if (!bytes || in_use + whole > capacity) return fail(gpuErrorMemoryAllocation);
    void *p = mmap(NULL, whole + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return fail(gpuErrorMemoryAllocation);
    if (running) mprotect(p, whole, PROT_READ | PROT_WRITE);
    ASAN_POISON_MEMORY_REGION((unsigned char *)p + bytes, whole - bytes);
    madvise(p, whole, MADV_HUGEPAGE); /* fewer of them to protect, again and again */
    device_blocks().push_back((pages){ (unsigned char *)p, whole });
    in_use += whole;
    *out = p;
    return gpuSuccess;
}

gpuError_t gpuFree(void *p)
{
    std::lock_guard<std::recursive_mutex> hold(lock);
    for (size_t i = 0; i < device_blocks().size(); i++)
        if (device_blocks()[i].base == p) {
            size_t whole = device_blocks()[i].bytes;
            ASAN_UNPOISON_MEMORY_REGION(p, whole);
            munmap(p, whole + (size_t)sysconf(_SC_PAGESIZE));
            in_use -= device_blocks()[i].bytes;
            device_blocks().erase(device_blocks().begin() + (long)i);
            return gpuSuccess;
        }
    return p ? fail(gpuErrorInvalidValue) : gpuSuccess;
}

gpuError_t gpuHostAlloc(void **out, size_t bytes)
{
    std::lock_guard<std::recursive_mutex> hold(lock);
    *out = calloc(bytes, 1);
    if (!*out) return fail(gpuErrorMemoryAllocation);
    host_blocks().push_back((pages){ (unsigned char *)*out, bytes });
    return gpuSuccess;
}

gpuError_t gpuFreeHost(void *p)
{
    std::lock_guard<std::recursive_mutex> hold(lock);
    for (size_t i = 0; i < host_blocks().size(); i++)
        if (host_blocks()[i].base == p) {
            free(p);
            host_blocks().erase(host_blocks().begin() + (long)i);
            return gpuSuccess;
        }
    return p ? fail(gpuErrorInvalidValue) : gpuSuccess;
}

/* Memory of the host's that a copy may not use once the call is back. */
static bool pageable(const void *p)
{
    std::lock_guard<std::recursive_mutex> hold(lock);
    const unsigned char *c = (const unsigned char *)p;
    for (const pages &b : device_blocks())
        if (c >= b.base && c < b.base + b.bytes) return false;
    for (const pages &b : host_blocks())
        if (c >= b.base && c < b.base + b.bytes) return false;
    return true;
}

gpuError_t gpuMemGetInfo(size_t *free_bytes, size_t *all_bytes)
{
    std::lock_guard<std::recursive_mutex> hold(lock);
    read_capacity();
    *all_bytes = capacity;
    *free_bytes = capacity - in_use;
    return gpuSuccess;
}

/* ---- streams: work waits until it is waited for ---- */

struct emulate_graph {
    std::vector<std::function<void()>> work;
};
struct emulate_stream {
    std::deque<std::function<void()>> work;
    uint64_t done, queued;
    bool busy;
    emulate_graph *kept; /* what is put here meanwhile goes there */
};
struct emulate_event {
    emulate_stream *in;
    uint64_t behind;                                         /* so much of it is to be done */
    std::shared_ptr<double> at = std::make_shared<double>(); /* also of one that is freed before it comes to pass */
};
static thread_local std::set<emulate_stream *> *streams; /* of this thread's devices */

static bool eager(void)
{
    static const bool on = getenv("TX_GPU_EAGER") && *getenv("TX_GPU_EAGER") == '1';
    return on;
}

static void drain(emulate_stream *s, uint64_t until)
{
    if (s->kept) die("a stream is waited for while its work is kept for a graph");
    if (s->done >= until) return;
    if (s->busy) die("a stream waits for itself");
    with_memory open;
    s->busy = true;
    while (s->done < until) {
        std::function<void()> next = std::move(s->work.front());
        s->work.pop_front();
        next();
        s->done++;
    }
    s->busy = false;
}

static void put(emulate_stream *s, std::function<void()> work)
{
    if (s->kept) {
        s->kept->work.push_back(std::move(work));
        return;
    }
    s->work.push_back(std::move(work));
    s->queued++;
    if (eager() || s->work.size() > 4096) drain(s, s->queued);
}

gpuError_t gpuStreamCreateWithPriority(gpuStream_t *out, int priority)
{
    (void)priority;
    *out = new emulate_stream();
    if (!streams) streams = new std::set<emulate_stream *>();
    streams->insert(*out);
    return gpuSuccess;
}

gpuError_t gpuStreamDestroy(gpuStream_t s)
{
    if (!s) return gpuSuccess;
    drain(s, s->queued);
    if (streams) streams->erase(s);
    if (streams && streams->empty()) {
        delete streams;
        streams = nullptr;
    }
    delete s;
    return gpuSuccess;
}

gpuError_t gpuStreamSynchronize(gpuStream_t s)
{
    drain(s, s->queued);
    return gpuSuccess;
}

gpuError_t gpuDeviceSynchronize(void)
{
    if (streams)
        for (emulate_stream *s : *streams) drain(s, s->queued);
    return gpuSuccess;
}

gpuError_t gpuStreamBeginCapture(gpuStream_t s)
{
    if (s->kept) return fail(gpuErrorInvalidValue);
    s->kept = new emulate_graph();
    return gpuSuccess;
}

gpuError_t gpuStreamEndCapture(gpuStream_t s, gpuGraph_t *out)
{
    *out = s->kept;
    s->kept = nullptr;
    return *out ? gpuSuccess : fail(gpuErrorInvalidValue);
}

gpuError_t gpuGraphInstantiate(gpuGraphExec_t *out, gpuGraph_t graph)
{
    *out = new emulate_graph(*graph);
    return gpuSuccess;
}

gpuError_t gpuGraphDestroy(gpuGraph_t graph)
{
    delete graph;
    return gpuSuccess;
}

gpuError_t gpuGraphLaunch(gpuGraphExec_t graph, gpuStream_t s)
{
    for (const std::function<void()> &work : graph->work) put(s, work);
    return gpuSuccess;
}

gpuError_t gpuGraphExecDestroy(gpuGraphExec_t graph)
{
    delete graph;
    return gpuSuccess;
}

bool gpuCapturing(gpuStream_t s)
{
    return s->kept;
}

gpuError_t gpuEventCreate(gpuEvent_t *out)
{
    *out = new emulate_event();
    return gpuSuccess;
}

gpuError_t gpuEventDestroy(gpuEvent_t e)
{
    delete e;
    return gpuSuccess;
}

gpuError_t gpuEventRecord(gpuEvent_t e, gpuStream_t s)
{
    std::shared_ptr<double> at = e->at;
    put(s,
        [at]() { *at = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); });
    e->in = s;
    e->behind = s->queued;
    return gpuSuccess;
}

gpuError_t gpuStreamWaitEvent(gpuStream_t s, gpuEvent_t e)
{
    emulate_stream *in = e->in;
    uint64_t behind = e->behind; /* as recorded now, whatever is recorded later */
    if (in && in != s) put(s, [in, behind]() { drain(in, behind); });
    return gpuSuccess;
}

gpuError_t gpuEventSynchronize(gpuEvent_t e)
{
    if (e->in) drain(e->in, e->behind);
    return gpuSuccess;
}

/* Whoever asks again and again is answered "done" at some time: at the third. */
gpuError_t gpuEventQuery(gpuEvent_t e)
{
    static thread_local int asked;
    if (!e->in || e->in->done >= e->behind) return gpuSuccess;
    if (++asked % 3) return gpuErrorNotReady;
    return gpuEventSynchronize(e);
}

gpuError_t gpuEventElapsedTime(float *milliseconds, gpuEvent_t from, gpuEvent_t to)
{
    *milliseconds = (float)(1e3 * (*to->at - *from->at));
    return gpuSuccess;
}

gpuError_t gpuMemcpyAsync(void *to, const void *from, size_t bytes, gpuStream_t s)
{
    if (!bytes) return gpuSuccess;
    if (s->kept && (pageable(from) || pageable(to))) die("a copy of memory that is not pinned is kept for a graph");
    if (pageable(from)) {
        std::vector<unsigned char> copy((const unsigned char *)from, (const unsigned char *)from + bytes);
        put(s, [to, copy]() { memcpy(to, copy.data(), copy.size()); });
    } else {
        put(s, [to, from, bytes]() { memmove(to, from, bytes); });
    }
    return pageable(to) ? gpuStreamSynchronize(s) : gpuSuccess;
}

/* A whole block of zeros is one that has no pages yet: what is there is protected and opened again at every call. */
static void set(void *p, int byte, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = bytes / page * page;
    std::lock_guard<std::recursive_mutex> hold(lock);
    for (const pages &b : device_blocks())
        if (!byte && b.base == p && (bytes + page - 1) / page * page == b.bytes && !madvise(p, whole, MADV_DONTNEED)) {
            memset((char *)p + whole, 0, bytes - whole); /* others may have the rest of that page */
            return;
        }
    memset(p, byte, bytes);
}

gpuError_t gpuMemsetAsync(void *p, int byte, size_t bytes, gpuStream_t s)
{
    put(s, [p, byte, bytes]() { set(p, byte, bytes); });
    return gpuSuccess;
}

gpuError_t emulate_host(gpuStream_t s, std::function<void()> work)
{
    put(s, std::move(work));
    return gpuSuccess;
}

/* The same for what stands in for a library, which is a file of its own. */
extern "C" __attribute__((visibility("default"))) void emulate_enqueue(gpuStream_t s, void (*work)(void *), void *arg)
{
    put(s, [work, arg]() { work(arg); });
}

void emulate_launch(gpuStream_t s, dim3 grid, dim3 block, size_t shared_bytes, std::function<void()> thread)
{
    size_t n = (size_t)block.x * block.y * block.z;
    if (!n || n > MAX_THREADS || !grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535 ||
        shared_bytes > SHARED_BYTES) {
        fail(gpuErrorInvalidValue);
        return;
    }
    put(s, [grid, block, shared_bytes, thread]() { run_grid(grid, block, shared_bytes, thread); });
}

/* ---- the device ---- */

const char *gpuGetErrorString(gpuError_t e)
{
    static const char *const text[] = { "no error", "out of memory", "invalid argument", "not ready",
                                        "launch failure" };
    return text[e];
}

gpuError_t gpuGetLastError(void)
{
    gpuError_t e = last_error;
    last_error = gpuSuccess;
    return e;
}

gpuError_t gpuPeekAtLastError(void)
{
    return last_error;
}

/* As many as a test says: TX_GPU_EMULATED_COUNT, 1 if it says nothing. */
gpuError_t gpuGetDeviceCount(int *n)
{
    const char *told = getenv("TX_GPU_EMULATED_COUNT");
    *n = told ? atoi(told) : 1;
    return gpuSuccess;
}

gpuError_t gpuSetDevice(int device)
{
    int n;
    gpuGetDeviceCount(&n);
    return device < 0 || device >= n ? fail(gpuErrorInvalidValue) : gpuSuccess;
}

gpuError_t gpuGetDeviceProperties(gpuDeviceProp *out, int device)
{
    (void)device;
    *out = gpuDeviceProp();
    snprintf(out->name, sizeof out->name, "emulated GPU, %d lanes a warp", WARP);
    out->totalGlobalMem = capacity;
    out->sharedMemPerBlock = (size_t)48 << 10;
    out->sharedMemPerBlockOptin = SHARED_BYTES;
    out->major = 9;
    out->multiProcessorCount = 4;
    out->warpSize = WARP;
    return gpuSuccess;
}

gpuError_t gpuDeviceGetPCIBusId(char *out, int cap, int device)
{
    (void)device;
    if (cap > 0) *out = 0;
    return gpuSuccess;
}
