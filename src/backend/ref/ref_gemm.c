/* ref_gemm.c - matrix product: each element's sum in the order of k, of a tile of elements at a time, because most of
 * the time goes into reading a number of any type. */
#include "backend/ref/ref.h"

enum { TILE = 8 };

/* op(A)[i,p] lies at i a_i + p a_p, op(B)[p,j] at p b_p + j b_j */
typedef struct places {
    int64_t k, a_i, a_p, b_p, b_j;
} places;

/* Elements [i, i + m) x [j, j + n). */
static void tile(const tx_gemm_args *a, const places *at, int64_t i, int64_t j, int64_t m, int64_t n)
{
    double sum[TILE][TILE], x[TILE], y[TILE];
    for (int64_t r = 0; r < m; r++)
        for (int64_t s = 0; s < n; s++) {
            sum[r][s] = a->accumulate ? tx__ref_load(a->c, (i + r) * a->c.stride[0] + j + s) : 0;
            if (a->bias.data) sum[r][s] += tx__ref_load(a->bias, j + s);
        }
    for (int64_t p = 0; p < at->k; p++) {
        for (int64_t r = 0; r < m; r++) x[r] = tx__ref_load(a->a, (i + r) * at->a_i + p * at->a_p);
        for (int64_t s = 0; s < n; s++) y[s] = tx__ref_load(a->b, p * at->b_p + (j + s) * at->b_j);
        for (int64_t r = 0; r < m; r++)
            for (int64_t s = 0; s < n; s++) sum[r][s] += x[r] * y[s];
    }
    for (int64_t r = 0; r < m; r++)
        for (int64_t s = 0; s < n; s++) tx__ref_store(a->c, (i + r) * a->c.stride[0] + j + s, sum[r][s]);
}

tx_status tx__ref_gemm(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t m = a->c.dim[0], n = a->c.dim[1], as = a->a.stride[0], bs = a->b.stride[0];
    const places at = { .k = a->a.dim[a->trans_a ? 0 : 1],
                        .a_i = a->trans_a ? 1 : as,
                        .a_p = a->trans_a ? as : 1,
                        .b_p = a->trans_b ? 1 : bs,
                        .b_j = a->trans_b ? bs : 1 };
    for (int64_t i = 0; i < m; i += TILE)
        for (int64_t j = 0; j < n; j += TILE)
            tile(a, &at, i, j, m - i < TILE ? m - i : TILE, n - j < TILE ? n - j : TILE);
    return TX_OK;
}
