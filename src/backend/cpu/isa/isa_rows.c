/* isa_rows.c - what works on whole rows: normalisations, cross-entropy and what a teacher adds to it. */
#include "backend/cpu/isa/vmath.h"

/* ---- norms ----
 *
 * A few rows at once: their sums are chains that wait for themselves, not for each other, and dgamma and dbeta are read
 * and written once for all of them. `rows`, the types and `centred`, which tells LayerNorm from RMSNorm, are constants
 * where these are inlined. `first` is the number of the first row. */

enum { AT_ONCE = TX__VEC == 16 ? 4 : 2 };

/* Brings the cache line of element i, whose column is j, each line once. Processors foresee a long stream, not rows
 * side by side that end soon; a pass over rows that are near brings what the next pass reads. */
TX__INLINE void fetch(const void *x, tx_dtype t, int64_t i, int64_t j)
{
    const int64_t size = t == TX_F32 ? 4 : 2;
    if (TX__VEC * size >= 64 || !(j * size % 64)) __builtin_prefetch((const char *)x + i * size);
}

TX__INLINE void norm_fwd_rows(int rows, bool centred, tx_dtype t, tx_dtype s, const tx__norm_rows *a, int64_t first)
{
    const int64_t h = a->h, at = first * h;
    tx__vec sum[AT_ONCE] = { 0 }, square[AT_ONCE] = { 0 };
    float mean[AT_ONCE] = { 0 }, scale[AT_ONCE];
    for (int64_t j = 0; centred && j < h; j += TX__VEC)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) sum[i] += tx__load_n(a->x, s, at + i * h + j, h - j);
    for (int i = 0; centred && i < rows; i++) a->mu[first + i] = mean[i] = tx__total(sum[i]) / (float)h;
    for (int64_t j = 0; j < h; j += TX__VEC)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            tx__vec d = tx__load_n(a->x, s, at + i * h + j, h - j) - mean[i];
            if (centred) d = tx__first_n(d, h - j);
            square[i] += d * d;
        }
    for (int i = 0; i < rows; i++) {
        double mean_square =
            a->whole ? (double)a->whole[first + i] / (double)a->columns : (double)tx__total(square[i]) / (double)h;
        a->rs[first + i] = scale[i] = (float)(1.0 / sqrt(mean_square + a->eps));
    }
    for (int64_t j = 0; j < h; j += TX__VEC) {
        tx__vec gamma = tx__load_n(a->gamma, TX_F32, j, h - j), beta = { 0 };
        if (centred && a->beta) beta = tx__load_n(a->beta, TX_F32, j, h - j);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            fetch(a->x, s, at + (rows + i) * h + j, j);
            tx__vec d = tx__load_n(a->x, s, at + i * h + j, h - j) - mean[i];
            tx__store_n(a->y, t, at + i * h + j, h - j, d * scale[i] * gamma + beta);
        }
    }
}

TX__INLINE void norm_bwd_rows(int rows, bool centred, tx_dtype t, tx_dtype s, const tx__norm_rows *a, int64_t first)
{
    const int64_t h = a->h, at = first * h;
    tx__vec sum_g[AT_ONCE] = { 0 }, sum_gx[AT_ONCE] = { 0 };
    float mean[AT_ONCE] = { 0 }, scale[AT_ONCE], mean_g[AT_ONCE], mean_gx[AT_ONCE];
    for (int i = 0; i < rows; i++) {
        scale[i] = a->rs[first + i];
        if (centred) mean[i] = a->mu[first + i];
    }
    for (int64_t j = 0; j < h; j += TX__VEC) {
        tx__vec gamma = tx__load_n(a->gamma, TX_F32, j, h - j), dgamma = tx__load_n(a->dgamma, TX_F32, j, h - j);
        tx__vec dbeta = { 0 };
        if (centred) dbeta = tx__load_n(a->dbeta, TX_F32, j, h - j);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            if (a->dres) fetch(a->dres, s, at + i * h + j, j);
            tx__vec xhat = (tx__load_n(a->x, s, at + i * h + j, h - j) - mean[i]) * scale[i];
            tx__vec dy = tx__load_n(a->dy, t, at + i * h + j, h - j), g = dy * gamma;
            if (centred) sum_g[i] += g;
            sum_gx[i] += g * xhat;
            dgamma += dy * xhat;
            dbeta += dy;
        }
        tx__store_n(a->dgamma, TX_F32, j, h - j, dgamma);
        if (centred) tx__store_n(a->dbeta, TX_F32, j, h - j, dbeta);
    }
    for (int i = 0; i < rows; i++) {
        mean_g[i] = centred ? tx__total(sum_g[i]) / (float)h : 0;
        mean_gx[i] = a->whole ? scale[i] * a->whole[first + i] / (float)a->columns : tx__total(sum_gx[i]) / (float)h;
    }
    for (int64_t j = 0; j < h; j += TX__VEC) {
        tx__vec gamma = tx__load_n(a->gamma, TX_F32, j, h - j);
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) {
            fetch(a->x, s, at + (rows + i) * h + j, j);
            fetch(a->dy, t, at + (rows + i) * h + j, j);
            tx__vec xhat = (tx__load_n(a->x, s, at + i * h + j, h - j) - mean[i]) * scale[i];
            tx__vec g = tx__load_n(a->dy, t, at + i * h + j, h - j) * gamma;
            tx__vec dx = scale[i] * (g - mean_g[i] - xhat * mean_gx[i]);
            if (a->dres) dx += tx__load_n(a->dres, s, at + i * h + j, h - j);
            tx__store_n(a->dx, s, at + i * h + j, h - j, dx);
        }
    }
}

TX__INLINE void norm_fwd(bool centred, tx_dtype t, tx_dtype s, const tx__norm_rows *a, int64_t rows)
{
    int64_t i = 0;
    for (; i + AT_ONCE <= rows; i += AT_ONCE) norm_fwd_rows(AT_ONCE, centred, t, s, a, i);
    for (; i < rows; i++) norm_fwd_rows(1, centred, t, s, a, i);
}

TX__INLINE void norm_bwd(bool centred, tx_dtype t, tx_dtype s, const tx__norm_rows *a, int64_t rows)
{
    int64_t i = 0;
    for (; i + AT_ONCE <= rows; i += AT_ONCE) norm_bwd_rows(AT_ONCE, centred, t, s, a, i);
    for (; i < rows; i++) norm_bwd_rows(1, centred, t, s, a, i);
}

TX__INLINE void norm_fwd_any(bool centred, const tx__norm_rows *a, int64_t rows)
{
    if (a->t == TX_F32)
        norm_fwd(centred, TX_F32, TX_F32, a, rows);
    else if (a->t == TX_BF16 && a->s == TX_BF16)
        norm_fwd(centred, TX_BF16, TX_BF16, a, rows);
    else if (a->t == TX_BF16)
        norm_fwd(centred, TX_BF16, TX_F32, a, rows);
    else if (a->s == TX_F16)
        norm_fwd(centred, TX_F16, TX_F16, a, rows);
    else
        norm_fwd(centred, TX_F16, TX_F32, a, rows);
}

TX__INLINE void norm_bwd_any(bool centred, const tx__norm_rows *a, int64_t rows)
{
    if (a->t == TX_F32)
        norm_bwd(centred, TX_F32, TX_F32, a, rows);
    else if (a->t == TX_BF16 && a->s == TX_BF16)
        norm_bwd(centred, TX_BF16, TX_BF16, a, rows);
    else if (a->t == TX_BF16)
        norm_bwd(centred, TX_BF16, TX_F32, a, rows);
    else if (a->s == TX_F16)
        norm_bwd(centred, TX_F16, TX_F16, a, rows);
    else
        norm_bwd(centred, TX_F16, TX_F32, a, rows);
}

void tx__k(layernorm_fwd)(const tx__norm_rows *a, int64_t rows)
{
    norm_fwd_any(true, a, rows);
}

void tx__k(layernorm_bwd)(const tx__norm_rows *a, int64_t rows)
{
    norm_bwd_any(true, a, rows);
}

void tx__k(rmsnorm_fwd)(const tx__norm_rows *a, int64_t rows)
{
    norm_fwd_any(false, a, rows);
}

void tx__k(rmsnorm_bwd)(const tx__norm_rows *a, int64_t rows)
{
    norm_bwd_any(false, a, rows);
}

TX__INLINE void dots(tx_dtype t, const tx__dot_rows *a, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        tx__vec sum = { 0 };
        for (int64_t j = 0; j < a->h; j += TX__VEC) {
            int64_t left = a->h - j, at = i * a->h + j;
            tx__vec product = tx__load_n(a->a, t, at, left) * tx__load_n(a->b, t, at, left);
            if (a->gamma) product *= tx__load_n(a->gamma, TX_F32, j, left);
            sum += product;
        }
        a->y[i] = tx__total(sum);
    }
}

void tx__k(row_dots)(const tx__dot_rows *a, int64_t rows)
{
    if (a->t == TX_F32)
        dots(TX_F32, a, rows);
    else if (a->t == TX_BF16)
        dots(TX_BF16, a, rows);
    else
        dots(TX_F16, a, rows);
}

/* ---- cross-entropy ---- */

/* Largest of n; in lanes of its own, because a plain running maximum is not vectorised without -ffast-math. */
static float row_max(const float *z, int64_t n)
{
    float lane[TX__LANES], max = -INFINITY;
    for (int l = 0; l < TX__LANES; l++) lane[l] = -INFINITY;
    int64_t i = 0;
    for (; i + TX__LANES <= n; i += TX__LANES)
#pragma omp simd
        for (int l = 0; l < TX__LANES; l++) lane[l] = z[i + l] > lane[l] ? z[i + l] : lane[l];
    for (; i < n; i++) max = z[i] > max ? z[i] : max;
    for (int l = 0; l < TX__LANES; l++) max = lane[l] > max ? lane[l] : max;
    return max;
}

static double row_sum(const float *z, int64_t n)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++) sum += (double)z[j];
    return sum;
}

/* Σ exp(z - max), in fp32 over blocks and fp64 between them; with `keep` the exponentials replace z. */
static double exp_sum(float *z, int64_t n, float max, bool keep)
{
    enum { BLOCK = 2048 };
    double sum = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t end = n - first < BLOCK ? n : first + BLOCK;
        tx__vec part = { 0 };
        for (int64_t j = first; j < end; j += TX__VEC) {
            tx__vec e = tx__first_n(tx__vexp(tx__load_n(z, TX_F32, j, end - j) - max), end - j);
            if (keep) tx__store_n(z, TX_F32, j, end - j, e);
            part += e;
        }
        sum += (double)tx__total(part);
    }
    return sum;
}

/* dz = scale z - each */
TX__INLINE void scale_row(void *dz, tx_dtype t, const float *z, int64_t n, float scale, float each)
{
    for (int64_t j = 0; j < n; j += TX__VEC)
        tx__store_n(dz, t, j, n - j, scale * tx__load_n(z, TX_F32, j, n - j) - each);
}

static void scale_any(void *dz, tx_dtype t, const float *z, int64_t n, float scale, float each)
{
    if (t == TX_F32)
        scale_row(dz, TX_F32, z, n, scale, each);
    else if (t == TX_BF16)
        scale_row(dz, TX_BF16, z, n, scale, each);
    else
        scale_row(dz, TX_F16, z, n, scale, each);
}

/* x[at], x[at + 1] ... = 0 */
static void clear(void *x, tx_dtype t, int64_t at, int64_t n)
{
    size_t size = tx_dtype_size(t);
    memset((char *)x + (size_t)at * size, 0, (size_t)n * size);
}

float tx__k(cross_entropy)(float *z, void *dz, tx_dtype t, int64_t n_valid, int64_t v, int32_t y, const float *weight,
                           const tx__loss_terms *terms)
{
    const double even = terms->even;
    if (terms->z_loss) *terms->z_loss = 0;
    if (y < 0) {
        if (weight) clear(dz, t, 0, v);
        return 0.0f;
    }
    float max = row_max(z, n_valid), z_y = z[y];
    double mean = even > 0 ? row_sum(z, n_valid) / (double)n_valid : 0; /* before z is overwritten */
    double sum = exp_sum(z, n_valid, max, weight != NULL), lse = log(sum) + (double)max;
    if (terms->z_loss) *terms->z_loss = (float)(terms->z_weight * lse * lse);
    if (weight) {
        const float scale = (float)((double)*weight / sum * tx_z_slope(terms->z_weight, lse));
        const float each = (float)((double)*weight * even / (double)n_valid);
        const float label = scale * z[y] - each - (float)((double)*weight * (1 - even));
        scale_any(dz, t, z, n_valid, scale, each);
        scale_any((char *)dz + (size_t)y * tx_dtype_size(t), t, &label, 1, 1.0f, 0.0f);
        clear(dz, t, n_valid, v - n_valid);
    }
    return (float)(lse - (1 - even) * (double)z_y - even * mean);
}

void tx__k(cross_entropy_part)(float *stats, float *z, int64_t n, int64_t y, bool keep)
{
    float max = row_max(z, n);
    stats[0] = max;
    stats[2] = y >= 0 && y < n ? z[y] : 0;
    stats[3] = (float)row_sum(z, n);
    stats[1] = (float)exp_sum(z, n, max, keep);
}

void tx__k(cross_entropy_join)(void *dz, tx_dtype t, const float *z, int64_t n, int64_t v, int64_t y, float scale,
                               float each, float label)
{
    bool here = y >= 0 && y < n;
    const float at_label = here ? scale * z[y] - each - label : 0;
    scale_any(dz, t, z, n, scale, each);
    if (here) scale_any((char *)dz + (size_t)y * tx_dtype_size(t), t, &at_label, 1, 1.0f, 0.0f);
    clear(dz, t, n, v - n);
}

/* ---- what becomes of logits before that ---- */

void tx__k(softcap_fwd)(float *y, const float *x, int64_t n, const tx__capped *form)
{
    const float cap = form->cap, inner = cap > 0 ? form->scale / cap : form->scale;
    for (int64_t j = 0; j < n; j += TX__VEC) {
        tx__vec v = tx__load_n(x, TX_F32, j, n - j) * inner;
        if (cap > 0) v = tx__vtanh(v) * cap;
        tx__store_n(y, TX_F32, j, n - j, v);
    }
}

TX__INLINE void softcap_bwd(void *dx, tx_dtype t, const float *dy, const float *y, int64_t n, const tx__capped *form)
{
    const float scale = form->scale, warm = y ? 1 / form->cap : 0;
    for (int64_t j = 0; j < n; j += TX__VEC) {
        tx__vec d = tx__load_n(dy, TX_F32, j, n - j) * scale, u = { 0 };
        if (y) u = tx__load_n(y, TX_F32, j, n - j) * warm;
        tx__store_n(dx, t, j, n - j, d * (1.0f - u * u));
    }
}

void tx__k(softcap_bwd)(void *dx, tx_dtype t, const float *dy, const float *y, int64_t n, const tx__capped *form)
{
    if (t == TX_F32)
        softcap_bwd(dx, TX_F32, dy, y, n, form);
    else if (t == TX_BF16)
        softcap_bwd(dx, TX_BF16, dy, y, n, form);
    else
        softcap_bwd(dx, TX_F16, dy, y, n, form);
}

/* ---- a teacher ---- */

/* Sums as exp_sum's. */
void tx__k(distill_part)(float *stats, float *t, const float *z, int64_t n, float cold)
{
    enum { BLOCK = 2048 };
    const float z_max = row_max(z, n), t_max = row_max(t, n);
    double z_sum = 0, t_sum = 0, apart = 0;
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t end = n - first < BLOCK ? n : first + BLOCK;
        tx__vec of_z = { 0 }, of_t = { 0 }, between = { 0 };
        for (int64_t j = first; j < end; j += TX__VEC) {
            tx__vec zj = tx__load_n(z, TX_F32, j, end - j), tj = tx__load_n(t, TX_F32, j, end - j);
            tx__vec e = tx__first_n(tx__vexp((tj - t_max) * cold), end - j);
            of_z += tx__first_n(tx__vexp((zj - z_max) * cold), end - j);
            of_t += e;
            between += tx__first_n(e * ((tj - zj) * cold), end - j);
            tx__store_n(t, TX_F32, j, end - j, e);
        }
        z_sum += (double)tx__total(of_z);
        t_sum += (double)tx__total(of_t);
        apart += (double)tx__total(between);
    }
    const float stat[5] = { z_max, (float)z_sum, t_max, (float)t_sum, (float)apart };
    memcpy(stats, stat, sizeof stat);
}

void tx__k(distill_join)(float *t, const float *z, int64_t n, int64_t v, const tx__taught *row)
{
    const tx__taught r = *row;
    for (int64_t j = 0; j < n; j += TX__VEC) {
        tx__vec q = tx__vexp(tx__load_n(z, TX_F32, j, n - j) * r.cold - r.lse);
        tx__store_n(t, TX_F32, j, n - j, r.scale * q - r.share * tx__load_n(t, TX_F32, j, n - j));
    }
    memset(t + n, 0, (size_t)(v - n) * sizeof *t);
}
