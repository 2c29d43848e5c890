/* launch.h - starting the ranks of a command, as `triax torchrun` and `triax deepspeed` do. Whole programs in one call:
 * they watch signals and children of the process, and end all of its children. */
#ifndef TRIAX_LAUNCH_H
#define TRIAX_LAUNCH_H

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts ranks on this node, with the torchruns of other nodes, and waits for their end. argv is a command line after
 * `triax torchrun`: flags, a script, the script's flags. *code becomes what the program should exit with: that of the
 * first rank that failed, or 128 + a signal; 0 after --dry-run.
 * TX_ERR_ARG: flags are wrong, nothing was started. TX_ERR_COMM: another node did not come, or was lost. */
TX_API tx_status tx_torchrun(int argc, char *const *argv, int *code);

/* The same for `triax deepspeed`: hosts come from a hostfile or a Slurm allocation. */
TX_API tx_status tx_deepspeed(int argc, char *const *argv, int *code);

/* What mpirun calls in the place of ssh, and of ranks that have slots of their own, when those two have started it. */
TX_API tx_status tx_launch_agent(int argc, char *const *argv, int *code);

#ifdef __cplusplus
}
#endif
#endif
