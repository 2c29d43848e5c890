/* check.c - the shape rules of every op, once for all backends. Looks at dtypes, sizes and strides, never at data: in a
 * dry run the addresses are not real. A refusal names the op, its rule and every tensor given. */
#include <math.h>

#include "backend/check.h"

static bool like(tx_tensor x, tx_tensor y)
{
    return flat(x) && x.dtype == y.dtype && tx_same_shape(x, y);
}

static bool maybe_like(tx_tensor x, tx_tensor y)
{
    return !x.data || like(x, y);
}

/* The residual stream beside values of dtype t. */
static bool is_stream(tx_dtype stream, tx_dtype t)
{
    return stream == t || stream == tx_wide(t);
}

/* Contiguous, of y's shape and of dtype t. */
static bool shaped_like(tx_tensor x, tx_tensor y, tx_dtype t)
{
    return flat(x) && x.dtype == t && tx_same_shape(x, y);
}

/* [m, n] whose rows may lie further apart than n. */
static bool spaced(tx_tensor x, tx_dtype t)
{
    return x.data && x.dtype == t && x.n_dims == 2 && x.dim[0] > 0 && x.dim[1] > 0 &&
           (x.dim[1] == 1 || x.stride[1] == 1) && (x.dim[0] == 1 || x.stride[0] >= x.dim[1]);
}

tx_status tx__check_fill(const tx_fill_args *a)
{
    if (!flat(a->x) || !(is_float(a->x.dtype) || a->x.dtype == TX_I32))
        return REFUSE("fill", "x contiguous, float or int32", T(x));
    return TX_OK;
}

/* Of one shape, whose strides are free but for the last dimension's. */
static bool rows_match(tx_tensor y, tx_tensor x)
{
    int n = x.n_dims;
    return x.data && y.data && n >= 1 && tx_same_shape(x, y) && x.stride[n - 1] == 1 && y.stride[n - 1] == 1;
}

tx_status tx__check_cast(const tx_cast_args *a)
{
    if (!rows_match(a->y, a->x)) return REFUSE("cast", "y and x of one shape, their last dimension dense", T(y), T(x));
    return TX_OK;
}

tx_status tx__check_copy(const tx_copy_args *a)
{
    if (!rows_match(a->y, a->x) || a->y.dtype != a->x.dtype)
        return REFUSE("copy", "y and x of one shape and dtype, their last dimension dense", T(y), T(x));
    return TX_OK;
}

/* The dtype of the values beside up to three tensors of the residual stream: the one that is not wide, if one is not.
 */
static tx_dtype values_beside(tx_dtype x, tx_dtype y, tx_dtype z)
{
    tx_dtype t = x == TX_F32 ? y : x;
    return t == TX_F32 ? z : t;
}

tx_status tx__check_add(const tx_add_args *a)
{
    tx_dtype y = a->y.dtype, p = a->a.dtype, q = a->b.dtype, t = values_beside(y, p, q);
    bool ok = is_float(y) && is_float(p) && is_float(q) && flat(a->y) && shaped_like(a->a, a->y, p) &&
              shaped_like(a->b, a->y, q) && is_stream(y, t) && is_stream(p, t) && is_stream(q, t);
    if (ok) return TX_OK;
    return REFUSE("add", "y, a and b of one shape, contiguous, of one float dtype, some perhaps fp32", T(y), T(a),
                  T(b));
}

tx_status tx__check_gemm(const tx_gemm_args *a)
{
    tx_dtype t = a->a.dtype;
    bool ok = is_float(t) && is_stream(a->c.dtype, t) && spaced(a->c, a->c.dtype) && spaced(a->a, t) && spaced(a->b, t);
    if (ok) {
        int64_t m = a->c.dim[0], n = a->c.dim[1], k = a->a.dim[a->trans_a ? 0 : 1];
        ok = a->a.dim[a->trans_a ? 1 : 0] == m && a->b.dim[a->trans_b ? 1 : 0] == k &&
             a->b.dim[a->trans_b ? 0 : 1] == n && (!a->bias.data || vec(a->bias, t, n));
    }
    if (ok && a->bias.data && a->accumulate) return TX_FAIL(TX_ERR_ARG, "gemm: what is added to has no bias");
    if (ok && a->symmetric && (a->c.dim[0] != a->c.dim[1] || a->bias.data || a->accumulate))
        return TX_FAIL(TX_ERR_ARG, "gemm: a symmetric product is square, and nothing is added to it");
    if (ok) return TX_OK;
    const char *rule = a->trans_a   ? a->trans_b
                                          ? "c [m,n], a [k,m], b [n,k], bias [n], of one float dtype, c perhaps fp32"
                                          : "c [m,n], a [k,m], b [k,n], bias [n], of one float dtype, c perhaps fp32"
                       : a->trans_b ? "c [m,n], a [m,k], b [n,k], bias [n], of one float dtype, c perhaps fp32"
                                    : "c [m,n], a [m,k], b [k,n], bias [n], of one float dtype, c perhaps fp32";
    return REFUSE("gemm", rule, T(c), T(a), T(b), T(bias));
}

tx_status tx__check_col_sum(const tx_col_sum_args *a)
{
    tx_dtype t = a->x.dtype;
    if (!is_float(t) || !dense(a->x, t, 2) || !vec(a->y, tx_wide(t), a->x.dim[1]))
        return REFUSE("col_sum", "y [n] fp32, x [rows,n] float, contiguous", T(y), T(x));
    return TX_OK;
}

tx_status tx__check_layernorm_fwd(const tx_layernorm_fwd_args *a)
{
    tx_dtype t = a->y.dtype, wide = tx_wide(t);
    bool ok = is_float(t) && is_stream(a->x.dtype, t) && dense(a->x, a->x.dtype, 2) && shaped_like(a->y, a->x, t);
    if (ok) {
        int64_t rows = a->x.dim[0], h = a->x.dim[1];
        ok = vec(a->mu, wide, rows) && vec(a->rs, wide, rows) && vec(a->gamma, t, h) &&
             (!a->beta.data || vec(a->beta, t, h));
    }
    if (ok) return TX_OK;
    return REFUSE("layernorm_fwd",
                  "y and x [rows,h], gamma and beta [h] of one float dtype, x perhaps fp32; mu and rs [rows] fp32",
                  T(y), T(x), T(mu), T(rs), T(gamma), T(beta));
}

tx_status tx__check_layernorm_bwd(const tx_layernorm_bwd_args *a)
{
    tx_dtype t = a->dy.dtype, wide = tx_wide(t);
    bool ok = is_float(t) && is_stream(a->x.dtype, t) && dense(a->dy, t, 2) && shaped_like(a->x, a->dy, a->x.dtype);
    if (ok) {
        int64_t rows = a->x.dim[0], h = a->x.dim[1];
        ok = like(a->dx, a->x) && maybe_like(a->dres, a->x) && vec(a->mu, wide, rows) && vec(a->rs, wide, rows) &&
             vec(a->gamma, t, h) && vec(a->dgamma, wide, h) && (!a->dbeta.data || vec(a->dbeta, wide, h));
    }
    if (ok) return TX_OK;
    return REFUSE(
        "layernorm_bwd",
        "dy [rows,h] and gamma [h] of one float dtype; dx, x, dres [rows,h] of that or fp32; mu and rs [rows], "
        "dgamma, dbeta [h] fp32",
        T(dx), T(dy), T(x), T(dres), T(mu), T(rs), T(gamma), T(dgamma), T(dbeta));
}

tx_status tx__check_rmsnorm_fwd(const tx_rmsnorm_fwd_args *a)
{
    tx_dtype t = a->y.dtype;
    bool ok = is_float(t) && is_stream(a->x.dtype, t) && dense(a->x, a->x.dtype, 2) && shaped_like(a->y, a->x, t);
    if (ok && a->squares.data) ok = vec(a->squares, tx_wide(t), a->x.dim[0]) && a->columns >= a->x.dim[1];
    if (ok && vec(a->rs, tx_wide(t), a->x.dim[0]) && vec(a->gamma, t, a->x.dim[1])) return TX_OK;
    return REFUSE("rmsnorm_fwd",
                  "y and x [rows,h], gamma [h] of one float dtype, x perhaps fp32; rs [rows] fp32; squares as rs, with "
                  "columns of at least h",
                  T(y), T(x), T(rs), T(gamma), T(squares));
}

tx_status tx__check_rmsnorm_bwd(const tx_rmsnorm_bwd_args *a)
{
    tx_dtype t = a->dy.dtype, wide = tx_wide(t);
    bool ok = is_float(t) && is_stream(a->x.dtype, t) && dense(a->dy, t, 2) && shaped_like(a->x, a->dy, a->x.dtype) &&
              like(a->dx, a->x) && maybe_like(a->dres, a->x);
    if (ok && a->dots.data) ok = vec(a->dots, wide, a->x.dim[0]) && a->columns >= a->x.dim[1];
    if (ok && vec(a->rs, wide, a->x.dim[0]) && vec(a->gamma, t, a->x.dim[1]) && vec(a->dgamma, wide, a->x.dim[1]))
        return TX_OK;
    return REFUSE("rmsnorm_bwd",
                  "dy [rows,h] and gamma [h] of one float dtype; dx, x, dres [rows,h] of that or fp32; rs [rows] and "
                  "dgamma [h] fp32; dots as rs, with columns of at least h",
                  T(dx), T(dy), T(x), T(dres), T(rs), T(gamma), T(dgamma), T(dots));
}

tx_status tx__check_row_dots(const tx_row_dots_args *a)
{
    tx_dtype t = a->a.dtype;
    bool ok = is_float(t) && dense(a->a, t, 2) && like(a->b, a->a) && vec(a->y, tx_wide(t), a->a.dim[0]);
    if (ok && (!a->gamma.data || vec(a->gamma, t, a->a.dim[1]))) return TX_OK;
    return REFUSE("row_dots", "a and b [rows,h], gamma [h] of one float dtype; y [rows] fp32", T(y), T(a), T(b),
                  T(gamma));
}

tx_status tx__check_activation_fwd(const tx_activation_fwd_args *a)
{
    if (!is_float(a->x.dtype) || !flat(a->x) || !like(a->y, a->x))
        return REFUSE("activation_fwd", "y as x, contiguous, float", T(y), T(x));
    return TX_OK;
}

tx_status tx__check_activation_bwd(const tx_activation_bwd_args *a)
{
    if (!is_float(a->x.dtype) || !flat(a->x) || !like(a->dx, a->x) || !like(a->dy, a->x))
        return REFUSE("activation_bwd", "dx and dy as x, contiguous, float", T(dx), T(dy), T(x));
    return TX_OK;
}

/* wide [rows,2f] beside narrow [rows,f] */
static bool twice_as_wide(tx_tensor wide, tx_tensor narrow)
{
    tx_dtype t = narrow.dtype;
    return is_float(t) && dense(narrow, t, 2) && mat(wide, t, narrow.dim[0], 2 * narrow.dim[1]);
}

tx_status tx__check_glu_fwd(const tx_glu_fwd_args *a)
{
    if (twice_as_wide(a->x, a->y)) return TX_OK;
    return REFUSE("glu_fwd", "y [rows,f], x [rows,2f], contiguous, of one float dtype", T(y), T(x));
}

tx_status tx__check_glu_bwd(const tx_glu_bwd_args *a)
{
    if (twice_as_wide(a->x, a->dy) && like(a->dx, a->x)) return TX_OK;
    return REFUSE("glu_bwd", "dx and x [rows,2f], dy [rows,f], contiguous, of one float dtype", T(dx), T(dy), T(x));
}

static tx_status check_activation_mask(const char *op, const tx_dropout *m, int64_t s)
{
    if (m->drop == 0) return TX_OK;
    if (m->drop > 65535) return TX_FAIL(TX_ERR_ARG, "%s: drop %u is not in 0..65535", op, m->drop);
    if (m->at.first < 0 || m->at.turn < 0 || m->at.jump < 0 || m->at.each < 0 ||
        tx_position_of(&m->at, s - 1) >= m->s_global)
        return TX_FAIL(TX_ERR_SHAPE, "%s: positions %lld + %lld do not lie in the mask's sequence length %lld", op,
                       (long long)m->at.first, (long long)s, (long long)m->s_global);
    return TX_OK;
}

tx_status tx__check_dropout_add_fwd(const tx_dropout_add_fwd_args *a)
{
    tx_dtype x = a->x.dtype, y = a->y.dtype, r = a->residual.data ? a->residual.dtype : x;
    bool ok = is_float(x) && is_float(y) && is_float(r) && dense(a->x, x, 3) && shaped_like(a->y, a->x, y);
    tx_dtype t = values_beside(x, y, r);
    if (!ok || !is_stream(x, t) || !is_stream(y, t) || !is_stream(r, t) ||
        (a->residual.data && !shaped_like(a->residual, a->x, r)))
        return REFUSE("dropout_add_fwd", "y, x, residual [s,b,h], contiguous, of one float dtype, some perhaps fp32",
                      T(y), T(x), T(residual));
    return check_activation_mask("dropout_add_fwd", &a->mask, a->x.dim[0]);
}

tx_status tx__check_dropout_add_bwd(const tx_dropout_add_bwd_args *a)
{
    tx_dtype t = a->dx.dtype;
    if (!is_float(t) || !is_stream(a->dy.dtype, t) || !dense(a->dy, a->dy.dtype, 3) || !shaped_like(a->dx, a->dy, t))
        return REFUSE("dropout_add_bwd", "dx and dy [s,b,h], contiguous, of one float dtype, dy perhaps fp32", T(dx),
                      T(dy));
    return check_activation_mask("dropout_add_bwd", &a->mask, a->dy.dim[0]);
}

/* Rows of any number. */
static bool rows_of(tx_tensor x, tx_dtype t, int64_t h)
{
    return flat(x) && x.dtype == t && x.n_dims == 2 && x.dim[1] == h;
}

tx_status tx__check_route_fwd(const tx_route_fwd_args *a)
{
    tx_dtype t = a->logits.dtype;
    bool ok = (t == TX_F32 || t == TX_F64) && dense(a->logits, t, 2);
    if (ok) {
        int64_t rows = a->logits.dim[0], e = a->logits.dim[1], k = a->router.k;
        ok = k >= 1 && k <= e && k <= TX_MAX_CHOICES && mat(a->probs, t, rows, e) && mat(a->choice, TX_I32, rows, k) &&
             mat(a->weight, t, rows, k) && vec(a->chosen, TX_I32, e) && vec(a->stats, t, e + 1) &&
             (!a->bias.data || (is_float(a->bias.dtype) && vec(a->bias, a->bias.dtype, e)));
    }
    if (ok) return TX_OK;
    return REFUSE(
        "route_fwd",
        "logits and probs [T,E], weight [T,k] and stats [E+1] fp32, choice [T,k] and chosen [E] int32, bias [E], k "
        "<= E",
        T(probs), T(choice), T(weight), T(chosen), T(stats), T(logits), T(bias));
}

tx_status tx__check_route_bwd(const tx_route_bwd_args *a)
{
    tx_dtype t = a->logits.dtype;
    bool ok = (t == TX_F32 || t == TX_F64) && dense(a->logits, t, 2);
    if (ok) {
        int64_t rows = a->logits.dim[0], e = a->logits.dim[1], k = a->router.k;
        ok = mat(a->dlogits, t, rows, e) && mat(a->dweight, t, rows, k) && mat(a->probs, t, rows, e) &&
             mat(a->choice, TX_I32, rows, k) && vec(a->chosen, TX_I32, e);
    }
    if (ok) return TX_OK;
    return REFUSE("route_bwd", "logits, probs and dlogits [T,E], dweight [T,k] fp32, choice [T,k] and chosen [E] int32",
                  T(dlogits), T(dweight), T(logits), T(probs), T(choice), T(chosen));
}

tx_status tx__check_route_sums(const tx_route_sums_args *a)
{
    bool ok = dense(a->chosen, TX_I32, 1) && dense(a->choice, TX_I32, 2) && dense(a->sums, TX_F32, 1) &&
              vec(a->stats, a->stats.dtype, a->chosen.dim[0] + 1) && a->sums.dim[0] >= a->chosen.dim[0] + 3;
    if (ok) return TX_OK;
    return REFUSE("route_sums", "sums [E+3 or more] and stats [E+1] fp32, chosen [E] and choice [T,k] int32", T(sums),
                  T(stats), T(chosen), T(choice));
}

tx_status tx__check_expert_order(const tx_expert_order_args *a)
{
    bool ok = dense(a->choice, TX_I32, 2) && vec(a->row, TX_I32, tx_numel(a->choice)) && dense(a->count, TX_I32, 1) &&
              flat(a->source) && a->source.dtype == TX_I32 && a->source.n_dims == 1;
    if (ok) return TX_OK;
    return REFUSE("expert_order", "choice [T,k], row [T k], source [n] and count [E] int32", T(row), T(source),
                  T(count), T(choice));
}

tx_status tx__check_gather_rows(const tx_gather_rows_args *a)
{
    tx_dtype t = a->x.dtype;
    bool ok = is_float(t) && dense(a->x, t, 2) && rows_of(a->y, t, a->x.dim[1]) && flat(a->index) &&
              a->index.dtype == TX_I32 && tx_numel(a->index) == a->y.dim[0] && a->div >= 1;
    if (ok) return TX_OK;
    return REFUSE("gather_rows", "x [rows,h] and y [n,h] of one float dtype, index [n] int32, div at least 1", T(y),
                  T(x), T(index));
}

tx_status tx__check_combine_fwd(const tx_combine_fwd_args *a)
{
    tx_dtype t = a->y.dtype;
    bool ok = is_float(t) && dense(a->y, t, 2) && rows_of(a->z, t, a->y.dim[1]) && dense(a->row, TX_I32, 1) &&
              a->row.dim[0] % a->y.dim[0] == 0 &&
              (!a->weight.data || mat(a->weight, tx_wide(t), a->y.dim[0], a->row.dim[0] / a->y.dim[0]));
    if (ok) return TX_OK;
    return REFUSE("combine_fwd", "y [T,h] and z [n,h] of one float dtype, row [T k] int32, weight [T,k] fp32", T(y),
                  T(z), T(row), T(weight));
}

tx_status tx__check_combine_bwd(const tx_combine_bwd_args *a)
{
    tx_dtype t = a->dy.dtype;
    bool ok = is_float(t) && dense(a->dy, t, 2) && rows_of(a->z, t, a->dy.dim[1]) && like(a->dz, a->z) &&
              dense(a->row, TX_I32, 1) && a->row.dim[0] % a->dy.dim[0] == 0;
    if (ok) {
        int64_t rows = a->dy.dim[0], k = a->row.dim[0] / rows;
        ok = mat(a->weight, tx_wide(t), rows, k) && mat(a->dweight, tx_wide(t), rows, k);
    }
    if (ok) return TX_OK;
    return REFUSE("combine_bwd",
                  "dy [T,h], z and dz [n,h] of one float dtype, row [T k] int32, weight and dweight [T,k] fp32", T(dz),
                  T(dweight), T(dy), T(z), T(row), T(weight));
}

/* Of groups' tensors all are x's like, or none is there. */
static bool all_like(tx_tensors x, int64_t n, tx_dtype t, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; x.first && i < n; i++) {
        tx_tensor one = *tx_nth_tensor(x, i);
        if (rows ? !mat(one, t, rows, columns) : !vec(one, t, columns)) return false;
    }
    return true;
}

static tx_tensor first_of(tx_tensors x)
{
    return x.first ? *x.first : (tx_tensor){ 0 };
}

tx_status tx__check_grouped_gemm(const tx_grouped_gemm_args *a)
{
    tx_dtype t = a->a.dtype;
    bool ok = is_float(t) && a->a.n_dims == 2 && a->c.n_dims == 2 && dense(a->count, TX_I32, 1) && a->b.first;
    if (ok) {
        int64_t rows = a->a.dim[0], n = a->c.dim[1], k = a->a.dim[1], groups = a->count.dim[0];
        ok = n > 0 && k > 0 && rows_of(a->a, t, k) && rows_of(a->c, t, n) && a->c.dim[0] == rows &&
             all_like(a->b, groups, t, a->trans_b ? n : k, a->trans_b ? k : n) && all_like(a->bias, groups, t, 0, n);
    }
    if (ok) return TX_OK;
    return refuse("grouped_gemm",
                  a->trans_b ? "c [rows,n] and a [rows,k], each b [n,k] and bias [n] of one float dtype, count int32"
                             : "c [rows,n] and a [rows,k], each b [k,n] and bias [n] of one float dtype, count int32",
                  (named[]){ T(c), T(a), { "b", first_of(a->b) }, { "bias", first_of(a->bias) }, T(count) }, 5);
}

tx_status tx__check_grouped_dw(const tx_grouped_dw_args *a)
{
    tx_dtype t = a->dy.dtype;
    bool ok = is_float(t) && a->dy.n_dims == 2 && a->x.n_dims == 2 && dense(a->count, TX_I32, 1) && a->dw.first;
    if (ok) {
        int64_t rows = a->dy.dim[0], n = a->dy.dim[1], k = a->x.dim[1], groups = a->count.dim[0];
        ok = n > 0 && k > 0 && rows_of(a->dy, t, n) && rows_of(a->x, t, k) && a->x.dim[0] == rows &&
             all_like(a->dw, groups, tx_wide(t), n, k) && all_like(a->dbias, groups, tx_wide(t), 0, n);
    }
    if (ok) return TX_OK;
    return refuse("grouped_dw",
                  "dy [rows,n] and x [rows,k] of one float dtype, each dw [n,k] and dbias [n] fp32, count int32",
                  (named[]){ T(dy), T(x), { "dw", first_of(a->dw) }, { "dbias", first_of(a->dbias) }, T(count) }, 5);
}

/* Some tokens [r,b,h] of all [s,b,h], and their positions [r,b]. */
static bool tokens_fit(tx_tensor some, tx_tensor all, tx_tensor position)
{
    tx_dtype t = all.dtype;
    return is_float(t) && dense(all, t, 3) && dense(some, t, 3) && some.dim[1] == all.dim[1] &&
           some.dim[2] == all.dim[2] && dense(position, TX_I32, 2) && position.dim[0] == some.dim[0] &&
           position.dim[1] == some.dim[1];
}

tx_status tx__check_gather_tokens(const tx_gather_tokens_args *a)
{
    if (tokens_fit(a->y, a->x, a->position)) return TX_OK;
    return REFUSE("gather_tokens", "x [s,b,h] and y [r,b,h] of one float dtype, position [r,b] int32", T(y), T(x),
                  T(position));
}

tx_status tx__check_scatter_tokens(const tx_scatter_tokens_args *a)
{
    if (tokens_fit(a->x, a->y, a->position)) return TX_OK;
    return REFUSE("scatter_tokens", "y [s,b,h] and x [r,b,h] of one float dtype, position [r,b] int32", T(y), T(x),
                  T(position));
}

tx_status tx__check_rope(const tx_rope_args *a)
{
    if (!is_float(a->x.dtype) || !view(a->x, a->x.dtype, 5))
        return REFUSE("rope", "x [s,b,groups,r,d], float, last stride 1", T(x));
    int64_t d = a->x.dim[4];
    if (a->n_rot < 2 || a->n_rot > d || a->n_rot % 2)
        return TX_FAIL(TX_ERR_SHAPE, "rope: n_rot %lld is not an even number in 2..%lld, the head's width",
                       (long long)a->n_rot, (long long)d);
    if (a->n_rot > TX_MAX_ROT)
        return TX_FAIL(TX_ERR_SHAPE, "rope: n_rot %lld is more than %d", (long long)a->n_rot, TX_MAX_ROT);
    if (a->grows_by < 0 || a->scale < 0 || (a->grows_by > 0 && (a->grows_from < 1 || a->position.data)))
        return TX_FAIL(
            TX_ERR_ARG,
            "rope: grows_by %g and scale %g must be at least 0; frequencies grow from a length of at least 1 "
            "on, not with positions that are given",
            a->grows_by, a->scale);
    if (a->first < 0 || (!a->frequency && !(a->theta > 0)))
        return TX_FAIL(TX_ERR_ARG, "rope: first %lld must be at least 0 and theta %g above it", (long long)a->first,
                       a->theta);
    if (a->past.n.data &&
        (!vec(a->past.n, TX_I32, a->x.dim[1]) || (a->past.end.data && !vec(a->past.end, TX_I32, a->x.dim[1]))))
        return REFUSE("rope", "past.n and past.end [b] int32", T(x), T(past.n), T(past.end));
    if (a->position.data && (a->past.n.data || !mat(a->position, TX_I32, a->x.dim[0], a->x.dim[1])))
        return REFUSE("rope", "position [s,b] int32 without past.n", T(x), T(position), T(past.n));
    return TX_OK;
}

/* A table [.,h] of dtype t, and what looks up rows of it for y [s,b,h]: [s,b]. */
static bool table_fits(tx_tensor table, tx_tensor index, tx_dtype t, tx_tensor y)
{
    return dense(table, t, 2) && table.dim[1] == y.dim[2] && mat(index, TX_I32, y.dim[0], y.dim[1]);
}

static tx_status check_scale(const char *op, double scale)
{
    return isfinite(scale) ? TX_OK : TX_FAIL(TX_ERR_ARG, "%s: scale %g is not finite", op, scale);
}

tx_status tx__check_embedding_fwd(const tx_embedding_fwd_args *a)
{
    tx_dtype t = a->word.dtype;
    bool ok = is_float(t) && is_stream(a->y.dtype, t) && dense(a->y, a->y.dtype, 3);
    ok = ok && table_fits(a->word, a->token, t, a->y) && (!a->pos.data || table_fits(a->pos, a->position, t, a->y));
    if (!ok || (a->kind.data && !table_fits(a->kind, a->type, t, a->y)))
        return REFUSE(
            "embedding_fwd",
            "word [v,h], pos [positions,h] and kind [types,h] of one float dtype, y [s,b,h] of that or fp32, token, "
            "position and type [s,b] int32, contiguous",
            T(y), T(token), T(position), T(type), T(word), T(pos), T(kind));
    return check_scale("embedding_fwd", a->scale);
}

tx_status tx__check_embedding_bwd(const tx_embedding_bwd_args *a)
{
    tx_dtype t = a->dword.dtype;
    bool ok = is_float(t) && t == tx_wide(a->dy.dtype) && dense(a->dy, a->dy.dtype, 3);
    ok =
        ok && table_fits(a->dword, a->token, t, a->dy) && (!a->dpos.data || table_fits(a->dpos, a->position, t, a->dy));
    if (!ok || (a->dkind.data && !table_fits(a->dkind, a->type, t, a->dy)))
        return REFUSE(
            "embedding_bwd",
            "dy [s,b,h] float, token, position and type [s,b] int32, dword [v,h], dpos [positions,h] and dkind "
            "[types,h] fp32, contiguous",
            T(dy), T(token), T(position), T(type), T(dword), T(dpos), T(dkind));
    return check_scale("embedding_bwd", a->scale);
}

static tx_status check_z_weight(const char *op, double z_weight)
{
    if (z_weight >= 0 && isfinite(z_weight)) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: z_weight %g; it has to be from 0 on, and finite", op, z_weight);
}

static tx_status check_classes(const char *op, int64_t n_valid, int64_t v, double smoothing)
{
    if (!(smoothing >= 0 && smoothing < 1) || (smoothing > 0 && n_valid == 1))
        return TX_FAIL(TX_ERR_ARG, "%s: smoothing %g of %lld classes; it has to be from 0 on and below 1, of 2 or more",
                       op, smoothing, (long long)n_valid);
    if (n_valid >= 1 && n_valid <= v) return TX_OK;
    return TX_FAIL(TX_ERR_SHAPE, "%s: n_valid %lld is not in 1..%lld, the columns there are", op, (long long)n_valid,
                   (long long)v);
}

tx_status tx__check_cross_entropy(const tx_cross_entropy_args *a)
{
    tx_dtype t = a->z.dtype;
    bool ok = is_float(t) && spaced(a->z, t) && vec(a->loss, tx_wide(t), a->z.dim[0]) && vec(a->y, TX_I32, a->z.dim[0]);
    if (a->dz.data)
        ok = ok && is_float(a->dz.dtype) && (a->dz.dtype == t || tx_wide(a->dz.dtype) == t) &&
             spaced(a->dz, a->dz.dtype) && a->dz.dim[0] == a->z.dim[0] && a->dz.dim[1] == a->z.dim[1] && a->weight.data;
    if (!ok || !maybe_like(a->weight, a->loss) || !maybe_like(a->z_loss, a->loss))
        return REFUSE(
            "cross_entropy",
            "z [rows,v] float, dz as z, of its dtype or narrower and only with weight, loss, z_loss and weight "
            "[rows] fp32, y [rows] int32",
            T(loss), T(z_loss), T(z), T(dz), T(y), T(weight));
    TX_TRY(check_z_weight("cross_entropy", a->z_weight));
    return check_classes("cross_entropy", a->n_valid, a->z.dim[1], a->smoothing);
}

/* Classes that are split over ranks: the columns of z that are some are its first ones. */
static bool classes_fit(const tx_classes *k, int64_t v)
{
    return k->first >= 0 && k->n_here >= 0 && k->n_here <= v && k->n_valid >= 1 &&
           (!k->n_here || k->first + k->n_here <= k->n_valid);
}

tx_status tx__check_cross_entropy_part(const tx_cross_entropy_part_args *a)
{
    tx_dtype t = a->z.dtype;
    int64_t rows = a->z.dim[0];
    if (!is_float(t) || tx_wide(t) != t || !dense(a->z, t, 2) || !mat(a->stats, t, rows, 4) ||
        !vec(a->y, TX_I32, rows) || !classes_fit(&a->classes, a->z.dim[1]))
        return REFUSE("cross_entropy_part", "z [rows,v] fp32, stats [rows,4] as z, y [rows] int32, contiguous",
                      T(stats), T(z), T(y));
    return TX_OK;
}

tx_status tx__check_cross_entropy_join(const tx_cross_entropy_join_args *a)
{
    tx_dtype t = a->stats.dtype;
    int64_t rows = a->loss.dim[0];
    bool ok = is_float(t) && tx_wide(t) == t && dense(a->stats, t, 3) && a->stats.dim[1] == rows &&
              a->stats.dim[2] == 4 && vec(a->loss, t, rows) && vec(a->y, TX_I32, rows) && a->part >= 0 &&
              a->part < a->stats.dim[0] && dense(a->z, t, 2) && a->z.dim[0] == rows &&
              classes_fit(&a->classes, a->z.dim[1]);
    if (a->dz.data) ok = ok && is_float(a->dz.dtype) && shaped_like(a->dz, a->z, a->dz.dtype) && a->weight.data;
    if (!ok || !maybe_like(a->weight, a->loss) || !maybe_like(a->z_loss, a->loss))
        return REFUSE(
            "cross_entropy_join",
            "z [rows,v] fp32, dz as z and only with weight, stats [parts,rows,4], loss, z_loss and weight [rows] fp32, "
            "y [rows] int32, contiguous",
            T(loss), T(z_loss), T(z), T(dz), T(stats), T(y), T(weight));
    return check_z_weight("cross_entropy_join", a->z_weight);
}

static tx_status check_teaching(const char *op, double temperature, double factor, double scale)
{
    if (temperature > 0 && isfinite(temperature) && isfinite(factor) && isfinite(scale)) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: temperature %g, factor %g, scale %g; all finite, the temperature above 0", op,
                   temperature, factor, scale);
}

tx_status tx__check_distill_part(const tx_distill_part_args *a)
{
    tx_dtype t = a->z.dtype;
    if (!is_float(t) || tx_wide(t) != t || !dense(a->z, t, 2) || !like(a->t, a->z) ||
        !mat(a->stats, t, a->z.dim[0], 5) || a->n_here < 0 || a->n_here > a->z.dim[1])
        return REFUSE("distill_part", "z [rows,v] fp32, t as z, stats [rows,5] as z, n_here of v columns, contiguous",
                      T(stats), T(t), T(z));
    return check_teaching("distill_part", a->temperature, 1, 1);
}

tx_status tx__check_distill_join(const tx_distill_join_args *a)
{
    tx_dtype t = a->z.dtype;
    int64_t rows = a->z.dim[0];
    bool ok = is_float(t) && tx_wide(t) == t && dense(a->z, t, 2) && like(a->t, a->z) && dense(a->stats, t, 3) &&
              a->stats.dim[1] == rows && a->stats.dim[2] == 5 && vec(a->loss, t, rows);
    if (!ok || a->part < 0 || a->part >= a->stats.dim[0] || a->n_here < 0 || a->n_here > a->z.dim[1])
        return REFUSE("distill_join",
                      "z [rows,v] fp32, t as z, stats [parts,rows,5] and loss [rows] as z, n_here of v columns, "
                      "contiguous",
                      T(loss), T(t), T(z), T(stats));
    return check_teaching("distill_join", a->temperature, a->factor, a->scale);
}

static tx_status check_form(const char *op, tx_logit_form f)
{
    if (isfinite(f.scale) && f.scale >= 0 && isfinite(f.cap) && f.cap >= 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "%s: scale %g and cap %g of logits have to be finite and not negative", op, f.scale,
                   f.cap);
}

tx_status tx__check_softcap_fwd(const tx_softcap_fwd_args *a)
{
    tx_dtype t = a->x.dtype;
    if (!is_float(t) || tx_wide(t) != t || !spaced(a->x, t) || !spaced(a->y, t) || !tx_same_shape(a->x, a->y))
        return REFUSE("softcap_fwd", "y and x [rows,v] fp32, their rows dense", T(y), T(x));
    return check_form("softcap_fwd", a->form);
}

tx_status tx__check_softcap_bwd(const tx_softcap_bwd_args *a)
{
    tx_dtype t = a->dy.dtype;
    bool ok = is_float(t) && tx_wide(t) == t && dense(a->dy, t, 2) && is_float(a->dx.dtype) &&
              tx_wide(a->dx.dtype) == t && shaped_like(a->dx, a->dy, a->dx.dtype) && maybe_like(a->y, a->dy);
    if (!ok || (a->form.cap > 0) != (a->y.data != NULL))
        return REFUSE("softcap_bwd",
                      "dy [rows,v] fp32, y as dy and only with a cap, dx as dy or of 16 bits, contiguous", T(dx), T(dy),
                      T(y));
    return check_form("softcap_bwd", a->form);
}

/* Logits of as many rows and classes. */
static tx_status check_teacher(const tx_head_loss_args *a)
{
    const tx_teacher_head *k = &a->teacher;
    tx_dtype t = a->x.dtype;
    if (!k->loss.data && !k->x.data && !k->w.data) return TX_OK;
    if (!a->weight.data || !like(k->loss, a->loss) || !dense(k->x, t, 2) || !dense(k->w, t, 2) ||
        k->x.dim[0] != a->x.dim[0] || k->w.dim[0] != a->w.dim[0] || k->x.dim[1] != k->w.dim[1] ||
        (k->bias.data && !vec(k->bias, t, a->w.dim[0])))
        return REFUSE("head_loss",
                      "a teacher's x [rows,its h], w [v,its h] and perhaps bias [v] of x's dtype, loss as loss, with "
                      "weight",
                      T(teacher.loss), T(teacher.x), T(teacher.w), T(teacher.bias), T(x), T(w), T(weight));
    TX_TRY(check_form("head_loss", k->form));
    return check_teaching("head_loss", k->temperature, k->factor, k->scale);
}

tx_status tx__check_head_loss(const tx_head_loss_args *a)
{
    tx_dtype t = a->x.dtype;
    bool ok = is_float(t) && dense(a->x, t, 2) && dense(a->w, t, 2) && a->w.dim[1] == a->x.dim[1];
    ok = ok && (!a->bias.data || vec(a->bias, t, a->w.dim[0]));
    if (a->dbias.data) ok = ok && a->bias.data && a->weight.data && vec(a->dbias, tx_wide(t), a->w.dim[0]);
    ok =
        ok && vec(a->loss, tx_wide(t), a->x.dim[0]) && vec(a->y, TX_I32, a->x.dim[0]) && maybe_like(a->weight, a->loss);
    ok = ok && maybe_like(a->z_loss, a->loss);
    if (!ok || (a->weight.data && !(like(a->dx, a->x) && (!a->dw.data || shaped_like(a->dw, a->w, tx_wide(t))))))
        return REFUSE(
            "head_loss",
            "x [rows,h], w [v,h] and perhaps bias [v] of one float dtype, loss and z_loss [rows] fp32, y [rows] int32; "
            "with weight [rows] fp32 also dx as x, perhaps dw as w and, only if there is bias, dbias as bias, both "
            "fp32; "
            "contiguous",
            T(loss), T(z_loss), T(dx), T(dw), T(x), T(w), T(bias), T(dbias), T(y), T(weight));
    TX_TRY(check_z_weight("head_loss", a->z_weight));
    TX_TRY(check_form("head_loss", a->form));
    TX_TRY(check_teacher(a));
    int64_t parts = a->n_parts ? a->n_parts : 1;
    if (parts > 1 && (!a->exchange || a->part < 0 || a->part >= parts))
        return TX_FAIL(TX_ERR_ARG, "head_loss: part %lld of %lld needs an exchange", (long long)a->part,
                       (long long)parts);
    return check_classes("head_loss", a->n_valid, parts * a->w.dim[0], a->smoothing);
}

tx_status tx__check_sumsq(const tx_sumsq_args *a)
{
    bool ok = is_float(a->x.dtype) && flat(a->x) && flat(a->out) && a->out.dtype == TX_F64 && a->out.n_dims == 1;
    if (!ok || a->out.dim[0] != tx_sumsq_blocks(tx_numel(a->x)))
        return REFUSE("sumsq", "x contiguous float and one fp64 of out for each 65536 elements of it", T(out), T(x));
    return TX_OK;
}

tx_status tx__check_magnitudes(const tx_magnitudes_args *a)
{
    bool ok = is_float(a->x.dtype) && flat(a->x) && flat(a->out) && a->out.dtype == TX_F64 && a->out.n_dims == 2;
    if (!ok || a->out.dim[0] != tx_sumsq_blocks(tx_numel(a->x)) || a->out.dim[1] != 4)
        return REFUSE("magnitudes", "x contiguous float and [1,4] fp64 of out for each 65536 elements of it", T(out),
                      T(x));
    return TX_OK;
}

tx_status tx__check_count_zeros(const tx_count_zeros_args *a)
{
    if (!is_float(a->x.dtype) || !flat(a->x) || !flat(a->out) || a->out.dtype != TX_F64 || tx_numel(a->out) != 1)
        return REFUSE("count_zeros", "x contiguous float, out one fp64", T(out), T(x));
    return TX_OK;
}

static bool is_exact(tx_tensor x)
{
    return x.dtype == TX_I64 && flat(x) && tx_numel(x) == TX_EXACT_WORDS;
}

tx_status tx__check_exact_add(const tx_exact_add_args *a)
{
    if (is_exact(a->sum) && flat(a->x) && a->x.dtype == TX_F64) return TX_OK;
    return REFUSE("exact_add", "sum of a tx_exact's size, x contiguous fp64", T(sum), T(x));
}

/* What clip writes. */
static bool is_gate(tx_tensor x)
{
    return x.dtype == TX_F64 && flat(x) && tx_numel(x) == 3;
}

tx_status tx__check_clip(const tx_clip_args *a)
{
    if (is_exact(a->sum) && is_gate(a->out)) return TX_OK;
    return REFUSE("clip", "sum of a tx_exact's size, out [3] fp64", T(out), T(sum));
}

/* The gradient of the master weights p, and their copy, if there is one. */
static bool update_fits(tx_tensor p, tx_tensor g, tx_tensor low)
{
    return is_float(p.dtype) && p.dtype == tx_wide(p.dtype) && flat(p) && is_float(g.dtype) &&
           shaped_like(g, p, g.dtype) && (!low.data || (is_float(low.dtype) && shaped_like(low, p, low.dtype)));
}

tx_status tx__check_adam(const tx_adam_args *a)
{
    if (!update_fits(a->p, a->g, a->low) || !like(a->m, a->p) || !like(a->v, a->p) ||
        (a->gate.data && !is_gate(a->gate)))
        return REFUSE("adam", "p, m, v of one shape, fp32; g and low of that shape, float; gate [3] fp64; contiguous",
                      T(p), T(m), T(v), T(g), T(low), T(gate));
    if (a->t < 1) return TX_FAIL(TX_ERR_ARG, "adam: t is %lld; the first step is 1", (long long)a->t);
    return TX_OK;
}

tx_status tx__check_sgd(const tx_sgd_args *a)
{
    if (!update_fits(a->p, a->g, a->low) || !like(a->m, a->p) || (a->gate.data && !is_gate(a->gate)))
        return REFUSE("sgd", "p, m of one shape, fp32; g and low of that shape, float; gate [3] fp64; contiguous", T(p),
                      T(m), T(g), T(low), T(gate));
    return TX_OK;
}

tx_status tx__check_lion(const tx_lion_args *a)
{
    if (!update_fits(a->p, a->g, a->low) || !like(a->m, a->p) || (a->gate.data && !is_gate(a->gate)))
        return REFUSE("lion", "p, m of one shape, fp32; g and low of that shape, float; gate [3] fp64; contiguous",
                      T(p), T(m), T(g), T(low), T(gate));
    return TX_OK;
}

tx_status tx__check_adagrad(const tx_adagrad_args *a)
{
    if (!update_fits(a->p, a->g, a->low) || !like(a->v, a->p) || (a->gate.data && !is_gate(a->gate)))
        return REFUSE("adagrad", "p, v of one shape, fp32; g and low of that shape, float; gate [3] fp64; contiguous",
                      T(p), T(v), T(g), T(low), T(gate));
    return TX_OK;
}

/* Two sums of each of sumsq's blocks of x. */
static bool is_pair_of_sums(tx_tensor sums, tx_tensor x)
{
    int64_t blocks = tx_sumsq_blocks(tx_numel(x));
    return sums.dtype == TX_F64 && flat(sums) && sums.n_dims == 2 && sums.dim[0] == 2 && sums.dim[1] == blocks;
}

tx_status tx__check_lamb_moments(const tx_lamb_moments_args *a)
{
    if (update_fits(a->p, a->g, (tx_tensor){ 0 }) && like(a->m, a->p) && like(a->v, a->p) &&
        is_pair_of_sums(a->sums, a->p) && (!a->gate.data || is_gate(a->gate)))
        return TX_OK;
    return REFUSE(
        "lamb_moments",
        "p, m, v of one shape, fp32; g of that shape, float; sums [2, blocks] fp64; gate [3] fp64; contiguous", T(p),
        T(m), T(v), T(g), T(sums), T(gate));
}

tx_status tx__check_lamb_ratio(const tx_lamb_ratio_args *a)
{
    bool ok = a->out.dtype == TX_F64 && flat(a->out) && a->sums.dtype == TX_I64 && flat(a->sums) &&
              tx_numel(a->sums) == 2 * TX_EXACT_WORDS * tx_numel(a->out);
    if (!ok) return REFUSE("lamb_ratio", "out [n] fp64, sums of two tx_exacts for each, contiguous", T(out), T(sums));
    if (a->least <= a->most) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "lamb_ratio: the least ratio is %g, the largest %g", a->least, a->most);
}

tx_status tx__check_lamb_update(const tx_lamb_update_args *a)
{
    if (update_fits(a->p, a->p, a->low) && like(a->m, a->p) && like(a->v, a->p) &&
        (!a->ratio.data || (a->ratio.dtype == TX_F64 && tx_numel(a->ratio) == 1)) &&
        (!a->gate.data || is_gate(a->gate)))
        return TX_OK;
    return REFUSE("lamb_update",
                  "p, m, v of one shape, fp32; low of that shape, float; ratio [1] and gate [3] fp64; contiguous", T(p),
                  T(m), T(v), T(low), T(ratio), T(gate));
}

tx_status tx__check_lamb_fresh(const tx_lamb_fresh_args *a)
{
    if (update_fits(a->p, a->p, (tx_tensor){ 0 }) && like(a->m, a->p) && like(a->fresh, a->p) && like(a->x, a->p) &&
        like(a->v, a->p) && is_pair_of_sums(a->sums, a->p) && a->most.dtype == TX_F64 && tx_numel(a->most) == 1 &&
        (!a->gate.data || is_gate(a->gate)))
        return TX_OK;
    return REFUSE("lamb_fresh", "p, m, fresh, x, v of one shape, fp32; sums [2, blocks], most [1], gate [3] fp64", T(p),
                  T(m), T(fresh), T(x), T(v), T(sums), T(most), T(gate));
}

tx_status tx__check_lamb_coeff(const tx_lamb_coeff_args *a)
{
    bool ok = flat(a->ratio) && a->ratio.dtype == TX_F64 && flat(a->average) && a->average.dtype == TX_F32 &&
              tx_numel(a->average) == tx_numel(a->ratio) && !a->most.data == !a->last.data &&
              maybe_like(a->most, a->ratio) && maybe_like(a->last, a->average) && a->least <= a->largest &&
              (!a->gate.data || is_gate(a->gate));
    if (ok) return TX_OK;
    return REFUSE("lamb_coeff", "ratio, most fp64, average, last fp32, of one size; least at most largest; gate [3]",
                  T(ratio), T(average), T(most), T(last), T(gate));
}

tx_status tx__check_root_mul(const tx_root_mul_args *a)
{
    if (update_fits(a->y, a->y, (tx_tensor){ 0 }) && like(a->x, a->y) && like(a->v, a->y)) return TX_OK;
    return REFUSE("root_mul", "y, x and v of one shape, fp32; contiguous", T(y), T(x), T(v));
}

tx_status tx__check_sign_pack(const tx_sign_pack_args *a)
{
    if (flat(a->x) && a->x.dtype == TX_F32 && flat(a->bits) && a->bits.dtype == TX_I32 && flat(a->scale) &&
        a->scale.dtype == TX_F64 && tx_numel(a->bits) == (tx_numel(a->x) + 31) / 32 && tx_numel(a->scale) > 0)
        return TX_OK;
    return REFUSE("sign_pack", "x fp32, bits i32 of 32 elements each, scale fp64; contiguous", T(bits), T(x), T(scale));
}

tx_status tx__check_sign_sum(const tx_sign_sum_args *a)
{
    if (flat(a->y) && a->y.dtype == TX_F32 && spaced(a->bits, TX_I32) && spaced(a->scale, TX_F64) &&
        a->bits.dim[0] == a->scale.dim[0] && a->scale.dim[1] == 1 && a->bits.dim[1] == (tx_numel(a->y) + 31) / 32 &&
        maybe_like(a->mask, a->y))
        return TX_OK;
    return REFUSE("sign_sum", "y fp32; bits [rows, words] i32 of 32 elements each and scale [rows, 1] fp64; mask as y",
                  T(y), T(bits), T(scale), T(mask));
}

static bool is_quantized(tx_tensor words, tx_tensor x, int bits)
{
    return (bits == 8 || bits == 4) && words.dim[words.n_dims - 1] == tx_quantized_words(tx_numel(x), bits);
}

tx_status tx__check_quantize(const tx_quantize_args *a)
{
    if (flat(a->x) && is_float(a->x.dtype) && flat(a->words) && a->words.dtype == TX_I32 &&
        is_quantized(a->words, a->x, a->bits))
        return TX_OK;
    return REFUSE("quantize", "x float, words i32 of blocks of 8 or 4 bits an element; contiguous", T(words), T(x));
}

tx_status tx__check_dequantize_sum(const tx_dequantize_sum_args *a)
{
    if (flat(a->y) && is_float(a->y.dtype) && spaced(a->words, TX_I32) && is_quantized(a->words, a->y, a->bits))
        return TX_OK;
    return REFUSE("dequantize_sum", "y float; words [rows, words] i32 of blocks of 8 or 4 bits an element", T(y),
                  T(words));
}

tx_status tx__check_blend(const tx_blend_args *a)
{
    const tx_tensor *of[] = { &a->x, &a->z, &a->low };
    bool fits = is_float(a->y.dtype) && flat(a->y) && a->x.data &&
                (!a->norm.data || (flat(a->norm) && a->norm.dtype == TX_F64)) && (!a->gate.data || is_gate(a->gate));
    for (int i = 0; i < 3; i++)
        fits = fits && (!of[i]->data || (is_float(of[i]->dtype) && shaped_like(*of[i], a->y, of[i]->dtype)));
    if (a->diagonal != 0) fits = fits && a->y.n_dims == 2 && a->y.dim[0] == a->y.dim[1];
    if (fits) return TX_OK;
    return REFUSE("blend",
                  "y, x, z and low of one shape, float, with a diagonal [m, m]; norm and gate [3] fp64; contiguous",
                  T(y), T(x), T(z), T(low), T(norm), T(gate));
}

tx_status tx__check_index(const char *op, const char *name, tx_tensor x, int64_t lo, int64_t hi)
{
    const int32_t *value = x.data;
    for (int64_t i = 0, n = tx_numel(x); i < n; i++)
        if (value[i] < lo || value[i] >= hi)
            return TX_FAIL(TX_ERR_ARG, "%s: %s[%lld] is %d; it has to be in %lld..%lld", op, name, (long long)i,
                           value[i], (long long)lo, (long long)hi - 1);
    return TX_OK;
}

tx_status tx__check_n_keys(const char *op, tx_tensor n_keys, tx_tensor k, tx__seq_part part)
{
    return n_keys.data ? tx__check_index(op, "n_keys", n_keys, 1, part.is ? INT32_MAX : k.dim[0] + 1) : TX_OK;
}

tx_status tx__check_past(const char *op, tx_past past, int64_t s, tx_tensor cache)
{
    TX_TRY(tx__check_index(op, "past.n", past.n, 0, cache.dim[0] - s + 1));
    return tx__check_index(op, "past.slot", past.slot, 0, cache.dim[1]);
}
