/* cp.c - positions of ranks that divide a sample. */
#include "parallel/cp.h"

int64_t tx_cp_rows(const tx_grid *g, int64_t s)
{
    return s / tx_grid_size(g, TX_AXIS_CONTEXT);
}

/* Of rank `rank` of n that divide s positions. */
static tx_position_runs runs_of(bool zigzag, int64_t s, int n, int rank)
{
    int64_t rows = s / n, half = rows / 2;
    if (n == 1) return (tx_position_runs){ .first = 0 };
    if (!zigzag) return (tx_position_runs){ .first = rank * rows };
    int64_t first = rank * half, second = (2 * n - 1 - rank) * half;
    return (tx_position_runs){ .first = first, .turn = half, .jump = second - first - half };
}

tx_position_runs tx_cp_ring_positions_of(const tx_grid *g, int64_t s, int rank)
{
    int row = g->heads ? g->heads : 1;
    return runs_of(g->zigzag, s, tx_grid_size(g, TX_AXIS_CONTEXT) / row, rank);
}

tx_position_runs tx_cp_positions_of(const tx_grid *g, int64_t s, int rank)
{
    int64_t rows = tx_cp_rows(g, s);
    if (g->chunk && g->chunk < s && rows < s) {
        int64_t each = tx_cp_rows(g, g->chunk);
        return (tx_position_runs){ .first = rank * each, .turn = each, .jump = g->chunk - each, .each = each };
    }
    if (!g->heads) return tx_cp_ring_positions_of(g, s, rank);
    tx_position_runs all = tx_cp_ring_positions_of(g, s, rank / g->heads),
                     own = tx_positions_from(&all, rank % g->heads * rows);
    return own.turn < rows ? own : (tx_position_runs){ .first = own.first };
}

tx_position_runs tx_cp_positions(const tx_grid *g, int64_t s)
{
    return tx_cp_positions_of(g, s, tx_grid_rank(g, TX_AXIS_CONTEXT));
}
