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
    TX_TRY(tx__cpu_need_float("col_sum", a->x));
    int64_t rows = a->x.dim[0], n = a->x.dim[1];
    int parts = tx__cpu_parts(c, (n + COLUMNS - 1) / COLUMNS, COLUMNS * rows);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, COLUMNS, parts, t);
        tx__cpu_k(c)->col_sum((float *)a->y.data + r.lo, tx__cpu_at(a->x, r.lo), a->x.dtype, rows, r.hi - r.lo, n);
    }
    return TX_OK;
}

/* gamma and beta as fp32, for all parts. */
size_t tx__cpu_layernorm_fwd_scratch(const tx_ctx *c, const tx_layernorm_fwd_args *a)
{
    (void)c;
    return (size_t)(2 * tx__lanes(a->x.dim[1])) * sizeof(float);
}

tx_status tx__cpu_layernorm_fwd(tx_ctx *c, const tx_layernorm_fwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("layernorm_fwd", a->y));
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    const float *gamma = tx__cpu_get(c, a->gamma, 0, h, scratch);
    const float *beta = a->beta.data ? tx__cpu_get(c, a->beta, 0, h, (float *)scratch + tx__lanes(h)) : NULL;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        const tx__norm_rows part = { .t = a->y.dtype,
                                     .s = a->x.dtype,
                                     .h = h,
                                     .eps = a->eps,
                                     .gamma = gamma,
                                     .beta = beta,
                                     .x = tx__cpu_at(a->x, r.lo * h),
                                     .y = tx__cpu_at(a->y, r.lo * h),
                                     .mu = tx__cpu_at(a->mu, r.lo),
                                     .rs = tx__cpu_at(a->rs, r.lo) };
        tx__cpu_k(c)->layernorm_fwd(&part, r.hi - r.lo);
    }
    return TX_OK;
}

/* Floats, a page, between what different threads read and write over and over: a processor that foresees the end of a
 * stretch no further than its page would take the next thread's cache lines from it each time. With the parts one after
 * the other two threads took longer than one. */
enum { APART = 1024 };

/* gamma as fp32, then dgamma and dbeta of each part: APART [parts, 2 ld + APART], ld = h rounded up to lines. */
size_t tx__cpu_layernorm_bwd_scratch(const tx_ctx *c, const tx_layernorm_bwd_args *a)
{
    int64_t rows = a->x.dim[0], h = a->x.dim[1], ld = tx__lanes(h);
    return (size_t)(ld + APART + tx__cpu_parts(c, rows, h) * (2 * ld + APART)) * sizeof(float);
}

tx_status tx__cpu_layernorm_bwd(tx_ctx *c, const tx_layernorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("layernorm_bwd", a->dy));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    int64_t rows = a->x.dim[0], h = a->x.dim[1], ld = tx__lanes(h), each = 2 * ld + APART;
    const float *gamma = tx__cpu_get(c, a->gamma, 0, h, scratch);
    float *partial = (float *)scratch + ld + APART;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        const tx__norm_rows part = { .t = a->dy.dtype,
                                     .s = a->x.dtype,
                                     .h = h,
                                     .gamma = gamma,
                                     .x = tx__cpu_at(a->x, r.lo * h),
                                     .mu = tx__cpu_at(a->mu, r.lo),
                                     .rs = tx__cpu_at(a->rs, r.lo),
                                     .dx = tx__cpu_at(a->dx, r.lo * h),
                                     .dy = tx__cpu_at(a->dy, r.lo * h),
                                     .dres = tx__cpu_at(a->dres, r.lo * h),
                                     .dgamma = partial + t * each,
                                     .dbeta = partial + t * each + ld };
        k->fill(part.dgamma, 2 * ld, 0.0f);
        k->layernorm_bwd(&part, r.hi - r.lo);
    }
    /* in the order of the parts */
    k->col_sum(a->dgamma.data, partial, TX_F32, parts, h, each);
    if (a->dbeta.data) k->col_sum(a->dbeta.data, partial + ld, TX_F32, parts, h, each);
    return TX_OK;
}

size_t tx__cpu_rmsnorm_fwd_scratch(const tx_ctx *c, const tx_rmsnorm_fwd_args *a)
{
    (void)c;
    return (size_t)tx__lanes(a->x.dim[1]) * sizeof(float);
}

tx_status tx__cpu_rmsnorm_fwd(tx_ctx *c, const tx_rmsnorm_fwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("rmsnorm_fwd", a->y));
    int64_t rows = a->x.dim[0], h = a->x.dim[1];
    const float *gamma = tx__cpu_get(c, a->gamma, 0, h, scratch);
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        const tx__norm_rows part = { .t = a->y.dtype,
                                     .s = a->x.dtype,
                                     .h = h,
                                     .eps = a->eps,
                                     .gamma = gamma,
                                     .x = tx__cpu_at(a->x, r.lo * h),
                                     .y = tx__cpu_at(a->y, r.lo * h),
                                     .rs = tx__cpu_at(a->rs, r.lo),
                                     .whole = tx__cpu_at(a->squares, r.lo),
                                     .columns = a->columns };
        tx__cpu_k(c)->rmsnorm_fwd(&part, r.hi - r.lo);
    }
    return TX_OK;
}

/* gamma, then dgamma of each part, as in layernorm_bwd. */
size_t tx__cpu_rmsnorm_bwd_scratch(const tx_ctx *c, const tx_rmsnorm_bwd_args *a)
{
    int64_t rows = a->x.dim[0], h = a->x.dim[1], ld = tx__lanes(h);
    return (size_t)((1 + tx__cpu_parts(c, rows, h)) * (ld + APART)) * sizeof(float);
}

tx_status tx__cpu_rmsnorm_bwd(tx_ctx *c, const tx_rmsnorm_bwd_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("rmsnorm_bwd", a->dy));
    const tx__cpu_kernels *k = tx__cpu_k(c);
    int64_t rows = a->x.dim[0], h = a->x.dim[1], ld = tx__lanes(h), each = ld + APART;
    const float *gamma = tx__cpu_get(c, a->gamma, 0, h, scratch);
    float *partial = (float *)scratch + ld + APART;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        const tx__norm_rows part = { .t = a->dy.dtype,
                                     .s = a->x.dtype,
                                     .h = h,
                                     .gamma = gamma,
                                     .x = tx__cpu_at(a->x, r.lo * h),
                                     .rs = tx__cpu_at(a->rs, r.lo),
                                     .dx = tx__cpu_at(a->dx, r.lo * h),
                                     .dy = tx__cpu_at(a->dy, r.lo * h),
                                     .dres = tx__cpu_at(a->dres, r.lo * h),
                                     .dgamma = partial + t * each,
                                     .whole = tx__cpu_at(a->dots, r.lo),
                                     .columns = a->columns };
        k->fill(part.dgamma, ld, 0.0f);
        k->rmsnorm_bwd(&part, r.hi - r.lo);
    }
    k->col_sum(a->dgamma.data, partial, TX_F32, parts, h, each); /* in the order of the parts */
    return TX_OK;
}

size_t tx__cpu_row_dots_scratch(const tx_ctx *c, const tx_row_dots_args *a)
{
    (void)c;
    return (size_t)tx__lanes(a->a.dim[1]) * sizeof(float);
}

tx_status tx__cpu_row_dots(tx_ctx *c, const tx_row_dots_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("row_dots", a->a));
    int64_t rows = a->a.dim[0], h = a->a.dim[1];
    const float *gamma = a->gamma.data ? tx__cpu_get(c, a->gamma, 0, h, scratch) : NULL;
    int parts = tx__cpu_parts(c, rows, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        const tx__dot_rows part = { .t = a->a.dtype,
                                    .h = h,
                                    .a = tx__cpu_at(a->a, r.lo * h),
                                    .b = tx__cpu_at(a->b, r.lo * h),
                                    .gamma = gamma,
                                    .y = tx__cpu_at(a->y, r.lo) };
        tx__cpu_k(c)->row_dots(&part, r.hi - r.lo);
    }
    return TX_OK;
}

tx_status tx__cpu_glu_fwd(tx_ctx *c, const tx_glu_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("glu_fwd", a->x));
    int64_t rows = a->y.dim[0], f = a->y.dim[1];
    int parts = tx__cpu_parts(c, rows, 4 * f);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) {
            int64_t gate = i * 2 * f + (a->gate_second ? f : 0), up = i * 2 * f + (a->gate_second ? 0 : f);
            tx__cpu_k(c)->glu_fwd(tx__cpu_at(a->y, i * f), tx__cpu_at(a->x, gate), tx__cpu_at(a->x, up), a->x.dtype, f,
                                  a->kind);
        }
    }
    return TX_OK;
}

tx_status tx__cpu_glu_bwd(tx_ctx *c, const tx_glu_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("glu_bwd", a->x));
    int64_t rows = a->dy.dim[0], f = a->dy.dim[1];
    int parts = tx__cpu_parts(c, rows, 4 * f);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) {
            int64_t gate = i * 2 * f + (a->gate_second ? f : 0), up = i * 2 * f + (a->gate_second ? 0 : f);
            const tx__glu_bwd row = { .dgate = tx__cpu_at(a->dx, gate),
                                      .dup = tx__cpu_at(a->dx, up),
                                      .dy = tx__cpu_at(a->dy, i * f),
                                      .gate = tx__cpu_at(a->x, gate),
                                      .up = tx__cpu_at(a->x, up),
                                      .t = a->x.dtype };
            tx__cpu_k(c)->glu_bwd(&row, f, a->kind);
        }
    }
    return TX_OK;
}

/* Positions are shared among threads: a position's angles are worked out once for all its heads. */
static int rope_parts(const tx_ctx *c, const tx_rope_args *a)
{
    return tx__cpu_parts(c, a->x.dim[0], tx_numel(a->x) / a->x.dim[0]);
}

/* Of each part the frequencies, its position's cosines and sines, and room for what is turned of a head. */
size_t tx__cpu_rope_scratch(const tx_ctx *c, const tx_rope_args *a)
{
    return (size_t)(rope_parts(c, a) * tx__lanes(a->n_rot / 2)) * (sizeof(double) + 4 * sizeof(float));
}

tx_status tx__cpu_rope(tx_ctx *c, const tx_rope_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("rope", a->x));
    const int32_t *own = a->position.data;
    int64_t s = a->x.dim[0], b = a->past.n.data || own ? a->x.dim[1] : 1,
            half = a->n_rot / 2; /* b: with places of their own */
    int64_t each = tx_numel(a->x) / s / b / a->x.dim[4], ld = tx__lanes(half);
    int parts = rope_parts(c, a);
    const tx__cpu_kernels *k = tx__cpu_k(c);
    void (*turn)(float *, const float *, const float *, int64_t) = a->interleaved ? k->rope_pairs : k->rope;
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(s, 1, parts, t);
        double *frequency = (double *)scratch + t * 3 * ld;
        float *cosine = (float *)(frequency + ld), *sine = cosine + ld, *room = sine + ld;
        double for_length = 0, scale = a->scale > 0 ? a->scale : 1;
        for (int64_t i = r.lo * b; i < r.hi * b; i++) {
            int64_t first = a->past.n.data ? ((const int32_t *)a->past.n.data)[i % b] : a->first;
            double longer = tx_rope_longer(a, tx_rope_length(a, first, i % b));
            for (int64_t j = 0; j < half && longer != for_length; j++) frequency[j] = tx_rope_frequency(a, j, longer);
            for_length = longer;
            for (int64_t j = 0; j < half; j++) {
                double angle = (double)(own ? own[i] : first + i / b) * frequency[j];
                cosine[j] = (float)(scale * cos(angle));
                sine[j] = (float)(scale * (a->inverse ? -sin(angle) : sin(angle)));
            }
            for (int64_t n = i * each; n < (i + 1) * each; n++) {
                int64_t at = tx_row_offset(a->x, n);
                turn(tx__cpu_get(c, a->x, at, 2 * half, room), cosine, sine, half);
                tx__cpu_put(c, a->x, at, 2 * half, room);
            }
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
        for (int64_t i = r.lo; i < r.hi; i++) {
            const tx__dropout_add row = { .y = tx__cpu_at(y, i * h),
                                          .x = tx__cpu_at(x, i * h),
                                          .residual = tx__cpu_at(residual, i * h),
                                          .y_type = y.dtype,
                                          .x_type = x.dtype,
                                          .residual_type = residual.dtype };
            tx__cpu_k(c)->dropout_add(&row, h, tx_dropout_row(mask, i / b, i % b, h), mask->drop ? &drop : NULL);
        }
    }
}

tx_status tx__cpu_dropout_add_fwd(tx_ctx *c, const tx_dropout_add_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("dropout_add_fwd", a->x));
    dropout(c, a->y, a->x, a->residual, &a->mask);
    return TX_OK;
}

tx_status tx__cpu_dropout_add_bwd(tx_ctx *c, const tx_dropout_add_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("dropout_add_bwd", a->dx));
    dropout(c, a->dx, a->dy, (tx_tensor){ 0 }, &a->mask);
    return TX_OK;
}

/* Every element of an optional table's index is a row of it. */
static tx_status check_rows(const char *op, const char *name, tx_tensor index, tx_tensor table)
{
    return table.data ? tx__check_index(op, name, index, 0, table.dim[0]) : TX_OK;
}

/* Rows of up to three tables that make a row of the embedding: they begin at element `at` of their tables, and the
 * first one has a factor. */
typedef struct looked_up {
    tx_tensor table[3];
    int64_t at[3];
    int n;
    float scale;
} looked_up;

/* y[i] = their sum */
static void add_rows(tx_ctx *c, tx_tensor y, int64_t i, const looked_up *l)
{
    int64_t h = y.dim[2];
    const tx_tensor *table = l->table;
    const int64_t *at = l->at;
    const tx__blend_step scaled = { .alpha = l->scale };
    if (l->n == 0) memset(tx__cpu_at(y, i * h), 0, (size_t)h * tx_dtype_size(y.dtype));
    if (l->n == 1 && l->scale == 1) tx__cpu_move(c, y, i * h, table[0], at[0], h);
    if (l->n == 0 || (l->n == 1 && l->scale == 1)) return;
    float sum[TX__CPU_STRETCH], one[TX__CPU_STRETCH], other[TX__CPU_STRETCH];
    int64_t step = tx__cpu_stretch(table[0].dtype, h);
    for (int64_t j = 0; j < h; j += step) {
        int64_t some = tx__cpu_min(h - j, step);
        float *to = tx__cpu_dst(y, i * h + j, sum);
        const float *first = tx__cpu_get(c, table[0], at[0] + j, some, one);
        if (l->scale != 1) {
            tx__cpu_k(c)->blend(to, first, NULL, some, &scaled);
            first = to;
        }
        for (int k = 1; k < l->n; k++) {
            tx__cpu_k(c)->add(to, first, tx__cpu_get(c, table[k], at[k] + j, some, other), some);
            first = to;
        }
        tx__cpu_put(c, y, i * h + j, some, sum);
    }
}

tx_status tx__cpu_embedding_fwd(tx_ctx *c, const tx_embedding_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("embedding_fwd", a->word));
    TX_TRY(tx__check_index("embedding_fwd", "token", a->token, 0, tx__rows_of(a->shard, a->word)));
    TX_TRY(check_rows("embedding_fwd", "position", a->position, a->pos));
    TX_TRY(check_rows("embedding_fwd", "type", a->type, a->kind));
    int64_t h = a->y.dim[2], n = tx_numel(a->token);
    const int32_t *token = a->token.data, *position = a->position.data, *type = a->type.data;
    int parts = tx__cpu_parts(c, n, h);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(n, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) {
            looked_up l = { .scale = 1 };
            int64_t word = token[i] - a->shard.first;
            if (word >= 0 && word < a->word.dim[0]) {
                l.scale = (float)tx__scale_or_1(a->scale);
                l.table[l.n] = a->word, l.at[l.n++] = word * h;
            }
            if (a->pos.data) l.table[l.n] = a->pos, l.at[l.n++] = position[i] * h;
            if (a->kind.data) l.table[l.n] = a->kind, l.at[l.n++] = type[i] * h;
            add_rows(c, a->y, i, &l);
        }
    }
    return TX_OK;
}

/* Tokens whose gradients are added up before a type gets them: a type is that of half of all tokens, and a sum of so
 * many, one by one, would lose digits. */
enum { TOKENS = 32 };

/* dkind of tokens first .. end, columns r. */
static void add_types(tx_ctx *c, const tx_embedding_bwd_args *a, int64_t first, int64_t end, tx__range r)
{
    const tx__cpu_kernels *k = tx__cpu_k(c);
    const int32_t *type = a->type.data;
    int64_t h = a->dy.dim[2];
    float sum[TX__CPU_STRETCH], room[TX__CPU_STRETCH];
    for (int64_t i = first; i < end; i++) {
        int64_t before = first;
        while (type[before] != type[i]) before++;
        if (before < i) continue; /* has been added with that one */
        for (int64_t j = r.lo; j < r.hi; j += TX__CPU_STRETCH) {
            int64_t some = tx__cpu_min(r.hi - j, TX__CPU_STRETCH);
            k->fill(sum, some, 0.0f);
            for (int64_t m = i; m < end; m++)
                if (type[m] == type[i]) k->add(sum, sum, tx__cpu_get(c, a->dy, m * h + j, some, room), some);
            float *to = (float *)a->dkind.data + type[i] * h + j;
            k->add(to, to, sum, some);
        }
    }
}

/* dword and dpos of tokens first .. end, columns r. */
static void add_words(tx_ctx *c, const tx_embedding_bwd_args *a, int64_t first, int64_t end, tx__range r)
{
    const tx__cpu_kernels *k = tx__cpu_k(c);
    const int32_t *token = a->token.data, *position = a->position.data;
    int64_t h = a->dy.dim[2], step = tx__cpu_stretch(a->dy.dtype, r.hi - r.lo);
    float room[TX__CPU_STRETCH];
    const tx__blend_step added = { .alpha = 1, .beta = (float)tx__scale_or_1(a->scale) };
    for (int64_t i = first; i < end; i++)
        for (int64_t j = r.lo; j < r.hi; j += step) {
            int64_t some = tx__cpu_min(r.hi - j, step);
            const float *dy = tx__cpu_get(c, a->dy, i * h + j, some, room);
            int64_t row = token[i] - a->shard.first;
            if (row >= 0 && row < a->dword.dim[0]) {
                float *w = (float *)a->dword.data + row * h + j;
                if (added.beta == 1)
                    k->add(w, w, dy, some);
                else
                    k->blend(w, w, dy, some, &added);
            }
            if (!a->dpos.data) continue;
            float *p = (float *)a->dpos.data + position[i] * h + j;
            k->add(p, p, dy, some);
        }
}

/* Tokens repeat, so threads take columns: each adds all tokens in order to its own. */
tx_status tx__cpu_embedding_bwd(tx_ctx *c, const tx_embedding_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("embedding_bwd", a->dy));
    TX_TRY(tx__check_index("embedding_bwd", "token", a->token, 0, tx__rows_of(a->shard, a->dword)));
    TX_TRY(check_rows("embedding_bwd", "position", a->position, a->dpos));
    TX_TRY(check_rows("embedding_bwd", "type", a->type, a->dkind));
    int64_t h = a->dy.dim[2], n = tx_numel(a->token);
    int parts = tx__cpu_parts(c, (h + COLUMNS - 1) / COLUMNS, COLUMNS * n);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(h, COLUMNS, parts, t);
        for (int64_t first = 0; first < n; first += TOKENS) {
            int64_t end = tx__cpu_min(n, first + TOKENS);
            add_words(c, a, first, end, r);
            if (a->dkind.data) add_types(c, a, first, end, r);
        }
    }
    return TX_OK;
}

/* Each part's room for a row, which is long enough to be left out where it is not needed. */
size_t tx__cpu_cross_entropy_scratch(const tx_ctx *c, const tx_cross_entropy_args *a)
{
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    return a->z.dtype == TX_F32 ? 0 : (size_t)(tx__cpu_parts(c, rows, 4 * v) * tx__lanes(v)) * sizeof(float);
}

tx_status tx__cpu_cross_entropy(tx_ctx *c, const tx_cross_entropy_args *a, void *scratch)
{
    TX_TRY(tx__cpu_need_float("cross_entropy", a->z));
    TX_TRY(tx__check_index("cross_entropy", "y", a->y, -1, a->n_valid));
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    tx_tensor dz = a->dz.data ? a->dz : a->z;
    float *loss = a->loss.data, *z_loss = a->z_loss.data;
    const float *weight = a->weight.data;
    const int32_t *y = a->y.data;
    double even = tx_even_smoothing(a->smoothing, a->n_valid);
    int parts = tx__cpu_parts(c, rows, 4 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        float *room = a->z.dtype == TX_F32 ? NULL : (float *)scratch + t * tx__lanes(v);
        for (int64_t i = r.lo; i < r.hi; i++) {
            const tx__loss_terms terms = { even, a->z_weight, z_loss ? z_loss + i : NULL };
            loss[i] = tx__cpu_k(c)->cross_entropy(tx__cpu_get(c, a->z, i * a->z.stride[0], v, room),
                                                  tx__cpu_at(dz, i * dz.stride[0]), dz.dtype, a->n_valid, v, y[i],
                                                  weight ? weight + i : NULL, &terms);
        }
    }
    return TX_OK;
}

tx_status tx__cpu_cross_entropy_part(tx_ctx *c, const tx_cross_entropy_part_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("cross_entropy_part", a->z));
    TX_TRY(tx__check_index("cross_entropy_part", "y", a->y, -1, a->classes.n_valid));
    int64_t rows = a->z.dim[0], v = a->z.dim[1];
    float *z = a->z.data, *stats = a->stats.data;
    const int32_t *y = a->y.data;
    int parts = tx__cpu_parts(c, rows, 4 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            tx__cpu_k(c)->cross_entropy_part(stats + 4 * i, z + i * v, a->classes.n_here, y[i] - a->classes.first,
                                             a->keep);
    }
    return TX_OK;
}

/* log Σ exp over all parts; *share: what the own part's exp(z - m) are multiplied with to be the softmax. */
static double join_stats(const float *stats, int64_t rows, int64_t parts, int64_t i, int64_t part, double *share)
{
    double max = -INFINITY, sum = 0;
    for (int64_t p = 0; p < parts; p++) max = fmax(max, (double)stats[4 * (p * rows + i)]);
    for (int64_t p = 0; p < parts; p++) {
        const float *s = stats + 4 * (p * rows + i);
        if (s[1] > 0) sum += (double)s[1] * exp((double)s[0] - max);
    }
    *share = exp((double)stats[4 * (part * rows + i)] - max) / sum;
    return max + log(sum);
}

tx_status tx__cpu_cross_entropy_join(tx_ctx *c, const tx_cross_entropy_join_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("cross_entropy_join", a->stats));
    TX_TRY(tx__check_index("cross_entropy_join", "y", a->y, -1, a->classes.n_valid));
    int64_t rows = a->loss.dim[0], v = a->z.dim[1], n_parts = a->stats.dim[0];
    tx_tensor dz = a->dz.data ? a->dz : a->z;
    float *loss = a->loss.data, *z_loss = a->z_loss.data;
    const float *weight = a->weight.data, *stats = a->stats.data, *z = a->z.data;
    const int32_t *y = a->y.data;
    double even = tx_even_smoothing(a->smoothing, a->classes.n_valid), each = even / (double)a->classes.n_valid;
    int parts = tx__cpu_parts(c, rows, weight ? 2 * v : 4 * n_parts);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++) {
            double share, lse = join_stats(stats, rows, n_parts, i, a->part, &share), z_y = 0, total = 0;
            for (int64_t p = 0; p < n_parts; p++) {
                z_y += (double)stats[4 * (p * rows + i) + 2];
                total += (double)stats[4 * (p * rows + i) + 3];
            }
            double w = weight && y[i] >= 0 ? (double)weight[i] : 0;
            loss[i] = y[i] < 0 ? 0 : (float)(lse - (1 - even) * z_y - each * total);
            if (z_loss) z_loss[i] = y[i] < 0 ? 0 : (float)(a->z_weight * lse * lse);
            share *= tx_z_slope(a->z_weight, lse);
            if (weight)
                tx__cpu_k(c)->cross_entropy_join(tx__cpu_at(dz, i * v), dz.dtype, z + i * v, a->classes.n_here, v,
                                                 y[i] < 0 ? -1 : y[i] - a->classes.first, (float)(w * share),
                                                 (float)(w * each), (float)(w * (1 - even)));
        }
    }
    return TX_OK;
}

/* Rows of both may lie further apart. */
tx_status tx__cpu_softcap_fwd(tx_ctx *c, const tx_softcap_fwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("softcap_fwd", a->x));
    const tx__capped form = { (float)tx__scale_or_1(a->form.scale), (float)a->form.cap };
    int64_t rows = a->x.dim[0], v = a->x.dim[1];
    int parts = tx__cpu_parts(c, rows, 4 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            tx__cpu_k(c)->softcap_fwd(tx__cpu_at(a->y, i * a->y.stride[0]), tx__cpu_at(a->x, i * a->x.stride[0]), v,
                                      &form);
    }
    return TX_OK;
}

tx_status tx__cpu_softcap_bwd(tx_ctx *c, const tx_softcap_bwd_args *a, void *scratch)
{
    (void)scratch;
    TX_TRY(tx__cpu_need_float("softcap_bwd", a->dy));
    const tx__capped form = { (float)tx__scale_or_1(a->form.scale), (float)a->form.cap };
    int64_t rows = a->dy.dim[0], v = a->dy.dim[1];
    int parts = tx__cpu_parts(c, rows, 4 * v);
#pragma omp parallel for schedule(static) num_threads(parts)
    for (int t = 0; t < parts; t++) {
        tx__range r = tx__cpu_part(rows, 1, parts, t);
        for (int64_t i = r.lo; i < r.hi; i++)
            tx__cpu_k(c)->softcap_bwd(tx__cpu_at(a->dx, i * v), a->dx.dtype, tx__cpu_at(a->dy, i * v),
                                      tx__cpu_at(a->y, i * v), v, &form);
    }
    return TX_OK;
}
