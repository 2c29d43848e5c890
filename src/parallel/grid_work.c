/* grid_work.c - what the ranks of a grid compute on. */
#include <string.h>

#include "backend/backend.h"
#include "backend/gpu_module.h"
#include "base/alloc.h"
#include "base/log.h"
#include "comm/deal_gpus.h"
#include "config/config.h"
#include "parallel/grid.h"

static tx_status list_gpus(tx_gpu_info *gpus, int *n)
{
    const tx_gpu_module *m;
    *n = 0;
    TX_TRY(tx_gpu_module_get(&m));
    return m->list(gpus, n);
}

/* Whether all ranks have one. The first rank that has none is reported, once. */
static tx_status all_have(const tx_grid *g, bool mine, bool *out)
{
    bool *all;
    int without = -1;
    TX_TRY(tx_alloc(&all, (size_t)g->size, sizeof *all, "the ranks' GPUs"));
    tx_status st = tx_comm_gather(tx_grid_group(g, TX_GROUP_WORLD), all, &mine, sizeof mine);
    int n = 0;
    for (int i = 0; i < g->size && !st; i++) {
        n += all[i];
        if (!all[i] && without < 0) without = i;
    }
    *out = n == g->size;
    if (!st && n && !*out && !g->rank)
        tx_warn("rank %d on host %s has no GPU to use, %d of %d ranks have one: all compute on the CPU (--device gpu "
                "says what is missing there)",
                without,
                tx_world_seat(tx_comm_world(tx_grid_group(g, TX_GROUP_WORLD)),
                              tx_comm_world_rank(tx_grid_group(g, TX_GROUP_WORLD), without))
                    ->host_name,
                n, g->size);
    tx_free(all);
    return st;
}

tx_status tx_grid_choose_work(tx_grid *g, enum tx_device_choice device)
{
    tx_gpu_info gpus[TX_GPU_MAX];
    int n = 0;
    bool is_auto = device == TX_DEVICE_AUTO, all = true;
    if (device == TX_DEVICE_CPU || device == TX_DEVICE_REF) return TX_OK;
    tx_status st = list_gpus(gpus, &n);
    if (is_auto)
        TX_TRY(all_have(g, !st, &all));
    else
        TX_TRY(tx_comm_agree(tx_grid_group(g, TX_GROUP_WORLD), st));
    g->work.backend = all ? "gpu" : "cpu";
    return all ? tx_world_choose_gpu(tx_comm_world(tx_grid_group(g, TX_GROUP_WORLD)), gpus, n, &g->work.gpu,
                                     &g->work.n_sharing)
               : TX_OK;
}

tx_status tx_grid_ctx(tx_ctx *c, const tx_grid *g, const char *device, int n_threads, bool teams)
{
    tx_world *w = tx_comm_world(tx_grid_group(g, TX_GROUP_WORLD));
    TX_TRY(tx_ctx_init_on(c, g->work.backend ? g->work.backend : device, n_threads, g->work.gpu));
    c->grid = g;
    return teams && w && c->device ? tx_world_use_device(w, c->device) : TX_OK;
}
