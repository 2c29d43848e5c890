/* experts.c - each expert's half on its rows. */
#include "nn/experts.h"

/* How many rows expert e has. In a dry run each has all, one after the other. */
static int64_t rows_of(const tx_ctx *c, tx_tensor count, int64_t e, int64_t rows)
{
    return c->dry ? rows : ((const int32_t *)count.data)[e];
}

/* The first or the second linear layer of each expert, on its rows. */
typedef struct linears {
    const tx_experts *w;
    bool second;
    tx_tensor count;
} linears;

static tx_linear *linear_of(const linears *g, int64_t e)
{
    return g->second ? &g->w->mlp[e].to_h : &g->w->mlp[e].h_to_4h;
}

static tx_status linears_fwd(tx_ctx *c, const linears *g, tx_tensor y, tx_tensor x)
{
    for (int64_t e = 0, i = 0, n; e < g->w->n; e++, i += c->dry ? 0 : n) {
        n = rows_of(c, g->count, e, x.dim[0]);
        if (n) TX_TRY(tx_linear_fwd(c, linear_of(g, e), tx_slice_rows(y, i, n), tx_slice_rows(x, i, n)));
    }
    return TX_OK;
}

static tx_status linears_bwd(tx_ctx *c, const linears *g, tx_tensor dx, tx_tensor dy, tx_tensor x)
{
    for (int64_t e = 0, i = 0, n; e < g->w->n; e++, i += c->dry ? 0 : n) {
        tx_linear *l = linear_of(g, e);
        n = rows_of(c, g->count, e, x.dim[0]);
        if (n)
            TX_TRY(tx_linear_bwd(c, l, tx_slice_rows(dx, i, n), tx_slice_rows(dy, i, n), tx_slice_rows(x, i, n)));
        else if (l->w.fresh)
            TX_RUN(c, fill, .x = l->w.grad);
    }
    return TX_OK;
}

static tx_status activation_fwd(tx_ctx *c, const tx_mlp *w, const tx_mlp_saved *a)
{
    if (!a->u.dim[0]) return TX_OK;
    if (w->gated)
        TX_RUN(c, glu_fwd, .y = a->g, .x = a->u, .kind = w->gate, .gate_second = w->gate_second);
    else
        TX_RUN(c, activation_fwd, .y = a->g, .x = a->u, .kind = w->activation);
    return TX_OK;
}

tx_status tx_experts_fwd(tx_ctx *c, const tx_experts *w, tx_experts_saved *saved, tx_tensor y, tx_tensor x,
                         tx_tensor count)
{
    const linears first = { w, false, count }, second = { w, true, count };
    tx_mlp_saved *a = &saved->mlp;
    saved->count = count;
    a->u = tx_push2(&c->acts, x.dtype, x.dim[0], w->mlp->h_to_4h.w.value.dim[0]);
    size_t mark = tx_arena_mark(&c->acts);
    a->g = tx_push2(&c->acts, x.dtype, x.dim[0], w->mlp->to_h.w.value.dim[1]);
    TX_TRY(linears_fwd(c, &first, a->u, x));
    TX_TRY(activation_fwd(c, w->mlp, a));
    TX_TRY(linears_fwd(c, &second, y, a->g));
    if (w->mlp->recompute) tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

tx_status tx_experts_bwd(tx_ctx *c, const tx_experts *w, const tx_experts_saved *saved, tx_tensor dx, tx_tensor dy,
                         tx_tensor x)
{
    const linears first = { w, false, saved->count }, second = { w, true, saved->count };
    size_t mark = tx_arena_mark(&c->acts);
    const tx_mlp *m = w->mlp;
    const tx_mlp_saved *a = &saved->mlp;
    tx_mlp_saved again = *a;
    tx_tensor dg = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]), du = dg;
    if (m->recompute) {
        again.g = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]);
        TX_TRY(activation_fwd(c, m, &again));
    }
    TX_TRY(linears_bwd(c, &second, dg, dy, again.g));
    if (m->gated) du = tx_push2(&c->acts, x.dtype, a->u.dim[0], a->u.dim[1]);
    if (m->gated && a->u.dim[0])
        TX_RUN(c, glu_bwd, .dx = du, .dy = dg, .x = a->u, .kind = m->gate, .gate_second = m->gate_second);
    if (!m->gated && a->u.dim[0]) TX_RUN(c, activation_bwd, .dx = dg, .dy = dg, .x = a->u, .kind = m->activation);
    TX_TRY(linears_bwd(c, &first, dx, du, x));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
