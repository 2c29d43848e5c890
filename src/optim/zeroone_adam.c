/* zeroone_adam.c - 0/1 Adam (arXiv:2202.06009) as DeepSpeed's ZeroOneAdam (deepspeed/runtime/fp16/onebit/zoadam.py)
 * computes it: m and v are not corrected for their beginning with 0, weight decay is decoupled.
 *
 *      update 1                       makes buffers there, and changes nothing
 *      to --var-freeze-step + 1       those that the interval k divides are Adam's with the sum of gradients. Of the
 * others each rank's gradient is averaged as signs (zero/compressed.h), and v stays as it is. k = 1 first, twice that
 * after every --var-update-scaler updates of the first sort after them                     v stays as it is. Each rank
 * alone makes m, and moves: u -= lr (m / (sqrt(v) + eps) + weight_decay p),   p = a + u of these, those that the the
 * average of u (sqrt(v) + eps) is made, x, and ranks have the same again: local interval divides       m = -x / Σ lr,
 * p = a + x / (sqrt(v) + eps),   u = 0 It is 1 first, twice that after every --local-step-scaler updates, and
 *                                     --local-step-clipper at most
 *
 *  a is what the weights were when the ranks last had the same. DeepSpeed has no buffer of it and subtracts u from p:
 * then its ranks' weights part by rounding, and nothing brings them together again. With one rank its class does not
 * move m where it would send signs; here m moves. */
#include "optim/optim.h"

#include <stdio.h>

enum { FIRST = 1 };

/* The buffers of state. */
enum { M, V, U, A };

/* As after so many updates that there is nothing to correct. */
static const int64_t UNCORRECTED = INT64_MAX;

/* ---- which update is what: a function of its number t alone ---- */

static int64_t last_before_freeze(const tx_config *cfg)
{
    return cfg->var_freeze_step > FIRST ? cfg->var_freeze_step + 1 : FIRST + 1;
}

static bool is_frozen(const tx_config *cfg, int64_t t)
{
    return t > last_before_freeze(cfg);
}

/* Of squares, at update t. Each interval begins with the update after the last one of the interval before. */
static int64_t var_interval(const tx_config *cfg, int64_t t)
{
    int64_t k = 1;
    for (int64_t begin = FIRST + 1; k <= t; k *= 2) {
        int64_t end = ((begin + k - 1) / k + cfg->var_update_scaler - 1) * k;
        if (t <= end) break;
        begin = end + 1;
    }
    return k;
}

static int64_t local_interval(const tx_config *cfg, int64_t t)
{
    int64_t k = 1;
    for (int64_t n = (t - last_before_freeze(cfg) - 1) / cfg->local_step_scaler; n > 0 && k < cfg->local_step_clipper;
         n--)
        k *= 2;
    return k < cfg->local_step_clipper ? k : cfg->local_step_clipper;
}

/* Whether ranks have the same weights after update t. */
static bool is_together(const tx_config *cfg, int64_t t)
{
    return !is_frozen(cfg, t) || t % local_interval(cfg, t) == 0;
}

static tx_optim_signs signs(const tx_optim *o)
{
    const tx_config *cfg = o->cfg;
    int64_t t = o->t + 1;
    if (is_frozen(cfg, t))
        return (tx_optim_signs){ .own = true,
                                 .averages = is_together(cfg, t),
                                 .left_out = true,
                                 .forgets = t == last_before_freeze(cfg) + 1,
                                 .apart = !is_together(cfg, t - 1) };
    int64_t k = var_interval(cfg, t);
    bool own = t > FIRST && t % k;
    return (tx_optim_signs){ .own = own, .averages = own, .left_out = k > 1 };
}

static void tell(const tx_optim *o, char line[TX_OPTIM_LINE])
{
    const tx_config *cfg = o->cfg;
    long long t = (long long)o->t;
    *line = 0;
    if (is_frozen(cfg, t + 1) && !is_frozen(cfg, t))
        snprintf(
            line, TX_OPTIM_LINE,
            "update %lld was the last before the freeze (--var-freeze-step): averages of squares stay as they are, "
            "ranks move alone, and after each update what they moved is averaged as signs",
            t);
    else if (is_frozen(cfg, t) && local_interval(cfg, t + 1) != local_interval(cfg, t))
        snprintf(line, TX_OPTIM_LINE,
                 "update %lld: from the next one on what ranks moved is averaged after updates that %lld divides", t,
                 (long long)local_interval(cfg, t + 1));
    else if (!is_frozen(cfg, t + 1) && var_interval(cfg, t + 1) != var_interval(cfg, t))
        snprintf(line, TX_OPTIM_LINE,
                 "update %lld: from the next one on gradients are summed in updates that %lld divides, and averages of "
                 "squares change in these alone; in others gradients are sent as signs",
                 t, (long long)var_interval(cfg, t + 1));
}

/* ---- updates ---- */

static tx_tensor flat(const tx_optim_range *r, int k)
{
    return tx_tensor1(r->state[k], TX_F32, r->numel);
}

static tx_tensor weights(const tx_optim_range *r)
{
    return tx_tensor1(r->value, TX_F32, r->numel);
}

/* p -= rate (m / (sqrt(v) + eps) + weight_decay p) */
static tx_status move(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, tx_lamb_update_args a)
{
    a.v = flat(r, V);
    a.rule.eps = o->cfg->adam_eps;
    a.rule.correct1 = a.rule.correct2 = 1;
    return tx_op_lamb_update(c, &a);
}

/* y = alpha x + beta y */
static tx_status add(tx_ctx *c, tx_blend_args a)
{
    a.only_go = true;
    return tx_op_blend(c, &a);
}

/* m and u of this rank's gradient. */
static tx_status move_alone(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    tx_tensor m = flat(r, M), u = flat(r, U), p = weights(r);
    if (c->dry || !tx_optim_signs_of(o).apart) {
        TX_TRY(add(c, (tx_blend_args){ .y = flat(r, A), .x = p, .alpha = 1, .gate = s->gate }));
        TX_RUN(c, fill, .x = u);
    }
    TX_RUN(c, blend, .y = m, .x = r->grad, .z = m, .alpha = 1 - s->betas[0], .beta = s->betas[0], .gate = s->gate);
    TX_TRY(move(c, o, r, (tx_lamb_update_args){ .p = u, .m = m, .lr = s->lr, .gate = s->gate }));
    return add(
        c, (tx_blend_args){ .y = u, .x = p, .z = u, .alpha = -s->lr * s->weight_decay, .beta = 1, .gate = s->gate });
}

static tx_status direction(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    tx_tensor u = flat(r, U);
    if (is_frozen(o->cfg, s->t)) {
        TX_TRY(move_alone(c, o, r, s));
        TX_RUN(c, root_mul, .y = u, .x = u, .v = flat(r, V), .eps = o->cfg->adam_eps);
    } else
        TX_RUN(c, blend, .y = u, .x = r->grad, .alpha = 1, .gate = s->gate);
    return TX_OK;
}

/* p = a + u */
static tx_blend_args sum_of(const tx_optim_range *r)
{
    return (tx_blend_args){ .y = weights(r), .x = flat(r, A), .z = flat(r, U), .alpha = 1, .beta = 1, .low = r->low };
}

static tx_status place(tx_ctx *c, const tx_optim_range *r)
{
    return add(c, sum_of(r));
}

/* Of a frozen update. */
static tx_status step_frozen(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    tx_tensor u = flat(r, U), p = weights(r);
    double rates = tx_optim_passed(o, r, s);
    if (!is_together(o->cfg, s->t)) {
        tx_blend_args sum = sum_of(r);
        sum.gate = s->gate;
        TX_TRY(move_alone(c, o, r, s));
        return add(c, sum);
    }
    TX_TRY(add(c, (tx_blend_args){ .y = flat(r, M), .x = u, .alpha = rates > 0 ? -1 / rates : 0, .gate = s->gate }));
    TX_TRY(add(c, (tx_blend_args){ .y = p, .x = flat(r, A), .alpha = 1, .gate = s->gate }));
    return move(c, o, r, (tx_lamb_update_args){ .p = p, .m = u, .low = r->low, .lr = -1, .gate = s->gate });
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    tx_tensor m = flat(r, M);
    if (s->t == FIRST && !c->dry) return TX_OK;
    if (is_frozen(o->cfg, s->t)) return step_frozen(c, o, r, s);
    if (tx_optim_signs_of(o).own) {
        TX_TRY(add(
            c, (tx_blend_args){
                   .y = m, .x = flat(r, U), .z = m, .alpha = 1 - s->betas[0], .beta = s->betas[0], .gate = s->gate }));
        return move(c, o, r,
                    (tx_lamb_update_args){ .p = weights(r),
                                           .m = m,
                                           .low = r->low,
                                           .rule = { .weight_decay = s->weight_decay },
                                           .lr = s->lr,
                                           .gate = s->gate });
    }
    TX_RUN(c, adam, .p = weights(r), .m = m, .v = flat(r, V), .g = r->grad, .low = r->low, .lr = s->lr,
           .beta1 = s->betas[0], .beta2 = s->betas[1], .eps = o->cfg->adam_eps, .weight_decay = s->weight_decay,
           .grad_scale = 1, .gate = s->gate, .t = UNCORRECTED);
    return TX_OK;
}

const tx_optim_type tx_optim_zeroone_adam = { .keeps = &tx_optim_zeroone_adam_keeps,
                                              .theirs = { [U] = TX_THEIRS_ZERO, [A] = TX_THEIRS_WEIGHTS },
                                              /* from a checkpoint its intervals begin at 1 again */
                                              .mark = { { "tensor_size", 0 }, { "var_interval", 1 } },
                                              .member = tx__adam_member,
                                              .counts = true,
                                              .betas = { offsetof(tx_config, adam_beta1),
                                                         offsetof(tx_config, adam_beta2) },
                                              .eps = offsetof(tx_config, adam_eps),
                                              .step = step,
                                              .direction = direction,
                                              .signs = signs,
                                              .tell = tell,
                                              .averaged = U,
                                              .alone = { M, U },
                                              .n_alone = 2,
                                              .place = place };
