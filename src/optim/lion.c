/* lion.c - Lion: the sign of an average, with decoupled weight decay. */
#include "optim/optim.h"

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    (void)o;
    TX_RUN(c, lion, .p = tx_tensor1(r->value, TX_F32, r->numel), .m = tx_tensor1(r->state[0], TX_F32, r->numel),
           .g = r->grad, .low = r->low, .lr = s->lr, .beta1 = s->betas[0], .beta2 = s->betas[1],
           .weight_decay = s->weight_decay, .grad_scale = 1, .gate = s->gate);
    return TX_OK;
}

static const tx_optim_member member[] = { { "betas", { "lion_beta1", "lion_beta2" } }, { .key = NULL } };

/* As DeepSpeed's FusedLion; an average of exactly 0 moves nothing, as in the paper. */
const tx_optim_type tx_optim_lion = { .keeps = &tx_optim_lion_keeps,
                                      .member = member,
                                      .counts = true,
                                      .betas = { offsetof(tx_config, lion_beta1), offsetof(tx_config, lion_beta2) },
                                      .step = step };
