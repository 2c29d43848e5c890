/* onebit_adam.c - 1-bit Adam (arXiv:2102.02888) as DeepSpeed's OneBitAdam (deepspeed/runtime/fp16/onebit/adam.py)
 * computes it:
 *
 *      update 1                      makes buffers there, and changes nothing
 *      up to --onebit-freeze-step    Adam with decoupled weight decay, and moments that nothing corrects for their
 *                                    beginning with 0
 *      after it                      v stays as it is. Of each rank's own gradient m = β1 m + (1-β1) g, which
 *                                    zero/compressed.h then makes the average of all ranks;
 *                                    p -= lr (m / (sqrt(v) + eps) + weight_decay p) */
#include "optim/optim.h"

#include <stdio.h>

enum { FIRST = 1 };

/* As after so many updates that there is nothing to correct. */
static const int64_t UNCORRECTED = INT64_MAX;

static tx_tensor flat(float *x, const tx_optim_range *r)
{
    return tx_tensor1(x, TX_F32, r->numel);
}

int64_t tx__onebit_last(const tx_optim *o)
{
    int64_t freeze = o->cfg->onebit_freeze_step;
    return freeze > FIRST ? freeze : FIRST + 1;
}

static tx_optim_signs signs(const tx_optim *o)
{
    bool frozen = o->t >= tx__onebit_last(o);
    return (tx_optim_signs){ .own = frozen, .averages = frozen, .left_out = frozen };
}

static void tell(const tx_optim *o, char line[TX_OPTIM_LINE])
{
    *line = 0;
    if (o->t == tx__onebit_last(o))
        snprintf(
            line, TX_OPTIM_LINE,
            "update %lld was the last of --onebit-freeze-step: averages of squares stay as they are, and gradients "
            "are not summed but sent as signs from the next one on",
            (long long)o->t);
}

static tx_status direction(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    (void)o;
    tx_tensor m = flat(r->state[0], r);
    TX_RUN(c, blend, .y = m, .x = r->grad, .z = m, .alpha = 1 - s->betas[0], .beta = s->betas[0], .gate = s->gate);
    return TX_OK;
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    const tx_lamb_rule rule = {
        .eps = o->cfg->adam_eps, .weight_decay = s->weight_decay, .correct1 = 1, .correct2 = 1
    };
    if (s->t == FIRST && !c->dry) return TX_OK;
    if (signs(o).own)
        TX_RUN(c, lamb_update, .p = flat(r->value, r), .m = flat(r->state[0], r), .v = flat(r->state[1], r),
               .low = r->low, .rule = rule, .lr = s->lr, .gate = s->gate);
    else
        TX_RUN(c, adam, .p = flat(r->value, r), .m = flat(r->state[0], r), .v = flat(r->state[1], r), .g = r->grad,
               .low = r->low, .lr = s->lr, .beta1 = s->betas[0], .beta2 = s->betas[1], .eps = o->cfg->adam_eps,
               .weight_decay = s->weight_decay, .grad_scale = 1, .gate = s->gate, .t = UNCORRECTED);
    return TX_OK;
}

const tx_optim_type tx_optim_onebit_adam = { .keeps = &tx_optim_onebit_adam_keeps,
                                             .mark = { { "tensor_size", 0 } },
                                             .member = tx__adam_member,
                                             .counts = true,
                                             .betas = { offsetof(tx_config, adam_beta1),
                                                        offsetof(tx_config, adam_beta2) },
                                             .eps = offsetof(tx_config, adam_eps),
                                             .step = step,
                                             .direction = direction,
                                             .signs = signs,
                                             .tell = tell };
