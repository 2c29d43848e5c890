/* gpu.h - what the files of backend "gpu" share. They are a module of their own (gpu_module.h), compiled by nvcc, hipcc
 * or, for tests, g++.
 *
 *  A row of the op table is a launcher: it reads shapes on the host and puts kernels into the compute stream. It never
 * waits. Tensors lie in the device's memory, or in host memory that the device reaches. Values are fp32, bf16 and fp16;
 * kernels compute in fp32.
 *
 *  What a kernel finds wrong it leaves in the fault (first one wins), which the next call that waits reads. */
#ifndef TX_BACKEND_GPU_GPU_H
#define TX_BACKEND_GPU_GPU_H

#include "backend/gpu/port.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define _Noreturn
extern "C" {
#include "backend/gpu_module.h"
}
#undef _Noreturn

#define TX_GPU_ROW extern "C"

/* Something wrong with numbers that only the device sees. */
typedef enum tx__fault_kind {
    TX__FAULT_NONE,
    TX__FAULT_TOKEN,    /* an id outside the rows of an embedding */
    TX__FAULT_KIND,     /* of its types */
    TX__FAULT_POSITION, /* of its positions */
    TX__FAULT_LABEL,    /* a class that is none */
    TX__FAULT_KEYS,     /* n_keys, a past or first_key outside what there is */
    TX__FAULT_PAIRS,    /* more choices of experts than there is room for */
    TX__N_FAULTS
} tx__fault_kind;

typedef struct tx__fault {
    int kind; /* 0: none */
    int unused;
    long long index, value, limit; /* place in the tensor, what is there, what it has to be below */
} tx__fault;

/* Which of a library's ways a product of a shape is made in (gemm_vendor.cu), and what makes them. */
struct tx__gpu_products;
struct tx__gpu_attention;

/* Memory that was taken. */
typedef struct tx__gpu_block {
    const unsigned char *base;
    size_t bytes;
} tx__gpu_block;

typedef struct tx__gpu {
    tx_device device;     /* first */
    tx__gpu_block *block; /* [n_blocks] */
    int n_blocks, max_blocks;
    gpuStream_t stream[TX_N_STREAMS];
    int n_sm, warp;      /* multiprocessors; lanes */
    int major, minor;    /* compute capability; of AMD the gfx number's */
    size_t shared_bytes; /* that a block can have */
    tx__fault *fault;    /* the device's */
    tx__fault *seen;     /* the host's, pinned */
    bool blocking;       /* TX_GPU_BLOCKING=1: every op waits for itself, so that errors name it */
    bool keeps_graphs;   /* unless blocking, or TX_GPU_GRAPHS=0 */
    struct tx__gpu_products *products;
    struct tx__gpu_attention *attention;
} tx__gpu;

/* device.cu: what this thread calls from now on goes to that GPU: the runtime keeps one for each thread. */
void tx__gpu_use(const tx__gpu *g);

static inline tx__gpu *tx__gpu_of(const tx_ctx *c)
{
    tx__gpu *g = (tx__gpu *)c->backend_state;
    tx__gpu_use(g);
    return g;
}

static inline gpuStream_t tx__gpu_compute(const tx_ctx *c)
{
    return tx__gpu_of(c)->stream[TX_STREAM_COMPUTE];
}

/* TX_ERR_DEVICE with the runtime's words, or TX_ERR_NOMEM. */
tx_status tx__gpu_error(gpuError_t e, const char *what);
#define GPU_TRY(call)                                        \
    do {                                                     \
        gpuError_t gpu_try_ = (call);                        \
        if (gpu_try_) return tx__gpu_error(gpu_try_, #call); \
    } while (0)

/* Called after the launches of a row: whether they succeeded. */
tx_status tx__gpu_launched(const tx_ctx *c, const char *op);

/* TX_ERR_UNSUPPORTED unless fp32, bf16 or fp16. */
tx_status tx__gpu_need_float(const char *op, tx_tensor x);

/* Runs the rest with T as the type of values of dtype t, which is fp32, bf16 or fp16. */
#define GPU_FLOAT(t, T, ...) \
    switch (t) {             \
    case TX_BF16: {          \
        typedef bf16 T;      \
        __VA_ARGS__;         \
    } break;                 \
    case TX_F16: {           \
        typedef fp16 T;      \
        __VA_ARGS__;         \
    } break;                 \
    default: {               \
        typedef float T;     \
        __VA_ARGS__;         \
    } break;                 \
    }

__device__ static inline void tx__gpu_fault(tx__fault *f, int kind, long long index, long long value, long long limit)
{
    if (atomicCAS(&f->kind, 0, kind)) return;
    f->index = index;
    f->value = value;
    f->limit = limit;
}

/* Blocks of `threads` for n units of work, a unit each: no more than fill the device several times, because kernels go
 * through their work by strides. */
static inline unsigned tx__gpu_blocks(const tx_ctx *c, int64_t n, int threads)
{
    int64_t blocks = (n + threads - 1) / threads, most = (int64_t)tx__gpu_of(c)->n_sm * 32;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* A row per warp, in blocks of `threads`. */
static inline unsigned tx__gpu_warp_blocks(const tx_ctx *c, int64_t n_rows, int threads)
{
    return tx__gpu_blocks(c, n_rows * tx__gpu_of(c)->warp, threads);
}

/* In kernels: the thread's number in the grid, and how many there are; likewise of warps. */
__device__ static inline int64_t grid_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ static inline int64_t grid_threads(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}
__device__ static inline int64_t grid_warp(void)
{
    return (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
}
__device__ static inline int64_t grid_warps(void)
{
    return (int64_t)gridDim.x * (blockDim.x / WARP);
}

/* How many parts a sum over rows is made of, each of which a block sums: so many that the device is busy, whatever its
 * size, because the parts are the same on all. */
static inline int64_t tx__gpu_row_parts(int64_t rows, int64_t n)
{
    int64_t blocks = (n + 127) / 128, parts = (1024 + blocks - 1) / blocks, most = (rows + 15) / 16;
    return most < 1 ? 1 : parts < most ? parts : most;
}

/* Threads of a block, in whole warps of either width, for n of them that work; at most 1024. */
static inline unsigned tx__gpu_threads(int64_t n)
{
    int64_t threads = (n + 63) / 64 * 64;
    return (unsigned)(threads < 1024 ? threads : 1024);
}

/* basic.cu: y[j] += part[0][j] + part[1][j] + ..., in this order. */
void tx__gpu_add_parts(const tx_ctx *c, float *y, const float *part, int64_t parts, int64_t n);

#define ROW(op) TX_GPU_ROW tx_status tx__gpu_##op(tx_ctx *c, const tx_##op##_args *a, void *scratch);
#include "backend/gpu/rows.def"

#define OP(op, outputs, cost, scratch) scratch
#define GPU_SCRATCH(op)                TX_GPU_ROW size_t tx__gpu_##op##_scratch(const tx_ctx *c, const tx_##op##_args *a);
#include "backend/ops.def"

/* device.cu */
tx_status tx__gpu_device_open(tx__gpu *g, int number);
void tx__gpu_device_close(tx__gpu *g);
TX_GPU_ROW tx_status tx__gpu_list(tx_gpu_info *out, int *n);

/* gemm_vendor.cu, gemm_emulated.cu; attention */
tx_status tx__gpu_gemm_open(tx__gpu *g);
void tx__gpu_gemm_close(tx__gpu *g);
TX_GPU_ROW int tx__gpu_gemm_n_open(const tx_ctx *c);
TX_GPU_ROW tx_status tx__gpu_gemm_choose(tx_ctx *c);
TX_GPU_ROW tx_status tx__gpu_gemm_load(tx_ctx *c, const char *text, int *n_used, int *n_other);
TX_GPU_ROW tx_status tx__gpu_gemm_save(const tx_ctx *c, char **out);

/* collectives.cu */
extern "C" struct tx_gpu_collectives tx__gpu_collectives; /* not const: hipcc would want it on the device */

/* libraries_vendor.cu */
TX_GPU_ROW void tx__gpu_libraries(tx_gpu_library *out, int *n);

/* module.cu: the host's */
extern const tx_gpu_host *tx__gpu_host;

#endif
