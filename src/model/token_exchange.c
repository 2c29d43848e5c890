/* token_exchange.c - which rows go where is reckoned on the host, as of experts' rows in nn/dispatch.c. */
#include "model/token_exchange.h"

#include "model/model.h"
#include "parallel/cp.h"
#include "parallel/tp.h"

static tx_arena *host_arena(tx_ctx *c)
{
    return c->device ? &c->host : &c->acts;
}

/* ---- who has which position ---- */

typedef struct division {
    const tx_ctx *c;
    const tx_grid *g;
    int n, rank;         /* along the axis */
    int64_t s, r, b;     /* of a sample; computed; samples */
    int64_t first, rows; /* a tensor rank's rows among those of a rank along the axis */
    int64_t unit;        /* positions that a rank has together, */
    int32_t *owner;      /* [s / unit]: and which one has them */
    const int32_t *at;   /* [r, b] */
} division;

static division division_of(const tx_ctx *c, const tx_token_choice *which, int64_t rows)
{
    const tx_grid *g = tx_grid_of(c);
    int n = tx_grid_size(g, TX_AXIS_CONTEXT);
    return (division){ .c = c,
                       .g = g,
                       .n = n,
                       .rank = tx_grid_rank(g, TX_AXIS_CONTEXT),
                       .s = which->s,
                       .r = which->at.dim[0],
                       .b = which->at.dim[1],
                       .first = tx_tp_first_position(c, which->s / n),
                       .rows = rows,
                       .unit = which->s / n / (g->zigzag ? 2 : 1) };
}

static void find_owners(const division *d)
{
    for (int k = 0; k < d->n; k++) {
        const tx_position_runs at = tx_cp_positions_of(d->g, d->s, k);
        for (int64_t i = 0; i < d->s / d->n; i += d->unit) d->owner[tx_position_of(&at, i) / d->unit] = k;
    }
}

/* A token's row in this tensor rank's part of its owner's; -1: it is in another's.   @i its number among the r */
static int64_t row_of(const division *d, int64_t i, int64_t sample, int *owner)
{
    int32_t p = d->at[i * d->b + sample];
    *owner = d->owner[p / d->unit];
    const tx_position_runs at = tx_cp_positions_of(d->g, d->s, *owner);
    int64_t row = tx_position_row(&at, d->s / d->n, p) - d->first;
    return row >= 0 && row < d->rows ? row * d->b + sample : -1;
}

/* ---- lists ---- */

/* e's tensors where the host fills them. */
typedef struct lists {
    int32_t *sent, *got, *of;
    int64_t *send, *recv;
} lists;

/* What goes to each rank, in the order of its tokens. */
static void list_sent(const division *d, tx_token_exchange *e, const lists *l)
{
    int owner;
    e->there.all = e->n_sent = 0;
    for (int to = 0; to < d->n; to++) {
        const tx_position_runs at = tx_cp_positions_of(d->g, d->r, to);
        int64_t before = e->n_sent;
        for (int64_t k = 0; k < d->r / d->n * d->b; k++) {
            int64_t row = row_of(d, tx_position_of(&at, k / d->b), k % d->b, &owner);
            if (row < 0) continue;
            e->there.all++;
            if (owner == d->rank) l->sent[e->n_sent++] = (int32_t)row;
        }
        l->send[to] = e->n_sent - before;
    }
    e->back.all = e->there.all;
}

/* What comes from each rank: in the same order, so that each token's row is known. */
static void list_got(const division *d, tx_token_exchange *e, const lists *l)
{
    const tx_position_runs at = tx_cp_positions_of(d->g, d->r, d->rank);
    int64_t n = d->r / d->n * d->b;
    e->n_got = 0;
    for (int from = 0; from < d->n; from++) l->recv[from] = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (int64_t k = 0; k < n; k++) {
            int from;
            int64_t row = row_of(d, tx_position_of(&at, k / d->b), k % d->b, &from);
            if (!turn) l->recv[from] += row >= 0;
            if (!turn || row < 0) {
                l->got[k] = -1;
                continue;
            }
            l->got[k] = (int32_t)l->recv[from]++;
            l->of[l->got[k]] = (int32_t)k;
        }
        for (int from = 0; from < d->n && !turn; from++) { /* counts become where each rank's begin */
            int64_t count = l->recv[from];
            l->recv[from] = e->n_got;
            e->n_got += count;
        }
    }
    for (int from = d->n - 1; from > 0; from--) l->recv[from] -= l->recv[from - 1];
}

/* Positions, where the host reads them. */
static const int32_t *read_choice(tx_ctx *c, const tx_token_choice *which)
{
    int64_t r = which->at.dim[0], b = which->at.dim[1];
    if (!c->device) return which->at.data;
    int32_t *at = tx_arena_push(host_arena(c), (size_t)(r * b) * sizeof *at);
    for (int64_t j = 0; j < b && !c->dry; j++)
        tx_routing_sample(at + j, b, r, which->s, &which->rng, which->sample + (uint64_t)j);
    return at;
}

/* What the host fills: the tensor's own memory, where that is the host's. */
static int32_t *room_for(tx_ctx *c, tx_tensor x)
{
    return c->device ? tx_arena_push(host_arena(c), (size_t)tx_numel(x) * sizeof(int32_t)) : x.data;
}

static tx_status put(tx_ctx *c, tx_tensor to, const int32_t *from)
{
    return c->device ? tx_device_write(c->device, to.data, from, (size_t)tx_numel(to) * sizeof *from) : TX_OK;
}

tx_status tx_token_exchange_open(tx_ctx *c, tx_token_exchange *e, const tx_token_choice *which, int64_t rows)
{
    division d = division_of(c, which, rows);
    tx_arena *host = host_arena(c);
    size_t counts = (size_t)d.n * sizeof(int64_t);
    lists l = { .send = tx_arena_push(host, counts), .recv = tx_arena_push(host, counts) };
    int64_t own = d.r / d.n * d.b, most = (rows < d.r ? rows : d.r) * d.b;
    *e = (tx_token_exchange){ .there = { .send = l.send, .recv = l.recv, .all = d.r * d.b },
                              .back = { .send = l.recv, .recv = l.send, .all = d.r * d.b },
                              .sent = tx_push1(&c->acts, TX_I32, most),
                              .got = tx_push1(&c->acts, TX_I32, own),
                              .of = tx_push1(&c->acts, TX_I32, own),
                              .n_sent = most,
                              .n_got = own };
    size_t mark = tx_arena_mark(host);
    d.owner = tx_arena_push(host, (size_t)(d.s / d.unit) * sizeof *d.owner);
    d.at = read_choice(c, which);
    l.sent = room_for(c, e->sent), l.got = room_for(c, e->got), l.of = room_for(c, e->of);
    if (!c->dry) {
        find_owners(&d);
        list_sent(&d, e, &l);
        list_got(&d, e, &l);
        TX_TRY(put(c, e->sent, l.sent));
        TX_TRY(put(c, e->got, l.got));
        TX_TRY(put(c, e->of, l.of));
    }
    tx_arena_pop(host, mark);
    return TX_OK;
}

/* ---- rows ---- */

/* y[i] = x[index[i]] */
static tx_status gather(tx_ctx *c, tx_tensor y, tx_tensor x, tx_tensor index)
{
    if (y.dim[0]) TX_RUN(c, gather_rows, .y = y, .x = x, .index = tx_slice1(index, 0, y.dim[0]), .div = 1);
    return TX_OK;
}

/* Rows of [positions, b, h], sent and received ones: room for the most. */
typedef struct message {
    tx_tensor sent, got;
} message;

static message push_message(tx_ctx *c, const tx_token_exchange *e, tx_tensor like)
{
    int64_t h = like.dim[2];
    return (message){ .sent = tx_push2(&c->scratch, like.dtype, e->sent.dim[0], h),
                      .got = tx_push2(&c->scratch, like.dtype, e->got.dim[0], h) };
}

static tx_comm *group_of(const tx_ctx *c)
{
    return tx_grid_group(tx_grid_of(c), TX_GROUP_CONTEXT);
}

tx_status tx_token_exchange_take(tx_ctx *c, const tx_token_exchange *e, tx_tensor whole, tx_tensor x)
{
    size_t mark = tx_arena_mark(&c->scratch);
    const message m = push_message(c, e, x);
    TX_TRY(gather(c, tx_slice_rows(m.sent, 0, e->n_sent), tx_as_rows(x), e->sent));
    TX_TRY(tx_all_to_all(c, group_of(c), m.got, m.sent, &e->there));
    TX_TRY(gather(c, tx_as_rows(whole), m.got, e->got));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}

/* Of one column. */
static tx_tensor column(tx_tensor rows)
{
    return tx_tensor3(rows.data, rows.dtype, rows.dim[0], 1, rows.dim[1]);
}

tx_status tx_token_exchange_put(tx_ctx *c, const tx_token_exchange *e, tx_tensor y, tx_tensor whole)
{
    size_t mark = tx_arena_mark(&c->scratch);
    const message m = push_message(c, e, y);
    tx_tensor sent = tx_slice_rows(m.sent, 0, e->n_sent);
    TX_TRY(gather(c, tx_slice_rows(m.got, 0, e->n_got), tx_as_rows(whole), e->of));
    TX_TRY(tx_all_to_all(c, group_of(c), m.sent, m.got, &e->back));
    if (e->n_sent)
        TX_RUN(c, scatter_tokens, .y = column(tx_as_rows(y)), .x = column(sent),
               .position = tx_tensor2(e->sent.data, TX_I32, e->n_sent, 1));
    tx_arena_pop(&c->scratch, mark);
    return TX_OK;
}
