/* short_run.h - what a program needs that tries out a deepspeed command line: its parts, and short runs of it whose
 * output goes to files. */
#ifndef TX_LAUNCH_SHORT_RUN_H
#define TX_LAUNCH_SHORT_RUN_H

#include <stdbool.h>

#include "config/config.h"

/* A command line of `triax deepspeed`. */
typedef struct tx_deepspeed_line {
    tx_config *cfg; /* the launcher's own flags, with the script; owned */
    char **program; /* the sub-command that the script means, and the script's flags; owned */
    int n_program;
    int n_ranks, n_hosts; /* that would be started; looked for where --autotuning is given, else 0 */
} tx_deepspeed_line;

/* TX_ERR_ARG and others as tx_deepspeed. Free it, also after a failure. */
tx_status tx_deepspeed_line_read(tx_deepspeed_line *out, int argc, char *const *argv);
void tx_deepspeed_line_free(tx_deepspeed_line *l);

typedef struct tx_short_run {
    char *const *word; /* of triax: a command and its flags */
    int n;
    const char *out_path, *err_path; /* for standard output and error */
    int code;                        /* set: the exit code */
    int stopped;                     /* set: the stop signal (SIGINT, ...) that this program got meanwhile; 0: none */
} tx_short_run;

/* Runs it as a child, from its start to its end. A stop signal ends it and all that it has started. */
tx_status tx_short_run_do(tx_short_run *t);

/* The command line as one would type it. */
tx_status tx_short_run_text(tx_str *out, char *const *word, int n);

#endif
