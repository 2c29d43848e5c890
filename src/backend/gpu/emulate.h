/* emulate.h - an emulated GPU: kernels run on the host, one fiber a thread, so that every line of them is
 * checked where there is no GPU, at both widths of a warp (TX_GPU_EMULATED is 32 or 64), by the sanitizers too.
 *
 *      memory    device memory is pages that nobody may touch but while kernels and copies run: host code that reads
 *                what it should have copied dies at that line. The page after a block of it is never accessible. With
 *                AddressSanitizer neither is a byte after a block, a shared array, or a launch's shared memory
 *      launches  one at a time in the process, whichever thread waits for it
 *      streams   what is put into a stream runs as late as possible, when somebody waits for it: what nobody waits for
 *                is not done, and a missing event shows at every run
 *      barriers  one that some threads of a block never reach ends the program with a message, as does a lane that is
 *                read after it has returned
 *
 *  With TX_GPU_EAGER=1 in the environment everything runs at once, for debugging. */
#ifndef TX_BACKEND_GPU_EMULATE_H
#define TX_BACKEND_GPU_EMULATE_H

#include <functional>
#include <stddef.h>
#include <tuple>
#include <type_traits>

#define WARP       TX_GPU_EMULATED
#define __global__ static
#define __device__
#define __host__
#define __shared__      static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c)
    {
    }
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

/* ---- in kernels ---- */

void emulate_block_barrier(void);
void emulate_warp_barrier(void);

/* Shares `mine` with the warp and reads that of another lane into `theirs`. Two barriers of the warp. */
void emulate_exchange(const void *mine, void *theirs, size_t bytes, int lane);

/* An instruction of a whole warp: the last of its lanes to come does the work for all. One barrier. */
void emulate_together(void *mine, void (*work)(void *const *lane));

/* Copies bytes, or zeros from nowhere, not before this thread waits for its copies. */
void emulate_copy(void *to, const void *from, size_t bytes);
void emulate_copies_wait(void);

/* Prints where it happened and ends the program. */
void emulate_die(const char *what);

static inline void __syncthreads(void)
{
    emulate_block_barrier();
}
static inline void sync_warp(void)
{
    emulate_warp_barrier();
}
template <class T> static inline T shfl(T v, int lane)
{
    T got;
    emulate_exchange(&v, &got, sizeof v, lane);
    return got;
}
template <class T> static inline T shfl_xor(T v, int mask)
{
    T got;
    emulate_exchange(&v, &got, sizeof v, (int)threadIdx.x % WARP ^ mask);
    return got;
}

/* Fibers take turns at barriers only. */
template <class T> static inline T atomicAdd(T *p, T v)
{
    T old = *p;
    *p = old + v;
    return old;
}
template <class T> static inline T atomicMax(T *p, T v)
{
    T old = *p;
    *p = old > v ? old : v;
    return old;
}
template <class T> static inline T atomicCAS(T *p, T expected, T v)
{
    T old = *p;
    if (old == expected) *p = v;
    return old;
}

/* ---- launches ---- */

struct emulate_stream;
struct emulate_event;
typedef emulate_stream *gpuStream_t;
typedef emulate_event *gpuEvent_t;

void emulate_launch(gpuStream_t s, dim3 grid, dim3 block, size_t shared_bytes, std::function<void()> thread);
unsigned char *emulate_shared(void);

/* Arguments are copied when the kernel is launched, as they are on a GPU. */
template <class... P, class... A>
static inline void emulate_call(gpuStream_t s, dim3 grid, dim3 block, size_t shared_bytes, void (*kernel)(P...), A... a)
{
    std::tuple<P...> args(a...);
    emulate_launch(s, grid, block, shared_bytes, [kernel, args]() { std::apply(kernel, args); });
}
#define GPU_LAUNCH(stream, grid, block, shared_bytes, kernel, ...) \
    emulate_call((stream), (grid), (block), (shared_bytes), kernel, __VA_ARGS__)
#define GPU_SHARED(name)                unsigned char *name = emulate_shared()
#define GPU_ALLOW_SHARED(kernel, bytes) gpuSuccess

/* ---- the runtime: CUDA's, as far as it is used ---- */

typedef enum gpuError_t {
    gpuSuccess,
    gpuErrorMemoryAllocation,
    gpuErrorInvalidValue,
    gpuErrorNotReady,
    gpuErrorLaunch
} gpuError_t;

struct gpuDeviceProp {
    char name[256];
    size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerBlockOptin;
    int major, minor, multiProcessorCount, warpSize;
};

#define gpuSharedMost(p) ((p)->sharedMemPerBlockOptin)
#define gpuWhyNone(e)    gpuGetErrorString(e)

const char *gpuGetErrorString(gpuError_t e);
gpuError_t gpuGetLastError(void); /* and forgets it */
gpuError_t gpuPeekAtLastError(void);
gpuError_t gpuGetDeviceCount(int *n);
gpuError_t gpuSetDevice(int device);
gpuError_t gpuGetDeviceProperties(gpuDeviceProp *out, int device);
gpuError_t gpuDeviceGetPCIBusId(char *out, int cap, int device);
gpuError_t gpuMalloc(void **out, size_t bytes);
gpuError_t gpuFree(void *p);
gpuError_t gpuHostAlloc(void **out, size_t bytes);
gpuError_t gpuFreeHost(void *p);
gpuError_t gpuMemGetInfo(size_t *free_bytes, size_t *all_bytes);
gpuError_t gpuMemcpyAsync(void *to, const void *from, size_t bytes, gpuStream_t s);
gpuError_t gpuMemsetAsync(void *p, int byte, size_t bytes, gpuStream_t s);
gpuError_t gpuStreamCreateWithPriority(gpuStream_t *out, int priority);
gpuError_t gpuStreamDestroy(gpuStream_t s);
gpuError_t gpuStreamSynchronize(gpuStream_t s);
gpuError_t gpuStreamWaitEvent(gpuStream_t s, gpuEvent_t e);
gpuError_t gpuDeviceSynchronize(void);
gpuError_t gpuEventCreate(gpuEvent_t *out);
gpuError_t gpuEventDestroy(gpuEvent_t e);
gpuError_t gpuEventRecord(gpuEvent_t e, gpuStream_t s);
gpuError_t gpuEventSynchronize(gpuEvent_t e);
gpuError_t gpuEventQuery(gpuEvent_t e);
gpuError_t gpuEventElapsedTime(float *milliseconds, gpuEvent_t from, gpuEvent_t to);

/* A graph is what was put into a stream between begin and end, in its order. Who waits for the stream in between, or
 * copies from or to memory that is not pinned, ends the program. */
struct emulate_graph;
typedef emulate_graph *gpuGraph_t, *gpuGraphExec_t;
gpuError_t gpuStreamBeginCapture(gpuStream_t s);
gpuError_t gpuStreamEndCapture(gpuStream_t s, gpuGraph_t *out);
gpuError_t gpuGraphInstantiate(gpuGraphExec_t *out, gpuGraph_t graph);
gpuError_t gpuGraphDestroy(gpuGraph_t graph);
gpuError_t gpuGraphLaunch(gpuGraphExec_t graph, gpuStream_t s);
gpuError_t gpuGraphExecDestroy(gpuGraphExec_t graph);
bool gpuCapturing(gpuStream_t s);

/* Work of a library's, which here is a function of the host's: in its turn in the stream. */
gpuError_t emulate_host(gpuStream_t s, std::function<void()> work);

#endif
