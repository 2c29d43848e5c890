/* ref_embedding.c - sums of embeddings: words, and perhaps positions and types of tokens. */
#include "backend/ref/ref.h"

/* The row of token i here, or -1. */
static int64_t row_here(const int32_t *token, int64_t i, tx_table_shard shard, tx_tensor word)
{
    int64_t row = token[i] - shard.first;
    return row >= 0 && row < word.dim[0] ? row : -1;
}

/* Every element of an optional table's index is a row of it. */
static tx_status check_rows(const char *op, const char *name, tx_tensor index, tx_tensor table)
{
    return table.data ? tx__check_index(op, name, index, 0, table.dim[0]) : TX_OK;
}

/* Element j of the row that belongs to token i; 0 without a table. */
static double looked_up(tx_tensor table, tx_tensor index, int64_t i, int64_t j)
{
    return table.data ? tx__ref_load(table, ((const int32_t *)index.data)[i] * table.dim[1] + j) : 0;
}

tx_status tx__ref_embedding_fwd(tx_ctx *c, const tx_embedding_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t h = a->y.dim[2], n = tx_numel(a->token);
    TX_TRY(tx__check_index("embedding_fwd", "token", a->token, 0, tx__rows_of(a->shard, a->word)));
    TX_TRY(check_rows("embedding_fwd", "position", a->position, a->pos));
    TX_TRY(check_rows("embedding_fwd", "type", a->type, a->kind));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < h; j++) {
            int64_t row = row_here(a->token.data, i, a->shard, a->word);
            double word = row < 0 ? 0 : tx__scale_or_1(a->scale) * tx__ref_load(a->word, row * h + j);
            tx__ref_store(a->y, i * h + j,
                          word + looked_up(a->pos, a->position, i, j) + looked_up(a->kind, a->type, i, j));
        }
    return TX_OK;
}

static void add(tx_tensor table, int64_t row, int64_t j, double dy)
{
    int64_t at = row * table.dim[1] + j;
    tx__ref_store(table, at, tx__ref_load(table, at) + dy);
}

/* A type is that of very many tokens: their sum is rounded once. */
static double sum_of_type(tx_tensor dy, const int32_t *type, int32_t k, int64_t j)
{
    int64_t h = dy.dim[2], n = dy.dim[0] * dy.dim[1];
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (type[i] == k) sum += tx__ref_load(dy, i * h + j);
    return sum;
}

tx_status tx__ref_embedding_bwd(tx_ctx *c, const tx_embedding_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t h = a->dy.dim[2], n = tx_numel(a->token);
    const int32_t *position = a->position.data;
    TX_TRY(tx__check_index("embedding_bwd", "token", a->token, 0, tx__rows_of(a->shard, a->dword)));
    TX_TRY(check_rows("embedding_bwd", "position", a->position, a->dpos));
    TX_TRY(check_rows("embedding_bwd", "type", a->type, a->dkind));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < h; j++) {
            double dy = tx__ref_load(a->dy, i * h + j);
            int64_t row = row_here(a->token.data, i, a->shard, a->dword);
            if (row >= 0) add(a->dword, row, j, tx__scale_or_1(a->scale) * dy);
            if (a->dpos.data) add(a->dpos, position[i], j, dy);
        }
    for (int64_t k = 0; a->dkind.data && k < a->dkind.dim[0]; k++)
        for (int64_t j = 0; j < h; j++) add(a->dkind, k, j, sum_of_type(a->dy, a->type.data, (int32_t)k, j));
    return TX_OK;
}
