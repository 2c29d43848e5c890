/* layer_tools.c - what user-defined layers may ask of the context that they are called with. */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "model/model.h"

bool tx_ctx_is_dry(const tx_ctx *c)
{
    return c->dry;
}

int tx_ctx_threads(const tx_ctx *c)
{
    return c->n_threads;
}

tx_tensor tx_ctx_push(tx_ctx *c, tx_dtype t, int n_dims, const int64_t *dim)
{
    tx_tensor x = tx_tensor_of(NULL, t, n_dims, dim);
    x.data = tx_arena_push(&c->acts, (size_t)tx_numel(x) * tx_dtype_size(t));
    return x;
}

size_t tx_ctx_mark(const tx_ctx *c)
{
    return tx_arena_mark(&c->acts);
}

void tx_ctx_pop(tx_ctx *c, size_t mark)
{
    tx_arena_pop(&c->acts, mark);
}

tx_status tx_ctx_read(tx_ctx *c, void *to, tx_tensor x)
{
    char text[64];
    if (!tx_is_contiguous(x))
        return TX_FAIL(TX_ERR_SHAPE, "%s that is not contiguous is not read", tx_tensor_describe(x, text, sizeof text));
    return c->dry ? TX_OK : tx_device_read(c->device, to, x.data, (size_t)tx_numel(x) * tx_dtype_size(x.dtype));
}

tx_dropout tx_layer_dropout(const tx_layer_call *k, const char *site, double p, int64_t s_global)
{
    char name[2 * TX_PARAM_NAME_MAX];
    const tx_dropout_key key = {
        .seed = k->seed, .iteration = k->step, .sample = k->sample, .s_global = s_global, .on = k->train
    };
    tx_dropout mask = tx_dropout_at(&key, p, 0, TX_DROP_EMBEDDING);
    snprintf(name, sizeof name, "%s.%s", k->name, site);
    mask.rng.stream = tx_rng_stream(name);
    return mask;
}

int tx_ctx_tensor_rank(const tx_ctx *c)
{
    return tx_grid_rank(tx_grid_of(c), TX_AXIS_TENSOR);
}

int tx_ctx_tensor_size(const tx_ctx *c)
{
    return tx_grid_size(tx_grid_of(c), TX_AXIS_TENSOR);
}

tx_status tx_ctx_tensor_sum(tx_ctx *c, tx_tensor x)
{
    return tx_ctx_tensor_size(c) > 1 ? tx_all_reduce(c, tx_grid_group(tx_grid_of(c), TX_GROUP_TENSOR), x, TX_SUM)
                                     : TX_OK;
}
