/* experts.cu - ops of layers with experts, which have no kernels yet: train/plan.c refuses such a model before. */
#include "backend/gpu/gpu.h"

#define NO_KERNEL(op)                                                                    \
    TX_GPU_ROW tx_status tx__gpu_##op(tx_ctx *c, const tx_##op##_args *a, void *scratch) \
    {                                                                                    \
        (void)c, (void)a, (void)scratch;                                                 \
        return TX_FAIL(TX_ERR_UNSUPPORTED,                                               \
                       "%s: layers with experts are computed on the CPU alone for now: " \
                       "give --device cpu",                                              \
                       #op);                                                             \
    }

NO_KERNEL(route_fwd)
NO_KERNEL(route_bwd)
NO_KERNEL(route_sums)
NO_KERNEL(expert_order)
NO_KERNEL(gather_rows)
NO_KERNEL(combine_fwd)
NO_KERNEL(combine_bwd)
NO_KERNEL(grouped_gemm)
NO_KERNEL(grouped_dw)
