/* blaslt.h - what gemm_vendor.cu calls of cuBLASLt and hipBLASLt, in declarations of our own. The two have the same
 * functions with other prefixes, and other numbers for the same words; both are opened at run time, so that a module is
 * built and starts without them. Matrices are column-major.
 *
 *  Sources: cublasLt.h 13.1, which blaslt_cuda.cu compares with this; hipblaslt.h 0.10. */
#ifndef TX_BACKEND_GPU_BLASLT_H
#define TX_BACKEND_GPU_BLASLT_H

#include <stddef.h>
#include <stdint.h>

#if defined(__HIP_PLATFORM_AMD__)
#define BLASLT_NAME  "hipBLASLt"
#define BLASLT_FILES "libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"
#define BLASLT(name) "hipblasLt" #name
enum {
    BLASLT_OP_N = 111,
    BLASLT_OP_T = 112,
    BLASLT_COMPUTE_32F = 2,
    BLASLT_DESC_TRANSA = 0,
    BLASLT_DESC_TRANSB = 1,
    BLASLT_DESC_EPILOGUE = 2,
    BLASLT_DESC_BIAS_POINTER = 3,
    BLASLT_DESC_BIAS_DATA_TYPE = 4,
    BLASLT_PREF_MAX_WORKSPACE_BYTES = 1
};
typedef struct blaslt_algo { /* bytes of any value, that mean the same in another process */
    uint8_t data[16];
    size_t max_workspace_bytes;
} blaslt_algo;
#else
#define BLASLT_NAME  "cuBLASLt"
#define BLASLT_FILES "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"
#define BLASLT(name) "cublasLt" #name
enum {
    BLASLT_OP_N = 0,
    BLASLT_OP_T = 1,
    BLASLT_COMPUTE_32F = 68,
    BLASLT_DESC_TRANSA = 3,
    BLASLT_DESC_TRANSB = 4,
    BLASLT_DESC_EPILOGUE = 7,
    BLASLT_DESC_BIAS_POINTER = 8,
    BLASLT_DESC_BIAS_DATA_TYPE = 26,
    BLASLT_PREF_MAX_WORKSPACE_BYTES = 1,
    BLASLT_PREF_REDUCTION_SCHEME_MASK = 3,
    BLASLT_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    BLASLT_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    BLASLT_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    BLASLT_PREF_MIN_ALIGNMENT_D_BYTES = 8,
    BLASLT_REDUCTION_COMPUTE_TYPE = 2
};
typedef struct blaslt_algo {
    uint64_t data[8];
} blaslt_algo;
#endif

enum {
    BLASLT_R_32F = 0,
    BLASLT_R_16F = 2,
    BLASLT_R_16BF = 14,
    BLASLT_EPILOGUE_DEFAULT = 1,
    BLASLT_EPILOGUE_BIAS = 4, /* D's rows, which are our columns, each get theirs */
    BLASLT_SUCCESS = 0
};

typedef struct blaslt_heuristic {
    blaslt_algo algo;
    size_t workspace_bytes;
    int state; /* what the rest is worth: BLASLT_SUCCESS */
    float waves;
    int reserved[4];
} blaslt_heuristic;

/* CALL(name, (arguments)): each returns a status. Handles, descriptions and layouts are pointers to what is theirs. */
#define BLASLT_CALLS(CALL)                                                                                       \
    CALL(Create, (void **handle))                                                                                \
    CALL(Destroy, (void *handle))                                                                                \
    CALL(MatmulDescCreate, (void **desc, int compute, int scale_type))                                           \
    CALL(MatmulDescDestroy, (void *desc))                                                                        \
    CALL(MatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t bytes))                   \
    CALL(MatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld))                \
    CALL(MatrixLayoutDestroy, (void *layout))                                                                    \
    CALL(MatmulPreferenceCreate, (void **pref))                                                                  \
    CALL(MatmulPreferenceDestroy, (void *pref))                                                                  \
    CALL(MatmulPreferenceSetAttribute, (void *pref, int attribute, const void *value, size_t bytes))             \
    CALL(MatmulAlgoGetHeuristic, (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref,      \
                                  int n_wanted, blaslt_heuristic *out, int *n))                                  \
    CALL(Matmul, (void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb, \
                  const void *beta, const void *c, void *lc, void *d, void *ld, const blaslt_algo *algo,         \
                  void *workspace, size_t workspace_bytes, gpuStream_t stream))

#endif
