/* cp.h - context parallelism: which positions of a sample a rank has, where c of them divide it (TX_AXIS_CONTEXT).
 *
 *      c = 2, s = 8      in a row (Ulysses)   [0 1 2 3]  [4 5 6 7]
 *                        halves (ring)        [0 1 . . . . 6 7]  [2 3 4 5]      of 2c equal runs r and 2c - 1 - r
 *                        chunks (FPDT)        [0 1 4 5]  [2 3 6 7]      of each chunk of 4, in a row
 *
 *  With a2a+p2p the rings' ranks are rows of those that exchange heads: a row has the positions that a rank of a ring
 * has, and its ranks divide these in a row.
 *  With halves all ranks compute as much of causal attention. All other layers work on a rank's own positions and do
 * not know where these are; who needs them asks tx_cp_positions: dropout, rotary positions, attention
 * (nn/context_attention.h).
 * --sequence-parallel cuts a rank's own positions again (tp.h).
 *  Source: megatron/core/utils.py (get_batch_on_this_cp_rank); DeepSpeed Ulysses arXiv:2309.14509. */
#ifndef TX_PARALLEL_CP_H
#define TX_PARALLEL_CP_H

#include "backend/ops.h"
#include "parallel/grid.h"

/* How many of a sample's s positions a rank has. */
int64_t tx_cp_rows(const tx_grid *g, int64_t s);

/* Which ones: those of rank `rank` along the axis, and this one's. */
tx_position_runs tx_cp_positions_of(const tx_grid *g, int64_t s, int rank);
tx_position_runs tx_cp_positions(const tx_grid *g, int64_t s);

/* Those of a rank of a ring: its row's, all together. */
tx_position_runs tx_cp_ring_positions_of(const tx_grid *g, int64_t s, int rank);

/* The ranks that exchange heads, and those of the ring: both are all of the axis, but for a2a+p2p. */
static inline tx_comm *tx_cp_heads_group(const tx_grid *g)
{
    return tx_grid_group(g, g->heads ? TX_GROUP_HEADS : TX_GROUP_CONTEXT);
}
static inline tx_comm *tx_cp_ring_group(const tx_grid *g)
{
    return tx_grid_group(g, g->heads ? TX_GROUP_RING : TX_GROUP_CONTEXT);
}

#endif
