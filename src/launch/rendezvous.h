/* rendezvous.h - how the torchruns of several nodes find each other and start a job, without ssh.
 *
 *      node 0 (leads)                                node k (joins)
 *      listens on the port                           retries to connect until the timeout
 *                         <- proof of the key ->     wire.h
 *                         <- HELLO                   its number, host, cores, ranks, and a digest of what it is to run
 *      all are connected  WELCOME ->                 checks that it has the program and the folder
 *                         <- READY
 *      runs mpirun; that calls `triax launch-agent SOCKET node-k orted ...`, which forwards the command
 *                         RUN ->                     checks every word, runs orted (orted_words.h)
 *                         <- EXITED
 *      mpirun's end       END ->                     ends with the same exit code
 *
 *  A side that loses the other ends what it runs. Keepalives detect a lost connection within 14 seconds. */
#ifndef TX_LAUNCH_RENDEZVOUS_H
#define TX_LAUNCH_RENDEZVOUS_H

#include "launch/launch_key.h"
#include "launch/link.h"
#include "launch/seats.h"
#include "launch/supervise.h"

typedef struct tx_meeting {
    char host[TX_HOST_NAME]; /* where node 0 is */
    int port, n_nodes;
    int node_rank;  /* this node's; -1: in order of arrival, and the torchrun that can listen at `host` leads */
    double timeout; /* seconds that nodes wait for each other */
    const char *id; /* the job's name, "" if it has none */
    const tx_words *program;
    tx_node_place here;
    tx_key key;
    char key_path[4096];
} tx_meeting;

enum {
    TX_SAY_HELLO = 1,
    TX_SAY_WELCOME,
    TX_SAY_READY,
    TX_SAY_REFUSE,
    TX_SAY_RUN,
    TX_SAY_EXITED,
    TX_SAY_KILL,
    TX_SAY_STOP,
    TX_SAY_END
};

enum { TX_MAX_NODES = 4096 };

/* What a node reports about itself; the digest covers the arguments of its program. */
typedef struct tx_hello {
    int64_t n_nodes, node_rank;
    char version[32], id[128];
    uint8_t digest[TX_TAG_BYTES];
    tx_node_place place;
} tx_hello;

tx_status tx__hello_pack(tx_str *out, const tx_meeting *m);
/* TX_ERR_FORMAT: not a HELLO message. */
tx_status tx__hello_unpack(tx_hello *out, const uint8_t *bytes, size_t n);
/* TX_ERR_ARG: the node does not belong to this job; the message says why. */
tx_status tx__hello_check(const tx_hello *h, const tx_meeting *m);

/* ---- node 0 ---- */

typedef struct tx_lead tx_lead;

/* Listens on the port. *out stays NULL if node_rank is -1 and another torchrun leads. TX_ERR_IO: the port is in use. */
tx_status tx__lead_open(tx_lead **out, const tx_meeting *m);

/* Waits until all nodes are connected and ready. TX_ERR_COMM names those that are missing, or why one cannot take
 * part. TX_ERR_STATE: a signal asked to stop. */
tx_status tx__lead_gather(tx_lead *l, tx_supervisor *s);

/* The places in node order, and the hostfile and agent for tx_mpirun. */
const tx_node_place *tx__lead_places(const tx_lead *l);
const char *tx__lead_hostfile(const tx_lead *l);
const char *tx__lead_agent(const tx_lead *l);

/* Runs mpirun until it ends. TX_ERR_COMM: a node was lost, and the job was ended. */
tx_status tx__lead_run(tx_lead *l, tx_supervisor *s, const tx_launch_command *mpirun);

/* Sends the nodes the exit code and the reason ("": none). NULL allowed. */
void tx__lead_close(tx_lead *l, int code, const char *why);

/* ---- the others ---- */

/* Everything from the first attempt to connect to the end of the job. *code is set to the job's exit code. */
tx_status tx__join(const tx_meeting *m, tx_supervisor *s, int *code);

/* ---- what mpirun calls ---- */

/* argv: SOCKET HOST WORDS...   *code is set to the exit code for the agent. */
tx_status tx__agent(int argc, char *const *argv, int *code);

#endif
