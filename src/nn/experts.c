/* experts.c - each expert's half on its rows. */
#include "nn/experts.h"

/* Rows of all experts, or some of one. y: forward's; dx, dy: backward's. */
typedef struct rows {
    tx_tensor y, x, dx, dy;
} rows;

typedef tx_status piece_fn(tx_ctx *c, tx_linear *l, const rows *r);

/* The first or the second linear layer of each expert, what is done with its rows, and those. */
typedef struct linears {
    const tx_experts *w;
    bool second;
    tx_tensor count;
    piece_fn *fn;
    rows all;
} linears;

static tx_linear *linear_of(const linears *g, int64_t e)
{
    return g->second ? &g->w->mlp[e].to_h : &g->w->mlp[e].h_to_4h;
}

/* ---- products whose rows vary ----
 *
 *  How many rows an expert has is known when the step runs, and what a product needs of scratch memory depends on it.
 * So an expert's rows are cut into pieces of few sizes, 2^i and 3 2^i, or are all rows there are. A dry run counts each
 * of them. */

static rows slice(const rows *r, int64_t first, int64_t n)
{
    rows s = *r;
    s.x = tx_slice_rows(r->x, first, n);
    if (r->y.data) s.y = tx_slice_rows(r->y, first, n);
    if (r->dx.data) s.dx = tx_slice_rows(r->dx, first, n), s.dy = tx_slice_rows(r->dy, first, n);
    return s;
}

/* The first piece of n rows. */
static int64_t piece_of(int64_t n, int64_t all)
{
    int64_t size = 1;
    if (n == all) return n;
    while (2 * size <= n) size *= 2;
    return size > 1 && size / 2 * 3 <= n ? size / 2 * 3 : size;
}

/* n rows of expert e, from `first` on. */
static tx_status run_expert(tx_ctx *c, const linears *g, int64_t e, int64_t first, int64_t n)
{
    for (int64_t size; n > 0; first += size, n -= size) {
        size = piece_of(n, g->all.x.dim[0]);
        const rows piece = slice(&g->all, first, size);
        TX_TRY(g->fn(c, linear_of(g, e), &piece));
    }
    return TX_OK;
}

/* Counts the scratch memory of all pieces that there may be, of an expert's first ones and of those behind. */
static tx_status count_pieces(tx_ctx *c, const linears *g)
{
    struct tx_trace *trace = c->trace;
    tx_linear *l = linear_of(g, 0);
    bool fresh = l->w.fresh;
    tx_status st = TX_OK;
    c->trace = NULL;
    for (int64_t all = g->all.x.dim[0], n = all; n > 0 && !st; n = n > 1 ? piece_of(n - 1, all) : 0) {
        const rows piece = slice(&g->all, 0, n);
        l->w.fresh = fresh;
        st = g->fn(c, l, &piece);
        if (!st && !l->w.fresh) st = g->fn(c, l, &piece);
    }
    l->w.fresh = fresh;
    c->trace = trace;
    return st;
}

/* In a dry run an expert has its even share of the rows. */
static tx_status each_expert(tx_ctx *c, const linears *g)
{
    int64_t n = g->w->n, all = g->all.x.dim[0];
    if (c->dry) TX_TRY(count_pieces(c, g));
    for (int64_t e = 0, first = 0, has; e < n; e++, first += has) {
        has = c->dry ? all * (e + 1) / n - all * e / n : ((const int32_t *)g->count.data)[e];
        TX_TRY(run_expert(c, g, e, first, has));
    }
    return TX_OK;
}

static tx_status piece_fwd(tx_ctx *c, tx_linear *l, const rows *r)
{
    return tx_linear_fwd(c, l, r->y, r->x);
}

/* The pieces behind add to what the first one has written. */
static tx_status piece_bwd(tx_ctx *c, tx_linear *l, const rows *r)
{
    TX_TRY(tx_linear_bwd(c, l, r->dx, r->dy, r->x));
    l->w.fresh = false;
    return TX_OK;
}

/* Gradients that no row has contributed to. */
static tx_status fill_unused(tx_ctx *c, const linears *g)
{
    for (int64_t e = 0; e < g->w->n; e++)
        if (linear_of(g, e)->w.fresh) TX_RUN(c, fill, .x = linear_of(g, e)->w.grad);
    return TX_OK;
}

/* ---- the halves ---- */

tx_status tx_experts_fwd(tx_ctx *c, const tx_experts *w, tx_experts_saved *saved, tx_tensor y, tx_tensor x,
                         tx_tensor count)
{
    tx_mlp_saved *a = &saved->mlp;
    saved->count = count;
    a->u = tx_push2(&c->acts, x.dtype, x.dim[0], w->mlp->h_to_4h.w.value.dim[0]);
    size_t mark = tx_arena_mark(&c->acts);
    a->g = tx_push2(&c->acts, x.dtype, x.dim[0], w->mlp->to_h.w.value.dim[1]);
    TX_TRY(each_expert(c, &(linears){ w, false, count, piece_fwd, { .y = a->u, .x = x } }));
    if (a->u.dim[0]) TX_TRY(tx__mlp_activation_fwd(c, w->mlp, a));
    TX_TRY(each_expert(c, &(linears){ w, true, count, piece_fwd, { .y = y, .x = a->g } }));
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
    tx_tensor dg = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]), du = dg;
    if (m->recompute) {
        again.g = tx_push2(&c->acts, x.dtype, a->g.dim[0], a->g.dim[1]);
        if (a->u.dim[0]) TX_TRY(tx__mlp_activation_fwd(c, m, &again));
    }
    const linears second = { w, true, saved->count, piece_bwd, { .x = again.g, .dx = dg, .dy = dy } };
    TX_TRY(each_expert(c, &second));
    if (a->u.dim[0]) TX_TRY(tx__mlp_activation_bwd(c, m, a, &du, dg));
    const linears first = { w, false, saved->count, piece_bwd, { .x = x, .dx = dx, .dy = du } };
    TX_TRY(each_expert(c, &first));
    tx_arena_pop(&c->acts, mark);
    TX_TRY(fill_unused(c, &second));
    return fill_unused(c, &first);
}
