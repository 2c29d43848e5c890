/* optim.c - the table of optimizers, and what they share. */
#include "optim/optim.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* For tx_at_part. */
#define NORMS "optimizer.norms"
#define STEP  "optimizer.step"

static const tx_optim_type *const types[] = { &tx__optim_adam, &tx__optim_sgd };

const tx_optim_type *tx_optim_type_find(const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i]->name, name)) return types[i];
    TX_ASSERT(false); /* the words of --optimizer are the names in this table */
    return NULL;
}

/* What a rank gives to sums over all of them. */
typedef struct tx__optim_sums {
    double sum[4]; /* the last may be a largest one */
    char bad[128]; /* the first tensor that is not finite, or "" */
} sums;

tx_status tx_optim_init(tx_optim *o, const tx_config *cfg, tx_comm *ranks, const tx_optim_range *range, int n_ranges,
                        float *value, tx_tensor low, float *grad, int64_t numel)
{
    *o = (tx_optim){ .type = tx_optim_type_find(cfg->optimizer),
                     .cfg = cfg,
                     .ranks = ranks,
                     .n_ranges = n_ranges,
                     .value = value,
                     .low = low,
                     .grad = grad,
                     .numel = numel };
    tx_status st;
    int64_t largest = 0;
    for (int i = 0; i < n_ranges; i++)
        if (range[i].numel > largest) largest = range[i].numel;
    TX_GOTO(tx_alloc(&o->all, (size_t)tx_comm_size(ranks), sizeof *o->all, "the gradient norm"));
    TX_GOTO(tx_alloc(&o->range, (size_t)n_ranges, sizeof *o->range, "the optimizer's groups"));
    memcpy(o->range, range, (size_t)n_ranges * sizeof *o->range);
    for (int i = 0; i < o->type->n_state; i++)
        TX_GOTO(tx_alloc(&o->state[i], (size_t)numel, sizeof *o->state[i], "the optimizer's state"));
    TX_GOTO(tx_alloc(&o->block_sums, (size_t)(largest / TX_SUMSQ_BLOCK + 1), 4 * sizeof(double), "the gradient norm"));
out:
    if (st) tx_optim_deinit(o);
    return st;
}

void tx_optim_deinit(tx_optim *o)
{
    tx_free(o->range);
    for (int i = 0; i < TX_OPTIM_MAX_STATE; i++) tx_free(o->state[i]);
    tx_free(o->block_sums);
    tx_free(o->all);
    *o = (tx_optim){ 0 };
}

tx_tensor tx__optim_low(const tx_optim *o, const tx_optim_range *r)
{
    return o->low.data ? tx_slice1(o->low, r->offset, r->numel) : (tx_tensor){ 0 };
}

/* mine becomes the sums over all ranks, in their order; the last of n is a largest one with `max`. */
static tx_status over_ranks(const tx_ctx *c, tx_optim *o, sums *mine, int n, bool max)
{
    if (c->dry || tx_comm_size(o->ranks) == 1) return TX_OK;
    TX_TRY(tx_comm_gather(o->ranks, o->all, mine, sizeof *mine));
    *mine = o->all[0];
    for (int r = 1; r < tx_comm_size(o->ranks); r++) {
        const sums *next = &o->all[r];
        for (int i = 0; i < n; i++)
            mine->sum[i] = max && i == n - 1 ? fmax(mine->sum[i], next->sum[i]) : mine->sum[i] + next->sum[i];
        if (!mine->bad[0]) memcpy(mine->bad, next->bad, sizeof mine->bad);
    }
    return TX_OK;
}

static tx_status norm_of(tx_ctx *c, tx_optim *o, tx_tensor flat, double *norm, const char **bad)
{
    sums all = { 0 };
    *bad = NULL;
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        int64_t blocks = (r->numel + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
        TX_RUN(c, sumsq, .out = tx_tensor1(o->block_sums, TX_F64, blocks), .x = tx_slice1(flat, r->offset, r->numel));
        if (c->dry) continue;
        double sum = 0;
        for (int64_t k = 0; k < blocks; k++) sum += o->block_sums[k];
        if (!isfinite(sum) && !all.bad[0]) snprintf(all.bad, sizeof all.bad, "%s", r->name);
        all.sum[0] += sum;
    }
    *norm = 0;
    if (c->dry) return TX_OK;
    TX_TRY(over_ranks(c, o, &all, 1, false));
    double total = all.sum[0];
    o->all[0] = all;
    if (all.bad[0]) *bad = o->all[0].bad;
    *norm = isnan(total) ? NAN : sqrt(total); /* without a sign, which would be shown */
    return TX_OK;
}

tx_status tx_optim_grad_norm(tx_ctx *c, tx_optim *o, double *norm, const char **bad)
{
    return norm_of(c, o, tx_tensor1(o->grad, TX_F32, o->numel), norm, bad);
}

tx_status tx_optim_value_norm(tx_ctx *c, tx_optim *o, double *norm, const char **bad)
{
    return norm_of(c, o, o->low.data ? o->low : tx_tensor1(o->value, TX_F32, o->numel), norm, bad);
}

/* Of a flat buffer and, if wanted, of its elements' square roots. */
static tx_status magnitudes(tx_ctx *c, tx_optim *o, float *flat, tx_magnitude *of, tx_magnitude *of_sqrt)
{
    sums all = { 0 }; /* of |x|, x², sqrt |x|; and the largest */
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        int64_t blocks = (r->numel + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
        TX_RUN(c, magnitudes, .out = tx_tensor2(o->block_sums, TX_F64, blocks, 4),
               .x = tx_tensor1(flat + r->offset, TX_F32, r->numel));
        for (const double *at = o->block_sums, *end = at + 4 * blocks; at < end; at += 4) {
            for (int k = 0; k < 3; k++) all.sum[k] += at[k];
            all.sum[3] = fmax(all.sum[3], at[3]);
        }
    }
    TX_TRY(over_ranks(c, o, &all, 4, true));
    double sum = all.sum[0], most = all.sum[3];
    *of = (tx_magnitude){ .l2 = sqrt(all.sum[1]), .l1 = sum, .abs_max = most };
    if (of_sqrt) *of_sqrt = (tx_magnitude){ .l2 = sqrt(sum), .l1 = all.sum[2], .abs_max = sqrt(most) };
    return TX_OK;
}

tx_status tx_optim_states_of(tx_ctx *c, tx_optim *o, tx_optim_states *out)
{
    TX_ASSERT(o->type == &tx__optim_adam); /* a rule of the options */
    TX_TRY(magnitudes(c, o, o->state[1], &out->variance, &out->variance_sqrt));
    TX_TRY(magnitudes(c, o, o->state[0], &out->momentum, NULL));
    return magnitudes(c, o, o->value, &out->weight, NULL);
}

tx_status tx_optim_count_zeros(tx_ctx *c, tx_optim *o, double *n)
{
    sums all = { 0 };
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        TX_RUN(c, count_zeros, .out = tx_tensor1(o->block_sums, TX_F64, 1),
               .x = tx_tensor1(o->grad + r->offset, TX_F32, r->n_real));
        if (!c->dry) all.sum[0] += o->block_sums[0];
    }
    TX_TRY(over_ranks(c, o, &all, 1, false));
    *n = all.sum[0];
    return TX_OK;
}

tx_status tx_optim_step_all(tx_ctx *c, tx_optim *o, double lr, double weight_decay, double grad_scale)
{
    tx_optim_step s = { .lr = lr, .grad_scale = grad_scale, .t = o->t + 1 };
    tx_at_part(c, STEP);
    for (int i = 0; i < o->n_ranges; i++) {
        s.weight_decay = o->range[i].decay ? weight_decay : 0;
        TX_TRY(o->type->step(c, o, &o->range[i], &s));
    }
    if (!c->dry) o->t = s.t;
    return TX_OK;
}
