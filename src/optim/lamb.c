/* lamb.c - LAMB (arXiv:1904.00962) as DeepSpeed's FusedLamb computes it: the trust ratio is bounded on both sides. */
#include <math.h>

#include "optim/optim.h"

/* How the moments' beginning with 0 is made up for: by the learning rate or by the moments themselves. */
typedef struct correction {
    double rate, first, second;
} correction;

static correction correction_of(const tx_config *cfg, const tx_optim_step *s)
{
    double first = 1 - pow(s->betas[0], (double)s->t), second = 1 - pow(s->betas[1], (double)s->t);
    switch (cfg->lamb_bias_correction) {
    case TX_LAMB_CORRECT_RATE:
        return (correction){ sqrt(second) / first, 1, 1 };
    case TX_LAMB_CORRECT_MOMENTS:
        return (correction){ 1, first, second };
    case TX_LAMB_CORRECT_NONE:
        break;
    }
    return (correction){ 1, 1, 1 };
}

static tx_lamb_rule rule_of(const tx_config *cfg, const tx_optim_step *s)
{
    correction by = correction_of(cfg, s);
    return (tx_lamb_rule){ .beta1 = s->betas[0],
                           .beta2 = s->betas[1],
                           .eps = cfg->adam_eps,
                           .weight_decay = s->weight_decay,
                           .correct1 = by.first,
                           .correct2 = by.second,
                           .eps_inside = cfg->lamb_eps_inside_sqrt };
}

/* A slab of a range at a time, of which there is room for sums. */
tx_status tx__lamb_measure(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s,
                           const tx_lamb_rule *rule)
{
    for (int64_t at = 0; at < r->numel; at += o->slab) {
        int64_t n = r->numel - at < o->slab ? r->numel - at : o->slab;
        int64_t blocks = tx_sumsq_blocks(n);
        TX_RUN(c, lamb_moments, .m = tx_tensor1(r->state[0] + at, TX_F32, n),
               .v = tx_tensor1(r->state[1] + at, TX_F32, n), .p = tx_tensor1(r->value + at, TX_F32, n),
               .g = tx_slice1(r->grad, at, n), .sums = tx_tensor2(s->norm->blocks, TX_F64, 2, blocks), .rule = *rule,
               .grad_scale = 1, .gate = s->gate);
        for (int k = 0; k < 2; k++)
            TX_RUN(c, exact_add, .sum = s->norm->sum[k], .x = tx_tensor1(s->norm->blocks + k * blocks, TX_F64, blocks));
    }
    return TX_OK;
}

static tx_status measure(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    tx_lamb_rule rule = rule_of(o->cfg, s);
    return tx__lamb_measure(c, o, r, s, &rule);
}

static tx_status rate(tx_ctx *c, const tx_optim *o, tx_tensor ratio, tx_tensor sums)
{
    TX_RUN(c, lamb_ratio, .out = ratio, .sums = sums, .least = o->cfg->lamb_min_coeff, .most = o->cfg->lamb_max_coeff);
    return TX_OK;
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    TX_RUN(c, lamb_update, .p = tx_tensor1(r->value, TX_F32, r->numel), .m = tx_tensor1(r->state[0], TX_F32, r->numel),
           .v = tx_tensor1(r->state[1], TX_F32, r->numel), .low = r->low, .ratio = s->norm->ratio,
           .rule = rule_of(o->cfg, s), .lr = s->lr * correction_of(o->cfg, s).rate, .gate = s->gate);
    return TX_OK;
}

const tx_optim_member tx__lamb_member[] = { { "betas", { "adam_beta1", "adam_beta2" } },
                                            { "eps", { "adam_eps" } },
                                            { "max_coeff", { "lamb_max_coeff" } },
                                            { "min_coeff", { "lamb_min_coeff" } },
                                            { .key = NULL } };

const tx_optim_type tx_optim_lamb = { .keeps = &tx_optim_lamb_keeps,
                                      .member = tx__lamb_member,
                                      .counts = true,
                                      .betas = { offsetof(tx_config, adam_beta1), offsetof(tx_config, adam_beta2) },
                                      .eps = offsetof(tx_config, adam_eps),
                                      .step = step,
                                      .measure = measure,
                                      .rate = rate };
