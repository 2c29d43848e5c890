/* ref_tokens.c - some tokens of each sample taken out of all, and put back. */
#include "backend/ref/ref.h"

/* Where the token (i, j) of some is among all, as a row of them; -1: not there. */
static int64_t row_of(tx_tensor position, int64_t row, int64_t first, tx_tensor all)
{
    int64_t b = all.dim[1], at = ((const int32_t *)position.data)[row] - first;
    return at < 0 || at >= all.dim[0] ? -1 : at * b + row % b;
}

tx_status tx__ref_gather_tokens(tx_ctx *c, const tx_gather_tokens_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t h = a->y.dim[2];
    for (int64_t row = 0; row < tx_numel(a->position); row++) {
        int64_t from = row_of(a->position, row, a->first, a->x);
        for (int64_t k = 0; k < h; k++)
            tx__ref_store(a->y, row * h + k, from < 0 ? 0 : tx__ref_load(a->x, from * h + k));
    }
    return TX_OK;
}

tx_status tx__ref_scatter_tokens(tx_ctx *c, const tx_scatter_tokens_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t h = a->y.dim[2];
    for (int64_t row = 0; row < tx_numel(a->position); row++) {
        int64_t to = row_of(a->position, row, a->first, a->y);
        for (int64_t k = 0; k < h && to >= 0; k++) tx__ref_store(a->y, to * h + k, tx__ref_load(a->x, row * h + k));
    }
    return TX_OK;
}
