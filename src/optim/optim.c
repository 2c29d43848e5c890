/* optim.c - the table of optimizers, and what they share. */
#include "optim/optim.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/exact.h"

/* For tx_at_part. */
#define NORMS "optimizer.norms"
#define STEP  "optimizer.step"

/* Elements whose blocks are summed at a time. */
#define SLAB ((int64_t)4096 * TX_SUMSQ_BLOCK)

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
    tx_exact exact;
    double sum[4]; /* the last may be a largest one */
    char bad[128]; /* the first tensor that is not finite, or "" */
} sums;

tx_status tx_optim_init(tx_optim *o, const tx_config *cfg, tx_comm *ranks, const tx_optim_range *range, int n_ranges)
{
    *o = (tx_optim){
        .type = tx_optim_type_find(cfg->optimizer), .cfg = cfg, .ranks = ranks, .range = range, .n_ranges = n_ranges
    };
    tx_status st;
    TX_GOTO(tx_alloc(&o->all, (size_t)tx_comm_size(ranks), sizeof *o->all, "the gradient norm"));
    TX_GOTO(tx_alloc(&o->block_sums, SLAB / TX_SUMSQ_BLOCK, 4 * sizeof(double), "the gradient norm"));
out:
    if (st) tx_optim_deinit(o);
    return st;
}

void tx_optim_deinit(tx_optim *o)
{
    tx_free(o->block_sums);
    tx_free(o->all);
    *o = (tx_optim){ 0 };
}

/* mine becomes the sums over all ranks, in their order; the last of n is a largest one with `max`. */
static tx_status over_ranks(const tx_ctx *c, tx_optim *o, sums *mine, int n, bool max)
{
    if (c->dry || tx_comm_size(o->ranks) == 1) return TX_OK;
    TX_TRY(tx_comm_gather(o->ranks, o->all, mine, sizeof *mine));
    *mine = o->all[0];
    for (int r = 1; r < tx_comm_size(o->ranks); r++) {
        const sums *next = &o->all[r];
        tx_exact_merge(&mine->exact, &next->exact);
        for (int i = 0; i < n; i++)
            mine->sum[i] = max && i == n - 1 ? fmax(mine->sum[i], next->sum[i]) : mine->sum[i] + next->sum[i];
        if (!mine->bad[0]) memcpy(mine->bad, next->bad, sizeof mine->bad);
    }
    return TX_OK;
}

static tx_status bring(const tx_optim *o, int i, unsigned what, bool changes)
{
    return o->bring ? o->bring(o->bring_user, i, what, changes) : TX_OK;
}

/* The tensors that something is asked about. */
static tx_tensor grad_of(const tx_optim_range *r)
{
    return tx_tensor1(r->grad, TX_F32, r->numel);
}

static tx_tensor master_of(const tx_optim_range *r)
{
    return tx_tensor1(r->value, TX_F32, r->numel);
}

static tx_tensor value_of(const tx_optim_range *r)
{
    return r->low.data ? r->low : master_of(r);
}

static tx_tensor momentum_of(const tx_optim_range *r)
{
    return tx_tensor1(r->state[0], TX_F32, r->numel);
}

static tx_tensor variance_of(const tx_optim_range *r)
{
    return tx_tensor1(r->state[1], TX_F32, r->numel);
}

typedef tx_tensor tensor_fn(const tx_optim_range *r);

static int64_t blocks_of(int64_t n)
{
    return (n + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
}

static tx_status norm_of(tx_ctx *c, tx_optim *o, tensor_fn *of, unsigned what, double *norm, const char **bad)
{
    sums all = { 0 };
    *bad = NULL;
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        if (what) TX_TRY(bring(o, i, what, false));
        for (int64_t at = 0; at < r->numel; at += SLAB) {
            int64_t n = r->numel - at < SLAB ? r->numel - at : SLAB, blocks = blocks_of(n);
            TX_RUN(c, sumsq, .out = tx_tensor1(o->block_sums, TX_F64, blocks), .x = tx_slice1(of(r), at, n));
            for (int64_t k = 0; k < blocks && !c->dry; k++) tx_exact_add(&all.exact, o->block_sums[k]);
        }
        if (!c->dry && !isfinite(all.exact.beyond) && !all.bad[0]) snprintf(all.bad, sizeof all.bad, "%s", r->name);
    }
    *norm = 0;
    if (c->dry) return TX_OK;
    TX_TRY(over_ranks(c, o, &all, 0, false));
    double total = tx_exact_value(&all.exact);
    o->all[0] = all;
    if (all.bad[0]) *bad = o->all[0].bad;
    *norm = isnan(total) ? NAN : sqrt(total); /* without a sign, which would be shown */
    return TX_OK;
}

tx_status tx_optim_grad_norm(tx_ctx *c, tx_optim *o, double *norm, const char **bad)
{
    return norm_of(c, o, grad_of, 0, norm, bad);
}

tx_status tx_optim_value_norm(tx_ctx *c, tx_optim *o, double *norm, const char **bad)
{
    return norm_of(c, o, value_of, TX_BRING_VALUE, norm, bad);
}

/* Of what the ranges have and, if wanted, of its elements' square roots. */
static tx_status magnitudes(tx_ctx *c, tx_optim *o, tensor_fn *tensor, tx_magnitude *of, tx_magnitude *of_sqrt)
{
    sums all = { 0 }; /* of |x|, x², sqrt |x|; and the largest */
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        TX_TRY(bring(o, i, TX_BRING_MASTER | TX_BRING_STATE, false));
        for (int64_t first = 0; first < r->numel; first += SLAB) {
            int64_t n = r->numel - first < SLAB ? r->numel - first : SLAB, blocks = blocks_of(n);
            TX_RUN(c, magnitudes, .out = tx_tensor2(o->block_sums, TX_F64, blocks, 4),
                   .x = tx_slice1(tensor(r), first, n));
            for (const double *at = o->block_sums, *end = at + 4 * blocks; at < end; at += 4) {
                for (int k = 0; k < 3; k++) all.sum[k] += at[k];
                all.sum[3] = fmax(all.sum[3], at[3]);
            }
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
    TX_TRY(magnitudes(c, o, variance_of, &out->variance, &out->variance_sqrt));
    TX_TRY(magnitudes(c, o, momentum_of, &out->momentum, NULL));
    return magnitudes(c, o, master_of, &out->weight, NULL);
}

tx_status tx_optim_count_zeros(tx_ctx *c, tx_optim *o, double *n)
{
    sums all = { 0 };
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted || !r->n_real) continue;
        TX_RUN(c, count_zeros, .out = tx_tensor1(o->block_sums, TX_F64, 1),
               .x = tx_tensor1(r->grad, TX_F32, r->n_real));
        if (!c->dry) all.sum[0] += o->block_sums[0];
    }
    TX_TRY(over_ranks(c, o, &all, 1, false));
    *n = all.sum[0];
    return TX_OK;
}

tx_optim_step tx_optim_next(const tx_optim *o, double lr, double weight_decay, double grad_scale)
{
    return (tx_optim_step){ .lr = lr, .weight_decay = weight_decay, .grad_scale = grad_scale, .t = o->t + 1 };
}

tx_status tx_optim_step_some(tx_ctx *c, const tx_optim *o, const tx_optim_step *s, int first, int end)
{
    tx_at_part(c, STEP);
    for (int i = first; i < end; i++) {
        tx_optim_step one = *s;
        TX_TRY(bring(o, i, TX_BRING_ALL, true));
        if (!o->range[i].decay) one.weight_decay = 0;
        TX_TRY(o->type->step(c, o, &o->range[i], &one));
    }
    return TX_OK;
}

void tx_optim_stepped(tx_optim *o, const tx_optim_step *s)
{
    o->t = s->t;
}
