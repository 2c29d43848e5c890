/* mlp.h - the feed-forward half of a transformer layer: y = f(x W1ᵀ + b1) W2ᵀ + b2, f an activation or a gate. */
#ifndef TX_NN_MLP_H
#define TX_NN_MLP_H

#include "nn/linear.h"
#include "nn/lora.h"

/* What a layer may be without: the traits in tx_dims that its table's rows ask for. */
enum {
    TX_WITH_BIAS = 1,
    TX_WITH_BETA = 2,
    TX_WITH_PRE_NORM = 4,
    TX_WITH_POST_NORM = 8,
    TX_WITH_MLP = 16,
    TX_WITH_QKV_BIAS = 32,
    TX_WITH_QK_NORM = 64,
    TX_WITH_SINK = 1 << 20,
    TX_WITH_QK_WHOLE = 1 << 24
};

typedef struct tx_mlp {
    tx_linear h_to_4h;                /* [f, h]; gated [2f, h]: the gate's rows, then the rows of what it gates */
    tx_linear to_h;                   /* [h, f], summed over tensor ranks */
    tx_loras h_to_4h_lora, to_h_lora; /* beside these */
    bool gated;
    bool gate_second;         /* gated: the gate's rows come second */
    tx_glu gate;              /* gated */
    tx_activation activation; /* not gated */
    bool recompute;           /* the activation's output is not kept: backward computes it again */
} tx_mlp;

typedef struct tx_mlp_saved {
    tx_tensor u;                   /* [rows, f or 2f], before the activation */
    tx_tensor g;                   /* [rows, f], after it; with recompute only its shape */
    const tx_dropout_key *dropout; /* of adapters; set by the caller before each call. NULL: nothing is dropped */
} tx_mlp_saved;

/* f is what this tensor rank has of it, and y and dx are its parts of sums.
 * @y, @x [rows, h].  Pushes a's tensors. */
tx_status tx_mlp_fwd(tx_ctx *c, const tx_mlp *w, tx_mlp_saved *a, tx_tensor y, tx_tensor x);

/* @dx [rows, h], written; may be dy's memory   @dy [rows, h] */
tx_status tx_mlp_bwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a, tx_tensor dx, tx_tensor dy, tx_tensor x);

/* Between the two matrices, also of experts: a->g from a->u; and du, written, without a gate dg's memory. */
tx_status tx__mlp_activation_fwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a);
tx_status tx__mlp_activation_bwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a, tx_tensor du, tx_tensor dg);

#endif
