/* gpu_module.h - the module that knows a GPU: libtriax_cuda.so, libtriax_hip.so, or the emulated one of the tests. It
 * is opened at run time, so that the same program starts where there is no GPU, and holds all that is compiled for a
 * GPU: kernels, and the calls of the vendor's libraries (backend/gpu/). It adds the backend "gpu". */
#ifndef TX_BACKEND_GPU_MODULE_H
#define TX_BACKEND_GPU_MODULE_H

#include "backend/backend.h"
#include "base/alloc.h"

/* Functions of the program that opened the module, for the module to call. */
typedef struct tx_gpu_host {
    size_t size; /* of this struct, and of those whose layout both sides have to agree on */
    size_t ctx_size, ops_size, tensor_size, backend_size;
    const char *version; /* tx_version() */
    tx_status (*fail)(tx_status code, const char *text);
    const char *(*last_error)(void);
    tx_status (*alloc)(void *out, size_t n, size_t size, const char *what);
    tx_status (*realloc)(void *inout, size_t n, size_t size, const char *what);
    void (*free)(void *p);
} tx_gpu_host;

/* A GPU, as `doctor` and the start table show it. */
typedef struct tx_gpu_info {
    char name[128], bus[16], arch[16]; /* "NVIDIA H200", "0000:19:00.0", "sm_90" */
    size_t memory;                     /* bytes */
    int n_multiprocessors, warp;
} tx_gpu_info;

/* A library that the module opens when it needs it. */
typedef struct tx_gpu_library {
    char name[32], version[32], trouble[256]; /* "cuDNN", "9.19.0"; why it cannot be used, or "" */
    bool optional;                            /* without it other code does the same */
} tx_gpu_library;

enum { TX_GPU_MAX = 64, TX_GPU_MAX_LIBRARIES = 8 };

typedef struct tx_gpu_module {
    size_t size;
    const char *kind; /* "CUDA", "HIP", "emulated" */
    tx_backend backend;
    /* The GPUs that can be used. TX_ERR_NOTFOUND: there is none, and what is missing.  @out [TX_GPU_MAX] */
    tx_status (*list)(tx_gpu_info *out, int *n);
    void (*libraries)(tx_gpu_library *out, int *n); /* @out [TX_GPU_MAX_LIBRARIES] */
    const struct tx_gpu_collectives *collectives;   /* NCCL, RCCL (gpu_collectives.h); NULL: not built with it */

    /* Which of a library's algorithms makes a matrix product. A product of a shape (sizes, transposes, types, row
     * lengths, bias, accumulation, alignments) gets its algorithm once: the library's first guess, or with
     * TX_GPU_GEMM_TIMING=1 the quickest of its guesses, each tried a few times. Another library, or a run that times
     * anew, may choose differently and then differ in the last digits. So a run that continues another one loads its
     * choices, and makes the same bits. The choices are text, one line a shape.
     *
     *  n_open  shapes that a dry run has shown and that have no algorithm yet
     *  choose  chooses for them. It needs memory while it runs, so it is called before the run allocates its own. The
     *          host waits. For a shape that is left, because no dry run has shown it or memory was short, the algorithm
     *          is chosen at its first product, and the host waits then
     *  save    what was loaded and chosen so far, in that order; "" where nothing is chosen.  @out: the caller frees it
     *          with tx_free()
     *  load    reads such a text, of another run or rank: from now on products use its choices, also products that
     *          used another algorithm before. Lines for other libraries, versions and GPUs are skipped.  @n_used,
     *          @n_other: lines of either kind   TX_ERR_FORMAT: not a text that save has written */
    int (*n_open_choices)(const tx_ctx *c);
    tx_status (*choose)(tx_ctx *c);
    tx_status (*load_choices)(tx_ctx *c, const char *text, int *n_used, int *n_other);
    tx_status (*save_choices)(const tx_ctx *c, char **out);
} tx_gpu_module;

/* The module's one symbol. NULL: made for another version. */
typedef const tx_gpu_module *tx_gpu_module_entry(const tx_gpu_host *host);
#define TX_GPU_MODULE_SYMBOL "tx_gpu_module_open"

/* gpu_module.c: the module of this machine, opened by the first call: the file that TX_GPU_MODULE names, or the first
 * of libtriax_cuda.so and libtriax_hip.so beside the program or in the library's folder that has a GPU to use.
 * TX_ERR_NOTFOUND: what is missing, for a user. */
tx_status tx_gpu_module_get(const tx_gpu_module **out);

#endif
