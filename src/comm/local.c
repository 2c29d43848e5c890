/* local.c - collectives between ranks that read each other's memory.
 *
 *  A request goes through three stations, each in the order of requests; `progress` moves all as far as they go:
 *
 *      publish    my slot says where my buffer is (or my chunk has been copied to where others can read it)
 *      work       all members have published these chunks: my slice of each is summed and written into everybody's
 *                 buffer (all-reduce), or what I need is fetched
 *      complete   all have done their work on them: my buffer is mine again
 *
 *  An all-to-all is one chunk: its slots tell how many rows each member has for each other, and where. So is a visit,
 * this host's part of a call between hosts (hosts.c): its slots tell where each member's buffer is.
 *
 *  An all-reduce thus reads and writes each number once per member, and waits twice. A small request travels in the
 *  slots and needs no third station: everybody sums everything. */
#include <string.h>

#include "base/alloc.h"
#include "comm/board.h"
#include "comm/reduce.h"

/* ---- geometry: the same in all members ---- */

/* Parts of x one behind the other. */
static int64_t n_parts(const tx_request *r)
{
    return r->how == TX__REDUCE_SCATTER ? r->g->size : 1;
}

static int64_t bytes_of_x(const tx_request *r)
{
    return n_parts(r) * r->n * (int64_t)tx__size_of(r->dtype);
}

/* Elements of a part that one chunk covers. */
static int64_t chunk_elements(const tx_request *r)
{
    int64_t n = TX__CHUNK / (int64_t)tx__size_of(r->dtype) / n_parts(r);
    return n - n % 16;
}

static tx__section chunk_span(const tx_request *r, int64_t chunk)
{
    int64_t unit = chunk_elements(r), lo = chunk * unit;
    return (tx__section){ lo, r->n - lo < unit ? r->n - lo : unit };
}

/* Where element `lo` of `part` of the member's x is, in a chunk. Staged chunks hold their piece of each part. */
static unsigned char *x_at(const tx_request *r, int member, int64_t chunk, int64_t part, int64_t lo)
{
    const struct tx__local *l = r->g->local;
    size_t size = tx__size_of(r->dtype);
    if (!l->staged[member]) return (unsigned char *)l->from[member] + (size_t)(part * r->n + lo) * size;
    int64_t in = part * chunk_elements(r) + lo - chunk_span(r, chunk).lo;
    return tx__board_stage(l->board, member, r->first + chunk) + (size_t)in * size;
}

/* Whether anybody reads this member's x. */
static bool gives(const tx_request *r, int member)
{
    return r->how != TX__BROADCAST || member == r->peer;
}

/* ---- counters ---- */

static int64_t all_published(const tx_comm *g)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < g->size; i++) {
        int64_t n = atomic_load_explicit(&tx__board_line(g->local->board, i)->published, memory_order_acquire);
        if (n < least) least = n;
    }
    return least;
}

static int64_t all_done(const tx_comm *g)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < g->size; i++) {
        int64_t n = atomic_load_explicit(&tx__board_line(g->local->board, i)->done, memory_order_acquire);
        if (n < least) least = n;
    }
    return least;
}

/* ---- publish ---- */

static bool slot_is_free(const tx_comm *g, const tx_request *r)
{
    return r->order < TX__RING || all_done(g) >= g->local->ring_end[r->order % TX__RING];
}

/* What is the same in all members. */
static int64_t size_of_call(const tx_request *r)
{
    return r->how == TX__ALL_TO_ALL ? r->width : r->n;
}

/* How many rows a member of an all-to-all sends to each, and receives from each. */
static int32_t *rows_of(const tx_request *r, int member)
{
    return (int32_t *)(void *)tx__board_slot(r->g->local->board, r->order, member)->small;
}

_Static_assert(TX__MEMBERS * 2 * sizeof(int32_t) <= TX__SMALL, "two numbers of each member");

static tx_status write_rows(struct tx__local *l, tx__call_slot *s, tx_request *r)
{
    size_t bytes = (size_t)bytes_of_x(r);
    int32_t *rows = rows_of(r, r->g->rank);
    for (int i = 0; i < r->g->size; i++) {
        TX_ASSERT(r->send_rows[i] <= INT32_MAX && r->recv_rows[i] <= INT32_MAX);
        rows[i] = (int32_t)r->send_rows[i];
        rows[r->g->size + i] = (int32_t)r->recv_rows[i];
    }
    return bytes ? tx__mail_place(&s->at, l, r, bytes) : TX_OK;
}

static tx_status write_slot(tx_comm *g, tx_request *r)
{
    struct tx__local *l = g->local;
    bool rows = r->how == TX__ALL_TO_ALL, found = true;
    tx__call_slot *s = tx__board_slot(l->board, r->order, g->rank);
    int64_t bytes = bytes_of_x(r);
    s->how = r->how;
    s->dtype = r->dtype;
    s->reduce = r->reduce;
    s->root = r->peer;
    s->n = size_of_call(r);
    if (r->small && gives(r, g->rank) && bytes) memcpy(s->small, r->x, (size_t)bytes);
    if (rows) TX_TRY(write_rows(l, s, r));
    if (r->visit) found = tx__address_of(&s->at, l->one_process, r->x, 1);
    TX_ASSERT(found);
    r->staged = !rows && !r->visit && !r->small && gives(r, g->rank) &&
                !tx__address_of(&s->at, l->one_process, r->x, (size_t)bytes);
    s->staged = r->visit ? r->copied : r->staged;
    l->ring_end[r->order % TX__RING] = r->first + r->n_chunks;
    r->slot = (int)(r->order % TX__RING);
    return TX_OK;
}

static void stage_chunk(const tx_request *r, int64_t chunk)
{
    const tx_comm *g = r->g;
    size_t size = tx__size_of(r->dtype);
    tx__section s = chunk_span(r, chunk);
    unsigned char *to = tx__board_stage(g->local->board, g->rank, r->first + chunk);
    g->world->moves++;
    for (int64_t part = 0; part < n_parts(r); part++)
        tx__copy(to + (size_t)(part * chunk_elements(r)) * size,
                 (const unsigned char *)r->x + (size_t)(part * r->n + s.lo) * size, (size_t)s.n * size, r->n_threads);
}

static tx_status publish(tx_comm *g)
{
    tx__line *mine = tx__board_line(g->local->board, g->rank);
    for (tx_request *r = g->to_publish; r; r = g->to_publish = r->next) {
        if (r->slot < 0) {
            if (!slot_is_free(g, r)) return TX_OK;
            TX_TRY(write_slot(g, r));
        }
        int64_t hi = r->n_chunks, room = g->local->completed + TX__STAGES - r->first;
        if (r->staged && hi > room) hi = room;
        for (; r->staged && r->published < hi; r->published++) stage_chunk(r, r->published);
        if (hi > 0) {
            r->published = hi;
            atomic_store_explicit(&mine->published, r->first + hi, memory_order_release);
            tx__wake_members(g);
        }
        if (r->published < r->n_chunks) return TX_OK;
    }
    return TX_OK;
}

/* ---- work ---- */

/* Rows that a member sends this one; TX_ERR_COMM: this one expects others. */
static tx_status reach_rows(tx_request *r, int member)
{
    tx_comm *g = r->g;
    char what[160];
    int sends = rows_of(r, member)[g->rank], expects = rows_of(r, g->rank)[g->size + member];
    const tx__call_slot *s = tx__board_slot(g->local->board, r->order, member);
    if (sends == expects)
        return sends ? tx__address_reach(&g->local->from[member], g->local->one_process, &s->at) : TX_OK;
    tx__request_describe(what, sizeof what, r);
    return TX_FAIL(TX_ERR_COMM, "rank %d sends %d rows in %s, rank %d expects %d", tx_comm_world_rank(g, member), sends,
                   what, tx_comm_world_rank(g, g->rank), expects);
}

/* What one sends another expects, of all members. Else the one that expects other rows tells; and nobody reads, since
 * it may have gone. */
static bool rows_agree(const tx_request *r)
{
    int n = r->g->size;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            if (rows_of(r, i)[k] != rows_of(r, k)[n + i]) return false;
    return true;
}

/* The members' slots of a request say the same; their buffers are found. */
static tx_status meet(tx_request *r)
{
    tx_comm *g = r->g;
    struct tx__local *l = g->local;
    for (int i = 0; i < g->size; i++) {
        tx__call_slot *s = tx__board_slot(l->board, r->order, i);
        if (s->how != r->how || s->dtype != r->dtype || s->reduce != r->reduce || s->root != r->peer ||
            s->n != size_of_call(r)) {
            char what[128];
            tx__request_describe(what, sizeof what, r);
            return TX_FAIL(
                TX_ERR_COMM,
                "ranks %d and %d do not agree on %s: %lld elements here, and there another call, another type "
                "or %lld",
                tx_comm_world_rank(g, g->rank), tx_comm_world_rank(g, i), what, (long long)size_of_call(r),
                (long long)s->n);
        }
        l->staged[i] = s->staged;
        if (r->visit)
            TX_TRY(tx__address_reach(&l->from[i], l->one_process, &s->at));
        else if (r->how == TX__ALL_TO_ALL)
            TX_TRY(reach_rows(r, i));
        else if (r->small)
            l->from[i] = s->small;
        else if (i == g->rank && !s->staged)
            l->from[i] = r->x;
        else if (!s->staged && gives(r, i))
            TX_TRY(tx__address_reach(&l->from[i], l->one_process, &s->at));
    }
    return TX_OK;
}

/* Whether all of it is summed at once: all members' buffers are read where they are, so that all of their chunks are
 * published together. Then a member's slice is one stretch of memory, of which processors foresee more. */
static bool is_at_once(const tx_request *r)
{
    bool staged = r->small || r->how != TX__ALL_REDUCE;
    for (int i = 0; i < r->g->size; i++) staged = staged || r->g->local->staged[i];
    return !staged;
}

/* My slice of a chunk, or of all of them, or the part of it that the i-th of n threads has. */
static void reduce_slice(const tx_request *r, int64_t chunk, int i, int n)
{
    const tx_comm *g = r->g;
    void *from[TX__MEMBERS];
    tx__section s = is_at_once(r) ? (tx__section){ 0, r->n } : chunk_span(r, chunk);
    int64_t part = r->how == TX__REDUCE_SCATTER ? g->rank : 0;
    bool all = r->how == TX__ALL_REDUCE;
    if (all && !r->small) s = tx__slice(s, g->rank, g->size);
    s = tx__slice(s, i, n);
    if (!s.n) return;
    for (int m = 0; m < g->size; m++) from[m] = x_at(r, m, chunk, part, s.lo);
    void *mine = (unsigned char *)(all ? r->x : r->y) + (size_t)s.lo * tx__size_of(r->dtype);
    bool to_all = all && !r->small;
    tx__reduction job = { .to = to_all ? from : &mine,
                          .n_to = to_all ? g->size : 1,
                          .from = from,
                          .n_from = g->size,
                          .dtype = (tx_dtype)r->dtype,
                          .op = (tx_reduce)r->reduce };
    tx__reduce(&job, 0, s.n);
}

static void fetch(const tx_request *r, int64_t chunk, int i, int n)
{
    const tx_comm *g = r->g;
    size_t size = tx__size_of(r->dtype);
    tx__section s = tx__slice(chunk_span(r, chunk), i, n);
    if (!s.n) return;
    for (int k = 0; k < g->size; k++) {
        int m = (g->rank + k) % g->size; /* not all from the same one at a time */
        unsigned char *to = (unsigned char *)(r->how == TX__BROADCAST ? r->x : r->y) + (size_t)s.lo * size;
        if (r->how == TX__ALL_GATHER) to += (size_t)(m * r->n) * size;
        if (!gives(r, m) || (r->how == TX__BROADCAST && m == g->rank)) continue;
        const unsigned char *from =
            m == g->rank ? (const unsigned char *)r->x + (size_t)s.lo * size : x_at(r, m, chunk, 0, s.lo);
        if (from != to) memmove(to, from, (size_t)s.n * size);
    }
}

static void fetch_rows(const tx_request *r, int i, int n)
{
    const tx_comm *g = r->g;
    size_t size = tx__size_of(r->dtype);
    for (int k = 0; k < g->size; k++) {
        int m = (g->rank + k) % g->size;
        tx__section s = tx__slice((tx__section){ 0, r->recv_rows[m] * r->width }, i, n);
        int64_t before = 0;
        if (!s.n) continue;
        for (int other = 0; other < g->rank; other++) before += rows_of(r, m)[other];
        const unsigned char *from = (const unsigned char *)g->local->from[m] + (size_t)(before * r->width) * size;
        unsigned char *to = (unsigned char *)r->y + (size_t)tx__elements(r, r->recv_rows, m) * size;
        memcpy(to + (size_t)s.lo * size, from + (size_t)s.lo * size, (size_t)s.n * size);
    }
}

static void work_on(const tx_request *r, int64_t chunk, int i, int n)
{
    if (r->visit)
        r->visit(r->visitor, (tx__visited){ r->g->local->from, r->g->local->staged }, i, n);
    else if (r->how == TX__ALL_REDUCE || r->how == TX__REDUCE_SCATTER)
        reduce_slice(r, chunk, i, n);
    else if (r->how == TX__ALL_TO_ALL)
        fetch_rows(r, i, n);
    else
        fetch(r, chunk, i, n);
}

/* Chunks [lo, hi). A rank with one thread starts no team: not every runtime's start of one is free. */
static void work_on_all(const tx_request *r, int64_t lo, int64_t hi)
{
    int n = r->n_threads;
    if (r->small || n <= 1) {
        for (int64_t chunk = lo; chunk < hi; chunk++) work_on(r, chunk, 0, 1);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(n)
    for (int64_t k = lo * n; k < hi * n; k++) work_on(r, k / n, (int)(k % n), n);
}

static tx_status work(tx_comm *g)
{
    tx__line *mine = tx__board_line(g->local->board, g->rank);
    if (!g->to_work) return TX_OK;
    int64_t ready = all_published(g);
    while (g->to_work && ready > g->to_work->first + g->to_work->worked) {
        tx_request *r = g->to_work;
        if (!r->worked) TX_TRY(meet(r));
        if (r->how == TX__ALL_TO_ALL && !rows_agree(r)) return TX_OK; /* until the job ends */
        int64_t hi = ready - r->first < r->n_chunks ? ready - r->first : r->n_chunks;
        bool at_once = is_at_once(r);
        TX_ASSERT(hi == r->n_chunks || !at_once);
        work_on_all(r, r->worked, at_once ? r->worked + 1 : hi);
        g->world->moves++;
        r->worked = hi;
        atomic_store_explicit(&mine->done, r->first + hi, memory_order_release);
        tx__wake_members(g);
        if (hi == r->n_chunks) g->to_work = r->next;
    }
    return TX_OK;
}

/* ---- complete ---- */

static void take_back(const tx_request *r, int64_t chunk)
{
    const tx_comm *g = r->g;
    tx__section s = chunk_span(r, chunk);
    size_t size = tx__size_of(r->dtype);
    g->world->moves++;
    tx__copy((unsigned char *)r->x + (size_t)s.lo * size, tx__board_stage(g->local->board, g->rank, r->first + chunk),
             (size_t)s.n * size, r->n_threads);
}

static void complete(tx_comm *g)
{
    if (!g->collectives.head) return;
    int64_t done = all_done(g);
    for (tx_request *r; (r = g->collectives.head);) {
        int64_t hi = r->small ? r->worked : done - r->first;
        if (hi > r->n_chunks) hi = r->n_chunks;
        for (; r->completed < hi; r->completed++)
            if (r->staged && r->how == TX__ALL_REDUCE) take_back(r, r->completed);
        if (r->completed < r->n_chunks) {
            if (r->completed > 0) g->local->completed = r->first + r->completed;
            return;
        }
        g->local->completed = r->first + r->n_chunks;
        if (r->how == TX__ALL_TO_ALL) tx__mail_take_back(g->local, r);
        tx__remove(&g->collectives, r);
        r->finished = true;
    }
}

/* ---- the table ---- */

static void start(tx_comm *g, tx_request *r)
{
    if (r->how == TX__SEND) {
        tx__push(&g->sends, r);
        return;
    }
    if (r->how == TX__RECV) {
        tx__push(&g->receives, r);
        return;
    }
    bool whole = r->how == TX__ALL_TO_ALL || r->visit;
    r->small = !whole && bytes_of_x(r) <= TX__SMALL;
    int64_t unit = chunk_elements(r);
    r->n_chunks = whole || r->small ? 1 : (r->n + unit - 1) / unit;
    r->order = g->n_requests++;
    r->first = g->n_chunks;
    g->n_chunks += r->n_chunks;
    tx__push(&g->collectives, r);
    if (!g->to_publish) g->to_publish = r;
    if (!g->to_work) g->to_work = r;
}

static tx_status progress(tx_comm *g)
{
    if (g->collectives.head) {
        TX_TRY(publish(g));
        TX_TRY(work(g));
        complete(g);
    }
    return g->sends.head || g->receives.head ? tx__mail_progress(g) : TX_OK;
}

/* Of a collective those who have not come to it, or else those who have not done their part. */
static void absent(const tx_comm *g, const tx_request *r, bool *ranks)
{
    bool come = true;
    if (r->how == TX__SEND || r->how == TX__RECV) {
        ranks[r->peer] = true;
        return;
    }
    for (int i = 0; i < g->size; i++) {
        int64_t n = atomic_load(&tx__board_line(g->local->board, i)->published);
        ranks[i] = i != g->rank && n <= r->first;
        come = come && !ranks[i];
    }
    for (int i = 0; come && i < g->size; i++)
        ranks[i] = i != g->rank && atomic_load(&tx__board_line(g->local->board, i)->done) < r->first + r->n_chunks;
}

static void close_group(tx_comm *g)
{
    struct tx__local *l = g->local;
    if (!l) return;
    tx__mail_close(g);
    if (l->board) atomic_fetch_add(&l->board->n_left, 1); /* not to be touched after this */
    tx_free(l->from);
    tx_free(l->staged);
    tx_free(l);
    g->local = NULL;
}

const tx__kind tx__local_kind = { start, progress, absent, close_group };

tx_status tx__local_open(tx_comm *g, tx__board *board, bool one_process)
{
    g->kind = &tx__local_kind;
    TX_TRY(tx_alloc(&g->local, 1, sizeof *g->local, "a group of ranks"));
    g->local->one_process = one_process;
    TX_TRY(tx_alloc(&g->local->from, (size_t)g->size, sizeof *g->local->from, "a group of ranks"));
    TX_TRY(tx_alloc(&g->local->staged, (size_t)g->size, sizeof *g->local->staged, "a group of ranks"));
    g->local->board = board;
    return TX_OK;
}
