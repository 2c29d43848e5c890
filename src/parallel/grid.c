/* grid.c - places of ranks along the axes, and the groups of those whose places differ along some of them. */
#include "parallel/grid.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "config/config.h"

/* ---- the tables ---- */

static const char *const axis_word[TX_N_AXES] = {
#define X(constant, word, order, size) #word,
    TX_AXES(X)
#undef X
};

/* The axes from the one that varies fastest with the rank to the one that varies slowest. */
static const tx_axis_kind in_order[TX_N_AXES] = {
#define X(constant, word, order, size) [order] = TX_AXIS_##constant,
    TX_AXES(X)
#undef X
};

enum { ALL, ENDS, IN_A_ROW, ACROSS, A_COPY, DIVIDED };
static const struct {
    const char *name;
    unsigned axes;
    int members;
    size_t row; /* where in a layout its length stands */
} groups[TX_N_GROUPS] = {
#define X(constant, name, axes, members, row) { name, axes, members, offsetof(tx_layout, row) },
    TX_STEP_GROUPS(X) TX_OTHER_GROUPS(X)
#undef X
};

const char *const tx_group_names[TX_N_GROUPS] = {
#define X(constant, name, axes, members, row) name,
    TX_STEP_GROUPS(X) TX_OTHER_GROUPS(X)
#undef X
};

/* Data-parallel ranks of a row; 0: there are none. */
static int near_of(const tx_config *cfg)
{
    if (cfg->mics_shard_size > 0) return (int)cfg->mics_shard_size;
    int64_t n = cfg->onebit_worker_size > 1 ? cfg->onebit_worker_size : cfg->zero_hpz_partition_size;
    return n > 1 ? (int)n : 0;
}

tx_layout tx_layout_of(const tx_config *cfg)
{
    return (tx_layout){ .size = {
#define X(constant, word, order, size) (int)(size),
        TX_AXES(X)
#undef X
    }, .near = near_of(cfg),
       .copy = cfg->mics_shard_size > 0 ? (int)cfg->mics_shard_size : 0,
       .sequence = cfg->sequence_parallel,
       .heads = (int)tx_config_heads_ranks(cfg),
       .zigzag = tx_config_zigzag(cfg),
       .chunk = tx_config_chunking(cfg).positions,
       .expert = tx_config_divides_experts(cfg) ? (int)cfg->moe_expert_parallel_size : 0,
       .expert_tensor = tx_config_expert_tensor(cfg) };
}

const tx_grid tx_grid_alone = {
    .size = 1,
    .axis = {
#define X(constant, word, order, size) { 1, 0 },
        TX_AXES(X)
#undef X
    },
    .group = {
#define X(constant, name, axes, members, row) &tx_comm_self,
        TX_STEP_GROUPS(X) TX_OTHER_GROUPS(X)
#undef X
    },
};

/* ---- places ---- */

static int size_of(const tx_layout *l, tx_axis_kind axis)
{
    return l->size[axis] ? l->size[axis] : 1;
}

void tx_grid_place(tx_grid *g, int rank, const tx_layout *layout)
{
    int below = 1; /* ranks along the axes that vary faster */
    for (int i = 0; i < TX_N_AXES; i++) {
        tx_axis_kind axis = in_order[i];
        int n = size_of(layout, axis);
        g->axis[axis] = (tx_axis){ .size = n, .rank = rank / below % n };
        below *= n;
    }
    g->rank = rank;
    g->size = below;
    g->sequence = layout->sequence && tx_grid_size(g, TX_AXIS_TENSOR) > 1;
    g->heads = layout->heads;
    g->zigzag = layout->zigzag;
    g->chunk = layout->chunk;
    g->near = layout->near;
    g->copy = layout->copy;
    g->expert = layout->expert;
    g->expert_tensor = layout->expert_tensor;
}

tx_layout tx_grid_layout(const tx_grid *g)
{
    tx_layout l = { .heads = g->heads,
                    .near = g->near,
                    .copy = g->copy,
                    .sequence = g->sequence,
                    .zigzag = g->zigzag,
                    .chunk = g->chunk,
                    .expert = g->expert,
                    .expert_tensor = g->expert_tensor };
    for (int i = 0; i < TX_N_AXES; i++) l.size[i] = g->axis[i].size;
    return l;
}

/* A sequence that is not divided is not spoken of. */
static bool is_told(const tx_layout *l, int axis)
{
    return axis != TX_AXIS_CONTEXT || size_of(l, TX_AXIS_CONTEXT) > 1;
}

/* @at [TX_N_AXES] */
static const char *place_text(char buf[TX_PLACE_TEXT], const tx_layout *l, const int *at)
{
    int n = 0;
    for (int i = 0; i < TX_N_AXES; i++)
        if (is_told(l, i))
            n += snprintf(buf + n, (size_t)(TX_PLACE_TEXT - n), "%s%s %d", i ? ", " : "", axis_word[i], at[i]);
    return buf;
}

const char *tx_grid_text(char buf[TX_PLACE_TEXT], const tx_grid *g)
{
    const tx_layout l = tx_grid_layout(g);
    int at[TX_N_AXES];
    for (int i = 0; i < TX_N_AXES; i++) at[i] = g->axis[i].rank;
    return place_text(buf, &l, at);
}

int tx_layout_rank(const tx_layout *l, const int *at)
{
    int rank = 0, below = 1;
    for (int i = 0; i < TX_N_AXES; i++) {
        tx_axis_kind axis = in_order[i];
        int n = size_of(l, axis);
        if (at[axis] < 0 || at[axis] >= n) return -1;
        rank += below * at[axis];
        below *= n;
    }
    return rank;
}

/* What a rank says of its place. */
typedef struct claim {
    bool has;
    int at[TX_N_AXES];
} claim;

static claim claim_of(const tx_rank_place *place)
{
    if (!place) return (claim){ .has = false };
    return (claim){ .has = true,
                    .at = {
#define X(constant, word, order, size) place->word,
                        TX_AXES(X)
#undef X
                    } };
}

/* "2 x 1 x 4" */
static const char *sizes_text(char buf[TX_PLACE_TEXT], const tx_layout *l)
{
    int n = 0;
    for (int i = 0; i < TX_N_AXES; i++)
        if (is_told(l, i))
            n += snprintf(buf + n, (size_t)(TX_PLACE_TEXT - n), "%s%d", i ? " x " : "", size_of(l, (tx_axis_kind)i));
    return buf;
}

/* All claims together are a grid.   @owner [n] room */
static tx_status check_claims(const claim *all, int n, int *owner, const tx_layout *l)
{
    char at[TX_PLACE_TEXT], sizes[TX_PLACE_TEXT];
    for (int i = 0; i < n; i++) owner[i] = -1;
    for (int i = 0; i < n; i++) {
        if (!all[i].has) return TX_FAIL(TX_ERR_ARG, "rank %d has no place of its own on the axes, and others have", i);
        int rank = tx_layout_rank(l, all[i].at);
        place_text(at, l, all[i].at);
        if (rank < 0) return TX_FAIL(TX_ERR_ARG, "rank %d says it is %s of %s ranks", i, at, sizes_text(sizes, l));
        if (owner[rank] >= 0) return TX_FAIL(TX_ERR_ARG, "ranks %d and %d both say they are %s", owner[rank], i, at);
        owner[rank] = i;
    }
    return TX_OK;
}

/* The group WORLD in the order of the ranks' places, and this rank's number there. */
static tx_status order_world(tx_grid *g, tx_world *world, const tx_layout *l, const tx_rank_place *place, int *rank)
{
    tx_comm *parent = tx_world_comm(world);
    int n = tx_world_size(world), *owner = NULL;
    claim mine = claim_of(place), *all = NULL;
    bool any = false, moved = false;
    tx_status st;
    g->group[TX_GROUP_WORLD] = parent;
    *rank = tx_world_rank(world);
    TX_GOTO(tx_alloc(&all, (size_t)n, sizeof *all, "the ranks' places"));
    TX_GOTO(tx_alloc(&owner, (size_t)n, sizeof *owner, "the ranks' places"));
    TX_GOTO(tx_comm_gather(parent, all, &mine, sizeof mine));
    for (int i = 0; i < n; i++) any = any || all[i].has;
    if (!any) goto out;
    TX_GOTO(check_claims(all, n, owner, l));
    for (int i = 0; i < n; i++) moved = moved || owner[i] != i;
    *rank = tx_layout_rank(l, mine.at);
    if (!moved) goto out;
    st = tx_comm_reorder(&g->group[TX_GROUP_WORLD], parent, *rank, tx_group_names[TX_GROUP_WORLD]);
    g->reordered = !st;
out:
    tx_free(all);
    tx_free(owner);
    return st;
}

/* ---- groups ---- */

/* What a group is made from: its members have a colour in common, and are in the order of their ranks. */
typedef struct group_spec {
    int size, rank; /* of this rank's group */
    int color;      /* < 0: this rank is in none */
    bool alone;     /* in the whole job no rank is with another in such a group */
} group_spec;

/* This rank's number among the ranks whose places differ from its own along `axes` alone; *n: how many those are. */
static int number_along(const tx_grid *g, unsigned axes, int *n)
{
    int number = 0;
    *n = 1;
    for (int i = 0; i < TX_N_AXES; i++) {
        const tx_axis *axis = &g->axis[in_order[i]];
        if (!(axes & 1u << in_order[i])) continue;
        number += *n * axis->rank;
        *n *= axis->size;
    }
    return number;
}

/* The ranks whose places along DATA and CONTEXT together are in this rank's row; both vary next to each other. */
static group_spec describe_copy(const tx_grid *g, int row)
{
    int n, sharers, at = number_along(g, TX_ALONG_SHARERS, &sharers);
    tx_grid one = *g;
    one.axis[TX_AXIS_DATA] = (tx_axis){ .size = row, .rank = at % row };
    one.axis[TX_AXIS_CONTEXT] = (tx_axis){ .size = 1 };
    int number = number_along(&one, TX_ALONG_ALL, &n);
    return (group_spec){ n, number, at / row, n == 1 };
}

static group_spec describe_group(const tx_grid *g, int kind)
{
    const tx_layout l = tx_grid_layout(g);
    int n, n_colors, members = groups[kind].members, row;
    memcpy(&row, (const char *)&l + groups[kind].row, sizeof row);
    unsigned axes = groups[kind].axes;
    if (axes == TX_ALONG_EXPERTS && g->expert_tensor) axes = TX_ALONG_SHARERS;
    int number = number_along(g, axes, &n), color = number_along(g, TX_ALONG_ALL & ~axes, &n_colors);
    bool last = number == n - 1, end = n > 1 && (number == 0 || last);
    switch (members) {
    case ENDS:
        return (group_spec){ end ? 2 : 1, end && last, end ? color : -1, n == 1 };
    case IN_A_ROW:
        if (!row) return (group_spec){ 1, 0, -1, true };
        return (group_spec){ row, number % row, color + n_colors * (number / row), row == 1 };
    case ACROSS:
        if (!row) return (group_spec){ 1, 0, -1, true };
        return (group_spec){ n / row, number / row, color + n_colors * (number % row), n == row };
    case A_COPY:
        return row ? describe_copy(g, row) : (group_spec){ 1, 0, -1, true };
    case DIVIDED:
        if (tx_grid_size(g, TX_AXIS_CONTEXT) == 1) return (group_spec){ 1, 0, -1, true };
        return (group_spec){ n, number, color, n == 1 };
    default:
        return (group_spec){ n, number, color, n == 1 };
    }
}

/* Experts are divided over ranks of a stage, in rows of as many; near ranks are rows of the data-parallel ones. */
static tx_status fit_rows(const tx_layout *l)
{
    int t = size_of(l, TX_AXIS_TENSOR), r = size_of(l, TX_AXIS_DATA) * size_of(l, TX_AXIS_CONTEXT),
        n = l->expert_tensor ? r : t * r;
    if (l->near && r % l->near)
        return TX_FAIL(TX_ERR_ARG,
                       "rows of %d ranks (--zero-hpz-partition-size, --mics-shard-size, --onebit-worker-size) do not "
                       "divide the %d data-parallel ranks",
                       l->near, r);
    if (l->heads && size_of(l, TX_AXIS_CONTEXT) % l->heads)
        return TX_FAIL(TX_ERR_ARG,
                       "rows of %d ranks (--hierarchical-context-parallel-sizes) do not divide the %d "
                       "context-parallel ranks",
                       l->heads, size_of(l, TX_AXIS_CONTEXT));
    if (!l->expert || n % l->expert == 0) return TX_OK;
    return TX_FAIL(TX_ERR_ARG, "--moe-expert-parallel-size %d does not divide the %d %s ranks of a stage%s", l->expert,
                   n, l->expert_tensor || t == 1 ? "data-parallel" : "tensor- and data-parallel",
                   l->expert_tensor && t > 1 ? ": experts are split over tensor-parallel ones" : "");
}

/* All axes but DATA divide the world; the ranks that they leave are along DATA. */
static tx_status fit_layout(tx_layout *l, int n)
{
    tx_str text = { 0 };
    tx_status st = TX_OK;
    int others = 1;
    l->size[TX_AXIS_DATA] = 1;
    for (int i = 0; i < TX_N_AXES; i++) others *= size_of(l, (tx_axis_kind)i);
    l->size[TX_AXIS_DATA] = n / others;
    if (n % others == 0) return fit_rows(l);
    for (int i = 0; i < TX_N_AXES && !st; i++)
        if (i != TX_AXIS_DATA && is_told(l, i))
            st = tx_str_printf(&text, "%s%s model parallel size (%d)", i ? " times " : "", axis_word[i],
                               size_of(l, (tx_axis_kind)i));
    if (!st) st = TX_FAIL(TX_ERR_ARG, "world size (%d) is not divisible by %s", n, text.data);
    tx_str_free(&text);
    return st;
}

tx_status tx_grid_open(tx_grid *g, tx_world *world, const tx_layout *layout, const tx_rank_place *place)
{
    int rank;
    tx_layout l = *layout;
    tx_status st;
    *g = (tx_grid){ 0 };
    TX_TRY(fit_layout(&l, tx_world_size(world)));
    TX_GOTO(order_world(g, world, &l, place, &rank));
    tx_grid_place(g, rank, &l);
    for (int k = 0; k < TX_N_GROUPS; k++) {
        if (k == TX_GROUP_WORLD) continue;
        group_spec s = describe_group(g, k);
        g->group[k] = &tx_comm_self;
        if (!s.alone)
            TX_GOTO(tx_comm_split(&g->group[k], tx_grid_group(g, TX_GROUP_WORLD), s.color, tx_group_names[k]));
    }
    return TX_OK;
out:
    tx_grid_close(g);
    return st;
}

tx_status tx_grid_plan(tx_grid *g, int rank, const tx_layout *layout)
{
    tx_status st;
    *g = (tx_grid){ 0 };
    TX_TRY(fit_rows(layout));
    tx_grid_place(g, rank, layout);
    for (int k = 0; k < TX_N_GROUPS; k++) {
        group_spec s = describe_group(g, k);
        g->group[k] = &tx_comm_self;
        if (s.size > 1) TX_GOTO(tx_comm_plan(&g->group[k], s.size, s.rank, tx_group_names[k]));
    }
    return TX_OK;
out:
    tx_grid_close(g);
    return st;
}

void tx_grid_close(tx_grid *g)
{
    tx_comm *world = g->group[TX_GROUP_WORLD];
    bool planned = world && !tx_comm_world(world);
    for (int k = 0; k < TX_N_GROUPS; k++)
        if (k != TX_GROUP_WORLD || planned || g->reordered) tx_comm_close(g->group[k]);
    *g = (tx_grid){ 0 };
}
