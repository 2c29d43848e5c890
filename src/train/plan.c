/* plan.c - runs the step dry and reads the figures off. */
#include "train/plan.h"

#include <string.h>

#include "base/alloc.h"

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

tx_status tx__plan_open(tx_ctx *c, tx_model **m, const tx_config *cfg, int64_t vocab_size)
{
    TX_TRY(check_sizes(cfg, vocab_size));
    TX_TRY(tx_ctx_init(c, cfg->backend, (int)cfg->threads));
    return tx_model_type_find("gpt")->create(m, cfg, vocab_size);
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
                                     .name = p->name };
    }
    *out = range;
    return TX_OK;
}

static tx_status update(tx_ctx *c, const tx_model *m, const tx_config *cfg)
{
    tx_optim o = { .type = tx_optim_type_find(cfg->optimizer),
                   .cfg = cfg,
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

tx_status tx__plan_step(tx_memory *out, tx_ctx *c, tx_model *m, const tx_config *cfg, bool train)
{
    void *dry = TX_DRY_ADDRESS;
    int64_t s = cfg->seq_length, b = cfg->micro_batch_size;
    TX_ASSERT(c->dry);
    tx_params_bind(&m->params, dry, m->dtype, train ? dry : NULL);
    tx_batch batch = { .token = tx_tensor2(dry, TX_I32, s, b),
                       .position = tx_tensor2(dry, TX_I32, s, b),
                       .label = tx_tensor1(dry, TX_I32, s * b),
                       .weight = tx_tensor1(dry, TX_F32, s * b),
                       .loss = tx_tensor1(dry, TX_F32, s * b) };
    if (cfg->reset_attention_mask) batch.first_key = tx_tensor2(dry, TX_I32, s, b);
    TX_TRY(m->type->fwd(c, m, &batch, false));
    if (train) {
        batch.dropout = (tx_dropout_key){ .on = true, .s_global = s };
        for (int micro = 0; micro < 2; micro++) { /* the second adds to gradients that the first writes */
            TX_TRY(tx_params_zero_grad(c, &m->params, micro == 0));
            TX_TRY(m->type->fwd(c, m, &batch, true));
            TX_TRY(m->type->bwd(c, m, &batch));
        }
        TX_TRY(update(c, m, cfg));
    }
    *out = tx__plan_memory(m, train ? tx_optim_type_find(cfg->optimizer) : NULL, c->acts.peak, c->scratch.peak);
    return TX_OK;
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

tx_status tx_plan_run(tx_run_plan *out, const tx_config *cfg, int64_t vocab_size)
{
    tx_ctx c = { 0 };
    tx_model *m = NULL;
    tx_run_plan p = { 0 };
    tx_status st;
    TX_GOTO(tx__plan_open(&c, &m, cfg, vocab_size));
    TX_GOTO(tx__plan_step(&p.memory, &c, m, cfg, true));
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *q = &m->params.param[i];
        int64_t real = q->numel / q->dim[0] * q->rows_logical;
        p.n_params[kind_of(q->name)] += real;
        p.n_padding += q->numel - real;
    }
    int64_t s = cfg->seq_length, batch = cfg->global_batch_size;
    double tokens = (double)s * (double)batch;
    p.vocab_padded = m->vocab_padded;
    p.tokens = s * batch;
    p.flops = tx_model_flops(m, s, batch);
    p.flops_layers = p.flops - 6 * tokens * (double)m->hidden * (double)m->vocab_padded;
    *out = p;
out:
    if (m) m->type->destroy(m);
    tx_ctx_deinit(&c);
    return st;
}
