/* fused_attention.h - attention by cuDNN's fused kernels, for the rows of attention: they ask here first, and do it
 * themselves where *done is false. That is so in the modules that are not for CUDA, without cuDNN, and of all cases but
 *
 *      values bf16 or fp16, 128 positions or more, d a multiple of 8 up to 128, addresses and strides of 16 bytes
 *      queries and keys of the same positions, all of a sequence's, no past, no first_key; causal, or with n_keys, or
 *      neither
 *      a log-sum-exp that backward will want
 *      no dropout: cuDNN draws from a generator of its own, and our masks are functions of global coordinates
 *      no biases of positions (alibi), no window, softcap and sinks
 *      backward: deterministic, with less than 4 GiB of workspace (it has one of 2 b heads s² bytes)
 *
 *  Unlike our own kernels cuDNN's multiply keys that pad by 0, so these have to be finite, and a sample's bits depend
 * on how long it is padded.
 *
 *  TX_GPU_CUDNN=0 turns it off; TX_GPU_CUDNN_NONDETERMINISTIC=1 has the other backward, to compare them. */
#ifndef TX_BACKEND_GPU_FUSED_ATTENTION_H
#define TX_BACKEND_GPU_FUSED_ATTENTION_H

#include "backend/gpu/gpu.h"

#if defined(TX_GPU_EMULATED) || defined(__HIP_PLATFORM_AMD__) || defined(__HIP__)

static inline tx_status tx__gpu_fused_attention_open(tx__gpu *)
{
    return TX_OK;
}
static inline void tx__gpu_fused_attention_close(tx__gpu *)
{
}
static inline size_t tx__gpu_fused_attention_fwd_scratch(const tx_ctx *, const tx_attention_fwd_args *)
{
    return 0;
}
static inline size_t tx__gpu_fused_attention_bwd_scratch(const tx_ctx *, const tx_attention_bwd_args *)
{
    return 0;
}
static inline tx_status tx__gpu_fused_attention_fwd(tx_ctx *, const tx_attention_fwd_args *, void *, bool *done)
{
    *done = false;
    return TX_OK;
}
static inline tx_status tx__gpu_fused_attention_bwd(tx_ctx *, const tx_attention_bwd_args *, void *, bool *done)
{
    *done = false;
    return TX_OK;
}

#else

tx_status tx__gpu_fused_attention_open(tx__gpu *g);
void tx__gpu_fused_attention_close(tx__gpu *g);

/* What it needs, from shapes alone; 0 where it will not be done here. The first call with a shape makes its plan, which
 * takes up to a second or two. */
size_t tx__gpu_fused_attention_fwd_scratch(const tx_ctx *c, const tx_attention_fwd_args *a);
size_t tx__gpu_fused_attention_bwd_scratch(const tx_ctx *c, const tx_attention_bwd_args *a);

tx_status tx__gpu_fused_attention_fwd(tx_ctx *c, const tx_attention_fwd_args *a, void *scratch, bool *done);
tx_status tx__gpu_fused_attention_bwd(tx_ctx *c, const tx_attention_bwd_args *a, void *scratch, bool *done);

#endif

#endif
