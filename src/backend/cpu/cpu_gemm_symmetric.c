/* cpu_gemm_symmetric.c - products that are known to be symmetric: panels of rows from the diagonal on, one after
 * another, and their mirror image.
 *
 *      | 0 0 0 0 |
 *      | . 1 1 1 |      of n panels (n + 1) / 2n of the product
 *      | . . 2 2 |
 *      | . . . 3 |
 */
#include "backend/cpu/cpu.h"

/* A panel has about LEAST rows or more, so that its operands are multiplied often enough to be worth being read, and is
 * none of TX__CPU_FEW. */
enum { MOST_PANELS = 4, LEAST = TX__CPU_FEW + 16, TILE = 16 };

int tx__cpu_gemm_panels(const tx_gemm_args *a)
{
    int64_t n = a->symmetric ? a->c.dim[0] / LEAST : 1;
    return n > MOST_PANELS ? MOST_PANELS : n < 1 ? 1 : (int)n;
}

/* The first row of panel i. */
static int64_t first_of(const tx_gemm_args *a, int i)
{
    int n = tx__cpu_gemm_panels(a);
    return i == n ? a->c.dim[0] : a->c.dim[0] * i / n / TILE * TILE;
}

/* x from `first` on along `dim`, n of it. */
static tx_tensor slice(tx_tensor x, int dim, int64_t first, int64_t n)
{
    x.data = (char *)x.data + (size_t)(first * x.stride[dim]) * tx_dtype_size(x.dtype);
    x.dim[dim] = n;
    return x;
}

tx_gemm_args tx__cpu_gemm_panel(const tx_gemm_args *a, int i)
{
    tx_gemm_args p = *a;
    int64_t first = first_of(a, i), rows = first_of(a, i + 1) - first, columns = a->c.dim[1] - first;
    p.symmetric = false;
    p.a = slice(a->a, a->trans_a, first, rows);
    p.b = slice(a->b, !a->trans_b, first, columns);
    p.c = slice(slice(a->c, 0, first, rows), 1, first, columns);
    return p;
}

/* Rows [first, first + TILE) left of the diagonal, from above it. */
static void mirror(tx_tensor c, int64_t first)
{
    int64_t n = c.dim[0], end = tx__cpu_min(first + TILE, n), s = c.stride[0];
    for (int64_t j = 0; j < end; j += TILE)
        for (int64_t i = first; i < end; i++)
            for (int64_t k = j; k < j + TILE && k < i; k++)
                if (c.dtype == TX_F32)
                    ((float *)c.data)[i * s + k] = ((const float *)c.data)[k * s + i];
                else
                    ((uint16_t *)c.data)[i * s + k] = ((const uint16_t *)c.data)[k * s + i];
}

tx_status tx__cpu_gemm_symmetric(tx_ctx *c, const tx_gemm_args *a, void *scratch)
{
    int64_t n = a->c.dim[0], tiles = (n + TILE - 1) / TILE;
    for (int i = 0; i < tx__cpu_gemm_panels(a); i++) {
        const tx_gemm_args p = tx__cpu_gemm_panel(a, i);
        TX_TRY(tx__cpu_gemm(c, &p, scratch));
    }
    if (c->dry) return TX_OK;
    int parts = tx__cpu_parts(c, tiles, TILE * n / 2);
#pragma omp parallel for schedule(dynamic) num_threads(parts)
    for (int64_t i = 0; i < tiles; i++) mirror(a->c, i * TILE);
    return TX_OK;
}
