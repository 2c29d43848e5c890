/* ref_backend.c - the rows of "ref". It takes every float dtype and uses one thread. */
#include "backend/ref/ref.h"

static const char *describe(void)
{
    return "plain C in fp64, one thread: the specification";
}

static void fill_ops(tx_ops *ops)
{
    ops->fill.run = tx__ref_fill;
    ops->cast.run = tx__ref_cast;
    ops->gemm.run = tx__ref_gemm;
    ops->col_sum.run = tx__ref_col_sum;
    ops->layernorm_fwd.run = tx__ref_layernorm_fwd;
    ops->layernorm_bwd.run = tx__ref_layernorm_bwd;
    ops->rmsnorm_fwd.run = tx__ref_rmsnorm_fwd;
    ops->rmsnorm_bwd.run = tx__ref_rmsnorm_bwd;
    ops->activation_fwd.run = tx__ref_activation_fwd;
    ops->activation_bwd.run = tx__ref_activation_bwd;
    ops->glu_fwd.run = tx__ref_glu_fwd;
    ops->glu_bwd.run = tx__ref_glu_bwd;
    ops->rope.run = tx__ref_rope;
    ops->dropout_add_fwd.run = tx__ref_dropout_add_fwd;
    ops->dropout_add_bwd.run = tx__ref_dropout_add_bwd;
    ops->attention_fwd = (tx_attention_fwd_row){ tx__ref_attention_fwd, tx__ref_attention_fwd_scratch, false };
    ops->attention_bwd = (tx_attention_bwd_row){ tx__ref_attention_bwd, tx__ref_attention_bwd_scratch, false };
    ops->cache_append.run = tx__ref_cache_append;
    ops->embedding_fwd.run = tx__ref_embedding_fwd;
    ops->embedding_bwd.run = tx__ref_embedding_bwd;
    ops->cross_entropy.run = tx__ref_cross_entropy;
    ops->cross_entropy_part.run = tx__ref_cross_entropy_part;
    ops->cross_entropy_join.run = tx__ref_cross_entropy_join;
    ops->sumsq.run = tx__ref_sumsq;
    ops->count_zeros.run = tx__ref_count_zeros;
    ops->magnitudes.run = tx__ref_magnitudes;
    ops->exact_add.run = tx__ref_exact_add;
    ops->clip.run = tx__ref_clip;
    ops->adam.run = tx__ref_adam;
    ops->sgd.run = tx__ref_sgd;
}

extern const tx_backend tx_backend_ref; /* registry.c lists it */
const tx_backend tx_backend_ref = { .name = "ref", .describe = describe, .fill_ops = fill_ops };
