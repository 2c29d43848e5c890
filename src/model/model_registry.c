/* model_registry.c - the models there are, and what is the same for all of them. */
#include <math.h>
#include <string.h>

#include "model/model.h"

#define DECLARE(constant, word, type, ...) extern const tx_model_type type;
TX_MODELS(DECLARE)

/* By tx_model_kind; [0] is NULL. */
static const tx_model_type *const types[] = {
#define TYPE(constant, word, type, ...) [constant] = &type,
    TX_MODELS(TYPE)
};

const tx_model_type *tx_model_type_of(const tx_config *cfg)
{
    TX_ASSERT(types[cfg->model_type]);
    return types[cfg->model_type];
}

void tx_batch_buffers(tx_batch *batch, tx_tensor *own[TX_BATCH_BUFFERS])
{
    tx_tensor *all[TX_BATCH_BUFFERS] = { &batch->token,  &batch->position,   &batch->type,        &batch->first_key,
                                         &batch->n_keys, &batch->label,      &batch->weight,      &batch->loss,
                                         &batch->row,    &batch->pair_label, &batch->pair_weight, &batch->other_loss,
                                         &batch->kept,   &batch->kept_first, &batch->kept_n,      &batch->taught };
    for (int i = 0; i < TX_MAX_INPUTS; i++) all[TX_BATCH_BUFFERS - TX_MAX_INPUTS + i] = &batch->input[i];
    memcpy(own, all, sizeof all);
}

tx_status tx_check_id(const tx_model *m, int32_t id)
{
    if (id >= 0 && id < m->vocab_size) return TX_OK;
    return TX_FAIL(
        TX_ERR_FORMAT,
        "the data holds token id %d, but the vocabulary has %lld tokens: was it made with another tokenizer?", id,
        (long long)m->vocab_size);
}

tx_status tx_unit_gather(const tx_batch *batch, int unit, int next)
{
    return batch->units ? batch->units->gather(batch->units->user, unit, next) : TX_OK;
}

tx_status tx_unit_release(const tx_batch *batch, int unit, bool again)
{
    return batch->units ? batch->units->release(batch->units->user, unit, again) : TX_OK;
}

tx_status tx_unit_pre_backward(const tx_batch *batch, int unit)
{
    return batch->units ? batch->units->pre_backward(batch->units->user, unit) : TX_OK;
}

tx_status tx_unit_post_backward(const tx_batch *batch, int unit)
{
    return batch->units ? batch->units->post_backward(batch->units->user, unit, batch->last) : TX_OK;
}

int64_t tx_vocab_padded(int64_t vocab_size, int64_t multiple)
{
    return (vocab_size + multiple - 1) / multiple * multiple;
}

double tx_model_keys(const tx_model *m, int64_t s)
{
    if (!m->n_windowed) return (double)s;
    double all = (double)s, share = (double)m->n_windowed / (double)m->n_layers, w = (double)m->window;
    double seen = w + 1 < all ? (w + 1) * all - w * (w + 1) / 2 : all * (all + 1) / 2; /* of all tokens */
    return all - share * (all - fmin(all, 2 * seen / all));
}

/* Multiply-adds of a layer, for each token. */
static double layer_products(const tx_model *m, int64_t s)
{
    double h = (double)m->hidden, d = (double)m->head_dim;
    double qkv = (double)(m->n_heads + 2 * m->n_groups) * d, heads = (double)m->n_heads * d;
    return h * (qkv + heads) + m->mlp_products + 2 * heads * tx_model_keys(m, s); /* the last: q kᵀ, p v */
}

double tx_model_flops(const tx_model *m, int64_t s, int64_t b)
{
    if (m->sample_flops > 0) return 3 * m->sample_flops * (double)b;
    double tokens = (double)s * (double)b;
    double attention = 2 * (double)(m->n_heads * m->head_dim) * tx_model_keys(m, s), each = tx_model_weight_flops(m);
    double weights = (double)m->n_layers * (layer_products(m, s) - attention) + m->head_products;
    if (!m->frozen) return 6 * tokens * ((double)m->n_layers * layer_products(m, s) + m->head_products);
    return tokens * (each * weights + 6 * (double)m->n_layers * attention);
}

double tx_model_flops_spared(const tx_model *m, int64_t s, int64_t r, int64_t b)
{
    double all = (double)s * layer_products(m, s), some = (double)r * layer_products(m, r);
    return r < s ? 6 * (double)b * (double)m->n_dropping * (all - some) : 0;
}

/* Layers whose positions are in chunks compute all but attention once more. */
double tx_model_flops_again(const tx_model *m, int64_t s, int64_t b)
{
    double n = (double)m->n_again, in_chunks = m->chunking.positions ? (double)m->n_layers : 0;
    if (m->sample_flops > 0) return n / (double)m->n_layers * m->sample_flops * (double)b;
    double attention = 2 * (double)(m->n_heads * m->head_dim) * tx_model_keys(m, s), all = layer_products(m, s);
    return 2 * (double)s * (double)b * (n * all + in_chunks * (all - attention));
}

double tx_model_flops_2021(const tx_model *m, int64_t s, int64_t b)
{
    double h = (double)m->hidden, l = (double)m->n_layers, V = (double)m->vocab_padded, length = (double)s;
    double f = m->recompute.n_layers || m->recompute.selective ? 4 : 3;
    if (m->hidden == 0) return 0;
    return 24 * f * (double)b * length * l * h * h * (1 + length / (6 * h) + V / (16 * l * h));
}

/* Rows of the table are in the order of layers. */
void tx_model_read_bias(const tx_model *m, float *bias, const float *weights)
{
    static const char end[] = ".mlp.router.expert_bias";
    for (int i = 0; i < m->params.n; i++) {
        const tx_param *p = &m->params.param[i];
        size_t n = strlen(p->name);
        if (n < sizeof end || strcmp(p->name + n - (sizeof end - 1), end) != 0) continue;
        memcpy(bias, weights + p->offset, (size_t)p->numel * sizeof *bias);
        bias += m->expert_bias.dim[1];
    }
}
