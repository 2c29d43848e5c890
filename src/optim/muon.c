/* muon.c - Muon (K. Jordan, kellerjordan.github.io/posts/muon): of a layer's matrix
 *
 *      m = β m + (1-β) g,   u = (1-β) g + β m with --muon-nesterov, else m
 *      p -= lr (s O + weight_decay p),   O the orthogonal matrix nearest to u (orthogonal.h), s of its sides
 *
 *  as Megatron Core has it; everything else is Adam's. O needs all of u, so zero/matrices.c makes it between the two
 * lines, for all matrices of a bucket. */
#include "optim/optim.h"

static tx_tensor flat(float *x, const tx_optim_range *r)
{
    return tx_tensor1(x, TX_F32, r->numel);
}

static tx_status direction(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    tx_tensor m = flat(r->state[0], r), u = flat(r->direction, r);
    double beta = s->momentum;
    tx_tensor low = o->cfg->muon_nesterov ? (tx_tensor){ 0 } : u;
    TX_RUN(c, blend, .y = m, .x = r->grad, .z = m, .low = low, .alpha = 1 - beta, .beta = beta, .gate = s->gate);
    if (o->cfg->muon_nesterov)
        TX_RUN(c, blend, .y = u, .x = r->grad, .z = m, .alpha = 1 - beta, .beta = beta, .gate = s->gate);
    return TX_OK;
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    if (!r->direction) return tx_optim_adam.step(c, o, r, s);
    tx_tensor p = flat(r->value, r);
    TX_RUN(c, blend, .y = p, .x = flat(r->direction, r), .z = p, .low = r->low, .alpha = -s->lr,
           .beta = 1 - s->lr * s->weight_decay, .gate = s->gate, .only_go = true);
    return TX_OK;
}

/* The second buffer is Adam's alone (kinds/optimizers.h). */
const tx_optim_type tx_optim_muon = {
    .keeps = &tx_optim_muon_keeps,
    .betas = { offsetof(tx_config, adam_beta1), offsetof(tx_config, adam_beta2) },
    .eps = offsetof(tx_config, adam_eps),
    .step = step,
    .direction = direction,
};
