/* libraries_vendor.cu - opening the vendor's libraries, and what there is of them. */
#include "backend/gpu/gpu.h"

#include <dlfcn.h>

#include "backend/gpu/libraries.h"

#if defined(__HIP_PLATFORM_AMD__)
#define HOME         "ROCM_PATH"
#define FOLDER       "lib"
#define USUAL_FOLDER "/opt/rocm/lib"
#else
#define HOME         "CUDA_HOME"
#define FOLDER       "lib64"
#define USUAL_FOLDER "/usr/local/cuda/lib64"
#endif

void *tx__gpu_open_library(const char *told, const char *const *files, char *trouble, size_t cap)
{
    const char *only = told ? getenv(told) : NULL, *home = getenv(HOME);
    char path[1024];
    *trouble = 0;
    if (only && *only) {
        void *library = dlopen(only, RTLD_NOW | RTLD_LOCAL);
        if (!library) snprintf(trouble, cap, "%s=%s: %s", told, only, dlerror());
        return library;
    }
    for (int i = 0; files[i]; i++) {
        void *library = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (!library && !*trouble) snprintf(trouble, cap, "%s", dlerror());
        if (!library && home) {
            snprintf(path, sizeof path, "%s/" FOLDER "/%s", home, files[i]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
        if (!library) {
            snprintf(path, sizeof path, USUAL_FOLDER "/%s", files[i]);
            library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        }
        if (library) {
            *trouble = 0;
            return library;
        }
    }
    return NULL;
}

static tx_gpu_library *add(tx_gpu_library *out, int *n, const char *name)
{
    tx_gpu_library *l = &out[(*n)++];
    memset(l, 0, sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}

/* 22809 is 2.28.9. */
static void write_version(tx_gpu_library *l, long v)
{
    snprintf(l->version, sizeof l->version, "%ld.%ld.%ld", v / 10000, v / 100 % 100, v % 100);
}

static const char *no_function(tx_gpu_library *l, const char *function)
{
    snprintf(l->trouble, sizeof l->trouble, "it has no function %s", function);
    return l->trouble;
}

#if !defined(__HIP_PLATFORM_AMD__)
static void describe_cudnn(tx_gpu_library *l)
{
    static const char *const files[] = { "libcudnn.so.9", NULL };
    l->optional = true; /* kernels of our own attend instead */
    void *library = tx__gpu_open_library(NULL, files, l->trouble, sizeof l->trouble);
    if (!library) return;
    size_t (*version)(void) = (size_t(*)(void))dlsym(library, "cudnnGetVersion");
    if (version)
        write_version(l, (long)version());
    else
        no_function(l, "cudnnGetVersion");
    dlclose(library);
}
#endif

static void describe_nccl(tx_gpu_library *l)
{
#if defined(__HIP_PLATFORM_AMD__)
    static const char *const files[] = { "librccl.so.1", NULL };
#else
    static const char *const files[] = { "libnccl.so.2", NULL };
#endif
    int v = 0;
    l->optional = true; /* ranks exchange by way of the host's memory instead */
    void *library = tx__gpu_open_library("TX_NCCL_LIBRARY", files, l->trouble, sizeof l->trouble);
    if (!library) return;
    int (*version)(int *) = (int (*)(int *))dlsym(library, "ncclGetVersion");
    if (!version)
        no_function(l, "ncclGetVersion");
    else if (!version(&v))
        write_version(l, v);
    dlclose(library);
}

TX_GPU_ROW void tx__gpu_libraries(tx_gpu_library *out, int *n)
{
    *n = 0;
    tx__gpu_blaslt_describe(add(out, n, "BLASLt"));
#if defined(__HIP_PLATFORM_AMD__)
    describe_nccl(add(out, n, "RCCL"));
#else
    describe_cudnn(add(out, n, "cuDNN"));
    describe_nccl(add(out, n, "NCCL"));
#endif
}
