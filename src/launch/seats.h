/* seats.h - which rank sits where: hosts in the order of their ranks, and the cores of each. */
#ifndef TX_LAUNCH_SEATS_H
#define TX_LAUNCH_SEATS_H

#include "launch/hostfile.h"

typedef struct tx_place {
    char host[TX_HOST_NAME]; /* as people call it */
    char name[TX_HOST_NAME]; /* as mpirun calls it: another one where two nodes are one host */
    int n_ranks, n_cores;    /* n_cores 0: not known */
    char cores[1024];        /* of each rank, "0-1, 2-3"; "" not known; "..." at the end of one that is too long */
} tx_place;

/* This host's name, cores, and how n_ranks ranks divide them. */
tx_status tx__place_here(tx_place *out, int n_ranks);

/* How many GPUs this host shows (/dev/nvidia0, ...). */
int tx__gpus_here(void);

/* Gives each place a name of its own for mpirun: the host's, up to its first dot, or with "-nodeN" behind it. */
void tx__places_name(tx_place *place, int n);

bool tx__places_crowded(const tx_place *place, int n); /* somewhere are more ranks than cores */
int tx__places_ranks(const tx_place *place, int n);

/* One line of the log a place, "ranks 4-7   node1   cores 0-1, 2-3". */
void tx__places_show(const tx_place *place, int n);

#endif
