/* replicas.c - hashes of what several ranks hold. Ranks say the names they have first, because those of two stages are
 * different ones. */
#include "nn/replicas.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"

/* One parameter of one rank. name 0: no parameter, or one that is not compared. */
typedef struct row {
    uint64_t name, value;
} row;

/* All ranks' rows, n of each. */
typedef struct rows {
    row *all;
    int n_ranks;
    int64_t n;
} rows;

static const row *find_on(const rows *r, int rank, uint64_t name)
{
    for (int64_t i = 0; i < r->n; i++)
        if (r->all[rank * r->n + i].name == name) return &r->all[rank * r->n + i];
    return NULL;
}

/* The first rank other than `rank` that has the name, or -1. */
static int other_with(const rows *r, int rank, uint64_t name)
{
    for (int k = 0; k < r->n_ranks; k++)
        if (k != rank && find_on(r, k, name)) return k;
    return -1;
}

/* r->n: the longest table's rows, all of them made on every rank; mine[i] has parameter i's name. */
static tx_status exchange_names(rows *r, row **mine, const tx_params *ps, const tx_replica *have, tx_comm *group,
                                tx_in_common what)
{
    int64_t own = ps->n, *n = NULL;
    r->n_ranks = tx_comm_size(group);
    tx_status st = tx_alloc(&n, (size_t)r->n_ranks, sizeof *n, "a list of ranks");
    TX_GOTO(tx_comm_agree(group, st));
    TX_GOTO(tx_comm_gather(group, n, &own, sizeof own));
    for (int k = 0; k < r->n_ranks; k++)
        if (n[k] > r->n) r->n = n[k];
    st = tx_alloc(mine, (size_t)r->n, sizeof **mine, "hashes of parameters");
    if (!st) st = tx_alloc(&r->all, (size_t)(r->n * r->n_ranks), sizeof *r->all, "hashes of parameters");
    TX_GOTO(tx_comm_agree(group, st));
    for (int i = 0; i < ps->n; i++) {
        const tx_param *p = &ps->param[i];
        if (have[i].has && (what == TX_BY_NAME || p->over_tp != TX_SPLIT))
            (*mine)[i].name = XXH3_64bits(p->name, strlen(p->name));
    }
    st = tx_comm_gather(group, r->all, *mine, (size_t)r->n * sizeof **mine);
out:
    tx_free(n);
    return st;
}

/* The parameter of that name on a rank that has it; elsewhere its name is not known. */
static tx_status report(const tx_params *ps, tx_comm *group, const row *first, int a, int b, int64_t more)
{
    char name[TX_PARAM_NAME_MAX] = "", others[48] = "";
    for (int i = 0; i < ps->n; i++)
        if (XXH3_64bits(ps->param[i].name, strlen(ps->param[i].name)) == first->name)
            memcpy(name, ps->param[i].name, sizeof name);
    TX_TRY(tx_comm_spread(group, name, sizeof name, a));
    if (more) snprintf(others, sizeof others, ", and so do %lld more tensors", (long long)more);
    return TX_FAIL(TX_ERR_NUMERIC,
                   "%s differs between %s ranks %d and %d (ranks %d and %d)%s: a fault of memory, network or program; "
                   "nothing was saved: go on from the last checkpoint",
                   name, tx_comm_name(group), a, b, tx_comm_world_rank(group, a), tx_comm_world_rank(group, b), others);
}

static tx_status compare(const tx_params *ps, const rows *r, tx_comm *group)
{
    const row *first = NULL;
    int a = 0, b = 0;
    int64_t n = 0;
    for (int k = 0; k < r->n_ranks; k++) {
        for (int64_t i = 0; i < r->n; i++) {
            const row *x = &r->all[k * r->n + i], *y = NULL;
            int other = k + 1;
            if (!x->name || other_with(r, k, x->name) < k) continue; /* the first rank with the name asks the others */
            for (; other < r->n_ranks; other++) {
                y = find_on(r, other, x->name);
                if (y && y->value != x->value) break;
            }
            if (other == r->n_ranks) continue;
            n++;
            if (first) continue;
            first = x;
            a = k;
            b = other;
        }
    }
    return first ? report(ps, group, first, a, b, n - 1) : TX_OK;
}

tx_status tx_replicas_compare(const tx_params *ps, const tx_replica *have, tx_comm *group, tx_in_common what)
{
    rows r = { 0 };
    row *mine = NULL;
    if (tx_comm_size(group) == 1) return TX_OK;
    tx_status st;
    TX_GOTO(exchange_names(&r, &mine, ps, have, group, what));
    for (int i = 0; i < ps->n; i++) mine[i].value = have[i].hash;
    TX_GOTO(tx_comm_gather(group, r.all, mine, (size_t)r.n * sizeof *mine));
    st = compare(ps, &r, group);
out:
    tx_free(mine);
    tx_free(r.all);
    return st;
}
