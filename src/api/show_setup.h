/* show_setup.h - what a run logs of its engine before it starts. */
#ifndef TX_API_SHOW_SETUP_H
#define TX_API_SHOW_SETUP_H

#include "api/engine_internal.h"

/* Options, batch size, backend, ranks, how ZeRO divides, parameters and memory: into the log, in Megatron's order.
 * Collective. */
tx_status tx__show_setup(const tx_engine *e);

#endif
