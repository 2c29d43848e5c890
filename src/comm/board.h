/* board.h - the shared memory through which the members of a group on one host communicate.
 *
 *      header | a line of counters per member | slots [RING][n] | boxes [n][n] | staging [n]
 *
 * Collectives and their chunks are numbered, the same in all members. A member writes its slot of a request, then
 * counts the request's chunks as published; a member that has done its part of a chunk counts it as done. Both
 * counters only grow, so nothing is reset and no barrier is needed. A slot is reused when all members have done the
 * request RING requests earlier. */
#ifndef TX_COMM_BOARD_H
#define TX_COMM_BOARD_H

#include "comm/comm_state.h"

enum {
    TX__MEMBERS = 256,   /* at most */
    TX__RING = 64,       /* collectives in progress at once; more wait in a queue */
    TX__SMALL = 2048,    /* bytes that go through the slots themselves; room for a number of each member */
    TX__CHUNK = 1 << 20, /* bytes */
    TX__STAGES = 4,      /* chunks that a member copies ahead from a buffer that others cannot access */
    TX__LETTERS = 64,    /* messages between two members that have been sent and not taken */
    TX__LETTER_BYTES = 256
};

typedef struct tx__line {
    _Alignas(64) _Atomic int64_t published; /* chunks */
    _Atomic int64_t done;
} tx__line;

typedef struct tx__call_slot {
    int how, dtype, reduce, root;
    int64_t n;
    tx__address at;
    bool staged; /* not at `at`: a chunk at a time in the staging area */
    _Alignas(64) unsigned char small[TX__SMALL];
} tx__call_slot;

enum { TX__FREE, TX__POSTED, TX__TAKEN };

typedef struct tx__letter {
    _Alignas(64) _Atomic int state;
    int tag;
    int64_t order, bytes;
    tx__address at; /* of more than TX__LETTER_BYTES */
    _Alignas(64) unsigned char small[TX__LETTER_BYTES];
} tx__letter;

typedef struct tx__box {
    _Alignas(64) _Atomic int64_t posted; /* by the sender */
    _Atomic int64_t taken;               /* by the receiver */
    tx__letter letter[TX__LETTERS];
} tx__box;

typedef struct tx__board {
    _Alignas(64) _Atomic int n_left; /* members that have closed it */
    int n;
    struct tx__board *next; /* of its maker's */
} tx__board;

struct tx__local {
    tx__board *board;
    bool one_process;
    void **from;                  /* [size]: the members' buffers of the current request */
    bool *staged;                 /* [size] */
    int64_t ring_end[TX__RING];   /* the last chunk + 1 of the request that used the slot last */
    int64_t completed;            /* chunks */
    struct tx__mail_copy *copies; /* shared copies of private messages */
};

size_t tx__board_bytes(int n, bool staging);
tx__line *tx__board_line(tx__board *b, int rank);
tx__call_slot *tx__board_slot(tx__board *b, int64_t order, int rank);
tx__box *tx__board_box(tx__board *b, int from, int to);
unsigned char *tx__board_stage(tx__board *b, int rank, int64_t chunk);

/* Letters: sends that can be posted are, what has been taken is done; a receive takes what has come. (local_mail.c) */
tx_status tx__mail_progress(tx_comm *g);
void tx__mail_close(tx_comm *g);

/* Where others can read the n bytes at r->x: there, or in a shared copy, which is free again after tx__mail_take_back.
 */
tx_status tx__mail_place(tx__address *out, struct tx__local *l, tx_request *r, size_t n);
void tx__mail_take_back(struct tx__local *l, const tx_request *r);

/* How others access x; false: they cannot. */
bool tx__address_of(tx__address *out, bool one_process, const void *x, size_t bytes);
tx_status tx__address_reach(void **out, bool one_process, const tx__address *a);

#endif
