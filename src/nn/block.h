/* block.h - one transformer layer: two halves, which each add what a branch makes to the residual stream,
 *
 *      x1 = x  + drop(attn(ln1(x)))
 *      y  = x1 + drop(mlp(ln2(x1)))                     (GPT-2 §2.3; Megatron-LM arXiv:1909.08053 §3)
 *
 *  mlp is one (nn/mlp.h), or of a layer with experts some of many (nn/moe.h). What may be otherwise:
 *
 *      norms of branches' outputs   x1 = x + drop(out1(attn(..))), y = x1 + drop(out2(mlp(..))): beside ln1 and ln2
 *                                   (Gemma 2 arXiv:2408.00118), or without them (OLMo 2 arXiv:2501.00656)
 *      post_norm                    x1 = ln1(x + drop(attn(x))), y = ln2(x1 + drop(mlp(x1)))
 *                                   (arXiv:1706.03762 §3.1; BERT arXiv:1810.04805)
 *      in parallel                  y = x + drop(attn(ln1(x))) + drop(mlp(ln2(x)))      (GPT-NeoX arXiv:2204.06745)
 *                                   or of one norm, mlp(ln1(x))                         (GPT-J; PaLM arXiv:2204.02311)
 *      residual_post_norm           ln1(x) and ln2(x1) take the places of the first x and x1
 *      residual_scale               of what is added, before dropout
 *
 *  s is the number of positions that a rank has between layers: all of them, or with sequence parallelism a t-th; then
 *  attn and mlp stand between f and g of parallel/tp.h. Where each branch has a norm in front the residual stream x,
 * x1, y may be of fp32 while weights and branches are bf16 or fp16. */
#ifndef TX_NN_BLOCK_H
#define TX_NN_BLOCK_H

#include "nn/attention.h"
#include "nn/mlp.h"
#include "nn/moe.h"
#include "nn/norm.h"

/* What the MLP reads: attention's sum, or the layer's input through a norm of its own or through attention's. */
typedef enum tx_halves { TX_IN_TURN, TX_PARALLEL_TWO_NORMS, TX_PARALLEL_ONE_NORM } tx_halves;

typedef struct tx_block {
    tx_norm ln1, ln2; /* in front of the branches, or with post_norm of the halves' sums; two of a tx_halves with one */
    tx_norm out1, out2;                  /* of the branches' outputs */
    bool norms_in, norms_out, post_norm; /* which of them there are: post_norm alone, or one of the other two or both */
    bool residual_post_norm;             /* with norms_in alone, in turn */
    tx_halves halves;                    /* in parallel with norms_in alone */
    double residual_scale;               /* 0 is 1 */
    tx_attention attn;
    tx_mlp mlp;
    tx_lora lora[TX_N_LORA_TARGETS]; /* those that are on */
    tx_moe *moe;                     /* in the place of mlp; NULL: there is none */
    double p_drop;                   /* of both sub-layers' outputs */
    int layer;                       /* from 1; names the random streams */
    int dropping; /* of the layers of its chunk that drop tokens (--random-ltd), its number from 0; -1: it is none */
} tx_block;

/* Of a half. */
typedef struct tx_half_saved {
    tx_norm_saved norm, out; /* ln, out */
    tx_tensor branch;        /* [s, b, h], with norms_out: what the branch made */
    tx_tensor sum;           /* [s, b, h], with post_norm: what the norm reads */
} tx_half_saved;

typedef struct tx_block_saved {
    tx_tensor x1; /* [s, b, h], of halves in turn: what the second reads */
    tx_half_saved first, second;
    tx_attention_saved attn;
    tx_mlp_saved mlp;
    tx_moe_saved moe;
} tx_block_saved;

/* Memory that all layers use in turn, of the weights' dtype. */
typedef struct tx_block_rooms {
    tx_tensor branch; /* [s, b, h], a branch's output where it cannot be made where the half's will be: the stream has
                       * another dtype, or halves are in parallel */
    tx_tensor norm;   /* [s b, h], outputs of ln1 and ln2 but for y, which backward then computes again; absent: they
                       * are kept */
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
    double branch_scale;           /* of what is added, beside residual_scale; 0 is 1. Not with post_norm */
    tx_moe_pass pass;              /* of a layer with experts */
    const tx_block_rooms *lent;    /* the same in forward and backward */
    const tx_chunks *chunks;       /* as in attention.h; x and y are those of the chunk */
} tx_block_call;

/* The layer's rows of the parameter table: tx_params_declare(ps, "encoder.layers.0.", tx_block_params, ...). */
extern const tx_param_decl tx_block_params[];
extern const int tx_block_n_params;

/* Pushes a's tensors. */
tx_status tx_block_fwd(tx_ctx *c, const tx_block *w, tx_block_saved *a, const tx_block_call *k);

/* Leaves on the stack what forward pushed. */
tx_status tx_block_bwd(tx_ctx *c, const tx_block *w, const tx_block_saved *a, const tx_block_call *k);

#endif
