/* hosts_plan.c - what a call sends between hosts, by which way, and which ranks do it. */
#include <math.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "comm/reduce.h"

/* ---- what it costs ---- */

/* An unfinished sum is larger than the numbers where those have 16 bits. */
static double sum_bytes(tx_dtype t)
{
    return (double)tx_dtype_size(tx__sum_dtype(t)) / (double)tx_dtype_size(t);
}

static double flat_share(tx_comm_op op, tx_comm_hosts at)
{
    double n = at.size, others = n - at.most, share = at.most * others / n;
    switch (op) {
    case TX_COMM_ALL_REDUCE:
        return 2 * share;
    case TX_COMM_REDUCE_SCATTER:
    case TX_COMM_ALL_GATHER:
        return share;
    case TX_COMM_ALL_TO_ALL:
        return share / n;
    case TX_COMM_BROADCAST:
        return others;
    default:
        return 1;
    }
}

double tx_comm_crossing(tx_comm_op op, tx_dtype t, tx_comm_hosts at, bool by_hosts)
{
    if (at.hosts < 2) return 0;
    if (!by_hosts) return flat_share(op, at);
    switch (op) {
    case TX_COMM_ALL_REDUCE: /* the first host sends sums only, the last one results, those between both */
        return at.hosts == 2 ? fmax(sum_bytes(t), 1) : sum_bytes(t) + 1;
    case TX_COMM_REDUCE_SCATTER:
        return sum_bytes(t);
    case TX_COMM_ALL_GATHER:
        return (double)at.most / at.size * (at.hosts - 1);
    case TX_COMM_BROADCAST:
        return 1;
    default:
        return flat_share(op, at);
    }
}

bool tx_comm_goes_by_hosts(tx_comm_op op, tx_dtype t, tx_comm_hosts at, int64_t bytes)
{
    const int64_t least = 65536; /* for each host that it passes through: less is soon sent to everybody */
    bool sums = op == TX_COMM_ALL_REDUCE || op == TX_COMM_REDUCE_SCATTER;
    int passed = op == TX_COMM_ALL_GATHER ? 1 : at.hosts; /* a gather's parts go to all hosts at once */
    if (at.most < 2 || bytes < least * passed || (sums && at.scattered)) return false;
    return tx_comm_crossing(op, t, at, true) < tx_comm_crossing(op, t, at, false);
}

tx_comm_chain tx_comm_chain_of(tx_comm_op op, tx_comm_hosts at, double bytes)
{
    int up = at.hosts - 1, hops = op == TX_COMM_ALL_REDUCE       ? 2 * up
                                  : op == TX_COMM_REDUCE_SCATTER ? up + 1
                                  : op == TX_COMM_BROADCAST      ? up
                                                                 : 1;
    double least = (double)TX__LEAST_PIECE * at.most, most = (double)TX__PIECE * at.most;
    return (tx_comm_chain){ hops, fmin(bytes, fmin(fmax(bytes / TX__CHUNKS, least), most)) };
}

/* ---- who sits where ---- */

static void number_hosts(tx__host_map *m, const tx_comm *g)
{
    const tx_seat *seats = g->world->seats;
    int n = g->size;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < i && seats[g->world_rank[k]].host != seats[g->world_rank[i]].host) k++;
        m->host[i] = k < i ? m->host[k] : m->all.hosts++;
        m->index[i] = m->count[m->host[i]]++;
        m->all.scattered |= i > 0 && m->host[i] < m->host[i - 1];
        if (m->count[m->host[i]] > m->all.most) m->all.most = m->count[m->host[i]];
    }
    m->rank = g->rank;
    m->own = m->host[g->rank];
    for (int h = 1; h < m->all.hosts; h++) m->first[h] = m->first[h - 1] + m->count[h - 1];
    for (int i = 0; i < n; i++) m->member[m->first[m->host[i]] + m->index[i]] = i;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) m->ordinal[i] += (m->index[k] - m->index[i]) % m->count[m->own] == 0;
        m->n_held += (m->index[i] - m->index[g->rank]) % m->count[m->own] == 0;
    }
}

tx_status tx__host_map_open(tx__host_map *m, const tx_comm *g)
{
    int *all;
    *m = (tx__host_map){ .all.size = g->size };
    TX_TRY(tx_alloc(&all, (size_t)g->size, 6 * sizeof *all, "a group of ranks"));
    m->host = all;
    m->index = all + g->size;
    m->count = all + 2 * g->size;
    m->first = all + 3 * g->size;
    m->member = all + 4 * g->size;
    m->ordinal = all + 5 * g->size;
    number_hosts(m, g);
    return TX_OK;
}

void tx__host_map_close(tx__host_map *m)
{
    tx_free(m->host);
}

/* ---- who does what ---- */

static bool of_members(const tx_request *r)
{
    return r->how == TX__REDUCE_SCATTER || r->how == TX__ALL_GATHER;
}

/* Hosts that a broadcast has passed before this one. */
static int steps_from_root(const tx__host_map *m, const tx_request *r)
{
    return (m->own - m->host[r->peer] + m->all.hosts) % m->all.hosts;
}

int tx__n_pieces(const tx__host_map *m, const tx_request *r)
{
    return of_members(r) ? m->all.size : m->all.most;
}

int tx__deputy(const tx__host_map *m, const tx_request *r, int piece, int host)
{
    int k = of_members(r) ? m->index[piece] : piece;
    if (r->how == TX__BROADCAST && host == m->host[r->peer]) return r->peer;
    return m->member[m->first[host] + k % m->count[host]];
}

int tx__piece_ordinal(const tx__host_map *m, const tx_request *r, int piece)
{
    if (of_members(r)) return m->ordinal[piece];
    if (r->how == TX__BROADCAST && !steps_from_root(m, r)) return piece;
    return piece / m->count[m->own];
}

int tx__piece_source(const tx__host_map *m, const tx_request *r, int piece)
{
    int last = m->all.hosts - 1;
    switch (r->how) {
    case TX__ALL_REDUCE:
        return m->own < last ? tx__deputy(m, r, piece, m->own + 1) : -1;
    case TX__REDUCE_SCATTER:
        return piece == m->rank && m->own != last ? tx__deputy(m, r, piece, last) : -1;
    case TX__ALL_GATHER:
        return m->host[piece] != m->own ? piece : -1;
    default:
        return steps_from_root(m, r) ? tx__deputy(m, r, piece, (m->own + last) % m->all.hosts) : -1;
    }
}

int tx__piece_target(const tx__host_map *m, const tx_request *r, int piece)
{
    int last = m->all.hosts - 1;
    switch (r->how) {
    case TX__ALL_REDUCE:
        return m->own > 0 ? tx__deputy(m, r, piece, m->own - 1) : -1;
    case TX__REDUCE_SCATTER:
        return m->own == last && m->host[piece] != last ? piece : -1;
    case TX__ALL_GATHER:
        return -1;
    default:
        return steps_from_root(m, r) < last ? tx__deputy(m, r, piece, (m->own + 1) % m->all.hosts) : -1;
    }
}
