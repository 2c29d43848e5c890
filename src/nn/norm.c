/* norm.c - forward and backward of a normalisation. */
#include "nn/norm.h"

#include "nn/wgrad_store.h"
#include "parallel/grid.h"

/* gamma, or of its dtype, as upstream has it, 1 + gamma. gamma may have moved between forward and backward. */
static tx_tensor factor_of(const tx_norm *w, const tx_norm_saved *a)
{
    return w->plus_one ? a->factor : w->gamma.value;
}

static tx_status make_factor(tx_ctx *c, const tx_norm *w, tx_norm_saved *a)
{
    tx_tensor gamma = w->gamma.value;
    if (!w->plus_one) return TX_OK;
    a->factor = tx_push1(&c->acts, gamma.dtype, gamma.dim[0]);
    TX_RUN(c, fill, .x = a->factor, .value = 1);
    TX_RUN(c, add, .y = a->factor, .a = gamma, .b = a->factor);
    return TX_OK;
}

/* Sums of rows over all tensor ranks, of which this one's lie in scratch: Σ a b gamma. Absent: a row is whole. */
static tx_status sum_rows(tx_ctx *c, const tx_norm *w, tx_tensor *sums, const tx_row_dots_args *of)
{
    tx_comm *g = w->of_ranks ? tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR) : NULL;
    *sums = (tx_tensor){ 0 };
    if (!g || tx_comm_size(g) == 1) return TX_OK;
    *sums = tx_push1(&c->scratch, tx_wide(of->a.dtype), of->a.dim[0]);
    TX_RUN(c, row_dots, .y = *sums, .a = of->a, .b = of->b, .gamma = of->gamma);
    return tx_all_reduce(c, g, *sums, TX_SUM);
}

static int64_t columns_of(tx_ctx *c, tx_tensor rows)
{
    return rows.dim[1] * tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR);
}

static tx_status rms_fwd(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_tensor rows)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor squares;
    TX_TRY(sum_rows(c, w, &squares, &(tx_row_dots_args){ .a = rows, .b = rows }));
    TX_RUN(c, rmsnorm_fwd, .y = a->y, .rs = a->rs, .x = rows, .gamma = factor_of(w, a), .eps = w->eps,
           .squares = squares, .columns = w->of_ranks ? columns_of(c, rows) : 0);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx_norm_again(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_tensor x)
{
    if (w->kind == TX_RMSNORM) return rms_fwd(c, w, a, tx_as_rows(x));
    TX_RUN(c, layernorm_fwd, .y = a->y, .mu = a->mu, .rs = a->rs, .x = tx_as_rows(x), .gamma = factor_of(w, a),
           .beta = w->beta.value, .eps = w->eps);
    return TX_OK;
}

tx_status tx_norm_fwd(tx_ctx *c, const tx_norm *w, tx_norm_saved *a, tx_tensor y, tx_tensor x)
{
    tx_tensor rows = tx_as_rows(x);
    tx_dtype t = w->gamma.value.dtype, wide = tx_wide(t);
    TX_TRY(make_factor(c, w, a));
    a->y = y.data ? y : tx_push2(&c->acts, t, rows.dim[0], rows.dim[1]);
    if (w->kind == TX_LAYERNORM) a->mu = tx_push1(&c->acts, wide, rows.dim[0]);
    a->rs = tx_push1(&c->acts, wide, rows.dim[0]);
    return tx_norm_again(c, w, a, x);
}

/* Where the gradient of a vector goes: of a frozen one to room that nobody reads. */
static tx_status gradient_of(tx_ctx *c, const tx_weight *w, tx_tensor *out)
{
    if (!w->frozen) return tx_wgrad_vector(c, w, out);
    *out = tx_push1(&c->scratch, tx_wide(w->value.dtype), w->value.dim[0]);
    TX_RUN(c, fill, .x = *out);
    return TX_OK;
}

tx_status tx_norm_bwd(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_norm_gradient g, tx_tensor x)
{
    tx_tensor dres = g.dres.data ? tx_as_rows(g.dres) : g.dres;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor dgamma, dots, dbeta = { 0 }, rows = tx_as_rows(x), dy = tx_as_rows(g.dy);
    TX_TRY(sum_rows(c, w, &dots, &(tx_row_dots_args){ .a = dy, .b = rows, .gamma = factor_of(w, a) }));
    TX_TRY(gradient_of(c, &w->gamma, &dgamma));
    if (w->beta.value.data) TX_TRY(gradient_of(c, &w->beta, &dbeta));
    if (w->kind == TX_RMSNORM)
        TX_RUN(c, rmsnorm_bwd, .dx = tx_as_rows(g.d), .dgamma = dgamma, .dy = dy, .x = rows, .dres = dres,
               .gamma = factor_of(w, a), .rs = a->rs, .dots = dots, .columns = w->of_ranks ? columns_of(c, rows) : 0);
    else
        TX_RUN(c, layernorm_bwd, .dx = tx_as_rows(g.d), .dgamma = dgamma, .dbeta = dbeta, .dy = dy, .x = rows,
               .dres = dres, .gamma = factor_of(w, a), .mu = a->mu, .rs = a->rs);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}
