/* adafactor.c - Adafactor (arXiv:1804.04235) as fairseq's and Hugging Face's classes compute it, without their first
 * moment and with a learning rate that is given: of an update t
 *
 *      β = 1 - t^decay_rate
 *      matrix   r = β r + (1-β) (mean of a row's g² + eps1),  c likewise of columns,  u = g / sqrt(r / mean(r)) /
 * sqrt(c) vector   v = β v + (1-β) (g² + eps1),                                          u = g / sqrt(v) a = lr
 * max(eps2, RMS(p)),  p -= a (u / max(1, RMS(u) / clip_threshold) + weight_decay p)
 *
 *  r and c are sums over whole matrices: zero/factors.c makes them before the first line of this file, and `measure`
 * the two root mean squares, which are of whole tensors, too. Computes in the host's memory. */
#include <math.h>

#include "backend/backend.h"
#include "base/exact.h"
#include "optim/optim.h"

enum { AT_A_TIME = 32 * TX_SUMSQ_BLOCK };

double tx_adafactor_beta2(const tx_config *cfg, int64_t t)
{
    return 1 - pow((double)t, cfg->adafactor_decay_rate);
}

/* Gradients of elements [at, at + n) of a range, and what they are still to be multiplied with. */
typedef struct some_gradients {
    int64_t at, n;
    const float *x; /* [n] fp32 */
    double scale;
} some_gradients;

/* The update of those, 0 where they pad.   @u [n] */
static void update_of(const tx_optim_range *r, const some_gradients *g, float *u)
{
    int64_t at = g->at, n = g->n;
    const float *grad = g->x;
    double grad_scale = g->scale;
    int64_t real = r->n_real - at < n ? r->n_real - at : n;
    for (int64_t i = 0; i < n; i++) u[i] = 0;
    if (!r->columns) {
        const float *v = r->state[2] + at;
        for (int64_t i = 0; i < real; i++) u[i] = (float)((double)grad[i] * grad_scale / sqrt((double)v[i]));
        return;
    }
    for (int64_t i = 0; i < real;) {
        int64_t row = (r->first + at + i) / r->columns, column = (r->first + at + i) % r->columns;
        int64_t end = i + r->columns - column < real ? i + r->columns - column : real;
        const double scale = grad_scale * r->row_scale[row], *of_column = r->column_scale + column - i;
        for (; i < end; i++) u[i] = (float)((double)grad[i] * scale * of_column[i]);
    }
}

/* Gradients in fp32: where they are, or in `room`. */
static tx_status take_gradients(tx_ctx *c, const tx_optim_range *r, some_gradients *g, float *room)
{
    g->n = r->numel - g->at < AT_A_TIME ? r->numel - g->at : AT_A_TIME;
    g->x = room;
    if (r->grad.dtype == TX_F32)
        g->x = (const float *)r->grad.data + g->at;
    else
        TX_RUN(c, cast, .y = tx_tensor1(room, TX_F32, g->n), .x = tx_slice1(r->grad, g->at, g->n));
    return TX_OK;
}

static void average_squares(const tx_optim *o, const tx_optim_range *r, const some_gradients *g, double beta2)
{
    float *v = r->state[2] + g->at;
    int64_t real = r->n_real - g->at < g->n ? r->n_real - g->at : g->n;
    for (int64_t i = 0; i < real; i++) {
        double x = (double)g->x[i] * g->scale;
        v[i] = (float)(beta2 * (double)v[i] + (1 - beta2) * (x * x + o->cfg->adafactor_eps1));
    }
}

static tx_status measure(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    float room[AT_A_TIME], u[AT_A_TIME];
    double grad_scale = 1, beta2 = tx_adafactor_beta2(o->cfg, s->t);
    bool go = !c->dry && tx__update_gate(s->gate, &grad_scale);
    for (int64_t at = 0; at < r->numel; at += AT_A_TIME) {
        int64_t n = r->numel - at < AT_A_TIME ? r->numel - at : AT_A_TIME;
        tx_tensor blocks = tx_tensor1(s->norm->blocks, TX_F64, tx_sumsq_blocks(n));
        TX_RUN(c, sumsq, .out = blocks, .x = tx_tensor1(r->value + at, TX_F32, n));
        TX_RUN(c, exact_add, .sum = s->norm->sum[0], .x = blocks);
        if (!go) continue;
        some_gradients g = { .at = at, .scale = grad_scale };
        TX_TRY(take_gradients(c, r, &g, room));
        if (!r->columns) average_squares(o, r, &g, beta2);
        update_of(r, &g, u);
        TX_RUN(c, sumsq, .out = blocks, .x = tx_tensor1(u, TX_F32, n));
        TX_RUN(c, exact_add, .sum = s->norm->sum[1], .x = blocks);
    }
    return TX_OK;
}

/* `step` takes both of a tensor's sums, not a ratio. */
static tx_status rate(tx_ctx *c, const tx_optim *o, tx_tensor ratio, tx_tensor sums)
{
    (void)c;
    (void)o;
    (void)ratio;
    (void)sums;
    return TX_OK;
}

static double rms_of(tx_tensor sum, int64_t n)
{
    return sqrt(tx_exact_value(sum.data) / (double)n);
}

static tx_status step(tx_ctx *c, const tx_optim *o, const tx_optim_range *r, const tx_optim_step *s)
{
    const tx_config *cfg = o->cfg;
    float room[AT_A_TIME], u[AT_A_TIME];
    double grad_scale = 1, rate_of = s->lr;
    if (!c->dry && !tx__update_gate(s->gate, &grad_scale)) return TX_OK;
    if (!c->dry && !cfg->adafactor_no_scale_parameter)
        rate_of *= fmax(cfg->adafactor_eps2, rms_of(s->norm->sum[0], r->n_whole));
    double clip = c->dry ? 1 : fmax(1, rms_of(s->norm->sum[1], r->n_whole) / cfg->adafactor_clip_threshold);
    for (int64_t at = 0; at < r->numel && !c->dry; at += AT_A_TIME) {
        some_gradients g = { .at = at, .scale = grad_scale };
        float *p = r->value + at;
        TX_TRY(take_gradients(c, r, &g, room));
        update_of(r, &g, u);
        for (int64_t i = 0; i < g.n; i++)
            p[i] = (float)((double)p[i] * (1 - rate_of * s->weight_decay) - rate_of / clip * (double)u[i]);
    }
    if (r->low.dtype != TX_F32 && r->low.data)
        TX_RUN(c, cast, .y = r->low, .x = tx_tensor1(r->value, TX_F32, r->numel));
    return TX_OK;
}

const tx_optim_type tx_optim_adafactor = {
    .keeps = &tx_optim_adafactor_keeps, .step = step, .measure = measure, .rate = rate
};
