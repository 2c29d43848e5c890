/* cmd.h - what the sub-commands share.
 *
 * Each sub-command is one file and one row of kinds/commands.h. They use only that and include/triax. */
#ifndef TX_CMD_H
#define TX_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kinds/commands.h"
#include "triax/config.h"

/* Runs a sub-command with parsed options. main reports a failure. */
typedef tx_status tx_cmd_fn(tx_config *cfg);

/* cmd_<run> of each row of kinds/commands.h. */
#define CMD_NONE(...)
#define CMD_JOB(constant, name, run, ...) tx_cmd_fn cmd_##run;
TX_COMMANDS(CMD_JOB, CMD_NONE, CMD_NONE)

/* The launchers. They take the arguments after `triax NAME` and return the program's exit code. */
int cmd_torchrun(int argc, char **argv);
int cmd_deepspeed(int argc, char **argv);
int cmd_launch_agent(int argc, char **argv);

/* What the launchers share; `run` is a function of triax/launch.h. */
typedef tx_status tx_launcher_fn(int argc, char *const *argv, int *code);
int cmd_launch(const char *name, tx_launcher_fn *run, int argc, char **argv);

/* script_name.c. cmd_script_name: the command that the name of a script or module stands for, in buf, or what was
 * typed. cmd_skip_python: how many arguments precede the script or module, argv[0] being python; 0: argv[0] is not
 * python; -1: no known script follows, which has been reported. */
const char *cmd_script_name(const char *typed, char *buf, size_t cap);
int cmd_skip_python(char **argv);

/* Replaces the one-letter flags of upstream's scripts by the long ones, in argv. */
void cmd_spell_out(const char *command, int argc, char **argv);

/* help.c; they print and return an exit code. */
bool cmd_asks_help(const char *arg); /* --help, -h */
bool cmd_is_command(const char *word);
int cmd_help(const char *name, const char *word); /* of a command, or only the flags that match `word` (or NULL); for
                                                   * a name that is no command, which commands have such flags */
int cmd_unknown(const char *name);                /* there is no such command */

/* terminal.c: whether standard error goes to a terminal, also through mpirun and an outer launcher, and the live line,
 * which the next line replaces. */
typedef struct cmd_terminal {
    int fd;     /* the terminal, for its width; -1: there is none, so no live line either */
    bool out;   /* the live line and the other lines go to standard output */
    bool shown; /* a live line is shown */
} cmd_terminal;
cmd_terminal cmd_terminal_find(bool output_is_data);
void cmd_terminal_live(cmd_terminal *t, const char *line);
void cmd_terminal_line(cmd_terminal *t, FILE *f, const char *line); /* one that stays, in the live line's place */
void cmd_terminal_end(cmd_terminal *t);

/* start_over.c: restarts the program with OpenMP's settings in its environment. argv is main's. */
bool cmd_started_over(void);
void cmd_start_over(const tx_config *cfg, bool computes, char **argv);

#endif
