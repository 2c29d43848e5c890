/* starter.h - the command lines of MPI's starters: pure functions of what is to be started, but for the environment. */
#ifndef TX_LAUNCH_STARTER_H
#define TX_LAUNCH_STARTER_H

#include "launch/seats.h"
#include "launch/words.h"

/* A command and what it needs in its environment: "NAME=VALUE" sets, "NAME" removes. */
typedef struct tx_launch_command {
    tx_words words, env;
    const char *command; /* the sub-command that the ranks run, borrowed */
    bool ranks_below;    /* those of this host are its children, mpirun's, with a process group each */
} tx_launch_command;

void tx__start_free(tx_launch_command *s);

/* The program that every rank runs: triax itself, or for tests TX_LAUNCH_PROGRAM; with the sub-command and its flags.
 */
/* @slots slots.h's text, NULL: none were chosen */
tx_status tx__rank_words(tx_words *out, const char *slots, const tx_words *program);
tx_status tx__self_path(char *path, size_t cap);

/* What a launcher around this one has said of its own tasks is not so of the ranks. */
tx_status tx__forget_outer_launcher(tx_words *env);

/* The cores that this process may use are for all ranks of the host to divide: base/cores.h. */
tx_status tx__share_cores(tx_words *env);

/* One rank: the program alone. */
tx_status tx__start_direct(tx_launch_command *out, const char *slots, const tx_words *program);

typedef struct tx_mpirun {
    const tx_node_place *place;
    int n_places;
    const char *hostfile; /* NULL: the one place is this host */
    const char *agent;    /* what mpirun is to call in ssh's place */
    bool attached;        /* the agent lives as long as the daemon that it started */
    const char *args;     /* further flags of the user's, divided by blanks; NULL: none */
    const char *slots;
} tx_mpirun;

/* TX_ERR_NOTFOUND: there is no mpirun of Open MPI; TX_ERR_UNSUPPORTED: another version, and several hosts. */
tx_status tx__start_mpirun(tx_launch_command *out, const tx_mpirun *m, const tx_words *program);

typedef struct tx_srun {
    int n_nodes, n_per_node;
    const char *account, *comment; /* NULL: none */
    const char *nodes;             /* only these of the allocation, as --nodelist takes them; NULL: all */
    const char *args;
    const char *slots;
} tx_srun;

tx_status tx__start_srun(tx_launch_command *out, const tx_srun *s, const tx_words *program);

/* The hostfile for mpirun. */
tx_status tx__mpirun_hostfile(tx_str *out, const tx_node_place *place, int n);

/* The command as one would type it. */
tx_status tx__start_quote(tx_str *out, const tx_launch_command *s);

#endif
