/* mlp.c - forward and backward of the feed-forward half. */
#include "nn/mlp.h"

#define H_TO_4H    "mlp.dense_h_to_4h"
#define ACTIVATION "mlp.activation_func"
#define TO_H       "mlp.dense_4h_to_h"

tx_status tx__mlp_activation_fwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a)
{
    if (w->gated)
        TX_RUN(c, glu_fwd, .y = a->g, .x = a->u, .kind = w->gate, .gate_second = w->gate_second);
    else
        TX_RUN(c, activation_fwd, .y = a->g, .x = a->u, .kind = w->activation);
    return TX_OK;
}

tx_status tx__mlp_activation_bwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a, tx_tensor du, tx_tensor dg)
{
    if (w->gated)
        TX_RUN(c, glu_bwd, .dx = du, .dy = dg, .x = a->u, .kind = w->gate, .gate_second = w->gate_second);
    else
        TX_RUN(c, activation_bwd, .dx = du, .dy = dg, .x = a->u, .kind = w->activation);
    return TX_OK;
}

tx_status tx_mlp_fwd(tx_ctx *c, const tx_mlp *w, tx_mlp_saved *a, tx_tensor y, tx_tensor x)
{
    int64_t rows = x.dim[0];
    a->u = tx_push2(&c->acts, x.dtype, rows, w->h_to_4h.w.value.dim[0]);
    size_t mark = tx_arena_mark(&c->acts);
    bool top = w->recompute && tx_ctx_begin_top(c);
    a->g = tx_push2(&c->acts, x.dtype, rows, w->to_h.w.value.dim[1]);

    /* 1  u = x W1ᵀ + b1   2  g = f(u)   3  y = g W2ᵀ + b2 */
    tx_at_part(c, H_TO_4H);
    TX_TRY(tx_linear_fwd(c, &w->h_to_4h, a->u, x));
    TX_TRY(tx_lora_fwd(c, w->h_to_4h_lora, a->u, x, a->dropout));
    tx_at_part(c, ACTIVATION);
    TX_TRY(tx__mlp_activation_fwd(c, w, a));
    tx_at_part(c, TO_H);
    TX_TRY(tx_linear_fwd(c, &w->to_h, y, a->g));
    TX_TRY(tx_lora_fwd(c, w->to_h_lora, y, a->g, a->dropout));
    tx_ctx_end_top(c, top);
    if (w->recompute) tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

tx_status tx_mlp_bwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_mlp_saved again = *a;
    tx_tensor du, dg = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]);
    size_t g_mark = tx_arena_mark(&c->acts);
    if (w->recompute) {
        again.g = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]);
        TX_TRY(tx__mlp_activation_fwd(c, w, &again));
    }

    /* 3  dg   2  du   1  dx */
    tx_at_part(c, TO_H);
    TX_TRY(tx_linear_bwd(c, &w->to_h, dg, dy, again.g));
    TX_TRY(tx_lora_bwd(c, w->to_h_lora, dg, dy, again.g, a->dropout));
    tx_arena_pop(&c->acts, g_mark);
    tx_at_part(c, ACTIVATION);
    du = w->gated ? tx_push2(&c->acts, dg.dtype, a->u.dim[0], a->u.dim[1]) : dg;
    TX_TRY(tx__mlp_activation_bwd(c, w, a, du, dg));
    tx_at_part(c, H_TO_4H);
    TX_TRY(tx_linear_bwd(c, &w->h_to_4h, dx, du, x));
    TX_TRY(tx_lora_bwd(c, w->h_to_4h_lora, dx, du, x, a->dropout));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
