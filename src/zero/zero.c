/* zero.c - a rank's share of the training state: its memory and its update. */
#include "zero/zero.h"
#include "zero/compressed.h"
#include "zero/factors.h"
#include "zero/loco.h"
#include "zero/matrices.h"
#include "zero/quantized.h"
#include "zero/state_table.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/log.h"

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

/* Of gradients, masters and state, which end where what is frozen begins. */
static int64_t trained_numel_of(const tx_zero *z, bool whole)
{
    return whole ? z->flat.trained : z->flat.kept_trained;
}

/* Where a fragment begins in one. */
static int64_t begin_of(const tx_zero *z, bool whole, const tx_fragment *s)
{
    return whole ? z->ps->param[s->row].offset + s->first : s->at;
}

tx_tensor tx__zero_kept_grads(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    int64_t first = grads_whole(z) ? tx_bucket_own(&z->flat, b) : b->at;
    return tx_tensor1((char *)z->grad + (size_t)first * z->grads.size, z->grad_type, tx_bucket_part(&z->flat, b));
}

tx_tensor tx__zero_value_part(const tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    size_t at = (size_t)b->at * tx_dtype_size(z->dtype);
    TX_ASSERT(!tx_zero_whole_values(z));
    return tx_tensor1((char *)z->value + at, z->dtype, tx_bucket_part(&z->flat, b));
}

int tx__zero_bucket_of(const tx_zero *z, int unit, int i)
{
    const tx_unit *u = &z->ps->unit[unit];
    int found[4 * TX_N_GROUPS], n = 0; /* of each group the persistent one and the other, trained or frozen */
    for (int row = u->first; row < u->end && n <= i; row++) {
        int k = z->flat.of_row[row], at = 0;
        while (at < n && found[at] != k) at++;
        if (at == n) found[n++] = k;
    }
    return i < n ? found[i] : -1;
}

int tx__zero_trained_of(const tx_zero *z, int unit, int i)
{
    for (int at = 0, k; (k = tx__zero_bucket_of(z, unit, at)) >= 0; at++)
        if (!z->flat.bucket[k].frozen && i-- == 0) return k;
    return -1;
}

bool tx__zero_has_low_masters(const tx_zero *z)
{
    return z->train && z->dtype != TX_F32 && z->flat.n_trained < z->flat.n_buckets;
}

int tx__sharers(const tx_zero *z, int reduce_group)
{
    return z->mics && reduce_group == TX_GROUP_DATA ? TX_GROUP_NEAR : reduce_group;
}

tx_comm *tx__bucket_group(const tx_zero *z, int bucket)
{
    return tx_grid_group(z->grid, tx__sharers(z, z->flat.bucket[bucket].group));
}

tx_comm *tx__bucket_owners(const tx_zero *z, int bucket)
{
    return z->stage ? tx__bucket_group(z, bucket) : &tx_comm_self;
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

/* Where the values of a bucket lie that all ranks have: of whole values, or of persistent ones. */
static char *place_of(const tx_zero *z, int k)
{
    size_t size = tx_dtype_size(z->dtype);
    int64_t before = 0;
    if (tx_zero_whole_values(z)) return (char *)z->value + (size_t)z->flat.bucket[k].offset * size;
    for (int i = 0; i < k; i++)
        if (z->flat.bucket[i].persistent) before += z->flat.bucket[i].numel;
    return (char *)z->persistent + (size_t)before * size;
}

/* What lies in one place all the time. */
static void bind_all(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) {
        const tx_bucket *b = &z->flat.bucket[k];
        tx__zero_bind_values(z, k, tx_zero_whole_values(z) || b->persistent ? place_of(z, k) : NULL);
        tx__zero_bind_grads(
            z, k, z->train && !b->frozen && !z->reduce_every_micro_batch ? (float *)z->grad + b->offset : NULL);
    }
}

/* ---- pools ---- */

tx_status tx__zero_add_buffer(const tx_zero *z, tx_pool *t, int bucket, int *out)
{
    const tx_flat *f = &z->flat;
    int64_t most = 0;
    TX_ASSERT(z->c->dry);
    for (int k = 0; k < f->n_buckets; k++)
        if (f->bucket[k].kind == f->bucket[bucket].kind && f->bucket[k].numel > most) most = f->bucket[k].numel;
    return tx__pool_add(t, f->bucket[bucket].kind, most, out);
}

/* All layers', or one of its own. */
int tx__unit_kind(const tx_zero *z, int unit)
{
    return z->ps->unit[unit].kind == TX_UNIT_LAYER ? 0 : 1 + unit;
}

tx_status tx__zero_add_work(tx_zero *z, int unit, int *out)
{
    int kind = tx__unit_kind(z, unit);
    int64_t most = 0;
    TX_ASSERT(z->c->dry);
    for (int i = 0; i < z->ps->n_units; i++) {
        int64_t n = 0;
        if (tx__unit_kind(z, i) != kind) continue;
        for (int row = z->ps->unit[i].first; row < z->ps->unit[i].end; row++) n += tx__row_room(&z->ps->param[row]);
        if (n > most) most = n;
    }
    return tx__pool_add(&z->work, kind, most, out);
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

/* Where an array of a fragment lies in its flat buffer: nowhere if that is offloaded. */
static void *place_in(const tx_zero *z, int array, void *flat, bool whole, const tx_fragment *s)
{
    if (flat != TX_DRY_ADDRESS && tx__is_offloaded_at(z, array, s->at)) return NULL;
    return element(flat, begin_of(z, whole, s), array == TX_ARRAY_VALUE ? tx_dtype_size(z->dtype) : sizeof(float));
}

static tx_optim_range range_of(const tx_zero *z, int i)
{
    const tx_fragment *s = &z->fragment[i];
    const tx_param *p = &z->ps->param[s->row];
    int64_t real = tx_param_n_real(p) - s->first;
    int masters = z->dtype == TX_F32 ? TX_ARRAY_VALUE : TX_ARRAY_MASTER;
    bool low_only = p->frozen && z->train && z->dtype != TX_F32;
    tx_optim_range r = { .numel = s->numel,
                         .n_real = real < 0          ? 0
                                   : real < s->numel ? real
                                                     : s->numel,
                         .first = s->first,
                         .decay = p->decay == TX_DECAY,
                         .decoupled = p->of_vocabulary,
                         .lr_scale = p->lr_scale,
                         .decay_scale = p->decay_scale,
                         .group = p->group,
                         .counted = p->counted,
                         .tensor = z->norms.of_row ? z->norms.of_row[s->row] : 0,
                         .name = p->name,
                         .value = low_only ? NULL : place_in(z, masters, z->master, tx_zero_whole_masters(z), s) };
    if (z->dtype != TX_F32)
        r.low = tx_tensor1(place_in(z, TX_ARRAY_VALUE, z->value, tx_zero_whole_values(z), s), z->dtype, s->numel);
    if (!z->train || p->frozen) return r;
    r.grad = tx_tensor1(element(z->grad, begin_of(z, grads_whole(z), s), z->grads.size), z->grad_type, s->numel);
    for (int k = 0; k < z->n_state; k++) {
        int64_t at = tx__state_at(z, k, s);
        if (z->table[k].even)
            r.state[k] = place_in(z, TX_ARRAY_STATE + k, z->state[k], false, s);
        else if (at != TX_NOWHERE &&
                 (z->state[k] == TX_DRY_ADDRESS || !tx__is_offloaded_at(z, TX_ARRAY_STATE + k, s->at)))
            r.state[k] = element(z->state[k], at, sizeof(float));
    }
    r.direction = z->compressed.together ? z->compressed.average + s->at : tx__matrices_direction(z, s);
    tx__factors_point(z, s, &r);
    return r;
}

/* The fragments of bucket k, cut where chunks end. */
static void cut_bucket(tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    z->first_range[k] = z->n_ranges;
    for (int i = b->first; i < b->end; i++)
        for (tx_fragment left = z->flat.kept.fragment[i]; left.numel > 0;) {
            tx_fragment fragment = left;
            int64_t end = tx__offload_chunk_end(z, k, left.at);
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
    size_t most = (size_t)z->flat.kept.n + (chunk ? (size_t)(z->flat.kept.numel / chunk) : 0) + 2;
    TX_TRY(tx_alloc(&z->fragment, most, sizeof *z->fragment, "the buckets"));
    TX_TRY(tx_alloc(&z->range, most, sizeof *z->range, "the buckets"));
    TX_TRY(tx_alloc(&z->first_range, (size_t)z->flat.n_buckets + 1, sizeof *z->first_range, "the buckets"));
    for (int k = 0; k < z->flat.n_buckets; k++) cut_bucket(z, k);
    z->n_trained = z->first_range[z->flat.n_trained];
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
    TX_ASSERT(false && "a word of --grad-dtype");
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
    tx_flat_spec s = { .bucket_size = z->stage ? most : cfg->ddp_bucket_size,
                       .align = tx__offloads(z) ? TX_TIER_BLOCK : TX_PARAM_ALIGN,
                       .each = z->stage == 3,
                       .small = cfg->zero_param_persistence_threshold,
                       .small_all = cfg->zero_model_persistence_threshold };
    for (int g = 0; g < TX_N_GROUPS && z->stage; g++) {
        const tx_comm *group = tx_grid_group(z->grid, tx__sharers(z, g));
        s.ranks[g] = (tx_flat_ranks){ .n = tx_comm_size(group), .rank = tx_comm_rank(group) };
    }
    return s;
}

/* No bucket is in a buffer, and no unit writes to one. */
static void clear_buffers(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++)
        z->now[k].value = z->now[k].words = z->now[k].grad = z->now[k].sums = -1;
    for (int i = 0; i < z->ps->n_units; i++) z->unit[i].work = -1;
}

/* The buckets, and where in the dry run they are. */
static tx_status open_buckets(tx_zero *z)
{
    tx_flat_spec spec = spec_of(z);
    TX_TRY(tx_flat_open(&z->flat, z->ps, &spec));
    size_t n = (size_t)z->flat.n_buckets;
    TX_TRY(tx_alloc(&z->now, n + 1, sizeof *z->now, "the buckets"));
    TX_TRY(tx_alloc(&z->reduce_queue, n + 1, sizeof *z->reduce_queue, "the buckets"));
    TX_TRY(tx_alloc(&z->unit, (size_t)z->ps->n_units + 1, sizeof *z->unit, "the buckets"));
    clear_buffers(z);
    for (size_t k = 0; k < n; k++) {
        z->now[k].left = z->flat.bucket[k].n_units;
        if (z->flat.bucket[k].persistent) z->persistent_numel += z->flat.bucket[k].numel;
    }
    bind_all(z);
    return TX_OK;
}

bool tx_zero_first(const tx_zero *z, const tx_param *p)
{
    return p->counted && tx_comm_rank(tx_grid_group(z->grid, p->reduce_group)) == 0;
}

/* Whole numbers are the same in a reduce group, and groups differ: the first member counts. */
static void count_once(const tx_zero *z)
{
    if (z->stage || z->counted_over == TX_GROUP_MODEL) return;
    for (int row = 0; row < z->ps->n; row++) z->ps->param[row].counted = tx_zero_first(z, &z->ps->param[row]);
}

/* What options say of the state and of what is sent. */
static void choose(tx_zero *z, const tx_zero_args *a)
{
    const tx_config *cfg = z->cfg;
    const unsigned traits = a->train && !a->optimizer ? tx_optimizer_traits(cfg->optimizer) : 0;
    z->n_state = a->train ? tx_optim_n_state(cfg, a->optimizer) : 0;
    z->matrices.on = traits & TX_OPTIMIZER_MATRICES;
    z->compressed.on = traits & TX_OPTIMIZER_COMPRESSED;
    z->factors.on = traits & TX_OPTIMIZER_FACTORS;
    z->stage = a->train ? (int)cfg->zero_stage : 0;
    z->quantized.weights = z->stage == 3 && cfg->zero_quantized_weights;
    z->quantized.gradients = z->stage == 3 && cfg->zero_quantized_gradients;
    z->quantized.loco = z->quantized.gradients && cfg->zero_loco_err_beta >= 0;
    z->reduce_every_micro_batch = a->train && (z->stage >= 2 || cfg->reduce_every_micro_batch);
    z->overlap = cfg->overlap_grad_reduce;
    z->spreads_late = z->overlap && z->stage;
    z->mics = z->stage && z->grid->copy;
    z->counted_over = z->mics ? TX_GROUP_COPY : z->stage || z->grid->expert ? TX_GROUP_WORLD : TX_GROUP_MODEL;
    choose_types(z);
    z->values.size = tx_dtype_size(z->dtype);
    z->grads.size = tx_dtype_size(z->grad_type);
    z->sums.size = tx_dtype_size(z->sum_type);
    z->work.size = sizeof(float);
    z->value = z->persistent = z->master = z->grad = TX_DRY_ADDRESS;
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) z->state[k] = TX_DRY_ADDRESS;
}

/* Some optimizers compute in the host's memory. */
static tx_status can_update(const tx_zero *z, const tx_zero_args *a)
{
    const tx_config *cfg = z->cfg;
    if (a->train && a->optimizer && z->c->device && !(tx__offloads_optimizer(z) && cfg->offload_optimizer_ratio >= 1))
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "the optimizer %s computes in the host's memory: on a GPU it needs --offload-optimizer, with an "
                       "--offload-optimizer-ratio of 1",
                       a->optimizer->name);
    if (z->factors.on && z->c->device)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "--optimizer %s computes in the host's memory, not on a GPU: choose --optimizer adam or lion",
                       tx_optimizer_kind_word(cfg->optimizer));
    return TX_OK;
}

tx_status tx_zero_open(tx_zero *z, tx_ctx *c, tx_params *ps, const tx_zero_args *a)
{
    const tx_config *cfg = a->cfg;
    *z = (tx_zero){ .c = c, .ps = ps, .cfg = cfg, .grid = tx_grid_of(c), .dtype = a->dtype, .train = a->train };
    z->hooks = (tx_unit_hooks){ .gather = tx__zero_gather,
                                .release = tx__zero_release,
                                .pre_backward = tx__zero_pre_backward,
                                .post_backward = tx__zero_post_backward,
                                .user = z };
    tx_status st;
    TX_TRY(tx_optim_check_client(a->optimizer));
    choose(z, a);
    z->hooks.each_time = z->reduce_every_micro_batch || z->grad_type != TX_F32;
    TX_TRY(can_update(z, a));
    count_once(z);
    if (tx_optim_has_norms(cfg, a->optimizer) && a->train) TX_GOTO(tx__zero_norms_open(z));
    TX_GOTO(open_buckets(z));
    TX_GOTO(tx__state_tables_open(z, a->optimizer ? NULL : tx_optim_type_of(cfg->optimizer)->keeps,
                                  tx__offloads_optimizer(z)));
    tx__offload_plan(z);
    tx__matrices_plan(z);
    TX_GOTO(tx__factors_plan(z));
    TX_GOTO(cut_fragments(z));
    point_ranges(z);
    TX_GOTO(tx__compressed_plan(z));
    TX_GOTO(tx__quantized_plan(z));
    if (a->train)
        TX_GOTO(tx_optim_init(&z->optim, &(tx_optim_args){ .cfg = cfg,
                                                           .client = a->optimizer,
                                                           .ranks = tx_grid_group(z->grid, z->counted_over),
                                                           .device = c->device,
                                                           .range = z->range,
                                                           .n_ranges = z->n_trained,
                                                           .n_tensors = ps->n }));
    z->optim.fetch = tx__offload_fetch;
    z->optim.fetch_user = z;
out:
    if (st) tx_zero_close(z);
    return st;
}

/* Elements of the buffer of master weights, where values are of another type. */
static size_t master_numel(const tx_zero *z)
{
    bool some = tx__is_offloaded(z, TX_ARRAY_MASTER); /* of what is kept */
    return (size_t)(some ? tx__not_offloaded(z, TX_ARRAY_MASTER) : trained_numel_of(z, tx_zero_whole_masters(z)));
}

/* Elements of buffer k of state that are not offloaded. */
static int64_t state_numel(const tx_zero *z, int k)
{
    if (!tx__is_offloaded(z, TX_ARRAY_STATE + k)) return z->table[k].numel;
    return tx__state_packed(z, k, tx__not_offloaded(z, TX_ARRAY_STATE + k));
}

/* Kept values and the optimizer's arrays, as far as they are not offloaded. */
static tx_status take_kept(tx_zero *z)
{
    size_t size = tx_dtype_size(z->dtype), masters = master_numel(z);
    size_t values = (size_t)numel_of(z, tx_zero_whole_values(z)) * size;
    tx_device *d = z->c->device;
    if (!tx__is_offloaded(z, TX_ARRAY_VALUE)) TX_TRY(tx_device_take(d, &z->value, values, true, "the parameters"));
    if (z->dtype == TX_F32)
        z->master = z->value;
    else if (z->train && masters)
        TX_TRY(tx_device_take(d, &z->master, masters * sizeof(float), false, "the master weights"));
    for (int k = 0; k < z->n_state; k++) {
        size_t n = (size_t)state_numel(z, k);
        if (n) TX_TRY(tx_device_take(d, &z->state[k], n * sizeof(float), false, "the optimizer's state"));
    }
    return TX_OK;
}

tx_status tx_zero_take(tx_zero *z)
{
    z->value = z->persistent = z->master = z->grad = NULL;
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) z->state[k] = NULL;
    clear_buffers(z);
    TX_TRY(take_kept(z));
    size_t persistent = (size_t)z->persistent_numel * tx_dtype_size(z->dtype);
    tx_device *d = z->c->device;
    TX_TRY(tx__take_aligned(d, &z->persistent_base, &z->persistent, persistent, "the parameters that stay"));
    TX_TRY(tx__pool_take(&z->values, d, "gathered parameters"));
    if (z->train)
        TX_TRY(tx_device_take(d, &z->grad, (size_t)trained_numel_of(z, grads_whole(z)) * z->grads.size, true,
                              "the gradients"));
    TX_TRY(tx__pool_take(&z->grads, d, "the gradients' buckets"));
    TX_TRY(tx__pool_take(&z->sums, d, "the gradients' sums"));
    TX_TRY(tx__pool_take(&z->work, d, "a layer's gradients in fp32"));
    TX_TRY(tx__matrices_take(z));
    TX_TRY(tx__factors_take(z));
    TX_TRY(tx__compressed_take(z));
    TX_TRY(tx__quantized_take(z));
    point_ranges(z);
    TX_TRY(tx__offload_open(z));
    bind_all(z);
    return TX_OK;
}

/* Others may still read this rank's values. Of two errors the one before is told. */
static void leave(tx_zero *z)
{
    char why[8192];
    if (!z->now || z->c->dry) return;
    snprintf(why, sizeof why, "%s", tx_last_error());
    if (tx_zero_settle(z)) (void)TX_FAIL_LINES(TX_ERR_COMM, "%s", why);
}

void tx_zero_close(tx_zero *z)
{
    tx_device *d = z->c ? z->c->device : NULL;
    leave(z);
    tx__offload_close(z);
    tx__matrices_close(z);
    tx__factors_close(z);
    tx__compressed_close(z);
    tx__quantized_close(z);
    tx_optim_deinit(&z->optim);
    tx__zero_norms_close(z);
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
    tx__state_tables_close(z);
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
    for (int k = 0; k < z->n_state; k++) state += (size_t)state_numel(z, k);
    if (z->train && z->dtype != TX_F32) state += master_numel(z);
    return (tx_zero_memory){ .params = values ? (size_t)numel_of(z, tx_zero_whole_values(z)) * size : 0,
                             .persistent = (size_t)z->persistent_numel * size,
                             .gathered = tx__pool_bytes(&z->values) + z->offload.staged_bytes,
                             .grads = z->train ? (size_t)trained_numel_of(z, grads_whole(z)) * z->grads.size : 0,
                             .buckets = tx__pool_bytes(&z->grads) + tx__pool_bytes(&z->sums) + tx__pool_bytes(&z->work),
                             .matrices = tx__matrices_bytes(z) + tx__factors_bytes(z),
                             .compressed = tx__compressed_bytes(z),
                             .quantized = tx__quantized_bytes(z),
                             .optimizer = state * sizeof(float),
                             .host = z->offload.host,
                             .nvme = z->offload.nvme,
                             .disk_buffers = z->offload.buffer_bytes };
}

/* ---- the update ---- */

tx_status tx__zero_spread_start(tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    tx_comm *owners = tx__bucket_owners(z, k);
    int64_t part = tx_bucket_part(&z->flat, b);
    if (z->stage == 0 || (z->stage == 3 && !b->persistent)) return TX_OK;
    tx_tensor all = tx_tensor1(place_of(z, k), z->dtype, b->numel);
    tx_tensor x = tx_slice1(all, tx_bucket_own_in(&z->flat, b), part);
    if (z->stage == 3) TX_TRY(tx__zero_read_part(z, k, x));
    if (z->cfg->zero_allgather_partitions) return tx_all_gather_start(z->c, owners, all, x, &z->now[k].gather);
    for (int r = 0; r < tx_comm_size(owners); r++)
        TX_TRY(tx_broadcast(z->c, owners, tx_slice1(all, r * part, part), r));
    return TX_OK;
}

/* A dry run is of one iteration: what goes from its end into the forward of the next is counted at its beginning. */
tx_status tx__zero_spread_dry(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_trained && z->spreads_late && z->c->dry; k++) TX_TRY(tx__zero_spread_start(z, k));
    return TX_OK;
}

tx_status tx_zero_settle(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) TX_TRY(tx_wait(z->c, &z->now[k].gather));
    return TX_OK;
}

/* Of the matrices of bucket k, from what is kept of their state: which is in its place again before the update. */
static tx_status make_directions(tx_zero *z, const tx_optim_step *s, int k)
{
    int first = z->first_range[k], end = z->first_range[k + 1];
    if (!tx_zero_has_matrix(z, k)) return TX_OK;
    tx_at_part(z->c, "optimizer.matrices");
    if (z->offload.bounce) TX_TRY(tx__bounce_direct_some(z, s, first, end));
    for (int i = first; i < end && !z->offload.bounce; i++) {
        tx_optim_step one = tx_optim_step_of(s, &z->range[i]);
        if (!z->range[i].direction) continue;
        TX_TRY(tx_zero_fetch(z, i, TX_FETCH_STATE, TX_FETCH_STATE));
        TX_TRY(z->optim.type->direction(z->c, &z->optim, &z->range[i], &one));
    }
    return tx_zero_flush(z);
}

tx_status tx_zero_step(tx_zero *z, double lr, double weight_decay)
{
    const tx_optim_step s = z->step = tx_optim_next(&z->optim, lr, weight_decay);
    tx__zero_drop_all(z);
    TX_TRY(tx__factors_step(z, &s));
    TX_TRY(tx__together_step(z, &s));
    if (z->norms.of_row) TX_TRY(tx__zero_measure(z, &s));
    for (int k = 0; k < z->flat.n_trained; k++) {
        int first = z->first_range[k], end = z->first_range[k + 1];
        TX_TRY(make_directions(z, &s, k));
        TX_TRY(tx__matrices_step(z, k));
        TX_TRY(tx__compressed_step(z, &s, k));
        TX_TRY(z->offload.bounce ? tx__bounce_step_some(z, &s, first, end)
                                 : tx_optim_step_some(z->c, &z->optim, &s, first, end));
        TX_TRY(tx_zero_flush(z));
        if (!(z->spreads_late && z->c->dry)) TX_TRY(tx__zero_spread_start(z, k));
        TX_TRY(tx_comm_poll(z->c, tx__bucket_owners(z, k)));
    }
    return z->spreads_late ? TX_OK : tx_zero_settle(z);
}

tx_status tx_zero_stepped(tx_zero *z, double *norm, const char **bad)
{
    char line[TX_OPTIM_LINE];
    TX_TRY(tx_optim_clipped(z->c, &z->optim, norm, bad));
    if (*bad && !**bad) *bad = "another data-parallel rank's parameter";
    if (*bad) TX_TRY(tx__loco_forget(z));
    if (z->c->dry || *bad) return TX_OK;
    tx_optim_stepped(&z->optim, &z->step);
    if (!z->optim.type->tell) return TX_OK;
    z->optim.type->tell(&z->optim, line);
    if (*line) tx_info("%s", line);
    return TX_OK;
}
