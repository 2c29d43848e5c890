/* chunked_attention.c - the queries of a chunk with the keys and values of each chunk that they see. */
#include "nn/chunked_attention.h"

/* ---- what is kept ---- */

static tx_arena *place(tx_ctx *c, const tx_chunks *a)
{
    return a->how.in_host ? &c->host : &c->acts;
}

void tx_chunks_push(tx_ctx *c, tx_chunks *a, tx_chunking how, const tx_chunk_shape *of)
{
    *a = (tx_chunks){ .how = how, .s = of->s, .n_ranks = of->n_ranks, .n_parts = of->n_parts, .part = of->part };
    int64_t queries = of->s / of->n_parts;
    tx_arena *to = place(c, a);
    if (of->x.data) a->x = tx_push3(to, of->x.dtype, of->s / of->n_ranks, of->b, of->x.dim[2]);
    a->kv = tx_push3(to, of->dtype, of->s, of->b, 2 * of->n_groups * of->d);
    a->o = tx_push3(to, of->dtype, queries, of->b, of->n_heads * of->d);
    a->lse = tx_push1(to, tx_wide(of->dtype), queries * of->b * of->n_heads);
}

void tx_chunks_push_gradients(tx_ctx *c, tx_chunks *a)
{
    a->dkv = tx_push3(place(c, a), tx_wide(a->kv.dtype), a->s, a->kv.dim[1], a->kv.dim[2]);
}

int64_t tx_chunk_positions(const tx_chunks *a, int64_t first)
{
    return a->s - first < a->how.positions ? a->s - first : a->how.positions;
}

int64_t tx_chunk_first_query(const tx_chunks *a, int64_t first)
{
    return first + a->part * (tx_chunk_positions(a, first) / a->n_parts);
}

/* From element `from` on, of [s, b, width], or of as many in a row. */
static tx_tensor some_of(tx_tensor kept, int64_t from, int64_t s_b, int64_t width)
{
    if (!kept.data) return kept;
    void *data = (char *)kept.data + (size_t)(from * s_b) * tx_dtype_size(kept.dtype);
    if (kept.n_dims == 1) return tx_tensor1(data, kept.dtype, s_b * width);
    return tx_tensor3(data, kept.dtype, kept.dim[0], kept.dim[1], width);
}

tx_chunks tx_chunks_of_heads(const tx_chunks *a, const tx_chunk_heads *h)
{
    tx_chunks y = *a;
    int64_t s_b = a->s * a->kv.dim[1], d = h->d;
    y.kv = some_of(a->kv, 2 * h->group * d, s_b, 2 * h->n_groups * d);
    y.dkv = some_of(a->dkv, 2 * h->group * d, s_b, 2 * h->n_groups * d);
    y.o = some_of(a->o, h->first * d, s_b, h->n * d);
    y.lse = some_of(a->lse, h->first, s_b, h->n);
    return y;
}

/* A chunk's part of what is kept of all positions. */
static tx_tensor part_of(tx_tensor kept, const tx_chunks *a, int64_t first)
{
    int64_t each = tx_numel(kept) / (a->s / a->n_ranks);
    return tx_slice1(kept, first / a->n_ranks * each, tx_chunk_positions(a, first) / a->n_ranks * each);
}

/* The same in the shape of x. */
static tx_tensor shaped_part_of(tx_tensor kept, const tx_chunks *a, int64_t first, tx_tensor x)
{
    tx_tensor part = part_of(kept, a, first);
    TX_ASSERT(tx_numel(part) == tx_numel(x));
    return tx_tensor_of(part.data, part.dtype, x.n_dims, x.dim);
}

/* What is copied from or to the host's memory lies in one piece on a device. */
static bool goes_by_a_copy(const tx_chunks *a, tx_tensor x)
{
    return a->how.in_host && !tx_is_contiguous(x);
}

static void settle(tx_ctx *c, const tx_chunks *a, tx_tensor part)
{
    tx_arena_settle(place(c, a), part.data, (size_t)tx_numel(part) * tx_dtype_size(part.dtype));
}

tx_status tx_chunk_keep(tx_ctx *c, const tx_chunks *a, tx_tensor kept, int64_t first, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor part = shaped_part_of(kept, a, first, x), from = x;
    if (goes_by_a_copy(a, x)) {
        from = tx_push_like(&c->acts, x.dtype, x);
        TX_RUN(c, copy, .y = from, .x = x);
    }
    TX_RUN(c, copy, .y = part, .x = from);
    settle(c, a, part);
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

tx_status tx_chunk_fetch(tx_ctx *c, const tx_chunks *a, tx_tensor x, tx_tensor kept, int64_t first)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor part = shaped_part_of(kept, a, first, x), into = x;
    bool by_a_copy = goes_by_a_copy(a, x);
    if (by_a_copy) into = tx_push_like(&c->acts, x.dtype, x);
    TX_RUN(c, copy, .y = into, .x = part);
    settle(c, a, part);
    if (by_a_copy) TX_RUN(c, copy, .y = x, .x = into);
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* Chunk `first` is fetched after what is computed now. */
static void expect(tx_ctx *c, const tx_chunks *a, tx_tensor kept, int64_t first)
{
    if (first >= a->first) return;
    tx_tensor part = part_of(kept, a, first);
    tx_arena_expect(place(c, a), part.data, (size_t)tx_numel(part) * tx_dtype_size(part.dtype));
}

/* ---- keys and values ---- */

/* Keys, or values, of [positions, b, 2 groups d] as [positions, b, groups, d]. */
static tx_tensor half_of(tx_tensor kv, tx_tensor like, bool values)
{
    int64_t g = like.dim[2], d = like.dim[3];
    return (tx_tensor){ .data = (char *)kv.data + (values ? (size_t)(g * d) * tx_dtype_size(kv.dtype) : 0),
                        .dtype = kv.dtype,
                        .n_dims = 4,
                        .dim = { kv.dim[0], kv.dim[1], g, d },
                        .stride = { kv.dim[1] * kv.dim[2], kv.dim[2], d, 1 } };
}

static tx_tensor kv_room(tx_ctx *c, const tx_chunks *a, tx_dtype t, int64_t first)
{
    return tx_push3(&c->acts, t, tx_chunk_positions(a, first), a->kv.dim[1], a->kv.dim[2]);
}

static tx_status keep_kv(tx_ctx *c, const tx_chunks *a, tx_tensor k, tx_tensor v)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_tensor kv = kv_room(c, a, k.dtype, a->first);
    TX_RUN(c, copy, .y = half_of(kv, k, false), .x = k);
    TX_RUN(c, copy, .y = half_of(kv, v, true), .x = v);
    TX_TRY(tx_chunk_keep(c, a, a->kv, a->first, kv));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* Those of another chunk in *k and *v, pushed; the chunk's own may be there. */
static tx_status bring_kv(tx_ctx *c, const tx_chunks *a, int64_t first, tx_tensor *k, tx_tensor *v)
{
    if (first == a->first && k->dim[0] == tx_chunk_positions(a, first)) return TX_OK;
    tx_tensor kv = kv_room(c, a, k->dtype, first), like = *k;
    TX_TRY(tx_chunk_fetch(c, a, kv, a->kv, first));
    *k = half_of(kv, like, false);
    *v = half_of(kv, like, true);
    return TX_OK;
}

/* The first chunk with a key that a query of the chunk at `first` sees. */
static int64_t first_seen(const tx_chunks *a, int64_t first, int64_t window)
{
    int64_t key = window > 0 && first > window ? first - window : 0;
    return window > 0 ? key / a->how.positions * a->how.positions : 0;
}

/* What only one call of a query's should have. */
static tx_attention_kind kind_in_pair(tx_attention_kind kind, bool own)
{
    if (own) return kind;
    kind.sink = (tx_tensor){ 0 };
    kind.off_by_one = false;
    return kind;
}

/* y = x, which may have another dtype; contiguous. */
static tx_status to(tx_ctx *c, tx_tensor y, tx_tensor x)
{
    if (y.dtype == x.dtype)
        TX_RUN(c, copy, .y = y, .x = x);
    else
        TX_RUN(c, cast, .y = y, .x = x);
    return TX_OK;
}

/* ---- forward ---- */

tx_status tx_chunked_attention_fwd(tx_ctx *c, const tx_chunks *a, const tx_attention_fwd_args *call,
                                   const tx_max_logits_args *max)
{
    if (a->again) {
        TX_TRY(tx_chunk_fetch(c, a, call->o, a->o, a->first));
        return tx_chunk_fetch(c, a, call->lse, a->lse, a->first);
    }
    size_t mark = tx_arena_mark(&c->acts);
    tx_dtype t = call->o.dtype, wide = tx_wide(t);
    int64_t begin = first_seen(a, a->first, call->kind.window);
    tx_tensor sum = call->o, part = { 0 }, part_lse = { 0 };
    TX_TRY(keep_kv(c, a, call->k, call->v));
    if (begin < a->first) {
        if (wide != t) sum = tx_push_like(&c->acts, wide, call->o);
        part = tx_push_like(&c->acts, t, call->o);
        part_lse = tx_push_like(&c->acts, wide, call->lse);
    }
    for (int64_t j = begin; j <= a->first; j += a->how.positions) {
        size_t pair = tx_arena_mark(&c->acts);
        tx_attention_fwd_args with = *call;
        with.part = true;
        with.q_at = tx_chunk_first_query(a, a->first);
        with.k_at = j;
        with.kind = kind_in_pair(call->kind, j == a->first);
        TX_TRY(bring_kv(c, a, j, &with.k, &with.v));
        expect(c, a, a->kv, j + a->how.positions);
        if (max) {
            tx_max_logits_args m = *max;
            m.part = true;
            m.q_at = with.q_at;
            m.k_at = j;
            m.k = with.k;
            TX_TRY(tx_op_max_logits(c, &m));
        }
        if (j > begin) with.o = part, with.lse = part_lse;
        TX_TRY(tx_op_attention_fwd(c, &with));
        if (j > begin)
            TX_RUN(c, attention_join, .o = sum, .lse = call->lse, .part = part, .part_lse = part_lse);
        else if (begin < a->first && wide != t)
            TX_TRY(to(c, sum, call->o));
        tx_arena_pop(&c->acts, pair);
    }
    if (begin < a->first && wide != t) TX_TRY(to(c, call->o, sum));
    TX_TRY(tx_chunk_keep(c, a, a->o, a->first, call->o));
    TX_TRY(tx_chunk_keep(c, a, a->lse, a->first, call->lse));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}

/* ---- backward ---- */

/* y = x, whose dtype is the wide one.   @room as x, of y's dtype */
static tx_status give(tx_ctx *c, tx_tensor y, tx_tensor x, tx_tensor room)
{
    if (x.dtype != y.dtype) {
        TX_RUN(c, cast, .y = room, .x = x);
        x = room;
    }
    TX_RUN(c, copy, .y = y, .x = x);
    return TX_OK;
}

/* sum = what chunk j's keys and values have of the queries so far, and of these.   @some their contribution */
static tx_status add_up(tx_ctx *c, const tx_chunks *a, int64_t j, int64_t window, tx_tensor sum, tx_tensor some)
{
    int64_t next = a->first + a->how.positions;
    if (next >= a->s || first_seen(a, next, window) > j) return to(c, sum, some);
    TX_TRY(tx_chunk_fetch(c, a, sum, a->dkv, j));
    TX_RUN(c, add, .y = sum, .a = sum, .b = some);
    return TX_OK;
}

tx_status tx_chunked_attention_bwd(tx_ctx *c, const tx_chunks *a, const tx_attention_bwd_args *call)
{
    size_t mark = tx_arena_mark(&c->acts);
    tx_dtype t = call->q.dtype, wide = tx_wide(t);
    int64_t begin = first_seen(a, a->first, call->kind.window);
    tx_tensor dq = tx_push_like(&c->acts, wide, call->q), some_dq = tx_push_like(&c->acts, t, call->q);
    for (int64_t j = begin; j <= a->first; j += a->how.positions) {
        size_t pair = tx_arena_mark(&c->acts);
        bool own = j == a->first;
        tx_tensor some = kv_room(c, a, t, j), sum = kv_room(c, a, wide, j);
        tx_attention_bwd_args with = *call;
        with.part = true;
        with.q_at = tx_chunk_first_query(a, a->first);
        with.k_at = j;
        with.kind = kind_in_pair(call->kind, own);
        with.dq = some_dq;
        with.dk = half_of(some, call->k, false);
        with.dv = half_of(some, call->k, true);
        if (!own) with.dsink = (tx_tensor){ 0 };
        TX_TRY(bring_kv(c, a, j, &with.k, &with.v));
        expect(c, a, a->kv, j + a->how.positions);
        expect(c, a, a->dkv, j);
        TX_TRY(tx_op_attention_bwd(c, &with));
        if (j == begin)
            TX_TRY(to(c, dq, some_dq));
        else
            TX_RUN(c, add, .y = dq, .a = dq, .b = some_dq);
        TX_TRY(add_up(c, a, j, call->kind.window, sum, some));
        if (!own) TX_TRY(tx_chunk_keep(c, a, a->dkv, j, sum));
        if (own) {
            TX_TRY(to(c, some, sum));
            TX_RUN(c, copy, .y = call->dk, .x = half_of(some, call->k, false));
            TX_RUN(c, copy, .y = call->dv, .x = half_of(some, call->k, true));
        }
        tx_arena_pop(&c->acts, pair);
    }
    TX_TRY(give(c, call->dq, dq, some_dq));
    tx_arena_pop(&c->acts, mark);
    return TX_OK;
}
