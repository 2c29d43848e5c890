/* block.h - one transformer layer that normalises first (GPT-2 §2.3; Megatron-LM arXiv:1909.08053 §3):
 *
 *      x1 = x  + drop(attn(ln1(x)))
 *      y  = x1 + drop(mlp(ln2(x1)))
 *
 *  or, with post_norm, last (arXiv:1706.03762 §3.1; BERT arXiv:1810.04805):
 *
 *      x1 = x       + drop(attn(x))
 *      x2 = ln1(x1) + drop(mlp(ln1(x1)))
 *      y  = ln2(x2)
 *
 *  s is the number of positions that a rank has between layers: all of them, or with sequence parallelism a t-th; then
 *  attn and mlp stand between f and g of parallel/tp.h.
 *  mlp is one (nn/mlp.h), or of a layer with experts some of many (nn/moe.h).
 *  With residual_post_norm, which is not post_norm, ln1(x) and ln2(x1) take the places of the first x and x1. Without
 *  post_norm the residual stream x, x1, y may be of fp32 where weights and branches are bf16 or fp16. */
#ifndef TX_NN_BLOCK_H
#define TX_NN_BLOCK_H

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe.h"
#include "nn/norm.h"

typedef struct tx_block {
    tx_norm ln1, ln2;
    tx_attention attn;
    tx_mlp mlp;
    tx_lora lora[TX_N_LORA_TARGETS]; /* those that are on */
    tx_moe *moe;                     /* in the place of mlp; NULL: there is none */
    double p_drop;                   /* of both sub-layers' outputs */
    int layer;                       /* from 1; names the random streams */
    int dropping; /* of the layers of its chunk that drop tokens (--random-ltd), its number from 0; -1: it is none */
    bool residual_post_norm, post_norm;
} tx_block;

typedef struct tx_block_saved {
    tx_tensor x1, x2; /* [s, b, h]; x2 with post_norm */
    tx_norm_saved ln1, ln2;
    tx_attention_saved attn;
    tx_mlp_saved mlp;
    tx_moe_saved moe;
} tx_block_saved;

/* Memory that all layers use in turn, of the weights' dtype. */
typedef struct tx_block_rooms {
    tx_tensor branch; /* [s, b, h], a branch's output where the stream has another dtype */
    tx_tensor norm;   /* [s b, h], the norms' outputs but for y, which backward then computes again; absent: they are
                       * kept */
    tx_tensor whole;  /* [s t, b, h], with sequence parallelism: what a branch takes and gives, of all positions */
} tx_block_rooms;

/* What a layer works on. */
typedef struct tx_block_call {
    tx_tensor x, y;                /* [s, b, h]: its input; its output, which forward writes */
    tx_tensor d;                   /* [s, b, h], backward: in, the gradient of y; out, that of x */
    tx_keys seen;                  /* which keys a query sees */
    tx_tensor position;            /* as in attention.h */
    const tx_dropout_key *dropout; /* of all sites */
    tx_kv_cache *kv;               /* as in attention.h */
    tx_tensor max_logits;          /* as in attention.h */
    double branch_scale;           /* of both branches' outputs; 0 or 1: there is none. Not with post_norm */
    tx_moe_pass pass;              /* of a layer with experts */
    const tx_block_rooms *lent;    /* the same in forward and backward */
} tx_block_call;

/* The layer's rows of the parameter table: tx_params_declare(ps, "encoder.layers.0.", tx_block_params, ...). */
extern const tx_param_decl tx_block_params[];
extern const int tx_block_n_params;

/* Pushes a's tensors. */
tx_status tx_block_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k);

/* Leaves on the stack what forward pushed. */
tx_status tx_block_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k);

#endif
