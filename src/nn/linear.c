/* linear.c - forward and backward of y = x Wᵀ + b. */
#include "nn/linear.h"

#include "nn/wgrad_store.h"
#include "parallel/grid.h"

tx_status tx_linear_fwd(tx_ctx *c, const tx_linear *l, tx_tensor y, tx_tensor x)
{
    bool adds = !l->summed || tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR) == 0;
    TX_RUN(c, gemm, .c = y, .a = x, .b = l->w.value, .trans_b = true, .bias = adds ? l->b.value : (tx_tensor){ 0 });
    return TX_OK;
}

tx_status tx_linear_bwd(tx_ctx *c, const tx_linear *l, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    /* dW += dyᵀ x,  db += Σ dy,  dx = dy W */
    TX_TRY(tx_wgrad_linear(c, &l->w, &l->b, dy, x));
    TX_RUN(c, gemm, .c = dx, .a = dy, .b = l->w.value);
    return TX_OK;
}
