/* cmd.h - what the sub-commands share. Each is one file and one row of kinds/commands.h; they use
 * that and include/triax alone. */
#ifndef TX_CMD_H
#define TX_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "kinds/commands.h"
#include "triax/config.h"

/* Runs a sub-command with parsed options; a failure is reported by main. */
typedef tx_status tx_cmd_fn(tx_config *cfg);

/* cmd_<run> of each row of kinds/commands.h. */
#define CMD_NONE(...)
#define CMD_JOB(constant, name, run, ...) tx_cmd_fn cmd_##run;
TX_COMMANDS(CMD_JOB, CMD_NONE, CMD_NONE)

/* The launchers: the arguments after `triax NAME`; the program's exit code. */
int cmd_torchrun(int argc, char **argv);
int cmd_deepspeed(int argc, char **argv);
int cmd_launch_agent(int argc, char **argv);

/* What those have in common. run is one of triax/launch.h. */
typedef tx_status tx_launcher_fn(int argc, char *const *argv, int *code);
int cmd_launch(const char *name, tx_launcher_fn *run, int argc, char **argv);

/* script_name.c: the command that a script's or module's name stands for, in buf, or what was typed; how many words
 * stand before a script or module that python is to run, argv[0] being python (0: it is not; -1: nothing follows that
 * is known here, and that was printed). */
const char *cmd_script_name(const char *typed, char *buf, size_t cap);
int cmd_skip_python(char **argv);

/* Flags of one letter that scripts have, as the long ones, in argv. */
void cmd_spell_out(const char *command, int argc, char **argv);

/* help.c; they print and return an exit code. */
bool cmd_asks_help(const char *arg); /* --help, -h */
bool cmd_is_command(const char *word);
int cmd_help(const char *name, const char *word); /* of a command, with a word (or NULL) of flags that have it; of what
                                                   * is no command: which commands have flags for that */
int cmd_unknown(const char *name);                /* there is no such command */

/* terminal.c: whether standard error comes to a terminal, also by way of mpirun and a launcher around it, and the live
 * line that then stands there until the next one. */
typedef struct cmd_terminal {
    int fd;     /* the terminal, for its width; -1: there is none, and no live line */
    bool out;   /* the live line and the lines between which it stands go to standard output */
    bool shown; /* one stands there */
} cmd_terminal;
cmd_terminal cmd_terminal_find(bool output_is_data);
void cmd_terminal_live(cmd_terminal *t, const char *line);
void cmd_terminal_line(cmd_terminal *t, FILE *f, const char *line); /* one that stays, in the live line's place */
void cmd_terminal_end(cmd_terminal *t);

/* start_over.c: the program from its beginning, with what OpenMP is to know in its environment. argv is main's. */
bool cmd_started_over(void);
void cmd_start_over(const tx_config *cfg, bool computes, char **argv);

#endif
