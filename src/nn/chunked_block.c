/* chunked_block.c - a layer's positions, a chunk after the other. */
#include "nn/chunked_block.h"

#include "nn/context_attention.h"
#include "nn/wgrad_store.h"
#include "parallel/grid.h"

/* What a chunk's call points to. */
typedef struct chunk {
    tx_block_call call;
    tx_block_rooms lent;
    tx_dropout_key dropout;
} chunk;

/* Rows of a tensor that may be absent. */
static tx_tensor some(tx_tensor x, int64_t first, int64_t n)
{
    return x.data ? tx_slice_rows(x, first, n) : x;
}

/* @a whose chunk begins at a->first */
static void begin(chunk *t, const tx_chunks *a, const tx_block_call *k)
{
    int64_t b = k->x.dim[1], all = tx_chunk_positions(a, a->first), first = a->first / a->n_ranks, n = all / a->n_ranks;
    t->call = *k;
    t->lent = *k->lent;
    t->dropout = *k->dropout;
    t->call.x = some(k->x, first, n);
    t->call.y = some(k->y, first, n);
    t->call.d = some(k->d, first, n);
    t->call.seen.first = some(k->seen.first, tx_chunk_first_query(a, a->first), all / a->n_parts);
    t->lent.branch = some(k->lent->branch, 0, n);
    t->lent.norm = some(k->lent->norm, 0, n * b);
    t->dropout.at = tx_positions_from(&k->dropout->at, first);
    t->dropout.whole = tx_positions_from(&k->dropout->whole, first);
    t->call.lent = &t->lent;
    t->call.dropout = &t->dropout;
    t->call.chunks = a;
}

tx_status tx_chunked_block_fwd(tx_ctx *c, const tx_block *w, tx_chunks *a, tx_chunking how, const tx_block_call *k)
{
    const tx_grid *g = tx_grid_of(c);
    const int64_t n_ranks = tx_grid_size(g, TX_AXIS_CONTEXT);
    const tx_context_heads own = tx_context_own_heads(c, &w->attn);
    const bool by_heads = tx_context_by_heads(c, &w->attn);
    const tx_chunk_shape shape = { .dtype = w->attn.qkv.w.value.dtype,
                                   .s = k->x.dim[0] * n_ranks,
                                   .n_ranks = n_ranks,
                                   .n_parts = by_heads ? 1 : n_ranks,
                                   .part = by_heads ? 0 : tx_grid_rank(g, TX_AXIS_CONTEXT),
                                   .b = k->x.dim[1],
                                   .n_heads = own.n,
                                   .n_groups = own.n_groups,
                                   .d = w->attn.d,
                                   .x = how.inputs && k->pass.train ? k->x : (tx_tensor){ 0 } };
    tx_chunks_push(c, a, how, &shape);
    bool top = tx_ctx_begin_top(c);
    for (; a->first < a->s; a->first += how.positions) {
        chunk t;
        tx_block_saved saved;
        size_t mark = tx_arena_mark(&c->acts);
        begin(&t, a, k);
        if (a->x.data) TX_TRY(tx_chunk_keep(c, a, a->x, a->first, t.call.x));
        TX_TRY(tx_block_fwd(c, w, &saved, &t.call));
        tx_arena_pop(&c->acts, mark);
    }
    tx_ctx_end_top(c, top);
    return TX_OK;
}

/* d of the chunk. Its output, which is computed again with the rest, nobody reads. */
static tx_status chunk_bwd(tx_ctx *c, const tx_block *w, const tx_chunks *a, const tx_block_call *k)
{
    chunk t;
    tx_block_saved saved;
    size_t mark = tx_arena_mark(&c->acts);
    begin(&t, a, k);
    t.call.y = tx_push_like(&c->acts, t.call.x.dtype, t.call.x);
    if (a->x.data) {
        t.call.x = tx_push_like(&c->acts, t.call.x.dtype, t.call.x);
        TX_TRY(tx_chunk_fetch(c, a, t.call.x, a->x, a->first));
    }
    TX_TRY(tx_block_fwd(c, w, &saved, &t.call));
    TX_TRY(tx_block_bwd(c, w, &saved, &t.call));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

tx_status tx_chunked_block_bwd(tx_ctx *c, const tx_block *w, tx_chunks *a, const tx_block_call *k,
                               const tx_params *params, int unit)
{
    const tx_unit *rows = &params->unit[unit];
    size_t mark = tx_arena_mark(&c->acts), host = tx_arena_mark(&c->host);
    int64_t n = a->how.positions;
    tx_chunks_push_gradients(c, a);
    a->again = true;
    for (a->first = (a->s - 1) / n * n; a->first >= 0; a->first -= n) {
        TX_TRY(chunk_bwd(c, w, a, k));
        tx_wgrad_contributed(c, params, rows->first, rows->end);
    }
    tx_arena_pop(&c->acts, mark);
    tx_arena_pop(&c->host, host);
    return TX_OK;
}
