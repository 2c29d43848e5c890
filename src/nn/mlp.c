/* mlp.c - forward and backward of the feed-forward half. */
#include "nn/mlp.h"

tx_status tx_mlp_fwd(tx_ctx *c, const tx_mlp *w, tx_mlp_saved *a, tx_tensor y, tx_tensor x)
{
    int64_t rows = x.dim[0], f = w->h_to_4h.w.value.dim[0];
    a->u = tx_push2(&c->acts, x.dtype, rows, f);
    a->g = tx_push2(&c->acts, x.dtype, rows, f);

    /* 1  u = x W1ᵀ + b1   2  g = gelu(u)   3  y = g W2ᵀ + b2 */
    TX_TRY(tx_linear_fwd(c, &w->h_to_4h, a->u, x));
    TX_RUN(c, activation_fwd, .y = a->g, .x = a->u, .kind = w->gelu);
    return tx_linear_fwd(c, &w->to_h, y, a->g);
}

tx_status tx_mlp_bwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor dg = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]);

    /* 3  dg   2  du, in dg's place   1  dx */
    TX_TRY(tx_linear_bwd(c, &w->to_h, dg, dy, a->g));
    TX_RUN(c, activation_bwd, .dx = dg, .dy = dg, .x = a->u, .kind = w->gelu);
    TX_TRY(tx_linear_bwd(c, &w->h_to_4h, dx, dg, x));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
