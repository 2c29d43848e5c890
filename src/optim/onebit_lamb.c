/* onebit_lamb.c - 1-bit LAMB (arXiv:2104.06069) as DeepSpeed's OnebitLamb (deepspeed/runtime/fp16/onebit/lamb.py)
 * computes it: m and v are not corrected for their beginning with 0.
 *
 *      update 1                      makes buffers there, and changes nothing
 *      up to --onebit-freeze-step    LAMB: p -= lr r u,  u = m / (sqrt(v) + eps) + weight_decay p,  r = |p| / |u|
 * within bounds. Of each tensor an average of r is kept: c = β c + (1-β) r, where r is not 1 after it v and c stay as
 * they are. Of each rank's own gradient m' = β1 m + (1-β1) g, which zero/compressed.h makes the average of all ranks.
 * The gradient that this stands for, g = (m' - β1 m) / (1-β1), goes on changing v', a copy of v; f = max (sqrt(v) +
 * eps) / (sqrt(v') + eps) over the tensor, f = s f + 1 - s,  s = |u - weight_decay p| / |u| and at most 1, f within
 * --onebit-factor-min and -max, and not further from the last one than
 *                                    --onebit-factor-threshold of it;   p -= lr c f u */
#include "optim/optim.h"

#include <stdio.h>

enum { FIRST = 1 };

/* The buffers of state; the last three are of tensors. */
enum { M, V, FRESH, COEFF, LAST, SCALING };

static tx_tensor flat(const tx_optim_range *r, int k)
{
    return tx_tensor1(r->state[k], TX_F32, r->numel);
}

static tx_tensor of_tensor(const tx_optim_range *r, int k)
{
    return tx_tensor1(r->state[k], TX_F32, 1);
}

static tx_optim_signs signs(const tx_optim *o)
{
    bool frozen = o->t >= tx__onebit_last(o);
    return (tx_optim_signs){
        .own = frozen, .averages = frozen, .left_out = o->t > tx__onebit_last(o), .begins = o->t == tx__onebit_last(o)
    };
}

static void tell(const tx_optim *o, char line[TX_OPTIM_LINE])
{
    *line = 0;
    if (o->t == tx__onebit_last(o))
        snprintf(line, TX_OPTIM_LINE,
                 "update %lld was the last of --onebit-freeze-step: averages of squares and LAMB's coefficients are "
                 "frozen, and gradients are not summed but sent as signs from the next one on",
                 (long long)o->t);
}

static tx_lamb_rule rule_of(const tx_optim *o, const tx_optim_step *s)
{
    return (tx_lamb_rule){ .beta1 = s->betas[0],
                           .beta2 = s->betas[1],
                           .eps = o->cfg->adam_eps,
                           .weight_decay = s->weight_decay,
                           .correct1 = 1,
                           .correct2 = 1 };
}

static tx_status direction(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    (void)o;
    TX_RUN(c, blend, .y = tx_tensor1(r->direction, TX_F32, r->numel), .x = r->grad, .z = flat(r, M),
           .alpha = 1 - s->betas[0], .beta = s->betas[0], .gate = s->gate);
    return TX_OK;
}

/* Of what was averaged. What pads the vocabulary is left out: its quotient of 1 could be the largest. */
static tx_status measure_average(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    const tx_lamb_rule rule = rule_of(o, s);
    for (int64_t at = 0; at < r->n_real; at += o->slab) {
        int64_t n = r->n_real - at < o->slab ? r->n_real - at : o->slab, blocks = tx_sumsq_blocks(n);
        TX_RUN(c, lamb_fresh, .m = tx_slice1(flat(r, M), at, n), .fresh = tx_slice1(flat(r, FRESH), at, n),
               .x = tx_tensor1(r->direction + at, TX_F32, n), .v = tx_slice1(flat(r, V), at, n),
               .p = tx_tensor1(r->value + at, TX_F32, n), .sums = tx_tensor2(s->norm->blocks, TX_F64, 2, blocks),
               .most = s->norm->most, .rule = rule, .gate = s->gate);
        for (int k = 0; k < 2; k++)
            TX_RUN(c, exact_add, .sum = s->norm->sum[k], .x = tx_tensor1(s->norm->blocks + k * blocks, TX_F64, blocks));
    }
    return TX_OK;
}

static tx_status measure(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    const tx_lamb_rule rule = rule_of(o, s);
    if (s->t == FIRST && !c->dry) return TX_OK;
    return signs(o).own ? measure_average(c, o, r, s) : tx__lamb_measure(c, o, r, s, &rule);
}

static tx_status rate(tx_ctx *c, const tx_optim *o, tx_tensor ratio, tx_tensor sums)
{
    bool own = signs(o).own;
    TX_RUN(c, lamb_ratio, .out = ratio, .sums = sums, .least = own ? 0 : o->cfg->lamb_min_coeff,
           .most = own ? 1 : o->cfg->lamb_max_coeff);
    return TX_OK;
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    const tx_config *cfg = o->cfg;
    tx_lamb_coeff_args coeff = {
        .ratio = s->norm->ratio, .average = of_tensor(r, COEFF), .beta = cfg->onebit_coeff_beta, .gate = s->gate
    };
    if (s->t == FIRST && !c->dry) return TX_OK;
    if (signs(o).own) {
        coeff.most = s->norm->most;
        coeff.last = of_tensor(r, LAST);
        coeff.least = cfg->onebit_factor_min;
        coeff.largest = cfg->onebit_factor_max;
        coeff.threshold = cfg->onebit_factor_threshold;
    }
    TX_TRY(tx_op_lamb_coeff(c, &coeff));
    TX_RUN(c, lamb_update, .p = tx_tensor1(r->value, TX_F32, r->numel), .m = flat(r, M), .v = flat(r, V), .low = r->low,
           .ratio = s->norm->ratio, .rule = rule_of(o, s), .lr = s->lr, .gate = s->gate);
    if (s->t != tx__onebit_last(o) && !c->dry) return TX_OK;
    TX_RUN(c, fill, .x = of_tensor(r, LAST), .value = 1);
    TX_RUN(c, blend, .y = flat(r, FRESH), .x = flat(r, V), .alpha = 1, .only_go = true, .gate = s->gate);
    return TX_OK;
}

const tx_optim_type tx_optim_onebit_lamb = { .keeps = &tx_optim_onebit_lamb_keeps,
                                             .theirs = { [SCALING] = TX_THEIRS_LATER },
                                             .member = tx__lamb_member,
                                             .counts = true,
                                             .betas = { offsetof(tx_config, adam_beta1),
                                                        offsetof(tx_config, adam_beta2) },
                                             .eps = offsetof(tx_config, adam_eps),
                                             .step = step,
                                             .measure = measure,
                                             .rate = rate,
                                             .direction = direction,
                                             .signs = signs,
                                             .tell = tell,
                                             .together = true,
                                             .scaling = SCALING,
                                             .finds_most = true };
