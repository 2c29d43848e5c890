/* nccl_vendor.cu - opens the vendor's library for calls between GPUs. */
#include <dlfcn.h>
#include <pthread.h>

#include "backend/gpu/nccl_api.h"

#if defined(__HIP_PLATFORM_AMD__) || defined(__HIP__)
#define NAME      "RCCL"
#define FILE_NAME "librccl.so.1"
#else
#define NAME      "NCCL"
#define FILE_NAME "libnccl.so.2"
#if __has_include(<nccl.h>)
#include <nccl.h>
static_assert((int)ncclInProgress == NCCL_IN_PROGRESS && (int)ncclRemoteError == NCCL_REMOTE_ERROR, "results");
static_assert((int)ncclInt32 == NCCL_INT32 && (int)ncclInt64 == NCCL_INT64 && (int)ncclFloat16 == NCCL_FLOAT16 &&
                  (int)ncclFloat32 == NCCL_FLOAT32 && (int)ncclFloat64 == NCCL_FLOAT64 &&
                  (int)ncclBfloat16 == NCCL_BFLOAT16,
              "types");
static_assert((int)ncclSum == NCCL_SUM && (int)ncclMax == NCCL_MAX && (int)ncclMin == NCCL_MIN, "operations");
static_assert(sizeof(ncclUniqueId) == sizeof(nccl_id), "ids");
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(nccl_config, blocking), "configuration");
#endif
#endif

static nccl_calls calls;
static char trouble[512];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    const char *told = getenv("TX_NCCL_LIBRARY"), *file = told && *told ? told : FILE_NAME;
    /* Streams of several communicators are kept apart by the order in which the host calls, the same on all ranks. */
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(trouble, sizeof trouble, "%s cannot be loaded: %s", file, dlerror());
        return;
    }
#define NCCL_FIND(result, call, arguments)                \
    *(void **)&calls.call = dlsym(library, "nccl" #call); \
    if (!calls.call) snprintf(trouble, sizeof trouble, "%s has no nccl" #call ": " NAME " 2.14 is needed", file);
    NCCL_CALLS(NCCL_FIND)
#undef NCCL_FIND
    calls.name = NAME;
}

tx_status tx__nccl_find(const nccl_calls **out)
{
    pthread_once(&once, find);
    *out = &calls;
    return trouble[0] ? TX_FAIL(TX_ERR_NOTFOUND, "%s", trouble) : TX_OK;
}
