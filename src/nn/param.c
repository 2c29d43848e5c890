/* param.c - declaring, binding and initialising parameters. What a table means is told in param.h; this file has no
 * opinion about which parameters a model has. Called by models (declare), by whoever owns the flat buffers (bind) and
 * by a run that starts from nothing (init). */
#include "nn/param.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"

#define ZERO_GRAD "optimizer.zero_grad" /* for tx_at_part */

static int64_t dim_of_letter(const tx_dims *d, char letter)
{
    switch (letter) {
    case 'h':
        return d->h;
    case 'f':
        return d->f;
    case 'V':
        return d->V;
    case 'P':
        return d->P;
    case 'q':
        return d->q;
    case 'a':
        return d->a;
    case 'u':
        return d->u;
    default:
        return 0;
    }
}

/* "3h,h" -> dims. A shape is written by us, so a wrong one is a bug. Only a first dimension that is exactly V has
 * padding rows. */
static void parse_shape(tx_param *p, const char *shape, const tx_dims *dims)
{
    p->n_dims = 0;
    p->numel = 1;
    for (const char *s = shape;; s++) {
        int64_t factor = 0;
        bool plain = *s < '0' || *s > '9';
        for (; *s >= '0' && *s <= '9'; s++) factor = factor * 10 + (*s - '0');
        int64_t dim = dim_of_letter(dims, *s);
        TX_ASSERT(dim > 0 && p->n_dims < 2 && (plain || factor > 0));
        TX_ASSERT(!__builtin_mul_overflow(dim, plain ? 1 : factor, &dim));
        TX_ASSERT(!__builtin_mul_overflow(p->numel, dim, &p->numel));
        if (p->n_dims == 0) p->rows_logical = *s == 'V' && plain ? dims->v_logical : dim;
        p->dim[p->n_dims++] = dim;
        if (!*++s) break;
        TX_ASSERT(*s == ',');
    }
    TX_ASSERT(p->rows_logical > 0 && p->rows_logical <= p->dim[0]);
}

tx_status tx_params_declare(tx_params *ps, const char *prefix, const tx_param_decl *decl, int n, void *base,
                            const tx_dims *dims)
{
    if (ps->n + n > ps->cap) {
        int cap = 2 * (ps->n + n);
        TX_TRY(tx_realloc(&ps->param, (size_t)cap, sizeof *ps->param, "the parameter table"));
        ps->cap = cap;
    }
    for (int i = 0; i < n; i++) {
        if ((decl[i].when & dims->traits) != decl[i].when) continue;
        tx_param p = { .init = decl[i].init, .decay = decl[i].decay, .first = decl[i].first, .offset = ps->numel };
        int len = snprintf(p.name, sizeof p.name, "%s%s", prefix, decl[i].name);
        TX_ASSERT(len > 0 && (size_t)len < sizeof p.name && !tx_params_find(ps, p.name));
        parse_shape(&p, decl[i].shape, dims);
        if (base) p.weight = (tx_weight *)(void *)((char *)base + decl[i].field);
        ps->param[ps->n++] = p;
        ps->numel += (p.numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
    }
    return TX_OK;
}

static tx_tensor view(const tx_param *p, void *flat, tx_dtype t)
{
    void *data = flat ? (char *)flat + (size_t)p->offset * tx_dtype_size(t) : NULL;
    return p->n_dims == 1 ? tx_tensor1(data, t, p->dim[0]) : tx_tensor2(data, t, p->dim[0], p->dim[1]);
}

void tx_params_bind(tx_params *ps, void *value, tx_dtype t, float *grad)
{
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        if (p->weight) *p->weight = (tx_weight){ .value = view(p, value, t), .grad = view(p, grad, TX_F32) };
    }
}

tx_status tx_params_zero_grad(tx_ctx *c, const tx_params *ps, bool first)
{
    tx_at_part(c, ZERO_GRAD);
    for (int i = 0; i < ps->n; i++) {
        tx_weight *w = ps->param[i].weight;
        w->fresh = first && ps->param[i].first == TX_SETS;
        if (first && !w->fresh) TX_RUN(c, fill, .x = w->grad);
    }
    return TX_OK;
}

/* Elements that are real come first: the rows that pad a table are its last ones. */
static int64_t real_elements(const tx_param *p)
{
    return p->numel / p->dim[0] * p->rows_logical;
}

static void fill(float *x, int64_t n, float with)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) x[i] = with;
}

/* numbers are asked for by place, so the split over threads cannot show */
static void draw_normal(float *x, int64_t n, const tx_rng *rng, double std)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += 2) {
        double pair[2];
        tx_rng_normal_pair(rng, (uint64_t)i / 2, pair);
        x[i] = (float)(std * pair[0]);
        if (i + 1 < n) x[i + 1] = (float)(std * pair[1]);
    }
}

static void draw_uniform(float *x, int64_t n, const tx_rng *rng, double bound)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) x[i] = (float)(bound * (2 * tx_rng_uniform(rng, (uint64_t)i) - 1));
}

void tx_params_init(const tx_params *ps, float *master, uint64_t seed, tx_init_method method)
{
    for (int k = 0; k < ps->n; k++) {
        const tx_param *p = &ps->param[k];
        float *x = master + p->offset;
        int64_t n = real_elements(p);
        const tx_rng rng = { .seed = seed, .stream = tx_rng_stream(p->name) };
        if (p->init == TX_INIT_ZERO || p->init == TX_INIT_ONE)
            fill(x, n, p->init == TX_INIT_ONE ? 1.0f : 0.0f);
        else if (method.xavier_uniform)
            draw_uniform(x, n, &rng, sqrt(6.0 / (double)(p->rows_logical + p->dim[1])));
        else
            draw_normal(x, n, &rng, p->init == TX_INIT_SCALED ? method.std / sqrt(2.0 * method.n_layers) : method.std);
        fill(x + n, p->numel - n, 0.0f);
    }
}

void tx_params_round(const tx_params *ps, void *value, tx_dtype t, const float *master)
{
    TX_ASSERT(t == TX_BF16 || t == TX_F16);
    uint16_t *to = value;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ps->numel; i++) to[i] = t == TX_BF16 ? tx_f32_to_bf16(master[i]) : tx_f32_to_f16(master[i]);
}

const tx_param *tx_params_find(const tx_params *ps, const char *name)
{
    for (int i = 0; i < ps->n; i++)
        if (!strcmp(ps->param[i].name, name)) return &ps->param[i];
    return NULL;
}

int64_t tx_params_count(const tx_params *ps)
{
    int64_t n = 0;
    for (int i = 0; i < ps->n; i++) n += real_elements(&ps->param[i]);
    return n;
}

void tx_params_deinit(tx_params *ps)
{
    tx_free(ps->param);
    *ps = (tx_params){ 0 };
}
