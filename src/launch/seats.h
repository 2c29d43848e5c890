/* seats.h - which rank runs where: hosts in the order of their ranks, and the cores of each rank. */
#ifndef TX_LAUNCH_SEATS_H
#define TX_LAUNCH_SEATS_H

#include "launch/hostfile.h"

typedef struct tx_node_place {
    char host[TX_HOST_NAME]; /* the host's usual name */
    char name[TX_HOST_NAME]; /* the name for mpirun; it differs if two nodes are on one host */
    int n_ranks, n_cores;    /* n_cores 0: unknown */
    char cores[1024];        /* of each rank, "0-1, 2-3"; "" unknown; ends in "..." if it was too long */
    char slots[256];         /* of each rank, "2,3", if the host has others, too; ends in "..." likewise */
} tx_node_place;

/* Fills in this host's name and cores, and how n_ranks ranks divide the cores. */
tx_status tx__place_here(tx_node_place *out, int n_ranks);

/* The same for ranks that have these slots of the host. */
tx_status tx__place_of_slots(tx_node_place *out, const tx_host *h);

/* How many GPUs this host has: NVIDIA's (/dev/nvidia0, ...), else AMD's that ROCR_VISIBLE_DEVICES allows;
 * TX_LAUNCH_GPUS for tests. */
int tx__gpus_here(void);

/* The variable that selects GPUs, "HIP_VISIBLE_DEVICES" or "CUDA_VISIBLE_DEVICES", and its value; NULL: neither is
 * set. HIP reads both, HIP_VISIBLE_DEVICES first. */
const char *tx__gpus_chosen(const char **list);

int tx__list_entries(const char *list); /* 3 of "0,2,3" */

/* Gives each place a unique name for mpirun: the host's, up to its first dot, with "-nodeN" appended if necessary. */
void tx__places_name(tx_node_place *place, int n);

bool tx__places_crowded(const tx_node_place *place, int n); /* some host has more ranks than cores */
int tx__places_ranks(const tx_node_place *place, int n);

/* Logs one line per place, "ranks 4-7   node1   cores 0-1, 2-3". */
void tx__places_show(const tx_node_place *place, int n);

#endif
