/* hosts.c - collectives between hosts that have several ranks each: what one host has for another crosses once.
 *
 *      fold      the deputies of the first host sum what its members have of their pieces, in the order of ranks. They
 *                send these sums, unfinished, to the next host, whose deputies add what its members have, and so on.
 *      results   the last host has the sums: they go back from host to host, or to the member that gets them
 *      share     all members of a host copy what their deputies have got
 *
 *      host 0   fold -------> host 1   fold -------> host 2   fold
 *               share <-----           share <-----           share
 *
 * An all-reduce is all three, a reduce-scatter the first two, a broadcast and an all-gather the last two. Each rank is
 * added where it would be if one after the other were, since the ranks of a host follow each other; where they do not,
 * sums take the other way, as all calls do that are small, or for which this one sends no less: remote.c's.
 *
 * Requests are cut into chunks, of which as many are under way as keep all hosts busy, each in a lane. Fold and share
 * are visits on this host's boards (local.c), in the order of chunks: the same on all members. Between hosts messages
 * of one lane and direction are sent and expected in the order of pieces, and so need no number. */
#include "comm/hosts.h"

#include <string.h>

#include "base/alloc.h"
#include "comm/board.h"
#include "comm/reduce.h"
#include "comm/transport.h"

enum {
    MOST_LANES = 16,
    FIRST_TAG = 16384, /* behind remote.c's */
    CHANNEL = 0
};

typedef enum step { FREE, CARRIES, FOLD, RESULTS, SHARE, LEAVING } step;
enum { UP, DOWN }; /* directions */

typedef struct lane {
    tx_comm *g;
    step step;
    tx_request *r;
    int64_t chunk, fold_turn, share_turn;
    tx_request fold, share;
    int forwarded;                        /* pieces whose result is here and has been handed on */
    tx__move *carry, *result, *up, *down; /* [size]: by piece; down of an all-gather's: by host */
    unsigned char *sums;                  /* unfinished, of the pieces whose deputy this rank is */
    unsigned char *results;               /* theirs; the members of this host read them */
    unsigned char *copy;                  /* of the chunk where they cannot read x */
} lane;

struct tx__by_hosts {
    tx__host_map map;
    int64_t id;
    tx_comm *inside[2]; /* the members of this host: for folds, for shares */
    int n_lanes;
    lane lane[MOST_LANES];
    tx_request *to_begin;
    int64_t begun;                                  /* chunks that have been given a lane */
    int64_t fold_turns, folds, share_turns, shares; /* given to chunks; begun */
};

/* ---- geometry: the same in all members ---- */

static size_t size_of(const tx_request *r)
{
    return tx__size_of(r->dtype);
}

static bool sums(const tx_request *r)
{
    return r->how == TX__ALL_REDUCE || r->how == TX__REDUCE_SCATTER;
}

static bool of_members(const tx_request *r)
{
    return r->how == TX__REDUCE_SCATTER || r->how == TX__ALL_GATHER;
}

static size_t sum_size_of(const tx_request *r)
{
    return tx_dtype_size(tx__sum_dtype((tx_dtype)r->dtype));
}

/* Bytes of a piece of each member, at most: a chunk of theirs is no larger than one of pieces of hosts. */
static int64_t most_of_member(const tx_comm *g)
{
    int64_t most = (int64_t)TX__PIECE * g->hosts->map.all.most / g->size / 512 * 512;
    return most > TX__LEAST_PIECE ? most : TX__LEAST_PIECE;
}

/* Elements of a piece. */
static int64_t unit_of(const tx_request *r)
{
    int64_t size = (int64_t)size_of(r), most = of_members(r) ? most_of_member(r->g) : TX__PIECE;
    int64_t n = r->n / TX__CHUNKS / (of_members(r) ? 1 : r->g->hosts->map.all.most);
    if (n < TX__LEAST_PIECE / size) n = TX__LEAST_PIECE / size;
    n = (n + 63) / 64 * 64;
    return n < most / size ? n : most / size;
}

static int64_t chunks_of(const tx_request *r)
{
    int64_t n = unit_of(r) * (of_members(r) ? 1 : r->g->hosts->map.all.most);
    return (r->n + n - 1) / n;
}

/* Where a piece is in x, or y of an all-gather. */
static tx__section span_of(const lane *l, int piece)
{
    const tx_request *r = l->r;
    int64_t unit = unit_of(r), end = r->n, lo = of_members(r) ? l->chunk * unit : 0;
    if (!of_members(r)) lo = (l->chunk * r->g->hosts->map.all.most + piece) * unit;
    if (lo > end) lo = end;
    return (tx__section){ (of_members(r) ? piece * r->n : 0) + lo, end - lo < unit ? end - lo : unit };
}

/* ---- memory of a lane ---- */

/* For all calls of the group. Who broadcasts has all pieces of a chunk; of a result's 16 bits the sum has 32. */
static tx_status make_room(lane *l, const tx_request *r)
{
    static const char what[] = "messages between hosts";
    const tx__host_map *m = &l->g->hosts->map;
    int64_t own = (int64_t)m->n_held * most_of_member(l->g), all = (int64_t)TX__PIECE * m->all.most;
    int64_t share = (int64_t)TX__PIECE * ((m->all.most + m->count[m->own] - 1) / m->count[m->own]);
    if (!l->sums && sums(r)) TX_TRY(tx_alloc(&l->sums, 2, (size_t)(own > share ? own : share), what));
    return l->results ? TX_OK : tx_shared_alloc(&l->results, (size_t)(own > all ? own : all), what);
}

static unsigned char *sum_at(const lane *l, int piece)
{
    int64_t at = tx__piece_ordinal(&l->g->hosts->map, l->r, piece) * unit_of(l->r);
    return l->sums + (size_t)at * sum_size_of(l->r);
}

static unsigned char *result_in(const lane *l, const void *results, int piece)
{
    int64_t at = tx__piece_ordinal(&l->g->hosts->map, l->r, piece) * unit_of(l->r);
    return (unsigned char *)(uintptr_t)results + (size_t)at * size_of(l->r);
}

/* A result that is this rank's alone is received where it belongs. */
static unsigned char *result_at(const lane *l, int piece)
{
    const tx_request *r = l->r;
    if (r->how != TX__REDUCE_SCATTER || piece != l->g->rank) return result_in(l, l->results, piece);
    return (unsigned char *)r->y + (size_t)(span_of(l, piece).lo - piece * r->n) * size_of(r);
}

/* Whether this rank is the deputy of a piece that has elements. */
static bool is_mine(const lane *l, int piece)
{
    const tx__host_map *m = &l->g->hosts->map;
    return tx__deputy(m, l->r, piece, m->own) == l->g->rank && span_of(l, piece).n > 0;
}

static int n_pieces(const lane *l)
{
    return tx__n_pieces(&l->g->hosts->map, l->r);
}

static bool is_last_host(const lane *l)
{
    return l->g->hosts->map.own == l->g->hosts->map.all.hosts - 1;
}

/* ---- messages ---- */

static int tag_of(const lane *l, int direction)
{
    const struct tx__by_hosts *h = l->g->hosts;
    return FIRST_TAG + ((int)(h->id % 512) * MOST_LANES + (int)(l - h->lane)) * 2 + direction;
}

typedef struct parcel {
    void *data;
    size_t bytes;
    int direction;
} parcel;

static tx_status send(lane *l, tx__move *move, parcel p, int to)
{
    int e = l->g->world->net->send(move, p.data, p.bytes, l->g->world_rank[to], CHANNEL, tag_of(l, p.direction));
    return e ? tx__net_failed(l->g, e) : TX_OK;
}

static tx_status receive(lane *l, tx__move *move, parcel p, int from)
{
    int e = l->g->world->net->receive(move, p.data, p.bytes, l->g->world_rank[from], CHANNEL, tag_of(l, p.direction));
    return e ? tx__net_failed(l->g, e) : TX_OK;
}

/* An unfinished sum; a result. */
static parcel sum_of(const lane *l, int piece)
{
    return (parcel){ sum_at(l, piece), (size_t)span_of(l, piece).n * sum_size_of(l->r), UP };
}

static parcel result_of(const lane *l, int piece)
{
    return (parcel){ result_at(l, piece), (size_t)span_of(l, piece).n * size_of(l->r), DOWN };
}

/* A message that is too long is an error of the library's, in words of its own. */
static tx_status not_received(const lane *l, int from, int error)
{
    char text[512], what[160];
    l->g->world->net->explain(error, text, sizeof text);
    tx__request_describe(what, sizeof what, l->r);
    return TX_FAIL(
        TX_ERR_COMM,
        "rank %d cannot receive rank %d's message of %s: %s (if it is too long, they do not agree on the size "
        "or type)",
        tx_comm_world_rank(l->g, l->g->rank), tx_comm_world_rank(l->g, from), what, text);
}

/* Whether a message has come, of the size that it must have. */
static tx_status has_come(lane *l, tx__move *move, size_t expected, int from, bool *done)
{
    int is_done = 1;
    size_t bytes = expected;
    *done = true;
    if (!*move) return TX_OK;
    int e = l->g->world->net->test(move, &is_done, &bytes);
    if (e) return not_received(l, from, e);
    *done = is_done;
    if (is_done) l->g->world->moves++;
    return is_done && bytes != expected ? tx__other_size(l->g, l->r, from, bytes) : TX_OK;
}

/* @sent l->up or l->down */
static tx_status all_sent(lane *l, tx__move *sent, bool *all)
{
    *all = true;
    for (int i = 0; i < l->g->size; i++) {
        int done = 1;
        size_t bytes;
        int e = sent[i] ? l->g->world->net->test(&sent[i], &done, &bytes) : 0;
        if (e) return tx__net_failed(l->g, e);
        *all = *all && done;
    }
    return TX_OK;
}

/* Whether no more than one chunk is on its way in that direction. MPI sends all that it has to send in turns: if that
 * were the chunks of all lanes, all would arrive at the same time, and nothing would go back meanwhile. */
static tx_status may_send(tx_comm *g, int direction, bool *may)
{
    int n = 0;
    for (int i = 0; i < g->hosts->n_lanes; i++) {
        lane *l = &g->hosts->lane[i];
        bool all = true;
        if (l->step != FREE) TX_TRY(all_sent(l, direction == UP ? l->up : l->down, &all));
        n += !all;
    }
    *may = n < 2;
    return TX_OK;
}

/* ---- visits ---- */

/* This rank's pieces of what the members of this host have are added to the sums of the hosts before. */
static void fold(void *visitor, tx__visited v, int i, int n)
{
    lane *l = visitor;
    const tx_request *r = l->r;
    const tx__host_map *m = &l->g->hosts->map;
    void *from[TX__MEMBERS + 1];
    for (int p = 0; p < n_pieces(l); p++) {
        tx__section at = span_of(l, p), mine = tx__slice((tx__section){ 0, at.n }, i, n);
        if (!is_mine(l, p) || !mine.n) continue;
        int before = m->own > 0;
        from[0] = sum_at(l, p);
        for (int k = 0; k < m->count[m->own]; k++)
            from[before + k] = (unsigned char *)v.at[k] + (size_t)(v.copied[k] ? p * unit_of(r) : at.lo) * size_of(r);
        void *to = is_last_host(l) ? result_at(l, p) : sum_at(l, p);
        tx__reduction job = { .to = &to,
                              .n_to = 1,
                              .from = from,
                              .n_from = before + m->count[m->own],
                              .dtype = (tx_dtype)r->dtype,
                              .op = (tx_reduce)r->reduce,
                              .carries = before,
                              .leaves = !is_last_host(l) };
        tx__reduce(&job, mine.lo, mine.n);
    }
}

/* The chunk's pieces are copied to where they belong. */
static void share(void *visitor, tx__visited v, int i, int n)
{
    lane *l = visitor;
    const tx_request *r = l->r;
    const tx__host_map *m = &l->g->hosts->map;
    unsigned char *to = r->how == TX__ALL_GATHER ? r->y : r->x;
    if (r->how == TX__BROADCAST && r->peer == l->g->rank) return;
    for (int p = 0; p < n_pieces(l); p++) {
        tx__section at = span_of(l, p), part = tx__slice((tx__section){ 0, at.n }, i, n);
        if (!part.n) continue;
        const unsigned char *from = result_in(l, v.at[m->index[tx__deputy(m, r, p, m->own)]], p);
        memcpy(to + (size_t)(at.lo + part.lo) * size_of(r), from + (size_t)part.lo * size_of(r),
               (size_t)part.n * size_of(r));
    }
}

/* A rank that has its host for itself visits nobody. */
static void visit_oneself(tx_request *q)
{
    const tx__visited v = { &q->x, &q->copied };
    int n = q->n_threads;
    if (n <= 1) {
        q->visit(q->visitor, v, 0, 1);
    } else {
#pragma omp parallel for num_threads(n) schedule(static)
        for (int i = 0; i < n; i++) q->visit(q->visitor, v, i, n);
    }
    q->worked = 1;
    q->finished = true;
}

static void start_visit(lane *l, tx_request *q, void *x, bool copied)
{
    const tx_request *r = l->r;
    bool folds = q == &l->fold;
    *q = (tx_request){ .g = l->g->hosts->inside[!folds],
                       .how = r->how,
                       .what = r->what,
                       .x = x,
                       .n = r->n,
                       .dtype = r->dtype,
                       .reduce = r->reduce,
                       .peer = r->peer,
                       .call = r->call,
                       .layer = r->layer,
                       .backward = r->backward,
                       .n_threads = r->n_threads,
                       .slot = -1,
                       .copied = copied,
                       .visit = folds ? fold : share,
                       .visitor = l };
    if (q->g->size == 1)
        visit_oneself(q);
    else
        q->g->kind->start(q->g, q);
}

/* ---- fold ---- */

/* x, or a copy of the chunk's pieces if the others of this host cannot read it. */
static tx_status start_fold(lane *l)
{
    const tx_request *r = l->r;
    tx_comm *inside = l->g->hosts->inside[0];
    tx__address at;
    size_t parts = of_members(r) ? (size_t)l->g->size : 1, unit = (size_t)unit_of(r) * size_of(r);
    bool copied =
        inside->size > 1 && !tx__address_of(&at, l->g->world->one_process, r->x, parts * (size_t)r->n * size_of(r));
    if (copied && !l->copy) {
        size_t common = (size_t)TX__PIECE * (size_t)l->g->hosts->map.all.most;
        size_t most = (size_t)most_of_member(l->g) * (size_t)l->g->size;
        TX_TRY(tx_shared_alloc(&l->copy, most > common ? most : common, "messages between hosts"));
    }
    for (int p = 0; copied && p < n_pieces(l); p++)
        tx__copy(l->copy + (size_t)p * unit, (unsigned char *)r->x + (size_t)span_of(l, p).lo * size_of(r),
                 (size_t)span_of(l, p).n * size_of(r), r->n_threads);
    start_visit(l, &l->fold, copied ? l->copy : r->x, copied);
    l->g->hosts->folds++;
    return TX_OK;
}

static tx_status carries_have_come(lane *l, bool *all)
{
    const tx__host_map *m = &l->g->hosts->map;
    *all = true;
    for (int p = 0; p < n_pieces(l); p++) {
        bool done;
        if (!l->carry[p]) continue;
        TX_TRY(has_come(l, &l->carry[p], sum_of(l, p).bytes, tx__deputy(m, l->r, p, m->own - 1), &done));
        *all = *all && done;
    }
    return TX_OK;
}

static tx_status send_up(lane *l)
{
    const tx__host_map *m = &l->g->hosts->map;
    for (int p = 0; p < n_pieces(l) && !is_last_host(l); p++)
        if (is_mine(l, p)) TX_TRY(send(l, &l->up[p], sum_of(l, p), tx__deputy(m, l->r, p, m->own + 1)));
    return TX_OK;
}

/* ---- results ---- */

/* In the order of pieces, which is that in which they are expected. */
static tx_status forward(lane *l)
{
    const tx__host_map *m = &l->g->hosts->map;
    for (; l->forwarded < n_pieces(l); l->forwarded++) {
        int p = l->forwarded, to;
        bool done;
        TX_TRY(has_come(l, &l->result[p], result_of(l, p).bytes, tx__piece_source(m, l->r, p), &done));
        if (!done) return TX_OK;
        if (!is_mine(l, p) || (to = tx__piece_target(m, l->r, p)) < 0) continue;
        TX_TRY(send(l, &l->down[p], result_of(l, p), to));
    }
    return TX_OK;
}

static bool gives(const tx_request *r)
{
    return r->how == TX__ALL_GATHER || (r->how == TX__BROADCAST && r->peer == r->g->rank);
}

/* What this rank has and others have not: its part of an all-gather, or what it broadcasts. */
static tx_status give(lane *l)
{
    const tx_request *r = l->r;
    const tx__host_map *m = &l->g->hosts->map;
    size_t size = size_of(r);
    tx__section at = span_of(l, l->g->rank);
    for (int p = 0; gives(r) && r->how == TX__BROADCAST && p < n_pieces(l); p++) {
        tx__section s = span_of(l, p);
        tx__copy(result_at(l, p), (unsigned char *)r->x + (size_t)s.lo * size, (size_t)s.n * size, r->n_threads);
    }
    if (r->how != TX__ALL_GATHER || !at.n) return TX_OK;
    parcel mine = result_of(l, l->g->rank);
    tx__copy(mine.data, (unsigned char *)r->x + (size_t)(at.lo - l->g->rank * r->n) * size, mine.bytes, r->n_threads);
    for (int k = 1; k < m->all.hosts; k++) { /* not all to the same one at a time */
        int host = (m->own + k) % m->all.hosts;
        TX_TRY(send(l, &l->down[host], mine, tx__deputy(m, r, l->g->rank, host)));
    }
    return TX_OK;
}

/* ---- lanes ---- */

static tx_status expect(lane *l)
{
    const tx__host_map *m = &l->g->hosts->map;
    for (int p = 0; p < n_pieces(l); p++) {
        if (!is_mine(l, p)) continue;
        int from = tx__piece_source(m, l->r, p);
        if (sums(l->r) && m->own > 0)
            TX_TRY(receive(l, &l->carry[p], sum_of(l, p), tx__deputy(m, l->r, p, m->own - 1)));
        if (from >= 0) TX_TRY(receive(l, &l->result[p], result_of(l, p), from));
    }
    return TX_OK;
}

static tx_status begin(tx_comm *g)
{
    struct tx__by_hosts *h = g->hosts;
    for (tx_request *r; (r = h->to_begin);) {
        lane *l = &h->lane[h->begun % h->n_lanes];
        bool may = true;
        if (l->step != FREE) return TX_OK;
        if (gives(r)) TX_TRY(may_send(g, DOWN, &may));
        if (!may) return TX_OK;
        TX_TRY(make_room(l, r));
        l->r = r;
        l->chunk = r->published++;
        l->forwarded = 0;
        l->fold_turn = sums(r) ? h->fold_turns++ : -1;
        l->share_turn = r->how == TX__REDUCE_SCATTER ? -1 : h->share_turns++;
        h->begun++;
        g->world->moves++;
        if (r->published == r->n_chunks) h->to_begin = r->next;
        TX_TRY(expect(l));
        TX_TRY(give(l));
        l->step = sums(r) ? CARRIES : RESULTS;
    }
    return TX_OK;
}

static tx_status leave(lane *l)
{
    tx_request *r = l->r;
    bool up, down;
    TX_TRY(all_sent(l, l->up, &up));
    TX_TRY(all_sent(l, l->down, &down));
    if (!up || !down) return TX_OK;
    l->step = FREE;
    l->r = NULL;
    l->g->world->moves++;
    if (++r->completed < r->n_chunks) return TX_OK;
    tx__remove(&l->g->by_hosts, r);
    r->finished = true;
    return TX_OK;
}

/* One step further, if what it waits for has happened. */
static tx_status move_lane(lane *l)
{
    struct tx__by_hosts *h = l->g->hosts;
    bool come;
    switch (l->step) {
    case CARRIES:
        TX_TRY(carries_have_come(l, &come));
        if (!come || h->folds != l->fold_turn) return TX_OK;
        TX_TRY(start_fold(l));
        l->step = FOLD;
        return TX_OK;
    case FOLD:
        if (!l->fold.worked) return TX_OK;
        TX_TRY(may_send(l->g, UP, &come));
        if (!come) return TX_OK;
        TX_TRY(send_up(l));
        l->step = RESULTS;
        return TX_OK;
    case RESULTS:
        TX_TRY(forward(l));
        if (l->forwarded < n_pieces(l) || (sums(l->r) && !l->fold.finished)) return TX_OK;
        if (l->share_turn >= 0 && h->shares != l->share_turn) return TX_OK;
        l->step = l->share_turn < 0 ? LEAVING : SHARE;
        if (l->step == LEAVING) return TX_OK;
        start_visit(l, &l->share, l->results, false);
        h->shares++;
        return TX_OK;
    case SHARE:
        if (l->share.finished) l->step = LEAVING;
        return TX_OK;
    case LEAVING:
        return leave(l);
    case FREE:
        break;
    }
    return TX_OK;
}

static tx_status move_lanes(tx_comm *g)
{
    struct tx__by_hosts *h = g->hosts;
    TX_TRY(begin(g));
    for (int i = 0; i < 2; i++)
        if (tx__is_busy(h->inside[i])) TX_TRY(h->inside[i]->kind->progress(h->inside[i]));
    for (int k = 0; k < h->n_lanes; k++) { /* the oldest first */
        lane *l = &h->lane[(h->begun + k) % h->n_lanes];
        for (step before = FREE; l->step != FREE && l->step != before;) {
            before = l->step;
            TX_TRY(move_lane(l));
        }
    }
    return begin(g);
}

/* ---- the table ---- */

static bool goes_by_hosts(const tx_comm *g, const tx_request *r)
{
    static const tx_comm_op op[] = { [TX__ALL_REDUCE] = TX_COMM_ALL_REDUCE,
                                     [TX__REDUCE_SCATTER] = TX_COMM_REDUCE_SCATTER,
                                     [TX__ALL_GATHER] = TX_COMM_ALL_GATHER,
                                     [TX__BROADCAST] = TX_COMM_BROADCAST };
    int64_t bytes = r->n * (int64_t)size_of(r) * (of_members(r) ? g->size : 1);
    if (!g->hosts->inside[1] || r->how > TX__BROADCAST) return false; /* while it is being opened */
    return tx_comm_goes_by_hosts(op[r->how], sums(r) ? (tx_dtype)r->dtype : TX_F32, g->hosts->map.all, bytes);
}

static void start(tx_comm *g, tx_request *r)
{
    if (!goes_by_hosts(g, r)) {
        tx__remote_kind.start(g, r);
        return;
    }
    r->by_hosts = true;
    r->n_chunks = chunks_of(r);
    tx__push(&g->by_hosts, r);
    if (!g->hosts->to_begin) g->hosts->to_begin = r;
}

static tx_status progress(tx_comm *g)
{
    if (g->by_hosts.head) TX_TRY(move_lanes(g));
    return tx__remote_kind.progress(g);
}

/* Of a visit: members of this host. */
static void absent_here(const tx_comm *g, const tx_request *q, bool *ranks)
{
    bool here[TX__MEMBERS] = { false };
    if (q->g->size == 1) return;
    q->g->kind->absent(q->g, q, here);
    for (int i = 0; i < q->g->size; i++)
        for (int k = 0; here[i] && k < g->size; k++) ranks[k] |= g->world_rank[k] == q->g->world_rank[i];
}

/* Who has not sent, or, if all have, not taken. Which of the ranks of another host keeps it from that is not known
 * here: all may. */
static void absent_there(const tx_comm *g, const lane *l, bool *ranks)
{
    const tx__host_map *m = &g->hosts->map;
    bool hosts_late = false;
    for (int p = 0; p < n_pieces(l); p++) {
        int from = l->carry[p] ? m->own - 1 : l->result[p] ? m->host[tx__piece_source(m, l->r, p)] : -1;
        for (int k = 0; from >= 0 && k < g->size; k++) ranks[k] |= m->host[k] == from;
        hosts_late |= from >= 0;
    }
    for (int k = 0; !hosts_late && l->step == LEAVING && k < g->size; k++) ranks[k] |= m->host[k] != m->own;
}

static void absent(const tx_comm *g, const tx_request *r, bool *ranks)
{
    if (!r->by_hosts) {
        tx__remote_kind.absent(g, r, ranks);
        return;
    }
    for (int k = 0; k < g->hosts->n_lanes; k++) {
        const lane *l = &g->hosts->lane[(g->hosts->begun + k) % g->hosts->n_lanes];
        if (l->r != r) continue;
        if (l->step == FOLD || (l->step == RESULTS && sums(r) && !l->fold.finished))
            absent_here(g, &l->fold, ranks);
        else if (l->step == SHARE)
            absent_here(g, &l->share, ranks);
        else
            absent_there(g, l, ranks);
        return; /* later ones wait for it */
    }
}

static void close_group(tx_comm *g)
{
    struct tx__by_hosts *h = g->hosts;
    tx__remote_kind.close(g);
    for (int i = 0; i < 2; i++) tx_comm_close(h->inside[i]);
    for (int i = 0; i < MOST_LANES; i++) {
        tx_free(h->lane[i].carry);
        tx_free(h->lane[i].sums);
        tx_shared_free(h->lane[i].results);
        tx_shared_free(h->lane[i].copy);
    }
    tx__host_map_close(&h->map);
    tx_free(h);
    g->hosts = NULL;
}

const tx__kind tx__hosts_kind = { start, progress, absent, close_group };

static tx_status open_lanes(tx_comm *g)
{
    struct tx__by_hosts *h = g->hosts;
    int n =
        6 *
        h->map.all.hosts; /* chunks that are summed on each host, on their way to each, and back, and wait for that */
    h->n_lanes = n < MOST_LANES ? n : MOST_LANES;
    for (int i = 0; i < h->n_lanes; i++) {
        lane *l = &h->lane[i];
        TX_TRY(tx_alloc(&l->carry, (size_t)g->size, 4 * sizeof *l->carry, "a group of ranks"));
        l->g = g;
        l->result = l->carry + g->size;
        l->up = l->result + g->size;
        l->down = l->up + g->size;
    }
    return TX_OK;
}

tx_status tx__hosts_open(tx_comm *g, int64_t id)
{
    tx__host_map map;
    struct tx__by_hosts *h = NULL;
    if (g->world->flat) return TX_OK;
    TX_TRY(tx__host_map_open(&map, g));
    bool saves = map.all.hosts > 1 && map.all.most > 1 && map.all.most <= TX__MEMBERS;
    tx_status st = saves ? tx_alloc(&h, 1, sizeof *h, "a group of ranks") : TX_OK;
    if (st || !saves) {
        tx__host_map_close(&map);
        return st;
    }
    g->hosts = h;
    g->kind = &tx__hosts_kind;
    h->map = map;
    h->id = id;
    TX_TRY(tx_comm_agree(g, open_lanes(g)));
    for (int i = 0; i < 2; i++) TX_TRY(tx__inside_open(&h->inside[i], g, map.host));
    return TX_OK;
}
