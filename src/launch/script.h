/* script.h - a launcher's command line in two: its own flags, and what the ranks run. */
#ifndef TX_LAUNCH_SCRIPT_H
#define TX_LAUNCH_SCRIPT_H

#include <stdbool.h>

#include "config/config.h"
#include "launch/words.h"

/* The sub-command that a script stands for: "pretrain-gpt" for "dir/pretrain_gpt.py" and for itself. NULL: there is
 * none. Static. */
const char *tx__script_command(const char *script);

/* Whether that sub-command ends orderly at SIGUSR1: runs save, a server finishes its requests. The others die of it. */
bool tx__command_listens(const char *command);

/* Takes `command`'s own flags (also -H, -i, -e, -m, -r, -t, as the upstream launchers have them) into a config whose
 * `script` is set, and puts the sub-command and everything after the script into *program. Nothing after the script
 * is looked at. TX_ERR_ARG: a flag is wrong; there is no script; it is no sub-command (the message lists them). */
tx_status tx__launch_parse(tx_config **cfg, tx_words *program, const char *command, int argc, char *const *argv);

#endif
