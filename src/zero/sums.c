/* sums.c - what has to happen to gradients between backward and the update: sums over the ranks that have a part of
 * them each. */
#include "zero/zero.h"

#define SUMS "gradients" /* for tx_at_part */

/* ---- over tensor ranks ---- */

static bool has_parts(const tx_zero *z, const tx_param *p)
{
    return p->over_tp == TX_PARTS && z->grid->sequence && z->grid->tp.size > 1;
}

/* Copies the gradients of a unit that have parts side by side into `all`, or with `back` from there. */
static tx_status side_by_side(tx_zero *z, const tx_unit *u, tx_tensor all, bool back)
{
    int64_t at = 0;
    for (int i = u->first; i < u->end; i++) {
        const tx_param *p = &z->ps->param[i];
        if (!has_parts(z, p)) continue;
        tx_tensor side = tx_slice1(all, at, p->numel), own = tx_tensor1(p->weight->grad.data, TX_F32, p->numel);
        TX_RUN(z->c, cast, .y = back ? own : side, .x = back ? side : own);
        at += p->numel;
    }
    return TX_OK;
}

/* The small ones of a layer travel together. */
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
    TX_TRY(tx_all_reduce(c, z->grid->tensor, all, TX_SUM));
    TX_TRY(side_by_side(z, u, all, true));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- over data ranks ---- */

/* All of a bucket's gradients, as backward wrote them; and of these what this rank keeps. */
static tx_tensor written(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    return tx_tensor1(z->passing ? z->grads.turn[z->now[k].grad].data : z->grad + b->offset, TX_F32, b->numel);
}

static tx_tensor own_part(const tx_zero *z, int k)
{
    int64_t part = tx_bucket_part(&z->flat, &z->flat.bucket[k]);
    return tx_slice1(written(z, k), z->flat.rank * part, part);
}

static tx_tensor kept(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    return tx_tensor1(tx__zero_kept_grad(z, b), TX_F32, tx_bucket_part(&z->flat, b));
}

/* Whether a rank gets the sum of its part alone. */
static bool scatters(const tx_zero *z)
{
    return z->stage && z->cfg->zero_reduce_scatter;
}

/* Where the sum is made: in the kept gradients, where they hold no other yet. */
static tx_tensor target(const tx_zero *z, int k)
{
    return z->passing && !z->now[k].summed && scatters(z) ? kept(z, k) : own_part(z, k);
}

static tx_status sum_start(tx_zero *z, int k)
{
    tx_bucket_now *n = &z->now[k];
    n->summing = true;
    z->line[z->n_line++] = k;
    if (!scatters(z)) return tx_all_reduce_start(z->c, z->grid->data, written(z, k), &n->sum);
    return tx_reduce_scatter_start(z->c, z->data, target(z, k), written(z, k), &n->sum);
}

static tx_status add_to(tx_zero *z, tx_tensor to, tx_tensor from)
{
    int64_t n = tx_numel(to);
    tx_tensor y = tx_tensor3(to.data, to.dtype, 1, 1, n), x = tx_tensor3(from.data, from.dtype, 1, 1, n);
    TX_RUN(z->c, dropout_add_fwd, .y = y, .x = x, .residual = y);
    return TX_OK;
}

/* Waits for the bucket that waits longest, adds its sum to what is kept, and frees its memory. */
static tx_status sum_wait(tx_zero *z)
{
    int k = z->line[0];
    tx_bucket_now *n = &z->now[k];
    z->n_line--;
    for (int i = 0; i < z->n_line; i++) z->line[i] = z->line[i + 1];
    TX_TRY(tx_wait(z->c, &n->sum));
    if (z->passing) {
        tx_tensor to = kept(z, k), from = own_part(z, k);
        if (n->summed)
            TX_TRY(add_to(z, to, from));
        else if (target(z, k).data != to.data)
            TX_RUN(z->c, cast, .y = to, .x = from);
        z->grads.turn[n->grad].bucket = -1;
        n->grad = -1;
        tx__zero_bind_grads(z, k, NULL);
    }
    n->summing = false;
    n->summed = true;
    n->left = z->flat.bucket[k].n_units;
    return TX_OK;
}

/* ---- as backward comes to them ---- */

/* How many buckets of a kind are being summed. */
static int in_line(const tx_zero *z, int kind)
{
    int n = 0;
    for (int i = 0; i < z->n_line; i++) n += z->flat.bucket[z->line[i]].kind == kind;
    return n;
}

/* Memory for a micro-batch's gradients of a bucket. While one bucket of a kind is summed another is written. */
static tx_status begin_bucket(tx_zero *z, int k)
{
    int kind = z->flat.bucket[k].kind, turn;
    if (z->now[k].grad >= 0 && !z->now[k].summing) return TX_OK;
    while (z->now[k].summing || in_line(z, kind) > 1) TX_TRY(sum_wait(z));
    while ((turn = tx__turns_find(&z->grads, kind)) < 0) {
        if (!z->c->dry) {
            TX_ASSERT(z->n_line > 0);
            TX_TRY(sum_wait(z));
            continue;
        }
        TX_TRY(tx__turns_add(&z->grads, z, k, &turn));
    }
    z->grads.turn[turn].bucket = k;
    z->now[k].grad = turn;
    tx__zero_bind_grads(z, k, z->grads.turn[turn].data);
    return TX_OK;
}

tx_status tx__zero_touch(void *user, int unit)
{
    tx_zero *z = user;
    const tx_unit *u = &z->ps->unit[unit];
    if (!z->passing || z->touched[unit]) return TX_OK;
    for (int i = 0, k; (k = tx__zero_bucket_of(z, unit, i)) >= 0; i++) TX_TRY(begin_bucket(z, k));
    z->touched[unit] = true;
    return tx_params_zero_grad(z->c, z->ps, u->first, u->end);
}

tx_status tx__zero_done(void *user, int unit, bool last)
{
    tx_zero *z = user;
    const char *part = z->c->at.part;
    z->touched[unit] = false;
    if (!last && !z->passing) return TX_OK;
    tx_at_part(z->c, SUMS);
    TX_TRY(sum_parts(z, &z->ps->unit[unit]));
    for (int i = 0, k; (k = tx__zero_bucket_of(z, unit, i)) >= 0; i++) {
        TX_ASSERT(z->now[k].left > 0);
        if (--z->now[k].left || !(z->overlap || z->passing)) continue;
        TX_TRY(sum_start(z, k));
        while (!z->overlap && z->n_line) TX_TRY(sum_wait(z));
    }
    tx_at_part(z->c, part);
    return tx_comm_poll(z->c, z->grid->data);
}

/* ---- an iteration ---- */

tx_status tx_zero_begin(tx_zero *z)
{
    while (z->n_line) TX_TRY(sum_wait(z)); /* of an iteration that was given up */
    for (int k = 0; k < z->flat.n_buckets; k++) {
        z->now[k].summed = false;
        z->now[k].left = z->flat.bucket[k].n_units;
    }
    return z->passing ? TX_OK : tx_params_zero_grad(z->c, z->ps, 0, z->ps->n);
}

/* What first and last stage of a pipeline have both: they divide it alike. */
static tx_status sum_ends(tx_zero *z)
{
    for (int row = 0; row < z->ps->n; row++)
        if (z->ps->param[row].tied) TX_TRY(tx_all_reduce(z->c, z->grid->ends, kept(z, z->flat.of_row[row]), TX_SUM));
    return TX_OK;
}

tx_status tx_zero_finish(tx_zero *z)
{
    tx_at_part(z->c, SUMS);
    for (int k = 0; k < z->flat.n_buckets && !z->overlap && !z->passing; k++) TX_TRY(sum_start(z, k));
    while (z->n_line) TX_TRY(sum_wait(z));
    return sum_ends(z);
}
