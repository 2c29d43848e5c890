/* tp.c - f and g, and nothing else. */
#include "parallel/tp.h"

bool tx_tp_is_whole(const tx_ctx *c)
{
    const tx_grid *g = tx_grid_of(c);
    return !g->sequence || tx_grid_size(g, TX_AXIS_TENSOR) == 1;
}

int64_t tx_tp_positions(const tx_ctx *c, int64_t s)
{
    return tx_tp_is_whole(c) ? s : s / tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR);
}

int64_t tx_tp_first_position(const tx_ctx *c, int64_t s)
{
    return tx_tp_is_whole(c)
               ? 0
               : s / tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR) * tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR);
}

tx_tensor tx_tp_room(tx_ctx *c, tx_arena *a, tx_tensor x)
{
    if (tx_tp_is_whole(c)) return x;
    int64_t t = tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR);
    return x.n_dims == 2 ? tx_push2(a, x.dtype, t * x.dim[0], x.dim[1])
                         : tx_push3(a, x.dtype, t * x.dim[0], x.dim[1], x.dim[2]);
}

/* By their sizes: in a dry run tensors of two arenas may have one address. */
static bool is_same(tx_tensor whole, tx_tensor x)
{
    return tx_numel(whole) == tx_numel(x);
}

tx_status tx_tp_gather(tx_ctx *c, tx_tensor whole, tx_tensor x)
{
    if (is_same(whole, x)) return TX_OK;
    return tx_all_gather(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), whole, x);
}

tx_status tx_tp_sum(tx_ctx *c, tx_tensor x, tx_tensor whole)
{
    if (is_same(whole, x)) return tx_all_reduce(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), x, TX_SUM);
    return tx_reduce_scatter(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), x, whole);
}

tx_status tx_tp_exchange(tx_ctx *c, tx_tensor all, tx_tensor mine)
{
    return tx_all_gather(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), all, mine);
}
