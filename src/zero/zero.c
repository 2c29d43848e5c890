/* zero.c - a rank's share of the training state: its memory, its update, and its numbers. */
#include "zero/zero.h"

#include <string.h>

#include "base/alloc.h"
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
    return z->stage == 0 || (z->stage == 1 && !z->passing);
}

/* Elements of a buffer. */
static int64_t numel_of(const tx_zero *z, bool whole)
{
    return whole ? z->ps->numel : z->flat.kept.numel;
}

/* Where a stretch begins in one. */
static int64_t begin_of(const tx_zero *z, bool whole, const tx_stretch *s)
{
    return whole ? z->ps->param[s->row].offset + s->first : s->at;
}

float *tx__zero_kept_grad(const tx_zero *z, const tx_bucket *b)
{
    return z->grad + (grads_whole(z) ? tx_bucket_own(&z->flat, b) : tx_bucket_at(&z->flat, b));
}

int64_t tx__zero_kept_numel(const tx_zero *z, const tx_bucket *b)
{
    return tx_bucket_part(&z->flat, b);
}

float *tx_zero_master(const tx_zero *z, int i)
{
    return z->master + begin_of(z, tx_zero_whole_masters(z), &z->flat.kept.stretch[i]);
}

float *tx_zero_grad(const tx_zero *z, int i)
{
    return z->grad + begin_of(z, grads_whole(z), &z->flat.kept.stretch[i]);
}

tx_tensor tx_zero_value(const tx_zero *z, int i)
{
    const tx_stretch *s = &z->flat.kept.stretch[i];
    size_t at = (size_t)begin_of(z, tx_zero_whole_values(z), s) * tx_dtype_size(z->dtype);
    return tx_tensor1((char *)z->value + at, z->dtype, s->numel);
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

static tx_tensor view(const tx_param *p, void *data, tx_dtype t)
{
    return p->n_dims == 1 ? tx_tensor1(data, t, p->dim[0]) : tx_tensor2(data, t, p->dim[0], p->dim[1]);
}

static void *at(const tx_zero *z, int bucket, const tx_param *p, void *data, size_t size)
{
    return data ? (char *)data + (size_t)(p->offset - z->flat.bucket[bucket].offset) * size : NULL;
}

void tx__zero_bind_values(tx_zero *z, int bucket, void *data)
{
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (z->flat.of_row[row] == bucket)
            p->weight->value = view(p, at(z, bucket, p, data, tx_dtype_size(z->dtype)), z->dtype);
    }
}

void tx__zero_bind_grads(tx_zero *z, int bucket, float *data)
{
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (z->flat.of_row[row] == bucket) p->weight->grad = view(p, at(z, bucket, p, data, sizeof(float)), TX_F32);
    }
}

/* Where the values of a bucket lie that all ranks have: of whole values, or of what stays. */
static char *place_of(const tx_zero *z, int k)
{
    size_t size = tx_dtype_size(z->dtype);
    int64_t stay = 0;
    if (tx_zero_whole_values(z)) return (char *)z->value + (size_t)z->flat.bucket[k].offset * size;
    for (int i = 0; i < k; i++)
        if (z->flat.bucket[i].stays) stay += z->flat.bucket[i].numel;
    return (char *)z->stay + (size_t)stay * size;
}

/* Whatever stays where it is. */
static void bind_all(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) {
        const tx_bucket *b = &z->flat.bucket[k];
        tx__zero_bind_values(z, k, tx_zero_whole_values(z) || b->stays ? place_of(z, k) : NULL);
        tx__zero_bind_grads(z, k, z->train && !z->passing ? z->grad + b->offset : NULL);
    }
}

/* ---- turns ---- */

int tx__turns_find(const tx_turns *t, int kind)
{
    for (int i = 0; i < t->n; i++)
        if (t->turn[i].kind == kind && t->turn[i].bucket < 0) return i;
    return -1;
}

tx_status tx__turns_add(tx_turns *t, const tx_zero *z, int bucket, int *out)
{
    const tx_flat *f = &z->flat;
    int64_t most = 0;
    for (int k = 0; k < f->n_buckets; k++)
        if (f->bucket[k].kind == f->bucket[bucket].kind && f->bucket[k].numel > most) most = f->bucket[k].numel;
    TX_ASSERT(z->c->dry);
    TX_TRY(tx_realloc(&t->turn, (size_t)t->n + 1, sizeof *t->turn, "the buckets"));
    t->turn[t->n] = (tx_turn){ .kind = f->bucket[bucket].kind, .bucket = -1, .numel = most, .data = TX_DRY_ADDRESS };
    *out = t->n++;
    return TX_OK;
}

tx_status tx__turns_take(tx_turns *t, const char *what)
{
    for (int i = 0; i < t->n; i++) t->turn[i].data = NULL;
    for (int i = 0; i < t->n; i++) TX_TRY(tx_shared_alloc(&t->turn[i].data, (size_t)t->turn[i].numel * t->size, what));
    return TX_OK;
}

void tx__turns_close(tx_turns *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->turn[i].data != TX_DRY_ADDRESS) tx_shared_free(t->turn[i].data);
    tx_free(t->turn);
    *t = (tx_turns){ 0 };
}

size_t tx__turns_bytes(const tx_turns *t)
{
    size_t bytes = 0;
    for (int i = 0; i < t->n; i++) bytes += (size_t)t->turn[i].numel * t->size;
    return bytes;
}

/* ---- the optimizer ---- */

static tx_optim_range range_of(const tx_zero *z, const tx_optim_type *type, int i)
{
    const tx_stretch *s = &z->flat.kept.stretch[i];
    const tx_param *p = &z->ps->param[s->row];
    tx_optim_range r = { .numel = s->numel,
                         .n_real = tx_zero_n_real(z, i),
                         .decay = p->decay == TX_DECAY,
                         .counted = p->counted,
                         .name = p->name,
                         .value = tx_zero_master(z, i),
                         .grad = tx_zero_grad(z, i) };
    for (int k = 0; k < type->n_state; k++) r.state[k] = z->state[k] + s->at;
    if (z->dtype != TX_F32) r.low = tx_zero_value(z, i);
    return r;
}

static tx_status open_optim(tx_zero *z)
{
    const tx_optim_type *type = tx_optim_type_find(z->cfg->optimizer);
    tx_optim_range *range;
    tx_comm *all = z->stage ? z->grid->world : z->grid->model; /* whose ranges make the model */
    int n = z->flat.kept.n;
    TX_TRY(tx_alloc(&range, (size_t)n + 1, sizeof *range, "the optimizer's groups"));
    for (int i = 0; i < n; i++) range[i] = range_of(z, type, i);
    tx_optim_deinit(&z->optim);
    tx_status st = tx_optim_init(&z->optim, z->cfg, all, range, n);
    tx_free(range);
    return st;
}

/* ---- opening ---- */

static tx_flat_spec spec_of(const tx_zero *z)
{
    const tx_config *cfg = z->cfg;
    int64_t most = cfg->zero_reduce_bucket_size;
    if (cfg->zero_allgather_bucket_size < most) most = cfg->zero_allgather_bucket_size;
    return (tx_flat_spec){ .n_ranks = tx_comm_size(z->data),
                           .rank = tx_comm_rank(z->data),
                           .bucket_size = z->stage ? most : cfg->ddp_bucket_size,
                           .align = TX_PARAM_ALIGN,
                           .each = z->stage == 3,
                           .small = cfg->zero_param_persistence_threshold,
                           .small_all = cfg->zero_model_persistence_threshold };
}

tx_status tx_zero_open(tx_zero *z, tx_ctx *c, tx_params *ps, const tx_config *cfg, tx_dtype t, bool train)
{
    *z = (tx_zero){ .c = c, .ps = ps, .cfg = cfg, .grid = tx_grid_of(c), .dtype = t, .train = train };
    z->hooks = (tx_unit_hooks){
        .use = tx__zero_use, .leave = tx__zero_leave, .touch = tx__zero_touch, .done = tx__zero_done, .user = z
    };
    z->stage = train ? (int)cfg->zero_stage : 0;
    z->passing = train && (z->stage >= 2 || cfg->reduce_every_micro_batch);
    z->overlap = cfg->overlap_grad_reduce;
    z->data = z->stage ? z->grid->data : &tx_comm_self;
    z->values.size = tx_dtype_size(t);
    z->grads.size = sizeof(float);
    z->value = z->stay = z->master = z->grad = TX_DRY_ADDRESS;
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) z->state[k] = TX_DRY_ADDRESS;
    tx_status st;
    tx_flat_spec spec = spec_of(z);
    TX_GOTO(tx_flat_open(&z->flat, ps, &spec));
    size_t n = (size_t)z->flat.n_buckets;
    TX_GOTO(tx_alloc(&z->now, n + 1, sizeof *z->now, "the buckets"));
    TX_GOTO(tx_alloc(&z->line, n + 1, sizeof *z->line, "the buckets"));
    TX_GOTO(tx_alloc(&z->touched, (size_t)ps->n_units + 1, sizeof *z->touched, "the buckets"));
    for (size_t k = 0; k < n; k++) {
        z->now[k] = (tx_bucket_now){ .value = -1, .grad = -1, .left = z->flat.bucket[k].n_units };
        if (z->flat.bucket[k].stays) z->stay_numel += z->flat.bucket[k].numel;
    }
    bind_all(z);
    if (train) TX_GOTO(open_optim(z));
out:
    if (st) tx_zero_close(z);
    return st;
}

tx_status tx_zero_take(tx_zero *z)
{
    size_t size = tx_dtype_size(z->dtype), masters = (size_t)numel_of(z, tx_zero_whole_masters(z));
    z->value = z->stay = z->master = z->grad = NULL;
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++) z->state[k] = NULL;
    for (int k = 0; k < z->flat.n_buckets; k++) z->now[k].value = z->now[k].grad = -1;
    TX_TRY(tx_shared_alloc(&z->value, (size_t)numel_of(z, tx_zero_whole_values(z)) * size, "the parameters"));
    TX_TRY(tx_shared_alloc(&z->stay, (size_t)z->stay_numel * size, "the parameters that stay"));
    TX_TRY(tx__turns_take(&z->values, "gathered parameters"));
    if (z->dtype == TX_F32) z->master = z->value;
    if (z->train) {
        if (!z->master) TX_TRY(tx_alloc(&z->master, masters, sizeof(float), "the master weights"));
        TX_TRY(tx_shared_alloc(&z->grad, (size_t)numel_of(z, grads_whole(z)) * sizeof(float), "the gradients"));
        TX_TRY(tx__turns_take(&z->grads, "the gradients' buckets"));
        for (int k = 0; k < z->optim.type->n_state; k++)
            TX_TRY(tx_alloc(&z->state[k], (size_t)z->flat.kept.numel, sizeof(float), "the optimizer's state"));
        TX_TRY(open_optim(z));
    }
    bind_all(z);
    return TX_OK;
}

void tx_zero_close(tx_zero *z)
{
    tx_optim_deinit(&z->optim);
    tx__turns_close(&z->values);
    tx__turns_close(&z->grads);
    for (int k = 0; k < TX_OPTIM_MAX_STATE; k++)
        if (z->state[k] != TX_DRY_ADDRESS) tx_free(z->state[k]);
    if (z->value != TX_DRY_ADDRESS) {
        if (z->master != z->value) tx_free(z->master);
        tx_shared_free(z->value);
        tx_shared_free(z->stay);
        tx_shared_free(z->grad);
    }
    tx_flat_close(&z->flat);
    tx_free(z->now);
    tx_free(z->line);
    tx_free(z->touched);
    *z = (tx_zero){ 0 };
}

tx_zero_memory tx_zero_memory_of(const tx_zero *z)
{
    size_t size = tx_dtype_size(z->dtype), state = 0;
    if (z->train)
        state = (size_t)z->optim.type->n_state * (size_t)z->flat.kept.numel +
                (z->dtype != TX_F32 ? (size_t)numel_of(z, tx_zero_whole_masters(z)) : 0);
    return (tx_zero_memory){ .params = (size_t)numel_of(z, tx_zero_whole_values(z)) * size,
                             .persistent = (size_t)z->stay_numel * size,
                             .gathered = tx__turns_bytes(&z->values),
                             .grads = z->train ? (size_t)numel_of(z, grads_whole(z)) * sizeof(float) : 0,
                             .buckets = tx__turns_bytes(&z->grads),
                             .optimizer = state * sizeof(float) };
}

/* ---- the update ---- */

/* Values that all ranks have, from each rank's part, if they are such. */
static tx_status gather_start(tx_zero *z, int k)
{
    const tx_bucket *b = &z->flat.bucket[k];
    int64_t part = tx_bucket_part(&z->flat, b), own = z->flat.rank * part;
    if (z->stage == 0 || (z->stage == 3 && !b->stays)) return TX_OK;
    tx_tensor all = tx_tensor1(place_of(z, k), z->dtype, b->numel), x = tx_slice1(all, own, part);
    if (z->stage == 3) TX_RUN(z->c, cast, .y = x, .x = tx__zero_value_part(z, k));
    if (z->cfg->zero_allgather_partitions) return tx_all_gather_start(z->c, z->data, all, x, &z->now[k].gather);
    for (int r = 0; r < z->flat.n_ranks; r++) TX_TRY(tx_broadcast(z->c, z->data, tx_slice1(all, r * part, part), r));
    return TX_OK;
}

static tx_status gather_wait(tx_zero *z)
{
    for (int k = 0; k < z->flat.n_buckets; k++) TX_TRY(tx_wait(z->c, &z->now[k].gather));
    return TX_OK;
}

tx_status tx_zero_step(tx_zero *z, double lr, double weight_decay, double grad_scale)
{
    tx_optim_step s = tx_optim_next(&z->optim, lr, weight_decay, grad_scale);
    tx__zero_drop_all(z);
    for (int k = 0; k < z->flat.n_buckets; k++) {
        TX_TRY(tx_optim_step_some(z->c, &z->optim, &s, z->flat.bucket[k].first, z->flat.bucket[k].end));
        TX_TRY(gather_start(z, k));
        TX_TRY(tx_comm_poll(z->c, z->data));
    }
    if (!z->c->dry) tx_optim_stepped(&z->optim, &s);
    return gather_wait(z);
}

/* ---- the numbers ---- */

int64_t tx_zero_n_real(const tx_zero *z, int i)
{
    const tx_stretch *s = &z->flat.kept.stretch[i];
    int64_t real = tx_param_n_real(&z->ps->param[s->row]) - s->first;
    return real < 0 ? 0 : real < s->numel ? real : s->numel;
}

void tx_zero_set(tx_zero *z, int i, const float *whole)
{
    const tx_stretch *s = &z->flat.kept.stretch[i];
    const float *from = whole + z->ps->param[s->row].offset + s->first;
    if (z->master)
        memcpy(tx_zero_master(z, i), from, (size_t)s->numel * sizeof *from);
    else
        tx_params_round(tx_zero_value(z, i).data, z->dtype, from, s->numel);
}

void tx_zero_init(tx_zero *z, uint64_t seed, tx_init_method method)
{
    for (int i = 0; i < z->flat.kept.n; i++) {
        const tx_stretch *s = &z->flat.kept.stretch[i];
        tx_param_init(&z->ps->param[s->row], tx_zero_master(z, i), s->first, s->numel, seed, method);
    }
}

tx_status tx_zero_publish(tx_zero *z)
{
    for (int i = 0; i < z->flat.kept.n && z->dtype != TX_F32 && z->master; i++)
        tx_params_round(tx_zero_value(z, i).data, z->dtype, tx_zero_master(z, i), z->flat.kept.stretch[i].numel);
    tx__zero_drop_all(z);
    for (int k = 0; k < z->flat.n_buckets; k++) TX_TRY(gather_start(z, k));
    return gather_wait(z);
}
