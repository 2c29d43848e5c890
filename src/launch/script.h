/* script.h - splits a launcher's command line into its own flags and what the ranks run. */
#ifndef TX_LAUNCH_SCRIPT_H
#define TX_LAUNCH_SCRIPT_H

#include <stdbool.h>

#include "config/config.h"
#include "launch/words.h"

/* The sub-command for a script: "pretrain-gpt" for "dir/pretrain_gpt.py" and for "pretrain-gpt" itself. NULL: there is
 * none. Static. */
const char *tx__script_command(const char *script);

/* Whether that sub-command handles SIGUSR1: a run saves and ends, a server finishes its requests. The signal ends the
 * other commands. */
bool tx__command_listens(const char *command);

/* Parses `command`'s own flags (also -H, -i, -e, -m, -r, -t, as in the upstream launchers) into a config whose
 * `script` is set, and puts the sub-command and everything after the script into *program. What follows the script is
 * not examined. TX_ERR_ARG: a flag is wrong, there is no script, or the script is not a sub-command (the message lists
 * them). */
tx_status tx__launch_parse(tx_config **cfg, tx_words *program, const char *command, int argc, char *const *argv);

#endif
