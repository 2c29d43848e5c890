/* model_run.c - a batch through a model's layers. */
#include "model/model.h"
#include "parallel/tp.h"

static tx_stack_pass pass_of(const tx_model *m, tx_batch *batch, bool train)
{
    return (tx_stack_pass){ .chunk = batch->chunk,
                            .slot = batch->slot,
                            .train = train,
                            .last = batch->last,
                            .recompute = &m->recompute,
                            .units = batch->units,
                            .wgrads = batch->wgrads,
                            .dtype = m->dtype,
                            .batch = batch,
                            .x = batch->x,
                            .y = batch->y,
                            .d = batch->d };
}

tx_status tx_model_hold(tx_model *m, int n_slots)
{
    return tx_stack_hold(&m->stack, n_slots);
}

tx_status tx_model_fwd(tx_ctx *c, tx_model *m, tx_batch *batch, bool train)
{
    tx_stack_pass p = pass_of(m, batch, train);
    TX_TRY(tx_stack_fwd(c, &m->stack, &p));
    batch->y = p.y;
    batch->d = p.d;
    batch->reweighted = false;
    return TX_OK;
}

tx_status tx_model_bwd(tx_ctx *c, tx_model *m, tx_batch *batch)
{
    tx_stack_pass p = pass_of(m, batch, true);
    p.loss_again = batch->reweighted && m->chunk[batch->chunk].post;
    TX_TRY(tx_stack_bwd(c, &m->stack, &p));
    batch->d = p.d;
    return TX_OK;
}

tx_status tx_model_weights(tx_ctx *c, tx_model *m, tx_batch *batch)
{
    const tx_stack_pass p = pass_of(m, batch, true);
    return tx_stack_weights(c, &m->stack, &p);
}

tx_status tx_model_decode(tx_ctx *c, tx_model *m, const tx_decode *d)
{
    tx_batch batch = { .token = d->token, .position = d->position, .kv = d->kv, .x = d->x, .y = d->y };
    tx_stack_pass p = pass_of(m, &batch, false);
    TX_ASSERT(tx_tp_is_whole(c));
    return tx_stack_decode(c, &m->stack, &p);
}

tx_tensor tx_no_output(tx_ctx *c, const tx_stack_call *k)
{
    (void)c, (void)k;
    return (tx_tensor){ 0 };
}
