/* sgd.c - stochastic gradient descent with momentum. */
#include "optim/optim.h"

/* The first gradient is the momentum, whatever the dampening: torch's buffer begins as a copy of it. */
static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    TX_RUN(c, sgd, .p = tx_tensor1(r->value, TX_F32, r->numel), .m = tx_tensor1(r->state[0], TX_F32, r->numel),
           .g = r->grad, .low = r->low, .lr = s->lr, .momentum = s->momentum, .weight_decay = s->weight_decay,
           .dampening = s->t > 1 ? o->cfg->sgd_dampening : 0, .nesterov = o->cfg->sgd_nesterov, .grad_scale = 1,
           .gate = s->gate);
    return TX_OK;
}

static const tx_optim_member member[] = { { "momentum", { "sgd_momentum" } },
                                          { "dampening", { "sgd_dampening" } },
                                          { "nesterov", { "sgd_nesterov" } },
                                          { .key = NULL } };

/* Weight decay is part of the gradient, as in apex's FusedSGD and torch's SGD. */
const tx_optim_type tx_optim_sgd = { .keeps = &tx_optim_sgd_keeps, .member = member, .step = step };
