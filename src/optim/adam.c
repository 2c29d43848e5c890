/* adam.c - AdamW over flat buffers. */
#include "optim/adam.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

tx_status tx_adam_init(tx_adam *o, const tx_optim_range *range, int n_ranges, float *value, float *grad, int64_t numel,
                       double beta1, double beta2, double eps)
{
    *o = (tx_adam){
        .n_ranges = n_ranges, .value = value, .grad = grad, .numel = numel, .beta1 = beta1, .beta2 = beta2, .eps = eps
    };
    tx_status st;
    int64_t largest = 0;
    for (int i = 0; i < n_ranges; i++)
        if (range[i].numel > largest) largest = range[i].numel;
    TX_GOTO(tx_alloc(&o->range, (size_t)n_ranges, sizeof *o->range, "the optimizer's groups"));
    memcpy(o->range, range, (size_t)n_ranges * sizeof *o->range);
    TX_GOTO(tx_alloc(&o->m, (size_t)numel, sizeof *o->m, "Adam's first moments"));
    TX_GOTO(tx_alloc(&o->v, (size_t)numel, sizeof *o->v, "Adam's second moments"));
    TX_GOTO(tx_alloc(&o->block_sums, (size_t)(largest / TX_SUMSQ_BLOCK + 1), sizeof(double), "the gradient norm"));
out:
    if (st) tx_adam_deinit(o);
    return st;
}

void tx_adam_deinit(tx_adam *o)
{
    tx_free(o->range);
    tx_free(o->m);
    tx_free(o->v);
    tx_free(o->block_sums);
    *o = (tx_adam){ 0 };
}

tx_status tx_adam_zero_grad(tx_ctx *c, tx_adam *o)
{
    TX_RUN(c, fill, .x = tx_tensor1(o->grad, TX_F32, o->numel));
    return TX_OK;
}

static tx_status norm_of(tx_ctx *c, tx_adam *o, float *flat, double *norm, const char **bad)
{
    double total = 0;
    *bad = NULL;
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        int64_t blocks = (r->numel + TX_SUMSQ_BLOCK - 1) / TX_SUMSQ_BLOCK;
        TX_RUN(c, sumsq, .out = tx_tensor1(o->block_sums, TX_F64, blocks),
               .x = tx_tensor1(flat + r->offset, TX_F32, r->numel));
        if (c->dry) continue;
        double sum = 0;
        for (int64_t k = 0; k < blocks; k++) sum += o->block_sums[k];
        if (!isfinite(sum) && !*bad) *bad = r->name;
        total += sum;
    }
    *norm = sqrt(total);
    return TX_OK;
}

tx_status tx_adam_grad_norm(tx_ctx *c, tx_adam *o, double *norm, const char **bad)
{
    return norm_of(c, o, o->grad, norm, bad);
}

tx_status tx_adam_value_norm(tx_ctx *c, tx_adam *o, double *norm)
{
    const char *bad;
    return norm_of(c, o, o->value, norm, &bad);
}

tx_status tx_adam_step(tx_ctx *c, tx_adam *o, double lr, double weight_decay, double grad_scale)
{
    int64_t t = o->t + 1;
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        TX_RUN(c, adam, .p = tx_tensor1(o->value + r->offset, TX_F32, r->numel),
               .m = tx_tensor1(o->m + r->offset, TX_F32, r->numel), .v = tx_tensor1(o->v + r->offset, TX_F32, r->numel),
               .g = tx_tensor1(o->grad + r->offset, TX_F32, r->numel), .lr = lr, .beta1 = o->beta1, .beta2 = o->beta2,
               .eps = o->eps, .weight_decay = r->decay ? weight_decay : 0, .grad_scale = grad_scale, .t = t);
    }
    if (!c->dry) o->t = t;
    return TX_OK;
}
