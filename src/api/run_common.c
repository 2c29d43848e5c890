/* run_common.c - shared steps of the jobs. */
#include "api/run_common.h"

#include "base/alloc.h"

/* Behind the values, where their type is narrower than fp32: the bias of experts. */
static size_t bias_bytes(const tx_model *m)
{
    return m->dtype != TX_F32 && m->expert_bias.n_dims ? (size_t)tx_numel(m->expert_bias) * sizeof(float) : 0;
}

static size_t value_bytes(const tx_model *m)
{
    return (size_t)m->params.numel * tx_dtype_size(m->dtype);
}

static void bind(tx_model *m, void *value)
{
    tx_params_bind(&m->params, value, m->dtype, NULL);
    if (bias_bytes(m)) m->expert_bias.data = (char *)value + value_bytes(m);
}

tx_status tx__model_load(tx_model **model, void **value, const tx_config *cfg, tx_source *src, const tx_grid *grid)
{
    tx_model *m = NULL;
    float *v = NULL;
    tx_status st;
    TX_GOTO(tx_model_type_of(cfg)->create(&m, cfg, src->vocab_size, grid));
    TX_GOTO(tx_alloc(&v, (size_t)m->params.numel, sizeof *v, "the parameters"));
    TX_GOTO(tx_source_weights(src, m, v));
    if (m->dtype != TX_F32) {
        void *half;
        TX_GOTO(tx_alloc(&half, value_bytes(m) + bias_bytes(m), 1, "the parameters"));
        tx_params_round(half, m->dtype, v, m->params.numel);
        bind(m, half);
        if (bias_bytes(m)) tx_model_read_bias(m, m->expert_bias.data, v);
        tx_free(v);
        v = half;
    }
    bind(m, v);
    *model = m;
    *value = v;
    return TX_OK;
out:
    if (m) m->type->destroy(m);
    tx_free(v);
    return st;
}

tx_status tx__model_move(tx_model *m, void **value, tx_device *d)
{
    size_t bytes = value_bytes(m) + bias_bytes(m);
    void *there;
    if (!d) return TX_OK;
    TX_TRY(tx_device_take(d, &there, bytes, false, "the parameters"));
    tx_status st = tx_device_write(d, there, *value, bytes);
    if (st) {
        tx_device_give(d, there);
        return st;
    }
    tx_free(*value);
    *value = there;
    bind(m, there);
    return TX_OK;
}

typedef struct filling {
    tx_source *src;
    const tx_model *m;
} filling;

/* A tx_weights_fn. */
static tx_status fill(void *user, const tx_params *ps, float *weights)
{
    const filling *f = user;
    (void)ps;
    return tx_source_weights(f->src, f->m, weights);
}

tx_status tx__trainer_take_weights(tx_trainer *t, tx_source *src)
{
    filling f = { src, t->model };
    if (t->cfg->lora_rank && !src->has_adapters) return tx_trainer_read_weights(t, src);
    return tx_trainer_set_weights(t, fill, &f);
}
