/* param.c - declaring, binding and initialising parameters. What a table means is told in param.h; this file has no
 * opinion about which parameters a model has. Called by models (declare), by whoever owns the flat buffers (bind) and
 * by a run that starts from nothing (init). */
#include "nn/param.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"
#include "parallel/grid.h"

#define ZERO_GRAD "optimizer.zero_grad" /* for tx_at_part */

enum { DRAW_BLOCK = 4096 }; /* numbers that a thread draws at a time; even, as they come in pairs */

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
    case 'T':
        return d->T;
    case 'q':
        return d->q;
    case 'a':
        return d->a;
    case 'E':
        return d->E;
    case 'n':
        return d->d ? d->a / d->d : 0;
    case 'd':
        return d->d;
    case 'u':
        return d->u;
    case 'k':
        return d->k;
    case 'r':
        return d->r;
    default:
        return 0;
    }
}

/* q rows are those of all groups' queries, a together, and of a key and a value of d rows for each group. */
static void fuse(tx_param *p, const tx_dims *dims)
{
    if (!dims->a || !dims->d) return;
    int64_t groups = (dims->q - dims->a) / (2 * dims->d);
    p->fused[0] = dims->a / groups;
    p->fused[1] = p->fused[2] = dims->d;
}

/* "3h/t,h" -> dims. A shape is written by us, so a wrong one is a bug. Only a first dimension that is exactly V has
 * padding rows. */
static void parse_shape(tx_param *p, const char *shape, const tx_dims *dims)
{
    p->n_dims = 0;
    p->split_dim = -1;
    p->over_tp = TX_SAME;
    p->n_parts = 1;
    p->whole[1] = p->dim[1] = 0;
    for (const char *s = shape;; s++) {
        int64_t factor = 0;
        bool plain = *s < '0' || *s > '9';
        for (; *s >= '0' && *s <= '9'; s++) factor = factor * 10 + (*s - '0');
        int64_t dim = dim_of_letter(dims, *s);
        TX_ASSERT(dim > 0 && p->n_dims < 2 && (plain || factor > 0));
        TX_ASSERT(!__builtin_mul_overflow(dim, plain ? 1 : factor, &dim));
        bool tokens = *s == 'V' && plain;
        if (p->n_dims == 0) p->whole_logical = tokens ? dims->v_logical : dim;
        p->of_vocabulary = p->n_dims == 0 ? tokens : p->of_vocabulary;
        if (*s == 'u' && dims->u_parts) p->n_parts = dims->u_parts;
        if (*s == 'q' && plain && p->n_dims == 0) fuse(p, dims);
        p->whole[p->n_dims] = dim;
        if (s[1] == '/') {
            TX_ASSERT(s[2] == 't' && p->split_dim < 0);
            p->split_dim = p->n_dims;
            p->over_tp = TX_SPLIT;
            s += 2;
        }
        p->n_dims++;
        if (*++s == '+') p->over_tp = TX_PARTS, s++;
        if (*s == '*') p->over_tp = TX_HEADS, s++;
        if (!*s) break;
        TX_ASSERT(*s == ',');
    }
    p->of_vocabulary = p->of_vocabulary && p->n_dims == 2;
    TX_ASSERT(p->whole_logical > 0 && p->whole_logical <= p->whole[0]);
}

/* Sizes of the shard of rank p->tp_rank of p->n_tp. */
static void size_shard(tx_param *p)
{
    p->numel = 1;
    for (int k = 0; k < p->n_dims; k++) {
        int64_t n = k == p->split_dim ? p->n_tp : 1;
        TX_ASSERT(p->whole[k] % (n * p->n_parts) == 0 || n == 1);
        p->dim[k] = p->whole[k] / n;
        TX_ASSERT(!__builtin_mul_overflow(p->numel, p->dim[k], &p->numel));
    }
    p->rows_logical = p->whole_logical;
    if (p->split_dim != 0) return;
    TX_ASSERT(p->whole_logical == p->whole[0] || p->n_parts == 1);
    int64_t left = p->whole_logical - p->tp_rank * p->dim[0];
    p->rows_logical = left < 0 ? 0 : left < p->dim[0] ? left : p->dim[0];
}

static void take_shard(tx_param *p, const tx_dims *dims)
{
    bool split = p->split_dim >= 0;
    p->n_tp = split && dims->n_tp ? dims->n_tp : 1;
    p->tp_rank = split ? dims->tp_rank : 0;
    p->tied = dims->tied;
    p->reduce_group = dims->reduce_group;
    p->counted = !dims->copy && (split || dims->tp_rank == 0);
    size_shard(p);
}

bool tx_param_divides(const tx_param *p, int n_tp)
{
    return p->split_dim < 0 || p->whole[p->split_dim] % (n_tp * p->n_parts) == 0;
}

tx_param tx_param_shard(const tx_param *p, int n_tp, int tp_rank)
{
    tx_param q = *p;
    TX_ASSERT(tx_param_divides(p, n_tp) && tp_rank < n_tp);
    q.n_tp = p->split_dim < 0 ? 1 : n_tp;
    q.tp_rank = p->split_dim < 0 ? 0 : tp_rank;
    size_shard(&q);
    return q;
}

int64_t tx_param_whole_numel(const tx_param *p)
{
    return p->whole[0] * (p->n_dims == 2 ? p->whole[1] : 1);
}

int64_t tx_params_largest_whole(const tx_params *ps)
{
    int64_t largest = 0;
    for (int i = 0; i < ps->n; i++) {
        int64_t n = tx_param_whole_numel(&ps->param[i]);
        if (n > largest) largest = n;
    }
    return largest;
}

int64_t tx_param_row(const tx_param *p, int64_t r)
{
    if (p->split_dim != 0) return r;
    int n = p->n_tp > 1 ? p->n_parts : 1;
    int64_t of_shard = p->dim[0] / n;
    return r / of_shard * (p->whole[0] / n) + p->tp_rank * of_shard + r % of_shard;
}

int64_t tx_param_column(const tx_param *p)
{
    return p->split_dim == 1 ? p->tp_rank * p->dim[1] : 0;
}

int tx_param_pieces(const tx_param *p, tx_param_piece *piece)
{
    int n = p->split_dim >= 0 && p->n_tp > 1 ? p->n_parts : 1;
    TX_ASSERT(n <= TX_PARAM_MAX_PIECES);
    for (int i = 0; i < n; i++) {
        tx_param_piece *q = &piece[i];
        *q = (tx_param_piece){ .size = { p->rows_logical, p->n_dims == 2 ? p->dim[1] : 1 } };
        int k = p->split_dim;
        if (k < 0 || p->n_tp == 1) break;
        int64_t of_shard = p->dim[k] / n;
        q->at[k] = i * of_shard;
        q->start[k] = i * (p->whole[k] / n) + p->tp_rank * of_shard;
        if (n > 1) q->size[k] = of_shard;
    }
    return n;
}

void tx_param_cut_range(const tx_param *p, float *x, const float *whole, int64_t first, int64_t n)
{
    int64_t width = p->n_dims == 2 ? p->dim[1] : 1, whole_width = p->n_dims == 2 ? p->whole[1] : 1;
    for (int64_t end = first + n, e = first; e < end;) {
        int64_t r = e / width, col = e % width, k = width - col < end - e ? width - col : end - e;
        if (r < p->rows_logical)
            memcpy(x, whole + tx_param_row(p, r) * whole_width + tx_param_column(p) + col, (size_t)k * sizeof *x);
        else
            memset(x, 0, (size_t)k * sizeof *x);
        x += k;
        e += k;
    }
}

tx_status tx_params_begin_unit(tx_params *ps, tx_unit_kind kind, int chunk)
{
    if (ps->n_units == ps->units_cap) {
        int cap = 2 * (ps->n_units + 8);
        TX_TRY(tx_realloc(&ps->unit, (size_t)cap, sizeof *ps->unit, "the parameter table"));
        ps->units_cap = cap;
    }
    ps->unit[ps->n_units++] = (tx_unit){ .kind = kind, .chunk = chunk, .first = ps->n, .end = ps->n };
    return TX_OK;
}

static uint64_t hash_of(const char *name)
{
    return tx_hash(name, strlen(name), 0);
}

/* After the table's last row. */
static tx_status append(tx_params *ps, tx_param p)
{
    TX_TRY(tx_hash_add(&ps->by_name, hash_of(p.name), (size_t)ps->n));
    p.offset = ps->numel;
    p.unit = ps->n_units - 1;
    if (!p.reduce_group) p.reduce_group = TX_GROUP_DATA;
    ps->param[ps->n++] = p;
    if (ps->n_units) ps->unit[p.unit].end = ps->n;
    ps->numel += (p.numel + TX_PARAM_ALIGN - 1) / TX_PARAM_ALIGN * TX_PARAM_ALIGN;
    return TX_OK;
}

/* Room for n rows more. */
static tx_status make_room(tx_params *ps, int n)
{
    if (ps->n + n <= ps->cap) return TX_OK;
    int cap = 2 * (ps->n + n);
    TX_TRY(tx_realloc(&ps->param, (size_t)cap, sizeof *ps->param, "the parameter table"));
    ps->cap = cap;
    return TX_OK;
}

tx_status tx_params_add(tx_params *ps, const char *layer, const tx_param_spec *spec, tx_weight *weight,
                        const tx_dims *dims)
{
    bool split = spec->division != TX_WHOLE;
    TX_TRY(make_room(ps, 1));
    tx_param p = { .n_dims = spec->dim[1] ? 2 : 1,
                   .whole = { spec->dim[0], spec->dim[1] },
                   .whole_logical = spec->dim[0],
                   .split_dim = split ? spec->division == TX_COLUMNS : -1,
                   .n_parts = 1,
                   .over_tp = split ? TX_SPLIT : TX_SAME,
                   .init = spec->init,
                   .std = spec->std,
                   .decay = spec->decay,
                   .lr_scale = 1,
                   .decay_scale = 1,
                   .weight = weight };
    int len = snprintf(p.name, sizeof p.name, "%s.%s", layer, spec->name);
    TX_ASSERT(len > 0 && (size_t)len < sizeof p.name && !tx_params_find(ps, p.name));
    take_shard(&p, dims);
    return append(ps, p);
}

tx_status tx_params_declare(tx_params *ps, const char *prefix, const tx_param_decl *decl, int n, void *base,
                            const tx_dims *dims)
{
    TX_TRY(make_room(ps, n));
    for (int i = 0; i < n; i++) {
        if ((decl[i].when & dims->traits) != decl[i].when) continue;
        tx_param p = {
            .init = decl[i].init,
            .decay = decl[i].decay,
            .lr_scale = 1,
            .decay_scale = 1,
            .first = decl[i].first,
            .frozen = dims->frozen,
        };
        int len = snprintf(p.name, sizeof p.name, "%s%s", prefix, decl[i].name);
        TX_ASSERT(len > 0 && (size_t)len < sizeof p.name && !tx_params_find(ps, p.name));
        parse_shape(&p, decl[i].shape, dims);
        take_shard(&p, dims);
        if (base) p.weight = (tx_weight *)(void *)((char *)base + decl[i].field);
        if (base) p.weight->frozen = p.frozen;
        TX_TRY(append(ps, p));
    }
    return TX_OK;
}

static bool is_scale(double x)
{
    return isfinite(x) && x >= 0;
}

tx_status tx_params_group(tx_params *ps, const tx_param_group *group, int n, bool *matched)
{
    for (int k = 0; k < n; k++) {
        const tx_param_group *g = &group[k];
        matched[k] = false;
        if (!g->pattern) return TX_FAIL(TX_ERR_ARG, "parameter group %d has no pattern", k);
        if (!is_scale(g->lr_scale) || !is_scale(g->weight_decay_scale))
            return TX_FAIL(TX_ERR_ARG, "parameter group \"%s\": a scale is negative or not finite", g->pattern);
    }
    for (int i = 0; i < ps->n; i++) {
        tx_param *p = &ps->param[i];
        for (int k = n - 1; k >= 0; k--) /* the first one is the last to be taken */
            if (!fnmatch(group[k].pattern, p->name, 0)) {
                matched[k] = true;
                p->lr_scale = group[k].lr_scale;
                p->decay_scale = group[k].weight_decay_scale;
                p->group = k + 1;
            }
    }
    return TX_OK;
}

tx_tensor tx_param_view(const tx_param *p, void *data, tx_dtype t)
{
    return p->n_dims == 1 ? tx_tensor1(data, t, p->dim[0]) : tx_tensor2(data, t, p->dim[0], p->dim[1]);
}

static void *element(void *flat, int64_t i, tx_dtype t)
{
    return flat ? (char *)flat + (size_t)i * tx_dtype_size(t) : NULL;
}

void tx_params_bind(tx_params *ps, void *value, tx_dtype t, float *grad)
{
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        if (p->weight)
            *p->weight = (tx_weight){ .value = tx_param_view(p, element(value, p->offset, t), t),
                                      .grad = tx_param_view(p, element(grad, p->offset, TX_F32), TX_F32),
                                      .frozen = p->frozen };
    }
}

tx_status tx_params_zero_grad(tx_ctx *c, const tx_params *ps, int first, int end)
{
    const char *part = c->at.part;
    tx_at_part(c, ZERO_GRAD);
    for (int i = first; i < end; i++) {
        tx_weight *w = ps->param[i].weight;
        if (w->frozen) continue;
        w->fresh = ps->param[i].first == TX_SETS;
        if (!w->fresh) TX_RUN(c, fill, .x = w->grad);
    }
    tx_at_part(c, part);
    return TX_OK;
}

tx_status tx_params_nothing(tx_ctx *c, const tx_params *ps, int first, int end)
{
    tx_at_part(c, ZERO_GRAD);
    for (int i = first; i < end; i++)
        if (ps->param[i].weight->fresh) TX_RUN(c, fill, .x = ps->param[i].weight->grad);
    return TX_OK;
}

void tx_params_contributed(const tx_params *ps, int first, int end)
{
    for (int i = first; i < end; i++) ps->param[i].weight->fresh = false;
}

int64_t tx_param_n_real(const tx_param *p)
{
    return p->numel / p->dim[0] * p->rows_logical;
}

static void fill(float *x, int64_t n, float with)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) x[i] = with;
}

/* Numbers are asked for by their place in the whole parameter, so neither the split over threads nor over ranks can
 * show. x[0 .. n) are the whole's elements from `first` on. */
static void draw_normal(float *x, int64_t first, int64_t n, const tx_rng *rng, double std)
{
    for (int64_t i = -(first & 1); i < n; i += 2) {
        double pair[2];
        tx_rng_normal_pair(rng, (uint64_t)(first + i) / 2, pair);
        if (i >= 0) x[i] = (float)(std * pair[0]);
        if (i + 1 < n) x[i + 1] = (float)(std * pair[1]);
    }
}

static void draw_uniform(float *x, int64_t first, int64_t n, const tx_rng *rng, double bound)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)(bound * (2 * tx_rng_uniform(rng, (uint64_t)(first + i)) - 1));
}

/* What a parameter's numbers are drawn with. */
typedef struct draw {
    const tx_param *p;
    tx_rng rng;
    double size;
    bool uniform;
    tx_initial own; /* the client draws them */
} draw;

static void draw_some(const draw *d, float *x, int64_t first, int64_t n)
{
    if (d->own.fn)
        d->own.fn(d->own.user, d->p->name, first, n, x);
    else if (d->uniform)
        draw_uniform(x, first, n, &d->rng, d->size);
    else
        draw_normal(x, first, n, &d->rng, d->size);
}

/* Of a piece what lies in elements [from, to) of the shard; x is its element `from`. */
static void draw_piece(const draw *d, const tx_param_piece *q, float *x, int64_t from, int64_t to)
{
    const tx_param *p = d->p;
    int64_t width = p->n_dims == 2 ? p->dim[1] : 1, whole = p->n_dims == 2 ? p->whole[1] : 1;
    int64_t base = q->at[0] * width + q->at[1], start = q->start[0] * whole + q->start[1];
    int64_t n_rows = q->size[0], length = q->size[1];
    if (length == width && width == whole) { /* the rows lie one after the other, there and here: they are one */
        length *= n_rows;
        n_rows = n_rows > 0;
    }
    for (int64_t r = n_rows > 1 && from > base ? (from - base) / width : 0; r < n_rows; r++) {
        int64_t at = base + r * width, end = at + length, skip = at < from ? from - at : 0;
        int64_t n = (end < to ? end : to) - at - skip;
        if (at >= to) break;
        if (n > 0) draw_some(d, x + (at + skip - from), start + r * whole + skip, n);
    }
}

static draw draw_of(const tx_param *p, uint64_t seed, const tx_init_method *method)
{
    double std = p->std > 0 ? p->std : method->std;
    draw d = { .p = p,
               .rng = { .seed = seed, .stream = tx_rng_stream(p->name) },
               .size = p->init == TX_INIT_SCALED ? std / sqrt(2.0 * method->n_layers) : std,
               .uniform = method->xavier_uniform && !(p->std > 0) };
    if (d.uniform) d.size = sqrt(6.0 / (double)(p->whole_logical + p->whole[1]));
    if (p->init == TX_INIT_KAIMING) d.uniform = true, d.size = 1 / sqrt((double)p->whole[1]);
    if (p->init == TX_INIT_OWN) d.own = method->own;
    return d;
}

void tx_param_init(const tx_param *p, float *x, int64_t first, int64_t n, uint64_t seed, tx_init_method method)
{
    const draw d = draw_of(p, seed, &method);
    int64_t real = tx_param_n_real(p) - first;
    fill(x, n, 0.0f);
    if (p->init == TX_INIT_ZERO) return;
    if (p->init == TX_INIT_ONE) {
        fill(x, real < n ? real > 0 ? real : 0 : n, 1.0f);
        return;
    }
    /* Blocks of what is asked for, not rows of the parameter: a rank's share of it may be few of them. */
    tx_param_piece piece[TX_PARAM_MAX_PIECES];
    int pieces = tx_param_pieces(p, piece);
#pragma omp parallel for schedule(static)
    for (int64_t b = 0; b < (n + DRAW_BLOCK - 1) / DRAW_BLOCK; b++) {
        int64_t at = b * DRAW_BLOCK, end = at + DRAW_BLOCK < n ? at + DRAW_BLOCK : n;
        for (int k = 0; k < pieces; k++) draw_piece(&d, &piece[k], x + at, first + at, first + end);
    }
}

void tx_params_round(void *value, tx_dtype t, const float *from, int64_t n)
{
    TX_ASSERT(t == TX_BF16 || t == TX_F16);
    uint16_t *to = value;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) to[i] = t == TX_BF16 ? tx_f32_to_bf16(from[i]) : tx_f32_to_f16(from[i]);
}

const tx_param *tx_params_find(const tx_params *ps, const char *name)
{
    size_t at = 0, i;
    while (tx_hash_next(&ps->by_name, hash_of(name), &at, &i))
        if (!strcmp(ps->param[i].name, name)) return &ps->param[i];
    return NULL;
}

int64_t tx_params_count(const tx_params *ps)
{
    int64_t n = 0;
    for (int i = 0; i < ps->n; i++)
        if (ps->param[i].counted) n += tx_param_n_real(&ps->param[i]);
    return n;
}

void tx_params_deinit(tx_params *ps)
{
    tx_free(ps->param);
    tx_free(ps->unit);
    tx_hash_free(&ps->by_name);
    *ps = (tx_params){ 0 };
}
