/* moe.c - forward and backward of a layer with experts. */
#include "nn/moe.h"

#include <math.h>
#include <stdio.h>

#include "nn/route.h"
#include "nn/wgrad_store.h"
#include "parallel/grid.h"

#define ROUTER      "mlp.router"
#define EXPERTS     "mlp.experts"
#define SHARED_GATE "mlp.shared_expert.gate"
#define COEFFICIENT "mlp.residual.coefficient"

/* ---- parameters ---- */

/* clang-format off */
static const tx_param_decl gate_params[] = {
    { "weight", "E,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, offsetof(tx_linear, w), 0 },
    { "bias",   "E",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, offsetof(tx_linear, b), TX_WITH_BIAS },
};
/* No product has it as a weight: its gradient is 0, and what changes it is the load. */
static const tx_param_decl bias_params[] = {
    { "router.expert_bias", "E", TX_INIT_ZERO, TX_NO_DECAY, TX_ADDS, offsetof(tx_moe, bias), 0 },
};
static const tx_param_decl mlp_params[] = {
    { "dense_h_to_4h.weight", "u/t,h", TX_INIT_NORMAL, TX_DECAY,    TX_SETS, offsetof(tx_mlp, h_to_4h.w), 0 },
    { "dense_h_to_4h.bias",   "u/t",   TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, offsetof(tx_mlp, h_to_4h.b), TX_WITH_BIAS },
    { "dense_4h_to_h.weight", "h,f/t", TX_INIT_SCALED, TX_DECAY,    TX_SETS, offsetof(tx_mlp, to_h.w),    0 },
    { "dense_4h_to_h.bias",   "h",     TX_INIT_ZERO,   TX_NO_DECAY, TX_ADDS, offsetof(tx_mlp, to_h.b),    TX_WITH_BIAS },
};
/* clang-format on */
enum { N_GATE_PARAMS = 2, N_MLP_PARAMS = 4 };

/* For the rows of a gate of n choices, which has a bias whatever the model has, or none. */
static tx_dims gate_dims(const tx_dims *dims, int64_t n, bool bias)
{
    tx_dims of = *dims;
    of.E = n;
    of.traits = bias ? TX_WITH_BIAS : 0;
    return of;
}

static tx_status declare_gate(tx_params *ps, const char *prefix, const char *name, tx_gate *g, tx_dims dims)
{
    char all[TX_PARAM_NAME_MAX];
    snprintf(all, sizeof all, "%s%s.", prefix, name);
    return tx_params_declare(ps, all, gate_params, N_GATE_PARAMS, &g->w, &dims);
}

/* The first matrices side by side, then the biases, then the second matrices. */
static tx_status declare_experts(tx_params *ps, const char *prefix, tx_moe *w, const tx_dims *dims)
{
    for (int k = 0; k < N_MLP_PARAMS; k++)
        for (int64_t e = 0; e < w->experts.n; e++) {
            char name[TX_PARAM_NAME_MAX];
            snprintf(name, sizeof name, "%sexperts.%lld.", prefix, (long long)(w->first + e));
            TX_TRY(tx_params_declare(ps, name, &mlp_params[k], 1, &w->experts.mlp[e], dims));
        }
    return TX_OK;
}

static tx_status declare_mlp(tx_params *ps, const char *prefix, const char *name, tx_mlp *mlp, const tx_dims *dims)
{
    char all[TX_PARAM_NAME_MAX];
    snprintf(all, sizeof all, "%s%s.", prefix, name);
    return tx_params_declare(ps, all, mlp_params, N_MLP_PARAMS, mlp, dims);
}

tx_status tx_moe_declare(tx_params *ps, const char *prefix, tx_moe *w, const tx_dims *dims, const tx_dims *all_dims)
{
    const tx_dims router = gate_dims(all_dims, w->n_experts, false);
    TX_TRY(declare_gate(ps, prefix, "router", &w->router, router));
    if (w->has_bias) TX_TRY(tx_params_declare(ps, prefix, bias_params, 1, w, &router));
    TX_TRY(declare_experts(ps, prefix, w, dims));
    if (w->has_shared) TX_TRY(declare_mlp(ps, prefix, "shared_expert", &w->shared, all_dims));
    if (w->has_shared_gate)
        TX_TRY(declare_gate(ps, prefix, "shared_expert.gate", &w->shared_gate, gate_dims(all_dims, 1, false)));
    if (!w->has_residual) return TX_OK;
    TX_TRY(declare_mlp(ps, prefix, "residual", &w->residual, all_dims));
    return declare_gate(ps, prefix, "residual.coefficient", &w->coefficient, gate_dims(all_dims, 2, true));
}

/* ---- gates ---- */

/* In memory that the host reads. */
static tx_tensor push_counts(tx_ctx *c, int64_t n)
{
    return tx_push1(c->device ? &c->host : &c->acts, TX_I32, n);
}

/* Waits for the counts, and sums them; a dry run takes as many rows as there may be. */
static tx_status read_counts(tx_ctx *c, tx_gate_saved *a, tx_tensor count)
{
    tx_tensor host = a->count;
    a->n = a->source.dim[0];
    if (c->dry) return TX_OK;
    if (c->device) TX_TRY(tx_device_read(c->device, host.data, count.data, (size_t)tx_numel(count) * sizeof(int32_t)));
    a->n = 0;
    for (int64_t e = 0; e < tx_numel(host); e++) a->n += ((const int32_t *)host.data)[e];
    return TX_OK;
}

/* Rows of a tensor that has a row for each token, or k: those of the tokens that this rank packs. */
static tx_tensor own_rows(const tx_gate_saved *a, tx_tensor x)
{
    return tx_slice_rows(x, a->first, a->rows);
}

/* How a gate chooses in a call. */
typedef struct choosing {
    tx_router how;
    tx_tensor bias;    /* added to choose by; or nothing */
    tx_axis parts;     /* into how many parts tokens are cut, and which one's rows this rank packs */
    bool of_all_ranks; /* tokens of all ranks that divide positions are counted, and dropped, together */
} choosing;

/* That of all tokens. */
static choosing plainly(const tx_gate *g)
{
    return (choosing){ .how = g->how, .parts = { 1, 0 } };
}

/* Pushes a's tensors: tokens choose, and the rows of some of them are ordered. */
static tx_status gate_fwd(tx_ctx *c, const tx_gate *g, tx_gate_saved *a, const choosing *by, tx_tensor x)
{
    const tx_router *how = &by->how;
    tx_axis parts = by->parts;
    int64_t rows = x.dim[0], choices = g->w.w.value.dim[0];
    tx_dtype wide = tx_wide(x.dtype);
    a->first = rows * parts.rank / parts.size;
    a->rows = rows * (parts.rank + 1) / parts.size - a->first;
    int64_t most = (rows + parts.size - 1) / parts.size * how->k; /* the same on all of them */
    if (how->capacity && choices * how->capacity < most) most = choices * how->capacity;
    a->logits = tx_push2(&c->acts, wide, rows, choices);
    a->probs = tx_push2(&c->acts, wide, rows, choices);
    a->weight = tx_push2(&c->acts, wide, rows, how->k);
    a->choice = tx_push2(&c->acts, TX_I32, rows, how->k);
    a->chosen = tx_push1(&c->acts, TX_I32, choices);
    a->stats = tx_push1(&c->acts, wide, choices + 1);
    a->row = tx_push1(&c->acts, TX_I32, a->rows * how->k);
    a->source = tx_push1(&c->acts, TX_I32, most);
    a->count = push_counts(c, choices);
    tx_tensor count = c->device ? tx_push1(&c->acts, TX_I32, choices) : a->count;
    TX_TRY(tx_linear_fwd(c, &g->w, a->logits, x));
    const tx_route_fwd_args route = { .probs = a->probs,
                                      .choice = a->choice,
                                      .weight = a->weight,
                                      .chosen = a->chosen,
                                      .stats = a->stats,
                                      .logits = a->logits,
                                      .bias = by->bias,
                                      .router = *how };
    TX_TRY(by->of_all_ranks ? tx_route_fwd(c, &route) : tx_op_route_fwd(c, &route));
    if (a->rows)
        TX_RUN(c, expert_order, .row = a->row, .source = a->source, .count = count, .choice = own_rows(a, a->choice));
    else /* fewer tokens than ranks, as when a text is generated */
        TX_RUN(c, fill, .x = count);
    return read_counts(c, a, count);
}

/* Zeros in the rows of other tokens than this rank packs, which are parts of sums. */
static tx_status clear_others(tx_ctx *c, const tx_gate_saved *a, tx_tensor y)
{
    int64_t end = a->first + a->rows;
    if (a->first) TX_RUN(c, fill, .x = tx_slice_rows(y, 0, a->first));
    if (end < y.dim[0]) TX_RUN(c, fill, .x = tx_slice_rows(y, end, y.dim[0] - end));
    return TX_OK;
}

/* y[t] = Σ_j weight[t,j] z[row[t,j]], or y += */
static tx_status weigh(tx_ctx *c, const tx_gate_saved *a, tx_tensor y, tx_tensor z, bool adds)
{
    if (!adds) TX_TRY(clear_others(c, a, y));
    if (!a->rows) return TX_OK;
    TX_RUN(c, combine_fwd, .y = own_rows(a, y), .z = z, .weight = own_rows(a, a->weight), .row = a->row,
           .accumulate = adds);
    return TX_OK;
}

typedef struct weights_gradient {
    tx_tensor dz;      /* as z */
    tx_tensor dweight; /* [T, k] */
} weights_gradient;

/* Pushes *g. */
static tx_status weigh_bwd(tx_ctx *c, const tx_gate_saved *a, weights_gradient *g, tx_tensor dy, tx_tensor z)
{
    int64_t most = a->source.dim[0]; /* room, whatever tokens have chosen */
    g->dz = tx_slice_rows(tx_push2(&c->acts, dy.dtype, most, dy.dim[1]), 0, z.dim[0]);
    g->dweight = tx_push2(&c->acts, a->weight.dtype, a->weight.dim[0], a->weight.dim[1]);
    TX_TRY(clear_others(c, a, g->dweight));
    TX_RUN(c, combine_bwd, .dz = g->dz, .dweight = own_rows(a, g->dweight), .dy = own_rows(a, dy), .z = z,
           .weight = own_rows(a, a->weight), .row = a->row);
    return TX_OK;
}

/* The losses of the layer's own in the objective, as factors of route_bwd's sums. */
typedef struct own_losses {
    double aux, z;
} own_losses;

/* From the gradient of the weights to the product's, and k->dx += that of x. Tensor ranks have parts of the weights'
 * gradient, whose sum gives each the gate's; dx is a part of a sum, and the first one's has it. */
static tx_status gate_bwd(tx_ctx *c, const tx_gate *g, const tx_gate_saved *a, tx_tensor dweight, const own_losses *own,
                          const tx_moe_call *k)
{
    tx_tensor dx = k->dx, x = k->x;
    size_t mark = tx_arena_mark(&c->acts);
    const tx_grid *grid = tx_grid_of(c);
    int64_t rows = x.dim[0], choices = a->probs.dim[1];
    tx_tensor wide = tx_push2(&c->acts, a->probs.dtype, rows, choices), d = wide;
    TX_TRY(tx_all_reduce(c, tx_grid_group(grid, TX_GROUP_TENSOR), dweight, TX_SUM));
    TX_RUN(c, route_bwd, .dlogits = wide, .dweight = dweight, .logits = a->logits, .probs = a->probs,
           .choice = a->choice, .chosen = a->chosen, .aux = own->aux, .z = own->z, .router = g->how);
    if (x.dtype != wide.dtype) {
        d = tx_push2(&c->acts, x.dtype, rows, choices);
        TX_RUN(c, cast, .y = d, .x = wide);
    }
    TX_TRY(tx_wgrad_linear(c, &g->w.w, &g->w.b, d, x));
    if (!tx_grid_rank(grid, TX_AXIS_TENSOR)) TX_RUN(c, gemm, .c = dx, .a = d, .b = g->w.w.value, .accumulate = true);
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* ---- the experts ---- */

int64_t tx_moe_capacity(int64_t tokens, int64_t n_experts, double factor, int64_t least)
{
    if (!(factor > 0)) return 0;
    float each = ceilf((float)((double)tokens / (double)n_experts) * (float)factor);
    return (double)each > (double)least ? (int64_t)each : least;
}

int64_t tx_moe_wide_capacity(int64_t choices, int64_t n_experts, double factor)
{
    return (int64_t)ceil((double)choices / (double)n_experts * factor);
}

/* Tokens of the micro-batch: of all ranks that divide its positions. */
static int64_t tokens_of(const tx_ctx *c, const tx_moe_call *k)
{
    return k->x.dim[0] * tx_route_parts(c);
}

/* The layer's router as this call has it. What is random is so in training alone; else later choices are dropped. */
static tx_router router_of(const tx_ctx *c, const tx_moe *w, const tx_moe_call *k)
{
    tx_router how = w->router.how;
    int64_t tokens = tokens_of(c, k);
    double factor = k->pass->generates ? 0 : k->pass->train ? w->train_factor : w->eval_factor;
    how.capacity = w->wide_capacity ? tx_moe_wide_capacity(tokens * how.k, w->n_experts, factor)
                                    : tx_moe_capacity(tokens, w->n_experts, factor * (double)how.k, w->min_capacity);
    how.b = k->pass->b;
    how.random = tx_dropout_at(k->random, 0, w->layer, TX_RANDOM_ROUTER);
    how.random.at = k->random->whole; /* the peers' positions are here, too */
    if (k->random->on) return how;
    how.noisy_second = false;
    if (how.drop == TX_DROP_RANDOM) how.drop = TX_DROP_LATER;
    return how;
}

/* n rows of room for `most`. */
static tx_tensor push_rows(tx_arena *arena, int64_t most, int64_t n, tx_tensor like)
{
    return tx_slice_rows(tx_push2(arena, like.dtype, most, like.dim[1]), 0, n);
}

/* Pushes the packed rows of x. */
static tx_status pack(tx_ctx *c, tx_arena *arena, tx_tensor *packed, const tx_gate_saved *a, tx_tensor x)
{
    *packed = push_rows(arena, a->source.dim[0], a->n, x);
    if (!a->rows) return TX_OK;
    TX_RUN(c, gather_rows, .y = *packed, .x = own_rows(a, x), .index = tx_slice1(a->source, 0, a->n),
           .div = a->choice.dim[1]);
    return TX_OK;
}

/* Rows that a rank's experts may get: all tokens of the ranks that share experts may choose them.
 * @sent the most that one of these ranks has */
static int64_t most_received(const tx_ctx *c, const tx_moe *w, const tx_router *how, int64_t tokens)
{
    const tx_grid *grid = tx_grid_of(c);
    int64_t n = tx_comm_size(tx_grid_group(grid, TX_GROUP_EXPERT)), own = w->experts.n;
    int64_t parts = tx_grid_token_parts(grid).size, each = (tokens + parts - 1) / parts;
    int64_t most = n * each * (how->k < own ? how->k : own), sharers = parts * tx_route_parts(c);
    /* micro-batches, each with capacities of its own */
    int64_t gates = sharers % n == 0 ? 1 : n % sharers ? n / sharers + 2 : n / sharers;
    if (how->capacity && gates * own * how->capacity < most) most = gates * own * how->capacity;
    return most;
}

static bool divided(const tx_moe *w)
{
    return w->experts.n < w->n_experts;
}

/* a->packed, from all ranks. */
static tx_status exchange(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, const tx_router *how, tx_tensor x)
{
    tx_dispatch *d = &a->dispatch;
    tx_tensor sent;
    TX_TRY(tx_dispatch_open(c, d, a->router.count, a->router.source.dim[0], most_received(c, w, how, x.dim[0])));
    a->packed = push_rows(&c->acts, d->room, d->n, x);
    size_t mark = tx_arena_mark(&c->scratch);
    TX_TRY(pack(c, &c->scratch, &sent, &a->router, x));
    TX_TRY(tx_dispatch_rows(c, d, a->packed, sent));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* What the experts of all ranks make of this rank's tokens. */
static tx_status made_fwd(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, const tx_router *how, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->scratch);
    a->made = push_rows(&c->acts, a->router.source.dim[0], a->router.n, x);
    if (divided(w)) {
        TX_TRY(exchange(c, w, a, how, x));
        tx_tensor made = push_rows(&c->scratch, a->dispatch.room, a->dispatch.n, x);
        a->experts.room = a->dispatch.room;
        TX_TRY(tx_experts_fwd(c, &w->experts, &a->experts, made, a->packed, a->dispatch.count));
        tx_at_part(c, EXPERTS);
        TX_TRY(tx_dispatch_back(c, &a->dispatch, a->made, made));
    } else {
        TX_TRY(pack(c, w->recompute ? &c->scratch : &c->acts, &a->packed, &a->router, x));
        a->experts.room = a->router.source.dim[0];
        TX_TRY(tx_experts_fwd(c, &w->experts, &a->experts, a->made, a->packed, a->router.count));
    }
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* From the gradient of what is made for this rank's tokens to that of their packed rows, in its place. */
static tx_status made_bwd(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, tx_tensor d, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->acts);
    if (divided(w)) {
        tx_tensor there = push_rows(&c->acts, a->dispatch.room, a->dispatch.n, d);
        TX_TRY(tx_dispatch_rows(c, &a->dispatch, there, d));
        TX_TRY(tx_experts_bwd(c, &w->experts, &a->experts, there, there, a->packed));
        tx_at_part(c, EXPERTS);
        TX_TRY(tx_dispatch_back(c, &a->dispatch, d, there));
    } else {
        tx_tensor packed = a->packed;
        if (w->recompute) TX_TRY(pack(c, &c->acts, &packed, &a->router, x));
        TX_TRY(tx_experts_bwd(c, &w->experts, &a->experts, d, d, packed));
    }
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* Auxiliary loss: E Σ_e (mean over tokens of the score) (mean of who chose it), DeepSpeed's top-1 and top-2, by k where
 * all choices count. z-loss: mean of lse². As factors of route_bwd's sums. */
static own_losses losses_of(const tx_ctx *c, const tx_moe *w, const tx_moe_call *k)
{
    double tokens = (double)tokens_of(c, k), choices = w->router.how.load_of_first ? 1 : (double)w->router.how.k;
    return (own_losses){ .aux = (double)w->n_experts / (choices * tokens * tokens), .z = 1 / tokens };
}

/* All tensor ranks have the same. */
static tx_status add_sums(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, const tx_moe_call *k)
{
    const own_losses each = losses_of(c, w, k);
    if (!k->pass->sums.data || tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR)) return TX_OK;
    TX_RUN(c, route_sums, .sums = k->pass->sums, .stats = a->router.stats, .chosen = a->router.chosen,
           .choice = a->router.choice, .aux = each.aux, .z = each.z);
    return TX_OK;
}

/* y = what the experts make of x. */
static tx_status experts_fwd(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, tx_tensor y, const tx_moe_call *k)
{
    tx_tensor x = k->x, bias = k->pass->bias.data ? k->pass->bias : w->bias.value;
    const choosing by = { router_of(c, w, k), bias, tx_grid_token_parts(tx_grid_of(c)), true };

    /* 1  choice, weight = route(x Rᵀ)   2  packed = rows of x   3  made = experts(packed)   4  y = Σ weight made */
    tx_at_part(c, ROUTER);
    TX_TRY(gate_fwd(c, &w->router, &a->router, &by, x));
    if (!k->pass->train) TX_TRY(add_sums(c, w, a, k));
    tx_at_part(c, EXPERTS);
    TX_TRY(made_fwd(c, w, a, &by.how, x));
    return weigh(c, &a->router, y, a->made, false);
}

/* dx, written, or with `more` added to: what comes before the sums.   @g of the sums */
static tx_status experts_bwd(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, const weights_gradient *g, bool more,
                             const tx_moe_call *k)
{
    size_t mark = tx_arena_mark(&c->acts);
    const own_losses each = losses_of(c, w, k),
                     own = { k->pass->scale * w->aux_coeff * each.aux, k->pass->scale * w->z_coeff * each.z };

    /* 3  dpacked   2  dx   1  dx += */
    tx_at_part(c, EXPERTS);
    TX_TRY(made_bwd(c, w, a, g->dz, k->x));
    tx_at_part(c, EXPERTS);
    if (!more) TX_TRY(clear_others(c, &a->router, k->dx));
    TX_RUN(c, combine_fwd, .y = own_rows(&a->router, k->dx), .z = g->dz, .row = a->router.row, .accumulate = more);
    tx_at_part(c, ROUTER);
    TX_TRY(gate_bwd(c, &w->router, &a->router, g->dweight, &own, k));
    TX_TRY(add_sums(c, w, a, k));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* ---- experts that take all tokens ---- */

static const own_losses no_losses;

/* What the shared expert makes, and its gate: before y is written, which may be x's memory. */
static tx_status shared_fwd(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, tx_tensor x)
{
    a->all = tx_push2(&c->acts, x.dtype, x.dim[0], x.dim[1]);
    TX_TRY(tx_mlp_fwd(c, &w->shared, &a->shared, a->all, x));
    tx_at_part(c, SHARED_GATE);
    if (!w->has_shared_gate) return TX_OK;
    const choosing by = plainly(&w->shared_gate);
    return gate_fwd(c, &w->shared_gate, &a->shared_gate, &by, x);
}

/* y += shared(x), or g(x) shared(x) */
static tx_status add_shared(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, tx_tensor y)
{
    tx_at_part(c, SHARED_GATE);
    if (w->has_shared_gate) return weigh(c, &a->shared_gate, y, a->all, true);
    TX_RUN(c, add, .y = y, .a = y, .b = a->all);
    return TX_OK;
}

/* dx, written; may be dy's memory. */
static tx_status shared_bwd(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, const tx_moe_call *k)
{
    size_t mark = tx_arena_mark(&c->acts);
    weights_gradient g = { .dz = k->dy };
    tx_at_part(c, SHARED_GATE);
    if (w->has_shared_gate) TX_TRY(weigh_bwd(c, &a->shared_gate, &g, k->dy, a->all));
    TX_TRY(tx_mlp_bwd(c, &w->shared, &a->shared, k->dx, g.dz, k->x));
    tx_at_part(c, SHARED_GATE);
    if (w->has_shared_gate) TX_TRY(gate_bwd(c, &w->shared_gate, &a->shared_gate, g.dweight, &no_losses, k));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* Behind what the experts have made, which is in the first half of a->all: the residual MLP, and the sum of both. */
static tx_status residual_fwd(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, tx_tensor y, tx_tensor x)
{
    TX_TRY(tx_mlp_fwd(c, &w->residual, &a->residual, tx_slice_rows(a->all, x.dim[0], x.dim[0]), x));
    tx_at_part(c, COEFFICIENT);
    const choosing by = plainly(&w->coefficient);
    TX_TRY(gate_fwd(c, &w->coefficient, &a->coefficient, &by, x));
    return weigh(c, &a->coefficient, y, a->all, false);
}

/* dx, written; may be dy's memory.   @g of the sum of both */
static tx_status residual_bwd(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, const weights_gradient *g,
                              const tx_moe_call *k)
{
    int64_t tokens = k->x.dim[0];
    TX_TRY(tx_mlp_bwd(c, &w->residual, &a->residual, k->dx, tx_slice_rows(g->dz, tokens, tokens), k->x));
    tx_at_part(c, COEFFICIENT);
    return gate_bwd(c, &w->coefficient, &a->coefficient, g->dweight, &no_losses, k);
}

/* ---- the layer ---- */

tx_status tx_moe_fwd(tx_ctx *c, const tx_moe *w, tx_moe_saved *a, const tx_moe_call *k)
{
    tx_tensor x = k->x, y = k->y;
    int64_t tokens = x.dim[0];
    TX_ASSERT(!w->has_shared || !w->has_residual);
    if (w->has_residual) {
        a->all = tx_push2(&c->acts, x.dtype, 2 * tokens, x.dim[1]);
        y = tx_slice_rows(a->all, 0, tokens);
    }
    if (w->has_shared) TX_TRY(shared_fwd(c, w, a, x));
    TX_TRY(experts_fwd(c, w, a, y, k));
    if (w->has_shared) return add_shared(c, w, a, y);
    return w->has_residual ? residual_fwd(c, w, a, k->y, x) : TX_OK;
}

tx_status tx_moe_bwd(tx_ctx *c, const tx_moe *w, const tx_moe_saved *a, const tx_moe_call *k)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor dy = k->dy;
    weights_gradient both, experts;
    if (w->has_residual) {
        tx_at_part(c, COEFFICIENT);
        TX_TRY(weigh_bwd(c, &a->coefficient, &both, dy, a->all));
        dy = tx_slice_rows(both.dz, 0, dy.dim[0]);
    }
    tx_at_part(c, EXPERTS);
    TX_TRY(weigh_bwd(c, &a->router, &experts, dy, a->made)); /* dx may be written now */
    if (w->has_residual)
        TX_TRY(residual_bwd(c, w, a, &both, k));
    else if (w->has_shared)
        TX_TRY(shared_bwd(c, w, a, k));
    TX_TRY(experts_bwd(c, w, a, &experts, w->has_residual || w->has_shared, k));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
