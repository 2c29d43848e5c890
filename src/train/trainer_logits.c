/* trainer_logits.c - the largest scores of attention in an iteration, for the log and for QK-Clip: where a head's score
 * was above --qk-clip-threshold, the update is followed by
 *
 *      W_q *= γ^α,  W_k *= γ^(1-α)      γ = threshold / largest score, so that the same score becomes the threshold
 *
 * and biases likewise. All heads of a group have the group's largest score, since they share a key. Kimi K2,
 * arXiv:2507.20534, algorithm 1; megatron/core/optimizer/qk_clip.py, which leaves biases as they are.
 *
 * Forwards leave each head's largest score in the model's max_logits. It is the largest of all samples once the ranks
 * with the same heads have compared theirs; a maximum does not depend on the layout. What is multiplied is a range's
 * stretch of a matrix while the update has it at hand (tx_optim_rescale), so values are sent once, and an update that
 * is skipped scales nothing. No state outlives the iteration. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "train/trainer.h"

bool tx__trainer_sees_logits(const tx_trainer *t)
{
    return t->cfg->qk_clip || t->cfg->log_max_attention_logit;
}

/* A stage's layers, and what a rank has of each. */
typedef struct shape {
    int64_t layers, heads, groups, r; /* heads: groups times r */
    int64_t blocks;                   /* heads of queries, keys and values, as they lie in the projection */
} shape;

static shape shape_of(const tx_trainer *t)
{
    const tx_tensor max = t->model->max_logits;
    if (!max.n_dims) return (shape){ 0 };
    int64_t groups = t->model->n_groups / tx_grid_size(t->grid, TX_AXIS_TENSOR), r = max.dim[1] / groups;
    return (shape){ max.dim[0], max.dim[1], groups, r, groups * (r + 2) };
}

/* The updates of layer i multiply by what is in `scale` then. */
static void bind_layer(tx_trainer *t, int64_t i, const double *scale)
{
    static const char *const of[] = { "weight", "bias" };
    for (int k = 0; k < 2; k++) {
        char name[TX_PARAM_NAME_MAX];
        snprintf(name, sizeof name, "encoder.layers.%lld.self_attention.query_key_value.%s", (long long)i, of[k]);
        const tx_param *p = tx_params_find(&t->model->params, name);
        if (!p) continue;
        int64_t columns = p->n_dims == 2 ? p->dim[1] : 1;
        tx_zero_scale_row(&t->zero, (int)(p - t->model->params.param), t->model->head_dim * columns, scale);
    }
}

tx_status tx__trainer_take_logits(tx_trainer *t)
{
    const shape is = shape_of(t);
    const tx_model *m = t->model;
    if (!t->train || !tx__trainer_sees_logits(t)) return TX_OK;
    int data = tx_grid_sharers(t->grid);
    TX_TRY(tx_alloc(&t->logits, (size_t)(is.layers * is.heads * (data + 1)) + 1, sizeof *t->logits,
                    "the largest scores of attention"));
    TX_TRY(tx_alloc(&t->largest, (size_t)tx_comm_size(tx_grid_group(t->grid, TX_GROUP_MODEL)), sizeof *t->largest,
                    "the largest scores of attention"));
    if (!t->cfg->qk_clip) return TX_OK;
    TX_TRY(tx_alloc(&t->qk_scale, (size_t)(is.layers * is.blocks) + 1, sizeof *t->qk_scale, "--qk-clip"));
    double *next = t->qk_scale;
    for (int k = 0; k < m->n_chunks; k++)
        for (int64_t i = m->chunk[k].first; i < m->chunk[k].end; i++, next += is.blocks) bind_layer(t, i, next);
    return TX_OK;
}

tx_status tx__trainer_begin_logits(tx_trainer *t)
{
    const tx_tensor max = t->model->max_logits;
    if (max.data) TX_RUN(&t->ctx, fill, .x = max);
    return TX_OK;
}

/* The factors of a group's queries, of its key and of its value. */
static void set_group(const tx_trainer *t, double *scale, const float *logit, int64_t r)
{
    double threshold = t->cfg->qk_clip_threshold, alpha = t->cfg->qk_clip_alpha, most = 0;
    for (int64_t i = 0; i < r; i++) most = fmax(most, (double)logit[i]);
    /* with an infinite score no update is taken */
    double gamma = most > threshold && isfinite(most) ? threshold / most : 1;
    for (int64_t i = 0; i < r; i++) scale[i] = pow(gamma, alpha);
    scale[r] = pow(gamma, 1 - alpha);
    scale[r + 1] = 1;
}

/* The largest of the model's, of which every rank has some. */
static tx_status find_largest(tx_trainer *t, int64_t n)
{
    tx_comm *g = tx_grid_group(t->grid, TX_GROUP_MODEL);
    float own = 0;
    for (int64_t i = 0; i < n; i++) own = fmaxf(own, t->logits[i]);
    TX_TRY(tx_comm_gather(g, t->largest, &own, sizeof own));
    t->max_attention_logit = 0;
    for (int i = 0; i < tx_comm_size(g); i++) t->max_attention_logit = fmax(t->max_attention_logit, t->largest[i]);
    return TX_OK;
}

tx_status tx__trainer_compare_logits(tx_trainer *t)
{
    if (!t->logits) return TX_OK;
    const shape is = shape_of(t);
    tx_comm *g = tx_grid_group(t->grid, TX_GROUP_DATA);
    int64_t n = is.layers * is.heads;
    float *all = t->logits + n;
    size_t bytes = (size_t)n * sizeof *all;
    if (n) TX_TRY(tx_device_read(t->ctx.device, t->logits, t->model->max_logits.data, bytes));
    if (n) TX_TRY(tx_comm_gather(g, all, t->logits, bytes));
    for (int64_t i = 0; i < n * tx_comm_size(g); i++) t->logits[i % n] = fmaxf(t->logits[i % n], all[i]);
    if (t->cfg->log_max_attention_logit) TX_TRY(find_largest(t, n));
    for (int64_t i = 0; t->qk_scale && i < is.layers * is.groups; i++)
        set_group(t, t->qk_scale + i * (is.r + 2), t->logits + i * is.r, is.r);
    return TX_OK;
}
