/* norm.c - forward and backward of a normalisation. */
#include "nn/norm.h"

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

tx_status tx_norm_again(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_tensor x)
{
    if (w->kind == TX_RMSNORM)
        TX_RUN(c, rmsnorm_fwd, .y = a->y, .rs = a->rs, .x = tx_as_rows(x), .gamma = factor_of(w, a), .eps = w->eps);
    else
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
    *out = w->grad;
    if (!w->frozen) return TX_OK;
    *out = tx_push1(&c->scratch, tx_wide(w->value.dtype), w->value.dim[0]);
    TX_RUN(c, fill, .x = *out);
    return TX_OK;
}

tx_status tx_norm_bwd(tx_ctx *c, const tx_norm *w, const tx_norm_saved *a, tx_norm_gradient g, tx_tensor x)
{
    tx_tensor dres = g.dres.data ? tx_as_rows(g.dres) : g.dres;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor dgamma, dbeta = { 0 };
    TX_TRY(gradient_of(c, &w->gamma, &dgamma));
    if (w->beta.value.data) TX_TRY(gradient_of(c, &w->beta, &dbeta));
    if (w->kind == TX_RMSNORM)
        TX_RUN(c, rmsnorm_bwd, .dx = tx_as_rows(g.d), .dgamma = dgamma, .dy = tx_as_rows(g.dy), .x = tx_as_rows(x),
               .dres = dres, .gamma = factor_of(w, a), .rs = a->rs);
    else
        TX_RUN(c, layernorm_bwd, .dx = tx_as_rows(g.d), .dgamma = dgamma, .dbeta = dbeta, .dy = tx_as_rows(g.dy),
               .x = tx_as_rows(x), .dres = dres, .gamma = factor_of(w, a), .mu = a->mu, .rs = a->rs);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}
