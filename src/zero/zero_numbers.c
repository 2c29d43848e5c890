/* zero_numbers.c - the numbers of a rank's share: their initial values, copies for the host, and values from masters.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "zero/state_table.h"
#include "zero/zero.h"

/* The array that a range's `value` is of. */
static int masters(const tx_zero *z)
{
    return z->dtype == TX_F32 ? TX_ARRAY_VALUE : TX_ARRAY_MASTER;
}

bool tx_zero_in_host(const tx_zero *z, int array, int i)
{
    return !z->c->device || tx__is_offloaded_at(z, array, z->fragment[i].at);
}

void tx_zero_scale_row(tx_zero *z, int row, int64_t block, const double *scale)
{
    for (int i = 0; i < z->n_ranges; i++) {
        if (z->fragment[i].row != row) continue;
        z->range[i].block = block;
        z->range[i].block_scale = scale;
    }
}

float *tx_zero_masters(const tx_zero *z)
{
    return tx__is_offloaded(z, masters(z)) ? NULL : z->master;
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

/* Numbers of the host into one of range i's arrays. */
static tx_status write_numbers(const tx_zero *z, int array, int i, void *to, const void *from)
{
    size_t bytes = (size_t)z->range[i].numel * (array == TX_ARRAY_VALUE ? tx_dtype_size(z->dtype) : sizeof(float));
    if (!tx_zero_in_host(z, array, i)) return tx_device_write(z->c->device, to, from, bytes);
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
    TX_TRY(tx_zero_fetch(z, i, TX_FETCH_MASTER, 0));
    *x = r->value;
    if (tx_zero_in_host(z, masters(z), i)) return TX_OK;
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
        TX_GOTO(tx_zero_fetch(z, i, TX_FETCH_MASTER, TX_FETCH_MASTER));
        float *x = tx_zero_in_host(z, masters(z), i) ? z->range[i].value : room;
        tx_param_init(&z->ps->param[s->row], x, s->first, s->numel, seed, method);
        TX_GOTO(write_numbers(z, masters(z), i, z->range[i].value, x));
    }
    st = tx_zero_publish(z);
out:
    tx_free(room);
    return st;
}

tx_status tx_zero_store_row(tx_zero *z, int row, const float *x)
{
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        if (s->row != row) continue;
        TX_TRY(tx_zero_fetch(z, i, TX_FETCH_MASTER, TX_FETCH_MASTER));
        TX_TRY(write_numbers(z, masters(z), i, z->range[i].value, x + s->first));
    }
    return tx_zero_flush(z);
}

tx_status tx_zero_load_row(tx_zero *z, int row, float *x)
{
    const float *from;
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        if (s->row != row) continue;
        TX_TRY(tx_zero_see_master(z, i, &from, x + s->first));
        if (from != x + s->first) memcpy(x + s->first, from, (size_t)s->numel * sizeof *x);
    }
    return TX_OK;
}

/* fp32 numbers of the host into the values of range i. */
static tx_status write_low(const tx_zero *z, int i, const float *from, float *room)
{
    const tx_optim_range *r = &z->range[i];
    void *to = tx_zero_in_host(z, TX_ARRAY_VALUE, i) ? r->low.data : room;
    tx_params_round(to, z->dtype, from, r->numel);
    return write_numbers(z, TX_ARRAY_VALUE, i, r->low.data, to);
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
        TX_GOTO(tx_zero_fetch(z, i, TX_FETCH_MASTER, TX_FETCH_MASTER));
        if (r->value)
            TX_GOTO(write_numbers(z, masters(z), i, r->value, from));
        else
            TX_GOTO(write_low(z, i, from, room));
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
    TX_TRY(tx_zero_fetch(z, i, TX_FETCH_MASTER | TX_FETCH_VALUE, TX_FETCH_VALUE));
    if (tx_zero_in_host(z, TX_ARRAY_MASTER, i)) return write_low(z, i, r->value, room);
    if (!tx_zero_in_host(z, TX_ARRAY_VALUE, i)) {
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
    TX_GOTO(tx_zero_settle(z));
    TX_GOTO(tx_zero_flush(z));
    for (int i = 0; i < z->n_ranges && z->dtype != TX_F32 && z->train; i++) TX_GOTO(round_range(z, i, room));
    TX_GOTO(tx_zero_flush(z));
    tx__zero_drop_all(z);
    for (int k = 0; k < z->flat.n_buckets; k++) TX_GOTO(tx__zero_spread_start(z, k));
    TX_GOTO(tx_zero_settle(z));
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

/* tx_zero_move of what is not offloaded. */
static tx_status move_of_ranges(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store)
{
    for (int i = 0; i < z->n_ranges; i++) {
        const tx_fragment *s = &z->fragment[i];
        int64_t at = array >= TX_ARRAY_STATE ? tx__state_at(z, array - TX_ARRAY_STATE, s) : s->at;
        if (at == TX_NOWHERE) continue;
        int64_t begin = at > first ? at : first, end = at + s->numel < first + n ? at + s->numel : first + n;
        if (begin >= end) continue;
        float *there = numbers_of(z, i, array) + (begin - at), *here = x + (begin - first);
        size_t bytes = (size_t)(end - begin) * sizeof *x;
        TX_TRY(store ? tx_device_write(z->c->device, there, here, bytes)
                     : tx_device_read(z->c->device, here, there, bytes));
    }
    return TX_OK;
}

tx_status tx_zero_move(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store)
{
    if (!tx__is_offloaded(z, array)) return move_of_ranges(z, array, first, n, x, store);
    int64_t near = array == TX_ARRAY_VALUE ? 0 : tx__offload_place(z, array, z->offload.near[array]) - first;
    near = near < 0 ? 0 : near < n ? near : n;
    if (near) TX_TRY(move_of_ranges(z, array, first, near, x, store));
    return near < n ? tx__offload_move(z, array, first + near, n - near, x + near, store) : TX_OK;
}
