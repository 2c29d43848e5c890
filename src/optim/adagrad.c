/* adagrad.c - Adagrad. */
#include "optim/optim.h"

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    TX_RUN(c, adagrad, .p = tx_tensor1(r->value, TX_F32, r->numel), .v = tx_tensor1(r->state[0], TX_F32, r->numel),
           .g = r->grad, .low = r->low, .lr = s->lr, .eps = o->cfg->adagrad_eps, .weight_decay = s->weight_decay,
           .grad_scale = 1, .gate = s->gate);
    return TX_OK;
}

static const tx_optim_member member[] = {
    { "eps", { "adagrad_eps" } }, { .key = "lr_decay" }, { .key = "initial_accumulator_value" }, { .key = NULL }
};

/* As torch's Adagrad; DeepSpeed's for offloaded state is the same, and calls the sum exp_avg_sq. */
const tx_optim_type tx_optim_adagrad = { .keeps = &tx_optim_adagrad_keeps,
                                         .other_name = { "exp_avg_sq" },
                                         .member = member,
                                         .eps = offsetof(tx_config, adagrad_eps),
                                         .step = step };
