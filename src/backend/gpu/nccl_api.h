/* nccl_api.h - what is used of NCCL and RCCL, whose binary interfaces are the same: declarations of our own, so that it
 * is compiled where nccl.h is not. nccl_vendor.cu finds the functions, or nccl_emulated.cu has others for tests. */
#ifndef TX_BACKEND_GPU_NCCL_API_H
#define TX_BACKEND_GPU_NCCL_API_H

#include "backend/gpu/gpu.h"

typedef struct nccl_comm nccl_comm;

typedef struct nccl_id {
    char bytes[128];
} nccl_id;

enum {
    NCCL_SUCCESS,
    NCCL_CUDA_ERROR,
    NCCL_SYSTEM_ERROR,
    NCCL_INTERNAL_ERROR,
    NCCL_INVALID_ARGUMENT,
    NCCL_INVALID_USAGE,
    NCCL_REMOTE_ERROR,
    NCCL_IN_PROGRESS
};
enum { NCCL_INT32 = 2, NCCL_INT64 = 4, NCCL_FLOAT16 = 6, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };
enum { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_MIN = 3 };

/* As of version 2.14: later ones take it and do not read further. */
typedef struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, unused;
} nccl_config;
#define NCCL_CONFIG_MAGIC   0xcafebeefu
#define NCCL_CONFIG_VERSION 21400u

#define NCCL_CALLS(CALL)                                                                                           \
    CALL(int, GetVersion, (int *version))                                                                          \
    CALL(int, GetUniqueId, (nccl_id * id))                                                                         \
    CALL(int, CommInitRankConfig, (nccl_comm * *comm, int size, nccl_id id, int rank, nccl_config *config))        \
    CALL(int, CommFinalize, (nccl_comm * comm))                                                                    \
    CALL(int, CommDestroy, (nccl_comm * comm))                                                                     \
    CALL(int, CommAbort, (nccl_comm * comm))                                                                       \
    CALL(int, CommGetAsyncError, (nccl_comm * comm, int *error))                                                   \
    CALL(const char *, GetErrorString, (int error))                                                                \
    CALL(const char *, GetLastError, (nccl_comm * comm))                                                           \
    CALL(int, AllReduce, (const void *x, void *y, size_t n, int type, int op, nccl_comm *comm, gpuStream_t s))     \
    CALL(int, ReduceScatter, (const void *x, void *y, size_t n, int type, int op, nccl_comm *comm, gpuStream_t s)) \
    CALL(int, AllGather, (const void *x, void *y, size_t n, int type, nccl_comm *comm, gpuStream_t s))             \
    CALL(int, Broadcast, (const void *x, void *y, size_t n, int type, int root, nccl_comm *comm, gpuStream_t s))   \
    CALL(int, Send, (const void *x, size_t n, int type, int to, nccl_comm *comm, gpuStream_t s))                   \
    CALL(int, Recv, (void *y, size_t n, int type, int from, nccl_comm *comm, gpuStream_t s))                       \
    CALL(int, GroupStart, (void))                                                                                  \
    CALL(int, GroupEnd, (void))

typedef struct nccl_calls {
    const char *name; /* "NCCL", "RCCL" */
#define NCCL_MEMBER(result, call, arguments) result(*call) arguments;
    NCCL_CALLS(NCCL_MEMBER)
#undef NCCL_MEMBER
} nccl_calls;

/* TX_ERR_NOTFOUND: what is missing. The same for all threads, and for ever. */
tx_status tx__nccl_find(const nccl_calls **out);

#endif
