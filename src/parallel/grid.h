/* grid.h - the three axes: which rank has which place, and the groups along them. Nothing else maps ranks to axes.
 *
 *      rank = tensor + t (data + r pipeline)      t, r, p ranks along the axes; t varies fastest, as in Megatron-LM
 *
 *      16 ranks, t = 2, p = 4, r = 2:     stage 0   | 0 1 | 2 3 |       tensor groups   [0 1] [2 3] ...
 *                                         stage 1   | 4 5 | 6 7 |       data groups     [0 2] [1 3] [4 6] ...
 *                                         stage 2   | 8 9 |10 11|       pipelines       [0 4 8 12] [1 5 9 13] ...
 *                                         stage 3   |12 13|14 15|
 *
 *  Source: megatron/core/parallel_state.py (initialize_model_parallel). */
#ifndef TX_PARALLEL_GRID_H
#define TX_PARALLEL_GRID_H

#include "comm/comm.h"
#include "config/config.h"

typedef struct tx_axis {
    int size, rank;
} tx_axis;

/* What a rank computes on. */
typedef struct tx_place_of_work {
    const char *backend; /* NULL: not chosen; whoever opens a context takes what it is told */
    int gpu;             /* which of those that the rank sees */
    int n_sharing;       /* ranks that have it, this one among them; 0: no GPU */
} tx_place_of_work;

typedef struct tx_grid {
    int rank, size; /* in the order above, which is the world's unless a client has another */
    tx_axis tp, pp, dp;
    bool sequence;  /* sequence parallelism: between layers a tensor-parallel rank holds s/t positions */
    tx_comm *world; /* all ranks, in that order */
    bool reordered; /* it is the grid's own */
    tx_comm *tensor, *pipeline, *data;
    tx_comm *model; /* all of tensor x pipeline with the same place on the data axis, tensor fastest */
    tx_place_of_work work;
    tx_comm *ends; /* first and last stage of a pipeline, for what both hold; of one for the stages between, or p = 1 */
} tx_grid;

/* The groups in which a step moves tensors, and their names. */
enum { TX_GROUP_TENSOR, TX_GROUP_PIPELINE, TX_GROUP_DATA, TX_GROUP_ENDS, TX_N_GROUPS };
extern const char *const tx_group_names[TX_N_GROUPS];
tx_comm *tx_grid_group(const tx_grid *g, int group);

/* Place of a rank; pure. */
void tx_grid_place(tx_grid *g, int rank, int tp, int pp, int dp);

/* Collective over the world: the groups of its ranks. tp and pp divide the world's size. `world` is the caller's and
 * outlives the grid. sequence is ignored where tp is 1. place: the one that this rank has chosen, NULL on all: the
 * order above. TX_ERR_ARG: the sizes do not divide the ranks, or what they have chosen is no grid. */
tx_status tx_grid_open(tx_grid *g, tx_world *world, int tp, int pp, bool sequence, const tx_rank_place *place);

/* The grid of one rank of a job that does not exist, for a dry run. */
tx_status tx_grid_plan(tx_grid *g, int rank, int tp, int pp, int dp, bool sequence);

void tx_grid_close(tx_grid *g); /* a zeroed one is fine */

/* grid_work.c, collective over the world: which GPU each rank takes (comm/deal_gpus.h), where `device` is --device's
 * "gpu", or "auto" and all ranks have one to take; else all compute on the CPU.   TX_ERR_NOTFOUND of "gpu": what is
 * missing on the rank that has none */
tx_status tx_grid_choose_work(tx_grid *g, enum tx_device_choice device);

/* A context on what the rank has chosen, and its calls of other ranks from GPU to GPU where that goes
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
