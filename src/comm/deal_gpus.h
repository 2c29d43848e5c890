/* deal_gpus.h - which of a host's GPUs each of its ranks takes. */
#ifndef TX_COMM_DEAL_GPUS_H
#define TX_COMM_DEAL_GPUS_H

#include "backend/gpu_module.h"
#include "comm/comm.h"

/* Ranks 0 .. n_ranks-1 of a host get its GPUs, as evenly as it goes: in their order each takes one of its own NUMA node
 * that has the fewest ranks; who has no node, or finds none free there, then takes from those that are left.
 *  @out [n_ranks]   @rank_node [n_ranks], @gpu_node [n_gpus] -1: not known, or several */
void tx_deal_gpus(int *out, const int *rank_node, int n_ranks, const int *gpu_node, int n_gpus);

/* The same for the ranks of a world, each of which sees n GPUs, n > 0. Ranks that see different ones (a launcher has
 * given each its own) take the first of theirs, or that of their number. Collective.   @shared with how many ranks of
 * its host, itself among them, this rank shares the GPU */
tx_status tx_world_choose_gpu(tx_world *w, const tx_gpu_info *gpus, int n, int *number, int *shared);

#endif
