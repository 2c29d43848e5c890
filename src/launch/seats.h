/* seats.h - which rank sits where: hosts in the order of their ranks, and the cores of each. */
#ifndef TX_LAUNCH_SEATS_H
#define TX_LAUNCH_SEATS_H

#include "launch/hostfile.h"

typedef struct tx_node_place {
    char host[TX_HOST_NAME]; /* as people call it */
    char name[TX_HOST_NAME]; /* as mpirun calls it: another one where two nodes are one host */
    int n_ranks, n_cores;    /* n_cores 0: not known */
    char cores[1024];        /* of each rank, "0-1, 2-3"; "" not known; "..." at the end of one that is too long */
    char slots[256];         /* of each rank, "2,3", where they are not all of the host's; "..." likewise */
} tx_node_place;

/* This host's name, cores, and how n_ranks ranks divide them. */
tx_status tx__place_here(tx_node_place *out, int n_ranks);

/* The same where its ranks have these slots of the host. */
tx_status tx__place_of_slots(tx_node_place *out, const tx_host *h);

/* How many GPUs this host shows: NVIDIA's (/dev/nvidia0, ...), else AMD's of which ROCR_VISIBLE_DEVICES leaves any; for
 * tests TX_LAUNCH_GPUS. */
int tx__gpus_here(void);

/* The variable that chooses among them, "HIP_VISIBLE_DEVICES" or "CUDA_VISIBLE_DEVICES", and what it says; NULL:
 * neither is set. HIP reads both, the former first. */
const char *tx__gpus_chosen(const char **list);

int tx__list_entries(const char *list); /* 3 of "0,2,3" */

/* Gives each place a name of its own for mpirun: the host's, up to its first dot, or with "-nodeN" after it. */
void tx__places_name(tx_node_place *place, int n);

bool tx__places_crowded(const tx_node_place *place, int n); /* somewhere are more ranks than cores */
int tx__places_ranks(const tx_node_place *place, int n);

/* One line of the log a place, "ranks 4-7   node1   cores 0-1, 2-3". */
void tx__places_show(const tx_node_place *place, int n);

#endif
