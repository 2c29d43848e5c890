/* grid.c - places of ranks along the three axes, and the groups of those who share all places but one. */
#include "parallel/grid.h"

#include "base/alloc.h"

const char *const tx_group_names[TX_N_GROUPS] = { "tensor-parallel", "pipeline", "data-parallel",
                                                  "first and last stage" };

tx_comm *tx_grid_group(const tx_grid *g, int group)
{
    tx_comm *const all[TX_N_GROUPS] = { g->tensor, g->pipeline, g->data, g->ends };
    return all[group];
}

void tx_grid_place(tx_grid *g, int rank, int tp, int pp, int dp)
{
    g->rank = rank;
    g->size = tp * pp * dp;
    g->tp = (tx_axis){ .size = tp, .rank = rank % tp };
    g->dp = (tx_axis){ .size = dp, .rank = rank / tp % dp };
    g->pp = (tx_axis){ .size = pp, .rank = rank / (tp * dp) };
}

/* What a group is made from: members have a colour in common, and their order is that of their ranks. */
typedef struct group_spec {
    tx_comm **at;
    const char *name;
    int size, rank, color; /* size and rank of this rank's group, color < 0: in none */
} group_spec;

enum { N_GROUPS = 5 };

static void describe_groups(group_spec spec[N_GROUPS], tx_grid *g)
{
    const tx_axis tp = g->tp, pp = g->pp, dp = g->dp;
    bool last = pp.rank == pp.size - 1, end = pp.size > 1 && (pp.rank == 0 || last);
    spec[0] =
        (group_spec){ &g->tensor, tx_group_names[TX_GROUP_TENSOR], tp.size, tp.rank, dp.rank + dp.size * pp.rank };
    spec[1] = (group_spec){ &g->data, tx_group_names[TX_GROUP_DATA], dp.size, dp.rank, tp.rank + tp.size * pp.rank };
    spec[2] =
        (group_spec){ &g->pipeline, tx_group_names[TX_GROUP_PIPELINE], pp.size, pp.rank, tp.rank + tp.size * dp.rank };
    spec[3] = (group_spec){ &g->model, "model-parallel", tp.size * pp.size, tp.rank + tp.size * pp.rank, dp.rank };
    spec[4] = (group_spec){ &g->ends, tx_group_names[TX_GROUP_ENDS], end ? 2 : 1, end && last,
                            end ? tp.rank + tp.size * dp.rank : -1 };
}

/* Whether no rank of the job is with another in such a group: then nobody splits, and all do so together. */
static bool is_alone_everywhere(const group_spec *s, const tx_grid *g)
{
    return s->at == &g->ends ? g->pp.size == 1 : s->size == 1;
}

/* What a rank says of its place. */
typedef struct claim {
    bool has;
    tx_rank_place at;
} claim;

/* The rank that a place has along the axes, or -1. */
static int rank_at(const tx_rank_place *at, int tp, int pp, int dp)
{
    bool in =
        at->tensor >= 0 && at->tensor < tp && at->pipeline >= 0 && at->pipeline < pp && at->data >= 0 && at->data < dp;
    return in ? at->tensor + tp * (at->data + dp * at->pipeline) : -1;
}

/* All claims together are a grid.   @owner [n] room */
static tx_status check_claims(const claim *all, int n, int *owner, int tp, int pp)
{
    for (int i = 0; i < n; i++) owner[i] = -1;
    for (int i = 0; i < n; i++) {
        const tx_rank_place *at = &all[i].at;
        if (!all[i].has) return TX_FAIL(TX_ERR_ARG, "rank %d has no place of its own on the axes, and others have", i);
        int rank = rank_at(at, tp, pp, n / tp / pp);
        if (rank < 0)
            return TX_FAIL(TX_ERR_ARG, "rank %d says it is tensor %d, pipeline %d, data %d of %d x %d x %d ranks", i,
                           at->tensor, at->pipeline, at->data, tp, pp, n / tp / pp);
        if (owner[rank] >= 0)
            return TX_FAIL(TX_ERR_ARG, "ranks %d and %d both say they are tensor %d, pipeline %d, data %d", owner[rank],
                           i, at->tensor, at->pipeline, at->data);
        owner[rank] = i;
    }
    return TX_OK;
}

/* g->world in the order of the ranks' places, and this one's number there. */
static tx_status order_world(tx_grid *g, tx_world *world, int tp, int pp, const tx_rank_place *place, int *rank)
{
    tx_comm *parent = tx_world_comm(world);
    int n = tx_world_size(world), *owner = NULL;
    claim mine = { .has = place }, *all = NULL;
    bool any = false, moved = false;
    tx_status st;
    if (place) mine.at = *place;
    g->world = parent;
    *rank = tx_world_rank(world);
    TX_GOTO(tx_alloc(&all, (size_t)n, sizeof *all, "the ranks' places"));
    TX_GOTO(tx_alloc(&owner, (size_t)n, sizeof *owner, "the ranks' places"));
    TX_GOTO(tx_comm_gather(parent, all, &mine, sizeof mine));
    for (int i = 0; i < n; i++) any = any || all[i].has;
    if (!any) goto out;
    TX_GOTO(check_claims(all, n, owner, tp, pp));
    for (int i = 0; i < n; i++) moved = moved || owner[i] != i;
    *rank = rank_at(place, tp, pp, n / tp / pp);
    if (!moved) goto out;
    st = tx_comm_reorder(&g->world, parent, *rank, "world");
    g->reordered = !st;
out:
    tx_free(all);
    tx_free(owner);
    return st;
}

tx_status tx_grid_open(tx_grid *g, tx_world *world, int tp, int pp, bool sequence, const tx_rank_place *place)
{
    int rank;
    group_spec spec[N_GROUPS];
    int n = tx_world_size(world);
    tx_status st;
    *g = (tx_grid){ 0 };
    if (n % tp || n / tp % pp)
        return TX_FAIL(TX_ERR_ARG,
                       "world size (%d) is not divisible by tensor model parallel size (%d) times pipeline model "
                       "parallel size (%d)",
                       n, tp, pp);
    TX_GOTO(order_world(g, world, tp, pp, place, &rank));
    tx_grid_place(g, rank, tp, pp, n / tp / pp);
    g->sequence = sequence && tp > 1;
    describe_groups(spec, g);
    for (int i = 0; i < N_GROUPS; i++) {
        *spec[i].at = &tx_comm_self;
        if (!is_alone_everywhere(&spec[i], g))
            TX_GOTO(tx_comm_split(spec[i].at, g->world, spec[i].color, spec[i].name));
    }
    return TX_OK;
out:
    tx_grid_close(g);
    return st;
}

tx_status tx_grid_plan(tx_grid *g, int rank, int tp, int pp, int dp, bool sequence)
{
    group_spec spec[N_GROUPS];
    tx_status st;
    *g = (tx_grid){ 0 };
    tx_grid_place(g, rank, tp, pp, dp);
    g->sequence = sequence && tp > 1;
    TX_GOTO(tx_comm_plan(&g->world, g->size, rank, "world"));
    describe_groups(spec, g);
    for (int i = 0; i < N_GROUPS; i++) {
        *spec[i].at = &tx_comm_self;
        if (spec[i].size > 1) TX_GOTO(tx_comm_plan(spec[i].at, spec[i].size, spec[i].rank, spec[i].name));
    }
    return TX_OK;
out:
    tx_grid_close(g);
    return st;
}

static void close_own(tx_comm *group)
{
    if (group && group != &tx_comm_self) tx_comm_close(group);
}

void tx_grid_close(tx_grid *g)
{
    bool planned = g->world && g->world != &tx_comm_self && !tx_comm_world(g->world);
    close_own(g->tensor);
    close_own(g->data);
    close_own(g->pipeline);
    close_own(g->model);
    close_own(g->ends);
    if (planned || g->reordered) tx_comm_close(g->world);
    *g = (tx_grid){ 0 };
}

const tx_grid tx_grid_alone = {
    .size = 1,
    .tp = { .size = 1 },
    .pp = { .size = 1 },
    .dp = { .size = 1 },
    .world = &tx_comm_self,
    .tensor = &tx_comm_self,
    .pipeline = &tx_comm_self,
    .data = &tx_comm_self,
    .model = &tx_comm_self,
    .ends = &tx_comm_self,
};
