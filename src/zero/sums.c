/* sums.c - gradients between backward and the update: they are collected in the type that they are kept in, and summed
 * over the ranks of their bucket's group. */
#include "backend/watch.h"
#include "zero/compressed.h"
#include "zero/loco.h"
#include "zero/quantized.h"
#include "zero/zero.h"

#define SUMS "gradients" /* for tx_at_part */

/* ---- where they are ---- */

/* Whether layers write them to other memory than they are collected in. */
static bool widens(const tx_zero *z)
{
    return z->grad_type != TX_F32;
}

/* All of a bucket's gradients, as they are collected. */
static tx_tensor written(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    char *whole = z->grad;
    void *data =
        z->reduce_every_micro_batch ? z->grads.buffer[z->now[k].grad].data : whole + (size_t)b->offset * z->grads.size;
    return tx_tensor1(data, z->grad_type, b->numel);
}

/* Of these a parameter's. */
static tx_tensor collected(const tx_zero *z, int row)
{
    const tx_param *p = &z->ps->param[row];
    int k = z->flat.of_row[row];
    return tx_slice1(written(z, k), p->offset - z->flat.bucket[k].offset, p->numel);
}

static tx_status add_to(tx_zero *z, tx_tensor to, tx_tensor from)
{
    TX_RUN(z->c, add, .y = to, .a = from, .b = to);
    return TX_OK;
}

/* ---- over tensor ranks ---- */

static bool has_parts(const tx_zero *z, const tx_param *p)
{
    bool parts = p->over_tp == TX_HEADS || (p->over_tp == TX_PARTS && z->grid->sequence);
    return parts && !p->frozen && tx_grid_size(z->grid, TX_AXIS_TENSOR) > 1;
}

/* Copies the gradients of a unit that have parts side by side into `all`, or with `back` from there. */
static tx_status side_by_side(tx_zero *z, const tx_unit *u, tx_tensor all, bool back)
{
    int64_t at = 0;
    for (int i = u->first; i < u->end; i++) {
        const tx_param *p = &z->ps->param[i];
        if (!has_parts(z, p)) continue;
        tx_tensor side = tx_slice1(all, at, p->numel), own = collected(z, i);
        TX_RUN(z->c, cast, .y = back ? own : side, .x = back ? side : own);
        at += p->numel;
    }
    return TX_OK;
}

/* The small ones of a layer travel together, in fp32. */
static tx_status sum_parts(tx_zero *z, const tx_unit *u)
{
    tx_ctx *c = z->c;
    int64_t n = 0;
    for (int i = u->first; i < u->end; i++)
        if (has_parts(z, &z->ps->param[i])) n += z->ps->param[i].numel;
    if (!n) return TX_OK;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor all = tx_push1(&c->scratch, TX_F32, n);
    TX_TRY(side_by_side(z, u, all, false));
    TX_TRY(tx_all_reduce(c, tx_grid_group(z->grid, TX_GROUP_TENSOR), all, TX_SUM));
    TX_TRY(side_by_side(z, u, all, true));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- over the ranks of a bucket's group ---- */

/* The ranks that it is: those of a worker, where the update makes the rest of the sum of what it makes of gradients. */
static tx_comm *summing(const tx_zero *z, int k)
{
    return tx_zero_compresses(z) ? tx_grid_group(z->grid, TX_GROUP_NEAR) : tx__bucket_group(z, k);
}

/* Whether a bucket's sums are of another type than what is kept. */
static bool converts(const tx_zero *z, int k)
{
    return z->sum_type != z->grad_type && tx_comm_size(summing(z, k)) > 1;
}

/* A bucket's gradients as they are summed; and of these what this rank keeps. */
static tx_tensor summed(const tx_zero *z, int k)
{
    if (!converts(z, k)) return written(z, k);
    return tx_tensor1(z->sums.buffer[z->now[k].sums].data, z->sum_type, z->flat.bucket[k].numel);
}

static tx_tensor own_part(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    return tx_slice1(summed(z, k), tx_bucket_own_in(&z->flat, b), tx_bucket_part(&z->flat, b));
}

/* Whether a rank gets the sum of its part alone. */
static bool scatters(const tx_zero *z)
{
    return z->stage && z->cfg->zero_reduce_scatter;
}

/* A micro-batch's gradients of the bucket are needed there no more. */
static void leave_bucket(tx_zero *z, int k)
{
    tx__pool_release(&z->grads, &z->now[k].grad);
    tx__zero_bind_grads(z, k, NULL);
}

/* Where the sum is made: in the kept gradients, where they hold no other yet. */
static tx_tensor target(const tx_zero *z, int k)
{
    bool there = z->reduce_every_micro_batch && !z->now[k].summed && scatters(z) && !converts(z, k);
    return there ? tx__zero_kept_grads(z, k) : own_part(z, k);
}

/* What is kept has the bucket's sum of this micro-batch. */
static void note_summed(tx_zero *z, int k)
{
    z->now[k].summed = true;
    z->now[k].left = z->flat.bucket[k].n_units;
}

/* Waits for the bucket that waits longest, adds its sum to what is kept, and frees its memory. */
static tx_status sum_wait(tx_zero *z)
{
    int k = z->reduce_queue[0];
    tx_bucket_now *n = &z->now[k];
    z->n_queued--;
    for (int i = 0; i < z->n_queued; i++) z->reduce_queue[i] = z->reduce_queue[i + 1];
    TX_TRY(tx_wait(z->c, &n->sum));
    if (z->reduce_every_micro_batch || converts(z, k)) {
        tx_tensor to = tx__zero_kept_grads(z, k), from = own_part(z, k);
        if (n->summed)
            TX_TRY(add_to(z, to, from));
        else if (target(z, k).data != to.data)
            TX_RUN(z->c, cast, .y = to, .x = from);
    }
    tx__pool_release(&z->sums, &n->sums);
    if (z->reduce_every_micro_batch) leave_bucket(z, k);
    n->summing = false;
    note_summed(z, k);
    return TX_OK;
}

/* How many buckets of a kind are being summed. */
static int in_queue(const tx_zero *z, int kind)
{
    int n = 0;
    for (int i = 0; i < z->n_queued; i++) n += z->flat.bucket[z->reduce_queue[i]].kind == kind;
    return n;
}

/* A pool buffer for a bucket. While one bucket of a kind is being summed, a second one may have a buffer, and no third.
 */
static tx_status take_buffer(tx_zero *z, tx_pool *t, int k, int *buffer)
{
    int kind = z->flat.bucket[k].kind;
    while (z->now[k].summing || in_queue(z, kind) > 1) TX_TRY(sum_wait(z));
    while ((*buffer = tx__pool_find(t, kind)) < 0) {
        if (!z->c->dry) {
            TX_ASSERT(z->n_queued > 0);
            TX_TRY(sum_wait(z));
            continue;
        }
        TX_TRY(tx__zero_add_buffer(z, t, k, buffer));
    }
    t->buffer[*buffer].bucket = k;
    return TX_OK;
}

static tx_status sum_start(tx_zero *z, int k)
{
    tx_bucket_now *n = &z->now[k];
    if (tx_zero_compresses(z) && tx_comm_size(summing(z, k)) == 1) { /* the update sums what it makes of them */
        note_summed(z, k);
        return TX_OK;
    }
    if (tx__quantizes_sum(z, k)) {
        TX_TRY(tx__quantized_sum(z, k, tx__zero_kept_grads(z, k), written(z, k), n->summed));
        leave_bucket(z, k);
        note_summed(z, k);
        return TX_OK;
    }
    if (converts(z, k)) {
        TX_TRY(take_buffer(z, &z->sums, k, &n->sums));
        TX_RUN(z->c, cast, .y = summed(z, k), .x = written(z, k));
        if (z->reduce_every_micro_batch) leave_bucket(z, k);
    }
    n->summing = true;
    z->reduce_queue[z->n_queued++] = k;
    if (!scatters(z)) return tx_all_reduce_start(z->c, summing(z, k), summed(z, k), &n->sum);
    return tx_reduce_scatter_start(z->c, tx__bucket_owners(z, k), target(z, k), summed(z, k), &n->sum);
}

/* ---- the hooks of backward ---- */

/* Memory for a micro-batch's gradients of a bucket. */
static tx_status begin_bucket(tx_zero *z, int k)
{
    tx_bucket_now *n = &z->now[k];
    if (n->grad >= 0 && !n->summing) return TX_OK;
    TX_TRY(take_buffer(z, &z->grads, k, &n->grad));
    tx__zero_bind_grads(z, k, z->grads.buffer[n->grad].data);
    return TX_OK;
}

/* Points the gradients of a unit's rows to work memory, one after the other, or with NULL nowhere. */
static void bind_work(const tx_zero *z, const tx_unit *u, float *data)
{
    for (int row = u->first; row < u->end; row++) {
        const tx_param *p = &z->ps->param[row];
        p->weight->grad = tx_param_view(p, p->frozen ? NULL : data, TX_F32);
        if (data) data += tx__row_room(p);
    }
}

/* Memory that layers write a unit's gradients to. It is free as soon as its backward is done, so that the layers of a
 * model need one buffer. */
static tx_status begin_work(tx_zero *z, int unit)
{
    int buffer = tx__pool_find(&z->work, tx__unit_kind(z, unit));
    if (buffer < 0) TX_TRY(tx__zero_add_work(z, unit, &buffer)); /* a dry run's */
    z->work.buffer[buffer].bucket = unit;
    z->unit[unit].work = buffer;
    bind_work(z, &z->ps->unit[unit], z->work.buffer[buffer].data);
    return TX_OK;
}

tx_status tx__zero_pre_backward(void *user, int unit)
{
    tx_zero *z = user;
    const tx_unit *u = &z->ps->unit[unit];
    if (!(z->reduce_every_micro_batch || widens(z)) || z->unit[unit].in_backward) return TX_OK;
    for (int i = 0, k; z->reduce_every_micro_batch && (k = tx__zero_trained_of(z, unit, i)) >= 0; i++)
        TX_TRY(begin_bucket(z, k));
    if (widens(z)) TX_TRY(begin_work(z, unit));
    z->unit[unit].in_backward = true;
    return tx_params_zero_grad(z->c, z->ps, u->first, u->end);
}

/* A micro-batch's gradients of a unit from the work memory to where they are kept or collected. */
static tx_status collect(tx_zero *z, int unit)
{
    const tx_unit *u = &z->ps->unit[unit];
    tx_unit_now *n = &z->unit[unit];
    for (int row = u->first; row < u->end; row++) {
        if (z->ps->param[row].frozen) continue;
        tx_tensor to = collected(z, row), from = z->ps->param[row].weight->grad;
        from = tx_tensor1(from.data, from.dtype, tx_numel(from));
        if (n->added && !z->reduce_every_micro_batch)
            TX_TRY(add_to(z, to, from));
        else
            TX_RUN(z->c, cast, .y = to, .x = from);
    }
    n->added = true;
    return TX_OK;
}

/* Which gradient of a unit a watch's first hit is in, while its memory is still this unit's. */
static void note_hit(tx_zero *z, const tx_unit *u)
{
    const tx_watch *w = z->c->watch;
    if (!w || !w->op || z->hit.param) return;
    int64_t element = 0;
    for (int i = 0; i < w->tensor.n_dims; i++) element += w->index[i] * w->tensor.stride[i];
    const char *at = (const char *)w->tensor.data + (size_t)element * tx_dtype_size(w->tensor.dtype);
    for (int row = u->first; row < u->end; row++) {
        const tx_param *p = &z->ps->param[row];
        if (p->frozen) continue;
        const tx_tensor place[2] = { p->weight->grad, collected(z, row) };
        for (int i = 0; i < 2; i++) {
            size_t size = tx_dtype_size(place[i].dtype);
            const char *begin = place[i].data;
            if (w->tensor.dtype != place[i].dtype || at < begin || at >= begin + (size_t)p->numel * size) continue;
            z->hit.param = p;
            z->hit.element = (int64_t)((size_t)(at - begin) / size);
            return;
        }
    }
}

tx_status tx__zero_post_backward(void *user, int unit, bool last)
{
    tx_zero *z = user;
    const char *part = z->c->at.part;
    const tx_unit *u = &z->ps->unit[unit];
    z->unit[unit].in_backward = false;
    tx_at_part(z->c, SUMS);
    if (widens(z)) TX_TRY(collect(z, unit));
    note_hit(z, u);
    if (widens(z)) bind_work(z, u, NULL);
    tx__pool_release(&z->work, &z->unit[unit].work);
    if (!last && !z->reduce_every_micro_batch) {
        tx_at_part(z->c, part);
        return TX_OK;
    }
    TX_TRY(sum_parts(z, u));
    for (int i = 0, k; (k = tx__zero_trained_of(z, unit, i)) >= 0; i++) {
        TX_ASSERT(z->now[k].left > 0);
        if (--z->now[k].left || !(z->overlap || z->reduce_every_micro_batch)) continue;
        TX_TRY(sum_start(z, k));
        while (!z->overlap && z->n_queued) TX_TRY(sum_wait(z));
    }
    tx_at_part(z->c, part);
    TX_TRY(tx_comm_poll(z->c, tx_grid_group(z->grid, TX_GROUP_EXPERT_DATA)));
    return tx_comm_poll(z->c, tx_grid_group(z->grid, tx__sharers(z, TX_GROUP_DATA)));
}

/* ---- an iteration ---- */

tx_status tx_zero_begin(tx_zero *z)
{
    while (z->n_queued) TX_TRY(sum_wait(z)); /* of an iteration that was given up */
    for (int k = 0; k < z->flat.n_buckets; k++) {
        z->now[k].summed = false;
        z->now[k].left = z->flat.bucket[k].n_units;
    }
    for (int i = 0; i < z->ps->n_units; i++) z->unit[i].added = false;
    tx__quantized_forget(z);
    if (z->quantized.loco && !z->c->dry && z->optim.t % z->cfg->zero_loco_reset_t == 0) TX_TRY(tx__loco_forget(z));
    z->hit.param = NULL;
    TX_TRY(tx__zero_spread_dry(z));
    return z->reduce_every_micro_batch || widens(z) ? TX_OK : tx_params_zero_grad(z->c, z->ps, 0, z->ps->n);
}

/* What first and last stage of a pipeline have both: they divide it alike. */
static tx_status sum_ends(tx_zero *z)
{
    for (int row = 0; row < z->ps->n; row++)
        if (z->ps->param[row].tied && !z->ps->param[row].frozen)
            TX_TRY(tx_all_reduce(z->c, tx_grid_group(z->grid, TX_GROUP_ENDS),
                                 tx__zero_kept_grads(z, z->flat.of_row[row]), TX_SUM));
    return TX_OK;
}

/* In the type of sums, where gradients are kept in another one. */
static tx_status sum_far_converted(tx_zero *z, tx_comm *far, tx_tensor kept)
{
    tx_ctx *c = z->c;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor x = tx_push1(&c->scratch, z->sum_type, tx_numel(kept));
    TX_RUN(c, cast, .y = x, .x = kept);
    TX_TRY(tx_all_reduce(c, far, x, TX_SUM));
    TX_RUN(c, cast, .y = kept, .x = x);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* MiCS: what this rank keeps has the sums over its near ranks, of all micro-batches. */
static tx_status sum_far(tx_zero *z)
{
    tx_comm *far = tx_grid_group(z->grid, TX_GROUP_FAR);
    if (!z->mics || tx_comm_size(far) == 1) return TX_OK;
    for (int k = 0; k < z->flat.n_trained; k++) {
        tx_tensor kept = tx__zero_kept_grads(z, k);
        TX_TRY(z->sum_type == z->grad_type ? tx_all_reduce_start(z->c, far, kept, &z->now[k].sum)
                                           : sum_far_converted(z, far, kept));
    }
    for (int k = 0; k < z->flat.n_trained; k++) TX_TRY(tx_wait(z->c, &z->now[k].sum));
    return TX_OK;
}

tx_status tx_zero_finish(tx_zero *z)
{
    tx_at_part(z->c, SUMS);
    for (int k = 0; k < z->flat.n_trained && !z->overlap && !z->reduce_every_micro_batch; k++) TX_TRY(sum_start(z, k));
    while (z->n_queued) TX_TRY(sum_wait(z));
    TX_TRY(tx_zero_settle(z)); /* of units that no forward has used */
    TX_TRY(sum_far(z));
    return sum_ends(z);
}
