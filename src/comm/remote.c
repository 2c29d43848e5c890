/* remote.c - collectives between ranks of several hosts, over a transport that moves bytes.
 *
 *      exchange   each member is sent by all others what they have of its slice, and sums it in the order of ranks
 *      spread     each member sends its slice to all others
 *
 *  An all-reduce is both, a reduce-scatter the first, an all-gather and a broadcast the second. An all-to-all is one
 * chunk, in which each member sends each other one message, also where it has no rows. Requests are worked on
 *  in their order and cut into chunks; two chunks are under way at once, in two lanes, so that one is summed while the
 *  other travels. Both ends of a pair post what belongs to one lane in the same order, and so a tag tells group, lane
 *  and half, and needs no number. The sums are local.c's: the same group gives the same bits. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/comm_state.h"
#include "comm/reduce.h"
#include "comm/transport.h"

enum {
    LANES = 2,
    SMALL = 2048,           /* bytes that everybody sends to everybody */
    MESSAGE = 1 << 20,      /* bytes, at most */
    CHUNK_BYTES = 16 << 20, /* what is received at once, at most */
    COLLECTIVES = 0,        /* channels */
    MESSAGES = 1
};

typedef enum half { FREE, EXCHANGE, SPREAD } half;

typedef struct lane {
    half half;
    tx_request *r;
    int64_t chunk;
    tx__move *out, *in;     /* [size] */
    void **from;            /* [size]: what is summed */
    unsigned char *arrived; /* [size] messages of the exchange; taken with the first request that needs them */
    size_t arrived_bytes;   /* of one */
} lane;

struct tx__remote {
    const tx__transport *net;
    int64_t id;
    int group_bits; /* of a message's tag */
    lane lane[LANES];
    int64_t begun; /* chunks that have been given a lane */
};

tx_status tx__net_failed(const tx_comm *g, int error)
{
    char text[512];
    g->remote->net->explain(error, text, sizeof text);
    return TX_FAIL(TX_ERR_COMM, "MPI cannot move the data of the %s group: %s", g->name, text);
}

/* ---- geometry: the same in all members ---- */

static size_t size_of(const tx_request *r)
{
    return tx__size_of(r->dtype);
}

/* Elements of each member's slice (of each part, in a reduce-scatter or an all-gather) in one chunk. */
static int64_t unit_of(const tx_request *r)
{
    int64_t bytes = CHUNK_BYTES / r->g->size < MESSAGE ? CHUNK_BYTES / r->g->size : MESSAGE;
    int64_t n = bytes / (int64_t)size_of(r), each = (r->n + r->g->size - 1) / r->g->size;
    if (r->how == TX__ALL_REDUCE && n > each) n = each + 63; /* of a small one all have a slice, too */
    return n > 64 ? n - n % 64 : 64;
}

/* Member m's piece of a chunk. */
static tx__section piece(const tx_request *r, int64_t chunk, int m)
{
    int64_t unit = unit_of(r), lo, end = r->n;
    if (r->small) return (tx__section){ r->how == TX__REDUCE_SCATTER || r->how == TX__ALL_GATHER ? m * r->n : 0, r->n };
    if (r->how == TX__ALL_REDUCE)
        lo = (chunk * r->g->size + m) * unit;
    else if (r->how == TX__BROADCAST)
        lo = chunk * unit;
    else
        return (tx__section){ m * r->n + chunk * unit, r->n - chunk * unit < unit ? r->n - chunk * unit : unit };
    if (lo > end) lo = end;
    return (tx__section){ lo, end - lo < unit ? end - lo : unit };
}

/* What an all-to-all has for member m, or gets from it. */
static tx__section rows_of(const tx_request *r, const int64_t *rows, int m)
{
    return (tx__section){ tx__elements(r, rows, m), rows[m] * r->width };
}

static int64_t chunks_of(const tx_request *r)
{
    if (r->how == TX__ALL_TO_ALL) return 1;
    int64_t unit = unit_of(r) * (r->how == TX__ALL_REDUCE ? r->g->size : 1);
    return r->small || r->n <= unit ? 1 : (r->n + unit - 1) / unit;
}

/* Element lo of a buffer, which a rank that has no elements does not have. */
static unsigned char *at_element(const tx_request *r, const void *whole, int64_t lo)
{
    return lo ? (unsigned char *)(uintptr_t)whole + (size_t)lo * size_of(r) : (unsigned char *)(uintptr_t)whole;
}

/* ---- messages of a lane ---- */

static int tag_of(const tx_comm *g, const lane *l)
{
    return (int)(g->remote->id % 4096) * 4 + (int)(l - g->remote->lane) * 2 + (l->half == SPREAD);
}

static tx_status send(tx_comm *g, lane *l, int m, const void *x, tx__section s)
{
    int e = g->remote->net->send(&l->out[m], at_element(l->r, x, s.lo), (size_t)s.n * size_of(l->r), g->world_rank[m],
                                 COLLECTIVES, tag_of(g, l));
    return e ? tx__net_failed(g, e) : TX_OK;
}

static tx_status receive(tx_comm *g, lane *l, int m, unsigned char *to, int64_t n)
{
    int e =
        g->remote->net->receive(&l->in[m], to, (size_t)n * size_of(l->r), g->world_rank[m], COLLECTIVES, tag_of(g, l));
    return e ? tx__net_failed(g, e) : TX_OK;
}

/* The library tells of a message that is too long in words of its own. */
static tx_status other_rows(const tx_comm *g, const tx_request *r, int m, const char *sent)
{
    char what[160];
    tx__request_describe(what, sizeof what, r);
    return TX_FAIL(TX_ERR_COMM, "rank %d sends %s in %s, rank %d expects %lld rows", tx_comm_world_rank(g, m), sent,
                   what, tx_comm_world_rank(g, g->rank), (long long)r->recv_rows[m]);
}

tx_status tx__other_size(const tx_comm *g, const tx_request *r, int m, size_t bytes)
{
    char what[160];
    if (r->how == TX__ALL_TO_ALL) {
        snprintf(what, sizeof what, "%g rows", (double)bytes / (double)((size_t)r->width * size_of(r)));
        return other_rows(g, r, m, what);
    }
    tx__request_describe(what, sizeof what, r);
    return TX_FAIL(TX_ERR_COMM,
                   "ranks %d and %d do not agree on %s: %lld elements here, and there another number or type",
                   tx_comm_world_rank(g, g->rank), tx_comm_world_rank(g, m), what, (long long)r->n);
}

static tx_status not_received(const tx_comm *g, const tx_request *r, int m, int error)
{
    char text[512], sent[600];
    if (r->how != TX__ALL_TO_ALL) return tx__net_failed(g, error);
    g->remote->net->explain(error, text, sizeof text);
    snprintf(sent, sizeof sent, "what does not fit (MPI: %s)", text);
    return other_rows(g, r, m, sent);
}

static tx__section expected_of(const lane *l, int m)
{
    const tx_request *r = l->r;
    if (r->how == TX__ALL_TO_ALL) return rows_of(r, r->recv_rows, m);
    return piece(r, l->chunk, l->half == EXCHANGE ? r->g->rank : m);
}

/* Whether all that the lane has posted is done. */
static tx_status settled(tx_comm *g, lane *l, bool *all)
{
    *all = true;
    for (int i = 0; i < 2 * g->size; i++) {
        int m = i % g->size, done = 1, e;
        tx__move *move = i < g->size ? &l->in[m] : &l->out[m];
        size_t bytes;
        if (!*move) continue;
        e = g->remote->net->test(move, &done, &bytes);
        if (e) return i < g->size ? not_received(g, l->r, m, e) : tx__net_failed(g, e);
        *all = *all && done;
        if (!done || i >= g->size) continue;
        if (bytes != (size_t)expected_of(l, m).n * size_of(l->r)) return tx__other_size(g, l->r, m, bytes);
    }
    return TX_OK;
}

/* ---- exchange ---- */

static tx_status make_room(tx_comm *g, lane *l)
{
    size_t bytes = l->r->small ? SMALL : (size_t)unit_of(l->r) * size_of(l->r);
    if (bytes <= l->arrived_bytes) return TX_OK;
    tx_free(l->arrived);
    l->arrived = NULL;
    l->arrived_bytes = 0;
    TX_TRY(tx_alloc(&l->arrived, (size_t)g->size, bytes, "messages between hosts"));
    l->arrived_bytes = bytes;
    return TX_OK;
}

static tx_status exchange(tx_comm *g, lane *l)
{
    TX_TRY(make_room(g, l));
    tx__section mine = piece(l->r, l->chunk, g->rank);
    for (int k = 1; k < g->size; k++) { /* not all to the same one at a time */
        int to = (g->rank + k) % g->size, from = (g->rank + g->size - k) % g->size;
        TX_TRY(receive(g, l, from, l->arrived + (size_t)from * l->arrived_bytes, mine.n));
        TX_TRY(send(g, l, to, l->r->x, piece(l->r, l->chunk, to)));
    }
    return TX_OK;
}

static void sum(tx_comm *g, lane *l)
{
    const tx_request *r = l->r;
    tx__section mine = piece(r, l->chunk, g->rank);
    int n = r->n_threads > 1 && mine.n > 65536 ? r->n_threads : 1;
    unsigned char *x = at_element(r, r->x, mine.lo);
    void *y = x;
    if (r->how == TX__REDUCE_SCATTER) y = (unsigned char *)r->y + (size_t)(mine.lo - g->rank * r->n) * size_of(r);
    for (int m = 0; m < g->size; m++) l->from[m] = m == g->rank ? x : l->arrived + (size_t)m * l->arrived_bytes;
    tx__reduction job = {
        .to = &y, .n_to = 1, .from = l->from, .n_from = g->size, .dtype = (tx_dtype)r->dtype, .op = (tx_reduce)r->reduce
    };
    if (n == 1) {
        tx__reduce(&job, 0, mine.n);
        return;
    }
    int64_t unit = (mine.n + n - 1) / n;
#pragma omp parallel for num_threads(n) schedule(static)
    for (int i = 0; i < n; i++) {
        int64_t lo = i * unit, len = mine.n - lo < unit ? mine.n - lo : unit;
        if (len > 0) tx__reduce(&job, lo, len);
    }
}

/* ---- spread ---- */

static tx_status spread(tx_comm *g, lane *l)
{
    tx_request *r = l->r;
    unsigned char *whole = r->how == TX__ALL_GATHER ? r->y : r->x;
    tx__section mine = piece(r, l->chunk, g->rank);
    if (r->how == TX__ALL_GATHER && mine.n) {
        const unsigned char *from = (const unsigned char *)r->x + (size_t)(mine.lo - g->rank * r->n) * size_of(r);
        unsigned char *to = at_element(r, whole, mine.lo);
        if (from != to) memmove(to, from, (size_t)mine.n * size_of(r));
    }
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank + g->size - k) % g->size;
        tx__section theirs = piece(r, l->chunk, from);
        if (r->how != TX__BROADCAST || from == r->peer)
            TX_TRY(receive(g, l, from, at_element(r, whole, theirs.lo), theirs.n));
        if (r->how != TX__BROADCAST || g->rank == r->peer) TX_TRY(send(g, l, to, whole, mine));
    }
    return TX_OK;
}

/* ---- all-to-all ---- */

static tx_status trade(tx_comm *g, lane *l)
{
    const tx_request *r = l->r;
    tx__section own = rows_of(r, r->send_rows, g->rank), kept = rows_of(r, r->recv_rows, g->rank);
    for (int k = 1; k < g->size; k++) {
        int to = (g->rank + k) % g->size, from = (g->rank + g->size - k) % g->size;
        tx__section theirs = rows_of(r, r->recv_rows, from);
        TX_TRY(receive(g, l, from, at_element(r, r->y, theirs.lo), theirs.n));
        TX_TRY(send(g, l, to, r->x, rows_of(r, r->send_rows, to)));
    }
    tx__copy(at_element(r, r->y, kept.lo), at_element(r, r->x, own.lo), (size_t)own.n * size_of(r), r->n_threads);
    return TX_OK;
}

/* ---- lanes ---- */

static void finish(tx_comm *g, lane *l)
{
    tx_request *r = l->r;
    l->half = FREE;
    l->r = NULL;
    if (++r->completed < r->n_chunks) return;
    tx__remove(&g->collectives, r);
    r->finished = true;
}

static tx_status move_lane(tx_comm *g, lane *l)
{
    bool all;
    while (l->half != FREE) {
        TX_TRY(settled(g, l, &all));
        if (!all) return TX_OK;
        g->world->moves++;
        if (l->half == EXCHANGE) sum(g, l);
        if (l->half == SPREAD || l->r->how == TX__REDUCE_SCATTER || l->r->small) {
            finish(g, l);
            continue;
        }
        l->half = SPREAD;
        TX_TRY(spread(g, l));
    }
    return TX_OK;
}

/* Gives the next chunks their lanes, in turn. */
static tx_status begin(tx_comm *g)
{
    struct tx__remote *re = g->remote;
    for (tx_request *r; (r = g->to_publish);) {
        lane *l = &re->lane[re->begun % LANES];
        if (l->half != FREE) return TX_OK;
        l->r = r;
        l->chunk = r->published++;
        g->world->moves++;
        re->begun++;
        if (r->published == r->n_chunks) g->to_publish = r->next;
        bool sums = r->how == TX__ALL_REDUCE || r->how == TX__REDUCE_SCATTER;
        l->half = sums ? EXCHANGE : SPREAD;
        TX_TRY(sums ? exchange(g, l) : r->how == TX__ALL_TO_ALL ? trade(g, l) : spread(g, l));
    }
    return TX_OK;
}

/* ---- messages ---- */

static int message_tag(const tx_comm *g, const tx_request *r)
{
    int64_t groups = (int64_t)1 << g->remote->group_bits;
    return (int)((int64_t)r->tag * groups + g->remote->id % groups);
}

static tx_status post(tx_comm *g, tx_request *r)
{
    const tx__transport *net = g->remote->net;
    size_t bytes = (size_t)r->n * size_of(r);
    int to = g->world_rank[r->peer], tag = message_tag(g, r);
    if (tag > net->largest_tag)
        return TX_FAIL(TX_ERR_UNSUPPORTED, "%s has no tags above %lld, a message of the %s group needs %d", net->name,
                       (long long)net->largest_tag, g->name, tag);
    int e = r->how == TX__SEND ? net->send(&r->move, r->x, bytes, to, MESSAGES, tag)
                               : net->receive(&r->move, r->x, bytes, to, MESSAGES, tag);
    r->published = 1;
    return e ? tx__net_failed(g, e) : TX_OK;
}

static tx_status move_messages(tx_comm *g, tx__queue *q)
{
    for (tx_request *r = q->head, *next; r; r = next) {
        int done = 1, e = 0;
        size_t bytes = (size_t)r->n * size_of(r);
        next = r->next;
        if (!r->published) TX_TRY(post(g, r));
        if (r->move) e = g->remote->net->test(&r->move, &done, &bytes);
        if (e) return tx__net_failed(g, e);
        if (!done) continue;
        g->world->moves++;
        if (r->how == TX__RECV && bytes != (size_t)r->n * size_of(r))
            return TX_FAIL(TX_ERR_COMM,
                           "rank %d has sent %zu bytes in a message (tag %d) of the %s group, rank %d expects %zu",
                           tx_comm_world_rank(g, r->peer), bytes, r->tag, g->name, tx_comm_world_rank(g, g->rank),
                           (size_t)r->n * size_of(r));
        tx__remove(q, r);
        r->finished = true;
    }
    return TX_OK;
}

/* ---- the table ---- */

static void start(tx_comm *g, tx_request *r)
{
    if (r->how == TX__SEND || r->how == TX__RECV) {
        tx__push(r->how == TX__SEND ? &g->sends : &g->receives, r);
        return;
    }
    int64_t parts = r->how == TX__REDUCE_SCATTER ? g->size : 1;
    r->small = r->how != TX__ALL_TO_ALL && parts * r->n * (int64_t)size_of(r) <= SMALL;
    r->n_chunks = chunks_of(r);
    tx__push(&g->collectives, r);
    if (!g->to_publish) g->to_publish = r;
}

static tx_status progress(tx_comm *g)
{
    TX_TRY(begin(g));
    for (int i = 0; i < LANES; i++) TX_TRY(move_lane(g, &g->remote->lane[i]));
    TX_TRY(begin(g));
    TX_TRY(move_messages(g, &g->sends));
    return move_messages(g, &g->receives);
}

static void absent(const tx_comm *g, const tx_request *r, bool *ranks)
{
    if (r->how == TX__SEND || r->how == TX__RECV) {
        ranks[r->peer] = true;
        return;
    }
    bool any = false;
    for (int i = 0; i < LANES; i++)
        for (int m = 0; g->remote->lane[i].r == r && m < g->size; m++)
            any |= ranks[m] = ranks[m] || g->remote->lane[i].in[m];
    for (int i = 0; !any && i < LANES; i++) /* all have sent; somebody does not take */
        for (int m = 0; g->remote->lane[i].r == r && m < g->size; m++) ranks[m] = ranks[m] || g->remote->lane[i].out[m];
}

static void close_group(tx_comm *g)
{
    for (int i = 0; g->remote && i < LANES; i++) {
        tx_free(g->remote->lane[i].in);
        tx_free(g->remote->lane[i].out);
        tx_free(g->remote->lane[i].from);
        tx_free(g->remote->lane[i].arrived);
    }
    tx_free(g->remote);
    g->remote = NULL;
}

const tx__kind tx__remote_kind = { start, progress, absent, close_group };

tx_status tx__remote_open(tx_comm *g, int64_t id)
{
    const tx__transport *net = g->world->net;
    g->kind = &tx__remote_kind;
    TX_TRY(tx_alloc(&g->remote, 1, sizeof *g->remote, "a group of ranks"));
    g->remote->net = net;
    g->remote->id = id;
    g->remote->group_bits = net->largest_tag >= 1 << 28 ? 12 : 4;
    for (int i = 0; i < LANES; i++) {
        lane *l = &g->remote->lane[i];
        TX_TRY(tx_alloc(&l->in, (size_t)g->size, sizeof *l->in, "a group of ranks"));
        TX_TRY(tx_alloc(&l->out, (size_t)g->size, sizeof *l->out, "a group of ranks"));
        TX_TRY(tx_alloc(&l->from, (size_t)g->size, sizeof *l->from, "a group of ranks"));
    }
    return TX_OK;
}
