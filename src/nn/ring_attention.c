/* ring_attention.c - attention of ranks that divide the positions of a sample, where keys and values travel and
 * queries stay.
 *
 *      p2p         in a ring: while a rank computes with one rank's keys and values it receives the next one's. In
 *                  backward they go around again, and behind them the gradients, to which each rank adds its part:
 *
 *                      step 0    keys of rank r          1    r - 1      2    r - 2     ...  c - 1   r + 1
 *                      gradients of rank r's stay             begin           go on                  go to r + 1
 *
 *      allgather   each rank gets all keys and values, in the order of positions, and computes once for each of its
 *                  runs; gradients are summed by a reduce-scatter
 *
 *  A rank has one or two runs of neighbours (parallel/cp.h). A call of attention has one of queries and one of keys, of
 *  which it is told the positions; a call whose keys no query sees is not made. With halves that leaves each rank as
 *  much as any other at each step: two calls, of four. Results are joined in fp32 by their log-sum-exp; backward of
 * each call takes that of all, and gradients are summed in fp32, and rounded to values when they travel. Source: Ring
 * Attention, arXiv:2310.01889; halves as in megatron/core/utils.py (get_batch_on_this_cp_rank). */
#include <math.h>

#include "nn/context_attention.h"
#include "parallel/cp.h"

/* ---- runs ---- */

/* n neighbours of a rank's rows, the first one of which is row `row`, and has position `at`. */
typedef struct neighbours {
    int64_t at, row, n;
} neighbours;

typedef struct rank_runs {
    neighbours run[2];
    int n;
} rank_runs;

typedef struct ring {
    const tx_core_attention *k;
    tx_comm *group;
    int c, rank;
    int64_t s, b, groups, d; /* s: of a rank */
    rank_runs own;
} ring;

static rank_runs runs_of(const tx_ctx *c, const ring *r, int rank)
{
    const tx_position_runs at = tx_cp_ring_positions_of(tx_grid_of(c), r->s * r->c, rank);
    if (!at.turn) return (rank_runs){ .run = { { at.first, 0, r->s } }, .n = 1 };
    return (rank_runs){ .run = { { at.first, 0, at.turn }, { at.first + at.turn + at.jump, at.turn, r->s - at.turn } },
                        .n = 2 };
}

static ring ring_of(const tx_ctx *c, const tx_core_attention *k)
{
    tx_comm *g = tx_cp_ring_group(tx_grid_of(c));
    ring r = { .k = k,
               .group = g,
               .c = tx_comm_size(g),
               .rank = tx_comm_rank(g),
               .s = k->k.dim[0],
               .b = k->k.dim[1],
               .groups = k->k.dim[2],
               .d = k->k.dim[3] };
    r.own = runs_of(c, &r, r.rank);
    return r;
}

/* Whether some query of q sees a key of k, for all that positions say. */
static bool sees(const tx_attention *w, const neighbours *q, const neighbours *k)
{
    if (w->causal && k->at >= q->at + q->n) return false;
    return !w->kind.window || k->at + k->n > q->at - w->kind.window;
}

/* ---- tensors ---- */

/* [2, n, b, groups, d]: keys and values of n positions. */
static tx_tensor push_pair(tx_arena *a, const ring *r, tx_dtype t, int64_t n)
{
    const int64_t dim[] = { 2 * n, r->b, r->groups, r->d };
    return tx_tensor_of(tx_push1(a, t, 2 * n * r->b * r->groups * r->d).data, t, 4, dim);
}

static tx_tensor keys_of(tx_tensor pair, bool second)
{
    int64_t n = pair.dim[0] / 2;
    return tx_slice_rows(pair, second ? n : 0, n);
}

/* A run's log-sum-exps, contiguous: runs lie one after the other. */
static tx_tensor lse_of(tx_tensor lse, const neighbours *q)
{
    int64_t heads = lse.dim[0] * lse.dim[1] * lse.dim[2];
    const int64_t dim[] = { lse.dim[0], lse.dim[1], lse.dim[2], q->n };
    return tx_tensor_of((char *)lse.data + (size_t)(heads * q->row) * tx_dtype_size(lse.dtype), lse.dtype, 4, dim);
}

static tx_tensor rows_of(tx_tensor x, const neighbours *q)
{
    return tx_slice_rows(x, q->row, q->n);
}

/* The call of a run of queries and of some keys and values of a pair.   @has_sink of all calls of these queries one */
static tx_core_attention call_of(const tx_core_attention *k, const neighbours *q, tx_tensor pair,
                                 const neighbours *keys, bool has_sink)
{
    tx_core_attention y = { .w = k->w,
                            .call = k->call,
                            .first_head = k->first_head,
                            .q = rows_of(k->q, q),
                            .k = rows_of(keys_of(pair, false), keys),
                            .v = rows_of(keys_of(pair, true), keys),
                            .o = rows_of(k->o, q),
                            .lse = lse_of(k->lse, q),
                            .part = { .is = true, .q_at = q->at, .k_at = keys->at, .without_sink = !has_sink } };
    return y;
}

/* ---- a ring ---- */

/* What is being sent and received. */
typedef struct messages {
    tx_request sent, received;
} messages;

enum { KEYS, GRADIENTS }; /* tags */

/* Starts handing `mine` to the next rank, and receiving the one before's.   @theirs absent: nothing is received */
static tx_status pass_on(tx_ctx *c, const ring *r, tx_tensor mine, tx_tensor theirs, int tag, messages *m)
{
    TX_TRY(tx_send_start(c, r->group, mine, (r->rank + 1) % r->c, tag, &m->sent));
    return tx_recv_start(c, r->group, theirs, (r->rank + r->c - 1) % r->c, tag, &m->received);
}

static tx_status wait_for(tx_ctx *c, messages *m)
{
    TX_TRY(tx_wait(c, &m->received));
    return tx_wait(c, &m->sent);
}

static int owner_at(const ring *r, int step)
{
    return (r->rank + r->c - step) % r->c;
}

/* Room of a forward, on scratch. */
typedef struct fwd_room {
    tx_tensor o;         /* [s, b, groups, r, d] wide: the sum so far */
    tx_tensor part, lse; /* of one call */
} fwd_room;

/* What own queries make of a rank's keys and values, joined to what there is. */
static tx_status add_block(tx_ctx *c, const ring *r, tx_tensor pair, int owner, const fwd_room *room)
{
    const tx_core_attention *k = r->k;
    const rank_runs theirs = runs_of(c, r, owner);
    for (int i = 0; i < r->own.n; i++)
        for (int j = 0; j < theirs.n; j++) {
            const neighbours *q = &r->own.run[i], *keys = &theirs.run[j];
            if (!sees(k->w, q, keys)) continue;
            tx_core_attention y = call_of(k, q, pair, keys, owner == r->rank && i == j);
            tx_tensor lse = y.lse;
            y.o = tx_slice_rows(room->part, 0, q->n);
            y.lse = tx_tensor_of(room->lse.data, lse.dtype, 4, lse.dim);
            TX_TRY(tx_core_attention_fwd(c, &y));
            TX_RUN(c, attention_join, .o = rows_of(room->o, q), .lse = lse, .part = y.o, .part_lse = y.lse);
            TX_TRY(tx_comm_poll(c, r->group));
        }
    return TX_OK;
}

/* Own keys and values, next to each other. */
static tx_status pack(tx_ctx *c, const tx_core_attention *k, tx_tensor pair)
{
    TX_RUN(c, copy, .y = keys_of(pair, false), .x = k->k);
    TX_RUN(c, copy, .y = keys_of(pair, true), .x = k->v);
    return TX_OK;
}

tx_status tx__ring_fwd(tx_ctx *c, const tx_core_attention *k)
{
    const ring r = ring_of(c, k);
    size_t mark = tx_arena_mark(&c->scratch);
    tx_dtype t = k->q.dtype;
    tx_tensor pair[] = { push_pair(&c->scratch, &r, t, r.s), push_pair(&c->scratch, &r, t, r.s) };
    const fwd_room room = { .o = tx_push_like(&c->scratch, tx_wide(t), k->o),
                            .part = tx_push_like(&c->scratch, t, rows_of(k->o, &r.own.run[0])),
                            .lse = tx_push_like(&c->scratch, k->lse.dtype, lse_of(k->lse, &r.own.run[0])) };
    TX_TRY(pack(c, k, pair[0]));
    TX_RUN(c, fill, .x = room.o, .value = 0);
    TX_RUN(c, fill, .x = k->lse, .value = -INFINITY);
    for (int step = 0; step < r.c; step++) {
        messages m = { .sent = { 0 } };
        if (step + 1 < r.c) TX_TRY(pass_on(c, &r, pair[step % 2], pair[1 - step % 2], KEYS, &m));
        TX_TRY(add_block(c, &r, pair[step % 2], owner_at(&r, step), &room));
        TX_TRY(wait_for(c, &m));
    }
    TX_RUN(c, cast, .y = k->o, .x = room.o);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* Room of a backward, on scratch. */
typedef struct bwd_room {
    tx_tensor dq;         /* [s, b, groups, r, d] wide: the sum so far */
    tx_tensor part, dk_v; /* of one call: its dq; its dk and dv, of as many positions as a run has */
} bwd_room;

/* sum += more, both contiguous. */
static tx_status add(tx_ctx *c, tx_tensor sum, tx_tensor more)
{
    TX_RUN(c, add, .y = sum, .a = sum, .b = more);
    return TX_OK;
}

/* Gradients of a rank's keys and values by own queries, into `sum`, wide; and of own queries.   @sum as pair */
static tx_status add_gradients(tx_ctx *c, const ring *r, tx_tensor pair, int owner, const bwd_room *room, tx_tensor sum)
{
    const tx_core_attention *k = r->k;
    const rank_runs theirs = runs_of(c, r, owner);
    TX_RUN(c, fill, .x = sum, .value = 0);
    for (int i = 0; i < r->own.n; i++)
        for (int j = 0; j < theirs.n; j++) {
            const neighbours *q = &r->own.run[i], *keys = &theirs.run[j];
            if (!sees(k->w, q, keys)) continue;
            tx_core_attention y = call_of(k, q, pair, keys, owner == r->rank && i == j);
            y.d_o = rows_of(k->d_o, q);
            y.dq = tx_slice_rows(room->part, 0, q->n);
            y.dk = keys_of(room->dk_v, false);
            y.dv = keys_of(room->dk_v, true);
            TX_TRY(tx_core_attention_bwd(c, &y));
            TX_TRY(add(c, rows_of(room->dq, q), y.dq));
            TX_TRY(add(c, rows_of(keys_of(sum, false), keys), y.dk));
            TX_TRY(add(c, rows_of(keys_of(sum, true), keys), y.dv));
            TX_TRY(tx_comm_poll(c, r->group));
        }
    return TX_OK;
}

tx_status tx__ring_bwd(tx_ctx *c, const tx_core_attention *k)
{
    const ring r = ring_of(c, k);
    size_t mark = tx_arena_mark(&c->scratch);
    tx_dtype t = k->q.dtype, wide = tx_wide(t);
    tx_tensor pair[] = { push_pair(&c->scratch, &r, t, r.s), push_pair(&c->scratch, &r, t, r.s) },
              travelling[] = { push_pair(&c->scratch, &r, t, r.s), push_pair(&c->scratch, &r, t, r.s) },
              own = push_pair(&c->scratch, &r, wide, r.s), sum = push_pair(&c->scratch, &r, wide, r.s);
    const bwd_room room = { .dq = tx_push_like(&c->scratch, wide, k->q),
                            .part = tx_push_like(&c->scratch, t, rows_of(k->q, &r.own.run[0])),
                            .dk_v = push_pair(&c->scratch, &r, t, r.own.run[0].n) };
    messages gradients = { .sent = { 0 } };
    TX_TRY(pack(c, k, pair[0]));
    TX_RUN(c, fill, .x = room.dq, .value = 0);
    for (int step = 0; step < r.c; step++) {
        messages m = { .sent = { 0 } };
        if (step + 1 < r.c) TX_TRY(pass_on(c, &r, pair[step % 2], pair[1 - step % 2], KEYS, &m));
        TX_TRY(add_gradients(c, &r, pair[step % 2], owner_at(&r, step), &room, step ? sum : own));
        TX_TRY(wait_for(c, &m));
        if (!step) continue;
        /* to what the rank before has begun */
        TX_TRY(wait_for(c, &gradients));
        if (step > 1) TX_TRY(add(c, sum, travelling[1]));
        TX_RUN(c, cast, .y = travelling[0], .x = sum);
        TX_TRY(pass_on(c, &r, travelling[0], travelling[1], GRADIENTS, &gradients));
    }
    TX_TRY(wait_for(c, &gradients));
    TX_TRY(add(c, own, travelling[1]));
    TX_RUN(c, cast, .y = k->dq, .x = room.dq);
    TX_RUN(c, cast, .y = k->dk, .x = keys_of(own, false));
    TX_RUN(c, cast, .y = k->dv, .x = keys_of(own, true));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- all of them at once ---- */

/* Between [c, 2, s of a rank, b, groups, d], rank by rank, and [2, s, b, groups, d], position by position. */
static tx_status reorder(tx_ctx *c, const ring *r, tx_tensor by_rank, tx_tensor whole, bool back)
{
    for (int rank = 0; rank < r->c; rank++) {
        const rank_runs theirs = runs_of(c, r, rank);
        for (int i = 0; i < 2 * theirs.n; i++) {
            const neighbours *run = &theirs.run[i / 2];
            tx_tensor one = rows_of(keys_of(tx_slice_rows(by_rank, rank * 2 * r->s, 2 * r->s), i % 2), run),
                      all = tx_slice_rows(keys_of(whole, i % 2), run->at, run->n);
            TX_RUN(c, copy, .y = back ? one : all, .x = back ? all : one);
        }
    }
    return TX_OK;
}

/* All keys and values, in the order of positions, into `whole`. */
static tx_status gather(tx_ctx *c, const tx_core_attention *k, const ring *r, tx_tensor whole)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor by_rank = push_pair(&c->scratch, r, k->q.dtype, r->c * r->s),
              own = tx_slice_rows(by_rank, r->rank * 2 * r->s, 2 * r->s);
    TX_TRY(pack(c, k, own));
    TX_TRY(tx_all_gather(c, r->group, by_rank, own));
    TX_TRY(reorder(c, r, by_rank, whole, false));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* dk and dv of own positions, of all ranks' queries.   @d of all positions, of own queries */
static tx_status scatter_sums(tx_ctx *c, const tx_core_attention *k, const ring *r, tx_tensor d)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor by_rank = push_pair(&c->scratch, r, d.dtype, r->c * r->s), own = push_pair(&c->scratch, r, d.dtype, r->s);
    TX_TRY(reorder(c, r, by_rank, d, true));
    TX_TRY(tx_reduce_scatter(c, r->group, own, by_rank));
    TX_RUN(c, copy, .y = k->dk, .x = keys_of(own, false));
    TX_RUN(c, copy, .y = k->dv, .x = keys_of(own, true));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* The keys that a run of queries sees some of. */
static neighbours seen_by(const tx_attention *w, const ring *r, const neighbours *q)
{
    int64_t all = r->c * r->s, first = w->kind.window && q->at > w->kind.window ? q->at - w->kind.window : 0,
            end = w->causal ? q->at + q->n : all;
    return (neighbours){ .at = first, .row = first, .n = end - first };
}

/* The same of a chunk (chunked_attention.h), whose keys and values are kept when they have been gathered. */
static tx_status gathered_chunk_fwd(tx_ctx *c, const tx_core_attention *k)
{
    const ring r = ring_of(c, k);
    tx_core_attention y = *k;
    size_t mark = tx_arena_mark(&c->scratch);
    if (!k->call->chunks->again) {
        tx_tensor whole = push_pair(&c->scratch, &r, k->q.dtype, r.c * r.s);
        TX_TRY(gather(c, k, &r, whole));
        y.k = keys_of(whole, false);
        y.v = keys_of(whole, true);
    }
    TX_TRY(tx_core_attention_fwd(c, &y));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

static tx_status gathered_chunk_bwd(tx_ctx *c, const tx_core_attention *k)
{
    const ring r = ring_of(c, k);
    tx_core_attention y = *k;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor d = push_pair(&c->scratch, &r, k->q.dtype, r.c * r.s);
    y.dk = keys_of(d, false);
    y.dv = keys_of(d, true);
    TX_TRY(tx_core_attention_bwd(c, &y));
    TX_TRY(scatter_sums(c, k, &r, d));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx__gathered_fwd(tx_ctx *c, const tx_core_attention *k)
{
    if (k->call->chunks) return gathered_chunk_fwd(c, k);
    const ring r = ring_of(c, k);
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor whole = push_pair(&c->scratch, &r, k->q.dtype, r.c * r.s);
    TX_TRY(gather(c, k, &r, whole));
    for (int i = 0; i < r.own.n; i++) {
        const neighbours *q = &r.own.run[i], keys = seen_by(k->w, &r, q);
        tx_core_attention y = call_of(k, q, whole, &keys, true);
        TX_TRY(tx_core_attention_fwd(c, &y));
    }
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx__gathered_bwd(tx_ctx *c, const tx_core_attention *k)
{
    if (k->call->chunks) return gathered_chunk_bwd(c, k);
    const ring r = ring_of(c, k);
    size_t mark = tx_arena_mark(&c->scratch);
    int64_t n = r.c * r.s;
    tx_dtype t = k->q.dtype;
    tx_tensor whole = push_pair(&c->scratch, &r, t, n), sum = push_pair(&c->scratch, &r, tx_wide(t), n),
              d = push_pair(&c->scratch, &r, t, n);
    TX_TRY(gather(c, k, &r, whole));
    TX_RUN(c, fill, .x = sum, .value = 0);
    for (int i = 0; i < r.own.n; i++) {
        const neighbours *q = &r.own.run[i], keys = seen_by(k->w, &r, q);
        tx_core_attention y = call_of(k, q, whole, &keys, true);
        y.d_o = rows_of(k->d_o, q);
        y.dq = rows_of(k->dq, q);
        y.dk = rows_of(keys_of(d, false), &keys);
        y.dv = rows_of(keys_of(d, true), &keys);
        TX_TRY(tx_core_attention_bwd(c, &y));
        TX_TRY(add(c, rows_of(keys_of(sum, false), &keys), y.dk));
        TX_TRY(add(c, rows_of(keys_of(sum, true), &keys), y.dv));
    }
    TX_RUN(c, cast, .y = d, .x = sum);
    TX_TRY(scatter_sums(c, k, &r, d));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}
