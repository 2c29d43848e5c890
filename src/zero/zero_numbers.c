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

/* Numbers of the host into one of range i's arrays. */
static tx_status write_numbers(const tx_zero *z, int array, int i, void *to, const void *from)
{
    size_t bytes = (size_t)z->range[i].numel * (array == TX_ARRAY_VALUE ? tx_dtype_size(z->dtype) : sizeof(float));
    if (!tx_zero_in_host(z, array, i)) return tx_device_write(z->c->device, to, from, bytes);
    if (to != from) memcpy(to, from, bytes);
    return TX_OK;
}

/* Rounded numbers, which may take the first half of the memory that they had. */
static void round_numbers(const tx_zero *z, void *to, const float *from, int64_t n)
{
    uint16_t *half = to;
    if (to != (const void *)from) tx_params_round(to, z->dtype, from, n);
    for (int64_t i = 0; i < n && to == (const void *)from; i++)
        half[i] = z->dtype == TX_BF16 ? tx_f32_to_bf16(from[i]) : tx_f32_to_f16(from[i]);
}

/* fp32 numbers of the host into the values of range i.   @room [numel], where the host does not see them; it may be
 * `from` */
static tx_status write_low(const tx_zero *z, int i, const float *from, void *room)
{
    const tx_optim_range *r = &z->range[i];
    void *to = tx_zero_in_host(z, TX_ARRAY_VALUE, i) ? r->low.data : room;
    round_numbers(z, to, from, r->numel);
    return write_numbers(z, TX_ARRAY_VALUE, i, r->low.data, to);
}

/* The other way.   @x [n], which hold elements from `first` of range i on */
static tx_status read_low(const tx_zero *z, int i, int64_t first, int64_t n, float *x)
{
    const char *from = (const char *)z->range[i].low.data + (size_t)first * sizeof(uint16_t);
    char *there = (char *)x + (size_t)n * (sizeof *x - sizeof(uint16_t)); /* widened from the front on */
    TX_TRY(tx_device_read(z->c->device, there, from, (size_t)n * sizeof(uint16_t)));
    for (int64_t k = 0; k < n; k++) {
        uint16_t half;
        memcpy(&half, there + 2 * k, sizeof half);
        x[k] = z->dtype == TX_BF16 ? tx_bf16_to_f32(half) : tx_f16_to_f32(half);
    }
    return TX_OK;
}

/* Room for the numbers of any range, where the host does not see them. */
static tx_status take_room(const tx_zero *z, float **room)
{
    int64_t most = 0;
    for (int i = 0; i < z->n_ranges; i++)
        if (z->range[i].numel > most) most = z->range[i].numel;
    *room = NULL;
    return z->c->device || tx__zero_has_low_masters(z)
               ? tx_alloc(room, (size_t)most + 1, sizeof **room, "a tensor's numbers")
               : TX_OK;
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
    *x = r->value ? r->value : room;
    if (!r->value) return read_low(z, i, 0, r->numel, room);
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
        float *master = z->range[i].value, *x = master && tx_zero_in_host(z, masters(z), i) ? master : room;
        tx_param_init(&z->ps->param[s->row], x, s->first, s->numel, seed, method);
        if (!master) TX_GOTO(write_low(z, i, x, x));
        if (!master) continue;
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
    if (!r->value) return TX_OK; /* it is frozen, and its values are all there is */
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

/* Elements [first, first + n) of a range that has no masters but its values. */
static tx_status move_low(const tx_zero *z, int i, int64_t first, int64_t n, float *x, bool store)
{
    uint16_t *there = (uint16_t *)z->range[i].low.data + first;
    if (!store) return read_low(z, i, first, n, x);
    if (!z->c->device) {
        tx_params_round(there, z->dtype, x, n);
        return TX_OK;
    }
    round_numbers(z, x, x, n);
    return tx_device_write(z->c->device, there, x, (size_t)n * sizeof *there);
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
        float *here = x + (begin - first);
        if (array < TX_ARRAY_STATE && !numbers_of(z, i, array)) {
            TX_TRY(move_low(z, i, begin - at, end - begin, here, store));
            continue;
        }
        float *there = numbers_of(z, i, array) + (begin - at);
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
