/* ssh_agent.h - ssh, or what stands for it, called in mpirun's place so that a host that fails is named. */
#ifndef TX_LAUNCH_SSH_AGENT_H
#define TX_LAUNCH_SSH_AGENT_H

#include "base/str.h"

/* What mpirun is told to call: `shell` is ssh and its flags. */
tx_status tx__ssh_agent_command(tx_str *out, const char *shell, int seconds);

/* argv: SECONDS N and N words of the shell, HOST, WORDS...   Runs the shell with all of them. *code: its exit code; 1
 * when it did not end in time. The failure's message names the host. */
tx_status tx__ssh_agent(int argc, char *const *argv, int *code);

#endif
