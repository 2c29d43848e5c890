/* deal_gpus.h - assigns the GPUs of a host to its ranks. */
#ifndef TX_COMM_DEAL_GPUS_H
#define TX_COMM_DEAL_GPUS_H

#include "backend/gpu_module.h"
#include "comm/comm.h"

/* Distributes the GPUs of a host as evenly as possible over its ranks 0 .. n_ranks-1. In order, each takes the GPU of
 * its own NUMA node that has the fewest ranks. A rank without a node, or without a free GPU there, then takes one of
 * those that are left.
 * @out [n_ranks]   @rank_node [n_ranks], @gpu_node [n_gpus] -1: unknown, or several */
void tx_deal_gpus(int *out, const int *rank_node, int n_ranks, const int *gpu_node, int n_gpus);

/* The same for the ranks of a world, each of which sees n > 0 GPUs. If ranks see different GPUs (a launcher has
 * assigned them), each takes the first one it sees, or the one of its own number. Collective.
 * @shared set to the number of ranks on its host, including itself, that share this rank's GPU */
tx_status tx_world_choose_gpu(tx_world *w, const tx_gpu_info *gpus, int n, int *number, int *shared);

#endif
