/* kept_input.c - inputs of layers that are computed again, in parts or in the host's memory. */
#include "nn/kept_input.h"

#include "backend/ops.h"

/* For tx_at_part. */
#define INPUT "kept input"

bool tx_inputs_move(const tx_recompute *how)
{
    return how->divided || how->in_host;
}

/* What of x this rank keeps. */
static tx_tensor part_of(const tx_ctx *c, const tx_recompute *how, tx_tensor x)
{
    const tx_axis *tp = &tx_grid_of(c)->axis[TX_AXIS_TENSOR];
    int64_t n = tx_numel(x) / tp->size;
    if (!how->divided) return tx_slice1(x, 0, tx_numel(x));
    TX_ASSERT(n * tp->size == tx_numel(x));
    return tx_slice1(x, tp->rank * n, n);
}

static void settle(tx_ctx *c, tx_tensor kept)
{
    tx_arena_settle(&c->host, kept.data, (size_t)tx_numel(kept) * tx_dtype_size(kept.dtype));
}

tx_status tx_keep_input(tx_ctx *c, const tx_recompute *how, tx_tensor *kept, tx_tensor x)
{
    *kept = x;
    if (!tx_inputs_move(how)) return TX_OK;
    tx_tensor part = part_of(c, how, x);
    *kept = tx_push1(how->in_host ? &c->host : &c->acts, x.dtype, tx_numel(part));
    tx_at_part(c, INPUT);
    TX_RUN(c, copy, .y = *kept, .x = part);
    if (how->in_host) settle(c, *kept);
    return TX_OK;
}

tx_status tx_fetch_input(tx_ctx *c, const tx_recompute *how, tx_tensor x, tx_tensor kept)
{
    tx_tensor part = part_of(c, how, x);
    tx_at_part(c, INPUT);
    if (how->in_host) { /* ranks reach each other's part in the device's memory only */
        TX_RUN(c, copy, .y = part, .x = kept);
        settle(c, kept);
        kept = part;
    }
    if (!how->divided) return TX_OK;
    return tx_all_gather(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), tx_slice1(x, 0, tx_numel(x)), kept);
}
