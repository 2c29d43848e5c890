/* norm.h - normalisation over the last dimension: LayerNorm (arXiv:1607.06450) or RMSNorm (arXiv:1910.07467). */
#ifndef TX_NN_NORM_H
#define TX_NN_NORM_H

#include "backend/ops.h"
#include "nn/param.h"

typedef enum tx_norm_kind { TX_LAYERNORM, TX_RMSNORM } tx_norm_kind;

typedef struct tx_norm {
    tx_weight gamma, beta; /* [h]; beta may be absent, and RMSNorm has none */
    tx_norm_kind kind;
    double eps;
    bool plus_one; /* the factor is 1 + gamma */
    bool of_ranks; /* of RMSNorm: x and gamma are this tensor rank's columns, and a row's mean is over those of all */
} tx_norm;

typedef struct tx_norm_saved {
    tx_tensor y, mu, rs; /* [rows, h], [rows], [rows]; RMSNorm has no mu. y has the weights' dtype, whatever x has */
    tx_tensor factor;    /* [h]: 1 + gamma, with plus_one */
} tx_norm_saved;

/* a->y = norm(x), pushing a's tensors.   @y [rows, h] the caller's, to be a->y; absent: pushed too */
tx_status tx_norm_fwd(tx_ctx *c, const tx_norm *w, tx_norm_saved *a, tx_tensor y, tx_tensor x);

/* Writes what forward wrote once more: its y may have been overwritten. */
tx_status tx_norm_again(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_tensor x);

/* d = dres + norm'(dy): the branch's gradient joins the residual stream's. */
typedef struct tx_norm_gradient {
    tx_tensor d;    /* of x, written; may be dy's or dres's memory */
    tx_tensor dy;   /* of the norm's output */
    tx_tensor dres; /* of the residual stream; may be absent */
} tx_norm_gradient;

/* Accumulates dgamma, dbeta.   @x as in forward */
tx_status tx_norm_bwd(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_norm_gradient g, tx_tensor x);

#endif
