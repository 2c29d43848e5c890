/* optim.c - what all optimizers share. */
#include "optim/optim.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/exact.h"

/* For tx_at_part. */
#define NORMS "optimizer.norms"
#define STEP  "optimizer.step"

/* Elements whose blocks are summed at a time: what stays in a processor's cache, or little of a device's memory. */
#define SLAB        ((int64_t)4096 * TX_SUMSQ_BLOCK)
#define DEVICE_SLAB (64 * SLAB)

#define TYPE_OF(constant, word, type, ...) [constant] = &type,
static const tx_optim_type *const types[] = { TX_OPTIMIZERS(TYPE_OF) };
enum { N_TYPES = sizeof types / sizeof *types };

#define KEEPS_OF(constant, word, type, name, other, params, traits, ...)                                     \
    const tx_optim_keeps type##_keeps = {                                                                    \
        (int)(sizeof((tx_optimizer_buffer[]){ __VA_ARGS__ }) / sizeof(tx_optimizer_buffer)), { __VA_ARGS__ } \
    };
TX_OPTIMIZERS(KEEPS_OF)

const tx_optim_type *tx_optim_type_of(enum tx_optimizer_kind kind)
{
    return types[kind];
}

bool tx_optim_is_number(enum tx_optimizer_kind kind, int k)
{
    return kind && tx_optim_type_of(kind)->keeps->state[k].of == TX_STATE_OF_TENSORS;
}

tx_optim_theirs tx_optim_theirs_of(enum tx_optimizer_kind kind, int k)
{
    return kind ? tx_optim_type_of(kind)->theirs[k] : TX_THEIRS_SAME;
}

const tx_optim_type *tx_optim_type_at(int i)
{
    return i + 1 < N_TYPES ? types[i + 1] : NULL; /* kinds begin at 1 */
}

static double at_place(const tx_config *cfg, size_t place)
{
    return place ? *(const double *)((const char *)cfg + place) : 0;
}

void tx_optim_betas_of(const tx_optim_type *type, const tx_config *cfg, double betas[2])
{
    for (int k = 0; k < 2; k++) betas[k] = at_place(cfg, type->betas[k]);
}

double tx_optim_eps_of(const tx_optim_type *type, const tx_config *cfg)
{
    return at_place(cfg, type->eps);
}

const char *tx_optim_name(const tx_optim *o)
{
    return o->client ? o->client->name : tx_optimizer_kind_word(o->cfg->optimizer);
}

double tx_optim_momentum(const tx_config *cfg)
{
    return tx_optimizer_traits(cfg->optimizer) & TX_OPTIMIZER_MATRICES ? cfg->muon_momentum : cfg->sgd_momentum;
}

/* What a rank gives to sums over all of them. */
typedef struct tx__optim_sums {
    tx_exact exact;
    double sum[4]; /* the last may be a largest one */
    char bad[128]; /* the first tensor that is not finite, or "" */
} sums;

tx_status tx_optim_init(tx_optim *o, const tx_optim_args *a)
{
    static const char what[] = "the gradient norm";
    const tx_config *cfg = a->cfg;
    const tx_client_optimizer *client = a->client;
    tx_device *device = a->device;
    if (client && cfg->log_optimizer_states_to_tensorboard)
        return TX_FAIL(TX_ERR_UNSUPPORTED,
                       "--log-optimizer-states-to-tensorboard shows what Adam holds: not with the optimizer %s",
                       client->name);
    *o = (tx_optim){ .client = client,
                     .cfg = cfg,
                     .ranks = a->ranks,
                     .device = device,
                     .slab = device ? DEVICE_SLAB : SLAB,
                     .range = a->range,
                     .n_ranges = a->n_ranges,
                     .momentum = tx_optim_momentum(cfg),
                     .decoupled_lr = -1 };
    if (client) o->own = tx__optim_of_client(client, &o->own_keeps);
    o->type = client ? &o->own : tx_optim_type_of(cfg->optimizer);
    TX_ASSERT(o->type);
    tx_optim_betas_of(o->type, cfg, o->betas);
    size_t sums_bytes = (size_t)(o->slab / TX_SUMSQ_BLOCK) * 4 * sizeof(double);
    tx_status st;
    TX_GOTO(tx_alloc(&o->all, (size_t)tx_comm_size(a->ranks), sizeof *o->all, what));
    TX_GOTO(tx_device_take(device, &o->block_sums, sums_bytes, false, what));
    TX_GOTO(tx_device_take(device, &o->squares, (size_t)TX_EXACT_WORDS * sizeof *o->squares, false, what));
    TX_GOTO(tx_device_take(device, &o->gate, 3 * sizeof *o->gate, false, what));
    TX_GOTO(tx_device_take_host(device, &o->seen, sums_bytes, what));
    if (o->type->measure) TX_GOTO(tx__optim_norms_open(o, a->n_tensors));
out:
    if (st) tx_optim_deinit(o);
    return st;
}

void tx_optim_deinit(tx_optim *o)
{
    tx_device_give(o->device, o->block_sums);
    tx_device_give(o->device, o->squares);
    tx_device_give(o->device, o->gate);
    tx_device_give_host(o->device, o->seen);
    tx__optim_norms_close(o);
    tx_free(o->all);
    *o = (tx_optim){ 0 };
}

/* mine becomes the sums over all ranks, in their order; the last of n is a largest one with `max`. */
static tx_status over_ranks(const tx_ctx *c, tx_optim *o, sums *mine, int n, bool max)
{
    if (c->dry || tx_comm_size(o->ranks) == 1) return TX_OK;
    TX_TRY(tx_comm_gather(o->ranks, o->all, mine, sizeof *mine));
    *mine = o->all[0];
    for (int r = 1; r < tx_comm_size(o->ranks); r++) {
        const sums *next = &o->all[r];
        tx_exact_merge(&mine->exact, &next->exact);
        for (int i = 0; i < n; i++)
            mine->sum[i] = max && i == n - 1 ? fmax(mine->sum[i], next->sum[i]) : mine->sum[i] + next->sum[i];
        if (!mine->bad[0]) memcpy(mine->bad, next->bad, sizeof mine->bad);
    }
    return TX_OK;
}

static tx_status fetch(const tx_optim *o, int i, unsigned what, unsigned changes)
{
    return o->fetch ? o->fetch(o->fetch_user, i, what, changes) : TX_OK;
}

/* The tensors that something is asked about. */
static tx_tensor grad_of(const tx_optim_range *r)
{
    return r->grad;
}

static tx_tensor master_of(const tx_optim_range *r)
{
    return tx_tensor1(r->value, TX_F32, r->numel);
}

static tx_tensor value_of(const tx_optim_range *r)
{
    return r->low.data ? r->low : master_of(r);
}

static tx_tensor momentum_of(const tx_optim_range *r)
{
    return tx_tensor1(r->state[0], TX_F32, r->numel);
}

static tx_tensor variance_of(const tx_optim_range *r)
{
    return tx_tensor1(r->state[1], TX_F32, r->numel);
}

typedef tx_tensor tensor_fn(const tx_optim_range *r);

static tx_tensor squares_of(const tx_optim *o)
{
    return tx_tensor1(o->squares, TX_I64, TX_EXACT_WORDS);
}

/* o->squares = 0, or what the ranks together have. */
static tx_status set_squares(tx_ctx *c, tx_optim *o, const tx_exact *x)
{
    return c->dry ? TX_OK : tx_device_copy(o->device, TX_STREAM_COMPUTE, o->squares, x, sizeof *x);
}

/* Adds a range's that are in the host's memory, a block of which at a time is brought to the sums. */
static tx_status add_host_squares(tx_ctx *c, tx_optim *o, tx_tensor x)
{
    for (int64_t at = 0, all = tx_numel(x); at < all; at += o->slab) {
        int64_t n = all - at < o->slab ? all - at : o->slab;
        tx_tensor sums_here = tx_tensor1(o->seen, TX_F64, tx_sumsq_blocks(n));
        tx_tensor there = tx_tensor1(o->block_sums, TX_F64, tx_sumsq_blocks(n));
        TX_RUN(o->host, sumsq, .out = sums_here, .x = tx_slice1(x, at, n));
        TX_TRY(tx_device_write(o->device, o->block_sums, o->seen, (size_t)tx_sumsq_blocks(n) * sizeof *o->seen));
        TX_RUN(c, exact_add, .sum = squares_of(o), .x = there);
    }
    return TX_OK;
}

static bool is_in_host(const tx_optim *o, const tx_optim_range *r, unsigned what)
{
    return o->host && (r->in_host & what);
}

/* Adds the blocks that wait to o->squares. */
static tx_status add_waiting(tx_ctx *c, tx_optim *o)
{
    int64_t n = o->n_waiting;
    o->n_waiting = 0;
    if (n) TX_RUN(c, exact_add, .sum = squares_of(o), .x = tx_tensor1(o->block_sums, TX_F64, n));
    return TX_OK;
}

/* Adds a range's, which may wait for add_waiting: small tensors are added many at a time. */
static tx_status add_squares(tx_ctx *c, tx_optim *o, const tx_optim_range *r, tensor_fn *of, unsigned what)
{
    tx_tensor x = of(r);
    if (is_in_host(o, r, what)) {
        TX_TRY(add_waiting(c, o)); /* the host's pass through the same memory */
        return add_host_squares(c, o, x);
    }
    for (int64_t at = 0, all = tx_numel(x), n; at < all; at += n) {
        int64_t room = o->slab - o->n_waiting * TX_SUMSQ_BLOCK;
        n = all - at < room ? all - at : room;
        tx_tensor blocks = tx_tensor1(o->block_sums + o->n_waiting, TX_F64, tx_sumsq_blocks(n));
        TX_RUN(c, sumsq, .out = blocks, .x = tx_slice1(x, at, n));
        o->n_waiting += tx_sumsq_blocks(n);
        if (o->n_waiting * TX_SUMSQ_BLOCK >= o->slab) TX_TRY(add_waiting(c, o));
    }
    return TX_OK;
}

/* o->squares, over all ranks. */
static tx_status sum_squares(tx_ctx *c, tx_optim *o, tensor_fn *of, unsigned what)
{
    static const tx_exact zero;
    tx_at_part(c, NORMS);
    TX_TRY(set_squares(c, o, &zero));
    o->n_waiting = 0;
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        if (what) TX_TRY(fetch(o, i, what, 0));
        TX_TRY(add_squares(c, o, r, of, what));
    }
    TX_TRY(add_waiting(c, o));
    if (c->dry || tx_comm_size(o->ranks) == 1) return TX_OK;
    sums all = { 0 };
    TX_TRY(tx_device_read(o->device, &all.exact, o->squares, sizeof all.exact));
    TX_TRY(over_ranks(c, o, &all, 0, false));
    return set_squares(c, o, &all.exact);
}

/* Names the first tensor that has squares which are not finite, of the first rank that has one. */
static tx_status find_bad(tx_ctx *c, tx_optim *o, tensor_fn *of, unsigned what, const char **bad)
{
    static const tx_exact zero;
    sums all = { 0 };
    for (int i = 0; i < o->n_ranges && !all.bad[0]; i++) {
        const tx_optim_range *r = &o->range[i];
        tx_exact one;
        if (!r->counted) continue;
        if (what) TX_TRY(fetch(o, i, what, 0));
        TX_TRY(set_squares(c, o, &zero));
        TX_TRY(add_squares(c, o, r, of, what));
        TX_TRY(add_waiting(c, o));
        TX_TRY(tx_device_read(o->device, &one, o->squares, sizeof one));
        if (!isfinite(one.beyond)) snprintf(all.bad, sizeof all.bad, "%s", r->name);
    }
    TX_TRY(over_ranks(c, o, &all, 0, false));
    o->all[0] = all;
    *bad = o->all[0].bad;
    return TX_OK;
}

static tx_tensor gate_of(const tx_optim *o)
{
    return tx_tensor1(o->gate, TX_F64, 3);
}

tx_status tx_optim_clip(tx_ctx *c, tx_optim *o, double loss_scale, double max_norm)
{
    TX_TRY(sum_squares(c, o, grad_of, 0));
    TX_RUN(c, clip, .out = gate_of(o), .sum = squares_of(o), .loss_scale = loss_scale, .max_norm = max_norm);
    return TX_OK;
}

tx_status tx_optim_clipped(tx_ctx *c, tx_optim *o, double *norm, const char **bad)
{
    *norm = 0;
    *bad = NULL;
    if (c->dry) return TX_OK;
    TX_TRY(tx_device_read(o->device, o->seen, o->gate, 3 * sizeof *o->seen));
    *norm = isnan(o->seen[0]) ? NAN : o->seen[0]; /* without a sign, which would be shown */
    return o->seen[2] != 0 ? TX_OK : find_bad(c, o, grad_of, 0, bad);
}

tx_status tx_optim_value_norm(tx_ctx *c, tx_optim *o, double *norm, const char **bad)
{
    tx_exact sum;
    *norm = 0;
    *bad = NULL;
    TX_TRY(sum_squares(c, o, value_of, TX_FETCH_VALUE));
    if (c->dry) return TX_OK;
    TX_TRY(tx_device_read(o->device, &sum, o->squares, sizeof sum));
    double total = tx_exact_value(&sum);
    *norm = isnan(total) ? NAN : sqrt(total);
    return isfinite(total) ? TX_OK : find_bad(c, o, value_of, TX_FETCH_VALUE, bad);
}

/* Of what the ranges have and, if wanted, of its elements' square roots. */
static tx_status magnitudes(tx_ctx *c, tx_optim *o, tensor_fn *tensor, unsigned what, tx_magnitude *of,
                            tx_magnitude *of_sqrt)
{
    sums all = { 0 }; /* of |x|, x², sqrt |x|; and the largest */
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted) continue;
        bool here = is_in_host(o, r, what);
        double *sums_of = here ? o->seen : o->block_sums;
        TX_TRY(fetch(o, i, TX_FETCH_MASTER | TX_FETCH_STATE, 0));
        for (int64_t first = 0; first < r->numel; first += o->slab) {
            int64_t n = r->numel - first < o->slab ? r->numel - first : o->slab, blocks = tx_sumsq_blocks(n);
            TX_RUN(here ? o->host : c, magnitudes, .out = tx_tensor2(sums_of, TX_F64, blocks, 4),
                   .x = tx_slice1(tensor(r), first, n));
            if (!here) TX_TRY(tx_device_read(o->device, o->seen, o->block_sums, (size_t)blocks * 4 * sizeof *o->seen));
            for (const double *at = o->seen, *end = at + 4 * blocks; at < end; at += 4) {
                for (int k = 0; k < 3; k++) all.sum[k] += at[k];
                all.sum[3] = fmax(all.sum[3], at[3]);
            }
        }
    }
    TX_TRY(over_ranks(c, o, &all, 4, true));
    double sum = all.sum[0], most = all.sum[3];
    *of = (tx_magnitude){ .l2 = sqrt(all.sum[1]), .l1 = sum, .abs_max = most };
    if (of_sqrt) *of_sqrt = (tx_magnitude){ .l2 = sqrt(sum), .l1 = all.sum[2], .abs_max = sqrt(most) };
    return TX_OK;
}

tx_status tx_optim_states_of(tx_ctx *c, tx_optim *o, tx_optim_states *out)
{
    TX_ASSERT(!o->client && tx_optimizer_traits(o->cfg->optimizer) & TX_OPTIMIZER_MOMENTS); /* a rule of the options */
    TX_TRY(magnitudes(c, o, variance_of, TX_FETCH_STATE, &out->variance, &out->variance_sqrt));
    TX_TRY(magnitudes(c, o, momentum_of, TX_FETCH_STATE, &out->momentum, NULL));
    return magnitudes(c, o, master_of, TX_FETCH_MASTER, &out->weight, NULL);
}

tx_status tx_optim_count_zeros(tx_ctx *c, tx_optim *o, double *n)
{
    sums all = { 0 };
    tx_at_part(c, NORMS);
    for (int i = 0; i < o->n_ranges; i++) {
        const tx_optim_range *r = &o->range[i];
        if (!r->counted || !r->n_real) continue;
        TX_RUN(c, count_zeros, .out = tx_tensor1(o->block_sums, TX_F64, 1), .x = tx_slice1(r->grad, 0, r->n_real));
        if (c->dry) continue;
        TX_TRY(tx_device_read(o->device, o->seen, o->block_sums, sizeof *o->seen));
        all.sum[0] += o->seen[0];
    }
    TX_TRY(over_ranks(c, o, &all, 1, false));
    *n = all.sum[0];
    return TX_OK;
}

tx_optim_step tx_optim_next(const tx_optim *o, double lr, double weight_decay)
{
    return (tx_optim_step){ .lr = lr,
                            .decoupled_lr = o->decoupled_lr,
                            .weight_decay = weight_decay,
                            .betas = { o->betas[0], o->betas[1] },
                            .momentum = o->momentum,
                            .setting = o->setting,
                            .gate = gate_of(o),
                            .t = o->t + 1 };
}

tx_optim_step tx_optim_step_of(const tx_optim_step *s, const tx_optim_range *r)
{
    tx_optim_step one = *s;
    const tx_optim_setting *own = s->setting ? &s->setting[r->group] : NULL;
    double decay = own && own->weight_decay >= 0 ? own->weight_decay : one.weight_decay * r->decay_scale;
    if (r->decoupled && s->decoupled_lr >= 0) one.lr = s->decoupled_lr;
    one.lr = own && own->lr >= 0 ? own->lr : one.lr * r->lr_scale;
    one.weight_decay = r->decay ? decay : 0;
    return one;
}

/* ---- sums that are sent as signs ---- */

tx_optim_signs tx_optim_signs_of(const tx_optim *o)
{
    return o->type->signs ? o->type->signs(o) : (tx_optim_signs){ 0 };
}

void tx_optim_stepped(tx_optim *o, const tx_optim_step *s)
{
    o->t++;
    bool apart = tx_optim_signs_of(o).apart;
    for (int i = 0; i < o->n_groups; i++) {
        tx_optim_rates *r = &o->rates[i];
        const tx_optim_setting *own = &o->setting[i];
        if (!apart)
            *r = (tx_optim_rates){ 0 };
        else if (own->lr >= 0)
            r->own += own->lr;
        else
            for (int k = 0; k < 2; k++) r->lr[k] += k && s->decoupled_lr >= 0 ? s->decoupled_lr : s->lr;
    }
}

double tx_optim_passed(const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    if (!o->n_groups) return s->lr;
    const tx_optim_rates *before = &o->rates[r->group];
    return before->own + before->lr[r->decoupled] * r->lr_scale + s->lr;
}

tx_status tx_optim_rescale(tx_ctx *c, const tx_optim_range *r, const tx_optim_step *s)
{
    for (int64_t at = 0, n; r->block_scale && at < r->numel; at += n) {
        int64_t k = (r->first + at) / r->block;
        n = (k + 1) * r->block - r->first - at;
        if (n > r->numel - at) n = r->numel - at;
        if (r->block_scale[k] == 1) continue;
        tx_tensor x = tx_tensor1(r->value + at, TX_F32, n), low = r->low;
        TX_RUN(c, blend, .y = x, .x = x, .low = low.data ? tx_slice1(low, at, n) : low, .alpha = r->block_scale[k],
               .gate = s->gate, .only_go = true);
    }
    return TX_OK;
}

tx_status tx_optim_step_some(tx_ctx *c, const tx_optim *o, const tx_optim_step *s, int first, int end)
{
    tx_at_part(c, STEP);
    for (int i = first; i < end; i++) {
        tx_optim_step one = tx_optim_step_of(s, &o->range[i]);
        tx_optim_norm norm = tx_optim_norm_of(o, &o->range[i]);
        one.norm = &norm;
        unsigned needs = tx_optim_step_needs(&o->range[i]);
        TX_TRY(fetch(o, i, needs, tx_optim_step_changes(o) & needs));
        TX_TRY(o->type->step(c, o, &o->range[i], &one));
        TX_TRY(tx_optim_rescale(c, &o->range[i], &one));
    }
    return TX_OK;
}
