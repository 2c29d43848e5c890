/* cp.c - positions of ranks that divide a sample. */
#include "parallel/cp.h"

int64_t tx_cp_rows(const tx_grid *g, int64_t s)
{
    return s / tx_grid_size(g, TX_AXIS_CONTEXT);
}

tx_position_runs tx_cp_positions_of(const tx_grid *g, int64_t s, int rank)
{
    int c = tx_grid_size(g, TX_AXIS_CONTEXT);
    int64_t rows = s / c, half = rows / 2;
    if (c == 1) return (tx_position_runs){ .first = 0 };
    if (!g->zigzag) return (tx_position_runs){ .first = rank * rows };
    int64_t first = rank * half, second = (2 * c - 1 - rank) * half;
    return (tx_position_runs){ .first = first, .turn = half, .jump = second - first - half };
}

tx_position_runs tx_cp_positions(const tx_grid *g, int64_t s)
{
    return tx_cp_positions_of(g, s, tx_grid_rank(g, TX_AXIS_CONTEXT));
}
