/* offload.c - chunks of what is kept are read from a disk before the update, and written back after it. */
#include "zero/offload.h"
#include "zero/state_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

/* Elements of a chunk on a disk, at most: 4 MiB of fp32 for each array. */
#define MOST_OF_A_CHUNK ((int64_t)1 << 20)

static bool offloads_params(const tx_zero *z)
{
    return z->stage == 3 && z->cfg->offload_param != TX_OFFLOAD_NONE;
}

bool tx__offloads_optimizer(const tx_zero *z)
{
    return z->stage && z->cfg->offload_optimizer != TX_OFFLOAD_NONE && z->cfg->offload_optimizer_ratio > 0;
}

bool tx__offloads(const tx_zero *z)
{
    return offloads_params(z) || tx__offloads_optimizer(z);
}

bool tx__is_offloaded(const tx_zero *z, int array)
{
    if (array == TX_ARRAY_VALUE) return offloads_params(z);
    if (array == TX_ARRAY_MASTER) return tx__offloads_optimizer(z) && z->dtype != TX_F32;
    return tx__offloads_optimizer(z) && array - TX_ARRAY_STATE < z->n_state;
}

bool tx__is_offloaded_at(const tx_zero *z, int array, int64_t at)
{
    return tx__is_offloaded(z, array) && at >= tx__not_offloaded(z, array);
}

int64_t tx__not_offloaded(const tx_zero *z, int array)
{
    if (!tx__is_offloaded(z, array)) return z->flat.kept.numel;
    return array == TX_ARRAY_VALUE ? 0 : z->offload.near[array];
}

bool tx__host_updates(const tx_zero *z, int i)
{
    return z->c->device && tx__offloads_optimizer(z) && z->fragment[i].at >= z->offload.near[TX_ARRAY_MASTER];
}

/* Whether an array has not a number for each element. */
static bool is_packed(const tx_zero *z, int array)
{
    return tx__is_offloaded(z, array) && array >= TX_ARRAY_STATE && !z->table[array - TX_ARRAY_STATE].even;
}

int64_t tx__offload_place(const tx_zero *z, int array, int64_t at)
{
    return is_packed(z, array) ? tx__state_packed(z, array - TX_ARRAY_STATE, at) : at;
}

static tx_tier *tier_of(const tx_zero *z, int array)
{
    if (is_packed(z, array)) return z->offload.packed;
    return array == TX_ARRAY_VALUE ? z->offload.params : z->offload.optimizer;
}

static bool on_disk(const tx_zero *z, int array)
{
    return tx__is_offloaded(z, array) &&
           (array == TX_ARRAY_VALUE ? z->cfg->offload_param : z->cfg->offload_optimizer) == TX_OFFLOAD_NVME;
}

static tx_dtype dtype_of(const tx_zero *z, int array)
{
    return array == TX_ARRAY_VALUE ? z->dtype : TX_F32;
}

int64_t tx__offload_chunk(const tx_zero *z)
{
    int64_t n = 0;
    if (!tx__offloads(z)) return 0;
    for (int k = 0; k < z->flat.n_buckets; k++) {
        int64_t part = tx_bucket_part(&z->flat, &z->flat.bucket[k]);
        if (part > n) n = part;
    }
    if (n > MOST_OF_A_CHUNK) n = MOST_OF_A_CHUNK;
    if (n > z->cfg->zero_sub_group_size) n = z->cfg->zero_sub_group_size;
    return n < TX_TIER_BLOCK ? TX_TIER_BLOCK : n / TX_TIER_BLOCK * TX_TIER_BLOCK;
}

int64_t tx__offload_chunk_end(const tx_zero *z, int k, int64_t at)
{
    int64_t chunk = tx__offload_chunk(z), begin = z->flat.bucket[k].at, near = z->offload.near[TX_ARRAY_MASTER];
    if (!chunk) return INT64_MAX;
    int64_t end = begin + ((at - begin) / chunk + 1) * chunk;
    return at < near && near < end ? near : end;
}

/* ---- sizes ---- */

/* Whole buckets of the parameters that a disk would hold and that may stay in memory. */
static int64_t near_params(const tx_zero *z)
{
    int64_t n = 0;
    if (!on_disk(z, TX_ARRAY_VALUE)) return 0;
    for (int k = 0; k < z->flat.n_buckets; k++) {
        int64_t end = n + tx_bucket_part(&z->flat, &z->flat.bucket[k]);
        if (end > z->cfg->offload_param_max_in_cpu) break;
        n = end;
    }
    return n;
}

/* The state of the first elements is where it is without offload, as with DeepSpeed: the device updates these before
 * the host has updated the others. */
static int64_t near_state(const tx_zero *z)
{
    int64_t all = z->flat.kept.numel;
    if (!tx__offloads_optimizer(z)) return all;
    int64_t far = tx_tier_padded((int64_t)ceil((double)all * z->cfg->offload_optimizer_ratio));
    return far < all ? all - far : 0;
}

static tx_tier_config config_of(const tx_zero *z, int first, int n_arrays, int64_t numel, const char *dir)
{
    const tx_config *cfg = z->cfg;
    return (tx_tier_config){
        .kind = on_disk(z, first) ? TX_TIER_NVME : TX_TIER_CPU,
        .n_arrays = n_arrays,
        .numel = numel,
        .dtype = dtype_of(z, first),
        .what = first == TX_ARRAY_VALUE ? "offloaded parameters" : "the offloaded optimizer state",
        .dir = dir,
        .aio = { .block_size = (size_t)cfg->aio_block_size,
                 .queue_depth = (int)cfg->aio_queue_depth,
                 .n_threads = (int)cfg->aio_intra_op_parallelism,
                 .single_submit = cfg->aio_single_submit,
                 .overlap_events = cfg->aio_overlap_events },
    };
}

static tx_tier_config optimizer_config(const tx_zero *z)
{
    int n = 0, first = TX_ARRAY_STATE;
    for (int a = TX_N_ARRAYS - 1; a >= TX_ARRAY_MASTER; a--)
        if (tx__is_offloaded(z, a) && !is_packed(z, a)) first = a, n++;
    int64_t numel = z->flat.kept.numel - z->offload.near[TX_ARRAY_MASTER];
    return config_of(z, first, n, numel, z->cfg->offload_optimizer_nvme_path);
}

static tx_tier_config packed_config(const tx_zero *z)
{
    int n = 0, first = TX_ARRAY_STATE;
    for (int a = TX_ARRAY_STATE; a < TX_N_ARRAYS; a++)
        if (is_packed(z, a)) first = a, n++;
    TX_ASSERT(n <= 1);
    int64_t numel =
        tx__offload_place(z, first, z->flat.kept.numel) - tx__offload_place(z, first, z->offload.near[first]);
    return config_of(z, first, numel ? n : 0, numel, z->cfg->offload_optimizer_nvme_path);
}

static tx_tier_config params_config(const tx_zero *z)
{
    int64_t numel = z->flat.kept.numel - z->offload.near[TX_ARRAY_VALUE];
    return config_of(z, TX_ARRAY_VALUE, 1, numel, z->cfg->offload_param_nvme_path);
}

static tx_tier_config near_config(const tx_zero *z)
{
    tx_tier_config c = config_of(z, TX_ARRAY_VALUE, 1, z->offload.near[TX_ARRAY_VALUE], NULL);
    c.kind = TX_TIER_CPU;
    return c;
}

static void count_tier(tx_zero *z, tx_tier_config c)
{
    size_t bytes = (size_t)tx_tier_bytes(&c);
    if (c.kind == TX_TIER_NVME)
        z->offload.nvme += bytes;
    else
        z->offload.host += bytes;
}

void tx__offload_plan(tx_zero *z)
{
    tx_offload *o = &z->offload;
    size_t one = 0;
    int next = 0;
    o->current = -1;
    for (int a = 0; a < TX_N_ARRAYS; a++) {
        o->near[a] = a == TX_ARRAY_VALUE ? near_params(z) : near_state(z);
        o->array[a] = !tx__is_offloaded(z, a) ? -1 : a == TX_ARRAY_VALUE || is_packed(z, a) ? 0 : next++;
        if (on_disk(z, a)) one += (size_t)tx__offload_chunk(z) * tx_dtype_size(dtype_of(z, a));
    }
    if (next) count_tier(z, optimizer_config(z));
    if (packed_config(z).n_arrays) count_tier(z, packed_config(z));
    if (offloads_params(z) && o->near[TX_ARRAY_VALUE] < z->flat.kept.numel) count_tier(z, params_config(z));
    if (o->near[TX_ARRAY_VALUE]) count_tier(z, near_config(z));
    o->n_buffers = one ? (int)z->cfg->offload_optimizer_buffer_count : 0;
    o->buffer_bytes = (size_t)o->n_buffers * one;
    if (z->c->device && z->train && offloads_params(z) && o->near[TX_ARRAY_MASTER])
        o->staged_bytes = (size_t)tx__offload_chunk(z) * tx_dtype_size(z->dtype);
}

/* ---- opening ---- */

/* Chunks end where buckets do. */
static tx_status list_chunks(tx_zero *z)
{
    tx_offload *o = &z->offload;
    int64_t most = tx__offload_chunk(z);
    TX_TRY(tx_alloc(&o->chunk, (size_t)(z->flat.kept.numel / most) + (size_t)z->flat.n_buckets + 2, sizeof *o->chunk,
                    "offloaded chunks"));
    TX_TRY(tx_alloc(&o->of_range, (size_t)z->n_ranges + 1, sizeof *o->of_range, "offloaded chunks"));
    for (int k = 0, i = 0; k < z->flat.n_buckets; k++) {
        const tx_bucket *b = &z->flat.bucket[k];
        int64_t at = b->at, end = at + tx_bucket_part(&z->flat, b);
        for (int64_t next; at < end; at = next) {
            tx_chunk *c = &o->chunk[o->n_chunks];
            next = tx__offload_chunk_end(z, k, at);
            if (next > end) next = end;
            *c = (tx_chunk){ .at = at, .n = next - at, .first = i };
            for (; i < z->n_ranges && z->fragment[i].at < at + c->n; i++) o->of_range[i] = o->n_chunks;
            c->end = i;
            o->n_chunks++;
        }
    }
    return TX_OK;
}

static tx_status open_tier(tx_tier **out, const tx_zero *z, tx_tier_config c, const char *what)
{
    char name[96];
    snprintf(name, sizeof name, "triax-%s-rank%d-%ld", what, z->grid->rank, (long)getpid());
    c.name = name;
    return tx_tier_open(out, &c);
}

static tx_status open_buffers(tx_zero *z)
{
    tx_offload *o = &z->offload;
    TX_TRY(tx_alloc(&o->buffer, (size_t)o->n_buffers + 1, sizeof *o->buffer, "offloaded chunks"));
    for (int i = 0; i < o->n_buffers; i++) {
        o->buffer[i].chunk = -1;
        for (int a = 0; a < TX_N_ARRAYS; a++)
            if (on_disk(z, a))
                TX_TRY(tx_aio_alloc(&o->buffer[i].buf[a], (size_t)tx__offload_chunk(z) * tx_dtype_size(dtype_of(z, a)),
                                    "offloaded chunks"));
    }
    return TX_OK;
}

/* Where an array has element `at` of what is kept in its tier. */
static int64_t place_of(const tx_zero *z, int array, int64_t at)
{
    return tx__offload_place(z, array, at) - tx__offload_place(z, array, z->offload.near[array]);
}

/* Elements of an array's chunk. */
static int64_t extent_of(const tx_zero *z, int array, const tx_chunk *c)
{
    return tx__offload_place(z, array, c->at + c->n) - tx__offload_place(z, array, c->at);
}

/* Whether an array has nothing of range i. */
static bool is_nowhere(const tx_zero *z, int array, int i)
{
    return is_packed(z, array) && tx__state_at(z, array - TX_ARRAY_STATE, &z->fragment[i]) == TX_NOWHERE;
}

/* What lies in the host's memory is used there. */
static void point_into_memory(tx_zero *z, int i)
{
    tx_offload *o = &z->offload;
    tx_optim_range *r = &z->range[i];
    int64_t at = z->fragment[i].at;
    for (int a = 0; a < TX_N_ARRAYS; a++) {
        bool near = at < o->near[a];
        if (!tx__is_offloaded_at(z, a, at) || (on_disk(z, a) && !near)) continue;
        if (is_nowhere(z, a, i)) continue;
        char *x = near ? tx_tier_direct(o->params_near, 0, 0) : tx_tier_direct(tier_of(z, a), o->array[a], 0);
        x += (size_t)(near ? at : place_of(z, a, at)) * tx_dtype_size(dtype_of(z, a));
        tx__zero_point(z, r, a, x);
    }
}

tx_status tx__offload_open(tx_zero *z)
{
    tx_offload *o = &z->offload;
    if (!tx__offloads(z)) return TX_OK;
    TX_TRY(list_chunks(z));
    if (optimizer_config(z).n_arrays) TX_TRY(open_tier(&o->optimizer, z, optimizer_config(z), "optimizer"));
    if (packed_config(z).n_arrays) TX_TRY(open_tier(&o->packed, z, packed_config(z), "optimizer-others"));
    if (offloads_params(z) && o->near[TX_ARRAY_VALUE] < z->flat.kept.numel)
        TX_TRY(open_tier(&o->params, z, params_config(z), "parameters"));
    if (o->near[TX_ARRAY_VALUE]) TX_TRY(open_tier(&o->params_near, z, near_config(z), "parameters"));
    TX_TRY(open_buffers(z));
    for (int i = 0; i < z->n_ranges; i++) point_into_memory(z, i);
    return tx__bounce_open(z);
}

void tx__offload_close(tx_zero *z)
{
    tx_offload *o = &z->offload;
    if (z->c) tx__bounce_close(z);
    tx_tier_close(o->optimizer); /* waits for the requests of the ways */
    tx_tier_close(o->packed);
    tx_tier_close(o->params);
    tx_tier_close(o->params_near);
    for (int i = 0; i < o->n_buffers && o->buffer; i++)
        for (int a = 0; a < TX_N_ARRAYS; a++) tx_aio_free(o->buffer[i].buf[a]);
    tx_free(o->buffer);
    tx_free(o->chunk);
    tx_free(o->of_range);
    *o = (tx_offload){ 0 };
}

tx_zero_moved tx_zero_moved_so_far(const tx_zero *z)
{
    const tx_tier *tier[] = { z->offload.optimizer, z->offload.packed, z->offload.params, z->offload.params_near };
    tx_zero_moved all = { 0 };
    for (size_t i = 0; i < sizeof tier / sizeof *tier; i++) {
        uint64_t fetched = 0, stored = 0;
        if (tier[i]) tx_tier_moved(tier[i], &fetched, &stored);
        all.fetched += fetched;
        all.stored += stored;
    }
    tx__bounce_moved(z, &all.up, &all.down);
    return all;
}

/* ---- chunks between the disk and the update ---- */

static unsigned bit(int array)
{
    return 1u << array;
}

/* Of what is asked for, the arrays of the chunk that are on the disk. */
static unsigned arrays_of(const tx_zero *z, const tx_chunk *c, unsigned what)
{
    unsigned arrays = 0;
    for (int a = 0; a < TX_N_ARRAYS; a++) {
        bool master = a == TX_ARRAY_MASTER || (a == TX_ARRAY_VALUE && z->dtype == TX_F32);
        bool asked = (a == TX_ARRAY_VALUE && what & TX_FETCH_VALUE) || (master && what & TX_FETCH_MASTER) ||
                     (a >= TX_ARRAY_STATE && what & TX_FETCH_STATE);
        if (asked && on_disk(z, a) && c->at >= z->offload.near[a] && extent_of(z, a, c)) arrays |= bit(a);
    }
    return arrays;
}

static tx_disk_buffer *buffer_of(const tx_offload *o, int chunk)
{
    return &o->buffer[chunk % o->n_buffers];
}

static tx_status wait_buffer(tx_disk_buffer *w)
{
    for (int a = 0; a < TX_N_ARRAYS; a++) TX_TRY(tx_tier_wait(&w->request[a]));
    return TX_OK;
}

/* Begins to read what is not there. */
static tx_status read_start(tx_zero *z, int chunk, unsigned arrays)
{
    tx_disk_buffer *w = buffer_of(&z->offload, chunk);
    const tx_chunk *c = &z->offload.chunk[chunk];
    if (w->chunk != chunk) {
        TX_TRY(wait_buffer(w));
        w->chunk = chunk;
        w->have = 0;
    }
    for (int a = 0; a < TX_N_ARRAYS; a++) {
        if (!(arrays & bit(a) & ~w->have)) continue;
        TX_TRY(tx_tier_wait(&w->request[a]));
        tx_tier_fetch_start(tier_of(z, a), z->offload.array[a], place_of(z, a, c->at), extent_of(z, a, c), w->buf[a],
                            &w->request[a]);
        w->have |= bit(a);
    }
    return TX_OK;
}

static void point_into_buffer(tx_zero *z, const tx_chunk *c, const tx_disk_buffer *w)
{
    for (int i = c->first; i < c->end; i++)
        for (int a = 0; a < TX_N_ARRAYS; a++) {
            if (!(w->have & bit(a)) || is_nowhere(z, a, i)) continue;
            int64_t n = tx__offload_place(z, a, z->fragment[i].at) - tx__offload_place(z, a, c->at);
            size_t at = (size_t)n * tx_dtype_size(dtype_of(z, a));
            tx__zero_point(z, &z->range[i], a, (char *)w->buf[a] + at);
        }
}

tx_status tx_zero_flush(tx_zero *z)
{
    tx_offload *o = &z->offload;
    if (o->current < 0) return TX_OK;
    tx_disk_buffer *w = buffer_of(o, o->current);
    const tx_chunk *c = &o->chunk[o->current];
    o->current = -1;
    unsigned changed = w->changed & w->have;
    w->changed = 0;
    for (int a = 0; a < TX_N_ARRAYS; a++)
        if (changed & bit(a))
            tx_tier_store_start(tier_of(z, a), o->array[a], place_of(z, a, c->at), extent_of(z, a, c), w->buf[a],
                                &w->request[a]);
    return TX_OK;
}

tx_status tx__offload_fetch(void *user, int range, unsigned what, unsigned changes)
{
    tx_zero *z = user;
    tx_offload *o = &z->offload;
    if (!o->n_buffers || z->c->dry) return TX_OK;
    int chunk = o->of_range[range];
    const tx_chunk *c = &o->chunk[chunk];
    tx_disk_buffer *w = buffer_of(o, chunk);
    unsigned arrays = arrays_of(z, c, what);
    if (!arrays) return TX_OK;
    if (o->current != chunk || (arrays & ~w->have)) {
        if (o->current != chunk) TX_TRY(tx_zero_flush(z));
        TX_TRY(read_start(z, chunk, arrays));
        for (int k = chunk + 1; k < chunk + o->n_buffers && k < o->n_chunks; k++)
            TX_TRY(read_start(z, k, arrays_of(z, &o->chunk[k], what)));
        TX_TRY(wait_buffer(w));
        point_into_buffer(z, c, w);
        o->current = chunk;
    }
    w->changed |= arrays_of(z, c, changes);
    return TX_OK;
}

tx_status tx_zero_fetch(tx_zero *z, int i, unsigned what, unsigned changes)
{
    return tx__offload_fetch(z, i, what, changes);
}

/* ---- others that want the numbers ---- */

tx_status tx__offload_values_start(tx_zero *z, int bucket, void *to, tx_tier_request *r)
{
    const tx_bucket *b = &z->flat.bucket[bucket];
    int64_t at = b->at, n = tx_bucket_part(&z->flat, b);
    TX_TRY(tx_zero_flush(z));
    if (at < z->offload.near[TX_ARRAY_VALUE]) {
        tx_tier_fetch_start(z->offload.params_near, 0, at, n, to, r);
        return TX_OK;
    }
    for (int i = 0; i < z->offload.n_buffers; i++) /* what the update has written must have arrived */
        TX_TRY(tx_tier_wait(&z->offload.buffer[i].request[TX_ARRAY_VALUE]));
    tx_tier_fetch_start(z->offload.params, 0, at - z->offload.near[TX_ARRAY_VALUE], n, to, r);
    return TX_OK;
}

tx_status tx__offload_move(tx_zero *z, int array, int64_t first, int64_t n, float *x, bool store)
{
    int64_t begin = first / TX_TIER_BLOCK * TX_TIER_BLOCK, end = tx_tier_padded(first + n);
    tx_tier_request r = { 0 };
    float *blocks;
    TX_ASSERT(dtype_of(z, array) == TX_F32 && tx__is_offloaded(z, array));
    TX_TRY(tx_zero_flush(z));
    for (int i = 0; i < z->offload.n_buffers; i++) {
        TX_TRY(wait_buffer(&z->offload.buffer[i]));
        if (store) z->offload.buffer[i].chunk = -1;
    }
    TX_TRY(tx_aio_alloc(&blocks, (size_t)(end - begin) * sizeof *blocks, "a piece of a checkpoint"));
    int64_t not_there = tx__offload_place(z, array, z->offload.near[array]);
    bool near = first < not_there; /* of parameters: a stretch lies in one bucket */
    tx_tier *t = near ? z->offload.params_near : tier_of(z, array);
    int64_t at = near ? begin : begin - not_there;
    tx_tier_fetch_start(t, z->offload.array[array], at, end - begin, blocks, &r);
    tx_status st = tx_tier_wait(&r);
    if (!st && store) {
        memcpy(blocks + (first - begin), x, (size_t)n * sizeof *x);
        tx_tier_store_start(t, z->offload.array[array], at, end - begin, blocks, &r);
        st = tx_tier_wait(&r);
    } else if (!st) {
        memcpy(x, blocks + (first - begin), (size_t)n * sizeof *x);
    }
    tx_aio_free(blocks);
    return st;
}
