/* comm_calls.c - the calls on a group: what is checked, what is counted, what is started. A group of one and a plan end
 * here. */
#include <string.h>

#include "backend/profile.h"
#include "backend/trace.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/comm_state.h"

const char *const tx_comm_op_names[TX_N_COMM_OPS] = { "all-reduce", "reduce-scatter", "all-gather",
                                                      "broadcast",  "send",           "all-to-all" };
const char *const tx__call_names[TX__N_CALLS] = { "all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                                  "send",       "all-to-all",     "receive",    "gather",
                                                  "spread",     "barrier",        "agreement",  "split" };

tx_comm tx_comm_self = { .size = 1, .name = "self" };

size_t tx__size_of(int dtype)
{
    return dtype == TX__BYTES ? 1 : tx_dtype_size((tx_dtype)dtype);
}

void tx__copy(void *to, const void *from, size_t n, int n_threads)
{
    enum { WORTH = 1 << 18 };
    if (n_threads <= 1 || n < WORTH) {
        if (n) memcpy(to, from, n);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(n_threads)
    for (int i = 0; i < n_threads; i++) {
        size_t unit = (n / (size_t)n_threads + 4096) / 4096 * 4096, lo = unit * (size_t)i;
        if (lo < n) memcpy((unsigned char *)to + lo, (const unsigned char *)from + lo, n - lo < unit ? n - lo : unit);
    }
}

tx__section tx__slice(tx__section s, int i, int n)
{
    int64_t unit = (s.n + n - 1) / n;
    unit = (unit + 63) / 64 * 64;
    int64_t lo = i * unit < s.n ? i * unit : s.n, hi = lo + unit < s.n ? lo + unit : s.n;
    return (tx__section){ s.lo + lo, hi - lo };
}

/* ---- queues ---- */

bool tx__is_busy(const tx_comm *g)
{
    return g->collectives.head || g->by_hosts.head || g->sends.head || g->receives.head;
}

void tx__push(tx__queue *q, tx_request *r)
{
    r->next = NULL;
    if (q->tail)
        q->tail->next = r;
    else
        q->head = r;
    q->tail = r;
}

void tx__remove(tx__queue *q, tx_request *r)
{
    tx_request *before = NULL, **at = &q->head;
    while (*at != r) {
        before = *at;
        at = &before->next;
    }
    *at = r->next;
    if (q->tail == r) q->tail = before;
}

/* ---- groups ---- */

tx_status tx__group_new(tx_comm **out, tx_world *w, int size, int rank, const char *name)
{
    tx_comm *g;
    TX_TRY(tx_alloc(&g, 1, sizeof *g, "a group of ranks"));
    g->world = w;
    g->size = size;
    g->rank = rank;
    strncpy(g->name, name, sizeof g->name - 1);
    if (w) {
        tx_status st = tx_alloc(&g->world_rank, (size_t)size, 2 * sizeof *g->world_rank, "a group of ranks");
        if (st) {
            tx_free(g);
            return st;
        }
        g->said = g->world_rank + size;
        g->next = w->groups;
        w->groups = g;
    }
    *out = g;
    return TX_OK;
}

tx_status tx_comm_plan(tx_comm **out, int size, int rank, const char *name)
{
    TX_ASSERT(size > 0 && rank >= 0 && rank < size);
    return tx__group_new(out, NULL, size, rank, name);
}

void tx__leave_world(tx_comm *g)
{
    for (tx_comm **at = g->world ? &g->world->groups : NULL; at && *at; at = &(*at)->next)
        if (*at == g) {
            *at = g->next;
            return;
        }
}

void tx_comm_close(tx_comm *g)
{
    if (!g || g == &tx_comm_self) return;
    if (g->team) tx__team_close(g);
    if (g->kind) g->kind->close(g);
    tx__leave_world(g);
    tx_free(g->world_rank);
    tx_free(g);
}

int tx_comm_rank(const tx_comm *g)
{
    return g->rank;
}

int tx_comm_size(const tx_comm *g)
{
    return g->size;
}

const char *tx_comm_name(const tx_comm *g)
{
    return g->name;
}

int tx_comm_world_rank(const tx_comm *g, int rank)
{
    return g->world_rank ? g->world_rank[rank] : rank;
}

tx_world *tx_comm_world(const tx_comm *g)
{
    return g->world;
}

/* ---- what has been moved ---- */

tx_comm_volume *tx_comm_volumes(tx_comm *g)
{
    return g->volume;
}

double tx_comm_sent(tx_comm_op op, int n, int64_t bytes)
{
    double share = (double)(n - 1) / n;
    switch (op) {
    case TX_COMM_ALL_REDUCE:
        return 2 * share * (double)bytes;
    case TX_COMM_REDUCE_SCATTER:
    case TX_COMM_ALL_GATHER:
        return share * (double)bytes;
    case TX_COMM_ALL_TO_ALL:
        return share * (double)bytes / n;
    default:
        return (double)bytes;
    }
}

/* ---- requests ---- */

/* Counts a call on a whole tensor; *ends: that was all there is to do. */
static tx_status count_bytes(tx_ctx *c, tx_comm *g, tx_comm_op op, int64_t bytes, const tx_request *r, bool *ends)
{
    *ends = g->size == 1 || (c && c->dry);
    if (g->size == 1) return TX_OK;
    g->volume[op].calls++;
    g->volume[op].bytes += bytes;
    return tx_trace_call(c, tx_comm_op_names[op], g, (double)bytes, r);
}

static tx_status count(tx_ctx *c, tx_comm *g, tx_comm_op op, tx_tensor whole, const tx_request *r, bool *ends)
{
    TX_ASSERT(tx_is_contiguous(whole));
    return count_bytes(c, g, op, tx_numel(whole) * (int64_t)tx_dtype_size(whole.dtype), r, ends);
}

/* A group of one: y is x. */
static tx_status keep(const tx_ctx *c, const tx_comm *g, tx_tensor y, tx_tensor x)
{
    size_t bytes = (size_t)tx_numel(x) * tx_dtype_size(x.dtype);
    if (g->size > 1 || (c && c->dry) || y.data == x.data) return TX_OK;
    if (c && (tx_device_owns(c->device, x.data) || tx_device_owns(c->device, y.data)))
        return tx_device_copy(c->device, TX_STREAM_COMPUTE, y.data, x.data, bytes);
    tx__copy(y.data, x.data, bytes, c ? c->n_threads : 1);
    return TX_OK;
}

static bool parts(tx_tensor whole, tx_tensor part, int n)
{
    return part.dtype == whole.dtype && tx_is_contiguous(part) && tx_numel(part) * n == tx_numel(whole);
}

static tx_status all_reduce_start(tx_ctx *c, tx_comm *g, tx_tensor x, tx_reduce op, tx_request *r)
{
    bool ends;
    TX_ASSERT(!r->g);
    TX_TRY(count(c, g, TX_COMM_ALL_REDUCE, x, r, &ends));
    if (ends) return TX_OK;
    *r = (tx_request){ .how = TX__ALL_REDUCE,
                       .what = TX_COMM_ALL_REDUCE,
                       .x = x.data,
                       .n = tx_numel(x),
                       .dtype = (int)x.dtype,
                       .reduce = (int)op };
    return tx__start(c, g, r);
}

tx_status tx_all_reduce_start(tx_ctx *c, tx_comm *g, tx_tensor x, tx_request *r)
{
    return all_reduce_start(c, g, x, TX_SUM, r);
}

tx_status tx_reduce_scatter_start(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x, tx_request *r)
{
    bool ends;
    TX_ASSERT(!r->g && parts(x, y, g->size));
    TX_TRY(keep(c, g, y, x));
    TX_TRY(count(c, g, TX_COMM_REDUCE_SCATTER, x, r, &ends));
    if (ends) return TX_OK;
    *r = (tx_request){ .how = TX__REDUCE_SCATTER,
                       .what = TX_COMM_REDUCE_SCATTER,
                       .x = x.data,
                       .y = y.data,
                       .n = tx_numel(y),
                       .dtype = (int)x.dtype };
    return tx__start(c, g, r);
}

tx_status tx_all_gather_start(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x, tx_request *r)
{
    bool ends;
    TX_ASSERT(!r->g && parts(y, x, g->size));
    TX_TRY(keep(c, g, y, x));
    TX_TRY(count(c, g, TX_COMM_ALL_GATHER, y, r, &ends));
    if (ends) return TX_OK;
    *r = (tx_request){ .how = TX__ALL_GATHER,
                       .what = TX_COMM_ALL_GATHER,
                       .x = x.data,
                       .y = y.data,
                       .n = tx_numel(x),
                       .dtype = (int)x.dtype };
    return tx__start(c, g, r);
}

tx_status tx_send_start(tx_ctx *c, tx_comm *g, tx_tensor x, int to, int tag, tx_request *r)
{
    bool ends;
    TX_ASSERT(!r->g && to >= 0 && to < g->size && to != g->rank && tag >= 0 && tag < 65536);
    TX_TRY(count(c, g, TX_COMM_SEND, x, r, &ends));
    if (ends) return TX_OK;
    *r = (tx_request){ .how = TX__SEND,
                       .what = TX_COMM_SEND,
                       .x = x.data,
                       .n = tx_numel(x),
                       .dtype = (int)x.dtype,
                       .peer = to,
                       .tag = tag };
    TX_TRY(tx__start(c, g, r));
    return tx_comm_poll(c, g);
}

/* Bytes that move while this one is waited for: all of its tensor, unless some have moved before. */
static double bytes_to_move(const tx_request *r)
{
    int64_t parts = r->how == TX__REDUCE_SCATTER || r->how == TX__ALL_GATHER ? r->g->size : 1;
    return r->published ? 0 : (double)(parts * r->n) * (double)tx__size_of(r->dtype);
}

/* Time since `start`, less what nothing moved in, into the rows of the group. */
static tx_status profile(const tx_comm *g, const char *op, double start, double bytes)
{
    tx_ctx *c = g->world->profiled;
    tx_model_place at = c->at;
    tx_cost wait = { .kind = TX_COST_WAITING }, move = { .kind = TX_COST_MESSAGES, .bytes = bytes };
    double idle = g->world->idle, all = tx_clock() - start;
    at.part = g->name;
    if (idle > 0) TX_TRY(tx_profile_add(c->profile, "waiting", &at, start, idle, &wait));
    return tx_profile_add(c->profile, op, &at, start + idle, all - idle, &move);
}

static tx_status wait_profiled(tx_request *r)
{
    const tx_comm *g = r->g;
    const char *op = tx__call_names[r->what];
    double start = tx_clock(), bytes = bytes_to_move(r);
    g->world->idle = 0;
    TX_TRY(tx__wait_for(r));
    return profile(g, op, start, bytes);
}

double tx_comm_waited(const tx_comm *g, tx_comm_op op)
{
    return g->waited[op] + (op == TX_COMM_SEND ? g->waited[TX__RECEIVE] : 0);
}

/* Of a call that has been waited for since `start`. */
static void tell_wait(const tx_request *r, double start)
{
    double waited = tx_clock() - start;
    int64_t parts = r->how == TX__REDUCE_SCATTER || r->how == TX__ALL_GATHER ? r->g->size : 1;
    char text[256];
    r->g->waited[r->what] += waited;
    if (!tx_log_wants(TX_LOG_TRACE)) return;
    tx__request_describe(text, sizeof text, r);
    tx_trace("communication: %s, %lld bytes, waited %.3f ms", text,
             (long long)(parts * r->n) * (long long)tx__size_of(r->dtype), 1e3 * waited);
}

tx_status tx_wait(tx_ctx *c, tx_request *r)
{
    tx_status st = TX_OK;
    if (!r->g) return tx_trace_wait(c, r);
    bool told = tx_log_wants(TX_LOG_DEBUG);
    double start = told ? tx_clock() : 0;
    if (!r->finished) st = r->g->world->profiled ? wait_profiled(r) : tx__wait_for(r);
    if (r->stage || r->flight) {
        tx_status end = r->stage ? tx__stage_end(r) : tx__flight_end(r);
        st = st ? st : end;
    }
    if (told && !st) tell_wait(r, start);
    *r = (tx_request){ 0 };
    return st;
}

tx_status tx_comm_poll(tx_ctx *c, tx_comm *g)
{
    if (!g->world || !g->kind || (c && c->dry)) return TX_OK;
    if (!g->world->profiled) return tx__progress(g->world);
    double start = tx_clock();
    g->world->idle = 0;
    TX_TRY(tx__progress(g->world));
    return profile(g, "moving on", start, 0);
}

void tx_world_profile(tx_world *w, tx_ctx *c)
{
    w->profiled = c;
}

/* ---- the same, waited for ---- */

tx_status tx_all_reduce(tx_ctx *c, tx_comm *g, tx_tensor x, tx_reduce op)
{
    tx_request r = { 0 };
    TX_TRY(all_reduce_start(c, g, x, op, &r));
    return tx_wait(c, &r);
}

tx_status tx_reduce_scatter(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x)
{
    tx_request r = { 0 };
    TX_TRY(tx_reduce_scatter_start(c, g, y, x, &r));
    return tx_wait(c, &r);
}

tx_status tx_all_gather(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x)
{
    tx_request r = { 0 };
    TX_TRY(tx_all_gather_start(c, g, y, x, &r));
    return tx_wait(c, &r);
}

tx_status tx_broadcast(tx_ctx *c, tx_comm *g, tx_tensor x, int root)
{
    tx_request r = { 0 };
    bool ends;
    TX_ASSERT(root >= 0 && root < g->size);
    TX_TRY(count(c, g, TX_COMM_BROADCAST, x, &r, &ends));
    if (ends) return tx_wait(c, &r);
    r = (tx_request){ .how = TX__BROADCAST,
                      .what = TX_COMM_BROADCAST,
                      .x = x.data,
                      .n = tx_numel(x),
                      .dtype = (int)x.dtype,
                      .peer = root };
    TX_TRY(tx__start(c, g, &r));
    return tx_wait(c, &r);
}

tx_status tx_recv_start(tx_ctx *c, tx_comm *g, tx_tensor x, int from, int tag, tx_request *r)
{
    TX_ASSERT(from >= 0 && from < g->size && from != g->rank && tag >= 0 && tag < 65536 && tx_is_contiguous(x));
    *r = (tx_request){ 0 };
    if (c && c->dry) return TX_OK;
    *r = (tx_request){ .how = TX__RECV,
                       .what = TX__RECEIVE,
                       .x = x.data,
                       .n = tx_numel(x),
                       .dtype = (int)x.dtype,
                       .peer = from,
                       .tag = tag };
    return tx__start(c, g, r);
}

tx_status tx_recv(tx_ctx *c, tx_comm *g, tx_tensor x, int from, int tag)
{
    tx_request r;
    TX_TRY(tx_recv_start(c, g, x, from, tag, &r));
    return tx_wait(c, &r);
}

int64_t tx__elements(const tx_request *r, const int64_t *rows, int n)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += rows[i];
    return sum * r->width;
}

/* Elements of a row. */
static int64_t width_of(tx_tensor x)
{
    int64_t n = 1;
    for (int i = 1; i < x.n_dims; i++) n *= x.dim[i];
    return n;
}

tx_status tx_all_to_all(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x, const tx_all_to_all_rows *rows)
{
    bool ends;
    tx_request r = { .how = TX__ALL_TO_ALL,
                     .what = TX_COMM_ALL_TO_ALL,
                     .x = x.data,
                     .y = y.data,
                     .send_rows = rows->send,
                     .recv_rows = rows->recv,
                     .width = width_of(x),
                     .dtype = (int)x.dtype };
    TX_ASSERT(x.dtype == y.dtype && width_of(y) == r.width && tx_is_contiguous(x) && tx_is_contiguous(y));
    TX_TRY(count_bytes(c, g, TX_COMM_ALL_TO_ALL, rows->all * r.width * (int64_t)tx_dtype_size(x.dtype), &r, &ends));
    if (c && c->dry) return tx_wait(c, &r);
    r.n = tx__elements(&r, rows->send, g->size);
    TX_ASSERT(r.n <= tx_numel(x) && tx__elements(&r, rows->recv, g->size) <= tx_numel(y));
    TX_ASSERT(rows->send[g->rank] == rows->recv[g->rank]);
    if (ends) return keep(c, g, y, tx_slice_rows(x, 0, rows->send[0]));
    TX_TRY(tx__start(c, g, &r));
    return tx_wait(c, &r);
}

/* ---- a few bytes, outside steps ---- */

static tx_status gather(tx_comm *g, void *all, const void *mine, size_t n, int what)
{
    if (!g->kind) { /* alone, or a plan: all are like this one */
        for (int i = 0; i < g->size && n; i++) memmove((unsigned char *)all + (size_t)i * n, mine, n);
        return TX_OK;
    }
    tx_request r = {
        .how = TX__ALL_GATHER, .what = what, .x = (void *)(uintptr_t)mine, .y = all, .n = (int64_t)n, .dtype = TX__BYTES
    };
    TX_TRY(tx__start(NULL, g, &r));
    return tx_wait(NULL, &r);
}

tx_status tx_comm_gather(tx_comm *g, void *all, const void *mine, size_t n)
{
    return gather(g, all, mine, n, TX__GATHER);
}

tx_status tx_comm_barrier(tx_comm *g)
{
    return gather(g, NULL, NULL, 0, TX__BARRIER);
}

tx_status tx_comm_spread(tx_comm *g, void *bytes, size_t n, int root)
{
    if (!g->kind) return TX_OK;
    tx_request r = {
        .how = TX__BROADCAST, .what = TX__SPREAD, .x = bytes, .n = (int64_t)n, .dtype = TX__BYTES, .peer = root
    };
    TX_TRY(tx__start(NULL, g, &r));
    return tx_wait(NULL, &r);
}

typedef struct verdict {
    int st;
    char text[1020];
} verdict;

tx_status tx_comm_agree(tx_comm *g, tx_status st)
{
    if (!g->kind) return st;
    verdict v = { .st = (int)st };
    if (st) strncpy(v.text, tx_last_error(), sizeof v.text - 1);
    const verdict own = v;
    int first = 0;
    tx_status told = gather(g, g->said, &v.st, sizeof v.st, TX__AGREE);
    while (!told && first < g->size && !g->said[first]) first++;
    if (!told && first == g->size) return TX_OK;
    if (!told) told = tx_comm_spread(g, &v, sizeof v, first);
    if (st) return told ? TX_FAIL_LINES(st, "%s", own.text) : st; /* others may have ended the job by it already */
    TX_TRY(told);
    return TX_FAIL_LINES(TX_ERR_COMM, "rank %d: %s", tx_comm_world_rank(g, first), v.text);
}
