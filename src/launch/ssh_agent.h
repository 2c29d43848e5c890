/* ssh_agent.h - runs ssh, or its replacement, for mpirun, so that an error names the host that failed. */
#ifndef TX_LAUNCH_SSH_AGENT_H
#define TX_LAUNCH_SSH_AGENT_H

#include "base/str.h"

/* The command for mpirun to call; `shell` is ssh and its flags. */
tx_status tx__ssh_agent_command(tx_str *out, const char *shell, int seconds);

/* argv: SECONDS N and N words of the shell, HOST, WORDS...   Runs the shell with the host and the words. *code is its
 * exit code, or 1 if it did not end in time. The error message names the host. */
tx_status tx__ssh_agent(int argc, char *const *argv, int *code);

#endif
