/* gather.c - ZeRO-3: parameters are gathered before they are used and dropped after it. */
#include "backend/trace.h"
#include "zero/offload.h"
#include "zero/quantized.h"

/* The i-th bucket of a unit that is gathered and dropped, from 0; -1: there are no more. */
static int moving_bucket(const tx_zero *z, int unit, int i)
{
    if (z->stage < 3 || unit < 0) return -1;
    for (int at = 0, k; (k = tx__zero_bucket_of(z, unit, at)) >= 0; at++)
        if (!z->flat.bucket[k].persistent && i-- == 0) return k;
    return -1;
}

static void drop(tx_zero *z, int k)
{
    tx_bucket_now *n = &z->now[k];
    tx__zero_bind_values(z, k, NULL);
    tx__pool_release(&z->values, &n->value);
    z->live -= z->flat.bucket[k].numel;
}

/* Forgets what is kept for backward, is not in use and is of a kind; true: there was something. */
static bool drop_kept(tx_zero *z, int kind)
{
    for (int i = 0; i < z->values.n; i++) {
        int k = z->values.buffer[i].bucket;
        if (k < 0 || z->values.buffer[i].kind != kind || z->now[k].users || z->now[k].gathering) continue;
        drop(z, k);
        return true;
    }
    return false;
}

/* A bucket's memory, and of it this rank's part. */
static tx_tensor all_of(const tx_zero *z, int k)
{
    return tx_tensor1(z->values.buffer[z->now[k].value].data, z->dtype, z->flat.bucket[k].numel);
}

static tx_tensor own_of(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    return tx_slice1(all_of(z, k), tx_bucket_own_in(&z->flat, b), tx_bucket_part(&z->flat, b));
}

static tx_status parts_start(tx_zero *z, int k)
{
    if (z->quantized.weights || tx__has_second(z, k)) return tx__quantized_gather_start(z, k, all_of(z, k));
    return tx_all_gather_start(z->c, tx__bucket_owners(z, k), all_of(z, k), own_of(z, k), &z->now[k].gather);
}

/* In a dry run: that this rank's part of the bucket is read. */
static tx_status note_read(tx_zero *z, int k)
{
    double bytes = (double)tx_bucket_part(&z->flat, &z->flat.bucket[k]) * (double)tx_dtype_size(z->dtype);
    const char *from = z->cfg->offload_param == TX_OFFLOAD_NVME ? "from a disk" : "from the host";
    return tx_trace_copy(z->c, from, bytes, &z->now[k].read);
}

/* Starts to gather the bucket, if that is not under way or done. ahead: only if there is room. */
static tx_status gather_start(tx_zero *z, int k, bool ahead)
{
    const tx_bucket *b = &z->flat.bucket[k];
    tx_bucket_now *n = &z->now[k];
    if (n->value >= 0) return TX_OK;
    int buffer = tx__pool_find(&z->values, b->kind);
    if (buffer < 0 && z->c->dry && z->live + b->numel <= z->cfg->zero_max_live_parameters)
        TX_TRY(tx__zero_add_buffer(z, &z->values, k, &buffer));
    if (buffer < 0 && ahead) return TX_OK;
    if (buffer < 0 && drop_kept(z, b->kind)) buffer = tx__pool_find(&z->values, b->kind);
    if (buffer < 0) TX_TRY(tx__zero_add_buffer(z, &z->values, k, &buffer)); /* a dry run's: it is needed */
    z->values.buffer[buffer].bucket = k;
    n->value = buffer;
    n->gathering = true;
    z->live += b->numel;
    tx_tensor own = own_of(z, k);
    if (tx__has_second(z, k)) return parts_start(z, k);
    if (!tx__is_offloaded(z, TX_ARRAY_VALUE)) {
        TX_RUN(z->c, copy, .y = own, .x = tx__zero_value_part(z, k));
    } else {
        void *to = own.data;
        n->reading = true;
        if (z->c->dry) return note_read(z, k);
        if (z->c->device) TX_TRY(tx__bounce_place(z, buffer, &to));
        return tx__offload_values_start(z, k, to, &n->read);
    }
    return parts_start(z, k);
}

tx_status tx__zero_read_part(tx_zero *z, int k, tx_tensor y)
{
    tx_tier_request r = { 0 };
    if (z->c->dry) return TX_OK;
    if (!tx__is_offloaded(z, TX_ARRAY_VALUE)) {
        TX_RUN(z->c, cast, .y = y, .x = tx__zero_value_part(z, k));
        return TX_OK;
    }
    void *to = y.data;
    if (z->c->device) TX_TRY(tx__bounce_place(z, -1, &to));
    TX_TRY(tx__offload_values_start(z, k, to, &r));
    TX_TRY(tx_tier_wait(&r));
    return z->c->device ? tx__bounce_up(z, -1, y.data, (size_t)tx_numel(y) * tx_dtype_size(z->dtype)) : TX_OK;
}

/* Waits until this rank's part of the bucket has been read. */
static tx_status read_wait(tx_zero *z, int k)
{
    tx_bucket_now *n = &z->now[k];
    tx_tensor own = own_of(z, k);
    TX_TRY(tx_tier_wait(&n->read));
    return z->c->device ? tx__bounce_up(z, n->value, own.data, (size_t)tx_numel(own) * tx_dtype_size(z->dtype)) : TX_OK;
}

tx_status tx__zero_gather_wait(tx_zero *z, int k)
{
    tx_bucket_now *n = &z->now[k];
    if (n->reading) {
        n->reading = false;
        TX_TRY(z->c->dry ? tx_trace_wait(z->c, &n->read) : read_wait(z, k));
        TX_TRY(parts_start(z, k));
    }
    TX_TRY(tx_wait(z->c, &n->gather));
    if (n->gathering) {
        TX_TRY(tx__quantized_gathered(z, k, all_of(z, k)));
        tx__zero_bind_values(z, k, z->values.buffer[n->value].data);
    }
    n->gathering = false;
    return TX_OK;
}

/* Starts to gather a bucket of the next unit, if --zero-prefetch-bucket-size and --zero-max-live-parameters allow it.
 */
static tx_status prefetch(tx_zero *z, int k)
{
    int64_t numel = z->flat.bucket[k].numel;
    if (numel > z->cfg->zero_prefetch_bucket_size || z->live + numel > z->cfg->zero_max_live_parameters) return TX_OK;
    return gather_start(z, k, true);
}

/* What the update has left under way: z->spreads_late. */
static tx_status spread_wait(tx_zero *z, int unit)
{
    for (int i = 0, k; z->spreads_late && unit >= 0 && (k = tx__zero_bucket_of(z, unit, i)) >= 0; i++)
        if (z->stage < 3 || z->flat.bucket[k].persistent) TX_TRY(tx_wait(z->c, &z->now[k].gather));
    return TX_OK;
}

tx_status tx__zero_gather(void *user, int unit, int next)
{
    tx_zero *z = user;
    TX_TRY(spread_wait(z, unit));
    for (int i = 0, k; (k = moving_bucket(z, unit, i)) >= 0; i++) {
        TX_TRY(gather_start(z, k, false));
        TX_TRY(tx__zero_gather_wait(z, k));
        z->now[k].users++;
    }
    for (int i = 0, k; (k = moving_bucket(z, next, i)) >= 0; i++) TX_TRY(prefetch(z, k));
    return TX_OK;
}

/* Elements of the stage that are used until backward uses the unit again. */
static int64_t distance(const tx_zero *z, int unit)
{
    int64_t n = 0;
    for (int row = z->ps->unit[unit].end; row < z->ps->n; row++) n += 2 * z->ps->param[row].numel;
    return n;
}

tx_status tx__zero_release(void *user, int unit, bool again)
{
    tx_zero *z = user;
    for (int i = 0, k; (k = moving_bucket(z, unit, i)) >= 0; i++) {
        TX_ASSERT(z->now[k].users > 0);
        if (--z->now[k].users == 0 && !(again && distance(z, unit) < z->cfg->zero_max_reuse_distance)) drop(z, k);
        TX_TRY(tx_comm_poll(z->c, tx__bucket_owners(z, k)));
    }
    /* Without data-parallel ranks nobody else moves on what goes to the next stage while layers compute. */
    return tx_comm_poll(z->c, tx_grid_group(z->grid, z->spreads_late ? TX_GROUP_WORLD : TX_GROUP_PIPELINE));
}

void tx__zero_drop_all(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets && z->stage == 3; k++) {
        TX_ASSERT(!z->now[k].users && !z->now[k].gathering);
        if (z->now[k].value >= 0) drop(z, k);
    }
    tx__quantized_forget(z);
}
