/* starter.h - builds the command lines of MPI's starters. These functions depend only on their arguments and the
 * environment. */
#ifndef TX_LAUNCH_STARTER_H
#define TX_LAUNCH_STARTER_H

#include "launch/seats.h"
#include "launch/words.h"

/* A command and its changes to the environment: "NAME=VALUE" sets a variable, "NAME" removes it. */
typedef struct tx_launch_command {
    tx_words words, env;
    const char *command;   /* the sub-command that the ranks run, borrowed */
    bool ranks_below;      /* the command is mpirun, and this host's ranks are its children, each with its own process
                            * group */
    const char *output[2]; /* files for its standard output and error, borrowed; NULL: those of this program */
} tx_launch_command;

void tx__start_free(tx_launch_command *s);

/* The program that every rank runs, with the sub-command and its flags: triax itself, or TX_LAUNCH_PROGRAM for
 * tests. */
/* @slots text of slots.h; NULL: no slots were selected */
tx_status tx__rank_words(tx_words *out, const char *slots, const tx_words *program);
tx_status tx__self_path(char *path, size_t cap);

/* Removes what an outer launcher has set in the environment about its own tasks, since it does not apply to the
 * ranks. */
tx_status tx__forget_outer_launcher(tx_words *env);

/* The ranks of the host divide the cores that this process may use: base/cores.h. */
tx_status tx__share_cores(tx_words *env);

/* One rank: runs the program directly. */
tx_status tx__start_direct(tx_launch_command *out, const char *slots, const tx_words *program);

typedef struct tx_mpirun {
    const tx_node_place *place;
    int n_places;
    const char *hostfile; /* NULL: the one place is this host */
    const char *agent;    /* what mpirun calls instead of ssh */
    bool attached;        /* the agent runs as long as the daemon that it started */
    const char *args;     /* additional flags from the user, separated by blanks; NULL: none */
    const char *slots;
} tx_mpirun;

/* TX_ERR_NOTFOUND: there is no Open MPI mpirun. TX_ERR_UNSUPPORTED: it is another version, and there are several
 * hosts. */
tx_status tx__start_mpirun(tx_launch_command *out, const tx_mpirun *m, const tx_words *program);

typedef struct tx_srun {
    int n_nodes, n_per_node;
    const char *account, *comment; /* NULL: none */
    const char *nodes;             /* only these of the allocation, as --nodelist takes them; NULL: all */
    const char *args;
    const char *slots;
} tx_srun;

tx_status tx__start_srun(tx_launch_command *out, const tx_srun *s, const tx_words *program);

/* Writes the hostfile for mpirun. */
tx_status tx__mpirun_hostfile(tx_str *out, const tx_node_place *place, int n);

/* Writes the command as one would type it. */
tx_status tx__start_quote(tx_str *out, const tx_launch_command *s);

#endif
