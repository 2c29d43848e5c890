/* ref_embedding.c - word plus position embeddings. */
#include "backend/ref/ref.h"

/* The row of token i here, or -1. */
static int64_t row_here(const int32_t *token, int64_t i, tx_shard shard, tx_tensor word)
{
    int64_t row = token[i] - shard.first;
    return row >= 0 && row < word.dim[0] ? row : -1;
}

tx_status tx__ref_embedding_fwd(tx_ctx *c, const tx_embedding_fwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t h = a->y.dim[2], n = tx_numel(a->token);
    const int32_t *token = a->token.data, *position = a->position.data;
    TX_TRY(tx__check_index("embedding_fwd", "token", a->token, 0, tx__rows_of(a->shard, a->word)));
    if (a->pos.data) TX_TRY(tx__check_index("embedding_fwd", "position", a->position, 0, a->pos.dim[0]));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < h; j++) {
            double pos = a->pos.data ? tx__ref_load(a->pos, position[i] * h + j) : 0;
            int64_t row = row_here(token, i, a->shard, a->word);
            tx__ref_store(a->y, i * h + j, (row < 0 ? 0 : tx__ref_load(a->word, row * h + j)) + pos);
        }
    return TX_OK;
}

tx_status tx__ref_embedding_bwd(tx_ctx *c, const tx_embedding_bwd_args *a, void *scratch)
{
    (void)c, (void)scratch;
    int64_t h = a->dy.dim[2], n = tx_numel(a->token);
    const int32_t *token = a->token.data, *position = a->position.data;
    TX_TRY(tx__check_index("embedding_bwd", "token", a->token, 0, tx__rows_of(a->shard, a->dword)));
    if (a->dpos.data) TX_TRY(tx__check_index("embedding_bwd", "position", a->position, 0, a->dpos.dim[0]));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < h; j++) {
            double dy = tx__ref_load(a->dy, i * h + j);
            int64_t row = row_here(token, i, a->shard, a->dword), at = row * h + j;
            int64_t pos_at = a->dpos.data ? position[i] * h + j : 0;
            if (row >= 0) tx__ref_store(a->dword, at, tx__ref_load(a->dword, at) + dy);
            if (a->dpos.data) tx__ref_store(a->dpos, pos_at, tx__ref_load(a->dpos, pos_at) + dy);
        }
    return TX_OK;
}
