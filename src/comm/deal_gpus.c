/* deal_gpus.c - ranks and GPUs that are near each other: on one NUMA node, as the kernel tells of the PCI device, and
 * hwloc of the cores that a rank is bound to. */
#include "comm/deal_gpus.h"

#include <ctype.h>
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* The one with the fewest ranks, and fewer than `most`; -1.   @node -1: of all */
static int least(const int *load, const int *gpu_node, int n_gpus, int node, int most)
{
    int best = -1;
    for (int i = 0; i < n_gpus; i++)
        if ((node < 0 || gpu_node[i] == node) && load[i] < (best < 0 ? most : load[best])) best = i;
    return best;
}

void tx_deal_gpus(int *out, const int *rank_node, int n_ranks, const int *gpu_node, int n_gpus)
{
    int load[TX_GPU_MAX] = { 0 }, most = (n_ranks + n_gpus - 1) / n_gpus;
    TX_ASSERT(n_gpus > 0 && n_gpus <= TX_GPU_MAX);
    for (int r = 0; r < n_ranks; r++) {
        out[r] = rank_node[r] < 0 ? -1 : least(load, gpu_node, n_gpus, rank_node[r], most);
        if (out[r] >= 0) load[out[r]]++;
    }
    for (int r = 0; r < n_ranks; r++) {
        if (out[r] >= 0) continue;
        out[r] = least(load, gpu_node, n_gpus, -1, most); /* there is one: most * n_gpus are enough for all */
        load[out[r]]++;
    }
}

static int node_of_bus(const char *bus)
{
    char path[64];
    int node = -1;
    size_t n = (size_t)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus);
    for (size_t i = 0; i < n && i < sizeof path; i++) path[i] = (char)tolower((unsigned char)path[i]);
    FILE *f = bus[0] ? fopen(path, "r") : NULL;
    if (f && fscanf(f, "%d", &node) != 1) node = -1;
    if (f) fclose(f);
    return node;
}

/* Of the cores that this process may run on: -1 when they are of several. */
static int node_of_cores(void)
{
    hwloc_topology_t machine;
    int node = -1;
    if (hwloc_topology_init(&machine)) return -1;
    hwloc_bitmap_t cores = hwloc_bitmap_alloc(), nodes = hwloc_bitmap_alloc();
    if (cores && nodes && !hwloc_topology_load(machine) && !hwloc_get_cpubind(machine, cores, HWLOC_CPUBIND_PROCESS) &&
        !hwloc_cpuset_to_nodeset(machine, cores, nodes) && hwloc_bitmap_weight(nodes) == 1)
        node = hwloc_bitmap_first(nodes);
    hwloc_bitmap_free(cores);
    hwloc_bitmap_free(nodes);
    hwloc_topology_destroy(machine);
    return node;
}

/* What a rank tells the others. */
typedef struct card {
    int node, n, number;
    char bus[TX_GPU_MAX][16];
} card;

static bool same_view(const card *a, const card *b)
{
    return a->n == b->n && !memcmp(a->bus, b->bus, sizeof a->bus);
}

/* Among the ranks of its host.   @nodes, @out [ranks of the world] */
static int choose(tx_world *w, const card *all, const tx_gpu_info *gpus, int *nodes, int *out)
{
    const tx_seat *seat = tx_world_seat(w, tx_world_rank(w));
    const card *mine = &all[tx_world_rank(w)];
    int gpu_node[TX_GPU_MAX], n_ranks = 0;
    bool same = true;
    for (int r = 0; r < tx_world_size(w); r++) {
        if (tx_world_seat(w, r)->host != seat->host) continue;
        same = same && same_view(&all[r], mine);
        nodes[n_ranks++] = all[r].node;
    }
    if (!same) return seat->local_rank % mine->n;
    for (int i = 0; i < mine->n; i++) gpu_node[i] = node_of_bus(gpus[i].bus);
    tx_deal_gpus(out, nodes, n_ranks, gpu_node, mine->n);
    return out[seat->local_rank];
}

static bool takes_the_same(const tx_world *w, const card *a, const card *b, int rank_a, int rank_b)
{
    const char *x = a->bus[a->number], *y = b->bus[b->number];
    if (tx_world_seat(w, rank_a)->host != tx_world_seat(w, rank_b)->host || strcmp(x, y) != 0) return false;
    return x[0] || a->number == b->number;
}

tx_status tx_world_choose_gpu(tx_world *w, const tx_gpu_info *gpus, int n, int *number, int *shared)
{
    int size = tx_world_size(w), *nodes = NULL, *out = NULL;
    card *all = NULL, mine = { .node = node_of_cores(), .n = n };
    tx_status st;
    TX_ASSERT(n > 0 && n <= TX_GPU_MAX);
    for (int i = 0; i < n; i++) memcpy(mine.bus[i], gpus[i].bus, sizeof mine.bus[i]);
    TX_GOTO(tx_alloc(&all, (size_t)size, sizeof *all, "the ranks' GPUs"));
    TX_GOTO(tx_alloc(&nodes, (size_t)size, sizeof *nodes, "the ranks' GPUs"));
    TX_GOTO(tx_alloc(&out, (size_t)size, sizeof *out, "the ranks' GPUs"));
    TX_GOTO(tx_comm_gather(tx_world_comm(w), all, &mine, sizeof mine));
    mine.number = choose(w, all, gpus, nodes, out);
    TX_GOTO(tx_comm_gather(tx_world_comm(w), all, &mine, sizeof mine));
    *number = mine.number;
    *shared = 0;
    for (int r = 0; r < size; r++) *shared += takes_the_same(w, &all[r], &mine, r, tx_world_rank(w));
out:
    tx_free(all);
    tx_free(nodes);
    tx_free(out);
    return st;
}
