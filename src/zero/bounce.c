/* bounce.c - what is offloaded from a device: its update on the host, and the copies to there and back.
 *
 *      range         i            i + 1        i + 2
 *      copy stream   grad down .. grad down .. grad down ..  value up
 *      host                       Adam         Adam          Adam
 *
 *  Of an update by whole matrices (matrices.h) the host makes directions of gradients, which go up; what became of them
 * comes down in the gradients' place.
 *
 *  A range whose state is on the device is updated there. If its values are offloaded, the update makes them in memory
 * of the device that one such range after the other uses, and they are copied down. */
#include <stdint.h>

#include "base/alloc.h"
#include "zero/zero.h"

enum { N_PLACES = 4 }; /* ranges under way */

typedef struct place {
    void *grad, *value; /* pinned */
    tx_event *down, *up;
} place;

typedef struct tx__bounce {
    tx_ctx host; /* computes the update */
    place at[N_PLACES];
    tx_event *ready; /* what the compute stream had to do before */
    double *gate;    /* pinned */
    void **values;   /* [pool buffers of values, and one for the persistent ones] pinned */
    tx_event **came; /* of these: the device has what was in it */
    int n_values;
    void *staged;      /* of the device: values of a range that is updated there, and are offloaded; or NULL */
    int first_here;    /* the first range that the host updates */
    uint64_t up, down; /* bytes */
} tx__bounce;

static tx_status copy_down(const tx_zero *z, void *to, const void *from, size_t bytes)
{
    z->offload.bounce->down += bytes;
    return tx_device_copy(z->c->device, TX_STREAM_COPY, to, from, bytes);
}

static tx_status copy_up(const tx_zero *z, void *to, const void *from, size_t bytes)
{
    z->offload.bounce->up += bytes;
    return tx_device_copy(z->c->device, TX_STREAM_COPY, to, from, bytes);
}

void tx__bounce_moved(const tx_zero *z, uint64_t *up, uint64_t *down)
{
    const tx__bounce *b = z->offload.bounce;
    *up = b ? b->up : 0;
    *down = b ? b->down : 0;
}

static tx_status take_place(place *p, tx_device *d, size_t grad_bytes, size_t value_bytes)
{
    TX_TRY(tx_device_take_host(d, &p->grad, grad_bytes, "offloaded gradients on their way"));
    TX_TRY(tx_device_take_host(d, &p->value, value_bytes, "offloaded values on their way"));
    TX_TRY(tx_device_event_make(d, &p->down));
    return tx_device_event_make(d, &p->up);
}

/* Elements of the largest part of the buckets that use pool buffer number i, or with -1 of the persistent ones. */
static int64_t largest_part(const tx_zero *z, int i)
{
    int64_t most = 0;
    for (int k = 0; k < z->flat.n_buckets; k++) {
        const tx_bucket *b = &z->flat.bucket[k];
        bool uses = i < 0 ? b->persistent : b->kind == z->values.buffer[i].kind;
        if (uses && tx_bucket_part(&z->flat, b) > most) most = tx_bucket_part(&z->flat, b);
    }
    return most;
}

static tx_status take_values(tx_zero *z, tx__bounce *b)
{
    static const char what[] = "offloaded values on their way";
    if (!tx__is_offloaded(z, TX_ARRAY_VALUE)) return TX_OK;
    b->n_values = z->values.n + 1;
    TX_TRY(tx_alloc(&b->values, (size_t)b->n_values, sizeof *b->values, what));
    TX_TRY(tx_alloc(&b->came, (size_t)b->n_values, sizeof *b->came, what));
    for (int i = 0; i < b->n_values; i++) {
        int64_t n = largest_part(z, i < z->values.n ? i : -1);
        size_t bytes = (size_t)tx_tier_padded(n) * z->values.size;
        TX_TRY(tx_device_take_host(z->c->device, &b->values[i], bytes + TX_AIO_ALIGN, what));
        TX_TRY(tx_device_event_make(z->c->device, &b->came[i]));
    }
    return TX_OK;
}

/* Whether a range's arrays are in the host's memory, and who updates it. */
static void tell_optim(tx_zero *z, int i)
{
    tx_optim_range *r = &z->range[i];
    int master = z->dtype == TX_F32 ? TX_ARRAY_VALUE : TX_ARRAY_MASTER;
    r->in_host = (tx_zero_in_host(z, TX_ARRAY_VALUE, i) ? TX_FETCH_VALUE : 0u) |
                 (tx_zero_in_host(z, master, i) ? TX_FETCH_MASTER : 0u) |
                 (tx_zero_in_host(z, TX_ARRAY_STATE, i) ? TX_FETCH_STATE : 0u);
    r->host_updates = tx__host_updates(z, i);
}

tx_status tx__bounce_open(tx_zero *z)
{
    tx_device *d = z->c->device;
    int64_t most = 0;
    if (!d || !tx__offloads(z)) return TX_OK;
    for (int i = 0; i < z->n_ranges; i++)
        if (z->range[i].numel > most) most = z->range[i].numel;
    TX_TRY(tx_alloc(&z->offload.bounce, 1, sizeof *z->offload.bounce, "the offloaded update"));
    tx__bounce *b = z->offload.bounce;
    TX_TRY(tx_ctx_init(&b->host, "cpu", z->c->n_threads));
    TX_TRY(tx_ctx_take_memory(&b->host));                         /* updates and norms take no scratch */
    size_t size = z->matrices.on ? sizeof(float) : z->grads.size; /* of directions, or gradients */
    for (int i = 0; i < N_PLACES; i++)
        TX_TRY(take_place(&b->at[i], d, (size_t)most * size, (size_t)most * sizeof(float)));
    TX_TRY(tx_device_event_make(d, &b->ready));
    TX_TRY(tx_device_take_host(d, &b->gate, 3 * sizeof *b->gate, "the offloaded update"));
    z->optim.host = &b->host;
    b->first_here = z->n_ranges;
    for (int i = z->n_ranges - 1; i >= 0; i--) {
        tell_optim(z, i);
        if (z->range[i].host_updates) b->first_here = i;
    }
    if (z->offload.staged_bytes)
        TX_TRY(tx_device_take(d, &b->staged, z->offload.staged_bytes, false, "offloaded values that are updated"));
    return take_values(z, b);
}

void tx__bounce_close(tx_zero *z)
{
    tx__bounce *b = z->offload.bounce;
    tx_device *d = z->c->device;
    if (!b) return;
    for (int i = 0; i < N_PLACES; i++) {
        tx_device_give_host(d, b->at[i].grad);
        tx_device_give_host(d, b->at[i].value);
        tx_device_event_free(d, b->at[i].down);
        tx_device_event_free(d, b->at[i].up);
    }
    for (int i = 0; i < b->n_values && b->came; i++) {
        tx_device_give_host(d, b->values[i]);
        tx_device_event_free(d, b->came[i]);
    }
    tx_free(b->values);
    tx_free(b->came);
    tx_device_give(d, b->staged);
    tx_device_event_free(d, b->ready);
    tx_device_give_host(d, b->gate);
    tx_ctx_deinit(&b->host);
    tx_free(b);
    z->offload.bounce = NULL;
}

/* ---- the update ---- */

/* What layers read, in fp32 the masters themselves, is in the device's memory. */
static bool values_there(const tx_zero *z)
{
    return !tx__is_offloaded(z, TX_ARRAY_VALUE);
}

/* Where layers read a range's values, and how many bytes those are. */
static void *values_of(const tx_zero *z, const tx_optim_range *r, size_t *bytes)
{
    *bytes = (size_t)r->numel * tx_dtype_size(z->dtype);
    return z->dtype == TX_F32 ? (void *)r->value : r->low.data;
}

/* What the update does on the host: a function of it, and what it needs of the numbers and changes. */
typedef struct work {
    tx_status (*of)(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s);
    unsigned needs, changes;
    bool grads, values; /* reads gradients; writes values */
    bool directions;    /* makes directions, of matrices alone */
} work;

/* Copies what is read in the place of gradients. */
static tx_status grad_down(tx_zero *z, const tx_optim_range *r, place *p, const work *w)
{
    if (!w->directions && r->direction) return copy_down(z, p->grad, r->direction, (size_t)r->numel * sizeof(float));
    return w->grads ? copy_down(z, p->grad, r->grad.data, (size_t)r->numel * z->grads.size) : TX_OK;
}

/* Copies a range's gradients, and values that the update starts from, to a place that is free. */
static tx_status down_start(tx_zero *z, int i, const work *w)
{
    const tx_optim_range *r = &z->range[i];
    place *p = &z->offload.bounce->at[i % N_PLACES];
    tx_device *d = z->c->device;
    size_t bytes = (size_t)r->numel * sizeof(float);
    if (w->directions && !r->direction) return TX_OK;
    TX_TRY(tx_device_event_wait(d, p->up));
    TX_TRY(grad_down(z, r, p, w));
    if (z->dtype == TX_F32 && values_there(z) && !w->directions) TX_TRY(copy_down(z, p->value, r->value, bytes));
    return tx_device_record(d, p->down, TX_STREAM_COPY);
}

static tx_status fetch(tx_zero *z, int i, const work *w)
{
    unsigned needs = w->directions ? w->needs : w->needs & tx_optim_step_needs(&z->range[i]);
    return tx_zero_fetch(z, i, needs, w->changes & needs);
}

static tx_status update(tx_zero *z, const tx_optim_step *s, int i, const work *w)
{
    tx__bounce *b = z->offload.bounce;
    place *p = &b->at[i % N_PLACES];
    tx_optim_step one = tx_optim_step_of(s, &z->range[i]);
    tx_optim_norm norm = tx_optim_norm_of(&z->optim, &z->range[i]);
    one.norm = &norm;
    TX_TRY(fetch(z, i, w));
    tx_optim_range r = z->range[i];
    size_t bytes;
    void *to = values_of(z, &r, &bytes);
    one.gate = tx_tensor1(b->gate, TX_F64, 3);
    r.grad.data = p->grad;
    if (values_there(z) && z->dtype == TX_F32) r.value = p->value;
    if (values_there(z) && z->dtype != TX_F32) r.low.data = p->value;
    if (r.direction) r.direction = w->directions ? p->value : p->grad;
    TX_TRY(tx_device_event_wait(z->c->device, p->down));
    TX_TRY(w->of(&b->host, &z->optim, &r, &one));
    if (w->values) TX_TRY(tx_optim_rescale(&b->host, &r, &one));
    if (w->directions) {
        TX_TRY(copy_up(z, z->range[i].direction, p->value, (size_t)r.numel * sizeof(float)));
        return tx_device_record(z->c->device, p->up, TX_STREAM_COPY);
    }
    if (!w->values || !values_there(z) || b->gate[2] == 0) return TX_OK;
    TX_TRY(copy_up(z, to, p->value, bytes));
    return tx_device_record(z->c->device, p->up, TX_STREAM_COPY);
}

/* On the device, of a range whose state is there. */
static tx_status update_there(tx_zero *z, const tx_optim_step *s, int i, const work *w)
{
    tx__bounce *b = z->offload.bounce;
    tx_device *d = z->c->device;
    tx_optim_step one = tx_optim_step_of(s, &z->range[i]);
    tx_optim_norm norm = tx_optim_norm_of(&z->optim, &z->range[i]);
    one.norm = &norm;
    TX_TRY(fetch(z, i, w));
    tx_optim_range r = z->range[i];
    if (values_there(z) || w->directions) {
        TX_TRY(w->of(z->c, &z->optim, &r, &one));
        return w->values ? tx_optim_rescale(z->c, &r, &one) : TX_OK;
    }
    size_t bytes;
    void *kept = values_of(z, &r, &bytes);
    if (z->dtype == TX_F32) {
        TX_TRY(tx_device_write(d, b->staged, kept, bytes));
        r.value = b->staged;
        b->up += bytes;
    } else {
        r.low.data = b->staged;
    }
    TX_TRY(w->of(z->c, &z->optim, &r, &one));
    if (w->values) TX_TRY(tx_optim_rescale(z->c, &r, &one));
    if (!w->values || b->gate[2] == 0) return TX_OK; /* or it has changed nothing */
    b->down += bytes;
    return tx_device_read(d, kept, b->staged, bytes);
}

/* The first of ranges [first, end) that the host updates; they are sorted by who does. */
static int first_of_host(const tx_zero *z, int first, int end)
{
    int from = z->offload.bounce->first_here;
    return from < first ? first : from < end ? from : end;
}

static tx_status work_on(tx_zero *z, const tx_optim_step *s, int first, int end, const work *w)
{
    tx__bounce *b = z->offload.bounce;
    tx_device *d = z->c->device;
    int here = first_of_host(z, first, end);
    if (z->c->dry) return TX_OK;
    /* When it is there, so are all gradients: copies need not wait for the updates that are now put into the compute
     * stream, and the host works beside those. */
    if (first == 0) TX_TRY(tx_device_read(d, b->gate, z->optim.gate, 3 * sizeof *b->gate));
    for (; first < here; first++)
        if (!w->directions || z->range[first].direction) TX_TRY(update_there(z, s, first, w));
    if (first == end) return TX_OK;
    if (z->matrices.on) { /* the copies are of a buffer that the compute stream writes and reads */
        TX_TRY(tx_device_record(d, b->ready, TX_STREAM_COMPUTE));
        TX_TRY(tx_device_stream_wait(d, TX_STREAM_COPY, b->ready));
    }
    for (int i = first; i < end && i < first + N_PLACES - 1; i++) TX_TRY(down_start(z, i, w));
    for (int i = first; i < end; i++) {
        if (!w->directions || z->range[i].direction) TX_TRY(update(z, s, i, w));
        if (i + N_PLACES - 1 < end) TX_TRY(down_start(z, i + N_PLACES - 1, w));
    }
    TX_TRY(tx_device_record(d, b->ready, TX_STREAM_COPY));
    return tx_device_stream_wait(d, TX_STREAM_COMPUTE, b->ready);
}

tx_status tx__bounce_step_some(tx_zero *z, const tx_optim_step *s, int first, int end)
{
    const tx_optim_type *type = z->optim.type;
    return work_on(z, s, first, end,
                   &(work){ .of = type->step,
                            .needs = TX_FETCH_ALL,
                            .changes = tx_optim_step_changes(&z->optim),
                            .grads = !type->measure,
                            .values = true });
}

tx_status tx__bounce_measure_some(tx_zero *z, const tx_optim_step *s, int first, int end)
{
    return work_on(z, s, first, end,
                   &(work){ .of = z->optim.type->measure,
                            .needs = TX_FETCH_MASTER | TX_FETCH_STATE,
                            .changes = TX_FETCH_STATE,
                            .grads = true });
}

tx_status tx__bounce_direct_some(tx_zero *z, const tx_optim_step *s, int first, int end)
{
    return work_on(z, s, first, end,
                   &(work){ .of = z->optim.type->direction,
                            .needs = TX_FETCH_STATE,
                            .changes = TX_FETCH_STATE,
                            .grads = true,
                            .directions = true });
}

/* ---- offloaded values that layers are about to read ---- */

/* The number of a pool buffer's place, or with -1 of that for persistent values. */
static int number_of(const tx__bounce *b, int buffer)
{
    return buffer < 0 ? b->n_values - 1 : buffer;
}

tx_status tx__bounce_place(const tx_zero *z, int buffer, void **out)
{
    const tx__bounce *b = z->offload.bounce;
    int i = number_of(b, buffer);
    uintptr_t at = (uintptr_t)b->values[i];
    *out = (char *)b->values[i] + (TX_AIO_ALIGN - at % TX_AIO_ALIGN) % TX_AIO_ALIGN;
    return tx_device_event_wait(z->c->device, b->came[i]);
}

/* The compute stream has finished reading what was there before. */
tx_status tx__bounce_up(const tx_zero *z, int buffer, void *to, size_t bytes)
{
    tx__bounce *b = z->offload.bounce;
    tx_device *d = z->c->device;
    int i = number_of(b, buffer);
    void *from;
    TX_TRY(tx__bounce_place(z, buffer, &from));
    TX_TRY(tx_device_record(d, b->ready, TX_STREAM_COMPUTE));
    TX_TRY(tx_device_stream_wait(d, TX_STREAM_COPY, b->ready));
    TX_TRY(copy_up(z, to, from, bytes));
    TX_TRY(tx_device_record(d, b->came[i], TX_STREAM_COPY));
    return tx_device_stream_wait(d, TX_STREAM_COMPUTE, b->came[i]);
}
