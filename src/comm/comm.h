/* comm.h - groups of ranks and their collectives.
 *
 * A rank is a thread or a process with a tx_world of its own; a tx_comm is one rank's end of a group of them. Members
 * of a group make the same collective calls on it in the same order. How data are moved is decided when a group is
 * created, and callers need not know:
 *
 *      self    a group of one: nothing to do
 *      local   ranks that can read each other's memory: threads of one process, or processes of one host, which share
 *              what tx_shared_alloc gave (base/shared.h). Sums are made in place, by all members, a slice each.
 *      remote  ranks of several hosts: a transport (MPI) carries bytes between two ranks, and that is all it does
 *      hosts   the same where hosts have several ranks of the group: large collectives go host by host where that sends
 *              less between hosts, and the sums still have the same bits
 *      team    ranks with a GPU each, for tensors in its memory: NCCL or RCCL (tx_world_use_device)
 *      plan    a group that does not exist, for a dry run: calls are counted, nothing moves
 *
 * Except in a team, sums are made by our own code in the order of ranks, in fp32 (fp64 of fp64) and rounded once at
 * the end, whatever moves the bytes: the same group gives the same bits, also when its members sit on other hosts or
 * the buffer is cut in another way. A team's sums are made in an order that the library chooses by size and group: the
 * same from run to run where that choice is fixed (NCCL_ALGO=Ring, NCCL_PROTO=Simple), and with other bits than the
 * host's. All tensors are contiguous and of the same size in all members, or TX_ERR_COMM.
 *
 * Tensors may lie in the memory of the rank's device (c->device, base/device.h). A call then belongs to the compute
 * stream: it reads what ops before it wrote, and ops after the call (after tx_wait) find its result; the host finds it
 * when it has waited for that stream. The same tensors lie on a device in all members. A tensor in the host's memory
 * is the host's: whoever lets the device write one waits for that before the call.
 *
 * Every call counts what it moves (tx_comm_volume), a dry run included: it counts and returns.
 *
 * Errors: TX_ERR_COMM when another rank has ended the job (tx_world_abort), or was missing from a call until the
 * world's time-out: the message names the ranks that are missing, the call, and what each was last seen doing. After
 * an error the job can only end. */
#ifndef TX_COMM_COMM_H
#define TX_COMM_COMM_H

#include "backend/ctx.h"
#include "backend/tensor.h"
#include "triax/world.h"

/* ---- the ranks of a job (triax/world.h) ---- */

typedef struct tx_comm tx_comm;

/* One rank alone. */
tx_status tx_world_self(tx_world **out);

tx_comm *tx_world_comm(tx_world *w); /* the group of all; the world's */

/* Where the ranks run: the number of the host (from 0, in order of first appearance), its name, and the rank's number
 * and the number of ranks on it. */
typedef struct tx_seat {
    int host, local_rank, n_local;
    char host_name[64];
} tx_seat;
const tx_seat *tx_world_seat(const tx_world *w, int rank);

/* How long a rank waits for others in one call, in seconds; 0: for ever. The default is 600. */
void tx_world_set_timeout(tx_world *w, double seconds);
double tx_world_timeout(const tx_world *w);

/* Records what this rank is doing ("reading data"), for the error messages of ranks that wait for it. A short text,
 * copied. The calls add the place in the model (ctx->at) themselves. */
void tx_world_note(tx_world *w, const char *what);

/* From now on the time of calls is counted to c->profile (backend/profile.h): op "all-reduce", part the group's name,
 * or op "waiting" while there is nothing to move because others have not come. Between hosts what MPI moves by itself
 * looks like waiting, too. NULL: no more. */
void tx_world_profile(tx_world *w, tx_ctx *c);

/* From now on, calls of new groups never go host by host, or do where it saves something, which is the default unless
 * TX_HOST_COMM=flat is in the environment. The same on all ranks. */
void tx_world_by_hosts(tx_world *w, bool on);

/* Whether another rank is ending the job: then this one reports nothing. */
bool tx_world_aborted(const tx_world *w);

/* ---- GPUs ---- */

/* From now on calls on tensors in the memory of d are made between the GPUs, by NCCL or RCCL, in each group
 * whose members all have one of their own: in the groups there are, and in those that are made later. Other groups',
 * and messages between two, go by way of the host as they did without (NCCL knows no tags, and its sends wait for the
 * receivers). Collective over the world, whose ranks all call it or none; d NULL: a rank without a GPU. Ends when the
 * device is closed. TX_GPU_COMM=staged in the environment: no group's do; nccl, rccl: TX_ERR_UNSUPPORTED where members
 * of a group share a GPU.
 *
 *  A team's calls are done in the communication stream in the order in which they were started, whatever their groups.
 * So all ranks start them in orders that agree, across groups too. */
tx_status tx_world_use_device(tx_world *w, tx_device *d);

/* ---- groups ---- */

/* Collective over parent: its members with the same colour become a group, in the order of their ranks. color < 0: in
 * no group; *out is then a group of one.   @name static, for messages: "tensor-parallel" */
tx_status tx_comm_split(tx_comm **out, tx_comm *parent, int color, const char *name);

/* A group of all members in another order: this one gets rank `rank`, which no other has. */
tx_status tx_comm_reorder(tx_comm **out, tx_comm *parent, int rank, const char *name);

/* For a dry run: rank `rank` of a group of `size`. */
tx_status tx_comm_plan(tx_comm **out, int size, int rank, const char *name);

void tx_comm_close(tx_comm *g); /* NULL allowed. Not collective */

extern tx_comm tx_comm_self; /* a group of one, for whoever has no other; counts nothing */

int tx_comm_rank(const tx_comm *g);
int tx_comm_size(const tx_comm *g);
const char *tx_comm_name(const tx_comm *g);
int tx_comm_world_rank(const tx_comm *g, int rank); /* number in the world; of a plan `rank` itself */
tx_world *tx_comm_world(const tx_comm *g);          /* NULL: tx_comm_self's and a plan's */
bool tx_comm_has_team(const tx_comm *g);            /* whether it goes from GPU to GPU */

/* ---- collectives ---- */

typedef enum tx_reduce { TX_SUM, TX_MAX, TX_MIN } tx_reduce;

/* x = Σ_r x_r (or max, min), in every member. fp32, fp64, bf16, fp16, i32, i64. */
tx_status tx_all_reduce(tx_ctx *c, tx_comm *g, tx_tensor x, tx_reduce op);

/* y = Σ_r x_r, rows [rank · rows of y, ...) of it: parts are along the first dimension. y may be x's own part. x is
 * overwritten. */
tx_status tx_reduce_scatter(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x);

/* y = x_0 | x_1 | ... along the first dimension; x may be y's own part. */
tx_status tx_all_gather(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x);

tx_status tx_broadcast(tx_ctx *c, tx_comm *g, tx_tensor x, int root);

/* How many rows of an all-to-all go where, known to the host: what i sends to k, k receives from i. Each may be 0, for
 * one's own rank too. */
typedef struct tx_all_to_all_rows {
    const int64_t *send, *recv; /* [size of the group]: to each rank, from each rank. A dry run does not read them */
    int64_t all;                /* rows that all ranks send together, for the count: of the whole tensor */
} tx_all_to_all_rows;

/* Rows go to where they belong: x has rows (of its first dimension) for rank 0, behind them those for rank 1, ...; y
 * gets those from rank 0, behind them those from rank 1, .... What is behind them all is neither read nor written. x
 * and y have the same type and width of a row, the same in all members, and do not overlap; they have a place in the
 * device's memory also when they have no rows. Numbers of rows that do not agree are TX_ERR_COMM (in a team: the
 * time-out). */
tx_status tx_all_to_all(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x, const tx_all_to_all_rows *rows);

/* Collectives of a few bytes that are not tensors, outside steps: not counted. @all [size · n] */
tx_status tx_comm_gather(tx_comm *g, void *all, const void *mine, size_t n);
tx_status tx_comm_spread(tx_comm *g, void *bytes, size_t n, int root);
tx_status tx_comm_barrier(tx_comm *g);

/* TX_OK if st is TX_OK on all members. Else all fail: members whose own st is TX_OK return TX_ERR_COMM with the
 * message of the first failed rank, the others their own. This makes an error on one rank an error on all, outside
 * steps. */
tx_status tx_comm_agree(tx_comm *g, tx_status st);

/* ---- asynchronous calls ---- */

struct tx__visited;

/* A call that was started and has not been waited for. Owned by the caller, zeroed at first; it and the tensor must
 * not move until it is waited for. All members start the requests of a group in the same order. Starting never
 * blocks. */
typedef struct tx_request {
    tx_comm *g; /* NULL: nothing is in progress */

    /* from here on for src/comm/ only */
    struct tx_request *next;
    void *x, *y;
    int64_t n;                            /* elements of one part: of y in a reduce-scatter, else of x */
    const int64_t *send_rows, *recv_rows; /* of an all-to-all, and the elements of a row */
    int64_t width;
    int64_t order; /* number among all requests of the group */
    int64_t call;  /* number among calls of its kind, for messages */
    int64_t first; /* number of its first chunk */
    int64_t n_chunks, published, worked, completed;
    uint64_t move;
    int how, what; /* the algorithm; the name in messages */
    int dtype, reduce, peer, tag, n_threads, layer, slot;
    bool backward, small, staged, finished, by_hosts, copied;
    tx_status st;
    void (*visit)(void *visitor, struct tx__visited v, int i, int n); /* of a part of a call between hosts (hosts.c) */
    void *visitor;

    /* of a tensor in a device's memory (staging.c) */
    tx_device *device;
    struct tx_request *next_device;
    struct tx__staged_copy *stage; /* NULL: in the host's */
    struct tx__flight *flight;
    void *back; /* where the result belongs; NULL: nowhere */
    const void *back_from;
    size_t back_bytes;
    bool landed; /* the result is being copied there */
} tx_request;

/* As the calls above. */
tx_status tx_all_reduce_start(tx_ctx *c, tx_comm *g, tx_tensor x, tx_request *r);
tx_status tx_reduce_scatter_start(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x, tx_request *r);
tx_status tx_all_gather_start(tx_ctx *c, tx_comm *g, tx_tensor y, tx_tensor x, tx_request *r);

/* Advances everything that was started in the world of g, without blocking; call it between pieces of other work. Does
 * nothing in a dry run. */
tx_status tx_comm_poll(tx_ctx *c, tx_comm *g);

tx_status tx_wait(tx_ctx *c, tx_request *r); /* a zeroed request is fine; it is zeroed afterwards */

/* ---- point to point ---- */

/* Sends x to member `to`, which receives it with the same tag (0 .. 65535). Never waits for the receiver: x must not
 * change until the request has been waited for. Messages with one tag between two ranks are received in the order in
 * which they were sent, by the receives in the order in which these were started. */
tx_status tx_send_start(tx_ctx *c, tx_comm *g, tx_tensor x, int to, int tag, tx_request *r);
tx_status tx_recv(tx_ctx *c, tx_comm *g, tx_tensor x, int from, int tag);
tx_status tx_recv_start(tx_ctx *c, tx_comm *g, tx_tensor x, int from, int tag, tx_request *r);

/* ---- communication volume ---- */

typedef enum tx_comm_op {
    TX_COMM_ALL_REDUCE,
    TX_COMM_REDUCE_SCATTER,
    TX_COMM_ALL_GATHER,
    TX_COMM_BROADCAST,
    TX_COMM_SEND,
    TX_COMM_ALL_TO_ALL,
    TX_N_COMM_OPS
} tx_comm_op;
extern const char *const tx_comm_op_names[TX_N_COMM_OPS]; /* "all-reduce" */

/* Calls, and bytes of the whole tensor (all-gather: y, reduce-scatter: x, all-to-all: the rows of all ranks, also those
 * that stay where they are); groups of one count nothing. */
typedef struct tx_comm_volume {
    int64_t calls, bytes;
} tx_comm_volume;

/* [TX_N_COMM_OPS], since the group was created or the caller set them to zero. Must not be written for a group of
 * one. */
tx_comm_volume *tx_comm_volumes(tx_comm *g);

/* Seconds that this rank has waited in calls of this kind so far (a send: with the receives); 0 unless debug lines are
 * wanted. */
double tx_comm_waited(const tx_comm *g, tx_comm_op op);

/* Bytes that one member of a group of n sends for `bytes` of tensors, by the algorithms that send least (as in the
 * papers): all-reduce 2 (n-1)/n of the tensor, reduce-scatter and all-gather (n-1)/n, broadcast and send all of it;
 * all-to-all (n-1)/n of its own n-th part, if all send the same to all. */
double tx_comm_sent(tx_comm_op op, int n, int64_t bytes);

/* Where the members of a group sit. */
typedef struct tx_comm_hosts {
    int size, hosts;
    int most;       /* members on the host that has most */
    bool scattered; /* those of a host do not all follow each other in the order of ranks */
} tx_comm_hosts;

/* What the busiest of the hosts sends to others, for each byte of the tensor: from each rank to each other, or host by
 * host. */
double tx_comm_crossing(tx_comm_op op, tx_dtype t, tx_comm_hosts at, bool by_hosts);

/* Whether such a call goes host by host. */
bool tx_comm_goes_by_hosts(tx_comm_op op, tx_dtype t, tx_comm_hosts at, int64_t bytes);

/* It then does so in chunks of so many bytes of the tensor, each of which is sent so many times, one after the other,
 * until it is where it belongs. */
typedef struct tx_comm_chain {
    int hops;
    double chunk;
} tx_comm_chain;
tx_comm_chain tx_comm_chain_of(tx_comm_op op, tx_comm_hosts at, double bytes);

#endif
