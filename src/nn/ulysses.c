/* ulysses.c - attention of ranks that divide the positions of a sample: all-to-alls around it give each rank all
 * positions of some of the heads, and take back what it makes of them.
 *
 *      rank 0   s/c positions, all heads           q, k, v  ->     all positions, its heads
 *      rank 1   s/c positions, all heads                <-  o      all positions, its heads
 *
 *  Query heads are dealt as evenly as they can be, the first ranks having one more where they cannot. With them go the
 * key and value heads of their groups, to each rank that needs one: of fewer groups than ranks to several, which then
 * all give a part of its gradient. A rank's heads of one position lie one after the other, and what ranks send has the
 * head as its unit:
 *
 *      | q .. q | k .. k | v .. v |      [s, b, queries + 2 groups, d]
 *
 *  In generation each rank keeps the keys and values of its heads. Of many new positions each rank has a part, and
 * heads are exchanged as above; few are computed by all ranks, each attends with its heads, and what it makes is
 * gathered.
 *
 *  A run of heads may begin and end inside a group; attention is then computed for at most three pieces, each of whole
 * groups or of a part of one. Source: DeepSpeed Ulysses, arXiv:2309.14509; deepspeed/sequence/layer.py. */
#include "nn/context_attention.h"
#include "parallel/cp.h"

/* ---- who has which heads ---- */

typedef struct run {
    int64_t first, n; /* query heads */
    int64_t group, n_groups;
} run;

static run heads_of(const tx_attention *w, int64_t n_ranks, int64_t rank)
{
    int64_t each = w->n_heads / n_ranks, more = w->n_heads % n_ranks, r = w->n_heads / w->n_groups;
    run h = { .first = rank * each + (rank < more ? rank : more), .n = each + (rank < more) };
    h.group = h.first / r;
    h.n_groups = (h.first + h.n - 1) / r - h.group + 1;
    return h;
}

static int64_t width_of(const run *h)
{
    return h->n + 2 * h->n_groups;
}

int64_t tx_context_heads_sent(int64_t heads, int64_t groups, int64_t n_ranks)
{
    const tx_attention w = { .n_heads = heads, .n_groups = groups };
    int64_t n = heads;
    for (int64_t i = 0; i < n_ranks; i++) {
        run h = heads_of(&w, n_ranks, i);
        n += width_of(&h);
    }
    return n;
}

int64_t tx_context_groups_kept(int64_t heads, int64_t groups, int64_t n_ranks, int64_t rank)
{
    const tx_attention w = { .n_heads = heads, .n_groups = groups };
    return heads_of(&w, n_ranks, rank).n_groups;
}

tx_context_heads tx_context_own_heads(const tx_ctx *c, const tx_attention *w)
{
    if (!tx_context_by_heads(c, w)) return (tx_context_heads){ w->n_heads, w->n_groups };
    const tx_comm *g = tx_cp_heads_group(tx_grid_of(c));
    run h = heads_of(w, tx_comm_size(g), tx_comm_rank(g));
    return (tx_context_heads){ h.n, h.n_groups };
}

/* The next piece of h from head `at` on: whole groups, or a part of one. */
static run piece_of(const tx_attention *w, const run *h, int64_t at)
{
    int64_t r = w->n_heads / w->n_groups, left = h->first + h->n - at, in = at % r;
    run p = { .first = at, .group = at / r, .n_groups = 1 };
    if (in || left < r) {
        p.n = r - in < left ? r - in : left;
    } else {
        p.n_groups = left / r;
        p.n = p.n_groups * r;
    }
    return p;
}

/* ---- what is sent ---- */

static tx_arena *host_arena(tx_ctx *c)
{
    return c->device ? &c->host : &c->acts;
}

/* What all ranks send each other, in heads of a position. */
typedef struct exchange {
    tx_comm *group;
    int64_t n_ranks, s, b; /* s: of a rank */
    run own;
} exchange;

static exchange exchange_of(tx_ctx *c, const tx_core_attention *k)
{
    tx_comm *g = tx_cp_heads_group(tx_grid_of(c));
    exchange x = { .group = g, .n_ranks = tx_comm_size(g), .s = k->q.dim[0], .b = k->q.dim[1] };
    x.own = heads_of(k->w, x.n_ranks, tx_comm_rank(g));
    return x;
}

/* Rows that a rank sends in all: its positions' heads, of all ranks. */
static int64_t rows_sent(const tx_core_attention *k, const exchange *x, bool with_keys)
{
    int64_t n = 0;
    for (int64_t i = 0; i < x->n_ranks; i++) {
        run h = heads_of(k->w, x->n_ranks, i);
        n += with_keys ? width_of(&h) : h.n;
    }
    return n * x->s * x->b;
}

/* y = what other ranks have for this one.   @y, @x rows of d, with keys and values or without
 *  @to its heads of their positions; else its positions' other heads */
static tx_status all_to_all(tx_ctx *c, const tx_core_attention *k, bool to, tx_tensor y, tx_tensor x)
{
    const exchange e = exchange_of(c, k);
    bool with_keys = (to ? x : y).dim[0] == rows_sent(k, &e, true);
    tx_arena *host = host_arena(c);
    size_t mark = tx_arena_mark(host), bytes = (size_t)e.n_ranks * sizeof(int64_t);
    int64_t *heads = tx_arena_push(host, bytes), *positions = tx_arena_push(host, bytes);
    for (int64_t i = 0; i < e.n_ranks && !c->dry; i++) {
        run h = heads_of(k->w, e.n_ranks, i);
        heads[i] = e.s * e.b * (with_keys ? width_of(&h) : h.n);
        positions[i] = e.s * e.b * (with_keys ? width_of(&e.own) : e.own.n);
    }
    const tx_all_to_all_rows rows = { .send = to ? heads : positions,
                                      .recv = to ? positions : heads,
                                      .all = e.n_ranks * rows_sent(k, &e, with_keys) };
    TX_TRY(tx_all_to_all(c, e.group, y, x, &rows));
    tx_arena_pop(host, mark);
    return TX_OK;
}

/* ---- views ---- */

/* n heads from `first` on of a block [s, b, width, d], as n_groups groups. */
static tx_tensor in_block(tx_tensor block, int64_t first, int64_t n, int64_t n_groups)
{
    int64_t d = block.dim[3];
    block.data = (char *)block.data + (size_t)(first * d) * tx_dtype_size(block.dtype);
    block.n_dims = 5;
    block.dim[2] = n_groups;
    block.dim[3] = n / n_groups;
    block.dim[4] = d;
    block.stride[2] = block.dim[3] * d;
    block.stride[3] = d;
    block.stride[4] = 1;
    return block;
}

/* A piece of queries, and of what is shaped as they are. */
static tx_tensor piece_of_all(tx_tensor q, const run *p)
{
    int64_t in = p->first % q.dim[3];
    q.data = (char *)q.data + (size_t)(p->group * q.stride[2] + in * q.stride[3]) * tx_dtype_size(q.dtype);
    q.dim[2] = p->n_groups;
    q.dim[3] = p->n / p->n_groups;
    return q;
}

static tx_tensor groups_of(tx_tensor k, int64_t first, int64_t n)
{
    k.data = (char *)k.data + (size_t)(first * k.stride[2]) * tx_dtype_size(k.dtype);
    k.dim[2] = n;
    return k;
}

/* Keys of a block, or, as its `second`, values: n groups from the block's group `first` on. */
static tx_tensor keys_in(tx_tensor block, const run *h, bool second, int64_t first, int64_t n)
{
    return tx_one_a_group(in_block(block, h->n + (second ? h->n_groups : 0) + first, n, n));
}

/* [s, b, width, d] at `data`, and in new memory. */
static tx_tensor block_at(void *data, const tx_core_attention *k, const exchange *x, int64_t s, int64_t width)
{
    const int64_t dim[] = { s, x->b, width, k->w->d };
    return tx_tensor_of(data, k->q.dtype, 4, dim);
}

static tx_tensor push_block(tx_arena *a, const tx_core_attention *k, const exchange *x, int64_t s, int64_t width)
{
    return block_at(tx_push1(a, k->q.dtype, s * x->b * width * k->w->d).data, k, x, s, width);
}

static tx_tensor push_rows(tx_arena *a, const tx_core_attention *k, int64_t n)
{
    return tx_push2(a, k->q.dtype, n, k->w->d);
}

static tx_tensor as_rows(tx_tensor block)
{
    int64_t d = block.dim[3];
    return tx_tensor2(block.data, block.dtype, tx_numel(block) / d, d);
}

/* ---- packing ---- */

/* What goes to or comes from the ranks, block by block. */
typedef struct blocks {
    const tx_core_attention *k;
    const exchange *x;
    tx_tensor rows;
    bool with_keys;
    int64_t rank, at; /* the next one's, and where it begins */
} blocks;

static bool next_block(blocks *all, run *h, tx_tensor *block)
{
    const exchange *x = all->x;
    if (all->rank == x->n_ranks) return false;
    *h = heads_of(all->k->w, x->n_ranks, all->rank++);
    int64_t width = all->with_keys ? width_of(h) : h->n;
    char *data = (char *)all->rows.data + (size_t)(all->at * all->rows.dim[1]) * tx_dtype_size(all->rows.dtype);
    *block = block_at(data, all->k, x, x->s, width);
    all->at += x->s * x->b * width;
    return true;
}

/* A run's heads between q, or what is shaped as it is, and a block, which begins with them. */
static tx_status move_queries(tx_ctx *c, const tx_attention *w, const run *h, tx_tensor q, tx_tensor block, bool back)
{
    for (int64_t at = h->first; at < h->first + h->n;) {
        run p = piece_of(w, h, at);
        tx_tensor all = piece_of_all(q, &p), in = in_block(block, at - h->first, p.n, p.n_groups);
        TX_RUN(c, copy, .y = back ? all : in, .x = back ? in : all);
        at += p.n;
    }
    return TX_OK;
}

static tx_status pack(tx_ctx *c, const tx_core_attention *k, const exchange *x, tx_tensor rows)
{
    blocks all = { .k = k, .x = x, .rows = rows, .with_keys = true };
    tx_tensor block;
    run h;
    while (next_block(&all, &h, &block)) {
        TX_TRY(move_queries(c, k->w, &h, k->q, block, false));
        TX_RUN(c, copy, .y = keys_in(block, &h, false, 0, h.n_groups), .x = groups_of(k->k, h.group, h.n_groups));
        TX_RUN(c, copy, .y = keys_in(block, &h, true, 0, h.n_groups), .x = groups_of(k->v, h.group, h.n_groups));
    }
    return TX_OK;
}

/* The queries' heads alone, of o or its gradient. */
static tx_status move_outputs(tx_ctx *c, const tx_core_attention *k, const exchange *x, tx_tensor o, tx_tensor rows,
                              bool back)
{
    blocks all = { .k = k, .x = x, .rows = rows };
    tx_tensor block;
    run h;
    while (next_block(&all, &h, &block)) TX_TRY(move_queries(c, k->w, &h, o, block, back));
    return TX_OK;
}

/* sum += part, of one group, whose positions do not lie next to each other. */
static tx_status add_group(tx_ctx *c, tx_tensor sum, tx_tensor part)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor a = tx_tensor_of(NULL, sum.dtype, 4, sum.dim), b = a;
    a.data = tx_push1(&c->scratch, sum.dtype, tx_numel(a)).data;
    b.data = tx_push1(&c->scratch, sum.dtype, tx_numel(b)).data;
    TX_RUN(c, copy, .y = a, .x = sum);
    TX_RUN(c, copy, .y = b, .x = part);
    TX_RUN(c, add, .y = a, .a = a, .b = b);
    TX_RUN(c, copy, .y = sum, .x = a);
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* dk or, as the `second`, dv: written, but for a first group that the rank before has had, too. */
static tx_status take_keys(tx_ctx *c, const run *h, bool shared, tx_tensor dk, tx_tensor block, bool second)
{
    int64_t n = h->n_groups - shared;
    if (shared) TX_TRY(add_group(c, groups_of(dk, h->group, 1), keys_in(block, h, second, 0, 1)));
    if (n) TX_RUN(c, copy, .y = groups_of(dk, h->group + shared, n), .x = keys_in(block, h, second, shared, n));
    return TX_OK;
}

static tx_status unpack_gradients(tx_ctx *c, const tx_core_attention *k, const exchange *x, tx_tensor rows)
{
    blocks all = { .k = k, .x = x, .rows = rows, .with_keys = true };
    tx_tensor block;
    run h;
    for (int64_t next = 0; next_block(&all, &h, &block); next = h.group + h.n_groups) {
        TX_TRY(move_queries(c, k->w, &h, k->dq, block, true));
        TX_TRY(take_keys(c, &h, h.group < next, k->dk, block, false));
        TX_TRY(take_keys(c, &h, h.group < next, k->dv, block, true));
    }
    return TX_OK;
}

/* ---- attention of the rank's heads ---- */

/* A piece, of all positions.   @d absent, as d_o, in forward */
static tx_core_attention piece_call(const tx_core_attention *k, const exchange *x, const run *p,
                                    const tx_context_saved *a, tx_tensor d_o, tx_tensor d)
{
    const run *h = &x->own;
    int64_t at = p->first - h->first, group = p->group - h->group, n = p->n_groups, s = x->n_ranks * x->s;
    tx_core_attention y = { .w = k->w, .call = k->call, .first_head = p->first };
    y.q = in_block(a->qkv, at, p->n, n);
    y.k = keys_in(a->qkv, h, false, group, n);
    y.v = keys_in(a->qkv, h, true, group, n);
    y.o = in_block(a->o, at, p->n, n);
    const int64_t dim[] = { x->b, n, p->n / n, s };
    y.lse =
        tx_tensor_of((char *)a->lse.data + (size_t)(at * x->b * s) * tx_dtype_size(a->lse.dtype), a->lse.dtype, 4, dim);
    if (!d.data) return y;
    y.d_o = in_block(d_o, at, p->n, n);
    y.dq = in_block(d, at, p->n, n);
    y.dk = keys_in(d, h, false, group, n);
    y.dv = keys_in(d, h, true, group, n);
    return y;
}

static tx_status attend(tx_ctx *c, const tx_core_attention *k, const exchange *x, const tx_context_saved *a,
                        tx_tensor d_o, tx_tensor d)
{
    const run *h = &x->own;
    for (int64_t at = h->first; at < h->first + h->n;) {
        run p = piece_of(k->w, h, at);
        tx_core_attention y = piece_call(k, x, &p, a, d_o, d);
        tx_attention_call call = *k->call;
        tx_chunks kept;
        if (call.chunks) {
            const tx_chunk_heads of = { p.first - h->first, p.n, p.group - h->group, p.n_groups, k->w->d };
            kept = tx_chunks_of_heads(call.chunks, &of);
            call.chunks = &kept;
            y.call = &call;
        }
        if (k->w->context == TX_CP_COMM_A2A_P2P)
            TX_TRY(d.data ? tx__ring_bwd(c, &y) : tx__ring_fwd(c, &y));
        else
            TX_TRY(d.data ? tx_core_attention_bwd(c, &y) : tx_core_attention_fwd(c, &y));
        at += p.n;
    }
    return TX_OK;
}

tx_status tx__ulysses_fwd(tx_ctx *c, const tx_core_attention *k, tx_context_saved *a)
{
    const exchange x = exchange_of(c, k);
    int64_t s = x.n_ranks * x.s;
    tx_tensor none = { 0 };
    a->qkv = push_block(&c->acts, k, &x, s, width_of(&x.own));
    a->o = push_block(&c->acts, k, &x, s, x.own.n);
    a->lse = tx_push1(&c->acts, tx_wide(k->q.dtype), x.b * x.own.n * s);
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor sent = push_rows(&c->scratch, k, rows_sent(k, &x, true));

    /* 1  q, k, v of all positions, of this rank's heads */
    TX_TRY(pack(c, k, &x, sent));
    TX_TRY(all_to_all(c, k, true, as_rows(a->qkv), sent));
    /* 2  o of these */
    TX_TRY(attend(c, k, &x, a, none, none));
    /* 3  o of this rank's positions, of all heads */
    tx_tensor got = tx_slice_rows(sent, 0, rows_sent(k, &x, false));
    TX_TRY(all_to_all(c, k, false, got, as_rows(a->o)));
    TX_TRY(move_outputs(c, k, &x, k->o, got, true));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx__ulysses_bwd(tx_ctx *c, const tx_core_attention *k, const tx_context_saved *a)
{
    const exchange x = exchange_of(c, k);
    int64_t s = x.n_ranks * x.s;
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor rows = push_rows(&c->scratch, k, rows_sent(k, &x, true)),
              sent = tx_slice_rows(rows, 0, rows_sent(k, &x, false)), d_o = push_block(&c->scratch, k, &x, s, x.own.n),
              d = push_block(&c->scratch, k, &x, s, width_of(&x.own));

    /* 3  do of all positions, of this rank's heads */
    TX_TRY(move_outputs(c, k, &x, k->d_o, sent, false));
    TX_TRY(all_to_all(c, k, true, as_rows(d_o), sent));
    /* 2  dq, dk, dv of these */
    TX_TRY(attend(c, k, &x, a, d_o, d));
    /* 1  dq, dk, dv of this rank's positions */
    TX_TRY(all_to_all(c, k, false, rows, as_rows(d)));
    TX_TRY(unpack_gradients(c, k, &x, rows));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* ---- generation ---- */

/* New keys and values of the rank's groups go into its cache, and its heads see all of them.
 *  @k, @v [s, b, groups of the rank, d]    @q all heads, as the call has them; or, of the rank's alone, a `block`
 *  @o block of the rank's heads */
static tx_status attend_cached(tx_ctx *c, const tx_core_attention *k, const run *h, tx_core_attention own, bool block)
{
    const tx_kv_cache *kv = k->call->kv;
    TX_RUN(c, cache_append, .k_cache = kv->k, .v_cache = kv->v, .k = own.k, .v = own.v, .past = kv->past);
    for (int64_t at = h->first; at < h->first + h->n;) {
        run p = piece_of(k->w, h, at);
        tx_core_attention y = { .w = k->w, .call = k->call, .first_head = at };
        y.q = block ? in_block(own.q, at - h->first, p.n, p.n_groups) : piece_of_all(own.q, &p);
        y.k = groups_of(kv->k, p.group - h->group, p.n_groups);
        y.v = groups_of(kv->v, p.group - h->group, p.n_groups);
        y.o = in_block(own.o, at - h->first, p.n, p.n_groups);
        TX_TRY(tx_core_attention_fwd(c, &y));
        at += p.n;
    }
    return TX_OK;
}

/* Ranks have the call's positions in a row. */
static tx_status generate_parts(tx_ctx *c, const tx_core_attention *k)
{
    const exchange x = exchange_of(c, k);
    const run *h = &x.own;
    int64_t s = x.n_ranks * x.s;
    tx_tensor qkv = push_block(&c->scratch, k, &x, s, width_of(h)), o = push_block(&c->scratch, k, &x, s, h->n),
              sent = push_rows(&c->scratch, k, rows_sent(k, &x, true)),
              got = tx_slice_rows(sent, 0, rows_sent(k, &x, false));
    const tx_core_attention own = {
        .q = qkv, .k = keys_in(qkv, h, false, 0, h->n_groups), .v = keys_in(qkv, h, true, 0, h->n_groups), .o = o
    };
    TX_TRY(pack(c, k, &x, sent));
    TX_TRY(all_to_all(c, k, true, as_rows(qkv), sent));
    TX_TRY(attend_cached(c, k, h, own, true));
    TX_TRY(all_to_all(c, k, false, got, as_rows(o)));
    return move_outputs(c, k, &x, k->o, got, true);
}

/* All ranks have all positions of the call. Each gives as many heads as the first, which has most; what is behind its
 * own is not read. */
static tx_status generate_alike(tx_ctx *c, const tx_core_attention *k)
{
    const exchange x = exchange_of(c, k);
    int64_t most = heads_of(k->w, x.n_ranks, 0).n, rows = x.s * x.b * most;
    tx_tensor all = push_rows(&c->scratch, k, x.n_ranks * rows),
              part = tx_slice_rows(all, tx_comm_rank(x.group) * rows, rows);
    const tx_core_attention own = { .q = k->q,
                                    .k = groups_of(k->k, x.own.group, x.own.n_groups),
                                    .v = groups_of(k->v, x.own.group, x.own.n_groups),
                                    .o = block_at(part.data, k, &x, x.s, most) };
    TX_TRY(attend_cached(c, k, &x.own, own, false));
    TX_TRY(tx_all_gather(c, x.group, all, part));
    for (int64_t i = 0; i < x.n_ranks; i++) {
        run h = heads_of(k->w, x.n_ranks, i);
        TX_TRY(
            move_queries(c, k->w, &h, k->o, block_at(tx_slice_rows(all, i * rows, rows).data, k, &x, x.s, most), true));
    }
    return TX_OK;
}

tx_status tx__ulysses_generate(tx_ctx *c, const tx_core_attention *k)
{
    size_t mark = tx_arena_mark(&c->scratch);
    TX_TRY(k->call->kv->own_from.data ? generate_parts(c, k) : generate_alike(c, k));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}
