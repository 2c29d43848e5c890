/* port.h - one kernel source for three compilers: nvcc (NVIDIA), hipcc (AMD) and g++ (on the host, a fiber a thread:
 * emulate.h). Kernels and their launchers use the names of this page and no vendor's.
 *
 *      WARP                lanes that go together: 32, or 64 (AMD's CDNA). A constant in kernels, unknown to launchers:
 *                          a kernel finds how many warps there are from blockDim, and goes through its work by strides
 *      shfl, shfl_xor      a lane's number from another one; all lanes of the warp take part
 *      sync_warp           the same as a barrier; __syncthreads() is the block's
 *      GPU_LAUNCH          kernel<<<...>>>
 *      GPU_SHARED          the launch's dynamic shared memory, 16-byte aligned
 *      f32(x), to<T>(f)    from a value's type to fp32, and back, rounding to the nearest even
 *      pack<T, N>          N values that are loaded and stored at once
 *
 *  Sums have a fixed order and there are no float atomics: the same launch computes the same bits. */
#ifndef TX_BACKEND_GPU_PORT_H
#define TX_BACKEND_GPU_PORT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- compilers ---- */

#if defined(TX_GPU_EMULATED)

#include "backend/gpu/emulate.h"

#elif defined(__HIP_PLATFORM_AMD__) || defined(__HIP__)

#include <hip/hip_runtime.h>
#include <unistd.h>

#if defined(__GFX10__) || defined(__GFX11__) || defined(__GFX12__)
#define WARP 32
#else
#define WARP 64
#endif
#define GPU_NAME(name)     hip##name
#define gpuHostAlloc(p, n) hipHostMalloc((p), (n), 0)
#define gpuFreeHost        hipHostFree
#define gpuDeviceProp      hipDeviceProp_t
#define gpuSharedMost(p)   ((p)->sharedMemPerBlock)
/* The runtime has no words for a driver that is missing. */
static inline const char *gpuWhyNone(hipError_t e)
{
    return access("/dev/kfd", F_OK) ? "AMD's driver is not loaded: there is no /dev/kfd" : hipGetErrorString(e);
}
template <class T> __device__ static inline T shfl(T v, int lane)
{
    return __shfl(v, lane, WARP);
}
template <class T> __device__ static inline T shfl_xor(T v, int mask)
{
    return __shfl_xor(v, mask, WARP);
}
__device__ static inline void sync_warp(void)
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront"); /* lanes go in step; shared memory is to be seen */
    __builtin_amdgcn_wave_barrier();
}

#else

#include <cuda_runtime.h>

#define WARP               32
#define GPU_NAME(name)     cuda##name
#define gpuHostAlloc(p, n) cudaHostAlloc((p), (n), cudaHostAllocPortable)
#define gpuFreeHost        cudaFreeHost
#define gpuDeviceProp      cudaDeviceProp
#define gpuSharedMost(p)   ((p)->sharedMemPerBlockOptin)
/* The runtime has no words for a driver that is missing. */
static inline const char *gpuWhyNone(cudaError_t e)
{
    int version = 0;
    return e == cudaErrorInsufficientDriver && !cudaDriverGetVersion(&version) && !version
               ? "NVIDIA's driver is not installed: there is no libcuda.so.1"
               : cudaGetErrorString(e);
}
template <class T> __device__ static inline T shfl(T v, int lane)
{
    return __shfl_sync(0xffffffffu, v, lane);
}
template <class T> __device__ static inline T shfl_xor(T v, int mask)
{
    return __shfl_xor_sync(0xffffffffu, v, mask);
}
__device__ static inline void sync_warp(void)
{
    __syncwarp();
}

#endif

/* The runtime, as far as device.cu and the libraries' files need it: CUDA's words for it. */
#if !defined(TX_GPU_EMULATED)
#define gpuStream_t                       GPU_NAME(Stream_t)
#define gpuEvent_t                        GPU_NAME(Event_t)
#define gpuError_t                        GPU_NAME(Error_t)
#define gpuSuccess                        GPU_NAME(Success)
#define gpuErrorNotReady                  GPU_NAME(ErrorNotReady)
#define gpuErrorMemoryAllocation          GPU_NAME(ErrorMemoryAllocation)
#define gpuGetErrorString                 GPU_NAME(GetErrorString)
#define gpuGetLastError                   GPU_NAME(GetLastError)
#define gpuPeekAtLastError                GPU_NAME(PeekAtLastError)
#define gpuGetDeviceCount                 GPU_NAME(GetDeviceCount)
#define gpuSetDevice                      GPU_NAME(SetDevice)
#define gpuGetDeviceProperties            GPU_NAME(GetDeviceProperties)
#define gpuDeviceGetPCIBusId              GPU_NAME(DeviceGetPCIBusId)
#define gpuDeviceSynchronize              GPU_NAME(DeviceSynchronize)
#define gpuMalloc                         GPU_NAME(Malloc)
#define gpuFree                           GPU_NAME(Free)
#define gpuMemGetInfo                     GPU_NAME(MemGetInfo)
#define gpuMemcpyAsync(to, from, n, s)    GPU_NAME(MemcpyAsync)((to), (from), (n), GPU_NAME(MemcpyDefault), (s))
#define gpuMemsetAsync                    GPU_NAME(MemsetAsync)
#define gpuStreamCreateWithPriority(s, p) GPU_NAME(StreamCreateWithPriority)((s), GPU_NAME(StreamNonBlocking), (p))
#define gpuStreamDestroy                  GPU_NAME(StreamDestroy)
#define gpuStreamSynchronize              GPU_NAME(StreamSynchronize)
#define gpuStreamWaitEvent(s, e)          GPU_NAME(StreamWaitEvent)((s), (e), 0)
#define gpuEventCreate                    GPU_NAME(EventCreate)
#define gpuEventDestroy                   GPU_NAME(EventDestroy)
#define gpuEventRecord                    GPU_NAME(EventRecord)
#define gpuEventSynchronize               GPU_NAME(EventSynchronize)
#define gpuEventQuery                     GPU_NAME(EventQuery)
#define gpuEventElapsedTime               GPU_NAME(EventElapsedTime)
#define gpuGraph_t                        GPU_NAME(Graph_t)
#define gpuGraphExec_t                    GPU_NAME(GraphExec_t)
#define gpuStreamBeginCapture(s)          GPU_NAME(StreamBeginCapture)((s), GPU_NAME(StreamCaptureModeThreadLocal))
#define gpuStreamEndCapture               GPU_NAME(StreamEndCapture)
#define gpuGraphInstantiate(out, graph)   GPU_NAME(GraphInstantiateWithFlags)((out), (graph), 0)
#define gpuGraphDestroy                   GPU_NAME(GraphDestroy)
#define gpuGraphLaunch                    GPU_NAME(GraphLaunch)
#define gpuGraphExecDestroy               GPU_NAME(GraphExecDestroy)

/* Whether work is recorded for a graph instead of done: then nothing can be waited for. */
static inline bool gpuCapturing(gpuStream_t s)
{
    GPU_NAME(StreamCaptureStatus) status;
    return !GPU_NAME(StreamIsCapturing)(s, &status) && status != GPU_NAME(StreamCaptureStatusNone);
}

/* kernel: a function, or (one<with, commas>). Its errors are gpuGetLastError's. */
#define GPU_LAUNCH(stream, grid, block, shared_bytes, kernel, ...)           \
    do {                                                                     \
        auto kernel_ = kernel;                                               \
        kernel_<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__); \
    } while (0)
#define GPU_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
/* More than 48 KiB of it has to be asked for once, before the launch. */
#define GPU_ALLOW_SHARED(kernel, bytes) \
    GPU_NAME(FuncSetAttribute)          \
    ((const void *)(kernel), GPU_NAME(FuncAttributeMaxDynamicSharedMemorySize), (int)(bytes))
#endif

/* How many threads a block has at most: registers are limited so that it can be launched. */
#if defined(TX_GPU_EMULATED)
#define GPU_BLOCK_MOST(threads)
#else
#define GPU_BLOCK_MOST(threads) __launch_bounds__(threads)
#endif

#define TX_DEVICE_CODE __host__ __device__

/* ---- values ---- */

struct alignas(2) bf16 {
    uint16_t bits;
};
struct alignas(2) fp16 {
    uint16_t bits;
};

TX_DEVICE_CODE static inline uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
TX_DEVICE_CODE static inline float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

TX_DEVICE_CODE static inline float f32(float x)
{
    return x;
}
TX_DEVICE_CODE static inline float f32(bf16 x)
{
    return of_bits((uint32_t)x.bits << 16);
}
TX_DEVICE_CODE static inline float f32(fp16 x)
{
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#if defined(__CUDA_ARCH__)
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
    return f;
#else
    _Float16 h;
    __builtin_memcpy(&h, &x.bits, 2);
    return (float)h;
#endif
#else
    uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
    if (rest >= 0x7c00u) return of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13); /* infinite, NaN */
    if (rest < 0x400u) return (sign ? -1.0f : 1.0f) * (float)rest * 0x1p-24f;        /* subnormal, zero */
    return of_bits(sign | ((rest << 13) + 0x38000000u));
#endif
}

template <class T> TX_DEVICE_CODE static inline T to(float f);
template <> TX_DEVICE_CODE inline float to<float>(float f)
{
    return f;
}
template <> TX_DEVICE_CODE inline bf16 to<bf16>(float f)
{
    bf16 y;
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(f));
#else
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        y.bits = (uint16_t)(u >> 16 | 0x40u); /* NaN stays one */
    else
        y.bits = (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
#endif
    return y;
}
template <> TX_DEVICE_CODE inline fp16 to<fp16>(float f)
{
    fp16 y;
#if defined(__CUDA_ARCH__)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(f));
#elif defined(__HIP_DEVICE_COMPILE__)
    _Float16 h = (_Float16)f;
    __builtin_memcpy(&y.bits, &h, 2);
#else
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;
    if (rest > 0x7f800000u)
        y.bits = (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    else if (rest >= 0x47800000u) /* 65536 and more */
        y.bits = (uint16_t)(sign | 0x7c00u);
    else if (rest < 0x38800000u) /* below 2^-14: the sum rounds to a multiple of 2^-24 */
        y.bits = (uint16_t)(sign | (bits_of(of_bits(rest) + 0.5f) - 0x3f000000u));
    else /* what carries over from 65504 becomes infinite by itself */
        y.bits = (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
#endif
    return y;
}

/* 2^x as the GPU has it: what is below fp32's normal numbers may be 0. */
__device__ static inline float exp2_of(float x)
{
#if defined(__CUDA_ARCH__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#elif defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_exp2f(x);
#else
    return exp2f(x);
#endif
}

/* a / b to two units in the last place, where b is at most 2^126. */
__device__ static inline float quotient(float a, float b)
{
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
    return __fdividef(a, b);
#else
    return a / b;
#endif
}

/* e^x and a / b for results of type T: fp32's in full, or what is more than enough for bf16 and fp16. */
template <class T> __device__ static inline float exp_for(float x)
{
    return sizeof(T) == sizeof(float) ? expf(x) : exp2_of(x * 1.44269504088896341f);
}
template <class T> __device__ static inline float quotient_for(float a, float b)
{
    return sizeof(T) == sizeof(float) ? a / b : quotient(a, b);
}

/* N values of 16 bytes or less in all, at an address that is a multiple of that. */
template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T v[N];
};
/* How many values of T are 16 bytes. */
template <class T> struct pack_of {
    static const int n = 16 / (int)sizeof(T);
};
template <class T, int N> TX_DEVICE_CODE static inline pack<T, N> load_pack(const T *p)
{
    return *(const pack<T, N> *)p;
}
template <class T, int N> TX_DEVICE_CODE static inline void store_pack(T *p, pack<T, N> x)
{
    *(pack<T, N> *)p = x;
}

/* N numbers, in packs of at most 16 bytes: the address is a multiple of those. */
template <int N, class T> TX_DEVICE_CODE static inline void load_floats(const T *p, float *f)
{
    const int n = pack_of<T>::n < N ? pack_of<T>::n : N;
    for (int k = 0; k < N; k += n) {
        pack<T, n> x = load_pack<T, n>(p + k);
        for (int i = 0; i < n; i++) f[k + i] = f32(x.v[i]);
    }
}
template <int N, class T> TX_DEVICE_CODE static inline void store_floats(T *p, const float *f)
{
    const int n = pack_of<T>::n < N ? pack_of<T>::n : N;
    for (int k = 0; k < N; k += n) {
        pack<T, n> x;
        for (int i = 0; i < n; i++) x.v[i] = to<T>(f[k + i]);
        store_pack<T, n>(p + k, x);
    }
}
static inline bool aligned16(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* ---- sums over a warp and over a block ---- */

template <class T> __device__ static inline T warp_sum(T v)
{
    for (int m = WARP / 2; m; m >>= 1) v += shfl_xor(v, m);
    return v;
}
__device__ static inline float warp_max(float v)
{
    for (int m = WARP / 2; m; m >>= 1) v = fmaxf(v, shfl_xor(v, m));
    return v;
}

/* Over 32 lanes, whatever a warp has: sums of pairs, of fours and so on, always in this order. */
#define LANES 32
__device__ static inline double lanes_sum(double v)
{
    for (int m = LANES / 2; m; m >>= 1) v += shfl_xor(v, m);
    return v;
}

/* Both sums of all threads of a block, as block_sum. */
__device__ static inline void block_sum2(float *a, float *b)
{
    __shared__ float part[2][32];
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, n = (int)blockDim.x / WARP;
    *a = warp_sum(*a);
    *b = warp_sum(*b);
    __syncthreads();
    if (lane == 0) part[0][warp] = *a, part[1][warp] = *b;
    __syncthreads();
    *a = part[0][0];
    *b = part[1][0];
    for (int i = 1; i < n; i++) *a += part[0][i], *b += part[1][i];
}

/* Of all threads of a block of at most 1024 (a multiple of WARP), in all of them. Two barriers. */
template <class T> __device__ static inline T block_sum(T v)
{
    __shared__ T part[32];
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, n = (int)blockDim.x / WARP;
    v = warp_sum(v);
    __syncthreads(); /* of the use before this one */
    if (lane == 0) part[warp] = v;
    __syncthreads();
    T sum = part[0];
    for (int i = 1; i < n; i++) sum += part[i];
    return sum;
}
__device__ static inline float block_max(float v)
{
    __shared__ float part[32];
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP, n = (int)blockDim.x / WARP;
    v = warp_max(v);
    __syncthreads();
    if (lane == 0) part[warp] = v;
    __syncthreads();
    float most = part[0];
    for (int i = 1; i < n; i++) most = fmaxf(most, part[i]);
    return most;
}

#endif
