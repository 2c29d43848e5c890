/* plan.c - runs the step dry and reads the figures off. */
#include "train/plan.h"

#include <string.h>

#include "backend/trace.h"
#include "base/alloc.h"
#include "checkpoint/checkpoint.h"
#include "convert/save_as.h"
#include "nn/context_attention.h"
#include "nn/moe.h"
#include "parallel/cp.h"
#include "zero/compressed.h"
#include "zero/loco.h"
#include "zero/matrices.h"
#include "zero/zero_parts.h"

const tx_client tx_no_client;

/* ---- sizes that can be counted ---- */

/* Bounds of single options leave products of them that overflow 64 bits. An upper bound of all of them, in floating
 * point: the arithmetic of the dry run stays below it. */
static tx_status check_sizes(const tx_config *cfg, int64_t vocab_size)
{
    double h = (double)cfg->hidden_size, layers = (double)cfg->num_layers, d = (double)cfg->kv_channels;
    double widest = h + 2 * (double)cfg->ffn_hidden_size +
                    ((double)cfg->num_attention_heads + 2 * (double)cfg->num_key_value_heads) * d;
    double table =
        (double)vocab_size + (double)cfg->make_vocab_size_divisible_by + (double)cfg->max_position_embeddings;
    double params = h * (4 * layers * widest + 2 * table);
    double acts = (double)cfg->seq_length * (double)cfg->micro_batch_size * widest * 16 * (layers + 2);
    if (params + acts < 1e17) return TX_OK;
    return TX_FAIL(
        TX_ERR_ARG,
        "a model of %lld layers, hidden size %lld, with micro-batches of %lld x %lld tokens, is too large to "
        "be counted: about %.0e numbers",
        (long long)cfg->num_layers, (long long)cfg->hidden_size, (long long)cfg->micro_batch_size,
        (long long)cfg->seq_length, params + acts);
}

/* With a pipeline a pattern may be of another stage's parameters. */
static tx_status require_matches(const tx_client *client, const tx_grid *grid, bool *matched, bool *all)
{
    size_t n = (size_t)client->n_groups;
    int n_stages = tx_grid_size(grid, TX_AXIS_PIPELINE);
    memcpy(all, matched, n);
    if (n_stages > 1) TX_TRY(tx_comm_gather(tx_grid_group(grid, TX_GROUP_PIPELINE), all, matched, n));
    for (size_t k = 0; k < n; k++) {
        bool any = false;
        for (int s = 0; s < n_stages; s++) any = any || all[(size_t)s * n + k];
        if (!any) return TX_FAIL(TX_ERR_ARG, "parameter group \"%s\" matches no parameter", client->group[k].pattern);
    }
    return TX_OK;
}

static tx_status group_params(tx_params *ps, const tx_client *client, const tx_grid *grid)
{
    bool *matched;
    int n = client->n_groups;
    if (!n) return TX_OK;
    if (n < 0 || !client->group) return TX_FAIL(TX_ERR_ARG, "%d parameter groups, but there are none", n);
    TX_TRY(tx_alloc(&matched, (size_t)n * (size_t)(1 + tx_grid_size(grid, TX_AXIS_PIPELINE)), sizeof *matched,
                    "parameter groups"));
    tx_status st = tx_params_group(ps, client->group, n, matched);
    if (!st) st = require_matches(client, grid, matched, matched + n);
    tx_free(matched);
    return st;
}

static tx_status make_model(tx_model **m, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid,
                            const tx_client *client)
{
    if (client->model) return tx_client_model_create(m, cfg, client->model, grid);
    return tx_model_type_of(cfg)->create(m, cfg, vocab_size, grid);
}

tx_status tx__plan_open(tx_ctx *c, tx_model **m, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid,
                        const tx_client *client)
{
    TX_TRY(check_sizes(cfg, vocab_size));
    TX_TRY(tx_grid_ctx(c, grid, tx_device_choice_word(cfg->device), (int)cfg->threads, true));
    TX_TRY(make_model(m, cfg, vocab_size, grid, client));
    return group_params(&(*m)->params, client, grid);
}

/* ---- the step ---- */

static tx_status update(tx_ctx *c, tx_zero *z)
{
    double norm, zeros;
    const char *bad;
    tx_trace *trace = c->trace;
    TX_TRY(tx_zero_clip(z, 1, 0));
    c->trace = NULL; /* what a run does that logs it, and no other */
    TX_TRY(tx_optim_count_zeros(c, &z->optim, &zeros));
    TX_TRY(tx_optim_value_norm(c, &z->optim, &norm, &bad));
    c->trace = trace;
    return tx_zero_step(z, 0, 0);
}

/* What the groups have moved. */
typedef struct moved {
    tx_comm_volume of[TX_N_STEP_GROUPS][TX_N_COMM_OPS];
} moved;

static void read_moved(moved *out, const tx_grid *g)
{
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        memcpy(out->of[i], tx_comm_volumes(tx_grid_group(g, i)), sizeof out->of[i]);
}

/* Sets it to that of `from` and so many times the difference to it. */
static void extend(const tx_grid *g, const moved *from, const moved *to, int64_t times)
{
    for (int i = 0; i < TX_N_STEP_GROUPS; i++)
        for (int k = 0; k < TX_N_COMM_OPS && tx_comm_size(tx_grid_group(g, i)) > 1; k++) {
            const tx_comm_volume *a = &from->of[i][k], *b = &to->of[i][k];
            tx_comm_volumes(tx_grid_group(g, i))[k] =
                (tx_comm_volume){ a->calls + times * (b->calls - a->calls), a->bytes + times * (b->bytes - a->bytes) };
        }
}

static void forget_moved(const tx_grid *g)
{
    const moved none = { 0 };
    extend(g, &none, &none, 0);
}

/* An iteration of n_micro micro-batches. */
static tx_status iteration(tx_ctx *c, tx_stage *stage, tx_zero *z, int64_t n_micro)
{
    const tx_feed feed = { .units = &z->hooks };
    TX_TRY(tx_trace_mark(c, TX_STEP_BEGIN, 0, 0, false));
    TX_TRY(tx_zero_begin(z));
    tx_stage_begin(stage, &feed);
    TX_TRY(tx_stage_run(stage, n_micro, true));
    TX_TRY(tx_stage_end(stage));
    TX_TRY(tx_trace_mark(c, TX_STEP_FINISH, 0, 0, false));
    TX_TRY(tx_zero_finish(z));
    TX_TRY(tx_trace_mark(c, TX_STEP_UPDATE, 0, 0, false));
    TX_TRY(update(c, z));
    return tx_trace_mark(c, TX_STEP_END, 0, 0, false);
}

/* An iteration, of which so many micro-batches are run as show all there is: two rounds of them, as the second adds to
 * gradients that the first writes; what every further round moves is the same. */
static tx_status train(tx_ctx *c, const tx_model *m, tx_stage *stage, tx_zero *z, int64_t n_micro)
{
    const tx_grid *g = tx_grid_of(c);
    int64_t round = m->n_chunks > 1 ? tx_grid_size(g, TX_AXIS_PIPELINE) : 1;
    moved few, more;
    if (n_micro <= 3 * round) return iteration(c, stage, z, n_micro);
    TX_TRY(iteration(c, stage, z, 2 * round));
    read_moved(&few, g);
    forget_moved(g);
    TX_TRY(iteration(c, stage, z, 3 * round));
    read_moved(&more, g);
    extend(g, &few, &more, n_micro / round - 2);
    return TX_OK;
}

static tx_status find_gpu_free(const tx_ctx *c, size_t *out)
{
    size_t all;
    int n_sharing = tx_grid_of(c)->work.n_sharing;
    if (!c->device) return TX_OK;
    TX_TRY(tx_device_memory(c->device, out, &all));
    if (n_sharing > 1) *out /= (size_t)n_sharing;
    if (!*out) *out = 1; /* full */
    return TX_OK;
}

/* An evaluation, of as few micro-batches as the schedule takes. */
static tx_status score(const tx_dry_step *d, int64_t n_micro)
{
    const tx_feed feed = { .units = &d->zero->hooks };
    tx_stage_begin(d->stage, &feed);
    TX_TRY(tx_stage_run(
        d->stage, 1 < n_micro && d->m->n_chunks > 1 ? tx_grid_size(tx_grid_of(d->c), TX_AXIS_PIPELINE) : 1, false));
    return tx_stage_end(d->stage);
}

/* What steps of a curriculum's other lengths take, and of other numbers of tokens with --random-ltd; what they move is
 * not counted. Two micro-batches of each chunk, as the second adds to gradients that the first writes. */
static tx_status step_other_lengths(const tx_dry_step *d, int64_t n_micro)
{
    const tx_config *cfg = d->cfg;
    const tx_grid *g = tx_grid_of(d->c);
    int64_t round = d->m->n_chunks > 1 ? tx_grid_size(g, TX_AXIS_PIPELINE) : 1, before = cfg->seq_length,
            kept_before = before, last;
    int64_t end = cfg->train_iters ? cfg->train_iters : INT64_MAX - 1;
    moved done;
    read_moved(&done, g);
    for (int64_t i = 1; i <= end; i = last == INT64_MAX ? last : last + 1) {
        int64_t until, length = tx_config_sample_length(cfg, i, &last), kept = tx_config_kept(cfg, i, &until);
        if (until < last) last = until;
        if (length == before && kept == kept_before) continue;
        before = length;
        kept_before = kept;
        tx_stage_set_length(d->stage, length, kept);
        TX_TRY(iteration(d->c, d->stage, d->zero, n_micro < 2 * round ? n_micro : 2 * round));
    }
    tx_stage_set_length(d->stage, cfg->seq_length, cfg->seq_length);
    extend(g, &done, &done, 0);
    return TX_OK;
}

void tx__plan_host_stacks(tx_memory *m, const tx_config *cfg, size_t bytes)
{
    m->host_activations = cfg->fpdt_nvme_path ? 0 : bytes;
    m->nvme_activations = cfg->fpdt_nvme_path ? bytes : 0;
}

tx_status tx__plan_step(tx_memory *out, tx_volume_sizes *sizes, const tx_dry_step *d)
{
    tx_ctx *c = d->c;
    const tx_config *cfg = d->cfg;
    const tx_grid *g = tx_grid_of(c);
    tx_stage *stage = d->stage;
    tx_zero *zero = d->zero;
    int64_t n_micro = d->train ? cfg->global_batch_size / (cfg->micro_batch_size * tx_grid_size(g, TX_AXIS_DATA)) : 1;
    TX_ASSERT(c->dry);
    TX_TRY(tx_zero_open(
        zero, c, &d->m->params,
        &(tx_zero_args){ .cfg = cfg, .dtype = d->m->dtype, .train = d->train, .optimizer = d->client->optimizer }));
    TX_TRY(tx_stage_open(stage, c, d->m, cfg, n_micro, d->train));
    TX_TRY(score(d, n_micro));
    forget_moved(g);
    if (d->train) TX_TRY(train(c, d->m, stage, zero, n_micro));
    if (d->train && d->every_length) TX_TRY(step_other_lengths(d, n_micro));
    if (sizes) *sizes = tx__plan_volume_sizes(d->m, cfg, g, n_micro, cfg->seq_length, zero);
    if (sizes) sizes->teacher = tx__plan_teacher_volume(&stage->teacher, g, cfg->seq_length);
    size_t peak, host;
    tx_stage_stacks(stage, &peak);
    tx_stage_host_stacks(stage, &host);
    *out = tx__plan_memory(zero, peak, c->scratch.peak);
    tx__plan_host_stacks(out, cfg, host);
    out->teacher = tx_teacher_bytes(&stage->teacher);
    return find_gpu_free(c, &out->gpu_free);
}

/* More than may be live cannot wait; one bucket is in use then and one is coming, of at most so many elements. */
static void bound_waiting(tx_volume_sizes *s, const tx_config *cfg, int64_t most)
{
    int64_t waiting = 0;
    for (int k = 0; k < TX_N_SHARED; k++)
        for (int i = 0; i < TX_N_GATHERED; i++) waiting += s->shared[k].gathered[i][1].numel;
    s->bounded = waiting && waiting + 2 * most > cfg->zero_max_live_parameters;
    for (int k = 0; k < TX_N_SHARED && s->bounded; k++)
        for (int i = 0; i < TX_N_GATHERED; i++) {
            tx_volume_buckets *of = s->shared[k].gathered[i];
            of[0].n += of[1].n;
            of[0].numel += of[1].numel;
            for (int w = 0; w < 2; w++) of[0].words[w] += of[1].words[w];
            of[1] = (tx_volume_buckets){ 0 };
        }
}

static int shared_of(const tx_bucket *b)
{
    return b->group == TX_GROUP_DATA ? TX_SHARED_DATA : TX_SHARED_EXPERTS;
}

static void add_bucket(tx_volume_buckets *to, const tx_zero *z, const tx_bucket *b)
{
    to->n++;
    to->numel += b->numel;
    for (int i = 0; i < 2; i++) to->words[i] += tx_quantized_words(tx_bucket_part(&z->flat, b), i ? 4 : 8);
}

/* What ZeRO-3 gathers for each unit of parameters: those that are not whole always. A unit waits for its backward where
 * no more is used until then than --zero-max-reuse-distance: what is behind it, forward and backward. */
static void count_gathered(tx_volume_sizes *s, const tx_config *cfg, const tx_zero *z)
{
    static const tx_gathered what[] = { [TX_UNIT_LAYER] = TX_GATHERED_LAYER,
                                        [TX_UNIT_WORDS] = TX_GATHERED_WORDS,
                                        [TX_UNIT_EMBEDDING] = TX_GATHERED_EMBEDDING,
                                        [TX_UNIT_HEAD] = TX_GATHERED_OUTPUT };
    const tx_params *ps = z->ps;
    int64_t behind = 0, most = 0;
    for (int i = ps->n_units - 1; i >= 0; i--) {
        const tx_unit *u = &ps->unit[i];
        const tx_bucket *b[TX_N_SHARED][2] = { { NULL } };
        bool waits = 2 * behind < cfg->zero_max_reuse_distance;
        int64_t all = 0;
        for (int row = u->first; row < u->end; row++) {
            const tx_bucket *its = &z->flat.bucket[z->flat.of_row[row]];
            if (!its->persistent) b[shared_of(its)][its->frozen] = its;
            behind += ps->param[row].numel;
        }
        for (int k = 0; k < 2 * TX_N_SHARED; k++) {
            const tx_bucket *its = b[k / 2][k % 2];
            if (!its) continue;
            add_bucket(&s->shared[k / 2].gathered[what[u->kind]][waits], z, its);
            all += its->numel;
        }
        if (all > most) most = all;
    }
    bound_waiting(s, cfg, most);
}

/* Tensors whose norms the optimizer needs, if it needs any. */
static void count_measured(tx_volume_sizes *s, const tx_zero *z)
{
    static const int group[TX_N_SHARED] = {
        [TX_SHARED_DATA] = TX_GROUP_DATA, [TX_SHARED_EXPERTS] = TX_GROUP_EXPERT_DATA
    };
    for (int k = 0; k < TX_N_SHARED; k++) {
        s->shared[k].measured = z->norms.group[group[k]].end - z->norms.group[group[k]].first;
        s->shared[k].factors = z->factors.group[k].end - z->factors.group[k].first;
        s->shared[k].split_factors = z->factors.group[k].whole - z->factors.group[k].first;
        s->shared[k].measured_split = z->norms.group[group[k]].whole - z->norms.group[group[k]].first;
        s->shared[k].most_split = z->compressed.together && z->compressed.step.own ? s->shared[k].measured_split : 0;
    }
}

/* Elements of a layer's adapters whose gradients a tensor rank has a part of. */
static int64_t adapters(const tx_model *m)
{
    const tx_params *ps = &m->params;
    int64_t n = 0;
    for (int u = 0; u < ps->n_units && !n; u++)
        for (int i = ps->unit[u].first; i < ps->unit[u].end; i++)
            if (ps->param[0].frozen && !ps->param[i].frozen && ps->param[i].over_tp == TX_HEADS)
                n += ps->param[i].numel;
    return n;
}

/* What of a volume's sizes ZeRO decides. */
static void read_zero(tx_volume_sizes *s, const tx_config *cfg, const tx_zero *z)
{
    s->zero = z->stage;
    s->reduce_every_micro_batch = z->reduce_every_micro_batch;
    s->scatters = cfg->zero_reduce_scatter;
    s->grad = (int64_t)tx_dtype_size(z->grad_type);
    s->sum = (int64_t)tx_dtype_size(z->sum_type);
    s->gathers = cfg->zero_allgather_partitions;
    s->signs = z->compressed.step.own;
    s->alone = s->signs && !z->compressed.step.averages;
    s->scales = z->compressed.together && z->compressed.step.begins && z->compressed.goes;
    s->quantized_weights = z->quantized.weights;
    s->quantized_gradients = z->quantized.gradients;
    count_measured(s, z);
    for (int row = 0; row < z->ps->n; row++)
        if (z->ps->param[row].tied && !z->ps->param[row].frozen)
            s->ends = tx_bucket_part(&z->flat, &z->flat.bucket[z->flat.of_row[row]]);
    for (int k = 0; k < z->flat.n_trained; k++) {
        const tx_bucket *b = &z->flat.bucket[k];
        add_bucket(&s->shared[shared_of(b)].all, z, b);
        if (b->persistent) add_bucket(&s->shared[shared_of(b)].whole, z, b);
        if (z->compressed.on) {
            tx_compressed_size of = tx_zero_compressed_size(z, k);
            s->shared[shared_of(b)].words += of.words;
            s->shared[shared_of(b)].averages += of.tensors > 0;
            s->shared[shared_of(b)].tensors += of.tensors;
        }
        if (tx_zero_has_matrix(z, k)) add_bucket(&s->shared[shared_of(b)].matrices, z, b);
    }
    tx_zero_matrices_volume(z, s->matrices);
    count_gathered(s, cfg, z);
}

/* Products that weigh rows, in a stage's layers with experts, and the weights of a token. */
static void count_gates(tx_volume_sizes *s, const tx_model *m, const tx_config *cfg)
{
    for (int k = 0; k < m->n_chunks; k++)
        for (int64_t i = m->chunk[k].first; i < m->chunk[k].end; i++) {
            const tx_moe_shape is = tx_config_moe(cfg, i);
            if (is.n_experts == 1) continue;
            s->n_gates += 1 + is.residual + is.shared_gate;
            s->n_choices += is.k + (is.residual ? 2 : 0) + is.shared_gate;
        }
}

/* Of a micro-batch, in training or in evaluation. */
static int64_t capacity_of(const tx_moe_shape *is, int64_t tokens, double factor)
{
    if (!is->deepspeed) return tx_moe_wide_capacity(tokens * is->k, is->n_experts, factor);
    return tx_moe_capacity(tokens, is->n_experts, factor * (double)is->k, is->min_capacity);
}

/* What a router of ranks that divide positions tells the others. */
static void count_router(tx_comm_volume *loads, tx_comm_volume *logits, const tx_moe_shape *is, int64_t tokens,
                         double factor)
{
    bool all = capacity_of(is, tokens, factor) > 0;
    tx_comm_volume *v = all ? logits : loads;
    v->calls++;
    v->bytes += 4 * is->n_experts * (all ? tokens : 1);
}

static void count_routers(tx_volume_sizes *s, const tx_model *m, const tx_config *cfg)
{
    for (int k = 0; k < m->n_chunks; k++)
        for (int64_t i = m->chunk[k].first; i < m->chunk[k].end; i++) {
            const tx_moe_shape is = tx_config_moe(cfg, i);
            bool again = i - m->chunk[k].first < m->recompute.n_layers;
            for (int of = 0; of <= again && is.n_experts > 1; of++)
                count_router(&s->loads[of], &s->logits[of], &is, s->b * s->s * s->c, is.train_factor);
        }
}

/* Layers whose experts ranks divide, and the rows that these have for each other. */
static void count_routed(tx_volume_sizes *s, const tx_model *m, const tx_config *cfg, const tx_grid *g)
{
    int parts = tx_grid_token_parts(g).size;
    int64_t tokens = s->b * s->s, each = (tokens + parts - 1) / parts, all = tokens * s->c;
    s->drops = tokens % parts;
    for (int k = 0; k < m->n_chunks; k++)
        for (int64_t i = m->chunk[k].first; i < m->chunk[k].end; i++) {
            const tx_moe_shape is = tx_config_moe(cfg, i);
            bool again = i - m->chunk[k].first < m->recompute.n_layers;
            int64_t rows = each * is.k, room = is.n_experts * capacity_of(&is, all, is.train_factor);
            if (is.n_experts == 1) continue;
            s->drops = s->drops || room;
            for (int of = 0; of <= again; of++) {
                s->n_routed[of]++;
                s->rows[of] += s->e * (room && room < rows ? room : rows);
            }
        }
}

/* Parameters of a norm. */
static int64_t norm_size(const tx_model *m, const tx_config *cfg)
{
    bool beta = cfg->normalization != TX_NORMALIZATION_RMSNORM && !cfg->disable_norm_bias;
    return beta ? 2 * m->hidden : m->hidden;
}

/* Of a model's layer, elements of a position that ranks which divide positions send each other. */
static void measure_context(int64_t *heads_sent, int64_t *keys_sent, const tx_model *m, enum tx_cp_comm how,
                            const tx_grid *g)
{
    int64_t t = tx_grid_size(g, TX_AXIS_TENSOR), n_heads = m->n_heads / t, n_groups = m->n_groups / t;
    int64_t c = tx_grid_size(g, TX_AXIS_CONTEXT);
    if (c == 1) return;
    if (how == TX_CP_COMM_A2A) *heads_sent = tx_context_heads_sent(n_heads, n_groups, c) * m->head_dim;
    if (how == TX_CP_COMM_A2A_P2P) *heads_sent = tx_context_heads_sent(n_heads, n_groups, g->heads) * m->head_dim;
    if (how != TX_CP_COMM_A2A) *keys_sent = 2 * (n_groups / (g->heads ? g->heads : 1)) * m->head_dim;
}

static void add_context(tx_volume_sizes *z, const tx_model *m, const tx_config *cfg, const tx_grid *g)
{
    enum tx_cp_comm how = tx_config_cp_comm(cfg);
    z->c = tx_grid_size(g, TX_AXIS_CONTEXT);
    z->heads = g->heads;
    z->keys_gathered = how == TX_CP_COMM_ALLGATHER;
    z->keys_kept = m->chunking.positions;
    measure_context(&z->heads_sent, &z->keys_sent, m, how, g);
}

tx_volume_sizes tx__plan_volume_sizes(const tx_model *m, const tx_config *cfg, const tx_grid *g, int64_t n_micro,
                                      int64_t s, const tx_zero *z)
{
    int64_t b = cfg->micro_batch_size, n_layers = 0, n_again = 0, n_gathered = 0, norm = norm_size(m, cfg);
    int64_t chunk = m->chunking.positions;
    const tx_recompute *r = &m->recompute;
    tx_batch batch = { .chunk = 0 };
    for (int k = 0; k < m->n_chunks; k++) {
        int64_t n = m->chunk[k].end - m->chunk[k].first, again = n < r->n_layers ? n : r->n_layers;
        n_layers += n;
        n_again += again;
        if (r->divided) n_gathered += (again + r->group - 1) / r->group;
    }
    tx_volume_sizes sizes = {
        .t = tx_grid_size(g, TX_AXIS_TENSOR),
        .p = tx_grid_size(g, TX_AXIS_PIPELINE),
        .r = tx_grid_sharers(g),
        .near = tx_comm_size(tx_grid_group(g, TX_GROUP_NEAR)),
        .far = tx_comm_size(tx_grid_group(g, TX_GROUP_FAR)),
        .mics = z->mics,
        .e = tx_comm_size(tx_grid_group(g, TX_GROUP_EXPERT)),
        .r_experts = tx_comm_size(tx_grid_group(g, TX_GROUP_EXPERT_DATA)),
        .stage = tx_grid_rank(g, TX_AXIS_PIPELINE),
        .sequence = g->sequence,
        .s = tx_cp_rows(g, s),
        .b = b,
        .h = m->hidden,
        .n_micro = n_micro,
        .n_chunks = m->n_chunks,
        .n_layers = n_layers,
        .n_again = n_again + (chunk ? n_layers : 0),
        .n_positions_chunks = chunk ? (s + chunk - 1) / chunk : 1,
        .n_gathered = n_gathered,
        .value = (int64_t)tx_dtype_size(m->dtype),
        .stream = (int64_t)tx_dtype_size(m->stream),
        .norm = norm,
        .layer_norms = tx_config_layer_norms(cfg),
        .embedding_norm = cfg->embed_layernorm  ? 2 * m->hidden
                          : cfg->post_layernorm ? norm
                                                : 0,
        .last_norm = cfg->post_layernorm ? 0 : norm,
        .head_norms = cfg->qk_layernorm ? 2 * norm / m->hidden * m->head_dim : 0,
        .whole_norms = cfg->qk_layernorm_whole,
        .frozen = cfg->lora_rank > 0,
        .adapters = adapters(m),
        .positions = cfg->embed_layernorm && cfg->add_position_embedding,
        .tied = !cfg->untie_embeddings_and_output_weights,
    };
    add_context(&sizes, m, cfg, g);
    count_gates(&sizes, m, cfg);
    if (sizes.e > 1) count_routed(&sizes, m, cfg, g);
    if (sizes.c > 1) count_routers(&sizes, m, cfg);
    m->type->shape(m, cfg, &batch, tx_cp_rows(g, s), b);
    sizes.head_rows = batch.label.dim[0];
    sizes.head_chunks = tx_head_loss_chunks(sizes.head_rows, m->vocab_padded / tx_grid_size(g, TX_AXIS_TENSOR),
                                            m->dtype, z->c->device != NULL);
    sizes.head_selects = batch.row.data;
    read_zero(&sizes, cfg, z);
    return sizes;
}

tx_volume_teacher tx__plan_teacher_volume(const tx_teacher *t, const tx_grid *g, int64_t s)
{
    if (!t->m) return (tx_volume_teacher){ 0 };
    tx_volume_teacher v = { .h = t->m->hidden,
                            .value = (int64_t)tx_dtype_size(t->m->dtype),
                            .stream = (int64_t)tx_dtype_size(t->m->stream),
                            .whole_norms = t->cfg->qk_layernorm_whole };
    v.words = t->cfg->embed_layernorm || t->cfg->post_layernorm ? v.value : v.stream;
    for (int k = 0; k < t->m->n_chunks; k++) v.n_layers += t->m->chunk[k].end - t->m->chunk[k].first;
    measure_context(&v.heads_sent, &v.keys_sent, t->m, tx_config_cp_comm(t->cfg), g);
    for (int k = 0; k < t->m->n_chunks && tx_grid_size(g, TX_AXIS_CONTEXT) > 1; k++)
        for (int64_t i = t->m->chunk[k].first; i < t->m->chunk[k].end; i++) {
            const tx_moe_shape is = tx_config_moe(t->cfg, i);
            int64_t tokens = t->cfg->micro_batch_size * s;
            if (is.n_experts > 1) count_router(&v.loads, &v.logits, &is, tokens, is.eval_factor);
        }
    return v;
}

/* Of a checkpoint what it is of, without the numbers; returns how many. */
static int list_parts(const tx_zero *z, tx_ckpt_part part[TX_CKPT_MAX_PARTS])
{
    tx_zero_part own[TX_ZERO_MAX_PARTS];
    const bool optim = !z->cfg->no_save_optim;
    int n = tx_zero_parts(z, optim, own), errors = optim ? tx_zero_error_parts(z) : 0;
    for (int i = 0; i < n; i++) part[i] = (tx_ckpt_part){ .rows = own[i].rows, .kept = own[i].of_rows };
    for (int i = 0; i < errors; i++) part[n++] = (tx_ckpt_part){ .rows = NULL };
    for (int hop = 0; hop < TX_LOCO_HOPS && optim && tx_save_kind(z->cfg) == TX_CKPT_NATIVE; hop++) {
        tx_ckpt_part p = { .rows = z->ps };
        if (tx_zero_loco_part(z, hop, &p.name, &p.kept)) part[n++] = p;
    }
    return n;
}

int64_t tx__plan_saved_numel(const tx_zero *z)
{
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    return tx_checkpoint_parts_numel(z->ps, tx_zero_kept(z), part, list_parts(z, part));
}

int64_t tx__plan_copy_numel(const tx_zero *z)
{
    tx_ckpt_part part[TX_CKPT_MAX_PARTS];
    if (!z->train || !z->cfg->async_save || !tx_zero_savers(z)) return 0;
    return tx_checkpoint_copy_numel(z->ps, tx_zero_kept(z), part, list_parts(z, part));
}

/* The parameter that is in memory while a rank's files of another format are written (convert/save_as.h). */
static size_t saved_parameter_bytes(const tx_zero *z)
{
    if (!z->train || !z->cfg->save || tx_save_kind(z->cfg) == TX_CKPT_NATIVE) return 0;
    return (size_t)tx_params_largest_whole(z->ps) * sizeof(float);
}

tx_memory tx__plan_memory(const tx_zero *zero, size_t activations, size_t workspace)
{
    tx_zero_memory z = tx_zero_memory_of(zero);
    return (tx_memory){ .params = z.params,
                        .persistent = z.persistent,
                        .gathered = z.gathered,
                        .grads = z.grads,
                        .buckets = z.buckets,
                        .optimizer = z.optimizer,
                        .host = z.host,
                        .passing = z.disk_buffers,
                        .nvme = z.nvme,
                        .saving = (size_t)tx__plan_copy_numel(zero) * sizeof(float) + saved_parameter_bytes(zero),
                        .activations = activations,
                        .workspace = workspace + z.matrices + z.compressed + z.quantized };
}

size_t tx_memory_total(const tx_memory *m)
{
    return m->params + m->persistent + m->gathered + m->grads + m->buckets + m->optimizer + m->teacher +
           m->activations + m->workspace + m->host_activations + m->host + m->passing + m->saving;
}

size_t tx_memory_disk(const tx_memory *m)
{
    return m->nvme + m->nvme_activations;
}

size_t tx_memory_gpu(const tx_memory *m)
{
    return m->gpu_free ? tx_memory_total(m) - m->host_activations - m->host - m->passing - m->saving : 0;
}

size_t tx_memory_limited(const tx_memory *m)
{
    return m->gpu_free ? tx_memory_gpu(m) : tx_memory_total(m);
}

size_t tx_memory_states(const tx_memory *m)
{
    return m->params + m->grads + m->optimizer + m->host + m->nvme;
}

/* As tx_zero says in which stage what is divided. */
tx_zero_formula tx__plan_formula(const tx_zero *z)
{
    int value = (int)tx_dtype_size(z->dtype), grad = (int)tx_dtype_size(z->grad_type),
        master = z->dtype == TX_F32 ? 0 : 4;
    tx_zero_formula f = { .stage = z->stage,
                          .n_ranks = z->flat.ranks[TX_GROUP_DATA].n,
                          .n_expert_ranks = z->flat.ranks[TX_GROUP_EXPERT_DATA].n };
    for (int row = 0; row < z->ps->n; row++) {
        const tx_param *p = &z->ps->param[row];
        if (p->frozen) {
            f.n_frozen += p->numel;
            continue;
        }
        f.n_params += p->numel;
        if (p->reduce_group != TX_GROUP_DATA) f.n_expert_params += p->numel;
    }
    f.whole = (z->stage < 3 ? value : 0) + (z->stage == 0 || !z->reduce_every_micro_batch ? grad : 0);
    f.divided = value + grad + master - f.whole;
    f.frozen = value;
    for (int k = 0; k < z->n_state; k++) {
        const tx_state_table *t = &z->table[k];
        if (t->even) f.divided += 4;
        f.n_each += t->n_each;
        f.n_some += t->n_divided[0];
        f.n_expert_some += t->n_divided[1];
    }
    return f;
}

double tx_zero_formula_bytes(const tx_zero_formula *f)
{
    double of_ranks = (double)(f->n_params - f->n_expert_params) / f->n_ranks;
    if (f->n_expert_params) of_ranks += (double)f->n_expert_params / f->n_expert_ranks;
    double some = (double)(f->n_some - f->n_expert_some) / f->n_ranks;
    if (f->n_expert_some) some += (double)f->n_expert_some / f->n_expert_ranks;
    double frozen = (double)f->n_frozen * f->frozen / (f->stage == 3 ? f->n_ranks : 1);
    return frozen + (double)f->n_params * f->whole + f->divided * of_ranks + 4 * (some + (double)f->n_each);
}

/* ---- the figures ---- */

const char *const tx_param_kind_names[TX_N_PARAM_KINDS] = { "embedding", "attention", "mlp", "norms", "heads" };

/* By the names that the parameter table has. */
static tx_param_kind kind_of(const char *name)
{
    if (strstr(name, "layernorm") || strstr(name, ".norm.")) return TX_PARAM_NORM;
    if (strstr(name, "self_attention.")) return TX_PARAM_ATTENTION;
    if (strstr(name, ".mlp.")) return TX_PARAM_MLP;
    if (strstr(name, "embedding") || strstr(name, "output_layer")) return TX_PARAM_EMBEDDING;
    TX_ASSERT(strstr(name, "_head.") || strstr(name, "pooler."));
    return TX_PARAM_HEADS;
}

/* Whether each row is of a token. */
static bool is_of_tokens(const char *name)
{
    return strstr(name, "word_embeddings.weight") || strstr(name, "output_layer.weight") ||
           strstr(name, "lm_head.bias");
}

/* Of the whole model, on one rank; n_padding of the rows that its ranks pad the vocabulary with. */
static tx_status count_params(tx_run_plan *p, const tx_config *cfg, int64_t vocab_size, int64_t n_rows)
{
    tx_model *m;
    TX_TRY(tx_model_type_of(cfg)->create(&m, cfg, vocab_size, NULL));
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *q = &m->params.param[i];
        int64_t row = q->numel / q->dim[0];
        p->n_params[kind_of(q->name)] += row * q->rows_logical;
        if (is_of_tokens(q->name)) p->n_padding += row * n_rows;
    }
    m->type->destroy(m);
    return TX_OK;
}

double tx_flops_told(const tx_config *cfg, const tx_model *m, int64_t s, int64_t b)
{
    bool exact = cfg->flops_formula == TX_FLOPS_EXACT;
    return exact ? tx_model_flops(m, s, b) : tx_model_flops_2021(m, s, b);
}

static void read_model(tx_run_plan *p, const tx_model *m, const tx_config *cfg)
{
    int64_t s = cfg->seq_length, batch = cfg->global_batch_size;
    p->vocab_padded = m->vocab_padded;
    p->tokens = s * batch;
    p->flops = tx_model_flops(m, s, batch);
    p->flops_layers = p->flops - tx_model_weight_flops(m) * (double)s * (double)batch * m->head_products;
    p->flops_again = tx_model_flops_again(m, s, batch);
    p->flops_told = tx_flops_told(cfg, m, s, batch);
    p->flops_2021 = tx_model_flops_2021(m, s, batch);
    p->first_layer = m->chunk[0].first;
    for (int k = 0; k < m->n_chunks; k++) p->n_layers += m->chunk[k].end - m->chunk[k].first;
}

/* An iteration more, written down: of as few micro-batches as have a first one, one in the middle and a last one in
 * every chunk. Groups become their names. */
static tx_status trace(tx_trace *t, const tx_dry_step *d)
{
    const tx_grid *g = tx_grid_of(d->c);
    int64_t p = tx_grid_size(g, TX_AXIS_PIPELINE), n = d->m->n_chunks > 1 ? (p < 3 ? 2 * p : p) : 3;
    int64_t n_micro = d->cfg->global_batch_size / (d->cfg->micro_batch_size * tx_grid_size(g, TX_AXIS_DATA));
    d->c->trace = t;
    tx_status st = iteration(d->c, d->stage, d->zero, n < n_micro ? n : n_micro);
    d->c->trace = NULL;
    for (tx_trace_event *e = t->event; e < t->event + t->n; e++) {
        const void *group = e->group;
        for (int i = 0; i < TX_N_GROUPS; i++)
            if (group && group == tx_grid_group(g, i)) e->group = &tx_group_names[i];
    }
    return st;
}

static tx_status plan_stage(tx_run_plan *out, tx_trace *t, const tx_config *cfg, int64_t vocab_size, int stage,
                            bool counts)
{
    tx_ctx c = { 0 };
    tx_model *m = NULL;
    tx_stage run = { 0 };
    tx_zero zero = { 0 };
    tx_grid grid = { 0 };
    tx_run_plan p = { .stage = stage };
    const tx_layout layout = tx_layout_of(cfg);
    const int first[TX_N_AXES] = { [TX_AXIS_PIPELINE] = stage };
    tx_status st;
    TX_GOTO(tx_grid_plan(&grid, tx_layout_rank(&layout, first), &layout));
    TX_GOTO(tx__plan_open(&c, &m, cfg, vocab_size, &grid, &tx_no_client));
    const tx_dry_step step = { .c = &c,
                               .m = m,
                               .cfg = cfg,
                               .client = &tx_no_client,
                               .train = true,
                               .every_length = counts && !t, /* not of the many plans of a search */
                               .stage = &run,
                               .zero = &zero };
    TX_GOTO(tx__plan_step(&p.memory, &p.sizes, &step));
    if (counts) TX_GOTO(count_params(&p, cfg, vocab_size, m->vocab_padded - m->n_valid));
    tx_volume_read(&p.volume, &grid);
    if (t) TX_GOTO(trace(t, &step));
    p.formula = tx__plan_formula(&zero);
    p.sent = tx_volume_sent(&p.volume, &p.sizes);
    read_model(&p, m, cfg);
    *out = p;
out:
    tx_stage_close(&run);
    tx_zero_close(&zero);
    if (m) m->type->destroy(m);
    tx_ctx_deinit(&c);
    tx_grid_close(&grid);
    return st;
}

tx_status tx_plan_stage(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage)
{
    return plan_stage(out, NULL, cfg, vocab_size, stage, true);
}

tx_status tx__plan_sizes(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage)
{
    return plan_stage(out, NULL, cfg, vocab_size, stage, false);
}

tx_status tx_plan_traced(tx_run_plan *out, tx_trace *t, const tx_config *cfg, int64_t vocab_size, int stage)
{
    return plan_stage(out, t, cfg, vocab_size, stage, true);
}

int tx__plan_stages(const tx_config *cfg, int stage[TX__PLAN_STAGES])
{
    int n = (int)cfg->pipeline_model_parallel_size, k = 0;
    for (int i = 0; i < n; i = i && i < n - 1 ? n - 1 : i + 1) stage[k++] = i;
    return k;
}

/* Of the stages between the first and the last the first one takes most: none behind it has more layers (tx_pp_layers)
 * or more micro-batches on their way, and all else of them is alike. */
tx_status tx_plan_run(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size)
{
    int stage[TX__PLAN_STAGES], n = tx__plan_stages(cfg, stage);
    TX_TRY(tx_plan_stage(out, cfg, vocab_size, 0));
    for (int i = 1; i < n; i++) {
        tx_run_plan next;
        TX_TRY(tx_plan_stage(&next, cfg, vocab_size, stage[i]));
        double sent = next.sent > out->sent ? next.sent : out->sent;
        if (tx_memory_limited(&next.memory) > tx_memory_limited(&out->memory)) *out = next;
        out->sent = sent;
    }
    return TX_OK;
}
