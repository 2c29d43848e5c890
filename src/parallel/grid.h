/* grid.h - the axes of a job: which rank has which place, and the groups along them. Nothing else maps ranks to axes.
 *
 *      rank = tensor + t (context + c (data + r pipeline))     t, c, r, p ranks along the axes; as in Megatron Core
 *
 *      16 ranks, t = 2, c = 1, p = 4, r = 2:   stage 0   | 0 1 | 2 3 |   tensor groups   [0 1] [2 3] ...
 *                                              stage 1   | 4 5 | 6 7 |   data groups     [0 2] [1 3] [4 6] ...
 *                                              stage 2   | 8 9 |10 11|   pipelines       [0 4 8 12] [1 5 9 13] ...
 *                                              stage 3   |12 13|14 15|
 *
 *  Ranks along CONTEXT divide the positions of each sample (cp.h); they and those along DATA have the same parameters.
 *  Axes and groups are the two tables below. A new axis is a row of the first one and rows of the second one for its
 *  groups; places, plans and groups are made by loops over the tables.
 *
 *  Experts have no axis of their own: e ranks in a row divide the experts of a layer among them. These are ranks along
 *  the data axis, and an expert's matrices are split over the tensor ranks as an MLP's; or, where experts are whole,
 *  any ranks of a stage, and the tensor ranks share the tokens:
 *
 *      the 8 ranks of a stage, t = 2, r = 4, e = 4
 *        split over tensor ranks   experts' ranks  [0 2 4 6] [1 3 5 7]    the same experts  [0] [1] [2] ...
 *        whole                                     [0 1 2 3] [4 5 6 7]                      [0 4] [1 5] [2 6] [3 7]
 *
 *  ZeRO++, MiCS and --onebit-worker-size cut the data-parallel ranks in rows, too, of near ones, which are meant to be
 * those of a host; ranks with the same place in their rows are far from each other. With MiCS the ranks of a row, those
 * of all tensor ranks and stages together, are a copy of the model:
 *
 *      the 8 data-parallel ranks, rows of 4     near  [0 1 2 3] [4 5 6 7]     far  [0 4] [1 5] [2 6] [3 7]
 *
 *  Source: megatron/core/parallel_state.py (initialize_model_parallel); DeepSpeed's deepspeed/utils/groups.py. */
#ifndef TX_PARALLEL_GRID_H
#define TX_PARALLEL_GRID_H

#include "comm/comm.h"
#include "config/config.h"

/* clang-format off */

/* The axes, in the order in which messages list them.
 *  word   in messages; also the axis's member of tx_rank_place (triax/world.h)
 *  order  how fast the axis varies with the rank: 0 is the fastest
 *  size   ranks along the axis, from the options; tx_grid_open takes for DATA what the other axes leave of the world */
/*    constant  word      order  size */
#define TX_AXES(X)                                                    \
    X(TENSOR,   tensor,   0,     cfg->tensor_model_parallel_size)     \
    X(PIPELINE, pipeline, 3,     cfg->pipeline_model_parallel_size)   \
    X(DATA,     data,     2,     tx_config_data_parallel(cfg))        \
    X(CONTEXT,  context,  1,     cfg->context_parallel_size)

/* clang-format on */

typedef enum tx_axis_kind {
#define X(constant, word, order, size) TX_AXIS_##constant,
    TX_AXES(X)
#undef X
        TX_N_AXES
} tx_axis_kind;

/* A set of axes. */
#define TX_ALONG(constant) (1u << TX_AXIS_##constant)
#define TX_ALONG_ALL       ((1u << TX_N_AXES) - 1)

/* Those along which ranks have the same parameters, those along which they work on the same samples, and those along
 * which experts are divided. */
#define TX_ALONG_SHARERS (TX_ALONG(DATA) | TX_ALONG(CONTEXT))
#define TX_ALONG_SAMPLES (TX_ALONG_ALL & ~TX_ALONG(DATA))
#define TX_ALONG_EXPERTS (TX_ALONG(TENSOR) | TX_ALONG_SHARERS)

/* clang-format off */

/* The groups: a rank is in a group with the ranks whose places differ from its own along the group's axes alone.
 *  name     in messages
 *  axes     along which places differ; of experts that tensor ranks split not TENSOR
 *  members  ALL of those ranks; or the two ENDS: the first and the last; a rank between them is in a group of one; or
 *           those IN_A_ROW; or those that have the same place in their rows, ACROSS them; or of ALL those whose places
 *           along DATA and CONTEXT are in one row, A_COPY; or ALL, of which there are groups only where ranks along
 *           CONTEXT divide samples, DIVIDED
 *  row      ranks of a row, a member of tx_layout; where that is 0 such groups are groups of one */
/*    constant  name                    axes                                    members    row */
#define TX_STEP_GROUPS(X) /* in which a step moves tensors */                                     \
    X(TENSOR,   "tensor-parallel",      TX_ALONG(TENSOR),                       ALL,       none)  \
    X(CONTEXT,  "context-parallel",     TX_ALONG(CONTEXT),                      ALL,       none)  \
    X(HEADS,    "context-parallel row", TX_ALONG(CONTEXT),                      IN_A_ROW,  heads) \
    X(RING,     "context-parallel ring", TX_ALONG(CONTEXT),                     ACROSS,    heads) \
    X(PIPELINE, "pipeline",             TX_ALONG(PIPELINE),                     ALL,       none)  \
    X(DATA,     "data-parallel",        TX_ALONG_SHARERS,                       ALL,       none)  \
    X(NEAR,     "near data-parallel",   TX_ALONG_SHARERS,                       IN_A_ROW,  near)  \
    X(FAR,      "far data-parallel",    TX_ALONG_SHARERS,                       ACROSS,    near)  \
    X(ENDS,     "first and last stage", TX_ALONG(PIPELINE),                     ENDS,      none)  \
    X(EXPERT,      "expert-parallel",      TX_ALONG_EXPERTS,                    IN_A_ROW,  expert) \
    X(EXPERT_DATA, "expert-data-parallel", TX_ALONG_EXPERTS,                    ACROSS,    expert)
#define TX_OTHER_GROUPS(X)                                                                        \
    X(MODEL,    "model-parallel",       TX_ALONG(TENSOR) | TX_ALONG(PIPELINE),  ALL,       none)  \
    X(SAMPLES,  "same-sample",          TX_ALONG_SAMPLES,                       DIVIDED,   none)  \
    X(COPY,     "model copy",           TX_ALONG_ALL,                           A_COPY,    copy)  \
    X(WORLD,    "world",                TX_ALONG_ALL,                           ALL,       none)

/* clang-format on */

typedef enum tx_group_kind {
#define X(constant, name, axes, members, row) TX_GROUP_##constant,
    TX_STEP_GROUPS(X) TX_OTHER_GROUPS(X)
#undef X
        TX_N_GROUPS,
    TX_N_STEP_GROUPS = TX_GROUP_MODEL
} tx_group_kind;
extern const char *const tx_group_names[TX_N_GROUPS];

/* How many ranks there are along each axis (0 is 1), and what else the options say of the division. */
typedef struct tx_layout {
    int size[TX_N_AXES];
    int none;      /* 0: the row of groups that have no rows */
    int near;      /* data-parallel ranks that are near each other; 0: there are no rows of them */
    int copy;      /* the same, where they have all of the training state (MiCS); else 0 */
    bool sequence; /* sequence parallelism; ignored where there is one tensor rank */
    int heads;     /* ranks along CONTEXT that exchange heads, where rows of them are in rings (a2a+p2p); else 0 */
    bool zigzag;   /* ranks along CONTEXT have two runs of positions each (cp.h), not one */
    int64_t chunk; /* positions that ranks along CONTEXT divide at a time, each a run of them (cp.h); 0: all at once */
    int expert;    /* ranks that divide a layer's experts; 0: every rank of a stage has all, split over tensor ranks */
    bool expert_tensor; /* tensor ranks split an expert's matrices, and do not share the tokens */
} tx_layout;
tx_layout tx_layout_of(const tx_config *cfg);

/* The rank that has a place, or -1: it is outside the layout.   @at [TX_N_AXES] */
int tx_layout_rank(const tx_layout *l, const int *at);

typedef struct tx_axis {
    int size, rank;
} tx_axis;

/* What a rank computes on. */
typedef struct tx_place_of_work {
    const char *backend; /* NULL: not chosen; a context takes its own argument */
    int gpu;             /* which of those that the rank sees */
    int n_sharing;       /* ranks that have it, this one among them; 0: no GPU */
} tx_place_of_work;

typedef struct tx_grid {
    int rank, size; /* in the order above, which is the world's unless the user has chosen other places */
    tx_axis axis[TX_N_AXES];
    tx_comm *group[TX_N_GROUPS];
    bool sequence;                 /* sequence parallelism: between layers a tensor-parallel rank holds s/t positions */
    bool zigzag;                   /* as the layout has it, */
    int64_t chunk;                 /* and this */
    int heads, near, copy, expert; /* as the layout has them */
    bool expert_tensor;
    bool reordered; /* the group WORLD is the grid's own */
    tx_place_of_work work;
} tx_grid;

/* Of the axes and groups above. */
static inline int tx_grid_size(const tx_grid *g, int axis)
{
    return g->axis[axis].size;
}
static inline int tx_grid_rank(const tx_grid *g, int axis)
{
    return g->axis[axis].rank;
}
static inline tx_comm *tx_grid_group(const tx_grid *g, int group)
{
    return g->group[group];
}

/* Place of a rank; pure. Groups are left as they are. */
void tx_grid_place(tx_grid *g, int rank, const tx_layout *layout);

/* The grid's sizes: of all its ranks. */
tx_layout tx_grid_layout(const tx_grid *g);

/* The ranks that work on this one's samples. */
static inline tx_comm *tx_grid_samples_group(const tx_grid *g)
{
    return tx_grid_group(g, tx_grid_size(g, TX_AXIS_CONTEXT) > 1 ? TX_GROUP_SAMPLES : TX_GROUP_MODEL);
}

/* How many ranks have this one's parameters: those along DATA and CONTEXT. */
static inline int tx_grid_sharers(const tx_grid *g)
{
    return tx_comm_size(g->group[TX_GROUP_DATA]);
}

/* The ranks that have the same experts' tensors, over which their gradients are summed: all data-parallel ones where
 * experts are not divided. */
static inline int tx_grid_expert_data(const tx_grid *g)
{
    return g->expert ? TX_GROUP_EXPERT_DATA : TX_GROUP_DATA;
}

/* Tensor ranks that each have a part of the tokens and whole experts, and which one this is. */
static inline tx_axis tx_grid_token_parts(const tx_grid *g)
{
    return g->expert && !g->expert_tensor ? g->axis[TX_AXIS_TENSOR] : (tx_axis){ 1, 0 };
}

/* "tensor 1, pipeline 0, data 3": the rank's place, in buf. */
enum { TX_PLACE_TEXT = 32 * TX_N_AXES };
const char *tx_grid_text(char buf[TX_PLACE_TEXT], const tx_grid *g);

/* Collective over the world: the groups of its ranks. The sizes of all axes but DATA divide the world's size. `world`
 * is the caller's and outlives the grid.   @place the place that this rank has chosen; NULL on all ranks: the order
 * above.   TX_ERR_ARG: the sizes do not divide the ranks, or the ranks of experts those of a stage, or the chosen
 * places are no grid */
tx_status tx_grid_open(tx_grid *g, tx_world *world, const tx_layout *layout, const tx_rank_place *place);

/* The grid of one rank of a job that does not exist, for a dry run. */
tx_status tx_grid_plan(tx_grid *g, int rank, const tx_layout *layout);

void tx_grid_close(tx_grid *g); /* a zeroed one is fine */

/* grid_work.c, collective over the world: which GPU each rank takes (comm/deal_gpus.h), where `device` is --device's
 * "gpu", or "auto" and all ranks have one to take; else all compute on the CPU.   TX_ERR_NOTFOUND of "gpu": what is
 * missing on the rank that has none */
tx_status tx_grid_choose_work(tx_grid *g, enum tx_device_choice device);

/* A context on what the rank has chosen, and its calls of other ranks from GPU to GPU where that is possible
 * (tx_world_use_device; `teams`: collective over the world, for the one context that a job's steps run in). The grid is
 * borrowed.   @device, @n_threads as tx_ctx_init's, the first for a grid that has not chosen */
tx_status tx_grid_ctx(tx_ctx *c, const tx_grid *g, const char *device, int n_threads, bool teams);

/* The context's; a context without a grid is a rank alone. */
extern const tx_grid tx_grid_alone;
static inline const tx_grid *tx_grid_of(const tx_ctx *c)
{
    return c->grid ? c->grid : &tx_grid_alone;
}

#endif
