/* libraries.h - the vendor's libraries that the module opens at run time. */
#ifndef TX_BACKEND_GPU_LIBRARIES_H
#define TX_BACKEND_GPU_LIBRARIES_H

#include <stddef.h>

/* dlopen() of the file that the environment variable `told` names, else of the first of `files` (NULL at the end) that
 * can be opened: where the system looks, then beside the vendor's compiler (CUDA_HOME, ROCM_PATH, their usual folders).
 * NULL: `trouble` has the reason why the first cannot. */
void *tx__gpu_open_library(const char *told, const char *const *files, char *trouble, size_t cap);

/* gemm_vendor.cu: "cuBLASLt", its version, or why it cannot be used. */
struct tx_gpu_library;
void tx__gpu_blaslt_describe(struct tx_gpu_library *out);

#endif
