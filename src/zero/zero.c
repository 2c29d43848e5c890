/* zero.c - a rank's share of the training state: its memory, its update, and its numbers. */
#include "zero/zero.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/shared.h"

/* ---- which buffers are whole ---- */

bool tx_zero_whole_values(const tx_zero *z)
{
    return z->stage < 3;
}

bool tx_zero_whole_masters(const tx_zero *z)
{
    return z->stage == 0 || (z->dtype == TX_F32 && tx_zero_whole_values(z));
}

static bool grads_whole(const tx_zero *z)
{
    return z->stage == 0 || (z->stage == 1 && !z->reduce_every_micro_batch);
}

/* Elements of a buffer. */
static int64_t numel_of(const tx_zero *z, bool whole)
{
    return whole ? z->ps->numel : z->flat.kept.numel;
}

/* Where a fragment begins in one. */
static int64_t begin_of(const tx_zero *z, bool whole, const tx_fragment *s)
{
    return whole ? z->ps->param[s->row].offset + s->first : s->at;
}

tx_tensor tx__zero_kept_grads(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    int64_t first = grads_whole(z) ? tx_bucket_own(&z->flat, b) : tx_bucket_at(&z->flat, b);
    return tx_tensor1((char *)z->grad + (size_t)first * z->grads.size, z->grad_type, tx_bucket_part(&z->flat, b));
}

tx_tensor tx__zero_value_part(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    size_t at = (size_t)tx_bucket_at(&z->flat, b) * tx_dtype_size(z->dtype);
    TX_ASSERT(!tx_zero_whole_values(z));
    return tx_tensor1((char *)z->value + at, z->dtype, tx_bucket_part(&z->flat, b));
}

int tx__zero_bucket_of(const tx_zero *z, int unit, int i)
{
    const tx_unit *u = &z->ps->unit[unit];
    int found[2] = { -1, -1 }, n = 0;
    for (int row = u->first; row < u->end && n < 2; row++) {
        int k = z->flat.of_row[row];
        if (n == 0 || found[0] != k) found[n++] = k;
    }
    return i < n ? found[i] : -1;
}

/* ---- weights ---- */

static void *at(const tx_zero *z, int bucket, const tx_param *p, void *data, size_t size)
{
    return data ? (char *)data + (size_t)(p->offset - z->flat.bucket[bucket].offset) * size : NULL;
}

void tx__zero_bind_values(tx_zero *z, int bucket, void *data)
{
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (z->flat.of_row[row] == bucket)
            p->weight->value = tx_param_view(p, at(z, bucket, p, data, tx_dtype_size(z->dtype)), z->dtype);
    }
}

void tx__zero_bind_grads(tx_zero *z, int bucket, void *data)
{
    if (z->grad_type != TX_F32) return;
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (z->flat.of_row[row] == bucket)
            p->weight->grad = tx_param_view(p, at(z, bucket, p, data, sizeof(float)), TX_F32);
    }
}

/* Where the values of a bucket lie that all ranks have: of whole values, or of what stays. */
static char *place_of(const tx_zero *z, int k)
{
    size_t size = tx_dtype_size(z->dtype);
    int64_t persistent = 0;
    if (tx_zero_whole_values(z)) return (char *)z->value + (size_t)z->flat.bucket[k].offset * size;
    for (int i = 0; i < k; i++)
        if (z->flat.bucket[i].persistent) persistent += z->flat.bucket[i].numel;
    return (char *)z->persistent + (size_t)persistent * size;
}

/* Whatever stays where it is. */
static void bind_all(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) {
        const tx_bucket *b = &z->flat.bucket[k];
        tx__zero_bind_values(z, k, tx_zero_whole_values(z) || b->persistent ? place_of(z, k) : NULL);
        tx__zero_bind_grads(z, k, z->train && !z->reduce_every_micro_batch ? (float *)z->grad + b->offset : NULL);
    }
}

/* ---- turns ---- */

int tx__pool_find(const tx_pool *t, int kind)
{
    for (int i = 0; i < t->n; i++)
        if (t->buffer[i].kind == kind && t->buffer[i].bucket < 0) return i;
    return -1;
}

static tx_status add_buffer(tx_pool *t, const tx_zero *z, int kind, int64_t numel, int *out)
{
    TX_ASSERT(z->c->dry);
    TX_TRY(tx_realloc(&t->buffer, (size_t)t->n + 1, sizeof *t->buffer, "the buckets"));
    t->buffer[t->n] = (tx_pool_buffer){ .kind = kind, .bucket = -1, .numel = numel, .data = TX_DRY_ADDRESS };
    *out = t->n++;
    return TX_OK;
}

tx_status tx__pool_add(tx_pool *t, const tx_zero *z, int bucket, int *out)
{
    const tx_flat *f = &z->flat;
    int64_t most = 0;
    for (int k = 0; k < f->n_buckets; k++)
        if (f->bucket[k].kind == f->bucket[bucket].kind && f->bucket[k].numel > most) most = f->bucket[k].numel;
    return add_buffer(t, z, f->bucket[bucket].kind, most, out);
}

/* All layers', or one of its own. */
int tx__unit_kind(const tx_zero *z, int unit)
{
    return z->ps->unit[unit].kind == TX_UNIT_LAYER ? 0 : 1 + unit;
}

tx_status tx__pool_add_unit(tx_pool *t, const tx_zero *z, int unit, int *out)
{
    int kind = tx__unit_kind(z, unit);
    int64_t most = 0;
    for (int i = 0; i < z->ps->n_units; i++) {
        int64_t n = 0;
        if (tx__unit_kind(z, i) != kind) continue;
        for (int row = z->ps->unit[i].first; row < z->ps->unit[i].end; row++) n += tx__row_room(&z->ps->param[row]);
        if (n > most) most = n;
    }
    return add_buffer(t, z, kind, most, out);
}

/* Memory of the device's, or shared memory that a disk can read into. */
static tx_status take_aligned(tx_device *d, void **base, void **data, size_t bytes, const char *what)
{
    TX_TRY(tx_device_take(d, base, bytes + TX_AIO_ALIGN, true, what));
    *data = (char *)*base + (TX_AIO_ALIGN - (uintptr_t)*base % TX_AIO_ALIGN) % TX_AIO_ALIGN;
    return TX_OK;
}

tx_status tx__pool_take(tx_pool *t, tx_device *d, const char *what)
{
    for (int i = 0; i < t->n; i++) {
        tx_pool_buffer *buffer = &t->buffer[i];
        TX_TRY(take_aligned(d, &buffer->base, &buffer->data, (size_t)buffer->numel * t->size, what));
    }
    return TX_OK;
}

void tx__pool_close(tx_pool *t, tx_device *d)
{
    for (int i = 0; i < t->n; i++) tx_device_give(d, t->buffer[i].base);
    tx_free(t->buffer);
    *t = (tx_pool){ 0 };
}

size_t tx__pool_bytes(const tx_pool *t)
{
    size_t bytes = 0;
    for (int i = 0; i < t->n; i++) bytes += (size_t)t->buffer[i].numel * t->size;
    return bytes;
}

/* ---- what is kept, and its optimizer ---- */

void tx__zero_point(const tx_zero *z, tx_optim_range *r, int array, void *x)
{
    if (array >= TX_ARRAY_STATE)
        r->state[array - TX_ARRAY_STATE] = x;
    else if (array == TX_ARRAY_MASTER || z->dtype == TX_F32)
        r->value = x;
    else
        r->low = tx_tensor1(x, z->dtype, r->numel);
}

/* Element of a flat buffer, or nothing where there is none. */
static void *element(void *flat, int64_t i, size_t size)
{
    return flat ? (char *)flat + (size_t)i * size : NULL;
}

static tx_optim_range range_of(const tx_zero *z, int i)
{
    const tx_fragment *s = &z->fragment[i];
    const tx_param *p = &z->ps->param[s->row];
    int64_t real = tx_param_n_real(p) - s->first;
    tx_optim_range r = { .numel = s->numel,
                         .n_real = real < 0          ? 0
                                   : real < s->numel ? real
                                                     : s->numel,
                         .first = s->first,
                         .decay = p->decay == TX_DECAY,
                         .lr_scale = p->lr_scale,
                         .decay_scale = p->decay_scale,
                         .group = p->group,
                         .counted = p->counted,
                         .name = p->name,
                         .value = element(z->master, begin_of(z, tx_zero_whole_masters(z), s), sizeof(float)) };
    if (z->dtype != TX_F32)
        r.low = tx_tensor1(element(z->value, begin_of(z, tx_zero_whole_values(z), s), tx_dtype_size(z->dtype)),
                           z->dtype, s->numel);
    if (!z->train) return r;
    r.grad = tx_tensor1(element(z->grad, begin_of(z, grads_whole(z), s), z->grads.size), z->grad_type, s->numel);
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) r.state[k] = element(z->state[k], s->at, sizeof(float));
    return r;
}

/* Pieces of bucket k's fragments, cut where chunks end. */
static void cut_bucket(tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    int64_t chunk = tx__offload_chunk(z), at = tx_bucket_at(&z->flat, b);
    z->first_range[k] = z->n_ranges;
    for (int i = b->first; i < b->end; i++)
        for (tx_fragment left = z->flat.kept.fragment[i]; left.numel > 0;) {
            tx_fragment fragment = left;
            int64_t end = chunk ? at + ((left.at - at) / chunk + 1) * chunk : INT64_MAX;
            if (fragment.numel > end - fragment.at) fragment.numel = end - fragment.at;
            z->fragment[z->n_ranges++] = fragment;
            left.first += fragment.numel;
            left.at += fragment.numel;
            left.numel -= fragment.numel;
        }
    z->first_range[k + 1] = z->n_ranges;
}

static tx_status cut_fragments(tx_zero *z)
{
    int64_t chunk = tx__offload_chunk(z);
    size_t most = (size_t)z->flat.kept.n + (chunk ? (size_t)(z->flat.kept.numel / chunk) : 0) + 1;
    TX_TRY(tx_alloc(&z->fragment, most, sizeof *z->fragment, "the buckets"));
    TX_TRY(tx_alloc(&z->range, most, sizeof *z->range, "the buckets"));
    TX_TRY(tx_alloc(&z->first_range, (size_t)z->flat.n_buckets + 1, sizeof *z->first_range, "the buckets"));
    for (int k = 0; k < z->flat.n_buckets; k++) cut_bucket(z, k);
    return TX_OK;
}

static void point_ranges(tx_zero *z)
{
    for (int i = 0; i < z->n_ranges; i++) z->range[i] = range_of(z, i);
}

/* ---- opening ---- */

static tx_dtype dtype_of(enum tx_float_type type)
{
    switch (type) {
    case TX_FLOAT_FP32:
        return TX_F32;
    case TX_FLOAT_BF16:
        return TX_BF16;
    case TX_FLOAT_FP16:
        return TX_F16;
    }
    TX_ASSERT(!"a word of --grad-dtype");
    return TX_F32;
}

static void choose_types(tx_zero *z)
{
    const tx_config *cfg = z->cfg;
    z->grad_type = z->train ? dtype_of(cfg->grad_dtype) : TX_F32;
    z->sum_type = z->train && cfg->grad_reduce_dtype ? dtype_of(cfg->grad_reduce_dtype) : z->grad_type;
}

static tx_flat_spec spec_of(const tx_zero *z)
{
    const tx_config *cfg = z->cfg;
    int64_t most = cfg->zero_reduce_bucket_size;
    if (cfg->zero_allgather_bucket_size < most) most = cfg->zero_allgather_bucket_size;
    return (tx_flat_spec){ .n_ranks = tx_comm_size(z->data),
                           .rank = tx_comm_rank(z->data),
                           .bucket_size = z->stage ? most : cfg->ddp_bucket_size,
                           .align = tx__offloads(z) ? TX_TIER_BLOCK : TX_PARAM_ALIGN,
                           .each = z->stage == 3,
                           .small = cfg->zero_param_persistence_threshold,
                           .small_all = cfg->zero_model_persistence_threshold };
}

tx_status tx_zero_open(tx_zero *z, tx_ctx *c, tx_params *ps, const tx_config *cfg, tx_dtype t, bool train,
                       const tx_client_optimizer *client)
{
    *z = (tx_zero){ .c = c, .ps = ps, .cfg = cfg, .grid = tx_grid_of(c), .dtype = t, .train = train };
    z->hooks = (tx_unit_hooks){ .gather = tx__zero_gather,
                                .release = tx__zero_release,
                                .pre_backward = tx__zero_pre_backward,
                                .post_backward = tx__zero_post_backward,
                                .user = z };
    TX_TRY(tx_optim_check_client(client));
    z->n_state = train ? tx_optim_n_state(cfg, client) : 0;
    z->stage = train ? (int)cfg->zero_stage : 0;
    z->reduce_every_micro_batch = train && (z->stage >= 2 || cfg->reduce_every_micro_batch);
    z->overlap = cfg->overlap_grad_reduce;
    z->data = z->stage ? tx_grid_group(z->grid, TX_GROUP_DATA) : &tx_comm_self;
    choose_types(z);
    z->values.size = tx_dtype_size(t);
    z->grads.size = tx_dtype_size(z->grad_type);
    z->sums.size = tx_dtype_size(z->sum_type);
    z->work.size = sizeof(float);
    z->value = z->persistent = z->master = z->grad = TX_DRY_ADDRESS;
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) z->state[k] = TX_DRY_ADDRESS;
    tx_status st;
    if (train && client && c->device && !tx__offloads_optimizer(z))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "the optimizer %s computes in the host's memory: on a GPU it needs --offload-optimizer",
                       client->name);
    tx_flat_spec spec = spec_of(z);
    TX_GOTO(tx_flat_open(&z->flat, ps, &spec));
    size_t n = (size_t)z->flat.n_buckets;
    TX_GOTO(tx_alloc(&z->now, n + 1, sizeof *z->now, "the buckets"));
    TX_GOTO(tx_alloc(&z->reduce_queue, n + 1, sizeof *z->reduce_queue, "the buckets"));
    TX_GOTO(tx_alloc(&z->unit, (size_t)ps->n_units + 1, sizeof *z->unit, "the buckets"));
    for (int i = 0; i < ps->n_units; i++) z->unit[i].work = -1;
    for (size_t k = 0; k < n; k++) {
        z->now[k] = (tx_bucket_now){ .value = -1, .grad = -1, .sums = -1, .left = z->flat.bucket[k].n_units };
        if (z->flat.bucket[k].persistent) z->persistent_numel += z->flat.bucket[k].numel;
    }
    bind_all(z);
    tx__offload_plan(z);
    TX_GOTO(cut_fragments(z));
    point_ranges(z);
    if (train)
        TX_GOTO(tx_optim_init(
            &z->optim, &(tx_optim_args){ .cfg = cfg,
                                         .client = client,
                                         .ranks = tx_grid_group(z->grid, z->stage ? TX_GROUP_WORLD : TX_GROUP_MODEL),
                                         .device = c->device,
                                         .range = z->range,
                                         .n_ranges = z->n_ranges }));
    z->optim.fetch = tx__offload_fetch;
    z->optim.fetch_user = z;
out:
    if (st) tx_zero_close(z);
    return st;
}

/* Kept values and the optimizer's arrays, as far as they are in memory. */
static tx_status take_kept(tx_zero *z)
{
    size_t size = tx_dtype_size(z->dtype), masters = (size_t)numel_of(z, tx_zero_whole_masters(z));
    size_t values = (size_t)numel_of(z, tx_zero_whole_values(z)) * size;
    tx_device *d = z->c->device;
    if (!tx__is_offloaded(z, TX_ARRAY_VALUE)) TX_TRY(tx_device_take(d, &z->value, values, true, "the parameters"));
    if (z->dtype == TX_F32)
        z->master = z->value;
    else if (z->train && !tx__is_offloaded(z, TX_ARRAY_MASTER))
        TX_TRY(tx_device_take(d, &z->master, masters * sizeof(float), false, "the master weights"));
    for (int k = 0; k < z->n_state; k++)
        if (!tx__is_offloaded(z, TX_ARRAY_STATE + k))
            TX_TRY(tx_device_take(d, &z->state[k], (size_t)z->flat.kept.numel * sizeof(float), false,
                                  "the optimizer's state"));
    return TX_OK;
}

tx_status tx_zero_take(tx_zero *z)
{
    z->value = z->persistent = z->master = z->grad = NULL;
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) z->state[k] = NULL;
    for (int k = 0; k < z->flat.n_buckets; k++) z->now[k].value = z->now[k].grad = z->now[k].sums = -1;
    for (int i = 0; i < z->ps->n_units; i++) z->unit[i].work = -1;
    TX_TRY(take_kept(z));
    size_t persistent = (size_t)z->persistent_numel * tx_dtype_size(z->dtype);
    tx_device *d = z->c->device;
    TX_TRY(take_aligned(d, &z->persistent_base, &z->persistent, persistent, "the parameters that stay"));
    TX_TRY(tx__pool_take(&z->values, d, "gathered parameters"));
    if (z->train)
        TX_TRY(tx_device_take(d, &z->grad, (size_t)numel_of(z, grads_whole(z)) * z->grads.size, true, "the gradients"));
    TX_TRY(tx__pool_take(&z->grads, d, "the gradients' buckets"));
    TX_TRY(tx__pool_take(&z->sums, d, "the gradients' sums"));
    TX_TRY(tx__pool_take(&z->work, d, "a layer's gradients in fp32"));
    point_ranges(z);
    TX_TRY(tx__offload_open(z));
    bind_all(z);
    return TX_OK;
}

void tx_zero_close(tx_zero *z)
{
    tx_device *d = z->c ? z->c->device : NULL;
    tx__offload_close(z);
    tx_optim_deinit(&z->optim);
    tx__pool_close(&z->values, d);
    tx__pool_close(&z->grads, d);
    tx__pool_close(&z->sums, d);
    tx__pool_close(&z->work, d);
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++)
        if (z->state[k] != TX_DRY_ADDRESS) tx_device_give(d, z->state[k]);
    if (z->value != TX_DRY_ADDRESS) {
        if (z->master != z->value) tx_device_give(d, z->master);
        tx_device_give(d, z->value);
        tx_device_give(d, z->persistent_base);
        tx_device_give(d, z->grad);
    }
    tx_flat_close(&z->flat);
    tx_free(z->now);
    tx_free(z->reduce_queue);
    tx_free(z->unit);
    tx_free(z->fragment);
    tx_free(z->range);
    tx_free(z->first_range);
    *z = (tx_zero){ 0 };
}

tx_zero_memory tx_zero_memory_of(const tx_zero *z)
{
    size_t size = tx_dtype_size(z->dtype), state = 0;
    bool values = !tx__is_offloaded(z, TX_ARRAY_VALUE);
    for (int k = 0; k < z->n_state; k++)
        if (!tx__is_offloaded(z, TX_ARRAY_STATE + k)) state += (size_t)z->flat.kept.numel;
    if (z->train && z->dtype != TX_F32 && !tx__is_offloaded(z, TX_ARRAY_MASTER))
        state += (size_t)numel_of(z, tx_zero_whole_masters(z));
    return (tx_zero_memory){ .params = values ? (size_t)numel_of(z, tx_zero_whole_values(z)) * size : 0,
                             .persistent = (size_t)z->persistent_numel * size,
                             .gathered = tx__pool_bytes(&z->values),
                             .grads = z->train ? (size_t)numel_of(z, grads_whole(z)) * z->grads.size : 0,
                             .buckets = tx__pool_bytes(&z->grads) + tx__pool_bytes(&z->sums) + tx__pool_bytes(&z->work),
                             .optimizer = state * sizeof(float),
                             .host = z->offload.host,
                             .nvme = z->offload.nvme,
                             .disk_buffers = z->offload.buffer_bytes };
}

/* ---- the update ---- */

/* Values that all ranks have, from each rank's part, if they are such. */
static tx_status gather_start(tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    int64_t part = tx_bucket_part(&z->flat, b), own = z->flat.rank * part;
    if (z->stage == 0 || (z->stage == 3 && !b->persistent)) return TX_OK;
    tx_tensor all = tx_tensor1(place_of(z, k), z->dtype, b->numel), x = tx_slice1(all, own, part);
    if (z->stage == 3) TX_TRY(tx__zero_read_part(z, k, x));
    if (z->cfg->zero_allgather_partitions) return tx_all_gather_start(z->c, z->data, all, x, &z->now[k].gather);
    for (int r = 0; r < z->flat.n_ranks; r++) TX_TRY(tx_broadcast(z->c, z->data, tx_slice1(all, r * part, part), r));
    return TX_OK;
}

static tx_status gather_wait(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) TX_TRY(tx_wait(z->c, &z->now[k].gather));
    return TX_OK;
}

tx_status tx_zero_step(tx_zero *z, double lr, double weight_decay)
{
    tx_optim_step s = tx_optim_next(&z->optim, lr, weight_decay);
    tx__zero_drop_all(z);
    for (int k = 0; k < z->flat.n_buckets; k++) {
        int first = z->first_range[k], end = z->first_range[k + 1];
        TX_TRY(z->offload.bounce ? tx__bounce_step_some(z, &s, first, end)
                                 : tx_optim_step_some(z->c, &z->optim, &s, first, end));
        TX_TRY(tx_zero_flush(z));
        TX_TRY(gather_start(z, k));
        TX_TRY(tx_comm_poll(z->c, z->data));
    }
    return gather_wait(z);
}

tx_status tx_zero_stepped(tx_zero *z, double *norm, const char **bad)
{
    TX_TRY(tx_optim_clipped(z->c, &z->optim, norm, bad));
    if (!z->c->dry && !*bad) z->optim.t++;
    return TX_OK;
}

/* ---- the numbers ---- */

bool tx_zero_in_host(const tx_zero *z, int array)
{
    return !z->c->device || tx__is_offloaded(z, array);
}

/* The array that range's `value` is of, and `low`. */
static int masters(const tx_zero *z)
{
    return z->dtype == TX_F32 ? TX_ARRAY_VALUE : TX_ARRAY_MASTER;
}

/* Room for the numbers of any range, where the host does not see them. */
static tx_status take_room(const tx_zero *z, float **room)
{
    int64_t most = 0;
    for (int i = 0; i < z->n_ranges; i++)
        if (z->range[i].numel > most) most = z->range[i].numel;
    *room = NULL;
    return z->c->device ? tx_alloc(room, (size_t)most + 1, sizeof **room, "a tensor's numbers") : TX_OK;
}

/* Numbers of the host into one of a range's arrays. */
static tx_status write_numbers(const tx_zero *z, int array, void *to, const void *from, size_t bytes)
{
    if (!tx_zero_in_host(z, array)) return tx_device_write(z->c->device, to, from, bytes);
    if (to != from) memcpy(to, from, bytes);
    return TX_OK;
}

tx_status tx_zero_see_whole(const tx_zero *z, void *whole, tx_dtype t, float **x, float **owned)
{
    int64_t n = z->ps->numel;
    size_t size = tx_dtype_size(t);
    *owned = NULL;
    *x = whole;
    if (!whole || (!z->c->device && t == TX_F32)) return TX_OK;
    TX_TRY(tx_alloc(owned, (size_t)n, sizeof **owned, "a copy of a run's numbers"));
    *x = *owned;
    void *there = (char *)*owned + (size_t)n * (sizeof **owned - size); /* widened from the front on */
    tx_status st = tx_device_read(z->c->device, there, whole, (size_t)n * size);
    for (int64_t i = 0; i < n && t != TX_F32 && !st; i++) {
        uint16_t half;
        memcpy(&half, (char *)there + 2 * i, sizeof half);
        (*owned)[i] = t == TX_BF16 ? tx_bf16_to_f32(half) : tx_f16_to_f32(half);
    }
    if (st) tx_free(*owned);
    return st;
}

tx_status tx_zero_see_master(tx_zero *z, int i, const float **x, float *room)
{
    const tx_optim_range *r = &z->range[i];
    TX_TRY(tx_zero_fetch(z, i, TX_FETCH_MASTER, false));
    *x = r->value;
    if (tx_zero_in_host(z, masters(z))) return TX_OK;
    *x = room;
    return tx_device_read(z->c->device, room, r->value, (size_t)r->numel * sizeof *room);
}

tx_status tx_zero_init(tx_zero *z, uint64_t seed, tx_init_method method)
{
    float *room;
    tx_status st;
    TX_TRY(take_room(z, &room));
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        TX_GOTO(tx_zero_fetch(z, i, TX_FETCH_MASTER, true));
        float *x = tx_zero_in_host(z, masters(z)) ? z->range[i].value : room;
        tx_param_init(&z->ps->param[s->row], x, s->first, s->numel, seed, method);
        TX_GOTO(write_numbers(z, masters(z), z->range[i].value, x, (size_t)s->numel * sizeof *x));
    }
    st = tx_zero_publish(z);
out:
    tx_free(room);
    return st;
}

/* fp32 numbers of the host into the values of a range. */
static tx_status write_low(const tx_zero *z, const tx_optim_range *r, const float *from, float *room)
{
    void *to = tx_zero_in_host(z, TX_ARRAY_VALUE) ? r->low.data : room;
    tx_params_round(to, z->dtype, from, r->numel);
    return write_numbers(z, TX_ARRAY_VALUE, r->low.data, to, (size_t)r->numel * tx_dtype_size(z->dtype));
}

tx_status tx_zero_set_weights(tx_zero *z, const float *whole)
{
    float *room;
    tx_status st;
    TX_TRY(take_room(z, &room));
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        const tx_optim_range *r = &z->range[i];
        const float *from = whole + z->ps->param[s->row].offset + s->first;
        TX_GOTO(tx_zero_fetch(z, i, TX_FETCH_MASTER, true));
        if (r->value)
            TX_GOTO(write_numbers(z, masters(z), r->value, from, (size_t)s->numel * sizeof *from));
        else
            TX_GOTO(write_low(z, r, from, room));
    }
    st = tx_zero_publish(z);
out:
    tx_free(room);
    return st;
}

/* Values from the masters of a range, wherever either is. */
static tx_status round_range(tx_zero *z, int i, float *room)
{
    const tx_optim_range *r = &z->range[i];
    TX_TRY(tx_zero_fetch(z, i, TX_FETCH_MASTER | TX_FETCH_VALUE, true));
    if (tx_zero_in_host(z, TX_ARRAY_MASTER)) return write_low(z, r, r->value, room);
    if (!tx_zero_in_host(z, TX_ARRAY_VALUE)) {
        TX_RUN(z->c, cast, .y = r->low, .x = tx_tensor1(r->value, TX_F32, r->numel));
        return TX_OK;
    }
    TX_TRY(tx_device_read(z->c->device, room, r->value, (size_t)r->numel * sizeof *room));
    tx_params_round(r->low.data, z->dtype, room, r->numel);
    return TX_OK;
}

tx_status tx_zero_publish(tx_zero *z)
{
    float *room;
    TX_TRY(take_room(z, &room));
    tx_status st;
    TX_GOTO(tx_zero_flush(z));
    for (int i = 0; i < z->n_ranges && z->dtype != TX_F32 && z->train; i++) TX_GOTO(round_range(z, i, room));
    TX_GOTO(tx_zero_flush(z));
    tx__zero_drop_all(z);
    for (int k = 0; k < z->flat.n_buckets; k++) TX_GOTO(gather_start(z, k));
    TX_GOTO(gather_wait(z));
    st = tx_device_sync(z->c->device, TX_STREAM_COMPUTE); /* others than this context read them */
out:
    tx_free(room);
    return st;
}

/* What of a range the array is. */
static float *numbers_of(const tx_zero *z, int i, int array)
{
    const tx_optim_range *r = &z->range[i];
    return array >= TX_ARRAY_STATE ? r->state[array - TX_ARRAY_STATE] : r->value;
}

/* tx_zero_move of an array in the device's memory. */
static tx_status move_of_device(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store)
{
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        int64_t begin = s->at > first ? s->at : first;
        int64_t end = s->at + s->numel < first + n ? s->at + s->numel : first + n;
        if (begin >= end) continue;
        float *there = numbers_of(z, i, array) + (begin - s->at), *here = x + (begin - first);
        size_t bytes = (size_t)(end - begin) * sizeof *x;
        TX_TRY(store ? tx_device_write(z->c->device, there, here, bytes)
                     : tx_device_read(z->c->device, here, there, bytes));
    }
    return TX_OK;
}

tx_status tx_zero_move(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store)
{
    if (tx__is_offloaded(z, array)) return tx__offload_move(z, array, first, n, x, store);
    return move_of_device(z, array, first, n, x, store);
}
