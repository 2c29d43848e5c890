/* linear.h - y = x Wᵀ + b, the layer everything else is made of. b may be absent.
 *
 *  Over tensor ranks W is split by rows (column-parallel: each has some of y's columns, of all x) or by columns
 *  (row-parallel: each has a part of y, which is summed; b is then in the first one's). Communication is the caller's
 *  (parallel/tp.h). */
#ifndef TX_NN_LINEAR_H
#define TX_NN_LINEAR_H

#include "backend/ops.h"
#include "nn/param.h"

typedef struct tx_linear {
    tx_weight w; /* [out, in] */
    tx_weight b; /* [out], or nothing */
    bool summed; /* row-parallel */
} tx_linear;

/* @y [rows, out], written   @x [rows, in] */
tx_status tx_linear_fwd(tx_ctx *c, const tx_linear *l, tx_tensor y, tx_tensor x);

/* @dx [rows, in], written   @dy [rows, out]   @x as in forward.  Accumulates dW, db, but of
 * frozen ones; or puts that off (nn/wgrad_store.h). */
tx_status tx_linear_bwd(tx_ctx *c, const tx_linear *l, tx_tensor dx, tx_tensor dy, tx_tensor x);

#endif
