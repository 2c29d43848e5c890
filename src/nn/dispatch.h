/* dispatch.h - rows travel to the ranks that have their experts, and what is made of them back (GShard
 * arXiv:2006.16668 §3.2). Each rank has rows that are packed by expert, of all the layer's; it gets those of its own
 * experts from all members of TX_GROUP_EXPERT:
 *
 *      rank 0, experts 0 1    rows of 0 1 2 3      all-to-all    0 1 from 0, 0 1 from 1     grouped    0 0 1 1
 *      rank 1, experts 2 3    rows of 0 1 2 3                    2 3 from 0, 2 3 from 1                2 2 3 3
 *
 *  All of it is collective over that group. */
#ifndef TX_NN_DISPATCH_H
#define TX_NN_DISPATCH_H

#include "backend/ops.h"
#include "comm/comm.h"

typedef struct tx_dispatch {
    tx_comm *group;
    tx_all_to_all_rows to, from;  /* to the experts, and back */
    tx_tensor grouped, ungrouped; /* [room] i32: which received row is the i-th of the experts', and the inverse */
    tx_tensor count;              /* [experts of this rank] i32: rows of each; in the host's memory */
    int64_t n, room;              /* received rows, and the most there may be; a dry run computes with as many as it
                                     sends, and takes memory for the most */
} tx_dispatch;

/* Members tell each other how many rows they have for whom. Pushes d's tensors.
 * @count [experts of the layer] i32: this rank's rows for each, in the host's memory; in a dry run not looked at
 * @sent rows of this rank, and in a dry run of every other, too   @room received rows at most */
tx_status tx_dispatch_open(tx_ctx *c, tx_dispatch *d, tx_tensor count, int64_t sent, int64_t room);

/* @y [d->n, h], written: of this rank's experts   @x [rows of this rank, h], packed by expert */
tx_status tx_dispatch_rows(tx_ctx *c, const tx_dispatch *d, tx_tensor y, tx_tensor x);

/* The other way: @y [rows of this rank, h], written   @x [d->n, h] */
tx_status tx_dispatch_back(tx_ctx *c, const tx_dispatch *d, tx_tensor y, tx_tensor x);

#endif
