/* gpus.h - what a run says of the GPUs that it computes on. */
#ifndef TX_API_GPUS_H
#define TX_API_GPUS_H

#include "parallel/grid.h"

/* What in the environment hides GPUs, or is asked of their libraries, a line each.   @indent before each line */
void tx_gpus_environment(const char *indent);

/* "GPU 3, NVIDIA H200, 0000:19:00.0, shared by 2 ranks"; "" for the host.   @n_sharing 0 or 1: it is the rank's own */
void tx_gpu_text(char *out, size_t cap, const tx_device *d, int n_sharing);

/* How each group of the grid moves tensors of the GPUs. */
void tx_gpus_show_groups(const tx_grid *g);

#endif
