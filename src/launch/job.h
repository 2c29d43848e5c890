/* job.h - what torchrun and deepspeed share besides the rendezvous. */
#ifndef TX_LAUNCH_JOB_H
#define TX_LAUNCH_JOB_H

#include "launch/supervise.h"

/* Makes n places with as many ranks each as `here`, which is number `at`; the others are named node0, node1, ... */
tx_status tx__places_guess(tx_node_place **out, int n, int at, const tx_node_place *here);
void tx__places_free(tx_node_place *place);

/* Logs the command as one would type it. */
tx_status tx__start_show(const tx_launch_command *s);

#endif
