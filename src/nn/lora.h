/* lora.h - low-rank adapters beside matrices that are not trained (Hu et al., arXiv:2106.09685; PEFT's conventions):
 *
 *      y = x Wᵀ + b + scale drop(x) Aᵀ Bᵀ          A [r, in], B [out, r], scale alpha / r
 *
 *  An adapter is of all of a layer's output, or of some of its columns: those of the queries in the fused projection
 * (attention.h), or of the gate in an MLP's first matrix (mlp.h). B is 0 at first, so that a model begins as it was.
 *
 *  Over tensor ranks an adapter is divided as its layer is, and needs no sum of its own:
 *
 *      column-parallel   B has the rows of this rank's columns of y; A is whole, and of its gradient a rank has a part
 *      row-parallel      A has this rank's columns of x, and y is a part of a sum; B is whole, and so is its gradient
 *
 *  Which rows of the parameter table there are, see lora.c; which word of --lora-targets means which of them,
 * kinds/lora_targets.h. */
#ifndef TX_NN_LORA_H
#define TX_NN_LORA_H

#include "kinds/lora_targets.h"
#include "nn/dropout.h"
#include "nn/param.h"

typedef struct tx_lora {
    tx_weight a, b;
    bool on;
    double scale;
    double p_drop;
    int layer;              /* from 1; with site it names the random stream */
    tx_dropout_site site;   /* TX_DROP_LORA and more */
    int64_t columns, first; /* of x: all tensor ranks' where this one has some, and which is its first; 0: it has all */
    /* Of y, of whose groups of `wide` columns the adapter has `width` from `begin` on; wide 0: y has no others. */
    int64_t groups, wide, begin, width;
} tx_lora;

/* Adapters of one layer, side by side; those that are not on do nothing. NULL: there are none. */
typedef struct tx_loras {
    const tx_lora *lora;
    int n;
} tx_loras;

/* Declares those that are on: "encoder.layers.0.self_attention.query_key_value.lora_A.weight", ...; in the unit of the
 * layer.   @lora [TX_N_LORA_TARGETS]   @dims as the layer's, and r. TX_ERR_NOMEM */
tx_status tx_lora_declare(tx_params *ps, const char *prefix, tx_lora *lora, const tx_dims *dims);

/* The target and the layer, from 0, of a row's global name; -1: it is no adapter's. And the row of the matrix that a
 * target is beside, or is rows of: "encoder.layers.0.mlp.dense_h_to_4h.weight". */
int tx_lora_target_of(const char *name, int *layer);
void tx_lora_beside(char name[TX_PARAM_NAME_MAX], int target, int layer);

/* Where row r of B lies in that matrix, of a rank that has all of it. */
static inline int64_t tx_lora_row(const tx_lora *l, int64_t r)
{
    return l->wide ? r / l->width * l->wide + l->begin + r % l->width : r;
}

/* y += what the adapters add.   @x [s b, in] of all positions   @key of the pass; NULL: nothing is dropped */
tx_status tx_lora_fwd(tx_ctx *c, tx_loras l, tx_tensor y, tx_tensor x, const tx_dropout_key *key);

/* dx += theirs; accumulates their gradients. What forward made is made again. */
tx_status tx_lora_bwd(tx_ctx *c, tx_loras l, tx_tensor dx, tx_tensor dy, tx_tensor x, const tx_dropout_key *key);

#endif
