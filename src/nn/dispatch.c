/* dispatch.c - rows by all-to-all to the ranks of their experts. */
#include "nn/dispatch.h"

#include "parallel/grid.h"

static tx_arena *host_arena(tx_ctx *c)
{
    return c->device ? &c->host : &c->acts;
}

/* ---- who gets what ---- */

/* Everybody's counts: how many rows rank r has for expert e. */
typedef struct counts {
    const int32_t *all; /* [ranks, experts] */
    int n_ranks, rank;
    int64_t n_experts, own; /* of the layer, and of a rank */
} counts;

static int32_t count_of(const counts *k, int64_t from, int64_t expert)
{
    return k->all[from * k->n_experts + expert];
}

/* Rows of a rank for another one's experts. */
static int64_t rows_for(const counts *k, int64_t from, int64_t to)
{
    int64_t n = 0;
    for (int64_t e = 0; e < k->own; e++) n += count_of(k, from, to * k->own + e);
    return n;
}

static void count_rows(tx_dispatch *d, const counts *k, int64_t *send, int64_t *recv)
{
    int32_t *own = d->count.data;
    int64_t all = 0;
    for (int64_t i = 0; i < k->n_ranks * k->n_experts; i++) all += k->all[i];
    d->n = 0;
    for (int r = 0; r < k->n_ranks; r++) {
        send[r] = rows_for(k, k->rank, r);
        recv[r] = rows_for(k, r, k->rank);
        d->n += recv[r];
    }
    for (int64_t e = 0; e < k->own; e++) {
        own[e] = 0;
        for (int r = 0; r < k->n_ranks; r++) own[e] += count_of(k, r, k->rank * k->own + e);
    }
    d->to.all = d->from.all = all;
}

/* The received rows lie by sender, and of each by expert; the experts' by expert, and of each by sender. */
static void order_rows(const counts *k, int32_t *grouped, int32_t *ungrouped)
{
    int32_t at = 0;
    for (int64_t e = 0; e < k->own; e++) {
        int32_t before = 0;
        for (int r = 0; r < k->n_ranks; r++) {
            int32_t first = before, n = count_of(k, r, k->rank * k->own + e);
            for (int64_t other = 0; other < e; other++) first += count_of(k, r, k->rank * k->own + other);
            for (int32_t i = 0; i < n; i++, at++) {
                grouped[at] = first + i;
                ungrouped[first + i] = at;
            }
            before += (int32_t)rows_for(k, r, k->rank);
        }
    }
}

/* Numbers that the host has made, where the ops see them. */
static tx_status put(tx_ctx *c, tx_tensor to, const int32_t *from, int64_t n)
{
    return c->device ? tx_device_write(c->device, to.data, from, (size_t)n * sizeof *from) : TX_OK;
}

tx_status tx_dispatch_open(tx_ctx *c, tx_dispatch *d, tx_tensor count, int64_t sent, int64_t room)
{
    tx_comm *group = tx_grid_group(tx_grid_of(c), TX_GROUP_EXPERT);
    tx_arena *host = host_arena(c);
    int n = tx_comm_size(group);
    counts k = { .n_ranks = n, .rank = tx_comm_rank(group), .n_experts = count.dim[0], .own = count.dim[0] / n };
    *d = (tx_dispatch){ .group = group, .n = sent < room ? sent : room, .room = room };
    int64_t *send = tx_arena_push(host, (size_t)n * sizeof *send),
            *recv = tx_arena_push(host, (size_t)n * sizeof *recv);
    d->to = (tx_all_to_all_rows){ .send = send, .recv = recv, .all = n * sent };
    d->from = (tx_all_to_all_rows){ .send = recv, .recv = send, .all = n * sent };
    d->count = tx_push1(host, TX_I32, k.own);
    d->grouped = tx_push1(&c->acts, TX_I32, room);
    d->ungrouped = tx_push1(&c->acts, TX_I32, room);
    size_t mark = tx_arena_mark(host);
    int32_t *all = tx_arena_push(host, (size_t)(n * k.n_experts) * sizeof *all);
    int32_t *grouped = c->device ? tx_arena_push(host, (size_t)room * sizeof *grouped) : d->grouped.data;
    int32_t *ungrouped = c->device ? tx_arena_push(host, (size_t)room * sizeof *ungrouped) : d->ungrouped.data;
    if (!c->dry) {
        TX_TRY(tx_comm_gather(group, all, count.data, (size_t)k.n_experts * sizeof *all));
        k.all = all;
        count_rows(d, &k, send, recv);
        TX_ASSERT(d->n <= room);
        order_rows(&k, grouped, ungrouped);
        TX_TRY(put(c, d->grouped, grouped, d->n));
        TX_TRY(put(c, d->ungrouped, ungrouped, d->n));
    }
    tx_arena_pop(host, mark);
    return TX_OK;
}

/* ---- rows ---- */

static tx_status reorder(tx_ctx *c, const tx_dispatch *d, tx_tensor y, tx_tensor x, tx_tensor index)
{
    if (d->n) TX_RUN(c, gather_rows, .y = y, .x = x, .index = tx_slice1(index, 0, d->n), .div = 1);
    return TX_OK;
}

/* Room for the received rows by sender. */
static tx_tensor push_received(tx_ctx *c, const tx_dispatch *d, tx_tensor x)
{
    return tx_slice_rows(tx_push2(&c->scratch, x.dtype, d->room, x.dim[1]), 0, d->n);
}

tx_status tx_dispatch_rows(tx_ctx *c, const tx_dispatch *d, tx_tensor y, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor received = push_received(c, d, x);
    TX_TRY(tx_all_to_all(c, d->group, received, x, &d->to));
    TX_TRY(reorder(c, d, y, received, d->grouped));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

tx_status tx_dispatch_back(tx_ctx *c, const tx_dispatch *d, tx_tensor y, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->scratch);
    tx_tensor received = push_received(c, d, x);
    TX_TRY(reorder(c, d, received, x, d->ungrouped));
    TX_TRY(tx_all_to_all(c, d->group, y, received, &d->from));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}
