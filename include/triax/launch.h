/* launch.h - starts the ranks of a command, as `triax torchrun` and `triax deepspeed` do.
 *
 * Each function is a whole program in one call: it handles the signals and children of the process, and ends all its
 * children. */
#ifndef TRIAX_LAUNCH_H
#define TRIAX_LAUNCH_H

#include "triax/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the ranks of this node, together with the torchrun of each other node, and waits until they end. argv is the
 * command line after `triax torchrun`: flags, a script, the script's flags. *code is set to what the program should
 * exit with: the exit code of the first rank that failed, or 128 + a signal; 0 after --dry-run.
 * TX_ERR_ARG: a flag is wrong; nothing was started. TX_ERR_COMM: another node did not join or was lost. */
TX_API tx_status tx_torchrun(int argc, char *const *argv, int *code);

/* The same for `triax deepspeed`: the hosts come from a hostfile or a Slurm allocation. TX_ERR_ARG for --autotuning. */
TX_API tx_status tx_deepspeed(int argc, char *const *argv, int *code);

/* `triax deepspeed` with --autotuning as well: measures the layouts that are predicted to be fastest, writes what it
 * has found to autotuning_results, and after "run" trains in the best one. Without --autotuning the same as
 * tx_deepspeed. */
TX_API tx_status tx_autotune(int argc, char *const *argv, int *code);

/* What mpirun runs instead of ssh, and instead of the ranks that have slots of their own, when tx_torchrun or
 * tx_deepspeed started it. */
TX_API tx_status tx_launch_agent(int argc, char *const *argv, int *code);

#ifdef __cplusplus
}
#endif
#endif
