/* experts.c - each expert's half on its rows: products of all experts at a time. */
#include "nn/experts.h"

#include "nn/wgrad_store.h"
#include "parallel/grid.h"

/* The same member of each expert, `first` being the first one's; absent if that has no data. */
static tx_tensors each(const tx_tensor *first)
{
    return (tx_tensors){ first->data ? first : NULL, sizeof(tx_mlp) };
}

/* y = x Wᵀ + b.   @l the first expert's */
static tx_status linear_fwd(tx_ctx *c, const tx_linear *l, tx_tensor count, tx_tensor y, tx_tensor x)
{
    bool adds = !l->summed || tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR) == 0;
    TX_RUN(c, grouped_gemm, .c = y, .a = x, .b = each(&l->w.value), .count = count, .trans_b = true,
           .bias = adds ? each(&l->b.value) : (tx_tensors){ 0 });
    return TX_OK;
}

/* dW += dyᵀ x,  db += Σ dy,  dx = dy W */
static tx_status linear_bwd(tx_ctx *c, const tx_linear *l, const tx_experts_saved *a, tx_tensor dx, tx_tensor dy,
                            tx_tensor x)
{
    const tx_wgrad_experts all = { &l->w, &l->b, a->count, sizeof(tx_mlp), a->room };
    TX_TRY(tx_wgrad_grouped(c, &all, dy, x));
    TX_RUN(c, grouped_gemm, .c = dx, .a = dy, .b = each(&l->w.value), .count = a->count);
    return TX_OK;
}

/* Pushes as many rows as there may be; those that there are.   @like of so many rows */
static tx_tensor push_rows(tx_ctx *c, const tx_experts_saved *a, tx_tensor like, int64_t columns)
{
    TX_ASSERT(like.dim[0] <= a->room);
    return tx_slice_rows(tx_push2(&c->acts, like.dtype, a->room, columns), 0, like.dim[0]);
}

tx_status tx_experts_fwd(tx_ctx *c, const tx_experts *w, tx_experts_saved *saved, tx_tensor y, tx_tensor x,
                         tx_tensor count)
{
    tx_mlp_saved *a = &saved->mlp;
    saved->count = count;
    a->u = push_rows(c, saved, x, w->mlp->h_to_4h.w.value.dim[0]);
    size_t mark = tx_arena_mark(&c->acts);
    a->g = push_rows(c, saved, x, w->mlp->to_h.w.value.dim[1]);
    TX_TRY(linear_fwd(c, &w->mlp->h_to_4h, count, a->u, x));
    if (a->u.dim[0]) TX_TRY(tx__mlp_activation_fwd(c, w->mlp, a));
    TX_TRY(linear_fwd(c, &w->mlp->to_h, count, y, a->g));
    if (w->mlp->recompute) tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

tx_status tx_experts_bwd(tx_ctx *c, const tx_experts *w, const tx_experts_saved *saved, tx_tensor dx, tx_tensor dy,
                         tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->acts);
    const tx_mlp *m = w->mlp;
    const tx_mlp_saved *a = &saved->mlp;
    tx_mlp_saved again = *a;
    tx_tensor dg = push_rows(c, saved, x, a->g.dim[1]);
    size_t g_mark = tx_arena_mark(&c->acts);
    if (m->recompute) {
        again.g = push_rows(c, saved, x, a->g.dim[1]);
        if (a->u.dim[0]) TX_TRY(tx__mlp_activation_fwd(c, m, &again));
    }
    TX_TRY(linear_bwd(c, &m->to_h, saved, dg, dy, again.g));
    tx_arena_pop(&c->acts, g_mark);
    tx_tensor du = m->gated ? push_rows(c, saved, x, a->u.dim[1]) : dg;
    if (a->u.dim[0]) TX_TRY(tx__mlp_activation_bwd(c, m, a, du, dg));
    TX_TRY(linear_bwd(c, &m->h_to_4h, saved, dx, du, x));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
