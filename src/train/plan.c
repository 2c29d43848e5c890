/* plan.c - runs the step dry and reads the figures off. */
#include "train/plan.h"

#include <string.h>

#include "base/alloc.h"
#include "train/gradients.h"

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

tx_status tx__plan_open(tx_ctx *c, tx_model **m, const tx_config *cfg, int64_t vocab_size, const tx_grid *grid)
{
    TX_TRY(check_sizes(cfg, vocab_size));
    TX_TRY(tx_ctx_init(c, cfg->backend, (int)cfg->threads));
    c->grid = grid;
    return tx_model_type_find("gpt")->create(m, cfg, vocab_size, grid);
}

/* ---- the step ---- */

tx_status tx__plan_optim_ranges(tx_optim_range **out, const tx_params *ps)
{
    tx_optim_range *range;
    TX_TRY(tx_alloc(&range, (size_t)ps->n, sizeof *range, "the optimizer's groups"));
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        range[i] = (tx_optim_range){ .offset = p->offset,
                                     .numel = p->numel,
                                     .n_real = p->numel / p->dim[0] * p->rows_logical,
                                     .decay = p->decay == TX_DECAY,
                                     .counted = p->counted,
                                     .name = p->name };
    }
    *out = range;
    return TX_OK;
}

static tx_status update(tx_ctx *c, const tx_model *m, const tx_config *cfg)
{
    tx_optim o = { .type = tx_optim_type_find(cfg->optimizer),
                   .cfg = cfg,
                   .ranks = tx_grid_of(c)->model,
                   .n_ranges = m->params.n,
                   .value = TX_DRY_ADDRESS,
                   .grad = TX_DRY_ADDRESS,
                   .block_sums = TX_DRY_ADDRESS,
                   .numel = m->params.numel };
    if (m->dtype != TX_F32) o.low = tx_tensor1(TX_DRY_ADDRESS, m->dtype, o.numel);
    for (int i = 0; i < o.type->n_state; i++) o.state[i] = TX_DRY_ADDRESS;
    double norm, zeros;
    const char *bad;
    tx_status st;
    TX_TRY(tx__plan_optim_ranges(&o.range, &m->params));
    TX_GOTO(tx_optim_grad_norm(c, &o, &norm, &bad));
    TX_GOTO(tx_optim_count_zeros(c, &o, &zeros));
    TX_GOTO(tx_optim_value_norm(c, &o, &norm, &bad));
    TX_GOTO(tx_optim_step_all(c, &o, 0, 0, 1));
out:
    tx_free(o.range);
    return st;
}

/* Volumes of a step's micro-batches, from so many to all of them. */
static void scale_volumes(const tx_grid *g, int64_t from, int64_t to)
{
    for (int i = 0; i < TX_N_GROUPS; i++) {
        tx_comm *group = tx_grid_group(g, i);
        if (tx_comm_size(group) == 1) continue;
        for (int k = 0; k < TX_N_COMM_OPS; k++) {
            tx_comm_volume *v = &tx_comm_volumes(group)[k];
            *v = (tx_comm_volume){ v->calls / from * to, v->bytes / from * to };
        }
    }
}

static void forget_volumes(const tx_grid *g)
{
    scale_volumes(g, 1, 0);
}

/* The sums of gradients, which come once in an iteration: what they move among tensor ranks is kept apart until the
 * micro-batches' volumes are those of all. */
typedef struct sums {
    tx_gradients gradients;
    tx_comm_volume once; /* all-reduces */
} sums;

/* A tx_grads_done_fn. */
static tx_status sum_done(void *user, int first, int end)
{
    sums *s = user;
    tx_comm *tensor = s->gradients.grid->tensor;
    if (tx_comm_size(tensor) == 1) return tx_gradients_done(&s->gradients, first, end);
    tx_comm_volume *v = &tx_comm_volumes(tensor)[TX_COMM_ALL_REDUCE], before = *v;
    TX_TRY(tx_gradients_done(&s->gradients, first, end));
    s->once.calls += v->calls - before.calls;
    s->once.bytes += v->bytes - before.bytes;
    *v = before;
    return TX_OK;
}

static void add_once(const sums *s)
{
    tx_comm *tensor = s->gradients.grid->tensor;
    if (tx_comm_size(tensor) == 1) return;
    tx_comm_volume *v = &tx_comm_volumes(tensor)[TX_COMM_ALL_REDUCE];
    *v = (tx_comm_volume){ v->calls + s->once.calls, v->bytes + s->once.bytes };
}

/* An iteration of n_micro micro-batches, of which `some` are run. */
static tx_status train(tx_ctx *c, const tx_model *m, const tx_config *cfg, tx_stage *stage, int64_t some,
                       int64_t n_micro, int64_t *n_buckets)
{
    sums s = { .once = { 0 } };
    tx_stage_hooks h = { .done = sum_done, .user = &s };
    tx_status st;
    TX_TRY(tx_gradients_open(&s.gradients, c, &m->params, TX_DRY_ADDRESS, cfg->ddp_bucket_size, false));
    *n_buckets = s.gradients.n_buckets;
    TX_GOTO(tx_params_zero_grad(c, &m->params));
    TX_GOTO(tx_stage_run(stage, some, true, &h));
    scale_volumes(tx_grid_of(c), some, n_micro);
    add_once(&s);
    TX_GOTO(tx_gradients_finish(&s.gradients));
    TX_GOTO(update(c, m, cfg));
out:
    tx_gradients_close(&s.gradients);
    return st;
}

tx_status tx__plan_step(tx_memory *out, tx_volume_sizes *sizes, tx_ctx *c, tx_model *m, const tx_config *cfg,
                        bool is_training, tx_stage *stage)
{
    const tx_grid *g = tx_grid_of(c);
    int64_t all = is_training ? cfg->global_batch_size / (cfg->micro_batch_size * g->dp.size) : 1, n_buckets = 0;
    int64_t some = 2 * g->pp.size * m->n_chunks; /* the second adds to gradients that the first writes */
    if (some > all) some = all;
    TX_ASSERT(c->dry);
    tx_params_bind(&m->params, TX_DRY_ADDRESS, m->dtype, is_training ? TX_DRY_ADDRESS : NULL);
    const tx_stage_hooks none = { 0 };
    TX_TRY(tx_stage_open(stage, c, m, cfg, all, is_training));
    TX_TRY(tx_stage_run(stage, 1 < some && m->n_chunks > 1 ? g->pp.size : 1, false, &none));
    forget_volumes(g);
    if (is_training) TX_TRY(train(c, m, cfg, stage, some, all, &n_buckets));
    if (sizes) *sizes = tx__plan_volume_sizes(m, cfg, g, all, n_buckets);
    size_t peak;
    tx_stage_stacks(stage, &peak);
    *out = tx__plan_memory(m, is_training ? tx_optim_type_find(cfg->optimizer) : NULL, peak, c->scratch.peak);
    return TX_OK;
}

tx_volume_sizes tx__plan_volume_sizes(const tx_model *m, const tx_config *cfg, const tx_grid *g, int64_t n_micro,
                                      int64_t n_buckets)
{
    int64_t s = cfg->seq_length, b = cfg->micro_batch_size, n_layers = 0, n_again = 0;
    for (int k = 0; k < m->n_chunks; k++) {
        int64_t n = m->chunk[k].end - m->chunk[k].first;
        n_layers += n;
        n_again += n < m->recompute.n_layers ? n : m->recompute.n_layers;
    }
    return (tx_volume_sizes){
        .t = g->tp.size,
        .p = g->pp.size,
        .r = g->dp.size,
        .stage = g->pp.rank,
        .sequence = g->sequence,
        .s = s,
        .b = b,
        .h = m->hidden,
        .n_micro = n_micro,
        .n_chunks = m->n_chunks,
        .n_layers = n_layers,
        .n_again = n_again,
        .value = (int64_t)tx_dtype_size(m->dtype),
        .stream = (int64_t)tx_dtype_size(m->stream),
        .norms_embedding = cfg->embed_layernorm,
        .positions = cfg->add_position_embedding,
        .tied = !cfg->untie_embeddings_and_output_weights,
        .vocab = m->vocab_padded,
        .head_chunks = tx_head_loss_chunks(s * b, m->vocab_padded / g->tp.size, m->dtype),
        .norm = strcmp(cfg->normalization, "rmsnorm") ? 2 * m->hidden : m->hidden,
        .params = m->params.numel,
        .n_buckets = n_buckets,
    };
}

tx_memory tx__plan_memory(const tx_model *m, const tx_optim_type *optim, size_t activations, size_t workspace)
{
    size_t n = (size_t)m->params.numel, flat = n * sizeof(float), master = m->dtype != TX_F32;
    return (tx_memory){ .params = n * tx_dtype_size(m->dtype),
                        .grads = optim ? flat : 0,
                        .optimizer = optim ? ((size_t)optim->n_state + master) * flat : 0,
                        .activations = activations,
                        .workspace = workspace };
}

size_t tx_memory_total(const tx_memory *m)
{
    return m->params + m->grads + m->optimizer + m->activations + m->workspace;
}

/* ---- the figures ---- */

const char *const tx_param_kind_names[TX_N_PARAM_KINDS] = { "embedding", "attention", "mlp", "norms" };

/* By the names that the parameter table has. */
static tx_param_kind kind_of(const char *name)
{
    if (strstr(name, "layernorm") || strstr(name, ".norm.")) return TX_PARAM_NORM;
    if (strstr(name, "self_attention.")) return TX_PARAM_ATTENTION;
    if (strstr(name, ".mlp.")) return TX_PARAM_MLP;
    TX_ASSERT(strstr(name, "embedding") || strstr(name, "output_layer"));
    return TX_PARAM_EMBEDDING;
}

/* Of the whole model, on one rank. */
static tx_status count_params(tx_run_plan *p, const tx_config *cfg, int64_t vocab_size)
{
    tx_model *m;
    TX_TRY(tx_model_type_find("gpt")->create(&m, cfg, vocab_size, NULL));
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *q = &m->params.param[i];
        p->n_params[kind_of(q->name)] += q->numel / q->dim[0] * q->rows_logical;
    }
    m->type->destroy(m);
    return TX_OK;
}

static void read_model(tx_run_plan *p, const tx_model *m, const tx_config *cfg)
{
    int64_t s = cfg->seq_length, batch = cfg->global_batch_size,
            tables = cfg->untie_embeddings_and_output_weights ? 2 : 1;
    p->vocab_padded = m->vocab_padded;
    p->n_padding = tables * (m->vocab_padded - m->n_valid) * m->hidden;
    p->tokens = s * batch;
    p->flops = tx_model_flops(m, s, batch);
    p->flops_layers = p->flops - 6 * (double)s * (double)batch * (double)m->hidden * (double)m->vocab_padded;
    p->first_layer = m->chunk[0].first;
    for (int k = 0; k < m->n_chunks; k++) p->n_layers += m->chunk[k].end - m->chunk[k].first;
}

tx_status tx_plan_stage(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size, int stage)
{
    tx_ctx c = { 0 };
    tx_model *m = NULL;
    tx_stage run = { 0 };
    tx_grid grid = { 0 };
    tx_run_plan p = { .stage = stage };
    int tp = (int)cfg->tensor_model_parallel_size, pp = (int)cfg->pipeline_model_parallel_size;
    int dp = (int)tx_config_data_parallel(cfg);
    tx_status st;
    TX_GOTO(tx_grid_plan(&grid, stage * tp * dp, tp, pp, dp, cfg->sequence_parallel));
    TX_GOTO(tx__plan_open(&c, &m, cfg, vocab_size, &grid));
    TX_GOTO(tx__plan_step(&p.memory, &p.sizes, &c, m, cfg, true, &run));
    TX_GOTO(count_params(&p, cfg, vocab_size));
    tx_volume_read(&p.volume, &grid);
    read_model(&p, m, cfg);
    *out = p;
out:
    tx_stage_close(&run);
    if (m) m->type->destroy(m);
    tx_ctx_deinit(&c);
    tx_grid_close(&grid);
    return st;
}

tx_status tx_plan_run(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size)
{
    TX_TRY(tx_plan_stage(out, cfg, vocab_size, 0));
    for (int i = 1; i < (int)cfg->pipeline_model_parallel_size; i++) {
        tx_run_plan next;
        TX_TRY(tx_plan_stage(&next, cfg, vocab_size, i));
        if (tx_memory_total(&next.memory) > tx_memory_total(&out->memory)) *out = next;
    }
    return TX_OK;
}
