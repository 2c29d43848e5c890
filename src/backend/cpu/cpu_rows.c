/* cpu_rows.c - ops that work row by row, cut into one run of rows (or, where rows are summed, of columns) per thread.
 */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

/* Columns are cut at multiples of this, so that no two threads write one cache line and runs are worth streaming. */
enum { COLUMNS = 64 };

tx_status tx__cpu_col_sum(tx_ctx *c, const tx_col_sum_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("col_sum", a->x));
    int64_t rows = a->x.dim[0], n = a->x.dim[1];
    int parts = tx__cpu_parts(c, (n + COLUMNS - 1) / COLUMNS, COLUMNS * rows);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, COLUMNS, parts, t);
        tx__cpu_k(c)->col_sum((float *)a->y.data + r.lo, (const float *)a->x.data + r.lo, rows, r.hi - r.lo, n);
    }
    return TX_OK;
}

tx_status tx__cpu_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("layernorm_fwd", a->x));
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    float *y = a->y.data, *mu = a->mu.data, *rs = a->rs.data;
    const float *x = a->x.data;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        tx__cpu_k(c)->layernorm_fwd(y + r.lo * h, mu + r.lo, rs + r.lo, x + r.lo * h, a->gamma.data, a->beta.data,
                                    r.hi - r.lo, h, a->eps);
    }
    return TX_OK;
}

/* dgamma and dbeta of each part: [parts, 2, ld], ld = h rounded up so that parts share no cache line. */
size_t tx__cpu_layernorm_bwd_scratch(const tx_ctx *c, const tx_layernorm_bwd_args *a)
{
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    return (size_t)(2 * tx__cpu_parts(c, rows, h) * tx__lanes(h)) * sizeof(float);
}

tx_status tx__cpu_layernorm_bwd(tx_ctx *c, const tx_layernorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_f32("layernorm_bwd", a->x));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    int64_t rows = a->x.dim[0], h = a->x.dim[1], ld = tx__lanes(h);
    float *dx = a->dx.data, *partial = scratch;
    const float *dy = a->dy.data, *x = a->x.data, *dres = a->dres.data, *mu = a->mu.data, *rs = a->rs.data;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        float *dgamma = partial + t * 2 * ld, *dbeta = dgamma + ld;
        k->fill(dgamma, 2 * ld, 0.0f);
        k->layernorm_bwd(dx + r.lo * h, dgamma, dbeta, dy + r.lo * h, x + r.lo * h, dres ? dres + r.lo * h : NULL,
                         a->gamma.data, mu + r.lo, rs + r.lo, r.hi - r.lo, h);
    }
    /* in the order of the parts */
    k->col_sum(a->dgamma.data, partial, parts, h, 2 * ld);
    k->col_sum(a->dbeta.data, partial + ld, parts, h, 2 * ld);
    return TX_OK;
}

tx_status tx__cpu_rmsnorm_fwd(tx_ctx *c, const tx_rmsnorm_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("rmsnorm_fwd", a->x));
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    float *y = a->y.data, *rs = a->rs.data;
    const float *x = a->x.data;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        tx__cpu_k(c)->rmsnorm_fwd(y + r.lo * h, rs + r.lo, x + r.lo * h, a->gamma.data, r.hi - r.lo, h, a->eps);
    }
    return TX_OK;
}

/* dgamma of each part: [parts, ld], as in layernorm_bwd. */
size_t tx__cpu_rmsnorm_bwd_scratch(const tx_ctx *c, const tx_rmsnorm_bwd_args *a)
{
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    return (size_t)(tx__cpu_parts(c, rows, h) * tx__lanes(h)) * sizeof(float);
}

tx_status tx__cpu_rmsnorm_bwd(tx_ctx *c, const tx_rmsnorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_f32("rmsnorm_bwd", a->x));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    int64_t rows = a->x.dim[0], h = a->x.dim[1], ld = tx__lanes(h);
    float *dx = a->dx.data, *partial = scratch;
    const float *dy = a->dy.data, *x = a->x.data, *dres = a->dres.data, *rs = a->rs.data;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        k->fill(partial + t * ld, ld, 0.0f);
        k->rmsnorm_bwd(dx + r.lo * h, partial + t * ld, dy + r.lo * h, x + r.lo * h, dres ? dres + r.lo * h : NULL,
                       a->gamma.data, rs + r.lo, r.hi - r.lo, h);
    }
    k->col_sum(a->dgamma.data, partial, parts, h, ld); /* in the order of the parts */
    return TX_OK;
}

tx_status tx__cpu_swiglu_fwd(tx_ctx *c, const tx_swiglu_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("swiglu_fwd", a->x));
    int64_t rows = a->y.dim[0], f = a->y.dim[1];
    float *y = a->y.data;
    const float *x = a->x.data;
    int parts = tx__cpu_parts(c, rows, 4 * f);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) tx__cpu_k(c)->swiglu_fwd(y + i * f, x + i * 2 * f, x + i * 2 * f + f, f);
    }
    return TX_OK;
}

tx_status tx__cpu_swiglu_bwd(tx_ctx *c, const tx_swiglu_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("swiglu_bwd", a->x));
    int64_t rows = a->dy.dim[0], f = a->dy.dim[1];
    float *dx = a->dx.data;
    const float *dy = a->dy.data, *x = a->x.data;
    int parts = tx__cpu_parts(c, rows, 4 * f);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            tx__cpu_k(c)->swiglu_bwd(dx + i * 2 * f, dx + i * 2 * f + f, dy + i * f, x + i * 2 * f, x + i * 2 * f + f,
                                     f);
    }
    return TX_OK;
}

/* Positions are shared among threads: a position's angles are worked out once for all its heads. */
static int rope_parts(const tx_ctx *c, const tx_rope_args *a)
{
    return tx__cpu_parts(c, a->x.dim[0], tx_numel(a->x) / a->x.dim[0]);
}

/* Of each part the frequencies and its position's cosines and sines. */
size_t tx__cpu_rope_scratch(const tx_ctx *c, const tx_rope_args *a)
{
    return (size_t)(rope_parts(c, a) * tx__lanes(a->n_rot / 2)) * (sizeof(double) + 2 * sizeof(float));
}

tx_status tx__cpu_rope(tx_ctx *c, const tx_rope_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_f32("rope", a->x));
    int64_t s = a->x.dim[0], half = a->n_rot / 2, each = tx_numel(a->x) / s / a->x.dim[4], ld = tx__lanes(half);
    int parts = rope_parts(c, a);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(s, 1, parts, t);
        double *frequency = (double *)scratch + t * 2 * ld;
        float *cosine = (float *)(frequency + ld), *sine = cosine + ld;
        for (int64_t j = 0; j < half; j++) frequency[j] = pow(a->theta, -(double)j / (double)half);
        for (int64_t i = r.lo; i < r.hi; i++) {
            for (int64_t j = 0; j < half; j++) {
                double angle = (double)(a->first + i) * frequency[j];
                cosine[j] = (float)cos(angle);
                sine[j] = (float)(a->inverse ? -sin(angle) : sin(angle));
            }
            for (int64_t n = i * each; n < (i + 1) * each; n++)
                tx__cpu_k(c)->rope((float *)a->x.data + tx_row_offset(a->x, n), cosine, sine, half);
        }
    }
    return TX_OK;
}

/* y = residual + drop(x) over [s, b, h]; the mask follows a row's place in the run. */
static void dropout(tx_ctx *c, tx_tensor y, tx_tensor x, tx_tensor residual, const tx_dropout *mask)
{
    int64_t b = x.dim[1], h = x.dim[2], rows = x.dim[0] * b;
    const tx__drop drop = { mask->rng, mask->drop, (float)tx_dropout_scale(mask) };
    int parts = tx__cpu_parts(c, rows, 2 * h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            tx__cpu_k(c)->dropout_add((float *)y.data + i * h, (const float *)x.data + i * h,
                                      residual.data ? (const float *)residual.data + i * h : NULL, h,
                                      tx_dropout_row(mask, i / b, i % b, h), mask->drop ? &drop : NULL);
    }
}

tx_status tx__cpu_dropout_add_fwd(tx_ctx *c, const tx_dropout_add_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("dropout_add_fwd", a->x));
    dropout(c, a->y, a->x, a->residual, &a->mask);
    return TX_OK;
}

tx_status tx__cpu_dropout_add_bwd(tx_ctx *c, const tx_dropout_add_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("dropout_add_bwd", a->dy));
    dropout(c, a->dx, a->dy, (tx_tensor){ 0 }, &a->mask);
    return TX_OK;
}

tx_status tx__cpu_embedding_fwd(tx_ctx *c, const tx_embedding_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("embedding_fwd", a->y));
    TX_TRY(tx__check_index("embedding_fwd", "token", a->token, 0, a->word.dim[0]));
    if (a->pos.data) TX_TRY(tx__check_index("embedding_fwd", "position", a->position, 0, a->pos.dim[0]));
    int64_t h = a->y.dim[2], n = tx_numel(a->token);
    const int32_t *token = a->token.data, *position = a->position.data;
    const float *word = a->word.data, *pos = a->pos.data;
    float *y = a->y.data;
    int parts = tx__cpu_parts(c, n, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            if (pos)
                tx__cpu_k(c)->add(y + i * h, word + token[i] * h, pos + position[i] * h, h);
            else
                memcpy(y + i * h, word + token[i] * h, (size_t)h * sizeof *y);
    }
    return TX_OK;
}

/* Tokens repeat, so threads take columns: each adds all tokens in order to its own. */
tx_status tx__cpu_embedding_bwd(tx_ctx *c, const tx_embedding_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("embedding_bwd", a->dy));
    TX_TRY(tx__check_index("embedding_bwd", "token", a->token, 0, a->dword.dim[0]));
    if (a->dpos.data) TX_TRY(tx__check_index("embedding_bwd", "position", a->position, 0, a->dpos.dim[0]));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    int64_t h = a->dy.dim[2], n = tx_numel(a->token);
    const int32_t *token = a->token.data, *position = a->position.data;
    float *dword = a->dword.data, *dpos = a->dpos.data;
    const float *dy = a->dy.data;
    int parts = tx__cpu_parts(c, (h + COLUMNS - 1) / COLUMNS, COLUMNS * n);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(h, COLUMNS, parts, t);
        for (int64_t i = 0; i < n; i++) {
            float *w = dword + token[i] * h + r.lo;
            k->add(w, w, dy + i * h + r.lo, r.hi - r.lo);
            if (!dpos) continue;
            float *p = dpos + position[i] * h + r.lo;
            k->add(p, p, dy + i * h + r.lo, r.hi - r.lo);
        }
    }
    return TX_OK;
}

tx_status tx__cpu_cross_entropy(tx_ctx *c, const tx_cross_entropy_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_f32("cross_entropy", a->z));
    TX_TRY(tx__check_index("cross_entropy", "y", a->y, -1, a->n_valid));
    int64_t rows = a->z.dim[0], v = a->z.dim[1], ld = a->z.stride[0];
    float *z = a->z.data, *loss = a->loss.data;
    const float *weight = a->weight.data;
    const int32_t *y = a->y.data;
    double even = tx_even_smoothing(a->smoothing, a->n_valid);
    int parts = tx__cpu_parts(c, rows, 4 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            loss[i] = tx__cpu_k(c)->cross_entropy(z + i * ld, a->n_valid, v, y[i], weight ? weight + i : NULL, even);
    }
    return TX_OK;
}
