/* job.h - what torchrun and deepspeed have in common besides the rendezvous. */
#ifndef TX_LAUNCH_JOB_H
#define TX_LAUNCH_JOB_H

#include "launch/supervise.h"

/* n places, all with as many ranks as `here`, which is the at-th; the others are called node0, node1, ... */
tx_status tx__places_guess(tx_node_place **out, int n, int at, const tx_node_place *here);
void tx__places_free(tx_node_place *place);

/* The command as one would type it, in the log. */
tx_status tx__start_show(const tx_launch_command *s);

#endif
