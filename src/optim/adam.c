/* adam.c - Adam with decoupled weight decay, or with weight decay that is part of the gradient. */
#include "optim/optim.h"

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    TX_RUN(c, adam, .p = tx_tensor1(r->value, TX_F32, r->numel), .m = tx_tensor1(r->state[0], TX_F32, r->numel),
           .v = tx_tensor1(r->state[1], TX_F32, r->numel), .g = r->grad, .low = r->low, .lr = s->lr,
           .beta1 = s->betas[0], .beta2 = s->betas[1], .eps = o->cfg->adam_eps, .weight_decay = s->weight_decay,
           .grad_scale = 1, .gate = s->gate, .t = s->t, .coupled = !o->cfg->decoupled_weight_decay);
    return TX_OK;
}

const tx_optim_member tx__adam_member[] = { { "betas", { "adam_beta1", "adam_beta2" } },
                                            { "eps", { "adam_eps" } },
                                            { .key = NULL } };

/* As apex's FusedAdam and torch's AdamW; without decoupled decay as torch's Adam. */
const tx_optim_type tx_optim_adam = { .keeps = &tx_optim_adam_keeps,
                                      .member = tx__adam_member,
                                      .betas = { offsetof(tx_config, adam_beta1), offsetof(tx_config, adam_beta2) },
                                      .eps = offsetof(tx_config, adam_eps),
                                      .step = step };
